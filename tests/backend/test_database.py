"""backend.database: opened safely, migrated by number, nothing lost and nothing deleted."""

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backend.database import MIGRATIONS, Database
from backend.errors import PanelError

ONE = ("CREATE TABLE notes (text TEXT NOT NULL) STRICT",)
TWO = (*ONE, "ALTER TABLE notes ADD COLUMN stars INTEGER NOT NULL DEFAULT 3")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "panel.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[Database]:
    database = Database(path, migrations=ONE)
    await database.open()
    yield database
    await database.close()


def insert(connection: sqlite3.Connection, text: str) -> None:
    connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))


def notes(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY rowid")]


async def opened(path: Path, migrations: tuple[str, ...]) -> Database:
    database = Database(path, migrations=migrations)
    await database.open()
    return database


async def test_work_is_committed_when_it_returns(database: Database, path: Path) -> None:
    await database.run(lambda connection: insert(connection, "kept"))
    with sqlite3.connect(path) as other:
        assert notes(other) == ["kept"]


async def test_work_is_rolled_back_when_it_raises(database: Database) -> None:
    def half(connection: sqlite3.Connection) -> None:
        insert(connection, "half")
        raise KeyError("the other half")

    with pytest.raises(KeyError):
        await database.run(half)
    assert await database.run(notes) == []


async def test_work_of_many_callers_runs_one_at_a_time_in_order(database: Database) -> None:
    await asyncio.gather(*(database.run(lambda connection, n=n: insert(connection, str(n))) for n in range(50)))
    assert await database.run(notes) == [str(n) for n in range(50)]


async def test_the_file_and_its_log_are_private_even_with_an_open_umask(database: Database, path: Path) -> None:
    await database.run(lambda connection: insert(connection, "secret"))
    for file in (path, path.with_name("panel.db-wal"), path.with_name("panel.db-shm")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


async def test_a_file_that_was_readable_by_others_is_made_private(path: Path) -> None:
    path.touch(0o644)
    database = await opened(path, ONE)
    await database.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_each_migration_runs_once_and_keeps_what_is_there(path: Path) -> None:
    first = await opened(path, ONE)
    await first.run(lambda connection: insert(connection, "old"))
    await first.close()
    for _ in range(2):
        second = await opened(path, TWO)
        rows = await second.run(lambda connection: connection.execute("SELECT text, stars FROM notes").fetchall())
        await second.close()
        assert rows == [("old", 3)]


async def test_a_migration_that_fails_half_way_changes_nothing(path: Path) -> None:
    await (await opened(path, ONE)).close()
    broken = Database(path, migrations=(*ONE, "CREATE TABLE more (n INTEGER); INSERT INTO nowhere VALUES (1)"))
    with pytest.raises(PanelError, match="no such table: nowhere"):
        await broken.open()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'more'").fetchone() is None


async def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    await (await opened(path, TWO)).close()
    before = path.read_bytes()
    with pytest.raises(PanelError, match=r"panel\.db has schema 2; this panel knows up to 1") as refusal:
        await opened(path, ONE)
    assert "newer panel" in refusal.value.hint
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["garbage", "truncated", "torn"])
async def test_a_damaged_file_is_named_and_not_deleted(path: Path, damage: str) -> None:
    database = await opened(path, ONE)
    for n in range(200):
        await database.run(lambda connection, n=n: insert(connection, f"{n}" * 500))
    await database.close()
    whole = path.read_bytes()
    broken = {
        "garbage": b"not a database at all" * 400,
        "truncated": whole[:6000],
        "torn": whole[:100] + b"\xff" * 8000,
    }
    path.write_bytes(broken[damage])
    with pytest.raises(PanelError, match=str(path)) as failure:
        database = Database(path, migrations=ONE)
        await database.open()
        try:
            await database.run(notes)
        finally:
            await database.close()
    assert "nothing was deleted" in failure.value.hint
    assert path.read_bytes() == broken[damage]


async def test_a_folder_that_is_missing_is_a_plain_error(tmp_path: Path) -> None:
    with pytest.raises(PanelError, match=r"nowhere/panel\.db failed"):
        await opened(tmp_path / "nowhere" / "panel.db", ONE)


async def test_a_full_disk_is_a_plain_error_and_the_database_goes_on(database: Database) -> None:
    pages = await database.run(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])
    await database.run(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages + 1}").fetchone())
    with pytest.raises(PanelError) as failure:
        await database.run(lambda connection: insert(connection, "x" * 100_000))
    assert "full" in failure.value.hint
    await database.run(lambda connection: insert(connection, "small"))
    assert await database.run(notes) == ["small"]


async def test_a_lock_held_by_another_program_is_a_plain_error_after_the_busy_timeout(
    database: Database, path: Path
) -> None:
    await database.run(lambda connection: None)
    database_timeout_ms = 50
    assert database._connection is not None and database._thread is not None
    await asyncio.wrap_future(
        database._thread.submit(database._connection.execute, f"PRAGMA busy_timeout = {database_timeout_ms}")
    )
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(PanelError, match="locked"):
        await database.run(notes)
    other.execute("ROLLBACK")
    other.close()
    assert await database.run(notes) == []


async def test_after_closing_the_database_says_that_it_is_not_open(path: Path) -> None:
    database = await opened(path, ONE)
    await database.close()
    await database.close()
    with pytest.raises(PanelError, match="is not open"):
        await database.run(notes)


async def test_the_panels_own_schema_is_at_its_newest_number(path: Path) -> None:
    database = await opened(path, MIGRATIONS)
    version = await database.run(lambda connection: connection.execute("PRAGMA user_version").fetchone()[0])
    await database.close()
    assert version == len(MIGRATIONS)
