"""Real processes: identified for all time, found wherever they hide, signalled without hitting a stranger."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from backend.engine.process import (
    Ending,
    ProcessIdentity,
    RunMark,
    age_s,
    current_boot_id,
    find_marked,
    find_members,
    identify,
    is_alive,
    marker_of,
    read_stat,
    send_signal,
)
from tests.fakes.fake_specs import eventually_blocking

SLEEPER = "import signal\nwhile True: signal.pause()"
MARKER = f"processtest/1/{os.getpid()}"


class Children:
    """Starts small Python processes and ends what is left of them."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, code: str, *, marker: str = MARKER, new_session: bool = True) -> ProcessIdentity:
        """Run `code`; returns once it has printed a line or, for code that prints none, at its first instruction."""
        process = subprocess.Popen(
            (sys.executable, "-I", "-S", "-c", f"print(flush=True)\n{code}"),
            env={"VOLTA_RUN": marker},
            stdout=subprocess.PIPE,
            start_new_session=new_session,
        )
        self.processes.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        identity = identify(process.pid)
        assert identity is not None
        return identity

    def reap(self) -> None:
        for process in self.processes:
            process.poll()

    def end(self) -> None:
        for identity in find_marked(MARKER):
            send_signal(identity, signal.SIGKILL)
        for process in self.processes:
            process.kill()
            process.wait(timeout=10)
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def children() -> Iterator[Children]:
    children = Children()
    yield children
    children.end()


def mark(leader: ProcessIdentity, *, marker: str = MARKER) -> RunMark:
    return RunMark(leader, marker)


def test_a_running_process_is_alive(children: Children) -> None:
    assert is_alive(children.start(SLEEPER))


def test_a_process_that_was_reaped_is_dead(children: Children) -> None:
    identity = children.start("pass")
    children.processes[0].wait(timeout=10)
    assert not is_alive(identity)
    assert read_stat(identity.pid) is None


def test_a_zombie_is_dead(children: Children) -> None:
    identity = children.start("pass")
    eventually_blocking(lambda: not is_alive(identity), what="the child exits")
    stat = read_stat(identity.pid)
    assert stat is not None and stat.state == "Z", "nobody has reaped it"
    assert identity not in find_members(mark(identity))


def test_a_zombie_whose_thread_still_runs_is_alive(children: Children) -> None:
    # a killed engine whose thread hangs in a driver looks like this, and keeps its GPU memory
    code = (
        "import ctypes, platform, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "exit_one_thread = 93 if platform.machine() == 'aarch64' else 60\n"
        "ctypes.CDLL(None).syscall(exit_one_thread, 0)\n"
    )
    identity = children.start(code)
    eventually_blocking(lambda: getattr(read_stat(identity.pid), "state", "") == "Z", what="the main thread exits")
    assert is_alive(identity)
    assert identity in find_members(mark(identity))


def test_a_reused_pid_is_another_process(children: Children) -> None:
    identity = children.start(SLEEPER)
    assert not is_alive(replace(identity, start_ticks=identity.start_ticks - 1))
    assert not is_alive(replace(identity, boot_id="another boot"))


def test_a_name_with_brackets_and_spaces_does_not_confuse_the_stat_line(children: Children) -> None:
    code = "open('/proc/self/comm', 'w').write(') Z 1 (x')\nprint('named', flush=True)\n" + SLEEPER
    identity = children.start(code)
    process = children.processes[0]
    assert process.stdout is not None and process.stdout.readline() == b"named\n"
    stat = read_stat(identity.pid)
    assert stat is not None
    assert (stat.parent, stat.group, stat.session) == (os.getpid(), identity.pid, identity.pid)
    assert is_alive(identity)


def test_age_comes_from_the_kernels_clock(children: Children) -> None:
    assert 0 <= age_s(children.start(SLEEPER)) < 10


def test_the_marker_is_read_from_the_environment(children: Children) -> None:
    identity = children.start(SLEEPER)
    assert marker_of(identity.pid) == MARKER
    assert marker_of(1) in (None, "")
    assert find_marked(MARKER) == {identity: MARKER}


FORK_FOUR = (
    "import os, signal\n"
    "def child(setsid=False, clear=False):\n"
    "    if os.fork() == 0:\n"
    "        if setsid: os.setsid()\n"
    "        if clear: os.execve('/bin/sleep', ['sleep', '60'], {})\n"
    "        while True: signal.pause()\n"
    "child(); child(setsid=True); child(clear=True)\n" + SLEEPER
)


def test_members_are_found_in_the_group_and_by_marker_when_they_left_it(children: Children) -> None:
    leader = children.start(FORK_FOUR)
    eventually_blocking(lambda: len(find_members(mark(leader))) == 4, what="leader and three children")


def test_members_outlive_their_leader_and_are_still_found(children: Children) -> None:
    leader = children.start(FORK_FOUR)
    eventually_blocking(lambda: len(find_members(mark(leader))) == 4, what="leader and three children")
    send_signal(leader, signal.SIGKILL)
    children.processes[0].wait(timeout=10)
    assert len(find_members(mark(leader))) == 3


def test_descendants_of_a_keeper_are_members_whatever_they_changed(children: Children) -> None:
    leader = children.start("import os\nos.execve('/bin/sleep', ['sleep', '60'], {})", new_session=True)
    nobody = ProcessIdentity(2**22 - 1, 1, current_boot_id())
    found = find_members(RunMark(nobody, "no/such/marker", keeper=os.getpid()))
    assert leader in found


def test_a_group_whose_number_went_to_another_process_is_not_ours(children: Children) -> None:
    stranger = children.start(SLEEPER, marker="someone/else")
    ours_long_ago = replace(stranger, start_ticks=stranger.start_ticks - 500)
    assert find_members(mark(ours_long_ago)) == frozenset()
    assert find_members(mark(replace(stranger, boot_id="another boot"))) == frozenset()


def test_a_signal_never_reaches_a_later_owner_of_the_pid(children: Children) -> None:
    identity = children.start(SLEEPER)
    assert not send_signal(replace(identity, start_ticks=1), signal.SIGKILL)
    assert is_alive(identity)
    assert send_signal(identity, signal.SIGKILL)
    eventually_blocking(lambda: not is_alive(identity), what="it dies")


def test_ending_asks_once_then_kills_who_ignores(children: Children) -> None:
    ignoring = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\n" + SLEEPER
    leader = children.start(ignoring)
    process = children.processes[0]
    assert process.stdout is not None and process.stdout.readline() == b"deaf\n"
    ending = Ending(lambda: find_members(mark(leader)))
    assert ending.step(kill=False) == {leader}
    assert ending.step(kill=False) == {leader}
    assert ending.killed == 0
    eventually_blocking(lambda: not ending.step(kill=True), what="all dead")
    assert ending.killed == 1


def test_ending_catches_members_that_appear_meanwhile(children: Children) -> None:
    breeder = (
        "import os, time\n"
        "while True:\n"
        "    if os.fork() == 0:\n"
        "        os.setsid() if os.getpid() % 2 else None\n"
        "        time.sleep(60)\n"
        "    time.sleep(0.002)\n"
    )
    leader = children.start(breeder)
    eventually_blocking(lambda: len(find_members(mark(leader))) > 5, what="some offspring")
    ending = Ending(lambda: find_members(mark(leader)))
    eventually_blocking(lambda: not ending.step(kill=True), what="all dead")
    assert find_marked(MARKER) == {}
