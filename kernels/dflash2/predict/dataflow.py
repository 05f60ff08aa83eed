"""Which instructions can steer an address, a branch or a guard: only those need to be executed to time a kernel.

Timing on sm_70 depends on where memory accesses go and which way branches turn, not on the numbers computed. A backward
liveness pass over the control-flow graph marks the instructions whose result can reach such a place.

A resource is a small integer: 0-254 general registers, 256-262 predicates. A set of resources is an int used as a mask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dflash2.predict.instruction import ALWAYS, Instruction, Kind, is_predicate, registers_in

PREDICATE_BASE = 256
_PREDICATE_COUNT = 7
_NEVER_LIVE = {255, PREDICATE_BASE + ALWAYS}  # RZ and PT

_LOADS = {"LDG", "LDS", "LDL", "LD", "LDC"}
_STORES = {"STG", "STS", "STL", "ST", "RED"}
_ATOMICS = {"ATOM", "ATOMG", "ATOMS"}
_WIDE_ADDRESS = {"LDG", "LD", "STG", "ST", "RED"}
_CONTROL = {"BRA", "EXIT", "RET", "CALL", "BSSY", "BSYNC", "BAR", "BRX", "WARPSYNC", "BREAK"}
_COMPARES = {"ISETP", "FSETP", "DSETP", "HSETP2", "PLOP3"}
_LEADING_PREDICATE = {"LOP3", "SHFL", "VOTE", "POPC", "FLO", "FCHK", "P2R"}
_CARRY_OUT = {"IADD3", "LEA", "IMAD"}


@dataclass(frozen=True)
class Effects:
    """Resources an instruction writes and reads; `gates` are the reads that steer control flow or an address."""

    writes: frozenset[int]
    reads: frozenset[int]
    gates: frozenset[int]


def effects(instruction: Instruction) -> Effects:
    """The resources one instruction touches."""
    opcode = instruction.opcode
    if opcode in _LOADS:
        writes, reads, gates = _load(instruction)
    elif opcode in _STORES:
        writes, reads, gates = _store(instruction)
    elif opcode == "CCTL":
        writes, reads = set(), _registers(instruction.arguments[0], 2)
        gates = set(reads)
    elif opcode in _ATOMICS:
        writes, reads, gates = _atomic(instruction)
    elif opcode in _CONTROL:
        writes, reads, gates = _control(instruction)
    else:
        writes, reads = _arithmetic(instruction)
        gates = set()
    guard = {PREDICATE_BASE + instruction.guard} if instruction.is_guarded else set()
    if opcode in _LOADS | _STORES | _ATOMICS | _CONTROL | {"CCTL"}:
        gates |= guard
    return Effects(
        frozenset(writes - _NEVER_LIVE),
        frozenset((reads | guard) - {PREDICATE_BASE + ALWAYS}),
        frozenset(gates),
    )


def address_slice(instructions: Sequence[Instruction]) -> list[bool]:
    """True for each instruction whose result can reach an address, a branch or a guard."""
    touched = [effects(instruction) for instruction in instructions]
    writes = [_mask(effect.writes) for effect in touched]
    reads = [_mask(effect.reads) for effect in touched]
    gates = [_mask(effect.gates) for effect in touched]
    for index, instruction in enumerate(instructions):
        if instruction.kind != Kind.PLAIN and instruction.is_guarded:
            gates[index] |= 1 << (PREDICATE_BASE + instruction.guard)
    successors = _successors(instructions)
    needed = [instruction.opcode == "STL" for instruction in instructions]
    live = [0] * len(instructions)
    changed = True
    while changed:
        changed = False
        for index in range(len(instructions) - 1, -1, -1):
            after = 0
            for successor in successors[index]:
                after |= live[successor]
            needed[index] = needed[index] or bool(after & writes[index])
            survives = after if instructions[index].is_guarded else after & ~writes[index]
            before = survives | gates[index] | (reads[index] if needed[index] else 0)
            if before != live[index]:
                live[index], changed = before, True
    return needed


def _successors(instructions: Sequence[Instruction]) -> list[list[int]]:
    """Control-flow edges; a RET may return behind any CALL."""
    count = len(instructions)
    return_sites = [instruction.index + 1 for instruction in instructions if instruction.opcode == "CALL"]
    edges = []
    for instruction in instructions:
        opcode, following = instruction.opcode, instruction.index + 1
        to: list[int] = []
        if opcode in ("BRA", "JMP", "CALL") and instruction.target is not None:
            to.append(instruction.target)
        conditional = instruction.is_guarded or any(is_predicate(argument) for argument in instruction.arguments)
        if opcode == "RET":
            to += return_sites
        elif opcode not in ("BRA", "JMP", "EXIT") or conditional:
            to.append(following)
        edges.append([index for index in to if index < count])
    return edges


def _load(instruction: Instruction) -> tuple[set[int], set[int], set[int]]:
    arguments = instruction.arguments
    destination = 1 if is_predicate(arguments[0]) else 0
    words = max(1, instruction.width_bytes // 4)
    address = _registers(arguments[-1], 2 if instruction.opcode in _WIDE_ADDRESS else 1)
    return _registers(arguments[destination], words), address, set(address)


def _store(instruction: Instruction) -> tuple[set[int], set[int], set[int]]:
    address = _registers(instruction.arguments[0], 2 if instruction.opcode in _WIDE_ADDRESS else 1)
    value = _registers(instruction.arguments[1], max(1, instruction.width_bytes // 4))
    # A spilled loop bound must survive its trip through local memory.
    return set(), address | value, address | value if instruction.opcode == "STL" else set(address)


def _atomic(instruction: Instruction) -> tuple[set[int], set[int], set[int]]:
    arguments, words = instruction.arguments, max(1, instruction.width_bytes // 4)
    at = next(index for index, argument in enumerate(arguments) if argument.startswith("["))
    writes = {
        resource for argument in arguments[:at] for resource in _predicate(argument) | _registers(argument, words)
    }
    address = _registers(arguments[at], 2)
    operands = {resource for argument in arguments[at + 1 :] for resource in _registers(argument, words)}
    return writes, address | operands, address


def _control(instruction: Instruction) -> tuple[set[int], set[int], set[int]]:
    if instruction.opcode in ("RET", "CALL"):
        return set(), set(), set()
    reads = {
        resource for argument in instruction.arguments for resource in _predicate(argument) | _registers(argument, 1)
    }
    return set(), reads, set(reads)


def _arithmetic(instruction: Instruction) -> tuple[set[int], set[int]]:
    """Destinations come first (predicates, then one register or pair, then carry-outs); the rest are sources."""
    arguments = instruction.arguments
    writes, first_source = _destinations(instruction)
    reads: set[int] = set()
    for index in range(first_source, len(arguments)):
        reads |= _predicate(arguments[index])
        reads |= _registers(arguments[index], _source_words(instruction, index, first_source))
    if instruction.opcode == "P2R":
        reads |= set(range(PREDICATE_BASE, PREDICATE_BASE + _PREDICATE_COUNT))
    return writes, reads


def _destinations(instruction: Instruction) -> tuple[set[int], int]:
    opcode, arguments = instruction.opcode, instruction.arguments
    if opcode in _COMPARES:
        second_is_source = opcode == "PLOP3" and not is_predicate(arguments[1])
        return _predicate(arguments[0]) | _predicate(arguments[1]), 1 if second_is_source else 2
    if opcode == "R2P":
        return set(range(PREDICATE_BASE, PREDICATE_BASE + _PREDICATE_COUNT)), 1
    writes: set[int] = set()
    index = 0
    while index < len(arguments) and is_predicate(arguments[index]) and opcode in _LEADING_PREDICATE:
        writes |= _predicate(arguments[index])
        index += 1
    if index < len(arguments) and not (opcode == "VOTE" and is_predicate(arguments[index])):
        if opcode != "VOTE" or arguments[index].startswith("R"):
            writes |= _registers(arguments[index], _destination_words(instruction))
        index += 1
    while index < len(arguments) and is_predicate(arguments[index]) and opcode in _CARRY_OUT:
        writes |= _predicate(arguments[index])
        index += 1
    return writes, index


def _destination_words(instruction: Instruction) -> int:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    is_pair = (
        "WIDE" in modifiers
        or (opcode == "CS2R" and "32" not in modifiers)
        or opcode in ("HMMA", "DFMA", "DADD", "DMUL")
        or ("F64" in modifiers and opcode == "I2F")
    )
    return 2 if is_pair else 1


def _source_words(instruction: Instruction, index: int, first_source: int) -> int:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    is_last_or_addend = index in (len(instruction.arguments) - 1, first_source + 2)
    is_pair = (
        opcode == "HMMA"
        or opcode.startswith("D")
        or ("WIDE" in modifiers and is_last_or_addend)
        or ("F64" in modifiers and opcode == "F2F")
    )
    return 2 if is_pair else 1


def _registers(argument: str, words: int) -> set[int]:
    return {register + word for register in registers_in(argument) for word in range(words)}


def _predicate(argument: str) -> set[int]:
    match = re.fullmatch(r"!?P([0-6])", argument)
    return {PREDICATE_BASE + int(match.group(1))} if match else set()


def _mask(resources: Iterable[int]) -> int:
    mask = 0
    for resource in resources:
        mask |= 1 << resource
    return mask
