"""C, FastStream's own ceiling: `consume()` of a message that is ready, into a pydantic handler, with nothing to settle.

It is FastStream's pipeline as every broker of its own runs it: its acknowledgement middleware, its lock, its decoding. Nothing of this
package is in it but the declaration, so that what is made faster here does not move the ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from faststream._internal.endpoint.subscriber import SubscriberUsecase
from faststream._internal.endpoint.subscriber.utils import MultiLock
from faststream.message import StreamMessage, decode_message
from typing_extensions import override

from benchmarks.common import BODY, Figure, Order, Stopwatch
from faststream_sql import SQLBroker
from faststream_sql.broker._faststream import CallsCollection
from faststream_sql.broker.subscriber import SQLSubscriber, SQLSubscriberConfig
from faststream_sql.engine import SubscriptionOptions


@dataclass(frozen=True, slots=True)
class Ready:
    """A message as a client library hands it over."""

    body: bytes
    headers: dict[str, Any]
    number: int


async def _parse(raw: Ready) -> StreamMessage[Ready]:
    return StreamMessage(
        raw_message=raw,
        body=raw.body,
        headers=raw.headers,
        content_type=raw.headers.get("content-type"),
        reply_to=raw.headers.get("reply_to", ""),
        correlation_id=raw.headers.get("correlation_id"),
        message_id=str(raw.number),
    )


async def _decode(message: StreamMessage[Any]) -> Any:
    return decode_message(message)


class _Config(SQLSubscriberConfig):
    auto_ack_disabled = False


class _Subscriber(SQLSubscriber):
    process_message = SubscriberUsecase.process_message

    @override
    def get_log_context(self, message: Any) -> dict[str, str]:
        return {"queue": "orders", "message_id": getattr(message, "message_id", "")}


async def ceiling(messages: int) -> Figure:
    watch = Stopwatch(messages)
    broker = SQLBroker("sqlite://", logger=None)
    config = _Config(queue="orders", table=None, options=SubscriptionOptions(), _outer_config=broker.config)
    calls = CallsCollection[Any]()
    subscriber = _Subscriber(config, None, calls)
    subscriber._parser, subscriber._decoder = _parse, _decode
    subscriber.add_call(parser_=None, decoder_=None, codec_=None, dependencies_=())

    @subscriber
    async def handle(order: Order) -> None:
        watch.tick()

    await broker.connect()
    subscriber._build_fastdepends_model()
    subscriber._post_start()
    subscriber.lock = MultiLock()
    for number in range(messages):
        await subscriber.consume(Ready(BODY, {"content-type": "application/json", "correlation_id": "c"}, number))
    await broker.stop()
    return watch.figure()
