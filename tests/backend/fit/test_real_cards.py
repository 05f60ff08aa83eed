"""Real starts of vLLM 0.23.0 on one NVIDIA H200, 2026-12-01: dummy weights of Qwen3's shape, Triton attention.

The tokens come out of the logged budget exactly, within the two decimals of its GiB; of a budget given in bytes they are
the very number. The overhead inside the budget was predicted 0.18 to 0.67 GiB too high, never too low, in these six
starts: on an H200, not on a V100. The bound was set after seeing them. CUDA graphs took 0.25 GiB (8 layers) and 0.54 GiB
(36); the budget with them was that without, so that this vLLM seems to take them from outside, where the estimate counts
them inside. What is taken outside is not tested here: the logs show 0.51 GiB on the card at the worker's start, and the
estimate says 0.30 for the context. Some starts logged at DEBUG; only the lines about memory are kept.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from backend.fit.comparison import Figure, compare
from backend.fit.element import GIB
from backend.fit.engine_log import EngineFigures, read_figures
from backend.fit.estimate import FitEstimate, estimate
from backend.fit.wish import CardMemory, FitWish
from backend.launch.engine_kind import EngineKind
from tests.backend.fit.fit_cards import weighed

LOGS = Path(__file__).with_name("logs")
SHAPES: dict[str, dict[str, Any]] = json.loads((LOGS / "cuda-shapes.json").read_text(encoding="utf-8"))
H200 = CardMemory(150_109_880_320)
OVERHEAD_BOUND = 0.7 * GIB

# log, shape, what was asked for
STARTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("eager-0.3", "small", {"utilization": 0.3, "eager": True}),
    ("eager-0.9", "small", {"utilization": 0.9, "eager": True}),
    ("graphs-0.3", "small", {"utilization": 0.3}),
    ("graphs-0.9", "small", {"utilization": 0.9}),
    ("8b-graphs", "8b", {"utilization": 0.5}),
    ("8b-2048-eager", "8b", {"utilization": 0.5, "eager": True, "batched_tokens": 2048, "sequences": 256}),
)


def held_against(name: str, shape: str, asked: dict[str, Any]) -> tuple[FitEstimate, EngineFigures]:
    lines = (LOGS / f"cuda-0.23.0-{name}.log").read_text(encoding="utf-8").splitlines()
    wish = FitWish(8192, engine=EngineKind.CUDA, version="0.23.0", **asked)
    return estimate(weighed(SHAPES[shape]), wish, H200), read_figures(lines)


@pytest.mark.parametrize(("name", "shape", "asked"), STARTS)
def test_weights_and_the_tokens_of_the_logged_budget_come_out(name: str, shape: str, asked: dict[str, Any]) -> None:
    comparison = compare(*held_against(name, shape, asked))
    for figure in (Figure.WEIGHTS, Figure.TOKENS_OF_LOGGED_BYTES):
        found = comparison.of(figure)
        assert found is not None
        assert found.is_within_rounding, found


@pytest.mark.parametrize(("name", "shape", "asked"), STARTS)
def test_the_overhead_is_predicted_on_the_safe_side_and_not_far_off(
    name: str, shape: str, asked: dict[str, Any]
) -> None:
    found = compare(*held_against(name, shape, asked)).of(Figure.OVERHEAD)
    assert found is not None
    assert -OVERHEAD_BOUND <= found.difference <= 0


def test_a_budget_of_exact_bytes_gives_exactly_the_logged_tokens() -> None:
    found, figures = held_against("kv-bytes", "small", {"kv_cache_bytes": 5_000_000_000, "eager": True})
    assert found.kv_tokens == figures.kv_tokens == 152_576
    assert f"{found.full_requests:.2f}" == f"{figures.concurrency:.2f}"
