"""The emulator on real machine code: loops, divergence, division, spills and barriers leave the right traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from dflash2.errors import SimulationFailed
from dflash2.nvrtc import Nvrtc
from dflash2.predict.emulation import Launch, emulate_cta
from dflash2.predict.forecast import Kernel, load_kernel
from dflash2.predict.memory import ADDRESS_BITS, Argument, Buffer, DeviceMemory
from dflash2.predict.warp import WarpTrace

SOURCE = """
extern "C" __global__ void counted_loop(const int* length, float* out) {
  for (int i = 0; i < length[0]; i++) out[i * 32 + threadIdx.x] = i;
}
extern "C" __global__ void triangular_loop(float* out) {
#pragma unroll 1
  for (int i = 0; i <= threadIdx.x; i++) out[i * 32 + threadIdx.x] = i;
  __syncwarp();
  out[2048 + threadIdx.x] = 1.f;
}
extern "C" __global__ void early_exit(float* out, int limit) {
  if (threadIdx.x >= limit) return;
#pragma unroll 1
  for (int i = 0; i <= threadIdx.x; i++) out[i * 32 + threadIdx.x] = i;
  __syncwarp();
  out[2048 + threadIdx.x] = 1.f;
}
extern "C" __global__ void divided(float* out, int divisor, int stride) {
  out[(int)(threadIdx.x / divisor) * stride] = 1.f;
}
extern "C" __global__ void branched(float* low, float* high) {
  if (threadIdx.x & 1) high[threadIdx.x * 8] = 1.f; else low[threadIdx.x * 8] = 2.f;
  __syncwarp();
  high[1024 + threadIdx.x] = 3.f;
}
extern "C" __global__ void indirect(const int* table, const float* data, float* out) {
  out[threadIdx.x] = data[table[threadIdx.x] * 32];
}
extern "C" __global__ void synchronized_block(float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def cubin() -> bytes:
    return Nvrtc().compile(SOURCE, name="emulation.cu").cubin


def run(
    cubin: bytes, name: str, arguments: Sequence[Argument], *, threads: int = 32
) -> tuple[Kernel, DeviceMemory, list[WarpTrace]]:
    kernel = load_kernel(cubin, name)
    memory = DeviceMemory([argument for argument in arguments if isinstance(argument, Buffer)])
    launch = Launch((threads, 1, 1), (1, 1, 1), memory.pack(arguments), memory)
    return kernel, memory, emulate_cta(kernel.program, launch, (0, 0, 0))


def sectors_of(trace: WarpTrace, memory: DeviceMemory, buffer: Buffer) -> list[int]:
    """Sector numbers a warp touched in one buffer, in order."""
    base = memory.address_of(buffer)
    return [(sector - base) // 32 for sector in trace.sectors if sector >> ADDRESS_BITS == base >> ADDRESS_BITS]


@pytest.mark.parametrize("trips", [0, 1, 7, 50])
def test_a_loop_bound_in_memory_decides_the_trips(cubin: bytes, trips: int) -> None:
    length, out = Buffer(4, np.array([trips], np.int32)), Buffer(1 << 20)
    _, memory, (trace,) = run(cubin, "counted_loop", [length, out])
    assert sectors_of(trace, memory, out) == list(range(4 * trips))


def test_lanes_that_leave_a_loop_early_wait_for_the_others(cubin: bytes) -> None:
    out = Buffer(1 << 20)
    _, memory, (trace,) = run(cubin, "triangular_loop", [out])
    touched = sectors_of(trace, memory, out)
    assert sorted(touched[:-4]) == [i * 4 + sector for i in range(32) for sector in range(i // 8, 4)]
    assert touched[-4:] == [256, 257, 258, 259]  # one store of the whole warp: it has converged


def test_lanes_that_have_ended_are_not_waited_for(cubin: bytes) -> None:
    out = Buffer(1 << 20)
    _, memory, (trace,) = run(cubin, "early_exit", [out, np.int32(10)])
    touched = sectors_of(trace, memory, out)
    assert sorted(touched[:-2]) == [i * 4 + sector for i in range(10) for sector in range(i // 8, 2)]
    assert touched[-2:] == [256, 257]


@pytest.mark.parametrize("divisor", [1, 3, 7, 10, 31])
def test_a_division_by_an_argument_reaches_the_right_addresses(cubin: bytes, divisor: int) -> None:
    out = Buffer(1 << 20)
    _, memory, (trace,) = run(cubin, "divided", [out, np.int32(divisor), np.int32(8)])
    assert sectors_of(trace, memory, out) == sorted({thread // divisor for thread in range(32)})


def test_both_sides_of_a_branch_run_and_join_again(cubin: bytes) -> None:
    low, high = Buffer(1 << 16), Buffer(1 << 16)
    _, memory, (trace,) = run(cubin, "branched", [low, high])
    assert sectors_of(trace, memory, low) == list(range(0, 32, 2))
    touched = sectors_of(trace, memory, high)
    assert touched[:16] == list(range(1, 32, 2))
    assert touched[16:] == [128, 129, 130, 131]  # one store of the whole warp: it has converged


def test_indices_are_read_from_a_table(cubin: bytes) -> None:
    order = np.random.default_rng(0).permutation(32).astype(np.int32)
    table, data, out = Buffer(128, order), Buffer(1 << 16), Buffer(1 << 16)
    _, memory, (trace,) = run(cubin, "indirect", [table, data, out])
    assert sectors_of(trace, memory, data) == [4 * index for index in range(32)]


def test_a_barrier_names_the_warps_it_waits_for(cubin: bytes) -> None:
    kernel, _, traces = run(cubin, "synchronized_block", [Buffer(1 << 16)], threads=64)
    for trace in traces:
        (barrier,) = [
            access for access in trace.accesses if kernel.instructions[trace.steps[access.step]].opcode == "BAR"
        ]
        assert (barrier.waves, barrier.lines) == (0, 2)


def test_an_endless_loop_is_an_error(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dflash2.predict.emulation.STEP_LIMIT", 1000)
    with pytest.raises(SimulationFailed, match="past 1000 instructions"):
        run(cubin, "counted_loop", [Buffer(4, np.array([1 << 20], np.int32)), Buffer(1 << 20)])
