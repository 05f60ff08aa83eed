"""One launch of each kernel: from addresses, strides and counts to a grid and a parameter structure.

The torch ops, the timing model and the tests launch through here. Addresses are plain integers; strides count halves.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from dflash2.arguments import (
    CHUNK_HALVES,
    DecodeArguments,
    KvWriteArguments,
    MergeArguments,
    PagedCacheArguments,
    PrefillArguments,
    divide_by_page_size,
    scoring,
    small_magic,
    word_magic,
)
from dflash2.errors import ShapeUnsupported
from dflash2.variants import DecodeTile, KernelVariant, MergeTile, PrefillTile

Dim3 = tuple[int, int, int]
MOST_GROUPED_COLUMNS = 65536
ArgumentsT = TypeVar("ArgumentsT", bound=ctypes.Structure)


@cache
def _field_names(structure: type[ctypes.Structure]) -> frozenset[str]:
    return frozenset(field[0] for field in structure._fields_)


def _filled(structure: type[ArgumentsT], **fields: Any) -> ArgumentsT:
    """A parameter structure with every field given: ctypes would leave a forgotten one zero and take a misspelt one."""
    names = _field_names(structure)
    if fields.keys() != names:
        odd = ", ".join(sorted(names ^ fields.keys()))
        raise TypeError(f"{structure.__name__} does not have, or was not given: {odd}")
    return structure(**fields)


@dataclass(frozen=True)
class Launch:
    """A kernel, its grid and its parameters (which point to memory that the caller keeps alive)."""

    variant: KernelVariant
    grid: Dim3
    arguments: ctypes.Structure

    @property
    def block(self) -> Dim3:
        """Threads of a block."""
        return (self.variant.threads, 1, 1)


@dataclass(frozen=True)
class CacheStrides:
    """Distances in a paged cache, in halves: from page to page, token to token and head to head."""

    page: int
    token: int
    head: int

    def chunks(self) -> tuple[int, int, int]:
        """The same in 16-byte chunks."""
        return self.page // CHUNK_HALVES, self.token // CHUNK_HALVES, self.head // CHUNK_HALVES


@dataclass(frozen=True)
class PagedCache:
    """A KV cache: K and V with equal strides; the table is [sequences][block_table_stride] of page numbers."""

    keys: int
    values: int
    block_table: int
    block_table_stride: int
    page_size: int
    strides: CacheStrides

    def arguments(self) -> PagedCacheArguments:
        """The cache as the kernels take it."""
        division = divide_by_page_size(self.page_size)
        page, token, head = self.strides.chunks()
        return _filled(
            PagedCacheArguments,
            keys=self.keys,
            values=self.values,
            block_table=self.block_table,
            block_table_stride=self.block_table_stride,
            page_size=self.page_size,
            page_magic=division.magic,
            page_shift=division.shift,
            page_stride_chunks=page,
            token_stride_chunks=token,
            head_stride_chunks=head,
        )


@dataclass(frozen=True)
class Queries:
    """The query tokens of a batch, where their output goes, and the sequences they belong to.

    query and output are [tokens][query_heads][head_dim] with a token stride; query_start [sequences + 1] and kv_length
    [sequences] are int32. `longest` bounds the query tokens of any sequence.
    """

    query: int
    output: int
    query_start: int
    kv_length: int
    query_token_stride: int
    output_token_stride: int
    tokens: int
    sequences: int
    longest: int
    query_heads: int
    kv_heads: int

    @property
    def group_size(self) -> int:
        """Query heads a KV head."""
        return self.query_heads // self.kv_heads

    @property
    def rows(self) -> int:
        """(token, head) pairs."""
        return self.tokens * self.query_heads


@dataclass(frozen=True)
class Scoring:
    """Softmax of scale * q.k, capped to +-softcap by tanh when softcap > 0, over the last `window` keys when > 0."""

    scale: float
    softcap: float = 0.0
    window: int = 0


@dataclass(frozen=True)
class Partials:
    """Workspace of split decode: float32 [splits][rows][head_dim] and [splits][rows][2]. No splits, no workspace."""

    output: int
    statistic: int
    splits: int


UNSPLIT = Partials(0, 0, 1)


def prefill_launch(variant: KernelVariant, queries: Queries, cache: PagedCache, score: Scoring) -> Launch:
    """Attention of any number of query tokens a sequence."""
    tile = variant.tile
    if not isinstance(tile, PrefillTile):
        raise TypeError(f"{variant.name} is no prefill kernel")
    arguments = _filled(
        PrefillArguments,
        query=queries.query,
        output=queries.output,
        query_start=queries.query_start,
        kv_length=queries.kv_length,
        query_token_stride=queries.query_token_stride,
        output_token_stride=queries.output_token_stride,
        query_heads=queries.query_heads,
        group_size=queries.group_size,
        cache=cache.arguments(),
        scoring=scoring(scale=score.scale, softcap=score.softcap, window=score.window),
    )
    blocks = math.ceil(queries.longest / tile.query_rows)
    return Launch(variant, (queries.query_heads, queries.sequences, blocks), arguments)


def decode_launch(
    variant: KernelVariant, queries: Queries, cache: PagedCache, score: Scoring, partials: Partials = UNSPLIT
) -> Launch:
    """Attention of few query tokens a sequence. With several splits it fills `partials`, and a merge must follow."""
    tile = variant.tile
    if not isinstance(tile, DecodeTile):
        raise TypeError(f"{variant.name} is no decode kernel")
    columns = queries.longest * queries.group_size
    if columns * queries.group_size >= MOST_GROUPED_COLUMNS:  # beyond it small_magic divides wrongly
        asked = f"{queries.longest} query tokens of {queries.group_size} heads a group"
        raise ShapeUnsupported(f"{asked} are too many for decode attention", "use prefill attention")
    arguments = _filled(
        DecodeArguments,
        query=queries.query,
        output=queries.output,
        partial_output=partials.output,
        partial_statistic=partials.statistic,
        query_start=queries.query_start,
        kv_length=queries.kv_length,
        query_token_stride=queries.query_token_stride,
        output_token_stride=queries.output_token_stride,
        query_heads=queries.query_heads,
        kv_heads=queries.kv_heads,
        kv_head_magic=word_magic(queries.kv_heads),
        group_size=queries.group_size,
        group_magic=small_magic(queries.group_size),
        row_count=queries.rows,
        split_count=partials.splits,
        share_magic=word_magic(partials.splits * tile.warps),
        cache=cache.arguments(),
        scoring=scoring(scale=score.scale, softcap=score.softcap, window=score.window),
    )
    column_blocks = math.ceil(columns / tile.columns)
    return Launch(variant, (column_blocks, partials.splits, queries.sequences * queries.kv_heads), arguments)


def merge_launch(variant: KernelVariant, queries: Queries, score: Scoring, partials: Partials) -> Launch:
    """Joins the splits that decode_launch left in `partials` into the output."""
    tile = variant.tile
    if not isinstance(tile, MergeTile):
        raise TypeError(f"{variant.name} is no merge kernel")
    arguments = _filled(
        MergeArguments,
        partial_output=partials.output,
        partial_statistic=partials.statistic,
        output=queries.output,
        output_token_stride=queries.output_token_stride,
        row_count=queries.rows,
        split_count=partials.splits,
        scale_log2=scoring(scale=score.scale, softcap=score.softcap).scale_log2,
    )
    return Launch(variant, (queries.query_heads, queries.tokens, tile.blocks), arguments)


@dataclass(frozen=True)
class NewTokens:
    """Keys and values [tokens][kv_heads][head_dim] with a token stride, and their int64 slots [tokens]."""

    keys: int
    values: int
    slot_mapping: int
    tokens: int
    token_stride: int
    kv_heads: int
    head_dim: int


def kv_write_launch(
    variant: KernelVariant, tokens: NewTokens, key_cache: int, value_cache: int, page_size: int, strides: CacheStrides
) -> Launch:
    """Stores new keys and values; a negative slot skips its token."""
    page, token, head = strides.chunks()
    arguments = _filled(
        KvWriteArguments,
        keys=tokens.keys,
        values=tokens.values,
        key_cache=key_cache,
        value_cache=value_cache,
        slot_mapping=tokens.slot_mapping,
        token_count=tokens.tokens,
        kv_heads=tokens.kv_heads,
        head_dim_chunks=tokens.head_dim // CHUNK_HALVES,
        token_stride=tokens.token_stride,
        page_size=page_size,
        page_stride_chunks=page,
        token_stride_chunks=token,
        head_stride_chunks=head,
    )
    return Launch(variant, (tokens.tokens, 1, 1), arguments)
