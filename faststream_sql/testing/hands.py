"""Subscriptions without workers: rows are claimed when the test says so, and delivered by the rules of the product's own workers."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, TypeVar

from faststream.response import Response
from typing_extensions import override

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.subscriber import SQLSubscriber
from faststream_sql.drivers.base import Use
from faststream_sql.engine import Clock, Delivery, Engine, Outcome, Subscription, SubscriptionOptions
from faststream_sql.engine.forms.base import Form, RowReader
from faststream_sql.engine.worker import Deliver, Handling
from faststream_sql.errors import SQLBrokerError
from faststream_sql.table import QueueTable
from faststream_sql.testing.clock import in_background
from faststream_sql.testing.memory import MemoryPool, only

T = TypeVar("T")

ENDLESS = 1000
"""How many deliveries of one row at one moment are too many."""

in_delivery: ContextVar[int] = ContextVar("in_delivery", default=0)
"""How many deliveries what runs here is inside of: a handler's publish delivers, too."""


class EndlessDeliveryError(SQLBrokerError):
    """Deliveries follow one another at one moment without end: time would never move on."""


class ByHandSubscription(Subscription):
    """A subscription that starts no workers: its rows are claimed one by one."""

    @property
    @override
    def alive(self) -> bool:
        return True

    @override
    async def start(self) -> None:
        await self.open()


class ByHandEngine(Engine):
    """An engine on a `MemoryPool`: it makes the tables it meets, and its subscriptions run no workers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._made: set[QueueTable] = set()

    @override
    async def create_tables(self, tables: Sequence[QueueTable]) -> None:
        for table in tables:
            if table.schema and isinstance(self.pool, MemoryPool):
                await self.pool.attach(table.schema)
        await super().create_tables(tables)
        self._made.update(tables)

    @override
    async def open_table(self, table: QueueTable, who: str, purpose: str) -> Any:
        if table not in self._made:
            await self.create_tables([table])
        return await super().open_table(table, who, purpose)

    @override
    async def listen(self, table: QueueTable) -> None:
        """Nobody else publishes into memory."""

    @override
    def subscription(
        self, *, name: str, table: QueueTable, options: SubscriptionOptions, deliver: Deliver, counted: bool = True
    ) -> Subscription:
        return ByHandSubscription(self, name=name, table=table, options=options, deliver=deliver, counted=counted)


class Hand:
    """One subscriber under test."""

    def __init__(self, subscriber: SQLSubscriber, engine: Engine, delivering: Callable[[], AbstractContextManager[None]]) -> None:
        self.subscriber = subscriber
        self.engine = engine
        self._delivering = delivering
        options = subscriber.options
        self._subscription = engine.subscription(name=subscriber.queue, table=subscriber.table, options=options, deliver=self._process)
        self._workers = 1 if subscriber.table.fifo else options.max_workers
        self._pauses: list[datetime] = []
        self._consumed: set[Delivery] = set()  # whose errors are the service's own affair
        self._results: dict[Delivery, Response | BaseException] = {}
        self._in_work: set[Delivery] = set()
        self._renewer: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Check the table and the declaration, as a start does."""
        await self._subscription.open()

    async def claim(self, key: object = None) -> Delivery | None:
        """Claim the row with this key, or the first that is due; None where there is none."""
        form = await self._subscription.open()
        with only(key):
            found = await form.claim(1)
        if not found:
            await form.rest()
        return found[0] if found else None

    async def deliver(self, delivery: Delivery, *, consumed: bool) -> Response | BaseException | None:
        """Deliver a claimed row, and see to it that it ends settled.

        Returns what the handler answered or raised. With `consumed` an error is logged and dropped, as under workers.
        """
        form, handling = await self._subscription.by_hand()
        if consumed:
            self._consumed.add(delivery)
        self._in_work.add(delivery)
        self._start_renewals(form, handling)
        with self._delivering():
            task = asyncio.get_running_loop().create_task(handling.run(delivery), name=f"delivery of {self.subscriber.queue!r}")
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:  # whoever published has gone: as when a stop cuts a handler off
                handling.stopping = True
                task.cancel()
                await asyncio.wait([task])
                if delivery.outcome is None:
                    await form.release([delivery])
                raise
            finally:
                self._in_work.discard(delivery)
                self._consumed.discard(delivery)
                result = self._results.pop(delivery, None)
                await self._stop_renewals()
        if pause := task.result():
            self._pauses.append(self.engine.clock.now() + timedelta(seconds=pause))
        await form.rest()
        return result

    async def _process(self, delivery: Delivery) -> None:
        in_delivery.set(in_delivery.get() + 1)
        if delivery in self._consumed:
            await self.subscriber.consume(delivery)
            return
        try:
            self._results[delivery] = await self.subscriber.process_message(delivery)
        except asyncio.CancelledError as error:
            self._results[delivery] = error
            raise
        except BaseException as error:  # a SystemExit too: it comes out of the publish, and not out of the event loop
            self._results[delivery] = error

    def _start_renewals(self, form: Form, handling: Handling) -> None:
        if form.renew_every_seconds is None or self._renewer is not None:
            return
        context = contextvars.copy_context()
        context.run(in_background.set, True)
        renewals = handling.renew(form.renew_every_seconds)
        self._renewer = context.run(asyncio.get_running_loop().create_task, renewals)

    async def _stop_renewals(self) -> None:
        renewer = self._renewer
        if renewer is not None and not self._in_work:
            self._renewer = None
            renewer.cancel()
            await asyncio.wait([renewer])

    # --- what advance asks -----------------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether a worker would claim: it is not one that waits in its row's place."""
        now = self.engine.clock.now()
        self._pauses = [until for until in self._pauses if until > now]
        return self.subscriber.running and len(self._pauses) < self._workers

    @property
    def pause_ends(self) -> datetime | None:
        """When a worker claims again, where all of them wait."""
        return None if self.ready or not self._pauses else min(self._pauses)

    async def stop(self) -> None:
        """Let go of everything."""
        await self._subscription.stop(None)


