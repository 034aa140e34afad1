"""SQLite through aiosqlite.

One connection serves all: SQLite has one writer, and a second connection of the same process would only wait for it. Every operation runs
to its end in aiosqlite's thread, also when its waiter is cancelled: a `BEGIN IMMEDIATE` that nobody waits for would hold the write lock.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from faststream_sql.drivers.base import Connection, Listener, Query, Row, Server, Use
from faststream_sql.drivers.gate import Gate
from faststream_sql.drivers.process_keys import ProcessKeys
from faststream_sql.drivers.redaction import alone
from faststream_sql.drivers.sqlalchemy import unwrap
from faststream_sql.drivers.sqlite_errors import mapped
from faststream_sql.drivers.url import DatabaseURL, Secret
from faststream_sql.errors import ClosedError, ConnectionLostError, UnavailableError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts

T = TypeVar("T")

BUSY_SECONDS = 5.0
"""How long a statement waits for another process's write lock, unless the URL says `?timeout=`."""
WAITED_SECONDS = 0.002
"""A write that took longer than this had to wait for the lock."""
FIXED_VERSION = (3, 51, 3)
"""Earlier versions may damage a file in WAL mode that several connections write at once (sqlite.org/wal.html, "WAL-reset bug")."""

log = logging.getLogger("faststream_sql.drivers")


