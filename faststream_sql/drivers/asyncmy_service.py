"""A pool of asyncmy's that the service owns."""

from __future__ import annotations

from typing import Any

from faststream_sql.drivers.asyncmy import AsyncmyConnection, borrowed, read_limits, server_of
from faststream_sql.drivers.asyncmy_connect import SQL_MODE
from faststream_sql.drivers.base import Connection, Server
from faststream_sql.drivers.service_pool import ServicePool, Sessions
from faststream_sql.errors import DeclarationError, SQLBrokerError

# asyncmy's pool resets nothing, and its sessions do not commit by themselves: what we need is set when one is borrowed, and set back.
_SET_UP = (
    "SET NAMES utf8mb4; "  # what the pool asked for; some servers do not heed it
    "SET @faststream_sql_autocommit = @@autocommit, @faststream_sql_mode = @@sql_mode, @faststream_sql_wait = @@innodb_lock_wait_timeout, "
    f"autocommit = 1, sql_mode = '{SQL_MODE}', innodb_lock_wait_timeout = 5"
)
_SET_BACK = "SET autocommit = @faststream_sql_autocommit, sql_mode = @faststream_sql_mode, innodb_lock_wait_timeout = @faststream_sql_wait"


class AsyncmySessions(Sessions[AsyncmyConnection]):
    """Sessions of asyncmy that belong to a service."""

    def __init__(self, command_timeout: float) -> None:
        self._command_timeout = command_timeout
        self._limits: tuple[int | None, int | None] | None = None

    async def session(self, raw: Any) -> AsyncmyConnection:
        if raw._charset != "utf8mb4":
            msg = f"the service's pool speaks {raw._charset}, in which not every text can be written: make it with charset='utf8mb4'"
            raise DeclarationError(msg)
        session = AsyncmyConnection(raw, self._command_timeout)
        await session.script(_SET_UP)
        if self._limits is None:
            await read_limits(session)
            self._limits = (session.id_step, session.most_bytes)
        session.id_step, session.most_bytes = self._limits
        return session

    async def set_back(self, session: AsyncmyConnection, *, sound: bool) -> bool:
        if sound:
            try:
                await session.script(_SET_BACK)
            except SQLBrokerError:
                sound = False
        if not sound:
            session.terminate()
        return sound

    async def recognise(self, session: AsyncmyConnection) -> Server:
        return await server_of(session)

    async def borrow(self, connection: object) -> Connection:
        return await borrowed(connection, self._command_timeout)


class AsyncmyServicePool(ServicePool[AsyncmyConnection]):
    """An asyncmy pool that the service owns."""

    def __init__(self, pool: Any, *, acquire_timeout: float, command_timeout: float) -> None:
        super().__init__(AsyncmySessions(command_timeout), size=pool.maxsize, acquire_timeout=acquire_timeout)
        self._pool = pool

    async def _borrow(self) -> object:
        return await self._pool.acquire()

    async def _raw(self, given: object) -> object:
        return given

    async def _hand_back(self, given: Any, *, sound: bool) -> None:
        if not sound:
            given.close()
        await self._pool.release(given)
