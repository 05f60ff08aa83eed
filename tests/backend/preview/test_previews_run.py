"""The previews run as printed: the shell line by bash, the unit by systemd, until the engine answers /health."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.launch.plan import LaunchSpec
from backend.preview.previews import shell_line, systemd_unit
from backend.preview.systemd import unit_name
from tests.backend.preview.preview_readers import read_unit
from tests.backend.preview.private_systemd import NoSystemd, private_systemd, said
from tests.fakes.fake_specs import DEADLINE_S, TEST_PORTS, fake_spec

pytestmark = pytest.mark.faults

KEY = "s3cret-value-1"
NASTY = ("--speculative-config", '{"method":"mtp"}', "--nasty", '100% of $HOME, "it\'s" \\n;\nsecond line', f"[{KEY}]")
PORT = TEST_PORTS + 40  # apart from those that fleets of other tests count up from


def nasty_spec(port: int) -> LaunchSpec:
    """The fake engine with words and variables that every form quotes in its own way."""
    spec = fake_spec(port)
    env = {"VLLM_API_KEY": KEY, "NV_A": "a b $x %h \"'\\ é", "NV_B": ""}
    return replace(spec, argv=(*spec.argv, *NASTY), env=env, secrets=frozenset({KEY}))


def test_the_shell_line_runs_as_printed() -> None:
    spec = nasty_spec(PORT)
    with started_by_bash(shell_line(spec), {"VLLM_API_KEY": KEY}) as pid:
        wait_for_health(spec.port)
        assert_is(spec, pid)


def test_the_unit_runs_as_printed(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    spec = nasty_spec(PORT + 1)
    unit = systemd_unit(spec)
    name = unit_name(spec)
    (tmp_path / "systemd" / "user").mkdir(parents=True)
    (tmp_path / "systemd" / "user" / f"{name}.service").write_text(unit, encoding="utf-8")
    (tmp_path / "volta-panel").mkdir()
    (tmp_path / "volta-panel" / f"{name}.env").write_text(f"VLLM_API_KEY={KEY}\n")
    try:
        way = run_by_systemd(spec, tmp_path, f"{name}.service")
    except NoSystemd as err:
        warnings.warn(f"No systemd runs here ({err}): the unit was read by our own reader.", stacklevel=1)
        way = run_by_its_own_words(spec, unit)
    record_property("the unit was run by", way)
    sys.stdout.write(f"the unit was run by {way}\n")


def run_by_systemd(spec: LaunchSpec, config: Path, name: str) -> str:
    """Let a systemd of our own start the unit. Raises NoSystemd."""
    with private_systemd(config, name) as manager:
        heard: list[str] = []

        wait_for_health(spec.port, meanwhile=lambda: listen_to(manager, heard, name), told=heard)
        assert_is(spec, pid_of(spec))
    wait_until_gone(spec.port)
    return "systemd"


def listen_to(manager: subprocess.Popen[bytes], heard: list[str], unit: str) -> None:
    """Add what the manager says. Raises NoSystemd: it ended before it knew the unit, so the unit is not to blame."""
    heard.append(said(manager))
    if manager.poll() is not None and unit not in "".join(heard):
        raise NoSystemd("".join(heard).strip() or f"it ended with {manager.returncode}")


def run_by_its_own_words(spec: LaunchSpec, text: str) -> str:
    """Where no systemd runs: what its lines say, read after its manual, is started."""
    unit = read_unit(text)
    env = {**unit.env(), "VLLM_API_KEY": KEY}
    with started(tuple(unit.command(env)), env) as pid:
        wait_for_health(spec.port)
        assert_is(spec, pid)
    return "its own words"


def test_a_unit_read_by_our_own_reader_starts_the_same() -> None:
    spec = nasty_spec(PORT + 2)
    assert run_by_its_own_words(spec, systemd_unit(spec)) == "its own words"


def test_a_unit_without_its_file_of_secrets_does_not_start(tmp_path: Path) -> None:
    spec = nasty_spec(PORT + 3)
    (tmp_path / "systemd" / "user").mkdir(parents=True)
    (tmp_path / "systemd" / "user" / "x.service").write_text(systemd_unit(spec), encoding="utf-8")
    try:
        with private_systemd(tmp_path, "x.service") as manager:
            heard: list[str] = []
            give_up = time.monotonic() + DEADLINE_S
            while not {"Result=resources", "ActiveState=failed"} <= set(" ".join(heard).split()):
                listen_to(manager, heard, "x.service")
                assert time.monotonic() < give_up, "".join(heard)
                time.sleep(0.02)
            assert not answers(spec.port)
    except NoSystemd as err:
        warnings.warn(f"No systemd runs here ({err}): only the line was looked at.", stacklevel=1)
        (file,) = read_unit(systemd_unit(spec)).all("EnvironmentFile")
        assert not file.startswith("-")  # which would let it be absent


@contextlib.contextmanager
def started_by_bash(line: str, exported: dict[str, str]) -> Iterator[int]:
    """The line run by bash, which becomes the engine."""
    with started(("/bin/bash", "--norc", "-c", line), exported) as pid:
        yield pid


@contextlib.contextmanager
def started(argv: tuple[str, ...], env: dict[str, str]) -> Iterator[int]:
    """A program in a session of its own, ended with all that is in it."""
    process = subprocess.Popen(argv, env={"PATH": os.defpath, **env}, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=DEADLINE_S)


def answers(port: int) -> bool:
    """Whether /health says 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def wait_for_health(port: int, *, meanwhile: Callable[[], None] = lambda: None, told: list[str] | None = None) -> None:
    give_up = time.monotonic() + DEADLINE_S
    while not answers(port):
        meanwhile()
        assert time.monotonic() < give_up, f"no answer on port {port}: {''.join(told or [])}"
        time.sleep(0.02)


def wait_until_gone(port: int) -> None:
    give_up = time.monotonic() + DEADLINE_S
    while answers(port):
        assert time.monotonic() < give_up, f"still there on port {port}"
        time.sleep(0.02)


def pid_of(spec: LaunchSpec) -> int:
    """The one process with exactly these words."""
    words = b"\0".join(os.fsencode(word) for word in spec.argv) + b"\0"
    (pid,) = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if read(path) == words]
    return pid


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def assert_is(spec: LaunchSpec, pid: int) -> None:
    """The process has the spec's very words and variables."""
    folder = Path("/proc") / str(pid)
    eventual = time.monotonic() + DEADLINE_S
    words = b"\0".join(os.fsencode(word) for word in spec.argv) + b"\0"
    while read(folder / "cmdline") != words:
        assert time.monotonic() < eventual, read(folder / "cmdline")
        time.sleep(0.02)
    variables = dict(part.partition(b"=")[::2] for part in read(folder / "environ").split(b"\0") if part)
    assert {name: os.fsdecode(variables[os.fsencode(name)]) for name in spec.env} == dict(spec.env)
    assert sys.executable == spec.argv[0]
