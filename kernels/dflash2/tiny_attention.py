"""A complete attention problem of five tokens with its answer, small enough to work out in plain Python.

`dflash2 doctor` runs it on the card: it goes through the real image, the real launch and the tensor cores.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dflash2.arguments import CHUNK_HALVES, PagedCacheArguments, PrefillArguments, divide_by_page_size, scoring
from dflash2.variants import VARIANTS, KernelFamily, KernelVariant

HEAD_DIM = 64
TOKENS = 5
PAGE_SIZE = 16
TOLERANCE = 2e-3

Rows = Sequence[Sequence[float]]


@dataclass(frozen=True)
class TinyMemory:
    """How to get memory a kernel can use: the card's, or the host's for the CPU shim."""

    place: Callable[[bytes], int]  # copies bytes there, returns their address
    read: Callable[[int, int], bytes]  # address, size


def kernel() -> KernelVariant:
    """The variant that solves it."""
    return next(
        variant
        for variant in VARIANTS
        if variant.family is KernelFamily.PREFILL and variant.tile is not None and variant.tile.head_dim == HEAD_DIM
    )


def solve(memory: TinyMemory, launch: Callable[[KernelVariant, PrefillArguments], None]) -> float:
    """Place the problem, launch the kernel on a grid of one block, return the largest error of its answer."""
    queries, keys, values = (_rows(phase) for phase in (0.0, 1.0, 2.0))
    output = memory.place(_halves([[math.nan] * HEAD_DIM] * TOKENS))
    cache = memory.place(_halves(_page(keys)) + _halves(_page(values)))
    arguments = PrefillArguments(
        query=memory.place(_halves(queries)),
        output=output,
        query_start=memory.place(struct.pack("<2i", 0, TOKENS)),
        kv_length=memory.place(struct.pack("<i", TOKENS)),
        query_token_stride=HEAD_DIM,
        output_token_stride=HEAD_DIM,
        query_heads=1,
        group_size=1,
        cache=_cache_arguments(cache, memory.place(struct.pack("<i", 0))),
        scoring=scoring(scale=HEAD_DIM**-0.5),
    )
    launch(kernel(), arguments)
    answer = _unpack(memory.read(output, TOKENS * HEAD_DIM * 2))
    expected = [value for row in attention(queries, keys, values) for value in row]
    errors = [abs(mine - theirs) for mine, theirs in zip(answer, expected, strict=True)]
    return max(error if math.isfinite(error) else math.inf for error in errors)


def attention(queries: Rows, keys: Rows, values: Rows) -> list[list[float]]:
    """Causal attention in double precision."""
    rows = []
    for index, query in enumerate(queries):
        scores = [_dot(query, key) * HEAD_DIM**-0.5 for key in keys[: index + 1]]
        weights = [math.exp(score - max(scores)) for score in scores]
        mixed = [_dot(weights, [row[dim] for row in values[: index + 1]]) / sum(weights) for dim in range(HEAD_DIM)]
        rows.append(mixed)
    return rows


def _rows(phase: float) -> list[list[float]]:
    """Numbers within +-1.5, rounded to what a half can hold."""
    rows = [[1.5 * math.sin(phase + 0.7 * dim + 1.3 * token) for dim in range(HEAD_DIM)] for token in range(TOKENS)]
    return [_unpack(_halves([row])) for row in rows]


def _page(rows: Rows) -> Rows:
    """One page of the cache: the tokens, then NaN where no token is."""
    return [*rows, *[[math.nan] * HEAD_DIM] * (PAGE_SIZE - len(rows))]


def _cache_arguments(cache: int, block_table: int) -> PagedCacheArguments:
    division, row_chunks = divide_by_page_size(PAGE_SIZE), HEAD_DIM // CHUNK_HALVES
    return PagedCacheArguments(
        keys=cache,
        values=cache + PAGE_SIZE * HEAD_DIM * 2,
        block_table=block_table,
        block_table_stride=1,
        page_size=PAGE_SIZE,
        page_magic=division.magic,
        page_shift=division.shift,
        page_stride_chunks=2 * PAGE_SIZE * row_chunks,
        token_stride_chunks=row_chunks,
        head_stride_chunks=row_chunks,
    )


def _halves(rows: Rows) -> bytes:
    values = [value for row in rows for value in row]
    return struct.pack(f"<{len(values)}e", *values)


def _unpack(data: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(data) // 2}e", data))


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))
