"""The memory an engine holds: of the machine by its processes' shares, of the cards by what the driver says of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from backend.gpu.snapshot import GpuCardState, GpuView
from backend.reading import Missing, MissingReason, Reading


@dataclass(frozen=True)
class CardUse:
    """What is used of one card's memory, and by whom."""

    uuid: str
    used_bytes: int
    taken_at: float  # wall-clock seconds
    by_process: Reading[Mapping[int, int]]  # bytes by pid


CardGauge = Callable[[], tuple[CardUse, ...]]
"""The cards that can be read now; empty without cards."""


def no_cards() -> tuple[CardUse, ...]:
    """The gauge of a machine without cards."""
    return ()


def cards_in_use(view: GpuView) -> tuple[CardUse, ...]:
    """What a GpuView tells of memory. Cards without a reading are left out."""
    return tuple(
        CardUse(snapshot.uuid, snapshot.memory_used_bytes, snapshot.taken_at, snapshot.process_memory_bytes)
        for snapshot in (card.snapshot for card in view.cards if card.state is GpuCardState.OK)
        if snapshot is not None and not isinstance(snapshot.memory_used_bytes, Missing)
    )


@dataclass(frozen=True)
class MemoryUse:
    """Who the members were and what they held of the machine's memory."""

    pids: frozenset[int]
    held_bytes: Reading[int]


def read_memory(pids: Iterable[int]) -> MemoryUse:
    """The proportional set size of each process, summed. Takes milliseconds a process, and may block in a hung driver."""
    members = frozenset(pids)
    total = 0
    refusal: Missing | None = None
    for pid in members:
        share = _proportional_bytes(pid)
        if isinstance(share, Missing):
            refusal = share
        else:
            total += share
    return MemoryUse(members, refusal or total)


def card_memory(cards: Iterable[CardUse], pids: frozenset[int]) -> Reading[int] | None:
    """What these processes hold of all cards together; None without cards, Missing when a card does not tell."""
    total: int | None = None
    for card in cards:
        if isinstance(card.by_process, Missing):
            return card.by_process
        total = (total or 0) + sum(count for pid, count in card.by_process.items() if pid in pids)
    return total


def _proportional_bytes(pid: int) -> Reading[int]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        if Path(f"/proc/{pid}").exists():
            return Missing(MissingReason.UNSUPPORTED, "this kernel has no smaps_rollup")
        return 0  # it ended between the listing and the read
    except PermissionError as error:
        return Missing(MissingReason.DENIED, str(error))
    except OSError as error:
        return Missing(MissingReason.ERROR, str(error))
    shares = (line.split() for line in lines if line.startswith("Pss:"))
    return sum(int(fields[1]) * 1024 for fields in shares)
