"""FIFO groups: one row of a group in work at a time, in claim order, whoever reads it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from faststream_sql.engine import Ack, Delivery, Nack
from faststream_sql.errors import LeaseLostError
from tests.conformance.bench import Bench, queue_table
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]


pytestmark = [pytest.mark.forms("lease", "row_lock"), pytest.mark.databases("memory", "sqlite", "postgres")]


@pytest.fixture
async def bench(make_bench: MakeBench, pair: Pair) -> Bench:
    return await make_bench(queue_table(pair.form, fifo=True))


async def test_rows_of_a_group_run_one_at_a_time_in_order(bench: Bench) -> None:
    running, most = 0, 0

    async def count(delivery: Delivery) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        await delivery.settle(Ack())

    await bench.publish(*[b"%d" % n for n in range(30)])
    for _ in range(3):  # as three processes would read it
        await bench.subscribe(count, max_workers=4, prefetch=8)
    await bench.until(lambda: len(bench.seen) == 30)
    await bench.until_rows(lambda rows: rows == [])
    assert [int(payload) for payload, _ in bench.seen] == list(range(30))
    assert most == 1


async def test_a_nacked_head_stays_the_head(bench: Bench) -> None:
    async def twice(delivery: Delivery) -> None:
        await delivery.settle(Nack() if delivery.payload == b"1" and delivery.attempt == 1 else Ack())

    await bench.publish(b"1", b"2")
    await bench.subscribe(twice)
    await bench.subscribe(twice)
    await bench.until(lambda: len(bench.seen) == 3)
    assert [payload for payload, _ in bench.seen] == [b"1", b"1", b"2"]


async def test_a_delay_that_was_asked_for_lets_others_pass(bench: Bench) -> None:
    async def put_off(delivery: Delivery) -> None:
        await delivery.settle(Nack(0.15) if delivery.payload == b"1" and delivery.attempt == 1 else Ack())

    await bench.publish(b"1", b"2")
    await bench.subscribe(put_off)
    await bench.until(lambda: len(bench.seen) == 3)
    assert [payload for payload, _ in bench.seen] == [b"1", b"2", b"1"]


async def test_after_an_error_the_head_keeps_its_place(bench: Bench) -> None:
    async def fail_once(delivery: Delivery) -> None:
        if delivery.payload == b"1" and delivery.attempt == 1:
            raise ValueError("broken")
        await delivery.settle(Ack())

    await bench.publish(b"1", b"2")
    await bench.subscribe(fail_once, backoff=0.2)
    await bench.until(lambda: len(bench.seen) == 3)
    assert bench.seen == [(b"1", 1), (b"1", 2), (b"2", 1)]


async def test_a_head_that_is_not_due_holds_the_group(bench: Bench) -> None:
    await bench.publish(b"2", delay_seconds=0.0)
    await bench.publish(b"1", priority=-1, delay_seconds=3600)
    await bench.subscribe()
    for _ in range(4):
        await asyncio.sleep(0.05)
    assert bench.seen == []


async def test_other_groups_flow_past_a_head_that_waits(bench: Bench) -> None:
    await bench.publish(b"blocked", group="slow", delay_seconds=3600)
    await bench.publish(b"free", group="jobs")
    await bench.subscribe(group="slow")
    await bench.subscribe(group="jobs")
    await bench.until(lambda: bench.seen == [(b"free", 1)])


async def test_a_row_that_arrives_in_front_waits_for_the_one_in_work(bench: Bench) -> None:
    """A smaller priority arrives while the head works: two rows of a group are never in work together."""
    running, most = 0, 0
    arrived = asyncio.Event()

    async def slow(delivery: Delivery) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if delivery.payload == b"head":
            await bench.publish(b"in front", priority=-5)
            arrived.set()
            await asyncio.sleep(0.3)
        running -= 1
        await delivery.settle(Ack())

    await bench.publish(b"head")
    await bench.subscribe(slow)
    await bench.subscribe(slow)
    await bench.until(lambda: len(bench.seen) == 2)
    assert [payload for payload, _ in bench.seen] == [b"head", b"in front"]
    assert most == 1


async def test_order_holds_through_failures_of_many_readers(bench: Bench) -> None:
    dice = random.Random(7)
    groups = [f"g{n}" for n in range(6)]
    finished: dict[str, list[int]] = {group: [] for group in groups}
    working: set[str] = set()

    async def work(delivery: Delivery) -> None:
        group = delivery.group or ""
        assert group not in working, "two rows of a group in work"
        working.add(group)
        await asyncio.sleep(0.001)
        working.discard(group)
        answer = dice.random()
        if answer < 0.2:
            await delivery.settle(Nack())
        elif answer < 0.3:
            raise ValueError("broken")
        else:
            finished[group].append(int(delivery.payload))  # type: ignore[call-overload]
            await delivery.settle(Ack())

    for group in groups:
        await bench.publish(*[b"%d" % n for n in range(15)], group=group)
    for group in groups:
        for _ in range(2):
            await bench.subscribe(work, group=group, backoff=0.01)
    await bench.until_rows(lambda rows: rows == [])
    assert finished == {group: list(range(15)) for group in groups}


@pytest.mark.forms("lease")
async def test_a_head_that_came_back_late_lets_nobody_past(make_bench: MakeBench) -> None:
    """Its lease ended and somebody else has it: its own settlement is void, and the next row waits for the other's."""
    bench = await make_bench(queue_table("lease", fifo=True))
    entered, leave, void = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(delivery: Delivery) -> None:
        turn = len(bench.deliveries)
        if turn == 1:
            entered.set()
            await leave.wait()
        elif turn == 2:
            leave.set()
            await void.wait()
        try:
            await delivery.settle(Ack())
        except LeaseLostError:
            void.set()

    await bench.publish(b"1", b"2", b"3")
    await bench.subscribe(work, lease=3600)
    await entered.wait()
    ended = (
        bench.engine.dialect.recommended_types(bench.table).times["locked_until"].encode(bench.engine.clock.now() - timedelta(seconds=1))
    )
    await bench.sql(f"UPDATE jobs SET locked_until = '{ended}' WHERE locked_until IS NOT NULL")
    await bench.subscribe(work, lease=3600)
    await bench.until_rows(lambda rows: rows == [])
    assert void.is_set()
    assert [payload for payload, _ in bench.seen] == [b"1", b"1", b"2", b"3"]
