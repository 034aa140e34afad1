"""Which rows are claimed, in which order, and how often a subscription asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from faststream_sql.engine import Ack, Delivery, Nack
from tests.conformance.bench import PATIENCE_SECONDS, Bench, queue_table
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]


async def test_rows_are_claimed_by_priority_then_time_then_id(bench: Bench) -> None:
    await bench.publish(b"4", priority=2)
    await bench.publish(b"2", priority=1)
    await bench.publish(b"3", priority=1)
    await bench.publish(b"1", priority=0)
    await bench.publish(b"later", priority=-9, delay_seconds=3600)
    await bench.subscribe()
    await bench.until(lambda: len(bench.seen) == 4)
    assert [payload for payload, _ in bench.seen] == [b"1", b"2", b"3", b"4"]
    await bench.until_rows(lambda rows: [bytes(row["payload"]) for row in rows] == [b"later"])


async def test_more_than_64_priorities_keep_their_order(bench: Bench) -> None:
    priorities = [n * 7 % 100 for n in range(100)]
    for priority in priorities:
        await bench.publish(b"%d" % priority, priority=priority)
    await bench.subscribe()
    await bench.until(lambda: len(bench.seen) == 100)
    assert [int(payload) for payload, _ in bench.seen] == sorted(priorities)


async def test_a_group_is_read_alone(bench: Bench) -> None:
    await bench.publish(b"other", group="other")
    await bench.publish(b"mine")
    await bench.subscribe()
    await bench.until(lambda: len(bench.seen) == 1)
    assert [row["group"] for row in await bench.rows()] == ["other"]


async def test_a_publish_wakes_the_subscription_at_once(bench: Bench) -> None:
    await bench.subscribe(poll_interval=3600)
    await asyncio.sleep(0.05)  # it has looked once, and waits
    await bench.publish(b"one")
    await bench.until(lambda: bench.seen == [(b"one", 1)])


async def test_a_delayed_publish_runs_when_due_and_not_at_the_next_poll(bench: Bench) -> None:
    await bench.subscribe(poll_interval=3600)
    await asyncio.sleep(0.05)
    await bench.publish(b"soon", delay_seconds=0.2)
    await bench.until(lambda: bench.seen == [(b"soon", 1)])


async def test_workers_run_side_by_side_up_to_their_number(bench: Bench) -> None:
    running, most = 0, 0
    all_four = asyncio.Event()

    async def count(delivery: Delivery) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 4:
            all_four.set()
        await asyncio.wait_for(all_four.wait(), PATIENCE_SECONDS)
        await asyncio.sleep(0.01)
        running -= 1
        await delivery.settle(Ack())

    await bench.publish(*[b"%d" % n for n in range(12)])
    await bench.subscribe(count, max_workers=4)
    await bench.until(lambda: len(bench.seen) == 12 and running == 0)
    assert most == 4
    await bench.until_rows(lambda rows: rows == [])


async def test_two_subscriptions_of_one_group_handle_each_row_once(bench: Bench) -> None:
    await bench.publish(*[b"%d" % n for n in range(300)])
    await bench.subscribe(max_workers=4)
    await bench.subscribe(max_workers=4)
    await bench.until(lambda: len(bench.seen) >= 300)
    await bench.until_rows(lambda rows: rows == [])
    assert sorted(int(payload) for payload, _ in bench.seen) == list(range(300))


async def test_a_table_without_groups_is_read_whole(make_bench: MakeBench, pair: Pair) -> None:
    bench = await make_bench(queue_table(pair.form, group=None))
    await bench.publish(b"one")
    await bench.subscribe(group="anything")
    await bench.until(lambda: bench.seen == [(b"one", 1)])
    await bench.until_rows(lambda rows: rows == [])


async def test_a_table_with_nothing_but_an_id_and_a_payload(make_bench: MakeBench, pair: Pair) -> None:
    bare = queue_table(pair.form, group=None, priority=None, retry_after=None, attempt=None, headers=None)
    bench = await make_bench(bare)
    await bench.publish(b"one", b"two")
    await bench.subscribe()
    await bench.until(lambda: len(bench.seen) == 2)
    assert bench.seen == [(b"one", None), (b"two", None)]
    await bench.until_rows(lambda rows: rows == [])


async def test_processed_rows_are_kept_and_never_claimed(make_bench: MakeBench, pair: Pair) -> None:
    bench = await make_bench(queue_table(pair.form, processed_at="processed_at"))
    await bench.publish(b"one", b"two")
    await bench.subscribe()
    rows = await bench.until_rows(lambda rows: all(row["processed_at"] for row in rows))
    for row in rows:
        age = bench.engine.clock.now() - bench.moment("processed_at", row["processed_at"])
        assert timedelta(0) <= age < timedelta(minutes=1)
    await bench.publish(b"three")
    await bench.until(lambda: len(bench.seen) == 3)
    assert [payload for payload, _ in bench.seen] == [b"one", b"two", b"three"]


async def test_plain_columns_travel_with_the_row(make_bench: MakeBench, pair: Pair) -> None:
    bench = await make_bench(queue_table(pair.form, columns=("account",)))
    rows: list[object] = []

    async def look(delivery: Delivery) -> None:
        rows.append(delivery.row["account"])
        await delivery.settle(Ack())

    await bench.subscribe(look)
    await bench.publish(b"one", columns={"account": "seven"})
    await bench.until(lambda: len(bench.seen) == 1)
    assert rows == ["seven"]


@pytest.mark.databases("memory", "sqlite", "postgres")
async def test_a_dead_letter_of_a_table_without_groups_moves_to_another_table(make_bench: MakeBench, pair: Pair) -> None:
    odd = "odd :now {id}"  # like the marks of a template
    table = queue_table(pair.form, group=None, columns=(odd,), payload="a :body {x} --? id")
    bench = await make_bench(table)
    dead = replace(table, name="jobs_dead")
    await bench.engine.create_tables([dead])

    async def fail(delivery: Delivery) -> None:
        await delivery.settle(Nack())

    (row_id,) = await bench.publish(b"one", columns={odd: "seven"})
    await bench.subscribe(fail, max_attempts=2, dead_letter="jobs_dead")
    await bench.until(lambda: len(bench.seen) == 2)
    await bench.until_rows(lambda rows: rows == [])
    (row,) = await bench.rows(dead)
    assert (row["id"], row["attempt"], bytes(row["payload"]), row[odd]) == (row_id, 2, b"one", "seven")
    assert row.get("locked_until") is None


@pytest.mark.databases("postgres")
async def test_an_id_that_is_always_generated(make_bench: MakeBench, pair: Pair) -> None:
    """`GENERATED ALWAYS AS IDENTITY`: no statement may write the id, not even with what it is."""
    bench = await make_bench(queue_table(pair.form))
    await bench.sql("ALTER TABLE jobs ALTER COLUMN id SET GENERATED ALWAYS")

    async def fail(delivery: Delivery) -> None:
        await delivery.settle(Nack())

    await bench.publish(b"one", b"two")
    await bench.subscribe(fail, max_attempts=2, dead_letter="jobs.dead")
    await bench.until_rows(lambda rows: [row["group"] for row in rows] == ["jobs.dead", "jobs.dead"])
    await bench.subscribe(group="jobs.dead")
    await bench.until_rows(lambda rows: rows == [])
