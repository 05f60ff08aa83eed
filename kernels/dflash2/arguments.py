"""Kernel parameters as ctypes structures: the mirror of csrc/arguments.cuh, field by field.

Pointers are plain addresses. Strides count halves unless their name says chunks (16 bytes).
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any, ClassVar

CHUNK_HALVES = 8
LOG2_E = math.log2(math.e)
MAX_TOKENS = 1 << 31

_Fields = list[tuple[str, Any]]


def _pointers(*names: str) -> _Fields:
    return [(name, ctypes.c_void_p) for name in names]


def _integers(*names: str) -> _Fields:
    return [(name, ctypes.c_int32) for name in names]


def _unsigned(*names: str) -> _Fields:
    return [(name, ctypes.c_uint32) for name in names]


_CACHE_STRIDES = ("page_stride_chunks", "token_stride_chunks", "head_stride_chunks")


class PagedCacheArguments(ctypes.Structure):
    """The paged KV cache and how a token is found in it."""

    _fields_: ClassVar[_Fields] = [
        *_pointers("keys", "values", "block_table"),
        *_integers("block_table_stride", "page_size"),
        *_unsigned("page_magic"),
        *_integers("page_shift"),
        *_unsigned(*_CACHE_STRIDES),
    ]


class ScoringArguments(ctypes.Structure):
    """How scores become probabilities."""

    _fields_: ClassVar[_Fields] = [
        ("scale_log2", ctypes.c_float),
        ("softcap_inner", ctypes.c_float),
        *_integers("window"),
    ]


class PrefillArguments(ctypes.Structure):
    """Parameters of prefill_attention."""

    _fields_: ClassVar[_Fields] = [
        *_pointers("query", "output", "query_start", "kv_length"),
        *_integers("query_token_stride", "output_token_stride", "query_heads", "group_size"),
        ("cache", PagedCacheArguments),
        ("scoring", ScoringArguments),
    ]


class DecodeArguments(ctypes.Structure):
    """Parameters of decode_attention."""

    _fields_: ClassVar[_Fields] = [
        *_pointers("query", "output", "partial_output", "partial_statistic", "query_start", "kv_length"),
        *_integers("query_token_stride", "output_token_stride", "query_heads"),
        *_integers("kv_heads"),
        *_unsigned("kv_head_magic"),
        *_integers("group_size", "group_magic"),
        *_integers("row_count", "split_count"),
        *_unsigned("share_magic"),
        ("cache", PagedCacheArguments),
        ("scoring", ScoringArguments),
    ]


class MergeArguments(ctypes.Structure):
    """Parameters of merge_splits."""

    _fields_: ClassVar[_Fields] = [
        *_pointers("partial_output", "partial_statistic", "output"),
        *_integers("output_token_stride", "row_count", "split_count"),
        ("scale_log2", ctypes.c_float),
    ]


class KvWriteArguments(ctypes.Structure):
    """Parameters of kv_write."""

    _fields_: ClassVar[_Fields] = [
        *_pointers("keys", "values", "key_cache", "value_cache", "slot_mapping"),
        *_integers("token_count", "kv_heads", "head_dim_chunks", "token_stride", "page_size"),
        *_unsigned(*_CACHE_STRIDES),
    ]


@dataclass(frozen=True)
class PageDivision:
    """t // page_size == (t * magic >> 32) >> shift for every 0 <= t < 2^31."""

    magic: int
    shift: int


def divide_by_page_size(page_size: int) -> PageDivision:
    """Multiplier and shift that stand for a division (Granlund and Montgomery 1994, for 31-bit numerators).

    With s = ceil(log2 page_size), magic = floor(2^(31 + s) / page_size) + 1 fits 32 bits and its error, below one
    part in 2^31, never reaches the next quotient. Page size 1 would need shift -1.
    """
    if not 2 <= page_size < MAX_TOKENS:
        raise ValueError(f"page size {page_size} is not in 2..2^31-1")
    bits = (page_size - 1).bit_length()
    return PageDivision(magic=(1 << (31 + bits)) // page_size + 1, shift=bits - 1)


def small_magic(divisor: int) -> int:
    """Multiplier m with c // divisor == c * m >> 16, exact while c * divisor < 65536."""
    return 65536 // divisor + 1


def word_magic(divisor: int) -> int:
    """Multiplier m with n // divisor == n * m >> 32, exact while n * divisor < 2^32; 0, unused, for divisor 1."""
    return (1 << 32) // divisor + 1 if divisor > 1 else 0


def scoring(*, scale: float, softcap: float = 0.0, window: int = 0) -> ScoringArguments:
    """Softmax of `scale * q.k`, capped to +-softcap by tanh when softcap > 0, over the last `window` keys when > 0."""
    if softcap > 0:
        return ScoringArguments(softcap * LOG2_E, scale / softcap, window)
    return ScoringArguments(scale * LOG2_E, 0.0, window)
