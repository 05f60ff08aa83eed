"""From a compiled kernel and a launch to a predicted time on a V100.

Two ways in, because the CTAs of a launch either do equal work or do not:

    predict_uniform  all CTAs alike: one SM runs its share of them; long queues and loops are extrapolated
    cta_cost         one CTA as `fixed + per_trip * trips` cycles in steady state, for `schedule` to place ragged CTAs
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dflash2.predict.cubin import KernelResources, read_resources
from dflash2.predict.dataflow import address_slice
from dflash2.predict.disassembly import disassemble, parse_function
from dflash2.predict.emulation import Launch, Program, emulate_cta
from dflash2.predict.instruction import Instruction, Pipe
from dflash2.predict.machine import Machine, occupancy
from dflash2.predict.simulation import IDLE_REASONS, SmReport, SmWork, simulate
from dflash2.predict.warp import Dim3, WarpTrace

SUB_CORES = 4


@dataclass(frozen=True)
class Kernel:
    """One kernel of a cubin, decoded and ready to be timed."""

    name: str
    program: Program
    resources: KernelResources

    @property
    def instructions(self) -> Sequence[Instruction]:
        """Its instructions in address order."""
        return self.program.instructions


def load_kernel(cubin: bytes, name: str, disassembly: str | None = None) -> Kernel:
    """Decode one kernel; pass `disassembly` when several kernels of one cubin are loaded."""
    instructions = parse_function(disassembly or disassemble(cubin), name)
    resources = read_resources(cubin, name)
    return Kernel(name, Program(instructions, address_slice(instructions), resources.literals), resources)


@dataclass(frozen=True)
class Setting:
    """How a kernel is launched, besides its arguments."""

    machine: Machine
    dynamic_shared_bytes: int = 0
    slots: int | None = None  # co-resident CTAs an SM; None takes what fits


@dataclass(frozen=True)
class Forecast:
    """A predicted time, and the counters that say what limits it. Never a measurement."""

    seconds: float
    slots: int
    report: SmReport
    machine: Machine
    active_sms: int

    def limits(self) -> str:
        """Busy shares above 5 % of each resource, then why issue slots idled (shares above 3 %)."""
        return describe(self.report, self.machine, self.active_sms)


def resident_ctas(kernel: Kernel, launch: Launch, setting: Setting) -> int:
    """CTAs that share an SM: what fits, or what `setting` says."""
    shared = setting.dynamic_shared_bytes + kernel.resources.static_shared_bytes
    return setting.slots or occupancy(kernel.resources.registers, launch.threads, shared)


def predict_uniform(
    kernel: Kernel, launch_for: Callable[[int], Launch], setting: Setting, *, trips: tuple[int, int, int] | None = None
) -> Forecast:
    """Time of a launch whose CTAs all do equal work.

    `launch_for(t)` gives the launch with t loop trips. With trips=(t1, t2, t) the loop is run for t1 and t2 trips and
    extrapolated to t; without, `launch_for(0)` is run as it is.
    """
    machine = setting.machine
    reports = []
    for count in trips[:2] if trips else (0,):
        launch = launch_for(count)
        slots = resident_ctas(kernel, launch, setting)
        per_sm, sms = -(-launch.ctas // machine.sms), min(launch.ctas, machine.sms)
        picked = [
            unravel(min(i * machine.sms + 3, launch.ctas - 1), launch.grid) for i in range(min(2 * slots, 4, per_sm))
        ]
        traces = [emulate_cta(kernel.program, launch, cta) for cta in picked]
        reports.append(_queue_cycles(kernel, launch, setting, traces, per_sm))
    cycles, report = reports[-1]
    if trips:
        first, second, wanted = trips
        cycles = reports[0][0] + (reports[1][0] - reports[0][0]) / (second - first) * (wanted - first)
    return Forecast(cycles / machine.clock_hz + machine.launch_s, slots, report, machine, sms)


def _queue_cycles(
    kernel: Kernel, launch: Launch, setting: Setting, traces: Sequence[Sequence[WarpTrace]], count: int
) -> tuple[float, SmReport]:
    """Cycles for `count` CTAs on one SM, cycling through `traces`; long queues are extrapolated from their tail."""
    slots = resident_ctas(kernel, launch, setting)
    longest = max(4 * slots, 8)
    simulated = min(count, longest)
    report = _simulate_queue(kernel, launch, setting, traces, simulated)
    if count <= longest:
        return float(report.cycles), report
    shorter = simulated - 2 * slots
    before = _simulate_queue(kernel, launch, setting, traces, shorter)
    per_cta = (report.cycles - before.cycles) / (simulated - shorter)
    return report.cycles + per_cta * (count - simulated), report


def _simulate_queue(
    kernel: Kernel, launch: Launch, setting: Setting, traces: Sequence[Sequence[WarpTrace]], count: int
) -> SmReport:
    work = SmWork(
        kernel.instructions,
        traces,
        queue=[index % len(traces) for index in range(count)],
        slots=min(resident_ctas(kernel, launch, setting), count),
        buffers=launch.memory.buffers,
        shared_bytes=setting.dynamic_shared_bytes + kernel.resources.static_shared_bytes,
    )
    return simulate(work, setting.machine, active_sms=min(launch.ctas, setting.machine.sms))


@dataclass(frozen=True)
class CtaCost:
    """Cycles of one CTA beside `slots` - 1 others like it: `fixed` + `per_trip` * trips. `steady` counts the trips."""

    fixed: float
    per_trip: float
    slots: int
    steady: SmReport
    machine: Machine

    def cycles(self, trips: float) -> float:
        """Cycles of a CTA that loops `trips` times."""
        return self.fixed + self.per_trip * trips

    def limits(self) -> str:
        """What the steady state is busy with, and why it idles."""
        return describe(self.steady, self.machine, self.machine.sms)


def cta_cost(
    kernel: Kernel,
    launch_for: Callable[[int], Launch],
    setting: Setting,
    *,
    trips: tuple[int, int],
    ctas: Callable[[int], Sequence[Dim3]] = lambda slots: [(0, 0, 0)],
) -> CtaCost:
    """Cost of a CTA from two short runs; `ctas(slots)` names the CTAs that run side by side."""
    reports = []
    for count in trips:
        launch = launch_for(count)
        slots = resident_ctas(kernel, launch, setting)
        traces = [emulate_cta(kernel.program, launch, cta) for cta in ctas(slots)]
        shared = setting.dynamic_shared_bytes + kernel.resources.static_shared_bytes
        queue = [index % len(traces) for index in range(slots)]
        work = SmWork(kernel.instructions, traces, queue, slots, launch.memory.buffers, shared)
        reports.append(simulate(work, setting.machine))
    per_trip = (reports[1].cycles - reports[0].cycles) / (trips[1] - trips[0])
    fixed = reports[0].cycles - per_trip * trips[0]
    return CtaCost(fixed, per_trip, slots, reports[1].minus(reports[0]), setting.machine)


def schedule(durations: Iterable[float], workers: int) -> float:
    """Makespan when CTAs start in launch order, each on the worker that is free first (the hardware's scheduler)."""
    free_at = [0.0] * workers
    for duration in durations:
        heapq.heapreplace(free_at, free_at[0] + duration)
    return max(free_at)


def unravel(index: int, grid: Dim3) -> Dim3:
    """Block index of the index-th CTA in launch order."""
    return (index % grid[0], index // grid[0] % grid[1], index // (grid[0] * grid[1]))


def busy_shares(report: SmReport, machine: Machine, active_sms: int) -> dict[str, float]:
    """Share of its peak that each resource was used at."""
    cycles = report.cycles

    def pipe(which: Pipe) -> float:
        return report.pipe_busy[which] / SUB_CORES / cycles

    return {
        "issue": report.issued / SUB_CORES / cycles,
        "tensor": pipe(Pipe.TENSOR),
        "fma": pipe(Pipe.FMA),
        "alu": pipe(Pipe.ALU),
        "half": pipe(Pipe.HALF),
        "xu": pipe(Pipe.XU),
        "shared/LSU": report.lsu_busy / cycles,
        "L2": report.l2_sectors / machine.l2_rate(active_sms) / cycles,
        "HBM": report.hbm_sectors / machine.hbm_rate(active_sms) / cycles,
    }


def describe(report: SmReport, machine: Machine, active_sms: int) -> str:
    """Busy shares above 5 %, largest first, then idle reasons above 3 %."""
    shares = sorted(busy_shares(report, machine, active_sms).items(), key=lambda item: -item[1])
    slots = SUB_CORES * report.cycles
    idle = [(name, count / slots) for name, count in zip(IDLE_REASONS, report.idle, strict=True)]
    busy_text = " ".join(f"{name}={share:.0%}" for name, share in shares if share > 0.05)
    idle_text = " ".join(f"{name}={share:.0%}" for name, share in idle if share > 0.03)
    return f"{busy_text} | idle: {idle_text}"
