"""The compile gate: the kernels as NVRTC builds them now, against the table in the repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from dflash2 import compile_gate
from dflash2.compile_gate import CompiledKernel, broken_rules, check, hot_loop, read_table, write_table
from dflash2.nvrtc import Nvrtc
from dflash2.predict.cubin import read_resources
from dflash2.predict.disassembly import disassemble, parse_function

SOUND = CompiledKernel(
    registers=128,
    stack_bytes=0,
    static_shared_bytes=1024,
    dynamic_shared_bytes=97280,
    threads=256,
    hmma_884=512,
    local_loads=0,
    local_stores=0,
    code_bytes=32000,
    hot_loop_bytes=12288,
    hot_loop_local_accesses=0,
    hot_loop_fits_instruction_cache=True,
)


@pytest.fixture(scope="module")
def built() -> dict[str, CompiledKernel]:
    return compile_gate.build_all()


def test_every_kernel_is_as_the_table_says_and_breaks_no_rule(built: dict[str, CompiledKernel]) -> None:
    findings = check(built, read_table())
    assert not findings, "\n".join([*findings, "if this was meant: python -m dflash2.compile_gate --update"])


def test_attention_kernels_use_the_tensor_cores(built: dict[str, CompiledKernel]) -> None:
    attention = {name: kernel for name, kernel in built.items() if "attention" in name}
    assert attention
    assert all(kernel.hmma_884 > 0 for kernel in attention.values())


def test_one_byte_more_than_a_v100_has_is_refused() -> None:
    assert broken_rules("kernel", SOUND) == []
    (finding,) = broken_rules("kernel", replace(SOUND, dynamic_shared_bytes=97281))
    assert "98305 B of shared memory" in finding


def test_a_spill_in_the_hot_loop_is_refused_and_one_outside_only_tabled() -> None:
    assert broken_rules("kernel", replace(SOUND, local_loads=2, local_stores=2, stack_bytes=8)) == []
    (finding,) = broken_rules("kernel", replace(SOUND, hot_loop_local_accesses=4))
    assert "spills in its hot loop" in finding


def test_more_registers_than_the_file_has_are_refused() -> None:
    (finding,) = broken_rules("kernel", replace(SOUND, registers=255, threads=512))
    assert "registers" in finding


def test_a_changed_field_a_new_and_a_lost_kernel_each_close_the_gate() -> None:
    table = {"kept": SOUND, "lost": SOUND}
    findings = check({"kept": replace(SOUND, registers=130), "new": SOUND}, table)
    assert findings == [
        "new is not in the table",
        "lost is in the table but no longer built",
        "kept: registers is 130, the table says 128",
    ]


def test_the_table_survives_a_round_trip_through_its_file(tmp_path: Path) -> None:
    write_table({"kernel": SOUND}, tmp_path / "table.json")
    assert read_table(tmp_path / "table.json") == {"kernel": SOUND}


def test_a_spilling_loop_is_found_in_real_machine_code() -> None:
    """Sixty-four accumulators under a limit of 32 registers cannot stay in registers."""
    source = """
    extern "C" __global__ void __launch_bounds__(1024, 2) spilling(const float* in, float* out, int n) {
      float sum[64];
      for (int i = 0; i < 64; i++) sum[i] = in[i];
      for (int step = 0; step < n; step++) {
        #pragma unroll
        for (int i = 0; i < 64; i++) sum[i] = sum[i] * in[step + i] + sum[(i + 1) % 64];
      }
      for (int i = 0; i < 64; i++) out[i * 1024 + threadIdx.x] = sum[i];
    }
    """
    cubin = Nvrtc().compile(source, name="spilling.cu").cubin
    loop = hot_loop(parse_function(disassemble(cubin), "spilling"))
    assert sum(instruction.opcode in ("LDL", "STL") for instruction in loop) > 10


def test_each_kernel_of_a_cubin_has_its_own_stack() -> None:
    source = """
    extern "C" __global__ void indexed(int* out, int at) {
      int kept[32];
      for (int i = 0; i < 32; i++) kept[i] = out[i];
      for (int i = 0; i < 100; i++) kept[(at * i) & 31] += kept[(at + i) & 31];
      out[0] = kept[at & 31];
    }
    extern "C" __global__ void plain(int* out) { out[threadIdx.x] = 1; }
    """
    cubin = Nvrtc().compile(source, name="stacks.cu").cubin
    assert read_resources(cubin, "indexed").stack_bytes == 128
    assert read_resources(cubin, "plain").stack_bytes == 0


def test_straight_line_code_has_no_hot_loop() -> None:
    source = 'extern "C" __global__ void straight(float* out) { out[threadIdx.x] = 1.f; }'
    cubin = Nvrtc().compile(source, name="straight.cu").cubin
    assert len(hot_loop(parse_function(disassemble(cubin), "straight"))) == 0
