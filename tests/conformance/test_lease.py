"""The lease form: its hold on a row, its renewals, its fence, and what a crash leaves behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from faststream_sql.engine import Ack, DeadLetter, Delivery, Nack, Outcome, Reject, SubscriptionOptions
from faststream_sql.errors import LeaseLostError
from tests.conformance.bench import PATIENCE_SECONDS, Bench, acknowledge
from tests.waiting import until

MakeBench = Callable[..., Awaitable[Bench]]


pytestmark = pytest.mark.forms("lease")


async def set_lease(bench: Bench, seconds: float, where: str = "TRUE") -> None:
    """Write a lease as another process would have left it: it ends `seconds` from now (negative: it has ended)."""
    codec = bench.engine.dialect.recommended_types(bench.table).times["locked_until"]
    moment = codec.encode(bench.engine.clock.now() + timedelta(seconds=seconds))
    await bench.sql(f"UPDATE jobs SET locked_until = '{moment}', attempt = attempt + 1 WHERE {where}")


async def test_a_claim_writes_the_expiry_and_counts_the_attempt(bench: Bench) -> None:
    inside: list[dict[str, Any]] = []

    async def look(delivery: Delivery) -> None:
        inside.extend(await bench.rows())
        await delivery.settle(Ack())

    before = bench.engine.clock.now()
    await bench.publish(b"one")
    await bench.subscribe(look, lease=60)
    await bench.until(lambda: len(bench.seen) == 1)
    (row,) = inside
    assert row["attempt"] == 2, "the claim counts the attempt"
    assert bench.seen == [(b"one", 1)], "the delivery reads it as it stood"
    expires = bench.moment("locked_until", row["locked_until"])
    assert timedelta(seconds=59) < expires - before < timedelta(seconds=61 + 20)


async def test_rows_that_another_process_left(bench: Bench) -> None:
    await bench.publish(b"ended")
    await set_lease(bench, -1)
    await bench.publish(b"live")
    await set_lease(bench, 3600, "attempt = 1")
    await bench.subscribe()
    await bench.until(lambda: bench.seen == [(b"ended", 2)])
    for _ in range(5):  # several polls
        await asyncio.sleep(0.05)
    assert bench.seen == [(b"ended", 2)]
    (row,) = await bench.rows()
    assert row["attempt"] == 2


async def test_a_handler_longer_than_its_lease_is_delivered_once(bench: Bench) -> None:
    expiries: set[object] = set()

    async def long(delivery: Delivery) -> None:
        for _ in range(25):
            await asyncio.sleep(0.1)
            expiries.update(row["locked_until"] for row in await bench.rows())
        await delivery.settle(Ack())

    await bench.publish(b"report")
    await bench.subscribe(long, lease=1)
    await bench.subscribe(long, lease=1)  # a rival that would take it
    await bench.until(lambda: bool(bench.deliveries) and bench.deliveries[0].outcome is not None)
    assert bench.seen == [(b"report", 1)]
    assert len(expiries) >= 4, "the lease was renewed each half second"
    await bench.until_rows(lambda rows: rows == [])


@pytest.mark.parametrize("outcome", [Ack(), Reject(), Nack(), Nack(60.0), DeadLetter()], ids=repr)
async def test_a_late_settlement_changes_nothing(bench: Bench, outcome: Outcome) -> None:
    """The lease is forced to end while the handler runs; another worker takes the row; the first one's settlement is void."""
    entered, twin_has_it, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    errors: list[BaseException] = []

    async def first(delivery: Delivery) -> None:
        entered.set()
        await twin_has_it.wait()
        before = await bench.rows()
        try:
            await delivery.settle(outcome)
        except LeaseLostError as error:
            errors.append(error)
        assert await bench.rows() == before
        done.set()

    async def twin(delivery: Delivery) -> None:
        twin_has_it.set()
        await done.wait()
        await delivery.settle(Ack())

    await bench.publish(b"one")
    stuck = await bench.subscribe(first, lease=3600, max_attempts=9, dead_letter="jobs.dead", prefetch=0)  # it must not claim the row again
    await entered.wait()
    await set_lease(bench, -1, "FALSE")
    codec = bench.engine.dialect.recommended_types(bench.table).times["locked_until"]
    ended = codec.encode(bench.engine.clock.now() - timedelta(seconds=1))
    await bench.sql(f"UPDATE jobs SET locked_until = '{ended}'")
    await bench.subscribe(twin, lease=3600)
    await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)
    assert bench.seen == [(b"one", 1), (b"one", 2)]
    assert len(errors) == 1
    assert bench.deliveries[0].lease_lost
    assert bench.lost == [bench.deliveries[0]]
    await bench.until_rows(lambda rows: rows == [])
    await stuck.stop(1.0)


