"""Which torch pip would take: asked of the real pip, against indexes of our own."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from backend.setup import torch_build
from backend.setup.pip_access import PipAccess
from backend.setup.recipe import TorchBuild
from backend.setup.torch_build import ask_torch_build, build_of
from tests.fakes.wheelhouse import Wheelhouse

PYTHON = Path(sys.executable)
CUDA_WHEEL = "torch-2.13.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("wheel", "machine", "build"),
    [
        ("torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl", "x86_64", TorchBuild.CPU),
        ("torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl", "x86_64", TorchBuild.CPU),
        ("torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl", "x86_64", TorchBuild.CUDA),
        ("torch-2.13.0-cp311-cp311-manylinux_2_28_aarch64.whl", "aarch64", TorchBuild.UNKNOWN),
        (None, "x86_64", TorchBuild.UNKNOWN),
    ],
)
def test_file_name_tells_the_build(wheel: str | None, machine: str, build: TorchBuild) -> None:
    assert build_of(wheel, machine=machine) is build


def test_wheel_that_the_users_pip_settings_lead_to_is_found(tmp_path: Path) -> None:
    house = Wheelhouse(tmp_path)
    house.add("torch", "2.13.0+cpu", {"torch.py": "x = 1\n"})
    environ = {**os.environ, **house.environ()}
    assert ask_torch_build(PYTHON, "torch==2.13.0", access=PipAccess(), environ=environ) is TorchBuild.CPU


def test_index_without_torch_is_unknown(tmp_path: Path) -> None:
    environ = {**os.environ, **Wheelhouse(tmp_path).environ()}
    assert ask_torch_build(PYTHON, "torch==2.13.0", access=PipAccess(), environ=environ) is TorchBuild.UNKNOWN


class SlowIndex(BaseHTTPRequestHandler):
    """Lists one wheel at once, and sends it so slowly that a download would take for ever."""

    def do_GET(self) -> None:  # noqa: N802
        if not self.path.endswith(".whl"):
            page = f'<a href="/files/{CUDA_WHEEL}">{CUDA_WHEEL}</a>'.encode()
            self._answer("text/html", len(page))
            self.wfile.write(page)
            return
        self._answer("application/zip", 526_600_000)
        for _ in range(600):
            try:
                self.wfile.write(b"x")
                self.wfile.flush()
            except OSError:
                return
            time.sleep(0.1)

    def _answer(self, kind: str, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Not to the test's output."""


@pytest.fixture
def slow_index() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowIndex)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    server.shutdown()
    server.server_close()
    thread.join(timeout=5)


def test_answer_comes_before_the_download_and_pip_is_ended_there(slow_index: str) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PIP_CONFIG_FILE": "/dev/null"}
    started = time.monotonic()
    build = ask_torch_build(PYTHON, "torch==2.13.0", access=PipAccess(slow_index), environ=environ)
    assert build is (TorchBuild.CUDA if os.uname().machine == "x86_64" else TorchBuild.UNKNOWN)
    assert time.monotonic() - started < 25.0
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert not any(b"--dry-run" in command and b"torch==2.13.0" in command for command in commands)


def test_pip_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mute = tmp_path / "python"
    mute.write_text("#!/bin/sh\nexec sleep 60\n")
    mute.chmod(0o755)
    monkeypatch.setattr(torch_build, "ANSWER_TIMEOUT_S", 0.5)
    build = ask_torch_build(mute, "torch==2.13.0", access=PipAccess(), environ=dict(os.environ))
    assert build is TorchBuild.UNKNOWN
