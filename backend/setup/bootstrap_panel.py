"""Setup's second step, on a Python new enough but without the panel's packages: the panel's environment, then on into it."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from backend.errors import SetupError
from backend.setup.arguments import SetupArguments, read_arguments
from backend.setup.console import Console
from backend.setup.preparation import Preparation


def prepare_and_go_on(argv: list[str], repository: Path) -> int:
    """Make the panel's environment whole and become `python -m backend.setup` in it; the exit code where that fails."""
    arguments = read_arguments(argv, os.environ)
    console = Console(sys.stdout)
    base_python = Path(getattr(sys, "_base_executable", None) or sys.executable)
    preparation = Preparation(arguments, repository, console, os.environ, base_python)
    try:
        if arguments.command == "status" and not preparation.panel.is_whole():
            raise SetupError(f"{preparation.panel.venv} is not whole.", hint="Run 'make setup'.")
        is_announced = preparation.prepare_panel()
    except (SetupError, OSError) as err:  # a full or unreadable disk is nothing to trace back
        console.line(f"Setup stopped: {err}")
        return 1
    except KeyboardInterrupt:
        console.line("Interrupted. Run this again: it goes on where it stopped.")
        return 130
    return _become_setup(preparation, is_announced=is_announced)


def _become_setup(preparation: Preparation, *, is_announced: bool) -> NoReturn:
    """`python -m backend.setup` in the panel's environment, as the same process."""
    python, words = str(preparation.panel.python), preparation.arguments.words(is_announced=is_announced)
    sys.stdout.flush()
    os.execve(python, (python, "-m", "backend.setup", *words), next_environ(preparation.arguments))


def next_environ(arguments: SetupArguments) -> dict[str, str]:
    """The environment of the next step: the index URLs go by variable, as they may hold a password."""
    urls = {"VOLTA_INDEX_URL": arguments.index_url, "VOLTA_TORCH_INDEX_URL": arguments.torch_index_url}
    dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH")  # the last would hide `backend` from -m and from app.py
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, **{name: url for name, url in urls.items() if url}}
