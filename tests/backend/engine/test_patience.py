"""How long a start is waited for, decided without a process or a clock."""

from collections.abc import Iterator

import pytest

from backend.engine.effort import Effort
from backend.engine.patience import Glance, Overdue, OverdueKind, Patience, PatienceLimits, plan_patience
from backend.engine.stage import Stage, StageProgress

GB = 10**9
LIMITS = PatienceLimits()
WEIGHTS = StageProgress(Stage.WEIGHTS)
WARM_UP = StageProgress(Stage.WARM_UP)


def patience(*, timeout_s: float | None = None, model_bytes: int = GB, began: float = 0.0) -> Patience:
    plan = plan_patience(model_bytes=model_bytes, bytes_per_s=1e9, timeout_s=timeout_s, limits=LIMITS)
    return Patience(plan, began=began)


def until_overdue(patient: Patience, glances: Iterator[Glance]) -> Overdue:
    """The first verdict; fails when the glances end before it."""
    return next(overdue for overdue in map(patient.take, glances) if overdue is not None)


def every_5_s(progress: StageProgress, *lines: str) -> Iterator[Glance]:
    return (Glance(now, progress, lines) for now in range(0, 100_000, 5))


def test_a_large_model_on_a_slow_disk_gets_more_time_than_a_small_one_on_a_fast_disk() -> None:
    slow = plan_patience(model_bytes=54 * GB, bytes_per_s=100e6, timeout_s=None, limits=LIMITS)
    quick = plan_patience(model_bytes=GB, bytes_per_s=3e9, timeout_s=None, limits=LIMITS)
    assert slow.expected_s[Stage.WEIGHTS] == 570.0
    assert quick.expected_s[Stage.WEIGHTS] < 31.0
    assert slow.ready_within_s > quick.ready_within_s and slow.ceiling_s > quick.ceiling_s


def test_an_unknown_disk_counts_as_slow_and_an_unknown_size_as_none() -> None:
    plan = plan_patience(model_bytes=10 * GB, bytes_per_s=None, timeout_s=None, limits=LIMITS)
    assert plan.expected_s[Stage.WEIGHTS] == 130.0
    assert plan_patience(model_bytes=None, bytes_per_s=None, timeout_s=None, limits=LIMITS).ceiling_s > 1000.0


def test_everything_has_a_ceiling() -> None:
    plan = plan_patience(model_bytes=10**15, bytes_per_s=1.0, timeout_s=None, limits=LIMITS)
    assert plan.ceiling_s == LIMITS.most_ceiling_s
    moving = (Glance(now, WEIGHTS, (f"step {'x' * int(now // 60)}",)) for now in range(0, 30_000, 60))
    overdue = until_overdue(Patience(plan), moving)
    assert (overdue.kind, overdue.waited_s) == (OverdueKind.TOO_SLOW, LIMITS.most_ceiling_s)


def test_a_start_in_which_nothing_moves_is_stalled_after_the_stages_quiet_time() -> None:
    overdue = until_overdue(patience(), every_5_s(WEIGHTS, "Starting to load model"))
    assert overdue == Overdue(OverdueKind.STALLED, Stage.WEIGHTS, 300.0, 300.0, "Starting to load model", 300.0)


def test_the_presets_timeout_is_a_hard_limit_even_for_a_start_that_moves() -> None:
    moving = (Glance(now, StageProgress(Stage.WEIGHTS, int(now))) for now in range(100))
    assert until_overdue(patience(timeout_s=60.0), moving).kind is OverdueKind.TIMEOUT


def test_percent_moves_a_start_on() -> None:
    patient = patience()
    slow = [Glance(minute * 60.0, StageProgress(Stage.WEIGHTS, minute)) for minute in range(29)]
    assert [patient.take(glance) for glance in slow] == [None] * 29


@pytest.mark.parametrize(
    "line",
    [
        "INFO 12-01 08:00:{second:02d} [shm_broadcast.py:1] No available shared memory broadcast block found in 60 seconds",
        "INFO Waiting for 1 local, 0 remote core engine proc(s) to start ({second}).",
        "INFO the same words at 08:00:{second:02d} with pid {second}",
        "WARNING Retrying in {second} s",
        "",
    ],
)
def test_repeats_and_wait_notices_do_not(line: str) -> None:
    notices = (Glance(now, WEIGHTS, (line.format(second=now % 60),)) for now in range(0, 100_000, 7))
    assert until_overdue(patience(), notices).waited_s < 320.0


def test_new_words_move_a_start_on_and_are_what_was_last_seen() -> None:
    patient = patience()
    assert patient.take(Glance(290.0, WEIGHTS, ("INFO loading adapters",))) is None
    assert patient.take(Glance(580.0, WEIGHTS, ("Waiting for workers",))) is None
    overdue = patient.take(Glance(590.0, WEIGHTS))
    assert overdue is not None and (overdue.last_line, overdue.quiet_s) == ("INFO loading adapters", 300.0)


def test_bytes_read_move_a_load_that_says_nothing() -> None:
    patient = patience(model_bytes=20 * GB)
    reading = [Glance(now, WEIGHTS, effort=Effort(int(now * 1e6), 0.0)) for now in range(0, 1700, 5)]
    assert [overdue for overdue in map(patient.take, reading) if overdue] == []


def test_the_few_bytes_of_heartbeats_do_not() -> None:
    beating = (Glance(now, WEIGHTS, effort=Effort(int(now * 1000), 0.0)) for now in range(0, 10_000, 5))
    overdue = until_overdue(patience(), beating)
    assert overdue.kind is OverdueKind.STALLED and overdue.waited_s == pytest.approx(300.0, abs=10)


def test_processor_time_moves_a_compilation_but_not_a_load_where_waiting_workers_spin() -> None:
    def busy(progress: StageProgress) -> Iterator[Glance]:
        return (Glance(now, progress, effort=Effort(0, float(now))) for now in range(0, 100_000, 5))

    assert until_overdue(patience(), busy(WARM_UP)).kind is OverdueKind.TOO_SLOW
    assert until_overdue(patience(), busy(WEIGHTS)).kind is OverdueKind.STALLED


def test_a_member_that_ends_does_not_look_like_a_move() -> None:
    patient = patience()
    patient.take(Glance(0.0, WEIGHTS, effort=Effort(5 * GB, 100.0)))
    for now in (100.0, 200.0, 299.0):
        assert patient.take(Glance(now, WEIGHTS, effort=Effort(1000, 1.0))) is None
    assert patient.take(Glance(300.0, WEIGHTS, effort=Effort(1000, 1.0))) is not None


def test_a_start_that_is_adopted_gets_a_full_quiet_time() -> None:
    patient = patience(began=1000.0)
    assert patient.take(Glance(1001.0, WEIGHTS)) is None
    assert patient.take(Glance(1299.0, WEIGHTS)) is None
    assert patient.take(Glance(1301.0, WEIGHTS)) is not None
