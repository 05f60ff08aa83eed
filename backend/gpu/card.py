"""Watches one card through a reader process of its own: deadlines, back-off, and what the card is said to be."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from backend.gpu.child import CardFound, CardSample, ReaderChild, ReaderEnded, ReaderFailed
from backend.gpu.snapshot import GpuCard, GpuCardState, GpuSnapshot

# What NVML answers for one card, by code.
CARD_STATES = {
    4: GpuCardState.DENIED,
    8: GpuCardState.NO_POWER,
    15: GpuCardState.LOST,
    16: GpuCardState.NEEDS_RESET,
}
NOT_FOUND = 6  # for a handle: the driver has forgotten a card that was there
UNKNOWN_ERROR = 999  # for a handle: what a process started after the loss is told by recent drivers

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReaderTiming:
    """Every wait of the card readers, in seconds."""

    interval_s: float = 1.0  # between readings of a card
    first_answer_s: float = 30.0  # without persistence the driver first loads firmware and wakes the card
    answer_s: float = 5.0  # a reading later than this after it was due means a hung driver
    end_s: float = 0.5  # for a reader to end when asked, and again when killed
    first_backoff_s: float = 1.0  # before a new reader; doubles with each failure
    last_backoff_s: float = 60.0
    left_behind_check_s: float = 1.0  # how often to see whether a reader left behind has ended after all
    recheck_s: float = 30.0  # how often to look for a driver, or for new cards


class CardWatch:
    """The one writer of one card's state. `card` is its latest snapshot, replaced whole."""

    def __init__(
        self,
        target: str,
        *,
        timing: ReaderTiming,
        environment: Mapping[str, str],
        on_change: Callable[[], None],
        on_driver_failure: Callable[[], None],
    ) -> None:
        self._target = target
        self._timing = timing
        self._environment = environment
        self._on_change = on_change
        self._on_driver_failure = on_driver_failure
        self._found: CardFound | None = None
        self._backoff_s = timing.first_backoff_s
        self._stuck: ReaderChild | None = None
        self.card = GpuCard(target, GpuCardState.STARTING, since=time.time())

    async def run(self) -> None:
        """Read the card until cancelled; then the reader is ended too, or left behind when no signal ends it."""
        self._set(GpuCardState.STARTING, "")
        while True:
            await self._until_none_is_stuck()
            child = ReaderChild(("watch", self._target, str(self._timing.interval_s)), environment=self._environment)
            try:
                await self._read_until_failure(child)
            finally:
                if not await child.end(within_s=self._timing.end_s):
                    self._leave_behind(child)
            await asyncio.sleep(self._backoff_s)
            self._backoff_s = min(self._backoff_s * 2, self._timing.last_backoff_s)

    def reap(self) -> None:
        """Stop counting a reader that was left behind and has ended after all."""
        if self._stuck is not None and self._stuck.is_gone:
            self._stuck = None
            self._replace(left_behind=0)

    def _leave_behind(self, child: ReaderChild) -> None:
        _log.warning("reader %s of card %s is left behind: no signal ends it", child.pid, self._target)
        self._stuck = child
        self._replace(left_behind=1)

    async def _until_none_is_stuck(self) -> None:
        """While a stuck reader lives no second one is started: it would get stuck too."""
        self.reap()
        while self._stuck is not None:
            await asyncio.sleep(self._timing.left_behind_check_s)
            self.reap()

    async def _read_until_failure(self, child: ReaderChild) -> None:
        """Returns when this reader is of no more use; the card says why."""
        deadline_s = self._timing.first_answer_s
        try:
            await child.start()
            while True:
                match await child.message(within_s=deadline_s):
                    case CardFound() as found:
                        self._found = found
                    case CardSample() as sample:
                        self._take(sample)
                        deadline_s = self._timing.interval_s + self._timing.answer_s
                    case ReaderFailed() as failed:
                        return self._fail(failed)
                    case ReaderEnded(returncode):
                        return self._set(GpuCardState.FAILED, f"its reader ended with status {returncode}")
                    case other:
                        _log.warning("the reader of %s said %s, which is not about a card", self._target, other)
        except TimeoutError:
            inside = " inside the driver" if child.kernel_state() == "D" else ""
            self._set(GpuCardState.HUNG, f"no answer within {deadline_s:g} s; its reader {child.pid} is stuck{inside}")
        except OSError as error:
            self._set(GpuCardState.FAILED, f"its reader cannot be started: {error}")

    def _take(self, sample: CardSample) -> None:
        found = self._found
        if found is None:
            return
        self._backoff_s = self._timing.first_backoff_s
        snapshot = GpuSnapshot(
            uuid=found.uuid,
            bus_id=found.bus_id,
            index=found.index,
            name=found.name,
            taken_at=sample.taken_at,
            **sample.readings,
        )
        self._set(GpuCardState.OK, "", snapshot)

    def _fail(self, failed: ReaderFailed) -> None:
        if failed.stage == "init":  # not this card's fault; the sampler looks at the driver itself
            self._on_driver_failure()
        state = _state_of(failed, was_read=self.card.snapshot is not None)
        self._set(state, f"{failed.detail} (NVML {failed.code} at {failed.stage})")

    def _set(self, state: GpuCardState, detail: str, snapshot: GpuSnapshot | None = None) -> None:
        old = self.card
        if state != old.state:
            _log.info("card %s: %s -> %s %s", self._target, old.state, state, detail)
        since = old.since if state == old.state else time.time()
        self._replace(state=state, since=since, detail=detail, snapshot=snapshot or old.snapshot)

    def _replace(self, **changes: Any) -> None:
        self.card = replace(self.card, **changes)
        self._on_change()


def _state_of(failed: ReaderFailed, *, was_read: bool) -> GpuCardState:
    lost_codes = {UNKNOWN_ERROR, NOT_FOUND} if was_read else {UNKNOWN_ERROR}
    if failed.stage == "handle" and failed.code in lost_codes:
        return GpuCardState.LOST
    return CARD_STATES.get(failed.code, GpuCardState.FAILED)
