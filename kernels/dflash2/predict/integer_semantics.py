"""What the integer instructions of an address computation do. Each builder returns a function that acts on one warp."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dflash2.errors import SimulationFailed
from dflash2.predict.instruction import Instruction, is_predicate
from dflash2.predict.lanes import LANE_IDS, WORD_MASK, Lanes, Mask, Words64, signed, zeros
from dflash2.predict.operands import (
    ConstantBanks,
    Read,
    ReadMask,
    predicate_number,
    read_integer,
    read_predicate,
    register_number,
)
from dflash2.predict.warp import WarpState

Step = Callable[[WarpState, Mask], None]
Builder = Callable[[Instruction, ConstantBanks], Step]


class AddOperands:
    """The operands of IADD3, LEA and IMAD: destination, carry-outs, sources, carry-ins (in that order)."""

    def __init__(self, instruction: Instruction, constants: ConstantBanks) -> None:
        arguments = instruction.arguments
        first = 1
        while is_predicate(arguments[first]):
            first += 1
        self.destination = register_number(arguments[0])
        self.carries_out = [predicate_number(argument) for argument in arguments[1:first]]
        self.source_texts = [argument for argument in arguments[first:] if not is_predicate(argument)]
        self.sources: list[Read] = [read_integer(text, constants) for text in self.source_texts]
        carries_in = [read_predicate(argument) for argument in arguments[first:] if is_predicate(argument)]
        self.carries_in: list[ReadMask] = carries_in if "X" in instruction.modifiers else []

    def carry_in(self, warp: WarpState) -> Lanes:
        """Sum of the carry-in predicates (zero unless the instruction is .X)."""
        total = zeros()
        for read in self.carries_in:
            total = total + read(warp).astype(np.int64)
        return total


def build_iadd3(instruction: Instruction, constants: ConstantBanks) -> Step:
    """IADD3 d = a + b + c; carry-out k says that the sum exceeded (k + 1) * 2^32 - 1."""
    operands = AddOperands(instruction, constants)

    def step(warp: WarpState, active: Mask) -> None:
        total = operands.carry_in(warp)
        for read in operands.sources:
            total = total + read(warp)
        for order, predicate in enumerate(operands.carries_out):
            warp.write_predicate(predicate, (total >> 32) > order, active)
        warp.write(operands.destination, total, active)

    return step


def build_imad(instruction: Instruction, constants: ConstantBanks) -> Step:
    """IMAD d = a * b + c, with the forms .MOV, .WIDE (64-bit sum) and .HI."""
    modifiers = instruction.modifiers
    if "MOV" in modifiers:
        return build_move(instruction, constants)
    if "WIDE" in modifiers:
        return _build_imad_wide(instruction, constants)
    operands = AddOperands(instruction, constants)
    a, b, c = operands.sources
    convert = _no_change if "U32" in modifiers else signed

    def high_step(warp: WarpState, active: Mask) -> None:
        products = [int(x) * int(y) for x, y in zip(convert(a(warp)), convert(b(warp)), strict=True)]
        high = np.array([(product >> 32) & WORD_MASK for product in products], np.int64)
        warp.write(operands.destination, high + c(warp), active)

    def low_step(warp: WarpState, active: Mask) -> None:
        product = a(warp) * b(warp)
        addend = c(warp)
        for predicate in operands.carries_out:
            warp.write_predicate(predicate, ((product & WORD_MASK) + addend) >> 32 > 0, active)
        warp.write(operands.destination, product + addend + operands.carry_in(warp), active)

    return high_step if "HI" in modifiers else low_step


def _build_imad_wide(instruction: Instruction, constants: ConstantBanks) -> Step:
    operands = AddOperands(instruction, constants)
    a, b, _ = operands.sources
    convert = _no_change if "U32" in instruction.modifiers else signed
    addend = _read_wide(operands.source_texts[2], constants)

    def step(warp: WarpState, active: Mask) -> None:
        product = convert(a(warp)).astype(np.uint64) * convert(b(warp)).astype(np.uint64)
        total = product + addend(warp).astype(np.uint64)
        warp.write(operands.destination, (total & np.uint64(WORD_MASK)).astype(np.int64), active)
        warp.write(operands.destination + 1, (total >> np.uint64(32)).astype(np.int64), active)

    return step


def _read_wide(text: str, constants: ConstantBanks) -> Read:
    """Reader of a 64-bit addend: a register pair, two constant words, or a sign-extended immediate."""
    low = read_integer(text, constants)
    if text == "RZ":
        return low
    if text.startswith("R"):
        high_register = register_number(text) + 1
        return lambda warp: low(warp) | (warp.registers[high_register] << 32)
    if text.startswith("c["):
        bank, offset = text.rsplit("[", 1)
        high = read_integer(f"{bank}[{int(offset.rstrip(']'), 16) + 4:#x}]", constants)
        return lambda warp: low(warp) | (high(warp) << 32)
    return lambda warp: signed(low(warp))


def build_lea(instruction: Instruction, constants: ConstantBanks) -> Step:
    """LEA d = (a << n) + b; .HI takes the upper word of (c:a) << n, with c the sign of a for .SX32."""
    operands = AddOperands(instruction, constants)
    sources = operands.sources
    is_high, extends_sign = "HI" in instruction.modifiers, "SX32" in instruction.modifiers

    def shifted(warp: WarpState) -> Lanes:
        low = sources[0](warp)
        if not is_high:
            return low << int(sources[2](warp)[0]) & WORD_MASK
        amount = int(sources[2 if extends_sign else 3](warp)[0])
        high = (signed(low) >> 32) & WORD_MASK if extends_sign else sources[2](warp)
        return ((high << amount) | (low >> (32 - amount) if amount else zeros())) & WORD_MASK

    def step(warp: WarpState, active: Mask) -> None:
        total = shifted(warp) + sources[1](warp) + operands.carry_in(warp)
        for predicate in operands.carries_out:
            warp.write_predicate(predicate, total >> 32 > 0, active)
        warp.write(operands.destination, total, active)

    return step


def build_move(instruction: Instruction, constants: ConstantBanks) -> Step:
    """MOV, S2R, LDC and IMAD.MOV: the last operand goes to the first."""
    destination = register_number(instruction.arguments[0])
    source = read_integer(instruction.arguments[-1], constants)
    return lambda warp, active: warp.write(destination, source(warp), active)


def build_cs2r(instruction: Instruction, _constants: ConstantBanks) -> Step:
    """CS2R reads a clock or SRZ: zero to the model, in one register or a pair."""
    destination = register_number(instruction.arguments[0])
    count = 1 if "32" in instruction.modifiers else 2

    def step(warp: WarpState, active: Mask) -> None:
        for word in range(count):
            warp.write(destination + word, zeros(), active)

    return step


def truth_table(a: Lanes, b: Lanes, c: Lanes, table: int, full: int) -> Lanes:
    """Bitwise function of three inputs: bit (4a + 2b + c) of `table`."""
    result = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            result = result | ((a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c))
    return result & full


def build_lop3(instruction: Instruction, constants: ConstantBanks) -> Step:
    """LOP3 d = table(a, b, c); an optional leading predicate says that d is not zero."""
    arguments = list(instruction.arguments)
    predicate = predicate_number(arguments.pop(0)) if is_predicate(arguments[0]) else None
    destination = register_number(arguments[0])
    a, b, c = (read_integer(argument, constants) for argument in arguments[1:4])
    table = int(arguments[4], 0)

    def step(warp: WarpState, active: Mask) -> None:
        value = truth_table(a(warp), b(warp), c(warp), table, WORD_MASK)
        warp.write(destination, value, active)
        if predicate is not None:
            warp.write_predicate(predicate, value != 0, active)

    return step


def build_shf(instruction: Instruction, constants: ConstantBanks) -> Step:
    """SHF: funnel shift of the 64-bit pair (high:low) = (third:first operand) by the second."""
    destination = register_number(instruction.arguments[0])
    low, amount, high = (read_integer(argument, constants) for argument in instruction.arguments[1:4])
    modifiers = set(instruction.modifiers)
    limit = 63 if modifiers & {"U64", "S64"} else 32

    def step(warp: WarpState, active: Mask) -> None:
        count = amount(warp)
        count = count & 31 if "W" in modifiers else np.minimum(count, limit)
        value = _shift_left(low(warp), high(warp), count, modifiers)
        if "L" not in modifiers:
            value = _shift_right(low(warp), high(warp), count, modifiers)
        warp.write(destination, (value & np.uint64(WORD_MASK)).astype(np.int64), active)

    return step


def _pair(low: Lanes, high: Lanes) -> Words64:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def _shift_left(low: Lanes, high: Lanes, count: Lanes, modifiers: set[str]) -> Words64:
    shifted = _pair(low, high) << count.astype(np.uint64)
    return shifted >> np.uint64(32) if "HI" in modifiers else shifted


def _shift_right(low: Lanes, high: Lanes, count: Lanes, modifiers: set[str]) -> Words64:
    pair, unsigned_count = _pair(low, high), count.astype(np.uint64)
    arithmetic = (pair.astype(np.int64) >> count).astype(np.uint64)
    logical = pair >> unsigned_count
    if "HI" not in modifiers:
        return arithmetic if modifiers & {"S32", "S64"} else logical
    if "S32" in modifiers:
        upper: Lanes = signed(high) >> np.minimum(count, 31)
        return upper.astype(np.uint64)
    if "S64" in modifiers:
        return arithmetic >> np.uint64(32)
    if "U64" in modifiers:
        return logical >> np.uint64(32)
    shifted: Words64 = high.astype(np.uint64) >> np.minimum(unsigned_count, np.uint64(31))
    shifted[count >= 32] = 0
    return shifted


def build_prmt(instruction: Instruction, constants: ConstantBanks) -> Step:
    """PRMT: four result bytes, each chosen by a nibble of the selector from the eight source bytes (bit 3: sign)."""
    destination = register_number(instruction.arguments[0])
    first, selector, second = (read_integer(argument, constants) for argument in instruction.arguments[1:4])

    def step(warp: WarpState, active: Mask) -> None:
        sources = [read(warp) >> 8 * byte & 255 for read in (first, second) for byte in range(4)]
        pool, chosen, result = np.stack(sources), selector(warp), zeros()
        for byte in range(4):
            nibble = chosen >> 4 * byte & 15
            picked = pool[nibble & 7, LANE_IDS]
            replicated_sign = np.where(picked & 128, 255, 0)
            result = result | np.where(nibble & 8, replicated_sign, picked) << 8 * byte
        warp.write(destination, result, active)

    return step


def build_imnmx(instruction: Instruction, constants: ConstantBanks) -> Step:
    """IMNMX d = predicate ? min(a, b) : max(a, b)."""
    destination = register_number(instruction.arguments[0])
    a, b = (read_integer(argument, constants) for argument in instruction.arguments[1:3])
    takes_minimum = read_predicate(instruction.arguments[3])
    convert = _no_change if "U32" in instruction.modifiers else signed

    def step(warp: WarpState, active: Mask) -> None:
        first, second = a(warp), b(warp)
        first_is_smaller = convert(first) <= convert(second)
        warp.write(destination, np.where(first_is_smaller == takes_minimum(warp), first, second), active)

    return step


def build_iabs(instruction: Instruction, constants: ConstantBanks) -> Step:
    """IABS d = |a|."""
    destination = register_number(instruction.arguments[0])
    source = read_integer(instruction.arguments[1], constants)
    return lambda warp, active: warp.write(destination, np.abs(signed(source(warp))), active)


def build_sgxt(instruction: Instruction, constants: ConstantBanks) -> Step:
    """SGXT: keep the low n bits, sign-extended unless .U32."""
    destination = register_number(instruction.arguments[0])
    source, width = (read_integer(argument, constants) for argument in instruction.arguments[1:3])
    is_unsigned = "U32" in instruction.modifiers

    def step(warp: WarpState, active: Mask) -> None:
        bits = np.minimum(width(warp), 32)
        low = source(warp) & ((1 << bits) - 1)
        sign = low >> np.maximum(bits - 1, 0) & 1
        warp.write(destination, low if is_unsigned else low - (sign << bits), active)

    return step


def build_popc(instruction: Instruction, constants: ConstantBanks) -> Step:
    """POPC: number of set bits."""
    destination = register_number(instruction.arguments[0])
    source = read_integer(instruction.arguments[-1], constants)
    return lambda warp, active: warp.write(
        destination, np.array([int(value).bit_count() for value in source(warp)], np.int64), active
    )


def build_flo(instruction: Instruction, constants: ConstantBanks) -> Step:
    """FLO: index of the highest set bit, all ones for zero."""
    if "U32" not in instruction.modifiers:
        raise SimulationFailed(f"the model does not know the signed form of {instruction.text}")
    destination = register_number(instruction.arguments[-2])
    source = read_integer(instruction.arguments[-1], constants)
    return lambda warp, active: warp.write(
        destination,
        np.array([int(value).bit_length() - 1 if value else WORD_MASK for value in source(warp)], np.int64),
        active,
    )


def _no_change(words: Lanes) -> Lanes:
    return words


INTEGER_BUILDERS: Mapping[str, Builder] = {
    "IADD3": build_iadd3,
    "IMAD": build_imad,
    "LEA": build_lea,
    "MOV": build_move,
    "S2R": build_move,
    "LDC": build_move,
    "CS2R": build_cs2r,
    "LOP3": build_lop3,
    "SHF": build_shf,
    "PRMT": build_prmt,
    "IMNMX": build_imnmx,
    "IABS": build_iabs,
    "SGXT": build_sgxt,
    "POPC": build_popc,
    "FLO": build_flo,
}
