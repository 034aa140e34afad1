"""A claim, a settlement and a publish are cancelled at every place where they wait. Afterwards the pool works, no session is left in a
transaction or with a lock, and the row is where a row may be.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from faststream_sql.drivers.base import Use
from faststream_sql.engine import Ack, Delivery, Nack, Outcome, SubscriptionOptions
from faststream_sql.engine.forms.base import Form
from faststream_sql.errors import SQLBrokerError
from tests.cancellation import Moment, cancelled_at
from tests.conformance.bench import PATIENCE_SECONDS, Bench

MOMENTS: tuple[Moment, ...] = ("waiting", "woken")
MOST_PLACES = 60

pytestmark = pytest.mark.databases("sqlite", "postgres")

MakeBench = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def bench(make_bench: MakeBench) -> AsyncIterator[Bench]:
    opened = await make_bench(pool={"size": 4, "command_timeout": 5.0})
    yield opened
    assert opened.pool._gate.in_use == 0, opened.pool._gate.holders()


async def form_of(bench: Bench) -> Form:
    async def nobody(delivery: Delivery) -> None:
        raise AssertionError

    subscription = bench.engine.subscription(name="jobs", table=bench.table, options=SubscriptionOptions(), deliver=nobody)
    bench.subscriptions.append(subscription)
    return await subscription.open()


async def eventually(check: Callable[[], Awaitable[Any]], what: str) -> None:
    """A server sees the end of a session, and a settlement its commit, a moment later."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS / 4
    while not await check():
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0.002)


async def assert_clean(bench: Bench, place: str) -> None:
    """The pool works, and nobody but us is in a transaction or holds a lock."""
    async with bench.pool.connection(Use.STATEMENT, "test") as connection:
        assert not connection.in_transaction, place
        assert [tuple(row) for row in await connection.fetch("SELECT 42")] == [(42,)], place
    if bench.engine.dialect.product != "postgresql":
        return

    async def nothing_left() -> bool:
        async with bench.pool.connection(Use.STATEMENT, "test") as connection:
            rows = await connection.fetch(
                "SELECT 1 FROM pg_stat_activity a WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND application_name = 'faststream_sql' AND (state <> 'idle' OR EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid))"
            )
        return not rows

    await eventually(nothing_left, f"{place}: a session is in a transaction or holds a lock")
    async with bench.pool.connection(Use.STATEMENT, "test") as connection:
        ((sessions,),) = await connection.fetch(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'faststream_sql'"
        )
    assert sessions <= bench.pool.size, place


async def drained(bench: Bench, form: Form, place: str) -> None:
    """The row, wherever it is, can still be handled to its end."""
    if bench.table.form == "lease":
        await bench.sql("UPDATE jobs SET locked_until = NULL")  # a claim that was cut off leaves a lease that ends by itself

    async def gone() -> bool:
        for delivery in await form.claim(1):
            assert delivery.attempt in {1, 2}, place
            await delivery.settle(Ack())
        return not await bench.rows()

    await eventually(gone, f"{place}: the row cannot be claimed")
    await form.rest()


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_claim(bench: Bench, moment: Moment) -> None:
    form = await form_of(bench)
    for place in range(1, MOST_PLACES):
        await bench.publish(b"one")
        reached, found = await cancelled_at(form.claim(1), place, moment)
        if isinstance(found, list):
            await form.release(found)
        else:
            assert isinstance(found, (asyncio.CancelledError, SQLBrokerError)), found
        await form.rest()
        await assert_clean(bench, f"place {place}")
        (row,) = await bench.rows()
        assert row["attempt"] in {1, 2}
        await drained(bench, form, f"place {place}")
        if not reached:
            return
    raise AssertionError("there is no end to its places")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("outcome", [Ack(), Nack(0.0)], ids=["ack", "nack"])
