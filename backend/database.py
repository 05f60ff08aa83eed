"""The panel's SQLite file: opened safely, migrated by number, used from one worker thread."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class Database:
    """One SQLite file (WAL, mode 0600). All work runs on one thread of its own, in order."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def open(self) -> None:
        """Create or open the file and bring its schema up to date. Raises PanelError naming the file."""

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`work(connection)` in one transaction: committed when it returns, rolled back when it raises."""
        raise NotImplementedError

    async def close(self) -> None:
        """Finish what was asked and close the file."""
