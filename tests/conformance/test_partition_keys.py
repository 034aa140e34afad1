"""Partition keys: rows of one key run in order and one at a time among a subscription's workers, keys side by side."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

import pytest

from faststream_sql.engine import Ack, Delivery, Nack
from tests.conformance.bench import Bench, queue_table
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def bench(make_bench: MakeBench, pair: Pair) -> Bench:
    return await make_bench(queue_table(pair.form, partition_key="key"))


async def test_rows_of_a_key_run_in_order_one_at_a_time_and_keys_side_by_side(bench: Bench) -> None:
    working: set[object] = set()
    most = 0
    order: defaultdict[object, list[int]] = defaultdict(list)

    async def work(delivery: Delivery) -> None:
        nonlocal most
        key = delivery.partition_key
        assert key not in working, "two rows of a key at work"
        working.add(key)
        most = max(most, len(working))
        await asyncio.sleep(0.004 if most > 1 else 0.2)  # on a slow machine the second comes late
        working.discard(key)
        order[key].append(int(delivery.payload))  # type: ignore[call-overload]
        await delivery.settle(Nack() if delivery.attempt == 1 and delivery.payload in (b"4", b"9") else Ack())

    for n in range(40):
        await bench.publish(b"%d" % n, partition_key=f"k{n % 5}")
    await bench.subscribe(work, max_workers=4, prefetch=6)
    await bench.until_rows(lambda rows: rows == [])
    assert most > 1
    for key, seen in order.items():
        assert [n for n, before in zip(seen, [None, *seen], strict=False) if n != before] == sorted(set(seen)), key
    assert sum(len(set(seen)) for seen in order.values()) == 40


async def test_a_hot_key_in_front_does_not_keep_others_waiting(bench: Bench) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def work(delivery: Delivery) -> None:
        if delivery.payload == b"hot":
            entered.set()
            await leave.wait()
        await delivery.settle(Ack())

    await bench.publish(*[b"hot"] * 30, partition_key="hot")
    await bench.publish(b"cold", partition_key="cold")
    await bench.publish(b"none")
    await bench.subscribe(work, max_workers=3, prefetch=3)
    await entered.wait()
    await bench.until(lambda: {(b"cold", 1), (b"none", 1)} <= set(bench.seen))
    assert bench.seen.count((b"hot", 1)) == 1
    leave.set()
    await bench.until_rows(lambda rows: rows == [])
    assert len(bench.seen) == 32


async def test_a_delayed_retry_lets_the_next_row_of_its_key_pass(bench: Bench) -> None:
    async def put_off(delivery: Delivery) -> None:
        await delivery.settle(Nack(0.2) if delivery.payload == b"1" and delivery.attempt == 1 else Ack())

    await bench.publish(b"1", b"2", partition_key="k")
    await bench.subscribe(put_off, max_workers=2)
    await bench.until(lambda: len(bench.seen) == 3)
    assert [payload for payload, _ in bench.seen] == [b"1", b"2", b"1"]


async def test_rows_without_a_key_run_side_by_side(bench: Bench) -> None:
    both = asyncio.Barrier(2) if hasattr(asyncio, "Barrier") else None

    async def work(delivery: Delivery) -> None:
        if both is not None:
            await both.wait()
        await delivery.settle(Ack())

    await bench.publish(b"1", b"2")
    await bench.subscribe(work, max_workers=2)
    await bench.until_rows(lambda rows: rows == [])


@pytest.mark.forms("row_lock", "advisory")
@pytest.mark.databases("postgres", "mysql")
async def test_a_claim_that_waits_for_a_connection_keeps_no_other_waiting(make_bench: MakeBench, pair: Pair) -> None:
    """Claims take turns. The one whose turn it is must not wait for the connection that the next one has."""
    table = queue_table(pair.form, partition_key="key")
    bench = await make_bench(table, pool={"size": 2, "acquire_timeout": 60.0})

    async def slow(delivery: Delivery) -> None:
        await asyncio.sleep(0.1)  # meanwhile the other worker's claim comes to wait for this one's connection
        await delivery.settle(Ack())

    await bench.publish(b"1", partition_key="a")
    await bench.publish(b"2", partition_key="b")
    await bench.subscribe(slow, max_workers=2)
    await bench.until(lambda: len(bench.seen) == 2)
    assert sorted(payload for payload, _ in bench.seen) == [b"1", b"2"]
