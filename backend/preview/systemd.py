"""A command as a systemd unit: systemd's own quoting, where % and $ are doubled and controls are written as \\xNN."""

import re
from collections.abc import Sequence

from backend.errors import LaunchError
from backend.launch.plan import LaunchSpec
from backend.preview.secret_text import Pieces, Variable, secrets_of, variables_in
from backend.preview.shell import NO_FOLDER

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./{}\[\]-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_NO_VALUE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # systemd drops a variable with one of these
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def unit_name(spec: LaunchSpec) -> str:
    """A name for the unit, without .service."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", f"volta-{spec.preset or 'engine'}-{spec.port}")


def unit_text(spec: LaunchSpec) -> str:
    """The unit's lines. A hidden value comes from the EnvironmentFile, which the unit cannot start without.

    Raises:
        LaunchError: a text that systemd cannot be given.
    """
    hidden = secrets_of(spec.env, spec.secrets)
    shown = hidden.shown(spec.env)
    visible = {name: pieces for name, pieces in shown.items() if not variables_in([pieces])}
    lines = [
        "[Unit]",
        f"Description={_line(hidden.plain(spec.title) or 'vLLM')}",
        "",
        "[Service]",
        "Type=exec",
        *([] if spec.cwd in NO_FOLDER else [f"WorkingDirectory={_folder(hidden.pieces(spec.cwd))}"]),
        *(f"Environment={_assignment(name, pieces)}" for name, pieces in visible.items()),
        *([f"EnvironmentFile=%E/volta-panel/{unit_name(spec)}.env"] if unit_variables(spec) else []),
        f"ExecStart={_command([hidden.pieces(word) for word in spec.argv])}",
        *([f"ExecStopPost=-{_command([hidden.pieces(word) for word in spec.cleanup])}"] if spec.cleanup else []),
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def unit_variables(spec: LaunchSpec) -> tuple[str, ...]:
    """The variables that the EnvironmentFile must set: an Environment= line can refer to none."""
    hidden = secrets_of(spec.env, spec.secrets)
    held = {name for name, pieces in hidden.shown(spec.env).items() if variables_in([pieces])}
    return tuple(sorted(held.union(variables_in(map(hidden.pieces, (*spec.argv, *spec.cleanup))))))


def _command(words: Sequence[Pieces]) -> str:
    program = "".join(piece if isinstance(piece, str) else "$" for piece in words[0])
    if "$" in program or not program.startswith("/"):
        raise LaunchError(f"systemd starts no program called {program}: a full path without $ is needed.")
    spelled = [_word(pieces) for pieces in words]
    # one option a line; a \ at its end is read as a space
    return "".join(f" \\\n  {word}" if word.startswith("--") else f" {word}" for word in spelled).removeprefix(" ")


def _word(pieces: Pieces) -> str:
    text = "".join(f"${{{p.name}}}" if isinstance(p, Variable) else _escaped(p).replace("$", "$$") for p in pieces)
    return text if _PLAIN.fullmatch(text) else f'"{text}"'


def _assignment(name: str, pieces: Pieces) -> str:
    value = "".join(piece for piece in pieces if isinstance(piece, str))
    if _NO_VALUE.search(value):
        raise LaunchError(f"The value of {name} holds a control character, which systemd refuses.")
    text = f"{name}={_escaped(value)}"
    return text if _PLAIN.fullmatch(text) else f'"{text}"'


def _escaped(text: str) -> str:
    """Inside double quotes, where \\ begins an escape and % a specifier."""
    _check_utf8(text)
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return _NAMED.get(char) or "".join(f"\\x{byte:02x}" for byte in char.encode())


def _folder(pieces: Pieces) -> str:
    """Taken as it stands up to the line's end: no quotes, no escapes."""
    text = "".join(piece if isinstance(piece, str) else "\n" for piece in pieces)
    if _CONTROL.search(text) or text != text.strip() or text.endswith("\\"):
        raise LaunchError(f"systemd cannot be given the working folder {text!r}.")
    return _line(text)


def _line(text: str) -> str:
    _check_utf8(text)
    return _CONTROL.sub(" ", text).rstrip("\\ ").replace("%", "%%")


def _check_utf8(text: str) -> None:
    if re.search(r"[\ud800-\udfff]", text):
        raise LaunchError("A text of the command is not UTF-8, which a unit must be.")
