"""A session that holds a row says something now and then, where its server ends those that are silent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from faststream_sql.drivers.base import Connection, Use
from faststream_sql.engine import Ack, Delivery
from faststream_sql.errors import LeaseLostError
from tests.conformance.bench import Bench
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]
pytestmark = [pytest.mark.databases("mysql"), pytest.mark.forms("row_lock", "advisory")]


@pytest.fixture
async def bench(make_bench: MakeBench) -> Bench:
    bench = await make_bench()
    assert bench.pool.keep_alive_seconds == 20.0
    bench.pool.keep_alive_seconds = 0.1
    return bench


def session_of(delivery: Delivery, pair: Pair) -> Connection:
    found: Connection = delivery.hold if pair.form == "row_lock" else delivery.hold.connection
    return found


async def test_a_handler_longer_than_the_servers_patience(bench: Bench, pair: Pair) -> None:
    async def long(delivery: Delivery) -> None:
        await session_of(delivery, pair).script("SET SESSION wait_timeout = 1")
        await asyncio.sleep(2.2)
        await delivery.settle(Ack())

    await bench.publish(b"one")
    await bench.subscribe(long)
    await bench.until_rows(lambda rows: rows == [])
    assert bench.seen == [(b"one", 1)]
    assert not bench.lost


async def test_a_session_that_ended_is_noticed_while_the_handler_runs(bench: Bench, pair: Pair) -> None:
    errors: list[Any] = []
    lost = asyncio.Event()

    async def work(delivery: Delivery) -> None:
        if errors:
            await delivery.settle(Ack())
            return
        ((number,),) = await session_of(delivery, pair).fetch("SELECT CONNECTION_ID()")
        async with bench.pool.connection(Use.STATEMENT, "test") as administrator:
            await administrator.script(f"KILL {number}")
        for _ in range(1000):
            if delivery.lease_lost:
                lost.set()
                break
            await asyncio.sleep(0.01)
        try:
            await delivery.settle(Ack())
        except LeaseLostError as error:
            errors.append(error)

    await bench.publish(b"one")
    await bench.subscribe(work)
    await asyncio.wait_for(lost.wait(), 20.0)
    await bench.until_rows(lambda rows: rows == [])
    assert len(errors) == 1
    assert len(bench.lost) == 1


async def test_a_settlement_may_come_while_the_session_says_something(bench: Bench) -> None:
    bench.pool.keep_alive_seconds = 0.001
    await bench.publish(*[b"%d" % n for n in range(100)])

    async def work(delivery: Delivery) -> None:
        await asyncio.sleep(0.002)
        await delivery.settle(Ack())

    await bench.subscribe(work, max_workers=4)
    await bench.until_rows(lambda rows: rows == [])
    assert len(bench.seen) == 100
    assert not bench.lost
