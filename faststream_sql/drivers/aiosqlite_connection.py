"""One connection of aiosqlite.

Every operation runs to its end in aiosqlite's thread, also when its waiter is cancelled: a `BEGIN IMMEDIATE` that nobody waits for would
hold the write lock.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import aiosqlite

from faststream_sql.drivers.base import Query, Row
from faststream_sql.drivers.sqlalchemy import unwrap
from faststream_sql.drivers.sqlite_errors import mapped
from faststream_sql.errors import ConnectionLostError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts

T = TypeVar("T")

WAITED_SECONDS = 0.002
"""A write that took longer than this had to wait for the lock."""

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
        interrupt(self._raw)
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


def interrupt(raw: Any) -> None:
    """Have the statement that runs end with an error. A wait for the write lock is not cut short by it."""
    try:
        if raw._connection is not None:
            raw._connection.interrupt()
    except sqlite3.Error as error:  # its thread closed it in this moment
        log.debug("there was nothing to interrupt: %r", error)


def decoded_text(value: bytes) -> str | bytes:
    """Text that one bad row cannot spoil: what is no UTF-8 comes as bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


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
