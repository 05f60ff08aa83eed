"""Why an engine is slow, from its metrics alone."""

from backend.engine.metrics import MetricsSample
from backend.engine.slowness import WINDOW_S, judge_slowness
from backend.engine.status import Notice, NoticeKey


def keys(*samples: MetricsSample) -> list[NoticeKey]:
    return [notice.key for notice in judge_slowness(samples)]


def test_a_quiet_engine_has_no_notice() -> None:
    assert keys() == []
    assert keys(MetricsSample(0.0), MetricsSample(10.0)) == []
    assert keys(MetricsSample(0.0, 1, 0, 0.5, 3.0, 0.0), MetricsSample(10.0, 1, 0, 0.5, 3.0, 0.0)) == []


def test_growing_preemptions_are_counted_with_the_fullest_cache() -> None:
    samples = [MetricsSample(60.0 * n, kv_use=0.9 + n / 100, preemptions=10.0 + 4 * n) for n in range(3)]
    expected = Notice(NoticeKey.PREEMPTING, {"count": "8", "minutes": "2", "kv_percent": "92"})
    assert judge_slowness(samples) == (expected,)


def test_preemptions_of_long_ago_are_over() -> None:
    samples = [MetricsSample(0.0, preemptions=0.0), MetricsSample(10.0, preemptions=5.0)]
    later = [MetricsSample(20.0 + WINDOW_S * n / 4, preemptions=5.0) for n in range(6)]
    assert keys(*samples) == [NoticeKey.PREEMPTING]
    assert keys(*samples, *later) == []


def test_a_counter_that_began_anew_is_no_growth() -> None:
    assert keys(MetricsSample(0.0, preemptions=50.0), MetricsSample(10.0, preemptions=0.0)) == []


def test_a_full_cache_matters_only_while_requests_wait() -> None:
    assert keys(MetricsSample(0.0, waiting=0, kv_use=0.99)) == []
    assert keys(MetricsSample(0.0, waiting=3, kv_use=0.50)) == []
    full = MetricsSample(0.0, waiting=3, kv_use=0.99)
    assert judge_slowness([full]) == (Notice(NoticeKey.KV_FULL, {"waiting": "3", "kv_percent": "99"}),)
    assert keys(full, MetricsSample(10.0, waiting=0, kv_use=0.99)) == []


def test_offload_is_told_while_bytes_move() -> None:
    samples = [MetricsSample(0.0, offloaded_bytes=1e9), MetricsSample(60.0, offloaded_bytes=1.5e9)]
    assert judge_slowness(samples) == (Notice(NoticeKey.OFFLOADING, {"megabytes": "500", "minutes": "1"}),)
