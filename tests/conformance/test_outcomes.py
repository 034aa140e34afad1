"""What becomes of a row after each outcome, in every form on every database."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from faststream_sql.engine import Ack, DeadLetter, Delivery, Nack, Reject, Release
from tests.conformance.bench import Bench


async def test_an_acknowledged_row_is_gone(bench: Bench) -> None:
    await bench.subscribe()
    (row_id,) = await bench.publish(b"one")
    await bench.until(lambda: len(bench.seen) == 1)
    assert bench.seen == [(b"one", 1)]
    assert bench.deliveries[0].row_id == row_id
    await bench.until_rows(lambda rows: rows == [])


async def test_a_rejected_row_is_gone(bench: Bench) -> None:
    async def reject(delivery: Delivery) -> None:
        await delivery.settle(Reject())

    await bench.subscribe(reject)
    await bench.publish(b"one")
    await bench.until(lambda: len(bench.seen) == 1)
    await bench.until_rows(lambda rows: rows == [])


async def test_a_nacked_row_returns_at_once_with_one_more_attempt_and_its_time_untouched(bench: Bench) -> None:
    (_,) = await bench.publish(b"one")
    (before,) = await bench.rows()
    times: list[object] = []

    async def twice(delivery: Delivery) -> None:
        times.append(delivery.row["retry_after"])
        await delivery.settle(Nack() if delivery.attempt == 1 else Ack())

    await bench.subscribe(twice)
    await bench.until(lambda: len(bench.seen) == 2)
    assert bench.seen == [(b"one", 1), (b"one", 2)]
    assert times == [before["retry_after"], before["retry_after"]]
    await bench.until_rows(lambda rows: rows == [])


async def test_a_nack_with_a_delay_puts_the_row_off(bench: Bench) -> None:
    async def put_off(delivery: Delivery) -> None:
        await delivery.settle(Nack(3600.0))

    await bench.publish(b"one")
    started = datetime.now(timezone.utc)
    await bench.subscribe(put_off)
    await bench.until(lambda: len(bench.seen) == 1)
    (row,) = await bench.rows()
    waits = bench.moment("retry_after", row["retry_after"]) - started
    assert timedelta(seconds=3600) <= waits < timedelta(seconds=3600 + 60)
    assert row["attempt"] == 2
    assert row.get("locked_until") is None


async def test_a_short_delay_passes(bench: Bench) -> None:
    async def put_off(delivery: Delivery) -> None:
        await delivery.settle(Nack(0.05) if delivery.attempt == 1 else Ack())

    await bench.subscribe(put_off, poll_interval=30)  # the row's own time ends the wait, not the poll
    await bench.publish(b"one")
    await bench.until(lambda: len(bench.seen) == 2)
    await bench.until_rows(lambda rows: rows == [])


async def test_the_first_outcome_wins(bench: Bench) -> None:
    async def undecided(delivery: Delivery) -> None:
        await delivery.settle(Ack())
        await delivery.settle(Nack())

    await bench.subscribe(undecided)
    await bench.publish(b"one")
    await bench.until(lambda: len(bench.seen) == 1)
    await bench.until_rows(lambda rows: rows == [])


async def test_a_delivery_left_unsettled_is_tried_again_by_the_backoff(bench: Bench) -> None:
    async def forget(delivery: Delivery) -> None:
        if delivery.attempt == 2:
            await delivery.settle(Ack())

    await bench.subscribe(forget, backoff=0.01)
    await bench.publish(b"one")
    await bench.until(lambda: len(bench.seen) == 2)
    await bench.until_rows(lambda rows: rows == [])
    assert any("left unsettled" in text for _, text in bench.logged)


async def test_a_handler_that_raises_is_tried_again(bench: Bench) -> None:
    async def fail(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise ValueError("broken")
        await delivery.settle(Ack())

    await bench.subscribe(fail, backoff=None)
    await bench.publish(b"one")
    await bench.until(lambda: len(bench.seen) == 2)
    await bench.until_rows(lambda rows: rows == [])


async def test_the_last_failed_attempt_moves_the_row_to_the_dead_letter(bench: Bench) -> None:
    async def fail(delivery: Delivery) -> None:
        await delivery.settle(Nack(0.01) if delivery.attempt == 2 else Nack())

    await bench.subscribe(fail, max_attempts=3, dead_letter="jobs.dead")
    (row_id,) = await bench.publish(b"one")
    await bench.until(lambda: len(bench.seen) == 3)
    (row,) = await bench.until_rows(lambda rows: [row["group"] for row in rows] == ["jobs.dead"])
    assert [attempt for _, attempt in bench.seen] == [1, 2, 3]
    assert (row["id"], row["attempt"], bytes(row["payload"])) == (row_id, 3, b"one")
    assert row.get("locked_until") is None


async def test_a_dead_letter_moves_at_once_whatever_its_attempt(bench: Bench) -> None:
    async def give_up(delivery: Delivery) -> None:
        await delivery.settle(DeadLetter())

    await bench.subscribe(give_up, max_attempts=3, dead_letter="jobs.dead")
    await bench.publish(b"one")
    await bench.until(lambda: len(bench.seen) == 1)
    (row,) = await bench.rows()
    assert (row["group"], row["attempt"]) == ("jobs.dead", 1)


async def test_a_row_whose_attempts_are_spent_is_dead_lettered_unhandled(bench: Bench) -> None:
    await bench.publish(b"crashed five times")
    await bench.sql("UPDATE jobs SET attempt = 6")
    await bench.publish(b"fresh")
    await bench.subscribe(max_attempts=5, dead_letter="jobs.dead")
    await bench.until(lambda: bench.seen == [(b"fresh", 1)])
    (row,) = await bench.until_rows(lambda rows: [row["group"] for row in rows] == ["jobs.dead"])
    assert bytes(row["payload"]) == b"crashed five times"


async def test_a_dead_letter_group_is_a_queue_like_any_other(bench: Bench) -> None:
    async def fail(delivery: Delivery) -> None:
        await delivery.settle(Nack())

    read: list[tuple[str | None, int | None]] = []

    async def review(delivery: Delivery) -> None:
        read.append((delivery.group, delivery.attempt))
        await delivery.settle(Ack())

    await bench.subscribe(fail, max_attempts=2, dead_letter="jobs.dead")
    await bench.subscribe(review, group="jobs.dead")
    await bench.publish(b"one")
    await bench.until(lambda: bool(read))
    assert read == [("jobs.dead", 2)]
    await bench.until_rows(lambda rows: rows == [])


async def test_a_released_row_is_due_at_once_and_its_attempt_given_back(bench: Bench) -> None:
    released = False

    async def release_once(delivery: Delivery) -> None:
        nonlocal released
        await delivery.settle(Ack() if released else Release())
        released = True

    await bench.subscribe(release_once)
    await bench.publish(b"one")
    await bench.until(lambda: len(bench.seen) == 2)
    assert bench.seen == [(b"one", 1), (b"one", 1)]


async def test_attempts_stop_at_the_columns_maximum(bench: Bench) -> None:
    most = min(bench.engine.dialect.recommended_types(bench.table).attempt_max, 2**63 - 1)
    await bench.publish(b"one")
    await bench.sql(f"UPDATE jobs SET attempt = {most}")
    counted: list[int | None] = []

    async def twice(delivery: Delivery) -> None:
        counted.append(delivery.attempt)
        await delivery.settle(Nack() if len(counted) == 1 else Ack())

    await bench.subscribe(twice)
    await bench.until(lambda: len(bench.seen) == 2)
    assert counted == [most, most]
    await bench.until_rows(lambda rows: rows == [])
