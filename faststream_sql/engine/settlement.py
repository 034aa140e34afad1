"""Settlements of the lease form: those that are ready together go out as one statement, and each waits for its own committed result.

A group statement skips rows that somebody holds, so a row that did not come back is tried alone; only that lone statement may say that a
row is lost. A statement cut off by its connection may have run: it is tried again by its proof until the lease ends, and if it then finds
no row, the first try is taken to have settled it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faststream_sql.dialects.base import GroupPlan, Plan
from faststream_sql.drivers.base import Use
from faststream_sql.engine.delivery import Delivery, settled_by
from faststream_sql.engine.forms.base import Context
from faststream_sql.engine.forms.plans import run_group, run_plan
from faststream_sql.errors import (
    ClosedError,
    ConnectionLostError,
    DataError,
    LeaseLostError,
    NoSpaceError,
    PoolTimeoutError,
    ReadOnlyError,
    TransientError,
    UnavailableError,
)

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0

FLUSHES = 2
"""How many group statements are under way at once: while one commits, the next one gathers."""
TOGETHER = 200
"""How many settlements go out as one statement at most."""

_TRY_AGAIN = (TransientError, ConnectionLostError, UnavailableError, ReadOnlyError, NoSpaceError, PoolTimeoutError)


@dataclass(slots=True)
class LeaseHold:
    """The proof that a row is still its delivery's own: the expiry last confirmed, and those sent whose answer never came."""

    attempt: int | None
    """The row's attempt while it is held: the claim counted it."""
    confirmed: Any
    """In the column's own form, never formatted anew."""
    expires: datetime
    """The moment of the confirmed expiry."""
    confirmed_at: float
    """When it was sent, on the clock's monotonic scale."""
    trusted_until: float
    """Until when, on that scale, nobody else can have claimed the row."""
    unconfirmed: list[Any]
    was: Any
    """The expiry that the row held before it was claimed; a release puts it back."""

    def pairs(self) -> list[tuple[Any, Any]]:
        """The expiries in twos, as the lone statements take them."""
        tokens = [self.confirmed, *self.unconfirmed]
        if len(tokens) % 2:
            tokens.append(tokens[-1])
        return list(zip(tokens[::2], tokens[1::2], strict=True))


@dataclass(slots=True)
class Settlement:
    """One settlement that waits for its result."""

    delivery: Delivery
    new: tuple[object, ...]
    """The new values of the row in a group statement, in the order of its fields after the proof."""
    values: Mapping[str, object]
    """The same values by name, for the lone statement."""
    done: asyncio.Future[None]


