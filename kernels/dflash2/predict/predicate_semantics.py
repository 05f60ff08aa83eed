"""What the instructions that read or write predicates do, and the selects that use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dflash2.predict.instruction import Instruction, is_predicate
from dflash2.predict.integer_semantics import Builder, Step, truth_table
from dflash2.predict.lanes import LANE_IDS, Mask, as_float, signed, splat, zeros
from dflash2.predict.operands import (
    ConstantBanks,
    predicate_number,
    read_float,
    read_integer,
    read_predicate,
    register_number,
)
from dflash2.predict.warp import WarpState

_COMPARE: Mapping[str, Callable[..., Mask]] = {
    **dict.fromkeys(("LT", "LTU"), np.less),
    **dict.fromkeys(("LE", "LEU"), np.less_equal),
    **dict.fromkeys(("GT", "GTU"), np.greater),
    **dict.fromkeys(("GE", "GEU"), np.greater_equal),
    **dict.fromkeys(("EQ", "EQU"), np.equal),
    **dict.fromkeys(("NE", "NEU"), np.not_equal),
}
_COMBINE: Mapping[str, Callable[..., Mask]] = {
    "AND": np.logical_and,
    "OR": np.logical_or,
    "XOR": np.logical_xor,
}
_ALL_PREDICATES = 7


def build_compare(instruction: Instruction, constants: ConstantBanks) -> Step:
    """ISETP and FSETP: p = (a ? b) combined with c, q = !(a ? b) combined with c; .EX lets a lower word decide ties."""
    arguments, modifiers = instruction.arguments, instruction.modifiers
    targets = [predicate_number(argument) for argument in arguments[:2]]
    is_float = instruction.opcode == "FSETP"
    read = read_float if is_float else read_integer
    left, right = (read(argument, constants) for argument in arguments[2:4])
    combined_with = read_predicate(arguments[4] if len(arguments) > 4 else "PT")
    lower_word = read_predicate(arguments[5]) if "EX" in modifiers and len(arguments) > 5 else None
    compare = next(_COMPARE[modifier] for modifier in modifiers if modifier in _COMPARE)
    combine = next((_COMBINE[modifier] for modifier in modifiers if modifier in _COMBINE), np.logical_and)
    convert = as_float if is_float else (lambda words: words) if "U32" in modifiers else signed

    def step(warp: WarpState, active: Mask) -> None:
        a, b = convert(left(warp)), convert(right(warp))
        with np.errstate(invalid="ignore"):
            holds = compare(a, b)
        if lower_word is not None:
            holds = np.where(a == b, lower_word(warp), holds)
        other = combined_with(warp)
        warp.write_predicate(targets[0], combine(holds, other), active)
        warp.write_predicate(targets[1], combine(~holds, other), active)

    return step


def build_plop3(instruction: Instruction, _constants: ConstantBanks) -> Step:
    """PLOP3: each target predicate is a truth table of the last three predicate operands."""
    arguments = instruction.arguments
    first_source = 2 if is_predicate(arguments[1]) and len(arguments) >= 6 else 1
    targets = [predicate_number(argument) for argument in arguments[:first_source]]
    predicates = [argument for argument in arguments[first_source:] if is_predicate(argument)]
    sources = [read_predicate(argument) for argument in predicates[-3:]]
    tables = [int(argument, 0) for argument in arguments if argument.startswith("0x")]

    def step(warp: WarpState, active: Mask) -> None:
        a, b, c = (source(warp).astype(np.int64) for source in sources)
        for target, table in zip(targets, tables, strict=False):
            warp.write_predicate(target, truth_table(a, b, c, table, 1) > 0, active)

    return step


def build_select(instruction: Instruction, constants: ConstantBanks) -> Step:
    """SEL and FSEL: d = predicate ? a : b."""
    read = read_float if instruction.opcode == "FSEL" else read_integer
    destination = register_number(instruction.arguments[0])
    first, second = (read(argument, constants) for argument in instruction.arguments[1:3])
    chooses_first = read_predicate(instruction.arguments[3])
    return lambda warp, active: warp.write(
        destination, np.where(chooses_first(warp), first(warp), second(warp)), active
    )


def build_p2r(instruction: Instruction, _constants: ConstantBanks) -> Step:
    """P2R: the seven predicates as bits, under a mask."""
    destination, mask = register_number(instruction.arguments[0]), int(instruction.arguments[-1], 0)

    def step(warp: WarpState, active: Mask) -> None:
        bits = zeros()
        for number in range(_ALL_PREDICATES):
            bits = bits | warp.predicates[number].astype(np.int64) << number
        warp.write(destination, bits & mask, active)

    return step


def build_r2p(instruction: Instruction, constants: ConstantBanks) -> Step:
    """R2P: predicates from the bits of a register, under a mask."""
    source = read_integer(instruction.arguments[1], constants)
    text = instruction.arguments[2]
    mask = int(text, 16) if text.startswith("0x") else 127

    def step(warp: WarpState, active: Mask) -> None:
        bits = source(warp)
        for number in range(_ALL_PREDICATES):
            if mask >> number & 1:
                warp.write_predicate(number, bits >> number & 1 > 0, active)

    return step


def build_vote(instruction: Instruction, _constants: ConstantBanks) -> Step:
    """VOTE: ballot into a register, or all/any into a predicate."""
    arguments = instruction.arguments
    condition = read_predicate(arguments[-1])
    wants_all = "ALL" in instruction.modifiers
    predicate_targets = [predicate_number(argument) for argument in arguments[:-1] if is_predicate(argument)]
    register = register_number(arguments[0]) if arguments[0].startswith("R") else None

    def step(warp: WarpState, active: Mask) -> None:
        votes = condition(warp) & active
        agreed = bool((votes | ~active).all()) if wants_all else bool(votes.any())
        if register is not None:
            warp.write(register, splat(int((votes.astype(np.int64) << LANE_IDS).sum())), active)
        for target in predicate_targets:
            warp.write_predicate(target, np.full(len(LANE_IDS), agreed), active)

    return step


PREDICATE_BUILDERS: Mapping[str, Builder] = {
    "ISETP": build_compare,
    "FSETP": build_compare,
    "PLOP3": build_plop3,
    "SEL": build_select,
    "FSEL": build_select,
    "P2R": build_p2r,
    "R2P": build_r2p,
    "VOTE": build_vote,
}
