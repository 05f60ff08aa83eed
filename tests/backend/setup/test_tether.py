"""The tether: what it starts ends with its starter, however that one ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backend.setup.tether import tethered

ROOT = Path(__file__).parents[3]
STARTER = """\
import shutil, subprocess, sys, time
from backend.setup.tether import tethered
child = subprocess.Popen({start}, start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_of_child(start: str) -> int:
    """The child of a starter that was killed after it had started it."""
    code = STARTER.replace("{start}", start)
    starter = subprocess.Popen((sys.executable, "-c", code), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    deadline = time.monotonic() + 10
    while "sleep" not in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]:  # not yet the command itself
        assert time.monotonic() < deadline
        time.sleep(0.01)
    starter.send_signal(signal.SIGKILL)
    starter.wait(timeout=10)
    starter.stdout.close()
    return pid


def test_child_of_a_killed_starter_is_gone() -> None:
    pid = pid_of_child("tethered((shutil.which('sleep'), '600'))")
    deadline = time.monotonic() + 10
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} outlives its starter"
        time.sleep(0.01)


def test_without_it_the_child_goes_on() -> None:
    pid = pid_of_child("(shutil.which('sleep'), '600')")
    time.sleep(0.2)
    try:
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("words", [("/bin/echo", "a b", "$HOME")])
def test_words_arrive_as_they_are(words: tuple[str, ...]) -> None:
    done = subprocess.run(tethered(words), capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "a b $HOME\n"
