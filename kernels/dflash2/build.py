"""Compiles every kernel variant to the images that the wheel ships: sm_70 cubins and compute_70 PTX.

The wheel build runs it; by hand: `python -m dflash2.build FOLDER`. A checkout has no images: they are not in git.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dflash2.nvrtc import CompiledImage, Nvrtc
from dflash2.variants import SOURCE_FOLDER, VARIANTS, KernelVariant

IMAGE_FOLDER = Path(__file__).parent / "images"
MANIFEST_NAME = "manifest.json"
CUBIN_ARCHITECTURE = "sm_70"  # its PTX is compute_70's: what newer test machines JIT


@dataclass(frozen=True)
class ImageManifest:
    """What is in an image folder: the compiler that made it, and the file stems of its variants."""

    nvrtc_version: str
    variants: tuple[str, ...]


def compile_variant(nvrtc: Nvrtc, variant: KernelVariant, architecture: str = CUBIN_ARCHITECTURE) -> CompiledImage:
    """Compile one variant from the sources in the package. Raises CompileFailed with the compiler's log."""
    return nvrtc.compile(
        variant.source_path.read_text(),
        name=variant.source,
        architecture=architecture,
        defines=variant.defines,
        include_folders=(SOURCE_FOLDER,),
    )


def cubin_path(variant: KernelVariant, folder: Path = IMAGE_FOLDER) -> Path:
    """Where the variant's sm_70 cubin lies in an image folder."""
    return folder / f"{variant.name}.sm_70.cubin"


def ptx_path(variant: KernelVariant, folder: Path = IMAGE_FOLDER) -> Path:
    """Where the variant's compute_70 PTX lies in an image folder."""
    return folder / f"{variant.name}.compute_70.ptx"


def build_images(
    folder: Path, variants: Sequence[KernelVariant] = VARIANTS, *, report: Callable[[str], object] = lambda line: None
) -> ImageManifest:
    """Compile `variants` into `folder` and write its manifest. Takes about half a second a variant."""
    nvrtc = Nvrtc()
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (path for path in folder.iterdir() if path.suffix in (".cubin", ".ptx")):
        stale.unlink()
    for variant in variants:
        image = compile_variant(nvrtc, variant)
        cubin_path(variant, folder).write_bytes(image.cubin)
        ptx_path(variant, folder).write_bytes(image.ptx)
        report(f"{variant.name}: cubin {len(image.cubin)} B, PTX {len(image.ptx)} B")
    manifest = ImageManifest("{}.{}".format(*nvrtc.version()), tuple(variant.name for variant in variants))
    (folder / MANIFEST_NAME).write_text(json.dumps(vars(manifest), indent=1) + "\n")
    return manifest


def read_manifest(folder: Path = IMAGE_FOLDER) -> ImageManifest | None:
    """The manifest of an image folder; None when nothing was built there (a checkout, or a wheel without images)."""
    path = folder / MANIFEST_NAME
    if not path.exists():
        return None
    data = json.loads(path.read_text())
    return ImageManifest(data["nvrtc_version"], tuple(data["variants"]))


if __name__ == "__main__":
    build_images(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGE_FOLDER, report=print)
