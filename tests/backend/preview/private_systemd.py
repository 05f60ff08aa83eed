"""A systemd user manager of our own, in namespaces that end with it: nothing of the machine's own systemd is touched.

It needs root, systemd and a control group that may be divided. `python private_systemd.py UNIT…` is run inside them.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
SYSTEMD = Path("/lib/systemd/systemd")
DEADLINE_S = 20.0


class NoSystemd(Exception):
    """This machine lets nobody run a systemd of one's own; the message says why."""


@contextlib.contextmanager
def private_systemd(config: Path, unit: str) -> Iterator[subprocess.Popen[bytes]]:
    """systemd --user with its configuration in `config`, told to start `unit`.

    Raises:
        NoSystemd: it cannot be run here.
    """
    if os.geteuid() != 0:
        raise NoSystemd("not root")
    if not (SYSTEMD.is_file() and shutil.which("unshare")):
        raise NoSystemd("no systemd or no unshare")
    group = f"volta-test-{os.getpid()}"
    words = ("unshare", "--mount", "--pid", "--cgroup", "--fork", "--mount-proc", "--kill-child")
    manager = subprocess.Popen(
        (*words, sys.executable, "-I", __file__, str(config), unit, group),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        assert manager.stdout is not None
        os.set_blocking(manager.stdout.fileno(), False)
        yield manager
    finally:
        manager.kill()
        manager.wait(timeout=DEADLINE_S)
        _remove_groups(group)


def said(manager: subprocess.Popen[bytes]) -> str:
    """What it printed since the last call: the unit's states, complaints; "" for nothing."""
    assert manager.stdout is not None
    return (manager.stdout.read() or b"").decode(errors="replace")


def _remove_groups(name: str) -> None:
    """Control groups outlive their processes; a killed process leaves its group a moment later."""
    give_up = time.monotonic() + DEADLINE_S
    for top in _group_roots(name):
        for folder, _, _ in os.walk(top, topdown=False):
            while Path(folder).is_dir():
                try:
                    Path(folder).rmdir()
                except OSError:
                    assert time.monotonic() < give_up, f"{folder} cannot be removed"
                    time.sleep(0.02)


def _group_roots(name: str) -> list[Path]:
    return [path for path in (CGROUPS / name, *CGROUPS.glob(f"*/{name}")) if path.is_dir()]


def _inside(config: str, unit: str, group: str) -> None:
    """In the namespaces: a control group and a /run of our own, then systemd."""
    roots = [CGROUPS] if (CGROUPS / "cgroup.procs").exists() else [CGROUPS / "systemd", CGROUPS / "unified"]
    for root in roots:
        if root.is_dir():
            (root / group).mkdir()
            (root / group / "cgroup.procs").write_text("0")
    subprocess.run(("mount", "-t", "tmpfs", "tmpfs", "/run"), check=True)
    Path("/run/systemd/system").mkdir(parents=True)
    Path("/run/user/0").mkdir(parents=True)
    env = {"PATH": os.environ["PATH"], "HOME": config, "XDG_RUNTIME_DIR": "/run/user/0", "XDG_CONFIG_HOME": config}
    # not in place of this process: the manager would be number 1, which is the system's and not a user's
    systemd = subprocess.Popen((str(SYSTEMD), "--user", f"--unit={unit}"), env=env)
    state = ""
    while systemd.poll() is None:
        show = ("systemctl", "--user", "show", "--property=ActiveState,Result", unit)
        done = subprocess.run(show, env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        if done.returncode == 0 and done.stdout != state:
            state = done.stdout
            sys.stdout.write(f"{unit}: {' '.join(state.split())}\n")
            sys.stdout.flush()
        time.sleep(0.1)
    sys.exit(f"systemd --user ended with {systemd.returncode}")


if __name__ == "__main__":
    _inside(*sys.argv[1:])
