"""Columns of every type that may serve a role, under a session of another time zone, and what is refused at start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from faststream_sql.engine import Ack, Delivery, Nack
from faststream_sql.errors import SchemaError
from tests.conformance.bench import Bench, queue_table
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]

ON_POSTGRES = {
    "timestamptz, bytea, jsonb": "timestamptz bytea jsonb integer text",
    "timestamp, text, text": "timestamp text text smallint varchar(80)",
    "timestamp(3), json, json": "timestamp(3) json json bigint text",
    "timestamptz(3), jsonb, bytea": "timestamptz(3) jsonb bytea integer text",
}
ON_SQLITE = {"text, blob, text": "TEXT BLOB TEXT INTEGER TEXT", "integer, text, blob": "INTEGER TEXT BLOB INTEGER TEXT"}


async def on_types(make_bench: MakeBench, pair: Pair, types: str) -> Bench:
    time, payload, headers, number, text = types.split()
    bench = await make_bench(queue_table(pair.form), create=False)
    key = "bigserial PRIMARY KEY" if pair.database == "postgres" else "INTEGER PRIMARY KEY AUTOINCREMENT"
    lease = f", locked_until {time}" if pair.form == "lease" else ""
    await bench.sql(
        f"CREATE TABLE jobs (id {key}, name {text} NOT NULL, priority {number} NOT NULL, retry_after {time} NOT NULL, "
        f"attempt {number} NOT NULL, headers {headers}, payload {payload} NOT NULL{lease}); "
        "CREATE INDEX jobs_claim ON jobs (name, priority, retry_after, id)"
    )
    return bench


async def work_on(bench: Bench) -> None:
    answers: list[tuple[object, int | None]] = []

    async def work(delivery: Delivery) -> None:
        answers.append((delivery.row["headers"] is not None, delivery.attempt))
        await delivery.settle(Nack(0.05) if delivery.attempt == 1 else Ack())

    await bench.publish(b'{"n": 1}', b'{"n": 2}', headers={"tenant": "ünï"})
    await bench.publish(b'{"n": 3}', delay_seconds=3600)
    await bench.subscribe(work, max_workers=2)
    await bench.until_rows(lambda rows: len(rows) == 1)
    assert answers == [(True, 1)] * 2 + [(True, 2)] * 2 or sorted(answers) == [(True, 1)] * 2 + [(True, 2)] * 2
    (row,) = await bench.rows()
    codec = bench.engine.dialect.recommended_types(bench.table).times["retry_after"]
    due = codec.decode(row["retry_after"]) - bench.engine.clock.now()
    assert timedelta(seconds=3500) < due < timedelta(seconds=3601)


@pytest.mark.databases("postgres")
@pytest.mark.parametrize("types", ON_POSTGRES.values(), ids=list(ON_POSTGRES))
async def test_types_of_postgres_under_another_time_zone(make_bench: MakeBench, pair: Pair, types: str) -> None:
    bench = await on_types(make_bench, pair, types)
    await bench.sql("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''America/New_York''', current_database()); END $$")
    await work_on(bench)


@pytest.mark.databases("sqlite", "memory")
@pytest.mark.forms("lease", "advisory")
@pytest.mark.parametrize("types", ON_SQLITE.values(), ids=list(ON_SQLITE))
async def test_types_of_sqlite(make_bench: MakeBench, pair: Pair, types: str) -> None:
    await work_on(await on_types(make_bench, pair, types))


@pytest.mark.parametrize(
    ("types", "says"),
    [
        ("date bytea jsonb integer text", r"'retry_after' \(retry_after\) .* is date"),
        ("timestamptz integer jsonb integer text", r"'payload' \(payload\) .* is integer"),
        ("timestamptz bytea jsonb text text", r"'priority' \(priority\) .* is text"),
        ("timestamptz bytea integer integer text", r"'headers' \(headers\) .* is integer"),
    ],
)
@pytest.mark.databases("postgres")
async def test_types_that_cannot_serve_are_refused_with_the_ddl_that_mends_them(
    make_bench: MakeBench, pair: Pair, types: str, says: str
) -> None:
    bench = await on_types(make_bench, pair, types)
    with pytest.raises(SchemaError, match=says) as caught:
        await bench.subscribe()
    assert "ALTER TABLE" in str(caught.value)


@pytest.mark.databases("postgres", "sqlite")
async def test_a_column_that_may_be_null_is_refused(make_bench: MakeBench, pair: Pair) -> None:
    bench = await make_bench(queue_table(pair.form), create=False)
    key = "bigserial PRIMARY KEY" if pair.database == "postgres" else "INTEGER PRIMARY KEY AUTOINCREMENT"
    time, body = ("timestamptz", "bytea") if pair.database == "postgres" else ("TEXT", "BLOB")
    lease = f", locked_until {time}" if pair.form == "lease" else ""
    await bench.sql(
        f"CREATE TABLE jobs (id {key}, name text, priority integer NOT NULL, retry_after {time} NOT NULL, attempt integer NOT NULL, "
        f"headers text, payload {body} NOT NULL{lease})"
    )
    with pytest.raises(SchemaError, match=r"'name' \(group\).*NULL"):
        await bench.subscribe()


@pytest.mark.databases("postgres")
@pytest.mark.forms("lease")
async def test_a_lease_in_whole_seconds_needs_an_attempt(make_bench: MakeBench, pair: Pair) -> None:
    bench = await make_bench(queue_table("lease", attempt=None), create=False)
    await bench.sql(
        "CREATE TABLE jobs (id bigserial PRIMARY KEY, name text NOT NULL, priority integer NOT NULL, retry_after timestamptz NOT NULL, "
        "headers text, payload bytea NOT NULL, locked_until timestamptz(0))"
    )
    with pytest.raises(SchemaError, match="same expiry"):
        await bench.subscribe()


async def test_a_missing_index_is_a_warning_with_its_ddl(make_bench: MakeBench, pair: Pair) -> None:
    bench = await make_bench()
    await bench.sql("DROP INDEX jobs_claim" + (" ON jobs" if pair.database == "mysql" else ""))
    await bench.publish(b"one")
    await bench.subscribe()
    await bench.until(lambda: bench.seen == [(b"one", 1)])
    assert any("CREATE INDEX " in text and "jobs_claim" in text for _, text in bench.logged)
