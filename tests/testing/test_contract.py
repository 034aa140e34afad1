"""What FastStream's `TestBroker` promises, of `TestSQLBroker`."""

from __future__ import annotations

import gc
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from faststream.exceptions import SetupError
from pydantic import BaseModel

from faststream_sql import SQLBroker, SQLRouter
from faststream_sql.testing import TestSQLBroker
from faststream_sql.testing.producer import FakeProducer
from tests.waiting import until


class Person(BaseModel):
    name: str
    age: int


JOHN, JANE = Person(name="John", age=19), Person(name="Jane", age=20)


async def test_stand_ins_leave_with_the_test() -> None:
    broker = SQLBroker()

    @broker.subscriber("test")
    async def handler(body: Any) -> None: ...

    kept = (broker.publisher("test2"), broker.publisher("test"))
    for _ in range(2):
        test = TestSQLBroker(broker)
        async with test as br:
            assert len(test._fake_subscribers) == 1
            gc.collect()
            assert len(br.subscribers) == 2
        assert len(broker.subscribers) == 1
    assert kept


async def test_what_is_patched_on_a_broker_that_was_started(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url)
    await broker.start()
    producer = broker._producer
    async with TestSQLBroker(broker) as br:
        assert all(isinstance(found, Mock) for found in (br.start, br._connect, br.stop))
        assert isinstance(br._producer, FakeProducer)
    assert not any(isinstance(found, Mock) for found in (broker.start, broker._connect, broker.stop))
    assert broker._connection is not None
    assert broker._producer is producer
    async with TestSQLBroker(broker, with_real=True) as br:
        assert not any(isinstance(found, Mock) for found in (br.start, br._connect, br.stop))
        assert br._connection is not None
    await broker.stop()


async def test_publishers_and_subscribers_are_watched_on_a_real_database(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, poll_interval=0.05)
    await broker.create_tables()
    publisher = broker.publisher("q1")

    @broker.subscriber("q")
    async def handler(body: Any) -> None:
        await publisher.publish(f"response: {body}")

    test = TestSQLBroker(broker, with_real=True)
    async with test as br:
        (fake,) = test._fake_subscribers
        fake.stop = AsyncMock(wraps=fake.stop)  # type: ignore[method-assign]
        await br.publish("hello", "q")
        await handler.wait_call(10)
        handler.mock.assert_called_once_with("hello")
        await until(lambda: publisher.mock.called)
        publisher.mock.assert_called_once_with("response: hello")
    fake.stop.assert_awaited_once()  # type: ignore[attr-defined]


async def test_errors_of_a_parser_come_out_of_publish() -> None:
    broker = SQLBroker()

    def parser(message: Any) -> Any:
        raise LookupError

    @broker.subscriber("q", parser=parser)
    async def handler(body: Any) -> None: ...

    async with TestSQLBroker(broker) as br:
        with pytest.raises(LookupError):
            await br.publish("hello", "q")


async def test_mocks_are_there_under_test_only() -> None:
    broker = SQLBroker()
    publisher = broker.publisher("q2")

    @broker.subscriber("q")
    async def handle() -> None: ...

    async def look() -> None:
        for found in (handle, publisher):
            with pytest.raises(SetupError, match="is not under a test broker"):
                _ = found.mock  # type: ignore[attr-defined]
        with pytest.raises(SetupError, match="is not under a test broker"):
            await handle.assert_called_with()

    await look()
    async with TestSQLBroker(broker):
        handle.mock.assert_not_called()
        publisher.mock.assert_not_called()
        for check in (handle.assert_called_once_with, handle.assert_called_with, handle.assert_any_call):
            with pytest.raises(AssertionError, match="was not called"):
                await check("hello")
    await look()


async def test_calls_are_compared_by_body_headers_and_context() -> None:
    broker = SQLBroker()

    @broker.subscriber("q")
    async def handle(body: Person) -> None: ...

    async with TestSQLBroker(broker) as br:
        await br.publish(JOHN, "q", headers={"n": "1"}, correlation_id="cid")
        await handle.assert_called_once_with(
            JOHN.model_dump(), headers={"n": "1"}, correlation_id="cid", context={"broker": broker, "message.correlation_id": "cid"}
        )
        await handle.assert_called_once_with(JOHN)
        with pytest.raises(AssertionError, match=r"(?s)body:.*headers:"):
            await handle.assert_called_once_with({"city": "Moscow"}, headers={"n": "9"})
        await br.publish(JANE, "q", headers={"n": "2"})
        await handle.assert_called_with(JANE, headers={"n": "2"})
        await handle.assert_any_call(JOHN, headers={"n": "1"})
        with pytest.raises(AssertionError, match="Called 2 times"):
            await handle.assert_called_once_with(JANE)


@pytest.mark.parametrize("read", [True, False])
async def test_a_publisher_answers_with_what_was_published(read: bool) -> None:
    broker = SQLBroker()
    publisher = broker.publisher("q2")

    @broker.subscriber("q")
    async def handle() -> None:
        await publisher.publish(JOHN, headers={"key": "value"}, correlation_id="1")
        await publisher.publish(JANE, correlation_id="2")

    if read:

        @broker.subscriber("q2")
        async def handle2(body: Person) -> None: ...

    async with TestSQLBroker(broker) as br:
        await br.publish("", "q")
        await publisher.assert_called_with(JANE.model_dump(), correlation_id="2")
        await publisher.assert_any_call(JOHN.model_dump(), headers={"key": "value"}, correlation_id="1")
        with pytest.raises(AssertionError, match="Called 2 times"):
            await publisher.assert_called_once_with(JANE.model_dump())


async def test_a_model_is_answered_with_another() -> None:
    broker = SQLBroker()
    publisher = broker.publisher("resp")

    @broker.subscriber("q")
    @publisher
    async def handle(body: Person) -> JustAge:
        return JustAge(age=body.age)

    async with TestSQLBroker(broker) as br:
        await br.publish(JOHN, "q")
        publisher.mock.assert_called_once_with({"age": 19})
        answer = await br.request(JOHN, "q")
        assert await answer.decode() == {"age": 19}


class JustAge(BaseModel):
    age: int


async def test_routers_are_watched() -> None:
    broker, router = SQLBroker(), SQLRouter()
    publisher = router.publisher("resp")

    @router.subscriber("q")
    @publisher
    def handle(body: str) -> str:
        return "hi"

    @broker.subscriber("by hand")
    async def by_hand(body: str) -> None:
        await publisher.publish("response")

    broker.include_router(router)
    async with TestSQLBroker(broker) as br:
        await br.publish("hello", "q")
        handle.mock.assert_called_with("hello")
        publisher.mock.assert_called_with("hi")
        await br.publish("hello", "by hand")
        publisher.mock.assert_called_with("response")
