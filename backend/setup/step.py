"""One command of an installation: run with a deadline, its output in a log, its last line shown, and gone when setup is gone."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from backend.errors import SetupError
from backend.setup.console import duration
from backend.setup.disk import bytes_below
from backend.setup.pip_access import without_credentials
from backend.setup.tether import tethered

POLL_S = 0.25
TERM_GRACE_S = 5.0
SCRATCH_FOLDER = "tmp"
TAIL_BYTES = 4096
QUOTED_LINES = 12  # of the log, in the message of a failed step
DOING_CHARACTERS = 200


@dataclass(frozen=True)
class Step:
    """A command of an installation. argv[0] is an absolute path."""

    title: str
    argv: tuple[str, ...]
    deadline_s: float


@dataclass(frozen=True)
class StepProgress:
    """One step under way."""

    number: int
    total: int
    title: str
    elapsed_s: float = 0.0
    doing: str = ""  # the last line of its output, credentials hidden
    fetched_bytes: int | None = None  # of what pip downloads now; None: it downloads nothing
    group: int = 0  # process group of the step; 0: not started yet

    @property
    def head(self) -> str:
        """[2/6] install torch"""
        return f"[{self.number}/{self.total}] {self.title}"


class StepObserver(Protocol):
    """Who is told what setup does: a terminal, or the panel that started it."""

    def line(self, text: str = "") -> None:
        """A sentence that stays."""

    def step_began(self, progress: StepProgress) -> None:
        """A step was started."""

    def step_goes_on(self, progress: StepProgress) -> None:
        """It still runs; called a few times a second."""

    def step_done(self, progress: StepProgress) -> None:
        """It ended well."""


@dataclass(frozen=True)
class StepRunner:
    """Runs steps one after the other, all output appended to one log.

    Their temporary files go beside the log: /tmp is often too small for a wheel of half a gigabyte, and what a killed pip
    leaves there would stay for ever.
    """

    log_path: Path
    console: StepObserver
    environ: Mapping[str, str]

    @property
    def scratch(self) -> Path:
        """Where the steps' temporary files go."""
        return self.log_path.with_name(SCRATCH_FOLDER)

    def run(self, step: Step, *, number: int, total: int) -> None:
        """Run one step to its end.

        Raises:
            SetupError: it failed or took longer than its deadline; the message quotes the end of its output.
        """
        started = time.monotonic()
        progress = StepProgress(number, total, step.title)
        with self.log_path.open("ab") as log_file:
            log_file.write(f"\n== {progress.head}: {without_credentials(' '.join(step.argv))}\n".encode())
            log_file.flush()
            offset = log_file.tell()
            with self._empty_scratch(), _ended_on_the_way_out(self._spawn(step, log_file.fileno())) as child:
                progress = replace(progress, group=child.pid)
                self.console.step_began(progress)
                returncode = self._wait(child, progress, deadline=started + step.deadline_s, offset=offset)
        elapsed_s = time.monotonic() - started
        if returncode is None:
            raise self._failure(step, f"did not end within {duration(step.deadline_s)}", offset)
        if returncode != 0:
            raise self._failure(step, f"failed with exit code {returncode} after {duration(elapsed_s)}", offset)
        self.console.step_done(replace(progress, elapsed_s=elapsed_s))

    def _spawn(self, step: Step, output: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            tethered(step.argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**self.environ, "TMPDIR": str(self.scratch)},
            start_new_session=True,
        )

    def _wait(
        self, child: "subprocess.Popen[bytes]", progress: StepProgress, *, deadline: float, offset: int
    ) -> int | None:
        """The exit code, or None at the deadline."""
        started = time.monotonic()
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(timeout=POLL_S)
            doing, fetched = self._doing(offset)
            elapsed_s = time.monotonic() - started
            self.console.step_goes_on(replace(progress, elapsed_s=elapsed_s, doing=doing, fetched_bytes=fetched))
        return None

    def _doing(self, offset: int) -> tuple[str, int | None]:
        """The last line of the output; while pip downloads, also how much it has so far."""
        last = (last_lines(self.log_path, offset=offset, count=1) or [""])[0].strip()
        fetched = bytes_below(self.scratch) if last.startswith("Downloading") else None
        return without_credentials(last)[:DOING_CHARACTERS], fetched

    @contextlib.contextmanager
    def _empty_scratch(self) -> Iterator[None]:
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(mode=0o700)
        try:
            yield
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _failure(self, step: Step, what: str, offset: int) -> SetupError:
        quoted = "\n".join(f"    {line}" for line in last_lines(self.log_path, offset=offset, count=QUOTED_LINES))
        return SetupError(
            f"'{step.title}' {what}. The end of its output:\n{quoted}\nAll of it: {self.log_path}",
            hint=f"\n{hint_for(quoted)}",
        )


def hint_for(output: str) -> str:
    """What to do about a failed step, by what pip printed."""
    if "No space left on device" in output:
        return "Free some disk space (pip cache purge gives back old downloads), then run this again: it goes on where it stopped."
    network = (
        "Max retries exceeded",
        "ConnectionError",
        "timed out",
        "NewConnectionError",
        "Name or service not known",
        "SSLError",
    )
    if any(sign in output for sign in network):
        return "The package index cannot be reached. Name a mirror near you with --index-url URL (or VOLTA_INDEX_URL), then run this again."
    if "No matching distribution found" in output or "conflicting dependencies" in output:  # of pins that are not there
        return "This index has no such package for this Python. Try another with --index-url URL, or another Python (3.11 to 3.14)."
    return "Run this again: it goes on where it stopped."


def last_lines(path: Path, *, offset: int, count: int) -> list[str]:
    """The last non-empty lines of a log that were written after an offset; looks at the last 4 KiB only."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(offset, end - TAIL_BYTES))
        text = file.read().decode("utf-8", errors="replace")
    return [line.rstrip() for line in text.replace("\r", "\n").splitlines() if line.strip()][-count:]


@contextlib.contextmanager
def _ended_on_the_way_out(child: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """Whatever happens here (Ctrl-C, a deadline, an error), the child and its group do not outlive the step."""
    try:
        yield child
    finally:
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=TERM_GRACE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(timeout=TERM_GRACE_S)
