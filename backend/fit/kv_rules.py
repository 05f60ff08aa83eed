"""How one vLLM plans and reports its KV cache: what changed between 0.19.1, 0.23.0 and 0.32.0, read from their sources.

Public logs of Gemma 4 put the new report at 0.21. A version between two of these that nobody looked at counts as the newer
one, which asks for more memory.
"""

from dataclasses import dataclass
from enum import StrEnum

from backend.fit.cpu_features import CpuFeatures
from backend.launch.engine_kind import EngineKind


class KvReporting(StrEnum):
    """What the logged "KV cache size: N tokens" means."""

    BLOCKS = "blocks"  # blocks // groups * block size: too low where layers keep only a window
    REQUESTS = "requests"  # requests of full length that fit, times that length


@dataclass(frozen=True)
class KvRules:
    """The rules of one vLLM on one kind of device."""

    reporting: KvReporting
    in_flight_steps: int  # steps whose tokens a window layer keeps at once
    spare_blocks: int  # blocks held back when it is asked whether one request fits
    default_block: int  # tokens
    kernel_block: int  # tokens; blocks of hybrid models are multiples of it
    mla_kernel_block: int  # the same where the attention layers are MLA
    mla_block: int  # tokens of a block of a model whose layers are all MLA
    hybrid_prefix_caching: bool  # on by default for models with recurrent layers
    keeps_state_a_block: bool  # Mamba keeps a state for every block of a cached beginning
    mamba2_checkpoints: int  # states that Mamba-2 keeps of a prompt being read, where beginnings are cached
    guesses_beside_blocks: bool  # and one more for every guessed token
    aligns_to_block: bool  # a hybrid's block is a multiple of the block asked for, not only at least as large
    wide_states: bool  # recurrent matrices are float32, whatever the model says
    pads_pages: bool  # pages that do not divide are padded; older versions refuse
    offload_needs_one_kind: bool  # KV offload switches the hybrid KV cache manager off
    graphs_in_budget: bool  # CUDA graphs are taken from what utilization allows


def kv_rules(
    version: str | None, engine: EngineKind, *, pipeline_parallel: int = 1, cpu: CpuFeatures | None = None
) -> KvRules:
    """The rules of this vLLM. None: not known; then those of 0.19.1 for engine: volta and of 0.32 for the others.

    `cpu` counts for the CPU engine only.
    """
    features = cpu or CpuFeatures()
    number = _number(version, engine)
    is_cpu = engine is EngineKind.CPU
    is_new, is_newest = number >= (0, 21), number >= (0, 24)
    in_flight = pipeline_parallel + 1 if is_newest and not is_cpu else 1
    kernel = 32 if is_cpu and is_new else 16
    return KvRules(
        reporting=KvReporting.REQUESTS if is_new else KvReporting.BLOCKS,
        in_flight_steps=in_flight,
        spare_blocks=1 if is_newest else 0,
        default_block=128 if is_cpu else 16,
        kernel_block=kernel,
        mla_kernel_block=128 if is_newest else 64,
        mla_block=128 if is_cpu and is_newest and features.amx else 16,
        hybrid_prefix_caching=is_newest,
        keeps_state_a_block=not is_newest,
        mamba2_checkpoints=1 if is_newest else 0,
        guesses_beside_blocks=is_new,
        aligns_to_block=is_new,
        wide_states=is_cpu and is_newest and features.bfloat16,
        pads_pages=is_newest,
        offload_needs_one_kind=not is_new,
        graphs_in_budget=is_new,
    )


def _number(version: str | None, engine: EngineKind) -> tuple[int, ...]:
    if version is None:
        return (0, 19) if engine is EngineKind.VOLTA else (0, 32)
    parts = []
    for word in version.split("+")[0].split(".")[:2]:
        digits = "".join(letter for letter in word if letter.isdigit())
        parts.append(int(digits or 0))
    return tuple(parts)
