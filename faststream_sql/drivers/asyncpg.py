"""Postgres through asyncpg."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import asyncpg

from faststream_sql.drivers.asyncpg_connect import connect_arguments, socket_options
from faststream_sql.drivers.asyncpg_errors import mapped, mapped_connect_error
from faststream_sql.drivers.base import Connection, Listener, Query, Row, Server, Use
from faststream_sql.drivers.own_pool import OwnPool
from faststream_sql.drivers.redaction import alone
from faststream_sql.drivers.sqlalchemy import unwrap
from faststream_sql.drivers.unread import has_unread
from faststream_sql.drivers.url import DatabaseURL
from faststream_sql.errors import ConnectionLostError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts

T = TypeVar("T")

ROLLBACK_SECONDS = 1.0
"""How long a connection that comes back in a transaction has for its rollback before it is cut."""

_LEVELS = {
    None: "READ COMMITTED",
    "read_committed": "READ COMMITTED",
    "repeatable_read": "REPEATABLE READ",
    "serializable": "SERIALIZABLE",
}

SESSION = {
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "default_transaction_isolation": "read committed",
}
"""By the first three, in seconds, a server notices a lost host within a minute, and frees the rows whose locks its sessions held. At a
stricter level, which a server may have by default, claims and settlements of one statement would fail by one another."""

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
       concat_ws(' ', CASE WHEN a.attidentity <> '' THEN 'identity' END, CASE WHEN a.attgenerated <> '' THEN 'generated' END)
FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""

# before Postgres 10 and 12 there are no identity and no generated columns
_OLD_COLUMNS = _COLUMNS.replace(
    "concat_ws(' ', CASE WHEN a.attidentity <> '' THEN 'identity' END, CASE WHEN a.attgenerated <> '' THEN 'generated' END)", "''"
)

_INDEXES = """
SELECT c.relname, array(
    SELECT coalesce(a.attname, '') FROM unnest(i.indkey) WITH ORDINALITY AS k (number, place)
    LEFT JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place)
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass($1) AND i.indisvalid
"""

log = logging.getLogger("faststream_sql.drivers")


class AsyncpgConnection:
    """One session of Postgres. `command_timeout` is in seconds, for one whose library knows none of its own."""

    __slots__ = ("_raw", "_timeout", "broken", "entered", "idle_since")

    def __init__(self, raw: Any, command_timeout: float | None = None) -> None:
        self.broken = False
        self._timeout = command_timeout
        self.entered: tuple[Use, str] | None = None
        self.idle_since = 0.0
        self._raw = raw

    @property
    def raw(self) -> Any:
        """The connection of asyncpg itself."""
        return self._raw

    @property
    def in_transaction(self) -> bool:
        return bool(self._raw.is_in_transaction())

    async def fetch(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> list[Row]:
        rows: list[Row] = await self._guard(self._raw.fetch(text, *args, timeout=timeout or self._timeout))
        return rows

    async def execute(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> int:
        tag: str = await self._guard(self._raw.execute(text, *args, timeout=timeout or self._timeout))
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def script(self, text: str, *, timeout: float | None = None) -> None:
        await self._guard(self._raw.execute(text, timeout=timeout or self._timeout))

    async def select_then_write(
        self, select: Query, write: Callable[[list[Row]], Sequence[Query]], *, timeout: float | None = None
    ) -> list[Row]:
        await self.begin()
        try:
            rows = await self.fetch(*select, timeout=timeout)
            for text, args in write(rows):
                await self.execute(text, args, timeout=timeout)
        except BaseException:
            if not self.broken:
                await self.rollback()
            raise
        await self.commit()
        return rows

    async def begin(self, isolation: str | None = None) -> None:
        await self.script(f"BEGIN ISOLATION LEVEL {_LEVELS[isolation]}")

    async def commit(self) -> None:
        await self.script("COMMIT")

    async def rollback(self) -> None:
        await self.script("ROLLBACK")

    async def prepare(self, text: str) -> None:
        await self._guard(self._raw.prepare(text, timeout=self._timeout))

    async def columns(self, table: str, schema: str | None) -> list[ColumnFacts]:
        new = self._raw.get_server_version()[:2] >= (12, 0)
        return [ColumnFacts(*row) for row in await self.fetch(_COLUMNS if new else _OLD_COLUMNS, [_regclass(table, schema)])]

    async def indexes(self, table: str, schema: str | None) -> list[IndexFacts]:
        return [IndexFacts(name, tuple(columns)) for name, columns in await self.fetch(_INDEXES, [_regclass(table, schema)])]

    async def _guard(self, call: Coroutine[Any, Any, T]) -> T:
        """Await a call of asyncpg; whatever leaves the session in doubt marks it broken."""
        try:
            return await call
        except asyncio.CancelledError:
            self.broken = True
            raise
        except Exception as error:
            failure = mapped(error)
            if isinstance(failure, ConnectionLostError) or self._raw.is_closed():
                self.broken = True
            raise failure from error

    def is_closed(self) -> bool:
        return bool(self._raw.is_closed()) or has_unread(self._raw._transport)

    def terminate(self) -> None:
        """Cut the session off without a word to the server."""
        self._raw.terminate()

    async def end_transaction(self) -> bool:
        try:
            await self._raw.execute("ROLLBACK", timeout=ROLLBACK_SECONDS)
        except Exception as error:
            log.debug("a connection that came back in a transaction could not be rolled back: %r", error)
            return False
        return True

    async def close(self) -> None:
        await self._raw.close()


class AsyncpgListener:
    """A session that listens. asyncpg sets no keepalive, so a peer that is gone is noticed by `probe` alone."""

    def __init__(self, raw: Any, heard: Callable[[str, str], None], give_back: Callable[[], None]) -> None:
        self.ended = asyncio.Event()
        self._raw = raw
        self._heard = heard
        self._give_back = give_back
        raw.add_termination_listener(lambda _: self.ended.set())

    async def listen(self, channel: str) -> None:
        try:
            await self._raw.add_listener(channel, self._on_notify)
        except Exception as error:
            raise mapped(error) from error

    def _on_notify(self, connection: object, pid: int, channel: str, payload: str) -> None:
        self._heard(channel, payload)

    async def probe(self, timeout: float) -> None:
        try:
            await self._raw.execute("SELECT 1", timeout=timeout)
        except Exception as error:
            raise mapped(error) from error

    def terminate(self) -> None:
        self._raw.terminate()
        self._give_back()


class AsyncpgPool(OwnPool[AsyncpgConnection]):
    """A pool of the broker's own."""

    def __init__(
        self, url: DatabaseURL, *, size: int, acquire_timeout: float, command_timeout: float, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(size=size, acquire_timeout=acquire_timeout)
        self._url = url
        self._command_timeout = command_timeout
        self._tls = tls
        self._cache: dict[str, int] = {}

    async def _recognise(self, session: AsyncpgConnection) -> Server:
        server = await server_of(session)
        if server.pooled:  # a prepared statement may stay behind in a session that the pooler gives to others
            self._cache = {"statement_cache_size": 0}
            session.broken = True
        return server

    async def _connect_session(self) -> AsyncpgConnection:
        try:
            return AsyncpgConnection(await self._dial())
        except (
            OSError,
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
            TimeoutError,
            asyncio.TimeoutError,
        ) as error:
            failure = mapped_connect_error(error, self._url)
        with alone():  # the driver's text names the user
            raise failure

    async def _dial(self) -> Any:
        """A frame of its own for what holds the password: a report that shows the locals of an error's frames never sees it."""
        raw = await asyncpg.connect(**{**self._cache, **connect_arguments(self._url, self._tls)}, command_timeout=self._command_timeout)
        _set_socket(raw, socket_options(self._url))
        await self._set_up(raw)
        return raw

    async def _set_up(self, raw: Any) -> None:
        """Set the session up, and have the server watch over it. By a statement, since poolers refuse unknown settings at connect; a
        session that a pooler gives to others too is left as it is.
        """
        wanted = [f"set_config('{name}', '{value}', false)" for name, value in SESSION.items() if name not in self._url.options]
        if not wanted:
            return
        try:
            await raw.execute(f"SELECT {', '.join(wanted)} WHERE pg_backend_pid() = {int(raw.get_server_pid())}")
        except BaseException:
            raw.terminate()
            raise

    async def listener(self, heard: Callable[[str, str], None]) -> Listener | None:
        connection = await self._connect()

        def forget() -> None:
            self._all.pop(id(connection), None)

        return AsyncpgListener(connection.raw, heard, forget)

    async def process_keys(self) -> set[object] | None:
        return None

    async def borrow(self, connection: object) -> Connection:
        return await borrowed(connection)


def _set_socket(raw: Any, options: Sequence[tuple[int, int, int]]) -> None:
    found = raw._transport.get_extra_info("socket")
    if found is not None and found.family != getattr(socket, "AF_UNIX", None):
        for option in options:
            found.setsockopt(*option)


async def borrowed(connection: object) -> AsyncpgConnection:
    """A connection that a caller owns. Raises TypeError for what is none of Postgres."""
    raw = await unwrap(connection)
    if not hasattr(raw, "fetchrow") or not hasattr(raw, "is_in_transaction"):
        msg = (
            f"connection={type(connection).__name__} cannot carry a publish into Postgres: give an asyncpg connection, or an "
            "AsyncConnection or AsyncSession of SQLAlchemy on postgresql+asyncpg"
        )
        raise TypeError(msg)
    return AsyncpgConnection(raw)


async def server_of(connection: Connection) -> Server:
    """The version, and whether the session is the server's own: behind PgBouncer the backend's number is not the one told at connect."""
    raw = connection.raw if isinstance(connection, AsyncpgConnection) else None
    if raw is None:
        msg = "not a connection of asyncpg"
        raise TypeError(msg)
    ((backend,),) = await connection.fetch("SELECT pg_backend_pid()")
    version = raw.get_server_version()
    return Server("postgresql", (version[0], version[1]), f"{version[0]}.{version[1]}", pooled=backend != raw.get_server_pid())


def _regclass(table: str, schema: str | None) -> str:
    quoted = '"' + table.replace('"', '""') + '"'
    return quoted if schema is None else '"' + schema.replace('"', '""') + '".' + quoted
