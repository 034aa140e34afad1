"""The advisory lock form: a session lock on the row's key holds it, with no transaction open while the handler runs.

On a server the session that claimed the row keeps its connection until the unlock, which is confirmed, or the connection is cut, which
unlocks too. On SQLite the keys are held in the process, which no other process may share the file with.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from typing_extensions import assert_never

from faststream_sql.dialects.base import AdvisoryStatements, ColumnTypes, LockThenTake, Statement
from faststream_sql.drivers.base import Connection, Row, Use
from faststream_sql.engine.delivery import Delivery
from faststream_sql.engine.forms.base import Context, RowReader, keep_alive, moment_after, put_off, session_ended
from faststream_sql.engine.forms.lookout import Lookout
from faststream_sql.engine.forms.plans import Accept, Claim, run_plan
from faststream_sql.engine.outcome import Ack, DeadLetter, Nack, Outcome, Reject, Release, apply_limit
from faststream_sql.engine.patience import patiently
from faststream_sql.errors import ConnectionLostError, DatabaseError, SQLBrokerError

Write = Callable[[Connection, dict[str, object]], Awaitable[list[Row]]]
"""Writes a row with the proof that it is owned; returns a row where it did."""

MISSES = 20
"""How often in a row a key may be taken whose row was finished meanwhile, before the claim counts as having found nothing."""


@dataclass(slots=True)
class KeyHold:
    """A key that is held: by a session, or (no connection) by the process."""

    key: object
    attempt: int | None
    """The row's attempt while it is held: the claim counted it."""
    connection: Connection | None


class Reservation:
    """A key of the process, taken in the transaction that takes its row: the file has one such transaction at a time, and whatever pool of
    the process the next one is of, it finds the key held. A statement knows only of the keys that were held when it was bound.
    """

    def __init__(self, keys: set[object]) -> None:
        self._keys = keys
        self._taken: list[object] = []
        self.came_late = False
        """Whether a row was passed over whose key was taken since the statement was bound."""

    def held(self) -> list[object]:
        """The keys that a claim must pass over."""
        self.came_late = False
        return sorted(self._keys, key=str)

    def accept(self, row: Row) -> bool:
        """Take the key of a row, unless somebody holds it."""
        key = row[0]
        if key in self._keys:
            self.came_late = True
            return False
        self._keys.add(key)
        self._taken.append(key)
        return True

    def let_go(self) -> None:
        """The transaction was not committed."""
        self._keys.difference_update(self._taken)


