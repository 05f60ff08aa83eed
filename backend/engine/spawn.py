"""Starting a run: what is checked before, the engine's whole environment, and the keeper that executes it."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from backend.engine.process import MARKER_VARIABLE
from backend.engine.run import EngineRun
from backend.engine.run_folder import RunFolder, RunOrder, make_temporary, remove_temporary
from backend.errors import LaunchError
from backend.launch.plan import LaunchSpec

_STEP_S = 0.01
_NO_CWD = frozenset({"", "/"})  # the spec's default: an empty folder of the run instead
_ROOT = Path(__file__).resolve().parents[2]
_PASSED_NAMES = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "TZ", "LD_LIBRARY_PATH"})
_PASSED_PREFIXES = ("CUDA_", "NVIDIA_")


def check_launchable(spec: LaunchSpec) -> None:
    """Refuse what is bound to fail, with a reason better than the engine's own. Raises LaunchError."""
    program = Path(spec.argv[0]) if spec.argv else Path()
    if not (program.is_absolute() and program.is_file() and os.access(program, os.X_OK)):
        raise LaunchError(
            f"{spec.title or 'The engine'} cannot be started: {program} is not a program.",
            hint="Its environment may not be set up yet, or was moved.",
        )
    if spec.cwd and not Path(spec.cwd).is_dir():
        raise LaunchError(f"The working folder {spec.cwd} does not exist.")
    if spec.port and not is_port_free(spec.host, spec.port):
        raise LaunchError(
            f"Port {spec.port} on {spec.host} is in use by another process.",
            hint="Choose another port or stop what listens there.",
        )


def is_port_free(host: str, port: int) -> bool:
    """Whether an engine could listen there now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: closed connections do not count
        try:
            attempt.bind((host, port))
        except OSError:
            return False
    return True


def engine_environment(spec: LaunchSpec, *, base: Mapping[str, str], marker: str, temporary: str) -> dict[str, str]:
    """The whole environment of an engine: never the panel's own, which may hold keys."""
    passed = {name: value for name, value in base.items() if name in _PASSED_NAMES or name.startswith(_PASSED_PREFIXES)}
    return {
        "PATH": os.defpath,
        **passed,
        "PYTHONSAFEPATH": "1",  # no folder of ours or of the user on the engine's import path
        "PYTHONUNBUFFERED": "1",  # stages are read from the log while it is written
        "SPT_NOENV": "1",  # vLLM's setproctitle would overwrite the marker below in /proc/<pid>/environ
        **spec.env,
        "TMPDIR": temporary,
        MARKER_VARIABLE: marker,
    }


async def spawn_run(folder: RunFolder, spec: LaunchSpec, *, marker: str, deadline_s: float) -> EngineRun:
    """Start a keeper and through it the engine; returns when process.json names both. Raises LaunchError."""
    temporary = ""
    try:
        folder.create()
        temporary = make_temporary()
        order = RunOrder(
            argv=spec.argv,
            env=engine_environment(spec, base=os.environ, marker=marker, temporary=temporary),
            cwd=spec.cwd if spec.cwd not in _NO_CWD else str(folder.work),
            marker=marker,
            temporary=temporary,
            cleanup=spec.cleanup,
        )
        folder.write_order(order)
        return await _wait_for_process(folder, _spawn_keeper(folder), deadline_s)
    except OSError as err:
        remove_temporary(temporary)
        raise LaunchError(f"The run cannot be set up in {folder.path}: {err}.", hint="The disk may be full.") from err
    except LaunchError:
        remove_temporary(temporary)
        raise


async def _wait_for_process(folder: RunFolder, child: "subprocess.Popen[bytes]", deadline_s: float) -> EngineRun:
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        process = folder.read_process()
        if process is not None:
            return EngineRun(folder, process=process, child=child)
        if child.poll() is not None:
            raise LaunchError(f"The engine's keeper process failed: {_last_line(folder.keeper_log)}")
        await asyncio.sleep(_STEP_S)
    child.kill()
    child.wait()
    raise LaunchError(f"The engine's process did not appear within {deadline_s:.0f} s.")


def _spawn_keeper(folder: RunFolder) -> "subprocess.Popen[bytes]":
    """In a session of its own, so that neither Ctrl-C nor the end of a login reaches it. Raises OSError."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in os.environ}
    with folder.keeper_log.open("wb") as complaints:
        return subprocess.Popen(
            (sys.executable, "-E", "-s", "-S", "-m", "backend.engine.keeper", str(folder.path.resolve())),
            cwd=_ROOT,
            env=kept,
            stdin=subprocess.DEVNULL,
            stdout=complaints,
            stderr=complaints,
            start_new_session=True,
        )


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError as err:
        return str(err)
    return lines[-1] if lines else "it left no message."
