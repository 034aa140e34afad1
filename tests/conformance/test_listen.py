"""`listen_notify`: wake-ups from other processes, each stood in for by an engine with a pool of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import asyncpg
import pytest

from faststream_sql.drivers import open_pool
from faststream_sql.drivers.url import parse_url
from faststream_sql.engine import notify
from faststream_sql.errors import DeclarationError
from faststream_sql.table import QueueTable
from tests.conformance.bench import Bench, open_bench, queue_table
from tests.fault_proxy import fault_proxy
from tests.waiting import until

MakeBench = Callable[..., Awaitable[Bench]]
FAR = 3600.0


pytestmark = pytest.mark.forms("lease")
on_postgres = pytest.mark.databases("postgres")


@pytest.mark.databases("sqlite", "memory")
async def test_it_is_refused_where_the_database_sends_no_notifications(make_bench: MakeBench) -> None:
    bench = await make_bench(listen_notify=True)
    with pytest.raises(DeclarationError, match="listen_notify=True needs Postgres"):
        await bench.subscribe()


async def make_two(make_bench: MakeBench) -> tuple[Bench, Bench]:
    return await make_bench(listen_notify=True), await make_bench(listen_notify=True)


async def listening(url: str) -> int:
    admin = await asyncpg.connect(url)
    try:
        found: int = await admin.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
        )
        return found
    finally:
        await admin.close()


async def until_listening(url: str) -> None:
    for _ in range(1000):
        if await listening(url):
            return
        await asyncio.sleep(0.01)
    pytest.fail("nobody listens")


@on_postgres
async def test_a_publish_of_another_process_wakes_the_subscription(make_bench: MakeBench, request: pytest.FixtureRequest) -> None:
    here, there = await make_two(make_bench)
    await here.subscribe(poll_interval=FAR)
    await until_listening(request.getfixturevalue("postgres_url"))
    await asyncio.sleep(0.1)  # the looks at the start are over
    await there.publish(b"one")
    await here.until(lambda: here.seen == [(b"one", 1)])
    await there.publish(b"two", b"three")
    await here.until(lambda: len(here.seen) == 3)


@on_postgres
async def test_a_publish_in_the_callers_transaction_wakes_at_its_commit(make_bench: MakeBench, request: pytest.FixtureRequest) -> None:
    from faststream_sql.engine import NewRow

    here, there = await make_two(make_bench)
    url = request.getfixturevalue("postgres_url")
    await here.subscribe(poll_interval=FAR)
    await until_listening(url)
    await asyncio.sleep(0.1)
    own = await asyncpg.connect(url)
    async with own.transaction():
        await there.engine.insert(there.table, [NewRow(group="jobs", payload=b"one")], connection=own)
        assert here.seen == []
    await here.until(lambda: here.seen == [(b"one", 1)])
    await own.close()


@on_postgres
async def test_a_listener_that_is_cut_off_comes_back_and_everyone_looks_once(make_bench: MakeBench, request: pytest.FixtureRequest) -> None:
    here, there = await make_two(make_bench)
    url = request.getfixturevalue("postgres_url")
    await here.subscribe(poll_interval=FAR)
    await until_listening(url)
    await asyncio.sleep(0.1)
    admin = await asyncpg.connect(url)
    await admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    )
    await there.publish(b"missed")
    await here.until(lambda: here.seen == [(b"missed", 1)])
    await until_listening(url)
    await there.publish(b"heard")
    await here.until(lambda: len(here.seen) == 2)
    assert await admin.fetchval("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND xact_start IS NOT NULL") == 0
    await admin.close()


@on_postgres
async def test_a_listener_that_hears_nothing_more_is_replaced(
    make_bench: MakeBench, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its peer is gone without a word: the probe finds out, and what was published meanwhile is looked for once."""
    monkeypatch.setattr(notify, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(notify, "PROBE_TIMEOUT_SECONDS", 0.2)
    at = urlsplit(postgres_url)
    there = await make_bench(listen_notify=True)
    async with fault_proxy(at.hostname or "", at.port or 5432) as (proxy, port):
        credentials, _, _ = at.netloc.rpartition("@")
        url = parse_url(at._replace(netloc=f"{credentials}@127.0.0.1:{port}").geturl())
        here = await open_bench(open_pool(url, size=3, acquire_timeout=5.0, command_timeout=10.0), queue_table("lease"), listen_notify=True)
        await here.subscribe(poll_interval=FAR)
        await until_listening(postgres_url)
        await asyncio.sleep(0.05)  # the looks at the start are over
        proxy.stall()
        await there.publish(b"meanwhile")
        await until(lambda: [text for _, text in here.logged if "the listening session ended" in text])
        proxy.resume()
        await here.until(lambda: here.seen == [(b"meanwhile", 1)])
        await there.publish(b"after")
        await here.until(lambda: len(here.seen) == 2)
        assert len(here.logged) == 1
        await here.close()


@on_postgres
async def test_odd_notifications_do_no_harm(make_bench: MakeBench, request: pytest.FixtureRequest) -> None:
    here, there = await make_two(make_bench)
    url = request.getfixturevalue("postgres_url")
    await here.subscribe(poll_interval=FAR)
    await until_listening(url)
    admin = await asyncpg.connect(url)
    for payload in ("", "no such group", "x" * 7999):
        await admin.execute("SELECT pg_notify('jobs', $1)", payload)
    await admin.close()
    await there.publish(b"one")
    await here.until(lambda: here.seen == [(b"one", 1)])


@on_postgres
async def test_a_channel_that_postgres_would_cut_short_is_refused(make_bench: MakeBench) -> None:
    long = QueueTable("t" * 40, id="id", group="g", locked_until="l", payload="p", schema="s" * 40)
    bench = await make_bench(listen_notify=True)
    with pytest.raises(DeclarationError, match="63 bytes"):
        await bench.engine.listen(long)
    assert queue_table("lease").qualified_name == "jobs"
