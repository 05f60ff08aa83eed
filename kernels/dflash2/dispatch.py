"""Which kernel serves a shape, and into how many splits decode attention cuts the keys. Pure functions, no torch.

Those that every launch asks remember their answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from dflash2.errors import ShapeUnsupported
from dflash2.variants import HEAD_DIMS, KV_WRITE, VARIANTS, DecodeTile, KernelFamily, KernelVariant, PrefillTile

V100_SMS = 80
DECODE_MOST_TOKENS = 8  # query tokens a sequence that decode attention is meant for
MOST_SPLITS = 64
FEWEST_KEYS_A_SPLIT = 96
FEWEST_BUSY_SMS = 64
MOST_IDLE_FACTOR = 1.05
_MOST_QUERY_HEADS_A_GROUP = 64


@dataclass(frozen=True)
class HeadLayout:
    """Attention heads of a model."""

    query_heads: int
    kv_heads: int
    head_dim: int

    @property
    def group_size(self) -> int:
        """Query heads a KV head."""
        return self.query_heads // self.kv_heads


def why_unsupported(heads: HeadLayout, page_size: int) -> str | None:
    """The reason that no kernel serves this layout, or None when one does. Engines count it and fall back."""
    if heads.head_dim not in HEAD_DIMS:
        return f"head dim {heads.head_dim} is not one of {', '.join(map(str, HEAD_DIMS))}"
    if heads.kv_heads < 1 or heads.query_heads % heads.kv_heads:
        return f"{heads.query_heads} query heads do not divide among {heads.kv_heads} KV heads"
    if heads.group_size > _MOST_QUERY_HEADS_A_GROUP:
        return f"{heads.group_size} query heads share a KV head; at most {_MOST_QUERY_HEADS_A_GROUP} may"
    if page_size < 2:
        return f"page size {page_size} is below 2"
    return None


def require_supported(heads: HeadLayout, page_size: int) -> None:
    """Raise ShapeUnsupported with the reason when no kernel serves this layout."""
    reason = why_unsupported(heads, page_size)
    if reason is not None:
        raise ShapeUnsupported(reason, "ask dispatch.why_unsupported first and fall back")


@cache
def prefill_variant(head_dim: int) -> KernelVariant:
    """The prefill kernel of a head dim."""
    for variant in VARIANTS:
        if isinstance(variant.tile, PrefillTile) and variant.tile.head_dim == head_dim:
            return variant
    raise ShapeUnsupported(f"no prefill kernel for head dim {head_dim}", f"there are {HEAD_DIMS}")


@cache
def decode_variant(head_dim: int, rows: int) -> KernelVariant:
    """The decode kernel for `rows` query rows (tokens * group) a KV head: the narrowest that fits, else the widest."""
    tiles = [variant for variant in VARIANTS if _decode_columns(variant, head_dim)]
    if not tiles:
        raise ShapeUnsupported(f"no decode kernel for head dim {head_dim}", f"there are {HEAD_DIMS}")
    by_columns = sorted(tiles, key=lambda variant: _decode_columns(variant, head_dim))
    return next((variant for variant in by_columns if _decode_columns(variant, head_dim) >= rows), by_columns[-1])


def _decode_columns(variant: KernelVariant, head_dim: int) -> int:
    """Query rows a block of this decode kernel holds; 0 when it is another kernel or head dim."""
    tile = variant.tile
    return tile.columns if isinstance(tile, DecodeTile) and tile.head_dim == head_dim else 0


@cache
def merge_variant(head_dim: int) -> KernelVariant:
    """The merge kernel of a head dim."""
    name = f"merge_splits_d{head_dim}"
    for variant in VARIANTS:
        if variant.family is KernelFamily.MERGE and variant.name == name:
            return variant
    raise ShapeUnsupported(f"no merge kernel for head dim {head_dim}", f"there are {HEAD_DIMS}")


def kv_write_variant() -> KernelVariant:
    """The KV write kernel; it serves every head dim."""
    return KV_WRITE


def split_count(heads: HeadLayout, *, sequences: int, longest_query: int, longest_context: int) -> int:
    """The fewest splits that keep a V100's memory busy to the end.

    With few blocks that means nearly one an SM; with many, that the last round of blocks is not mostly empty. Depends
    only on bounds, so that a captured CUDA graph and its replays agree: pass the longest context that may come.
    """
    rows = longest_query * heads.group_size
    columns = _decode_columns(decode_variant(heads.head_dim, rows), heads.head_dim)
    blocks = sequences * heads.kv_heads * math.ceil(rows / columns)
    most = max(1, min(MOST_SPLITS, longest_context // FEWEST_KEYS_A_SPLIT))
    fewest = next((splits for splits in range(1, most + 1) if _keeps_sms_busy(blocks * splits)), most)
    return min(most, max(fewest, V100_SMS // blocks))


def _keeps_sms_busy(blocks: int) -> bool:
    """True when all rounds of a block an SM are nearly full; four fifths of the SMs saturate the memory already."""
    if blocks <= V100_SMS:
        return blocks >= FEWEST_BUSY_SMS
    return math.ceil(blocks / V100_SMS) * V100_SMS <= MOST_IDLE_FACTOR * blocks
