"""A queue under test: an engine on one database, in one form, with a handler that records what it was given."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from faststream_sql.drivers.base import Pool, Use
from faststream_sql.engine import Ack, Delivery, Engine, EngineSettings, NewRow, Subscription, SubscriptionOptions, SystemClock
from faststream_sql.engine.clock import Clock
from faststream_sql.engine.counters import QueueCounters
from faststream_sql.table import QueueTable

PATIENCE_SECONDS = 20.0
"""How long a test waits for something that must come: a bound on hanging, never a measure."""

Handler = Callable[[Delivery], Awaitable[None]]


def queue_table(form: str, **changes: Any) -> QueueTable:
    """The table that most tests use, in a form."""
    columns: dict[str, Any] = {
        "id": "id",
        "group": "name",
        "priority": "priority",
        "retry_after": "retry_after",
        "attempt": "attempt",
        "headers": "headers",
        "payload": "payload",
    }
    if form == "lease":
        columns["locked_until"] = "locked_until"
    if form == "advisory":
        columns["advisory_lock"] = "jobs-{id}"
    columns |= changes
    return QueueTable("jobs", **{name: column for name, column in columns.items() if column is not None})


@dataclass
class Bench:
    """An engine, what it logged, and what was delivered."""

    pool: Pool
    table: QueueTable
    engine: Engine
    deliveries: list[Delivery] = field(default_factory=list)
    logged: list[tuple[int, str]] = field(default_factory=list)
    lost: list[Delivery] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    subscriptions: list[Subscription] = field(default_factory=list)

    @property
    def seen(self) -> list[tuple[bytes, int | None]]:
        """The payload and the attempt of every delivery, in order."""
        return [(bytes_of(delivery.payload), delivery.attempt) for delivery in self.deliveries]

    @property
    def counters(self) -> QueueCounters:
        """Of the group that most tests read."""
        return self.engine.counters.of(self.table, "jobs")

    async def publish(self, *payloads: bytes, group: str = "jobs", **options: Any) -> list[object]:
        return await self.engine.insert(self.table, [NewRow(group=group, payload=payload, **options) for payload in payloads])

    async def subscribe(self, handler: Handler | None = None, *, group: str = "jobs", **options: Any) -> Subscription:
        async def deliver(delivery: Delivery) -> None:
            self.deliveries.append(delivery)
            try:
                await (handler or acknowledge)(delivery)
            finally:
                async with self.changed:
                    self.changed.notify_all()

        options.setdefault("poll_interval", 0.05)
        subscription = self.engine.subscription(name=group, table=self.table, options=SubscriptionOptions(**options), deliver=deliver)
        self.subscriptions.append(subscription)
        await subscription.start()
        return subscription

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, looked at after each delivery."""

        async def wait() -> None:
            async with self.changed:
                await self.changed.wait_for(condition)

        await asyncio.wait_for(wait(), PATIENCE_SECONDS)

    async def until_rows(self, condition: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Wait until the table's rows fulfil a condition."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not condition(rows := await self.rows()):
            assert asyncio.get_running_loop().time() < deadline, f"the rows never came to be as expected: {rows[:3]}"
            await asyncio.sleep(0.01)
        return rows

    async def rows(self, table: QueueTable | None = None) -> list[dict[str, Any]]:
        """All rows by role, in the order of their ids."""
        described = table or self.table
        quote = self.engine.dialect.quote
        columns = described.keyed()
        listed = ", ".join(quote(column.name) for column in columns.values())
        async with self.pool.connection(Use.STATEMENT, "test") as connection:
            found = await connection.fetch(f"SELECT {listed} FROM {quote(described.name)} ORDER BY {quote(described.id.name)}")
        return [dict(zip(columns, row, strict=True)) for row in found]

    async def sql(self, text: str) -> None:
        async with self.pool.connection(Use.STATEMENT, "test") as connection:
            await connection.script(text)

    def moment(self, role: str, value: object) -> datetime:
        """A time column's value as a moment."""
        return self.engine.dialect.recommended_types(self.table).times[role].decode(value)

    async def close(self) -> None:
        for subscription in self.subscriptions:
            await subscription.stop(1.0)
        await self.engine.close(5.0)


async def acknowledge(delivery: Delivery) -> None:
    await delivery.settle(Ack())


def bytes_of(payload: object) -> bytes:
    assert isinstance(payload, (bytes, memoryview))
    return bytes(payload)


async def open_bench(pool: Pool, table: QueueTable, *, clock: Clock | None = None, create: bool = True, **settings: Any) -> Bench:
    logged: list[tuple[int, str]] = []
    lost: list[Delivery] = []

    def log(level: int, text: str, error: BaseException | None = None) -> None:
        logged.append((level, text))
        logging.getLogger("bench").log(level, "%s %r", text, error)

    engine = Engine(
        pool=pool,
        clock=clock or SystemClock(),
        settings=EngineSettings(**{"poll_seconds": 0.05, **settings}),
        log=log,
        on_lease_lost=lost.append,
    )
    await engine.open()
    if create:
        await engine.create_tables([table])
    return Bench(pool, table, engine, logged=logged, lost=lost)
