"""The CUDA driver API through ctypes: devices, contexts, modules, launches. No torch, no toolkit, nothing at import.

Handles are plain integers. Every failed call raises DriverFailed with the driver's own words.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dflash2.errors import DriverFailed, ToolMissing

LIBRARY_NAME = "libcuda.so.1"
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _SM_COUNT = 75, 76, 16  # CU_DEVICE_ATTRIBUTE_*
_UNRAISED_SHARED_BYTES = 48 * 1024  # more needs the function's attribute
_NAME_BYTES = 256

_OneParameter = ctypes.c_void_p * 1
# Declared, because it is the one call in the path of every token: function, grid, block, shared bytes, stream, ...
_LAUNCH_TYPES: tuple[Any, ...] = (
    ctypes.c_void_p,
    *[ctypes.c_uint] * 7,
    ctypes.c_void_p,
    _OneParameter,
    ctypes.c_void_p,
)

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Device:
    """One card as the driver sees it."""

    index: int
    name: str
    capability: tuple[int, int]
    sm_count: int
    memory_bytes: int

    @property
    def is_volta(self) -> bool:
        """True for compute capability 7.0, which the cubins are for."""
        return self.capability == (7, 0)


@dataclass(frozen=True)
class Function:
    """A loaded kernel; `handle` is the driver's CUfunction."""

    handle: int
    name: str


class Driver:
    """The loaded driver library, initialised. As thread-safe as the driver; contexts are per thread, as there."""

    def __init__(self, library: str = LIBRARY_NAME) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as err:
            hint = "install the NVIDIA driver, R580 or older for a V100"
            raise ToolMissing(f"{library} does not load: {err}", hint) from err
        self._library.cuLaunchKernel.argtypes = _LAUNCH_TYPES
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call one driver function; raises DriverFailed naming it, the error and its text."""
        status = getattr(self._library, name)(*arguments)
        if status:
            raise DriverFailed(f"{name} failed: {self._error_text(status)}", "see `dflash2 doctor`")

    def _error_text(self, status: int) -> str:
        text, name = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(name))
        self._library.cuGetErrorString(status, ctypes.byref(text))
        return f"{(name.value or b'unknown').decode()} ({status}), {(text.value or b'no text').decode()}"

    def cuda_version(self) -> tuple[int, int]:
        """Newest CUDA the driver supports, as (major, minor): its JIT reads PTX up to that release."""
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return version.value // 1000, version.value % 1000 // 10

    def devices(self) -> list[Device]:
        """All cards that CUDA_VISIBLE_DEVICES leaves visible."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return [self._device(index) for index in range(count.value)]

    def _device(self, index: int) -> Device:
        handle, memory = ctypes.c_int(), ctypes.c_size_t()
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self.call("cuDeviceGet", ctypes.byref(handle), index)
        self.call("cuDeviceGetName", name, _NAME_BYTES, handle)
        self.call("cuDeviceTotalMem_v2", ctypes.byref(memory), handle)
        capability = (self._attribute(handle, _CAPABILITY_MAJOR), self._attribute(handle, _CAPABILITY_MINOR))
        return Device(index, name.value.decode(), capability, self._attribute(handle, _SM_COUNT), memory.value)

    def _attribute(self, device: ctypes.c_int, attribute: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        return value.value

    @contextmanager
    def primary_context(self, index: int) -> Iterator[None]:
        """Make the card's primary context (the one torch uses) current inside the block."""
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(handle), index)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self.call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
            self.call("cuDevicePrimaryCtxRelease_v2", handle)

    def load_module(self, image: bytes) -> int:
        """Load a cubin or PTX into the current context; returns the module's handle."""
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image + b"\0")
        return module.value or 0

    def function(self, module: int, name: str, *, dynamic_shared_bytes: int = 0) -> Function:
        """A kernel of a module, allowed `dynamic_shared_bytes` of shared memory."""
        handle = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(handle), ctypes.c_void_p(module), name.encode())
        if dynamic_shared_bytes > _UNRAISED_SHARED_BYTES:
            self.call("cuFuncSetAttribute", handle, _MAX_DYNAMIC_SHARED, dynamic_shared_bytes)
        return Function(handle.value or 0, name)

    def launch(
        self,
        function: Function,
        arguments: ctypes.Structure,
        *,
        grid: Dim3,
        block: Dim3,
        dynamic_shared_bytes: int = 0,
        stream: int = 0,
    ) -> None:
        """Queue one launch on `stream`; `arguments` is the kernel's only parameter, passed by value."""
        parameter = _OneParameter(ctypes.addressof(arguments))
        self.call("cuLaunchKernel", function.handle, *grid, *block, dynamic_shared_bytes, stream, parameter, None)

    def allocate(self, size_bytes: int) -> int:
        """Address of new device memory; freed with `free`."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        return address.value

    def free(self, address: int) -> None:
        """Give memory of `allocate` back."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes to the device."""
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy bytes from the device, after everything queued before."""
        buffer = ctypes.create_string_buffer(size_bytes)
        self.call("cuMemcpyDtoH_v2", buffer, ctypes.c_uint64(address), ctypes.c_size_t(size_bytes))
        return buffer.raw

    def synchronize(self) -> None:
        """Wait for all work of the current context; raises what a kernel did wrong."""
        self.call("cuCtxSynchronize")
