"""A table that changes under running workers: they go on with what it has become, or say what is missing and wait for it."""

from __future__ import annotations

import logging

import pytest

from faststream_sql.engine import Ack, Delivery, Nack, SubscriptionOptions
from faststream_sql.errors import SQLBrokerError
from tests.conformance.bench import Bench, acknowledge
from tests.conformance.conftest import Pair
from tests.waiting import until

pytestmark = pytest.mark.databases("sqlite", "postgres", "mysql")


def drop_indexes(bench: Bench, pair: Pair) -> str:
    on = " ON jobs" if pair.database == "mysql" else ""
    return f"DROP INDEX jobs_claim{on}"


async def test_the_claims_index_is_dropped(bench: Bench, pair: Pair) -> None:
    await bench.subscribe(max_workers=2)
    await bench.publish(b"before")
    await bench.until_rows(lambda rows: rows == [])
    await bench.sql(drop_indexes(bench, pair))
    await bench.publish(b"after")
    await bench.until_rows(lambda rows: rows == [])
    assert sorted(bench.seen) == [(b"after", 1), (b"before", 1)]
    told = [text for _, text in bench.logged if "no index serves" in text]
    if pair.database == "postgres":  # its claims name no index
        assert told == []
    else:
        assert len(told) == 1
        assert "CREATE INDEX" in told[0] or "ADD INDEX" in told[0]
    assert [text for level, text in bench.logged if level == logging.ERROR] == []


async def test_the_claims_index_is_dropped_under_a_caller_that_asks_for_rows(bench: Bench, pair: Pair) -> None:
    subscription = bench.engine.subscription(name="jobs", table=bench.table, options=SubscriptionOptions(), deliver=acknowledge)
    bench.subscriptions.append(subscription)
    await subscription.open()
    await bench.sql(drop_indexes(bench, pair))
    await bench.publish(b"one")
    delivery = await subscription.get_one(5.0)
    assert delivery is not None
    await delivery.settle(Ack())
    assert await bench.rows() == []


async def test_a_column_is_added(bench: Bench) -> None:
    """A statement that was prepared before is prepared again; no row is lost, and none run twice."""

    async def twice(delivery: Delivery) -> None:
        if len(bench.deliveries) == 1:
            await bench.sql("ALTER TABLE jobs ADD COLUMN note varchar(20)") if bench.table.form == "lease" else None
        await delivery.settle(Nack() if delivery.attempt == 1 else Ack())

    await bench.subscribe(twice, max_workers=2)
    await bench.publish(b"one")
    await bench.until_rows(lambda rows: rows == [])
    if bench.table.form != "lease":  # a transaction that is open would keep the table from being altered
        await bench.sql("ALTER TABLE jobs ADD COLUMN note varchar(20)")
    await bench.publish(b"two")
    await bench.until_rows(lambda rows: rows == [])
    assert bench.seen == [(b"one", 1), (b"one", 2), (b"two", 1), (b"two", 2)]


async def test_a_column_that_is_renamed_is_named_and_waited_for(bench: Bench) -> None:
    await bench.subscribe()
    await bench.publish(b"one", group="elsewhere")
    await bench.sql("ALTER TABLE jobs RENAME COLUMN payload TO body")
    await bench.sql("UPDATE jobs SET name = 'jobs'")
    await until(lambda: any(level == logging.ERROR and "payload" in text for level, text in bench.logged))
    with pytest.raises(SQLBrokerError, match="payload"):
        await bench.publish(b"no")
    await bench.sql("ALTER TABLE jobs RENAME COLUMN body TO payload")
    await bench.until_rows(lambda rows: rows == [])
    assert bench.seen[-1][0] == b"one"
    assert len(bench.seen) == 1, "nothing was run, or given up, meanwhile"
