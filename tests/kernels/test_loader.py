"""Which image a card gets, where it comes from, and that each is loaded once; the driver is a fake one in C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from dflash2.build import build_images, cubin_path
from dflash2.driver import Device, Driver
from dflash2.errors import DriverFailed, ImageUnusable, ToolMissing
from dflash2.loader import ImageKind, ImageSource, KernelLoader, image_digest, image_kind
from dflash2.nvrtc import Nvrtc
from dflash2.variants import KV_WRITE

from .fake_driver import build_fake_driver

V100 = Device(0, "Tesla V100", (7, 0), 80, 32 << 30)
ELF, PTX_COMMENT = "7f454c46", b"//".hex()


@pytest.fixture(scope="module")
def driver_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_fake_driver(tmp_path_factory.mktemp("driver")))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    build_images(folder, [KV_WRITE])
    return folder


def test_a_v100_gets_the_cubin_whatever_its_driver() -> None:
    for cuda in ((12, 0), (12, 4), (13, 0)):
        assert image_kind(V100, cuda) is ImageKind.CUBIN


def test_a_newer_card_gets_ptx_if_its_driver_can_read_it() -> None:
    newer = replace(V100, name="H200", capability=(9, 0))
    assert image_kind(newer, (13, 0)) is ImageKind.PTX
    with pytest.raises(ImageUnusable, match="a driver with CUDA 12.9 or newer"):
        image_kind(newer, (12, 4))


def test_an_older_card_is_refused_by_name() -> None:
    with pytest.raises(ImageUnusable, match="Tesla P100 has compute capability 6.0"):
        image_kind(replace(V100, name="Tesla P100", capability=(6, 0)), (12, 8))


def no_compiler() -> Nvrtc:
    raise ToolMissing("no NVRTC here", "install it")


def test_the_wheel_s_image_needs_no_compiler(images: Path) -> None:
    image = ImageSource(images=images, make_compiler=no_compiler).find(KV_WRITE, ImageKind.CUBIN)
    assert image.data == cubin_path(KV_WRITE, images).read_bytes()


def test_without_images_nvrtc_compiles_once_into_the_cache(tmp_path: Path) -> None:
    compilers = []

    def make_compiler() -> Nvrtc:
        compilers.append(Nvrtc())
        return compilers[-1]

    source = ImageSource(images=tmp_path / "none", cache=tmp_path / "cache", make_compiler=make_compiler)
    image = source.find(KV_WRITE, ImageKind.CUBIN)
    assert image.data[:4] == b"\x7fELF"
    (cached,) = (tmp_path / "cache").iterdir()
    changed_at = cached.stat().st_mtime_ns
    assert source.find(KV_WRITE, ImageKind.CUBIN) == image
    assert cached.stat().st_mtime_ns == changed_at
    assert (
        source.find(replace(KV_WRITE, defines=(*KV_WRITE.defines, "OTHER=1")), ImageKind.CUBIN).origin != image.origin
    )


def test_a_changed_source_header_define_or_compiler_needs_another_image(tmp_path: Path) -> None:
    source, header = tmp_path / "kernel.cu", tmp_path / "header.cuh"
    source.write_text("source")
    header.write_text("header")
    digests = [image_digest(KV_WRITE, (12, 9), (source, header))]
    digests.append(image_digest(KV_WRITE, (12, 8), (source, header)))
    digests.append(image_digest(replace(KV_WRITE, defines=("OTHER",)), (12, 9), (source, header)))
    header.write_text("changed")
    digests.append(image_digest(KV_WRITE, (12, 9), (source, header)))
    source.write_text("changed")
    digests.append(image_digest(KV_WRITE, (12, 9), (source, header)))
    assert len(set(digests)) == 5


def test_without_images_and_compiler_the_error_says_what_to_install(tmp_path: Path) -> None:
    source = ImageSource(images=tmp_path, make_compiler=no_compiler)
    with pytest.raises(ImageUnusable, match=r"no cubin of kv_write .* \(install it\)"):
        source.find(KV_WRITE, ImageKind.CUBIN)


@pytest.mark.parametrize(("capability", "first_bytes"), [("70", ELF), ("90", "2f2f")])
def test_each_kernel_is_loaded_once_a_card(
    driver_library: str,
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capability: str,
    first_bytes: str,
) -> None:
    monkeypatch.setenv("FAKE_CUDA_CAPABILITY", capability)
    monkeypatch.setenv("FAKE_CUDA_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "2")
    loader = KernelLoader(Driver(driver_library), ImageSource(images=images))
    functions = [loader.function(KV_WRITE, index) for index in (0, 0, 1, 0)]
    assert functions[0] is functions[1] is functions[3]
    loaded = (tmp_path / "log").read_text().split()
    assert len(loaded) == 2
    assert all(line.startswith(first_bytes) for line in loaded)


def test_a_refused_image_names_the_kernel_the_card_and_the_driver_s_words(
    driver_library: str, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUDA_REFUSE", "1")
    loader = KernelLoader(Driver(driver_library), ImageSource(images=images))
    with pytest.raises(ImageUnusable, match="refused kv_write .* on Fake card 0: .*no kernel image is available"):
        loader.function(KV_WRITE, 0)


def test_a_failed_driver_call_names_itself(driver_library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDA_INIT", "999")
    with pytest.raises(DriverFailed, match=r"cuInit failed: CUDA_ERROR_FAKE \(999\)"):
        Driver(driver_library)


def test_a_missing_driver_is_named() -> None:
    with pytest.raises(ToolMissing, match="install the NVIDIA driver"):
        Driver("libcuda-that-does-not-exist.so.1")


def test_devices_are_described(driver_library: str) -> None:
    assert Driver(driver_library).devices() == [Device(0, "Fake card 0", (7, 0), 80, 34089730048)]
