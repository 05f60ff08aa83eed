"""Why a ready engine is slow, judged from its own metrics over the last minutes. Pure: samples in, notices out."""

from collections.abc import Callable, Sequence

from backend.engine.metrics import MetricsSample
from backend.engine.status import Notice, NoticeKey

WINDOW_S = 120.0  # a notice stays so long after its cause was last seen
KEPT_SAMPLES = 32
KV_FULL = 0.95  # vLLM preempts when no block is free; a few are always in between


def judge_slowness(samples: Sequence[MetricsSample]) -> tuple[Notice, ...]:
    """The notices that hold at the last of `samples`, which are of one run and oldest first."""
    if not samples:
        return ()
    newest = samples[-1]
    recent = [sample for sample in samples if newest.taken_at - sample.taken_at <= WINDOW_S]
    return tuple(
        notice for notice in (_preempting(recent), _kv_full(newest), _offloading(recent)) if notice is not None
    )


def _preempting(samples: Sequence[MetricsSample]) -> Notice | None:
    count = _growth(samples, lambda sample: sample.preemptions)
    if count <= 0:
        return None
    uses = [sample.kv_use for sample in samples if sample.kv_use is not None]
    kv_percent = _percent(max(uses)) if uses else "?"
    values = {"count": str(int(count)), "minutes": _minutes(samples), "kv_percent": kv_percent}
    return Notice(NoticeKey.PREEMPTING, values)


def _kv_full(sample: MetricsSample) -> Notice | None:
    if sample.kv_use is None or sample.kv_use < KV_FULL or not sample.waiting:
        return None
    return Notice(NoticeKey.KV_FULL, {"waiting": str(sample.waiting), "kv_percent": _percent(sample.kv_use)})


def _offloading(samples: Sequence[MetricsSample]) -> Notice | None:
    moved = _growth(samples, lambda sample: sample.offloaded_bytes)
    if moved <= 0:
        return None
    return Notice(NoticeKey.OFFLOADING, {"megabytes": f"{moved / 1e6:.0f}", "minutes": _minutes(samples)})


def _growth(samples: Sequence[MetricsSample], counter: Callable[[MetricsSample], float | None]) -> float:
    """By how much a counter has risen over the samples that have it; a fall is a counter that began anew."""
    known = [value for value in map(counter, samples) if value is not None]
    return sum(max(0.0, later - earlier) for earlier, later in zip(known, known[1:], strict=False))


def _minutes(samples: Sequence[MetricsSample]) -> str:
    return str(max(1, round((samples[-1].taken_at - samples[0].taken_at) / 60)))


def _percent(share: float) -> str:
    return str(round(share * 100))
