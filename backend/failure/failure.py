"""A failure as a value: the cause as a key with its figures, and the changes that would help. No sentence is in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from backend.engine.stage import Stage

UNKNOWN = "unknown"
VALUE_CHARACTERS = 200
LINE_CHARACTERS = 400
LAST_LINES = 8


class FixKind(StrEnum):
    """What one button changes before the engine is started again."""

    CONTEXT = "context"  # tokens: "896"
    MEMORY_UTILIZATION = "memory_utilization"  # share of the card: "0.85"
    MAX_SEQUENCES = "max_sequences"  # requests at once: "8"
    BATCHED_TOKENS = "batched_tokens"  # tokens of one step: "512"
    KV_CACHE_GIB = "kv_cache_gib"  # GiB: "2"
    DTYPE = "dtype"  # "float16"
    GPUS = "gpus"  # how many cards share the model: "2"
    PORT = "port"  # "" asks for another free one
    DROP_FLAG = "drop_flag"  # the flag without its dashes: "swap-space"
    QUANTIZATION = "quantization"  # "none"
    EAGER = "eager"  # "true": no CUDA graphs, no compilation
    ENVIRONMENT = "environment"  # the recipe of another environment: "v100"
    PARALLEL = "parallel"  # how several cards share: "pipeline"
    CARDS = "cards"  # other cards: their UUIDs, with commas
    KV_CACHE_DTYPE = "kv_cache_dtype"  # "auto"
    CPU_OFFLOAD_GIB = "cpu_offload_gib"  # GiB of each card's weights: "4"
    KV_OFFLOAD_GIB = "kv_offload_gib"  # GiB: "8"
    PREFIX_CACHING = "prefix_caching"  # "true"
    HOST = "host"  # "127.0.0.1": this machine only
    RETRY = "retry"  # "": the same once more


@dataclass(frozen=True)
class Fix:
    """One button: start again with this one thing changed. The value is text, as FixKind says; "" where none is needed."""

    kind: FixKind
    value: str = ""


@dataclass(frozen=True)
class Failure:
    """Why an engine failed. Every text in it is bounded, and came from a log: it is untrusted."""

    rule: str  # which cause, a key of backend.failure.words.WORDS; "unknown" where no rule matched
    values: Mapping[str, str] = field(default_factory=dict)  # for the sentence: {"context": "32768", "limit": "2048"}
    line: str = ""  # the log line that told it, "" when the way it ended did
    phase: Stage | None = None  # how far the start had come; None after READY and when not known
    last_lines: tuple[str, ...] = ()  # of an unknown cause only: the last error lines (at most 8), else the last lines
    fixes: tuple[Fix, ...] = ()  # the likeliest first

    @property
    def is_known(self) -> bool:
        """Whether a rule tells the cause."""
        return self.rule != UNKNOWN


@dataclass(frozen=True)
class LaunchContext:
    """What was asked of the engine that failed, so that a fix can be computed from it. None: the engine's default."""

    context: int | None = None  # tokens
    memory_utilization: float | None = None  # share of a card's memory, 0 to 1
    max_sequences: int | None = None
    batched_tokens: int | None = None  # tokens of one step
    kv_cache_gib: float | None = None
    dtype: str | None = None
    gpus: int | None = None  # cards that share the model
    port: int | None = None
    quantization: str | None = None
    engine: str | None = None  # an EngineKind: "cpu", "volta" or "cuda"
    model: str | None = None  # its folder
    eager: bool | None = None  # no CUDA graphs
