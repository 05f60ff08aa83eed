"""Counts launches and fallbacks, and writes them where the engine's launcher can read them.

A fast path that falls back in silence is a bug, so every fallback is counted with its reason. The file named by
DFLASH2_COUNTERS holds one entry a process (an engine has several), rewritten at most once a second and at exit:

    {"processes": {"4711": {"updated_at": 1764576000.0, "launches": {"kv_write": 12}, "fallbacks": {"page size 1": 3}}}}

Launches replayed by a CUDA graph are not seen here: a captured launch counts once.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

COUNTERS_ENV = "DFLASH2_COUNTERS"
WRITE_INTERVAL_S = 1.0


class Counters:
    """Counts of one process. `path` None counts without writing. Safe to use from several threads."""

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._launches: Counter[str] = Counter()
        self._fallbacks: Counter[str] = Counter()
        self._written_at: float | None = None

    def count_launch(self, kernel: str) -> None:
        """One launch of a kernel variant."""
        self._count(self._launches, kernel)

    def count_fallback(self, reason: str) -> None:
        """One call that was served by somebody else's code, and why."""
        self._count(self._fallbacks, reason)

    def snapshot(self) -> dict[str, dict[str, int]]:
        """The counts so far."""
        with self._lock:
            return {"launches": dict(self._launches), "fallbacks": dict(self._fallbacks)}

    def flush(self) -> None:
        """Write the file now. A file that cannot be written is logged once: an engine must not die of its counters."""
        if self._path is None:
            return
        try:
            _write_entry(self._path, str(os.getpid()), {"updated_at": time.time(), **self.snapshot()})
        except (OSError, ValueError) as err:
            logger.warning("the counters file %s cannot be written and is given up: %s", self._path, err)
            self._path = None

    def _count(self, counter: Counter[str], key: str) -> None:
        now = self._clock()
        with self._lock:
            counter[key] += 1
            is_due = self._written_at is None or now - self._written_at >= WRITE_INTERVAL_S
            if is_due:
                self._written_at = now
        if is_due:
            self.flush()


def open_counters() -> Counters:
    """Counters for this process, written to the file in DFLASH2_COUNTERS (if set) and once more at exit."""
    path = os.environ.get(COUNTERS_ENV)
    counters = Counters(Path(path) if path else None)
    atexit.register(counters.flush)
    return counters


def _write_entry(path: Path, process: str, entry: dict[str, Any]) -> None:
    """Replace one process's entry under a lock: other processes write the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        document = json.loads(path.read_text()) if path.exists() else {"processes": {}}
        document["processes"][process] = entry
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(document, file)
        os.replace(file.name, path)
