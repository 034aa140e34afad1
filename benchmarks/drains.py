"""This broker: a full table drained by one process, every ack committed before it returns."""

from __future__ import annotations

from typing import Any

import asyncpg

from benchmarks.common import BODY, Figure, Order, Stopwatch
from faststream_sql import QueueTable, SQLBroker
from faststream_sql.annotations import SQLMessage
from faststream_sql.drivers.base import Use
from faststream_sql.engine import Ack, Delivery, NewRow, SubscriptionOptions

HEADERS = {"content-type": "application/json", "correlation_id": "c"}


def table(form: str) -> QueueTable:
    columns: dict[str, Any] = {
        "id": "id",
        "group": "name",
        "retry_after": "retry_after",
        "attempt": "attempt",
        "headers": "headers",
        "payload": "payload",
    }
    if form == "lease":
        columns["locked_until"] = "locked_until"
    if form == "advisory":
        columns["advisory_lock"] = "bench-{id}"
    return QueueTable("bench_jobs", **columns)


async def empty(broker: SQLBroker) -> None:
    """Make the table anew."""
    await broker.connect()
    async with broker.engine.pool.connection(Use.STATEMENT, "bench") as connection:
        await connection.script("DROP TABLE IF EXISTS bench_jobs")
    await broker.create_tables()


async def fill(broker: SQLBroker, url: str, messages: int) -> None:
    """Make the table anew, with so many messages, in thousands."""
    await empty(broker)
    rows = [NewRow(group="orders", payload=BODY, headers=HEADERS)] * 1000
    for _ in range(messages // 1000):
        await broker.engine.insert(broker._routes.resolve("orders"), rows)
    if url.startswith("postgresql"):
        connection = await asyncpg.connect(url)
        await connection.execute("VACUUM ANALYZE bench_jobs")
        await connection.close()


async def drain(url: str, form: str, messages: int, workers: int, *, with_message: bool = False) -> Figure:
    watch = Stopwatch(messages)
    broker = SQLBroker(url, table=table(form), logger=None, pool_size=workers + 2)

    if with_message:

        @broker.subscriber("orders", max_workers=workers)
        async def handle_with_message(order: Order, message: SQLMessage) -> None:
            watch.tick()
    else:

        @broker.subscriber("orders", max_workers=workers)
        async def handle(order: Order) -> None:
            watch.tick()

    await fill(broker, url, messages)
    await broker.start()
    await watch.done.wait()
    await broker.stop()
    return watch.figure()


async def engine_alone(url: str, messages: int, workers: int) -> Figure:
    """The engine without FastStream."""
    watch = Stopwatch(messages)
    broker = SQLBroker(url, table=table("lease"), logger=None)
    await fill(broker, url, messages)

    async def deliver(delivery: Delivery) -> None:
        delivery.handled()
        await delivery.settle(Ack())
        watch.tick()

    subscription = broker.engine.subscription(
        name="orders", table=table("lease"), options=SubscriptionOptions(max_workers=workers), deliver=deliver
    )
    await subscription.start()
    await watch.done.wait()
    await subscription.stop(1.0)
    await broker.stop()
    return watch.figure()
