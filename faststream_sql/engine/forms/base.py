"""What the worker asks of a form, and what the forms share: their context, and the reading of a claimed row."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from operator import itemgetter
from typing import Any, Protocol

from faststream_sql.dialects.base import ColumnTypes
from faststream_sql.drivers.base import Connection, Pool, Row
from faststream_sql.engine.clock import Clock
from faststream_sql.engine.counters import QueueCounters
from faststream_sql.engine.delivery import Delivery
from faststream_sql.engine.log import Log
from faststream_sql.engine.outcome import Limit, Outcome
from faststream_sql.engine.tables import OpenTable
from faststream_sql.errors import ConnectionLostError, DatabaseError, DataError, DeclarationError, LeaseLostError, StatementError
from faststream_sql.table.table import QueueTable

UNBURIED_SECONDS = 60.0
"""How long a row waits whose move to the dead letter was refused."""
LAST_MOMENT = datetime(9999, 12, 31, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Context:
    """What a form works with. `name` is the subscription's name, for messages; `group` the group that it reads (None: the whole table)."""

    name: str
    table: OpenTable
    group: str | None
    mutex: int
    """Names the group to the database, where a FIFO claim takes a lock on it."""
    keys: PartitionKeys
    dead: OpenTable | None
    limit: Limit | None
    pool: Pool
    clock: Clock
    log: Log
    due: Callable[[str | None, datetime | None], None]
    """Called with a group and a moment where a row of it falls due then (None: now), so that whoever waits for it wakes."""
    lost: Callable[[Delivery], None]
    """Called with a delivery whose row was found to be no longer its own: marks it, and says so once, however often it is found."""
    counters: QueueCounters
    command_timeout: float

    @property
    def dead_table(self) -> QueueTable | None:
        """The table that dead letters move to, where the table has no group."""
        return self.dead.table if self.dead else None

    def let_go_of_key(self, delivery: Delivery) -> None:
        """The delivery ended: rows of its partition key may run."""
        if self.keys.let_go(delivery):
            self.due(self.group, None)

    def no_longer_ours(self, delivery: Delivery, why: str) -> LeaseLostError:
        """The error for a row that was found to be somebody else's; the delivery is marked."""
        self.lost(delivery)
        where = f"{self.name!r} (table {self.table.table.qualified_name!r})"
        return LeaseLostError(f"row {delivery.row_id!r} of {where} is no longer this delivery's: {why}")

    def no_dead_letter(self, delivery: Delivery) -> DeclarationError:
        """The error for a dead letter that has nowhere to go."""
        return DeclarationError(
            f"row {delivery.row_id!r} of {self.name!r} cannot be dead-lettered: the subscription declares no dead_letter="
        )


class PartitionKeys:
    """The partition keys of a subscription's rows in work: rows of one key run one at a time, so a claim passes over the others."""

    def __init__(self, table: OpenTable) -> None:
        self.used = table.table.partition_key is not None
        self._pack = table.dialect.pack
        self._keys: dict[object, Delivery] = {}
        self._claiming = asyncio.Lock()
        """For forms whose workers claim side by side: two claims under way could take two rows of one key."""

    @asynccontextmanager
    async def turn(self, pool: Pool, connection: Connection | None) -> AsyncIterator[None]:
        """Wait until no other claim is under way. The connection that the claim will run on is had before: whoever has the turn must not
        wait for one that the next claim keeps. It goes back to the pool where the wait is cancelled.
        """
        try:
            await self._claiming.acquire()
        except BaseException:
            if connection is not None:
                await pool.release(connection)
            raise
        try:
            yield
        finally:
            self._claiming.release()

    def busy(self) -> object:
        """The keys as a claim's statement takes them."""
        return self._pack(sorted(self._keys, key=str)) if self.used else None

    def take(self, deliveries: Sequence[Delivery]) -> tuple[list[Delivery], list[Delivery]]:
        """The rows that may stay, the first of each key, and the others."""
        if not self.used:
            return list(deliveries), []
        kept: list[Delivery] = []
        others: list[Delivery] = []
        for delivery in deliveries:
            key = delivery.partition_key
            if key is not None and key in self._keys:
                others.append(delivery)
                continue
            kept.append(delivery)
            if key is not None:
                self._keys[key] = delivery
        return kept, others

    def let_go(self, delivery: Delivery) -> bool:
        """The delivery ended; whether rows of its key may have waited for that."""
        key = delivery.partition_key if self.used else None
        if key is None or self._keys.get(key) is not delivery:
            return False
        del self._keys[key]
        return True


