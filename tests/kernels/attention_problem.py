"""Random paged-attention problems and their reference answer in double precision."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from dflash2.arguments import PagedCacheArguments, ScoringArguments, divide_by_page_size, scoring

from .host_kernels import Half, address

NAN_HALF = np.float16(np.nan)


@dataclass(frozen=True)
class ProblemShape:
    """`queries[i]` new tokens and `keys[i]` cached ones (the new included) for each sequence i."""

    head_dim: int
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    query_heads: int = 2
    kv_heads: int = 1
    page_size: int = 16
    window: int = 0
    softcap: float = 0.0
    amplitude: float = 1.0

    @property
    def scale(self) -> float:
        """Softmax scale, 1 / sqrt(head_dim)."""
        return float(self.head_dim**-0.5)


@dataclass
class Problem:
    """A shape filled with numbers. Cache slots that hold no key, or one that no query sees, are NaN."""

    shape: ProblemShape
    query: Half
    keys: list[Half]  # one sequence: [keys][kv_heads][head_dim]
    values: list[Half]
    key_cache: Half  # [pages][page_size][kv_heads][head_dim], halves of one allocation as in vLLM
    value_cache: Half
    block_table: npt.NDArray[np.int32]
    query_start: npt.NDArray[np.int32]
    kv_length: npt.NDArray[np.int32]
    keep_alive: list[object] = field(default_factory=list)

    def cache_arguments(self) -> PagedCacheArguments:
        """The cache as the kernels take it."""
        division = divide_by_page_size(self.shape.page_size)
        strides = [stride // 16 for stride in self.key_cache.strides[:3]]
        return PagedCacheArguments(
            address(self.key_cache),
            address(self.value_cache),
            address(self.block_table),
            self.block_table.shape[1],
            self.shape.page_size,
            division.magic,
            division.shift,
            *strides,
        )

    def scoring_arguments(self) -> ScoringArguments:
        """Scale, soft cap and window as the kernels take them."""
        return scoring(scale=self.shape.scale, softcap=self.shape.softcap, window=self.shape.window)

    def reference(self) -> npt.NDArray[np.float64]:
        """The answer, [tokens][query_heads][head_dim]."""
        rows = [self._reference_of(sequence) for sequence in range(len(self.shape.queries))]
        return np.concatenate(rows)

    def _reference_of(self, sequence: int) -> npt.NDArray[np.float64]:
        shape = self.shape
        first, end = self.query_start[sequence], self.query_start[sequence + 1]
        group = shape.query_heads // shape.kv_heads
        query = self.query[first:end].astype(np.float64)
        keys = np.repeat(self.keys[sequence].astype(np.float64), group, axis=1)
        values = np.repeat(self.values[sequence].astype(np.float64), group, axis=1)
        scores = np.einsum("qhd,khd->hqk", query, keys) * shape.scale
        if shape.softcap:
            scores = shape.softcap * np.tanh(scores / shape.softcap)
        position = np.arange(len(query))[:, None] + len(keys) - len(query)
        behind = position - np.arange(len(keys))[None]
        visible = (behind >= 0) & ((behind < shape.window) if shape.window else True)
        scores = np.where(visible, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), values)


def make_problem(shape: ProblemShape, seed: int = 0) -> Problem:
    """Fill a shape with normal numbers of its amplitude; pages lie in random order with spare ones between."""
    rng = np.random.default_rng(seed)

    def normal(*size: int) -> Half:
        return (rng.standard_normal(size) * shape.amplitude).astype(np.float16)

    query = normal(sum(shape.queries), shape.query_heads, shape.head_dim)
    keys = [normal(count, shape.kv_heads, shape.head_dim) for count in shape.keys]
    values = [normal(count, shape.kv_heads, shape.head_dim) for count in shape.keys]
    pages_a_row = -(-max(shape.keys) // shape.page_size)
    page_count = pages_a_row * len(shape.keys) + 3
    block_table = rng.permutation(page_count)[: pages_a_row * len(shape.keys)].astype(np.int32)
    block_table = np.ascontiguousarray(block_table.reshape(len(shape.keys), pages_a_row))
    cache = np.full((page_count, 2, shape.page_size, shape.kv_heads, shape.head_dim), NAN_HALF)
    for row, (count, queries) in enumerate(zip(shape.keys, shape.queries, strict=True)):
        oldest = max(0, count - queries - shape.window + 1) if shape.window else 0
        token = np.arange(oldest, count)
        page, slot = block_table[row, token // shape.page_size], token % shape.page_size
        cache[page, 0, slot], cache[page, 1, slot] = keys[row][oldest:], values[row][oldest:]
        used = -(-count // shape.page_size)
        block_table[row, used:] = np.iinfo(np.int32).max  # reading such an entry's page would crash
    starts = np.concatenate([[0], np.cumsum(shape.queries)]).astype(np.int32)
    lengths = np.array(shape.keys, np.int32)
    return Problem(shape, query, keys, values, cache[:, 0], cache[:, 1], block_table, starts, lengths, [cache])
