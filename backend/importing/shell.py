"""Pasted shell text as words, without a shell: quotes, continuations, comments and prompts are read, nothing is run.

What only a shell could answer (command substitution, pipes, `;`, `&&`) is refused with the piece named.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from backend.errors import PresetError

MAX_TEXT = 64 * 1024  # characters
MAX_WORDS = 2000
MAX_VALUE = 8192  # characters that variables may add to a word
_AHEAD = 1024  # characters looked at from one place on, so that reading takes time in proportion to the text
_PIECE = 40  # characters of the text shown in a refusal

# a variable inside a word until it is filled in: private characters, which the input cannot hold
_OPEN, _DEFAULT, _CLOSE = "\ue000", "\ue001", "\ue002"
_VARIABLE = re.compile(f"{_OPEN}([^{_DEFAULT}]*){_DEFAULT}([^{_CLOSE}]*){_CLOSE}")

_QUOTES = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\ufeff": ""}
)
_PRIVATE = str.maketrans(dict.fromkeys((_OPEN, _DEFAULT, _CLOSE), ""))
_PROMPT = re.compile(
    r"^\s*(?:"
    r"(?:\([\w.-]+\)\s*)?\[?[\w.-]+@[\w.-]+[:\s~][^$#\n]*[#$]\s+"  # (venv) user@host:~/x$
    r"|(?:\([\w.-]+\)\s*)?[$❯]\s+"
    r"|PS [^>\n]*>\s*"
    r"|>\s+"  # the prompt of a continued line
    r")"
)
_DASHES = re.compile(r"(?<![\w\"'=/.])[—–](?=[A-Za-z])")  # word processors make one long dash of two
_REDIRECTION = re.compile(r"&>>?\s*\S+|\d*>>?\s*(?:&\d+|[^\s&|;]+)")
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w .-]*>")
_SECRET_VALUE = re.compile(r"\b(?:hf_|sk-|ms-)[A-Za-z0-9_-]{8,}")
_SECRET_SETTING = re.compile(
    r"((?:api|access|secret|auth)?[-_]?(?:key|token|secret|passw\w*)[\"']?(?:=|:\s*|\s+))(\S+)", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z_]\w*|[@*#?!\d]")
_BRACED = re.compile(r"\{([A-Za-z_]\w*)(?::?[-=]([^}]*))?\}")


@dataclass(frozen=True)
class Statement:
    """One line of the paste, its continuations joined. Words may hold variables; `fill` puts their values in."""

    words: tuple[str, ...]
    line: int  # where it starts, from 1
    left_out: tuple[str, ...] = ()  # redirections, a trailing &, "$@"


def read_statements(text: str) -> tuple[Statement, ...]:
    """The statements of a pasted text.

    Raises:
        PresetError: the text is too long, a quote is open, or it holds what only a shell could answer.
    """
    if len(text) > MAX_TEXT:
        raise PresetError(f"The text is longer than {MAX_TEXT // 1024} KiB; a command is a page of text.")
    reader = _Reader(_tidied(text))
    reader.read()
    return tuple(_joined(reader.statements))


def fill(word: str, variables: Mapping[str, str]) -> str:
    """The word with its variables' values; one that nobody set and that has no default stays as `$NAME`.

    Raises:
        PresetError: it grows too long: a few lines that double each other would fill any memory.
    """
    parts: list[str] = []
    at = size = 0
    for match in _VARIABLE.finditer(word):
        name, default = match.groups()
        value = variables.get(name, "") or default or f"${name}"
        parts += [word[at : match.start()], value]
        at, size = match.end(), size + len(value)
        if size > MAX_VALUE:
            raise PresetError(f"The value of ${name} makes a word longer than {MAX_VALUE} characters.")
    return "".join([*parts, word[at:]])


def redacted(text: str) -> str:
    """The text for a message: what looks like a key, a token or a password is blotted out."""
    return _SECRET_SETTING.sub(r"\1…", _SECRET_VALUE.sub("…", text))


def has_secret(text: str) -> bool:
    """Whether some part of the text looks like a hub's or a provider's key."""
    return _SECRET_VALUE.search(text) is not None


def _tidied(text: str) -> str:
    """Without what copying adds: Windows line ends, curly quotes, long dashes, prompts, Markdown fences."""
    text = text.translate(_PRIVATE).translate(_QUOTES).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    text = re.sub(r"[ \t][\^`][ \t]*\n", " \\\\\n", text)  # continuations of cmd.exe and PowerShell
    lines = ("" if line.lstrip().startswith("```") else _PROMPT.sub("", line) for line in text.split("\n"))
    return _DASHES.sub("--", "\n".join(lines))


def _joined(statements: list[Statement]) -> list[Statement]:
    """A line that starts with a flag belongs to the one before: its backslash was lost in copying."""
    joined: list[Statement] = []
    for statement in statements:
        if joined and statement.words[0].startswith("-"):
            before = joined[-1]
            words, left_out = before.words + statement.words, before.left_out + statement.left_out
            joined[-1] = Statement(words, before.line, left_out)
        else:
            joined.append(statement)
    return joined


@dataclass
class _Reader:
    text: str
    at: int = 0
    statements: list[Statement] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    word: list[str] | None = None  # None between words; "" is a word too
    line: int = 1
    total: int = 0

    def read(self) -> None:
        while self.at < len(self.text):
            self._step(self.text[self.at])
        self._end_statement()

    def _step(self, char: str) -> None:
        rest = self.text[self.at : self.at + _AHEAD]
        if char == "\n":
            self._end_statement()
            self.at += 1
        elif char.isspace():
            self._end_word()
            self.at += 1
        elif char == "#" and self.word is None:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif char == "\\":
            self._backslash(rest)
        elif char in "'\"":
            self._quoted(char)
        elif char in "$`":
            self._variable()
        elif self._left_out(rest):
            pass
        elif char in "|;()<&" and not _PLACEHOLDER.match(rest):
            self._refuse("Only a shell could run this")
        elif char == "<":
            self._take(rest[: rest.index(">") + 1])
        else:
            self._take(char)

    def _take(self, text: str) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)
        self.at += len(text)

    def _backslash(self, rest: str) -> None:
        continued = re.match(r"\\[ \t]*(\n|$)", rest)
        if continued:
            self._end_word()
            self.at += continued.end()
        else:
            self.at += 1
            self._take(self.text[self.at])

    def _left_out(self, rest: str) -> bool:
        """Redirections and a & at the end: harmless, since the panel keeps the log and the process itself."""
        match = _REDIRECTION.match(rest) if self.word is None or rest[0] in ">&" else None
        match = match or re.match(r"&[ \t]*(?=\n|$|#)", rest)
        if match is None:
            return False
        self._end_word()
        self.left_out.append(match.group().strip())
        self.at += match.end()
        return True

    def _quoted(self, quote: str) -> None:
        start = self.at
        self.word = self.word or []
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != quote:
            char = self.text[self.at]
            if quote == '"' and char in "$`":
                self._variable()
            elif quote == '"' and char == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                escaped = self.text[self.at + 1]
                self.at += 2
                self.word.append("" if escaped == "\n" else escaped)
            else:
                self._take(char)
        if self.at >= len(self.text):
            self.at = start
            self._refuse("This quote is never closed")
        self.at += 1

    def _variable(self) -> None:
        if self.text[self.at] == "`" or self.text.startswith("$(", self.at):
            self._refuse("Command substitution needs a shell; write its result instead")
        after = self.text[self.at + 1 : self.at + 1 + _AHEAD]
        match = _BRACED.match(after) or _NAME.match(after)
        if match is None:
            if after.startswith("{"):
                self._refuse("This form of a variable needs a shell; write its value instead")
            self._take("$")
            return
        name, default = match.groups() if match.re is _BRACED else (match.group(), None)
        self.at += 1 + match.end()
        self.word = self.word or []
        self.word.append(f"{_OPEN}{name}{_DEFAULT}{default or ''}{_CLOSE}")

    def _end_word(self) -> None:
        if self.word is None:
            return
        word = "".join(self.word)
        self.word = None
        if word in (f"{_OPEN}@{_DEFAULT}{_CLOSE}", f"{_OPEN}*{_DEFAULT}{_CLOSE}"):
            self.left_out.append(f"${word[1]}")
            return
        if not self.words:
            self.line = self.text.count("\n", 0, max(self.at - 1, 0)) + 1
        self.total += 1
        if self.total > MAX_WORDS:
            raise PresetError(f"The text has more than {MAX_WORDS} words; paste the command only.")
        self.words.append(word)

    def _end_statement(self) -> None:
        self._end_word()
        if self.words:
            self.statements.append(Statement(tuple(self.words), self.line, tuple(self.left_out)))
            self.left_out = []
        self.words = []

    def _refuse(self, why: str) -> NoReturn:
        line = self.text.count("\n", 0, self.at) + 1
        piece = self.text[self.at : self.at + _PIECE].split("\n")[0].strip()
        raise PresetError(
            f"Line {line}: {why}: {redacted(piece)}", hint="Nothing of it was run. Paste the plain command."
        )
