"""The panel as tests and the bench use it: a process of its own, on a free port, that can be killed and started again."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
READY_TIMEOUT_S = 60.0


class PanelProcess:
    """One panel on one state folder. Its engines are found by the run marker in their environment."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.home = home
        self.port = free_port()
        # panels of tests that run side by side must not hand out the same ports: vLLM binds its own only after 10 s
        self.engine_port_start = 20_000 + self.port % 120 * 100
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
                    "--engine-port-start",
                    str(self.engine_port_start),
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
            if _is_keeper(process):  # told to end, it ends its engine and cleans up behind it; killed, it cannot
                process.terminate()
        wait_until(lambda: not self.engine_processes(), 40, "engines of a test did not end")

    def engine_processes(self) -> list[psutil.Process]:
        """Every living process of an engine run of this state folder, keepers included.

        By session and group as the runs' process files tell, by descent from a keeper, and by the environment: not the
        backend's own way of finding them, which is what is tested.
        """
        sessions = set()
        for path in self.home.glob("engines/*/runs/*/process.json"):
            sessions.add(json.loads(path.read_text())["leader"]["pid"])
        members = [process for process in psutil.process_iter() if self._belongs(process, sessions)]
        for keeper in [member for member in members if _is_keeper(member)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                members += keeper.children(recursive=True)
        return [member for member in set(members) if _lives(member)]

    def _belongs(self, process: psutil.Process, sessions: set[int]) -> bool:
        try:
            if {os.getsid(process.pid), os.getpgid(process.pid)} & sessions:
                return True
        except ProcessLookupError:
            return False
        return any(f"{self.home}/engines/" in word for word in _words(process))

    def _serves(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the panel ended with {self._process.returncode}:\n{self.log[-4000:]}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def _words(process: psutil.Process) -> list[str]:
    """A process's command and environment; empty where it is gone or not ours."""
    try:
        return [*process.cmdline(), *process.environ().values()]
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def _is_keeper(process: psutil.Process) -> bool:
    return "backend.engine.keeper" in _words(process)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
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
