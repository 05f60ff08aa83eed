"""What of a command must not be shown, and the command's texts with variables in those places.

A hidden value is never blotted out but replaced by the variable that holds it, so that what is shown still runs.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.errors import LaunchError
from backend.importing.shell import has_secret

_SECRET_NAME = re.compile(r"KEY|TOKEN(?!IZER)|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/\s:@]*:[^/\s@]+@")  # a password in an address
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INSIDE = 4  # characters from which on a secret is looked for inside other texts; "1" would be found everywhere
_TELLING = 8  # the same for a value that only looks like a secret


@dataclass(frozen=True)
class Variable:
    """The place of a hidden value: the environment variable that holds it."""

    name: str


Pieces = tuple[str | Variable, ...]
"""A text with its hidden values taken out; empty for the empty text."""


@dataclass(frozen=True)
class Secrets:
    """The hidden values of one command."""

    values: Mapping[str, str]  # hidden text -> the variable that stands for it, the longest first
    names: frozenset[str]  # environment variables hidden as a whole

    def pieces(self, text: str) -> Pieces:
        """The text with variables where it holds a hidden value. Raises LaunchError: no program can be given it."""
        _check_passable(text)
        if text in self.values:
            return (Variable(self.values[text]),)
        inside = "|".join(re.escape(value) for value in self.values if len(value) >= _INSIDE)
        parts = re.split(f"({inside})", text) if inside else [text]
        return tuple(Variable(self.values[part]) if place % 2 else part for place, part in enumerate(parts) if part)

    def shown(self, env: Mapping[str, str]) -> dict[str, Pieces]:
        """The environment variables, hidden values taken out, in the order of their names.

        Raises:
            LaunchError: a name is none, or a value cannot be given to a program.
        """
        for name in env:
            if not _NAME.fullmatch(name):
                raise LaunchError(f"{name!r} is not the name of an environment variable.")
        return {
            name: (Variable(name),) if name in self.names and env[name] else self.pieces(env[name])
            for name in sorted(env)
        }

    def plain(self, text: str) -> str:
        """The text for people: a title, a comment."""
        return "".join(piece if isinstance(piece, str) else f"<{piece.name}>" for piece in self.pieces(text))


def secrets_of(env: Mapping[str, str], secrets: Iterable[str]) -> Secrets:
    """What to hide: the named secrets wherever they are, and variables whose name or value looks like one.

    A secret that no variable holds gets the name SECRET, which whoever runs the text sets.
    """
    literal = {secret for secret in secrets if secret}
    names = {
        name
        for name, value in env.items()
        if value in literal or _SECRET_NAME.search(name) or _looks_secret(value, literal)
    }
    found = {
        env[name]: name for name in sorted(names, reverse=True) if env[name] in literal or len(env[name]) >= _TELLING
    }
    for number, secret in enumerate(sorted(literal - found.keys()), start=1):
        found[secret] = _free_name("SECRET" if number == 1 else f"SECRET_{number}", env)
    return Secrets({value: found[value] for value in sorted(found, key=len, reverse=True)}, frozenset(names))


def variables_in(pieces: Iterable[Pieces]) -> tuple[str, ...]:
    """Names of all variables that stand in these texts, each once, sorted."""
    return tuple(sorted({piece.name for text in pieces for piece in text if isinstance(piece, Variable)}))


def _looks_secret(value: str, literal: set[str]) -> bool:
    for known in literal:  # these are taken out wherever they are, the rest of the text can be shown
        value = value.replace(known, "")
    return has_secret(value) or _SECRET_VALUE.search(value) is not None


def _check_passable(text: str) -> None:
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as err:
        raise LaunchError("A text of the command holds half a character, which no command can.") from err
    if b"\0" in data:
        raise LaunchError("A text of the command holds a zero byte, which no command can.")


def _free_name(name: str, env: Mapping[str, str]) -> str:
    while name in env:
        name = f"{name}_"
    return name
