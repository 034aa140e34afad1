"""A pool of asyncpg's that the service owns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from faststream_sql.drivers.asyncpg import ROLLBACK_SECONDS, AsyncpgConnection, AsyncpgListener, borrowed, server_of
from faststream_sql.drivers.base import Connection, Listener, Server, Use
from faststream_sql.drivers.gate import Gate
from faststream_sql.errors import ClosedError, SQLBrokerError, UnavailableError

log = logging.getLogger("faststream_sql.drivers")


class ServicePool:
    """An `asyncpg.Pool` that the service owns: connections are borrowed from it, and it is never closed here."""

    overlaps = True

    def __init__(self, pool: Any, *, acquire_timeout: float) -> None:
        self.size: int = pool.get_max_size()
        self._pool = pool
        self._acquire_timeout = acquire_timeout
        self._gate = Gate(self.size, acquire_timeout)
        self._out: dict[AsyncpgConnection, Any] = {}
        self._open = False
        self._returning: set[asyncio.Future[None]] = set()

    @property
    def in_use(self) -> int:
        return self._gate.in_use

    async def open(self) -> Server:
        if not self._open:
            self._gate = Gate(self.size, self._acquire_timeout)
            self._open = True
        async with self.connection(Use.STATEMENT, "start") as connection:
            return await server_of(connection)

    @asynccontextmanager
    async def connection(self, use: Use, holder: str) -> AsyncIterator[Connection]:
        connection = await self.acquire(use, holder)
        try:
            yield connection
        finally:
            await self.release(connection)

    async def acquire(self, use: Use, holder: str) -> Connection:
        if not self._open:
            msg = "the broker is not started, or was stopped"
            raise ClosedError(msg)
        await self._gate.enter(use, holder)
        try:
            proxy = await self._borrow_from_service()
        except BaseException:
            self._gate.leave(use, holder)
            raise
        connection = AsyncpgConnection(proxy)
        connection.entered = (use, holder)
        self._out[connection] = proxy
        return connection

    async def _borrow_from_service(self) -> Any:
        failure: SQLBrokerError
        try:
            return await self._pool.acquire(timeout=self._acquire_timeout)
        except (TimeoutError, asyncio.TimeoutError):
            failure = UnavailableError(f"the service's pool of {self.size} gave no connection in {self._acquire_timeout:g} s")
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            failure = UnavailableError(f"the service's pool gave no connection: {type(error).__name__}")
        raise failure

    async def release(self, connection: Connection) -> None:
        if not isinstance(connection, AsyncpgConnection) or connection.entered is None:
            return
        entered, connection.entered = connection.entered, None
        proxy = self._out.pop(connection)
        try:
            if connection.broken or connection.in_transaction:
                connection.terminate()
            await self._pool.release(proxy, timeout=ROLLBACK_SECONDS)
        except Exception as error:
            log.debug("the service's pool took a connection back with %r", error)
        finally:
            self._gate.leave(*entered)

    async def close(self, timeout: float) -> None:
        self._open = False
        self._gate.close()
        for connection in list(self._out):
            connection.terminate()
            await self.release(connection)
        if self._returning:
            await asyncio.wait(set(self._returning), timeout=max(timeout, 0.1))

    async def listener(self, heard: Callable[[str, str], None]) -> Listener | None:
        connection = await self.acquire(Use.STATEMENT, "listening")  # one of the service's, for life

        def give_back() -> None:
            connection.broken = True
            task = asyncio.ensure_future(self.release(connection))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

        raw = connection.raw if isinstance(connection, AsyncpgConnection) else None
        return AsyncpgListener(raw, heard, give_back)

    async def process_keys(self) -> set[object] | None:
        return None

    async def borrow(self, connection: object) -> Connection:
        return await borrowed(connection)
