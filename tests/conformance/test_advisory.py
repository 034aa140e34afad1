"""The advisory lock form: keys by id and by another column, held keys in front, other holders, and what a lost session costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from faststream_sql.engine import Ack, Delivery, Nack
from faststream_sql.errors import LeaseLostError
from tests.conformance.bench import Bench, queue_table
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]


pytestmark = pytest.mark.forms("advisory")


@pytest.fixture
async def accounts(make_bench: MakeBench) -> Bench:
    return await make_bench(queue_table("advisory", columns=("account",), advisory_lock="accounts-{account}"))


async def test_the_claim_counts_the_attempt(bench: Bench) -> None:
    inside: list[object] = []

    async def look(delivery: Delivery) -> None:
        inside.extend(row["attempt"] for row in await bench.rows())
        await delivery.settle(Ack())

    await bench.publish(b"one")
    await bench.subscribe(look)
    await bench.until(lambda: len(bench.seen) == 1)
    assert inside == [2]
    assert bench.seen == [(b"one", 1)]


async def test_rows_of_one_account_never_overlap(accounts: Bench) -> None:
    working: set[object] = set()
    overlapped: list[object] = []
    most = 0

    async def work(delivery: Delivery) -> None:
        nonlocal most
        account = delivery.row["account"]
        overlapped.extend([account] if account in working else [])
        working.add(account)
        most = max(most, len(working))
        await asyncio.sleep(0.005)
        working.discard(account)
        await delivery.settle(Nack() if delivery.attempt == 1 and delivery.payload == b"3" else Ack())

    for n in range(40):
        await accounts.publish(b"%d" % n, columns={"account": str(n % 4)})
    await accounts.subscribe(work, max_workers=3)
    await accounts.subscribe(work, max_workers=3)
    await accounts.until_rows(lambda rows: rows == [])
    assert overlapped == []
    assert most > 1, "accounts run side by side"
    assert sorted({int(payload) for payload, _ in accounts.seen}) == list(range(40))


async def test_a_thousand_rows_of_a_held_key_hide_nothing(accounts: Bench) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def work(delivery: Delivery) -> None:
        if delivery.payload == b"first":
            entered.set()
            await leave.wait()
        await delivery.settle(Ack())

    await accounts.publish(b"first", columns={"account": "busy"})
    await accounts.publish(*[b"waits"] * 1000, columns={"account": "busy"})
    await accounts.publish(b"behind", columns={"account": "free"})
    await accounts.subscribe(work, max_workers=2)
    await entered.wait()
    await accounts.until(lambda: (b"behind", 1) in accounts.seen)
    leave.set()


@pytest.mark.databases("postgres")
async def test_another_program_that_holds_the_lock_keeps_the_row_out(accounts: Bench, request: pytest.FixtureRequest) -> None:
    other = await asyncpg.connect(request.getfixturevalue("postgres_url"))
    await other.execute("SELECT pg_advisory_lock(hashtextextended('accounts-7', 0))")
    await accounts.publish(b"held", columns={"account": "7"})
    await accounts.publish(b"free", columns={"account": "8"})
    await accounts.subscribe()
    await accounts.until(lambda: accounts.seen == [(b"free", 1)])
    await other.close()
    await accounts.until(lambda: accounts.seen == [(b"free", 1), (b"held", 1)])


@pytest.mark.databases("postgres")
async def test_a_session_that_ends_loses_its_row_to_the_next_worker(bench: Bench, request: pytest.FixtureRequest) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    errors: list[BaseException] = []

    async def stuck(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            entered.set()
            await leave.wait()
            try:
                await delivery.settle(Ack())
            except LeaseLostError as error:
                errors.append(error)
        else:
            await delivery.settle(Ack())

    await bench.publish(b"one")
    await bench.subscribe(stuck, max_workers=2)
    await entered.wait()
    admin = await asyncpg.connect(request.getfixturevalue("postgres_url"))
    await admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = "
        "(SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    await admin.close()
    await bench.until(lambda: (b"one", 2) in bench.seen)
    leave.set()
    await bench.until(lambda: len(errors) == 1)
    assert bench.seen == [(b"one", 1), (b"one", 2)]
    await bench.until_rows(lambda rows: rows == [])


async def test_a_stop_lets_every_lock_go(bench: Bench, pair: Pair, request: pytest.FixtureRequest) -> None:
    entered = asyncio.Event()

    async def stuck(delivery: Delivery) -> None:
        entered.set()
        await asyncio.sleep(60)

    await bench.publish(b"one")
    subscription = await bench.subscribe(stuck)
    await entered.wait()
    await subscription.stop(0.05)
    (row,) = await bench.rows()
    assert row["attempt"] == 1, "the attempt is given back"
    if pair.database == "postgres":
        admin = await asyncpg.connect(request.getfixturevalue("postgres_url"))
        locks = await admin.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        await admin.close()
        assert locks == 0
    await bench.subscribe()
    await bench.until(lambda: (b"one", 1) in bench.seen[1:])