class AdvisoryForm:
    """Claims and settles rows under advisory locks, for one subscription. `keys` are those that the process holds, where it holds them."""

    claims_ahead = False

    def __init__(self, context: Context, statements: AdvisoryStatements, keys: set[object] | None, limits: str) -> None:
        """`limits` are the settings of the server that may end a session, in words."""
        self._context = context
        self._limits = limits
        self._keys = keys
        self._reader = RowReader(context.table, statements.claimed, context.group, queue=context.name, counters=context.counters)
        self._id = 1 + statements.claimed.index("id")
        self._warm: list[Connection] = []  # sessions that hold no key
        self._held: set[Delivery] = set()
        self._state(statements)
        self.renew_every_seconds: float | None = context.pool.keep_alive_seconds if keys is None else None
        self._found = False  # whether the last look for a free key found one
        self._closing = False
        self._holder = f"delivery of {context.name!r}"

    def restate(self, types: ColumnTypes) -> None:
        self._state(self._context.table.dialect.advisory(self._context.table.table, types, self._context.dead_table))

    def _state(self, statements: AdvisoryStatements) -> None:
        claim = statements.claim
        self._statements = statements
        self._claiming = claim if isinstance(claim, LockThenTake) else Claim(claim, self._id)
        self._lookout = Lookout(self._context, statements.probe)

    # --- claim -----------------------------------------------------------------------------------------------------------------------

    async def claim(self, limit: int) -> list[Delivery]:
        """Take one row, whatever the limit."""
        keys, pool = self._context.keys, self._context.pool
        session = None
        if self._keys is None:
            session = self._warm.pop() if self._warm else await pool.acquire(Use.DELIVERY, self._holder)
        if not keys.used:
            return await self._claim(session)
        async with keys.turn(pool, session):
            kept, others = keys.take(await self._claim(session))
            await self.release(others)
        return kept

    async def _claim(self, session: Connection | None) -> list[Delivery]:
        """One row at most: each delivery holds a key of its own, by a session, or (None) by the process."""
        delivery = await (self._claim_in_process() if session is None else self._claim_in_session(session))
        if delivery is None:
            return []
        self._held.add(delivery)
        return [delivery]

    async def _claim_in_session(self, connection: Connection) -> Delivery | None:
        pool = self._context.pool
        try:
            for _ in range(MISSES):
                rows = await self._take(connection, [])
                if not rows:
                    break
                key, *values = rows[0]
                if rows[0][self._id] is not None:
                    return self._delivery(values, key, connection)
                await self._unlock(connection, key)
        except BaseException:
            connection.broken = True  # it may hold a key that nobody knows of
            await pool.release(connection)
            raise
        await pool.release(connection)
        return None

    async def _claim_in_process(self) -> Delivery | None:
        reservation = Reservation(set() if self._keys is None else self._keys)
        async with self._context.pool.connection(Use.STATEMENT, f"claim of {self._context.name!r}") as connection:
            for _ in range(MISSES):
                try:
                    rows = await self._take(connection, reservation.held(), reservation.accept)
                except BaseException:
                    reservation.let_go()
                    raise
                if rows:
                    key, *values = rows[0]
                    return self._delivery(values, key, None)
                if not reservation.came_late:
                    break
        return None

    async def _take(self, connection: Connection, held: Sequence[object], accept: Accept | None = None) -> list[Row]:
        """A row with its key in front; an id of None means that the key was taken and the row was not."""
        context = self._context
        values = {"group": context.group, "now": context.clock.now(), "held": context.table.dialect.pack(held), "busy": context.keys.busy()}
        if not await self._lookout.look(connection, values):
            return []
        values["steps"] = self._lookout.steps()
        if isinstance(self._claiming, LockThenTake):
            rows = await self._lock_then_take(connection, self._claiming, values)
        else:
            rows = await self._claiming.run(connection, values, accept)
        self._lookout.claimed(enough=bool(rows))
        return rows

    async def _lock_then_take(self, connection: Connection, claim: LockThenTake, values: dict[str, object]) -> list[Row]:
        locked = await connection.fetch(*claim.lock.bind(values))
        if not locked and self._found:
            # All rows that it met were taken by others in that moment, or there are none: only a second look tells.
            locked = await connection.fetch(*claim.lock.bind(values))
        self._found = bool(locked)
        if not locked:
            return []
        ((key, row_id),) = locked
        rows = await run_plan(connection, claim.take, {**values, "id": row_id, "key": key}, self._id - 1)
        return [(key, *(rows[0] if rows else [None] * len(self._statements.claimed)))]

    def _delivery(self, values: Sequence[object], key: object, connection: Connection | None) -> Delivery:
        delivery = self._reader.read(values, hold=None, suspect=False, settle=self.settle)
        most = self._context.table.types.attempt_max
        counted = None if delivery.attempt is None else min(delivery.attempt + 1, most)
        delivery.hold = KeyHold(key, counted, connection)
        return delivery

    # --- settlement ------------------------------------------------------------------------------------------------------------------

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        self._held.discard(delivery)
        try:
            await self._carry_out_outcome(delivery, outcome)
        finally:
            self._context.let_go_of_key(delivery)

    async def _carry_out_outcome(self, delivery: Delivery, outcome: Outcome) -> None:
        context, statements = self._context, self._statements
        effective = apply_limit(outcome, delivery.attempt, context.limit)
        match effective:
            case Ack() | Reject():
                await self._write_and_unlock(delivery, statements.finish, {"now": context.clock.now()})
            case Nack(delay):
                has_delay = delay is not None and context.table.table.retry_after is not None
                due = moment_after(context.clock.now(), delay or 0) if has_delay else None
                await self._write_and_unlock(delivery, statements.nack, {"due": due})
                context.due(context.group, due)
            case DeadLetter():
                effective = await self._bury_and_unlock(delivery)
            case Release():
                await self._write_and_unlock(delivery, statements.release, {"delivered": delivery.attempt})
                context.due(context.group, None)
            case _:
                assert_never(effective)
        context.counters.settled(effective)

    async def _bury_and_unlock(self, delivery: Delivery) -> Outcome:
        """Move the row to the dead letter. Returns the outcome that took effect."""
        limit, bury = self._context.limit, self._statements.bury
        if limit is None or bury is None:
            await self.release([delivery])
            raise self._context.no_dead_letter(delivery)
        values = {"dead": limit.dead_letter, "group": self._context.group, "delivered": delivery.attempt, "now": None}
        nack, due = self._statements.nack, list[datetime]()

        async def write(connection: Connection, proof: dict[str, object]) -> list[Row]:
            try:
                return await run_plan(connection, bury, {**values, **proof}, 0)
            except DatabaseError as error:
                due.append(put_off(self._context, delivery, error))
                return await connection.fetch(*nack.bind({"due": due[0], **proof}))

        await self._carry_out(delivery, write)
        if due:
            self._context.due(self._context.group, due[0])
            return Nack()
        self._context.due(limit.dead_letter, None)
        return DeadLetter()

    async def _write_and_unlock(self, delivery: Delivery, statement: Statement, values: dict[str, object]) -> None:
        async def write(connection: Connection, proof: dict[str, object]) -> list[Row]:
            return await connection.fetch(*statement.bind({**values, **proof}))

        await self._carry_out(delivery, write)

    async def _carry_out(self, delivery: Delivery, write: Write) -> None:
        """Write with the proof of ownership, on the session that holds the key; then let the key go."""
        hold: KeyHold = delivery.hold
        proof: dict[str, object] = {"id": delivery.key, "attempt": hold.attempt}
        if hold.connection is None:
            try:
                async with self._context.pool.connection(Use.STATEMENT, f"settlement of {self._context.name!r}") as connection:
                    rows = await patiently(lambda: write(connection, proof), self._context.clock)
            finally:
                self._let_go(hold)
        else:
            rows = await self._in_session(delivery, hold.connection, hold, write, proof)
        if not rows:
            raise self._context.no_longer_ours(delivery, "somebody changed or removed the row under its lock")

    async def _in_session(
        self, delivery: Delivery, connection: Connection, hold: KeyHold, write: Write, proof: dict[str, object]
    ) -> list[Row]:
        pool = self._context.pool
        try:
            rows = await patiently(lambda: write(connection, proof), self._context.clock)
            await self._unlock(connection, hold.key)
        except ConnectionLostError as error:
            await pool.release(connection)
            why = session_ended("the lock", self._limits)
            raise self._context.no_longer_ours(delivery, why) from error
        except BaseException:
            connection.broken = True  # cutting it is what unlocks
            await pool.release(connection)
            raise
        if self._closing or pool.others_wait(self._holder):  # in a small pool, other subscriptions may wait for it
            await pool.release(connection)
        else:
            self._warm.append(connection)
        return rows

    async def _unlock(self, connection: Connection, key: object) -> None:
        """Let a session's key go, and see that it went: a lock that stays would keep the row's key from everybody."""
        unlock = self._statements.unlock
        if unlock is None:
            return
        ((confirmed,),) = await connection.fetch(*unlock.bind({"key": key}))
        if not confirmed:
            connection.broken = True
            msg = "the session held no lock on the row's key any more: it went through a pooler, or was reset"
            raise ConnectionLostError(msg)

    def _let_go(self, hold: KeyHold) -> None:
        if self._keys is not None:
            self._keys.discard(hold.key)
            self._context.due(self._context.group, None)  # rows of the key may have waited

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give rows back, with their attempts; a key whose row cannot be written is let go all the same."""
        for delivery in deliveries:
            try:
                await self.settle(delivery, Release())
            except SQLBrokerError as error:
                text = f"row {delivery.row_id!r} of {self._context.name!r} was let go without its attempt"
                self._context.log(logging.WARNING, text, error)

    async def renew(self) -> None:
        """The session holds the key; it must not fall silent for long."""
        await keep_alive(self._context, {delivery: delivery.hold.connection for delivery in self._held})

    async def rest(self) -> None:
        """No worker is about to claim: sessions go back to the pool."""
        while self._warm:
            await self._context.pool.release(self._warm.pop())

    async def close(self) -> None:
        self._closing = True
        await self.rest()

    def abandon(self) -> None:
        """Nothing is under way on its own."""
