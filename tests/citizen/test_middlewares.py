"""Middlewares of brokers and routers, and FastStream's `ExceptionMiddleware`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from faststream import BaseMiddleware, Context, ExceptionMiddleware
from faststream.exceptions import SkipMessage

from faststream_sql import SQLRouter
from tests.citizen.conftest import Place


def noting(name: str, log: list[str]) -> type[BaseMiddleware[Any, Any]]:
    class Noting(BaseMiddleware[Any, Any]):
        async def __aenter__(self) -> Any:
            log.append(f"enter {name}")
            return await super().__aenter__()

        async def __aexit__(self, *args: object) -> Any:
            log.append(f"exit {name}")
            return await super().__aexit__(*args)  # type: ignore[arg-type]

        async def consume_scope(self, call_next: Any, msg: Any) -> Any:
            log.append(f"consume {name}")
            return await call_next(msg)

        async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
            log.append(f"publish {name}")
            return await call_next(cmd)

    return Noting


@pytest.mark.parametrize("by", ["broker", "publisher"])
async def test_the_order_of_levels(place: Place, queue: str, by: str) -> None:
    log, came = list[str](), asyncio.Event()
    broker = place.broker(middlewares=[noting("outer", log)])
    router, inner = SQLRouter(middlewares=[noting("middle", log)]), SQLRouter(middlewares=[noting("inner", log)])
    publisher = inner.publisher(queue)

    @inner.subscriber(queue)
    async def handle(body: Any) -> None:
        came.set()

    router.include_router(inner)
    broker.include_router(router)
    async with place.running(broker) as br:
        await place.until(publisher.publish(None) if by == "publisher" else br.publish(None, queue), came.wait())
    published = ["outer", "middle", "inner"] if by == "publisher" else ["outer"]
    assert [entry for entry in log if entry.startswith("publish")] == [f"publish {name}" for name in published]
    assert [entry for entry in log if not entry.startswith("publish")] == [
        "enter outer", "enter middle", "enter inner", "consume outer", "consume middle", "consume inner", "exit inner", "exit middle",
        "exit outer",
    ]  # fmt: skip


async def test_one_added_later_is_around_every_message(place: Place, queue: str) -> None:
    log, came = list[str](), asyncio.Event()

    class Watch(BaseMiddleware[Any, Any]):
        async def on_receive(self) -> None:
            log.append("received")
            await super().on_receive()

        async def after_processed(self, *args: Any, **kwargs: Any) -> bool | None:
            log.append("processed")
            if log.count("processed") == 2:
                came.set()
            return await super().after_processed(*args, **kwargs)

    broker = place.broker()

    @broker.subscriber(queue)
    async def before(body: str) -> str:
        return ""

    broker.add_middleware(Watch)

    @broker.subscriber(queue + "1")
    async def after(body: str) -> str:
        return ""

    async with place.running(broker) as br:
        await place.until(br.publish("", queue), br.publish("", queue + "1"), came.wait())
    assert sorted(log) == ["processed", "processed", "received", "received"]


async def test_one_that_changes_what_is_published(place: Place, queue: str) -> None:
    class Double(BaseMiddleware[Any, Any]):
        async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
            cmd.body *= 2
            return await call_next(cmd)

    broker, got, came = place.broker(middlewares=(Double,)), list[str](), asyncio.Event()

    @broker.subscriber(queue)
    @broker.publisher(queue + "1")
    async def handle(body: str) -> str:
        return body

    for name in ("1", "reply"):

        @broker.subscriber(queue + name)
        async def answer(body: str) -> None:
            got.append(body)
            if len(got) == 2:
                came.set()

    async with place.running(broker) as br:
        await place.until(br.publish("r", queue, reply_to=queue + "reply"), came.wait())
    assert got == ["rrrr", "rrrr"]


async def test_one_sees_what_a_handler_raises(place: Place, queue: str) -> None:
    got, came = list[type[BaseException]](), asyncio.Event()

    class Trace(BaseMiddleware[Any, Any]):
        async def consume_scope(self, call_next: Any, msg: Any) -> Any:
            try:
                return await call_next(msg)
            except Exception as error:
                got.append(type(error))
                came.set()
                raise

    broker = place.broker(middlewares=(Trace,))

    @broker.subscriber(queue)
    async def handle(body: str) -> None:
        raise ValueError

    async with place.running(broker) as br:
        await place.until(br.publish("", queue), came.wait())
    assert got == [ValueError]


class ParentError(Exception): ...


class ChildError(ParentError): ...


@pytest.mark.parametrize(("raised", "answer"), [(ZeroDivisionError, "zero"), (ParentError, "parent"), (ChildError, "child")])
async def test_an_exception_becomes_an_answer(place: Place, queue: str, raised: type[Exception], answer: str) -> None:
    middleware, got, came = ExceptionMiddleware(), list[str](), asyncio.Event()

    def answers(error: type[Exception], text: str) -> None:
        @middleware.add_handler(error, publish=True)
        async def make(error: Exception) -> str:
            return text

    for error, text in ((ParentError, "parent"), (ChildError, "child"), (ZeroDivisionError, "zero")):
        answers(error, text)

    broker = place.broker(apply_types=True, middlewares=(middleware,))

    @broker.subscriber(queue)
    @broker.publisher(queue + "1")
    async def handle(body: Any) -> str:
        raise raised

    @broker.subscriber(queue + "1")
    async def answered(message: Any = Context("message")) -> None:
        got.append(await message.decode())
        came.set()

    async with place.running(broker) as br:
        await place.until(br.publish("", queue), came.wait())
    assert got == [answer]


@pytest.mark.parametrize("then", [SkipMessage, ValueError])
async def test_an_exception_handler_that_raises_publishes_nothing(place: Place, queue: str, then: type[Exception]) -> None:
    middleware, got, came = ExceptionMiddleware(), list[Any](), asyncio.Event()

    @middleware.add_handler(ValueError, publish=True)
    async def handled(error: ValueError) -> None:
        came.set()
        raise then

    broker = place.broker(middlewares=(middleware,))

    @broker.subscriber(queue)
    @broker.publisher(queue + "1")
    async def handle(body: Any) -> None:
        raise ValueError

    @broker.subscriber(queue + "1")
    async def answered(body: Any) -> None:
        got.append(body)

    async with place.running(broker) as br:
        await place.until(br.publish("", queue), came.wait())
    assert got == []


async def test_a_skip_is_no_error_and_a_decoder_may_fail(place: Place, queue: str) -> None:
    middleware, got = ExceptionMiddleware(), list[type[Exception]]()
    skipped, failed = asyncio.Event(), asyncio.Event()

    @middleware.add_handler(Exception)
    async def handled(error: Exception) -> None:
        got.append(type(error))
        failed.set()

    async def decoder(message: Any, original: Any) -> Any:
        if message.body == b"bad":
            raise LookupError
        return await original(message)

    broker = place.broker(middlewares=(middleware,), decoder=decoder)

    @broker.subscriber(queue)
    async def handle(body: str) -> None:
        skipped.set()
        raise SkipMessage

    async with place.running(broker) as br:
        await place.until(br.publish("good", queue), skipped.wait())
        await place.until(br.publish("bad", queue), failed.wait())
    assert got == [LookupError]
