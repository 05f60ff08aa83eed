"""A run's whole kept log as bytes, for download: its segments in order, with a line where some are gone."""

from collections.abc import Iterator
from pathlib import Path

from backend.engine.log_segments import segment_path, segment_starts

CHUNK_BYTES = 64 * 1024
HEAD_LINES = 4000  # of the first segment, for explaining an end whose cause was flooded away
LINE_CHARACTERS = 4096


def read_log(folder: Path) -> Iterator[bytes]:
    """What is there now, in pieces of at most 64 KiB; a log still written is read to its present end. Blocks on disk.

    A segment removed meanwhile counts as a gap.
    """
    position = 0
    for start in segment_starts(folder):
        if start > position:
            yield f"\n[volta] {start - position} bytes of log are no longer kept\n".encode()
        position = start
        for chunk in _chunks(segment_path(folder, start)):
            position += len(chunk)
            yield chunk


def head_lines(folder: Path) -> tuple[str, ...]:
    """The first lines of the log, from the segment that is kept for ever."""
    text = b"".join(_chunks(segment_path(folder, 0))).decode(errors="replace")
    return tuple(line[:LINE_CHARACTERS] for line in text.splitlines()[:HEAD_LINES])


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as segment:
            end = path.stat().st_size
            while segment.tell() < end and (chunk := segment.read(min(CHUNK_BYTES, end - segment.tell()))):
                yield chunk
    except FileNotFoundError:
        return
