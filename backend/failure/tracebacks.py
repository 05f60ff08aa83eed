"""Exceptions found in a log: each with its frames, what it was raised from, and whether it ended its process."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from backend.failure.log_lines import Level, LogLine, Source

MESSAGE_LINES = 60
FRAMES = 400
ANNOUNCEMENT_CHARACTERS = 200
EXCEPTIONS = 400  # the newest of a log

_FRAME = re.compile(r'\s+File "([^"]{0,400})", line \d+(?:, in (\S{1,120}))?')
_HEAD = re.compile(  # SGLang writes its time and what happened before it
    r"(?:\[[^\]]{1,60}\] Scheduler hit an exception: )?(?:Traceback|Stack trace) \(most recent call last\)"
)
_CAUSED = "The above exception was the direct cause of the following exception"
_DURING = "During handling of the above exception, another exception occurred"
_NAMED = re.compile(
    r"(?:[A-Za-z_]\w{0,80}\.){0,12}(?:[A-Z]\w{0,80}(?:Error|Exception|Exit|Interrupt|OutOfResources)|Exception"
    r"|(?<=\.)[A-Z]\w{0,80}(?=: ))(?=:|$|\s*$)"
)
_FATAL = re.compile(
    r"EngineCore failed to start|EngineCore encountered a fatal error|WorkerProc failed to start"
    r"|WorkerProc hit an exception|EngineCore hit an exception|^Process \w+(?:-\d+)?:$"
)
_CHILD = re.compile(r"^Process \w+(?:-\d+)?:$")  # how multiprocessing announces the end of an engine core or a worker
_SURVIVED = re.compile(
    r"Exception in ASGI application|Task exception was never retrieved|Future exception was never retrieved"
    r"|Exception ignored in|Exception in callback|--- Logging error ---|Error in sys\.excepthook"
)
_BYSTANDER = "multiprocessing/resource_tracker.py"  # cleans up after the end, and complains of what is gone already
_GENERIC = re.compile(
    r"Engine core initialization failed|See root cause above|WorkerProc initialization failed|EngineDeadError"
    r"|EngineCore encountered an issue|Executor failed|Engine process failed to start|cancelled$"
    r"|died with exit code|Engine core process \S+ died unexpectedly"
)


@dataclass(frozen=True)
class Frame:
    """One call of a traceback."""

    file: str
    function: str


@dataclass(frozen=True)
class Raised:
    """One exception as the log shows it."""

    type: str  # with its module where Python wrote it: "torch.OutOfMemoryError"
    message: tuple[str, ...]  # its lines, the first without the type; never empty
    line: str  # the log line it begins with, undecorated
    frames: tuple[Frame, ...] = ()
    is_handled: bool = False  # the next one of the chain was raised while this one was handled, not from it

    @property
    def name(self) -> str:
        """The type without its module."""
        return self.type.rpartition(".")[2]

    @property
    def is_generic(self) -> bool:
        """Whether it only says that something else failed."""
        return bool(_GENERIC.search(self.line)) or self.name in ("CancelledError", "KeyboardInterrupt", "SystemExit")


@dataclass(frozen=True)
class Chain:
    """Exceptions raised from one another, the root first."""

    exceptions: tuple[Raised, ...]
    source: Source
    level: Level
    index: int  # of its first line in the log
    is_fatal: bool = False  # the log says that it ended its process
    is_survived: bool = False  # the log says that the process went on

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All calls of all its exceptions."""
        return tuple(frame for raised in self.exceptions for frame in raised.frames)

    @property
    def is_generic(self) -> bool:
        """Whether every exception of it only says that something else failed."""
        return all(raised.is_generic for raised in self.exceptions)


@dataclass
class _Open:
    """A chain while its lines still come. `state` says what the next line may be."""

    source: Source
    level: Level
    index: int
    exceptions: list[Raised] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    message: list[str] = field(default_factory=list)
    first: str = ""
    type: str = ""
    in_frames: bool = False
    is_fatal: bool = False
    is_survived: bool = False

    def close_exception(self) -> None:
        if self.type:
            message = tuple(self.message)
            self.exceptions.append(Raised(self.type, message, self.first, tuple(self.frames)))
        self.type, self.first, self.message, self.frames = "", "", [], []

    def mark_handled(self) -> None:
        if self.exceptions:
            self.exceptions[-1] = replace(self.exceptions[-1], is_handled=True)

    def chain(self) -> Chain | None:
        self.close_exception()
        if not self.exceptions:
            return None
        frames = [frame for raised in self.exceptions for frame in raised.frames]
        is_survived = self.is_survived or (bool(frames) and all(_BYSTANDER in frame.file for frame in frames))
        return Chain(tuple(self.exceptions), self.source, self.level, self.index, self.is_fatal, is_survived)


