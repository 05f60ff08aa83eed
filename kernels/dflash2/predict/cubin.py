"""Reads what a cubin says about a kernel: registers, shared memory, local memory and literals (64-bit ELF)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from dflash2.errors import CubinUnreadable

_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8  # a section that takes no bytes in the file, such as shared memory
# .nv.info is a list of attributes: format, id, then two bytes of value, or of length when the format is SIZED.
_SIZED = 4
_FRAME_SIZE = 0x11  # value: a function's symbol and the bytes of its stack frame


@dataclass(frozen=True)
class Section:
    """One ELF section."""

    data: bytes
    size_bytes: int
    info: int


@dataclass(frozen=True)
class KernelResources:
    """What the compiler reserved for one kernel. `literals` is constant bank 2."""

    registers: int
    static_shared_bytes: int
    stack_bytes: int
    literals: bytes


def read_sections(cubin: bytes) -> Mapping[str, Section]:
    """Sections of a cubin by name; raises CubinUnreadable when it is no ELF file."""
    if cubin[:5] != b"\x7fELF\x02":
        raise CubinUnreadable(f"not a 64-bit ELF file: it starts with {cubin[:5]!r}")
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [_SECTION_HEADER.unpack_from(cubin, offset + index * size) for index in range(count)]
    names_at = headers[names_index][4]
    sections = {}
    for name_offset, kind, _flags, _address, at, length, _link, info, _align, _entry in headers:
        start = names_at + name_offset
        name = cubin[start : cubin.index(b"\0", start)].decode()
        sections[name] = Section(b"" if kind == _NO_BITS else cubin[at : at + length], length, info)
    return sections


def read_resources(cubin: bytes, kernel: str) -> KernelResources:
    """Resources of one kernel of a cubin; raises CubinUnreadable when it is not there."""
    sections = read_sections(cubin)
    code = sections.get(f".text.{kernel}")
    if code is None:
        known = ", ".join(name.removeprefix(".text.") for name in sections if name.startswith(".text."))
        raise CubinUnreadable(f"the cubin holds no kernel {kernel}", f"it holds {known}")
    shared = sections.get(f".nv.shared.{kernel}")
    literals = sections.get(f".nv.constant2.{kernel}")
    return KernelResources(
        registers=code.info >> 24,  # sh_info holds the register count in its top byte, the symbol below
        static_shared_bytes=shared.size_bytes if shared else 0,
        stack_bytes=_stack_bytes(sections, code.info & 0xFFFFFF),
        literals=literals.data if literals else b"",
    )


def _stack_bytes(sections: Mapping[str, Section], symbol: int) -> int:
    """Frame of the function with that symbol: zero unless it spills or keeps an array in local memory."""
    data = sections[".nv.info"].data
    at = 0
    while at < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != _SIZED:
            continue
        if attribute == _FRAME_SIZE:
            function, size = struct.unpack_from("<II", data, at)
            if function == symbol:
                return int(size)
        at += value
    return 0
