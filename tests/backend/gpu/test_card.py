"""One card's watch: how often it tries again."""

import asyncio
import time
from pathlib import Path

import pytest

from backend.gpu.card import CardWatch, ReaderTiming
from backend.gpu.snapshot import GpuCardState
from tests.fakes.fakenvml import FakeMachine, build_library

TIMING = ReaderTiming(interval_s=0.05, first_backoff_s=0.1, last_backoff_s=0.8)
SECONDS_TO_WAIT = 20.0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


class Recorder:
    """Notes when the card failed, and when it was read."""

    def __init__(self, machine: FakeMachine) -> None:
        self.failed_at: list[float] = []
        self.is_read = asyncio.Event()
        self.has_failed = asyncio.Event()
        self.watch = CardWatch(
            "0000:02:00.0",
            timing=TIMING,
            environment=machine.environment,
            on_change=self._note,
            on_driver_failure=lambda: None,
        )

    def _note(self) -> None:
        if self.watch.card.state is GpuCardState.OK:
            self.is_read.set()
        elif self.watch.card.state is GpuCardState.DENIED:
            self.failed_at.append(time.monotonic())
            self.has_failed.set()

    async def failures(self, count: int) -> list[float]:
        """Seconds between the next failures."""
        self.failed_at.clear()
        async with asyncio.timeout(SECONDS_TO_WAIT):
            while len(self.failed_at) <= count:
                self.has_failed.clear()
                await self.has_failed.wait()
        return [later - earlier for earlier, later in zip(self.failed_at, self.failed_at[1:], strict=False)]


async def test_a_card_that_keeps_failing_is_tried_less_and_less_often_and_anew_after_a_success(
    tmp_path: Path, library: Path
) -> None:
    machine = FakeMachine(tmp_path, library=library)
    machine.play(["0.handle = 4"])
    recorder = Recorder(machine)
    task = asyncio.create_task(recorder.watch.run())
    try:
        gaps_s = await recorder.failures(5)
        assert gaps_s[3] > 0.8
        assert gaps_s[0] < gaps_s[3] - 0.3
        assert gaps_s[4] < 1.6, "the back-off has an end"
        machine.play([])
        async with asyncio.timeout(SECONDS_TO_WAIT):
            await recorder.is_read.wait()
        machine.play(["0.return = 4"])
        assert (await recorder.failures(1))[0] < gaps_s[3] - 0.3
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
