"""A driver on the standard library's `sqlite3`, in memory and without threads: every statement has run when its call returns.

It serves all forms. A session that holds rows under row locks (`Use.DELIVERY`) has its transaction in name only: what it writes is
committed at once, since it writes when the handler has ended, and the rows that it has locked stand in a register that its claims read.
So a handler may keep a row while others publish, settle and claim on the one session of SQLite.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from faststream_sql.drivers.base import Connection, Listener, Query, Row, Server, Use
from faststream_sql.drivers.lending import Lending
from faststream_sql.errors import ClosedError, DatabaseError, DataError, StatementError, TransientError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts
from faststream_sql.testing.dialect import COMMIT_AND_BEGIN, PRODUCT

_only: ContextVar[object] = ContextVar("only", default=None)


@contextmanager
def only(key: object) -> Iterator[None]:
    """Claims find no row but the one with this id, for the span of a `with`."""
    token = _only.set(key)
    try:
        yield
    finally:
        _only.reset(token)


class MemoryConnection:
    """The session of a `MemoryPool`, or one of those that hold rows under row locks."""

    def __init__(self, pool: MemoryPool, database: sqlite3.Connection, *, in_name: bool = False) -> None:
        self.broken = False
        self._pool = pool
        self._database = database
        self._in_name = in_name
        self._open = False

    @property
    def in_transaction(self) -> bool:
        return self._open if self._in_name else self._database.in_transaction

    async def fetch(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> list[Row]:
        return self._run(text, args)

    async def execute(self, text: str, args: Sequence[object] = (), *, timeout: float | None = None) -> int:
        try:
            return self._database.execute(text, args).rowcount
        except sqlite3.Error as error:
            raise mapped(error) from error

    async def script(self, text: str, *, timeout: float | None = None) -> None:
        if text == COMMIT_AND_BEGIN:
            await self.commit()
            await self.begin()
            return
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
        if self._in_name:
            self._open = True
        else:
            self._run("BEGIN IMMEDIATE")

    async def commit(self) -> None:
        self._end()
        self._database.commit()

    async def rollback(self) -> None:
        self._end()
        if not self._in_name:
            self._database.rollback()

    def _end(self) -> None:
        self._open = False
        self._pool.locks.let_go(self)

    async def prepare(self, text: str) -> None:
        self._run(f"EXPLAIN {text}", [None] * _values_of(text))

    async def columns(self, table: str, schema: str | None) -> list[ColumnFacts]:
        text = 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?, ?)'
        rows = self._run(text, (table, schema or "main"))
        return [ColumnFacts(name, kind.lower(), not notnull and not pk, default) for name, kind, notnull, default, pk in rows]

    async def indexes(self, table: str, schema: str | None) -> list[IndexFacts]:
        where = schema or "main"
        names = [row[0] for row in self._run("SELECT name FROM pragma_index_list(?, ?)", (table, where))]
        columns = "SELECT name FROM pragma_index_info(?, ?)"
        return [IndexFacts(name, tuple(row[0] or "" for row in self._run(columns, (name, where)))) for name in names]

    def _run(self, text: str, args: Sequence[object] = ()) -> list[Row]:
        self._pool.locks.session = self
        try:
            return self._database.execute(text, args).fetchall()
        except sqlite3.Error as error:
            raise mapped(error) from error


class Locks:
    """Which session holds which row. Asked by the statements themselves, as the SQL functions `row_free` and `row_lock`."""

    def __init__(self) -> None:
        self.session: MemoryConnection | None = None
        """Whose statement runs."""
        self._held: dict[tuple[str, object], MemoryConnection] = {}

    def free(self, table: str, key: object) -> bool:
        return self._held.get((table, key), self.session) is self.session

    def lock(self, table: str, key: object) -> bool:
        if not self.free(table, key):
            return False
        if self.session is not None and self.session.in_transaction:  # alone, a statement's locks end with it
            self._held[table, key] = self.session
        return True

    def let_go(self, session: MemoryConnection) -> None:
        for row in [row for row, holder in self._held.items() if holder is session]:
            del self._held[row]


class MemoryPool(Lending):
    """A pool on a database that lives as long as it is open."""

    overlaps = False
    size = 10

    def __init__(self) -> None:
        self.locks = Locks()
        self._connection: MemoryConnection | None = None
        self._keys: set[object] = set()
        self._database: sqlite3.Connection | None = None

    @property
    def in_use(self) -> int:
        """Nothing is counted: there is one connection, and nobody waits for it."""
        return 0

    def others_wait(self, holder: str) -> bool:
        return False

    async def open(self) -> Server:
        if self._database is None:
            database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            database.create_function("row_wanted", 1, lambda key: _only.get() is None or _only.get() == key)
            database.create_function("row_free", 2, self.locks.free)
            database.create_function("row_lock", 2, self.locks.lock)
            self._database, self._connection = database, MemoryConnection(self, database)
        return Server(PRODUCT, sqlite3.sqlite_version_info, sqlite3.sqlite_version)

    async def attach(self, schema: str) -> None:
        """Make a schema, where it is missing."""
        connection = await self.acquire(Use.STATEMENT, "schema")
        known = {row[0] for row in await connection.fetch("SELECT name FROM pragma_database_list")}
        if schema not in known:
            await connection.fetch("ATTACH ':memory:' AS ?1", [schema])

    async def close(self, timeout: float) -> None:
        if self._database is not None:
            self._database.close()
            self._database = self._connection = None

    async def acquire(self, use: Use, holder: str) -> Connection:
        if self._connection is None or self._database is None:
            msg = "the test broker is closed"
            raise ClosedError(msg)
        return MemoryConnection(self, self._database, in_name=True) if use is Use.DELIVERY else self._connection

    async def release(self, connection: Connection) -> None:
        """A session that held rows lets them go; the shared one is given back to nobody."""
        if isinstance(connection, MemoryConnection):
            self.locks.let_go(connection)

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
