"""Pools and engines that the service owns: borrowed from, given back as they were, never closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiosqlite
import asyncmy
import asyncpg
import pytest
from faststream import FastStream
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from faststream_sql import DeclarationError, PoolTimeoutError, QueueTable, SQLBroker
from faststream_sql.annotations import SQLMessage
from faststream_sql.drivers import service_pool
from faststream_sql.drivers.base import Use
from tests.broker.test_lifecycle import until
from tests.broker.test_specification import documents
from tests.cancellation import Moment, cancelled_at

CANARY = "s3cr3t-CANARY"
ROW_LOCK = QueueTable("mail_jobs", id="id", group="name", attempt="attempt", retry_after="retry_after", payload="payload")
ADVISORY = QueueTable("keyed_jobs", id="id", group="name", attempt="attempt", payload="payload", advisory_lock="job-{id}")


class Own(NamedTuple):
    """A pool of the service's: what the broker gets, one value by it, and how it is closed."""

    given: Any
    value: Callable[[str], Awaitable[Any]]
    close: Callable[[], Awaitable[Any]]
    database: Any
    lent: Callable[[], int]
    """How many connections it has lent and not got back."""


async def asyncpg_pool(url: str, database: Any) -> Own:
    pool = await asyncpg.create_pool(url, min_size=1, max_size=4)
    return Own(pool, pool.fetchval, pool.close, database, lambda: pool.get_size() - pool.get_idle_size())


async def asyncmy_pool(url: str, database: Any) -> Own:
    at = urlsplit(url)
    arguments = {"host": at.hostname, "port": at.port, "user": at.username, "password": at.password or "", "db": at.path[1:]}
    pool = await asyncmy.create_pool(minsize=1, maxsize=4, **arguments)

    async def value(statement: str) -> Any:
        async with pool.acquire() as connection, connection.cursor() as cursor:
            await cursor.execute(statement)
            return (await cursor.fetchone())[0]

    async def close() -> None:
        pool.close()
        await pool.wait_closed()

    return Own(pool, value, close, database, lambda: pool.size - pool.freesize)


def engine_of(scheme: str, **options: Any) -> Callable[[str, Any], Awaitable[Own]]:
    async def make(url: str, database: Any) -> Own:
        engine: Any = create_async_engine(url.replace(url.partition(":")[0], scheme, 1), **options)
        return Own(
            engine, lambda statement: scalar(engine, statement), engine.dispose, database, getattr(engine.pool, "checkedout", lambda: 0)
        )

    return make


async def scalar(engine: AsyncEngine, statement: str) -> Any:
    async with engine.connect() as connection:
        return (await connection.execute(text(statement))).scalar()


OWNERS: dict[str, Callable[[str, Any], Awaitable[Own]]] = {
    "asyncpg.Pool": asyncpg_pool,
    "asyncmy.Pool": asyncmy_pool,
    "engine on asyncpg": engine_of("postgresql+asyncpg"),
    "engine on asyncmy": engine_of("mysql+asyncmy"),
    "engine on asyncmy without a pool": engine_of("mysql+asyncmy", poolclass=NullPool),
    "engine on aiosqlite": engine_of("sqlite+aiosqlite"),
}


def backend_of(name: str) -> str:
    return "postgres" if "asyncpg" in name else "mysql" if "asyncmy" in name else "sqlite"


def marked(name: str) -> Any:
    return pytest.param(name, marks=[getattr(pytest.mark, mark) for mark in {backend_of(name)} - {"sqlite"}])


@pytest.fixture(params=[marked(name) for name in OWNERS])
def owner(request: pytest.FixtureRequest) -> tuple[str, str, Any]:
    """The kind of pool, the URL, and the database behind it, whose sessions a test may end (None for a file)."""
    backend = backend_of(request.param)
    database = None if backend == "sqlite" else request.getfixturevalue(f"{backend}_database")
    return request.param, request.getfixturevalue(f"{backend}_url"), database


@pytest.fixture
async def own(owner: tuple[str, str, Any]) -> AsyncIterator[Own]:
    name, url, database = owner
    found = await OWNERS[name](url, database)
    yield found
    await found.close()


async def through(own: Own, table: QueueTable, **options: Any) -> list[tuple[str, int | None]]:
    """Publish, handle twice (the first delivery is given back), stop; what was handled, with its attempt."""
    broker = SQLBroker(own.given, table=table, logger=None, poll_interval=0.05, **options)
    got: list[tuple[str, int | None]] = []

    @broker.subscriber("jobs", max_workers=2)
    async def handle(body: str, message: SQLMessage) -> None:
        got.append((body, message.attempt))
        if message.attempt == 1:
            await message.nack()

    await broker.create_tables()
    await broker.start()
    await broker.publish_batch("one", "two", queue="jobs")
    await until(lambda: len(got) == 4)
    await broker.stop()
    return sorted(got)


TWICE = [("one", 1), ("one", 2), ("two", 1), ("two", 2)]


async def test_leases_go_through_it_and_it_stays_open(own: Own) -> None:
    assert await through(own, QueueTable.default()) == TWICE
    assert await own.value("SELECT COUNT(*) FROM faststream_queue") == 0


async def test_row_locks_go_through_it(own: Own) -> None:
    if own.database is None:
        with pytest.raises(DeclarationError, match="row lock"):
            await through(own, ROW_LOCK)
        return
    assert await through(own, ROW_LOCK) == TWICE
    assert await own.value("SELECT COUNT(*) FROM mail_jobs") == 0


