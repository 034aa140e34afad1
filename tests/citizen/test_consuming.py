"""What every FastStream broker does for those who consume."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from faststream import BaseMiddleware, Context, Depends, FastStream, TestApp
from faststream.exceptions import StopConsume
from pydantic import BaseModel

from faststream_sql import SQLBroker
from faststream_sql.testing import TestSQLBroker
from tests.citizen.conftest import Place
from tests.waiting import until


async def test_one_handler_of_two_queues(place: Place, queue: str) -> None:
    broker, got, both = place.broker(), list[str](), asyncio.Event()

    @broker.subscriber(queue)
    @broker.subscriber(f"{queue}1")
    def handle(body: str) -> None:
        got.append(body)
        if len(got) == 2:
            both.set()

    async with place.running(broker) as br:
        await place.until(br.publish("a", queue), br.publish("b", queue + "1"), both.wait())
    assert sorted(got) == ["a", "b"]


async def test_handlers_of_their_own_queues(place: Place, queue: str) -> None:
    broker, got = place.broker(), list[str]()
    first, second = asyncio.Event(), asyncio.Event()

    @broker.subscriber(queue)
    async def one(body: str) -> None:
        got.append(f"one {body}")
        first.set()

    @broker.subscriber(queue + "1")
    async def two(body: str) -> None:
        got.append(f"two {body}")
        second.set()

    async with place.running(broker) as br:
        await place.until(br.publish("a", queue), br.publish("b", queue + "1"), first.wait(), second.wait())
    assert sorted(got) == ["one a", "two b"]


async def test_the_first_filter_that_matches_wins(place: Place, queue: str) -> None:
    broker, got, both = place.broker(), list[Any](), asyncio.Event()
    subscriber = broker.subscriber(queue)

    @subscriber(filter=lambda message: message.content_type == "application/json")
    async def json_only(body: Any) -> None:
        got.append(("json", body))
        if len(got) == 2:
            both.set()

    @subscriber
    async def the_rest(body: Any) -> None:
        got.append(("rest", body))
        if len(got) == 2:
            both.set()

    async with place.running(broker) as br:
        await place.until(br.publish({"msg": "hello"}, queue), br.publish("hello", queue), both.wait())
    assert sorted(got, key=str) == [("json", {"msg": "hello"}), ("rest", "hello")]


async def test_nothing_is_cast_without_a_serializer(place: Place, queue: str) -> None:
    class Item(BaseModel):
        x: int

    broker, got, came = place.broker(apply_types=True, serializer=None), list[Any](), asyncio.Event()

    @broker.subscriber(queue)
    async def handle(body: Item, found: int = Depends(lambda: "100"), broker: Any = Context()) -> None:
        got.extend((body, found, broker))
        came.set()

    async with place.running(broker) as br:
        await place.until(br.publish({"x": 1}, queue), came.wait())
    assert got == [{"x": 1}, "100", broker]


async def test_dependencies_of_every_level(place: Place, queue: str) -> None:
    got: list[str] = []
    came = asyncio.Event()

    def note(level: str) -> Any:
        return Depends(lambda: got.append(level))

    broker = place.broker(dependencies=(note("broker"),))

    @broker.subscriber(queue, dependencies=(note("subscriber"),))
    async def handle(body: str, own: None = note("handler")) -> None:
        came.set()

    async with place.running(broker) as br:
        await place.until(br.publish("a", queue), came.wait())
    assert sorted(got) == ["broker", "handler", "subscriber"]


async def test_a_subscriber_made_while_the_broker_runs(place: Place, queue: str) -> None:
    broker, came = place.broker(), asyncio.Event()

    async def handle(body: str) -> None:
        came.set()

    async with place.running(broker) as br:
        subscriber = br.subscriber(queue)
        subscriber(handle)
        await subscriber.start()
        await place.until(br.publish("hello", queue), came.wait())
        await subscriber.stop()


async def test_rows_asked_for_are_not_for_subscribers_with_handlers(place: Place, queue: str) -> None:
    broker = place.broker(apply_types=True)
    subscriber = broker.subscriber(queue)

    @subscriber
    async def handle() -> None: ...

    async with place.running(broker):
        with pytest.raises(AssertionError):
            await subscriber.get_one(timeout=1e-24)


async def test_a_row_asked_for_before_it_is_published(place: Place, queue: str) -> None:
    broker = place.broker(apply_types=True)
    subscriber = broker.subscriber(queue)
    async with place.running(broker) as br:
        assert await subscriber.get_one(timeout=1e-24) is None
        asked = asyncio.create_task(subscriber.get_one(timeout=10.0))
        await asyncio.sleep(0)
        await br.publish("hello", queue)
        message = await asked
        assert message is not None
        assert await message.decode() == "hello"


async def test_rows_in_a_loop(place: Place, queue: str) -> None:
    """Nobody settles them: each is tried again later, and does not stand in the next one's way."""
    broker, got = place.broker(apply_types=True), list[str]()
    subscriber = broker.subscriber(queue)

    async def consume() -> None:
        async for message in subscriber:
            got.append(await message.decode())
            if len(got) == 2:
                break

    async def publish(br: SQLBroker) -> None:
        for body in ("one", "two"):
            await br.publish(body, queue)

    async with place.running(broker) as br:
        await place.until(consume(), publish(br))
    assert got == ["one", "two"]


