"""The files through which panel and keeper meet: what was written is read, and nothing broken passes for it."""

import json
from pathlib import Path

import pytest

from backend.engine.process import ProcessIdentity
from backend.engine.run_folder import (
    RunExit,
    RunFolder,
    RunOrder,
    RunProcess,
    UnreadableFile,
    make_temporary,
    remove_temporary,
)
from backend.engine.shared_memory import SharedFile

ORDER = RunOrder(
    argv=("/bin/engine", "--port", "1"), env={"KEY": "s3cret"}, cwd="/", marker="a/1/x", temporary="/tmp/t"
)
PROCESS = RunProcess(ProcessIdentity(10, 100, "boot"), ProcessIdentity(11, 101, "boot"), "a/1/x", "/tmp/t", 12.5)
EXIT = RunExit(returncode=-9, ended_at=13.5, error="", leftovers=3, killed=1, stuck=(7,), swept=("psm_1",))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "runs" / "1")
    folder.create()
    return folder


def test_every_file_is_read_as_it_was_written(folder: RunFolder) -> None:
    ours, others = frozenset({SharedFile("psm_1", 2, 3)}), frozenset({SharedFile("psm_2", 2, 4)})
    folder.write_order(ORDER)
    folder.write_process(PROCESS)
    folder.write_exit(EXIT)
    folder.write_shared(ours, others)
    assert folder.read_order() == ORDER
    assert folder.read_process() == PROCESS
    assert folder.read_exit() == EXIT
    assert folder.read_shared() == (ours, others)


def test_what_was_not_written_yet_is_none(folder: RunFolder) -> None:
    assert folder.read_process() is None
    assert folder.read_exit() is None
    assert folder.read_shared() == (frozenset(), frozenset())


def test_an_order_may_hold_keys_and_is_for_its_owner_only(folder: RunFolder) -> None:
    folder.write_order(ORDER)
    assert (folder.path / "launch.json").stat().st_mode & 0o777 == 0o600
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_a_process_file_cut_anywhere_is_unreadable_and_never_half_true(folder: RunFolder) -> None:
    folder.write_process(PROCESS)
    whole = (folder.path / "process.json").read_bytes()
    for length in range(len(whole.rstrip())):
        (folder.path / "process.json").write_bytes(whole[:length])
        with pytest.raises(UnreadableFile, match=r"process\.json"):
            folder.read_process()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"leader": None}, "'leader' is None"),
        ({"leader": {"pid": "11", "start_ticks": 1, "boot_id": ""}}, "'pid' is '11'"),
        ({"leader": {"pid": 11}}, "no 'start_ticks'"),
        ({"marker": 5}, "'marker' is 5"),
    ],
)
def test_a_wrong_value_is_named(folder: RunFolder, change: dict[str, object], complaint: str) -> None:
    folder.write_process(PROCESS)
    path = folder.path / "process.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UnreadableFile, match=complaint):
        folder.read_process()


@pytest.mark.parametrize("content", ["[]", "null", "5", '"text"', "", "\x00\x00"])
def test_a_file_that_holds_no_object_is_unreadable(folder: RunFolder, content: str) -> None:
    (folder.path / "exit.json").write_text(content)
    with pytest.raises(UnreadableFile):
        folder.read_exit()


def test_writing_leaves_no_second_file(folder: RunFolder) -> None:
    folder.write_exit(EXIT)
    folder.write_exit(EXIT)
    assert sorted(path.name for path in folder.path.iterdir()) == ["exit.json", "work"]


def test_a_temporary_folder_has_room_for_socket_paths_and_goes_with_its_content() -> None:
    path = make_temporary()
    assert len(path) + len("/0b9c1d4e-1111-2222-3333-444455556666") <= 107
    (Path(path) / "vllm_dist_1").write_text("x")
    remove_temporary(path)
    assert not Path(path).exists()


def test_nothing_else_is_removed_as_a_temporary_folder(tmp_path: Path) -> None:
    for name in ("home", ".."):
        remove_temporary(str(tmp_path / name))
    remove_temporary("volta-run-relative")
    remove_temporary("")
    assert tmp_path.exists()
