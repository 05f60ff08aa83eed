"""One setup at a time in a folder, by a lock that the kernel gives back when its holder dies, however it dies."""

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from backend.errors import SetupError

log = logging.getLogger(__name__)

LOCK_FILE = "setup.lock"
TURN_POLL_S = 0.5


@contextlib.contextmanager
def setup_lock(folder: Path, *, file_name: str = LOCK_FILE, what: str = "Another setup") -> Iterator[None]:
    """Hold a lock of the folder, or refuse at once.

    Raises:
        SetupError: somebody else holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name
    with path.open("a+", encoding="utf-8") as file:
        if not _taken(file):
            file.seek(0)
            owner = file.read(32).strip() or "unknown"
            raise SetupError(
                f"{what} (process {owner}) is at work in {folder}.", hint="Wait until it ends, then run this again."
            )
        yield


@contextlib.contextmanager
def setup_turn(folder: Path, *, on_wait: Callable[[], None], deadline_s: float) -> Iterator[None]:
    """Hold the folder's setup lock once whoever has it lets go; `on_wait` is called once where that is not at once.

    Raises:
        SetupError: it was not let go in time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + deadline_s
    with (folder / LOCK_FILE).open("a+", encoding="utf-8") as file:
        has_waited = False
        while not _taken(file):
            if not has_waited:
                on_wait()
                has_waited = True
            if time.monotonic() > deadline:
                raise SetupError(f"Another setup in {folder} did not end within {deadline_s / 3600:.0f} h.")
            time.sleep(TURN_POLL_S)
        yield


def recipe_lock(folder: Path, recipe: str) -> "contextlib.AbstractContextManager[None]":
    """One installation of a recipe at a time. Raises SetupError when entered while another one runs or waits."""
    return setup_lock(folder, file_name=recipe_lock_file(recipe), what=f"Another installation of {recipe}")


def recipe_lock_file(recipe: str) -> str:
    """Its name in the environments folder."""
    return f"setup-{recipe}.lock"


def is_locked(path: Path) -> bool:
    """Whether a living process holds this lock now. Takes it for a moment where nobody does."""
    try:
        with path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as err:  # the folder is gone, or cannot lock
        log.info("%s cannot be locked: %s", path, err)
    return False


def _taken(file: TextIO) -> bool:
    """Take the lock and write our number into it; False where somebody else has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as err:  # a network file system without locks: work on, as everybody there does
        log.warning("%s cannot be locked: %s", file.name, err)
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return True
