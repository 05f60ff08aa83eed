"""backend.chat.request_timing: right where known, blank where not."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.chat.request_timing import EngineFigures, RequestTiming, TimingSource

FIGURES = {"time_to_first_token_ms": 80.0, "mean_itl_ms": 25.0, "queue_time_ms": 20.0, "generation_time_ms": 250.0}


def timing(**changes: Any) -> RequestTiming:
    """An answer of 11 tokens: first after 0.125 s, then one each 0.030 s, to a prompt of 100, 20 of them cached."""
    known: dict[str, Any] = {
        "sent": 1000.0,
        "first_token": 1000.125,
        "last_token": 1000.425,
        "prompt_tokens": 100,
        "cached_tokens": 20,
        "output_tokens": 11,
    }
    return RequestTiming(**{**known, **changes})


def test_without_figures_everything_is_measured() -> None:
    measured = timing()
    assert measured.source is TimingSource.MEASURED
    assert measured.ttft_s == pytest.approx(0.125)
    assert measured.tpot_s == pytest.approx(0.030)
    assert measured.decode_tok_per_s == pytest.approx(1 / 0.030)
    assert measured.prefill_tok_per_s == pytest.approx(80 / 0.125)
    assert measured.total_s == pytest.approx(0.425)
    assert measured.queue_s is None


def test_the_engines_figures_come_first_and_its_queue_counts_to_ttft_but_not_to_prefill() -> None:
    told = timing(engine=EngineFigures.from_metrics(FIGURES))
    assert told.source is TimingSource.ENGINE
    assert told.ttft_s == pytest.approx(0.100)
    assert told.queue_s == pytest.approx(0.020)
    assert told.prefill_tok_per_s == pytest.approx(80 / 0.080)
    assert told.tpot_s == pytest.approx(0.025)
    assert told.decode_tok_per_s == pytest.approx(40)
    assert told.measured_ttft_s == pytest.approx(0.125)
    assert told.measured_tpot_s == pytest.approx(0.030)


def test_figures_longer_than_our_own_wait_are_not_shown() -> None:
    contradicting = timing(engine=EngineFigures.from_metrics({**FIGURES, "queue_time_ms": 5_000.0}))
    assert contradicting.source is TimingSource.MEASURED
    assert contradicting.ttft_s == pytest.approx(0.125)
    assert contradicting.tpot_s == pytest.approx(0.030)
    assert contradicting.queue_s is None


def test_figures_without_a_queue_time_are_not_comparable_and_are_not_shown() -> None:
    partial = timing(engine=EngineFigures.from_metrics({"time_to_first_token_ms": 80.0, "mean_itl_ms": 25.0}))
    assert partial.source is TimingSource.MEASURED
    assert partial.tpot_s == pytest.approx(0.030)


def test_tpot_is_measured_where_the_engine_tells_only_the_first_token() -> None:
    partial = timing(engine=EngineFigures.from_metrics({"time_to_first_token_ms": 80.0, "queue_time_ms": 0.0}))
    assert partial.ttft_s == pytest.approx(0.080)
    assert partial.tpot_s == pytest.approx(0.030)


@pytest.mark.parametrize("output_tokens", [None, 0, 1, -3])
def test_tpot_is_blank_below_two_tokens_or_without_their_number(output_tokens: int | None) -> None:
    assert timing(output_tokens=output_tokens).tpot_s is None
    assert timing(output_tokens=output_tokens).decode_tok_per_s is None


def test_an_answer_stopped_before_its_first_token_is_blank() -> None:
    stopped = RequestTiming(sent=5.0)
    shown = (stopped.ttft_s, stopped.tpot_s, stopped.prefill_tok_per_s, stopped.decode_tok_per_s, stopped.total_s)
    assert shown == (None,) * 5


@pytest.mark.parametrize("changes", [{"first_token": 1000.0}, {"first_token": 999.0}, {"first_token": math.nan}])
def test_a_duration_of_nothing_or_less_is_blank(changes: dict[str, float]) -> None:
    assert timing(**changes).ttft_s is None
    assert timing(**changes).prefill_tok_per_s is None


def test_tokens_that_came_all_at_once_have_no_rate() -> None:
    assert timing(last_token=1000.125).tpot_s is None
    assert timing(last_token=1000.125).decode_tok_per_s is None


@pytest.mark.parametrize("changes", [{"cached_tokens": None}, {"prompt_tokens": None}, {"cached_tokens": 100}])
def test_prefill_rate_is_blank_where_the_computed_part_of_the_prompt_is_unknown_or_empty(
    changes: dict[str, int | None],
) -> None:
    assert timing(**changes).prefill_tok_per_s is None


@pytest.mark.parametrize("metrics", [None, [], "fast", {}, {"x": 1.0}, {"mean_itl_ms": "12"}, {"mean_itl_ms": True}])
def test_metrics_that_are_none_give_no_figures(metrics: object) -> None:
    assert EngineFigures.from_metrics(metrics) is None


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -math.inf, -1.0, 0, 5e-324, 10**400, "80", None, [80]])
def test_a_nonsense_figure_is_dropped_and_the_others_stay(nonsense: object) -> None:
    figures = EngineFigures.from_metrics({**FIGURES, "time_to_first_token_ms": nonsense})
    assert figures is not None
    assert figures.time_to_first_token_ms is None
    assert figures.mean_itl_ms == 25.0


def test_an_empty_queue_is_a_figure() -> None:
    figures = EngineFigures.from_metrics({"queue_time_ms": 0})
    assert figures is not None
    assert figures.queue_time_ms == 0.0


@pytest.mark.parametrize("engine", [None, EngineFigures.from_metrics(FIGURES)])
def test_json_keeps_every_field(engine: EngineFigures | None) -> None:
    assert RequestTiming.from_json(timing(engine=engine).to_json()) == timing(engine=engine)


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"sent": "x"}', '{"sent": 1, "engine": 5}', "{"])
def test_json_of_something_else_is_blank(text: str) -> None:
    assert RequestTiming.from_json(text) is None


number = st.none() | st.floats() | st.integers()
count = st.none() | st.integers()
clock = st.none() | st.floats()


@given(first=clock, last=clock, counts=st.tuples(count, count, count), figures=st.tuples(number, number, number))
def test_whatever_an_engine_sends_each_figure_is_positive_and_finite_or_blank(
    first: Any, last: Any, counts: tuple[Any, Any, Any], figures: tuple[Any, Any, Any]
) -> None:
    metrics = dict(zip(FIGURES, figures, strict=False))
    strange = RequestTiming(7.0, first, last, *counts, engine=EngineFigures.from_metrics(metrics))
    shown = [strange.ttft_s, strange.tpot_s, strange.prefill_tok_per_s, strange.decode_tok_per_s, strange.total_s]
    for value in (*shown, strange.measured_ttft_s, strange.measured_tpot_s):
        assert value is None or (math.isfinite(value) and value > 0)
    assert strange.queue_s is None or strange.queue_s >= 0
    json.loads(strange.to_json())