class Settler:
    """Carries out one kind of settlement (finish, nack, …) for a subscription."""

    def __init__(self, context: Context, purpose: str, many: GroupPlan | None, one: Plan) -> None:
        self._context = context
        self._purpose = purpose
        self._many = many
        self._one = one
        self._waiting: list[Settlement] = []
        self._flushes: set[asyncio.Task[None]] = set()
        self._scheduled = False
        self._most_flushes = FLUSHES if context.pool.overlaps else 1
        self._holder = f"settlement of {context.name!r}"
        self._proof_has_attempt = context.table.table.attempt is not None

    async def settle(self, delivery: Delivery, new: tuple[object, ...], values: Mapping[str, object]) -> None:
        """Settle one row; returns when it is committed. Cancelling the caller does not take the settlement back."""
        loop = asyncio.get_running_loop()
        settlement = Settlement(delivery, new, values, loop.create_future())
        self._waiting.append(settlement)
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._start_flush)  # whatever else is ready in this turn of the loop goes along
        await settlement.done

    async def drain(self) -> None:
        """Wait for the settlements that are under way."""
        while self._waiting or self._flushes:
            if self._flushes:
                await asyncio.wait(set(self._flushes))
            else:
                await asyncio.sleep(0)

    def cancel(self) -> None:
        """Stop trying: the rows are left to their leases."""
        for flush in self._flushes:
            flush.cancel()

    def _start_flush(self) -> None:
        self._scheduled = False
        while self._waiting and len(self._flushes) < self._most_flushes:
            batch, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
            flush = asyncio.get_running_loop().create_task(self._flush(batch))
            self._flushes.add(flush)
            flush.add_done_callback(self._flushed)

    def _flushed(self, flush: asyncio.Task[None]) -> None:
        self._flushes.discard(flush)
        self._start_flush()

    async def _flush(self, batch: Sequence[Settlement]) -> None:
        try:
            unknown = False
            if self._many is not None and len(batch) > 1:
                try:
                    async with self._context.pool.connection(Use.STATEMENT, self._holder) as connection:
                        found = await run_group(connection, self._many, self._proofs(batch))
                except (DataError, *_TRY_AGAIN) as error:  # one bad row must not fail the rest: each goes alone
                    found, unknown = set(), isinstance(error, ConnectionLostError)
                for settlement in batch:
                    if settlement.delivery.key in found:
                        settled_by(settlement.done)
                batch = [settlement for settlement in batch if settlement.delivery.key not in found]
            for settlement in batch if len(batch) < 2 else ():
                await self._alone(settlement, unknown=unknown)
            if len(batch) > 1:
                await asyncio.gather(*(self._alone(settlement, unknown=unknown) for settlement in batch))
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            failure = ClosedError("the broker stopped before the row was settled; its lease returns it") if cancelled else error
            for settlement in batch:
                settled_by(settlement.done, failure)
            if cancelled:
                raise

    def _proofs(self, batch: Sequence[Settlement]) -> list[tuple[object, ...]]:
        """The rows of the group statement: a row with an unconfirmed expiry stands once for each (at most one of them matches)."""
        rows: list[tuple[object, ...]] = []
        for settlement in batch:
            delivery, hold = settlement.delivery, settlement.delivery.hold
            counted = (hold.attempt,) if self._proof_has_attempt else ()
            rows += [(delivery.key, token, *counted, *settlement.new) for token in (hold.confirmed, *hold.unconfirmed)]
        return rows

    async def _alone(self, settlement: Settlement, *, unknown: bool) -> None:
        try:
            await self._try_alone(settlement, unknown=unknown)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            settled_by(settlement.done, error)
        else:
            settled_by(settlement.done)

    async def _try_alone(self, settlement: Settlement, *, unknown: bool) -> None:
        context, delivery = self._context, settlement.delivery
        hold: LeaseHold = delivery.hold
        pause = FIRST_PAUSE_SECONDS
        while True:
            pairs = hold.pairs()
            trusted = context.clock.monotonic() < hold.trusted_until
            try:
                if await self._send_alone(settlement, pairs):
                    return
            except _TRY_AGAIN as error:
                unknown = unknown or isinstance(error, ConnectionLostError)
                if not trusted:
                    raise
                await context.clock.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                continue
            if hold.pairs() != pairs:
                continue  # a renewal went through in between: the proof has changed
            if unknown:
                text = f"row {delivery.row_id!r} of {context.name!r}: an answer was lost, and the row is settled or gone"
                context.log(logging.WARNING, text)
                context.counters.unknown += 1
                return
            context.lost(delivery)
            raise LeaseLostError(
                f"row {delivery.row_id!r} of {context.name!r} (attempt {delivery.attempt}) is no "
                "longer this delivery's: its lease ended and it was claimed again, or somebody changed or removed it. "
                f"The {self._purpose} changed nothing"
            )

    async def _send_alone(self, settlement: Settlement, pairs: Sequence[tuple[object, object]]) -> bool:
        delivery = settlement.delivery
        async with self._context.pool.connection(Use.STATEMENT, self._holder) as connection:
            for confirmed, sent in pairs:
                values = {
                    **settlement.values,
                    "id": delivery.key,
                    "attempt": delivery.hold.attempt,
                    "confirmed": confirmed,
                    "sent": sent,
                }
                if await run_plan(connection, self._one, values, 0):
                    return True
        return False
