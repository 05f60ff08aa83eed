"""One sm_70 machine instruction: nvdisasm's text plus the control bits that text leaves out.

A Volta instruction is 128 bits. nvdisasm prints the operation; bits 105-125 steer the issue logic and are decoded here
(layout: Jia et al. 2018, "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", arXiv 1804.06826):

    bit 105-108  stall cycles before the warp may issue again
    bit 109      yield hint (the model ignores it)
    bit 110-112  scoreboard released when the result is written (7: none)
    bit 113-115  scoreboard released when the operands are read (7: none)
    bit 116-121  scoreboards to wait for, as a mask
    bit 122-125  operand reuse (nvdisasm prints it as .reuse)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

NO_SCOREBOARD = 7
ALWAYS = 7  # the predicate register PT

_LINE = re.compile(r"/\*([0-9a-f]{4,6})\*/\s+(.*?);?\s*/\* 0x([0-9a-f]{16}) \*/")
_GUARD = re.compile(r"@(!?)P([0-7T])\s+(.*)")
_LABEL_TARGET = re.compile(r"`\(([^)]+)\)")
_PREDICATE = re.compile(r"!?P[0-7T]")
_REGISTER = re.compile(r"(?<![A-Z_\d])R(\d+)")


class Pipe(IntEnum):
    """Execution pipes of a sub-core; the values index the simulator's counters."""

    CONTROL = 0
    FMA = 1
    ALU = 2
    XU = 3
    TENSOR = 4
    LSU = 5
    FP64 = 6
    HALF = 7


class Kind(IntEnum):
    """What the simulator does besides occupying a pipe; the values are those of sm_simulator.c."""

    PLAIN = 0
    SHARED_LOAD = 1
    SHARED_STORE = 2
    SHUFFLE = 3
    GLOBAL_LOAD = 4
    GLOBAL_STORE = 5
    LOCAL_LOAD = 6
    LOCAL_STORE = 7
    BARRIER = 8
    SCOREBOARD_DRAIN = 9
    EXIT = 10
    BRANCH = 11
    CLOCK = 12
    PREFETCH = 13


# Issue-to-issue cycles of one warp instruction on its pipe: 16 FMA and ALU lanes (2), 4 XU lanes (8), an HMMA.884 step
# every second cycle (2).
_PIPES: Mapping[Pipe, tuple[int, str]] = {
    Pipe.CONTROL: (
        0,
        "BRA EXIT BAR BSSY BSYNC NOP DEPBAR WARPSYNC CALL RET YIELD BREAK JMP BRX BMOV BPT MEMBAR ERRBAR NANOSLEEP"
        " KILL",
    ),
    Pipe.TENSOR: (2, "HMMA"),
    Pipe.FMA: (2, "FFMA FMUL FADD IMAD FSWZADD FFMA32I FMUL32I FADD32I"),
    Pipe.HALF: (2, "HFMA2 HMUL2 HADD2 HSET2 HSETP2 HFMA2_32I HMUL2_32I HADD2_32I"),
    Pipe.XU: (8, "MUFU F2F F2I I2F I2I POPC FLO BREV FRND S2R"),
    Pipe.LSU: (2, "LDS STS SHFL ATOMS LDG STG LDL STL LD ST RED ATOM ATOMG LDC CCTL"),
    Pipe.FP64: (4, "DFMA DADD DMUL DSETP"),
}
_DEFAULT_PIPE = (Pipe.ALU, 2)
_PIPE_OF = {opcode: (pipe, busy) for pipe, (busy, opcodes) in _PIPES.items() for opcode in opcodes.split()}

_KIND_OF: Mapping[str, Kind] = {
    **dict.fromkeys(("LDS", "ATOMS"), Kind.SHARED_LOAD),
    "STS": Kind.SHARED_STORE,
    **dict.fromkeys(("SHFL", "LDC"), Kind.SHUFFLE),
    **dict.fromkeys(("LDG", "LD", "ATOM", "ATOMG"), Kind.GLOBAL_LOAD),
    **dict.fromkeys(("STG", "ST", "RED"), Kind.GLOBAL_STORE),
    "LDL": Kind.LOCAL_LOAD,
    "STL": Kind.LOCAL_STORE,
    "BAR": Kind.BARRIER,
    "DEPBAR": Kind.SCOREBOARD_DRAIN,
    "EXIT": Kind.EXIT,
    **dict.fromkeys(("BRA", "CALL", "RET", "JMP", "BRX"), Kind.BRANCH),
    "CCTL": Kind.PREFETCH,
}


