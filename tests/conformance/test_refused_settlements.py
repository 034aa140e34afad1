"""Settlements that the database refuses, by a constraint or a trigger: said, never spinning, and the trouble of their row alone."""

from __future__ import annotations

import asyncio
import logging

import pytest

from faststream_sql.engine import Ack, DeadLetter, Delivery, Nack
from tests.conformance.bench import Bench
from tests.conformance.conftest import Pair

REFUSE = {
    "sqlite": "CREATE TRIGGER refuse BEFORE DELETE ON jobs BEGIN SELECT RAISE(ABORT, 'not allowed'); END",
    "memory": "CREATE TRIGGER refuse BEFORE DELETE ON jobs BEGIN SELECT RAISE(ABORT, 'not allowed'); END",
    "mysql": "CREATE TRIGGER refuse BEFORE DELETE ON jobs FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not allowed'",
    "postgres": "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not allowed'; END $$;"
    " CREATE TRIGGER refuse BEFORE DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION refuse()",
}


async def test_a_finish_that_is_refused_does_not_spin(bench: Bench, pair: Pair) -> None:
    await bench.sql(REFUSE[pair.database])
    await bench.publish(b"one")
    await bench.subscribe(backoff=0.3, lease=1)
    await bench.until(lambda: len(bench.seen) == 1)
    await asyncio.sleep(0.25)
    assert len(bench.seen) == 1, "the row is free again at once, and its worker waits"
    errors = [text for level, text in bench.logged if level == logging.ERROR]
    assert len(errors) == 1
    assert "not allowed" in errors[0]
    await bench.sql("DROP TRIGGER refuse" + (" ON jobs" if pair.database == "postgres" else ""))
    await bench.until_rows(lambda rows: rows == [])


async def test_a_dead_letter_that_is_refused_is_put_off(bench: Bench, pair: Pair) -> None:
    """The others have their turn meanwhile, and later it goes where it was to go."""

    async def answer(delivery: Delivery) -> None:
        await delivery.settle(DeadLetter() if delivery.payload == b"one" else Ack())

    await bench.sql("CREATE UNIQUE INDEX one_each ON jobs (name, priority)")
    await bench.publish(b"there", group="jobs.dead", priority=1)
    await bench.publish(b"one", priority=1)
    await bench.publish(b"two", priority=2)
    subscription = await bench.subscribe(answer, max_attempts=3, dead_letter="jobs.dead", max_workers=1, prefetch=0)
    rows = await bench.until_rows(lambda rows: len(rows) == 2)
    assert [(bytes(row["payload"]), row["group"], row["attempt"]) for row in rows] == [(b"there", "jobs.dead", 1), (b"one", "jobs", 2)]
    assert bench.seen == [(b"one", 1), (b"two", 1)]
    errors = [text for level, text in bench.logged if level == logging.ERROR]
    assert len(errors) == 1
    assert "cannot be dead-lettered, and is tried again in 60 s" in errors[0]
    assert subscription.alive
    await bench.sql("DROP INDEX one_each" + (" ON jobs" if pair.database == "mysql" else ""))
    await bench.sql(
        f"UPDATE jobs SET retry_after = (SELECT r FROM (SELECT min(retry_after) AS r FROM jobs) AS x) WHERE id = {rows[1]['id']}"
    )
    await bench.until_rows(lambda rows: [row["group"] for row in rows] == ["jobs.dead"] * 2)
    assert [row["attempt"] for row in await bench.rows()] == [1, 2]


async def test_a_delay_past_all_times_is_the_last_of_them(bench: Bench) -> None:
    async def put_off(delivery: Delivery) -> None:
        await delivery.settle(Nack(1e15))

    await bench.publish(b"one")
    await bench.subscribe(put_off)
    (row,) = await bench.until_rows(lambda rows: rows[0]["attempt"] == 2)
    await bench.until_rows(lambda rows: bench.moment("retry_after", rows[0]["retry_after"]).year == 9999)
    assert bench.seen == [(b"one", 1)]
    assert row["attempt"] == 2


async def test_a_fault_of_no_known_class_stops_no_claims(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    subscription = await bench.subscribe()
    form = await subscription.open()
    claim, faults = form.claim, [ValueError("what nobody thought of")]

    async def faulty(limit: int) -> list[Delivery]:
        if faults:
            raise faults.pop()
        return await claim(limit)

    monkeypatch.setattr(form, "claim", faulty)
    await bench.publish(b"one")
    await bench.until_rows(lambda rows: rows == [])
    assert any(level == logging.ERROR and "nobody thought of" in text for level, text in bench.logged)
    assert subscription.alive
