"""Every kernel the distribution holds: which source with which defines makes it, and how it is launched.

The compile gate, the wheel build, the loader, the timing model and the bench all read `VARIANTS`. Tile shapes are
written once, here; a variant's defines carry them into the source, which checks them by static_assert.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

SOURCE_FOLDER = Path(__file__).parent / "csrc"
SHARED_LIMIT_BYTES = 98304  # what one block can have on Volta; newer cards allow more and hide the mistake
WARP_SIZE = 32
HALF_BYTES = 2


class KernelFamily(StrEnum):
    """What a kernel computes."""

    PREFILL = "prefill_attention"
    DECODE = "decode_attention"
    MERGE = "merge_splits"
    KV_WRITE = "kv_write"


@dataclass(frozen=True)
class PrefillTile:
    """Work of one prefill block: `warps` warps of 16 * `query_tiles` query rows walk the keys `keys` at a time."""

    head_dim: int
    query_tiles: int
    keys: int
    warps: int
    blocks_per_sm: int
    head_dim_quad_pairs: int  # quad-pairs laid along the head dim in O^T = V^T P^T: 4, or 2 when 64 does not divide it

    @property
    def query_rows(self) -> int:
        """Query rows of one block."""
        return 16 * self.query_tiles * self.warps

    @property
    def row_halves(self) -> int:
        """Halves a row takes in shared memory: the head dim rounded up to the 128 bytes that the swizzle permutes."""
        return -(-self.head_dim // 64) * 64

    @property
    def shared_memory_bytes(self) -> int:
        """Q tile, K tile and V tile in FP16."""
        return (self.query_rows + 2 * self.keys) * self.row_halves * HALF_BYTES


@dataclass(frozen=True)
class DecodeTile:
    """Work of one decode block: `warps` warps share a split of the keys for 8 * `column_tiles` query rows."""

    head_dim: int
    column_tiles: int
    warps: int
    blocks_per_sm: int
    exchange_rounds: int  # rounds in which the warps' outputs pass through shared memory

    @property
    def columns(self) -> int:
        """Query rows (token, head of the group) of one block."""
        return 8 * self.column_tiles

    @property
    def shared_memory_bytes(self) -> int:
        """Q tile in FP16; the warps' outputs of eight columns, in rounds, and their two statistics a column in FP32."""
        query = self.columns * self.head_dim * HALF_BYTES
        padded_dim = -(-self.head_dim // 64) * 64
        outputs = self.warps * 8 * padded_dim * 4 // self.exchange_rounds
        return query + outputs + 2 * self.warps * self.columns * 4


@dataclass(frozen=True)
class MergeTile:
    """Work of one merge block: `dims` head dims of a row, a thread each."""

    head_dim: int
    dims: int

    @property
    def blocks(self) -> int:
        """Blocks of a row."""
        return self.head_dim // self.dims


@dataclass(frozen=True)
class KernelVariant:
    """One compiled kernel: `source` compiled with `defines` holds the function `entry_point`.

    `shared_memory_bytes` is dynamic; what a kernel declares itself comes on top (the compile table has both).
    """

    name: str
    family: KernelFamily
    source: str
    entry_point: str
    defines: tuple[str, ...]
    threads: int
    shared_memory_bytes: int
    tile: PrefillTile | DecodeTile | MergeTile | None = None

    @property
    def source_path(self) -> Path:
        """The CUDA source inside the package."""
        return SOURCE_FOLDER / self.source


# Chosen by the timing model; TUNING.md has what else was tried.
PREFILL_TILES = (
    PrefillTile(head_dim=64, query_tiles=1, keys=64, warps=8, blocks_per_sm=2, head_dim_quad_pairs=4),
    PrefillTile(head_dim=96, query_tiles=2, keys=32, warps=4, blocks_per_sm=2, head_dim_quad_pairs=2),
    PrefillTile(head_dim=128, query_tiles=2, keys=32, warps=4, blocks_per_sm=2, head_dim_quad_pairs=4),
    PrefillTile(head_dim=192, query_tiles=1, keys=64, warps=8, blocks_per_sm=1, head_dim_quad_pairs=4),
    PrefillTile(head_dim=256, query_tiles=1, keys=32, warps=8, blocks_per_sm=1, head_dim_quad_pairs=4),
)
# Two column tiles of head dim 192 or 256 do not fit the registers of a lane: their further query rows take more blocks.
DECODE_TILES = tuple(
    DecodeTile(head_dim, column_tiles, warps=4, blocks_per_sm=1, exchange_rounds=rounds)
    for head_dim, rounds in ((64, 1), (96, 1), (128, 1), (192, 3), (256, 2))
    for column_tiles in (1, 2)
    if head_dim * column_tiles <= 256
)
MERGE_TILES = tuple(MergeTile(dim, dims) for dim, dims in ((64, 64), (96, 96), (128, 128), (192, 96), (256, 128)))
HEAD_DIMS = tuple(tile.head_dim for tile in PREFILL_TILES)


def _prefill(tile: PrefillTile) -> KernelVariant:
    name = f"prefill_attention_d{tile.head_dim}"
    defines = (
        f"ENTRY_POINT={name}",
        f"HEAD_DIM={tile.head_dim}",
        f"QUERY_TILES={tile.query_tiles}",
        f"KEYS={tile.keys}",
        f"WARPS={tile.warps}",
        f"BLOCKS_PER_SM={tile.blocks_per_sm}",
        f"HEAD_DIM_QUAD_PAIRS={tile.head_dim_quad_pairs}",
        f"SHARED_BYTES={tile.shared_memory_bytes}",
    )
    threads, shared = tile.warps * WARP_SIZE, tile.shared_memory_bytes
    return KernelVariant(name, KernelFamily.PREFILL, "prefill_attention.cu", name, defines, threads, shared, tile)


def _decode(tile: DecodeTile) -> KernelVariant:
    name = f"decode_attention_d{tile.head_dim}_m{tile.columns}"
    defines = (
        f"ENTRY_POINT={name}",
        f"HEAD_DIM={tile.head_dim}",
        f"COLUMN_TILES={tile.column_tiles}",
        f"WARPS={tile.warps}",
        f"BLOCKS_PER_SM={tile.blocks_per_sm}",
        f"EXCHANGE_ROUNDS={tile.exchange_rounds}",
        f"SHARED_BYTES={tile.shared_memory_bytes}",
    )
    threads, shared = tile.warps * WARP_SIZE, tile.shared_memory_bytes
    return KernelVariant(name, KernelFamily.DECODE, "decode_attention.cu", name, defines, threads, shared, tile)


def _merge(tile: MergeTile) -> KernelVariant:
    name = f"merge_splits_d{tile.head_dim}"
    defines = (f"ENTRY_POINT={name}", f"HEAD_DIM={tile.head_dim}", f"DIMS={tile.dims}")
    return KernelVariant(name, KernelFamily.MERGE, "merge_splits.cu", name, defines, tile.dims, 0, tile)


KV_WRITE = KernelVariant(
    "kv_write", KernelFamily.KV_WRITE, "kv_write.cu", "kv_write", ("ENTRY_POINT=kv_write",), 128, 0
)
VARIANTS: tuple[KernelVariant, ...] = (
    *map(_prefill, PREFILL_TILES),
    *map(_decode, DECODE_TILES),
    *map(_merge, MERGE_TILES),
    KV_WRITE,
)
