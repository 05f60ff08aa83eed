"""A command that the kernel ends with the process that started it, however that one ends."""

import os
import sys
from collections.abc import Sequence

# PR_SET_PDEATHSIG = 1, SIGKILL: a pip left behind by a killed setup would go on writing into an environment that the next
# setup works on. It follows the starting thread, so only a thread that lives as long as its process may start one.
_TETHER = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)\n"
    "os.getppid() == int(sys.argv[1]) or os._exit(137)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


def tethered(argv: Sequence[str]) -> tuple[str, ...]:
    """The argv that becomes this command, tied to the calling process. argv[0] is an absolute path."""
    return (sys.executable, "-I", "-S", "-c", _TETHER, str(os.getpid()), *argv)
