"""Counting, the engine's counters, and work on dead letters, in every form on every database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from faststream_sql.engine import Ack, DeadLetter, Delivery, Nack, NewRow, Reject
from faststream_sql.engine.operations import DeadLetters, Depth, depths
from tests.conformance.bench import Bench, queue_table
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]


class Held:
    """A handler that keeps its row in work until it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def __call__(self, delivery: Delivery) -> None:
        await self.let_go.wait()
        await delivery.settle(Ack())


def says(pair: Pair) -> bool:
    """Whether a row says that it is in work."""
    return pair.form == "lease"


async def every(steps: AsyncIterator[int]) -> list[int]:
    return [step async for step in steps]


def dead_letters(bench: Bench, group: str = "jobs.dead", queue: str = "jobs") -> DeadLetters:
    return DeadLetters(bench.engine, bench.table, group, bench.table, queue)


async def test_an_empty_table_has_no_groups(bench: Bench) -> None:
    assert await depths(bench.engine, bench.table) == {}


async def test_groups_are_counted_apart(bench: Bench, pair: Pair) -> None:
    await bench.publish(b"one", b"two")
    await bench.publish(b"later", delay_seconds=3600.0)
    await bench.publish(b"other", group="Jobs")
    found = await depths(bench.engine, bench.table)
    in_work = 0 if says(pair) else None
    assert {group: replace(depth, oldest_ready_seconds=None) for group, depth in found.items()} == {
        "jobs": Depth(ready=2, delayed=1, in_work=in_work),
        "Jobs": Depth(ready=1, delayed=0, in_work=in_work),
    }
    assert all(0 <= (depth.oldest_ready_seconds or 0) < 60 for depth in found.values())
    assert found["jobs"].total == 3


async def test_a_row_in_work_is_told_apart_where_it_says_so(bench: Bench, pair: Pair) -> None:
    held = Held()
    await bench.publish(b"one", b"two")
    await bench.subscribe(held, prefetch=0)
    await bench.until_rows(lambda _: bool(bench.deliveries))
    depth = (await depths(bench.engine, bench.table))["jobs"]
    held.let_go.set()
    assert (depth.ready, depth.in_work) == ((1, 1) if says(pair) else (2, None))
    await bench.until_rows(lambda rows: rows == [])


async def test_a_table_without_groups_and_times(make_bench: MakeBench, pair: Pair) -> None:
    bench = await make_bench(queue_table(pair.form, group=None, retry_after=None, priority=None))
    assert await depths(bench.engine, bench.table) == {None: Depth(in_work=0 if says(pair) else None)}
    await bench.publish(b"one")
    assert await depths(bench.engine, bench.table) == {None: Depth(ready=1, in_work=0 if says(pair) else None)}


async def test_finished_rows_are_not_counted(make_bench: MakeBench, pair: Pair) -> None:
    bench = await make_bench(queue_table(pair.form, processed_at="processed_at"))
    await bench.publish(b"one")
    await bench.subscribe()
    await bench.until_rows(lambda rows: rows[0]["processed_at"] is not None)
    assert await depths(bench.engine, bench.table) == {}


async def test_the_engine_counts_what_it_does(bench: Bench) -> None:
    async def answer(delivery: Delivery) -> None:
        outcomes = {b"ack": Ack(), b"reject": Reject(), b"nack": Nack(), b"last": Nack(), b"dead": DeadLetter()}
        outcome = Ack() if delivery.attempt == 2 and delivery.payload == b"nack" else outcomes[bytes(delivery.payload)]
        await delivery.settle(outcome)

    await bench.publish(b"ack", b"reject", b"nack", b"last", b"dead")
    subscription = await bench.subscribe(answer, max_attempts=2, dead_letter="jobs.dead")
    await bench.until_rows(lambda rows: [row["group"] for row in rows] == ["jobs.dead"] * 2)
    await subscription.stop(5.0)  # a settlement counts when it returns, a moment after its commit
    counters = bench.engine.counters.of(bench.table, "jobs")
    assert counters.settlements == {"ack": 2, "reject": 1, "nack": 2, "dead_letter": 2, "release": 0}
    assert (counters.claimed, counters.lost, counters.unknown) == (7, 0, 0)
    assert [(table, group) for table, group, _ in bench.engine.counters] == [(bench.table, "jobs")]


async def test_what_a_stop_gives_back_is_counted(bench: Bench) -> None:
    held = Held()
    await bench.publish(b"one")
    subscription = await bench.subscribe(held)
    await bench.until_rows(lambda _: bool(bench.deliveries))
    await subscription.stop(None)
    counters = bench.engine.counters.of(bench.table, "jobs")
    assert (counters.claimed, counters.released) == (1, 1)


async def test_dead_letters_are_listed_and_shown(bench: Bench, pair: Pair) -> None:
    first, second = await bench.publish(b"one", b"three", group="jobs.dead")
    await bench.publish(b"alive")
    dead = dead_letters(bench)
    assert await dead.count() == 2
    rows = await dead.rows(10)
    assert [(row.row_id, row.attempt, row.payload_bytes) for row in rows] == [(first, 1, 3), (second, 1, 5)]
    assert [row.in_work for row in rows] == [False if says(pair) else None] * 2
    assert [row.row_id for row in await dead.rows(1)] == [first]
    shown = await dead.row(str(first))
    assert shown is not None
    assert (bytes(shown["payload"]), shown["group"]) == (b"one", "jobs.dead")
    assert await dead.row("999999") is None


