"""What loads, shuffles and float instructions do (integer division computes addresses through floats)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dflash2.errors import SimulationFailed
from dflash2.predict.dataflow import effects
from dflash2.predict.instruction import Instruction, is_predicate
from dflash2.predict.integer_semantics import INTEGER_BUILDERS, Builder, Step
from dflash2.predict.lanes import LANE_IDS, WARP_SIZE, WORD_MASK, Lanes, Mask, as_float, float_bits, signed, zeros
from dflash2.predict.operands import (
    ConstantBanks,
    predicate_number,
    read_address,
    read_float,
    read_integer,
    read_predicate,
    register_number,
)
from dflash2.predict.predicate_semantics import PREDICATE_BUILDERS
from dflash2.predict.warp import ZERO_REGISTER, WarpState

_Floats = npt.NDArray[np.float32]


def build_step(instruction: Instruction, constants: ConstantBanks) -> Step:
    """The effect of one needed instruction on a warp; raises SimulationFailed for an opcode the model does not know."""
    opcode = instruction.opcode
    for builders in (INTEGER_BUILDERS, PREDICATE_BUILDERS, _OTHER_BUILDERS):
        if opcode in builders:
            return builders[opcode](instruction, constants)
    raise SimulationFailed(
        f"an address depends on {instruction.text}, which the timing model does not know",
        "add a builder for the opcode to dflash2/predict/semantics.py",
    )


def build_zero(instruction: Instruction, _constants: ConstantBanks) -> Step:
    """Stand-in for a result that is not modelled (half and tensor arithmetic, atomics): its registers read as zero."""
    written = [number for number in effects(instruction).writes if number < ZERO_REGISTER]

    def step(warp: WarpState, active: Mask) -> None:
        for number in written:
            warp.write(number, zeros(), active)

    return step


def build_global_load(instruction: Instruction, _constants: ConstantBanks) -> Step:
    """LDG and LD read the buffers that have contents."""
    destination = _load_destination(instruction)
    address = read_address(instruction.arguments[-1], is_wide=True)
    words, width = max(1, instruction.width_bytes // 4), instruction.width_bytes
    extends_sign = "S16" in instruction.modifiers

    def step(warp: WarpState, active: Mask) -> None:
        start = address(warp)
        for word in range(words):
            value = warp.memory.load(start + 4 * word, active, width)
            warp.write(destination + word, (value ^ 0x8000) - 0x8000 if extends_sign else value, active)

    return step


def build_shared_load(instruction: Instruction, _constants: ConstantBanks) -> Step:
    """LDS reads zero: shared memory's contents are not modelled."""
    destination, words = _load_destination(instruction), max(1, instruction.width_bytes // 4)

    def step(warp: WarpState, active: Mask) -> None:
        for word in range(words):
            warp.write(destination + word, zeros(), active)

    return step


def build_local_load(instruction: Instruction, _constants: ConstantBanks) -> Step:
    """LDL reads a spill slot back."""
    destination, words = _load_destination(instruction), max(1, instruction.width_bytes // 4)
    address = read_address(instruction.arguments[-1], is_wide=False)

    def step(warp: WarpState, active: Mask) -> None:
        slot = int(address(warp)[np.argmax(active)])
        for word in range(words):
            warp.write(destination + word, warp.local.get(slot + 4 * word, zeros()), active)

    return step


def build_local_store(instruction: Instruction, _constants: ConstantBanks) -> Step:
    """STL keeps a spilled register (a loop bound may be among them)."""
    source, words = register_number(instruction.arguments[1]), max(1, instruction.width_bytes // 4)
    address = read_address(instruction.arguments[0], is_wide=False)

    def step(warp: WarpState, active: Mask) -> None:
        slot = int(address(warp)[np.argmax(active)])
        for word in range(words):
            value = zeros() if source == ZERO_REGISTER else warp.registers[source + word]
            warp.local[slot + 4 * word] = np.where(active, value, warp.local.get(slot + 4 * word, zeros()))

    return step


def build_shuffle(instruction: Instruction, constants: ConstantBanks) -> Step:
    """SHFL: each lane reads another lane's register."""
    arguments = instruction.arguments
    validity, destination = predicate_number(arguments[0]), register_number(arguments[1])
    value, selector = (read_integer(argument, constants) for argument in arguments[2:4])
    source_lane: Callable[[Lanes], Lanes] = {
        "IDX": lambda count: count & (WARP_SIZE - 1),
        "BFLY": lambda count: LANE_IDS ^ (count & (WARP_SIZE - 1)),
        "UP": lambda count: np.maximum(LANE_IDS - count, 0),
        "DOWN": lambda count: np.minimum(LANE_IDS + count, WARP_SIZE - 1),
    }[instruction.modifiers[0]]

    def step(warp: WarpState, active: Mask) -> None:
        warp.write(destination, value(warp)[source_lane(selector(warp))], active)
        warp.write_predicate(validity, np.ones(WARP_SIZE, bool), active)

    return step


def build_float_arithmetic(instruction: Instruction, constants: ConstantBanks) -> Step:
    """FADD, FMUL and FFMA in single precision."""
    destination = register_number(instruction.arguments[0])
    sources = [read_float(text, constants) for text in instruction.arguments[1:] if not is_predicate(text)]
    functions: dict[str, Callable[..., _Floats]] = {
        "FADD": lambda a, b: a + b,
        "FMUL": lambda a, b: a * b,
        "FFMA": lambda a, b, c: a * b + c,
    }
    compute = functions[instruction.opcode]

    def step(warp: WarpState, active: Mask) -> None:
        with np.errstate(all="ignore"):
            warp.write(destination, float_bits(compute(*(as_float(read(warp)) for read in sources))), active)

    return step


def build_float_minmax(instruction: Instruction, constants: ConstantBanks) -> Step:
    """FMNMX d = predicate ? min(a, b) : max(a, b)."""
    destination = register_number(instruction.arguments[0])
    a, b = (read_float(text, constants) for text in instruction.arguments[1:3])
    takes_minimum = read_predicate(instruction.arguments[3])

    def step(warp: WarpState, active: Mask) -> None:
        first, second = a(warp), b(warp)
        first_is_smaller = as_float(first) <= as_float(second)
        warp.write(destination, np.where(first_is_smaller == takes_minimum(warp), first, second), active)

    return step


def build_mufu(instruction: Instruction, constants: ConstantBanks) -> Step:
    """MUFU: reciprocal, exponential, logarithm and roots."""
    destination = register_number(instruction.arguments[0])
    source = read_float(instruction.arguments[1], constants)
    functions: dict[str, Callable[[_Floats], Any]] = {
        "RCP": lambda value: 1 / value,
        "EX2": np.exp2,
        "RSQ": lambda value: 1 / np.sqrt(value),
        "LG2": np.log2,
        "SQRT": np.sqrt,
    }
    function = next((functions[name] for name in instruction.modifiers if name in functions), lambda value: value)

    def step(warp: WarpState, active: Mask) -> None:
        with np.errstate(all="ignore"):
            warp.write(destination, float_bits(function(as_float(source(warp)))), active)

    return step


def build_int_to_float(instruction: Instruction, constants: ConstantBanks) -> Step:
    """I2F: integer to single precision."""
    destination = register_number(instruction.arguments[0])
    source = read_integer(instruction.arguments[1], constants)
    is_unsigned = "U32" in instruction.modifiers or "RP" in instruction.modifiers

    def step(warp: WarpState, active: Mask) -> None:
        words = source(warp)
        warp.write(destination, float_bits((words if is_unsigned else signed(words)).astype(np.float32)), active)

    return step


def build_float_to_int(instruction: Instruction, constants: ConstantBanks) -> Step:
    """F2I: truncation, saturated to the 32-bit range."""
    destination = register_number(instruction.arguments[0])
    source = read_float(instruction.arguments[1], constants)

    def step(warp: WarpState, active: Mask) -> None:
        clipped = np.clip(np.trunc(as_float(source(warp)).astype(np.float64)), -(2**31), WORD_MASK)
        warp.write(destination, np.nan_to_num(clipped, nan=0.0).astype(np.int64), active)

    return step


def _load_destination(instruction: Instruction) -> int:
    return register_number(instruction.arguments[1 if is_predicate(instruction.arguments[0]) else 0])


_OTHER_BUILDERS: Mapping[str, Builder] = {
    **dict.fromkeys(("LDG", "LD"), build_global_load),
    "LDS": build_shared_load,
    "LDL": build_local_load,
    "STL": build_local_store,
    "SHFL": build_shuffle,
    **dict.fromkeys(("FADD", "FMUL", "FFMA"), build_float_arithmetic),
    "FMNMX": build_float_minmax,
    "MUFU": build_mufu,
    "I2F": build_int_to_float,
    "F2I": build_float_to_int,
    **dict.fromkeys(("HMMA", "F2F", "HFMA2", "HMUL2", "HADD2", "FSWZADD"), build_zero),
    **dict.fromkeys(("ATOM", "ATOMG", "ATOMS"), build_zero),
}
