"""A machine with NVIDIA cards that does not exist: files for the panel to look at, and a library for it to load."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).parent
NVIDIA, VGA, CARD_AUDIO = "0x10de", "0x030000", "0x040300"


def build_library(folder: Path) -> Path:
    """Compile libnvidia-ml.so.1 into `folder` and return the folder."""
    subprocess.run(("make", "-s", "-C", SOURCE, f"OUT={folder}"), check=True, timeout=60)
    return folder


class FakeMachine:
    """proc, sys and dev below `root`, and the scenario that the library answers from."""

    def __init__(self, folder: Path, *, library: Path) -> None:
        self.root = folder / "root"
        self.scenario = folder / "scenario"
        self.library = library

    @property
    def environment(self) -> Mapping[str, str]:
        """What a reader needs to find the library and the scenario."""
        return {"LD_LIBRARY_PATH": str(self.library), "FAKENVML_SCENARIO": str(self.scenario)}

    def plug(self, bus_id: str, *, vendor: str = NVIDIA, pci_class: str = VGA, driver: str = "") -> None:
        """Put a device on the PCI bus, held by a kernel driver if one is named."""
        device = self.root / "sys/bus/pci/devices" / bus_id
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{pci_class}\n")
        if driver:
            (device / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")

    def load_module(self, *bus_ids: str, version: str = "580.95.05") -> None:
        """The kernel module is loaded and lists these cards."""
        folder = self.root / "proc/driver/nvidia"
        for bus_id in bus_ids:
            (folder / "gpus" / bus_id).mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "version").write_text(
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Sep 23 10:11:16 UTC 2025\n"
            "GCC version:  gcc version 13.3.0\n"
        )

    def unload_module(self) -> None:
        """The kernel module and all that it lists are gone."""
        folder = self.root / "proc/driver/nvidia"
        (folder / "version").unlink()
        for card in (folder / "gpus").iterdir():
            card.rmdir()

    def play(self, lines: Sequence[str]) -> None:
        """Replace the scenario in one step, also for readers that run."""
        new = self.scenario.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.replace(self.scenario)
