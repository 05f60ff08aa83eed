"""An engine's command line as flags with values, in the way vLLM's own parser reads it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.errors import PresetError
from backend.launch.flag_shapes import BOOLEAN_FLAGS, LIST_FLAGS, OLD_BOOLEAN_FLAGS, SHORT_FLAGS
from backend.launch.preset import INTENT_FLAGS

MAX_VALUE = 8192  # characters
MAX_DEPTH = 16  # keys inside keys of a JSON flag
_FLAG = re.compile(r"--[A-Za-z]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_ALIASES = {"device-memory-utilization": "gpu-memory-utilization"}
_ALONE = BOOLEAN_FLAGS | OLD_BOOLEAN_FLAGS
Value = bool | str | tuple[str, ...]


@dataclass(frozen=True)
class GivenFlag:
    """A flag as it was given."""

    name: str  # without dashes, hyphens only, long form; "enable-x" for --no-enable-x, with value False
    value: Value  # True: it stands alone
    spelled: str = ""  # as it was written, for messages

    @property
    def text(self) -> str:
        """The value for people: the last word of several is not lost."""
        return " ".join(self.value) if isinstance(self.value, tuple) else str(self.value)


@dataclass(frozen=True)
class CommandLine:
    """What stood behind the program's name."""

    positional: tuple[str, ...]
    flags: tuple[GivenFlag, ...]
    abbreviations: tuple[tuple[str, str], ...] = field(default=())  # as written, and the flag it stands for


def read_flags(words: Sequence[str]) -> CommandLine:
    """The words behind `vllm serve` or the server's module.

    Raises:
        PresetError: a flag that needs a value has none, or a part of a JSON flag does not fit the others.
    """
    positional: list[str] = []
    flags: list[GivenFlag] = []
    abbreviations: list[tuple[str, str]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not _is_flag(word):
            positional.append(word)
            continue
        spelled, equals, attached = word.partition("=")
        name = _long_name(spelled)
        if name != (whole := _whole_name(name)):
            abbreviations.append((spelled, whole))
            name = whole
        if equals:
            flags.append(_with_value(name, attached, spelled))
        else:
            flags.append(_with_next(name, rest, spelled))
    return CommandLine(tuple(positional), _nested(flags), tuple(abbreviations))


def _is_flag(word: str) -> bool:
    if _FLAG.match(word):
        return True
    short = word.partition("=")[0].partition(".")[0].removeprefix("-")
    return word.startswith("-") and (short in SHORT_FLAGS or re.fullmatch(r"O\d?", short) is not None)


def _long_name(spelled: str) -> str:
    if spelled.startswith("--"):
        head, dot, keys = spelled[2:].partition(".")
        head = head.replace("_", "-")
        return f"{_ALIASES.get(head, head)}{dot}{keys}"
    head, dot, keys = spelled[1:].partition(".")
    if head.startswith("O"):  # -O3, -O.mode 3
        return f"compilation-config.{keys or 'level'}" if dot else "optimization-level"
    return f"{SHORT_FLAGS[head]}{dot}{keys}"


def _whole_name(name: str) -> str:
    """The flag an abbreviation stands for, as argparse allows it; only where one flag alone can be meant."""
    if name in INTENT_FLAGS or name in _ALONE or name in LIST_FLAGS or len(name) < 6 or "." in name:
        return name
    whole = [flag for flag in INTENT_FLAGS if flag.startswith(name)]
    return whole[0] if len(whole) == 1 else name


def _with_value(name: str, value: str, spelled: str) -> GivenFlag:
    if len(value) > MAX_VALUE:
        raise PresetError(f"The value of {spelled} is longer than {MAX_VALUE} characters.")
    positive = name.removeprefix("no-")
    if name in _ALONE or positive in _ALONE:
        if value.lower() in _TRUE + _FALSE:
            return GivenFlag(positive, (value.lower() in _TRUE) == (name in _ALONE), spelled)
        raise PresetError(f"{spelled} stands alone or takes true or false, not {value[:200]!r}.")
    return GivenFlag(name, (value,) if name in LIST_FLAGS else value, spelled)


def _with_next(name: str, rest: list[str], spelled: str) -> GivenFlag:
    """The flag and the words that belong to it, which are taken from `rest`."""
    if name.removeprefix("no-") in _ALONE:
        if rest and rest[0].lower() in ("true", "false"):
            return _with_value(name, rest.pop(0), spelled)
        return GivenFlag(name.removeprefix("no-"), name in _ALONE, spelled)
    if spelled.startswith("-O") and spelled[2:].isdigit():
        return GivenFlag(name, spelled[2:], spelled)
    values: list[str] = []
    while rest and not _is_flag(rest[0]) and (not rest[0].startswith("-") or _NUMBER.fullmatch(rest[0])):
        values.append(rest.pop(0))
        if name not in LIST_FLAGS:
            return _with_value(name, values[0], spelled)
    if values:
        return GivenFlag(name, tuple(values), spelled)
    if name in INTENT_FLAGS or name in LIST_FLAGS:
        raise PresetError(f"{spelled} has no value.")
    return GivenFlag(name.removeprefix("no-"), not name.startswith("no-"), spelled)


def _nested(flags: list[GivenFlag]) -> tuple[GivenFlag, ...]:
    """--config.key value as part of that flag's JSON, as vLLM reads it."""
    plain = [flag for flag in flags if "." not in flag.name]
    parts: dict[str, dict[str, Any]] = {}
    for flag in flags:
        base, _, path = flag.name.partition(".")
        if not path:
            continue
        place = parts.setdefault(base, _whole(base, plain))
        *parents, key = path.split(".")
        if len(parents) > MAX_DEPTH:
            raise PresetError(f"{flag.spelled[:80]}… has more than {MAX_DEPTH} dots.")
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise PresetError(f"{flag.spelled} does not fit what is said of {base} before.")
        if key.endswith("+"):
            place.setdefault(key[:-1], []).extend(json_or_text(item) for item in flag.text.split(","))
        else:
            place[key] = json_or_text(flag.text) if not isinstance(flag.value, bool) else flag.value
    kept = [flag for flag in plain if flag.name not in parts]
    return (*kept, *(GivenFlag(base, _json_text(base, value), f"--{base}") for base, value in parts.items()))


def _json_text(name: str, value: dict[str, Any]) -> str:
    try:
        return json.dumps(value)
    except RecursionError as err:
        raise PresetError(f"--{name} has too many keys inside keys.") from err


def _whole(base: str, plain: list[GivenFlag]) -> dict[str, Any]:
    for flag in plain:
        if flag.name == base:
            return json_object(flag)
    return {}


def json_object(flag: GivenFlag) -> dict[str, Any]:
    """The flag's value as a JSON object. Raises PresetError naming the flag when it is none."""
    try:
        value = json.loads(flag.text)
    except (ValueError, RecursionError) as err:
        hint = "Were its quotes lost in copying?" if "{" in flag.text else ""
        raise PresetError(f"--{flag.name} = {flag.text[:200]} is not JSON.", hint=hint) from err
    if not isinstance(value, dict):
        raise PresetError(f"--{flag.name} = {flag.text[:200]} must be a JSON object.")
    return value


def json_or_text(value: str) -> Any:
    """A number, list or object where it reads as one, else the text itself."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
