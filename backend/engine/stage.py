"""Stages of a start, as values: a leaf, so that both an engine's status and the explanation of its failure can name one."""

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """How far a start has come, in order. Read from the engine's log; the last by /health."""

    SPAWN = "spawn"  # process created, nothing logged yet
    IMPORTS = "imports"  # Python and vLLM are loading, arguments parsed
    WEIGHTS = "weights"  # weights are read
    KV_CACHE = "kv_cache"  # KV cache is sized and allocated
    WARM_UP = "warm_up"  # profiling, compilation, graph capture, server start
    READY = "ready"


@dataclass(frozen=True)
class StageProgress:
    """A stage and, where the log tells it, how much of it is done."""

    stage: Stage
    percent: int | None = None
