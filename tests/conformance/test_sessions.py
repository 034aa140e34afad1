"""Sessions of Postgres that are ended, or whose statements are cancelled, from outside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from faststream_sql.engine import Ack, Delivery, Nack, NewRow, SubscriptionOptions
from faststream_sql.errors import LeaseLostError, TransientError
from tests.conformance.bench import PATIENCE_SECONDS, Bench, bytes_of
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]

pytestmark = pytest.mark.databases("postgres")

OURS = "datname = current_database() AND application_name = 'faststream_sql'"


@pytest.fixture
async def administrator(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_url, server_settings={"application_name": "administrator"})
    yield connection
    await connection.close()


async def waiting_for_a_lock(administrator: asyncpg.Connection) -> int:
    """The pid of a session of ours that waits for a lock."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while (pid := await administrator.fetchval(f"SELECT pid FROM pg_stat_activity WHERE {OURS} AND wait_event_type = 'Lock'")) is None:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)
        await administrator.execute("SELECT pg_stat_clear_snapshot()")  # inside a transaction it would see the same for ever
    return int(pid)


async def until_nothing_is_locked(administrator: asyncpg.Connection) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while await administrator.fetchval(f"SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE {OURS}"):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)


async def cancel_who_waits(administrator: asyncpg.Connection) -> None:
    """Cancel a statement that waits for a lock. The session may have ended since it was seen: then the next one that waits."""
    for _ in range(100):
        if await administrator.fetchval("SELECT pg_cancel_backend($1)", await waiting_for_a_lock(administrator)):
            return
    raise AssertionError("no statement that waits could be cancelled")


async def test_a_claim_that_is_cancelled_on_the_server(bench: Bench, administrator: asyncpg.Connection) -> None:
    await bench.subscribe()
    await administrator.execute(
        "BEGIN; LOCK TABLE jobs IN EXCLUSIVE MODE; INSERT INTO jobs (name, priority, retry_after, attempt, headers, payload)"
        " VALUES ('jobs', 0, now() - interval '1 minute', 1, '{}', 'one')"
    )
    for _ in range(3):
        await cancel_who_waits(administrator)
    await administrator.execute("COMMIT")
    await bench.until_rows(lambda rows: rows == [])
    assert bench.seen == [(b"one", 1)]


async def test_a_start_that_is_cancelled_on_the_server(bench: Bench, administrator: asyncpg.Connection) -> None:
    """Its checks are made again: what passes by itself fails no start."""
    await bench.publish(b"one")
    await administrator.execute("BEGIN; LOCK TABLE jobs")
    starting = asyncio.create_task(bench.subscribe())
    for _ in range(2):
        await cancel_who_waits(administrator)
    await administrator.execute("SELECT pg_terminate_backend($1)", await waiting_for_a_lock(administrator))
    await waiting_for_a_lock(administrator)
    await administrator.execute("COMMIT")
    await starting
    await bench.until(lambda: bench.seen == [(b"one", 1)])


async def test_a_publish_that_is_cancelled_on_the_server(bench: Bench, administrator: asyncpg.Connection, postgres_url: str) -> None:
    """It had no effect, and is made again; in a transaction of the caller's the error is the caller's."""
    await bench.publish(b"before")
    await administrator.execute("BEGIN; LOCK TABLE jobs")
    publishing = asyncio.create_task(bench.publish(b"one"))
    for _ in range(2):
        await cancel_who_waits(administrator)
    await waiting_for_a_lock(administrator)
    await administrator.execute("COMMIT")
    assert len(await publishing) == 1
    lent = await asyncpg.connect(postgres_url, server_settings={"application_name": "faststream_sql"})
    await administrator.execute("BEGIN; LOCK TABLE jobs")
    row = NewRow(group="jobs", payload=b"two")
    publishing = asyncio.create_task(bench.engine.insert(bench.table, [row], connection=lent))
    assert await administrator.fetchval("SELECT pg_cancel_backend($1)", await waiting_for_a_lock(administrator))
    with pytest.raises(TransientError):
        await publishing
    await administrator.execute("COMMIT")
    await lent.close()
    assert [bytes(row["payload"]) for row in await bench.rows()] == [b"before", b"one"]


async def test_a_settlement_that_is_cancelled_on_the_server(bench: Bench, administrator: asyncpg.Connection) -> None:
    await bench.sql(
        "CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN OLD; END';"
        "CREATE TRIGGER holds_up BEFORE DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION hold_up()"
    )
    await administrator.execute("SELECT pg_advisory_lock(7)")
    await bench.publish(b"one")
    await bench.subscribe()
    assert await administrator.fetchval("SELECT pg_cancel_backend($1)", await waiting_for_a_lock(administrator))
    await administrator.execute("SELECT pg_advisory_unlock(7)")
    await bench.until_rows(lambda rows: rows == [])
    assert bench.seen in ([(b"one", 1)], [(b"one", 1), (b"one", 1)], [(b"one", 1), (b"one", 2)])