async def test_a_settlement(bench: Bench, outcome: Outcome, moment: Moment) -> None:
    form = await form_of(bench)
    for place in range(1, MOST_PLACES):
        await bench.publish(b"one")
        (delivery,) = await form.claim(1)
        reached, found = await cancelled_at(delivery.settle(outcome), place, moment)
        assert found is None or isinstance(found, (asyncio.CancelledError, SQLBrokerError)), found
        await form.rest()

        async def settled() -> bool:
            rows = await bench.rows()
            return bench.table.form != "lease" or not rows or rows[0]["locked_until"] is None

        await eventually(settled, f"place {place}: the settlement was taken back")
        await assert_clean(bench, f"place {place}")
        assert [row["attempt"] for row in await bench.rows()] in ([], [1], [2])
        await drained(bench, form, f"place {place}")
        if not reached:
            return
    raise AssertionError("there is no end to its places")


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_release(bench: Bench, moment: Moment) -> None:
    form = await form_of(bench)
    for place in range(1, MOST_PLACES):
        await bench.publish(b"one")
        claimed = await form.claim(1)
        reached, found = await cancelled_at(form.release(claimed), place, moment)
        assert found is None or isinstance(found, asyncio.CancelledError), found
        await form.rest()
        await assert_clean(bench, f"place {place}")
        await drained(bench, form, f"place {place}")
        if not reached:
            return
    raise AssertionError("there is no end to its places")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.forms("lease")
async def test_a_renewal(bench: Bench, moment: Moment) -> None:
    form = await form_of(bench)
    for place in range(1, MOST_PLACES):
        await bench.publish(b"one")
        (delivery,) = await form.claim(1)
        reached, found = await cancelled_at(form.renew(), place, moment)
        assert found is None or isinstance(found, (asyncio.CancelledError, SQLBrokerError)), found
        await assert_clean(bench, f"place {place}")
        await form.renew()  # whether the one before took effect is unknown: this one finds out
        assert not delivery.lease_lost, f"place {place}"
        await delivery.settle(Ack())
        assert await bench.rows() == [], f"place {place}"
        if not reached:
            return
    raise AssertionError("there is no end to its places")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.forms("lease")
async def test_a_publish(bench: Bench, count: int, moment: Moment) -> None:
    for place in range(1, MOST_PLACES):
        reached, found = await cancelled_at(bench.publish(*[b"one"] * count), place, moment)
        assert isinstance(found, (list, asyncio.CancelledError, SQLBrokerError)), found
        await assert_clean(bench, f"place {place}")
        rows = len(await bench.rows())
        assert rows == count if isinstance(found, list) else rows in {0, count}, "all of them, or none"
        await bench.sql("DELETE FROM jobs")
        if not reached:
            return
    raise AssertionError("there is no end to its places")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before Python 3.11 a task does not tell that it is being cancelled")
async def test_whoever_cancels_every_task_ends_the_workers(bench: Bench) -> None:
    """As `asyncio.run` does when its coroutine fails: a worker that took it for its handler's own would run on, and the process with it."""
    entered = asyncio.Event()

    async def stuck(delivery: Delivery) -> None:
        entered.set()
        await asyncio.Event().wait()

    await bench.publish(b"one")
    before = asyncio.all_tasks()
    subscription = await bench.subscribe(stuck)
    await entered.wait()
    started = asyncio.all_tasks() - before
    for task in started:
        task.cancel()
    done, running = await asyncio.wait(started, timeout=PATIENCE_SECONDS)
    assert not running
    assert all(task.cancelled() for task in done)
    assert not subscription.alive
    (row,) = await bench.rows()
    assert row["attempt"] == 1, "given back, with its attempt"
    assert row.get("locked_until") is None
    await subscription.stop(1.0)


async def test_a_handler_that_raises_a_cancellation_is_tried_again(bench: Bench) -> None:
    async def once(delivery: Delivery) -> None:
        if len(bench.seen) == 1:
            raise asyncio.CancelledError
        await delivery.settle(Ack())

    await bench.publish(b"one")
    subscription = await bench.subscribe(once, backoff=None)
    await bench.until_rows(lambda rows: rows == [])
    assert [payload for payload, _ in bench.seen] == [b"one", b"one"]
    assert subscription.alive
    await subscription.stop(1.0)
