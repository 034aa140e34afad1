"""Databases for tests on a running server: made, looked into for leaks, emptied and dropped from synchronous fixtures.

The administrator's connection lives on an event loop of its own, which runs only inside these methods.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import asyncmy
import asyncpg

T = TypeVar("T")

APPLICATION_NAME = "faststream_sql"
GRACE_SECONDS = 2.0
STATEMENT_SECONDS = 20.0


class Database:
    """One database with a name that no other run uses. `url` leads into it."""

    def __init__(self, server_url: str) -> None:
        self.name = f"fs_test_{secrets.token_hex(6)}"
        self.server_url = server_url
        self.url = urlsplit(server_url)._replace(path=f"/{self.name}").geturl()
        self._loop = asyncio.new_event_loop()

    def create(self) -> None:
        raise NotImplementedError

    def leaks(self) -> list[str]:
        """Sessions and locks of the product in this database, now."""
        raise NotImplementedError

    def end_sessions(self) -> None:
        raise NotImplementedError

    def empty(self) -> None:
        """The database as it was made: whatever a test put there is gone. Ends all other sessions first."""
        raise NotImplementedError

    def drop(self) -> None:
        raise NotImplementedError

    def leaks_after_grace(self) -> list[str]:
        """A server sees the end of a session a moment after its client: this waits for it."""
        deadline = time.monotonic() + GRACE_SECONDS
        while leaks := self.leaks():
            if time.monotonic() > deadline:
                return leaks
            time.sleep(0.02)
        return []

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, STATEMENT_SECONDS))


class PostgresDatabase(Database):
    _connection: asyncpg.Connection

    def create(self) -> None:
        self._do(self._on_server(f"CREATE DATABASE {self.name} TEMPLATE template0"))
        self._connection = self._do(self._connect(self.url))

    def leaks(self) -> list[str]:
        sessions = self._do(
            self._connection.fetch(
                "SELECT pid, state, query FROM pg_stat_activity WHERE datname = $1 AND application_name = $2", self.name, APPLICATION_NAME
            )
        )
        locks = self._do(
            self._connection.fetch(
                "SELECT DISTINCT l.pid, l.locktype, l.mode, a.query FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)"
                " WHERE l.database = (SELECT oid FROM pg_database WHERE datname = $1) AND l.pid <> pg_backend_pid()"
                " AND (a.backend_type IS NULL OR a.backend_type = 'client backend')",
                self.name,
            )
        )
        return [
            *(f"session {row['pid']} is {row['state']}, its last statement: {row['query']}" for row in sessions),
            *(f"session {row['pid']} holds {row['locktype']} {row['mode']}, its last statement: {row['query']}" for row in locks),
        ]

    def end_sessions(self) -> None:
        """End all sessions but the administrator's; returns when they are gone."""
        end = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{self.name}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        deadline = time.monotonic() + GRACE_SECONDS
        while self._do(self._connection.fetch(end)) and time.monotonic() < deadline:
            time.sleep(0.002)

    def empty(self) -> None:
        self.end_sessions()
        query = "SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
        schemas = self._do(self._connection.fetch(query))
        drops = ";".join(f"DROP SCHEMA {schema} CASCADE" for (schema,) in schemas)
        self._do(self._connection.execute(f"{drops};CREATE SCHEMA public"))

    def drop(self) -> None:
        self.end_sessions()
        self._do(self._connection.close())
        self._do(self._on_server(f"DROP DATABASE IF EXISTS {self.name}"))
        self._loop.close()

    async def _connect(self, url: str) -> asyncpg.Connection:
        settings = {"application_name": f"{APPLICATION_NAME}_tests", "client_min_messages": "warning"}
        return await asyncpg.connect(url, server_settings=settings, timeout=10)

    async def _on_server(self, statement: str) -> None:
        connection = await self._connect(self.server_url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


class MySQLDatabase(Database):
    _connection: asyncmy.connection.Connection

    def create(self) -> None:
        at = urlsplit(self.server_url)
        user, password = unquote(at.username or "root"), unquote(at.password or "")
        connect = asyncmy.connect(host=at.hostname, port=at.port or 3306, user=user, password=password, autocommit=True, connect_timeout=10)
        self._connection = self._do(connect)
        self._fetch(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")

    def leaks(self) -> list[str]:
        rows = self._fetch("SELECT id, command, info FROM information_schema.processlist WHERE db = %s AND command <> 'Killed'", self.name)
        return [f"session {number} is at {command}: {info}" for number, command, info in rows]

    def end_sessions(self) -> None:
        for (number,) in self._fetch("SELECT id FROM information_schema.processlist WHERE db = %s", self.name):
            try:
                self._fetch(f"KILL {number}")
            except asyncmy.errors.OperationalError as error:
                if error.args[0] != 1094:  # unknown thread: it has ended meanwhile
                    raise

    def empty(self) -> None:
        self.end_sessions()
        self._fetch(f"DROP DATABASE {self.name}")
        self._fetch(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")

    def drop(self) -> None:
        self.end_sessions()
        self._fetch(f"DROP DATABASE IF EXISTS {self.name}")
        self._do(self._connection.ensure_closed())
        self._loop.close()

    def _fetch(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        async def run() -> list[tuple[Any, ...]]:
            async with self._connection.cursor() as cursor:
                await cursor.execute(statement, values or None)
                return list(await cursor.fetchall())

        return self._do(run())
