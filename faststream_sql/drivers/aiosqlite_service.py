"""Connections of aiosqlite that belong to a service's engine."""

from __future__ import annotations

from typing import Any

from faststream_sql.drivers.aiosqlite_connection import AiosqliteConnection, borrowed, decoded_text
from faststream_sql.drivers.base import Connection, Server
from faststream_sql.drivers.process_keys import ProcessKeys
from faststream_sql.drivers.service_pool import Sessions


class AiosqliteSessions(Sessions[AiosqliteConnection]):
    """Sessions of aiosqlite that belong to a service. One statement at a time: there is one writer to a file.

    The file's mode (`journal_mode`, `synchronous`) stays as the service chose it.
    """

    overlaps = False

    def __init__(self, path: str | None, command_timeout: float) -> None:
        self._path = path
        self._command_timeout = command_timeout
        self._process: ProcessKeys | None = None
        self._was: dict[int, tuple[Any, Any]] = {}  # by the identity of the session

    async def session(self, raw: Any) -> AiosqliteConnection:
        session = AiosqliteConnection(raw, self._command_timeout)
        was = (raw.isolation_level, raw.text_factory)
        await session.configure(None, decoded_text)  # no transaction but our own: the standard library opens one before each write
        self._was[id(session)] = was
        return session

    async def set_back(self, session: AiosqliteConnection, *, sound: bool) -> bool:
        was = self._was.pop(id(session))
        if sound:
            await session.configure(*was)
        return sound

    async def recognise(self, session: AiosqliteConnection) -> Server:
        ((version,),) = await session.fetch("SELECT sqlite_version()")
        return Server("sqlite", tuple(int(part) for part in version.split(".")), version)

    async def borrow(self, connection: object) -> Connection:
        return await borrowed(connection, self._command_timeout)

    async def process_keys(self) -> set[object] | None:
        if self._process is None:
            self._process = ProcessKeys.of(self._path, self)
        return self._process.keys

    def close(self) -> None:
        if self._process is not None:
            self._process.leave(self)
            self._process = None
