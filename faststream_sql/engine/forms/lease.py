"""The lease form: a claim writes an expiry into the row and commits, so a row in work holds no connection and no transaction.

The proof that a row is still one's own is `(id, attempt, expiry)`. Expiries only grow, and every write after the claim repeats the proof.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from typing_extensions import assert_never

from faststream_sql.dialects.base import ColumnTypes, LeaseStatements, Once
from faststream_sql.drivers.base import Row, Use
from faststream_sql.engine.delivery import Delivery
from faststream_sql.engine.forms.base import Context, RowReader, moment_after, put_off
from faststream_sql.engine.forms.lookout import Lookout
from faststream_sql.engine.forms.plans import Claim, run_group
from faststream_sql.engine.outcome import Ack, DeadLetter, Nack, Outcome, Reject, Release, apply_limit
from faststream_sql.engine.patience import patiently
from faststream_sql.engine.settlement import LeaseHold, Settler
from faststream_sql.errors import DatabaseError, DeclarationError, SQLBrokerError

RELEASE_PAUSES_SECONDS = (0.01, 0.05, 0.2, 0.0)

RENEW_MOST = 200
"""How many renewals, or releases, go out as one statement."""


class LeaseForm:
    """Claims, renews and settles rows under leases, for one subscription."""

    claims_ahead = True

    def __init__(self, context: Context, statements: LeaseStatements, lease_seconds: int) -> None:
        self._context = context
        self._lease = lease_seconds
        self.renew_every_seconds: float | None = lease_seconds / 2
        self._reader = RowReader(context.table, statements.claimed, context.group, queue=context.name, counters=context.counters)
        self._state(statements)
        self._held: set[Delivery] = set()
        expiries = context.table.expiries
        if expiries is None:
            msg = f"table {context.table.table.qualified_name!r} has no LockedUntil, so its rows cannot be leased"
            raise DeclarationError(msg)
        self._expiries = expiries
        self._times = context.table.types.times
        self._finish = Settler(context, "finish", statements.finish_many, Once(statements.finish_one))
        self._nack = Settler(context, "nack", statements.nack_many, Once(statements.nack_one))
        self._hold = Settler(context, "nack", statements.renew_many, Once(statements.renew_one))
        self._bury = Settler(context, "dead letter", None, statements.bury) if statements.bury else None
        # A renewal that waits for long is of no use: it gives up early, and is tried again.
        self._renew_timeout = min(context.command_timeout, lease_seconds / 4)

    def restate(self, types: ColumnTypes) -> None:
        self._state(self._context.table.dialect.lease(self._context.table.table, types, self._context.dead_table))

    def _state(self, statements: LeaseStatements) -> None:
        self._statements = statements
        self._claim = Claim(statements.claim, 0)
        self._lookout = Lookout(self._context, statements.probe)

    async def claim(self, limit: int) -> list[Delivery]:
        context = self._context
        async with context.pool.connection(Use.STATEMENT, f"claim of {context.name!r}") as connection:
            now = context.clock.now()  # read after the wait for the connection: a lease must not be born old
            sent_at = context.clock.monotonic()
            expires = self._expiries.from_now(now, self._lease)
            values = {
                "group": context.group,
                "now": now,
                "limit": limit,
                "expiry": expires,
                "mutex": context.mutex,
                "busy": context.keys.busy(),
            }
            rows: list[Row] = []
            if await self._lookout.look(connection, values):
                rows = await self._claim.run(connection, {**values, "steps": self._lookout.steps()})
            self._lookout.claimed(enough=len(rows) == limit)
        token = self._times["locked_until"].encode(expires)
        deliveries = [self._delivery(row, expires, token, sent_at) for row in self._reader.sort(rows)]
        self._held.update(deliveries)
        kept, others = context.keys.take(deliveries)
        if others:
            await self.release(others)
        return kept

    def _delivery(self, row: Sequence[object], expires: datetime, token: object, sent_at: float) -> Delivery:
        was = row[self._reader.locked_until] if self._reader.locked_until is not None else None
        delivery = self._reader.read(row, hold=None, suspect=was is not None, settle=self.settle)
        most = self._context.table.types.attempt_max
        delivery.hold = LeaseHold(
            attempt=None if delivery.attempt is None else min(delivery.attempt + 1, most),
            confirmed=token,
            expires=expires,
            confirmed_at=sent_at,
            trusted_until=sent_at + self._lease,
            unconfirmed=[],
            was=was,
        )
        return delivery

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        context = self._context
        try:
            effective = apply_limit(outcome, delivery.attempt, context.limit)
            match effective:
                case Ack() | Reject():
                    now = context.clock.now() if context.table.table.processed_at else None
                    new = (self._times["processed_at"].encode(now),) if now else ()
                    await self._finish.settle(delivery, new, {"now": now})
                case Nack(delay, after_error):
                    if delay and after_error and context.table.table.fifo:
                        await self._keep_place(delivery, delay)
                    else:
                        await self._settle_nack(delivery, delay)
                case DeadLetter():
                    effective = await self._settle_dead(delivery)
                case Release():
                    await self.release([delivery])
                    return
                case _:
                    assert_never(effective)
            context.counters.settled(effective)
        finally:
            self._held.discard(delivery)
            self._context.let_go_of_key(delivery)

    async def _settle_nack(self, delivery: Delivery, delay: float | None) -> None:
        table = self._context.table.table
        due = moment_after(self._context.clock.now(), delay) if delay is not None and table.retry_after else None
        new = ((self._times["retry_after"].encode(due) if due else None),) if table.retry_after else ()
        await self._nack.settle(delivery, new, {"due": due})
        self._context.due(self._context.group, due)

    async def _keep_place(self, delivery: Delivery, delay: float) -> None:
        """A head that failed waits where it is: its row stays leased until the backoff has passed, for every process."""
        until = self._expiries.codec.floor(moment_after(self._context.clock.now(), delay))
        token = self._times["locked_until"].encode(until)
        await self._hold.settle(delivery, (token,), {"expiry": token})
        self._context.due(self._context.group, until)

    async def _settle_dead(self, delivery: Delivery) -> Outcome:
        """Move the row to the dead letter. Returns the outcome that took effect."""
        limit = self._context.limit
        if self._bury is None or limit is None:
            raise self._context.no_dead_letter(delivery)
        values = {"dead": limit.dead_letter, "group": self._context.group, "delivered": delivery.attempt, "now": None}
        try:
            await self._bury.settle(delivery, (), values)
        except DatabaseError as error:
            due = put_off(self._context, delivery, error)
            await self._nack.settle(delivery, (self._times["retry_after"].encode(due),), {"due": due})
            self._context.due(self._context.group, due)
            return Nack()
        self._context.due(limit.dead_letter, None)
        return DeadLetter()

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give rows back. One whose answer is lost is not sent again: that could lower the attempt of the row's next delivery."""
        table = self._context.table.table
        owned = [delivery for delivery in deliveries if not delivery.lease_lost]
        self._held.difference_update(deliveries)
        for delivery in deliveries:
            self._context.let_go_of_key(delivery)
        rows: list[tuple[object, ...]] = []
        for delivery in owned:
            hold: LeaseHold = delivery.hold
            counted: tuple[object, ...] = (hold.attempt,) if table.attempt else ()
            given_back = (hold.was, *((delivery.attempt,) if table.attempt else ()))
            rows += [(delivery.key, token, *counted, *given_back) for token in (hold.confirmed, *hold.unconfirmed)]
        try:
            for start in range(0, len(rows), RENEW_MOST):
                await self._release_group(rows[start : start + RENEW_MOST])
            self._context.counters.released += len(owned)
            self._context.due(self._context.group, None)
        except SQLBrokerError as error:
            text = f"{len(owned)} row(s) of {self._context.name!r} could not be released; they return when their leases end"
            self._context.log(logging.WARNING, text, error)

    async def _release_group(self, rows: Sequence[tuple[object, ...]]) -> None:
        """The statement passes over a row that somebody locks for a moment (a claim that looks at it): such a row is sent again."""
        for pause in RELEASE_PAUSES_SECONDS:
            found = await patiently(partial(self._release_once, rows), self._context.clock)
            rows = [row for row in rows if row[0] not in found]
            if not rows or not self._context.pool.overlaps:
                return
            await asyncio.sleep(pause)

    async def _release_once(self, rows: Sequence[tuple[object, ...]]) -> set[object]:
        async with self._context.pool.connection(Use.STATEMENT, f"release of {self._context.name!r}") as connection:
            return await run_group(connection, self._statements.release_many, rows)

    # --- renewal ---------------------------------------------------------------------------------------------------------------------

    async def renew(self) -> None:
        """Prolong every lease that is held, in one statement (or a few). Raises what the database reports; to be tried again then."""
        held = [delivery for delivery in self._held if not delivery.lease_lost]
        for start in range(0, len(held), RENEW_MOST):
            await self._renew_group(held[start : start + RENEW_MOST])

    async def _renew_group(self, held: Sequence[Delivery]) -> None:
        context, table = self._context, self._context.table.table
        async with context.pool.connection(Use.RENEWAL, f"renewal of {context.name!r}") as connection:
            sent_at = context.clock.monotonic()
            ordered = sorted((delivery for delivery in held if delivery in self._held), key=lambda delivery: str(delivery.key))
            rows: list[tuple[object, ...]] = []
            sent: dict[Delivery, tuple[datetime, object]] = {}
            for delivery in ordered:
                hold: LeaseHold = delivery.hold
                counted: tuple[object, ...] = (hold.attempt,) if table.attempt else ()
                expires, token = self._next_expiry(hold, sent_at)
                rows += [(delivery.key, old, *counted, token) for old in (hold.confirmed, *hold.unconfirmed)]
                hold.unconfirmed.append(token)  # before it is sent: from then on the row may hold it
                sent[delivery] = (expires, token)
            found = await run_group(connection, self._statements.renew_many, rows, timeout=self._renew_timeout) if rows else set()
        for delivery, (expires, token) in sent.items():
            if delivery.key in found:
                self._confirm(delivery, expires, token, sent_at)
        missing = [delivery for delivery in sent if delivery.key not in found]
        await asyncio.gather(*(self._renew_alone(delivery) for delivery in missing))

    async def _renew_alone(self, delivery: Delivery) -> None:
        """A row that the group statement skipped is held by somebody for a moment, or is lost: the lone statement waits and tells."""
        context = self._context
        hold: LeaseHold = delivery.hold
        async with context.pool.connection(Use.RENEWAL, f"renewal of {context.name!r}") as connection:
            sent_at = context.clock.monotonic()
            expires, token = self._next_expiry(hold, sent_at)
            pairs = hold.pairs()
            hold.unconfirmed.append(token)
            for confirmed, sent in pairs:
                values = {"id": delivery.key, "attempt": hold.attempt, "confirmed": confirmed, "sent": sent, "expiry": token}
                text, args = self._statements.renew_one.bind(values)
                if await connection.fetch(text, args, timeout=self._renew_timeout):
                    self._confirm(delivery, expires, token, sent_at)
                    return
        # no row, and no settlement of our own that may have removed it: somebody else has it
        if delivery in self._held and delivery.outcome is None:
            self._held.discard(delivery)
            context.lost(delivery)

    def _next_expiry(self, hold: LeaseHold, sent_at: float) -> tuple[datetime, object]:
        """The later of the wall clock's answer and the old expiry plus the time that has really passed: a clock set back costs no lease."""
        wall = self._context.clock.now() + timedelta(seconds=self._lease)
        steady = hold.expires + timedelta(seconds=sent_at - hold.confirmed_at)
        expires = self._expiries.after(max(wall, steady))
        return expires, self._times["locked_until"].encode(expires)

    def _confirm(self, delivery: Delivery, expires: datetime, token: object, sent_at: float) -> None:
        hold: LeaseHold = delivery.hold
        hold.confirmed, hold.expires, hold.confirmed_at = token, expires, sent_at
        hold.trusted_until = sent_at + self._lease
        hold.unconfirmed.clear()
        self._context.counters.renewed += 1

    async def rest(self) -> None:
        """Nothing is kept between claims."""

    async def close(self) -> None:
        """Wait for the settlements under way."""
        for settler in (self._finish, self._nack, self._hold, self._bury):
            if settler is not None:
                await settler.drain()

    def abandon(self) -> None:
        """Stop settling: what is under way is left to its lease."""
        for settler in (self._finish, self._nack, self._hold, self._bury):
            if settler is not None:
                settler.cancel()
