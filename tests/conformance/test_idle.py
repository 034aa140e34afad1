"""An idle subscription costs the database one statement a poll, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from faststream_sql.drivers.base import Use
from tests.conformance.bench import Bench
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]
POLL_SECONDS = 0.05
POLLS = 10

pytestmark = pytest.mark.databases("sqlite", "postgres", "mysql")


class Count:
    """Counts the statements of both sessions of a pool of two, as their server or their library tells."""

    def __init__(self, bench: Bench, database: str) -> None:
        self._bench = bench
        self._database = database
        self._heard = 0

    async def start(self) -> None:
        async with self._sessions() as sessions:
            for raw in {id(session.raw): session.raw for session in sessions}.values():
                if self._database == "postgres":
                    raw.add_query_logger(self._hear)
                elif self._database == "sqlite":
                    await raw.set_trace_callback(self._hear)

    async def total(self) -> int:
        if self._database != "mysql":
            return self._heard
        async with self._sessions() as sessions:
            asked = [await session.fetch("SHOW SESSION STATUS LIKE 'Questions'") for session in sessions]
        return sum(int(rows[0][1]) for rows in asked) - 1  # of the two that asked, one more since the last time

    @asynccontextmanager
    async def _sessions(self) -> AsyncIterator[list[Any]]:
        pool = self._bench.pool
        async with pool.connection(Use.STATEMENT, "test") as first:
            if not pool.overlaps:
                yield [first]
                return
            async with pool.connection(Use.STATEMENT, "test") as second:
                yield [first, second]

    def _hear(self, _: object) -> None:
        self._heard += 1


async def test_one_statement_a_poll(make_bench: MakeBench, pair: Pair) -> None:
    bench = await make_bench(pool={"size": 2})
    await bench.publish(b"one")
    await bench.subscribe(poll_interval=POLL_SECONDS, max_workers=4)
    await bench.until(lambda: bench.seen == [(b"one", 1)])
    await bench.until_rows(lambda rows: rows == [])
    count = Count(bench, pair.database)
    await count.start()
    await asyncio.sleep(2 * POLL_SECONDS)  # the claims that the row set off are over
    loop = asyncio.get_running_loop()
    before, started = await count.total(), loop.time()
    await asyncio.sleep(POLLS * POLL_SECONDS)
    polls = (loop.time() - started) / POLL_SECONDS
    took = await count.total() - before
    assert 1 <= took <= polls + 2, f"{took} statements in {polls:.1f} polls"
