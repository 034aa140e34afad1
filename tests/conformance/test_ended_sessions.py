"""Sessions that an administrator ends, idle ones and ones in use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from faststream_sql.engine import Ack, Delivery
from faststream_sql.errors import LeaseLostError, SQLBrokerError
from tests.conformance.bench import PATIENCE_SECONDS, Bench
from tests.conformance.conftest import Pair
from tests.databases import Database

EndAll = Callable[[], Awaitable[None]]

pytestmark = pytest.mark.databases("postgres", "mysql")


@pytest.fixture
def end_all(pair: Pair, request: pytest.FixtureRequest) -> EndAll:
    """End every session of ours; returns when our end has seen it."""
    database: Database = request.getfixturevalue(f"{pair.database}_database")

    async def end() -> None:
        await asyncio.to_thread(database.end_sessions)
        for _ in range(10):
            await asyncio.sleep(0.001)

    return end


async def test_idle_sessions_that_are_ended_cost_nothing(bench: Bench, end_all: EndAll) -> None:
    await bench.subscribe(max_workers=2)
    for turn in range(1, 4):
        await bench.publish(b"one")
        await bench.until(lambda turn=turn: len(bench.seen) == turn)
        await bench.until_rows(lambda rows: rows == [])
        await end_all()
    assert bench.seen == [(b"one", 1)] * 3


async def test_sessions_in_use_that_are_ended(bench: Bench, end_all: EndAll) -> None:
    """A lease is kept in the row, and does not mind. A lock ends with its session: the delivery is told, and its row is run again."""
    entered, leave = asyncio.Event(), asyncio.Event()
    errors: list[Exception] = []

    async def first_hangs(delivery: Delivery) -> None:
        if len(bench.deliveries) == 1:
            entered.set()
            await leave.wait()
        try:
            await delivery.settle(Ack())
        except SQLBrokerError as error:
            errors.append(error)

    await bench.publish(b"one")
    await bench.subscribe(first_hangs, max_workers=2)
    await asyncio.wait_for(entered.wait(), PATIENCE_SECONDS)
    await end_all()
    if bench.table.form == "lease":
        leave.set()
        await bench.until_rows(lambda rows: rows == [])
        assert (bench.seen, errors) == ([(b"one", 1)], [])
        return
    await bench.until(lambda: len(bench.deliveries) == 2)
    await bench.until_rows(lambda rows: rows == [])
    leave.set()
    await bench.until(lambda: bool(errors))
    assert [type(error) for error in errors] == [LeaseLostError]
    assert bench.lost == [bench.deliveries[0]]
    assert bench.seen == [(b"one", 1), (b"one", 1 if bench.table.form == "row_lock" else 2)]
