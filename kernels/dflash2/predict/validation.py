"""The timing model against published V100 figures: `dflash2 predict validate`.

Three groups are computed anew from PyPI packages (extra "validate"): latency probes, memory streams, CUTLASS GEMMs.
Rows that need third-party kernels cannot be rebuilt from here; they are kept as a dated record and marked so.
Everything in the column "predicted" is a prediction; everything in "published" is somebody else's measurement.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

import numpy as np

from dflash2.errors import ToolMissing
from dflash2.extras import VALIDATE_HINT
from dflash2.nvrtc import Nvrtc
from dflash2.predict.disassembly import disassemble
from dflash2.predict.emulation import Launch, emulate_cta
from dflash2.predict.forecast import Kernel, Setting, load_kernel, predict_uniform
from dflash2.predict.machine import V100, Machine
from dflash2.predict.memory import Argument, Buffer, DeviceMemory
from dflash2.predict.simulation import SmWork, simulate
from dflash2.predict.warp import Dim3

PROBE_FOLDER = Path(__file__).parent / "probes"
RECORD_PATH = Path(__file__).with_name("third_party_record.json")
GEMM_CLOCK_HZ = 1.29e9  # assumed: 300 W cards throttle to 1270-1300 MHz in a GEMM
_GEMM_HBM_SHARE = 0.15  # estimated
_STREAM_BYTES = 1 << 28


class Origin(StrEnum):
    """How a row's published figure relates to the model's constants."""

    PREDICTED = "predicted"
    FITTED = "fitted"  # a constant was set so that this row comes out


@dataclass(frozen=True)
class ValidationRow:
    """One published figure and the model's. `recorded_on` is None for a row computed in this run."""

    group: str
    case: str
    predicted: float
    published: float
    unit: str
    origin: Origin
    note: str = ""
    recorded_on: str | None = None

    @property
    def error_percent(self) -> float:
        """How far the prediction is off."""
        return 100 * (self.predicted / self.published - 1)


def run(overrides: dict[str, float], *, as_json: bool) -> int:
    """Compute the reproducible rows, add the record, print both."""
    rows = [*computed_rows(V100.with_overrides(overrides)), *recorded_rows()]
    if as_json:
        print(json.dumps([{**asdict(row), "error_percent": row.error_percent} for row in rows], indent=1))
    else:
        print(render(rows))
    return 0


def computed_rows(machine: Machine = V100) -> Iterator[ValidationRow]:
    """Every row that PyPI packages can rebuild; about 20 seconds on one core."""
    yield from latency_rows(machine)
    yield from stream_rows(machine)
    yield from gemm_rows(machine)


def latency_rows(machine: Machine) -> Iterator[ValidationRow]:
    """Cycles an operation of a dependent chain takes (published: 1Cat-vLLM's probes)."""
    probes = ProbeFile("latency.cu")
    for name, operations, published, origin in (
        ("shared_load_dependent", 32, 26.4375, Origin.FITTED),
        ("global_load_dependent", 32, 210.6875, Origin.FITTED),
        ("shared_round_trip", 32, 33.5625, Origin.PREDICTED),
        ("mma_dependent", 32, 8.65625, Origin.PREDICTED),
        ("mma_independent", 128, 8.382812, Origin.PREDICTED),
    ):
        cycles = _probe_cycles(probes.kernel(name), name, machine)
        yield ValidationRow("latency", name, cycles / operations, published, "cycles/op", origin)


def _probe_cycles(kernel: Kernel, name: str, machine: Machine) -> int:
    chain = Buffer(4096, (np.arange(1024, dtype=np.uint32) + 1) % 32)
    buffers = [chain, Buffer(4096), Buffer(4096)]
    arguments: list[Argument] = [*([chain] if name == "global_load_dependent" else []), *buffers[1:]]
    if name.startswith("mma"):
        arguments += [np.int32(1), np.int32(2)]
    launch = _launch((32, 1, 1), (1, 1, 1), buffers, arguments)
    trace = emulate_cta(kernel.program, launch, (0, 0, 0))
    report = simulate(SmWork(kernel.instructions, [trace], [0], 1, buffers), machine, active_sms=1)
    return report.clock_reads[1] - report.clock_reads[0]


