"""A command as one shell line that runs as printed, in bash and zsh."""

import re
import shlex
from collections.abc import Mapping, Sequence

from backend.preview.secret_text import Pieces, Variable, secrets_of, variables_in

NO_FOLDER = frozenset({"", "/"})  # a spec's default: the command does not care where it runs
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def shell_text(argv: Sequence[str], env: Mapping[str, str], *, cwd: str = "/", secrets: frozenset[str]) -> str:
    """The command with its variables in front. A hidden value is "${NAME:?}": unset, the shell refuses to start it.

    Raises:
        LaunchError: a text holds what no program can be given, such as a zero byte.
    """
    hidden = secrets_of(env, secrets)
    folder = f"cd {_word(hidden.pieces(cwd))} && " if cwd not in NO_FOLDER else ""
    assignments = [f"{name}={_word(pieces)}" for name, pieces in hidden.shown(env).items()]
    return folder + " ".join([*assignments, *(_word(hidden.pieces(word)) for word in argv)])


def shell_variables(
    argv: Sequence[str], env: Mapping[str, str], *, cwd: str = "/", secrets: frozenset[str]
) -> tuple[str, ...]:
    """The variables that must be exported before the line is run."""
    hidden = secrets_of(env, secrets)
    return variables_in([*hidden.shown(env).values(), *map(hidden.pieces, (*argv, cwd))])


def _word(pieces: Pieces) -> str:
    return "".join(_quoted(piece) for piece in pieces) or "''"


def _quoted(piece: str | Variable) -> str:
    if isinstance(piece, Variable):
        return f'"${{{piece.name}:?}}"'
    if not _UNPRINTABLE.search(piece):
        return shlex.quote(piece)
    return "$'" + _UNPRINTABLE.sub(_escape, piece.replace("\\", "\\\\").replace("'", "\\'")) + "'"


def _escape(match: re.Match[str]) -> str:
    """By the bytes the program gets, so that neither the terminal nor a byte that is no character is in the way."""
    return "".join(f"\\{byte:03o}" for byte in match.group().encode("utf-8", "surrogateescape"))
