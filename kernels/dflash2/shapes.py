"""The size of an attention problem, and the work it cannot avoid."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dflash2.launches import CacheStrides

HALF_BYTES = 2


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
    def pages_per_sequence(self) -> int:
        """Pages that hold a sequence's context."""
        return math.ceil(self.context_tokens / self.page_size)

    @property
    def cache_strides(self) -> CacheStrides:
        """vLLM's layout: K and V of a page lie behind each other, a token's heads side by side."""
        token = self.kv_heads * self.head_dim
        return CacheStrides(page=2 * self.page_size * token, token=token, head=self.head_dim)

    @property
    def kv_bytes(self) -> int:
        """Bytes of K and V in FP16."""
        return 2 * self.sequences * self.context_tokens * self.kv_heads * self.head_dim * HALF_BYTES
