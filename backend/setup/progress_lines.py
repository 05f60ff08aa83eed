"""How an installer tells the panel that started it how far it is: one JSON object a line on its standard output.

    {"event": "queued"}                                   another installation runs first
    {"event": "step", "number": 2, "total": 7, "title": "install torch", "elapsed_s": 3.5,
     "doing": "Downloading ...", "fetched_bytes": 1048576, "group": 4711}
    {"event": "line", "text": "..."}                      a sentence for a person
    {"event": "done", "id": "abcd2345"}
    {"event": "failed", "message": "...", "hint": "..."}

The reading half is here too, so that both ends stay one format.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from backend.setup.step import StepProgress

INTERVAL_S = 0.5  # between two lines about the same step
MAX_LINE_BYTES = 64 * 1024
TEXT_CHARACTERS = 4000


@dataclass(frozen=True)
class Queued:
    """Another installation runs first."""


@dataclass(frozen=True)
class Said:
    """A sentence for a person."""

    text: str


@dataclass(frozen=True)
class Done:
    """The environment is READY."""

    id: str


@dataclass(frozen=True)
class Failed:
    """The installation stopped; the record says the same."""

    message: str
    hint: str


ProgressEvent = Queued | StepProgress | Said | Done | Failed


@dataclass
class ProgressLines:
    """Writes the lines (StepObserver). `clock` counts monotonic seconds."""

    stream: TextIO
    clock: Callable[[], float] = time.monotonic
    _last: float = field(default=float("-inf"), init=False)

    def line(self, text: str = "") -> None:
        """A sentence for a person."""
        self._write({"event": "line", "text": text[:TEXT_CHARACTERS]})

    def step_began(self, progress: StepProgress) -> None:
        """At once."""
        self._step(progress)

    def step_goes_on(self, progress: StepProgress) -> None:
        """At most twice a second."""
        if self.clock() - self._last >= INTERVAL_S:
            self._step(progress)

    def step_done(self, progress: StepProgress) -> None:
        """At once."""
        self._step(progress)

    def queued(self) -> None:
        """Another installation runs first."""
        self._write({"event": "queued"})

    def done(self, identifier: str) -> None:
        """The last line of an installation that ended well."""
        self._write({"event": "done", "id": identifier})

    def failed(self, message: str, hint: str) -> None:
        """The last line of one that did not."""
        self._write({"event": "failed", "message": message[:TEXT_CHARACTERS], "hint": hint[:TEXT_CHARACTERS]})

    def _step(self, progress: StepProgress) -> None:
        self._last = self.clock()
        self._write({"event": "step", **asdict(progress)})

    def _write(self, values: dict[str, Any]) -> None:
        self.stream.write(f"{json.dumps(values)}\n")
        self.stream.flush()


def parse_progress(line: bytes) -> ProgressEvent | None:
    """A line as an event; None for anything else."""
    try:
        fields = json.loads(line)
        event = fields.pop("event")
        return _EVENTS[event](**fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


_EVENTS: dict[str, Callable[..., ProgressEvent]] = {
    "queued": Queued,
    "step": StepProgress,
    "line": Said,
    "done": Done,
    "failed": Failed,
}
