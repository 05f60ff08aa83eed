"""Executes the address slice of every warp of one CTA and records what each warp did.

Lanes of a warp that took different ways form groups; the group at the lowest address runs first, one instruction at a
time while others wait, and BSYNC joins them. Numbers that no address depends on are never computed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dflash2.errors import SimulationFailed
from dflash2.predict.instruction import Instruction, Kind, Pipe, is_predicate
from dflash2.predict.integer_semantics import Step
from dflash2.predict.lanes import Mask
from dflash2.predict.memory import LINE_BYTES, SECTOR_BYTES, DeviceMemory, global_cost, shared_wavefronts
from dflash2.predict.operands import Read, read_address, read_integer, read_predicate
from dflash2.predict.semantics import build_step
from dflash2.predict.warp import Dim3, WarpState, WarpTrace

PARAMETER_OFFSET = 0x160  # where sm_70 keeps kernel arguments in constant bank 0
_STACK_POINTER_OFFSET = 0x28
_STACK_POINTER = 0xFFFC00
STEP_LIMIT = 3_000_000
_GLOBAL_OPCODES = {"LDG", "STG", "LD", "ST", "RED", "ATOM", "ATOMG", "CCTL"}
# Local memory lives at (1 << 60), interleaved by warp: never a buffer, and never in HBM (see sm_simulator.c).
LOCAL_SPACE = 1 << 60


@dataclass(frozen=True)
class Program:
    """A function's instructions, which of them are needed, and the literals of constant bank 2."""

    instructions: Sequence[Instruction]
    needed: Sequence[bool]
    literals: bytes = b""


@dataclass(frozen=True)
class Launch:
    """One launch: block and grid size, packed arguments, and the memory they point into."""

    block: Dim3
    grid: Dim3
    arguments: bytes
    memory: DeviceMemory

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return (self.threads + 31) // 32

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


def emulate_cta(program: Program, launch: Launch, cta: Dim3) -> list[WarpTrace]:
    """Traces of all warps of one CTA. Raises SimulationFailed for endless loops and opcodes the model lacks."""
    bank = bytearray(PARAMETER_OFFSET)
    struct.pack_into("<6I", bank, 0, *launch.block, *launch.grid)
    struct.pack_into("<I", bank, _STACK_POINTER_OFFSET, _STACK_POINTER)
    constants = {0: bytes(bank) + launch.arguments, 2: program.literals}
    code = _Code(program, constants)
    return [
        _WarpRun(code, WarpState(warp, launch.block, cta, launch.memory), launch.warps).run()
        for warp in range(launch.warps)
    ]


class _Code:
    """The compiled form of a program for one launch: effects, addresses and branch conditions as functions."""

    def __init__(self, program: Program, constants: dict[int, bytes]) -> None:
        self.instructions = program.instructions
        self.steps: list[Step | None] = [
            build_step(instruction, constants) if needed else None
            for instruction, needed in zip(program.instructions, program.needed, strict=True)
        ]
        self.addresses: list[Read | None] = [_address_reader(instruction) for instruction in program.instructions]
        self.next_effect = self._next_effects()
        self.barriers: dict[int, list[Read]] = {
            instruction.index: [
                read_integer(text, constants) for text in instruction.arguments if not is_predicate(text)
            ]
            for instruction in program.instructions
            if instruction.kind is Kind.BARRIER
        }

    def _next_effects(self) -> list[int]:
        """For each instruction the first from it on that steers, writes a needed register or accesses memory."""
        following = len(self.instructions)
        result = [0] * following
        for index in range(len(self.instructions) - 1, -1, -1):
            is_control = self.instructions[index].pipe is Pipe.CONTROL
            if is_control or self.steps[index] is not None or self.addresses[index] is not None:
                following = index
            result[index] = following
        return result


def _address_reader(instruction: Instruction) -> Read | None:
    if instruction.kind in (Kind.PLAIN, Kind.SHUFFLE) or instruction.pipe is not Pipe.LSU:
        return None
    text = next(argument for argument in instruction.arguments if argument.startswith("["))
    return read_address(text, is_wide=instruction.opcode in _GLOBAL_OPCODES)


