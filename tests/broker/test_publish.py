"""What can be published, how it comes back, and in whose transaction it goes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlsplit

import aiosqlite
import asyncmy
import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from faststream_sql import Column, DeclarationError, QueueTable, SQLBroker
from faststream_sql.annotations import SQLMessage
from faststream_sql.drivers.base import Use
from faststream_sql.errors import DataError
from tests.broker.test_lifecycle import until


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("mysql", marks=pytest.mark.mysql)])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
async def broker(url: str) -> AsyncIterator[SQLBroker]:
    found = SQLBroker(url, logger=None, poll_interval=0.05)
    await found.create_tables()
    yield found
    await found.stop()


async def received(broker: SQLBroker, count: int, queue: str = "jobs") -> list[Any]:
    got: list[Any] = []

    @broker.subscriber(queue)
    async def handle(body: Any, message: SQLMessage) -> None:
        got.append((body, message))

    await broker.start()
    await until(lambda: len(got) >= count)
    return got


async def test_bodies_come_back_as_they_were(broker: SQLBroker) -> None:
    bodies = [None, b"", "", {}, [], 0, False, "text", "12", {"a": [1, None]}, "ünï 😀", 1.5]
    ids = await broker.publish_batch(*bodies, queue="jobs")
    assert len(set(ids)) == len(bodies)
    got = await received(broker, len(bodies))
    assert [body for body, _ in got] == [
        b"" if body in (None, b"") and not isinstance(body, (str, int, float)) else body for body in bodies
    ]


async def test_headers_correlation_and_reply_travel(broker: SQLBroker) -> None:
    await broker.publish("one", "jobs", headers={"tenant": "ünï", "n": 5}, correlation_id="c-1", reply_to="nowhere")
    ((_, message),) = await received(broker, 1)
    assert message.headers == {"tenant": "ünï", "n": 5}
    assert (message.correlation_id, message.reply_to) == ("c-1", "nowhere")


@pytest.mark.parametrize("delay", [0.2, timedelta(milliseconds=200), "0.2"], ids=repr)
async def test_delays(broker: SQLBroker, delay: Any) -> None:
    started = datetime.now(timezone.utc)
    await broker.publish("one", "jobs", delay=delay)
    await received(broker, 1)
    assert datetime.now(timezone.utc) - started >= timedelta(milliseconds=200)


async def test_a_moment_instead_of_a_delay(broker: SQLBroker) -> None:
    await broker.publish("past", "jobs", available_at=datetime(2000, 1, 1, tzinfo=timezone.utc))
    await broker.publish("future", "jobs", available_at=datetime(9999, 1, 1, tzinfo=timezone.utc))
    got = await received(broker, 1)
    assert [body for body, _ in got] == ["past"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delay": -1}, "delay=-1"),
        ({"delay": float("nan")}, "delay"),
        ({"delay": float("inf")}, "delay"),
        ({"delay": "soon"}, "soon"),
        ({"delay": 10**15}, "year 9999|cannot be"),
        ({"delay": 1, "available_at": datetime.now(timezone.utc)}, "both"),
        ({"available_at": datetime.now()}, "time zone"),  # noqa: DTZ005 - a naive datetime is what is refused
        ({"row_id": "seven"}, "row_id='seven'"),
        ({"columns": {"colour": "red"}}, "colour"),
        ({"partition_key": "k"}, "PartitionKey"),
    ],
)
async def test_what_cannot_be_published_is_refused_at_once(broker: SQLBroker, options: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, DeclarationError), match=says):
        await broker.publish("one", "jobs", **options)


async def test_priorities(broker: SQLBroker) -> None:
    for priority in (5, 1, 3):
        await broker.publish(str(priority), "jobs", priority=priority)
    got = await received(broker, 3)
    assert [body for body, _ in got] == ["1", "3", "5"]


async def test_ids_of_every_type(url: str) -> None:
    tables = {
        "uuids": QueueTable("uuids", id="id", group="g", attempt="a", locked_until="l", payload="p", id_type=uuid.UUID),
        "texts": QueueTable("texts", id="id", group="g", attempt="a", locked_until="l", payload="p", id_type=str),
        "given": QueueTable("given", id=Column("id", generated=False), group="g", attempt="a", locked_until="l", payload="p"),
    }
    broker = SQLBroker(url, tables=tables, logger=None, poll_interval=0.05)
    await broker.create_tables()
    made = await broker.publish("one", "uuids")
    assert isinstance(made, uuid.UUID) or uuid.UUID(str(made))
    wanted = uuid.uuid4()
    await broker.publish("two", "uuids", row_id=wanted)
    await broker.publish("three", "texts", row_id='it\'s "x"')
    with pytest.raises(ValueError, match="not generated"):
        await broker.publish("none", "texts")
    await broker.publish("four", "given", row_id=2**63 - 10)
    got: dict[str, Any] = {}

    async def handle(body: str, message: SQLMessage) -> None:
        if message.attempt == 1:
            await message.nack()
        else:
            got[body] = message.row_id

    for name in tables:
        broker.subscriber(name, max_workers=2)(handle)
    await broker.start()
    await until(lambda: len(got) == 4)
    await broker.stop()
    assert got["two"] == wanted
    assert got["three"] == 'it\'s "x"'
    assert got["four"] == 2**63 - 10


async def count(broker: SQLBroker) -> int:
    async with broker.engine.pool.connection(Use.STATEMENT, "test") as connection:
        ((found,),) = await connection.fetch("SELECT count(*) FROM faststream_queue")
    return int(found)


async def test_a_publish_in_the_transaction_of_asyncpg(postgres_url: str) -> None:
    broker = SQLBroker(postgres_url, logger=None)
    await broker.create_tables()
    own = await asyncpg.connect(postgres_url)
    transaction = own.transaction()
    await transaction.start()
    await broker.publish("one", "jobs", connection=own)
    await broker.publish_batch("two", "three", queue="jobs", connection=own)
    assert await count(broker) == 0, "nothing is visible before the commit"
    await transaction.rollback()
    assert await count(broker) == 0, "nothing is left after a rollback"
    async with own.transaction():
        assert isinstance(await broker.publish("one", "jobs", connection=own), int)
    assert await count(broker) == 1
    await own.close()
    await broker.stop()


async def test_an_error_in_the_callers_transaction_goes_to_the_caller(postgres_url: str) -> None:
    broker = SQLBroker(postgres_url, tables={"given": QueueTable("given", id=Column("id", generated=False), payload="p")}, logger=None)
    await broker.create_tables()
    own = await asyncpg.connect(postgres_url)
    await broker.publish("one", "given", row_id=1, connection=own)
    async with own.transaction():
        with pytest.raises(Exception, match="duplicate key"):
            async with own.transaction():
                await broker.publish("two", "given", row_id=1, connection=own)
        await broker.publish("three", "given", row_id=2, connection=own)
    assert await own.fetchval("SELECT count(*) FROM given") == 2
    await own.close()
    await broker.stop()


async def test_a_publish_in_the_transaction_of_aiosqlite(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None)
    await broker.create_tables()
    async with aiosqlite.connect(sqlite_url.removeprefix("sqlite:///")) as own:
        await own.execute("BEGIN IMMEDIATE")
        await broker.publish("one", "jobs", connection=own)
        assert await count(broker) == 0
        await own.rollback()
        assert await count(broker) == 0
        await broker.publish("one", "jobs", connection=own)
        await own.commit()
    assert await count(broker) == 1
    await broker.stop()


def engine_url(url: str) -> str:
    for scheme, driver in (("sqlite", "aiosqlite"), ("postgresql", "asyncpg"), ("mysql", "asyncmy")):
        url = url.replace(f"{scheme}:", f"{scheme}+{driver}:")
    return url


async def asyncmy_connection(url: str, **options: Any) -> Any:
    at = urlsplit(url)
    return await asyncmy.connect(
        host=at.hostname, port=at.port or 3306, user=at.username or "root", password=at.password or "", db=at.path[1:], **options
    )


@pytest.mark.parametrize("autocommit", [False, True])
async def test_a_publish_in_the_transaction_of_asyncmy(mysql_url: str, autocommit: bool) -> None:
    broker = SQLBroker(mysql_url, logger=None)
    await broker.create_tables()
    own = await asyncmy_connection(mysql_url, autocommit=autocommit)
    if autocommit:
        await own.begin()
    await broker.publish("one", "jobs", connection=own)
    ids = await broker.publish_batch("two", "three", queue="jobs", connection=own)
    assert len(set(ids)) == 2
    assert await count(broker) == 0, "nothing is visible before the commit"
    await own.rollback()
    assert await count(broker) == 0, "nothing is left after a rollback"
    if autocommit:
        await own.begin()
    assert isinstance(await broker.publish("one", "jobs", connection=own), int)
    await own.commit()
    assert await count(broker) == 1
    assert own.get_autocommit() is autocommit
    await broker.publish("four", "jobs", connection=own)
    assert await count(broker) == (2 if autocommit else 1), "outside a transaction it commits as the connection does"
    await own.ensure_closed()
    await broker.stop()


async def test_an_error_of_asyncmy_in_the_callers_transaction_goes_to_the_caller(mysql_url: str) -> None:
    broker = SQLBroker(mysql_url, tables={"given": QueueTable("given", id=Column("id", generated=False), payload="p")}, logger=None)
    await broker.create_tables()
    own = await asyncmy_connection(mysql_url)
    await broker.publish("one", "given", row_id=1, connection=own)
    with pytest.raises(DataError, match="Duplicate entry"):
        await broker.publish("two", "given", row_id=1, connection=own)
    await broker.publish("three", "given", row_id=2, connection=own)
    await own.commit()
    await own.ensure_closed()
    async with broker.engine.pool.connection(Use.STATEMENT, "test") as connection:
        assert [tuple(row) for row in await connection.fetch("SELECT id FROM given ORDER BY id")] == [(1,), (2,)]
    await broker.stop()


async def test_a_connection_in_which_not_every_text_can_be_written_is_refused(mysql_url: str) -> None:
    broker = SQLBroker(mysql_url, logger=None)
    await broker.create_tables()
    for charset in ("latin1", "utf8"):
        own = await asyncmy_connection(mysql_url, charset=charset)
        with pytest.raises(TypeError, match=f"speaks {charset}.* connect with utf8mb4"):
            await broker.publish("one", "jobs", connection=own)
        await own.ensure_closed()
    await broker.stop()


async def test_an_engine_that_commits_by_itself(mysql_url: str) -> None:
    broker = SQLBroker(mysql_url, logger=None)
    await broker.create_tables()
    engine = create_async_engine(engine_url(mysql_url), isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await broker.publish("one", "jobs", connection=connection)
        assert await count(broker) == 1
    await engine.dispose()
    await broker.stop()


async def test_a_publish_in_the_transaction_of_sqlalchemy(url: str) -> None:
    broker = SQLBroker(url, logger=None)
    await broker.create_tables()
    engine = create_async_engine(engine_url(url))
    async with engine.connect() as connection:
        await broker.publish("one", "jobs", connection=connection)
        await connection.rollback()
    assert await count(broker) == 0
    async with AsyncSession(engine) as session:
        await broker.publish("one", "jobs", connection=session)
        await session.commit()
    assert await count(broker) == 1
    await engine.dispose()
    await broker.stop()


async def test_a_connection_of_the_wrong_kind_is_refused(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None)
    await broker.create_tables()
    with pytest.raises(TypeError, match="aiosqlite connection"):
        await broker.publish("one", "jobs", connection=object())
    await broker.stop()


async def test_a_pool_of_the_services_own_is_left_open(postgres_url: str) -> None:
    pool = await asyncpg.create_pool(postgres_url, min_size=1, max_size=4)
    broker = SQLBroker(pool, logger=None, poll_interval=0.05)
    await broker.create_tables()
    await broker.publish("one", "jobs")
    assert [body for body, _ in await received(broker, 1)] == ["one"]
    await broker.stop()
    assert await pool.fetchval("SELECT 1") == 1
    await pool.close()


async def test_a_batch_that_is_longer_than_any_statement_may_be(broker: SQLBroker) -> None:
    bodies = [bytes([n]) * 1_000_000 for n in range(18)]  # 16 MiB are the limit of a MariaDB
    ids = await broker.publish_batch(*bodies, queue="jobs")
    got = await received(broker, len(bodies))
    assert [body for body, _ in got] == bodies
    assert [message.row_id for _, message in got] == ids


async def test_many_publishers_at_once(broker: SQLBroker) -> None:
    await asyncio.gather(*(broker.publish(str(n), "jobs") for n in range(100)))
    got = await received(broker, 100)
    assert sorted(int(body) for body, _ in got) == list(range(100))
