"""What the engines of this host have taught, kept in one file: learned overheads, and the last comparisons. One owner."""

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.engine.run_folder import write_json
from backend.fit.learned_overhead import LearnedOverhead, overhead_from_record

log = logging.getLogger(__name__)

MAX_BYTES = 1024 * 1024
KEPT_COMPARISONS = 50
KEPT_KEYS = 200


@dataclass(frozen=True)
class StartComparison:
    """One start held against its prediction, as far as the log told. Tokens of KV cache, bytes of overhead."""

    engine: str
    run: int
    at: float  # wall clock
    predicted_tokens: int | None
    logged_tokens: int | None
    overhead_difference_bytes: int | None


class HostOverheads:
    """Reads the file at first use. A file that cannot be read is logged and begun anew: it holds no work of a person.

    Any thread may call: proposals are made in several, and two engines may become ready at once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._learned: dict[str, LearnedOverhead] = {}
        self._comparisons: list[StartComparison] = []
        self._is_read = False
        self._lock = threading.Lock()

    def learned(self, key: str) -> LearnedOverhead:
        """What starts of this kind have taught; empty at first."""
        with self._lock:
            self._read()
            return self._learned.get(key, LearnedOverhead())

    def comparison(self, engine: str, run: int | None) -> StartComparison | None:
        """How this run's start compared; None where it was not compared."""
        with self._lock:
            self._read()
            return next((one for one in self._comparisons if one.engine == engine and one.run == run), None)

    def keep(self, key: str, learned: LearnedOverhead, comparison: StartComparison) -> None:
        """Keep what a start taught, and how it compared. Writes the file."""
        with self._lock:
            self._read()
            self._keep(key, learned, comparison)

    def _keep(self, key: str, learned: LearnedOverhead, comparison: StartComparison) -> None:
        self._learned.pop(key, None)
        self._learned[key] = learned
        while len(self._learned) > KEPT_KEYS:
            del self._learned[next(iter(self._learned))]
        self._comparisons = [*self._comparisons, comparison][-KEPT_COMPARISONS:]
        values = {
            "learned": {name: one.as_record() for name, one in self._learned.items()},
            "comparisons": [vars(one) for one in self._comparisons],
        }
        try:
            write_json(self._path, values)
        except OSError as err:
            log.error("%s cannot be written: %s", self._path, err)

    def _read(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        try:
            with self._path.open("rb") as file:
                values = json.loads(file.read(MAX_BYTES))
            self._learned = {str(name): overhead_from_record(one) for name, one in values["learned"].items()}
            self._comparisons = [_comparison(one) for one in values["comparisons"]][-KEPT_COMPARISONS:]
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as err:
            log.warning("%s is begun anew: %s", self._path, err)
            self._learned, self._comparisons = {}, []


def _comparison(values: Mapping[str, Any]) -> StartComparison:
    return StartComparison(
        engine=str(values["engine"]),
        run=int(values["run"]),
        at=float(values["at"]),
        predicted_tokens=_whole(values["predicted_tokens"]),
        logged_tokens=_whole(values["logged_tokens"]),
        overhead_difference_bytes=_whole(values["overhead_difference_bytes"]),
    )


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
