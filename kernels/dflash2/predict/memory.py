"""Device memory as the model sees it: buffers at fixed addresses, and what an access costs.

A buffer's contents matter only where a kernel computes addresses or loop bounds from them (block tables, lengths); all
others read as zero. Buffer k lives at address (k + 1) * 2^36, so an address tells its buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dflash2.errors import SimulationFailed
from dflash2.predict.lanes import WARP_SIZE, Lanes, Mask, zeros

ADDRESS_BITS = 36
LINE_BYTES = 128
SECTOR_BYTES = 32
SHARED_BANKS = 32
PATTERNS_KEPT = 1 << 14


@dataclass(frozen=True, eq=False)
class Buffer:
    """One allocation. `contents` None reads as zero.

    `hbm_fraction` is the share of its sectors that miss L2 when they miss L1; `prefetch_hbm_fraction` the same for
    prefetch instructions. Both are inputs: the model has no L2.
    """

    size_bytes: int
    contents: npt.NDArray[Any] | None = None
    hbm_fraction: float = 0.0
    prefetch_hbm_fraction: float = 0.0


# A kernel argument: a buffer (its address is passed) or a number whose NumPy type gives its size.
Argument = Buffer | np.int32 | np.uint32 | np.int64 | np.float32


class DeviceMemory:
    """The buffers of one launch."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = tuple(buffers)

    def address_of(self, buffer: Buffer) -> int:
        """Device address of a buffer of this launch."""
        index = next(index for index, candidate in enumerate(self.buffers) if candidate is buffer)
        return (index + 1) << ADDRESS_BITS

    def pack(self, arguments: Sequence[Argument]) -> bytes:
        """Kernel arguments as the bytes of constant bank 0, each aligned to its own size (as in a C struct)."""
        packed = b""
        for argument in arguments:
            value = self._bytes_of(argument)
            packed += b"\0" * (-len(packed) % len(value)) + value
        return packed

    def _bytes_of(self, argument: Argument) -> bytes:
        if isinstance(argument, Buffer):
            return struct.pack("<Q", self.address_of(argument))
        return argument.tobytes()

    def load(self, addresses: Lanes, active: Mask, width_bytes: int) -> Lanes:
        """One word (at most 4 bytes of `width_bytes`) a lane, zero where nothing is known."""
        result = zeros()
        size = min(width_bytes, 4)
        for lane in np.nonzero(active)[0]:
            address = int(addresses[lane])
            index = (address >> ADDRESS_BITS) - 1
            if not 0 <= index < len(self.buffers):
                continue
            contents = self.buffers[index].contents
            if contents is None:
                continue
            offset = address & ((1 << ADDRESS_BITS) - 1)
            word = contents.view(np.uint8).reshape(-1)[offset : offset + size]
            if len(word) < size:
                raise SimulationFailed(f"a load reads byte {offset} of buffer {index}, which holds {contents.nbytes}")
            result[lane] = int.from_bytes(word.tobytes(), "little")
        return result


def shared_wavefronts(addresses: Lanes, lanes: Lanes, width_bytes: int) -> int:
    """Cycles of one shared-memory access: a wavefront moves one word a bank.

    Up to 32 bits the warp is one phase, 64-bit accesses go by half warps, 128-bit by quarter warps. Within a phase the
    same word broadcasts; phases never merge. Shifting all addresses turns the banks round and changes nothing.
    """
    return _wavefronts_of_pattern((addresses - addresses[0]).tobytes(), lanes.tobytes(), width_bytes)


@lru_cache(maxsize=PATTERNS_KEPT)
def _wavefronts_of_pattern(offsets: bytes, lanes: bytes, width_bytes: int) -> int:
    addresses = np.frombuffer(offsets, np.int64)
    if width_bytes <= 4:
        return _busiest_bank(addresses >> 2)
    words_a_lane = width_bytes // 4
    phase_of_lane = np.frombuffer(lanes, np.int64) // (WARP_SIZE // words_a_lane)
    total = 0
    for phase in np.unique(phase_of_lane):
        starts = addresses[phase_of_lane == phase]
        total += _busiest_bank((starts[:, None] + 4 * np.arange(words_a_lane)).reshape(-1) >> 2)
    return total


def _busiest_bank(words: Lanes) -> int:
    return int(np.bincount(np.unique(words) & (SHARED_BANKS - 1)).max())


@dataclass(frozen=True)
class GlobalCost:
    """Cost of one global access: phases, 128-byte lines summed over phases, and the 32-byte sectors touched."""

    phases: int
    lines: int
    sectors: list[int]


def global_cost(addresses: Lanes, lanes: Lanes, width_bytes: int) -> GlobalCost:
    """A global access spends one LSU cycle for each distinct line of each phase (quarter warp at 128 bits)."""
    base = int(addresses[0]) // LINE_BYTES * LINE_BYTES  # a pattern repeats from line to line
    phases, lines, sectors = _cost_of_pattern((addresses - base).tobytes(), lanes.tobytes(), width_bytes)
    return GlobalCost(phases, lines, [base + sector for sector in sectors])


@lru_cache(maxsize=PATTERNS_KEPT)
def _cost_of_pattern(offsets: bytes, lane_ids: bytes, width_bytes: int) -> tuple[int, int, tuple[int, ...]]:
    addresses, lanes = np.frombuffer(offsets, np.int64), np.frombuffer(lane_ids, np.int64)
    sectors = np.unique(np.concatenate([addresses // SECTOR_BYTES, (addresses + width_bytes - 1) // SECTOR_BYTES]))
    phase_of_lane = lanes // (WARP_SIZE // max(1, width_bytes // 4)) if width_bytes > 4 else np.zeros_like(lanes)
    phases = np.unique(phase_of_lane)
    lines = sum(len(np.unique(addresses[phase_of_lane == phase] // LINE_BYTES)) for phase in phases)
    return len(phases), lines, tuple((sectors * SECTOR_BYTES).tolist())
