"""One thing that an estimate takes for granted, as a key and its values, so that the page says it in any language."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = str | int | float


@dataclass(frozen=True)
class Assumption:
    """`bytes` is what it contributes to its segment; None where it only explains."""

    key: str
    bytes: int | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
