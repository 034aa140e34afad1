"""What every FastStream broker does for those who publish."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
from faststream import Context, Response
from pydantic import BaseModel

from tests.citizen.conftest import Place

NOW = datetime.now(timezone.utc)


class Model(BaseModel):
    r: str


@dataclass
class Data:
    r: str


BODIES: dict[str, tuple[Any, Any, Any]] = {
    "text": ("hello", str, "hello"),
    "bytes": (b"hello", bytes, b"hello"),
    "integer": (1, int, 1),
    "number": (1.0, float, 1.0),
    "integer as number": (1, float, 1.0),
    "boolean": (False, bool, False),
    "dictionary": ({"m": 1}, dict[str, int], {"m": 1}),
    "list": ([1, 2, 3], list[int], [1, 2, 3]),
    "moment": (NOW, datetime, NOW),
    "bytes as dataclass": (b'{"r": "hi"}', Data, Data("hi")),
    "dataclass": (Data("hi"), Data, Data("hi")),
    "dataclass as dictionary": (Data("hi"), dict, asdict(Data("hi"))),
    "dictionary as dataclass": ({"r": "hi"}, Data, Data("hi")),
    "bytes as model": (b'{"r": "hi"}', Model, Model(r="hi")),
    "model": (Model(r="hi"), Model, Model(r="hi")),
    "model as dictionary": (Model(r="hi"), dict, {"r": "hi"}),
    "dictionary as model": ({"r": "hi"}, Model, Model(r="hi")),
}


@pytest.mark.parametrize("case", BODIES)
async def test_bodies_arrive_as_their_type(place: Place, queue: str, case: str) -> None:
    body, wanted, expected = BODIES[case]
    broker, got, came = place.broker(apply_types=True), list[Any](), asyncio.Event()

    @broker.subscriber(queue)
    async def handle(found: wanted) -> None:  # type: ignore[valid-type]
        got.append(found)
        came.set()

    async with place.running(broker) as br:
        await place.until(br.publish(body, queue), came.wait())
    assert got == [expected]


async def test_a_body_spreads_over_arguments(place: Place, queue: str) -> None:
    broker, got = place.broker(apply_types=True), list[Any]()
    first, second = asyncio.Event(), asyncio.Event()

    @broker.subscriber(queue)
    async def by_name(a: int, b: int) -> None:
        got.append((a, b))
        first.set()

    @broker.subscriber(queue + "1")
    async def by_place(a: int, b: int, *rest: tuple[int, ...]) -> None:
        got.append((a, b, rest))
        second.set()

    async with place.running(broker) as br:
        one, two = br.publish({"a": 1, "b": 1.0}, queue), br.publish([1, 2.0, 3.0, 4.0], queue + "1")
        await place.until(one, two, first.wait(), second.wait())
    assert sorted(got, key=len) == [(1, 1), (1, 2, (3, 4))]


async def test_a_response_says_headers_and_correlation(place: Place, queue: str) -> None:
    broker, got, came = place.broker(apply_types=True), list[Any](), asyncio.Event()

    @broker.subscriber(queue)
    @broker.publisher(queue + "1")
    async def handle() -> Response:
        return Response(1, headers={"custom": "1"}, correlation_id="1")

    @broker.subscriber(queue + "1")
    async def answer(message: Any = Context("message")) -> None:
        got.append((message.body, message.headers["custom"], message.correlation_id))
        came.set()

    async with place.running(broker) as br:
        await place.until(br.publish(None, queue), came.wait())
    assert got == [(b"1", "1", "1")]


@pytest.mark.parametrize("way", ["decorator inside", "decorator outside", "by hand"])
async def test_publishers(place: Place, queue: str, way: str) -> None:
    broker, got, came = place.broker(apply_types=True), list[str](), asyncio.Event()
    publisher = broker.publisher(queue + "resp")

    async def handle() -> str:
        if way == "by hand":
            await publisher.publish("")
        return ""

    if way == "decorator inside":
        broker.subscriber(queue)(publisher(handle))
    elif way == "decorator outside":
        publisher(broker.subscriber(queue)(handle))
    else:
        broker.subscriber(queue)(handle)

    @broker.subscriber(queue + "resp")
    async def answer(body: str) -> None:
        got.append(body)
        came.set()

    async with place.running(broker) as br:
        await place.until(br.publish("", queue), came.wait())
    assert got == [""]


async def test_several_publishers_of_one_handler_and_one_of_several(place: Place, queue: str) -> None:
    broker, got, all_there = place.broker(apply_types=True), list[str](), asyncio.Event()
    shared = broker.publisher(queue + "shared")

    def note(text: str) -> None:
        got.append(text)
        if len(got) == 4:
            all_there.set()

    @broker.publisher(queue + "left")
    @broker.subscriber(queue)
    @broker.publisher(queue + "right")
    @shared
    async def one() -> str:
        return "one"

    @shared
    @broker.subscriber(queue + "2")
    async def two() -> str:
        return "two"

    def answers(name: str) -> None:
        @broker.subscriber(queue + name)
        async def answer(body: str) -> None:
            note(f"{name} {body}")

    for name in ("left", "right", "shared"):
        answers(name)

    async with place.running(broker) as br:
        await place.until(br.publish("", queue), br.publish("", queue + "2"), all_there.wait())
    assert sorted(got) == ["left one", "right one", "shared one", "shared two"]


async def test_replies(place: Place, queue: str) -> None:
    broker, got, came = place.broker(apply_types=True), list[str](), asyncio.Event()

    @broker.subscriber(queue + "reply")
    async def reply(body: str) -> None:
        got.append(body)
        came.set()

    @broker.subscriber(queue)
    async def handle(body: str) -> str:
        return body

    async with place.running(broker) as br:
        await place.until(br.publish("Hello!", queue, reply_to=queue + "reply"), came.wait())
    assert got == ["Hello!"]


async def test_a_publisher_made_while_the_broker_runs(place: Place, queue: str) -> None:
    broker, got, came = place.broker(apply_types=True), list[str](), asyncio.Event()

    @broker.subscriber(queue)
    async def handle(body: str) -> None:
        got.append(body)
        came.set()

    async with place.running(broker) as br:
        await br.publisher("nobody reads it").publish(None)
        await place.until(br.publisher(queue).publish("Hello!"), came.wait())
    assert got == ["Hello!"]


async def test_ids_are_made_by_the_generator(place: Place, queue: str) -> None:
    broker, got, came = place.broker(apply_types=True, id_generator=lambda: "made"), list[str](), asyncio.Event()

    @broker.subscriber(queue)
    async def handle(message: Any = Context("message")) -> None:
        got.append(message.correlation_id)
        came.set()

    async with place.running(broker) as br:
        await place.until(br.publish("a", queue), came.wait())
    assert got == ["made"]
