"""What a rule is: the texts that are its signs, where they may stand, and the values they carry."""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from backend.failure.failure import VALUE_CHARACTERS
from backend.failure.log_lines import Source
from backend.failure.tracebacks import Chain, Raised

_PYDANTIC = re.compile(r"\s*(?:Value|Assertion) error, ")
_REFUSED = re.compile(r"\s+Input should be ")
_QUOTED = re.compile(r"Worker failed with error '(.*)', please check the stack trace")


class Place(StrEnum):
    """Where a sign may stand. Elsewhere the same words mean nothing."""

    EXCEPTION = "exception"  # in the message of an exception that ended a process
    NATIVE = "native"  # a line of its own, written past Python: compilers, C++ and CUDA libraries, uvicorn
    USAGE = "usage"  # argparse's last line, after "error: "


@dataclass(frozen=True)
class Sign:
    """One text that tells one cause. Its named groups are the values of the failure.

    Patterns are searched in each line of a message, which begins after the exception's type and after pydantic's
    "Value error, ": "^" is the beginning of what was said. Begin a pattern with "^" or a word: one that begins with a
    choice or a class is tried at every letter.
    """

    rule: str
    pattern: str
    place: Place = Place.EXCEPTION
    types: tuple[str, ...] = ()  # of the exception, without module; () for any
    within: str = ""  # functions, files or folders ("name/"), parted by "|": one must be in the traceback
    outside: str = ""  # none of these may
    without: str = ""  # a pattern that no line of the message may have: it would tell another cause
    is_of_server: bool = False  # means something else when a worker or the engine core says it
    is_consequence: bool = False  # as a rule the result of another process's failure: any other sign decides before it
    is_incidental: bool = False  # often handled on the way to another error: then it is not the cause
    compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)
    excluded: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(self.pattern))
        object.__setattr__(self, "excluded", re.compile(self.without) if self.without else None)

    def find(self, text: str) -> re.Match[str] | None:
        """Where the sign stands in a line. Python's search() would try "^" at every letter."""
        return self.compiled.match(text) if self.pattern.startswith("^") else self.compiled.search(text)


@dataclass(frozen=True)
class Found:
    """A sign found in a log."""

    sign: Sign
    values: dict[str, str]
    line: str


def find_in_chain(chain: Chain, signs: tuple[Sign, ...]) -> Found | None:
    """The sign that tells why the chain began: the root's, else that of what was raised from it."""
    found = [found for raised in chain.exceptions if (found := _find_in_exception(raised, chain, signs))]
    certain = [each for each in found if not each.sign.is_consequence]
    return next(iter(certain or found), None)


def _find_in_exception(raised: Raised, chain: Chain, signs: tuple[Sign, ...]) -> Found | None:
    lines = _said(raised)
    for sign in signs:
        if sign.types and raised.name not in sign.types:
            continue
        if sign.is_incidental and raised.is_handled:
            continue
        if sign.is_of_server and chain.source is Source.CORE:
            continue
        if sign.within and not _passed(chain, sign.within):
            continue
        if sign.outside and _passed(chain, sign.outside):
            continue
        if sign.excluded and any(sign.excluded.search(line) for line in lines):
            continue
        for line in lines:
            if match := sign.find(line):
                return Found(sign, bounded_values(match), raised.line if line == lines[0] else line)
    return None


def find_in_line(text: str, signs: tuple[Sign, ...]) -> Found | None:
    """The first sign found in one line."""
    for sign in signs:
        if match := sign.find(text):
            return Found(sign, bounded_values(match), text)
    return None


def bounded_values(match: re.Match[str]) -> dict[str, str]:
    """The named groups that took part, each cut to what a sentence can hold."""
    return {name: value.strip()[:VALUE_CHARACTERS] for name, value in match.groupdict().items() if value is not None}


def _said(raised: Raised) -> list[str]:
    """The lines of the message, the words of a worker that the engine core only repeats among them."""
    lines = [_PYDANTIC.sub("", line, count=1) for line in raised.message]
    for number in range(1, len(lines)):
        if _REFUSED.match(lines[number]):  # pydantic names the setting in the line before
            lines[number] = f"{lines[number - 1].strip()}: {lines[number].strip()}"
    if match := _QUOTED.match(lines[0]):
        lines[0] = match.group(1)
    return lines


def _passed(chain: Chain, places: str) -> bool:
    wanted = places.split("|")
    folders = tuple("/" + place for place in wanted if place.endswith("/"))
    return any(
        frame.function in wanted
        or frame.file.rpartition("/")[2] in wanted
        or any(folder in frame.file for folder in folders)
        for frame in chain.frames
    )
