"""The panel's SQLite file: opened safely, migrated by number, used from one worker thread."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from backend.errors import PanelError

T = TypeVar("T")

BUSY_TIMEOUT_MS = 5_000
DEADLINE_S = 30.0  # a disk that takes longer for one transaction is broken: say so instead of hanging

MIGRATIONS = (
    """
    CREATE TABLE conversations (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        system_prompt TEXT NOT NULL,
        temperature REAL NOT NULL,
        max_tokens INTEGER,
        engine_id TEXT,
        created_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX conversations_by_owner ON conversations (owner, created_at);
    CREATE TABLE messages (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        role TEXT NOT NULL,
        text TEXT NOT NULL,
        reasoning TEXT NOT NULL,
        state TEXT NOT NULL,
        timing TEXT,
        stop_reason TEXT NOT NULL,
        error TEXT NOT NULL,
        hint TEXT NOT NULL,
        engine_title TEXT NOT NULL,
        created_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX messages_by_conversation ON messages (conversation_id, number);
    CREATE INDEX messages_streaming ON messages (state) WHERE state = 'streaming';
    """,
)
"""Script n brings the schema from version n to n + 1. Released scripts are never edited, only added to."""


class Database:
    """One SQLite file (WAL, mode 0600). All work runs on one thread of its own, in the order it was asked for."""

    def __init__(self, path: Path, *, migrations: tuple[str, ...] = MIGRATIONS) -> None:
        self._path = path
        self._migrations = migrations
        self._thread: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Create or open the file and bring its schema up to date.

        Raises PanelError naming the file where it is damaged, unreadable or of a newer panel; nothing is deleted.
        """
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="database")
        try:
            await self._on_thread(self._connect)
        except BaseException:
            await self.close()
            raise

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`work(connection)` in one transaction: committed when it returns, rolled back when it raises.

        Once begun it is finished even if the caller is cancelled. Raises PanelError where SQLite fails.
        """
        return await self._on_thread(lambda: self._transact(work))

    async def empty_log(self) -> None:
        """Fold the write-ahead log into the file and empty it, so that deleted text is gone from the log as well."""
        await self._on_thread(self._checkpoint)

    async def close(self) -> None:
        """Finish what was asked and close the file. Nothing to do where it is not open."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.get_running_loop().run_in_executor(thread, self._disconnect)
        thread.shutdown(wait=False)

    async def _on_thread(self, call: Callable[[], T]) -> T:
        if self._thread is None:
            raise PanelError(f"The database {self._path} is not open.", hint="The panel is starting or ending.")
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except TimeoutError as err:
            hint = "The disk is overloaded or gone; see 'df' and the kernel log."
            raise PanelError(f"The database {self._path} did not answer in {DEADLINE_S:.0f} s.", hint=hint) from err

    def _connect(self) -> None:
        with self._translated():
            _create_private(self._path)
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=True)
            self._connection = connection
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # a power cut costs the last seconds, never the file
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")  # a deleted chat leaves no bytes behind
            self._migrate(connection)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        known = len(self._migrations)
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > known:
            raise PanelError(
                f"The database {self._path} has schema {version}; this panel knows up to {known}.",
                hint="A newer panel wrote it: run that version, or name another state folder.",
            )
        for number in range(version, known):
            script = f"BEGIN IMMEDIATE; {self._migrations[number]}; PRAGMA user_version = {number + 1}; COMMIT;"
            try:
                connection.executescript(script)
            except sqlite3.Error:
                _rollback(connection)
                raise

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._connection
        assert connection is not None  # set by _connect on this very thread
        with self._translated():
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                _rollback(connection)
                raise
            return result

    def _checkpoint(self) -> None:
        assert self._connection is not None
        with self._translated():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as err:
            raise PanelError(f"The database {self._path} failed: {err}.", hint=_hint(err, self._path)) from err


def _create_private(path: Path) -> None:
    """Make the file before SQLite does, as SQLite would leave its mode to the umask; -wal and -shm take the file's."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)


def _rollback(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.rollback()


def _hint(err: Exception, path: Path) -> str:
    code = getattr(err, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return f"It is damaged; nothing was deleted. Move {path.name}, -wal and -shm away, or put a backup there."
    if code is not None and code & 0xFF == sqlite3.SQLITE_FULL:
        return "The disk is full: free some space and try again."
    return "Check that the disk has space and that this user may write there."
