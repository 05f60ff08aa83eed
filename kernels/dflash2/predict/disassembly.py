"""Runs nvdisasm over a cubin and cuts its text into functions of decoded instructions.

sm_70 is read by nvdisasm up to 12.x; 13.1 and later refuse it. Triton's wheel carries a 12.x copy.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from dflash2.errors import CubinUnreadable, ToolMissing
from dflash2.nvrtc import wheel_file
from dflash2.predict.instruction import Instruction, decode, match_instruction_line

NVDISASM_ENV = "DFLASH2_NVDISASM"
DISASSEMBLE_TIMEOUT_S = 120
_INSTALL_HINT = f"pip install triton==3.6.0, or set {NVDISASM_ENV} to an nvdisasm 12.x"


def find_nvdisasm() -> Path:
    """The disassembler: the path in DFLASH2_NVDISASM, else the copy in Triton's wheel. Raises ToolMissing."""
    chosen = os.environ.get(NVDISASM_ENV)
    path = Path(chosen) if chosen else wheel_file("triton", "backends/nvidia/bin/nvdisasm")
    if path is None or not path.exists():
        raise ToolMissing(f"no nvdisasm that reads sm_70: {chosen or 'Triton is not installed'}", _INSTALL_HINT)
    return path


def disassemble(cubin: bytes) -> str:
    """nvdisasm's text with the raw instruction words."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = (str(find_nvdisasm()), "-c", "-hex", file.name)
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DISASSEMBLE_TIMEOUT_S)
    if result.returncode:
        raise CubinUnreadable(f"nvdisasm refused the cubin: {result.stderr.strip()}", _INSTALL_HINT)
    return result.stdout


def function_names(text: str) -> list[str]:
    """Names of the functions in a disassembly, in file order."""
    return re.findall(r"^\.text\.(\S+):$", text, re.MULTILINE)


def parse_function(text: str, name: str) -> list[Instruction]:
    """Decode the function `name` of a disassembly; raises CubinUnreadable when it is not there."""
    pattern = rf"^\.text\.{re.escape(name)}:\n(.*?)(?=^//-----|^\t?\.section|\Z)"
    match = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    if match is None:
        raise CubinUnreadable(f"the cubin holds no function {name}", f"it holds {', '.join(function_names(text))}")
    operations, labels = _collect(match.group(1).splitlines())
    return [decode(index, text, bits, labels) for index, (text, bits) in enumerate(operations)]


def _collect(lines: list[str]) -> tuple[list[tuple[str, int]], dict[str, int]]:
    """(operation, high 64 bits) of every instruction, and the index each label stands before."""
    operations: list[tuple[str, int]] = []
    labels: dict[str, int] = {}
    pending: str | None = None
    for line in map(str.strip, lines):
        if label := re.match(r"^([.$][^\s:]+):", line):
            labels[label.group(1)] = len(operations)
        elif (operation := match_instruction_line(line)) is not None:
            pending = operation
        elif pending is not None and (word := re.match(r"/\* 0x([0-9a-f]{16}) \*/", line)):
            operations.append((pending, int(word.group(1), 16)))
            pending = None
    return operations, labels
