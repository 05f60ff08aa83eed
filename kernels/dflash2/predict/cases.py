"""dflash2's own kernels as launches the model can time: shapes in, predicted times out.

The cache is vLLM's: pages of `page_size` tokens, token rows of all KV heads side by side. What the model cannot know is
set here: the share of L1 misses that HBM serves. Prefill re-reads K and V from L2 (11.5 % from HBM: 1Cat measured an L2
hit rate of 88.5 %), decode and the KV write stream them, and the merge reads partial results that L2 still holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dflash2.arguments import (
    CHUNK_HALVES,
    DecodeArguments,
    KvWriteArguments,
    MergeArguments,
    PagedCacheArguments,
    PrefillArguments,
    divide_by_page_size,
    scoring,
)
from dflash2.build import compile_variant
from dflash2.nvrtc import Nvrtc
from dflash2.predict.emulation import Launch
from dflash2.predict.forecast import (
    CtaCost,
    Forecast,
    Kernel,
    Setting,
    cta_cost,
    load_kernel,
    predict_uniform,
    schedule,
)
from dflash2.predict.machine import Machine
from dflash2.predict.memory import Buffer, DeviceMemory
from dflash2.predict.warp import Dim3
from dflash2.variants import DecodeTile, KernelVariant, PrefillTile

PREFILL_HBM_SHARE = 0.115
HALF_BYTES = 2
_LARGE = 1 << 34
_CACHE_LIMIT_BYTES = 1 << 35  # a buffer's addresses end at 2^36; more pages than this repeat
_EXTRAPOLATE_ABOVE_KEYS = 4096


class KernelLibrary:
    """Compiles and decodes variants, each once."""

    def __init__(self) -> None:
        self._compiler: Nvrtc | None = None
        self._kernels: dict[KernelVariant, Kernel] = {}

    def kernel(self, variant: KernelVariant) -> Kernel:
        """The decoded kernel of a variant. Raises ToolMissing without NVRTC or nvdisasm."""
        if variant not in self._kernels:
            self._compiler = self._compiler or Nvrtc()
            cubin = compile_variant(self._compiler, variant).cubin
            self._kernels[variant] = load_kernel(cubin, variant.entry_point)
        return self._kernels[variant]


@dataclass(frozen=True)
class AttentionShape:
    """A batch of equal sequences: heads, and tokens of query and of context (the queries' own included)."""

    query_heads: int
    kv_heads: int
    head_dim: int
    query_tokens: int
    context_tokens: int
    sequences: int = 1
    page_size: int = 16

    @property
    def group_size(self) -> int:
        """Query heads a KV head."""
        return self.query_heads // self.kv_heads

    @property
    def causal_flop(self) -> float:
        """Floating-point operations of causal attention: two products over the visible keys."""
        hidden = self.query_tokens * (self.query_tokens - 1) / 2
        visible = self.query_tokens * self.context_tokens - hidden
        return 4 * self.sequences * self.query_heads * self.head_dim * visible

    @property
    def kv_bytes(self) -> int:
        """Bytes of K and V in FP16."""
        return 2 * self.sequences * self.context_tokens * self.kv_heads * self.head_dim * HALF_BYTES


# ---- prefill


def prefill_cost(library: KernelLibrary, variant: KernelVariant, shape: AttentionShape, machine: Machine) -> CtaCost:
    """Cycles of one block as a function of its key blocks. Depends on the shape's heads and pages, not its lengths."""
    tile = _prefill_tile(variant)
    shortest = max(2, tile.query_rows // tile.keys + 2) + 2

    def launch_for(key_blocks: int) -> Launch:
        keys = key_blocks * tile.keys
        return _prefill_launch(variant, replace(shape, query_tokens=tile.query_rows, context_tokens=keys, sequences=1))

    def ctas(slots: int) -> list[Dim3]:
        return [(index * shape.group_size % shape.query_heads, 0, 0) for index in range(slots)]

    setting = Setting(machine, variant.shared_memory_bytes)
    return cta_cost(library.kernel(variant), launch_for, setting, trips=(shortest, shortest + 8), ctas=ctas)


def prefill_seconds(cost: CtaCost, variant: KernelVariant, shape: AttentionShape) -> float:
    """Makespan of all blocks in launch order: heads, then sequences, then query blocks from the heaviest down."""
    tile = _prefill_tile(variant)
    durations = []
    for block in reversed(range(math.ceil(shape.query_tokens / tile.query_rows))):
        last_query = min((block + 1) * tile.query_rows, shape.query_tokens)
        visible = shape.context_tokens - shape.query_tokens + last_query
        durations += [cost.cycles(math.ceil(visible / tile.keys))] * (shape.query_heads * shape.sequences)
    machine = cost.machine
    return schedule(durations, machine.sms * cost.slots) / machine.clock_hz + machine.launch_s


def _prefill_tile(variant: KernelVariant) -> PrefillTile:
    if not isinstance(variant.tile, PrefillTile):
        raise TypeError(f"{variant.name} is no prefill kernel")
    return variant.tile


def _prefill_launch(variant: KernelVariant, shape: AttentionShape) -> Launch:
    query, output = _buffers(2, hbm_fraction=1)
    cache = _Cache(shape, PREFILL_HBM_SHARE)
    starts, lengths = _sequence_buffers(shape)
    memory = DeviceMemory([query, output, *cache.buffers, starts, lengths])
    stride = shape.query_heads * shape.head_dim
    arguments = PrefillArguments(
        query=memory.address_of(query),
        output=memory.address_of(output),
        query_start=memory.address_of(starts),
        kv_length=memory.address_of(lengths),
        query_token_stride=stride,
        output_token_stride=stride,
        query_heads=shape.query_heads,
        group_size=shape.group_size,
        cache=cache.arguments(memory),
        scoring=scoring(scale=shape.head_dim**-0.5),
    )
    return Launch((variant.threads, 1, 1), (shape.query_heads, 1, 1), bytes(arguments), memory)


# ---- decode and merge


def predict_decode(
    library: KernelLibrary, variant: KernelVariant, shape: AttentionShape, splits: int, machine: Machine
) -> Forecast:
    """Time of one decode launch, without the merge that follows when there are several splits."""
    keys = math.ceil(shape.context_tokens / splits)

    def launch_for(keys_per_split: int) -> Launch:
        context = keys_per_split * splits if keys_per_split else shape.context_tokens
        return _decode_launch(variant, replace(shape, context_tokens=context), splits)

    trips = (_EXTRAPOLATE_ABOVE_KEYS // 2, _EXTRAPOLATE_ABOVE_KEYS, keys) if keys > _EXTRAPOLATE_ABOVE_KEYS else None
    setting = Setting(machine, variant.shared_memory_bytes)
    return predict_uniform(library.kernel(variant), launch_for, setting, trips=trips)


def _decode_launch(variant: KernelVariant, shape: AttentionShape, splits: int) -> Launch:
    if not isinstance(variant.tile, DecodeTile):
        raise TypeError(f"{variant.name} is no decode kernel")
    query, output, partial, statistic = _buffers(4)
    cache = _Cache(shape, hbm_fraction=1)
    starts, lengths = _sequence_buffers(shape)
    memory = DeviceMemory([query, output, partial, statistic, *cache.buffers, starts, lengths])
    stride = shape.query_heads * shape.head_dim
    arguments = DecodeArguments(
        query=memory.address_of(query),
        output=memory.address_of(output),
        partial_output=memory.address_of(partial),
        partial_statistic=memory.address_of(statistic),
        query_start=memory.address_of(starts),
        kv_length=memory.address_of(lengths),
        query_token_stride=stride,
        output_token_stride=stride,
        query_heads=shape.query_heads,
        group_size=shape.group_size,
        row_count=shape.sequences * shape.query_tokens * shape.query_heads,
        split_count=splits,
        cache=cache.arguments(memory),
        scoring=scoring(scale=shape.head_dim**-0.5),
    )
    column_blocks = math.ceil(shape.query_tokens * shape.group_size / variant.tile.columns)
    grid = (splits, shape.kv_heads * column_blocks, shape.sequences)
    return Launch((variant.threads, 1, 1), grid, bytes(arguments), memory)


def predict_merge(
    library: KernelLibrary, variant: KernelVariant, shape: AttentionShape, splits: int, machine: Machine
) -> Forecast:
    """Time of the merge of `splits` partial results."""
    rows = shape.sequences * shape.query_tokens * shape.query_heads
    partial, statistic, output = _buffers(3)
    memory = DeviceMemory([partial, statistic, output])
    arguments = MergeArguments(
        partial_output=memory.address_of(partial),
        partial_statistic=memory.address_of(statistic),
        output=memory.address_of(output),
        output_token_stride=shape.query_heads * shape.head_dim,
        query_heads=shape.query_heads,
        row_count=rows,
        split_count=splits,
        scale_log2=1.0,
    )
    launch = Launch((variant.threads, 1, 1), (rows, 1, 1), bytes(arguments), memory)
    return predict_uniform(library.kernel(variant), lambda _: launch, Setting(machine))


# ---- KV write


def predict_kv_write(
    library: KernelLibrary, variant: KernelVariant, shape: AttentionShape, machine: Machine
) -> Forecast:
    """Time of storing the keys and values of `sequences` * `query_tokens` new tokens."""
    tokens, head_chunks = shape.sequences * shape.query_tokens, shape.head_dim // CHUNK_HALVES
    keys, values, key_cache, value_cache = _buffers(4, hbm_fraction=1)
    slots = Buffer(8 * tokens, np.arange(tokens, dtype=np.int64))
    memory = DeviceMemory([keys, values, key_cache, value_cache, slots])
    arguments = KvWriteArguments(
        keys=memory.address_of(keys),
        values=memory.address_of(values),
        key_cache=memory.address_of(key_cache),
        value_cache=memory.address_of(value_cache),
        slot_mapping=memory.address_of(slots),
        token_count=tokens,
        kv_heads=shape.kv_heads,
        head_dim_chunks=head_chunks,
        token_stride=shape.kv_heads * shape.head_dim,
        page_size=shape.page_size,
        page_stride_chunks=2 * shape.page_size * shape.kv_heads * head_chunks,
        token_stride_chunks=shape.kv_heads * head_chunks,
        head_stride_chunks=head_chunks,
    )
    launch = Launch((variant.threads, 1, 1), (tokens, 1, 1), bytes(arguments), memory)
    return predict_uniform(library.kernel(variant), lambda _: launch, Setting(machine))


# ---- buffers


class _Cache:
    """A paged KV cache and its block table, whose pages lie in order."""

    def __init__(self, shape: AttentionShape, hbm_fraction: float) -> None:
        self._shape = shape
        self._head_chunks = shape.head_dim // CHUNK_HALVES
        self._page_chunks = 2 * shape.page_size * shape.kv_heads * self._head_chunks
        self._pages_per_sequence = math.ceil(shape.context_tokens / shape.page_size)
        page_limit = _CACHE_LIMIT_BYTES // (self._page_chunks * CHUNK_HALVES * HALF_BYTES)
        pages = np.arange(shape.sequences * self._pages_per_sequence, dtype=np.int32) % page_limit
        self._keys, self._values = _buffers(2, hbm_fraction=hbm_fraction)
        self._table = Buffer(pages.nbytes, pages)
        self.buffers: Sequence[Buffer] = (self._keys, self._values, self._table)

    def arguments(self, memory: DeviceMemory) -> PagedCacheArguments:
        """The cache as the kernels get it."""
        division = divide_by_page_size(self._shape.page_size)
        return PagedCacheArguments(
            keys=memory.address_of(self._keys),
            values=memory.address_of(self._values),
            block_table=memory.address_of(self._table),
            block_table_stride=self._pages_per_sequence,
            page_size=self._shape.page_size,
            page_magic=division.magic,
            page_shift=division.shift,
            page_stride_chunks=self._page_chunks,
            token_stride_chunks=self._shape.kv_heads * self._head_chunks,
            head_stride_chunks=self._head_chunks,
        )


def _buffers(count: int, hbm_fraction: float = 0.0) -> list[Buffer]:
    return [Buffer(_LARGE, hbm_fraction=hbm_fraction) for _ in range(count)]


def _sequence_buffers(shape: AttentionShape) -> tuple[Buffer, Buffer]:
    """First query token of each sequence (and the end), and the context length of each."""
    starts = np.arange(shape.sequences + 1, dtype=np.int32) * shape.query_tokens
    lengths = np.full(shape.sequences, shape.context_tokens, np.int32)
    return Buffer(starts.nbytes, starts.astype(np.int32)), Buffer(lengths.nbytes, lengths)
