"""Decoding of sm_70 instructions: text, control bits, pipes, and what reaches an address."""

from __future__ import annotations

import pytest
from dflash2.predict.dataflow import PREDICATE_BASE, address_slice, effects
from dflash2.predict.instruction import Instruction, Kind, Pipe, decode, split_arguments


def instruction(text: str, index: int = 0, labels: dict[str, int] | None = None, control: int = 0) -> Instruction:
    return decode(index, text, control << 41, labels or {})


def program(*lines: str, **labels: int) -> list[Instruction]:
    return [instruction(line, index, labels) for index, line in enumerate(lines)]


def test_control_bits_are_stall_yield_scoreboards_and_wait_mask() -> None:
    bits = 5 | 1 << 4 | 2 << 5 | 3 << 8 | 0b100001 << 11
    control = instruction("LDG.E.SYS R4, [R2]", control=bits).control
    assert (control.stall_cycles, control.write_scoreboard, control.read_scoreboard) == (5, 2, 3)
    assert control.wait_mask == 0b100001


def test_operands_split_at_top_level_commas_only() -> None:
    assert split_arguments("R1, c[0x0][0x160], [R2+0x10], `(.L_1)") == ["R1", "c[0x0][0x160]", "[R2+0x10]", "`(.L_1)"]


@pytest.mark.parametrize(
    ("text", "pipe", "busy"),
    [
        ("FFMA R0, R1, R2, R3", Pipe.FMA, 2),
        ("IMAD.WIDE R0, R2, R3, R4", Pipe.FMA, 4),
        ("MUFU.EX2 R0, R1", Pipe.XU, 8),
        ("HMMA.884.F32.F32.STEP0 R0, R2, R4, R6", Pipe.TENSOR, 2),
        ("LOP3.LUT R0, R1, R2, R3, 0xc0, !PT", Pipe.ALU, 2),
        ("BAR.SYNC 0x0", Pipe.CONTROL, 0),
    ],
)
def test_each_opcode_occupies_its_pipe(text: str, pipe: Pipe, busy: int) -> None:
    assert (instruction(text).pipe, instruction(text).busy_cycles) == (pipe, busy)


def test_a_guard_and_a_label_are_read() -> None:
    branch = instruction("@!P3 BRA `(.L_7)", labels={".L_7": 12})
    assert (branch.guard, branch.guard_negated, branch.target, branch.kind) == (3, True, 12, Kind.BRANCH)


def test_a_cached_global_load_uses_l1_and_a_strong_one_does_not() -> None:
    assert not instruction("LDG.E.128.SYS R4, [R2]").bypasses_l1
    assert instruction("LDG.E.STRONG.GPU R4, [R2]").bypasses_l1


def test_three_sources_of_one_bank_conflict_unless_one_is_reused() -> None:
    assert instruction("FFMA R0, R2, R4, R6").has_bank_conflict
    assert not instruction("FFMA R0, R2.reuse, R4, R6").has_bank_conflict
    assert not instruction("FFMA R0, R2, R4, R5").has_bank_conflict


def test_a_wide_load_writes_four_registers_and_is_gated_by_its_address_pair() -> None:
    touched = effects(instruction("@P1 LDG.E.128.SYS R4, [R2+0x10]"))
    assert touched.writes == {4, 5, 6, 7}
    assert touched.gates == {2, 3, PREDICATE_BASE + 1}


def test_reads_of_rz_and_pt_are_no_dependence() -> None:
    touched = effects(instruction("IADD3 R0, P0, R1, RZ, !PT"))
    assert touched.reads == {1}
    assert touched.writes == {0, PREDICATE_BASE}


def test_only_what_steers_an_address_is_needed() -> None:
    needed = address_slice(
        program(
            "IADD3 R2, R8, 0x4, RZ",  # the address of the load
            "FADD R5, R6, R7",  # a number that is stored
            "LDG.E.SYS R4, [R2]",  # its value is only a number, too
            "FADD R5, R5, R4",
            "STG.E.SYS [R10], R5",
            "EXIT",
        )
    )
    assert needed == [True, False, False, False, False, False]


def test_a_loop_counter_is_needed_through_its_compare() -> None:
    needed = address_slice(
        program(
            "MOV R0, RZ",
            "IADD3 R0, R0, 0x1, RZ",
            "FADD R1, R1, R1",
            "ISETP.GE.AND P0, PT, R0, R9, PT",
            "@!P0 BRA `(.L)",
            "EXIT",
            **{".L": 1},
        )
    )
    assert needed == [True, True, False, True, False, False]


def test_an_index_loaded_from_memory_makes_its_load_needed() -> None:
    needed = address_slice(program("LDG.E.SYS R4, [R2]", "IMAD.WIDE R6, R4, 0x4, R8", "LDG.E.SYS R0, [R6]", "EXIT"))
    assert needed == [True, True, False, False]