async def test_a_renewal_that_finds_the_row_taken_marks_the_delivery(bench: Bench) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def long(delivery: Delivery) -> None:
        entered.set()
        await leave.wait()
        try:
            await delivery.settle(Ack())
        except LeaseLostError as error:
            errors.append(error)

    errors: list[LeaseLostError] = []
    await bench.publish(b"one")
    await bench.subscribe(long, lease=1)
    await entered.wait()
    await bench.sql("UPDATE jobs SET attempt = 77")
    await bench.until_rows(lambda _: bool(bench.lost))
    assert bench.deliveries[0].lease_lost
    leave.set()
    await bench.until(lambda: len(errors) == 1)
    (row,) = await bench.rows()
    assert row["attempt"] == 77, "nothing of the lost delivery reached the row"
    assert bench.lost == [bench.deliveries[0]], "it is said once, though the settlement finds it too"
    assert bench.counters.lost == 1


async def test_a_row_asked_for_by_hand_is_renewed(bench: Bench) -> None:
    await bench.publish(b"one", b"two")
    subscription = bench.engine.subscription(name="jobs", table=bench.table, options=SubscriptionOptions(lease=1), deliver=acknowledge)
    bench.subscriptions.append(subscription)
    held = [await subscription.get_one(5.0), await subscription.get_one(5.0)]
    before = [row["locked_until"] for row in await bench.rows()]
    await bench.until_rows(lambda rows: all(row["locked_until"] > old for row, old in zip(rows, before, strict=True)))
    for delivery in held:
        assert delivery is not None
        await delivery.settle(Ack())
    assert await bench.rows() == []


async def test_a_suspect_is_not_claimed_ahead(bench: Bench) -> None:
    """Rows whose leases had ended may have killed their worker: with one worker, only one of them is taken at a time."""
    await bench.publish(b"a", b"b", b"c")
    await set_lease(bench, -1)
    ended = (await bench.rows())[0]["locked_until"]

    async def look(delivery: Delivery) -> None:
        free = len(bench.seen) == 1 and [(2, True), (2, True)]
        await bench.until_rows(lambda rows: not free or [(row["attempt"], row["locked_until"] == ended) for row in rows[1:]] == free)
        await delivery.settle(Ack())

    await bench.subscribe(look, prefetch=10, max_workers=1)
    await bench.until(lambda: len(bench.seen) == 3)
    assert [attempt for _, attempt in bench.seen] == [2, 2, 2]


async def test_a_suspect_without_a_free_worker_is_not_claimed_over_and_over(bench: Bench) -> None:
    """A subscription whose workers are all busy would keep it from everybody else."""
    entered, leave = asyncio.Event(), asyncio.Event()

    async def long(delivery: Delivery) -> None:
        entered.set()
        await leave.wait()
        await delivery.settle(Ack())

    await bench.publish(b"first")
    await bench.publish(b"suspect", group="elsewhere")
    await set_lease(bench, -1, "name = 'elsewhere'")
    await bench.subscribe(long, prefetch=1)
    await entered.wait()
    await bench.sql("UPDATE jobs SET name = 'jobs'")
    for _ in range(6):  # several polls
        await asyncio.sleep(0.05)
    assert bench.counters.released == 1, "it was looked at once, and given back"
    leave.set()
    await bench.until_rows(lambda rows: rows == [])
    assert bench.seen == [(b"first", 1), (b"suspect", 2)]
    assert bench.deliveries[1].suspect, "it was given back as what it is"


async def test_a_suspect_on_its_last_attempt_runs_alone(make_bench: MakeBench) -> None:
    bench = await make_bench()
    await bench.publish(b"poison")
    await bench.sql("UPDATE jobs SET attempt = 2")
    await set_lease(bench, -1)
    await bench.publish(b"a", b"b", b"c", b"d")
    running, beside = 0, 0

    async def count(delivery: Delivery) -> None:
        nonlocal running, beside
        running += 1
        await asyncio.sleep(0.05)
        if delivery.payload == b"poison":
            beside = running - 1
        running -= 1
        await delivery.settle(Ack())

    await bench.subscribe(count, max_workers=4, max_attempts=3, dead_letter="jobs.dead")
    await bench.until(lambda: len(bench.seen) == 5)
    assert (b"poison", 3) in bench.seen
    assert beside == 0
    await bench.until_rows(lambda rows: rows == [])


