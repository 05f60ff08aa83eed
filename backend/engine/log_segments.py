"""An engine's log on disk: one endless byte stream cut into bounded segment files named by their first offset.

    log/000000000000000.log   the first 256 KiB, kept for ever: command line, versions, the start-up phases
    log/000000000262144.log   8 MiB each; of these only the newest three stay

A name says where its bytes lie in the stream, so a reader needs no inode, no rename and no lock to follow it.
Standard library only: the keeper process imports it.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

HEAD_BYTES = 256 * 1024
SEGMENT_BYTES = 8 * 1024 * 1024
KEPT_SEGMENTS = 3

_SUFFIX = ".log"
_DIGITS = 15


@dataclass(frozen=True)
class LogLimits:
    """How large the files of one log may grow. Together never more than head + (kept + 1) segments."""

    head_bytes: int = HEAD_BYTES
    segment_bytes: int = SEGMENT_BYTES
    kept_segments: int = KEPT_SEGMENTS


def segment_path(folder: Path, start: int) -> Path:
    """The file that holds the stream from byte `start` on."""
    return folder / f"{start:0{_DIGITS}d}{_SUFFIX}"


def segment_starts(folder: Path) -> list[int]:
    """First offsets of the segments that exist, ascending. Empty when there is no log yet."""
    try:
        with os.scandir(folder) as entries:
            stems = [entry.name.removesuffix(_SUFFIX) for entry in entries if entry.name.endswith(_SUFFIX)]
    except FileNotFoundError:
        return []
    return sorted(int(stem) for stem in stems if stem.isdecimal())


class LogSource(Protocol):
    """Where the bytes of one log lie: files by the offset of their first byte in the stream."""

    def starts(self) -> list[int]:
        """First offsets of the files that exist, ascending."""

    def path(self, start: int) -> Path:
        """The file that holds the stream from byte `start` on."""


@dataclass(frozen=True)
class SegmentFolder:
    """A folder of segments (LogSource)."""

    folder: Path

    def starts(self) -> list[int]:
        """Those of the segments."""
        return segment_starts(self.folder)

    def path(self, start: int) -> Path:
        """The segment that starts there."""
        return segment_path(self.folder, start)


@dataclass(frozen=True)
class PlainFile:
    """One file that only grows, such as the log of an installation (LogSource)."""

    file: Path

    def starts(self) -> list[int]:
        """0 once the file is there."""
        return [0] if self.file.exists() else []

    def path(self, start: int) -> Path:
        """The file, whatever the start."""
        return self.file


class SegmentWriter:
    """Appends to the newest segment and removes old ones. One writer a folder.

    A full disk never raises: what cannot be written is dropped, counted, and noted in the log once writing works again.
    """

    def __init__(self, folder: Path, *, limits: LogLimits | None = None) -> None:
        self._folder = folder
        self._limits = limits or LogLimits()
        self._descriptor = -1
        self._start = 0  # offset of the open segment
        self._size = 0  # bytes in it
        self._dropped = 0  # bytes not yet accounted for in the log

    @property
    def dropped_bytes(self) -> int:
        """Bytes lost since the last note about lost bytes."""
        return self._dropped

    def open(self) -> None:
        """Make the folder and the first segment. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open_segment(0)

    def write(self, data: bytes) -> None:
        """Append all of `data`, starting new segments as needed."""
        if self._dropped and not self._append_note():
            self._dropped += len(data)
            return
        view = memoryview(data)
        while view:
            written = self._write_some(view)
            if written == 0:
                self._dropped += len(view)
                return
            view = view[written:]

    def close(self) -> None:
        """Close the open segment; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append_note(self) -> bool:
        note = f"\n[volta] {self._dropped} bytes of log were lost here: the disk did not take them\n".encode()
        if self._write_some(memoryview(note)) != len(note):
            return False
        self._dropped = 0
        return True

    def _write_some(self, view: memoryview) -> int:
        limit = self._limits.head_bytes if self._start == 0 else self._limits.segment_bytes
        try:
            if self._size >= limit:
                self._open_segment(self._start + self._size)
                limit = self._limits.segment_bytes
            written = os.write(self._descriptor, view[: limit - self._size])
        except OSError:
            return 0
        self._size += written
        return written

    def _open_segment(self, start: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(segment_path(self._folder, start), flags, 0o600)
        self.close()
        self._descriptor, self._start, self._size = descriptor, start, 0
        later = [old for old in segment_starts(self._folder) if old != 0]
        for old in later[: -self._limits.kept_segments]:
            segment_path(self._folder, old).unlink(missing_ok=True)
