"""A value that was read, or the reason why it is missing: unknown is never 0 and never the last value."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, TypeVar

T = TypeVar("T")


class MissingReason(StrEnum):
    """Why a reading has no value. Each looks different on the page."""

    UNSUPPORTED = "unsupported"  # this card or driver has no such sensor
    LOST = "lost"  # the device fell off the bus
    DENIED = "denied"  # not enough rights
    TIMEOUT = "timeout"  # the driver did not answer in time
    ERROR = "error"  # anything else; the detail says what


@dataclass(frozen=True)
class Missing:
    """No value, and why. `detail` is the source's own words."""

    reason: MissingReason
    detail: str = ""


Reading: TypeAlias = T | Missing
"""`Reading[int]` is an int, or why there is none."""


def value_or_none(reading: T | Missing) -> T | None:
    """The value, or None where it is missing (for arithmetic that accepts None; show the reason elsewhere)."""
    return None if isinstance(reading, Missing) else reading
