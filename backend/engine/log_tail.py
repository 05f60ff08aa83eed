"""Follows one run's log from outside: a bounded ring of clean lines, read in bites, handed out in deltas."""

import codecs
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from backend.engine.log_segments import LogSource, SegmentFolder

RING_LINES = 2000
LINE_CHARACTERS = 4096
POLL_BYTES = 256 * 1024  # 14 ms of work on a slow core, and as much as the ring holds

_BREAK = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[@-Z\\-_]"  # two-character escapes
    r"|[\x00-\x08\x0b-\x1f\x7f]"  # other control characters; tab stays
)
_VERSION_BITS = 20  # a cursor is (line number, version of that line) in one int, below 2**53 and so safe in JSON
_VERSION_MASK = (1 << _VERSION_BITS) - 1


@dataclass(frozen=True)
class LogLine:
    """One line as a person should see it. A progress line keeps its number while text and version are replaced."""

    number: int
    text: str
    version: int = 0


@dataclass(frozen=True)
class LogSlice:
    """What changed after a cursor. A line whose number was already shown replaces the one shown."""

    cursor: int  # opaque; pass it to the next since()
    lines: tuple[LogLine, ...]
    skipped: int  # changed lines older than these that are not handed out: over the limit, or no longer kept


@dataclass(frozen=True)
class _Bite:
    data: bytes
    skipped: int  # bytes before `data` that nobody will read


class LogTail:
    """The newest lines of a run's log. poll() reads the disk (one caller); the rest only reads memory (many).

    `source` is a folder of segments, or another kind of log; nothing of it need exist yet. Line numbers go on after
    `after`, so that a page's cursor stays valid when the tail of the next run follows this one. Lines that match `hidden` are left out.
    """

    def __init__(self, source: Path | LogSource, *, after: int = 0, hidden: re.Pattern[str] | None = None) -> None:
        self._source: LogSource = SegmentFolder(source) if isinstance(source, Path) else source
        self._after = after
        self._hidden = hidden
        self._lines: deque[LogLine] = deque(maxlen=RING_LINES)
        self._offset = 0  # next byte of the stream to read
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open_text: str | None = None  # the unfinished newest line, escapes still in it
        self._open_shown = False  # the ring holds it already
        self._returned = False  # a \r was read: the next text replaces the unfinished line
        self._skipped_bytes = 0

    @property
    def last_number(self) -> int:
        """Number of the newest line; `after` when there is none."""
        return self._lines[-1].number if self._lines else self._after

    @property
    def skipped_bytes(self) -> int:
        """Bytes never looked at, because more came than a poll reads or a segment was gone already."""
        return self._skipped_bytes

    def poll(self) -> tuple[str, ...]:
        """Read what is new, at most the newest 256 KiB. Returns the lines added or replaced, oldest first."""
        bite = self._read()
        if bite is None:
            return ()
        changed: list[str] = []
        if bite.skipped:
            self._note_skip(bite, changed)
        text = self._decoder.decode(bite.data.partition(b"\n")[2] if bite.skipped else bite.data)
        self._take(text, changed)
        return tuple(changed)

    def since(self, cursor: int, limit: int = RING_LINES) -> LogSlice:
        """The newest `limit` lines that are new or replaced after `cursor`; 0 is before the first line."""
        seen, version = cursor >> _VERSION_BITS, cursor & _VERSION_MASK
        if not self._after < seen <= self.last_number:  # another log's cursor, or none yet
            seen, version = self._after, 0
        shown = self._line(seen)
        first = seen if shown is not None and shown.version & _VERSION_MASK != version else seen + 1
        count = min(limit, self.last_number - first + 1, len(self._lines))
        lines = tuple(self._lines[index] for index in range(-count, 0))
        skipped = self.last_number + 1 - first - len(lines)
        return LogSlice(cursor=self._cursor(), lines=lines, skipped=skipped)

    def last_lines(self, count: int) -> tuple[str, ...]:
        """The newest `count` lines as plain text, oldest first."""
        return tuple(line.text for line in list(self._lines)[-count:])

    def _cursor(self) -> int:
        version = self._lines[-1].version if self._lines else 0
        return self.last_number << _VERSION_BITS | version & _VERSION_MASK

    def _line(self, number: int) -> LogLine | None:
        index = number - self.last_number - 1
        return self._lines[index] if -len(self._lines) <= index < 0 else None

    def _read(self) -> _Bite | None:
        """The newest bytes after our offset, from as many segments as it takes; None when there are none."""
        starts = self._source.starts()
        end = starts[-1] + _size(self._source.path(starts[-1])) if starts else 0
        begin = max(self._offset, end - POLL_BYTES)
        data = b""
        for start, limit in zip(starts, [*starts[1:], end], strict=False):
            position = begin + len(data)
            if limit <= position:
                continue
            if start > position:  # what lay between is gone: go on behind the gap
                begin, position, data = start, start, b""
            data += _read_at(self._source.path(start), position - start, limit - position)
        if not data:
            return None
        skipped = begin - self._offset
        self._offset = begin + len(data)
        return _Bite(data, skipped)

    def _note_skip(self, bite: _Bite, changed: list[str]) -> None:
        self._skipped_bytes += bite.skipped + len(bite.data) - len(bite.data.partition(b"\n")[2])
        self._decoder.reset()
        self._finish(changed)
        self._open_text = f"[{bite.skipped / 1e6:.1f} MB of the log skipped]"
        self._finish(changed)

    def _take(self, text: str, changed: list[str]) -> None:
        position = 0
        for match in _BREAK.finditer(text):
            self._extend(text[position : match.start()])
            position = match.end()
            if match.group() == "\r":
                self._returned = True
            else:
                self._open_text = self._open_text or ""
                self._finish(changed)
        self._extend(text[position:])
        if self._open_text is not None:
            self._show(changed)

    def _extend(self, piece: str) -> None:
        if not piece:
            return
        kept = "" if self._returned or self._open_text is None else self._open_text
        self._returned = False
        self._open_text = (kept + piece)[:LINE_CHARACTERS]

    def _finish(self, changed: list[str]) -> None:
        if self._open_text is not None:
            self._show(changed)
        self._open_text, self._open_shown, self._returned = None, False, False

    def _show(self, changed: list[str]) -> None:
        """Put the unfinished line into the ring, or replace it there."""
        text = _ESCAPE.sub("", self._open_text or "")
        if not self._open_shown:
            if self._hidden is not None and self._hidden.search(text):
                return
            self._lines.append(LogLine(self.last_number + 1, text))
            self._open_shown = True
        elif self._lines[-1].text != text:
            old = self._lines[-1]
            self._lines[-1] = LogLine(old.number, text, old.version + 1)
        else:
            return
        changed.append(text)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read_at(path: Path, position: int, count: int) -> bytes:
    try:
        with path.open("rb", buffering=0) as segment:
            segment.seek(position)
            return segment.read(count) or b""
    except FileNotFoundError:
        return b""
