"""One setup at a time in a folder, by a lock that the kernel gives back when its holder dies, however it dies."""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from backend.errors import SetupError

log = logging.getLogger(__name__)

LOCK_FILE = "setup.lock"


@contextlib.contextmanager
def setup_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's setup lock, or refuse at once.

    Raises:
        SetupError: another setup holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_FILE
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            file.seek(0)
            owner = file.read(32).strip() or "unknown"
            raise SetupError(
                f"Another setup (process {owner}) is at work in {folder}.",
                hint="Wait until it ends, then run this again.",
            ) from err
        except OSError as err:  # a network file system without locks: work on, as everybody there does
            log.warning("%s cannot be locked: %s", path, err)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
