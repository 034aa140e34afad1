"""Publishing: one row at a time and a thousand at once, by this broker and by hand."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import asyncpg

from benchmarks.common import BODY, Figure, Order, Stopwatch
from benchmarks.drains import HEADERS, empty, table
from faststream_sql import SQLBroker

ONE = "INSERT INTO bench_jobs (name, retry_after, attempt, headers, payload) VALUES ($1, $2, $3, $4, $5) RETURNING id"
MANY = (
    "INSERT INTO bench_jobs (name, retry_after, attempt, headers, payload) "
    "SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::int[], $4::jsonb[], $5::bytea[]) RETURNING id"
)


async def publish(url: str, messages: int, together: int) -> Figure:
    """`publish` one by one, or `publish_batch` of so many. The first call, which opens the table, is not timed."""
    broker = SQLBroker(url, table=table("lease"), logger=None)
    await empty(broker)
    order = Order.model_validate_json(BODY)
    watch = Stopwatch(messages // together)
    for _ in range(messages // together):
        if together == 1:
            await broker.publish(order, "orders")
        else:
            await broker.publish_batch(*[order] * together, queue="orders")
        watch.tick()
    await broker.stop()
    return watch.figure(together)


async def raw_insert(url: str, messages: int, together: int) -> Figure:
    broker = SQLBroker(url, table=table("lease"), logger=None)
    await empty(broker)
    await broker.stop()
    connection = await asyncpg.connect(url)
    headers = json.dumps(HEADERS)
    watch = Stopwatch(messages // together)
    for _ in range(messages // together):
        now = datetime.now(timezone.utc)
        if together == 1:
            await connection.fetch(ONE, "orders", now, 1, headers, BODY)
        else:
            await connection.fetch(MANY, *([value] * together for value in ("orders", now, 1, headers, BODY)))
        watch.tick()
    await connection.close()
    return watch.figure(together)
