"""What a launch asks for, as far as memory depends on it, and the card it would run on."""

from dataclasses import dataclass, field
from typing import Literal

from backend.fit.cpu_features import CpuFeatures
from backend.fit.layers import KvLayer
from backend.fit.learned_overhead import LearnedOverhead
from backend.launch.engine_kind import EngineKind

DEFAULT_UTILIZATION_OLD = 0.9  # vLLM 0.19.1
DEFAULT_UTILIZATION = 0.92  # vLLM 0.23.0 and 0.32.0


@dataclass(frozen=True)
class FitWish:
    """One launch. None leaves a thing to the engine."""

    context: int  # tokens, prompt and answer together
    sequences: int | None = None  # worked on at once
    utilization: float | None = None  # share of each card, 0 to 1; not for the CPU engine
    batched_tokens: int | None = None  # of one step
    dtype: str = "auto"  # what is calculated in
    kv_dtype: str | None = None  # of the KV cache
    quantization: str | None = None  # asked for; the checkpoint's own counts where it has one
    gpus: int = 1
    parallel: Literal["tensor", "pipeline"] = "tensor"
    eager: bool = False  # no CUDA graphs
    prefix_caching: bool | None = None
    block_size: int | None = None  # tokens
    hybrid_manager: bool | None = None
    speculative_tokens: int = 0
    uses_mtp: bool = False  # guesses with the model's own layers
    draft_bytes: int = 0  # weights of another model that guesses
    draft_layers: tuple[KvLayer, ...] = ()  # and what its layers keep
    weights_offload_bytes: int = 0  # of each card's weights, kept in main memory
    kv_offload_bytes: int = 0  # main memory for KV cache
    kv_cache_bytes: int | None = None  # a size of its own instead of a share of the card; the CPU engine needs it
    text_only: bool = False  # pictures and sound are not loaded
    cpu: CpuFeatures = CpuFeatures()  # of the machine; for the CPU engine
    engine: EngineKind = EngineKind.CUDA
    version: str | None = None  # of vLLM


@dataclass(frozen=True)
class CardMemory:
    """One card, or the machine's main memory for the CPU engine. Of several cards the one with least room."""

    total_bytes: int
    used_by_others_bytes: int = 0
    learned: LearnedOverhead = field(default_factory=LearnedOverhead)
