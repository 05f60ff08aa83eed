"""What is read of a running engine every ten seconds: the memory it holds and, once it is ready, why it may be slow."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from backend.engine.memory import CardGauge, MemoryUse, card_memory, read_memory
from backend.engine.metrics import MetricsProbe, MetricsSample
from backend.engine.run import EngineRun
from backend.engine.side_reading import SideReading
from backend.engine.slowness import KEPT_SAMPLES, judge_slowness
from backend.engine.status import Notice
from backend.reading import Missing, MissingReason, Reading

OLDEST_MEMORY_S = 5.0  # a reading that takes longer hangs in the kernel


@dataclass(frozen=True)
class Gauges:
    """What was last read. None: not read yet, or, of cards, none there."""

    memory_bytes: Reading[int] | None = None
    gpu_memory_bytes: Reading[int] | None = None
    notices: tuple[Notice, ...] = ()


class RunGauges:
    """Reads one run, a little at each look; nothing is waited for. Needs a running event loop."""

    def __init__(
        self, run: EngineRun, *, base_url: str, cards: CardGauge, every_s: float, clock: Callable[[], float]
    ) -> None:
        self._cards = cards
        self._every_s = every_s
        self._clock = clock
        self._memory: SideReading[MemoryUse] = SideReading(
            lambda: read_memory(member.pid for member in run.members()), name="memory of an engine"
        )
        self._metrics = MetricsProbe(f"{base_url}/metrics")
        self._samples: deque[MetricsSample] = deque(maxlen=KEPT_SAMPLES)
        self._due_at = clock()

    def look(self, *, is_serving: bool) -> Gauges:
        """What is known now; begins the next readings when they are due."""
        now = self._clock()
        sample = self._metrics.latest
        if sample is not None and (not self._samples or sample is not self._samples[-1]):
            self._samples.append(sample)
        if now >= self._due_at:
            self._due_at = now + self._every_s
            self._memory.ask()
            if is_serving:
                self._metrics.ask(now=now)
        return Gauges(self._machine_memory(), self._card_memory(), self._notices(now, is_serving=is_serving))

    async def close(self) -> None:
        """Drop what is under way."""
        await self._metrics.close()

    def _machine_memory(self) -> Reading[int] | None:
        if self._memory.open_s > OLDEST_MEMORY_S:
            return Missing(MissingReason.TIMEOUT, "the kernel does not answer for a process of this engine")
        return self._memory.latest.held_bytes if self._memory.latest else None

    def _card_memory(self) -> Reading[int] | None:
        return card_memory(self._cards(), self._memory.latest.pids) if self._memory.latest else None

    def _notices(self, now: float, *, is_serving: bool) -> tuple[Notice, ...]:
        """None from samples that have grown old: an engine that does not answer is not slow, it is unreachable."""
        if not is_serving or not self._samples or now - self._samples[-1].taken_at > 3 * self._every_s:
            return ()
        return judge_slowness(self._samples)
