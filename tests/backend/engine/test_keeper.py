"""The keeper as a real process beside a real engine process: whatever dies first, the end is known and nothing is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from backend.engine.log_segments import HEAD_BYTES, KEPT_SEGMENTS, SEGMENT_BYTES, segment_path, segment_starts
from backend.engine.process import find_marked, is_alive, send_signal
from backend.engine.run_folder import RunExit, RunFolder, RunOrder, RunProcess, make_temporary, remove_temporary
from backend.engine.shared_memory import list_shared
from tests.fakes.fake_specs import FAKE_ENGINE, ROUNDS, eventually_blocking, mapped_names

pytestmark = pytest.mark.faults
every_round = pytest.mark.parametrize("round_number", ROUNDS)

ROOT = Path(__file__).parents[3]
MARKER = f"keepertest/1/{os.getpid()}"


class Kept:
    """One run under a keeper of our own."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        self.keeper: subprocess.Popen[bytes] | None = None

    def start(self, *argv: str, env: Mapping[str, str] | None = None, cwd: str = "/") -> RunProcess:
        self.launch(*argv, env=env, cwd=cwd)
        eventually_blocking(lambda: self.folder.read_process() is not None, what="process.json")
        process = self.folder.read_process()
        assert process is not None
        return process

    def launch(self, *argv: str, env: Mapping[str, str] | None = None, cwd: str = "/") -> None:
        self.folder.create()
        environment = {**(env or {}), "VOLTA_RUN": MARKER}
        self.folder.write_order(RunOrder(argv, environment, cwd, MARKER, make_temporary()))
        with self.folder.keeper_log.open("wb") as complaints:
            self.keeper = subprocess.Popen(
                (sys.executable, "-E", "-s", "-S", "-m", "backend.engine.keeper", str(self.folder.path)),
                cwd=ROOT,
                env={},
                stdout=complaints,
                stderr=complaints,
                start_new_session=True,
            )

    def python(self, code: str) -> RunProcess:
        return self.start(sys.executable, "-I", "-S", "-u", "-c", code)

    def fake(self, port: int, *faults: str) -> RunProcess:
        process = self.start(sys.executable, "-I", "-S", str(FAKE_ENGINE), "--port", str(port), *faults)
        self.wait_for("Application startup complete")
        return process

    def wait_for(self, words: str) -> None:
        eventually_blocking(lambda: words in self.log(), what=f"{words} in the log: {self.log()[-500:]}")

    def log(self) -> str:
        path = segment_path(self.folder.log, 0)
        return path.read_text(errors="replace") if path.exists() else ""

    def ended(self) -> RunExit:
        """Wait for exit.json and for the keeper to be gone."""
        assert self.keeper is not None
        self.keeper.wait(timeout=30)
        ended = self.folder.read_exit()
        assert ended is not None, self.folder.keeper_log.read_text()
        assert not Path(self.folder.read_order().temporary).exists(), "the temporary folder goes with the run"
        return ended

    def end(self) -> None:
        """Kill the run and let its keeper clean up; what a killed keeper could not, we do."""
        for identity in find_marked(MARKER):
            send_signal(identity, signal.SIGKILL)
        if self.keeper is not None:
            self.keeper.wait(timeout=30)
            remove_temporary(self.folder.read_order().temporary)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path / "1")
    yield kept
    kept.end()


def members() -> int:
    return len(find_marked(MARKER))


def test_the_keeper_loads_nothing_but_the_standard_library_and_its_own_leaf_modules() -> None:
    code = (
        "import sys; import backend.engine.keeper; print(*sorted(n for n in sys.modules if n.startswith('backend.')))"
    )
    command = (sys.executable, "-E", "-s", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}")
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    leaves = ("cleanup", "keeper", "log_segments", "process", "run_folder", "shared_memory")
    assert result.stdout.split() == ["backend.engine", *(f"backend.engine.{name}" for name in leaves)]


def test_an_exit_code_is_written_down(kept: Kept) -> None:
    kept.python("print('hello')\nraise SystemExit(7)")
    ended = kept.ended()
    assert (ended.returncode, ended.leftovers, ended.error) == (7, 0, "")
    assert kept.log() == "hello\n"
    assert abs(time.time() - ended.ended_at) < 30


def test_a_signal_is_written_down(kept: Kept) -> None:
    process = kept.python("import signal\nwhile True: signal.pause()")
    os.kill(process.leader.pid, signal.SIGSEGV)
    assert kept.ended().returncode == -signal.SIGSEGV


def test_the_engine_has_a_session_and_group_of_its_own_and_only_the_ordered_environment(kept: Kept) -> None:
    code = "import os\nprint(os.getsid(0), os.getpgid(0), os.getpid(), os.getcwd(), sorted(os.environ), os.listdir('/proc/self/fd'))"
    process = kept.start(sys.executable, "-I", "-S", "-c", code, env={"ONLY": "this"}, cwd="/tmp")
    kept.ended()
    pid = process.leader.pid
    variables = "['ONLY', 'VOLTA_RUN']"
    found = kept.log()
    assert found.startswith(f"{pid} {pid} {pid} /tmp")
    assert variables in found.replace("'LC_CTYPE', ", "")
    assert "['0', '1', '2', '3']" in found, "no descriptor of the keeper is inherited; 3 is the listing itself"


@pytest.mark.parametrize("program", ["/no/such/program", "/etc/passwd"])
def test_a_program_that_cannot_be_executed_is_told(kept: Kept, program: str) -> None:
    kept.launch(program)
    ended = kept.ended()
    assert ended.returncode is None
    assert program in ended.error
    assert program in kept.log()