def stream_rows(machine: Machine) -> Iterator[ValidationRow]:
    """Bandwidth of streams larger than L2."""
    probes, threads, count = ProbeFile("latency.cu"), 256, _STREAM_BYTES // 16
    for name, streams, published, origin, note in (
        ("copy", 2, 822.0, Origin.FITTED, "v100-skinny"),
        ("triad", 3, 830.0, Origin.PREDICTED, "typical BabelStream figure; a weak row"),
    ):
        buffers = [Buffer(1 << 30, hbm_fraction=1) for _ in range(3)]
        arguments: list[Argument] = [*buffers, np.float32(2)] if name == "triad" else [*buffers[:2]]
        launch = _launch((threads, 1, 1), (count // threads, 1, 1), buffers, [*arguments, np.int32(count)])
        forecast = predict_uniform(probes.kernel(name), partial(_same, launch), Setting(machine))
        rate = streams * _STREAM_BYTES / forecast.seconds / 1e9
        yield ValidationRow("stream", name, rate, published, "GB/s", origin, note)


@dataclass(frozen=True)
class GemmBuild:
    """One CUTLASS kernel: its tile, launch shape and element size."""

    kernel: str
    rows: int
    columns: int
    threads: int
    shared_bytes: int
    element_bytes: int


GEMM_128X256 = GemmBuild("gemm_128x256", 128, 256, 256, 49152, 2)
GEMM_128X128 = GemmBuild("gemm_128x128", 128, 128, 128, 32768, 2)
SGEMM = GemmBuild("sgemm_128x128", 128, 128, 256, 16896, 4)


def gemm_rows(machine: Machine) -> Iterator[ValidationRow]:
    """CUTLASS GEMMs (published: marlin_v100's notes, and cuBLAS figures where the note says so)."""
    probes = ProbeFile("cutlass_gemm.cu", include_folders=cutlass_include_folders())
    half_machine = replace(machine, clock_hz=GEMM_CLOCK_HZ)
    for build, (m, n, k), published, note in (
        (GEMM_128X256, (5120, 4096, 4096), 92.79, ""),
        (GEMM_128X256, (4096, 4096, 4096), 86.04, ""),
        (GEMM_128X128, (4096, 4096, 4096), 83.34, ""),
        (GEMM_128X256, (8192, 8192, 8192), 83.5, "published: cuBLAS"),
        (SGEMM, (4096, 4096, 4096), 13.8, "published: cuBLAS SGEMM, about; a weak row"),
    ):
        chosen = machine if build is SGEMM else half_machine
        rate = _gemm_rate(probes.kernel(build.kernel), build, (m, n, k), chosen)
        group = f"GEMM at {chosen.clock_hz / 1e6:.0f} MHz"
        yield ValidationRow(group, f"{build.kernel} {m}x{n}x{k}", rate, published, "TFLOP/s", Origin.PREDICTED, note)


def _gemm_rate(kernel: Kernel, build: GemmBuild, shape: Dim3, machine: Machine) -> float:
    m, n, k = shape
    sizes = ((m * k, _GEMM_HBM_SHARE), (n * k, _GEMM_HBM_SHARE), (m * n, 1.0))
    buffers = [Buffer(size * build.element_bytes, hbm_fraction=share) for size, share in sizes]

    def launch_for(depth: int) -> Launch:
        arguments: list[Argument] = [*buffers, np.int32(m), np.int32(n), np.int32(depth)]
        return _launch((build.threads, 1, 1), (m // build.rows, n // build.columns, 1), buffers, arguments)

    forecast = predict_uniform(kernel, launch_for, Setting(machine, build.shared_bytes), trips=(256, 512, k))
    return 2 * m * n * k / forecast.seconds / 1e12


def recorded_rows() -> list[ValidationRow]:
    """Rows on third-party kernels, computed once and kept: they cannot be rebuilt from here."""
    record = json.loads(RECORD_PATH.read_text())
    return [
        ValidationRow(**{**row, "origin": Origin(row["origin"])}, recorded_on=record["recorded_on"])
        for row in record["rows"]
    ]


def render(rows: Sequence[ValidationRow]) -> str:
    """A Markdown table and the error summary of all rows that nothing was fitted to."""
    lines = [
        "| group | case | predicted | published | unit | error | status |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        run_note = f"record of {row.recorded_on}" if row.recorded_on else "computed now"
        status = "; ".join(text for text in (row.origin, run_note, row.note) if text)
        lines.append(
            f"| {row.group} | {row.case} | {row.predicted:.4g} | {row.published:.4g} | {row.unit} |"
            f" {row.error_percent:+.1f} % | {status} |"
        )
    return "\n".join([*lines, "", summarize(rows)])


def summarize(rows: Sequence[ValidationRow]) -> str:
    """Mean, median and worst error of the rows that nothing was fitted to."""
    errors = np.array([abs(row.error_percent) for row in rows if row.origin is Origin.PREDICTED])
    return (
        f"{len(errors)} rows that nothing was fitted to: mean error {errors.mean():.1f} %, median"
        f" {np.median(errors):.1f} %, worst {errors.max():.1f} %, {(errors <= 10).sum()} within 10 %"
    )


class ProbeFile:
    """One probe source, compiled for sm_70."""

    def __init__(self, name: str, include_folders: Sequence[Path] = ()) -> None:
        source = (PROBE_FOLDER / name).read_text()
        self._cubin = Nvrtc().compile(source, name=name, include_folders=include_folders).cubin
        self._disassembly = disassemble(self._cubin)

    def kernel(self, name: str) -> Kernel:
        """A decoded kernel of the file."""
        return load_kernel(self._cubin, name, self._disassembly)


def cutlass_include_folders() -> list[Path]:
    """Header folders of the wheels in the extra "validate"; raises ToolMissing naming the wheel that is absent."""
    headers = {
        "nvidia-cutlass": "include/cutlass/cutlass.h",
        "nvidia-cuda-runtime-cu12": "include/cuda_fp16.h",
        "nvidia-cuda-nvcc-cu12": "include/crt/host_defines.h",
        "nvidia-cuda-cccl-cu12": "include/cuda/std/utility",
    }
    return [_include_folder(wheel, header) for wheel, header in headers.items()]


def _include_folder(wheel: str, header: str) -> Path:
    hint = VALIDATE_HINT
    try:
        files = importlib.metadata.files(wheel) or []
    except importlib.metadata.PackageNotFoundError as err:
        raise ToolMissing(f"the validation needs the headers of {wheel}, which is not installed", hint) from err
    for file in files:
        if str(file).endswith(header):
            return Path(str(file.locate())[: -len(header.removeprefix("include"))])
    raise ToolMissing(f"{wheel} is installed without {header}", hint)


def _launch(block: Dim3, grid: Dim3, buffers: Sequence[Buffer], arguments: Sequence[Argument]) -> Launch:
    memory = DeviceMemory(buffers)
    return Launch(block, grid, memory.pack(arguments), memory)


def _same(launch: Launch, _trips: int) -> Launch:
    return launch