@pytest.mark.parametrize("stopped", ["subscriber", "broker"])
async def test_a_loop_ends_with_its_subscriber(place: Place, queue: str, stopped: str) -> None:
    broker = place.broker()
    subscriber = broker.subscriber(queue)
    taken = asyncio.Event()

    async def consume() -> list[Any]:
        got: list[Any] = []
        async for message in subscriber:
            got.append(await message.decode())
            await message.ack()
            taken.set()
        return got

    async with place.running(broker) as br:
        consuming = asyncio.create_task(consume())
        await br.publish("one", queue)
        await taken.wait()
        await (subscriber.stop() if stopped == "subscriber" or place.in_memory else br.stop())
        assert await asyncio.wait_for(consuming, 20) == ["one"]


@pytest.mark.parametrize("way", ["get_one", "loop"])
async def test_rows_asked_for_before_the_broker_starts(place: Place, queue: str, way: str) -> None:
    """On a broker that is only connected, by a subscriber that starts and stops itself, with its decoder when asked to decode."""
    decoded: list[bool] = []

    async def decoder(message: Any, original: Any) -> Any:
        decoded.append(True)
        return await original(message)

    broker, started = place.broker(), asyncio.Event()
    subscriber = broker.subscriber(queue, decoder=decoder)

    async def take() -> Any:
        await subscriber.start()
        started.set()
        if way == "get_one":
            message = await subscriber.get_one(timeout=10.0)
        else:
            async for found in subscriber:
                message = found
                break
        await subscriber.stop()
        return message

    async with _patched(place, broker):
        await broker.create_tables()
        taken = asyncio.create_task(take())
        await started.wait()
        await broker.publish(b"hello", queue)
        message = await taken
    assert not decoded
    assert await message.decode() == b"hello"
    assert decoded == [True]


@pytest.mark.parametrize("place", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
async def test_stop_consume(place: Place, queue: str) -> None:
    broker, got, came = place.broker(), list[str](), asyncio.Event()

    @broker.subscriber(queue)
    def handle(body: str) -> None:
        got.append(body)
        came.set()
        raise StopConsume

    async with place.running(broker) as br:
        await place.until(br.publish("hello", queue), came.wait())
        await until(lambda: not any(subscriber.running for subscriber in br.subscribers))
        await br.publish("again", queue)
        await asyncio.sleep(0.3)
    assert got == ["hello"]


async def test_two_brokers_of_one_application(place: Place, queue: str) -> None:
    first, second, got, both = place.broker(), place.broker(), list[str](), asyncio.Event()

    @first.subscriber(queue)
    @second.subscriber(queue + "1")
    def handle(body: str) -> None:
        got.append(body)
        if len(got) == 2:
            both.set()

    app = FastStream(first, second)
    await _create_tables(place, first)
    async with _patched(place, first) as one, _patched(place, second) as two, TestApp(app):
        await place.until(one.publish("a", queue), two.publish("b", queue + "1"), both.wait())
    assert sorted(got) == ["a", "b"]


async def test_an_answer_goes_out_by_another_broker(place: Place, queue: str) -> None:
    first, second, got, came = place.broker(), place.broker(), list[str](), asyncio.Event()

    @first.subscriber(queue)
    @second.publisher(queue + "1")
    def handle(body: str) -> str:
        return body

    @second.subscriber(queue + "1")
    def answer(body: str) -> None:
        got.append(body)
        came.set()

    app = FastStream(first, second)
    await _create_tables(place, first)
    async with _patched(place, first) as one, _patched(place, second), TestApp(app):
        await place.until(one.publish("hello", queue), came.wait())
    assert got == ["hello"]


async def test_an_answer_crosses_from_one_broker_to_another(place: Place, queue: str) -> None:
    first, second, got, came = place.broker(), place.broker(), list[str](), asyncio.Event()

    @first.subscriber(queue)
    @second.publisher(queue + "1")
    def handle(body: str) -> str:
        return body

    @first.subscriber(queue + "1")
    def answer(body: str) -> None:
        got.append(body)
        came.set()

    app = FastStream(first, second)
    await _create_tables(place, first)
    both = TestSQLBroker(first, second) if place.in_memory else first
    async with both, TestApp(app):
        await place.until(first.publish("hello", queue), came.wait())
    assert got == ["hello"]


async def test_a_middleware_on_a_subscriber_without_an_answer(place: Place, queue: str) -> None:
    processed = asyncio.Event()

    class Watch(BaseMiddleware):
        async def after_processed(self, *args: Any, **kwargs: Any) -> Any:
            processed.set()
            return await super().after_processed(*args, **kwargs)

    broker, got = place.broker(), list[str]()
    broker.add_middleware(Watch)

    @broker.subscriber(queue + "reply")
    async def reply(body: str) -> None:
        got.append(body)

    @broker.subscriber(queue, no_reply=True)
    async def handle(body: str) -> str:
        return body

    async with place.running(broker) as br:
        await place.until(br.publish("Hello!", queue, reply_to=queue + "reply"), processed.wait())
    assert got == []


def _patched(place: Place, broker: SQLBroker) -> Any:
    return TestSQLBroker(broker) if place.in_memory else broker


async def _create_tables(place: Place, broker: SQLBroker) -> None:
    if not place.in_memory:
        await broker.create_tables()
        await broker.stop()
