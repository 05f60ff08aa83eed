"""The log on disk: bounded, its head kept, and a full disk survived."""

import resource
from pathlib import Path

from backend.engine.log_segments import LogLimits, SegmentWriter, segment_path, segment_starts

SMALL = LogLimits(head_bytes=100, segment_bytes=1000, kept_segments=3)


def written(folder: Path) -> bytes:
    return b"".join(segment_path(folder, start).read_bytes() for start in segment_starts(folder))


def test_a_short_log_is_one_readable_file(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "log")
    writer.open()
    writer.write(b"one\n")
    writer.write(b"two\n")
    writer.close()
    assert segment_path(tmp_path / "log", 0).read_bytes() == b"one\ntwo\n"


def test_segments_are_one_stream_cut_at_their_names(tmp_path: Path) -> None:
    data = bytes(range(256)) * 12
    writer = SegmentWriter(tmp_path / "log", limits=LogLimits(head_bytes=100, segment_bytes=1000, kept_segments=9))
    writer.open()
    for start in range(0, len(data), 77):
        writer.write(data[start : start + 77])
    writer.close()
    assert segment_starts(tmp_path / "log") == [0, 100, 1100, 2100]
    assert written(tmp_path / "log") == data


def test_the_head_and_the_newest_segments_stay_and_the_rest_goes(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "log", limits=SMALL)
    writer.open()
    writer.write(b"h" * 100 + b"x" * 9500)
    writer.close()
    assert segment_starts(tmp_path / "log") == [0, 7100, 8100, 9100]
    assert written(tmp_path / "log")[:100] == b"h" * 100


def test_no_segment_is_readable_by_others(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "log")
    writer.open()
    writer.close()
    assert segment_path(tmp_path / "log", 0).stat().st_mode & 0o777 == 0o600


def test_a_full_disk_drops_log_and_says_how_much_once_there_is_room(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "log")
    writer.open()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # writing beyond fails, as on a full disk
    try:
        writer.write(b"a" * 1500)
        writer.write(b"b" * 200)
        assert writer.dropped_bytes == 700
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.write(b"room again\n")
    writer.close()
    text = written(tmp_path / "log").decode()
    assert text.startswith("a" * 1000)
    assert "700 bytes of log were lost here" in text
    assert text.endswith("room again\n")
    assert writer.dropped_bytes == 0
