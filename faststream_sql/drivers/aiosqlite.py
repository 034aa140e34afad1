"""SQLite through aiosqlite.

One connection serves all: SQLite has one writer, and a second connection of the same process would only wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiosqlite

from faststream_sql.drivers.aiosqlite_connection import AiosqliteConnection, borrowed, decoded_text, interrupt
from faststream_sql.drivers.base import Connection, Listener, Server, Use
from faststream_sql.drivers.lending import GatedLending
from faststream_sql.drivers.process_keys import ProcessKeys
from faststream_sql.drivers.redaction import alone
from faststream_sql.drivers.url import DatabaseURL, Secret
from faststream_sql.errors import UnavailableError

BUSY_SECONDS = 5.0
"""How long a statement waits for another process's write lock, unless the URL says `?timeout=`."""
FIXED_VERSION = (3, 51, 3)
"""Earlier versions may damage a file in WAL mode that several connections write at once (sqlite.org/wal.html, "WAL-reset bug")."""


log = logging.getLogger("faststream_sql.drivers")


class AiosqlitePool(GatedLending):
    """The one connection to a file, or to a database in memory, that all of a broker's statements share in turn."""

    overlaps = False

    def __init__(self, url: DatabaseURL, *, size: int, acquire_timeout: float, command_timeout: float) -> None:
        super().__init__(size=size, places=1, acquire_timeout=acquire_timeout)
        self._url = url
        self._command_timeout = command_timeout
        self._connection: AiosqliteConnection | None = None
        self._holders: dict[int, tuple[Use, str]] = {}
        self._returned = asyncio.Event()
        self._process: ProcessKeys | None = None

    async def open(self) -> Server:
        self._open_gate()
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

    async def acquire(self, use: Use, holder: str) -> Connection:
        self._refuse_closed()
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
        self._close_gate()
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


async def _open(raw: Any) -> None:
    """Start the thread and connect in it. By aiosqlite's own way, a connect that fails leaves a thread that nobody can wait for."""

    def connect() -> None:
        raw._connection = raw._connector()

    opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    raw._thread.start()
    raw._tx.put_nowait((opened, connect))
    await opened


async def _stop(raw: Any) -> None:
    """Close a connection and end its thread, whatever state it is in; waits for a moment only."""
    interrupt(raw)
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


def _reason(error: Exception, url: DatabaseURL) -> str:
    folder = Path(url.database or ".").parent
    if not folder.exists():
        return "its folder does not exist"
    return f"{type(error).__name__}: {error}"
