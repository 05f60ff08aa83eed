"""Model shapes for the tests: 18 published ones with the numbers that vLLM's own arithmetic gives for them."""

import json
from pathlib import Path
from typing import Any

from backend.fit.kv_layout import KvLayout, KvSettings, kv_layout
from backend.fit.kv_rules import kv_rules
from backend.fit.model_facts import ModelFacts, facts_from_config
from backend.launch.engine_kind import EngineKind

GIB = 2**30
MODELS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("models.json").read_text(encoding="utf-8"))


def facts(config: dict[str, Any]) -> ModelFacts:
    return facts_from_config(config, file="config.json")


def shape(layers: int, heads: int, kv_heads: int, head_dim: int, **more: Any) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "hidden_size": heads * head_dim,
        **more,
    }


def layout(
    config: dict[str, Any],
    *,
    version: str = "0.32.0",
    engine: EngineKind = EngineKind.CUDA,
    element_bytes: int = 2,
    model_bytes: int = 2,
    **settings: Any,
) -> KvLayout:
    stages = settings.get("pipeline_parallel", 1)
    rules = kv_rules(version, engine, pipeline_parallel=stages)
    return kv_layout(facts(config), KvSettings(rules, element_bytes, model_bytes, **settings))
