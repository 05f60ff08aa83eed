"""Which NVIDIA cards the PCI bus shows, without a driver and without a library, and which engine fits them."""

from dataclasses import dataclass
from pathlib import Path

NVIDIA_VENDOR = 0x10DE
DISPLAY_CLASSES = (0x0300, 0x0302)  # VGA and 3D controllers; an NVIDIA audio or USB function is no card
V100_DEVICES = frozenset({0x1DB1, 0x1DB3, 0x1DB4, 0x1DB5, 0x1DB6, 0x1DB7, 0x1DB8, 0x1DF5, 0x1DF6})


@dataclass(frozen=True)
class NvidiaCards:
    """What the machine shows of NVIDIA."""

    devices: tuple[int, ...]  # PCI device ids, one a card
    driver: str | None  # version of the loaded kernel module, such as "580.95.05"

    @property
    def v100_count(self) -> int:
        return sum(device in V100_DEVICES for device in self.devices)


def detect_nvidia(root: Path = Path("/")) -> NvidiaCards:
    """Cards on the PCI bus and the version of the loaded driver."""
    devices = []
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor, kind, device = (_hex(folder / name) for name in ("vendor", "class", "device"))
        if vendor == NVIDIA_VENDOR and kind is not None and kind >> 8 in DISPLAY_CLASSES and device is not None:
            devices.append(device)
    return NvidiaCards(tuple(devices), _driver(root / "proc/driver/nvidia/version"))


def engine_advice(cards: NvidiaCards) -> list[str]:
    """What to tell the person about the cards; nothing where there are none."""
    if cards.v100_count:
        count = "" if cards.v100_count == 1 else f"{cards.v100_count} × "
        lines = [
            f"{count}Tesla V100 found: the engine for it is vLLM 0.19.1 with dflash2. This setup installs the CPU engine, which "
            "works without the card; the panel's Environments page installs the other, or 'python -m backend.setup install v100'."
        ]
        if cards.driver is None:
            lines.append(
                "Its driver is not loaded. A V100 needs NVIDIA's proprietary kernel module, R580 at the newest."
            )
        return lines
    if cards.devices or cards.driver:
        return [
            "NVIDIA card found, but no Tesla V100: this setup installs the CPU engine, which works without the card."
        ]
    return []


def _hex(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii").strip(), 16)
    except (OSError, ValueError):
        return None


def _driver(path: Path) -> str | None:
    """The version in a line such as 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep ...'."""
    try:
        first = path.read_text(encoding="utf-8", errors="replace").splitlines()[0]
    except (OSError, IndexError):
        return None
    words = [word for word in first.split() if word[:1].isdigit() and "." in word]
    return words[0] if words else None
