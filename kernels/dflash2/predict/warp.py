"""Architectural state of one emulated warp, and the trace it leaves for the cycle simulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dflash2.predict.instruction import ALWAYS
from dflash2.predict.lanes import LANE_IDS, WARP_SIZE, WORD_MASK, Lanes, Mask, zeros
from dflash2.predict.memory import DeviceMemory

ZERO_REGISTER = 255
Dim3 = tuple[int, int, int]


class Access(NamedTuple):
    """One traced memory access or barrier; `step` indexes the warp's trace.

    Memory: `waves` phases or wavefronts, `lines` distinct lines over phases, and a slice of the trace's sectors.
    Barrier: `waves` is the barrier's number and `lines` the number of warps it waits for.
    """

    step: int
    waves: int
    lines: int
    first_sector: int
    sector_count: int


@dataclass
class WarpTrace:
    """What one warp executed: instruction indices in order, its accesses and the sector addresses they touched."""

    steps: list[int] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    sectors: list[int] = field(default_factory=list)

    def record(self, waves: int, lines: int, sectors: list[int] | None = None) -> None:
        """Attach an access to the step recorded last."""
        touched = sectors or []
        self.accesses.append(Access(len(self.steps) - 1, waves, lines, len(self.sectors), len(touched)))
        self.sectors.extend(touched)


class WarpState:
    """Registers, predicates, special registers and local memory of one warp."""

    def __init__(self, warp_id: int, block: Dim3, cta: Dim3, memory: DeviceMemory) -> None:
        self.warp_id = warp_id
        self.memory = memory
        self.registers = np.zeros((256, WARP_SIZE), np.int64)
        self.predicates = np.zeros((8, WARP_SIZE), bool)
        self.predicates[ALWAYS] = True
        self.local: dict[int, Lanes] = {}
        thread = warp_id * WARP_SIZE + LANE_IDS
        self.alive: Mask = thread < block[0] * block[1] * block[2]
        self.special: dict[str, Lanes] = {
            "SR_TID.X": thread % block[0],
            "SR_TID.Y": thread // block[0] % block[1],
            "SR_TID.Z": thread // (block[0] * block[1]),
            "SR_LANEID": LANE_IDS,
            "SR_CTAID.X": np.full(WARP_SIZE, cta[0], np.int64),
            "SR_CTAID.Y": np.full(WARP_SIZE, cta[1], np.int64),
            "SR_CTAID.Z": np.full(WARP_SIZE, cta[2], np.int64),
            "SR_EQMASK": 1 << LANE_IDS,
            "SR_LTMASK": (1 << LANE_IDS) - 1,
            "SR_LEMASK": (2 << LANE_IDS) - 1,
            "SR_CLOCKLO": zeros(),
            "SRZ": zeros(),
        }

    def write(self, register: int, value: Lanes, active: Mask) -> None:
        """Set a register in the active lanes; writes to RZ vanish."""
        if register != ZERO_REGISTER:
            self.registers[register] = np.where(active, value & WORD_MASK, self.registers[register])

    def write_predicate(self, predicate: int, value: Mask, active: Mask) -> None:
        """Set a predicate in the active lanes; writes to PT vanish."""
        if predicate != ALWAYS:
            self.predicates[predicate] = np.where(active, value, self.predicates[predicate])
