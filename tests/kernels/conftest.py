"""Fixtures of the kernel tests. `dflash2` is imported from the working tree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "kernels"))

from .host_kernels import HostKernel, compile_for_host, variant_named


@pytest.fixture(scope="session")
def host_kernel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], HostKernel]:
    """A kernel variant by name, compiled for the CPU once a session."""
    folder = tmp_path_factory.mktemp("host_kernels")
    return lambda name: compile_for_host(variant_named(name), folder)
