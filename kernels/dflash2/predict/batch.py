"""The memory of an emulated attention batch: queries, a paged cache, a workspace."""

from __future__ import annotations

import numpy as np

from dflash2.launches import PagedCache, Partials, Queries
from dflash2.predict.memory import Buffer, DeviceMemory
from dflash2.shapes import HALF_BYTES, AttentionShape

_LARGE = 1 << 34
_CACHE_LIMIT_BYTES = 1 << 35  # a buffer's addresses end at 2^36; more pages than this repeat


class Batch:
    """A batch of equal sequences in device memory: queries, a paged cache whose pages lie in order, a workspace."""

    def __init__(
        self,
        shape: AttentionShape,
        *,
        kv_hbm_share: float = 0.0,
        query_hbm_share: float = 0.0,
        partial_hbm_share: float = 0.0,
    ) -> None:
        query, output = large_buffers(2, hbm_fraction=query_hbm_share)
        keys, values = large_buffers(2, hbm_fraction=kv_hbm_share)
        self._partial, self._statistic = large_buffers(2, hbm_fraction=partial_hbm_share)
        table, starts, lengths = _block_table(shape), *_sequence_buffers(shape)
        self.memory = DeviceMemory(
            [query, output, keys, values, self._partial, self._statistic, table, starts, lengths]
        )
        self.queries = self._queries_at(shape, query, output, starts, lengths)
        self.cache = self._cache_at(shape, keys, values, table)

    def _queries_at(
        self, shape: AttentionShape, query: Buffer, output: Buffer, starts: Buffer, lengths: Buffer
    ) -> Queries:
        address, stride = self.memory.address_of, shape.query_heads * shape.head_dim
        return Queries(
            query=address(query),
            output=address(output),
            query_start=address(starts),
            kv_length=address(lengths),
            query_token_stride=stride,
            output_token_stride=stride,
            tokens=shape.sequences * shape.query_tokens,
            sequences=shape.sequences,
            longest=shape.query_tokens,
            query_heads=shape.query_heads,
            kv_heads=shape.kv_heads,
        )

    def _cache_at(self, shape: AttentionShape, keys: Buffer, values: Buffer, table: Buffer) -> PagedCache:
        address = self.memory.address_of
        return PagedCache(
            keys=address(keys),
            values=address(values),
            block_table=address(table),
            block_table_stride=shape.pages_per_sequence,
            page_size=shape.page_size,
            strides=shape.cache_strides,
        )

    def partials(self, splits: int) -> Partials:
        """Workspace for that many splits."""
        return Partials(self.memory.address_of(self._partial), self.memory.address_of(self._statistic), splits)


def large_buffers(count: int, hbm_fraction: float = 0.0) -> list[Buffer]:
    """Buffers without contents, larger than any access goes."""
    return [Buffer(_LARGE, hbm_fraction=hbm_fraction) for _ in range(count)]


def _block_table(shape: AttentionShape) -> Buffer:
    """Pages in order; they repeat where a cache of that size would not fit a buffer's addresses."""
    page_limit = _CACHE_LIMIT_BYTES // (shape.cache_strides.page * HALF_BYTES)
    pages = np.arange(shape.sequences * shape.pages_per_sequence, dtype=np.int32) % page_limit
    return Buffer(pages.nbytes, pages.astype(np.int32))


def _sequence_buffers(shape: AttentionShape) -> tuple[Buffer, Buffer]:
    """First query token of each sequence (and the end), and the context length of each."""
    starts = np.arange(shape.sequences + 1, dtype=np.int32) * shape.query_tokens
    lengths = np.full(shape.sequences, shape.context_tokens, np.int32)
    return Buffer(starts.nbytes, starts.astype(np.int32)), Buffer(lengths.nbytes, lengths)
