"""Start, stop, and everything in between."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from typing import Any

import pytest
from faststream import FastStream
from faststream.exceptions import StopConsume

from faststream_sql import ClosedError, DeclarationError, NoRouteError, QueueTable, SchemaError, SQLBroker, SQLRouter
from faststream_sql.annotations import AttemptNumber, CurrentClock, Pool, SQLMessage


def until(condition: Any) -> Any:
    async def wait() -> None:
        for _ in range(2000):
            if condition():
                return
            await asyncio.sleep(0.005)
        pytest.fail("what was waited for never came")

    return wait()


def make(url: str, **options: Any) -> tuple[SQLBroker, list[str]]:
    broker = SQLBroker(url, logger=None, poll_interval=0.05, **options)
    got: list[str] = []

    @broker.subscriber("jobs")
    async def handle(body: str) -> None:
        got.append(body)

    return broker, got


async def test_nothing_connects_at_construction() -> None:
    SQLBroker("postgresql://nobody:secret@nowhere.invalid:1/none")
    SQLBroker()


async def test_a_publish_before_start_connects(sqlite_url: str) -> None:
    broker, got = make(sqlite_url)
    await broker.create_tables()
    await broker.publish("early", "jobs")
    assert got == []
    await broker.start()
    await until(lambda: got == ["early"])
    await broker.stop()


async def test_start_twice_and_stop_twice(sqlite_url: str) -> None:
    broker, got = make(sqlite_url)
    await broker.stop()
    await broker.create_tables()
    await broker.start()
    await broker.start()
    await broker.publish("one", "jobs")
    await until(lambda: got == ["one"])
    assert await broker.ping()
    await broker.stop()
    await broker.stop()
    assert not await broker.ping()


async def test_start_after_stop_many_times(sqlite_url: str) -> None:
    broker, got = make(sqlite_url)
    await broker.create_tables()
    for turn in range(10):
        await broker.start()
        await broker.publish(str(turn), "jobs")
        await until(lambda turn=turn: len(got) == turn + 1)
        await broker.stop()
    assert got == [str(turn) for turn in range(10)]


async def test_a_publish_after_stop_says_so(sqlite_url: str) -> None:
    broker, _ = make(sqlite_url)
    await broker.create_tables()
    await broker.stop()
    with pytest.raises(ClosedError, match="stopped"):
        await broker.publish("late", "jobs")


async def test_stop_while_starting(sqlite_url: str) -> None:
    broker, _ = make(sqlite_url)
    await broker.create_tables()
    start = asyncio.ensure_future(broker.start())
    await asyncio.sleep(0)
    await broker.stop()
    await asyncio.wait({start}, timeout=5)
    assert start.done()
    start.exception()
    await broker.stop()


async def test_a_start_that_fails_closes_everything_and_names_what_is_missing(sqlite_url: str) -> None:
    broker, _ = make(sqlite_url)
    with pytest.raises(SchemaError) as caught:
        await broker.start()
    for part in ("'jobs'", "'faststream_queue'", "'claim'", "does not exist"):
        assert part in str(caught.value)
    assert not await broker.ping()


async def test_a_missing_column_stops_the_service_by_name(sqlite_url: str) -> None:
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    connection.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, until TEXT, body BLOB)")
    connection.close()
    table = QueueTable("jobs", id="id", attempt="tries", locked_until="until", payload="body")
    broker, _ = make(sqlite_url, table=table)
    with pytest.raises(SchemaError) as caught:
        await broker.start()
    for part in ("subscription 'jobs'", "'claim'", "table 'jobs'", "'tries'"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_attempts": 5}, "without dead_letter"),
        ({"dead_letter": "jobs.dead"}, "without max_attempts"),
        ({"max_attempts": 5, "dead_letter": "jobs"}, "its own group"),
    ],
)
async def test_a_limit_that_cannot_be_stops_the_service(options: dict[str, Any], says: str, sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None)

    @broker.subscriber("jobs", **options)
    async def handle(body: str) -> None: ...

    await broker.create_tables()
    with pytest.raises(DeclarationError, match=says):
        await broker.start()


async def test_a_stop_lets_a_handler_finish(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None)
    entered, finished = asyncio.Event(), asyncio.Event()

    @broker.subscriber("jobs")
    async def handle(body: str) -> None:
        entered.set()
        await asyncio.sleep(0.2)
        finished.set()

    await broker.create_tables()
    await broker.start()
    await broker.publish("one", "jobs")
    await entered.wait()
    await broker.stop()
    assert finished.is_set()
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    assert connection.execute("SELECT count(*) FROM faststream_queue").fetchone() == (0,)
    connection.close()


async def test_a_stop_cuts_off_what_does_not_finish_and_gives_its_attempt_back(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None, graceful_timeout=0.05)
    entered = asyncio.Event()

    @broker.subscriber("jobs", max_workers=2)
    async def handle(body: str) -> None:
        entered.set()
        await asyncio.sleep(60)

    await broker.create_tables()
    await broker.start()
    await broker.publish_batch("one", "two", "three", queue="jobs")
    await entered.wait()
    await asyncio.wait_for(broker.stop(), 5)
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    assert connection.execute("SELECT attempt, locked_until FROM faststream_queue").fetchall() == [(1, None)] * 3
    connection.close()


async def test_a_handler_may_stop_the_broker(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None)
    stopped = asyncio.Event()

    @broker.subscriber("jobs")
    async def handle(body: str) -> None:
        await broker.stop()
        stopped.set()

    await broker.create_tables()
    await broker.start()
    await broker.publish("one", "jobs")
    await asyncio.wait_for(stopped.wait(), 5)


async def test_stop_consume_stops_its_subscriber_alone(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None, poll_interval=0.05)
    got: list[str] = []

    @broker.subscriber("once", backoff=600)
    async def once(body: str) -> None:
        raise StopConsume

    @broker.subscriber("jobs")
    async def handle(body: str) -> None:
        got.append(body)

    await broker.create_tables()
    await broker.start()
    await broker.publish("stop", "once")
    await until(lambda: sum(subscriber.running for subscriber in broker.subscribers) == 1)
    await broker.publish("on", "jobs")
    await until(lambda: got == ["on"])
    await broker.stop()


async def test_routers_prefix_their_queues_and_their_dead_letters(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None, poll_interval=0.05)
    inner, outer = SQLRouter(prefix="mail."), SQLRouter(prefix="eu.")
    read: list[tuple[str, int | None]] = []

    @inner.subscriber("out", max_attempts=2, dead_letter="dead", backoff=None)
    async def fail(body: str) -> None:
        raise ValueError

    @inner.subscriber("dead")
    async def review(body: str, attempt: AttemptNumber) -> None:
        read.append((body, attempt))

    outer.include_router(inner)
    broker.include_router(outer)
    await broker.create_tables()
    await broker.start()
    await broker.publish("one", "eu.mail.out")
    await until(lambda: read == [("one", 2)])
    await broker.stop()


async def test_routes_lead_names_into_tables(sqlite_url: str) -> None:
    def table(name: str) -> QueueTable:
        return QueueTable(name, id="id", group="name", locked_until="until", payload="body")

    broker = SQLBroker(sqlite_url, tables={"a": table("exact"), "a.*": table("short"), "a.b.*": table("long")}, logger=None)
    assert [broker._routes.resolve(name).name for name in ("a", "a.x", "a.b.x")] == ["exact", "short", "long"]
    with pytest.raises(NoRouteError, match=r"'a', 'a\.b\.\*', 'a\.\*'"):
        await broker.publish("x", "elsewhere")
    await broker.stop()


async def test_annotated_parameters(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None)
    got: list[Any] = []

    @broker.subscriber("jobs")
    async def handle(body: str, message: SQLMessage, attempt: AttemptNumber, pool: Pool, clock: CurrentClock) -> None:
        got.extend([body, message.row_id, message.group, attempt, pool is broker.engine.pool, clock is broker.clock, message.row["group"]])
        assert "one" not in repr(message), "a body does not end up in logs"

    await broker.create_tables()
    await broker.start()
    row_id = await broker.publish("one", "jobs")
    await until(lambda: bool(got))
    await broker.stop()
    assert got == ["one", row_id, "jobs", 1, True, True, "jobs"]


async def test_answers_replies_and_requests(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None, poll_interval=0.05)
    got: list[str] = []

    @broker.subscriber("jobs")
    @broker.publisher("done")
    async def handle(body: str) -> str:
        return body.upper()

    @broker.subscriber("done")
    async def done(body: str) -> None:
        got.append(f"done {body}")

    @broker.subscriber("answers")
    async def answers(body: str) -> None:
        got.append(f"answer {body}")

    await broker.create_tables()
    await broker.start()
    await broker.publish("a", "jobs", reply_to="answers")
    await until(lambda: sorted(got) == ["answer A", "done A"])
    answer = await broker.request("b", "jobs", timeout=5)
    assert await answer.decode() == "B"
    with pytest.raises(TimeoutError):
        await broker.request("c", "nobody listens", timeout=0.2)
    await broker.stop()


async def test_rows_asked_for_one_by_one(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None, poll_interval=0.05)
    subscriber = broker.subscriber("jobs")
    await broker.create_tables()
    await broker.start()
    assert await subscriber.get_one(timeout=0.05) is None
    await broker.publish_batch("one", "two", "three", queue="jobs")
    first = await subscriber.get_one(timeout=2)
    assert first is not None
    assert await first.decode() == "one"
    await first.ack()
    seen: list[Any] = []
    async for message in subscriber:
        seen.append(await message.decode())
        await message.ack()
        if len(seen) == 2:
            break
    assert seen == ["two", "three"]
    await broker.stop()


async def test_a_row_that_was_asked_for_goes_back_at_a_stop(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None, poll_interval=0.05)
    subscriber = broker.subscriber("jobs")
    await broker.create_tables()
    await broker.start()
    await broker.publish("one", "jobs")
    assert await subscriber.get_one(timeout=2) is not None
    await broker.stop()
    await broker.start()
    again = await subscriber.get_one(timeout=2)
    assert again is not None
    assert again.attempt == 1
    await again.ack()
    await broker.stop()


async def test_a_dynamic_subscriber(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None, poll_interval=0.05)
    await broker.create_tables()
    await broker.start()
    subscriber = broker.subscriber("late", persistent=False)
    got: list[str] = []

    @subscriber
    async def handle(body: str) -> None:
        got.append(body)

    async with subscriber:
        await broker.publish("one", "late")
        await until(lambda: got == ["one"])
    await broker.publish("two", "late")
    await asyncio.sleep(0.1)
    assert got == ["one"]
    await broker.stop()


async def test_an_application_runs_it(sqlite_url: str) -> None:
    broker, got = make(sqlite_url)
    app = FastStream(broker, logger=None)

    @app.on_startup
    async def schema() -> None:
        await broker.create_tables()

    @app.after_startup
    async def publish() -> None:
        await broker.publish("one", "jobs")

    async def leave() -> None:
        await until(lambda: got == ["one"])
        app.exit()

    leaving = asyncio.ensure_future(leave())
    await asyncio.wait_for(app.run(log_level=logging.CRITICAL), 10)
    await leaving
    assert got == ["one"]


@pytest.mark.parametrize(
    "url", [pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("mysql", marks=pytest.mark.mysql), "sqlite"], indirect=True
)
async def test_several_processes_create_the_tables_at_once(url: str) -> None:
    """As when a service starts with several workers, each of which creates what is missing."""
    brokers = [SQLBroker(url, logger=None) for _ in range(6)]
    for broker in brokers:
        await broker.connect()
    await asyncio.gather(*(broker.create_tables() for broker in brokers))
    assert await brokers[0].publish("one", "jobs") is not None
    for broker in brokers:
        await broker.stop()


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


async def test_a_hook_may_stop_the_service(sqlite_url: str) -> None:
    """`on_lease_lost` runs in a task of the broker's, which its stop must not cut off."""
    entered, stopped = asyncio.Event(), asyncio.Event()

    async def lost(message: Any) -> None:
        await broker.stop()
        stopped.set()

    broker = SQLBroker(sqlite_url, logger=None, poll_interval=0.05, on_lease_lost=lost)

    @broker.subscriber("jobs")
    async def handle(body: str) -> None:
        entered.set()
        await until(lambda: taken)

    taken: list[bool] = []
    await broker.create_tables()
    await broker.start()
    await broker.publish("one", "jobs")
    await entered.wait()
    with contextlib.closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as database:
        database.execute("DELETE FROM faststream_queue")
    taken.append(True)
    await asyncio.wait_for(stopped.wait(), 20.0)
    await broker.stop()
