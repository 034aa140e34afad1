"""A session that its server ends while it lies in the pool is never given out, though the loop had no turn to hear of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import asyncpg
from sqlalchemy.ext.asyncio import create_async_engine

from faststream_sql.drivers import open_pool, service_pool
from faststream_sql.drivers.base import Pool, Use
from faststream_sql.drivers.url import parse_url
from tests.databases import MySQLDatabase, PostgresDatabase

SETTINGS = {"size": 3, "acquire_timeout": 5.0, "command_timeout": 10.0}


def outside(work: Callable[[], object]) -> None:
    """Do it in a thread, while this thread's loop stands still."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


async def outlive(pool: Pool, end_sessions: Callable[[], None]) -> None:
    await pool.open()
    held = [await pool.acquire(Use.STATEMENT, "test") for _ in range(3)]
    for connection in held:
        await connection.fetch("SELECT 1")
        await pool.release(connection)
    outside(end_sessions)
    for _ in range(3):
        async with pool.connection(Use.STATEMENT, "test") as connection:
            assert [tuple(row) for row in await connection.fetch("SELECT 1")] == [(1,)]
    await pool.close(1.0)


async def test_of_the_brokers_own_pool_on_postgres(postgres_url: str, postgres_database: PostgresDatabase) -> None:
    await outlive(open_pool(parse_url(postgres_url), **SETTINGS), lambda: ended(postgres_database))


async def test_of_a_services_pool_on_postgres(postgres_url: str, postgres_database: PostgresDatabase) -> None:
    async with asyncpg.create_pool(postgres_url, min_size=1, max_size=3) as pool:
        await outlive(service_pool(pool, **SETTINGS), lambda: ended(postgres_database))


async def test_of_an_engine_on_postgres(postgres_url: str, postgres_database: PostgresDatabase) -> None:
    engine = create_async_engine(postgres_url.replace("postgresql://", "postgresql+asyncpg://"))
    await outlive(service_pool(engine, **SETTINGS), lambda: ended(postgres_database))
    await engine.dispose()


async def test_of_the_brokers_own_pool_on_mysql(mysql_url: str, mysql_database: MySQLDatabase) -> None:
    await outlive(open_pool(parse_url(mysql_url), **SETTINGS), lambda: ended(mysql_database))


def ended(database: PostgresDatabase | MySQLDatabase) -> None:
    """End all sessions, and wait until the server has closed them."""
    database.end_sessions()
    assert database.leaks_after_grace() == []
