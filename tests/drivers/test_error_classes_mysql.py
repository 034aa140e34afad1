"""As `test_error_classes.py`, for MySQL and MariaDB."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncmy
import pytest

from faststream_sql.drivers.asyncmy_errors import class_of
from faststream_sql.drivers.base import Connection, Pool, Use
from faststream_sql.errors import (
    ConnectionLostError,
    DatabaseError,
    DataError,
    ReadOnlyError,
    StatementError,
    TransientError,
    UnavailableError,
)
from tests.databases import MySQLDatabase
from tests.drivers.pools import fails, opened, two, works
from tests.servers import PrivateMariaDB, ServerUnavailableError, skip_without


@pytest.fixture
async def mysql(mysql_url: str) -> AsyncIterator[Pool]:
    async with opened(mysql_url) as pool:
        async with pool.connection(Use.STATEMENT, "test") as connection:
            await connection.script(
                "CREATE TABLE t (id int PRIMARY KEY, small smallint, note varchar(20) NOT NULL DEFAULT '', at datetime(6));"
                "INSERT INTO t (id) VALUES (1), (2), (3);"
                "CREATE TABLE child (t int NOT NULL REFERENCES t (id)); INSERT INTO child VALUES (3)"
            )
        yield pool
        await works(pool)


async def number_of(connection: Connection) -> int:
    """By which `KILL` knows the session."""
    return int((await connection.fetch("SELECT CONNECTION_ID()"))[0][0])


async def until_process(watcher: Connection, number: int, like: str, *, there: bool = True) -> None:
    """Wait until a session runs a statement like that, or none any more."""
    for _ in range(1000):
        query = "SELECT 1 FROM information_schema.processlist WHERE id = %s AND COALESCE(info, '') LIKE %s"
        if bool(await watcher.fetch(query, [number, like])) is there:
            return
        await asyncio.sleep(0.01)
    pytest.fail("what was waited for never came")


# --- locks -------------------------------------------------------------------------------------------------------------------------------


async def test_deadlock(mysql: Pool) -> None:
    async with two(mysql) as (first, second):
        await first.begin()
        await second.begin()
        await first.execute("UPDATE t SET small = 1 WHERE id = 1")
        await second.execute("UPDATE t SET small = 1 WHERE id IN (2, 3)")  # the one that changed less is the one that fails
        waits = asyncio.create_task(second.execute("UPDATE t SET small = 2 WHERE id = 1"))
        error = await fails(first, "UPDATE t SET small = 2 WHERE id = 2")
        assert (type(error), error.code) == (TransientError, "1213")
        assert not first.broken
        await first.rollback()
        assert await waits == 1
        await second.commit()


async def test_lock_wait(mysql: Pool) -> None:
    """It undoes its statement alone: the transaction goes on, and must be rolled back."""
    async with two(mysql) as (first, second):
        await first.begin()
        await first.execute("UPDATE t SET small = 1 WHERE id = 1")
        await second.begin()
        await second.execute("UPDATE t SET small = 5 WHERE id = 2")
        await second.script("SET innodb_lock_wait_timeout = 0")
        error = await fails(second, "UPDATE t SET small = 2 WHERE id = 1")
        assert (type(error), error.code) == (TransientError, "1205")
        assert second.in_transaction
        assert not second.broken
    async with mysql.connection(Use.STATEMENT, "test") as third:
        assert await third.execute("UPDATE t SET small = 3 WHERE id IN (1, 2)") == 2, "both were rolled back as they were released"
        assert not third.in_transaction


async def test_a_table_that_is_being_altered(mysql: Pool) -> None:
    async with two(mysql) as (first, second):
        await first.begin()
        await first.fetch("SELECT * FROM t")
        await second.script("SET lock_wait_timeout = 0")
        error = await fails(second, "ALTER TABLE t ADD COLUMN more int")
        assert (type(error), error.code) == (TransientError, "1205")
        await first.rollback()


async def test_a_record_that_has_changed(mysql: Pool) -> None:
    async with two(mysql) as (first, second):
        try:
            await first.script("SET innodb_snapshot_isolation = ON")
        except DatabaseError:
            pytest.skip("a MariaDB of before innodb_snapshot_isolation, or MySQL")
        await first.begin("repeatable_read")
        await first.fetch("SELECT * FROM t")
        await second.execute("UPDATE t SET small = 1 WHERE id = 1")
        error = await fails(first, "UPDATE t SET small = 2 WHERE id = 1")
        assert (type(error), error.code) == (TransientError, "1020")
        await first.rollback()
        await first.script("SET innodb_snapshot_isolation = OFF")


# --- what is ended from outside ----------------------------------------------------------------------------------------------------------


async def test_a_killed_query(mysql: Pool) -> None:
    async with two(mysql) as (first, second):
        number = await number_of(first)
        running = asyncio.create_task(fails(first, "SELECT sleep(20) FROM t WHERE id = 1 FOR UPDATE"))
        await until_process(second, number, "SELECT sleep%")
        await second.script(f"KILL QUERY {number}")
        error = await running
        assert (type(error), error.code) == (TransientError, "1317")
        assert not first.broken


async def test_a_statement_that_takes_too_long(mysql: Pool) -> None:
    async with mysql.connection(Use.STATEMENT, "test") as connection:
        try:
            await connection.script("SET max_statement_time = 0.01")
        except DatabaseError:
            pytest.skip("MySQL, which has none for writes")
        error = await fails(connection, "UPDATE t SET small = 1 + sleep(5)")
        assert (type(error), error.code) == (TransientError, "1969")
        assert not connection.broken
        await connection.script("SET max_statement_time = 0")


@pytest.mark.parametrize("idle", [False, True], ids=["at work", "between two statements"])
async def test_a_killed_session(mysql: Pool, idle: bool) -> None:
    async with two(mysql) as (first, second):
        await first.begin()
        await first.execute("UPDATE t SET small = 9 WHERE id = 1")
        number = await number_of(first)
        running = None if idle else asyncio.create_task(fails(first, "SELECT sleep(20)"))
        if running is not None:
            await until_process(second, number, "SELECT sleep%")
        await second.script(f"KILL {number}")
        error = await fails(first, "UPDATE t SET small = 8 WHERE id = 1") if running is None else await running
        assert type(error) is ConnectionLostError
        assert error.code in {"1927", "2013", "2006", "1317"}
        assert first.broken
        await second.script("SET innodb_lock_wait_timeout = 5")
        assert await second.fetch("SELECT small FROM t WHERE id = 1 FOR UPDATE") == [(None,)], "it was rolled back"


async def test_a_session_that_was_killed_in_the_pool_is_replaced(mysql: Pool, mysql_database: MySQLDatabase) -> None:
    async with two(mysql) as (first, second):
        numbers = {await number_of(first), await number_of(second)}
    await asyncio.to_thread(mysql_database.end_sessions)
    async with two(mysql) as (first, second):
        assert not {await number_of(first), await number_of(second)} & numbers


async def test_a_session_that_was_idle_for_too_long_is_replaced(mysql: Pool) -> None:
    async with mysql.connection(Use.STATEMENT, "test") as connection:
        number = await number_of(connection)
        await connection.script("SET wait_timeout = 1")
    async with two(mysql) as (last, other):
        watcher = other if await number_of(last) == number else last
        await until_process(watcher, number, "%", there=False)
    await works(mysql)


# --- statements and values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "args", "kind", "code"),
    [
        ("SELECT * FROM nowhere", (), StatementError, "1146"),
        ("SELECT * FROM no_such_database.t", (), StatementError, ("1049", "1146")),
        ("SELECT nothing FROM t", (), StatementError, "1054"),
        ("SELEC", (), StatementError, "1064"),
        ("INSERT INTO t (id, small) VALUES (7)", (), StatementError, "1136"),
        ("SELECT * FROM t FORCE INDEX (missing)", (), StatementError, "1176"),
        ("INSERT INTO child VALUES ()", (), StatementError, "1364"),
        ("SELECT CONVERT(note USING latin1) = %s FROM t", ("\u0416",), StatementError, "1267"),
        ("INSERT INTO t (id) VALUES (1)", (), DataError, "1062"),
        ("INSERT INTO t (id, note) VALUES (9, NULL)", (), DataError, "1048"),
        ("UPDATE t SET small = %s WHERE id = 1", (70000,), DataError, "1264"),
        ("UPDATE t SET small = %s WHERE id = 1", ("many",), DataError, "1366"),
        ("UPDATE t SET note = %s WHERE id = 1", ("x" * 21,), DataError, "1406"),
        ("UPDATE t SET note = %s WHERE id = 1", (b"\xff\xfe",), DataError, "1366"),
        ("UPDATE t SET at = %s WHERE id = 1", ("2024-02-30",), DataError, "1292"),
        ("INSERT INTO child VALUES (99)", (), DataError, "1452"),
        ("DELETE FROM t WHERE id = 3", (), DataError, "1451"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isprintable() else None,
)
async def test_statements_and_values(
    mysql: Pool, text: str, args: tuple[object, ...], kind: type[DatabaseError], code: str | tuple[str, ...]
) -> None:
    async with mysql.connection(Use.STATEMENT, "test") as connection:
        error = await fails(connection, text, *args)
        assert type(error) is kind, error
        assert error.code in code if isinstance(code, tuple) else error.code == code, error
        assert not connection.broken
        assert [tuple(row) for row in await connection.fetch("SELECT count(*) FROM t")] == [(3,)], "the session goes on"


async def test_an_error_in_the_middle_of_several_statements(mysql: Pool) -> None:
    """What comes after it is not run, and the session is not out of step."""
    async with mysql.connection(Use.STATEMENT, "test") as connection:
        with pytest.raises(StatementError):
            await connection.script("UPDATE t SET small = 1; SELECT nothing FROM t; UPDATE t SET small = 2")
        assert not connection.broken
        assert [tuple(row) for row in await connection.fetch("SELECT DISTINCT small FROM t")] == [(1,)]
        await connection.begin()
        assert type(await fails(connection, "SELECT nothing FROM t")) is StatementError
        assert connection.in_transaction
        await connection.rollback()
        assert not connection.in_transaction


async def test_a_read_only_transaction(mysql: Pool) -> None:
    async with mysql.connection(Use.STATEMENT, "test") as connection:
        await connection.script("START TRANSACTION READ ONLY")
        error = await fails(connection, "UPDATE t SET small = 1")
        assert (type(error), error.code) == (ReadOnlyError, "1792")


# --- a server's own limits ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_server() -> Iterator[PrivateMariaDB]:
    try:
        with PrivateMariaDB(["--max-allowed-packet=1M", "--max-connections=10", "--max-statement-time=0"]) as server:
            yield server
    except ServerUnavailableError as error:
        skip_without(error)


@pytest.mark.mysql
async def test_a_packet_that_is_too_large(small_server: PrivateMariaDB) -> None:
    async with opened(small_server.url()) as pool, pool.connection(Use.STATEMENT, "test") as connection:
        most = 1024 * 1024
        rest = len("SELECT LENGTH('')")
        assert [tuple(row) for row in await connection.fetch("SELECT LENGTH(%s)", ["x" * (most - rest - 2)])] == [(most - rest - 2,)]
        error = await fails(connection, "SELECT LENGTH(%s)", "x" * (most - rest - 1))
        assert type(error) is DataError
        assert "max_allowed_packet of 1048576" in str(error)
        assert not connection.broken, "it was not even sent"
        assert [tuple(row) for row in await connection.fetch("SELECT 1")] == [(1,)]


@pytest.mark.mysql
async def test_a_packet_that_the_server_refuses(small_server: PrivateMariaDB) -> None:
    """The server closes the connection after it. Of a session that a caller lent, the limit is not known."""
    async with opened(small_server.url()) as pool:
        raw = await asyncmy.connect(host="127.0.0.1", port=small_server.port, user="root")
        lent = await pool.borrow(raw)
        error = await fails(lent, "SELECT LENGTH(%s)", "x" * 1_500_000)
        assert (type(error), error.code) in {(DataError, "1153"), (ConnectionLostError, "2013"), (ConnectionLostError, "2006")}
        assert lent.broken
        raw.close()


@pytest.mark.mysql
async def test_too_many_connections(small_server: PrivateMariaDB) -> None:
    async with opened(small_server.url(), size=20) as pool:
        held: list[Connection] = []

        async def take_all() -> None:
            while True:
                held.append(await pool.acquire(Use.STATEMENT, "test"))

        with pytest.raises(UnavailableError) as caught:
            await take_all()
        assert caught.value.code == "1040"
        for connection in held:
            await pool.release(connection)
        await works(pool)


@pytest.mark.mysql
async def test_a_server_that_takes_no_writes(small_server: PrivateMariaDB) -> None:
    async with opened(small_server.url()) as pool, pool.connection(Use.STATEMENT, "test") as root:
        await root.script(
            "CREATE OR REPLACE TABLE t (id int); CREATE OR REPLACE USER reader@`%` IDENTIFIED BY 'x'; GRANT ALL ON test.* TO reader@`%`; "
            "SET GLOBAL read_only = ON"
        )
        async with opened(small_server.url().replace("root@", "reader:x@")) as other, other.connection(Use.STATEMENT, "test") as connection:
            error = await fails(connection, "INSERT INTO t VALUES (1)")
            assert (type(error), error.code) == (ReadOnlyError, "1290")
        await root.script("SET GLOBAL read_only = OFF")


@pytest.mark.parametrize(
    ("number", "kind"),
    [(3024, TransientError), (1615, TransientError), (1047, UnavailableError), (1836, ReadOnlyError), (4031, ConnectionLostError)],
)
def test_what_only_other_servers_report(number: int, kind: type[DatabaseError]) -> None:
    """MySQL's statement timeout, a Galera node that is not in its cluster, a failover, a session that MySQL closed for idling."""
    assert class_of(number) is kind
