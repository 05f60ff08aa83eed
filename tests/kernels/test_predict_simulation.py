"""The cycle model on traces small enough to count by hand, and the arithmetic around it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dflash2.errors import Dflash2Error, SimulationFailed, ToolMissing
from dflash2.predict.forecast import schedule, unravel
from dflash2.predict.instruction import Instruction, decode
from dflash2.predict.machine import V100, V100_PESSIMISTIC, occupancy
from dflash2.predict.memory import Buffer
from dflash2.predict.simulation import SmReport, SmWork, _compile, simulate
from dflash2.predict.warp import Access, WarpTrace

FIRST_ISSUE = 20  # the model starts a CTA at cycle 20


def control(stall: int = 1, write: int = 7, wait: int = 0) -> int:
    return (stall | write << 5 | 7 << 8 | wait << 11) << 41


def code(*lines: tuple[str, int]) -> list[Instruction]:
    return [decode(index, text, bits, {}) for index, (text, bits) in enumerate(lines)]


def run_warps(instructions: list[Instruction], traces: list[WarpTrace], **machine: float) -> SmReport:
    work = SmWork(instructions, [traces], [0], 1, [Buffer(1 << 20, hbm_fraction=0)])
    return simulate(work, V100.with_overrides(machine), active_sms=1)


def straight(count: int) -> WarpTrace:
    return WarpTrace(steps=list(range(count)))


def test_independent_instructions_issue_every_stall_count() -> None:
    program = code(*[("IADD3 R0, R1, R2, R3", control(stall=4))] * 10, ("EXIT", control()))
    report = run_warps(program, [straight(11)])
    assert report.issued == 11
    assert report.cycles == FIRST_ISSUE + 10 * 4 + 1


def test_a_pipe_is_busy_between_two_warps() -> None:
    """Warps 0 and 4 share a sub-core; each MUFU holds its XU for 8 cycles."""
    program = code(("MUFU.EX2 R0, R1", control()), ("EXIT", control()))
    report = run_warps(program, [straight(2) for _ in range(5)])
    assert report.pipe_busy[3] == 5 * 8
    assert report.cycles >= FIRST_ISSUE + 8 + 1
    assert report.idle[2] > 0  # somebody waited for a pipe


def test_a_reader_waits_for_the_load_s_scoreboard() -> None:
    program = code(("LDG.E.SYS R4, [R2]", control(write=0)), ("FADD R5, R4, R4", control(wait=1)), ("EXIT", control()))
    trace = WarpTrace(steps=[0, 1, 2], accesses=[Access(0, 1, 1, 0, 1)], sectors=[1 << 36])
    near, far = run_warps(program, [trace]), run_warps(program, [trace], l2_latency=402)
    assert far.cycles - near.cycles == 200
    assert near.l1_misses == 1


def test_a_second_load_of_a_sector_hits_l1() -> None:
    program = code(
        ("LDG.E.SYS R4, [R2]", control(write=0)),
        ("LDG.E.SYS R5, [R2]", control(write=0, wait=1)),
        ("EXIT", control(wait=1)),
    )
    trace = WarpTrace([0, 1, 2], [Access(0, 1, 1, 0, 1), Access(1, 1, 1, 1, 1)], [1 << 36, 1 << 36])
    report = run_warps(program, [trace])
    assert (report.l1_misses, report.l1_hits) == (1, 1)


def test_bank_conflicts_occupy_the_shared_pipe() -> None:
    program = code(*[("LDS.U.128 R4, [R2]", control())] * 8, ("EXIT", control()))
    clean = WarpTrace(list(range(9)), [Access(step, 4, 0, 0, 0) for step in range(8)])
    conflicted = WarpTrace(list(range(9)), [Access(step, 32, 0, 0, 0) for step in range(8)])
    assert run_warps(program, [clean]).lsu_busy == 32
    assert run_warps(program, [conflicted]).lsu_busy == 256


def test_loops_larger_than_the_instruction_cache_pay_for_it() -> None:
    program = code(*[("IADD3 R0, R1, R2, R3", control())] * 2048, ("EXIT", control()))
    laps = WarpTrace(steps=[*list(range(2048)) * 4, 2048])
    free = run_warps(program, [laps])
    paid = simulate(SmWork(program, [[laps]], [0], 1, [Buffer(32)]), V100_PESSIMISTIC, active_sms=1)
    assert free.icache_misses == 0
    assert paid.icache_misses == 4 * 2048 // 8 + 1
    assert paid.cycles > free.cycles


def test_a_barrier_that_never_fills_is_an_error_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dflash2.predict.simulation.CYCLE_LIMIT", 1_000_000)
    program = code(("BAR.SYNC 0x0", control()), ("EXIT", control()))
    with pytest.raises(SimulationFailed, match="never finished"):
        run_warps(program, [WarpTrace([0, 1], [Access(0, 0, 2, 0, 0)])])


@pytest.mark.parametrize(
    ("registers", "threads", "shared", "ctas"),
    [
        (255, 256, 98304, 1),
        (128, 256, 0, 2),
        (168, 128, 16384, 3),
        (32, 64, 0, 32),
        (64, 128, 33000, 2),
        (96, 96, 0, 6),
    ],
)
def test_occupancy_follows_registers_threads_and_shared_memory(
    registers: int, threads: int, shared: int, ctas: int
) -> None:
    assert occupancy(registers, threads, shared) == ctas


def test_ctas_go_to_the_first_free_slot_in_launch_order() -> None:
    assert schedule([5, 4, 3, 2, 1], workers=2) == 8  # 5 | 4 3, then 2 behind 5, 1 behind both at 7
    assert schedule([1.0] * 10, workers=4) == 3.0


def test_block_indices_run_x_first() -> None:
    assert [unravel(index, (2, 3, 2)) for index in (0, 1, 2, 6, 11)] == [
        (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 2, 1),
    ]  # fmt: skip


def test_an_unknown_machine_constant_is_named() -> None:
    with pytest.raises(Dflash2Error, match="no constant l3_latency"):
        V100.with_overrides({"l3_latency": 1})


def test_a_missing_c_compiler_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(ToolMissing, match="install gcc"):
        _compile(tmp_path / "sm_simulator.so")
