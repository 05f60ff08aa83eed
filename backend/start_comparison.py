"""After a start: hold the engine's own figures against what was predicted, keep the difference, and learn from it."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from backend.engine.engine import Engine
from backend.errors import PanelError
from backend.fit.comparison import Figure, compare, learn
from backend.fit.engine_log import read_figures
from backend.fit.estimate import FitEstimate
from backend.fit.host_overheads import HostOverheads, StartComparison
from backend.launch.plan import LaunchSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prediction:
    """What was expected of a start, and what it teaches is kept under."""

    estimate: FitEstimate
    key: str  # of the learned overhead


class StartComparisons:
    """Compares each run once, when it has become ready. `predict` reads folders; it is called in a thread."""

    def __init__(
        self,
        overheads: HostOverheads,
        *,
        predict: Callable[[LaunchSpec], Prediction | None],
        on_change: Callable[[], None],
    ) -> None:
        self._overheads = overheads
        self._predict = predict
        self._on_change = on_change
        self._begun: set[tuple[str, int]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, engine: Engine) -> None:
        """Begin to compare a run that has become ready, once. Called at each change of an engine, on the loop."""
        run = engine.status.run
        if engine.status.ready_at is None or engine.spec is None or run is None:
            return
        key = (engine.engine_id, run)
        if key in self._begun or self._overheads.comparison(*key) is not None:
            return
        self._begun.add(key)
        task = asyncio.create_task(self._compare(engine, engine.spec, run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def of(self, engine: Engine) -> StartComparison | None:
        """How the engine's current run compared; None before, and where nothing could be predicted."""
        return self._overheads.comparison(engine.engine_id, engine.status.run)

    async def close(self) -> None:
        """Wait for what was begun: it is short."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _compare(self, engine: Engine, spec: LaunchSpec, run: int) -> None:
        try:
            await asyncio.to_thread(self._compare_now, engine, spec, run)
        except PanelError as err:
            log.info("the start of engine %s is not compared: %s", engine.engine_id, err)
        self._on_change()

    def _compare_now(self, engine: Engine, spec: LaunchSpec, run: int) -> None:
        predicted = self._predict(spec)
        if predicted is None:
            return
        text = b"".join(engine.run_log(run)).decode("utf-8", errors="replace")
        found = compare(predicted.estimate, read_figures(text.splitlines()))
        tokens = found.of(Figure.KV_TOKENS)
        comparison = StartComparison(
            engine=engine.engine_id,
            run=run,
            at=time.time(),
            predicted_tokens=tokens.predicted if tokens else None,
            logged_tokens=tokens.logged if tokens else None,
            overhead_difference_bytes=found.overhead_difference_bytes,
        )
        self._overheads.keep(predicted.key, learn(self._overheads.learned(predicted.key), found), comparison)
