"""What a test sees of its service's rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.config import SQLBrokerConfig
from faststream_sql.broker.subscriber import SQLSubscriber
from faststream_sql.engine import Clock, Engine, EngineSettings
from faststream_sql.errors import ClosedError, NoRouteError
from faststream_sql.table import Inbox, QueueTable
from faststream_sql.testing.hands import Hands, reads
from faststream_sql.testing.rows import by_column, dues, insert_row, read_rows, run_elsewhere, run_now


class RowsOfTest:
    """The helpers of `TestSQLBroker` that look at rows and put them in."""

    brokers: tuple[SQLBroker, ...]
    with_real: bool
    _fake_subscribers: list[Any]
    _hands: dict[str, Hands]

    @property
    def clock(self) -> Clock:
        """Where the service reads the time."""
        raise NotImplementedError

    def next_due(self) -> datetime | None:
        """When the next row falls due that a subscriber here reads: now, where one is due; None where no row waits."""
        return min(self._dues(), default=None)

    def _dues(self) -> list[datetime]:
        now, found = self.clock.now(), list[datetime]()
        for broker in self.brokers:
            for subscriber in self._subscribers(broker):
                table = subscriber.table
                rows = [row for row in self._read(broker, table) if reads(subscriber, table, row.get("group"))]
                pause = self._pause_of(subscriber)
                found += [due if pause is None else max(due, pause) for due in dues(table, rows, now)]
        return found

    def _pause_of(self, subscriber: SQLSubscriber) -> datetime | None:
        hands = (hand for group in self._hands.values() for hand in group.subscribers())
        return next((hand.pause_ends for hand in hands if hand.subscriber is subscriber), None)

    def rows(self, group: str | None = None, table: QueueTable | type[Inbox] | None = None) -> list[dict[str, Any]]:
        """The rows of a group (every group without it) as dicts by column name, in claim order. Times are aware moments in UTC.

        A table without groups counts as the group of each name that leads into it. `table` leaves other tables out.
        """
        wanted = None if table is None else _described(table)
        found: list[dict[str, Any]] = []
        seen: set[tuple[str, str]] = set()
        for broker in self.brokers:
            for known in [wanted] if wanted is not None else broker.tables():
                if (database_of(broker), known.qualified_name) in seen or not (
                    known.group or group is None or _leads(broker, group, known)
                ):
                    continue
                seen.add((database_of(broker), known.qualified_name))
                rows = self._read(broker, known)
                found += [by_column(known, row) for row in rows if group is None or not known.group or row["group"] == group]
        return found

    def dead(self, group: str | None = None) -> list[dict[str, Any]]:
        """The dead letters of the subscriber of a group (of every subscriber without it), as `rows` gives them."""
        found: list[dict[str, Any]] = []
        seen: set[tuple[QueueTable | None, str]] = set()
        for broker in self.brokers:
            for subscriber in self._subscribers(broker):
                dead, table = subscriber.options.dead_letter, subscriber.table
                if dead is None or (group is not None and subscriber.queue != group):
                    continue
                tables = subscriber.dead_letter_tables()
                place = (tables[0], "") if tables else (table, str(dead))
                if place not in seen:
                    seen.add(place)
                    found += self.rows(place[1] or None, place[0])
        return found

    def insert(self, table: QueueTable | type[Inbox], **columns: Any) -> Any:
        """Put a row in as another process would leave it, and return its id. Nobody is woken: it runs at `advance`, once it is due.

        `columns` go by the names of columns, or of the model's fields; moments are aware datetimes. What is left out and cannot be NULL is
        as in a fresh row. A row that another process holds has its `attempt` counted and a lease that lives; once it ends, the row returns.
        """
        described = _described(table)
        broker = next((broker for broker in self.brokers if described in broker.tables()), self.brokers[0])
        return self._run(broker, lambda engine: insert_row(engine, described, columns))

    def _read(self, broker: SQLBroker, table: QueueTable) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._run(broker, lambda engine: read_rows(engine, table))
        return rows

    def _run(self, broker: SQLBroker, work: Callable[[Engine], Any]) -> Any:
        """Run work on the rows of a broker, at once."""
        hands = self._hands.get(database_of(broker))
        if hands is not None:
            return run_now(work(hands.engine_of(broker)))
        if not self.with_real or broker.specification.url == ["sqlite://"]:
            msg = "rows can be looked at inside `async with TestSQLBroker(broker)`; of a real database in memory only by its own service"
            raise ClosedError(msg)
        config = config_of(broker)

        def engine() -> Engine:
            return Engine(pool=config.make_pool(), clock=self.clock, settings=EngineSettings(), log=lambda *_: None)

        return run_elsewhere(engine, work)

    def _subscribers(self, broker: SQLBroker) -> list[SQLSubscriber]:
        return [subscriber for subscriber in subscribers_of(broker) if subscriber.calls and subscriber not in self._fake_subscribers]


def subscribers_of(broker: SQLBroker) -> list[SQLSubscriber]:
    """The broker's subscribers, in the order of their declaration."""
    found = [subscriber for subscriber in broker.subscribers if isinstance(subscriber, SQLSubscriber)]
    return sorted(found, key=lambda subscriber: subscriber.number)


def config_of(broker: SQLBroker) -> SQLBrokerConfig:
    """The broker's own config, whose parts a test replaces."""
    return broker.config.broker_config


def database_of(broker: SQLBroker) -> str:
    """Brokers under test that name one database share their rows."""
    return ",".join(broker.specification.url)


def _described(table: QueueTable | type[Inbox]) -> QueueTable:
    return table if isinstance(table, QueueTable) else table.queue_table


def _leads(broker: SQLBroker, name: str, table: QueueTable) -> bool:
    """Whether a name leads into a table without groups."""
    if table.name == name or any(subscriber.queue == name and subscriber.table == table for subscriber in subscribers_of(broker)):
        return True
    try:
        return config_of(broker).routes.resolve(name) == table
    except NoRouteError:
        return False
