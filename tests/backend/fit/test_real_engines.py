"""Real starts of vLLM 0.32.0 on a CPU with small models of every kind of layer: the logged tokens come out exactly.

Each log keeps the lines about memory of a start with random weights, 6,000 tokens of context and 300,000,000 bytes of KV
cache, on a CPU with AVX512-BF16 and AMX.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from backend.fit.cpu_features import CpuFeatures
from backend.fit.engine_log import read_figures
from backend.fit.estimate import estimate
from backend.fit.model_facts import facts_from_config, with_file_sizes
from backend.fit.wish import FitWish
from backend.launch.engine_kind import EngineKind
from tests.backend.fit.fit_cards import RAM

LOGS = Path(__file__).with_name("logs")
SHAPES: dict[str, dict[str, Any]] = json.loads((LOGS / "shapes.json").read_text(encoding="utf-8"))
WISH = FitWish(
    6000,
    engine=EngineKind.CPU,
    version="0.32.0",
    dtype="bfloat16",
    kv_cache_bytes=300_000_000,
    cpu=CpuFeatures(bfloat16=True, amx=True),
)


@pytest.mark.parametrize("name", SHAPES)
def test_the_logged_tokens_come_out_exactly(name: str) -> None:
    lines = (LOGS / f"cpu-0.32.0-{name}-shape.log").read_text(encoding="utf-8").splitlines()
    figures = read_figures(lines)
    model = with_file_sizes(facts_from_config(SHAPES[name], file="config.json"), 100_000_000)
    found = estimate(model, WISH, RAM)
    assert found.kv_tokens == figures.kv_tokens
    assert f"{found.full_requests:.2f}" == f"{figures.concurrency:.2f}"
    if figures.block_size is not None:
        assert found.layout.block_size == figures.block_size
