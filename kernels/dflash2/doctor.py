"""`dflash2 doctor`: what this environment has of what the kernels need, with the fix for what it lacks.

It always prints. A probe that touches torch, the driver or a card runs in a process of its own with a deadline, because
a broken CUDA stack can end or hang the process that asks; what happened to the child is then the finding.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from dflash2 import __version__, tiny_attention
from dflash2.arguments import PrefillArguments
from dflash2.build import IMAGE_FOLDER, cubin_path, ptx_path, read_manifest
from dflash2.cache import CACHE_ENV, cache_folder
from dflash2.driver import Driver
from dflash2.errors import Dflash2Error
from dflash2.loader import KernelLoader
from dflash2.nvrtc import INSTALL_HINT, Nvrtc
from dflash2.variants import VARIANTS, KernelVariant

PROBE_TIMEOUT_S = 120
V100_TORCH_HINT = "install torch 2.10.0 (CUDA 12.8), the last release with sm_70"


class Verdict(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"  # works, but not as on a V100 that is set up right
    MISSING = "missing"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    verdict: Verdict
    detail: str
    hint: str = ""


Probe = Callable[[], list[Check]]


def examine() -> list[Check]:
    """Run every probe; never raises for what it finds."""
    checks = [check for probe in IN_PROCESS_PROBES.values() for check in probe()]
    for name in CHILD_PROBES:
        checks += run_in_child(name)
    return checks


def run_in_child(name: str, command: Sequence[str] = ()) -> list[Check]:
    """Run one probe in a child process; a crash, a hang or nonsense from it becomes a FAILED check."""
    argv = (*command,) or (sys.executable, "-P", "-m", "dflash2.doctor", name)
    try:
        result = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=PROBE_TIMEOUT_S, env=_child_environment()
        )
    except subprocess.TimeoutExpired:
        return [Check(name, Verdict.FAILED, f"did not answer within {PROBE_TIMEOUT_S} s", "the driver may hang: dmesg")]
    if result.returncode:
        ending = f"signal {-result.returncode}" if result.returncode < 0 else f"exit status {result.returncode}"
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        return [Check(name, Verdict.FAILED, f"the probe ended with {ending}: {last}")]
    try:
        return [Check(**{**row, "verdict": Verdict(row["verdict"])}) for row in json.loads(result.stdout)]
    except (ValueError, TypeError, KeyError) as err:
        return [Check(name, Verdict.FAILED, f"the probe's answer could not be read ({err}): {result.stdout[:200]!r}")]


def _child_environment() -> dict[str, str]:
    """The child imports the same dflash2 as we do, wherever it lies."""
    package_parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{package_parent}{os.pathsep}{inherited}" if inherited else package_parent}


# ---- probes that cannot hurt


def probe_python() -> list[Check]:
    """The interpreter, and this package."""
    detail = f"dflash2 {__version__}, Python {platform.python_version()} on {platform.platform()}"
    return [Check("dflash2", Verdict.OK, detail)]


def probe_images() -> list[Check]:
    """The kernel images of the wheel."""
    manifest = read_manifest()
    if manifest is None:
        hint = "install the wheel, or keep NVRTC 12 installed: kernels are then compiled on first use"
        return [Check("cubins", Verdict.WARNING, f"none in {IMAGE_FOLDER}: this is a checkout", hint)]
    names = {variant.name for variant in VARIANTS}
    lost = [variant.name for variant in VARIANTS if not cubin_path(variant).exists() or not ptx_path(variant).exists()]
    if lost or set(manifest.variants) != names:
        odd = ", ".join(sorted({*lost, *(set(manifest.variants) ^ names)}))
        return [Check("cubins", Verdict.FAILED, f"the installed images do not match the package: {odd}", "reinstall")]
    size = sum(path.stat().st_size for path in IMAGE_FOLDER.iterdir())
    detail = f"{len(names)} kernels for sm_70 with PTX, {size / 2**20:.1f} MiB, by NVRTC {manifest.nvrtc_version}"
    return [Check("cubins", Verdict.OK, detail)]


def probe_cache() -> list[Check]:
    """The folder for kernels compiled at run time."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as err:
        return [Check("cache", Verdict.FAILED, f"{folder} cannot be written: {err}", f"set {CACHE_ENV} to a folder")]
    return [Check("cache", Verdict.OK, str(folder))]


# ---- probes that run in a child


def probe_torch() -> list[Check]:
    """torch, and whether its own kernels include sm_70."""
    try:
        import torch
    except ImportError as err:
        return [Check("torch", Verdict.MISSING, f"{err}", V100_TORCH_HINT)]
    version = f"{torch.__version__}, CUDA {torch.version.cuda or 'none'}"
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    if torch.version.cuda is None or flags is None:
        return [Check("torch", Verdict.WARNING, f"{version}: a build without CUDA", V100_TORCH_HINT)]
    architectures = str(flags() or "none")
    has_volta = "sm_70" in architectures.split()
    return [
        Check("torch", Verdict.OK, version),
        Check(
            "torch arch list",
            Verdict.OK if has_volta else Verdict.WARNING,
            architectures,
            "" if has_volta else f"no sm_70: torch's own kernels do not run on a V100; {V100_TORCH_HINT}",
        ),
    ]


