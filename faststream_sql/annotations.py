"""Annotated parameters of handlers: what FastStream injects by their types.

They are resolved on the event loop. (A plain `Context` field is resolved in a thread, which costs more than the rest of a message.)
"""

from __future__ import annotations

from typing import Annotated, Any

from faststream.annotations import ContextRepo, Logger
from faststream.params import NoCast
from typing_extensions import override

from faststream_sql.broker._faststream import Context
from faststream_sql.broker.broker import SQLBroker as _SQLBroker
from faststream_sql.broker.message import SQLMessage as _SQLMessage
from faststream_sql.drivers.base import Pool as _Pool
from faststream_sql.engine import Clock as _Clock
from faststream_sql.errors import DeclarationError


class _LoopContext(Context):
    """FastStream's context field, resolved without a thread."""

    @override
    async def use(self, /, **kwargs: Any) -> Any:
        return super().use(**kwargs)


class _NoTransaction(_LoopContext):
    """A delivery's transaction, which this release does not offer."""

    @override
    async def use(self, /, **kwargs: Any) -> Any:
        msg = "a handler asks for its delivery's Transaction, and transactional subscribers are not supported in this release"
        raise DeclarationError(msg)


SQLMessage = Annotated[_SQLMessage, _LoopContext("message")]
"""The message: its row's id, group, attempt and values, and the methods that settle it."""
AttemptNumber = Annotated[int | None, _LoopContext("message.attempt")]
"""How often the row has been delivered, this time included; None where the table does not count."""
Pool = Annotated[_Pool, _LoopContext("broker.engine.pool")]
"""The broker's pool. What a handler takes from it (`async with pool.connection(…)`) goes back at the end of its `async with`."""
CurrentClock = Annotated[_Clock, _LoopContext("broker.clock")]
"""The broker's clock: a handler that reads the time here can be tested in fake time."""
Transaction = Annotated[Any, _NoTransaction("message")]
"""The delivery's transaction; not in this release."""
SQLBroker = Annotated[_SQLBroker, Context("broker")]
"""The broker itself."""

__all__ = (
    "AttemptNumber",
    "ContextRepo",
    "CurrentClock",
    "Logger",
    "NoCast",
    "Pool",
    "SQLBroker",
    "SQLMessage",
    "Transaction",
)
