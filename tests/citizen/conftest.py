"""Where a service of these tests runs: in memory under `TestSQLBroker`, on a SQLite file, and on Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from faststream_sql import SQLBroker
from faststream_sql.testing import TestSQLBroker

SECONDS = 20.0


class Place:
    """Makes brokers, runs them, and publishes as a caller does that never looks at what a handler raises."""

    def __init__(self, url: str | None) -> None:
        self.url = url

    @property
    def in_memory(self) -> bool:
        return self.url is None

    def broker(self, **options: Any) -> SQLBroker:
        where = () if self.url is None else (self.url,)
        return SQLBroker(*where, **{"logger": None, "poll_interval": 0.2, **options})

    @asynccontextmanager
    async def running(self, *brokers: SQLBroker) -> AsyncIterator[SQLBroker]:
        async with AsyncExitStack() as stack:
            if self.in_memory:
                await stack.enter_async_context(TestSQLBroker(*brokers))
            for broker in brokers:
                await stack.enter_async_context(broker)
                await broker.create_tables()
                await broker.start()
            yield brokers[0]

    async def until(self, *things: Awaitable[Any]) -> None:
        """Run publishes beside the events that they lead to, until all of them are there."""
        tasks = [asyncio.ensure_future(thing) for thing in things]
        done, pending = await asyncio.wait(tasks, timeout=SECONDS)
        for task in pending:
            task.cancel()
        assert not pending, "what was waited for never came"
        for task in done:
            task.exception()  # an error of a handler comes out of a publish in memory


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest) -> Place:
    return Place(None if request.param == "memory" else request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def queue() -> str:
    return str(uuid4())
