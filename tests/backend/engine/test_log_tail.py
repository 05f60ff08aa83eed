"""The tail: clean lines, progress replaced, bounded, and deltas that add up to the whole for every page."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.engine.log_segments import LogLimits, PlainFile, SegmentWriter
from backend.engine.log_tail import LINE_CHARACTERS, POLL_BYTES, RING_LINES, LogSlice, LogTail


class Written:
    """A log being written and its tail."""

    def __init__(self, folder: Path, *, limits: LogLimits | None = None) -> None:
        self.writer = SegmentWriter(folder, limits=limits)
        self.writer.open()
        self.tail = LogTail(folder)

    def add(self, text: str | bytes) -> tuple[str, ...]:
        self.writer.write(text.encode() if isinstance(text, str) else text)
        return self.tail.poll()


@pytest.fixture
def log(tmp_path: Path) -> Written:
    return Written(tmp_path / "log")


class Page:
    """What a browser keeps: lines by number."""

    def __init__(self) -> None:
        self.cursor = 0
        self.lines: dict[int, str] = {}
        self.skipped = 0

    def update(self, tail: LogTail, limit: int = RING_LINES) -> LogSlice:
        part = tail.since(self.cursor, limit)
        self.cursor = part.cursor
        self.skipped += part.skipped
        self.lines.update({line.number: line.text for line in part.lines})
        return part


def test_a_log_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "none")
    assert tail.poll() == ()
    assert tail.since(0) == LogSlice(cursor=0, lines=(), skipped=0)


def test_lines_come_once_each(log: Written) -> None:
    page = Page()
    log.add("one\ntwo\n")
    assert [line.text for line in page.update(log.tail).lines] == ["one", "two"]
    log.add("three\n")
    assert [line.text for line in page.update(log.tail).lines] == ["three"]
    assert page.update(log.tail).lines == ()


def test_an_unfinished_line_is_shown_and_completed_under_its_number(log: Written) -> None:
    page = Page()
    log.add("load")
    page.update(log.tail)
    log.add("ing\nnext\n")
    page.update(log.tail)
    assert page.lines == {1: "loading", 2: "next"}


def test_progress_replaces_its_line(log: Written) -> None:
    page = Page()
    log.add("start\n\rshards:   0%")
    page.update(log.tail)
    log.add("\rshards:  50%")
    assert [(line.number, line.text) for line in page.update(log.tail).lines] == [(2, "shards:  50%")]
    log.add("\rshards: 100%\nready\n")
    page.update(log.tail)
    assert page.lines == {1: "start", 2: "shards: 100%", 3: "ready"}


def test_a_windows_line_end_is_one_line_end_even_when_it_is_cut_in_two(log: Written) -> None:
    log.add("one\r\ntwo\r")
    log.add("\nthree\r\n")
    assert log.tail.last_lines(9) == ("one", "two", "three")


def test_escapes_are_stripped(log: Written) -> None:
    log.add("\x1b[1;36m(Engine\x1b[0m) \x1b]0;title\x07ok\x00\tand tab\n\x1b[A\x1b[2Kbar\n")
    assert log.tail.last_lines(9) == ("(Engine) ok\tand tab", "bar")


def test_broken_utf8_is_shown_and_whole_utf8_survives_being_cut(log: Written) -> None:
    text = "模型加载".encode()
    log.add(text[:4])
    log.add(text[4:] + b" \xff\xfe\n")
    assert log.tail.last_lines(1) == ("模型加载 \ufffd\ufffd",)


def test_a_line_is_cut_at_its_bound(log: Written) -> None:
    log.add("x" * (3 * LINE_CHARACTERS))
    log.add("y" * 10 + "\nnext\n")
    assert log.tail.last_lines(2) == ("x" * LINE_CHARACTERS, "next")


def test_the_ring_keeps_the_newest_lines_and_a_late_page_learns_what_it_missed(log: Written) -> None:
    for number in range(RING_LINES + 500):
        log.add(f"line {number}\n")
    page = Page()
    page.update(log.tail)
    assert len(page.lines) == RING_LINES
    assert page.skipped == 500
    assert page.lines[RING_LINES + 500] == f"line {RING_LINES + 499}"


def test_a_limit_gives_the_newest_lines_and_counts_the_others(log: Written) -> None:
    log.add("".join(f"{number}\n" for number in range(1, 101)))
    part = log.tail.since(0, limit=10)
    assert [line.number for line in part.lines] == list(range(91, 101))
    assert part.skipped == 90
    assert log.tail.since(part.cursor).lines == ()


def test_more_than_one_poll_reads_is_skipped_counted_and_noted(log: Written) -> None:
    log.add("begin\n")
    log.writer.write((b"z" * 999 + b"\n") * (3 * POLL_BYTES // 1000))
    log.tail.poll()
    begin, note, *rest = log.tail.last_lines(RING_LINES)
    assert (begin, note) == ("begin", "[0.5 MB of the log skipped]")
    assert 2 * POLL_BYTES - 1000 <= log.tail.skipped_bytes <= 2 * POLL_BYTES + 1000
    assert set(rest) == {"z" * 999}, "no line is a torn half"


def test_hidden_lines_are_left_out(tmp_path: Path) -> None:
    log = Written(tmp_path / "log")
    log.tail = LogTail(tmp_path / "log", hidden=re.compile("GET /health"))
    assert log.add("a\nGET /health 200\nb\n") == ("a", "b")
    assert [(line.number, line.text) for line in log.tail.since(0).lines] == [(1, "a"), (2, "b")]


def test_following_survives_rotation_without_losing_a_line(tmp_path: Path) -> None:
    log = Written(tmp_path / "log", limits=LogLimits(head_bytes=64, segment_bytes=256, kept_segments=2))
    seen: list[str] = []
    for number in range(500):
        seen += log.add(f"line {number}\n")
    assert seen == [f"line {number}" for number in range(500)]
    assert log.tail.skipped_bytes == 0


def test_segments_that_went_before_they_were_read_are_counted(tmp_path: Path) -> None:
    log = Written(tmp_path / "log", limits=LogLimits(head_bytes=64, segment_bytes=256, kept_segments=2))
    log.add("begin\n")
    for number in range(500):
        log.writer.write(f"line {number}\n".encode())
    log.tail.poll()
    assert log.tail.last_lines(1) == ("line 499",)
    assert log.tail.skipped_bytes > 3000
    log.add("after\n")
    assert log.tail.last_lines(1) == ("after",)


def test_the_next_runs_tail_goes_on_counting_so_that_old_cursors_stay_valid(log: Written, tmp_path: Path) -> None:
    page = Page()
    log.add("a\nb\n")
    page.update(log.tail)
    following = Written(tmp_path / "next")
    following.tail = LogTail(tmp_path / "next", after=log.tail.last_number)
    following.add("c\n")
    assert [(line.number, line.text) for line in page.update(following.tail).lines] == [(3, "c")]
    assert page.skipped == 0


def test_a_new_page_of_a_later_run_has_missed_nothing(tmp_path: Path) -> None:
    log = Written(tmp_path / "log")
    log.tail = LogTail(tmp_path / "log", after=700)
    log.add("c\n")
    assert log.tail.since(0).skipped == 0


def test_a_cursor_of_another_log_starts_over(log: Written) -> None:
    log.add("a\nb\n")
    assert [line.text for line in log.tail.since(999 << 20).lines] == ["a", "b"]


pieces = st.lists(
    st.one_of(
        st.sampled_from(["\n", "\r", "\r\n", "\x1b[32m", "é", "模", "\x1b[0m", "50%"]),
        st.text(alphabet="abc \n\r", max_size=8),
    ),
    max_size=60,
)


@given(pieces=pieces)
def test_however_it_is_cut_the_lines_are_the_same_and_every_page_sees_them(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    cut, whole = Written(folder / "cut"), Written(folder / "whole")
    page, slow_page = Page(), Page()
    for index, piece in enumerate(pieces):
        cut.add(piece)
        page.update(cut.tail)
        if index % 7 == 0:
            slow_page.update(cut.tail)
    slow_page.update(cut.tail)
    whole.add("".join(pieces))
    expected = dict(enumerate(whole.tail.last_lines(RING_LINES), start=1))
    assert dict(enumerate(cut.tail.last_lines(RING_LINES), start=1)) == expected
    assert page.lines == expected
    assert slow_page.lines == expected
    assert page.skipped == slow_page.skipped == 0


def test_one_plain_file_is_followed_like_a_folder_of_segments(tmp_path: Path) -> None:
    file = tmp_path / "install.log"
    tail = LogTail(PlainFile(file))
    assert tail.poll() == ()
    file.write_bytes(b"== [1/2] install torch\nDownloading 1%\rDownloading 2%")
    assert tail.poll() == ("== [1/2] install torch", "Downloading 2%")
    with file.open("ab") as log:
        log.write(b"\rdone\n")
    assert tail.poll() == ("done",)
    assert tail.last_lines(5) == ("== [1/2] install torch", "done")
