"""One line of the tables of words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """A rule's sentences. `{name}` is a value that every finding of the rule carries."""

    en_what: str
    zh_what: str
    en_do: str = ""
    zh_do: str = ""
