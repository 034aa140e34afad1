"""MySQL and MariaDB through asyncmy."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from asyncmy import connection as asyncmy_connection
from asyncmy.constants.SERVER_STATUS import SERVER_STATUS_NO_BACKSLASH_ESCAPES

from faststream_sql.drivers.asyncmy_connect import SESSION, SILENT_SECONDS, addresses, connect_arguments, connect_timeout, tls_context
from faststream_sql.drivers.asyncmy_errors import leaves_session, mapped, mapped_connect_error
from faststream_sql.drivers.asyncmy_values import literal
from faststream_sql.drivers.base import Connection, Listener, Query, Row, Server, Use
from faststream_sql.drivers.own_pool import OwnPool
from faststream_sql.drivers.redaction import Redactor, alone
from faststream_sql.drivers.sqlalchemy import unwrap
from faststream_sql.drivers.unread import has_unread
from faststream_sql.drivers.url import DatabaseURL
from faststream_sql.errors import ConnectionLostError, DatabaseError, DataError, DeclarationError, UnavailableError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts

ROLLBACK_SECONDS = 1.0
"""How long a connection that comes back in a transaction has for its rollback before it is cut."""

STANDSTILL_SECONDS = 5
"""How long a session may say nothing between a locking read and the write that it is for. Its client stands still then (a stopped process,
a frozen machine), and nobody else would get at the rows before it is gone.
"""

_LEVELS = {
    None: "READ COMMITTED",
    "read_committed": "READ COMMITTED",
    "repeatable_read": "REPEATABLE READ",
    "serializable": "SERIALIZABLE",
}

_AS_BEFORE = b"SET wait_timeout = @faststream_sql_idle"

_COLUMNS = """
SELECT column_name, LOWER(column_type), is_nullable = 'YES', column_default, CONCAT_WS(' ', NULLIF(LOWER(extra), ''), collation_name)
FROM information_schema.columns WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s ORDER BY ordinal_position
"""
# a part of a column, or a descending one, has another order than the column: it counts as an expression
_INDEXES = """
SELECT index_name, IF(sub_part IS NULL AND collation = 'A', COALESCE(column_name, ''), '')
FROM information_schema.statistics WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s ORDER BY index_name, seq_in_index
"""
_VARIABLES = "SHOW VARIABLES WHERE Variable_name IN ('version', 'binlog_format', 'log_bin', 'wsrep_on')"

GALERA = (
    "this is a Galera node, and a row lock holds on one node alone: workers in the row lock form on several nodes may be given the same "
    "row. Have them all connect to one node, or use the lease form, by a column of the role LockedUntil"
)

_MARK = re.compile("%%|%s")

log = logging.getLogger("faststream_sql.drivers")


class AsyncmyConnection:
    """One session of MySQL or MariaDB. `owned` is False for one that a caller lent.

    Values are written into the text, by the mode that the session reports. Every call has a time limit, after which the socket is cut:
    asyncmy waits without end for a host that is gone.
    """

    __slots__ = ("_begin", "_owned", "_raw", "_timeout", "_transport", "_turn", "broken", "entered", "id_step", "idle_since", "most_bytes")

    def __init__(self, raw: Any, command_timeout: float, *, owned: bool = True) -> None:
        self.broken = False
        self.entered: tuple[Use, str] | None = None
        self.id_step: int | None = None
        """The distance of two generated ids of one statement (`auto_increment_increment`); None: not read."""
        self.most_bytes: int | None = None
        """The longest statement that the server takes (`max_allowed_packet`); None: not read."""
        self.idle_since = 0.0
        self._turn = asyncio.Lock()
        self._begin = ""
        """What opens the transaction that was asked for: it goes out with the first statement, in the same round trip."""
        self._raw = raw
        self._transport = raw._transport
        """Kept, since asyncmy lets go of it on a cancel, with a close that waits until everything is sent."""
        self._timeout = command_timeout
        self._owned = owned

    @property
    def raw(self) -> Any:
        """The connection of asyncmy itself."""
        return self._raw

    @property
    def in_transaction(self) -> bool:
        return bool(self._begin) or bool(self._raw.get_transaction_status())

    async def fetch(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> list[Row]:
        """As the protocol says. Of a write that returns no rows: a row for each row that it matched, with the id where it generated one."""
        result = (await self._run(self._bound(text, args), timeout))[-1]
        if result.rows is not None:
            return list(result.rows)
        if not result.insert_id:
            return [(None,)] * result.affected_rows
        step = await self._id_step() if result.affected_rows > 1 else 0
        return [(result.insert_id + n * step,) for n in range(result.affected_rows)]

    async def _id_step(self) -> int:
        if self.id_step is None:
            self.id_step = int((await self.fetch("SELECT @@auto_increment_increment"))[0][0])
        return self.id_step

    async def execute(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> int:
        return int((await self._run(self._bound(text, args), timeout))[-1].affected_rows)

    async def script(self, text: str, *, timeout: float | None = None) -> None:
        await self._run(text.encode(), timeout)

    async def select_then_write(
        self, select: Query, write: Callable[[list[Row]], Sequence[Query]], *, timeout: float | None = None
    ) -> list[Row]:
        try:
            await self.begin()
            self._begin = f"SET @faststream_sql_idle = @@wait_timeout, wait_timeout = {STANDSTILL_SECONDS}; {self._begin}"
            rows = await self.fetch(*select, timeout=timeout)
            await self._run(b"; ".join([*(self._bound(*query) for query in write(rows)), b"COMMIT", _AS_BEFORE]), timeout)
        except BaseException:
            if not self.broken:
                await self._finish(f"ROLLBACK; {_AS_BEFORE.decode()}")
            raise
        return rows

    async def begin(self, isolation: str | None = None) -> None:
        self._begin = f"SET TRANSACTION ISOLATION LEVEL {_LEVELS[isolation]}; START TRANSACTION; "

    async def commit(self) -> None:
        await self._finish("COMMIT")

    async def rollback(self) -> None:
        await self._finish("ROLLBACK")

    async def _finish(self, text: str) -> None:
        begun, self._begin = not self._begin, ""
        if begun:
            await self.script(text)

    async def prepare(self, text: str) -> None:
        async def check() -> None:
            statement = await self._raw.prepare(_MARK.sub(lambda mark: "%" if mark[0] == "%%" else "?", text))
            await statement.close()

        await self._guarded(check, None)

    async def columns(self, table: str, schema: str | None) -> list[ColumnFacts]:
        rows = await self.fetch(_COLUMNS, [schema, table])
        return [ColumnFacts(name, _text(kind), bool(nullable), default, extra) for name, kind, nullable, default, extra in rows]

    async def indexes(self, table: str, schema: str | None) -> list[IndexFacts]:
        found: dict[str, list[str]] = {}
        for name, column in await self.fetch(_INDEXES, [schema, table]):
            found.setdefault(name, []).append(column)
        return [IndexFacts(name, tuple(columns)) for name, columns in found.items()]

    def _bound(self, text: str, args: Sequence[object]) -> bytes:
        """The text with its values in it. Raises DataError for a value that cannot be written."""
        backslashes = not self._raw.server_status & SERVER_STATUS_NO_BACKSLASH_ESCAPES
        try:
            return text.encode() % tuple([literal(value, backslashes=backslashes) for value in args])
        except Exception as error:
            msg = f"a value cannot be sent to the database: {type(error).__name__}: {error}"
            raise DataError(msg) from error

    async def _run(self, sql: bytes, timeout: float | None) -> list[Any]:
        """Run a text of one or several statements; the result of each."""
        raw = self._raw
        begin, self._begin = self._begin, ""
        sql = begin.encode() + sql
        if self.most_bytes is not None and len(sql) + 1 >= self.most_bytes:  # a packet has a byte before the text
            msg = f"a statement of {len(sql)} bytes is longer than the server's max_allowed_packet of {self.most_bytes}"
            raise DataError(msg)
        results: list[Any] = []

        async def query() -> None:
            await raw.query(sql)
            results.append(raw._result)
            while raw._result.has_next:
                await raw.next_result()
                results.append(raw._result)

        await self._guarded(query, timeout)
        return results

    async def _guarded(self, call: Callable[[], Any], timeout: float | None) -> None:
        """Await a call of asyncmy; whatever leaves the session in doubt marks it broken."""
        seconds = self._timeout if timeout is None else min(timeout, self._timeout)
        expired: list[bool] = []

        def expire() -> None:
            expired.append(True)
            self.terminate()

        timer = asyncio.get_running_loop().call_later(seconds, expire)
        try:
            async with self._turn:
                await call()
        except asyncio.CancelledError:
            self.broken = True
            raise
        except Exception as error:
            failure = mapped(error, _redactor(self._raw))
            if expired:
                failure = ConnectionLostError(f"the database did not answer in {seconds:g} s; whether the statement ran is unknown")
                failure.__cause__ = error
            if self.is_closed() or not leaves_session(error):
                self.broken = True
                if self._owned:
                    self.terminate()
        else:
            return
        finally:
            timer.cancel()
        with alone():  # a text that names the user must not come along
            raise failure from failure.__cause__

    async def say_something(self) -> None:
        """A word to the server, in or out of a transaction. Whoever holds the session may use it at the same time."""
        await self._guarded(lambda: self._raw.query(b"DO 0"), None)

    def is_closed(self) -> bool:
        return bool(self._raw._stream_broken) or has_unread(self._raw._transport)

    def terminate(self) -> None:
        """Cut the session off without a word to the server."""
        self._transport.abort()

    async def end_transaction(self) -> bool:
        try:
            await self.script("ROLLBACK", timeout=ROLLBACK_SECONDS)
        except DatabaseError as error:
            log.debug("a connection that came back in a transaction could not be rolled back: %r", error)
            return False
        return True

    async def close(self) -> None:
        await self._raw.ensure_closed()


class AsyncmyPool(OwnPool[AsyncmyConnection]):
    """A pool of the broker's own."""

    keep_alive_seconds: float | None = SILENT_SECONDS / 3
    idle_seconds: float | None = SILENT_SECONDS / 2

    def __init__(
        self, url: DatabaseURL, *, size: int, acquire_timeout: float, command_timeout: float, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(size=size, acquire_timeout=acquire_timeout)
        self._url = url
        self._command_timeout = command_timeout
        self._tls = tls

    async def _recognise(self, session: AsyncmyConnection) -> Server:
        return await server_of(session)

    async def _connect_session(self) -> AsyncmyConnection:
        self._tls = self._tls or tls_context(self._url)
        failure: DatabaseError = UnavailableError(f"cannot connect to {self._url.public_url()}")
        for address in addresses(self._url):
            try:
                return await self._session(address)
            except DeclarationError:
                raise
            except DatabaseError as error:
                failure = UnavailableError(f"cannot set up a session on {self._url.public_url()}: {error}", code=error.code)
            except Exception as error:  # what answers there may be no database at all: its words are read as anything
                failure = mapped_connect_error(error, self._url)
        with alone():  # the driver's text names the user
            raise failure

    async def _session(self, address: dict[str, Any]) -> AsyncmyConnection:
        session = AsyncmyConnection(await self._dial(address), self._command_timeout)
        try:
            await session.script(SESSION)
            await read_limits(session)
        except BaseException:
            session.terminate()
            raise
        return session

    async def _dial(self, address: dict[str, Any]) -> Any:
        """A frame of its own for what holds the password: a report that shows the locals of an error's frames never sees it."""
        raw: Any = asyncmy_connection.Connection(**connect_arguments(self._url, self._tls, address))
        try:
            await asyncio.wait_for(raw.connect(), connect_timeout(self._url))
        except BaseException:
            if raw._transport is not None:
                raw._transport.abort()
            raise
        return raw

    async def keep_alive(self, connection: Connection) -> None:
        session = self._all.get(id(connection))
        if session is not None:
            await session.say_something()

    async def listener(self, heard: Callable[[str, str], None]) -> Listener | None:
        return None

    async def process_keys(self) -> set[object] | None:
        return None

    async def borrow(self, connection: object) -> Connection:
        return await borrowed(connection, self._command_timeout)


async def borrowed(connection: object, command_timeout: float) -> AsyncmyConnection:
    """A connection that a caller owns. Raises TypeError for what is none of MySQL or MariaDB."""
    raw: Any = await unwrap(connection)
    if not _is_asyncmy(raw):
        msg = (
            f"connection={type(connection).__name__} cannot carry a publish into MySQL or MariaDB: give an asyncmy connection, or an "
            "AsyncConnection or AsyncSession of SQLAlchemy on mysql+asyncmy"
        )
        raise TypeError(msg)
    if raw._charset != "utf8mb4":
        msg = f"connection={type(connection).__name__} speaks {raw._charset}, in which not every text can be written: connect with utf8mb4"
        raise TypeError(msg)
    return AsyncmyConnection(raw, command_timeout, owned=False)


async def read_limits(session: AsyncmyConnection) -> None:
    """Read what the session must know of the server to reckon ids and to refuse what is too long."""
    ((step, most),) = await session.fetch("SELECT @@auto_increment_increment, @@max_allowed_packet")
    session.id_step, session.most_bytes = int(step), int(most)


async def server_of(connection: Connection) -> Server:
    """The product and its version. A MariaDB may call itself `5.5.5-10.6…`: replication of old made it so."""
    variables = {str(name).lower(): str(value) for name, value in await connection.fetch(_VARIABLES)}
    detail = variables["version"]
    product = "mariadb" if "mariadb" in detail.lower() else "mysql"
    plain = detail.removeprefix("5.5.5-") if product == "mariadb" else detail
    numbers = re.match(r"\d+(?:\.\d+)*", plain)
    version = tuple(int(part) for part in numbers[0].split(".")) if numbers else ()
    return Server(product, version, detail, warnings=(GALERA,) if _is_galera(variables) else (), refuses=_refusals(variables))


def _is_galera(variables: dict[str, str]) -> bool:
    return variables.get("wsrep_on", "OFF").upper() == "ON"


def _refusals(variables: dict[str, str]) -> dict[str, str]:
    """What the server's settings rule out, by form."""
    refused: dict[str, str] = {}
    if variables.get("log_bin", "OFF").upper() == "ON" and variables.get("binlog_format", "").upper() == "STATEMENT":
        refused |= dict.fromkeys(
            ("row_lock", "lease", "advisory"), "binlog_format=STATEMENT lets nothing be written at READ COMMITTED: set ROW"
        )
    if _is_galera(variables):
        node = "this is a Galera node, and GET_LOCK holds on one node alone"
        refused["advisory"] = f"{node}: use the lease form, by a column of the role LockedUntil"
        refused["fifo"] = f"{node}: leave fifo out, or use a server that is no cluster"
    return refused


def _is_asyncmy(raw: object) -> bool:
    return isinstance(raw, asyncmy_connection.Connection)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _redactor(raw: Any) -> Redactor:
    """Takes out of a server's text who is logged in: it says so where a privilege is missing."""
    return Redactor(names=[_text(raw._user or "")])
