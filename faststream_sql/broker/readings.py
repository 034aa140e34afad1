"""What metrics say of brokers' queues: their rows, counted now and then, and what this process has done with them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from typing_extensions import Self

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.facts import QueueFacts, publishers_of, queues_of
from faststream_sql.engine import Engine
from faststream_sql.engine.counters import QueueCounters
from faststream_sql.engine.operations import Depth, depths
from faststream_sql.errors import ClosedError, DeclarationError, SQLBrokerError
from faststream_sql.table import QueueTable

EVERY_SECONDS = 15.0


class Place(NamedTuple):
    """Where a queue is, in words that hold no credential."""

    database: str
    table: str
    queue: str
    """The group; for a table without groups, the table once more."""


@dataclass(frozen=True, slots=True)
class QueueReading:
    """The rows of one queue when they were last counted."""

    place: Place
    depth: Depth
    dead: int | None
    """Its dead letters; None where it gives no row up."""


class PoolReading(NamedTuple):
    """The connections of the pools on one database."""

    in_use: int
    size: int
    """The most that they open."""


class QueueReadings:
    """Counts the rows of brokers' queues every few seconds, from `start` to `stop`.

    Counted are the queues that have a subscriber or a declared publisher. A broker that is not connected has none, and so has one whose
    last reading failed: an old number would pass for a new one.

    Raises:
        DeclarationError: there is no broker, or the interval is not positive.
    """

    def __init__(self, *brokers: SQLBroker, every: float = EVERY_SECONDS) -> None:
        if not brokers or every <= 0:
            msg = f"metrics of {len(brokers)} brokers every {every!r} seconds cannot be: name a broker, and a positive interval"
            raise DeclarationError(msg)
        self._brokers = brokers
        self._every = every
        self._read: dict[SQLBroker, tuple[QueueReading, ...]] = {}
        self._failing: set[SQLBroker] = set()
        self._task: asyncio.Task[None] | None = None

    def queues(self) -> list[QueueReading]:
        """The last reading of every queue. One that several brokers share stands once, as the broker that reads it sees it."""
        found: dict[Place, QueueReading] = {}
        for reading in chain.from_iterable(list(self._read.values())):
            if reading.place not in found or reading.dead is not None:
                found[reading.place] = reading
        return list(found.values())

    def counters(self) -> dict[Place, QueueCounters]:
        """What this process has done, as it stands."""
        found: dict[Place, QueueCounters] = {}
        for broker, engine in self._connected():
            for table, group, counters in engine.counters:
                place = _place(broker, table, group)
                found[place] = found[place].plus(counters) if place in found else counters
        return found

    def pools(self) -> dict[str, PoolReading]:
        """The brokers' pools by their database."""
        found: dict[str, PoolReading] = {}
        for broker, engine in self._connected():
            others = found.get(broker.public_url, PoolReading(0, 0))
            found[broker.public_url] = PoolReading(others.in_use + engine.pool.in_use, others.size + engine.pool.size)
        return found

    async def read(self) -> None:
        """Count once, now, and connect for that where it is still to be done. Raises SQLBrokerError."""
        for broker in self._brokers:
            await self._count(broker, await broker.connect())

    async def start(self) -> None:
        """Count now, and then every few seconds, in a task of its own. Does nothing where one runs."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the task. Safe at any time, and twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def _run(self) -> None:
        while True:
            connected = dict(self._connected())
            for broker in self._brokers:
                if broker not in connected:
                    self._read.pop(broker, None)
                    continue
                await self._try_to_count(broker, connected[broker])
            await self._brokers[0].clock.sleep(self._every)

    async def _try_to_count(self, broker: SQLBroker, engine: Engine) -> None:
        try:
            await self._count(broker, engine)
        except SQLBrokerError as error:
            if broker not in self._failing:  # said once, and not every few seconds for as long as the trouble lasts
                engine.log(logging.WARNING, f"the queues cannot be counted for metrics, which leave them out until they can be: {error}")
            self._failing.add(broker)
        else:
            self._failing.discard(broker)

    async def _count(self, broker: SQLBroker, engine: Engine) -> None:
        wanted = _wanted(broker)
        tables = dict.fromkeys(table for facts in wanted for table in (facts.table, facts.dead_table) if table is not None)
        try:
            found = {table: await depths(engine, table) for table in tables}
        except BaseException:
            self._read.pop(broker, None)
            raise
        self._read[broker] = tuple(
            QueueReading(
                place=_place(broker, facts.table, facts.group),
                depth=found[facts.table].get(facts.group) or Depth.empty(facts.table),
                dead=None if facts.dead_table is None else found[facts.dead_table].get(facts.dead_group, Depth()).total,
            )
            for facts in wanted
        )

    def _connected(self) -> Iterator[tuple[SQLBroker, Engine]]:
        for broker in self._brokers:
            try:
                yield broker, broker.engine
            except ClosedError:
                continue


def _wanted(broker: SQLBroker) -> list[QueueFacts]:
    """The queues to count, each once: one that is read says where its dead letters are."""
    published = (QueueFacts(publisher.queue, publisher.table, None, None) for publisher in publishers_of(broker))
    return list(_each_once([*queues_of(broker), *published]))


def _each_once(every: Iterable[QueueFacts]) -> Iterator[QueueFacts]:
    seen: set[tuple[QueueTable, str | None]] = set()
    for facts in every:
        if (facts.table, facts.group) not in seen:
            seen.add((facts.table, facts.group))
            yield facts


def _place(broker: SQLBroker, table: QueueTable, group: str | None) -> Place:
    return Place(broker.public_url, table.qualified_name, table.qualified_name if group is None else group)
