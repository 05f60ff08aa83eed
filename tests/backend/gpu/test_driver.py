"""What files say of a driver, and the sentences for what is missing."""

from pathlib import Path

import pytest

from backend.gpu.driver import (
    DriverFiles,
    PciCard,
    gap_at_init,
    gap_in_files,
    gap_of_no_card,
    plan_targets,
    read_driver_files,
)
from backend.gpu.snapshot import DriverGap
from tests.fakes.fakenvml import CARD_AUDIO, FakeMachine

OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n"


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path, library=tmp_path)


def test_a_machine_without_a_card_says_so(machine: FakeMachine) -> None:
    machine.plug("0000:00:02.0", vendor="0x8086")
    gap = gap_in_files(read_driver_files(machine.root))
    assert gap is not None
    assert gap.gap is DriverGap.NO_DEVICE
    assert gap.sentence == "No NVIDIA card is on the PCI bus of this machine."


def test_a_machine_without_a_pci_bus_says_the_same(machine: FakeMachine) -> None:
    gap = gap_in_files(read_driver_files(machine.root))
    assert gap is not None
    assert gap.gap is DriverGap.NO_DEVICE


def test_the_audio_function_of_a_card_is_not_a_card(machine: FakeMachine) -> None:
    machine.plug("0000:02:00.0")
    machine.plug("0000:02:00.1", pci_class=CARD_AUDIO)
    assert read_driver_files(machine.root).cards == (PciCard("0000:02:00.0", ""),)


def test_a_card_without_a_driver_says_so(machine: FakeMachine) -> None:
    machine.plug("0000:02:00.0")
    gap = gap_in_files(read_driver_files(machine.root))
    assert gap is not None
    assert (gap.gap, gap.devices, gap.bound_to) == (DriverGap.NO_DRIVER, 1, "")
    assert gap.sentence == "One NVIDIA card is on the PCI bus, but the NVIDIA kernel module is not loaded."


def test_the_driver_that_holds_the_cards_instead_is_named(machine: FakeMachine) -> None:
    machine.plug("0000:02:00.0", driver="nouveau")
    machine.plug("0000:03:00.0", driver="nouveau")
    gap = gap_in_files(read_driver_files(machine.root))
    assert gap is not None
    assert gap.bound_to == "nouveau"
    assert gap.sentence.startswith("2 NVIDIA cards are on the PCI bus")
    assert gap.sentence.endswith("(nouveau holds them).")


def test_a_loaded_module_is_worth_asking(machine: FakeMachine) -> None:
    machine.plug("0000:02:00.0", driver="nvidia")
    machine.load_module("0000:02:00.0", version="535.129.03")
    files = read_driver_files(machine.root)
    assert files.module_version == "535.129.03"
    assert gap_in_files(files) is None


def test_the_version_of_the_open_module_is_understood(machine: FakeMachine) -> None:
    machine.load_module()
    (machine.root / "proc/driver/nvidia/version").write_text(OPEN_MODULE)
    assert read_driver_files(machine.root).module_version == "550.54.15"


def test_a_module_that_writes_its_version_otherwise_is_still_loaded(machine: FakeMachine) -> None:
    machine.load_module()
    (machine.root / "proc/driver/nvidia/version").write_text("something new\n")
    assert read_driver_files(machine.root).module_version == ""


def test_a_device_file_alone_is_worth_asking(machine: FakeMachine) -> None:
    (machine.root / "dev").mkdir(parents=True)
    (machine.root / "dev/dxg").touch()
    assert gap_in_files(read_driver_files(machine.root)) is None


def test_the_cards_the_module_lists_are_read_and_not_those_of_the_host() -> None:
    host = tuple(PciCard(f"0000:0{number}:00.0", "nvidia") for number in range(8))
    assert plan_targets(DriverFiles(cards=host, listed=("0000:03:00.0",)), 1) == ("0000:03:00.0",)


def test_without_a_list_the_cards_of_the_nvidia_driver_are_read() -> None:
    cards = (PciCard("0000:02:00.0", "nvidia"), PciCard("0000:03:00.0", "vfio-pci"))
    assert plan_targets(DriverFiles(cards=cards), 1) == ("0000:02:00.0",)


def test_without_a_bus_cards_are_read_by_index() -> None:
    assert plan_targets(DriverFiles(), 2) == ("index:0", "index:1")


def test_a_card_that_the_driver_did_not_take_is_told_apart() -> None:
    cards = (PciCard("0000:02:00.0", "nvidia"), PciCard("0000:03:00.0", ""))
    assert DriverFiles(cards=cards, listed=("0000:02:00.0",)).untaken == (cards[1],)


@pytest.mark.parametrize(
    ("code", "gap", "words"),
    [
        (4, DriverGap.DENIED, "no permission to open the NVIDIA device files (/dev/nvidia*)"),
        (9, DriverGap.NO_DRIVER, "kernel module is not loaded"),
        (12, DriverGap.NO_LIBRARY, "The kernel module 580.95.05 is loaded, but the library libnvidia-ml.so.1"),
        (17, DriverGap.BLOCKED, "blocks access"),
        (18, DriverGap.VERSION_MISMATCH, "The NVIDIA library (550.54) and the loaded kernel module (580.95.05)"),
        (999, DriverGap.BLOCKED, "blocks access"),
        (5, DriverGap.ERROR, "error 5: words of the driver"),
        (None, DriverGap.NO_READER, "does not run: words of the driver"),
    ],
)
def test_each_failure_of_the_library_has_its_own_sentence(code: int | None, gap: DriverGap, words: str) -> None:
    files = DriverFiles(module_version="580.95.05")
    missing = gap_at_init(files, code, detail="words of the driver", library_version="550.54")
    assert missing.gap is gap
    assert words in missing.sentence


def test_an_unknown_module_version_leaves_no_hole_in_the_sentence() -> None:
    assert "The kernel module is loaded" in gap_at_init(DriverFiles(module_version=""), 12).sentence


def test_a_driver_that_lists_no_card_is_named_with_its_version() -> None:
    missing = gap_of_no_card(DriverFiles(module_version="580.95.05"), "580.95.05")
    assert missing.gap is DriverGap.NO_CARD
    assert "580.95.05" in missing.sentence
