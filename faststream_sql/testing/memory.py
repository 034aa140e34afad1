"""A driver on the standard library's `sqlite3`, in memory and without threads: every statement has run when its call returns."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from faststream_sql.drivers.base import Connection, Listener, Query, Row, Server, Use
from faststream_sql.errors import ClosedError, DatabaseError, DataError, StatementError, TransientError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts


class MemoryConnection:
    """The one session of a `MemoryPool`."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.broken = False
        self._database = database

    @property
    def in_transaction(self) -> bool:
        return self._database.in_transaction

    async def fetch(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> list[Row]:
        return self._run(text, args)

    async def execute(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> int:
        try:
            return self._database.execute(text, args).rowcount
        except sqlite3.Error as error:
            raise mapped(error) from error

    async def script(self, text: str, *, timeout: float | None = None) -> None:
        try:
            self._database.executescript(text)
        except sqlite3.Error as error:
            raise mapped(error) from error

    async def select_then_write(
        self, select: Query, write: Callable[[list[Row]], Sequence[Query]], *, timeout: float | None = None
    ) -> list[Row]:
        self._run("BEGIN IMMEDIATE")
        try:
            rows = self._run(*select)
            for text, args in write(rows):
                self._run(text, args)
        except BaseException:
            self._database.rollback()
            raise
        self._database.commit()
        return rows

    async def begin(self, isolation: str | None = None) -> None:
        self._run("BEGIN IMMEDIATE")

    async def commit(self) -> None:
        self._database.commit()

    async def rollback(self) -> None:
        self._database.rollback()

    async def prepare(self, text: str) -> None:
        try:
            self._database.execute(f"EXPLAIN {text}", [None] * _values_of(text)).fetchall()
        except sqlite3.Error as error:
            raise mapped(error) from error

    async def columns(self, table: str, schema: str | None) -> list[ColumnFacts]:
        rows = self._run('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?)', (table,))
        return [ColumnFacts(name, kind.lower(), not notnull and not pk, default) for name, kind, notnull, default, pk in rows]

    async def indexes(self, table: str, schema: str | None) -> list[IndexFacts]:
        names = [row[0] for row in self._run("SELECT name FROM pragma_index_list(?)", (table,))]
        return [
            IndexFacts(name, tuple(row[0] or "" for row in self._run("SELECT name FROM pragma_index_info(?)", (name,)))) for name in names
        ]

    def _run(self, text: str, args: Sequence[object] = ()) -> list[Row]:
        try:
            return self._database.execute(text, args).fetchall()
        except sqlite3.Error as error:
            raise mapped(error) from error


class MemoryPool:
    """A pool of one session on a database that lives as long as the pool is open."""

    overlaps = False
    size = 10

    def __init__(self) -> None:
        self._connection: MemoryConnection | None = None
        self._keys: set[object] = set()
        self._database: sqlite3.Connection | None = None

    async def open(self) -> Server:
        if self._database is None:
            self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._connection = MemoryConnection(self._database)
        return Server("sqlite", sqlite3.sqlite_version_info, sqlite3.sqlite_version)

    async def close(self, timeout: float) -> None:
        if self._database is not None:
            self._database.close()
            self._database = self._connection = None

    @asynccontextmanager
    async def connection(self, use: Use, holder: str) -> AsyncIterator[Connection]:
        yield await self.acquire(use, holder)

    async def acquire(self, use: Use, holder: str) -> Connection:
        if self._connection is None:
            msg = "the test broker is closed"
            raise ClosedError(msg)
        return self._connection

    async def release(self, connection: Connection) -> None:
        """Nothing to give back: the session is shared."""

    async def listener(self, heard: Callable[[str, str], None]) -> Listener | None:
        return None

    async def process_keys(self) -> set[object] | None:
        return self._keys

    async def borrow(self, connection: object) -> Connection:
        return await self.acquire(Use.STATEMENT, "publish")


def mapped(error: sqlite3.Error) -> DatabaseError:
    """The class of our own that an error of `sqlite3` means."""
    text = str(error)
    if isinstance(error, (sqlite3.IntegrityError, sqlite3.DataError)):
        return DataError(text)
    if "locked" in text or "busy" in text:
        return TransientError(text)
    return StatementError(text)


def _values_of(text: str) -> int:
    numbered = [int(part) for part in re.findall(r"\?(\d+)", text)]
    return max(numbered) if numbered else text.count("?")
