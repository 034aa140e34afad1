"""FastStream's contract for test clients."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from unittest.mock import Mock

import anyio
import pytest
from faststream import FastStream, TestApp
from faststream.exceptions import FeatureNotSupportedException, StopConsume, SubscriberNotFound

from faststream_sql import SQLBroker, SQLPublisher, SQLResponse, SQLRoute, SQLRouter
from faststream_sql.annotations import SQLMessage
from faststream_sql.errors import DeclarationError
from faststream_sql.testing import FakeProducer, TestSQLBroker
from tests.testing.tables import MailJob, table

SERVER = "postgresql://app:secret@nowhere.invalid/app"


async def test_the_handler_has_run_when_publish_returns() -> None:
    broker = SQLBroker(SERVER)

    @broker.subscriber("q")
    async def handler(body: dict[str, int]) -> None:
        await asyncio.sleep(5)

    async with TestSQLBroker(broker) as br:
        row_id = await br.publish({"a": 1}, "q", headers={"h": "1"}, correlation_id="c")
        assert row_id == 1
        handler.mock.assert_called_once_with({"a": 1})
        await handler.assert_called_once_with({"a": 1}, headers={"h": "1"}, correlation_id="c")
        await handler.wait_call(timeout=1)


async def test_errors_come_out_of_publish_and_the_row_is_tried_again() -> None:
    broker = SQLBroker(SERVER)

    @broker.subscriber("q", backoff=5)
    async def handler(body: int) -> None:
        raise ZeroDivisionError

    @broker.subscriber("exit", backoff=6)
    async def leave(body: int) -> None:
        raise SystemExit

    @broker.subscriber("cancel", backoff=5)
    async def cancelled(body: int) -> None:
        raise asyncio.CancelledError

    test = TestSQLBroker(broker)
    async with test as br:
        with pytest.raises(ZeroDivisionError):
            await br.publish(1, "q")
        with pytest.raises(ValueError, match="valid integer"):
            await br.publish("no number", "q")
        with pytest.raises(SystemExit):
            await br.publish(1, "exit")
        with pytest.raises(asyncio.CancelledError):
            await br.publish(1, "cancel")
        assert [row["attempt"] for row in test.rows()] == [2, 2, 2, 2]
        with pytest.raises(ZeroDivisionError):
            await br.publish_batch(1, 2, queue="q")
        assert len(test.rows("q")) == 4
        assert await test.advance(5) == 5


async def test_a_publish_that_is_cancelled_gives_its_row_back() -> None:
    broker, started = SQLBroker(SERVER), asyncio.Event()

    @broker.subscriber("q")
    async def handler(body: int) -> None:
        started.set()
        await asyncio.Event().wait()

    test = TestSQLBroker(broker)
    async with test as br:
        publish = asyncio.create_task(br.publish(1, "q"))
        await started.wait()
        publish.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publish
        (row,) = test.rows("q")
        assert (row["attempt"], row["locked_until"]) == (1, None)
        with pytest.raises(TimeoutError), anyio.fail_after(30):
            await br.publish(2, "q")
        assert test.clock.monotonic() == 30


async def test_publishers_mocks_and_what_they_published() -> None:
    broker = SQLBroker(SERVER)
    out = broker.publisher("out")
    later = broker.publisher("later", delay=60)
    again = broker.publisher("again")

    @broker.subscriber("q")
    @out
    async def handler(body: str) -> str:
        await later.publish("soon", headers={"x": "1"})
        await again.publish("loop")
        return body.upper()

    @broker.subscriber("again")
    async def reader(body: str) -> None: ...

    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish("a", "q")
        out.mock.assert_called_once_with("A")
        later.mock.assert_called_once_with("soon")
        await later.assert_called_once_with("soon", headers={"x": "1"})
        again.mock.assert_called_once_with("loop")
        reader.mock.assert_called_once_with("loop")
        assert [row["payload"] for row in test.rows()] == [b"A", b"soon"]  # whoever reads them is not part of this test
        await test.advance(3600)
        later.mock.assert_called_once_with("soon")


async def test_routers_responses_and_replies() -> None:
    broker, router = SQLBroker(SERVER), SQLRouter(prefix="app.")

    async def routed(body: str) -> str:
        return f"{body}!"

    router.include_router(SQLRouter(prefix="in.", handlers=(SQLRoute(routed, "routed", publishers=(SQLPublisher("routed.out"),)),)))

    @router.subscriber("q", max_attempts=1, dead_letter="q.dead")
    async def handler(body: str, message: SQLMessage) -> SQLResponse:
        if body == "bad":
            raise ZeroDivisionError
        return SQLResponse(f"re: {body}", headers={"a": "b"}, delay=5)

    broker.include_router(router)
    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish("x", "app.in.routed")
        assert [row["payload"] for row in test.rows("app.in.routed.out")] == [b"x!"]
        await br.publish("hello", "app.q", reply_to="answers")
        (reply,) = test.rows("answers")
        assert (reply["payload"], reply["headers"]["a"]) == (b"re: hello", "b")
        with pytest.raises(ZeroDivisionError):
            await br.publish("bad", "app.q")
        assert [row["queue"] for row in test.dead("app.q")] == ["app.q.dead"]


async def test_request() -> None:
    broker = SQLBroker(SERVER, tables={"*": SQLBroker(SERVER)._routes.resolve("x"), "mails": MailJob})

    @broker.subscriber("echo")
    async def echo(body: str) -> str:
        await asyncio.sleep(2)
        return body

    @broker.subscriber("mute", no_reply=True)
    async def mute(body: str) -> None: ...

    @broker.subscriber("mails")
    async def mails(body: str) -> None: ...

    test = TestSQLBroker(broker)
    async with test as br:
        answer = await br.request("hi", "echo", timeout=3, correlation_id="7")
        assert await answer.decode() == "hi"
        assert answer.correlation_id == "7"
        assert test.rows() == []
        with pytest.raises(TimeoutError):
            await br.request("hi", "echo", timeout=1)
        with pytest.raises(TimeoutError):
            await br.request("hi", "mute", timeout=1000)
        with pytest.raises(SubscriberNotFound):
            await br.request("hi", "nobody")
        with pytest.raises(FeatureNotSupportedException):
            await br.request("hi", "mails")


async def test_what_is_replaced_and_put_back() -> None:
    broker = SQLBroker(SERVER)
    config = broker.config.broker_config
    before = (config.producer, config.clock, config.make_pool, config.make_engine)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - what is left after an error
        async with TestSQLBroker(broker) as br:
            assert isinstance(br.start, Mock)
            assert isinstance(br.stop, Mock)
            assert isinstance(br.config.producer, FakeProducer)
            assert await br.ping()
            await br.start()
            await br.start()
            raise ZeroDivisionError
    assert (config.producer, config.clock, config.make_pool, config.make_engine) == before
    assert not isinstance(broker.start, Mock)
    assert broker._connection is None


async def test_a_broker_that_runs_is_patched_too_and_runs_on(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url)
    await broker.create_tables()

    @broker.subscriber("q")
    @broker.publisher("out")
    async def handler(body: str) -> str:
        return body

    out = broker.publisher("other")
    await broker.start()
    producer = broker.config.producer
    async with TestSQLBroker(broker) as br:
        assert isinstance(br.start, Mock)
        assert isinstance(br._connect, Mock)
        assert isinstance(br.stop, Mock)
        assert isinstance(br.config.producer, FakeProducer)
        await br.publish("a", "q")
        await out.publish("b")
        handler.mock.assert_called_once_with("a")
        out.mock.assert_called_once_with("b")
        assert await br.ping()
    assert broker.config.producer is producer
    assert not any(isinstance(part, Mock) for part in (broker.start, broker.stop, broker._connect))
    assert await broker.ping()
    assert [subscriber.running for subscriber in broker.subscribers] == [True]
    async with TestSQLBroker(broker, with_real=True) as br:
        assert not isinstance(br.start, Mock)
        await br.publish("c", "q")
        await handler.wait_call(timeout=5)
        handler.mock.assert_called_once_with("c")


async def test_several_brokers_share_a_database_that_both_name() -> None:
    first, second, third = SQLBroker(SERVER), SQLBroker(SERVER), SQLBroker("sqlite:///other.db")

    @second.subscriber("q")
    async def handler(body: str) -> None: ...

    @third.subscriber("q")
    async def stranger(body: str) -> None: ...

    test = TestSQLBroker(first, second, third)
    async with test as (one, _, three):
        await one.publish("a", "q")
        handler.mock.assert_called_once_with("a")
        assert not stranger.mock.called
        await one.publish("b", "p")
        await three.publish("c", "p")
        assert [row["payload"] for row in test.rows("p")] == [b"b", b"c"]


async def test_test_app_runs_the_hooks() -> None:
    broker, events = SQLBroker(SERVER, table=MailJob), list[str]()
    app = FastStream(broker, logger=None)

    @app.on_startup
    async def schema() -> None:
        await broker.create_tables()
        events.append("startup")

    @app.after_startup
    async def first() -> None:
        await broker.publish("hello", "emails")

    @broker.subscriber("emails")
    async def send(body: str) -> None:
        events.append(body)

    async with TestSQLBroker(broker, connect_only=True), TestApp(app):
        assert events == ["startup", "hello"]
        send.mock.assert_called_once_with("hello")
    async with TestSQLBroker(broker), TestApp(app):
        assert events == ["startup", "hello"] * 2


async def test_what_a_start_refuses_is_refused_here() -> None:
    broker = SQLBroker(SERVER)

    @broker.subscriber("q", max_attempts=5)
    async def handler(body: str) -> None: ...

    with pytest.raises(DeclarationError, match="max_attempts without dead_letter"):
        async with TestSQLBroker(broker):
            pass
    assert broker._connection is None


async def test_dynamic_subscribers_and_rows_asked_for() -> None:
    broker = SQLBroker(SERVER)
    test = TestSQLBroker(broker)
    async with test as br:
        asked = br.subscriber("asked", persistent=False)
        await br.publish("one", "asked")
        message = await asked.get_one(timeout=5)
        assert message is not None
        assert await message.decode() == "one"
        await message.ack()
        assert test.rows("asked") == []

        dynamic, seen = br.subscriber("dynamic", persistent=False), list[str]()

        @dynamic
        async def handler(body: str) -> None:
            seen.append(body)

        await dynamic.start()
        await br.publish("two", "dynamic")
        await test.advance(60)
        assert seen == ["two"]
        await dynamic.stop()
        await asked.stop()


async def test_stop_consume_ends_a_subscription_at_advance() -> None:
    broker, seen = SQLBroker(SERVER), list[int]()

    @broker.subscriber("q", backoff=1)
    async def handler(body: int) -> None:
        seen.append(body)
        raise StopConsume

    test = TestSQLBroker(broker)
    async with test as br:
        with pytest.raises(StopConsume):
            await br.publish(1, "q")
        await test.advance(10)
        assert seen == [1, 1]


async def test_listen_notify_and_poolers_do_not_stop_a_test() -> None:
    broker = SQLBroker(SERVER, table=table("advisory"), listen_notify=True)

    @broker.subscriber("q")
    async def handler(body: str) -> None: ...

    async with TestSQLBroker(broker) as br:
        await br.publish_batch("a", "b", queue="q")
        assert handler.mock.call_count == 2


async def test_middlewares_see_the_message_once(caplog: pytest.LogCaptureFixture) -> None:
    from faststream import BaseMiddleware

    scopes: list[str] = []

    class Count(BaseMiddleware):
        async def consume_scope(self, call_next: Any, msg: Any) -> Any:
            scopes.append("consume")
            return await super().consume_scope(call_next, msg)

        async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
            scopes.append("publish")
            return await super().publish_scope(call_next, cmd)

    broker = SQLBroker(SERVER, middlewares=[Count])

    @broker.subscriber("q")
    async def handler(body: str) -> None: ...

    with caplog.at_level(logging.WARNING):
        async with TestSQLBroker(broker) as br:
            await br.publish("a", "q")
    assert scopes == ["publish", "consume"]
    assert not caplog.records
