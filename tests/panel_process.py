"""The panel as tests and the bench use it: a process of its own, on a free port, that can be killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).parent.parent
READY_TIMEOUT_S = 60.0


class PanelProcess:
    """One panel on one state folder. Its engines are found by the run marker in their environment."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.home = home
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}/"
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self.first_page_s: float | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.home / "panel-test.log").read_text(errors="replace")

    def start(self) -> None:
        """Start it and wait until it serves its page; keeps how long that took."""
        begun = time.monotonic()
        with (self.home / "panel-test.log").open("ab") as log:
            self._process = subprocess.Popen(
                (
                    sys.executable,
                    "app.py",
                    "--home",
                    str(self.home),
                    "--port",
                    str(self.port),
                    "--open-browser",
                    "no",
                    *self._arguments,
                ),
                cwd=ROOT,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        wait_until(
            self._serves, READY_TIMEOUT_S, lambda: f"the panel did not serve a page:\n{self.log[-4000:]}", every_s=0.02
        )
        self.first_page_s = time.monotonic() - begun

    def kill(self) -> None:
        """kill -9: nothing of the panel gets to say goodbye."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=10)

    def end(self) -> None:
        """End the panel and every engine of its state folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(timeout=10)
        for process in self.engine_processes():
            process.kill()

    def engine_processes(self) -> list[psutil.Process]:
        """Every living process that an engine run of this state folder started, keepers included."""
        return [
            process
            for process in psutil.process_iter()
            if process.pid != os.getpid() and self._is_of_an_engine(process)
        ]

    def _is_of_an_engine(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            marked = "VOLTA_RUN" in process.environ() or any("engine_keeper" in word for word in process.cmdline())
            return marked and str(self.home / "engines") in " ".join([*process.environ().values(), *process.cmdline()])
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def _serves(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the panel ended with {self._process.returncode}:\n{self.log[-4000:]}")
        try:
            return httpx.get(self.address, timeout=10, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until(condition, timeout_s: float, complaint, *, every_s: float = 0.1) -> None:  # type: ignore[no-untyped-def]
    """Wait for a condition with a deadline; the complaint says what was waited for."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(complaint() if callable(complaint) else complaint)
        time.sleep(every_s)
