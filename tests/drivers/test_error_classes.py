"""What the servers report, one by one, from the statement that meets it to the class that says what to do about it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from faststream_sql.drivers import open_pool
from faststream_sql.drivers.base import Pool, Use
from faststream_sql.drivers.url import parse_url
from faststream_sql.errors import (
    ConnectionLostError,
    CorruptError,
    DatabaseError,
    DataError,
    NoSpaceError,
    ReadOnlyError,
    StatementError,
    TransientError,
    UnavailableError,
)
from tests.drivers.pools import fails, opened, two, works

# --- Postgres -----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[Pool]:
    async with opened(postgres_url) as pool:
        async with pool.connection(Use.STATEMENT, "test") as connection:
            await connection.script(
                "CREATE TABLE t (id int PRIMARY KEY, small smallint, note text NOT NULL DEFAULT '');"
                "INSERT INTO t (id) SELECT n FROM generate_series(1, 3) AS n"
            )
        yield pool
        await works(pool)


async def test_deadlock(postgres: Pool) -> None:
    async with two(postgres) as (first, second):
        await first.begin()
        await second.begin()
        await first.script("SET LOCAL deadlock_timeout = '50ms'")
        await first.execute("UPDATE t SET small = 1 WHERE id = 1")
        await second.execute("UPDATE t SET small = 1 WHERE id = 2")
        waits = asyncio.create_task(second.execute("UPDATE t SET small = 2 WHERE id = 1"))
        error = await fails(first, "UPDATE t SET small = 2 WHERE id = 2")
        assert (type(error), error.code) == (TransientError, "40P01")
        assert first.in_transaction
        assert not first.broken
        await first.rollback()
        await waits
        await second.commit()


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_serialization_failure(postgres: Pool, isolation: str) -> None:
    async with two(postgres) as (first, second):
        await first.begin(isolation)
        await first.fetch("SELECT * FROM t")
        await second.execute("UPDATE t SET small = 1 WHERE id = 1")
        error = await fails(first, "UPDATE t SET small = 2 WHERE id = 1")
        assert (type(error), error.code) == (TransientError, "40001")
        await first.rollback()


async def test_lock_timeout(postgres: Pool) -> None:
    async with two(postgres) as (first, second):
        await first.begin()
        await first.execute("UPDATE t SET small = 1 WHERE id = 1")
        await second.begin()
        await second.script("SET LOCAL lock_timeout = '20ms'")
        error = await fails(second, "UPDATE t SET small = 2 WHERE id = 1")
        assert (type(error), error.code) == (TransientError, "55P03")
    async with postgres.connection(Use.STATEMENT, "test") as third:
        assert await third.execute("UPDATE t SET small = 3 WHERE id = 1") == 1, "both transactions were rolled back as they were released"


async def test_statement_timeout(postgres: Pool) -> None:
    async with postgres.connection(Use.STATEMENT, "test") as connection:
        await connection.begin()
        await connection.script("SET LOCAL statement_timeout = '20ms'")
        error = await fails(connection, "SELECT pg_sleep(5)")
        assert (type(error), error.code) == (TransientError, "57014")
        assert not connection.broken


async def test_idle_in_transaction_timeout(postgres: Pool) -> None:
    async with postgres.connection(Use.STATEMENT, "test") as connection:
        await connection.begin()
        await connection.script("SET LOCAL idle_in_transaction_session_timeout = '20ms'")
        while not connection.broken:
            await asyncio.sleep(0.05)
            try:
                await connection.fetch("SELECT 1")
            except ConnectionLostError as error:
                assert error.code in {"25P03", ""}  # noqa: PT017
                break
        assert connection.broken


@pytest.mark.parametrize(
    ("text", "args", "kind", "code"),
    [
        ("SELECT * FROM nowhere", (), StatementError, "42P01"),
        ("SELECT nothing FROM t", (), StatementError, "42703"),
        ("SELEC", (), StatementError, "42601"),
        ("INSERT INTO t (id) VALUES (1)", (), DataError, "23505"),
        ("INSERT INTO t (id, note) VALUES (9, NULL)", (), DataError, "23502"),
        ("SELECT $1::text::int", ("many",), DataError, "22P02"),
        ("UPDATE t SET small = $1::int WHERE id = 1", (70000,), DataError, "22003"),
        ("UPDATE t SET small = $1 WHERE id = 1", (70000,), DataError, "22000"),  # refused by asyncpg, before it is sent
        ("UPDATE t SET note = $1 WHERE id = 1", ("a\0b",), DataError, "22021"),
        ("UPDATE t SET note = $1 WHERE id = 1", ("\ud800",), DataError, "22000"),
        ("UPDATE t SET note = $1 WHERE id = 1", (5,), DataError, "22000"),
        ("SELECT 1 / 0", (), DataError, "22012"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isprintable() else None,
)
async def test_statements_and_values(postgres: Pool, text: str, args: tuple[object, ...], kind: type[DatabaseError], code: str) -> None:
    async with postgres.connection(Use.STATEMENT, "test") as connection:
        error = await fails(connection, text, *args)
        assert (type(error), error.code) == (kind, code), error
        assert not connection.broken
        assert [tuple(row) for row in await connection.fetch("SELECT count(*) FROM t")] == [(3,)], "the session goes on"


async def test_a_missing_privilege(postgres: Pool) -> None:
    role = "fs_test_nobody"
    async with postgres.connection(Use.STATEMENT, "test") as connection:
        await connection.begin()
        await connection.script(f"CREATE ROLE {role}; SET LOCAL ROLE {role}")
        error = await fails(connection, "SELECT * FROM public.t")
        assert (type(error), error.code) == (StatementError, "42501")
        await connection.rollback()


async def test_a_read_only_transaction(postgres: Pool) -> None:
    async with postgres.connection(Use.STATEMENT, "test") as connection:
        await connection.begin()
        await connection.script("SET TRANSACTION READ ONLY")
        error = await fails(connection, "UPDATE t SET small = 1")
        assert (type(error), error.code) == (ReadOnlyError, "25006")


async def test_a_prepared_statement_whose_table_changed(postgres: Pool) -> None:
    async with two(postgres) as (first, second):
        await first.fetch("SELECT * FROM t WHERE id = $1", [1])
        await second.script("ALTER TABLE t ADD COLUMN more int")
        assert len((await first.fetch("SELECT * FROM t WHERE id = $1", [1]))[0]) == 4
        await first.begin()
        await first.fetch("SELECT * FROM t WHERE id = $1", [1])
        await first.rollback()
        await second.script("ALTER TABLE t DROP COLUMN more")
        await first.begin()
        error = await fails(first, "SELECT * FROM t WHERE id = $1", 1)
        assert type(error) is TransientError
        await first.rollback()
        assert len((await first.fetch("SELECT * FROM t WHERE id = $1", [1]))[0]) == 3


# --- SQLite -------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "t.db"
    with sqlite3.connect(found) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, small INTEGER CHECK (small < 100), note TEXT NOT NULL DEFAULT '')")
        database.execute("INSERT INTO t (id) VALUES (1), (2), (3)")
    database.close()
    return found


@pytest.fixture
async def sqlite(path: Path) -> AsyncIterator[Pool]:
    async with opened(f"sqlite:///{path}?timeout=0.05") as pool:
        yield pool
        await works(pool)


@pytest.fixture
def rival(path: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(path, isolation_level=None)
    yield database
    database.close()


async def test_busy(sqlite: Pool, rival: sqlite3.Connection) -> None:
    rival.execute("BEGIN IMMEDIATE")
    async with sqlite.connection(Use.STATEMENT, "test") as connection:
        for text in ("UPDATE t SET small = 1", "BEGIN IMMEDIATE"):
            error = await fails(connection, text)
            assert (type(error), error.code) == (TransientError, "SQLITE_BUSY")
        assert not connection.broken
        rival.execute("ROLLBACK")
        assert await connection.execute("UPDATE t SET small = 1") == 3


async def test_a_snapshot_that_is_too_old_to_write(sqlite: Pool, rival: sqlite3.Connection) -> None:
    async with sqlite.connection(Use.STATEMENT, "test") as connection:
        await connection.execute("BEGIN")
        await connection.fetch("SELECT * FROM t")
        rival.execute("UPDATE t SET small = 2")
        error = await fails(connection, "UPDATE t SET small = 1")
        assert (type(error), error.code) == (TransientError, "SQLITE_BUSY")


@pytest.mark.parametrize(
    ("text", "args", "kind", "code"),
    [
        ("INSERT INTO t (id) VALUES (1)", (), DataError, "SQLITE_CONSTRAINT"),
        ("UPDATE t SET small = 100", (), DataError, "SQLITE_CONSTRAINT"),
        ("INSERT INTO t (id) VALUES ('many')", (), DataError, "SQLITE_MISMATCH"),
        ("SELECT * FROM nowhere", (), StatementError, "SQLITE_ERROR"),
        ("SELECT nothing FROM t", (), StatementError, "SQLITE_ERROR"),
        ("SELEC", (), StatementError, "SQLITE_ERROR"),
        ("UPDATE t SET note = ?1", (2**63,), DataError, ""),
        ("UPDATE t SET note = ?1", ("\ud800",), DataError, ""),
        ("UPDATE t SET note = ?1", (object(),), DataError, ""),
        ("SELECT ?1", (), DataError, ""),
        ("SELECT zeroblob(2000000000)", (), DataError, "SQLITE_TOOBIG"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isprintable() else None,
)
async def test_statements_and_values_of_sqlite(
    sqlite: Pool, text: str, args: tuple[object, ...], kind: type[DatabaseError], code: str
) -> None:
    async with sqlite.connection(Use.STATEMENT, "test") as connection:
        error = await fails(connection, text, *args)
        assert (type(error), error.code) == (kind, code), error
        assert not connection.broken


async def test_a_file_that_takes_no_writes(path: Path) -> None:
    async with opened(f"sqlite:///{path}") as pool, pool.connection(Use.STATEMENT, "test") as connection:
        await connection.execute("PRAGMA query_only = ON")
        error = await fails(connection, "UPDATE t SET small = 1")
        assert (type(error), error.code) == (ReadOnlyError, "SQLITE_READONLY")


async def test_a_full_file(path: Path) -> None:
    async with opened(f"sqlite:///{path}") as pool, pool.connection(Use.STATEMENT, "test") as connection:
        ((pages,),) = await connection.fetch("PRAGMA page_count")
        await connection.fetch(f"PRAGMA max_page_count = {pages}")
        error = await fails(connection, "UPDATE t SET note = ?1", "x" * 100_000)
        assert (type(error), error.code) == (NoSpaceError, "SQLITE_FULL")
        await connection.fetch("PRAGMA max_page_count = 1000000")
        assert await connection.execute("UPDATE t SET note = ?1", ["x" * 100_000]) == 3


async def test_no_file_and_no_database(tmp_path: Path) -> None:
    pool = open_pool(parse_url(f"sqlite:///{tmp_path}/nowhere/t.db"), size=1, acquire_timeout=1.0, command_timeout=1.0)
    with pytest.raises(UnavailableError, match="its folder does not exist"):
        await pool.open()
    await asyncio.to_thread((tmp_path / "text.db").write_text, "this is no database, and long enough to be taken for one" * 20)
    pool = open_pool(parse_url(f"sqlite:///{tmp_path}/text.db"), size=1, acquire_timeout=1.0, command_timeout=1.0)
    with pytest.raises((UnavailableError, CorruptError), match="not a database"):
        await pool.open()
