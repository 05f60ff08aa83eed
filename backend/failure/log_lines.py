"""A log line taken apart: which process wrote it, at what level, and what it says. Pure, linear in the line's length."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

READ_CHARACTERS = 2000  # of one line; what tells a cause stands near its beginning

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SOURCE = re.compile(r"\((\w+)(?: pid=(\d+))?\) ")
_RANK = re.compile(r"\[rank(\d+)\]:\s?")
_VLLM = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (\[[^\]]{1,80}\]) ?")
_UVICORN = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL): {2,}")
_HARMLESS = re.compile(
    r"(?:DEBUG|INFO|WARN|WARNING|TRACE)\b"
    r"|\[?\d[\dT: .,/+-]{7,40}\]?[\s|\[-]{0,6}(?:[\w.]{1,60}[\s|\]-]{1,6})?(?:DEBUG|INFO|WARN|WARNING|TRACE)\b"
    r"|\[?(?:rank\d+\]:)?\[?[IWV]\d{4} \d\d:\d\d"  # glog, as torch's C++ writes it
    r"|(?:\S{1,300}:\d+: )?\w{0,60}Warning: "
    r"|\S{1,80} \[\d+\] NCCL INFO"
    r"|Exception ignored in"
)


class Level(StrEnum):
    """How seriously the writer meant it."""

    HARMLESS = "harmless"  # debug, info, warning: it decides nothing
    ERROR = "error"  # logged as an error
    RAW = "raw"  # written past the logger: a traceback, a usage text, a native crash


class Source(StrEnum):
    """Which of the engine's processes wrote a line."""

    SERVER = "server"  # the API server
    CORE = "core"  # the engine core or a worker: their errors come first, all others follow from them
    UNMARKED = "unmarked"  # no prefix: as a rule the API server


@dataclass(frozen=True)
class LogLine:
    """One line of an engine's log, without its decoration."""

    text: str  # what is said, indentation kept
    level: Level
    source: Source
    writer: str  # process and log statement: lines of one record share it
    index: int  # where it stands in the log


def read_lines(lines: Sequence[str]) -> list[LogLine]:
    """Every line taken apart, empty ones too: they keep a traceback's shape."""
    return list(_read(lines))


def _read(lines: Sequence[str]) -> Iterator[LogLine]:
    for index, line in enumerate(lines):
        yield _take_apart(plain(line), index)


def plain(line: str) -> str:
    """The line as a terminal would show it at last: no colours, no control characters, only what follows the last \\r."""
    line = line.rstrip("\r\n")
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    line = line[:READ_CHARACTERS]
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    return _CONTROL.sub(" ", line)


def _take_apart(line: str, index: int) -> LogLine:
    start, writer, source = 0, "", Source.UNMARKED
    if match := _SOURCE.match(line):
        name = match.group(1)
        start, writer = match.end(), match.group(0)
        source = _source(name)
    if match := _RANK.match(line, start):
        start, writer, source = match.end(), writer + match.group(0), Source.CORE
    if match := _VLLM.match(line, start):
        level = Level.ERROR if match.group(1) in ("ERROR", "CRITICAL") else Level.HARMLESS
        return LogLine(line[match.end() :], level, source, writer + match.group(2), index)
    if match := _UVICORN.match(line, start):
        level = Level.ERROR if match.group(1) in ("ERROR", "CRITICAL") else Level.HARMLESS
        return LogLine(line[match.end() :], level, source, writer, index)
    level = Level.HARMLESS if _HARMLESS.match(line, start) else Level.RAW
    return LogLine(line[start:], level, source, writer, index)


def _source(name: str) -> Source:
    lowered = name.lower()
    if "worker" in lowered or lowered.startswith("enginecore"):
        return Source.CORE
    return Source.SERVER if lowered.startswith("apiserver") else Source.UNMARKED
