"""Checked reading of a config.json: every value is looked at before it is used, and a refusal names file and key."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from backend.fit.facts_error import ModelFactsError

MOST = 1 << 40  # no count in a config is larger; protects the arithmetic after it


@dataclass(frozen=True)
class ConfigKeys:
    """One JSON object of a config file, and where it stands in it."""

    values: Mapping[str, Any]
    file: str  # as a person finds it: a path, or a hub address
    at: str = ""  # "text_config."

    def has(self, key: str) -> bool:
        """True where the key has a value that is not null."""
        return self.values.get(key) is not None

    def whole(self, *names: str, least: int = 0) -> int | None:
        """The first of these keys that is there, as a whole number; None where none is.

        Raises:
            ModelFactsError: it is not a whole number, or out of bounds.
        """
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, bool) or not isinstance(value, int):
                self.refuse(name, f"is {value!r:.60}, not a whole number")
            if not least <= value <= MOST:
                self.refuse(name, f"is {value}, not between {least} and {MOST}")
            return value
        return None

    def needed(self, *names: str, least: int = 1) -> int:
        """Like whole(), for a key that has to be there."""
        value = self.whole(*names, least=least)
        if value is None:
            self.refuse(names[0], "is missing")
        return value

    def number(self, name: str) -> float | None:
        """This key as a finite number of 0 or more."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
            self.refuse(name, f"is {value!r:.60}, not a number between 0 and {MOST}")
        return float(value)

    def text(self, *names: str) -> str | None:
        """The first of these keys that is there, as text of at most 200 characters."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if not isinstance(value, str):
                self.refuse(name, f"is {value!r:.60}, not text")
            return value[:200]
        return None

    def truth(self, name: str, *, default: bool = False) -> bool:
        """This key as true or false; `default` where it is missing."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(name, f"is {value!r:.60}, not true or false")
        return value

    def items(self, name: str, *, length: int | None = None) -> list[Any] | None:
        """This key as a list; `length` is what it has to have."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            self.refuse(name, f"is {value!r:.60}, not a list")
        if length is not None and len(value) != length:
            self.refuse(name, f"has {len(value)} entries, not {length}")
        return value

    def part(self, name: str) -> "ConfigKeys | None":
        """This key as an object of its own."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.refuse(name, f"is {value!r:.60}, not an object")
        return ConfigKeys(value, self.file, f"{self.at}{name}.")

    def parts(self, *names: str) -> Iterator["ConfigKeys"]:
        """Those of these keys that are objects."""
        for name in names:
            if isinstance(self.values.get(name), dict):
                yield ConfigKeys(self.values[name], self.file, f"{self.at}{name}.")

    def refuse(self, key: str, why: str) -> NoReturn:
        """Report this key of this file."""
        raise ModelFactsError(
            f"{self.file}: {self.at}{key} {why}.", hint="Is this the config.json of a language model?"
        )