async def test_its_sessions_are_as_they_were(own: Own, owner: tuple[str, str, Any]) -> None:
    mysql = "SELECT CONCAT(@@autocommit, @@sql_mode, @@innodb_lock_wait_timeout)"
    statement = {"postgres": "SHOW transaction_isolation", "mysql": mysql, "sqlite": "PRAGMA journal_mode"}[backend_of(owner[0])]
    broker = SQLBroker(own.given, logger=None)
    before = await own.value(statement)
    await broker.create_tables()
    await broker.publish("one", "jobs")
    await broker.stop()
    assert await own.value(statement) == before
    assert await own.value("SELECT COUNT(*) FROM faststream_queue") == 1, "it was committed"


@pytest.mark.parametrize("owner", [marked(name) for name in OWNERS if backend_of(name) != "sqlite"], indirect=True)
async def test_sessions_that_ended_are_not_borrowed_again(own: Own) -> None:
    broker = SQLBroker(own.given, logger=None)
    await broker.create_tables()
    await broker.publish("one", "jobs")
    await asyncio.to_thread(own.database.end_sessions)
    await asyncio.sleep(0.1)  # the loop reads that they ended
    await broker.publish("two", "jobs")
    await broker.stop()
    assert await own.value("SELECT COUNT(*) FROM faststream_queue") == 2


@pytest.mark.parametrize("moment", ["waiting", "woken"])
@pytest.mark.parametrize("owner", [marked(name) for name in OWNERS if "without" not in name], indirect=True)
async def test_whatever_is_cancelled_goes_back(own: Own, moment: Moment) -> None:
    for place in range(1, 9):
        pool = service_pool(own.given, size=4, acquire_timeout=5.0, command_timeout=10.0)
        await pool.open()
        _, got = await cancelled_at(pool.acquire(Use.STATEMENT, "test"), place, moment)
        connection = await pool.acquire(Use.STATEMENT, "test") if isinstance(got, BaseException) else got
        await connection.fetch("SELECT 1")
        await cancelled_at(pool.release(connection), place, moment)
        await pool.close(1.0)
        assert pool.in_use == 0
        await until(lambda: own.lent() == 0)
    assert await own.value("SELECT 1") == 1


@pytest.mark.postgres
async def test_a_pool_that_is_empty_says_so(postgres_url: str) -> None:
    pool = await asyncpg.create_pool(postgres_url, min_size=1, max_size=2)
    broker = SQLBroker(pool, logger=None, acquire_timeout=0.2)
    await broker.create_tables()
    async with pool.acquire(), pool.acquire():
        with pytest.raises(PoolTimeoutError, match=r"pool of 2 gave no connection in 0.2 s"):
            await broker.publish("one", "jobs")
    await broker.publish("two", "jobs")
    await broker.stop()
    await pool.close()


async def test_an_engine_of_a_file_lends_it_with_its_own_settings(tmp_path: Any) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'jobs.db'}")
    broker = SQLBroker(engine, logger=None)
    await broker.create_tables()
    await broker.publish("one", "jobs")
    async with engine.connect() as connection:
        raw: aiosqlite.Connection = (await connection.get_raw_connection()).driver_connection
        assert (raw.isolation_level, raw.text_factory) == ("", str)
        await connection.execute(text("DELETE FROM faststream_queue"))
        await connection.rollback()
    assert await scalar(engine, "SELECT COUNT(*) FROM faststream_queue") == 1, "the service's transactions are its own"
    await broker.stop()
    await engine.dispose()


@pytest.mark.mysql
async def test_a_pool_that_cannot_write_every_text_is_refused(mysql_url: str) -> None:
    at = urlsplit(mysql_url)
    arguments = {"host": at.hostname, "port": at.port, "user": at.username, "password": at.password or "", "db": at.path[1:]}
    pool = await asyncmy.create_pool(minsize=1, maxsize=2, charset="latin1", **arguments)
    with pytest.raises(DeclarationError, match="latin1"):
        await SQLBroker(pool, logger=None).connect()
    pool.close()
    await pool.wait_closed()


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: create_engine("sqlite://"), "synchronous"),
        (lambda: create_async_engine("sqlite+aiosqlite://"), "shares one connection"),
        (object, "cannot be"),
    ],
    ids=["synchronous", "one connection", "no pool"],
)
async def test_what_cannot_serve_is_refused_with_the_way_out(make: Callable[[], Any], word: str) -> None:
    with pytest.raises(DeclarationError, match=word):
        await SQLBroker(make(), logger=None).connect()


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda: create_async_engine(f"postgresql+asyncpg://bob:{CANARY}@db.internal:5433/shop"), "postgresql://db.internal:5433/shop"),
        (lambda: create_async_engine(f"mysql+asyncmy://bob:{CANARY}@db.internal/shop"), "mysql://db.internal/shop"),
        (lambda: create_async_engine(f"sqlite+aiosqlite:////srv/{CANARY}/shop.db"), "sqlite:///shop.db"),
        (lambda: asyncpg.create_pool(f"postgresql://bob:{CANARY}@db.internal:5433/shop"), "postgresql://db.internal:5433/shop"),
        (
            lambda: asyncpg.create_pool(host=["a", "b"], port=[1, 2], user="bob", password=CANARY, database="shop"),
            "postgresql://a:1,b:2/shop",
        ),
    ],
    ids=["asyncpg engine", "asyncmy engine", "aiosqlite engine", "dsn", "arguments"],
)
async def test_documents_say_where_it_leads_and_nothing_secret(make: Callable[[], Any], shown: str) -> None:
    broker = SQLBroker(make(), logger=None)
    texts = documents(FastStream(broker))
    assert all(CANARY not in document and "bob" not in document for document in texts.values())
    assert CANARY not in repr(broker)
    assert broker.specification.url == [shown]
