"""A reading that may block for ever (a hung driver, a dead file server), taken beside the event loop and never awaited."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


class SideReading(Generic[T]):
    """One reading at a time, in a daemon thread: one that hangs holds up neither the loop nor the end of the panel."""

    def __init__(self, read: Callable[[], T], *, name: str) -> None:
        self._read = read
        self._name = name
        self._latest: T | None = None
        self._began_at: float | None = None  # monotonic, of the reading under way

    @property
    def latest(self) -> T | None:
        """The last value that was read; None before the first."""
        return self._latest

    @property
    def open_s(self) -> float:
        """For how long the reading under way has taken; 0 when none is."""
        began_at = self._began_at
        return 0.0 if began_at is None else time.monotonic() - began_at

    def ask(self) -> None:
        """Begin a reading, unless one is still under way."""
        if self._began_at is None:
            self._began_at = time.monotonic()
            threading.Thread(target=self._take, name=self._name, daemon=True).start()

    def _take(self) -> None:
        try:
            self._latest = self._read()
        except Exception:  # a fault of one reading must not end the next
            log.exception("the reading %r failed", self._name)
        finally:
            self._began_at = None
