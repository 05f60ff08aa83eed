"""A run's whole log for download."""

from pathlib import Path

from backend.engine.log_segments import LogLimits, SegmentWriter, segment_path
from backend.engine.run_log import CHUNK_BYTES, head_lines, read_log

SMALL = LogLimits(head_bytes=1000, segment_bytes=1000, kept_segments=2)


def written(folder: Path, data: bytes) -> Path:
    writer = SegmentWriter(folder, limits=SMALL)
    writer.open()
    writer.write(data)
    writer.close()
    return folder


def test_a_log_is_given_whole_and_in_bounded_pieces(tmp_path: Path) -> None:
    data = bytes(range(256)) * 1000
    segment_path(tmp_path, 0).write_bytes(data)
    pieces = list(read_log(tmp_path))
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) == CHUNK_BYTES


def test_a_gap_is_named(tmp_path: Path) -> None:
    data = b"".join(b"%04d\n" % number for number in range(1000))
    text = b"".join(read_log(written(tmp_path, data))).decode()
    assert text.startswith("0000\n") and text.endswith("0999\n")
    assert "[volta] 2000 bytes of log are no longer kept" in text


def test_no_log_is_nothing(tmp_path: Path) -> None:
    assert list(read_log(tmp_path / "nowhere")) == []
    assert head_lines(tmp_path / "nowhere") == ()


def test_a_segment_removed_meanwhile_is_skipped(tmp_path: Path) -> None:
    pieces = read_log(written(tmp_path, b"x" * 2500))
    first = next(pieces)
    for path in tmp_path.iterdir():
        path.unlink()
    assert first == b"x" * 1000
    assert b"[volta] 1000 bytes of log are no longer kept" in b"".join(pieces)


def test_the_first_lines_come_from_the_segment_that_stays(tmp_path: Path) -> None:
    lines = head_lines(written(tmp_path, b"first\nsecond\n" + b"x" * 9000))
    assert lines[:2] == ("first", "second")
