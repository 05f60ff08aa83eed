"""Values of the 32 lanes of a warp: 32-bit words held in int64 arrays as 0..2^32-1, so that carries stay visible."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Words64 = npt.NDArray[np.uint64]

WARP_SIZE = 32
WORD_MASK = 0xFFFFFFFF
LANE_IDS: Lanes = np.arange(WARP_SIZE, dtype=np.int64)


def zeros() -> Lanes:
    """A zero in every lane."""
    return np.zeros(WARP_SIZE, np.int64)


def splat(value: int) -> Lanes:
    """The same word in every lane."""
    return np.full(WARP_SIZE, value & WORD_MASK, np.int64)


def signed(words: Lanes) -> Lanes:
    """Words read as two's complement."""
    return ((words & WORD_MASK) ^ 0x80000000) - 0x80000000


def as_float(words: Lanes) -> npt.NDArray[np.float32]:
    """Words read as IEEE single precision."""
    return (words & WORD_MASK).astype(np.uint32).view(np.float32)


def float_bits(values: npt.ArrayLike) -> Lanes:
    """Single-precision values as words."""
    return np.asarray(values, np.float32).view(np.uint32).astype(np.int64)