@dataclass(frozen=True)
class Control:
    """The issue-control bits of one instruction."""

    stall_cycles: int
    write_scoreboard: int
    read_scoreboard: int
    wait_mask: int


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction. `target` is an index into the function, for branches with a known label."""

    index: int
    text: str
    opcode: str
    modifiers: tuple[str, ...]
    arguments: tuple[str, ...]
    guard: int
    guard_negated: bool
    target: int | None
    control: Control
    pipe: Pipe
    busy_cycles: int
    kind: Kind
    width_bytes: int
    has_bank_conflict: bool
    bypasses_l1: bool

    @property
    def is_guarded(self) -> bool:
        """True when a predicate may switch lanes off."""
        return self.guard != ALWAYS


def is_predicate(argument: str) -> bool:
    """True for an operand such as P3, !P0 or PT."""
    return _PREDICATE.fullmatch(argument) is not None


def registers_in(argument: str) -> list[int]:
    """Numbers of the general registers named in an operand; RZ is none."""
    return [int(number) for number in _REGISTER.findall(argument)]


def split_arguments(text: str) -> list[str]:
    """Split an operand list at its top-level commas: `R1, c[0x0][0x160], [R2+0x10]` has three parts."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if current.strip() else parts


def match_instruction_line(line: str) -> str | None:
    """The operation's text when `line` starts an instruction (its second line holds the high 64 bits)."""
    match = _LINE.match(line)
    return match.group(2).strip(" ;{}") if match else None


def decode(index: int, text: str, high_bits: int, labels: Mapping[str, int]) -> Instruction:
    """Decode one operation; `labels` maps a label to the index of the instruction it stands before."""
    guard, negated, operation = _split_guard(text)
    name, _, rest = operation.partition(" ")
    opcode, *modifiers = name.split(".")
    raw = split_arguments(rest)
    pipe, busy = _pipe_and_busy(opcode, modifiers)
    kind = _kind(opcode, text)
    return Instruction(
        index=index,
        text=text,
        opcode=opcode,
        modifiers=tuple(modifiers),
        arguments=tuple(argument.replace(".reuse", "") for argument in raw),
        guard=guard,
        guard_negated=negated,
        target=_target(opcode, text, labels),
        control=_decode_control(high_bits),
        pipe=pipe,
        busy_cycles=busy,
        kind=kind,
        width_bytes=_width_bytes(modifiers),
        has_bank_conflict=pipe in (Pipe.FMA, Pipe.ALU) and _reads_one_bank_three_times(raw[1:]),
        bypasses_l1=kind == Kind.GLOBAL_LOAD and "STRONG" in modifiers,
    )


def _split_guard(text: str) -> tuple[int, bool, str]:
    match = _GUARD.match(text)
    if match is None:
        return ALWAYS, False, text
    number = ALWAYS if match.group(2) == "T" else int(match.group(2))
    return number, match.group(1) == "!", match.group(3)


def _decode_control(high_bits: int) -> Control:
    bits = high_bits >> 41  # bit 105 of the 128-bit word is bit 41 of its upper half
    return Control(bits & 15, (bits >> 5) & 7, (bits >> 8) & 7, (bits >> 11) & 63)


def _pipe_and_busy(opcode: str, modifiers: list[str]) -> tuple[Pipe, int]:
    pipe, busy = _PIPE_OF.get(opcode, _DEFAULT_PIPE)
    if pipe is Pipe.FMA and ("WIDE" in modifiers or "HI" in modifiers):
        return pipe, 4  # a 64-bit product takes the multiplier twice
    return pipe, busy


def _kind(opcode: str, text: str) -> Kind:
    if opcode in ("CS2R", "S2R") and "SR_CLOCK" in text:
        return Kind.CLOCK
    return _KIND_OF.get(opcode, Kind.PLAIN)


def _target(opcode: str, text: str, labels: Mapping[str, int]) -> int | None:
    match = _LABEL_TARGET.search(text)
    if match is None or opcode not in ("BRA", "BSSY", "CALL", "JMP", "BREAK", "WARPSYNC"):
        return None
    return labels.get(match.group(1))


def _width_bytes(modifiers: list[str]) -> int:
    for names, width in ((("128",), 16), (("64",), 8), (("U16", "S16"), 2), (("U8", "S8"), 1)):
        if any(name in modifiers for name in names):
            return width
    return 4


def _reads_one_bank_three_times(sources: list[str]) -> bool:
    """Three different source registers of one parity without reuse: the register file has two banks (Jia et al.)."""
    registers = [
        int(number) for source in sources if ".reuse" not in source for number in re.findall(r"^[-|~!]*R(\d+)", source)
    ]
    return len(registers) == 3 and len(set(registers)) == 3 and len({number & 1 for number in registers}) == 1
