"""What is known of the cards, as values: one reading of a card, a card's state, and why there is no card to read.

The page shows a `GpuView`. Enum values are keys of its table of strings; `sentence` and `detail` are English, for logs
and for people who want the source's own words.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from backend.reading import Reading


@dataclass(frozen=True)
class GpuSnapshot:
    """One reading of one card. Identity is uuid and bus id: an index shifts when a card drops."""

    uuid: str
    bus_id: str  # as sysfs writes it: 0000:3b:00.0
    index: int  # the driver's number of the card when it was read
    name: str
    taken_at: float  # wall-clock seconds (time.time)
    memory_used_bytes: Reading[int]  # without what the driver reserves, as nvidia-smi counts
    memory_total_bytes: Reading[int]
    core_temperature_c: Reading[int]
    memory_temperature_c: Reading[int]  # HBM
    utilization_percent: Reading[int]
    power_w: Reading[float]
    power_limit_w: Reading[float]
    process_memory_bytes: Reading[Mapping[int, int]]  # by pid, of the processes that compute on it


class GpuCardState(StrEnum):
    """How a card stands. In every state but OK the snapshot, if any, is the last one and is old."""

    STARTING = "starting"  # its reader has been started and has not answered yet
    OK = "ok"
    LOST = "lost"  # fell off the bus
    HUNG = "hung"  # the driver did not answer in time
    DENIED = "denied"  # not enough rights for this card
    NO_POWER = "no_power"  # its power cables are not plugged in
    NEEDS_RESET = "needs_reset"
    UNBOUND = "unbound"  # on the bus, but the NVIDIA driver did not take it
    FAILED = "failed"  # anything else; the detail says what


@dataclass(frozen=True)
class GpuCard:
    """A card, how it stands, and its last reading."""

    target: str  # its bus id, or "index:0" where the bus cannot be seen
    state: GpuCardState
    since: float  # wall-clock seconds when this state began
    detail: str = ""  # why, in the driver's words
    snapshot: GpuSnapshot | None = None
    left_behind: int = 0  # readers of this card that no signal has ended yet

    def age_s(self, now: float) -> float | None:
        """Seconds since the last reading was taken; None when there never was one. `now` is wall-clock."""
        return None if self.snapshot is None else max(0.0, now - self.snapshot.taken_at)


class DriverGap(StrEnum):
    """What is missing between the panel and the cards."""

    NO_DEVICE = "no_device"  # no NVIDIA card on the PCI bus
    NO_DRIVER = "no_driver"  # a card is there, the kernel module is not loaded
    NO_LIBRARY = "no_library"  # libnvidia-ml.so.1 cannot be loaded
    VERSION_MISMATCH = "version_mismatch"  # library and kernel module are of different versions
    DENIED = "denied"  # no permission to open the driver's device files
    BLOCKED = "blocked"  # the operating system or the container blocks the driver
    SILENT = "silent"  # the driver did not answer in time
    NO_CARD = "no_card"  # the driver answers and lists no card
    NO_READER = "no_reader"  # the panel's own reader cannot run
    ERROR = "error"


@dataclass(frozen=True)
class NoDriver:
    """Why no card can be read at all."""

    gap: DriverGap
    sentence: str  # what is missing and why, for a person
    devices: int = 0  # NVIDIA cards on the PCI bus
    bound_to: str = ""  # the other kernel driver that holds them, such as nouveau or vfio-pci
    module_version: str = ""
    library_version: str = ""
    detail: str = ""  # the driver's or the loader's own words


@dataclass(frozen=True)
class GpuView:
    """What the panel knows of its cards now. Replaced whole.

    Either `cards`, or `no_driver` with the reason, or neither: then nobody has looked yet.
    """

    cards: tuple[GpuCard, ...] = ()
    no_driver: NoDriver | None = None
    driver_version: str = ""
    left_behind: int = 0  # readers that no signal has ended yet, of all cards

    @property
    def has_looked(self) -> bool:
        """True once it is known whether there are cards."""
        return bool(self.cards) or self.no_driver is not None
