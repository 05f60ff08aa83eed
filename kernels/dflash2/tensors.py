"""From torch tensors to launches: checks what a kernel takes for granted, then reads addresses and strides.

Works on tensors of any device; only addresses are taken, nothing is copied, synchronised or allocated.
"""

from __future__ import annotations

from typing import NoReturn

import torch

from dflash2 import launches
from dflash2.arguments import CHUNK_HALVES
from dflash2.dispatch import (
    HeadLayout,
    decode_variant,
    kv_write_variant,
    merge_variant,
    prefill_variant,
    require_supported,
)
from dflash2.errors import ShapeUnsupported
from dflash2.launches import CacheStrides, Launch, NewTokens, PagedCache, Partials, Queries, Scoring

_ALIGNMENT_BYTES = 16
_STATISTICS_A_ROW = 2
_MOST_CACHE_CHUNKS = 1 << 32  # the kernels count chunks in 32 bits: 64 GiB of K or of V


def plan_prefill(queries: Queries, cache: PagedCache, score: Scoring, head_dim: int) -> list[Launch]:
    """The launch of prefill attention."""
    return [launches.prefill_launch(prefill_variant(head_dim), queries, cache, score)]


def plan_decode(queries: Queries, cache: PagedCache, score: Scoring, head_dim: int, partials: Partials) -> list[Launch]:
    """The launches of decode attention: with several splits a merge follows."""
    variant = decode_variant(head_dim, queries.longest * queries.group_size)
    attend = launches.decode_launch(variant, queries, cache, score, partials)
    if partials.splits == 1:
        return [attend]
    return [attend, launches.merge_launch(merge_variant(head_dim), queries, score, partials)]


