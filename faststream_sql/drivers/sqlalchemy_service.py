"""An engine of SQLAlchemy that the service owns, on asyncpg, asyncmy or aiosqlite."""

from __future__ import annotations

from typing import Any

from sqlalchemy.pool import StaticPool

from faststream_sql.drivers.base import Pool
from faststream_sql.drivers.service_pool import S, ServicePool
from faststream_sql.errors import DeclarationError


class EnginePool(ServicePool[S]):
    """Borrows connections of an `AsyncEngine`, which stays as it is."""

    def __init__(self, engine: Any, sessions: Any, *, size: int, acquire_timeout: float) -> None:
        super().__init__(sessions, size=size, acquire_timeout=acquire_timeout)
        self._engine = engine

    async def _borrow(self) -> object:
        return await self._engine.connect()

    async def _raw(self, given: Any) -> object:
        raw = await given.get_raw_connection()
        connection: object = raw.driver_connection
        return connection

    async def _hand_back(self, given: Any, *, sound: bool) -> None:
        if not sound:
            await given.invalidate()
        await given.close()


def engine_pool(engine: Any, *, size: int, acquire_timeout: float, command_timeout: float) -> Pool:
    """A pool around an `AsyncEngine`. `size` counts where the engine's pool has no bound of its own.

    Raises DeclarationError for an engine that cannot serve: a synchronous one, one on another driver, one whose connection is shared.
    """
    if not hasattr(engine, "sync_engine"):
        msg = f"a {type(engine).__name__} of SQLAlchemy is synchronous: give an AsyncEngine (sqlalchemy.ext.asyncio.create_async_engine)"
        raise DeclarationError(msg)
    if isinstance(engine.pool, StaticPool):
        msg = "the engine shares one connection among all, whose transactions would mix with the broker's: give a URL instead"
        raise DeclarationError(msg)
    sessions: Any
    match engine.dialect.driver:
        case "asyncpg":
            from faststream_sql.drivers.asyncpg_service import AsyncpgSessions

            sessions = AsyncpgSessions(command_timeout)
        case "asyncmy":
            from faststream_sql.drivers.asyncmy_service import AsyncmySessions

            sessions = AsyncmySessions(command_timeout)
        case "aiosqlite":
            from faststream_sql.drivers.aiosqlite_service import AiosqliteSessions

            sessions = AiosqliteSessions(engine.url.database, command_timeout)
        case other:
            msg = f"an engine on {other} cannot serve: postgresql+asyncpg, mysql+asyncmy and sqlite+aiosqlite can"
            raise DeclarationError(msg)
    return EnginePool(engine, sessions, size=size_of(engine.pool, size), acquire_timeout=acquire_timeout)


def size_of(pool: Any, default: int) -> int:
    """How many connections an engine's pool opens at most; `default` where it says no number."""
    size, overflow = getattr(pool, "size", None), getattr(pool, "_max_overflow", -1)
    return default if size is None or overflow < 0 else int(size()) + int(overflow)