class Hands:
    """All subscribers under test on one database."""

    def __init__(self, pool: MemoryPool, clock: Clock, delivering: Callable[[], AbstractContextManager[None]] | None = None) -> None:
        self.pool = pool
        self.clock = clock
        self.delivering: Callable[[], AbstractContextManager[None]] = delivering or nullcontext
        """Says, for the span of a `with`, that a delivery runs."""
        self._engines: dict[SQLBroker, Engine] = {}
        self._hands: dict[SQLSubscriber, Hand] = {}
        self._spins: Counter[tuple[str, object]] = Counter()
        self._moment: datetime | None = None
        self.fakes: list[Any] = []
        """FastStream's stand-ins for the subscribers of other services."""

    def engine(self, **options: Any) -> ByHandEngine:
        """An engine on this database: what the broker's config makes in the place of the real one."""
        return ByHandEngine(**{**options, "pool": self.pool, "clock": self.clock})

    def the_pool(self) -> MemoryPool:
        """The pool: what the broker's config makes in the place of the real one."""
        return self.pool

    def add(self, broker: SQLBroker, engine: Engine) -> None:
        """Take a broker's subscribers in, with the engine that it uses."""
        self._engines[broker] = engine

    def engine_of(self, broker: SQLBroker) -> Engine:
        """The engine that a broker was added with."""
        return self._engines[broker]

    def subscribers(self) -> list[Hand]:
        """Those with handlers, in the order of their declaration."""
        found = [
            self._hand(subscriber, engine)
            for broker, engine in self._engines.items()
            for subscriber in broker.subscribers
            if isinstance(subscriber, SQLSubscriber) and subscriber.calls and subscriber not in self.fakes
        ]
        return sorted(found, key=lambda hand: hand.subscriber.number)

    def _hand(self, subscriber: SQLSubscriber, engine: Engine) -> Hand:
        hand = self._hands.get(subscriber)
        if hand is None or hand.engine is not engine:
            hand = self._hands[subscriber] = Hand(subscriber, engine, self.delivering)
        return hand

    def reader_of(self, table: QueueTable, group: str | None) -> Hand | None:
        """Who reads a queue; the first that was declared, where several do."""
        return next((hand for hand in self.subscribers() if reads(hand.subscriber, table, group)), None)

    async def deliver_first(self, table: QueueTable, group: str | None, key: object) -> Response | None:
        """Deliver a row that was just published, where it is due and somebody reads it. Raises what its handler raises."""
        if (hand := self.reader_of(table, group)) is None:
            await self._show_fake(table, group, key)
            return None
        if in_delivery.get() >= ENDLESS:
            msg = f"handlers have published {ENDLESS} deep, and {group!r} is next: let one of them publish with a delay"
            raise EndlessDeliveryError(msg)
        delivery = await hand.claim(key)
        if delivery is None:
            return None
        result = await hand.deliver(delivery, consumed=False)
        if isinstance(result, BaseException):
            raise result
        return result

    async def _show_fake(self, table: QueueTable, group: str | None, key: object) -> None:
        """Show a row to the publisher's stand-in, which records it. The row stays: it is another service's to take."""
        fake = next((fake for fake in self.fakes if reads(fake, table, group)), None)
        if fake is None:
            return
        engine = next(iter(self._engines.values()))
        opened = await engine.open_table(table, f"publish into {group!r}", "insert")
        reader = RowReader(opened, columns_of(table), group)
        async with self.pool.connection(Use.STATEMENT, "test") as connection:
            quote = engine.dialect.quote
            rows = await connection.fetch(f"{select_all(table, quote)} WHERE {quote(table.id.name)} = ?1", [key])
        for row in rows:
            await fake.process_message(reader.read(row, hold=None, suspect=False, settle=_leave))

    async def run_due(self) -> int:
        """Deliver whatever is due now, until nothing is. Returns how many deliveries that were."""
        count = 0
        while True:
            delivered = 0
            for hand in self.subscribers():
                if hand.ready and (delivery := await hand.claim()) is not None:
                    self._count(hand, delivery)
                    await hand.deliver(delivery, consumed=True)
                    delivered += 1
            if not delivered:
                return count
            count += delivered

    def _count(self, hand: Hand, delivery: Delivery) -> None:
        now = self.clock.now()
        if now != self._moment:
            self._moment = now
            self._spins.clear()
        spin = (hand.subscriber.table.qualified_name, delivery.key)
        self._spins[spin] += 1
        if self._spins[spin] > ENDLESS:
            msg = (
                f"row {delivery.row_id!r} of {hand.subscriber.queue!r} was delivered {ENDLESS} times at {now.isoformat()}, and is due "
                "again: give its nack a delay, or the subscription max_attempts= and dead_letter="
            )
            raise EndlessDeliveryError(msg)

    async def close(self) -> None:
        """Let go of everything, and of the database."""
        for hand in self._hands.values():
            await hand.stop()
        for engine in self._engines.values():
            await engine.close(0.0)


def reads(subscriber: SQLSubscriber, table: QueueTable, group: str | None) -> bool:
    """Whether a subscriber reads the rows of a group of a table."""
    own = subscriber.table
    return (own.name, own.schema) == (table.name, table.schema) and (own.group is None or subscriber.queue == group)


def columns_of(table: QueueTable) -> tuple[str, ...]:
    """The names under which a row's values are known: its roles, then its plain columns."""
    return tuple(table.keyed())


def select_all(table: QueueTable, quote: Callable[[str], str]) -> str:
    """Reads the columns of `columns_of`."""
    listed = ", ".join(quote(column.name) for column in table.all_columns())
    name = quote(table.name) if table.schema is None else f"{quote(table.schema)}.{quote(table.name)}"
    return f"SELECT {listed} FROM {name}"  # noqa: S608 - names are quoted, and there are no values


async def _leave(delivery: Delivery, outcome: Outcome) -> None:
    """The row is not this service's to settle."""
