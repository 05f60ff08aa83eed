"""Ask pip which build of torch it would download, without letting it download: the answer decides between 0.7 and 3.3 GB."""

import contextlib
import os
import platform
import re
import selectors
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from backend.setup.pip_access import PipAccess
from backend.setup.recipe import TorchBuild

ANSWER_TIMEOUT_S = 30.0
MAX_OUTPUT_BYTES = 256 * 1024
_TORCH_WHEEL = re.compile(r"\btorch-\d[^\s/]*?\.whl")


def ask_torch_build(python: Path, requirement: str, *, access: PipAccess, environ: Mapping[str, str]) -> TorchBuild:
    """The build pip settles on; UNKNOWN where it does not say within 30 s.

    pip names the file before it fetches it, and is ended at that moment: an index without separate metadata would make it
    download the whole wheel just to read what it depends on.
    """
    child = subprocess.Popen(
        access.dry_run(python, requirement),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=access.environ(environ),
        start_new_session=True,
    )
    try:
        return build_of(_first_wheel(child, deadline=time.monotonic() + ANSWER_TIMEOUT_S), machine=platform.machine())
    finally:
        child.kill()
        child.wait(timeout=10)
        if child.stdout is not None:
            child.stdout.close()


def build_of(wheel: str | None, *, machine: str) -> TorchBuild:
    """What a wheel's file name tells. On x86-64 the usual index's builds without a local version are for CUDA."""
    if wheel is None:
        return TorchBuild.UNKNOWN
    if re.search(r"(\+|%2B)cpu", wheel, re.IGNORECASE):
        return TorchBuild.CPU
    return TorchBuild.CUDA if machine == "x86_64" else TorchBuild.UNKNOWN


def _first_wheel(child: "subprocess.Popen[bytes]", *, deadline: float) -> str | None:
    """The first torch wheel that pip's output names, or None at the deadline and at the end of the output."""
    if child.stdout is None:
        return None
    output = b""
    with contextlib.closing(selectors.DefaultSelector()) as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and len(output) < MAX_OUTPUT_BYTES:
            if not selector.select(timeout=left):
                return None
            chunk = os.read(child.stdout.fileno(), 8192)
            output += chunk
            match = _TORCH_WHEEL.search(output.decode("utf-8", errors="replace"))
            if match:
                return match.group(0)
            if not chunk:
                return None
    return None
