"""The longest context and the most sequences, each checked by asking again with one more."""

from dataclasses import replace

from backend.fit.estimate import STARTS, Verdict, estimate
from backend.fit.inverse import longest_context, most_sequences
from backend.fit.wish import CardMemory, FitWish
from backend.launch.engine_kind import EngineKind
from tests.backend.fit.fit_cards import LLAMA, V100
from tests.backend.fit.fit_models import GIB

VOLTA = FitWish(8192, sequences=8, utilization=0.9, dtype="float16", engine=EngineKind.VOLTA, version="0.19.1")


def test_the_longest_context_is_the_last_that_starts() -> None:
    longest = longest_context(LLAMA, VOLTA, V100)
    assert longest is not None
    assert 60_000 < longest < 131_072
    assert estimate(LLAMA, replace(VOLTA, context=longest), V100).verdict in STARTS
    assert estimate(LLAMA, replace(VOLTA, context=longest + 1), V100).verdict is Verdict.CONTEXT_TOO_LONG


def test_several_at_once_leave_each_less() -> None:
    one, four = (longest_context(LLAMA, VOLTA, V100, at_once=count) for count in (1, 4))
    assert one is not None
    assert four is not None
    assert four <= one // 4 < four + 16


def test_it_is_never_longer_than_what_the_model_was_made_for() -> None:
    assert longest_context(LLAMA, VOLTA, CardMemory(200 * GIB)) == 131_072


def test_the_most_sequences_are_the_last_that_all_fit() -> None:
    most = most_sequences(LLAMA, VOLTA, V100)
    assert most is not None
    assert estimate(LLAMA, replace(VOLTA, sequences=most), V100).verdict is Verdict.FITS
    assert estimate(LLAMA, replace(VOLTA, sequences=most + 1), V100).verdict is Verdict.FEWER_AT_ONCE


def test_where_the_engine_does_not_start_there_is_no_answer() -> None:
    small = CardMemory(8 * GIB)
    assert longest_context(LLAMA, VOLTA, small) is None
    assert most_sequences(LLAMA, VOLTA, small) is None