@pytest.mark.forms("row_lock", "advisory")
async def test_a_pool_of_two_and_many_subscriptions_never_deadlock(make_bench: MakeBench) -> None:
    """Handlers publish and read while their deliveries hold connections: the last connection is never a delivery's."""
    bench = await make_bench(pool={"size": 2})
    groups = ["a", "b", "c", "d"]

    async def pass_on(delivery: Delivery) -> None:
        at = groups.index(str(delivery.group))
        if at + 1 < len(groups):
            await asyncio.gather(*(bench.publish(b"next", group=groups[at + 1]) for _ in range(2)))
        await delivery.settle(Ack())

    for group in groups:
        await bench.subscribe(pass_on, group=group, max_workers=3)
    await bench.publish(b"first", b"first", group="a")
    await bench.until(lambda: len(bench.deliveries) == 2 + 4 + 8 + 16)
    await bench.until_rows(lambda rows: rows == [])
    assert bench.logged == []


@pytest.mark.forms("lease")
async def test_a_row_that_somebody_locks_for_a_moment_is_released_all_the_same(bench: Bench, administrator: asyncpg.Connection) -> None:
    async def nobody(delivery: Delivery) -> None:
        raise AssertionError

    subscription = bench.engine.subscription(name="jobs", table=bench.table, options=SubscriptionOptions(), deliver=nobody)
    bench.subscriptions.append(subscription)
    form = await subscription.open()
    await bench.publish(b"one", b"two")
    claimed = await form.claim(2)
    await administrator.execute("BEGIN; SELECT 1 FROM jobs WHERE payload = 'one' FOR UPDATE")
    releasing = asyncio.create_task(form.release(claimed))
    await bench.until_rows(lambda rows: [row["locked_until"] is None for row in rows] == [False, True])
    await administrator.execute("COMMIT")
    await releasing
    assert [(row["locked_until"], row["attempt"]) for row in await bench.rows()] == [(None, 1), (None, 1)]


@pytest.mark.forms("row_lock", "advisory")
async def test_a_server_that_ends_idle_sessions(make_bench: MakeBench, pair: Pair, administrator: asyncpg.Connection) -> None:
    """It is said at start, and again, by the setting's name, where a row is lost by it; the row is run again."""
    setting = {"row_lock": "idle_in_transaction_session_timeout", "advisory": "idle_session_timeout"}[pair.form]
    database = await administrator.fetchval("SELECT quote_ident(current_database())")
    await administrator.execute(f"ALTER DATABASE {database} SET {setting} = '200ms'")
    try:
        bench = await make_bench()
        errors: list[LeaseLostError] = []

        async def slow(delivery: Delivery) -> None:
            if len(bench.deliveries) == 1:
                await until_nothing_is_locked(administrator)
            try:
                await delivery.settle(Ack())
            except LeaseLostError as error:
                errors.append(error)

        await bench.publish(b"one")
        await bench.subscribe(slow)
        await bench.until_rows(lambda rows: rows == [])
    finally:
        await administrator.execute(f"ALTER DATABASE {database} RESET {setting}")
    warning = next(text for level, text in bench.logged if level == logging.WARNING)
    assert f"{setting} = 0.2 s" in warning
    assert "LockedUntil" in warning
    assert [f"the server's limits: {setting} = 0.2 s" in str(error) for error in errors] == [True]
    assert bench.seen == [(b"one", 1), (b"one", 1 if pair.form == "row_lock" else 2)]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_server_with_a_stricter_level_by_default(make_bench: MakeBench, administrator: asyncpg.Connection, level: str) -> None:
    database = await administrator.fetchval("SELECT quote_ident(current_database())")
    await administrator.execute(f"ALTER DATABASE {database} SET default_transaction_isolation = '{level}'")

    async def answer(delivery: Delivery) -> None:
        await delivery.settle(Nack(0.01) if delivery.attempt == 1 and bytes_of(delivery.payload)[-1:] == b"0" else Ack())

    try:
        bench = await make_bench(pool={"size": 20})
        await bench.publish(*[b"%d" % n for n in range(100)])
        await bench.subscribe(answer, max_workers=8)
        await bench.subscribe(answer, max_workers=8)
        await bench.until_rows(lambda rows: rows == [])
    finally:
        await administrator.execute(f"ALTER DATABASE {database} RESET default_transaction_isolation")
    assert len(bench.seen) == 110
    assert [text for level, text in bench.logged if level >= logging.WARNING] == []
