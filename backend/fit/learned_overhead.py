"""What this host's engines took more than predicted: learned from what they logged."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low
from typing import Any

MOST_OBSERVATIONS = 9
MOST_BYTES = 1 << 40


@dataclass(frozen=True)
class LearnedOverhead:
    """The last differences, logged minus predicted overhead, in bytes. Empty: nothing learned yet."""

    differences: tuple[int, ...] = ()

    @property
    def offset_bytes(self) -> int:
        """What to add to a predicted overhead: the middle of what was seen, so that one odd start does not count."""
        return median_low(self.differences) if self.differences else 0

    def with_observation(self, difference_bytes: int) -> "LearnedOverhead":
        """This and one more start. `difference_bytes` is against the prediction without any offset."""
        kept = max(-MOST_BYTES, min(MOST_BYTES, difference_bytes))
        return LearnedOverhead((*self.differences, kept)[-MOST_OBSERVATIONS:])

    def as_record(self) -> dict[str, Any]:
        """For a JSON file."""
        return {"differences": list(self.differences)}


def overhead_from_record(record: Mapping[str, Any]) -> LearnedOverhead:
    """The reverse of as_record(). What is not a whole number within bounds is left out."""
    found = record.get("differences")
    if not isinstance(found, list):
        return LearnedOverhead()
    whole = [number for number in found if isinstance(number, int) and not isinstance(number, bool)]
    return LearnedOverhead(tuple(number for number in whole if abs(number) <= MOST_BYTES)[-MOST_OBSERVATIONS:])


def overhead_key(*, card: str, engine: str, version: str | None, gpus: int, parallel: str) -> str:
    """What one learned overhead is for: the same kind of engine on the same kind of card."""
    return "|".join((card, engine, version or "", str(gpus), parallel if gpus > 1 else ""))[:300]