@pytest.mark.parametrize(("workers", "most_at_once"), [(1, 1), (2, 8)])
async def test_a_delivery_that_only_settles_takes_no_handlers_place(make_bench: MakeBench, workers: int, most_at_once: int) -> None:
    """Of several workers, three times as many deliveries may wait for commits; one worker takes its next row when its last is settled."""
    bench = await make_bench()
    running, at_once, most_running = 0, 0, 0
    full, leave = asyncio.Event(), asyncio.Event()

    async def settle_late(delivery: Delivery) -> None:
        nonlocal running, at_once, most_running
        running, at_once = running + 1, at_once + 1
        most_running = max(most_running, running)
        await asyncio.sleep(0)
        running -= 1
        delivery.handled()
        if at_once == most_at_once:
            full.set()
        await leave.wait()
        await delivery.settle(Ack())

    await bench.publish(*[b"%d" % n for n in range(14)])
    await bench.subscribe(settle_late, max_workers=workers, prefetch=6)
    await full.wait()
    await bench.until_rows(lambda rows: sum(row["locked_until"] is not None for row in rows) >= most_at_once + 3)
    assert (at_once, most_running) == (most_at_once, workers)
    leave.set()
    await bench.until_rows(lambda rows: rows == [])
    assert most_running == workers


async def test_a_suspect_on_its_last_attempt_waits_for_settlements(make_bench: MakeBench) -> None:
    """It may kill the process, and what is not committed by then would have spent its attempt."""
    bench = await make_bench()
    (poison,) = await bench.publish(b"poison")
    await set_lease(bench, 3600)
    await bench.publish(b"a")
    handled, leave = asyncio.Event(), asyncio.Event()
    settled_before: list[bool] = []

    async def settle_late(delivery: Delivery) -> None:
        if delivery.payload == b"poison":
            settled_before.append(leave.is_set())
        else:
            delivery.handled()
            handled.set()
            await leave.wait()
        await delivery.settle(Ack())

    await bench.subscribe(settle_late, max_workers=2, max_attempts=3, dead_letter="jobs.dead")
    await handled.wait()
    await set_lease(bench, -1, f"id = {poison}")
    await bench.until_rows(lambda rows: rows[0]["attempt"] == 4)
    for _ in range(10):
        await asyncio.sleep(0)
    leave.set()
    await bench.until_rows(lambda rows: rows == [])
    assert settled_before == [True]


async def test_rows_claimed_ahead_are_released_at_a_stop_with_their_attempts(bench: Bench) -> None:
    entered = asyncio.Event()

    async def stuck(delivery: Delivery) -> None:
        entered.set()
        await asyncio.sleep(60)

    await bench.publish(*[b"%d" % n for n in range(8)])
    subscription = await bench.subscribe(stuck, max_workers=2, prefetch=6, lease=3600)
    await entered.wait()
    await bench.until_rows(lambda rows: sum(row["locked_until"] is not None for row in rows) == 8)
    await subscription.stop(0.05)
    rows = await bench.rows()
    assert [(row["attempt"], row["locked_until"]) for row in rows] == [(1, None)] * 8


async def test_a_handler_that_does_not_end_keeps_its_lease(bench: Bench) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def stubborn(delivery: Delivery) -> None:
        entered.set()
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue

    await bench.publish(b"one")
    subscription = await bench.subscribe(stubborn, lease=3600)
    await entered.wait()
    await asyncio.wait_for(subscription.stop(0.05), 10)
    (row,) = await bench.rows()
    assert (row["attempt"], row["locked_until"] is None) == (2, False)
    leave.set()
    await asyncio.sleep(0.05)


async def test_an_expired_row_behind_a_thousand_that_are_leased(bench: Bench) -> None:
    await bench.publish(*[b"leased"] * 1000)
    await set_lease(bench, 3600)
    await bench.publish(b"expired")
    await set_lease(bench, -1, "attempt = 1")
    await bench.subscribe()
    await bench.until(lambda: bench.seen == [(b"expired", 2)])


async def test_leases_are_renewed_while_a_stop_waits_for_handlers(bench: Bench) -> None:
    entered = asyncio.Event()

    async def slow(delivery: Delivery) -> None:
        entered.set()
        await asyncio.sleep(1.3)
        await delivery.settle(Ack())

    await bench.publish(b"one")
    stopped = await bench.subscribe(slow, lease=1)
    await entered.wait()
    await bench.subscribe(slow, lease=1)  # a rival that would take it
    await stopped.stop(10.0)
    assert bench.seen == [(b"one", 1)]
    assert await bench.rows() == []


async def test_a_handler_that_blocks_the_loop_is_told_of(bench: Bench) -> None:
    async def block(delivery: Delivery) -> None:
        time.sleep(0.9)  # noqa: ASYNC251
        await delivery.settle(Ack())

    await bench.publish(b"one")
    await bench.subscribe(block, lease=1)
    await bench.until_rows(lambda rows: rows == [])
    await until(lambda: any("event loop stood still" in text for _, text in bench.logged))