def plan_kv_write(
    keys: torch.Tensor,
    values: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> list[Launch]:
    """The launch that stores [tokens][kv_heads][head_dim] keys and values at their slots."""
    for name, tensor in (("keys", keys), ("values", values)):
        _require_rows(name, tensor, torch.float16)
    _require_int("slot_mapping", slot_mapping, torch.int64)
    strides = _cache_strides(key_cache, value_cache)
    if keys.stride() != values.stride() or keys.shape != values.shape:
        _refuse(f"keys {tuple(keys.shape)} and values {tuple(values.shape)} differ in shape or strides")
    tokens, kv_heads, head_dim = keys.shape
    new = NewTokens(
        keys=keys.data_ptr(),
        values=values.data_ptr(),
        slot_mapping=slot_mapping.data_ptr(),
        tokens=min(tokens, slot_mapping.shape[0]),
        token_stride=keys.stride(0),
        kv_heads=kv_heads,
        head_dim=head_dim,
    )
    page_size = key_cache.shape[1]
    addresses = key_cache.data_ptr(), value_cache.data_ptr()
    return [launches.kv_write_launch(kv_write_variant(), new, *addresses, page_size, strides)]


def queries_of(
    query: torch.Tensor,
    output: torch.Tensor,
    query_start: torch.Tensor,
    kv_length: torch.Tensor,
    *,
    longest: int,
    kv_heads: int,
) -> Queries:
    """The query side of a batch; query and output are [tokens][query_heads][head_dim]."""
    for name, tensor in (("query", query), ("output", output)):
        _require_rows(name, tensor, torch.float16)
    if query.shape != output.shape:
        _refuse(f"query is {tuple(query.shape)} and output {tuple(output.shape)}")
    _require_int("query_start", query_start, torch.int32)
    _require_int("kv_length", kv_length, torch.int32)
    if query_start.shape[0] != kv_length.shape[0] + 1:
        _refuse(f"{kv_length.shape[0]} lengths need {kv_length.shape[0] + 1} query starts, not {query_start.shape[0]}")
    return Queries(
        query=query.data_ptr(),
        output=output.data_ptr(),
        query_start=query_start.data_ptr(),
        kv_length=kv_length.data_ptr(),
        query_token_stride=query.stride(0),
        output_token_stride=output.stride(0),
        tokens=query.shape[0],
        sequences=kv_length.shape[0],
        longest=longest,
        query_heads=query.shape[1],
        kv_heads=kv_heads,
    )


def cache_of(key_cache: torch.Tensor, value_cache: torch.Tensor, block_table: torch.Tensor) -> PagedCache:
    """The cache side: K and V are [pages][page_size][kv_heads][head_dim] views of any strides, the table is int32."""
    if block_table.dtype != torch.int32 or block_table.dim() != 2 or block_table.stride(1) != 1:
        _refuse(f"block_table must be an int32 matrix of whole rows, not {block_table.dtype} {block_table.stride()}")
    return PagedCache(
        keys=key_cache.data_ptr(),
        values=value_cache.data_ptr(),
        block_table=block_table.data_ptr(),
        block_table_stride=block_table.stride(0),
        page_size=key_cache.shape[1],
        strides=_cache_strides(key_cache, value_cache),
    )


def partials_of(workspace: torch.Tensor, queries: Queries, head_dim: int, splits: int) -> Partials:
    """Cut the workspace of split decode into outputs and statistics; too small a one is refused."""
    needed = workspace_floats(queries.rows, head_dim, splits)
    if workspace.dtype != torch.float32 or not workspace.is_contiguous() or workspace.numel() < needed:
        _refuse(f"the workspace must be {needed} contiguous float32, not {workspace.numel()} {workspace.dtype}")
    address = workspace.data_ptr()
    return Partials(address, address + splits * queries.rows * head_dim * workspace.element_size(), splits)


def workspace_floats(rows: int, head_dim: int, splits: int) -> int:
    """Size of the workspace for `rows` = tokens * query heads; nothing without a split."""
    return 0 if splits == 1 else splits * rows * (head_dim + _STATISTICS_A_ROW)


def require_layout(query: torch.Tensor, key_cache: torch.Tensor) -> HeadLayout:
    """The head layout of a call; raises ShapeUnsupported when no kernel serves it."""
    heads = HeadLayout(query.shape[1], key_cache.shape[2], query.shape[2])
    if key_cache.shape[3] != heads.head_dim:
        _refuse(f"queries have head dim {heads.head_dim}, the cache {key_cache.shape[3]}")
    require_supported(heads, key_cache.shape[1])
    return heads


def _cache_strides(key_cache: torch.Tensor, value_cache: torch.Tensor) -> CacheStrides:
    for name, tensor in (("key_cache", key_cache), ("value_cache", value_cache)):
        if tensor.dim() != 4 or tensor.dtype != torch.float16:
            _refuse(f"{name} must be FP16 [pages][page_size][kv_heads][head_dim], not {tensor.dtype} {tensor.shape}")
        _require_chunks(name, tensor)
    if key_cache.stride() != value_cache.stride() or key_cache.shape != value_cache.shape:
        _refuse(f"K and V differ: strides {key_cache.stride()} and {value_cache.stride()}")
    if key_cache.shape[0] * key_cache.stride(0) // CHUNK_HALVES >= _MOST_CACHE_CHUNKS:
        _refuse(f"a cache of {key_cache.shape[0]} pages is larger than 64 GiB, which the kernels cannot address")
    page, token, head, _ = key_cache.stride()
    return CacheStrides(page, token, head)


def _require_rows(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    """[tokens][heads][head_dim] with whole, adjacent heads."""
    if tensor.dim() != 3 or tensor.dtype != dtype or tensor.stride(1) != tensor.shape[2]:
        _refuse(f"{name} must be {dtype} [tokens][heads][head_dim] with adjacent heads, not {tensor.dtype} of strides"
                f" {tensor.stride()}")  # fmt: skip
    _require_chunks(name, tensor)


def _require_chunks(name: str, tensor: torch.Tensor) -> None:
    """Rows of whole 16-byte chunks at 16-byte addresses."""
    if tensor.stride(-1) != 1 or any(stride % CHUNK_HALVES for stride in tensor.stride()[:-1]):
        _refuse(f"{name} has strides {tensor.stride()}; all but the last must be multiples of {CHUNK_HALVES}, that 1")
    if tensor.data_ptr() % _ALIGNMENT_BYTES:
        _refuse(f"{name} does not start at a multiple of {_ALIGNMENT_BYTES} bytes")


def _require_int(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    if tensor.dtype != dtype or tensor.dim() != 1 or not tensor.is_contiguous():
        _refuse(f"{name} must be a contiguous {dtype} vector, not {tensor.dtype} {tuple(tensor.shape)}")


def _refuse(message: str) -> NoReturn:
    raise ShapeUnsupported(message)
