"""A finding as a value: which rule found something, how bad it is, its figures, and the changes that would help."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from backend.failure.failure import Fix

VALUE_CHARACTERS = 200


class Severity(StrEnum):
    """How bad it is. The order is the order on the page."""

    ERROR = "error"  # the start will fail
    WARNING = "warning"  # it starts, and something is wrong or slow; or it is likely to fail
    HINT = "hint"  # good to know, or something that could not be checked


RANK = {severity: number for number, severity in enumerate(Severity)}


@dataclass(frozen=True)
class Finding:
    """One thing that speaks against a launch. Its values may come from files and other programs: they are untrusted."""

    rule: str  # a key of backend.preflight.words.WORDS
    severity: Severity
    values: Mapping[str, str] = field(default_factory=dict)  # for the sentence: {"context": "32768", "limit": "2048"}
    fixes: tuple[Fix, ...] = ()  # the one that changes least comes first
    field: str = ""  # the form's field it belongs to, a key of the preset or one of FORM_FIELDS; "" for none


FORM_FIELDS = frozenset({"model", "environment", "cards", "host", "port", "api_key", "system_prompt", "flags", "env"})
"""Fields that are no plain key of the preset."""
