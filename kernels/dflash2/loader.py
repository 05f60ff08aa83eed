"""Finds the image of a kernel that fits a card, and loads it once a card.

compute capability 7.0   the wheel's sm_70 cubin: runs on every driver from R525 on, needs no compiler
newer cards              the wheel's compute_70 PTX, compiled by the driver: for tests, m8n8k4 is emulated there
no image in the package  NVRTC compiles the source; the result is kept in the cache folder, never in the package
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from dflash2.build import IMAGE_FOLDER, compile_variant, cubin_path, ptx_path
from dflash2.cache import cache_folder
from dflash2.driver import Device, Driver, Function
from dflash2.errors import DriverFailed, ImageUnusable, ToolMissing
from dflash2.nvrtc import Nvrtc
from dflash2.variants import SOURCE_FOLDER, KernelVariant

VOLTA = (7, 0)
# PTX carries the ISA of the compiler that wrote it: NVRTC 12.9 writes 8.8, which drivers read from CUDA 12.9 on.
PTX_NEEDS_CUDA = (12, 9)


class ImageKind(StrEnum):
    """What an image holds."""

    CUBIN = "cubin"
    PTX = "ptx"


@dataclass(frozen=True)
class KernelImage:
    """An image the driver can load, and where it came from (for messages)."""

    kind: ImageKind
    data: bytes
    origin: str


def image_kind(device: Device, driver_cuda: tuple[int, int]) -> ImageKind:
    """Which kind of image a card takes. Raises ImageUnusable for a card or driver that can run neither."""
    capability = "{}.{}".format(*device.capability)
    if device.capability == VOLTA:
        return ImageKind.CUBIN
    if device.capability < VOLTA:
        hint = "dflash2 is for the Tesla V100 (7.0)"
        raise ImageUnusable(f"{device.name} has compute capability {capability}, older than 7.0", hint)
    if driver_cuda < PTX_NEEDS_CUDA:
        needed, has = "{}.{}".format(*PTX_NEEDS_CUDA), "{}.{}".format(*driver_cuda)
        raise ImageUnusable(
            f"{device.name} ({capability}) is no V100, and its driver (CUDA {has}) cannot compile the kernels' PTX",
            f"a driver with CUDA {needed} or newer (R575) is needed to test the kernels on this card",
        )
    return ImageKind.PTX


class ImageSource:
    """Where images come from: the package, else the cache, else NVRTC."""

    def __init__(
        self, *, images: Path = IMAGE_FOLDER, cache: Path | None = None, make_compiler: Callable[[], Nvrtc] = Nvrtc
    ) -> None:
        self._images = images
        self._cache = cache
        self._make_compiler = make_compiler

    def find(self, variant: KernelVariant, kind: ImageKind) -> KernelImage:
        """The image of one variant. Raises ImageUnusable when the package has none and it cannot be compiled."""
        shipped = (cubin_path if kind is ImageKind.CUBIN else ptx_path)(variant, self._images)
        if shipped.exists():
            return KernelImage(kind, shipped.read_bytes(), str(shipped))
        try:
            compiler = self._make_compiler()
        except ToolMissing as err:
            message = f"there is no {kind} of {variant.name} in {self._images}: {err.message}"
            raise ImageUnusable(message, err.hint) from err
        return self._compiled(compiler, variant, kind)

    def _compiled(self, compiler: Nvrtc, variant: KernelVariant, kind: ImageKind) -> KernelImage:
        folder = self._cache or cache_folder()
        sources = (variant.source_path, *sorted(SOURCE_FOLDER.glob("*.cuh")))
        path = folder / f"{variant.name}-{image_digest(variant, compiler.version(), sources)}.{kind}"
        if not path.exists():
            image = compile_variant(compiler, variant)
            _write_whole(path, image.cubin if kind is ImageKind.CUBIN else image.ptx)
        return KernelImage(kind, path.read_bytes(), str(path))


def image_digest(variant: KernelVariant, compiler_version: tuple[int, int], sources: Sequence[Path]) -> str:
    """Changes with anything that can change the image: the source and all headers, the defines, the compiler."""
    digest = hashlib.sha256(repr((variant.entry_point, variant.defines, compiler_version)).encode())
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _write_whole(path: Path, data: bytes) -> None:
    """Write by rename, so that another process never reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)


class KernelLoader:
    """Loaded kernels by card. Safe to use from several threads; modules live as long as the process."""

    def __init__(self, driver: Driver, source: ImageSource | None = None) -> None:
        self.driver = driver
        self._source = source or ImageSource()
        self._devices = driver.devices()
        self._functions: dict[tuple[int, str], Function] = {}  # by name: hashing a whole variant takes microseconds
        self._lock = threading.Lock()

    def function(self, variant: KernelVariant, device_index: int) -> Function:
        """The kernel, loaded into the current context, which must be the card's primary one (torch's)."""
        key = (device_index, variant.name)
        function = self._functions.get(key)
        if function is None:
            with self._lock:
                function = self._functions.get(key) or self._load(variant, self._devices[device_index])
                self._functions[key] = function
        return function

    def _load(self, variant: KernelVariant, device: Device) -> Function:
        image = self._source.find(variant, image_kind(device, self.driver.cuda_version()))
        try:
            module = self.driver.load_module(image.data)
            return self.driver.function(module, variant.entry_point, dynamic_shared_bytes=variant.shared_memory_bytes)
        except DriverFailed as err:
            message = f"the driver refused {variant.name} ({image.origin}) on {device.name}: {err.message}"
            raise ImageUnusable(message, "reinstall dflash2, or see `dflash2 doctor`") from err
