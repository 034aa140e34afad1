"""Routers: prefixes, nesting, declarations without decorators, and what they inherit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from faststream import Context

from faststream_sql import SQLBroker, SQLPublisher, SQLRoute, SQLRouter
from faststream_sql.testing import TestSQLBroker
from tests.citizen.conftest import Place


@pytest.mark.parametrize("shape", ["no prefix", "own prefix", "prefix of the include", "nested", "in the broker's arguments"])
async def test_subscribers_and_publishers_have_their_prefix(place: Place, queue: str, shape: str) -> None:
    got, came = list[str](), asyncio.Event()
    router = SQLRouter(prefix="test_" if shape == "own prefix" else "inner_" if shape == "nested" else "")

    @router.subscriber(queue)
    @router.publisher(queue + "resp")
    def handle(body: str) -> str:
        return body + "!"

    @router.subscriber(queue + "resp")
    def answer(body: str) -> None:
        got.append(body)
        came.set()

    broker = place.broker(routers=[router] if shape == "in the broker's arguments" else [])
    prefix = {"own prefix": "test_", "prefix of the include": "test_", "nested": "outer_inner_"}.get(shape, "")
    if shape == "nested":
        outer = SQLRouter(prefix="outer_")
        outer.include_routers(router)
        broker.include_routers(outer)
    elif shape == "prefix of the include":
        broker.include_router(router, prefix="test_")
    else:
        broker.include_router(router)
    async with place.running(broker) as br:
        await place.until(br.publish("hello", f"{prefix}{queue}"), came.wait())
    assert got == ["hello!"]


async def test_a_publisher_of_a_router(place: Place, queue: str) -> None:
    broker, router, came = place.broker(), SQLRouter(), asyncio.Event()

    @broker.subscriber(f"test_{queue}")
    async def handle(body: str) -> None:
        came.set()

    publisher = router.publisher(queue)
    broker.include_router(router, prefix="test_")
    async with place.running(broker):
        await place.until(publisher.publish("hello"), came.wait())


async def test_declared_without_decorators(place: Place, queue: str) -> None:
    broker, got, came = place.broker(), list[str](), asyncio.Event()

    def handle(body: str) -> str:
        return body

    broker.include_router(SQLRouter(prefix="test_", handlers=(SQLRoute(handle, queue, publishers=(SQLPublisher(queue + "1"),)),)))

    @broker.subscriber(f"test_{queue}1")
    async def answer(body: str) -> None:
        got.append(body)
        came.set()

    async with place.running(broker) as br:
        await place.until(br.publish("hello", f"test_{queue}"), came.wait())
    assert got == ["hello"]


async def test_a_subscriber_of_a_nested_router_made_while_the_broker_runs(place: Place, queue: str) -> None:
    nested, came = SQLRouter(), asyncio.Event()
    broker = place.broker(routers=[SQLRouter(routers=[nested])])

    def handle(body: str) -> None:
        came.set()

    async with place.running(broker) as br:
        subscriber = nested.subscriber(queue)
        subscriber(handle)
        await subscriber.start()
        await place.until(br.publish("Hi!", queue), came.wait())
        await subscriber.stop()


async def test_a_router_moves_to_another_broker() -> None:
    router, first, second = SQLRouter(), SQLBroker(), SQLBroker()

    @router.subscriber("in")
    async def handle(broker: Any = Context()) -> str:
        return "done"

    for broker in (first, second):
        broker.include_router(router)
        async with TestSQLBroker(broker) as br:
            await br.publish({}, "in")
    assert router.parent is second
    assert router not in first.routers
    assert len(router.config.configs) == 2


@pytest.mark.parametrize("kind", ["subscriber", "publisher"])
def test_what_endpoints_inherit(kind: str) -> None:
    broker: Any = SQLBroker(middlewares=(1,), graceful_timeout=10)  # type: ignore[arg-type]
    router: Any = SQLRouter(prefix="1.", middlewares=[3])  # type: ignore[list-item]
    inner: Any = SQLRouter(prefix="5.", middlewares=[4])  # type: ignore[list-item]
    found = getattr(inner, kind)("test")
    router.include_router(inner, prefix="4.")
    broker.include_router(router, middlewares=[2])
    config = found._outer_config
    assert tuple(config.broker_middlewares) == (1, 2, 3, 4)
    assert (config.prefix, config.graceful_timeout, found.queue) == ("1.4.5.", 10, "1.4.5.test")
    assert config.producer is broker.config.producer


@pytest.mark.parametrize(
    ("own", "including", "shown"), [(False, True, False), (True, True, True), (None, True, True), (True, False, False)]
)
@pytest.mark.parametrize("kind", ["subscriber", "publisher"])
def test_who_stands_in_the_document(kind: str, own: bool | None, including: bool, shown: bool) -> None:
    broker, router = SQLBroker(), SQLRouter(include_in_schema=own)
    found = getattr(router, kind)("test")
    broker.include_router(router, include_in_schema=including)
    assert found.specification.include_in_schema is shown


def test_every_level_takes_every_option() -> None:
    def options(of: Callable[..., Any]) -> set[str]:
        return set(inspect.signature(of).parameters) - {"self", "publishers", "call"}

    assert options(SQLRoute.__init__) == options(SQLRouter.subscriber) == options(SQLBroker.subscriber)
    assert options(SQLPublisher.__init__) == options(SQLRouter.publisher) == options(SQLBroker.publisher)
