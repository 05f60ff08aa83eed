"""The shapes that the proof on a card draws: the same every time, valid, and covering what the kernels claim to serve."""

from __future__ import annotations

from dflash2.dispatch import DECODE_MOST_TOKENS, HeadLayout, why_unsupported
from dflash2.variants import HEAD_DIMS
from proof.cases import CacheLayout, Operator, extreme_cases, model_cases, random_cases, smallest_cases


def test_the_same_seed_draws_the_same_cases():
    assert list(random_cases(50, seed=1)) == list(random_cases(50, seed=1))
    assert list(random_cases(50, seed=1)) != list(random_cases(50, seed=2))


def test_every_case_is_one_that_the_kernels_serve():
    for case in [*random_cases(300, seed=1), *model_cases(), *extreme_cases(), *smallest_cases()]:
        heads = HeadLayout(case.query_heads, case.kv_heads, case.head_dim)
        assert why_unsupported(heads, case.page_size) is None, case
        assert all(0 < new <= cached for new, cached in zip(case.queries, case.keys, strict=True)), case
        assert case.operator is Operator.PREFILL or max(case.queries) <= DECODE_MOST_TOKENS, case


def test_a_thousand_random_cases_meet_every_dimension():
    cases = list(random_cases(1000, seed=1))
    for operator in Operator:
        drawn = [case for case in cases if case.operator is operator]
        assert {case.head_dim for case in drawn} == set(HEAD_DIMS)
        assert {case.layout for case in drawn} == set(CacheLayout)
        assert {2, 16, 784} <= {case.page_size for case in drawn}
        assert {1, 6, 16} <= {case.query_heads // case.kv_heads for case in drawn}
        assert {bool(case.window) for case in drawn} == {bool(case.softcap) for case in drawn} == {True, False}
