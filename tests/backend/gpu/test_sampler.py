"""The sampler with real reader processes, the real nvidia-ml-py and a library in C that fails as told."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from backend.changes import Changes
from backend.gpu.card import ReaderTiming
from backend.gpu.sampler import GpuSampler
from backend.gpu.snapshot import DriverGap, GpuCard, GpuCardState, GpuSnapshot, GpuView
from backend.reading import Missing, MissingReason
from tests.fakes.fakenvml import FakeMachine, build_library

FIRST, SECOND = "0000:02:00.0", "0000:03:00.0"
FAST = ReaderTiming(
    interval_s=0.05,
    first_answer_s=3.0,
    answer_s=1.0,
    end_s=0.5,
    first_backoff_s=0.1,
    last_backoff_s=0.4,
    left_behind_check_s=0.1,
    recheck_s=0.2,
)
SECONDS_TO_WAIT = 20.0
ROUNDS = range(int(os.environ.get("VOLTA_ROUNDS", "3")))


def every_round(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """A test that ends real processes in the middle of things: run again and again."""
    return pytest.mark.faults(pytest.mark.parametrize("round_number", ROUNDS)(test))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(tmp_path: Path, library: Path) -> FakeMachine:
    """Two healthy cards."""
    machine = FakeMachine(tmp_path, library=library)
    machine.plug(FIRST, driver="nvidia")
    machine.plug(SECOND, driver="nvidia")
    machine.load_module(FIRST, SECOND)
    machine.play(["count = 2"])
    return machine


class Watched:
    """A running sampler and a way to wait for what it shows."""

    def __init__(self, sampler: GpuSampler, changes: Changes) -> None:
        self.sampler = sampler
        self._changes = changes

    async def until(self, condition: Callable[[GpuView], bool], *, within_s: float = SECONDS_TO_WAIT) -> GpuView:
        """The first view that meets the condition."""
        deadline = time.monotonic() + within_s
        while True:
            seen = self._changes.version
            view = self.sampler.view()
            if condition(view):
                return view
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"not within {within_s} s; last seen: {view}"
            await self._changes.wait(seen, left_s)

    async def until_states(self, *states: GpuCardState) -> tuple[GpuCard, ...]:
        """The cards, as soon as they stand so."""
        return (await self.until(lambda view: tuple(card.state for card in view.cards) == states)).cards

    async def gaps_s(self, target: str, *, readings: int) -> list[float]:
        """Seconds between the next readings of one card."""
        taken: list[float] = []
        while len(taken) <= readings:
            last = taken[-1] if taken else 0.0
            view = await self.until(lambda view, last=last: snapshot_of(card_of(view, target)).taken_at > last)
            taken.append(snapshot_of(card_of(view, target)).taken_at)
        return [later - earlier for earlier, later in zip(taken, taken[1:], strict=False)]


@asynccontextmanager
async def watching(machine: FakeMachine, *, timing: ReaderTiming = FAST) -> AsyncIterator[Watched]:
    changes = Changes()
    sampler = GpuSampler(on_change=changes.notify, timing=timing, root=machine.root, environment=machine.environment)
    sampler.start()
    try:
        yield Watched(sampler, changes)
    finally:
        await sampler.close()


def card_of(view: GpuView, target: str) -> GpuCard:
    return next(card for card in view.cards if card.target == target)


def snapshot_of(card: GpuCard) -> GpuSnapshot:
    assert card.snapshot is not None
    return card.snapshot


def readers(parent: int | None = None) -> list[psutil.Process]:
    """The living reader processes below a process, this one if none is given."""
    found = []
    for process in psutil.Process(parent).children(recursive=True):
        try:
            if "gpu/reader.py" in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


async def until_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def assert_stays(condition: Callable[[], bool], *, for_s: float) -> None:
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        assert condition()
        await asyncio.sleep(0.02)


async def test_two_healthy_cards_are_read_each_by_a_process_of_its_own(machine: FakeMachine) -> None:
    machine.play(["count = 2", "0.core_temperature_c = 41", "1.core_temperature_c = 58", "1.memory_temperature_c = 66"])
    async with watching(machine) as watched:
        first, second = await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        assert len(readers()) == 2
        assert watched.sampler.view().driver_version == "580.95.05"
    assert snapshot_of(first).uuid != snapshot_of(second).uuid
    assert (snapshot_of(first).bus_id, snapshot_of(second).bus_id) == (FIRST, SECOND)
    assert (snapshot_of(first).core_temperature_c, snapshot_of(second).core_temperature_c) == (41, 58)
    assert snapshot_of(second).memory_temperature_c == 66
    assert snapshot_of(first).memory_total_bytes == 32 * 1024**3
    assert readers() == []


async def test_a_reading_follows_the_card(machine: FakeMachine) -> None:
    async with watching(machine) as watched:
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        machine.play(["count = 2", "0.utilization_percent = 87"])
        await watched.until(lambda view: snapshot_of(view.cards[0]).utilization_percent == 87)


@every_round
async def test_a_card_lost_at_run_time_keeps_its_last_reading_and_the_other_updates(
    machine: FakeMachine, round_number: int
) -> None:
    async with watching(machine) as watched:
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        machine.play(["count = 2", "0.return = 15", "0.handle = 999"])
        lost, _ = await watched.until_states(GpuCardState.LOST, GpuCardState.OK)
        assert max(await watched.gaps_s(SECOND, readings=10)) < 1.0
        still_lost = card_of(watched.sampler.view(), FIRST)
    assert still_lost.snapshot == lost.snapshot is not None
    assert still_lost.since == lost.since
    age_s = still_lost.age_s(time.time())
    assert age_s is not None
    assert age_s > 10 * FAST.interval_s, "the age of the last reading goes on growing"


@every_round
@pytest.mark.parametrize(("kind", "where"), [("sleep", "is stuck"), ("uninterruptible", "is stuck inside the driver")])
async def test_a_hung_card_is_named_in_time_and_the_other_updates(
    machine: FakeMachine, kind: str, where: str, round_number: int
) -> None:
    async with watching(machine) as watched:
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        machine.play(["count = 2", f"hang.kind = {kind}", "0.hang.nvmlDeviceGetPowerUsage = 60"])
        gaps_s = await watched.gaps_s(SECOND, readings=20)
        hung, _ = await watched.until_states(GpuCardState.HUNG, GpuCardState.OK)
        gaps_s += await watched.gaps_s(SECOND, readings=10)
        machine.play(["count = 2"])
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
    assert max(gaps_s) < 1.0
    assert hung.detail.endswith(where)
    assert hung.left_behind == 0
    deadline_s = FAST.interval_s + FAST.answer_s
    assert deadline_s * 0.9 < hung.since - snapshot_of(hung).taken_at < deadline_s + 1.0


@every_round
async def test_a_reader_that_no_signal_ends_is_left_behind_and_counted(machine: FakeMachine, round_number: int) -> None:
    async with watching(machine) as watched:
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        machine.play(["count = 2", "hang.kind = unkillable", "0.hang.nvmlDeviceGetPowerUsage = 3"])
        await watched.until(lambda view: view.left_behind == 1)
        assert card_of(watched.sampler.view(), FIRST).left_behind == 1
        assert max(await watched.gaps_s(SECOND, readings=10)) < 1.0
        assert len(readers()) == 1, "no second reader while the first is stuck"
        machine.play(["count = 2"])
        await watched.until(lambda view: view.left_behind == 0)
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)


@every_round
async def test_closing_does_not_wait_for_a_reader_that_no_signal_ends(machine: FakeMachine, round_number: int) -> None:
    async with watching(machine) as watched:
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        machine.play(["count = 2", "hang.kind = unkillable", "0.hang.nvmlDeviceGetPowerUsage = 3"])
        await watched.until(lambda view: snapshot_of(view.cards[0]).taken_at < time.time() - 4 * FAST.interval_s)
        began = time.monotonic()
        await watched.sampler.close()
        assert time.monotonic() - began < 2 * FAST.end_s + 0.5
        assert watched.sampler.view().left_behind == 1


@pytest.mark.parametrize(
    ("scenario", "state", "words"),
    [
        ("0.handle = 4", GpuCardState.DENIED, "Insufficient Permissions"),
        ("0.handle = 8", GpuCardState.NO_POWER, "Insufficient External Power"),
        ("0.handle = 11", GpuCardState.FAILED, "NVML 11 at handle"),
        ("0.handle = 999", GpuCardState.LOST, "Unknown Error"),
        ("0.return = 16", GpuCardState.NEEDS_RESET, "GPU requires restart"),
        ("0.bus_id = 0000:77:00.0", GpuCardState.FAILED, "Not Found"),
    ],
)
async def test_each_trouble_of_one_card_looks_different_and_the_other_reads(
    machine: FakeMachine, scenario: str, state: GpuCardState, words: str
) -> None:
    machine.play(["count = 2", scenario])
    async with watching(machine) as watched:
        card, other = await watched.until_states(state, GpuCardState.OK)
    assert words in card.detail
    assert card.snapshot is None
    assert card.age_s(time.time()) is None
    assert other.snapshot is not None


async def test_a_sensor_that_fails_leaves_the_card_ok_and_says_why(machine: FakeMachine) -> None:
    machine.play(["count = 2", "0.return.nvmlDeviceGetPowerUsage = 999", "1.memory_temperature_code = 3"])
    async with watching(machine) as watched:
        first, second = await watched.until_states(GpuCardState.OK, GpuCardState.OK)
    assert snapshot_of(first).power_w == Missing(MissingReason.ERROR, "Unknown Error")
    assert snapshot_of(first).core_temperature_c == 36
    assert snapshot_of(second).memory_temperature_c == Missing(MissingReason.UNSUPPORTED, "Not Supported")


@pytest.mark.parametrize(
    ("scenario", "gap", "words"),
    [
        (["init = 4"], DriverGap.DENIED, "/dev/nvidia*"),
        (["init = 18", "library = 13.570.86.15"], DriverGap.VERSION_MISMATCH, "570.86.15"),
        (["init = 999"], DriverGap.BLOCKED, "blocks"),
        (["count = 0"], DriverGap.NO_CARD, "lists no card"),
    ],
)
async def test_a_driver_that_refuses_is_told_in_a_sentence_and_heals(
    machine: FakeMachine, scenario: Sequence[str], gap: DriverGap, words: str
) -> None:
    machine.play(scenario)
    async with watching(machine) as watched:
        view = await watched.until(lambda view: view.has_looked)
        assert view.no_driver is not None
        assert view.no_driver.gap is gap
        assert words in view.no_driver.sentence
        machine.play(["count = 2"])
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)


async def test_a_library_that_is_not_there_is_told_in_a_sentence(machine: FakeMachine, tmp_path: Path) -> None:
    machine.library = tmp_path  # the loader finds this file first, on a machine with a real driver too
    (tmp_path / "libnvidia-ml.so.1").write_text("")
    async with watching(machine) as watched:
        view = await watched.until(lambda view: view.has_looked)
    assert view.no_driver is not None
    assert view.no_driver.gap is DriverGap.NO_LIBRARY
    assert view.no_driver.detail.startswith(f"{tmp_path}/libnvidia-ml.so.1") or "libnvidia" in view.no_driver.detail


@every_round
async def test_a_driver_that_does_not_answer_is_told_and_asked_once_while_it_is_stuck(
    machine: FakeMachine, round_number: int
) -> None:
    machine.play(["count = 2", "hang.kind = unkillable", "init.hang = 4"])
    timing = ReaderTiming(first_answer_s=0.5, end_s=0.2, recheck_s=0.1)
    async with watching(machine, timing=timing) as watched:
        view = await watched.until(lambda view: view.left_behind == 1)
        view = await watched.until(lambda view: view.no_driver is not None)
        assert view.no_driver is not None
        assert view.no_driver.gap is DriverGap.SILENT
        await assert_stays(lambda: readers() == [], for_s=1.0)  # no second question while the first is stuck
        assert watched.sampler.view().left_behind == 1


@every_round
async def test_readings_come_back_after_a_driver_reload(machine: FakeMachine, round_number: int) -> None:
    async with watching(machine) as watched:
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        machine.play(["init = 9", "0.return = 999", "1.return = 999"])
        machine.unload_module()
        view = await watched.until(lambda view: view.no_driver is not None)
        assert view.cards == ()
        assert view.no_driver is not None
        assert view.no_driver.gap is DriverGap.NO_DRIVER
        await until_true(lambda: readers() == [])
        await assert_stays(lambda: readers() == [], for_s=2 * FAST.last_backoff_s)
        machine.play(["count = 2", "driver = 580.105.08"])
        machine.load_module(FIRST, SECOND, version="580.105.08")
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        assert watched.sampler.view().driver_version == "580.105.08"


async def test_a_reader_that_cannot_start_nvml_makes_the_sampler_ask_the_driver(machine: FakeMachine) -> None:
    slow_look = ReaderTiming(interval_s=0.1, first_backoff_s=0.1, recheck_s=60.0)
    async with watching(machine, timing=slow_look) as watched:
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        machine.play(["init = 18", "0.return = 1", "1.return = 1"])
        view = await watched.until(lambda view: view.no_driver is not None)
    assert view.no_driver is not None
    assert view.no_driver.gap is DriverGap.VERSION_MISMATCH


async def test_without_a_driver_nothing_is_started(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path, library=tmp_path)
    machine.plug("0000:00:02.0", vendor="0x8086")
    changes = Changes()
    sampler = GpuSampler(on_change=changes.notify, timing=FAST, root=machine.root, environment={})
    sampler.start()
    try:
        while changes.version < 5:
            await changes.wait(changes.version, SECONDS_TO_WAIT)
            assert readers() == []
        assert sampler.view().no_driver is not None
        assert sampler.view().has_looked
    finally:
        await sampler.close()


async def test_a_card_that_another_driver_holds_is_shown_beside_the_others(machine: FakeMachine) -> None:
    machine.plug("0000:04:00.0", driver="vfio-pci")
    async with watching(machine) as watched:
        *_, held = await watched.until_states(GpuCardState.OK, GpuCardState.OK, GpuCardState.UNBOUND)
    assert held.target == "0000:04:00.0"
    assert held.detail == "the kernel driver vfio-pci holds it"


async def test_cards_are_read_by_index_where_the_bus_cannot_be_seen(tmp_path: Path, library: Path) -> None:
    machine = FakeMachine(tmp_path, library=library)
    (machine.root / "dev").mkdir(parents=True)
    (machine.root / "dev/nvidiactl").touch()
    machine.play(["count = 2"])
    async with watching(machine) as watched:
        _, second = await watched.until_states(GpuCardState.OK, GpuCardState.OK)
    assert (second.target, snapshot_of(second).bus_id) == ("index:1", SECOND)


async def test_a_card_that_the_driver_takes_later_is_read_too(machine: FakeMachine) -> None:
    async with watching(machine) as watched:
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        machine.play(["count = 3"])
        machine.load_module("0000:04:00.0")
        await watched.until_states(GpuCardState.OK, GpuCardState.OK, GpuCardState.OK)


@every_round
async def test_a_reader_killed_from_outside_is_replaced(machine: FakeMachine, round_number: int) -> None:
    async with watching(machine) as watched:
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        for reader in readers():
            reader.send_signal(signal.SIGKILL)
        failed = await watched.until(lambda view: any(card.state is GpuCardState.FAILED for card in view.cards))
        assert "its reader ended with status -9" in {card.detail for card in failed.cards}
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)


PANEL = """
    import asyncio, os, sys
    from pathlib import Path
    from backend.gpu.sampler import GpuSampler

    async def main():
        sampler = GpuSampler(root=Path(sys.argv[1]), environment=os.environ)
        sampler.start()
        for _ in range(400):
            if sum(card.snapshot is not None for card in sampler.view().cards) == 2:
                break
            await asyncio.sleep(0.05)
        print("ready", flush=True)
        await asyncio.sleep(30)

    asyncio.run(main())
