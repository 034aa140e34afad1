"""A pool with room for one delivery: every subscription has its turn, and none waits for a connection that it keeps itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from faststream_sql.engine import Ack, Delivery
from tests.conformance.bench import Bench

MakeBench = Callable[..., Awaitable[Bench]]

pytestmark = [pytest.mark.forms("row_lock", "advisory"), pytest.mark.databases("postgres", "mysql")]


async def test_a_busy_subscription_does_not_keep_the_others_out(make_bench: MakeBench) -> None:
    """Its worker keeps its connection from one delivery to the next, and gives it back where somebody else waits."""
    bench = await make_bench(pool={"size": 2, "acquire_timeout": 30.0})

    async def busy(delivery: Delivery) -> None:
        if len(bench.deliveries) == 3:
            await bench.subscribe(group="other")
        await delivery.settle(Ack())

    await bench.publish(b"one", group="other")
    await bench.publish(*[b"%d" % n for n in range(60)])
    await bench.subscribe(busy)
    await bench.until_rows(lambda rows: rows == [])
    order = [str(delivery.group) for delivery in bench.deliveries]
    assert order.index("other") < 20, order
    assert bench.logged == []


async def test_a_connection_that_is_kept_serves_the_claim_that_waits_for_one(make_bench: MakeBench) -> None:
    bench = await make_bench(pool={"size": 2, "acquire_timeout": 60.0})

    async def slow(delivery: Delivery) -> None:
        await asyncio.sleep(0.05)  # the worker has more free slots, and asks for a connection meanwhile
        await delivery.settle(Ack())

    await bench.subscribe(slow, max_workers=4)
    for turn in range(1, 6):
        await bench.publish(b"one")
        await bench.until(lambda turn=turn: len(bench.seen) == turn)
        await bench.until_rows(lambda rows: rows == [])
    assert bench.logged == []
