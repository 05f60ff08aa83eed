"""The processes of one run, seen from the panel: probed cheaply, found again, ended without remainder."""

import asyncio
import contextlib
import logging
import math
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace

from backend.engine.cleanup import CLEANUP_DEADLINE_S, run_cleanup
from backend.engine.process import (
    Ending,
    ProcessIdentity,
    current_boot_id,
    find_marked,
    find_members,
    is_alive,
    send_signal,
)
from backend.engine.run_folder import RunExit, RunFolder, RunOrder, RunProcess, UnreadableFile, remove_temporary
from backend.engine.shared_memory import sweep

STEP_S = 0.05  # between looks while an end is waited for
KEEPER_PATIENCE_S = 5.0  # for a keeper whose engine is gone; longer while it cleans up
SWEEP_MARGIN_S = 1.0  # file times come from a coarser clock than ours

log = logging.getLogger(__name__)


class EngineRun:
    """One run's processes. The engine object is its only user; every wait has a deadline."""

    def __init__(
        self, folder: RunFolder, *, process: RunProcess, child: "subprocess.Popen[bytes] | None" = None
    ) -> None:
        self._folder = folder
        self._process = process
        self._child = child  # the keeper, when it is ours to reap
        self._kill_at = math.inf  # monotonic

    @property
    def folder(self) -> RunFolder:
        return self._folder

    @property
    def process(self) -> RunProcess:
        return self._process

    def is_alive(self) -> bool:
        """Whether the leader lives: one small read of /proc."""
        return is_alive(self._process.leader)

    def has_keeper(self) -> bool:
        """Whether the keeper lives; reaps it when it was our child."""
        if self._child is not None:
            self._child.poll()
        return is_alive(self._process.keeper)

    def members(self) -> frozenset[ProcessIdentity]:
        """Living processes of the engine, its keeper not among them. Walks /proc."""
        return find_members(self._process.mark(keeper_lives=self.has_keeper()))

    def ask_to_end(self) -> None:
        """SIGTERM to the leader."""
        send_signal(self._process.leader, signal.SIGTERM)

    def kill_after(self, seconds: float) -> None:
        """So long from now finish() begins to use SIGKILL. A later call can only bring that forward."""
        self._kill_at = min(self._kill_at, time.monotonic() + seconds)

    async def finish(self, *, kill_deadline_s: float) -> RunExit:
        """Return when nothing of the run is left: no member, no keeper, no shared memory, no temporary folder.

        Until the moment set by kill_after() a living keeper does the ending, then we do. Never raises; members that
        outlive SIGKILL by `kill_deadline_s` are named in the result's `stuck`.
        """
        await _until(lambda: self._is_kill_due() or not self.has_keeper())
        ending = Ending(self.members)
        living = first = await asyncio.to_thread(ending.step, kill=self._is_kill_due())
        while living and time.monotonic() < self._kill_at + kill_deadline_s:
            await asyncio.sleep(STEP_S)
            living = await asyncio.to_thread(ending.step, kill=self._is_kill_due())
        await self._dismiss_keeper()
        ended = self._read_exit()
        if ended is None:
            swept = await asyncio.to_thread(self._clean_up)
            ended = RunExit(None, time.time(), leftovers=len(first), killed=ending.killed, swept=swept)
            with contextlib.suppress(OSError):
                self._folder.write_exit(ended)
        elif ended.cleanup_fault:
            log.warning("%s: %s; once more", self._folder.path, ended.cleanup_fault)
            await asyncio.to_thread(clean_up_order, self._folder)
        return replace(ended, stuck=tuple(sorted(member.pid for member in living)))

    def _is_kill_due(self) -> bool:
        return time.monotonic() >= self._kill_at

    async def _dismiss_keeper(self) -> None:
        """A keeper whose engine is gone writes exit.json and exits; one that hangs is killed."""
        if not await self._keeper_exits():
            log.warning("the keeper of %s hangs and is killed", self._folder.path)
            send_signal(self._process.keeper, signal.SIGKILL)
            await self._keeper_exits()

    async def _keeper_exits(self) -> bool:
        has_cleanup = bool((order := read_order(self._folder)) and order.cleanup)
        deadline = time.monotonic() + KEEPER_PATIENCE_S + (CLEANUP_DEADLINE_S if has_cleanup else 0.0)
        await _until(lambda: time.monotonic() >= deadline or not self.has_keeper())
        return not self.has_keeper()

    def _read_exit(self) -> RunExit | None:
        try:
            return self._folder.read_exit()
        except UnreadableFile as err:
            log.warning("%s", err)
            return None

    def _clean_up(self) -> tuple[str, ...]:
        """What the keeper would have done, had it not been killed. Blocks; run in a thread."""
        remove_temporary(self._process.temporary)
        clean_up_order(self._folder)
        if self._process.leader.boot_id != current_boot_id():
            return ()  # shared memory did not outlive the boot
        try:
            ours, others = self._folder.read_shared()
        except UnreadableFile as err:
            log.warning("%s", err)
            return ()
        return sweep(ours, others, since=self._process.started_at - SWEEP_MARGIN_S)


def read_order(folder: RunFolder) -> RunOrder | None:
    """What the run was to execute; None, and a line in the panel's log, when that cannot be read."""
    try:
        return folder.read_order()
    except (UnreadableFile, FileNotFoundError) as err:
        log.warning("%s: %s", folder.path, err)
        return None


def clean_up_order(folder: RunFolder) -> None:
    """Run the cleanup command of a run that has no keeper to do it. Blocks up to its deadline."""
    order = read_order(folder)
    fault = run_cleanup(order.cleanup, order.env) if order else ""
    if fault:
        log.warning("cleaning up after %s: %s", folder.path, fault)


async def find_process(folder: RunFolder, *, deadline_s: float) -> RunProcess | None:
    """The processes of a run that an earlier panel spawned. Waits for a keeper that is just about to name them."""
    while True:
        try:
            process = folder.read_process()
            age_s = time.time() - folder.ordered_at()
        except (UnreadableFile, FileNotFoundError) as err:
            log.warning("%s: %s", folder.path, err)
            return None
        if process is not None or not 0 <= age_s < deadline_s:
            return process
        await asyncio.sleep(STEP_S)


async def end_marked(prefix: str, *, deadline_s: float) -> int:
    """Kill every process whose run marker starts with `prefix`; returns how many there were."""
    ending = Ending(lambda: frozenset(find_marked(prefix)))
    deadline = time.monotonic() + deadline_s
    living = await asyncio.to_thread(ending.step, kill=True)
    while living and time.monotonic() < deadline:
        await asyncio.sleep(STEP_S)
        living = await asyncio.to_thread(ending.step, kill=True)
    return ending.killed


async def _until(is_over: Callable[[], bool]) -> None:
    """Processes announce nothing to who is not their parent: look again and again. `is_over` holds the deadline."""
    while True:
        if is_over():
            return
        await asyncio.sleep(STEP_S)
