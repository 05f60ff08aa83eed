"""What an engine writes down so that a new panel can adopt it: record.json and the summaries of its runs."""

from dataclasses import dataclass

from backend.engine_status import EngineState

KEPT_RUNS = 20


@dataclass(frozen=True)
class RunSummary:
    """One run, for history and for the expected time to ready. Times are wall-clock seconds."""

    number: int
    started_at: float
    ready_s: float | None = None  # from spawn to the first /health 200; None: never ready, or not seen
    ended_at: float | None = None  # None while running
    outcome: EngineState | None = None  # STOPPED or FAILED; None while running
    returncode: int | None = None
    reason: str = ""