class Form(Protocol):
    """How rows are claimed, held and settled. A form knows nothing of workers or handlers."""

    claims_ahead: bool
    """Whether rows may be claimed before a worker is free for them (they cost no connection)."""
    renew_every_seconds: float | None
    """How often holds must be prolonged; None where they do not end by themselves."""

    async def claim(self, limit: int) -> list[Delivery]:
        """Take up to `limit` rows into work, in claim order; an empty list where nothing is due. Raises DatabaseError."""
        ...

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """Carry an outcome out; returns when it is committed. Raises LeaseLostError, DatabaseError."""
        ...

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give rows back unhandled: due at once, their attempts given back. Best effort: never raises."""
        ...

    async def renew(self) -> None:
        """Prolong the hold of every delivery, where holds end by themselves."""
        ...

    async def rest(self) -> None:
        """Nothing is due: let go of what was kept ready for the next claim. Never raises."""
        ...

    def restate(self, types: ColumnTypes) -> None:
        """Work by statements for these columns and indexes from now on: an index that the others named may be gone."""
        ...

    def abandon(self) -> None:
        """Stop settlements that are still being tried; their rows return by themselves."""
        ...

    async def close(self) -> None:
        """Let go of whatever is still held (connections, locks) after the last delivery. Never raises."""
        ...


async def keep_alive(context: Context, held: Mapping[Delivery, Connection]) -> None:
    """Keep the sessions of deliveries in work alive, and say at once whose session is gone."""
    for delivery, connection in held.items():
        try:
            await context.pool.keep_alive(connection)
        except ConnectionLostError as error:
            context.log(logging.WARNING, f"the session that holds row {delivery.row_id!r} of {context.name!r} ended: {error}", error)
            if delivery.outcome is None:
                context.lost(delivery)


class RowReader:
    """Turns a claimed row, in the order of the statement's columns, into a delivery."""

    def __init__(
        self,
        table: OpenTable,
        claimed: Sequence[str],
        group: str | None,
        *,
        queue: str | None = None,
        counters: QueueCounters | None = None,
    ) -> None:
        self._names = tuple(claimed)
        self._row_id = table.row_id
        self._group = group
        self._queue = queue
        self._counters = counters or QueueCounters()
        positions = {name: n for n, name in enumerate(claimed)}
        self._id = positions["id"]
        roles = table.table.roles()
        self._attempt = positions.get("attempt") if "attempt" in roles else None
        self._payload = positions.get("payload")
        self._headers = positions.get("headers") if "headers" in roles else None
        self.locked_until = positions.get("locked_until") if "locked_until" in roles else None
        self._order = itemgetter(*(positions[role] for role in table.table.claim_order))

    def key(self, row: Row) -> object:
        """The row's id, as the driver gave it."""
        return row[self._id]

    def sort(self, rows: list[Row]) -> list[Row]:
        """The rows in claim order: no statement that returns what it wrote promises one."""
        if len(rows) > 1:
            rows.sort(key=self._order)
        return rows

    def read(self, row: Row, *, hold: Any, suspect: bool, settle: Callable[[Delivery, Outcome], Awaitable[None]]) -> Delivery:
        """The delivery of one row, which counts as claimed."""
        self._counters.claimed += 1
        key = row[self._id]
        return Delivery(
            key=key,
            row_id=self._row_id(key),
            group=self._group,
            attempt=row[self._attempt] if self._attempt is not None else None,
            names=self._names,
            values=row,
            payload=row[self._payload] if self._payload is not None else None,
            headers=row[self._headers] if self._headers is not None else None,
            suspect=suspect,
            hold=hold,
            settle=settle,
            queue=self._queue,
        )


def moment_after(now: datetime, seconds: float) -> datetime:
    """The moment so many seconds from now, or the last one that can be written where that is later."""
    try:
        return min(now + timedelta(seconds=seconds), LAST_MOMENT)
    except OverflowError:
        return LAST_MOMENT


def put_off(context: Context, delivery: Delivery, error: DatabaseError) -> datetime:
    """When a row is tried again whose dead letter the database refused; until then it must not stand in front of all others.

    Raises the error itself where it passes by itself, or where the row cannot wait.
    """
    table = context.table.table
    if type(error) not in {DatabaseError, DataError, StatementError} or table.retry_after is None or table.fifo:
        raise error
    text = f"row {delivery.row_id!r} of {context.name!r} cannot be dead-lettered, and is tried again in {UNBURIED_SECONDS:g} s: {error}"
    context.log(logging.ERROR, text, error)
    return moment_after(context.clock.now(), UNBURIED_SECONDS)


def session_ended(what: str, limits: str) -> str:
    """Why a row is lost whose session has gone, for a message; `limits` are the settings of the server that may have ended it."""
    cause = f" (the server's limits: {limits})" if limits else ""
    return f"its session ended{cause}, and with it {what}; the row returns unless the last commit went through"
