"""What setup says to the person who runs it: lines, one progress line that is rewritten in place, and one question."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from backend.setup.step import StepProgress

PLAIN_INTERVAL_S = 15.0  # where the output is no terminal, progress is a line now and then
PLAIN_WIDTH = 110  # pip names a hundred packages on one line


@dataclass
class Console:
    """Writes to one stream. `clock` counts monotonic seconds."""

    stream: TextIO
    clock: Callable[[], float] = time.monotonic
    _progress_shown: bool = field(default=False, init=False)
    _last_plain: float = field(default=float("-inf"), init=False)

    def line(self, text: str = "") -> None:
        """One line that stays."""
        self._clear()
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def progress(self, text: str) -> None:
        """The state of what runs now; replaced by the next one."""
        if self.stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            self.stream.write(f"\r\x1b[K{text[:width]}")
            self.stream.flush()
            self._progress_shown = True
        elif self.clock() - self._last_plain >= PLAIN_INTERVAL_S:
            self._last_plain = self.clock()
            self.line(text if len(text) <= PLAIN_WIDTH else f"{text[: PLAIN_WIDTH - 1]}…")

    def step_began(self, progress: "StepProgress") -> None:
        """The step's line; its first progress line is due one interval from now."""
        self.line(progress.head)
        self._last_plain = self.clock()

    def step_goes_on(self, progress: "StepProgress") -> None:
        """Replaces the last progress line."""
        fetched = "" if progress.fetched_bytes is None else f"{size(progress.fetched_bytes)} so far"
        parts = (f"{progress.head} · {duration(progress.elapsed_s)}", fetched, progress.doing)
        self.progress(" · ".join(filter(None, parts)))

    def step_done(self, progress: "StepProgress") -> None:
        """How long it took."""
        self.line(f"{progress.head}: done in {duration(progress.elapsed_s)}")

    def confirm(self, question: str, answers: TextIO) -> bool:
        """Ask once. Enter alone means yes; the end of the input means no."""
        self._clear()
        self.stream.write(f"{question} [Y/n] ")
        self.stream.flush()
        answer = answers.readline()
        return bool(answer) and answer.strip().lower() in ("", "y", "yes")

    def _clear(self) -> None:
        if self._progress_shown:
            self.stream.write("\r\x1b[K")
            self._progress_shown = False


def duration(seconds: float) -> str:
    """Elapsed time for people: 8 s, 1 min 12 s."""
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def size(count: float) -> str:
    """Bytes for people, in the units that shops and mirrors use: 350 MB, 2.6 GB."""
    return f"{count / 1e9:.1f} GB" if count >= 0.95e9 else f"{round(count / 1e6) or int(count > 0)} MB"
