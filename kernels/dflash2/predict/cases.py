"""dflash2's own kernels as launches the model can time: shapes in, predicted times out.

The cache is vLLM's: pages of `page_size` tokens, token rows of all KV heads side by side. What the model cannot know is
set here: the share of L1 misses that HBM serves. Prefill re-reads K and V from L2 (11.5 % from HBM: 1Cat measured an L2
hit rate of 88.5 %), decode and the KV write stream them, and the merge finds in L2 what fits there.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dflash2 import launches
from dflash2.build import compile_variant
from dflash2.launches import NewTokens, Scoring
from dflash2.nvrtc import Nvrtc
from dflash2.predict.batch import Batch, large_buffers
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
from dflash2.shapes import AttentionShape
from dflash2.variants import KernelVariant, PrefillTile

PREFILL_HBM_SHARE = 0.115
L2_BYTES = 6 << 20
_FLOAT_BYTES = 4
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
    batch = Batch(shape, kv_hbm_share=PREFILL_HBM_SHARE, query_hbm_share=1.0)
    planned = launches.prefill_launch(variant, batch.queries, batch.cache, _scoring(shape))
    # One block of one head is emulated at a time: the grid ends at the heads.
    return _emulated(replace(planned, grid=(shape.query_heads, 1, 1)), batch.memory)


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
    batch = Batch(shape, kv_hbm_share=1.0)
    partials = batch.partials(splits)
    return _emulated(
        launches.decode_launch(variant, batch.queries, batch.cache, _scoring(shape), partials), batch.memory
    )


def predict_merge(
    library: KernelLibrary, variant: KernelVariant, shape: AttentionShape, splits: int, machine: Machine
) -> Forecast:
    """Time of the merge of `splits` partial results."""
    rows = shape.sequences * shape.query_tokens * shape.query_heads
    partial_bytes = splits * rows * shape.head_dim * _FLOAT_BYTES
    spilled = max(0, partial_bytes - L2_BYTES) / partial_bytes  # the rest is where decode attention left it
    batch = Batch(shape, partial_hbm_share=spilled)
    planned = launches.merge_launch(variant, batch.queries, _scoring(shape), batch.partials(splits))
    launch = _emulated(planned, batch.memory)
    return predict_uniform(library.kernel(variant), lambda _: launch, Setting(machine))


# ---- KV write


def predict_kv_write(
    library: KernelLibrary, variant: KernelVariant, shape: AttentionShape, machine: Machine
) -> Forecast:
    """Time of storing the keys and values of `sequences` * `query_tokens` new tokens."""
    tokens = shape.sequences * shape.query_tokens
    keys, values, key_cache, value_cache = large_buffers(4, hbm_fraction=1)
    slots = Buffer(8 * tokens, np.arange(tokens, dtype=np.int64))
    memory = DeviceMemory([keys, values, key_cache, value_cache, slots])
    new = NewTokens(
        keys=memory.address_of(keys),
        values=memory.address_of(values),
        slot_mapping=memory.address_of(slots),
        tokens=tokens,
        token_stride=shape.kv_heads * shape.head_dim,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
    )
    caches = memory.address_of(key_cache), memory.address_of(value_cache)
    planned = launches.kv_write_launch(variant, new, *caches, shape.page_size, shape.cache_strides)
    launch = _emulated(planned, memory)
    return predict_uniform(library.kernel(variant), lambda _: launch, Setting(machine))


def _emulated(planned: launches.Launch, memory: DeviceMemory) -> Launch:
    return Launch(planned.block, planned.grid, bytes(planned.arguments), memory)


def _scoring(shape: AttentionShape) -> Scoring:
    return Scoring(scale=shape.head_dim**-0.5)