def probe_nvrtc() -> list[Check]:
    """NVRTC, by compiling a line for sm_70."""
    try:
        nvrtc = Nvrtc()
        image = nvrtc.compile('extern "C" __global__ void nothing() {}', name="doctor.cu")
    except Dflash2Error as err:
        hint = err.hint or INSTALL_HINT
        if read_manifest() is not None:
            return [Check("NVRTC", Verdict.WARNING, err.message, f"not needed while the wheel's cubins fit; {hint}")]
        return [Check("NVRTC", Verdict.MISSING, err.message, hint)]
    detail = "{}.{} at {}".format(*nvrtc.version(), nvrtc.path)
    return [Check("NVRTC", Verdict.OK, f"{detail} compiles for sm_70 ({len(image.cubin)} B)")]


def probe_driver() -> list[Check]:
    """The NVIDIA driver, its kernel module, and the cards it shows."""
    try:
        driver = Driver()
        devices = driver.devices()
    except Dflash2Error as err:
        return [Check("driver", Verdict.MISSING, err.message, err.hint)]
    cuda, module = driver.cuda_version(), _kernel_module()
    checks = [Check("driver", Verdict.OK, f"supports CUDA {cuda[0]}.{cuda[1]}; {module}")]
    if "Open Kernel Module" in module:
        hint = "install the proprietary kernel module of R580 or older (not the -open one)"
        checks.append(Check("kernel module", Verdict.WARNING, "the open kernel module does not drive a V100", hint))
    if not devices:
        hint = "see CUDA_VISIBLE_DEVICES and nvidia-smi"
        checks.append(Check("card", Verdict.MISSING, "the driver shows no card", hint))
    for device in devices:
        fits = device.is_volta
        detail = (
            f"{device.index}: {device.name}, compute capability {device.capability[0]}.{device.capability[1]},"
            f" {device.sm_count} SMs, {device.memory_bytes / 2**30:.1f} GiB"
        )
        hint = "" if fits else "not a V100: the kernels run only as a test, through the driver's PTX compiler"
        checks.append(Check("card", Verdict.OK if fits else Verdict.WARNING, detail, hint))
    return checks


def _kernel_module() -> str:
    """The kernel module's own version line. Volta needs the proprietary one, of branch R580 or older."""
    try:
        return Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return "kernel module version unknown (no /proc/driver/nvidia)"


def probe_product() -> list[Check]:
    """A real attention of five tokens on the first card."""
    try:
        driver = Driver()
        devices = driver.devices()
    except Dflash2Error:
        devices = []  # why is the driver's own line
    if not devices:
        return [Check("product", Verdict.MISSING, "no card to compute on")]
    try:
        error = _solve_on_card(driver, devices[0].index)
    except Dflash2Error as err:
        return [Check("product", Verdict.FAILED, err.message, err.hint)]
    return [judge_product(error, devices[0].name)]


def judge_product(error: float, card: str) -> Check:
    """The finding for the largest error of the tiny attention on a card."""
    detail = f"attention of {tiny_attention.TOKENS} tokens on {card}: largest error {error:.1e}"
    if error > tiny_attention.TOLERANCE:
        hint = "the kernels give wrong answers here: do not use them, and report this output"
        return Check("product", Verdict.FAILED, detail, hint)
    return Check("product", Verdict.OK, detail)


def _solve_on_card(driver: Driver, index: int) -> float:
    """Largest error of the tiny attention, through the loader and a launch as in real use."""
    loader = KernelLoader(driver)

    def place(data: bytes) -> int:
        address = driver.allocate(len(data))
        driver.write(address, data)
        return address

    def launch(variant: KernelVariant, arguments: PrefillArguments) -> None:
        function, block = loader.function(variant, index), (variant.threads, 1, 1)
        shared = variant.shared_memory_bytes
        driver.launch(function, arguments, grid=(1, 1, 1), block=block, dynamic_shared_bytes=shared)
        driver.synchronize()

    with driver.primary_context(index):  # a child process: what is allocated ends with it
        return tiny_attention.solve(tiny_attention.TinyMemory(place, driver.read), launch)


IN_PROCESS_PROBES: Mapping[str, Probe] = {"dflash2": probe_python, "cubins": probe_images, "cache": probe_cache}
CHILD_PROBES: Mapping[str, Probe] = {
    "torch": probe_torch,
    "NVRTC": probe_nvrtc,
    "driver": probe_driver,
    "product": probe_product,
}


def render(checks: Sequence[Check]) -> str:
    """The report as text: one check a line, its fix below."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.verdict:<8} {check.name:<{width}}  {check.detail}")
        if check.hint:
            lines.append(f"{'':<8} {'':<{width}}  -> {check.hint}")
    return "\n".join(lines)


def run(*, as_json: bool) -> int:
    """Print the report; 1 when something is missing or failed."""
    checks = examine()
    print(json.dumps([asdict(check) for check in checks], indent=1) if as_json else render(checks))
    return 1 if any(check.verdict in (Verdict.MISSING, Verdict.FAILED) for check in checks) else 0


if __name__ == "__main__":
    print(json.dumps([asdict(check) for check in CHILD_PROBES[sys.argv[1]]()]))
