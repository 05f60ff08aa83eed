"""Binds sm_simulator.c: traces of some CTAs and a launch queue go in, cycles of one SM and idle reasons come out.

The C file is compiled on first use into a cache folder outside the package.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dflash2.cache import cache_folder
from dflash2.errors import SimulationFailed, ToolMissing
from dflash2.predict.instruction import Instruction
from dflash2.predict.machine import Machine
from dflash2.predict.memory import Buffer
from dflash2.predict.warp import WarpTrace

_SOURCE = Path(__file__).with_name("sm_simulator.c")
_COMPILE_TIMEOUT_S = 120
CYCLE_LIMIT = 200_000_000
_PIPES = 8
_CLOCK_READS = 16
_INT_CONSTANTS = tuple(
    "shared_latency l1_latency l2_latency hbm_latency xu_latency shuffle_latency barrier_latency tensor_latency"
    " lsu_queue lsu_dispatch cta_launch branch_penalty scoreboard_penalty l1_lines lines_per_cycle fill_sixteenths"
    " icache_lines icache_refill round_robin".split()
)
_COUNTERS_BEFORE_IDLE = ("lsu_busy", "l2_sectors", "hbm_sectors", "l1_hits", "l1_misses")
IDLE_REASONS = ("wait", "stall", "pipe", "queue", "barrier", "empty")


class _MachineStruct(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_double) for name in ("l2_rate", "hbm_rate", "hbm_write_cost")),
        *((name, ctypes.c_int32) for name in _INT_CONSTANTS),
    )


class _ReportStruct(ctypes.Structure):
    _fields_ = (
        ("cycles", ctypes.c_int64),
        ("issued", ctypes.c_int64),
        ("pipe_busy", ctypes.c_int64 * _PIPES),
        *((name, ctypes.c_int64) for name in _COUNTERS_BEFORE_IDLE),
        *((f"idle_{reason}", ctypes.c_int64) for reason in IDLE_REASONS),
        ("icache_misses", ctypes.c_int64),
        ("clock_reads", ctypes.c_int64 * _CLOCK_READS),
        ("clock_read_count", ctypes.c_int32),
    )


class _WorkStruct(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in ("instructions", "traces", "steps", "step_access", "accesses", "sectors")
        ),
        *((name, ctypes.c_void_p) for name in ("hbm_fraction", "prefetch_hbm_fraction")),
        ("buffers", ctypes.c_int32),
        ("queue", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("queued", "warps_per_cta", "slots")),
    )


@dataclass(frozen=True)
class SmReport:
    """Counters of one simulated SM. Pipe counters are summed over its four sub-cores; idle ones are issue slots."""

    cycles: int
    issued: int
    pipe_busy: tuple[int, ...]
    lsu_busy: int
    l2_sectors: int
    hbm_sectors: int
    l1_hits: int
    l1_misses: int
    icache_misses: int
    idle: tuple[int, ...]  # in the order of IDLE_REASONS
    clock_reads: tuple[int, ...] = ()

    def minus(self, other: SmReport) -> SmReport:
        """Counters of the part of a longer run that a shorter one lacks: its steady state."""
        pairs = {
            name: getattr(self, name) - getattr(other, name)
            for name in ("cycles", "issued", *_COUNTERS_BEFORE_IDLE, "icache_misses")
        }
        pipe_busy = tuple(mine - theirs for mine, theirs in zip(self.pipe_busy, other.pipe_busy, strict=True))
        idle = tuple(mine - theirs for mine, theirs in zip(self.idle, other.idle, strict=True))
        return SmReport(pipe_busy=pipe_busy, idle=idle, **pairs)


@dataclass(frozen=True)
class SmWork:
    """What one SM runs: the traces of some CTAs, the order to run them in (indices into `traces`), and how many fit."""

    instructions: Sequence[Instruction]
    traces: Sequence[Sequence[WarpTrace]]
    queue: Sequence[int]
    slots: int
    buffers: Sequence[Buffer]
    shared_bytes: int = 0


def simulate(work: SmWork, machine: Machine, *, active_sms: int | None = None) -> SmReport:
    """Run the queue on one SM; `active_sms` share the HBM bandwidth (default: all). Raises SimulationFailed."""
    arrays = _Arrays(work)
    constants = {name: getattr(machine, name) for name in _INT_CONSTANTS if name != "l1_lines"}
    structure = _MachineStruct(
        l2_rate=machine.l2_rate(active_sms or machine.sms),
        hbm_rate=machine.hbm_rate(active_sms or machine.sms),
        hbm_write_cost=machine.hbm_write_cost,
        l1_lines=machine.l1_lines(work.shared_bytes),
        **constants,
    )
    report = _ReportStruct()
    status = _library().simulate_sm(
        ctypes.byref(arrays.structure), ctypes.byref(structure), ctypes.c_int64(CYCLE_LIMIT), ctypes.byref(report)
    )
    if status:
        raise SimulationFailed("the simulated SM never finished", "a barrier or a scoreboard never opens")
    return SmReport(
        **{name: getattr(report, name) for name in ("cycles", "issued", *_COUNTERS_BEFORE_IDLE, "icache_misses")},
        pipe_busy=tuple(report.pipe_busy),
        idle=tuple(getattr(report, f"idle_{reason}") for reason in IDLE_REASONS),
        clock_reads=tuple(report.clock_reads[: report.clock_read_count]),
    )


class _Arrays:
    """The C arrays of one SmWork; keeps them alive while `structure` points to them."""

    def __init__(self, work: SmWork) -> None:
        warps = [warp for cta in work.traces for warp in cta]
        lengths = np.array([len(warp.steps) for warp in warps], np.int32)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int32)
        step_access, accesses, sectors = _flatten_accesses(warps, starts, int(lengths.sum()))
        arrays: dict[str, npt.NDArray[np.generic]] = {
            "instructions": _instruction_table(work.instructions),
            "traces": np.stack([starts, lengths], axis=1),
            "steps": np.concatenate([np.array(warp.steps, np.int32) for warp in warps]),
            "step_access": step_access,
            "accesses": accesses,
            "sectors": sectors,
            "hbm_fraction": np.array([buffer.hbm_fraction for buffer in work.buffers], np.float64),
            "prefetch_hbm_fraction": np.array([buffer.prefetch_hbm_fraction for buffer in work.buffers], np.float64),
            "queue": np.array(work.queue, np.int32),
        }
        self._arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        self.structure = _WorkStruct(
            buffers=len(work.buffers),
            queued=len(work.queue),
            warps_per_cta=len(work.traces[0]),
            slots=work.slots,
            **{name: array.ctypes.data for name, array in self._arrays.items()},
        )


def _instruction_table(instructions: Sequence[Instruction]) -> npt.NDArray[np.int32]:
    rows = [
        (
            instruction.pipe,
            instruction.busy_cycles,
            instruction.control.stall_cycles,
            instruction.control.write_scoreboard,
            instruction.control.read_scoreboard,
            instruction.control.wait_mask,
            instruction.kind,
            instruction.has_bank_conflict,
            instruction.bypasses_l1,
        )
        for instruction in instructions
    ]
    return np.array(rows, np.int32)


def _flatten_accesses(
    warps: Sequence[WarpTrace], starts: npt.NDArray[np.int32], total_steps: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """(access of each step or -1, access rows, sector addresses) of all warps together."""
    step_access = np.full(max(total_steps, 1), -1, np.int32)
    rows, sectors = [np.zeros((0, 4), np.int32)], [np.zeros(0, np.int64)]
    access_count = sector_count = 0
    for warp, start in zip(warps, starts, strict=True):
        if not warp.accesses:
            continue
        table = np.array(warp.accesses, np.int64)
        step_access[start + table[:, 0]] = np.arange(len(table)) + access_count
        table[:, 3] += sector_count
        rows.append(table[:, 1:].astype(np.int32))
        sectors.append(np.array(warp.sectors, np.int64))
        access_count += len(table)
        sector_count += len(warp.sectors)
    return step_access, np.concatenate(rows), np.concatenate(sectors)


@cache
def _library() -> ctypes.CDLL:
    source = _SOURCE.read_bytes()
    path = cache_folder() / f"sm_simulator-{hashlib.sha256(source).hexdigest()[:16]}.so"
    if not path.exists():
        _compile(path)
    return ctypes.CDLL(str(path))


def _compile(path: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ToolMissing("the timing model needs a C compiler and finds neither $CC, cc nor gcc", "install gcc")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / path.name
        command = (compiler, "-O2", "-shared", "-fPIC", "-o", str(built), str(_SOURCE))
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMPILE_TIMEOUT_S)
        if result.returncode:
            raise ToolMissing(f"{compiler} could not compile {_SOURCE.name}: {result.stderr}", "set CC to a C compiler")
        built.replace(path)  # atomic: another process may be doing the same
