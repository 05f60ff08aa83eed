"""Compiles CUDA source to an sm_70 cubin and compute_70 PTX through NVRTC 12.x (ctypes only, no GPU needed).

CUDA 13 dropped sm_70, so the library is looked for by its major version: the PyPI wheel's copy first, then the
system's. NVRTC keeps one global state per library, so one `Nvrtc` serves a whole process.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dflash2.errors import CompileFailed, Dflash2Error, ToolMissing

LIBRARY_NAME = "libnvrtc.so.12"
WHEEL_NAME = "nvidia-cuda-nvrtc-cu12"
INSTALL_HINT = f"pip install '{WHEEL_NAME}>=12.8,<13': CUDA 13 no longer compiles for sm_70"


@dataclass(frozen=True)
class CompiledImage:
    """What NVRTC made of one source: `cubin` is empty when the target was a virtual architecture (compute_70)."""

    cubin: bytes
    ptx: bytes
    log: str


def wheel_file(wheel: str, suffix: str) -> Path | None:
    """Path of the installed file of `wheel` whose path ends in `suffix`; None when wheel or file is absent."""
    try:
        files = importlib.metadata.files(wheel) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if str(file).endswith(suffix):
            path = Path(str(file.locate()))
            return path if path.exists() else None
    return None


def find_library() -> str:
    """Path or soname of libnvrtc 12; raises ToolMissing when neither the wheel nor the system has one."""
    path = wheel_file(WHEEL_NAME, f"/{LIBRARY_NAME}")
    if path is not None:
        return str(path)
    try:
        ctypes.CDLL(LIBRARY_NAME)
    except OSError as err:
        raise ToolMissing(f"{LIBRARY_NAME} was not found: {err}", INSTALL_HINT) from err
    return LIBRARY_NAME


class Nvrtc:
    """One loaded NVRTC library. `compile` is a pure function of its arguments and the library version."""

    def __init__(self, library: str | None = None) -> None:
        self.path = library or find_library()
        try:
            self._library = ctypes.CDLL(self.path)
        except OSError as err:
            raise ToolMissing(f"{self.path} does not load: {err}", INSTALL_HINT) from err

    def version(self) -> tuple[int, int]:
        """(major, minor) of the loaded library."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
        return major.value, minor.value

    def compile(
        self,
        source: str,
        *,
        name: str,
        architecture: str = "sm_70",
        defines: Sequence[str] = (),
        include_folders: Sequence[Path] = (),
        options: Sequence[str] = (),
    ) -> CompiledImage:
        """Compile one translation unit. `architecture` is sm_70 (cubin and PTX) or compute_70 (PTX only).

        `defines` are NAME or NAME=VALUE. Raises CompileFailed with NVRTC's log.
        """
        arguments = [
            f"--gpu-architecture={architecture}",
            "--std=c++17",
            "-default-device",
            *(f"--include-path={folder}" for folder in include_folders),
            *(f"--define-macro={define}" for define in defines),
            *options,
        ]
        program = ctypes.c_void_p()
        self._check(
            self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None),
            "nvrtcCreateProgram",
        )
        try:
            return self._compile_program(program, name, arguments)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _compile_program(self, program: ctypes.c_void_p, name: str, arguments: Sequence[str]) -> CompiledImage:
        array = (ctypes.c_char_p * len(arguments))(*(argument.encode() for argument in arguments))
        status = self._library.nvrtcCompileProgram(program, len(arguments), array)
        log = self._read(program, "nvrtcGetProgramLog").rstrip(b"\0\n").decode(errors="replace")
        if status:
            raise CompileFailed(f"NVRTC could not compile {name} with {' '.join(arguments)}:\n{log}")
        ptx = self._read(program, "nvrtcGetPTX").rstrip(b"\0")
        virtual = any(argument.startswith("--gpu-architecture=compute") for argument in arguments)
        return CompiledImage(b"" if virtual else self._read(program, "nvrtcGetCUBIN"), ptx, log)

    def _read(self, program: ctypes.c_void_p, getter: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"{getter}Size")(program, ctypes.byref(size)), f"{getter}Size")
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, getter)(program, buffer), getter)
        return buffer.raw

    def _check(self, status: int, call: str) -> None:
        if status:
            self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
            text = self._library.nvrtcGetErrorString(status).decode()
            raise Dflash2Error(f"{call} failed: {text}", f"library {self.path}")
