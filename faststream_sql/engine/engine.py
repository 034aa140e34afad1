"""The engine: one pool, one dialect, one clock, and the subscriptions and publishes that share them. It knows nothing of FastStream."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import cast

from faststream_sql.dialects import dialect_for
from faststream_sql.dialects.base import PING, Dialect
from faststream_sql.drivers.base import Connection, Pool, Server, Use
from faststream_sql.engine.clock import Clock, DatabaseClock
from faststream_sql.engine.counters import Counters
from faststream_sql.engine.delivery import Delivery
from faststream_sql.engine.log import Log
from faststream_sql.engine.notify import Listening, channel_of, payload_of
from faststream_sql.engine.options import SubscriptionOptions
from faststream_sql.engine.patience import patiently
from faststream_sql.engine.publish import NewRow, Values, in_statements, rows_values
from faststream_sql.engine.skew import read_database_clock
from faststream_sql.engine.startup import create_one, open_table, prepare_one
from faststream_sql.engine.subscription import Subscription
from faststream_sql.engine.tables import OpenTable
from faststream_sql.engine.wakeup import WakeupHub
from faststream_sql.engine.worker import Deliver
from faststream_sql.errors import ClosedError, DeclarationError, SQLBrokerError
from faststream_sql.table.table import QueueTable

MEASURE_SECONDS = 30.0
"""How often `DatabaseClock` is measured anew."""

OnLeaseLost = Callable[[Delivery], Awaitable[None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What subscriptions take where they set nothing themselves. All in seconds."""

    lease_seconds: int = 30
    poll_seconds: float = 1.0
    command_timeout_seconds: float = 30.0
    listen_notify: bool = False
    """Whether publishes notify other processes and this one listens (Postgres)."""
    session_pooler: bool = False
    """Whether a pooler that stands between gives each client a session of its own."""


