"""Leftovers in shared memory: a run's own are removed, another's never. Uses the real /dev/shm and real holders."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from backend.engine.shared_memory import LOOKS, SHARED_MEMORY, SharedMemoryWatch, held_files, list_shared, sweep

HOLDER = """
import mmap, os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(descriptor, 4096)
memory = mmap.mmap(descriptor, 4096)
if sys.argv[2] == "mapped":
    os.close(descriptor)
print("held", flush=True)
time.sleep(120)
"""


class Holders:
    """Processes that hold shared-memory files, and the files, ended and removed afterwards."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.paths: list[Path] = []

    def path(self, name: str) -> Path:
        path = SHARED_MEMORY / f"{name}{os.getpid()}{len(self.paths)}"
        self.paths.append(path)
        return path

    def hold(self, path: Path, how: str = "mapped") -> subprocess.Popen[bytes]:
        command = (sys.executable, "-I", "-S", "-c", HOLDER, str(path), how)
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.processes.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)

    def end(self) -> None:
        for process in self.processes:
            self.kill(process)
            assert process.stdout is not None
            process.stdout.close()
        for path in self.paths:
            path.unlink(missing_ok=True)


@pytest.fixture
def holders() -> Iterator[Holders]:
    holders = Holders()
    yield holders
    holders.end()


def begun() -> SharedMemoryWatch:
    watch = SharedMemoryWatch()
    watch.begin()
    return watch


def test_pythons_own_shared_memory_and_semaphores_are_of_the_watched_kinds() -> None:
    before = list_shared()
    memory = SharedMemory(create=True, size=100)
    try:
        assert {file.name for file in list_shared() - before} == {memory.name.removeprefix("/")}
    finally:
        memory.close()
        memory.unlink()


@pytest.mark.parametrize("how", ["mapped", "open"])
def test_a_file_held_by_a_member_is_ours_and_goes_once_the_member_is_dead(holders: Holders, how: str) -> None:
    watch, started = begun(), time.time()
    path = holders.path("psm_")
    member = holders.hold(path, how)
    assert watch.look(lambda: [member.pid])
    assert [file.name for file in watch.ours] == [path.name]
    assert sweep(watch.ours, watch.others, since=started - 1) == (), "a living process still holds it"
    assert path.exists()
    holders.kill(member)
    assert sweep(watch.ours, watch.others, since=started - 1) == (path.name,)
    assert not path.exists()


def test_a_file_of_a_process_outside_the_run_is_never_removed_even_after_its_death(holders: Holders) -> None:
    watch, started = begun(), time.time()
    path = holders.path("psm_")
    stranger = holders.hold(path)
    assert watch.look(lambda: [])
    assert path.name in {file.name for file in watch.others}
    holders.kill(stranger)
    assert sweep(watch.ours, watch.others, since=started - 1) == ()
    assert path.exists()


def test_a_member_that_maps_its_file_between_two_looks_at_it_is_not_taken_for_a_stranger(holders: Holders) -> None:
    # it would be left behind for ever as a file of another engine
    watch, started = begun(), time.time()
    path = holders.path("psm_")
    path.write_bytes(b"")
    born: list[int] = []

    def members() -> list[int]:
        if born:
            return born
        born.append(holders.hold(path).pid)
        return []

    watch.look(members)
    assert path.name not in {file.name for file in watch.others}
    holders.kill(holders.processes[0])
    assert path.name in sweep(watch.ours, watch.others, since=started - 1)


def test_a_file_that_was_there_before_the_run_is_never_removed(holders: Holders) -> None:
    path = holders.path("sem.mp-")
    path.write_bytes(b"\0" * 32)
    watch = begun()
    assert sweep(watch.ours, watch.others, since=0.0) == ()
    assert path.exists()


def test_a_file_made_and_dropped_between_two_looks_goes_when_nobody_holds_it(holders: Holders) -> None:
    watch, started = begun(), time.time()
    path = holders.path("sem.mp-")
    path.write_bytes(b"\0" * 32)
    assert sweep(watch.ours, watch.others, since=started - 1) == (path.name,)


def test_a_file_made_during_the_run_that_a_living_stranger_holds_stays(holders: Holders) -> None:
    watch, started = begun(), time.time()
    path = holders.path("psm_")
    holders.hold(path)
    assert sweep(watch.ours, watch.others, since=started - 1) == ()
    assert path.exists()


def test_a_file_made_before_the_run_stays_even_when_the_keeper_left_no_list(holders: Holders) -> None:
    path = holders.path("psm_")
    path.write_bytes(b"")
    assert sweep((), (), since=time.time() + 1) == ()
    assert path.exists()


def test_a_later_file_of_the_same_name_is_not_ours(holders: Holders) -> None:
    watch = begun()
    path = holders.path("psm_")
    member = holders.hold(path)
    watch.look(lambda: [member.pid])
    path.unlink()
    again = holders.hold(path)
    assert not (list_shared() & watch.ours)
    holders.kill(member)
    assert sweep(watch.ours, (), since=time.time() + 1) == ()
    assert path.exists() and again.poll() is None


def test_other_names_are_not_touched(holders: Holders) -> None:
    path = holders.path("my-own-data-")
    path.write_bytes(b"keep")
    assert path.name not in {file.name for file in list_shared()}
    sweep((), list_shared(), since=0.0)
    assert path.exists()


def test_a_look_without_news_is_cheap_and_a_file_nobody_holds_is_not_looked_for_for_ever(tmp_path: Path) -> None:
    (tmp_path / "psm_before").write_bytes(b"")
    watch, started = SharedMemoryWatch(tmp_path), time.time()
    watch.begin()
    asked: list[int] = []

    def members() -> list[int]:
        asked.append(1)
        return []

    assert not watch.look(members)
    assert asked == [], "nobody walks /proc for it"
    (tmp_path / "psm_unheld").write_bytes(b"")
    for _ in range(10):
        watch.look(members)
    assert len(asked) == 2 * LOOKS, "members are asked before and after the strangers"
    assert sweep(watch.ours, watch.others, since=started - 1, folder=tmp_path) == ("psm_unheld",)


def test_held_files_are_found_among_many_processes(holders: Holders) -> None:
    path = holders.path("psm_")
    process = holders.hold(path)
    files = {file for file in list_shared() if file.name == path.name}
    assert held_files(files, [os.getpid(), process.pid, 2**22 - 1]) == files
    assert held_files(files, [os.getpid()]) == set()
