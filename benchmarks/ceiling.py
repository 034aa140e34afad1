"""C, FastStream's own ceiling: `consume()` of a message that is ready, into a pydantic handler, with nothing to settle."""

from __future__ import annotations

from benchmarks.common import BODY, Figure, Order, Stopwatch
from faststream_sql import SQLBroker
from faststream_sql.engine import Delivery, Outcome


async def _settled(delivery: Delivery, outcome: Outcome) -> None:
    """There is no row."""


async def ceiling(messages: int) -> Figure:
    watch = Stopwatch(messages)
    broker = SQLBroker("sqlite://", logger=None)

    @broker.subscriber("orders")
    async def handle(order: Order) -> None:
        watch.tick()

    (subscriber,) = broker.subscribers
    await broker.connect()
    subscriber._build_fastdepends_model()
    subscriber._post_start()
    headers = '{"content-type": "application/json", "correlation_id": "c"}'
    for number in range(messages):
        await subscriber.consume(
            Delivery(
                key=number,
                row_id=number,
                group="orders",
                attempt=1,
                names=(),
                values=(),
                payload=BODY,
                headers=headers,
                suspect=False,
                hold=None,
                settle=_settled,
            )
        )
    subscriber.running = False
    await broker.stop()
    return watch.figure()
