"""Health checks tell a dead worker, a dead pool and a broker that is not there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx2
import pytest
from faststream.asgi import AsgiFastStream, make_ping_asgi

from faststream_sql import SQLBroker


@asynccontextmanager
async def checked(broker: SQLBroker) -> AsyncIterator[httpx2.AsyncClient]:
    app = AsgiFastStream(broker, asgi_routes=[("/health", make_ping_asgi(broker, timeout=5.0))])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://test") as client:
        yield client


async def health(client: httpx2.AsyncClient) -> int:
    return (await client.get("/health")).status_code


def made(where: object) -> SQLBroker:
    broker = SQLBroker(where, logger=None)

    @broker.subscriber("jobs", max_workers=2)
    async def handle(body: str) -> None: ...

    return broker


async def test_before_the_start_and_after_the_stop(sqlite_url: str) -> None:
    broker = made(sqlite_url)
    async with checked(broker) as client:
        assert await health(client) == 500
        await broker.create_tables()
        await broker.start()
        assert await health(client) == 204
        await broker.stop()
        assert await health(client) == 500


async def test_a_dead_worker(sqlite_url: str) -> None:
    broker = made(sqlite_url)
    await broker.create_tables()
    await broker.start()
    async with checked(broker) as client:
        assert await health(client) == 204
        workers = broker.subscribers[0].subscription._workers  # type: ignore[attr-defined]
        task = next(iter(workers._tasks.values()))
        task.cancel()
        with pytest.raises(BaseException):  # noqa: B017, PT011, PT012 - however it ends
            await task
            raise InterruptedError
        assert await health(client) == 500
    await broker.stop()


async def test_a_dead_pool(postgres_url: str) -> None:
    pool = await asyncpg.create_pool(postgres_url, min_size=1, max_size=4)
    broker = made(pool)
    await broker.create_tables()
    await broker.start()
    async with checked(broker) as client:
        assert await health(client) == 204
        pool.terminate()
        assert await health(client) == 500
    await broker.stop()


async def test_a_subscriber_that_was_stopped_on_purpose_is_no_illness(sqlite_url: str) -> None:
    broker = made(sqlite_url)
    await broker.create_tables()
    await broker.start()
    await broker.subscribers[0].stop()
    assert await broker.ping()
    await broker.stop()
