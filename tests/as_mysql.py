"""MySQL's dialect where there is no MySQL: none of its statements is unknown to MariaDB."""

from __future__ import annotations

from faststream_sql.drivers.asyncmy import AsyncmyConnection, AsyncmyPool
from faststream_sql.drivers.base import Server


class AsMySQL(AsyncmyPool):
    """A pool on MariaDB that takes it for MySQL 8.0.30, which returns no ids from an INSERT."""

    async def _recognise(self, session: AsyncmyConnection) -> Server:
        server = await super()._recognise(session)
        return server._replace(product="mysql", version=(8, 0, 30), detail="8.0.30")
