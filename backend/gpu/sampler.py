"""Reads every NVIDIA card, each in a child process of its own, and looks for the driver while there is none.

With no driver nothing is spawned: a few files are read twice a minute.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from backend.gpu.card import CardWatch, ReaderTiming
from backend.gpu.child import DriverFound, ReaderChild, ReaderEnded, ReaderFailed, ReaderMessage, kept_environment
from backend.gpu.driver import (
    DriverFiles,
    PciCard,
    gap_at_init,
    gap_in_files,
    gap_of_no_card,
    gap_of_silence,
    plan_targets,
    read_driver_files,
)
from backend.gpu.snapshot import GpuCard, GpuCardState, GpuView, NoDriver

_log = logging.getLogger(__name__)


def _ignore() -> None:
    """The on_change of a sampler that nobody listens to."""


class GpuSampler:
    """The panel's one reader of GPUs. `view()` never blocks; `on_change` is called in the event loop after each change.

    `root` is where proc, sys and dev are found; `environment` is all that the readers get (None: a part of ours).
    """

    def __init__(
        self,
        *,
        on_change: Callable[[], None] = _ignore,
        timing: ReaderTiming | None = None,
        root: Path = Path("/"),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._on_change = on_change
        self._timing = timing or ReaderTiming()
        self._root = root
        self._environment = kept_environment(os.environ) if environment is None else environment
        self._watches: dict[str, CardWatch] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._untaken: tuple[GpuCard, ...] = ()
        self._no_driver: NoDriver | None = None
        self._driver: DriverFound | None = None  # None: it must be asked
        self._stuck_probe: ReaderChild | None = None
        self._look_now = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin in the running event loop. Returns at once; the view fills by itself."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_for_ever(), name="gpu sampler")

    async def close(self) -> None:
        """End every reader; one that no signal ends is left behind. Takes at most twice timing.end_s, and a bit."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
            self._looking = None
        await self._end_readers()

    def view(self) -> GpuView:
        """What is known now."""
        cards = tuple(watch.card for watch in self._watches.values())
        shown = () if self._no_driver else tuple(sorted(cards + self._untaken, key=lambda card: card.target))
        return GpuView(
            cards=shown,
            no_driver=self._no_driver,
            driver_version="" if self._driver is None else self._driver.driver_version,
            left_behind=sum(card.left_behind for card in cards) + (self._stuck_probe is not None),
        )

    async def _look_for_ever(self) -> None:
        while True:
            self._look_now.clear()
            try:
                await self._look()
            except OSError:
                _log.exception("the files of the NVIDIA driver cannot be read")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.recheck_s):
                    await self._look_now.wait()

    async def _look(self) -> None:
        """Once: is there a driver, and which cards does it have."""
        files = read_driver_files(self._root)
        gap = gap_in_files(files)
        if gap is None and self._driver is None:
            gap = await self._ask_driver(files)
        if gap is not None:
            self._driver = None
            await self._end_readers()
        elif self._driver is not None:
            self._read_cards(files, self._driver)
        if gap != self._no_driver:
            _log.info("NVIDIA driver: %s", gap.sentence if gap else "answers")
        self._no_driver = gap
        self._on_change()

    async def _ask_driver(self, files: DriverFiles) -> NoDriver | None:
        """Ask the library by a short-lived reader; remembers the answer, or returns the gap."""
        first_answer_s = self._timing.first_answer_s
        if self._stuck_probe is not None and not self._stuck_probe.is_gone:
            return gap_of_silence(files, first_answer_s)  # a second one would get stuck too
        self._stuck_probe = None
        child = ReaderChild(("probe",), environment=self._environment)
        try:
            await child.start()
            answer = await child.message(within_s=first_answer_s)
        except TimeoutError:
            return gap_of_silence(files, first_answer_s)
        except OSError as error:
            return gap_at_init(files, None, detail=str(error))
        finally:
            if not await child.end(within_s=self._timing.end_s):
                self._stuck_probe = child
        return self._gap_in_answer(files, answer)

    def _gap_in_answer(self, files: DriverFiles, answer: ReaderMessage) -> NoDriver | None:
        match answer:
            case DriverFound(count=0):
                return gap_of_no_card(files, answer.driver_version)
            case DriverFound():
                self._driver = answer
                return None
            case ReaderFailed():
                return gap_at_init(files, answer.code, detail=answer.detail, library_version=answer.library_version)
            case ReaderEnded(returncode):
                return gap_at_init(files, None, detail=f"it ended with status {returncode}")
        return gap_at_init(files, None, detail=f"it said {answer}")

    def _driver_failed(self) -> None:
        """A reader of a card could not even start NVML: ask again, now."""
        self._driver = None
        self._look_now.set()

    def _read_cards(self, files: DriverFiles, driver: DriverFound) -> None:
        """A reader for every card that has none. A card no longer listed keeps its reader, which will say so."""
        for target in plan_targets(files, driver.count):
            if target not in self._watches:
                self._watches[target] = CardWatch(
                    target,
                    timing=self._timing,
                    environment=self._environment,
                    on_change=self._on_change,
                    on_driver_failure=self._driver_failed,
                )
        for target, watch in self._watches.items():
            if target not in self._tasks:
                self._tasks[target] = asyncio.get_running_loop().create_task(watch.run(), name=f"gpu {target}")
        known = {card.target: card for card in self._untaken}
        untaken = (card for card in files.untaken if card.bus_id not in self._watches)
        self._untaken = tuple(known.get(card.bus_id) or _untaken_card(card) for card in untaken)

    async def _end_readers(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        for watch in self._watches.values():
            watch.reap()


def _untaken_card(card: PciCard) -> GpuCard:
    detail = f"the kernel driver {card.driver} holds it" if card.driver else "no kernel driver holds it"
    return GpuCard(card.bus_id, GpuCardState.UNBOUND, since=time.time(), detail=detail)