"""


@every_round
async def test_readers_end_with_a_panel_that_is_killed(machine: FakeMachine, round_number: int) -> None:
    panel = subprocess.Popen(
        (sys.executable, "-c", textwrap.dedent(PANEL), str(machine.root)),
        stdout=subprocess.PIPE,
        env={**machine.environment, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    try:
        assert panel.stdout is not None
        async with asyncio.timeout(SECONDS_TO_WAIT):
            assert await asyncio.to_thread(panel.stdout.readline) == b"ready\n"
        orphans = readers(panel.pid)
        assert len(orphans) == 2
    finally:
        panel.kill()
        panel.communicate(timeout=10)
    await until_true(lambda: not any(orphan.is_running() for orphan in orphans))


async def test_a_card_given_to_another_driver_after_it_was_read_is_shown_once(machine: FakeMachine) -> None:
    async with watching(machine) as watched:
        await watched.until_states(GpuCardState.OK, GpuCardState.OK)
        link = machine.root / "sys/bus/pci/devices" / SECOND / "driver"
        link.unlink()
        link.symlink_to("../../../bus/pci/drivers/vfio-pci")
        (machine.root / "proc/driver/nvidia/gpus" / SECOND).rmdir()
        await assert_stays(lambda: len(watched.sampler.view().cards) == 2, for_s=3 * FAST.recheck_s)
