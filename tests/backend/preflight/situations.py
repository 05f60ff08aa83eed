"""Situations in which nothing speaks against the launch, to change one thing of."""

from dataclasses import replace
from typing import Any

from backend.environment.probe import EnvironmentProbe
from backend.fit.estimate import FitEstimate, Verdict, estimate
from backend.fit.model_facts import ModelFacts, facts_from_config, with_file_sizes
from backend.fit.wish import CardMemory, FitWish
from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools
from backend.launch.preset import Preset
from backend.preflight.situation import (
    CardSituation,
    EngineModels,
    HostSituation,
    ListenSituation,
    ModelSituation,
    Situation,
)

GIB = 1024**3
ARCHS = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 32768,
}
WORDS = {"en": "A test", "zh": "测试"}
PRESET: dict[str, Any] = {
    "name": "a-preset",
    "title": WORDS,
    "summary": WORDS,
    "model": {"name": "A-Model"},
    "served_name": "a-model",
    "engine": "volta",
    "card": None,
    "gpus": 1,
    "dtype": "float16",
    "context": 8192,
    "memory_utilization": 0.9,
    "max_sequences": 4,
}


def facts(size_gib: float = 8.0, **config: Any) -> ModelFacts:
    return with_file_sizes(facts_from_config({**CONFIG, **config}, file="config.json"), int(size_gib * GIB))


def preset(**changes: Any) -> Preset:
    return Preset.model_validate({**PRESET, **changes})


def cpu_preset(**changes: Any) -> Preset:
    own = {"engine": "cpu", "gpus": 0, "memory_utilization": None, "kv_cache_gib": 2.0, "dtype": "bfloat16"}
    return preset(**{**own, **changes})


def probe(**changes: Any) -> EnvironmentProbe:
    values: dict[str, Any] = {
        "identity": "i",
        "taken_at": 0.0,
        "python": "3.12.1",
        "vllm": "0.19.1",
        "torch": "2.10.0+cu128",
        "transformers": "5.0",
        "cuda": "12.8",
        "torch_archs": ARCHS,
        "plugins": ("dflash2",),
        "flags": frozenset({"--dtype"}),
        "is_cpu_build": False,
        "dflash2": "1.0",
    }
    return EnvironmentProbe(**{**values, **changes})


def cpu_probe() -> EnvironmentProbe:
    return probe(torch="2.10.0+cpu", cuda=None, torch_archs=(), is_cpu_build=True, plugins=(), dflash2=None)


def tools(**changes: Any) -> EngineTools:
    values: dict[str, Any] = {
        "kind": EngineKind.VOLTA,
        "environment": "env12345",
        "flags": frozenset({"--dtype"}),
        "vllm": "0.19.1",
        "plugins": ("dflash2",),
    }
    return EngineTools(**{**values, **changes})


def card(number: int = 1, **changes: Any) -> CardSituation:
    values: dict[str, Any] = {
        "uuid": f"GPU-{number}",
        "name": "Tesla V100-SXM2-32GB",
        "capability": (7, 0),
        "total_bytes": 32 * GIB,
        "used_bytes": 0,
        "users": (),
    }
    return CardSituation(**{**values, **changes})


def h100(**changes: Any) -> CardSituation:
    return card(**{"name": "NVIDIA H100 80GB", "capability": (9, 0), "total_bytes": 80 * GIB, **changes})


def model(**changes: Any) -> ModelSituation:
    values: dict[str, Any] = {
        "name": "A-Model",
        "folder": "/models/a",
        "facts": facts(),
        "was_checked": True,
        "weight_bytes": 8 * GIB,
        "declared_quantization": "",
    }
    return ModelSituation(**{**values, **changes})


def host(**changes: Any) -> HostSituation:
    values: dict[str, Any] = {
        "memory_total_bytes": 64 * GIB,
        "memory_available_bytes": 48 * GIB,
        "disk_free_bytes": 100 * GIB,
    }
    return HostSituation(**{**values, **changes})


def fit(verdict: Verdict = Verdict.FITS, **changes: Any) -> FitEstimate:
    """An estimate of this verdict, of which only the verdict was changed."""
    found = estimate(facts(), FitWish(context=8192, sequences=4, engine=EngineKind.VOLTA), CardMemory(32 * GIB))
    return replace(found, verdict=verdict, **changes)


MODELS = EngineModels(
    frozenset({"LlamaForCausalLM", "Qwen3ForCausalLM"}),
    frozenset({"AquilaForCausalLM"}),
    frozenset({"FnetForMaskedLM"}),
    frozenset({"llama", "qwen3"}),
)


def situation(**changes: Any) -> Situation:
    """A V100 that is free, with everything it needs."""
    values: dict[str, Any] = {
        "preset": preset(),
        "tools": tools(),
        "model": model(),
        "probe": probe(),
        "engine_models": MODELS,
        "cards": (card(),),
        "driver_version": "580.95.05",
        "open_kernel_module": False,
        "host": host(),
        "listen": ListenSituation(port=8100, port_free=True, host_is_local=True),
        "estimate": fit(),
    }
    return Situation(**{**values, **changes})


def cpu_situation(**changes: Any) -> Situation:
    """The CPU engine on a machine with room."""
    values: dict[str, Any] = {
        "preset": cpu_preset(),
        "tools": tools(kind=EngineKind.CPU, plugins=()),
        "probe": cpu_probe(),
        "cards": (),
        "driver_version": "",
        "open_kernel_module": None,
    }
    return situation(**{**values, **changes})
