"""What a broker's subscribers say of themselves, for tools that stand outside: metrics, the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.publisher import SQLPublisher
from faststream_sql.broker.subscriber import SQLSubscriber
from faststream_sql.engine import Engine
from faststream_sql.engine.log import Log
from faststream_sql.engine.schema import Reader
from faststream_sql.table import QueueTable


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue that is read."""

    queue: str
    table: QueueTable
    dead_table: QueueTable | None
    """The table that its dead letters move to, its own included; None without a limit."""
    dead_group: str | None
    """The group that they move to; None without a limit, and for a table without groups."""

    @property
    def group(self) -> str | None:
        """The group that is read; None for a table without groups."""
        return self.queue if self.table.group else None

    @property
    def dead_name(self) -> str | None:
        """What its dead letters are called: their group, or their table."""
        if self.dead_table is None:
            return None
        return self.dead_group if self.dead_group is not None else self.dead_table.name


def subscribers_of(broker: SQLBroker) -> list[SQLSubscriber]:
    """The broker's subscribers and its routers', in the order of their declaration."""
    found = [subscriber for subscriber in broker.subscribers if isinstance(subscriber, SQLSubscriber)]
    return sorted(found, key=lambda subscriber: subscriber.number)


def publishers_of(broker: SQLBroker) -> list[SQLPublisher]:
    """The broker's publishers and its routers', by name."""
    found = [publisher for publisher in broker.publishers if isinstance(publisher, SQLPublisher)]
    return sorted(found, key=lambda publisher: publisher.queue)


def queues_of(broker: SQLBroker) -> list[QueueFacts]:
    """The queues that the broker reads, each once. Raises NoRouteError for one whose name leads into no table."""
    return list(dict.fromkeys(_facts(subscribers_of(broker))))


def readers_of(broker: SQLBroker) -> list[Reader]:
    """The subscriptions as they are declared. Raises NoRouteError for one whose name leads into no table."""
    return [_reader(subscriber) for subscriber in subscribers_of(broker)]


def _reader(subscriber: SQLSubscriber) -> Reader:
    options = subscriber.options
    dead_tables = subscriber.dead_letter_tables()
    return Reader(
        queue=subscriber.queue,
        table=subscriber.table,
        max_attempts=options.max_attempts,
        dead_letter=options.dead_letter,
        dead_table=dead_tables[0] if dead_tables else None,
    )


@asynccontextmanager
async def connected(broker: SQLBroker, url: str | None, log: Log) -> AsyncIterator[Engine]:
    """The broker's engine for the span of a `with`, on the database of a URL where one is given; nothing is subscribed to.

    `log` is told what the broker's logger would be. Raises DeclarationError for a URL that cannot be read, and UnavailableError.
    """
    config = broker.config.broker_config
    before = config.make_pool, config.make_engine
    if url is not None:
        config.make_pool = broker.source.elsewhere(url).pool
    make_engine = config.make_engine
    config.make_engine = lambda **settings: make_engine(**{**settings, "log": log})
    try:
        yield await broker.connect()
    finally:
        config.make_pool, config.make_engine = before
        await broker.stop()


def _facts(subscribers: Iterable[SQLSubscriber]) -> Iterable[QueueFacts]:
    for subscriber in subscribers:
        dead = subscriber.options.dead_letter
        if dead is None:
            yield QueueFacts(subscriber.queue, subscriber.table, None, None)
        elif subscriber.table.group is None:
            (table,) = subscriber.dead_letter_tables()
            yield QueueFacts(subscriber.queue, subscriber.table, table, None)
        else:
            yield QueueFacts(subscriber.queue, subscriber.table, subscriber.table, str(dead))
