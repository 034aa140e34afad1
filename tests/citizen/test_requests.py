"""Requests: answers by reply rows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from faststream import BaseMiddleware

from faststream_sql import SQLRouter
from tests.citizen.conftest import Place


class Double(BaseMiddleware[Any, Any]):
    """Doubles what is received and what is published."""

    async def on_receive(self) -> None:
        assert self.msg is not None
        self.msg.payload *= 2

    async def consume_scope(self, call_next: Any, msg: Any) -> Any:
        msg.body = bytes(msg.body)
        return await call_next(msg)

    async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
        cmd.body *= 2
        return await call_next(cmd)


@pytest.mark.parametrize("by", ["broker", "publisher", "publisher of a router"])
async def test_an_answer(place: Place, queue: str, by: str) -> None:
    broker, router = place.broker(), SQLRouter()
    declared: Any = router if by == "publisher of a router" else broker
    publisher = declared.publisher(queue)

    @declared.subscriber(queue)
    async def handle(body: Any) -> str:
        return "Response"

    broker.include_router(router)
    async with place.running(broker):
        if by == "broker":
            answer = await broker.request(None, queue, timeout=20.0, correlation_id="1")
        else:
            answer = await publisher.request(None, timeout=20.0, correlation_id="1")
    assert await answer.decode() == "Response"
    assert answer.correlation_id == "1"


@pytest.mark.parametrize("by", ["broker", "publisher", "publisher of a router"])
async def test_middlewares_are_around_question_and_answer(place: Place, queue: str, by: str) -> None:
    """Four times: publishing the question, reading it, publishing the answer, reading that."""
    routed = by == "publisher of a router"
    broker = place.broker(middlewares=() if routed else (Double,))
    router = SQLRouter(middlewares=(Double,) if routed else ())
    declared: Any = router if routed else broker
    publisher = declared.publisher(queue)

    @declared.subscriber(queue)
    async def handle(body: str) -> str:
        return body

    broker.include_router(router)
    async with place.running(broker):
        if by == "broker":
            answer = await broker.request("x", queue, timeout=20.0)
        else:
            answer = await publisher.request("x", timeout=20.0)
    assert await answer.decode() == "x" * 16


@pytest.mark.parametrize("seconds", [0, 1e-24])
async def test_no_answer_in_time(place: Place, queue: str, seconds: float) -> None:
    broker = place.broker()

    @broker.subscriber(queue)
    async def handle(body: Any) -> str:
        await asyncio.sleep(0.01)
        return "Response"

    async with place.running(broker):
        with pytest.raises(TimeoutError):
            await broker.request(None, queue, timeout=seconds)