async def test_dead_letters_go_back_with_a_first_attempt(bench: Bench) -> None:
    await bench.publish(*[b"%d" % n for n in range(5)])

    async def give_up(delivery: Delivery) -> None:
        await delivery.settle(DeadLetter())

    subscription = await bench.subscribe(give_up, max_attempts=3, dead_letter="jobs.dead")
    await bench.until_rows(lambda rows: all(row["group"] == "jobs.dead" for row in rows))
    await subscription.stop(1.0)
    await bench.sql("UPDATE jobs SET attempt = 3")
    assert await every(dead_letters(bench).requeue(2)) == [2]
    assert sorted((row["group"], row["attempt"]) for row in await bench.rows()) == [("jobs", 1)] * 2 + [("jobs.dead", 3)] * 3
    assert await every(dead_letters(bench).requeue(None)) == [3]
    assert {(row["group"], row["attempt"], row.get("locked_until")) for row in await bench.rows()} == {("jobs", 1, None)}


async def leaves_alone_what_is_in_work(bench: Bench) -> None:
    held = Held()
    await bench.publish(b"in work", group="jobs.dead")
    await bench.subscribe(held, group="jobs.dead", prefetch=0)
    await bench.until_rows(lambda _: bool(bench.deliveries))
    await bench.publish(b"free", b"free", group="jobs.dead")
    assert await every(dead_letters(bench).purge(1)) == [1]
    assert await every(dead_letters(bench).requeue(None)) == [1]
    assert [row["group"] for row in await bench.rows()] == ["jobs.dead", "jobs"]
    held.let_go.set()
    await bench.until_rows(lambda rows: [row["group"] for row in rows] == ["jobs"])
    assert bench.lost == []


@pytest.mark.forms("lease")
async def test_a_dead_letter_under_a_lease_is_left_alone(bench: Bench) -> None:
    await leaves_alone_what_is_in_work(bench)


@pytest.mark.forms("row_lock")
@pytest.mark.databases("postgres", "mysql")  # the test client's row locks are its own, and nobody operates on them
async def test_a_dead_letter_under_a_row_lock_is_left_alone(bench: Bench) -> None:
    await leaves_alone_what_is_in_work(bench)


@pytest.mark.forms("advisory")
async def test_a_dead_letter_under_an_advisory_lock_is_left_alone(bench: Bench) -> None:
    await leaves_alone_what_is_in_work(bench)


async def test_dead_letters_are_deleted(bench: Bench) -> None:
    await bench.publish(b"one", b"two", b"three", group="jobs.dead")
    await bench.publish(b"alive")
    assert await every(dead_letters(bench).purge(2)) == [2]
    assert await every(dead_letters(bench).purge(None)) == [1]
    assert [row["group"] for row in await bench.rows()] == ["jobs"]


@pytest.mark.databases("memory", "sqlite", "postgres")
async def test_dead_letters_in_a_table_of_their_own(make_bench: MakeBench, pair: Pair) -> None:
    home = queue_table(pair.form, group=None, columns=("account",))
    bench = await make_bench(home)
    dead_table = replace(home, name="jobs_dead")
    await bench.engine.create_tables([dead_table])
    ids = await bench.publish(b"one", b"two", columns={"account": "7"})

    async def give_up(delivery: Delivery) -> None:
        await delivery.settle(DeadLetter())

    subscription = await bench.subscribe(give_up, max_attempts=3, dead_letter=dead_table)
    await bench.until_rows(lambda rows: rows == [])
    await subscription.stop(1.0)
    await bench.sql("UPDATE jobs_dead SET attempt = 3")
    dead = DeadLetters(bench.engine, dead_table, None, home, "jobs")
    assert [row.row_id for row in await dead.rows(10)] == ids
    assert await every(dead.requeue(None)) == [2]
    rows = await bench.rows()
    assert [(row["id"], bytes(row["payload"]), row["attempt"], row["account"]) for row in rows] == [
        (ids[0], b"one", 1, "7"),
        (ids[1], b"two", 1, "7"),
    ]
    assert await bench.rows(dead_table) == []


async def test_rows_that_die_again_at_once_are_not_moved_without_end(bench: Bench) -> None:
    await bench.publish(b"one", b"two", group="jobs.dead")
    moved: list[int] = []
    async for step in dead_letters(bench).requeue(None):
        moved.append(step)
        await bench.publish(b"again", group="jobs.dead")
        if len(moved) > 3:
            break
    assert moved == [2]


async def test_names_that_look_like_marks_go_back_whole(make_bench: MakeBench, pair: Pair) -> None:
    key = {"advisory_lock": "odd :free {{x}}-{id}"} if pair.form == "advisory" else {}
    home = queue_table(pair.form, group=None, columns=("odd :now {id}",), payload="a :body {x} --? id", **key)
    bench = await make_bench(home)
    dead_table = replace(home, name="jobs :dead {id}")
    await bench.engine.create_tables([dead_table])
    await bench.engine.insert(dead_table, [NewRow(group=None, payload=b"one", columns={"odd :now {id}": "7"})])
    assert await every(DeadLetters(bench.engine, dead_table, None, home, "jobs").requeue(None)) == [1]
    assert [(bytes(row["payload"]), row["odd :now {id}"]) for row in await bench.rows()] == [(b"one", "7")]
