"""The command that clears up after a run whose work is done by somebody else's process: docker rm -f NAME.

Killing `docker run` leaves its container alive, because the container is a child of the docker daemon. Standard library
only: the keeper process imports it.
"""

import os
import signal
import time
from collections.abc import Mapping

from backend.engine.process import CLEANUP_VARIABLE, MARKER_VARIABLE

CLEANUP_DEADLINE_S = 20.0
_STEP_S = 0.02


def run_cleanup(argv: tuple[str, ...], env: Mapping[str, str], *, deadline_s: float = CLEANUP_DEADLINE_S) -> str:
    """Run it and wait for its end; returns what went wrong, "" when nothing did. Its output goes to our stderr. Blocks.

    A docker that hangs is killed at the deadline: what it was to remove may then live on.
    """
    if not argv:
        return ""
    environment = {name: value for name, value in env.items() if name != MARKER_VARIABLE} | {CLEANUP_VARIABLE: "1"}
    try:
        pid = os.posix_spawn(argv[0], argv, environment, file_actions=_QUIET, setsid=True)
    except OSError as err:
        return f"{argv[0]} cannot be executed: {err.strerror or err}"
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return f"{argv[0]} ended with {code}" if code else ""
        time.sleep(_STEP_S)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"{argv[0]} did not end within {deadline_s:.0f} s and was killed"


_QUIET = ((os.POSIX_SPAWN_DUP2, 2, 1), (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
