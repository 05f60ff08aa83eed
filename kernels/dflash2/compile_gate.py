"""The compile gate: what the compiler made of every kernel, held against a table in the repository.

A V100 refuses a block with more than 98,304 bytes of shared memory, and a spill in a hot loop costs it dearly; a newer
test GPU shows neither. So the sm_70 machine code is inspected instead: `python -m dflash2.compile_gate --check` fails
when a kernel breaks a rule or differs from kernels/compile_table.json, `--update` rewrites the table on purpose.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from dflash2.build import compile_variant
from dflash2.errors import Dflash2Error
from dflash2.nvrtc import Nvrtc
from dflash2.predict.cubin import read_resources
from dflash2.predict.disassembly import disassemble, parse_function
from dflash2.predict.instruction import Instruction
from dflash2.variants import SHARED_LIMIT_BYTES, VARIANTS, KernelVariant

TABLE_PATH = Path(__file__).parents[1] / "compile_table.json"
INSTRUCTION_BYTES = 16
# A sub-core's L0 instruction cache on Volta (Jia et al. 2018); larger loops refill from the SM's L1.5 on every trip.
INSTRUCTION_CACHE_BYTES = 12288
REGISTER_FILE = 65536


@dataclass(frozen=True)
class CompiledKernel:
    """One row of the table. The hot loop is the smallest loop that holds the most tensor-core instructions."""

    registers: int
    stack_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    threads: int
    hmma_884: int
    local_loads: int
    local_stores: int
    code_bytes: int
    hot_loop_bytes: int
    hot_loop_local_accesses: int
    hot_loop_fits_instruction_cache: bool

    @property
    def shared_bytes(self) -> int:
        """All shared memory of a block."""
        return self.static_shared_bytes + self.dynamic_shared_bytes


def inspect(nvrtc: Nvrtc, variant: KernelVariant) -> CompiledKernel:
    """Compile one variant for sm_70 and read its row from the machine code."""
    cubin = compile_variant(nvrtc, variant).cubin
    resources = read_resources(cubin, variant.entry_point)
    instructions = parse_function(disassemble(cubin), variant.entry_point)
    loop = hot_loop(instructions)
    return CompiledKernel(
        registers=resources.registers,
        stack_bytes=resources.stack_bytes,
        static_shared_bytes=resources.static_shared_bytes,
        dynamic_shared_bytes=variant.shared_memory_bytes,
        threads=variant.threads,
        hmma_884=_count_tensor(instructions),
        local_loads=sum(instruction.opcode == "LDL" for instruction in instructions),
        local_stores=sum(instruction.opcode == "STL" for instruction in instructions),
        code_bytes=len(instructions) * INSTRUCTION_BYTES,
        hot_loop_bytes=len(loop) * INSTRUCTION_BYTES,
        hot_loop_local_accesses=sum(instruction.opcode in ("LDL", "STL") for instruction in loop),
        hot_loop_fits_instruction_cache=len(loop) * INSTRUCTION_BYTES <= INSTRUCTION_CACHE_BYTES,
    )


def hot_loop(instructions: Sequence[Instruction]) -> Sequence[Instruction]:
    """The smallest loop with the most HMMA.884 (without any: the largest loop); empty for straight-line code."""
    loops = [
        instructions[instruction.target : instruction.index + 1]
        for instruction in instructions
        if instruction.opcode == "BRA"
        and instruction.target is not None
        and instruction.target <= instruction.index
        and not _is_padding(instruction)
    ]
    if not any(_count_tensor(loop) for loop in loops):
        return max(loops, key=len, default=())
    return max(loops, key=lambda loop: (_count_tensor(loop), -len(loop)))


def _is_padding(instruction: Instruction) -> bool:
    """A function ends in a branch to itself, which is never reached."""
    return instruction.target == instruction.index


def _count_tensor(instructions: Iterable[Instruction]) -> int:
    return sum(instruction.opcode == "HMMA" and "884" in instruction.modifiers for instruction in instructions)


def broken_rules(name: str, kernel: CompiledKernel) -> list[str]:
    """What no table can excuse: a kernel that a V100 cannot launch, or that spills where it counts."""
    findings = []
    if kernel.shared_bytes > SHARED_LIMIT_BYTES:
        findings.append(f"{name} asks for {kernel.shared_bytes} B of shared memory; a V100 has {SHARED_LIMIT_BYTES} B")
    if kernel.hot_loop_local_accesses:
        findings.append(f"{name} spills in its hot loop: {kernel.hot_loop_local_accesses} local loads and stores")
    if kernel.registers * kernel.threads > REGISTER_FILE:
        findings.append(f"{name} needs {kernel.registers} registers for each of {kernel.threads} threads: too many")
    return findings


def differences(built: Mapping[str, CompiledKernel], table: Mapping[str, CompiledKernel]) -> list[str]:
    """Every field that differs between the kernels as built and the table, as one line each."""
    findings = [f"{name} is not in the table" for name in built if name not in table]
    findings += [f"{name} is in the table but no longer built" for name in table if name not in built]
    for name in (name for name in built if name in table):
        for field in fields(CompiledKernel):
            now, then = getattr(built[name], field.name), getattr(table[name], field.name)
            if now != then:
                findings.append(f"{name}: {field.name} is {now}, the table says {then}")
    return findings


def build_all(variants: Sequence[KernelVariant] = VARIANTS) -> dict[str, CompiledKernel]:
    """Rows of all variants as the installed NVRTC builds them."""
    nvrtc = Nvrtc()
    return {variant.name: inspect(nvrtc, variant) for variant in variants}


def read_table(path: Path = TABLE_PATH) -> dict[str, CompiledKernel]:
    """The table in the repository."""
    if not path.exists():
        raise Dflash2Error(f"there is no compile table at {path}", "python -m dflash2.compile_gate --update")
    return {name: CompiledKernel(**row) for name, row in json.loads(path.read_text())["kernels"].items()}


def write_table(kernels: Mapping[str, CompiledKernel], path: Path = TABLE_PATH) -> None:
    """Replace the table; one kernel a line, so that a diff shows what changed."""
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(asdict(kernel))}" for name, kernel in kernels.items())
    major, minor = Nvrtc().version()
    head = json.dumps(f"sm_70 by NVRTC {major}.{minor}; change it only by: python -m dflash2.compile_gate --update")
    path.write_text(f'{{\n "made_by": {head},\n "kernels": {{\n{rows}\n }}\n}}\n')


def check(built: Mapping[str, CompiledKernel], table: Mapping[str, CompiledKernel]) -> list[str]:
    """Broken rules first, then differences from the table; empty when the gate is open."""
    broken = [finding for name, kernel in built.items() for finding in broken_rules(name, kernel)]
    return broken + differences(built, table)


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m dflash2.compile_gate`: 0 when the kernels are as the table says (or it was updated), else 1."""
    parser = argparse.ArgumentParser(prog="python -m dflash2.compile_gate", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="compare with the table and fail on any difference")
    action.add_argument("--update", action="store_true", help="write the table anew (rules still hold)")
    parser.add_argument("--table", type=Path, default=TABLE_PATH)
    arguments = parser.parse_args(argv)
    try:
        built = build_all()
        if arguments.update:
            findings = [finding for name, kernel in built.items() for finding in broken_rules(name, kernel)]
            write_table(built, arguments.table)
        else:
            findings = check(built, read_table(arguments.table))
    except Dflash2Error as err:
        findings = [str(err)]
    print("\n".join(findings) if findings else f"compile gate: {len(VARIANTS)} kernels as in {arguments.table.name}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
