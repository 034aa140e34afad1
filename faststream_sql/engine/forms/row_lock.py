"""The row lock form: the claim's transaction stays open while the handler runs, and the settlement commits it.

A delivery holds one connection. After a settlement the same connection goes on to the next claim: the last round trip opens the next
transaction, so an acknowledged message costs two. The attempt is counted at the settlement; a crash rolls back and spends none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from typing_extensions import assert_never

from faststream_sql.dialects.base import ColumnTypes, RowLockStatements, Statement
from faststream_sql.drivers.base import Connection, Row, Use
from faststream_sql.engine.delivery import Delivery
from faststream_sql.engine.forms.base import Context, RowReader, keep_alive, moment_after, put_off, session_ended
from faststream_sql.engine.forms.lookout import Lookout
from faststream_sql.engine.forms.plans import let_mutex_go, take_mutex
from faststream_sql.engine.outcome import Ack, DeadLetter, Nack, Outcome, Reject, Release, apply_limit
from faststream_sql.errors import ConnectionLostError, DatabaseError


class RowLockForm:
    """Claims and settles rows under row locks, for one subscription."""

    claims_ahead = False

    def __init__(self, context: Context, statements: RowLockStatements, limits: str) -> None:
        """`limits` are the settings of the server that may end a session, in words."""
        self._context = context
        self._limits = limits
        self._reader = RowReader(context.table, statements.claimed, context.group, queue=context.name, counters=context.counters)
        self._state(statements)
        self._isolation = context.table.table.isolation
        self._warm: list[Connection] = []  # each in a transaction that has done nothing yet
        self._held: set[Delivery] = set()
        self._closing = False
        self.renew_every_seconds: float | None = context.pool.keep_alive_seconds
        self._holder = f"delivery of {context.name!r}"

    def restate(self, types: ColumnTypes) -> None:
        self._state(self._context.table.dialect.row_lock(self._context.table.table, types, self._context.dead_table))

    def _state(self, statements: RowLockStatements) -> None:
        self._statements = statements
        self._lookout = Lookout(self._context, statements.probe)

    async def claim(self, limit: int) -> list[Delivery]:
        """Take one row, whatever the limit."""
        keys, pool = self._context.keys, self._context.pool
        connection = self._warm.pop() if self._warm else await pool.acquire(Use.DELIVERY, self._holder)
        if not keys.used and self._statements.take is None:
            return await self._claim(connection)
        async with keys.turn(pool, connection):  # two that look before they take would find the same row
            kept, others = keys.take(await self._claim(connection))
            await self.release(others)
        return kept

    async def _claim(self, connection: Connection) -> list[Delivery]:
        """One row: each delivery has a connection of its own."""
        try:
            rows = await self._find(connection)
        except BaseException:
            await self._drop(connection)
            raise
        if not rows:
            await self._context.pool.release(connection)
            return []
        delivery = self._reader.read(rows[0], hold=connection, suspect=False, settle=self.settle)
        self._held.add(delivery)
        return [delivery]

    async def _find(self, connection: Connection) -> list[Row]:
        """The row, locked in an open transaction. Where there is none, no transaction is left open, and no mutex held."""
        mutex, warm = self._statements.mutex, connection.in_transaction
        rows: list[Row] = []
        if await self._lookout.look(connection, self._values()):
            # From idle the first look is one statement: its lock falls at once, and only a row that is there is worth a transaction.
            rows = await self._select(connection)
        held = bool(rows) and mutex is not None and await take_mutex(connection, mutex, self._values())
        if rows and mutex is not None and not held:
            rows = []
        if rows and not warm:
            rows = await self._hold(connection, rows)
        if not rows and connection.in_transaction:
            await connection.rollback()
        if not rows and held and mutex is not None:
            await let_mutex_go(connection, mutex, self._values())
        self._lookout.claimed(enough=bool(rows))
        return rows

    async def _select(self, connection: Connection) -> list[Row]:
        text, args = self._statements.claim.bind(self._values())
        return await connection.fetch(text, args)

    async def _hold(self, connection: Connection, found: list[Row]) -> list[Row]:
        """Open the transaction that lasts, and lock a row in it."""
        await connection.begin(self._isolation)
        take = self._statements.take
        if take is None:
            return await self._select(connection)
        while found:
            values = {**self._values(), "id": self._reader.key(found[0])}
            if rows := await connection.fetch(*take.bind(values)):
                return rows
            await connection.rollback()  # another process was faster: look again
            found = await self._select(connection)
            await connection.begin(self._isolation)
        return []

    def _values(self) -> dict[str, object]:
        context = self._context
        return {
            "group": context.group,
            "now": context.clock.now(),
            "limit": 1,
            "mutex": context.mutex,
            "busy": context.keys.busy(),
            "steps": self._lookout.steps(),
        }

    async def _drop(self, connection: Connection) -> None:
        """Give back a connection whose delivery ended in an error. A mutex that it may hold ends with its session."""
        if self._statements.mutex is not None:
            connection.broken = True
        await self._context.pool.release(connection)

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        connection: Connection = delivery.hold
        effective = apply_limit(outcome, delivery.attempt, self._context.limit)
        if isinstance(effective, Release):
            await self.release([delivery])
            return
        self._held.discard(delivery)
        try:
            await self._carry_out(delivery, connection, effective)
            self._context.counters.settled(effective)
        except ConnectionLostError as error:
            await self._drop(connection)
            why = session_ended("the row's lock", self._limits)
            raise self._context.no_longer_ours(delivery, why) from error
        except DatabaseError as error:
            await self._drop(connection)
            inline = self._statements.finish_inline
            if inline is not None and error.code == inline.no_row:
                raise self._context.no_longer_ours(delivery, "somebody removed the row under its lock") from None
            raise
        except BaseException:
            await self._drop(connection)
            raise
        finally:
            self._context.let_go_of_key(delivery)

    async def _carry_out(self, delivery: Delivery, connection: Connection, outcome: Ack | Reject | Nack | DeadLetter) -> None:
        context, statements = self._context, self._statements
        falls_due: tuple[str | None, datetime | None] | None = None
        match outcome:
            case Ack() | Reject():
                if statements.finish_inline is not None and not self._gives_back:
                    await connection.script(statements.finish_inline.text(delivery.key, self._isolation))
                    self._keep(connection)
                    return
                await self._write(delivery, connection, statements.finish, {"now": context.clock.now()})
            case Nack(delay, after_error):
                keeps_place = after_error and context.table.table.fifo  # a head that failed: its worker waits instead of the row
                has_delay = delay is not None and context.table.table.retry_after is not None and not keeps_place
                due = moment_after(context.clock.now(), delay or 0) if has_delay else None
                await self._write(delivery, connection, statements.nack, {"due": due})
                falls_due = (context.group, due)
            case DeadLetter():
                falls_due = await self._bury(delivery, connection)
            case _:
                assert_never(outcome)
        await self._commit(connection)
        if falls_due is not None:
            context.due(*falls_due)

    async def _bury(self, delivery: Delivery, connection: Connection) -> tuple[str | None, datetime | None]:
        """Move the row to the dead letter, or put it off where the database refuses that. Returns what falls due, and when."""
        context, statements = self._context, self._statements
        if not statements.bury or context.limit is None:
            raise context.no_dead_letter(delivery)
        if statements.savepoint is not None:
            await connection.script(statements.savepoint[0])
        try:
            for statement in statements.bury:
                await self._write(delivery, connection, statement, {"dead": context.limit.dead_letter})
        except DatabaseError as error:
            due = put_off(context, delivery, error)
            if statements.savepoint is not None:
                await connection.script(statements.savepoint[1])
            await self._write(delivery, connection, statements.nack, {"due": due})
            return context.group, due
        return context.limit.dead_letter, None

    async def _write(self, delivery: Delivery, connection: Connection, statement: Statement, values: dict[str, object]) -> None:
        text, args = statement.bind({**values, "id": delivery.key})
        if not await connection.fetch(text, args):
            raise self._context.no_longer_ours(delivery, "somebody removed the row under its lock")

    @property
    def _gives_back(self) -> bool:
        """Whether a connection goes back to the pool after its delivery: in a small one, other subscriptions may wait for it."""
        return self._closing or self._context.pool.others_wait(self._holder)

    async def _commit(self, connection: Connection) -> None:
        """Commit, and then let the group's mutex go: the next row must not start before this one is settled for everybody."""
        mutex = self._statements.mutex
        gives_back = self._gives_back
        if gives_back:
            await connection.commit()
        else:
            await connection.script(self._statements.commit_and_begin(self._isolation))
        if mutex is not None:
            await let_mutex_go(connection, mutex, self._values())
        if gives_back or connection.broken:
            await self._context.pool.release(connection)
        else:
            self._keep(connection)

    def _keep(self, connection: Connection) -> None:
        self._warm.append(connection)

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Roll back: the rows are free at once, and no attempt was counted."""
        for delivery in deliveries:
            self._context.let_go_of_key(delivery)
        held = [delivery for delivery in deliveries if delivery in self._held]
        self._held.difference_update(held)
        left: list[Connection] = [delivery.hold for delivery in held]
        try:
            while left:
                await self._give_back(left.pop(), held=True)
        finally:
            for connection in left:  # cancelled, by a stop that waits no longer: the sessions are cut off, which rolls back too
                connection.broken = True
                await self._context.pool.release(connection)
        self._context.counters.released += len(held)
        if held:
            self._context.due(self._context.group, None)

    async def _give_back(self, connection: Connection, *, held: bool) -> None:
        """Roll back, and give the connection to the pool whatever comes of that."""
        mutex = self._statements.mutex
        try:
            await connection.rollback()
            if mutex is not None and held:
                await let_mutex_go(connection, mutex, self._values())
        except DatabaseError as error:
            self._context.log(logging.DEBUG, f"a session of {self._context.name!r} was gone when it was given back", error)
        finally:
            await self._context.pool.release(connection)

    async def renew(self) -> None:
        """The transaction holds the row; its session must not fall silent for long."""
        await keep_alive(self._context, {delivery: delivery.hold for delivery in self._held})

    async def rest(self) -> None:
        """No worker is about to claim: connections that wait in an empty transaction go back to the pool."""
        while self._warm:
            await self._give_back(self._warm.pop(), held=False)

    async def close(self) -> None:
        self._closing = True
        await self.rest()

    def abandon(self) -> None:
        """Nothing is under way on its own."""