class Engine:
    """Claims, settles and publishes rows of one database.

    The engine closes the pool that it was given; a pool of the service's own is closed only in name (its driver sees to that).
    """

    def __init__(self, *, pool: Pool, clock: Clock, settings: EngineSettings, log: Log, on_lease_lost: OnLeaseLost | None = None) -> None:
        self.pool = pool
        self.clock = clock
        self.settings = settings
        self.log = log
        self.wakeups = WakeupHub()
        self.counters = Counters()
        self._on_lease_lost = on_lease_lost
        self._server: Server | None = None
        self._dialect: Dialect | None = None
        self._tables: dict[QueueTable, OpenTable] = {}
        self._hooks: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._listening: Listening | None = None

    @property
    def server(self) -> Server:
        """What the pool found. Raises ClosedError before `open`."""
        if self._server is None:
            msg = "the broker is not connected: call connect() or start() first"
            raise ClosedError(msg)
        return self._server

    @property
    def dialect(self) -> Dialect:
        """The dialect of the server. Raises ClosedError before `open`."""
        if self._dialect is None:
            msg = "the broker is not connected: call connect() or start() first"
            raise ClosedError(msg)
        return self._dialect

    async def open(self) -> None:
        """Connect and learn which server it is. Raises UnavailableError, with no credential in it."""
        try:
            await patiently(self._open, self.clock, only_reads=True)
        except BaseException:
            await self.close(0.0)
            raise

    async def _open(self) -> None:
        server = await self.pool.open()
        self._dialect = dialect_for(server.product, server.version)
        self._server = server
        for warning in server.warnings:
            self.log(logging.WARNING, warning)
        if isinstance(self.clock, DatabaseClock) and self._dialect.read_clock:
            self.clock.set(*await read_database_clock(self.pool, self._dialect.read_clock, self.clock))
            self._background.add(asyncio.get_running_loop().create_task(self._follow_clock(self.clock, self._dialect.read_clock)))

    async def listen(self, table: QueueTable) -> None:
        """Hear what other processes publish into a table, where the settings ask for it. Raises DeclarationError where that cannot be."""
        if not self.settings.listen_notify:
            return
        if self.dialect.notify is None:
            msg = f"listen_notify=True needs Postgres, and this is {self.dialect.product}: leave it out, subscriptions poll"
            raise DeclarationError(msg)
        self.refuse_pooler("listen_notify=True")
        if self._listening is None:
            self._listening = Listening(self.pool, self.wakeups, self.clock, self.log)
        await self._listening.add(table)

    def refuse_pooler(self, what: str) -> None:
        """Raises DeclarationError where a pooler stands between and nobody has said that it keeps sessions."""
        if self.server.pooled and not self.settings.session_pooler:
            msg = (
                f"{what} needs a session of its own, and a pooler stands between: connect directly, or to a pooler in session mode, and "
                "say so with session_pooler=True"
            )
            raise DeclarationError(msg)

    async def _follow_clock(self, clock: DatabaseClock, text: str) -> None:
        while True:
            await clock.sleep(MEASURE_SECONDS)
            try:
                clock.set(*await read_database_clock(self.pool, text, clock))
            except ClosedError:
                return
            except SQLBrokerError as error:
                self.log(logging.DEBUG, "the database's clock could not be read; the last reading is carried on", error)

    def warn_small_pool(self, subscriptions: Sequence[Subscription]) -> None:
        """Say, in numbers, that a pool is smaller than what its subscriptions may hold at once and one more."""
        holding = {subscription.name: subscription.holds_connections for subscription in subscriptions if subscription.holds_connections}
        wanted = sum(holding.values()) + 1
        if holding and wanted > self.pool.size:
            each = ", ".join(f"{count} for {name!r}" for name, count in holding.items())
            text = (
                f"the pool has {self.pool.size} connections, and {wanted} are wanted: {each}, and one that is left over. Fewer rows are "
                f"in work at once than max_workers allows; set pool_size={wanted}"
            )
            self.log(logging.WARNING, text)

    async def close(self, timeout_seconds: float) -> None:
        """Close the pool, within the timeout. Subscriptions are stopped before. Safe to call twice."""
        self._server = None
        self._tables.clear()
        # all but the one that called: a hook may stop the service
        ending = {*self._hooks, *self._background} - {asyncio.current_task()}
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending, timeout=max(timeout_seconds, 0.1))
        self._background.clear()
        if self._listening is not None:
            await self._listening.close()
            self._listening = None
        await self.pool.close(timeout_seconds)

    # --- subscriptions ---------------------------------------------------------------------------------------------------------------

    def subscription(
        self, *, name: str, table: QueueTable, options: SubscriptionOptions, deliver: Deliver, counted: bool = True
    ) -> Subscription:
        """A subscription of `name`, not started. `deliver` is awaited with each delivery; what it leaves unsettled is tried again.

        A name that is used once, as for a reply, has no counters (`counted=False`): they are kept for as long as the engine is.
        """
        return Subscription(self, name=name, table=table, options=options, deliver=deliver, counted=counted)

    async def open_table(self, table: QueueTable, who: str, purpose: str) -> OpenTable:
        """The table with its types, read once. Raises SchemaError, naming who asked and for which statement."""
        found = self._tables.get(table)
        if found is None:
            found = self._tables[table] = await patiently(
                lambda: open_table(self.pool, self.dialect, table, who, purpose), self.clock, only_reads=True
            )
        return found

    async def open_table_anew(self, table: QueueTable, who: str) -> OpenTable:
        """The table as it is now, where it may have changed since it was opened. Raises SchemaError."""
        before = self._tables.pop(table, None)
        found = await self.open_table(table, who, "claim")
        if before is not None:
            found.expiries = before.expiries  # which remember what they have given out
        return found

    def lease_lost(self, delivery: Delivery) -> None:
        """A row was found to be no longer its delivery's own: log it, and call the hook."""
        text = f"row {delivery.row_id!r} of {delivery.group!r}, attempt {delivery.attempt}, is no longer ours: its settlement is void"
        self.log(logging.WARNING, text)
        if self._on_lease_lost is None:
            return
        hook = asyncio.get_running_loop().create_task(self._run_hook(self._on_lease_lost, delivery))
        self._hooks.add(hook)
        hook.add_done_callback(self._hooks.discard)

    async def _run_hook(self, hook: OnLeaseLost, delivery: Delivery) -> None:
        try:
            answer = hook(delivery)
            if inspect.isawaitable(answer):
                await answer
        except Exception as error:
            self.log(logging.ERROR, "on_lease_lost raised", error)

    # --- publishing ------------------------------------------------------------------------------------------------------------------

    async def check_publish(self, name: str, table: QueueTable) -> None:
        """Prepare the insert of a publisher. Raises SchemaError with the publisher's name."""
        who = f"publisher {name!r}"
        opened = await self.open_table(table, who, "insert")
        given = {role for role, column in table.roles().items() if not column.generated} - {"processed_at", "locked_until"}
        columns = tuple(role for role in table.roles() if role in given)

        async def prepare() -> None:
            async with self.pool.connection(Use.STATEMENT, f"start of {who}") as connection:
                await prepare_one(connection, opened.insert(columns).text, table, who, "insert")

        await patiently(prepare, self.clock, only_reads=True)

    async def insert(self, table: QueueTable, rows: Sequence[NewRow], *, connection: object | None = None) -> list[object]:
        """Insert rows and return their ids, in order. One row is one statement; many go out in few.

        `connection` is the caller's, with the caller's transaction: it is used and left as it is, and an error of the database goes to the
        caller as it came; nobody is woken, since only the caller knows when it commits. Without it the rows are committed on return.

        Raises ValueError or DeclarationError for a row that the table cannot take, and DatabaseError, PoolTimeoutError, ClosedError.
        """
        opened = await self.open_table(table, f"publish into {table.qualified_name!r}", "insert")
        if connection is not None:
            borrowed = await self.pool.borrow(connection)
            ids, _ = await self._write(borrowed, opened, rows)
            await self._notify(borrowed, table, rows)
            return ids
        ids, dues = await patiently(lambda: self._insert(opened, rows), self.clock)
        for row, due in zip(rows, dues, strict=True):
            self.wakeups.published(table, row.group, due)
        return ids

    async def _insert(self, opened: OpenTable, rows: Sequence[NewRow]) -> tuple[list[object], list[datetime | None]]:
        table = opened.table
        async with self.pool.connection(Use.STATEMENT, f"publish into {table.qualified_name!r}") as own:
            if len(rows) == 1 and not self.settings.listen_notify:
                return await self._write(own, opened, rows)
            await own.begin()
            try:
                written = await self._write(own, opened, rows)
                await self._notify(own, table, rows)
            except BaseException:
                if not own.broken:
                    await own.rollback()
                raise
            await own.commit()
            return written

    async def _notify(self, connection: Connection, table: QueueTable, rows: Sequence[NewRow]) -> None:
        """Tell other processes, in the transaction that wrote the rows."""
        notify = self.dialect.notify
        if not self.settings.listen_notify or notify is None:
            return
        for group in dict.fromkeys(payload_of(row.group) for row in rows):
            await connection.fetch(*notify.bind({"channel": channel_of(table), "group": group}))

    async def _write(self, connection: Connection, opened: OpenTable, rows: Sequence[NewRow]) -> tuple[list[object], list[datetime | None]]:
        now = self.clock.now()
        values = rows_values(opened, rows, now)
        ids: list[object] = []
        for columns, batch in _runs_of_columns(values):
            ids += await self._write_batch(connection, opened, columns, batch)
        return ids, [value.due for value in values]

    async def _write_batch(
        self, connection: Connection, opened: OpenTable, columns: tuple[str, ...], batch: Sequence[Values]
    ) -> list[object]:
        ids: list[object] = []
        if len(batch) == 1:
            text, args = opened.insert(columns).bind({f"c{n}": value for n, value in enumerate(batch[0].values)})
            ids = [row[0] for row in await connection.fetch(text, args)]
        else:
            many = opened.insert_many(columns)
            for part in in_statements(batch, many.most):
                ids += [row[0] for row in await connection.fetch(*many.pack([value.values for value in part]))]
        if "id" in columns:  # not every database returns an id that it did not make
            ids = [value.values[columns.index("id")] for value in batch]
        elif opened.table.id_type is int and None not in ids:
            # the rows were given their ids in order, and no RETURNING promises to keep it
            ids = list[object](sorted(cast("list[int]", ids)))
        return [opened.row_id(row_id) for row_id in ids]

    async def create_tables(self, tables: Sequence[QueueTable]) -> None:
        """Create the tables and their indexes where they are missing, for quickstarts and tests."""
        for table in dict.fromkeys(tables):
            for text in self.dialect.ddl(table):
                await patiently(partial(create_one, self.pool, self.dialect, text), self.clock)

    async def ping(self, timeout_seconds: float) -> bool:
        """Whether a statement runs within the timeout. Never raises."""
        try:
            await asyncio.wait_for(self._ask(timeout_seconds), timeout_seconds)
        except (SQLBrokerError, TimeoutError, asyncio.TimeoutError):
            return False
        return True

    async def _ask(self, timeout_seconds: float) -> None:
        async with self.pool.connection(Use.STATEMENT, "ping") as connection:
            await connection.fetch(PING, timeout=timeout_seconds)


def _runs_of_columns(values: Sequence[Values]) -> list[tuple[tuple[str, ...], list[Values]]]:
    """Neighbouring rows with the same columns, together."""
    runs: list[tuple[tuple[str, ...], list[Values]]] = []
    for value in values:
        if runs and runs[-1][0] == value.columns:
            runs[-1][1].append(value)
        else:
            runs.append((value.columns, [value]))
    return runs
