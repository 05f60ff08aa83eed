"""Is there an NVIDIA driver to ask? Decided from files alone, which cannot hang; and each gap in one plain sentence."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backend.gpu.snapshot import DriverGap, NoDriver

NVIDIA_VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA and 3D controllers: the card, not its audio or USB function
NVIDIA_DRIVER = "nvidia"
MODULE_VERSION = re.compile(r"Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")

# What nvmlInit answers when there is no way to the cards, by code.
INIT_GAPS = {
    4: DriverGap.DENIED,
    9: DriverGap.NO_DRIVER,
    12: DriverGap.NO_LIBRARY,
    17: DriverGap.BLOCKED,
    18: DriverGap.VERSION_MISMATCH,
    999: DriverGap.BLOCKED,  # what older drivers answer in a container that lost its device rights
}


@dataclass(frozen=True)
class PciCard:
    """An NVIDIA card on the PCI bus and the kernel driver that holds it ("" for none)."""

    bus_id: str
    driver: str


@dataclass(frozen=True)
class DriverFiles:
    """What /sys, /proc and /dev say of NVIDIA cards and their driver."""

    cards: tuple[PciCard, ...] = ()
    module_version: str | None = None  # None: the kernel module is not loaded; "": loaded, version not understood
    listed: tuple[str, ...] = ()  # bus ids the kernel module lists; in a container, those given to it
    has_device_node: bool = False  # WSL and some sandboxes have a device file and nothing in /proc

    @property
    def may_answer(self) -> bool:
        """Whether asking the library can make sense."""
        return self.module_version is not None or self.has_device_node

    @property
    def untaken(self) -> tuple[PciCard, ...]:
        """Cards on the bus that the NVIDIA module did not take."""
        return tuple(card for card in self.cards if card.driver != NVIDIA_DRIVER and card.bus_id not in self.listed)


def read_driver_files(root: Path = Path("/")) -> DriverFiles:
    """Look once. `root` is where proc, sys and dev are found."""
    version = root / "proc/driver/nvidia/version"
    listed = root / "proc/driver/nvidia/gpus"
    return DriverFiles(
        cards=tuple(_pci_cards(root / "sys/bus/pci/devices")),
        module_version=_module_version(version),
        listed=tuple(sorted(entry.name for entry in listed.iterdir())) if listed.is_dir() else (),
        has_device_node=any((root / "dev" / name).exists() for name in ("nvidiactl", "dxg")),
    )


def gap_in_files(files: DriverFiles) -> NoDriver | None:
    """Why asking the library is pointless, or None when it should be asked."""
    if files.may_answer:
        return None
    if not files.cards:
        return NoDriver(DriverGap.NO_DEVICE, "No NVIDIA card is on the PCI bus of this machine.")
    holders = ", ".join(sorted({card.driver for card in files.cards if card.driver}))
    count = len(files.cards)
    held = f" ({holders} holds {_them(count)})" if holders else ""
    return NoDriver(
        DriverGap.NO_DRIVER,
        f"{_cards(count)} on the PCI bus, but the NVIDIA kernel module is not loaded{held}.",
        devices=count,
        bound_to=holders,
    )


def gap_at_init(files: DriverFiles, code: int | None, *, detail: str = "", library_version: str = "") -> NoDriver:
    """The gap behind a failed start of NVML; `code` is NVML's, None when the reader ended without one."""
    gap = DriverGap.NO_READER if code is None else INIT_GAPS.get(code, DriverGap.ERROR)
    module = files.module_version or ""
    sentences = {
        DriverGap.DENIED: "There is no permission to open the NVIDIA device files (/dev/nvidia*).",
        DriverGap.NO_DRIVER: "The NVIDIA library says that the kernel module is not loaded.",
        DriverGap.NO_LIBRARY: f"The kernel module {module} is loaded, but the library libnvidia-ml.so.1 is not found.",
        DriverGap.BLOCKED: "The operating system or the container blocks access to the NVIDIA driver.",
        DriverGap.VERSION_MISMATCH: (
            f"The NVIDIA library ({library_version or 'version unknown'}) and the loaded kernel module "
            f"({module or 'version unknown'}) are of different versions; after a driver update, reboot."
        ),
        DriverGap.NO_READER: f"The panel's own card reader does not run: {detail}.",
        DriverGap.ERROR: f"The NVIDIA driver answers with error {code}: {detail}.",
    }
    return NoDriver(
        gap,
        sentences[gap].replace("module  is", "module is"),
        devices=len(files.cards),
        module_version=module,
        library_version=library_version,
        detail=detail,
    )


def gap_of_silence(files: DriverFiles, after_s: float) -> NoDriver:
    """The driver did not answer the first question."""
    return NoDriver(
        DriverGap.SILENT,
        f"The NVIDIA driver did not answer within {after_s:g} s; a card may be hung.",
        devices=len(files.cards),
        module_version=files.module_version or "",
    )


def gap_of_no_card(files: DriverFiles, driver_version: str) -> NoDriver:
    """The driver answers and lists nothing."""
    return NoDriver(
        DriverGap.NO_CARD,
        f"The NVIDIA driver {driver_version} answers, but lists no card.",
        devices=len(files.cards),
        module_version=files.module_version or "",
    )


def plan_targets(files: DriverFiles, count: int) -> tuple[str, ...]:
    """What to read, one reader each: bus ids from files, or the library's indexes where the bus cannot be seen.

    The kernel module's own list comes first: in a container the bus shows every card of the host, the list those given.
    """
    taken = tuple(card.bus_id for card in files.cards if card.driver == NVIDIA_DRIVER)
    return files.listed or taken or tuple(f"index:{index}" for index in range(count))


def _pci_cards(devices: Path) -> Iterator[PciCard]:
    if not devices.is_dir():
        return
    for device in sorted(devices.iterdir()):
        if _read(device / "vendor") == NVIDIA_VENDOR and _read(device / "class").startswith(DISPLAY_CLASSES):
            driver = device / "driver"
            yield PciCard(device.name, driver.readlink().name if driver.is_symlink() else "")


def _module_version(version: Path) -> str | None:
    """First line: NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025."""
    if not version.exists():
        return None
    match = MODULE_VERSION.search(_read(version))
    return match.group(1) if match else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # the device went away between the listing and the read
        return ""


def _cards(count: int) -> str:
    return "One NVIDIA card is" if count == 1 else f"{count} NVIDIA cards are"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"