def find_chains(lines: Sequence[LogLine]) -> list[Chain]:
    """The newest chains of a log in the order they begin. Processes that write at once are kept apart by their prefix."""
    chains = sorted(_chains(lines), key=lambda chain: chain.index)
    return chains[-EXCEPTIONS:]


def _chains(lines: Sequence[LogLine]) -> Iterator[Chain]:
    reading: dict[str, _Open] = {}
    announced: dict[str, str] = {}  # what a writer said just before: it tells what became of the process
    for line in lines:
        if line.level is Level.HARMLESS:
            yield from _finish(reading, line.writer)
            announced[line.writer] = ""
            continue
        chain = reading.get(line.writer)
        if chain is not None and chain.level is line.level and _continues(chain, line):
            continue
        if _HEAD.match(line.text):
            if chain is None or not _joins(chain):
                yield from _finish(reading, line.writer)
                chain = _begin(line, announced.get(line.writer, ""))
                reading[line.writer] = chain
            chain.in_frames = True
        elif match := _NAMED.match(line.text):
            yield from _finish(reading, line.writer)
            chain = _begin(line, announced.get(line.writer, ""))
            reading[line.writer] = chain
            _take_exception(chain, line, match)
        elif line.text.strip():
            yield from _finish(reading, line.writer)
            announced[line.writer] = _announcement(announced.get(line.writer, ""), line)
    for writer in list(reading):
        yield from _finish(reading, writer)


def _announcement(before: str, line: LogLine) -> str:
    """What tells of the next traceback. Web servers print groups of exceptions in several parts, under one sentence."""
    goes_on = line.level is Level.RAW and _SURVIVED.search(before) and not _FATAL.search(line.text)
    return before if goes_on else line.text[:ANNOUNCEMENT_CHARACTERS]


def _begin(line: LogLine, announcement: str) -> _Open:
    return _Open(
        Source.CORE if _CHILD.search(announcement) else line.source,
        line.level,
        line.index,
        is_fatal=bool(_FATAL.search(announcement)),
        is_survived=bool(_SURVIVED.search(announcement)),
    )


def _finish(reading: dict[str, _Open], writer: str) -> Iterator[Chain]:
    chain = reading.pop(writer, None)
    done = chain.chain() if chain else None
    if done:
        yield done


def _joins(chain: _Open) -> bool:
    """Whether a traceback that begins now belongs to the chain: one of Python's two sentences stood before it."""
    return not chain.type and bool(chain.exceptions)


def _continues(chain: _Open, line: LogLine) -> bool:
    """Take the line into the chain if it belongs there."""
    text = line.text
    if chain.in_frames:
        if match := _FRAME.match(text):
            if len(chain.frames) < FRAMES:
                chain.frames.append(Frame(match.group(1), match.group(2) or ""))
            return True
        if text.startswith((" ", "\t")) or not text.strip():
            return True
        chain.in_frames = False
        _take_exception(chain, line, _NAMED.match(text))
        return True
    if text.startswith((_CAUSED, _DURING)):
        chain.close_exception()
        if text.startswith(_DURING):
            chain.mark_handled()
        return True
    if not chain.type:
        return not text.strip()
    if _HEAD.match(text) or _NAMED.match(text) or _FATAL.search(text) or _SURVIVED.search(text):
        return False
    if len(chain.message) < MESSAGE_LINES:
        chain.message.append(text)
    return True


def _take_exception(chain: _Open, line: LogLine, named: re.Match[str] | None) -> None:
    text = line.text
    chain.type = named.group() if named else text.partition(":")[0][:120]
    chain.first = text
    said = text[len(chain.type) :].lstrip(":").strip() if text.startswith(chain.type) else text
    chain.message = [said]
