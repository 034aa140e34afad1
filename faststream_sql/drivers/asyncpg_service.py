"""A pool of asyncpg's that the service owns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from faststream_sql.drivers.asyncpg import AsyncpgConnection, AsyncpgListener, borrowed, server_of
from faststream_sql.drivers.base import Connection, Listener, Server
from faststream_sql.drivers.service_pool import RETURN_SECONDS, ServicePool, Sessions
from faststream_sql.errors import ConnectionLostError


class AsyncpgSessions(Sessions[AsyncpgConnection]):
    """Sessions of asyncpg that belong to a service. They need nothing: every statement leaves its session as it found it."""

    def __init__(self, command_timeout: float) -> None:
        self._command_timeout = command_timeout

    async def session(self, raw: Any) -> AsyncpgConnection:
        session = AsyncpgConnection(raw, self._command_timeout)
        if session.is_closed():
            msg = "the session ended while it lay in the pool"
            raise ConnectionLostError(msg)
        return session

    async def set_back(self, session: AsyncpgConnection, *, sound: bool) -> bool:
        if not sound:
            session.terminate()
        return sound

    async def recognise(self, session: AsyncpgConnection) -> Server:
        return await server_of(session)

    async def borrow(self, connection: object) -> Connection:
        return await borrowed(connection)

    def listen(self, session: AsyncpgConnection, heard: Callable[[str, str], None], give_back: Callable[[], None]) -> Listener | None:
        return AsyncpgListener(session.raw, heard, give_back)


class AsyncpgServicePool(ServicePool[AsyncpgConnection]):
    """An `asyncpg.Pool` that the service owns."""

    def __init__(self, pool: Any, *, acquire_timeout: float, command_timeout: float) -> None:
        super().__init__(AsyncpgSessions(command_timeout), size=pool.get_max_size(), acquire_timeout=acquire_timeout)
        self._pool = pool

    async def _borrow(self) -> object:
        return await self._pool.acquire()

    async def _raw(self, given: object) -> object:
        return given

    async def _hand_back(self, given: Any, *, sound: bool) -> None:
        await self._pool.release(given, timeout=RETURN_SECONDS)  # it looks itself whether the connection is closed