def test_a_missing_working_folder_is_told(kept: Kept) -> None:
    kept.launch(sys.executable, cwd="/no/such/folder")
    assert kept.ended().error == "No such file or directory: /no/such/folder"


@every_round
def test_leftovers_are_ended_with_the_leader_even_deaf_ones_that_left_the_session(
    kept: Kept, free_port: Callable[[], int], round_number: int
) -> None:
    process = kept.fake(free_port(), "--workers", "3", "--ignore-sigterm")
    assert members() == 4
    os.kill(process.leader.pid, signal.SIGKILL)
    ended = kept.ended()
    assert (ended.returncode, ended.leftovers, ended.killed, ended.stuck) == (-9, 3, 3, ())
    assert members() == 0


@every_round
def test_leftovers_that_hear_sigterm_are_not_killed(
    kept: Kept, free_port: Callable[[], int], round_number: int
) -> None:
    process = kept.fake(free_port(), "--workers", "2")
    os.kill(process.leader.pid, signal.SIGKILL)
    ended = kept.ended()
    assert (ended.leftovers, ended.killed, members()) == (2, 0, 0)


@every_round
def test_a_killed_keeper_takes_the_leader_with_it(kept: Kept, free_port: Callable[[], int], round_number: int) -> None:
    process = kept.fake(free_port(), "--workers", "2")
    assert kept.keeper is not None
    kept.keeper.kill()
    eventually_blocking(lambda: not is_alive(process.leader), what="the kernel kills the leader")
    assert kept.folder.read_exit() is None
    assert members() == 2, "workers are left for the panel to end"


@every_round
def test_a_keeper_told_to_end_ends_the_engine_in_order(
    kept: Kept, free_port: Callable[[], int], round_number: int
) -> None:
    kept.fake(free_port(), "--workers", "2")
    assert kept.keeper is not None
    kept.keeper.terminate()
    assert kept.ended().returncode == 0
    assert "Shutting down" in kept.log()
    assert members() == 0


@every_round
def test_a_flood_neither_blocks_the_engine_nor_fills_the_disk(
    kept: Kept, free_port: Callable[[], int], round_number: int
) -> None:
    argv = (sys.executable, "-I", "-S", str(FAKE_ENGINE), "--port", str(free_port()), "--flood-mb-per-s", "50")
    process = kept.start(*argv)
    bound = HEAD_BYTES + (KEPT_SEGMENTS + 1) * SEGMENT_BYTES
    eventually_blocking(lambda: max(segment_starts(kept.folder.log)) > 2 * bound, what="enough log to rotate often")
    size = sum(path.stat().st_size for path in kept.folder.log.iterdir())
    assert size <= bound
    os.kill(process.leader.pid, signal.SIGKILL)
    assert kept.ended().returncode == -9
    assert "non-default args" in kept.log(), "the head is kept"


def test_a_flood_is_drained_as_fast_as_it_comes(kept: Kept) -> None:
    code = (
        "import os, time\n"
        "block = b'x' * 99 + b'\\n'\n"
        "began = time.monotonic()\n"
        "for _ in range(50): \n"
        "    data = memoryview(block * 10000)\n"
        "    while data: data = data[os.write(1, data):]\n"
        "open('took', 'w').write(str(time.monotonic() - began))\n"
    )
    kept.start(sys.executable, "-I", "-S", "-c", code, cwd=str(kept.folder.path.parent))
    assert kept.ended().returncode == 0
    took_s = float((kept.folder.path.parent / "took").read_text())
    assert took_s < 5.0, "50 MB; half a second on an idle machine"


@every_round
def test_shared_memory_is_swept_with_the_run(kept: Kept, free_port: Callable[[], int], round_number: int) -> None:
    process = kept.fake(free_port(), "--shm", "--workers", "2")

    def made() -> set[str]:
        return mapped_names({member.pid for member in find_marked(MARKER)})

    eventually_blocking(lambda: len(made()) == 3, what="a mapped file each of leader and workers")
    leftovers = made()
    os.kill(process.leader.pid, signal.SIGKILL)
    kept.ended()
    # not read from exit.json: another run that ends at this moment may have removed what nobody holds any more
    assert not leftovers & {shared.name for shared in list_shared()}


def test_the_keeper_knows_early_which_shared_memory_is_the_runs(kept: Kept, free_port: Callable[[], int]) -> None:
    kept.fake(free_port(), "--shm")

    def psm_is_known() -> bool:
        return any(shared.name.startswith("psm_") for shared in kept.folder.read_shared()[0])

    eventually_blocking(psm_is_known, what="the psm_ file in shared.json")


def test_orphans_are_reaped_and_leave_no_zombie(kept: Kept) -> None:
    code = (
        "import os, time\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0: time.sleep(0.05)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "print('forked', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = kept.python(code)
    kept.wait_for("forked")
    children = Path(f"/proc/{process.keeper.pid}/task/{process.keeper.pid}/children")
    eventually_blocking(
        lambda: children.read_text().split() == [str(process.leader.pid)], what="only the leader is left"
    )


def test_the_keeper_is_small(kept: Kept) -> None:
    process = kept.python("import time\nprint('up', flush=True)\ntime.sleep(60)")
    kept.wait_for("up")
    status = Path(f"/proc/{process.keeper.pid}/status").read_text()
    anonymous_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
    assert anonymous_kib < 16 * 1024


def test_the_keepers_log_is_empty_when_all_is_well(kept: Kept) -> None:
    kept.python("print(1)")
    kept.ended()
    assert kept.folder.keeper_log.read_text() == ""
