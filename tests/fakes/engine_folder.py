"""An engine environment folder without an installation: its `python` is the test's own, seeing packages that the test wrote."""

import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from backend.environment.environment import EngineEnvironment, EnvironmentState, write_environment

STUB_TORCH = """\
__version__ = "2.10.0+cu128"
class version: cuda = "12.8"
class cuda:
    @staticmethod
    def get_arch_list(): return []
class _C:
    @staticmethod
    def _cuda_getArchFlags(): return "sm_70 sm_75 sm_80"
"""

STUB_CPU_TORCH = """\
__version__ = "2.13.0+cpu"
class version: cuda = None
class cuda:
    @staticmethod
    def get_arch_list(): return []
class _C: pass
"""

STUB_SERVER = """\
import argparse, sys
parser = argparse.ArgumentParser(prog="api_server.py")
parser.add_argument("--dtype", choices=["auto", "half", "float32"], help="Not the same as --quantization-scale.")
parser.add_argument("--tensor-parallel-size", "-tp", type=int, help="Number of parts.")
parser.add_argument("--enforce-eager", action=argparse.BooleanOptionalAction)
parser.add_argument("--api-key", nargs="*", help="Keys.")
if sys.argv[1:] == ["--help=all"]:
    sys.argv[1] = "--help"
print("INFO a line of log before the help", file=sys.stderr)
parser.parse_args()
"""


def make_environment(
    folder: Path, packages: Mapping[str, str], *, recipe: str = "cpu", state: EnvironmentState = EnvironmentState.READY
) -> EngineEnvironment:
    """Write the folder with its record. `packages`: files by path, importable by its Python."""
    environment = EngineEnvironment(folder.name, recipe, folder, state, ready_at=time.time())
    site_packages = environment.venv / "lib" / "python3.11" / "site-packages"
    environment.python.parent.mkdir(parents=True)
    _write_packages(site_packages, packages)
    script = f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(site_packages))} exec {shlex.quote(sys.executable)} "$@"\n'
    environment.python.write_text(script)
    environment.python.chmod(0o755)
    write_environment(environment)
    return environment


def distribution(name: str, version: str) -> dict[str, str]:
    """The metadata of an installed package."""
    return {f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}


def make_external_python(folder: Path, packages: Mapping[str, str]) -> Path:
    """The interpreter of somebody's own environment with these packages; no record of ours is in it."""
    site_packages = folder / "lib" / "python3.11" / "site-packages"
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    site_packages.mkdir(parents=True)
    _write_packages(site_packages, packages)
    write_python(python, site_packages)
    return python


def write_python(python: Path, site_packages: Path) -> None:
    """A program that is the test's own Python, seeing these packages as its folder of packages."""
    start = (
        f"import site, sysconfig; site.getsitepackages = lambda: [{str(site_packages)!r}]\n"
        f"paths = sysconfig.get_paths(); sysconfig.get_paths = lambda: {{**paths, 'purelib': {str(site_packages)!r}}}\n"
    )
    (site_packages / "sitecustomize.py").write_text(start)
    script = f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(site_packages))} exec {shlex.quote(sys.executable)} "$@"\n'
    python.write_text(script)
    python.chmod(0o755)


def _write_packages(site_packages: Path, packages: Mapping[str, str]) -> None:
    for path, text in packages.items():
        file = site_packages / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def stub_engine(*, server: str = STUB_SERVER) -> dict[str, str]:
    """Packages that look like torch and vLLM to the probe."""
    return {
        "torch.py": STUB_TORCH,
        "vllm/__init__.py": "",
        "vllm/entrypoints/__init__.py": "",
        "vllm/entrypoints/openai/__init__.py": "",
        "vllm/entrypoints/openai/api_server.py": server,
        **distribution("vllm", "0.19.1"),
        **distribution("transformers", "5.8.0"),
        "dflash2.py": "__version__ = '2.0'\n",
        "dflash2-2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: dflash2\nVersion: 2.0\n",
        "dflash2-2.0.dist-info/entry_points.txt": "[vllm.general_plugins]\ndflash2 = dflash2:register\n",
    }
