"""Overheads against what was seen on other people's cards."""

from typing import Any

import pytest

from backend.fit.model_defaults import MODEL_DEFAULTS
from backend.fit.overheads import activation_peak, batched_tokens, overheads
from backend.fit.wish import FitWish
from backend.launch.engine_kind import EngineKind
from tests.backend.fit.fit_cards import LLAMA, SMOL, V100
from tests.backend.fit.fit_models import GIB, facts

CARD_3090 = 24 * GIB


def inside(wish: FitWish, *, card_bytes: int, graphs_in_budget: bool = False) -> float:
    found = overheads(LLAMA, wish, card_bytes=card_bytes, graphs_in_budget=graphs_in_budget, learned_bytes=0)
    return found.in_budget / GIB


@pytest.mark.parametrize(("tokens", "seen_gib"), [(20_000, 2.4), (29_000, 3.3)])
def test_llama_on_a_3090_with_the_whole_context_in_one_step(tokens: int, seen_gib: float) -> None:
    assert inside(FitWish(tokens, batched_tokens=tokens), card_bytes=CARD_3090) == pytest.approx(seen_gib, abs=0.15)


def test_the_activation_of_llama_on_an_h100() -> None:
    peak = activation_peak(LLAMA, FitWish(8192), card_bytes=80 * GIB)
    assert peak / GIB == pytest.approx(1.26, abs=0.15)


def test_gpt_oss_20b() -> None:
    model = facts(
        {**MODEL_DEFAULTS["gpt_oss"], "model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 32}
    )
    found = overheads(model, FitWish(8192), card_bytes=CARD_3090, graphs_in_budget=True, learned_bytes=0)
    assert found.in_budget / GIB == pytest.approx(1.2, abs=0.25)


def test_graphs_are_between_what_was_seen_and_gone_when_eager() -> None:
    with_graphs = inside(FitWish(4096), card_bytes=CARD_3090, graphs_in_budget=True)
    eager = inside(FitWish(4096, eager=True), card_bytes=CARD_3090, graphs_in_budget=True)
    assert 0.13 <= with_graphs - eager <= 0.49


def test_an_old_engine_takes_graphs_from_beside_its_budget() -> None:
    old, new = (
        overheads(LLAMA, FitWish(4096), card_bytes=CARD_3090, graphs_in_budget=counted, learned_bytes=0)
        for counted in (False, True)
    )
    assert old.total == new.total
    assert old.in_budget < new.in_budget


@pytest.mark.parametrize(
    ("wish", "card_gib", "tokens"),
    [
        (FitWish(4096), 32, 2048),
        (FitWish(4096), 80, 8192),
        (FitWish(4096, engine=EngineKind.CPU), 512, 2048),
        (FitWish(100, sequences=2), 32, 200),
        (FitWish(4096, batched_tokens=512), 80, 512),
    ],
)
def test_tokens_of_a_step_are_the_engines_own_unless_asked_for(wish: FitWish, card_gib: int, tokens: int) -> None:
    assert batched_tokens(wish, card_bytes=card_gib * GIB) == tokens


def test_the_cpu_engine_takes_what_was_seen_with_smollm2() -> None:
    """2.6 GB for the group with 256 MB of KV cache."""
    wish = FitWish(2048, dtype="float32", engine=EngineKind.CPU, sequences=1)
    found = overheads(SMOL, wish, card_bytes=24 * GIB, graphs_in_budget=True, learned_bytes=0)
    assert found.outside == 0
    assert found.in_budget + 134_515_008 * 4 + 256 * 2**20 == pytest.approx(2.7 * GIB, abs=0.15 * GIB)


def test_what_a_host_has_taught_is_added_and_said() -> None:
    plain: Any = overheads(LLAMA, FitWish(4096), card_bytes=V100.total_bytes, graphs_in_budget=True, learned_bytes=0)
    taught = overheads(LLAMA, FitWish(4096), card_bytes=V100.total_bytes, graphs_in_budget=True, learned_bytes=GIB)
    assert taught.total == plain.total + GIB
    assert taught.assumptions[-1].key == "overhead_learned"


def test_the_parts_of_an_overhead_add_up() -> None:
    found = overheads(LLAMA, FitWish(4096, gpus=2), card_bytes=V100.total_bytes, graphs_in_budget=True, learned_bytes=7)
    assert sum(part.bytes or 0 for part in found.assumptions) == found.total
