"""A delivery: one row in work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from faststream_sql.engine.outcome import Nack, Outcome
from faststream_sql.errors import LeaseLostError


class Delivery:
    """One row in work, from its claim to its settlement.

    The first outcome settles it; later ones change nothing. `hold` is what the form keeps to prove that the row is still its own.
    """

    __slots__ = (
        "_names",
        "_settle",
        "_values",
        "after_error",
        "attempt",
        "error",
        "group",
        "headers",
        "hold",
        "key",
        "lease_lost",
        "message",
        "outcome",
        "payload",
        "queue",
        "row_id",
        "suspect",
        "unsettled",
        "when_handled",
    )

    def __init__(
        self,
        *,
        key: object,
        row_id: object,
        group: str | None,
        attempt: int | None,
        names: Sequence[str],
        values: Sequence[Any],
        payload: object,
        headers: object,
        suspect: bool,
        hold: Any,
        settle: Callable[[Delivery, Outcome], Awaitable[None]],
        queue: str | None = None,
    ) -> None:
        self.key = key
        """The id as the driver returns it: what statements are bound with."""
        self.row_id = row_id
        """The id as the table's description types it."""
        self.group = group
        self.queue = queue or group or ""
        """The name of the subscription that claimed it."""
        self.attempt = attempt
        """How often the row has been delivered, this time included; None where the table does not count."""
        self._names = names
        self._values = values
        self.payload = payload
        self.headers = headers
        self.suspect = suspect
        """Whether the row's last worker may have died of it: its lease had ended unsettled."""
        self.hold = hold
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        """The error that the handler did not answer, for the backoff."""
        self.after_error = False
        """Whether a nack of it is the backoff's: an error, and not an answer of the handler."""
        self.lease_lost = False
        """Whether the row was found to be no longer this delivery's own; its settlement is then void."""
        self.unsettled = False
        """Whether its settlement failed: the row is as it was, and returns by itself."""
        self.message: Any = None
        """What the caller of the engine made of the delivery, kept for it here."""
        self.when_handled: Callable[[], None] | None = None
        """Called once when its handler has ended; whoever gave it out sets it."""
        self._settle = settle

    def handled(self) -> None:
        """The handler has ended and only the settlement is left: another handler may start before that is committed.

        Whoever delivers may say so before it settles; a delivery that has ended is handled in any case.
        """
        if self.when_handled is not None:
            when_handled, self.when_handled = self.when_handled, None
            when_handled()

    @property
    def row(self) -> dict[str, Any]:
        """The row's values by role, or by name for a plain column, as they stood before the claim."""
        return dict(zip(self._names, self._values, strict=True))

    @property
    def partition_key(self) -> Any:
        """The row's partition key; None without one."""
        return self.row.get("partition_key")

    async def settle(self, outcome: Outcome) -> None:
        """Settle the row; returns when the settlement is committed.

        Raises LeaseLostError where the row is no longer this delivery's own (nothing was changed), or the DatabaseError that a settlement
        kept meeting until its lease ended. Does nothing for a delivery that has an outcome already.
        """
        if self.outcome is None:
            if self.after_error and isinstance(outcome, Nack):
                outcome = replace(outcome, after_error=True)
            self.outcome = outcome
            try:
                await self._settle(self, outcome)
            except LeaseLostError:
                raise  # somebody else's row
            except BaseException:
                self.unsettled = True
                raise

    def __repr__(self) -> str:
        return f"<Delivery of row {self.row_id!r} of {self.group!r}, attempt {self.attempt}, {self.outcome or 'in work'}>"


def settled_by(future: asyncio.Future[None], error: BaseException | None = None) -> None:
    """Give a waiter its result; a waiter that was cancelled wants none."""
    if not future.done():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
