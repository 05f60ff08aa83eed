"""Cards on the PCI bus, read from a copy of what /sys and /proc show."""

from pathlib import Path

import pytest

from backend.setup.gpu_detection import NvidiaCards, detect_nvidia, engine_advice

PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\nGCC version: x\n"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  (dvs-builder)\n"


def put_device(root: Path, address: str, *, vendor: str, device: str, kind: str) -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, value in (("vendor", vendor), ("device", device), ("class", kind)):
        (folder / name).write_text(f"{value}\n")


def put_driver(root: Path, text: str) -> None:
    folder = root / "proc/driver/nvidia"
    folder.mkdir(parents=True)
    (folder / "version").write_text(text)


def test_machine_without_cards_gets_no_advice(tmp_path: Path) -> None:
    put_device(tmp_path, "0000:00:02.0", vendor="0x8086", device="0x1db6", kind="0x030000")
    assert detect_nvidia(tmp_path) == NvidiaCards((), None)
    assert engine_advice(detect_nvidia(tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "version"), [(PROPRIETARY, "580.95.05"), (OPEN, "570.133.20"), ("", None), ("x\n", None)]
)
def test_driver_version_is_read_from_its_first_line(tmp_path: Path, text: str, version: str | None) -> None:
    put_driver(tmp_path, text)
    assert detect_nvidia(tmp_path).driver == version


def test_v100_is_told_which_engine_fits_it(tmp_path: Path) -> None:
    put_device(tmp_path, "0000:3b:00.0", vendor="0x10de", device="0x1db6", kind="0x030200")
    put_driver(tmp_path, PROPRIETARY)
    assert engine_advice(detect_nvidia(tmp_path)) == [
        "Tesla V100 found: the engine for it is vLLM 0.19.1 with dflash2. This setup installs the CPU engine, which "
        "works without the card; the panel's Environments page installs the other, or 'python -m backend.setup install v100'."
    ]


def test_several_v100_are_counted_and_a_missing_driver_is_said(tmp_path: Path) -> None:
    for slot in ("3b", "5e"):
        put_device(tmp_path, f"0000:{slot}:00.0", vendor="0x10de", device="0x1db5", kind="0x030200")
    advice = engine_advice(detect_nvidia(tmp_path))
    assert advice[0].startswith("2 × Tesla V100 found")
    assert "driver is not loaded" in advice[1]


def test_audio_function_of_a_card_is_no_card(tmp_path: Path) -> None:
    put_device(tmp_path, "0000:01:00.0", vendor="0x10de", device="0x2330", kind="0x030200")
    put_device(tmp_path, "0000:01:00.1", vendor="0x10de", device="0x22ba", kind="0x040300")
    cards = detect_nvidia(tmp_path)
    assert cards.devices == (0x2330,)
    assert "no Tesla V100" in engine_advice(cards)[0]
