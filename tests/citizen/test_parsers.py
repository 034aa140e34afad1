"""Parsers, decoders and codecs of the broker, of a router, of a subscriber and of one handler."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from faststream_sql import QueueTable, SQLBroker, SQLRouter
from faststream_sql.testing import TestSQLBroker
from tests.citizen.conftest import Place

LEVELS = ("broker", "router", "subscriber", "handler")


def noting(log: list[str], name: str) -> Any:
    async def wrap(message: Any, original: Any) -> Any:
        log.append(name)
        return await original(message)

    return wrap


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["parser", "decoder"])
async def test_a_parser_or_decoder_of_each_level(place: Place, queue: str, level: str, kind: str) -> None:
    log, came = list[str](), asyncio.Event()
    at = {found: {kind: noting(log, found)} if found == level else {} for found in LEVELS}
    broker, router = place.broker(**at["broker"]), SQLRouter(**at["router"])
    subscriber = router.subscriber(queue, **at["subscriber"])

    @subscriber(**at["handler"])
    async def handle(body: bytes) -> None:
        log.append(body.decode())
        came.set()

    broker.include_router(router)
    async with place.running(broker) as br:
        await place.until(br.publish(b"hello", queue), came.wait())
    assert log == [level, "hello"]


@pytest.mark.parametrize("kind", ["parser", "decoder"])
async def test_the_innermost_one_takes_the_place_of_others(place: Place, queue: str, kind: str) -> None:
    log, came = list[str](), asyncio.Event()
    broker, router = place.broker(**{kind: noting(log, "broker")}), SQLRouter(**{kind: noting(log, "router")})

    @router.subscriber(queue, **{kind: noting(log, "subscriber")})
    async def handle(body: bytes) -> None:
        came.set()

    broker.include_router(router)
    async with place.running(broker) as br:
        await place.until(br.publish(b"hello", queue), came.wait())
    assert log == ["subscriber"]


async def test_handlers_of_one_subscriber_do_not_share_theirs(place: Place, queue: str) -> None:
    log, first, second = list[str](), asyncio.Event(), asyncio.Event()
    broker = place.broker()
    subscriber = broker.subscriber(queue)

    @subscriber(filter=lambda message: message.content_type == "application/json")
    async def handle(body: Any) -> None:
        first.set()

    @subscriber(parser=noting(log, "second"))
    async def handle2(body: Any) -> None:
        second.set()

    async with place.running(broker) as br:
        await place.until(br.publish({"msg": "hello"}, queue), br.publish(b"hello", queue), first.wait(), second.wait())
    assert log == ["second"]


@pytest.mark.parametrize("level", ["broker", "subscriber"])
async def test_a_decoder_without_await(place: Place, queue: str, level: str) -> None:
    got, came = list[bytes](), asyncio.Event()

    def decoder(message: Any) -> Any:
        got.append(message.body)
        return message

    broker = place.broker(**({"decoder": decoder} if level == "broker" else {}))

    @broker.subscriber(queue, **({"decoder": decoder} if level == "subscriber" else {}))
    async def handle(body: Any) -> None:
        came.set()

    async with place.running(broker) as br:
        await place.until(br.publish(b"hello", queue), came.wait())
    assert got == [b"hello"]


class Base64:
    """A codec, written against FastStream's protocol alone."""

    async def encode(self, msg: Any, serializer: Any = None) -> tuple[bytes, str | None]:
        return base64.b64encode(str(msg).encode()), "text/base64"

    async def decode(self, msg: Any) -> Any:
        return base64.b64decode(msg.body).decode()


async def test_a_codec_of_the_broker_writes_and_reads(place: Place, queue: str) -> None:
    got, came = list[Any](), asyncio.Event()
    broker = place.broker(codec=Base64())

    @broker.subscriber(queue)
    @broker.publisher(queue + "1")
    async def handle(body: str) -> str:
        return f"{body}!"

    raw = broker.subscriber(queue + "raw")

    @broker.subscriber(queue + "1")
    async def answer(body: str) -> None:
        got.append(body)
        came.set()

    async with place.running(broker) as br:
        await place.until(br.publish("hello", queue), came.wait())
        await br.publish("hello", queue + "raw")
        message = await raw.get_one(timeout=10)
        assert message is not None
        assert (message.body, message.content_type, await message.decode()) == (b"aGVsbG8=", "text/base64", "hello")
        await message.ack()
    assert got == ["hello!"]


@pytest.mark.parametrize("level", ["router", "subscriber"])
async def test_a_codec_that_only_reads(place: Place, queue: str, level: str) -> None:
    got, came = list[str](), asyncio.Event()
    broker, router = place.broker(), SQLRouter(**({"codec": Base64()} if level == "router" else {}))

    @router.subscriber(queue, **({"codec": Base64()} if level == "subscriber" else {}))
    async def handle(body: str) -> None:
        got.append(body)
        came.set()

    broker.include_router(router)
    async with place.running(broker) as br:
        await place.until(br.publish(b"aGVsbG8=", queue), came.wait())
    assert got == ["hello"]


async def test_a_codec_writes_texts_into_a_table_without_headers_too() -> None:
    table = QueueTable("bare", id="id", group="queue", payload="payload", locked_until="locked_until")
    broker, got = SQLBroker(table=table, codec=Base64()), list[str]()

    @broker.subscriber("q")
    async def handle(body: str) -> None:
        got.append(body)

    async with TestSQLBroker(broker) as br:
        await br.publish("hello", "q")
    assert got == ["hello"]


async def test_a_codec_beside_a_decoder_is_refused(place: Place, queue: str) -> None:
    broker = place.broker()

    @broker.subscriber(queue, codec=Base64(), decoder=noting([], "decoder"))
    async def handle(body: Any) -> None: ...

    with pytest.raises(ValueError, match="codec"):
        async with place.running(broker):
            pass
