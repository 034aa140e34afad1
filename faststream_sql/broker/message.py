"""The message that a handler sees, and the outcome exception that FastStream has not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from faststream.exceptions import HandlerException
from faststream.message import StreamMessage
from faststream.message.message import AckStatus
from typing_extensions import override

from faststream_sql.engine import Ack, DeadLetter, Delivery, Nack, Reject


class DeadLetterMessage(HandlerException):
    """Raised in a handler to give a message up: it moves to the subscription's dead letter now, whatever its attempt."""

    def __init__(self, **options: Any) -> None:
        self.extra_options = options
        super().__init__()

    def __str__(self) -> str:
        return "Message was dead-lettered"


class SQLMessage(StreamMessage[Delivery]):
    """A row in work.

    `ack`, `nack`, `reject` and `dead_letter` return when their change is committed, and raise LeaseLostError where the row is no longer
    this delivery's own. The first of them settles the row; later ones change nothing.
    """

    @property
    def attempt(self) -> int | None:
        """How often the row has been delivered, this time included; None where the table does not count."""
        return self.raw_message.attempt

    @property
    def row_id(self) -> Any:
        """The row's id."""
        return self.raw_message.row_id

    @property
    def group(self) -> str | None:
        """The group that the row was claimed from; None for a table without groups."""
        return self.raw_message.group

    @property
    def row(self) -> Mapping[str, Any]:
        """The row's values by role, or by name for a plain column, as they stood before the claim.

        A plain column that is named as a role that another column plays is `columns.<name>`.
        """
        return self.raw_message.row

    @property
    def lease_lost(self) -> bool:
        """Whether the row was found to be no longer this delivery's own. Its settlement is then void."""
        return self.raw_message.lease_lost

    @override
    async def ack(self) -> None:
        """Done: the row is deleted, or marked as processed."""
        await self.raw_message.settle(Ack())
        self._answer(AckStatus.ACKED)

    @override
    async def nack(self, delay: float | timedelta | None = None) -> None:
        """Not done: the row is due again at once, or `delay` from now (seconds or a timedelta, 0 or more).

        Raises ValueError for a delay that cannot be; the row is then untouched.
        """
        await self.raw_message.settle(Nack(delay_seconds(delay)))
        self._answer(AckStatus.NACKED)

    @override
    async def reject(self) -> None:
        """Dropped: finished like an ack."""
        await self.raw_message.settle(Reject())
        self._answer(AckStatus.REJECTED)

    async def dead_letter(self) -> None:
        """Given up: the row moves to the subscription's dead letter. Raises DeclarationError where none is declared."""
        await self.raw_message.settle(DeadLetter())
        self._answer(AckStatus.REJECTED)

    def _answer(self, status: AckStatus) -> None:
        """What FastStream keeps of it: the first answer."""
        if self.committed is None:
            self.committed = status

    def __str__(self) -> str:
        # `faststream publish --rpc` prints an answer so
        return self.body.decode(errors="replace")

    def __repr__(self) -> str:
        # no body and no headers: a message's repr ends up in logs
        return f"{type(self).__name__}(row_id={self.row_id!r}, group={self.group!r}, attempt={self.attempt}, committed={self.committed})"


def delay_seconds(delay: float | str | timedelta | None) -> float | None:
    """A delay in seconds; a text of digits, as a command line gives it, counts as a number. Raises ValueError for what is none."""
    if delay is None:
        return None
    try:
        value = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or value < 0:
        msg = f"delay={delay!r} cannot be: give 0 or more seconds, or a timedelta"
        raise ValueError(msg)
    return value
