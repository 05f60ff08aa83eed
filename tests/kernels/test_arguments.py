"""The divisions that kernels do by multiplication, exhaustively where that is possible, and the mirror of the structures."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from dflash2.arguments import divide_by_page_size, small_magic, word_magic
from dflash2.dispatch import decode_variant
from dflash2.errors import ShapeUnsupported
from dflash2.launches import CacheStrides, PagedCache, Queries, Scoring, decode_launch
from dflash2.variants import KernelFamily, KernelVariant

from .host_kernels import ARGUMENT_TYPES, variant_named

QUERIES = Queries(
    query=16, output=16, query_start=16, kv_length=16, query_token_stride=4096, output_token_stride=4096, tokens=8,
    sequences=1, longest=8, query_heads=64, kv_heads=1,
)  # fmt: skip
CACHE = PagedCache(16, 16, 16, 4, 16, CacheStrides(4096, 256, 256))


@pytest.mark.parametrize("page_size", [2, 3, 5, 7, 16, 32, 784, 1024, 1000003])
def test_page_numbers_are_exact_around_every_page_boundary(page_size):
    division = divide_by_page_size(page_size)
    pages = np.unique(np.linspace(1, (2**31 - 1) // page_size, 100_000).astype(np.uint64))
    for token in (pages * page_size - 1, pages * page_size):
        assert np.array_equal(token * np.uint64(division.magic) >> np.uint64(32 + division.shift), token // page_size)


@pytest.mark.parametrize("page_size", [0, 1, -16])
def test_page_sizes_below_two_are_refused(page_size):
    with pytest.raises(ValueError, match="page size"):
        divide_by_page_size(page_size)


def test_columns_are_divided_exactly_by_every_group_size():
    for group in range(1, 65):
        column = np.arange(65536 // group)
        assert np.array_equal(column * small_magic(group) >> 16, column // group)


def test_blocks_are_divided_exactly_by_every_count_of_kv_heads():
    for kv_heads in range(2, 129):
        block = np.arange(65536, dtype=np.uint64)
        assert np.array_equal(block * np.uint64(word_magic(kv_heads)) >> np.uint64(32), block // kv_heads)


def test_decode_refuses_more_columns_than_it_can_divide():
    variant = decode_variant(256, 8)
    decode_launch(variant, QUERIES, CACHE, Scoring(1.0))
    with pytest.raises(ShapeUnsupported, match="16 query tokens of 64 heads"):
        decode_launch(variant, replace(QUERIES, longest=16), CACHE, Scoring(1.0))


@pytest.mark.parametrize("family", list(KernelFamily))
def test_structures_are_as_large_as_the_kernels_think(host_kernel, family):
    names = {
        KernelFamily.PREFILL: "prefill_attention_d64",
        KernelFamily.DECODE: "decode_attention_d64_m8",
        KernelFamily.MERGE: "merge_splits_d64",
        KernelFamily.KV_WRITE: "kv_write",
    }
    variant: KernelVariant = variant_named(names[family])
    assert host_kernel(variant.name).library.argument_bytes() == ctypes.sizeof(ARGUMENT_TYPES[family])