class AiosqliteConnection:
    """A session of SQLite. `owned` is False for one that a caller lent."""

    def __init__(self, raw: Any, command_timeout: float, *, owned: bool = True) -> None:
        self.broken = False
        self._raw = raw
        self._timeout = command_timeout
        self._owned = owned

    @property
    def raw(self) -> Any:
        """The connection of aiosqlite itself."""
        return self._raw

    @property
    def in_transaction(self) -> bool:
        return self._raw._connection is not None and bool(self._raw._connection.in_transaction)

    @property
    def _database(self) -> sqlite3.Connection:
        """The connection of `sqlite3`. Raises ConnectionLostError where it is closed: behind its stop, the thread comes to no work."""
        if self._raw._connection is None or not self._raw._running:
            msg = "the connection to the SQLite file is closed"
            raise ConnectionLostError(msg)
        database: sqlite3.Connection = self._raw._connection
        return database

    async def fetch(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> list[Row]:
        return await self._run(partial(_fetch, self._database, text, args), timeout)

    async def execute(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> int:
        return await self._run(partial(_execute, self._database, text, args), timeout)

    async def script(self, text: str, *, timeout: float | None = None) -> None:
        await self._run(partial(_script, self._database, text), timeout)

    async def select_then_write(
        self, select: Query, write: Callable[[list[Row]], Sequence[Query]], *, timeout: float | None = None
    ) -> list[Row]:
        return await self._run(partial(_select_then_write, self._database, select, write), timeout)

    async def begin(self, isolation: str | None = None) -> None:
        await self.execute("BEGIN IMMEDIATE")  # a transaction that reads first cannot wait for the write lock later

    async def commit(self) -> None:
        await self.execute("COMMIT")

    async def rollback(self) -> None:
        await self.execute("ROLLBACK")

    async def prepare(self, text: str) -> None:
        await self._run(partial(_prepare, self._database, text), None)

    async def configure(self, isolation_level: Any, text_factory: Any) -> None:
        """Set what `sqlite3` does by itself: open transactions, decode text."""

        def configure(database: sqlite3.Connection) -> None:
            database.isolation_level = isolation_level
            database.text_factory = text_factory

        await self._run(partial(configure, self._database), None)

    async def columns(self, table: str, schema: str | None) -> list[ColumnFacts]:
        rows = await self.fetch(
            'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?, ?)', [table, schema or "main"]
        )
        return [
            ColumnFacts(name, kind.lower(), not notnull and not key, default, "generated" if hidden in {2, 3} else "")
            for name, kind, notnull, default, key, hidden in rows
        ]

    async def indexes(self, table: str, schema: str | None) -> list[IndexFacts]:
        where = schema or "main"
        names = [row[0] for row in await self.fetch("SELECT name FROM pragma_index_list(?, ?)", [table, where])]
        return [
            IndexFacts(name, tuple(row[0] or "" for row in await self.fetch("SELECT name FROM pragma_index_info(?, ?)", [name, where])))
            for name in names
        ]

    async def _run(self, work: Callable[[], T], timeout: float | None) -> T:
        """Run work in the connection's thread, within the command timeout.

        The thread's queue is aiosqlite's own, private and pinned by version: through its public methods a transaction of three statements
        would cost three hops, with the write lock held in between.
        """
        seconds = self._timeout if timeout is None else min(timeout, self._timeout)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        timer = loop.call_later(seconds, _expire, future)
        self._raw._tx.put_nowait((future, work))
        try:
            return await future
        except asyncio.CancelledError:
            await self._end()
            raise
        except TimeoutError as error:
            await self._end()
            msg = f"SQLite did not answer in {seconds:g} s; the statement was interrupted, and whether it ran is unknown"
            raise ConnectionLostError(msg) from error
        except sqlite3.Error as error:
            raise mapped(error) from error
        except (OverflowError, UnicodeError) as error:
            raise mapped(sqlite3.DataError(str(error))) from error
        finally:
            timer.cancel()

    async def _end(self) -> None:
        """Interrupt work that nobody waits for any more, let it end, and undo what it left open. The thread takes one thing at a time."""
        if self._owned:
            self.broken = True
        _interrupt(self._raw)
        if not self._raw._running:
            return  # it is being closed, which rolls back
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._raw._tx.put_nowait((ended, partial(_roll_back, self._database) if self._owned else _nothing))
        await asyncio.wait({ended}, timeout=self._timeout)
        if ended.done() and ended.exception() is not None:
            log.debug("what an interrupted statement left open could not be rolled back: %r", ended.exception())


def _expire(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def _nothing() -> None:
    """What is queued behind a statement to learn that it ended."""


def _roll_back(database: sqlite3.Connection) -> None:
    if database.in_transaction:
        database.execute("ROLLBACK")


def _fetch(database: sqlite3.Connection, text: str, args: Sequence[Any]) -> list[Row]:
    # fetched to the end before anything else: an open cursor of a RETURNING holds the write lock
    return database.execute(text, args).fetchall()


def _execute(database: sqlite3.Connection, text: str, args: Sequence[Any]) -> int:
    cursor = database.execute(text, args)
    cursor.fetchall()
    return cursor.rowcount


def _script(database: sqlite3.Connection, text: str) -> None:
    database.executescript(text)


def _select_then_write(database: sqlite3.Connection, select: Query, write: Callable[[list[Row]], Sequence[Query]]) -> list[Row]:
    started = time.monotonic()
    database.execute("BEGIN IMMEDIATE")
    waited = time.monotonic() - started > WAITED_SECONDS
    try:
        rows = database.execute(select.text, _args(select)).fetchall()
        for query in write(rows):
            database.execute(query.text, _args(query)).fetchall()
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
    if waited and rows:
        # Somebody else wants the lock, and SQLite's waiters sleep between their tries: without a pause the same process takes it again.
        time.sleep(random.uniform(0.0, 0.0005))
    return rows


def _args(query: Query) -> Sequence[Any]:
    return query.args


def _prepare(database: sqlite3.Connection, text: str) -> None:
    numbered = [int(number) for number in re.findall(r"\?(\d+)", text)]
    database.execute(f"EXPLAIN {text}", [None] * (max(numbered) if numbered else text.count("?"))).fetchall()


class AiosqlitePool:
    """The one connection to a file, or to a database in memory, that all of a broker's statements share in turn."""

    overlaps = False
    keep_alive_seconds: float | None = None

    def __init__(self, url: DatabaseURL, *, size: int, acquire_timeout: float, command_timeout: float) -> None:
        self.size = size
        self._url = url
        self._acquire_timeout = acquire_timeout
        self._command_timeout = command_timeout
        self._gate = Gate(1, acquire_timeout)
        self._connection: AiosqliteConnection | None = None
        self._holders: dict[int, tuple[Use, str]] = {}
        self._open = False
        self._returned = asyncio.Event()
        self._process: ProcessKeys | None = None

    async def keep_alive(self, connection: Connection) -> None:
        """Nothing ends a session that is silent."""

    @property
    def in_use(self) -> int:
        return self._gate.in_use

    def others_wait(self, holder: str) -> bool:
        return self._gate.others_wait(holder)

    async def open(self) -> Server:
        if not self._open:
            self._gate = Gate(1, self._acquire_timeout)
            self._open = True
        try:
            async with self.connection(Use.STATEMENT, "start") as connection:
                ((version,),) = await connection.fetch("SELECT sqlite_version()")
        except BaseException:
            await self.close(0.0)
            raise
        numbers = tuple(int(part) for part in version.split("."))
        warnings: tuple[str, ...] = ()
        if self._url.database and numbers < FIXED_VERSION:
            warning = (
                f"SQLite {version} may damage a file in WAL mode that several processes write at once; this is mended in "
                f"{'.'.join(map(str, FIXED_VERSION))}. Update SQLite before more than one process works on {self._url.public_url()}"
            )
            warnings = (warning,)
        return Server("sqlite", numbers, version, warnings=warnings)

    @asynccontextmanager
    async def connection(self, use: Use, holder: str) -> AsyncIterator[Connection]:
        connection = await self.acquire(use, holder)
        try:
            yield connection
        finally:
            await self.release(connection)

    async def acquire(self, use: Use, holder: str) -> Connection:
        if not self._open:
            msg = "the pool is closed: the broker is not started, or was stopped"
            raise ClosedError(msg)
        use = Use.STATEMENT if use is Use.DELIVERY else use
        await self._gate.enter(use, holder)
        try:
            if self._connection is None:
                self._connection = await self._connect()
        except BaseException:
            self._gate.leave(use, holder)
            raise
        self._returned.clear()
        self._holders[id(self._connection)] = (use, holder)
        return self._connection

    async def release(self, connection: Connection) -> None:
        entered = self._holders.pop(id(connection), None)
        if entered is None:
            return
        try:
            if connection.broken or connection.in_transaction:
                await self._discard()
        finally:
            self._gate.leave(*entered)
            if not self._gate.in_use:
                self._returned.set()

    async def _connect(self) -> AiosqliteConnection:
        options = {name: value.reveal() if isinstance(value, Secret) else value for name, value in self._url.options.items()}
        busy = float(options.get("timeout") or BUSY_SECONDS)
        raw = aiosqlite.connect(
            self._url.database or ":memory:", timeout=min(busy, self._command_timeout), isolation_level=None, cached_statements=256
        )
        raw._thread.daemon = True  # aiosqlite's thread would keep a process alive that never got to close it
        failure: UnavailableError
        try:
            await _open(raw)
            connection = AiosqliteConnection(raw, self._command_timeout)
            await _set_up(connection, self._url, options)
        except asyncio.CancelledError:
            await _stop(raw)
            raise
        except Exception as error:
            await _stop(raw)
            failure = UnavailableError(f"cannot open {self._url.public_url()}: {self._url.redactor().clean(_reason(error, self._url))}")
        else:
            return connection
        with alone():
            raise failure

    async def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await _stop(connection.raw)

    async def close(self, timeout: float) -> None:
        self._open = False
        self._gate.close()
        if self._gate.in_use:
            try:
                await asyncio.wait_for(self._returned.wait(), timeout)
            except (TimeoutError, asyncio.TimeoutError):
                log.debug("the connection was not given back in time, and is closed in use")
        await self._discard()
        if self._process is not None:
            self._process.leave(self)
            self._process = None

    async def listener(self, heard: Callable[[str, str], None]) -> Listener | None:
        return None

    async def process_keys(self) -> set[object] | None:
        if self._process is None:
            self._process = ProcessKeys.of(self._url.database, self)
        return self._process.keys

    async def borrow(self, connection: object) -> Connection:
        return await borrowed(connection, self._command_timeout)


async def borrowed(connection: object, command_timeout: float) -> AiosqliteConnection:
    """A connection that a caller owns. Raises TypeError for what is none of SQLite."""
    raw = await unwrap(connection)
    if not isinstance(raw, aiosqlite.Connection):
        msg = (
            f"connection={type(connection).__name__} cannot carry a publish into SQLite: give an aiosqlite connection, or an "
            "AsyncConnection or AsyncSession of SQLAlchemy on sqlite+aiosqlite"
        )
        raise TypeError(msg)
    return AiosqliteConnection(raw, command_timeout, owned=False)


async def _open(raw: Any) -> None:
    """Start the thread and connect in it. By aiosqlite's own way, a connect that fails leaves a thread that nobody can wait for."""

    def connect() -> None:
        raw._connection = raw._connector()

    opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    raw._thread.start()
    raw._tx.put_nowait((opened, connect))
    await opened


def _interrupt(raw: Any) -> None:
    """Have the statement that runs end with an error. A wait for the write lock is not cut short by it."""
    try:
        if raw._connection is not None:
            raw._connection.interrupt()
    except sqlite3.Error as error:  # its thread closed it in this moment
        log.debug("there was nothing to interrupt: %r", error)


async def _stop(raw: Any) -> None:
    """Close a connection and end its thread, whatever state it is in; waits for a moment only."""
    _interrupt(raw)
    future = raw.stop()
    if future is not None:
        await asyncio.wait({future}, timeout=1.0)


async def _set_up(connection: AiosqliteConnection, url: DatabaseURL, options: dict[str, str]) -> None:
    """Per session: WAL for files, commits that are on the disk when they return, text that one bad row cannot spoil."""
    connection.raw.text_factory = decoded_text
    if url.database:
        await connection.fetch("PRAGMA journal_mode = WAL")
    synchronous = options.get("synchronous", "full").lower()
    if synchronous not in {"off", "normal", "full", "extra"}:
        msg = f"?synchronous={synchronous} cannot be: give off, normal, full or extra"
        raise ValueError(msg)
    await connection.fetch(f"PRAGMA synchronous = {synchronous}")


def decoded_text(value: bytes) -> str | bytes:
    """Text that one bad row cannot spoil: what is no UTF-8 comes as bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _reason(error: Exception, url: DatabaseURL) -> str:
    folder = Path(url.database or ".").parent
    if not folder.exists():
        return "its folder does not exist"
    return f"{type(error).__name__}: {error}"
