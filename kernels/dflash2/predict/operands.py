"""Turns the text of an operand into a function that reads it from a warp."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from dflash2.errors import SimulationFailed
from dflash2.predict.instruction import ALWAYS
from dflash2.predict.lanes import WORD_MASK, Lanes, Mask, float_bits, signed, splat, zeros
from dflash2.predict.warp import ZERO_REGISTER, WarpState

Read = Callable[[WarpState], Lanes]
ReadMask = Callable[[WarpState], Mask]
ConstantBanks = Mapping[int, bytes]

_PARTS = re.compile(r"([-~|!]*)(.*?)(\|?)$")
_REGISTER = re.compile(r"R(\d+|Z)(\..*)?$")
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\s*\[(-?0x[0-9a-f]+)\]")
_CONSTANT_BY_REGISTER = re.compile(r"c\[(0x[0-9a-f]+)\]\s*\[R(\d+)(?:\+(-?0x[0-9a-f]+))?\]")
_ADDRESS_PART = re.compile(r"(-?)R(\d+|Z)(\.\w+)?$")
SIGN_BIT = 0x80000000


def register_number(argument: str) -> int:
    """Number of a destination register; RZ for anything else."""
    match = re.match(r"R(\d+)", argument)
    return int(match.group(1)) if match else ZERO_REGISTER


def predicate_number(argument: str) -> int:
    """Number of a predicate operand; PT is 7."""
    return ALWAYS if argument.endswith("T") else int(argument.lstrip("!P"))


def read_predicate(argument: str) -> ReadMask:
    """Reader of a predicate operand such as !P2."""
    number = predicate_number(argument)
    if argument.startswith("!"):
        return lambda warp: ~warp.predicates[number]
    return lambda warp: warp.predicates[number]


def read_integer(argument: str, constants: ConstantBanks) -> Read:
    """Reader of an integer source operand; -, ~ and |x| act on 32-bit words."""
    signs, base = _split(argument, constants)
    if "|" in signs:
        inner = base
        base = lambda warp: np.abs(signed(inner(warp)))  # noqa: E731
    if "-" in signs:
        return lambda warp: -base(warp) & WORD_MASK
    if "~" in signs:
        return lambda warp: ~base(warp) & WORD_MASK
    return base


def read_float(argument: str, constants: ConstantBanks) -> Read:
    """Reader of a single-precision source operand as its bits; - and |x| act on the sign bit."""
    signs, base = _split(argument, constants)
    if "-" in signs:
        return lambda warp: base(warp) ^ SIGN_BIT
    if "|" in signs:
        return lambda warp: base(warp) & ~SIGN_BIT
    return base


def read_address(argument: str, is_wide: bool) -> Read:
    """Reader of [R2.64+0x10], [R2+R4] and the like; a wide address is a register pair."""
    registers: list[tuple[int, bool]] = []
    offset = 0
    for part in re.findall(r"[+-]?[^+-]+", argument.strip("[]")):
        text = part.strip("+").strip()
        match = _ADDRESS_PART.match(text)
        if match is None:
            offset += int(text, 0)
        elif match.group(2) != "Z":
            registers.append((int(match.group(2)), is_wide and match.group(3) != ".U32"))

    def read(warp: WarpState) -> Lanes:
        total = zeros() + offset
        for number, is_pair in registers:
            low = warp.registers[number]
            total = total + (low | (warp.registers[number + 1] << 32) if is_pair else low)
        return total if is_wide else signed(total)

    return read


def _split(argument: str, constants: ConstantBanks) -> tuple[str, Read]:
    match = _PARTS.match(argument)
    assert match is not None  # the pattern matches any text
    signs, core = match.group(1), match.group(2)
    if register := _REGISTER.match(core):
        if register.group(1) == "Z":
            return signs, lambda warp: zeros()
        number = int(register.group(1))
        return signs, lambda warp: warp.registers[number]
    if core.startswith("c["):
        return signs, _read_constant(core, constants)
    if core.startswith("SR"):
        return signs, _read_special(core)
    value = splat(_literal(core))
    return signs, lambda warp: value


def _read_constant(core: str, constants: ConstantBanks) -> Read:
    if match := _CONSTANT.match(core):
        value = splat(_word(constants, int(match.group(1), 16), int(match.group(2), 16)))
        return lambda warp: value
    match = _CONSTANT_BY_REGISTER.match(core)
    if match is None:
        raise SimulationFailed(f"the model cannot read the constant operand {core}")
    bank, number, offset = int(match.group(1), 16), int(match.group(2)), int(match.group(3) or "0", 16)

    def read(warp: WarpState) -> Lanes:
        addresses = warp.registers[number] + offset
        return np.array([_word(constants, bank, int(address)) for address in addresses], np.int64)

    return read


def _word(constants: ConstantBanks, bank: int, offset: int) -> int:
    """Words behind the end of a bank read as zero: nvdisasm shows reads of padding."""
    return int.from_bytes(constants.get(bank, b"")[max(offset, 0) : max(offset, 0) + 4], "little")


def _read_special(name: str) -> Read:
    def read(warp: WarpState) -> Lanes:
        value = warp.special.get(name)
        if value is None:
            raise SimulationFailed(f"an address depends on the special register {name}, which the model does not know")
        return value

    return read


def _literal(core: str) -> int:
    try:
        return int(core, 0) & WORD_MASK
    except ValueError:
        text = core.replace("+", "").replace("INF", "inf").replace("QNAN", "nan")
    try:
        return int(float_bits(np.float32(text)))
    except ValueError as err:
        raise SimulationFailed(f"the model cannot read the operand {core}") from err
