"""What the engine asks of a driver: a pool of connections that run one statement, or one short transaction, at a time.

A driver does I/O only: it knows no table and writes no SQL of a queue. Everything that its library raises is mapped here, at the edge,
to a class of `errors.DatabaseError`. A connection on which anything was left in doubt (a timeout, a cancellation, a protocol error) marks
itself `broken` and its pool discards it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from faststream_sql.table.catalogue import ColumnFacts, IndexFacts

Row = Sequence[Any]
"""One row as the driver returns it, read by position: the columns stand in the order of the statement's select list."""


class Query(NamedTuple):
    """A statement's text with the values bound to it."""

    text: str
    args: Sequence[object] = ()


class Use(Enum):
    """What a connection is asked for; it decides who waits when the pool is short (see `drivers.gate`)."""

    STATEMENT = "statement"
    """One short statement or transaction: a claim, a settlement, a publish."""
    RENEWAL = "renewal"
    """A renewal of leases: it goes first, since rows are lost when it waits."""
    DELIVERY = "delivery"
    """Kept for a whole handler: at most the pool's size less one are given out for this use."""


class Connection(Protocol):
    """One session. It is used by one task at a time; whoever acquired it from the pool releases it there."""

    broken: bool

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open (also one that has failed and waits for its rollback)."""
        ...

    async def fetch(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> list[Row]:
        """Run one statement and return all its rows. `timeout` is in seconds and only shortens the pool's command timeout."""
        ...

    async def execute(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> int:
        """Run one statement and return how many rows it matched."""
        ...

    async def script(self, text: str, *, timeout: float | None = None) -> None:
        """Run several statements without values in one round trip, in the order given; stops at the first that fails."""
        ...

    async def select_then_write(
        self, select: Query, write: Callable[[list[Row]], Sequence[Query]], *, timeout: float | None = None
    ) -> list[Row]:
        """In one transaction that may write: run `select`, then each of the queries that `write` makes of its rows, commit.

        Returns the rows of `select`. `write` is a plain function without side effects; a driver may call it in a thread.
        """
        ...

    async def begin(self, isolation: str | None = None) -> None:
        """Open a transaction, at `isolation` ("read_committed", "repeatable_read", "serializable") or at READ COMMITTED."""
        ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...

    async def prepare(self, text: str) -> None:
        """Have the server check a statement without running it. Raises StatementError where it does not fit the schema."""
        ...

    async def columns(self, table: str, schema: str | None) -> list[ColumnFacts]:
        """The table's columns from the catalogue, in order; an empty list where there is no such table."""
        ...

    async def indexes(self, table: str, schema: str | None) -> list[IndexFacts]:
        """The table's indexes."""
        ...


class Server(NamedTuple):
    """What the pool found when it opened its first connection."""

    product: str
    """`postgresql`, `mysql`, `mariadb` or `sqlite`."""
    version: tuple[int, ...]
    detail: str
    """The version as the server spells it, for messages."""
    pooled: bool = False
    """Whether a pooler stands between, so that a session is not the client's own."""
    warnings: tuple[str, ...] = ()
    """What the service's operator should hear of at start."""
    refuses: Mapping[str, str] = MappingProxyType({})
    """Forms that the server's settings rule out (`row_lock`, `lease`, `advisory`), each with the reason and the way out."""


class Listener(Protocol):
    """A session of its own that hears notifications. `ended` is set when it is gone."""

    ended: asyncio.Event

    async def listen(self, channel: str) -> None:
        """Hear one more channel."""
        ...

    async def probe(self, timeout: float) -> None:
        """See that the session still answers, within `timeout` seconds. Raises ConnectionLostError where it does not."""
        ...

    def terminate(self) -> None:
        """Cut the session off. Never raises."""
        ...


class Pool(Protocol):
    """A pool of connections to one database. `size` is the most that it opens."""

    size: int
    overlaps: bool
    """Whether statements on two of its connections run at the same time."""

    keep_alive_seconds: float | None
    """How often a session that is held for long must be kept alive, or its server ends it; None where it need not be."""

    @property
    def in_use(self) -> int:
        """How many connections are given out."""
        ...

    async def keep_alive(self, connection: Connection) -> None:
        """Have a session that was given out say something; its holder may use it meanwhile. Raises ConnectionLostError where it is gone."""
        ...

    def others_wait(self, holder: str) -> bool:
        """Whether a delivery of another holder waits for a connection: one that is kept for the next delivery is then given back."""
        ...

    async def open(self) -> Server:
        """Connect once and read the server's version. Raises UnavailableError, with no credential in it, where that fails."""
        ...

    async def close(self, timeout: float) -> None:
        """Close every idle connection, wait up to `timeout` seconds for those in use, then cut them off. Safe to call twice."""
        ...

    def connection(self, use: Use, holder: str) -> AbstractAsyncContextManager[Connection]:
        """Acquire a connection for the span of a `with`. `holder` says who, for messages (`claim of 'emails'`)."""
        ...

    async def acquire(self, use: Use, holder: str) -> Connection:
        """Acquire a connection to keep; give it back with `release`. Raises PoolTimeoutError, ClosedError, UnavailableError."""
        ...

    async def release(self, connection: Connection) -> None:
        """Give a connection back: a broken one, or one left in a transaction, is discarded. Never raises, never waits long."""
        ...

    async def listener(self, heard: Callable[[str, str], None]) -> Listener | None:
        """Open a session that hears notifications, beside the pool's own; None where the database sends none.

        `heard` is called with a channel and a payload, on the event loop; it must not raise.
        """
        ...

    async def process_keys(self) -> set[object] | None:
        """The lock keys that this process holds on the database, for all its pools alike; None where sessions hold keys themselves.

        Raises DeclarationError where another process has the database for its own keys.
        """
        ...

    async def borrow(self, connection: object) -> Connection:
        """Wrap a driver's connection that a caller owns (`publish(connection=)`); it is never released, committed or closed here."""
        ...