class _WarpRun:
    """One warp on its way through the program."""

    def __init__(self, code: _Code, warp: WarpState, warps_in_cta: int) -> None:
        self._code = code
        self._warp = warp
        self._warps_in_cta = warps_in_cta
        self._trace = WarpTrace()
        self._groups: dict[int, Mask] = {0: warp.alive.copy()}  # lanes by the instruction they stand at
        self._joining: dict[str, Mask] = {}  # convergence barrier -> lanes it was set for
        self._arrived: dict[str, tuple[Mask, int]] = {}  # convergence barrier -> lanes waiting, at this BSYNC
        self._return_stack: list[int] = []

    def run(self) -> WarpTrace:
        """Run to the end of every lane."""
        while self._groups:
            at = min(self._groups)
            active = self._groups.pop(at) & self._warp.alive
            if active.any():
                self._run_group(at, active)
        return self._trace

    def _run_group(self, at: int, active: Mask) -> None:
        """Run one group until it splits, parks or ends, or for one instruction while other groups wait."""
        while True:
            if not self._groups:  # nobody waits: what has no effect is traced in one go
                effect = self._code.next_effect[at]
                self._trace.steps.extend(range(at, effect))
                at = effect
            instruction = self._code.instructions[at]
            self._trace.steps.append(at)
            if len(self._trace.steps) > STEP_LIMIT:
                raise SimulationFailed(f"a warp ran past {STEP_LIMIT} instructions", "emulate a shorter input")
            enabled = self._enabled(instruction, active)
            if instruction.pipe is Pipe.CONTROL:
                follow = self._control(instruction, active, enabled)
                if follow is None:
                    return
                at = follow
                active = active & self._warp.alive
            else:
                self._execute(instruction, enabled)
                at += 1
            if self._groups:
                self._park(at, active)
                return

    def _enabled(self, instruction: Instruction, active: Mask) -> Mask:
        if not instruction.is_guarded and not instruction.guard_negated:
            return active
        holds: Mask = self._warp.predicates[instruction.guard]
        enabled: Mask = active & (~holds if instruction.guard_negated else holds)
        return enabled

    def _execute(self, instruction: Instruction, enabled: Mask) -> None:
        address = self._code.addresses[instruction.index]
        if address is not None:
            self._record_access(instruction, enabled, address)
        step = self._code.steps[instruction.index]
        if step is not None and enabled.any():
            step(self._warp, enabled)

    def _record_access(self, instruction: Instruction, enabled: Mask, address: Read) -> None:
        if not enabled.any():
            self._trace.record(0, 0)
            return
        lanes = np.nonzero(enabled)[0]
        addresses, width = address(self._warp)[enabled], instruction.width_bytes
        if instruction.kind in (Kind.SHARED_LOAD, Kind.SHARED_STORE):
            self._trace.record(shared_wavefronts(addresses, lanes, width), 0)
        elif instruction.kind in (Kind.LOCAL_LOAD, Kind.LOCAL_STORE):
            words = max(1, width // 4)
            start = LOCAL_SPACE + (self._warp.warp_id << 40) + int(addresses[0]) * SECTOR_BYTES
            self._trace.record(words, words, [start + SECTOR_BYTES * sector for sector in range(4 * words)])
        elif instruction.kind is Kind.PREFETCH:
            lines = np.unique(addresses // LINE_BYTES).tolist()
            sectors = [line * LINE_BYTES + SECTOR_BYTES * part for line in lines for part in range(4)]
            self._trace.record(len(lines), len(lines), sectors)
        else:
            cost = global_cost(addresses, lanes, width)
            self._trace.record(cost.phases, cost.lines, cost.sectors)

    def _control(self, instruction: Instruction, active: Mask, enabled: Mask) -> int | None:
        """Where the group goes next; None when it split, parked or ended (the groups then say who stands where)."""
        following = instruction.index + 1
        match instruction.opcode:
            case "EXIT":
                return self._exit(instruction, active, enabled)
            case "BRA" | "JMP":
                return self._branch(instruction, active, enabled)
            case "BSSY":
                assert instruction.target is not None
                self._joining[instruction.arguments[0]] = active.copy()
            case "BSYNC":
                self._synchronize(instruction, active)
                return None
            case "BREAK":
                name = instruction.arguments[-1]
                if name in self._joining:
                    self._joining[name] = self._joining[name] & ~enabled
            case "CALL":
                if enabled.any() and instruction.target is not None:
                    self._return_stack.append(following)
                    self._split(instruction.target, enabled, following, active & ~enabled)
                    return None
            case "RET":
                if enabled.any():
                    self._park(self._return_stack.pop(), enabled)
                    return None
            case "BAR":
                self._record_barrier(instruction)
        return following

    def _exit(self, instruction: Instruction, active: Mask, enabled: Mask) -> int | None:
        self._warp.alive = self._warp.alive & ~self._where(instruction, enabled)
        if not (active & self._warp.alive).any():
            self._release()
            return None
        return instruction.index + 1

    def _branch(self, instruction: Instruction, active: Mask, enabled: Mask) -> int | None:
        taken = self._where(instruction, enabled)
        if "DIV" in instruction.modifiers or instruction.target is None:
            taken = np.zeros_like(
                taken
            )  # BRA.DIV leaves only when the warp has diverged, for code the compiler keeps apart
        if not taken.any():
            return instruction.index + 1
        rest = active & ~taken
        if rest.any():
            self._split(instruction.target or 0, taken, instruction.index + 1, rest)
            return None
        return instruction.target

    def _where(self, instruction: Instruction, enabled: Mask) -> Mask:
        """The lanes left by the predicate operands of a branch or exit."""
        for argument in instruction.arguments:
            if is_predicate(argument):
                enabled = enabled & read_predicate(argument)(self._warp)
        return enabled

    def _synchronize(self, instruction: Instruction, active: Mask) -> None:
        name = instruction.arguments[0]
        waiting = self._arrived[name][0] if name in self._arrived else np.zeros_like(active)
        self._arrived[name] = (waiting | active, instruction.index)
        self._release()

    def _release(self) -> None:
        """Let the lanes behind a BSYNC go on once all that are still alive have arrived."""
        for name in list(self._arrived):
            waiting, at = self._arrived[name]
            expected = self._joining.get(name, waiting) & self._warp.alive
            if not (expected & ~waiting).any():
                del self._arrived[name]
                self._park(at + 1, waiting)

    def _record_barrier(self, instruction: Instruction) -> None:
        operands = [read(self._warp) for read in self._code.barriers[instruction.index]]
        if not operands:
            return
        participants = (int(operands[1][0]) + 31) // 32 if len(operands) > 1 else self._warps_in_cta
        self._trace.record(int(operands[0][0]) & 15, participants)

    def _split(self, first_at: int, first: Mask, second_at: int, second: Mask) -> None:
        for at, lanes in ((second_at, second), (first_at, first)):
            if lanes.any():
                self._park(at, lanes)

    def _park(self, at: int, lanes: Mask) -> None:
        self._groups[at] = self._groups[at] | lanes if at in self._groups else lanes.copy()
