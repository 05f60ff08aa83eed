"""The torch operators `torch.ops.dflash2.*`: importing this module registers them.

They write into tensors they are given, allocate nothing, never synchronise and launch on the current stream of the
query's device, so they can be captured in a CUDA graph (load the kernels first, by one call outside of the capture).
Fake versions let torch trace them without a card. Wrong tensors raise ShapeUnsupported, never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch

from dflash2.counters import Counters, open_counters
from dflash2.dispatch import HeadLayout
from dflash2.driver import Driver
from dflash2.errors import ShapeUnsupported
from dflash2.launches import UNSPLIT, Launch, Scoring
from dflash2.loader import KernelLoader
from dflash2.tensors import (
    cache_of,
    partials_of,
    plan_decode,
    plan_kv_write,
    plan_prefill,
    queries_of,
    require_layout,
    workspace_floats,
)

_BATCH = "Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor query_start, Tensor kv_length"
_SCORE = "float scale, float softcap=0.0, int window=0"
SCHEMAS = {
    "prefill_attention": f"({_BATCH}, Tensor(a!) output, int longest_query, {_SCORE}) -> ()",
    "decode_attention": (
        f"({_BATCH}, Tensor(a!) output, Tensor(b!) workspace, int longest_query, int splits, {_SCORE}) -> ()"
    ),
    "kv_write": (
        "(Tensor keys, Tensor values, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping) -> ()"
    ),
}


class Runtime:
    """What the operators share in a process: loaded kernels and counters."""

    def __init__(self, loader: KernelLoader, counters: Counters) -> None:
        self.loader = loader
        self.counters = counters

    def launch(self, planned: Sequence[Launch], device: torch.device) -> None:
        """Queue launches on the device's current stream."""
        index = torch.cuda.current_device() if device.index is None else device.index
        with torch.cuda.device(index):
            stream = torch.cuda.current_stream(index).cuda_stream
            for launch in planned:
                self.loader.driver.launch(
                    self.loader.function(launch.variant, index),
                    launch.arguments,
                    grid=launch.grid,
                    block=launch.block,
                    dynamic_shared_bytes=launch.variant.shared_memory_bytes,
                    stream=stream,
                )
                self.counters.count_launch(launch.variant.name)


@cache
def runtime() -> Runtime:
    """The process's runtime, made on first use. Raises ToolMissing or DriverFailed without a working driver."""
    torch.cuda.init()  # makes torch's primary context, which the driver API then shares
    return Runtime(KernelLoader(Driver()), open_counters())


def prefill_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    query_start: torch.Tensor,
    kv_length: torch.Tensor,
    output: torch.Tensor,
    longest_query: int,
    scale: float,
    softcap: float = 0.0,
    window: int = 0,
) -> None:
    """Causal attention of any number of query tokens a sequence, into `output`."""
    _require_one_device(query, key_cache, value_cache, block_table, query_start, kv_length, output)
    heads = require_layout(query, key_cache)
    queries = queries_of(query, output, query_start, kv_length, longest=longest_query, kv_heads=heads.kv_heads)
    cached = cache_of(key_cache, value_cache, block_table)
    planned = plan_prefill(queries, cached, Scoring(scale, softcap, window), heads.head_dim)
    runtime().launch(planned, query.device)


def decode_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    query_start: torch.Tensor,
    kv_length: torch.Tensor,
    output: torch.Tensor,
    workspace: torch.Tensor,
    longest_query: int,
    splits: int,
    scale: float,
    softcap: float = 0.0,
    window: int = 0,
) -> None:
    """Causal attention of few query tokens a sequence, into `output`.

    `splits` comes from dispatch.split_count and `workspace` from new_workspace (empty when splits is 1).
    """
    _require_one_device(query, key_cache, value_cache, block_table, query_start, kv_length, output, workspace)
    heads = require_layout(query, key_cache)
    queries = queries_of(query, output, query_start, kv_length, longest=longest_query, kv_heads=heads.kv_heads)
    partials = UNSPLIT if splits == 1 else partials_of(workspace, queries, heads.head_dim, splits)
    cached = cache_of(key_cache, value_cache, block_table)
    planned = plan_decode(queries, cached, Scoring(scale, softcap, window), heads.head_dim, partials)
    runtime().launch(planned, query.device)


def kv_write(
    keys: torch.Tensor,
    values: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Store new keys and values at their slots (page * page_size + position); a negative slot skips its token."""
    _require_one_device(keys, values, key_cache, value_cache, slot_mapping)
    runtime().launch(plan_kv_write(keys, values, key_cache, value_cache, slot_mapping), keys.device)


def new_workspace(tokens: int, heads: HeadLayout, splits: int, device: torch.device) -> torch.Tensor:
    """Workspace for split decode of up to `tokens` query tokens: make it once, outside of any CUDA graph."""
    floats = workspace_floats(tokens * heads.query_heads, heads.head_dim, splits)
    return torch.empty(floats, dtype=torch.float32, device=device)


def _require_one_device(*tensors: torch.Tensor) -> None:
    devices = {tensor.device for tensor in tensors}
    if len(devices) != 1:
        raise ShapeUnsupported(f"the tensors lie on {', '.join(sorted(map(str, devices)))}", "move them to one device")


def _fake(*_arguments: object) -> None:
    """What tracing sees: nothing is returned, the outputs are mutated."""


def _register() -> torch.library.Library:
    library = torch.library.Library("dflash2", "FRAGMENT")
    for operator in (prefill_attention, decode_attention, kv_write):
        name = operator.__name__
        library.define(name + SCHEMAS[name])
        library.impl(name, operator, "CUDA")
        torch.library.register_fake(f"dflash2::{name}", _fake, lib=library)
    return library


_LIBRARY = _register()  # torch drops the operators when the library object dies
