"""Processes under test, and a broker of the test's own beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from faststream_sql import SQLBroker
from faststream_sql.drivers.base import Use
from tests.processes.process import PATIENCE_SECONDS, Processes
from tests.processes.tables import described


class Queue:
    """The table, looked at from the test's process."""

    def __init__(self, broker: SQLBroker) -> None:
        self._broker = broker

    async def publish(self, count: int) -> list[int]:
        return await self.publish_all([b"x"] * count)

    async def publish_all(self, payloads: list[bytes], group: str = "jobs") -> list[int]:
        return list(await self._broker.publish_batch(*payloads, queue=group))

    async def rows(self) -> list[tuple[Any, ...]]:
        """Id, group, attempt of every row."""
        async with self._broker.engine.pool.connection(Use.STATEMENT, "test") as connection:
            return [tuple(row) for row in await connection.fetch("SELECT id, name, attempt FROM jobs ORDER BY id")]

    async def sql(self, text: str) -> list[tuple[Any, ...]]:
        async with self._broker.engine.pool.connection(Use.STATEMENT, "test") as connection:
            return [tuple(row) for row in await connection.fetch(text)]

    async def until_empty(self, patience: float = PATIENCE_SECONDS) -> None:
        deadline = asyncio.get_running_loop().time() + patience
        while left := await self.sql("SELECT count(*) FROM jobs HAVING count(*) > 0"):
            assert asyncio.get_running_loop().time() < deadline, f"{left} rows were left after {patience} s"
            await asyncio.sleep(0.02)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    yield started
    started.close()


class Queues:
    """Opens the table at a URL, in a form."""

    def __init__(self) -> None:
        self._brokers: list[SQLBroker] = []

    async def open(self, url: str, form: str, *, fifo: bool = False) -> Queue:
        broker = SQLBroker(url, table=described(form, fifo=fifo), logger=None)
        self._brokers.append(broker)
        await broker.create_tables()
        return Queue(broker)

    async def close(self) -> None:
        for broker in self._brokers:
            await broker.stop()


@pytest.fixture
async def queues(processes: Processes) -> AsyncIterator[Queues]:
    opened = Queues()
    yield opened
    processes.close()
    await opened.close()


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """Of the database that the test is given by its parameter."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found
