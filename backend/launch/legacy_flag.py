"""A flag that vLLM no longer has, as a preset names it, and the ways in which such a flag is translated."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backend.launch.engine_tools import EngineTools
from backend.launch.notes import Note
from backend.launch.preset import Flag
from backend.launch.spelling_error import SpellingError
from backend.launch.wishes import Wishes

_FALSE_WORDS = frozenset({"0", "false", "no", "off", "none", "null"})


@dataclass(frozen=True)
class Legacy:
    """One removed flag as a preset names it."""

    flag: str  # without dashes
    value: Flag
    tools: EngineTools
    cards: int  # of the preset

    def text(self) -> str:
        """The value as one would type it."""
        return " ".join(self.value) if isinstance(self.value, tuple) else str(self.value)

    def number(self) -> float:
        """The value as a number. Raises SpellingError."""
        try:
            if isinstance(self.value, bool | tuple):
                raise ValueError
            return float(self.value)
        except ValueError as err:
            raise self.refusal("not_a_number", value=self.text()) from err

    def json(self) -> dict[str, Any]:
        """The value as a JSON object. Raises SpellingError."""
        try:
            value = json.loads(self.text())
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self.refusal("not_an_object", value=self.text())
        return value

    def is_off(self) -> bool:
        """Whether the value switches it off."""
        return self.value is False or self.text().lower() in _FALSE_WORDS

    def note(self, key: str, **values: str) -> Note:
        """A note of what became of it."""
        return Note(key, {"flag": self.flag, "value": self.text(), **values})

    def refusal(self, key: str, *, replacement: str = "", **values: str) -> SpellingError:
        """The error that says why it cannot be."""
        note = Note(key, {"flag": self.flag, "version": self.tools.title, **values})
        return SpellingError(note, flag=self.flag, replacement=replacement)


Translation = Callable[[Legacy, Wishes], None]
"""Adds to the wishes what the flag stands for, with a note; raises SpellingError where that cannot be."""


def gone(legacy: Legacy, wishes: Wishes) -> None:
    """What it switched is gone, and nothing has to replace it."""
    wishes.notes.append(legacy.note("no_effect"))


def always(legacy: Legacy, wishes: Wishes) -> None:
    """vLLM always does this now."""
    wishes.notes.append(legacy.note("is_default"))


def refused(replacement: str = "") -> Translation:
    """What it did is gone, and a preset that asks for it would get something else."""

    def refuse(legacy: Legacy, wishes: Wishes) -> None:
        if legacy.is_off():
            gone(legacy, wishes)
            return
        raise legacy.refusal("feature_gone", replacement=replacement)

    return refuse


def renamed(to: str) -> Translation:
    """It has another name."""

    def rename(legacy: Legacy, wishes: Wishes) -> None:
        set_flag(legacy, wishes, to, legacy.value, "renamed")

    return rename


def means(to: str, value: Flag) -> Translation:
    """A switch that became a value of another flag."""

    def change(legacy: Legacy, wishes: Wishes) -> None:
        if legacy.is_off():
            gone(legacy, wishes)
        else:
            set_flag(legacy, wishes, to, value, "renamed")

    return change


def set_flag(legacy: Legacy, wishes: Wishes, to: str, value: Flag, key: str, **values: str) -> None:
    """Set the flag that replaces it, unless that one is set already; `key` is the note's. Raises SpellingError."""
    if to in wishes.options:
        wishes.notes.append(legacy.note("already_set", replacement=to))
        return
    if not legacy.tools.has(to):
        raise legacy.refusal("feature_gone")
    wishes.options[to] = value
    wishes.notes.append(legacy.note(key, replacement=to, **values))


def merged(to: str, key: str, read: Callable[[Legacy], Any]) -> Translation:
    """A flag that became a key of a JSON flag; a key that is set already stays."""

    def merge(legacy: Legacy, wishes: Wishes) -> None:
        value = read(legacy)
        if not legacy.tools.has(to):
            raise legacy.refusal("feature_gone")
        if to in wishes.options or key in wishes.objects.get(to, {}):
            wishes.notes.append(legacy.note("already_set", replacement=to))
            return
        wishes.objects.setdefault(to, {})[key] = value
        wishes.notes.append(legacy.note("merged", replacement=to))

    return merge
