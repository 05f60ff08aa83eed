"""One child process of a probe: started from an absolute path, ended with its group at a deadline, its output bounded."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO

from backend.errors import SetupError

MAX_OUTPUT_BYTES = 4 * 1024 * 1024
MAX_COMPLAINT_BYTES = 64 * 1024
REAP_S = 10.0
STOP_POLL_S = 0.2
REASON_CHARACTERS = 300


@dataclass(frozen=True)
class ChildOutput:
    """What a child left behind."""

    returncode: int
    output: str  # its standard output, at most the first 4 MiB
    complaints: str  # its standard error, at most the last 64 KiB

    @property
    def reason(self) -> str:
        """The last line of its complaints: where Python and docker say what went wrong."""
        lines = [line.strip() for line in self.complaints.splitlines() if line.strip()]
        return lines[-1][:REASON_CHARACTERS] if lines else f"exit code {self.returncode}"


def run_child(
    argv: Sequence[str], *, deadline: float, environ: Mapping[str, str], what: str, stop: Event | None = None
) -> ChildOutput:
    """Run it to its end in an empty working folder, so that it imports nothing of ours.

    Blocks until time.monotonic() is `deadline` at the latest, or until `stop` is set.

    Raises:
        SetupError: argv[0] is not a program, or it did not end in time.
    """
    program = Path(argv[0])
    if not is_program(program):
        raise SetupError(f"{what} cannot be asked: {program} is not a program.")
    with (
        tempfile.TemporaryDirectory(prefix="volta-probe-") as folder,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as complaints,
    ):
        started = time.monotonic()
        try:
            child = subprocess.Popen(
                tuple(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=complaints,
                cwd=folder,
                env=dict(environ),
                start_new_session=True,
            )
        except OSError as err:  # a script of a shell that is not there, a program for another processor
            raise SetupError(f"{what} cannot be asked: {program} does not start: {err.strerror}.") from err
        try:
            returncode = _wait(child, deadline=deadline, stop=stop)
        finally:
            _end_group(child)
        if returncode is None:
            raise SetupError(f"{what} did not answer within {time.monotonic() - started:.0f} s.")
        return ChildOutput(returncode, _head(output), _tail(complaints))


def is_program(path: Path) -> bool:
    """Whether this is an absolute path of a file that may be executed."""
    return path.is_absolute() and path.is_file() and os.access(path, os.X_OK)


def _wait(child: "subprocess.Popen[bytes]", *, deadline: float, stop: Event | None) -> int | None:
    """Its exit code; None at the deadline and when told to stop."""
    while time.monotonic() < deadline and not (stop is not None and stop.is_set()):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=min(STOP_POLL_S, max(0.01, deadline - time.monotonic())))
    return None


def _end_group(child: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait(timeout=REAP_S)


def _head(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MAX_OUTPUT_BYTES).decode("utf-8", errors="replace")


def _tail(file: IO[bytes]) -> str:
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - MAX_COMPLAINT_BYTES))
    return file.read().decode("utf-8", errors="replace")
