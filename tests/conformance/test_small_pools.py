"""Several subscriptions in a pool with room for one delivery: each has its turn."""

from __future__ import annotations

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
