"""Which kernel serves a shape, how many splits it takes, and what is refused with which reason."""

from __future__ import annotations

import ctypes

import pytest
from dflash2.arguments import MergeArguments
from dflash2.dispatch import (
    MOST_SPLITS,
    V100_SMS,
    HeadLayout,
    decode_variant,
    merge_variant,
    prefill_variant,
    require_supported,
    split_count,
    why_unsupported,
)
from dflash2.errors import ShapeUnsupported
from dflash2.launches import (
    CacheStrides,
    PagedCache,
    Partials,
    Queries,
    Scoring,
    _filled,
    decode_launch,
    prefill_launch,
)
from dflash2.variants import HEAD_DIMS, VARIANTS, DecodeTile, KernelFamily

QWEN_27B = HeadLayout(query_heads=24, kv_heads=4, head_dim=256)
CACHE = PagedCache(0x1000, 0x2000, 0x3000, 64, 16, CacheStrides(32768, 1024, 256))


def queries(*, tokens: int, sequences: int, longest: int) -> Queries:
    return Queries(1, 2, 3, 4, 6144, 6144, tokens, sequences, longest, QWEN_27B.query_heads, QWEN_27B.kv_heads)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_every_head_dim_has_its_kernels(head_dim: int) -> None:
    assert prefill_variant(head_dim).family is KernelFamily.PREFILL
    assert decode_variant(head_dim, 1).family is KernelFamily.DECODE
    assert merge_variant(head_dim).family is KernelFamily.MERGE


def test_decode_takes_the_narrowest_kernel_that_holds_the_rows_in_one_block() -> None:
    for head_dim in HEAD_DIMS:
        widths = sorted(
            variant.tile.columns
            for variant in VARIANTS
            if isinstance(variant.tile, DecodeTile) and variant.tile.head_dim == head_dim
        )
        for rows in range(1, 129):
            tile = decode_variant(head_dim, rows).tile
            assert isinstance(tile, DecodeTile)
            assert tile.columns == next((width for width in widths if width >= rows), widths[-1])


@pytest.mark.parametrize(
    ("heads", "page_size", "reason"),
    [
        (HeadLayout(24, 4, 80), 16, "head dim 80"),
        (HeadLayout(24, 5, 128), 16, "24 query heads do not divide among 5"),
        (HeadLayout(128, 1, 128), 16, "128 query heads share"),
        (HeadLayout(24, 4, 256), 1, "page size 1"),
    ],
)
def test_a_shape_that_no_kernel_serves_is_refused_with_its_reason(
    heads: HeadLayout, page_size: int, reason: str
) -> None:
    assert reason in (why_unsupported(heads, page_size) or "")
    with pytest.raises(ShapeUnsupported, match=reason):
        require_supported(heads, page_size)


@pytest.mark.parametrize("page_size", [2, 16, 32, 784])
def test_shapes_of_real_models_are_served(page_size: int) -> None:
    for heads in (QWEN_27B, HeadLayout(32, 8, 128), HeadLayout(8, 8, 64), HeadLayout(16, 1, 256)):
        assert why_unsupported(heads, page_size) is None


def splits_of(heads: HeadLayout, sequences: int, context: int) -> int:
    return split_count(heads, sequences=sequences, longest_query=1, longest_context=context)


def test_one_sequence_is_split_until_every_sm_has_a_block() -> None:
    for heads in (QWEN_27B, HeadLayout(32, 8, 128)):
        for context in (8192, 65536, 262144):
            assert splits_of(heads, 1, context) * heads.kv_heads == V100_SMS


def test_no_batch_leaves_many_sms_idle_in_its_last_round() -> None:
    for sequences in range(1, 257):
        blocks = sequences * QWEN_27B.kv_heads * splits_of(QWEN_27B, sequences, 65536)
        rounds = -(-blocks // V100_SMS)
        assert blocks / (rounds * V100_SMS) >= 0.8, sequences


def test_a_batch_that_fills_the_card_is_not_split() -> None:
    assert splits_of(QWEN_27B, 16, 65536) == 1  # 64 blocks
    assert splits_of(QWEN_27B, 200, 65536) == 1


def test_a_short_context_is_not_cut_into_crumbs() -> None:
    assert splits_of(QWEN_27B, 1, 90) == 1
    assert splits_of(QWEN_27B, 1, 960) == 10


def test_splits_are_bounded() -> None:
    one_head = HeadLayout(8, 1, 128)
    assert split_count(one_head, sequences=1, longest_query=1, longest_context=1 << 18) <= MOST_SPLITS


def test_grids_cover_heads_sequences_and_query_blocks() -> None:
    prefill = prefill_launch(prefill_variant(256), queries(tokens=300, sequences=2, longest=200), CACHE, Scoring(0.1))
    assert prefill.grid == (24, 2, 2)  # 128 query rows a block
    speculative, variant = queries(tokens=8, sequences=2, longest=4), decode_variant(256, 4 * 6)
    assert isinstance(variant.tile, DecodeTile)
    decode = decode_launch(variant, speculative, CACHE, Scoring(0.1), Partials(5, 6, 20))
    blocks = -(-4 * 6 // variant.tile.columns)  # 4 tokens of a group of 6 heads are 24 rows
    assert decode.grid == (blocks, 20, 2 * 4)


def test_a_kernel_of_the_wrong_family_is_refused() -> None:
    with pytest.raises(TypeError, match="is no decode kernel"):
        decode_launch(prefill_variant(256), queries(tokens=1, sequences=1, longest=1), CACHE, Scoring(0.1))


def test_a_forgotten_or_misspelt_parameter_is_an_error() -> None:
    complete = {name: 0 for name, _ in MergeArguments._fields_}
    assert isinstance(_filled(MergeArguments, **complete), ctypes.Structure)
    with pytest.raises(TypeError, match="row_count"):
        _filled(MergeArguments, **{name: 0 for name in complete if name != "row_count"})
    with pytest.raises(TypeError, match="row_cuont"):
        _filled(MergeArguments, **complete, row_cuont=1)
