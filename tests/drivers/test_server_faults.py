"""The pools of servers before ones that are wedged or away: everything ends in time, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import pytest

from faststream_sql.drivers.base import Use
from faststream_sql.errors import ClosedError, ConnectionLostError, PoolTimeoutError, UnavailableError
from tests.cancellation import Moment, cancelled_at
from tests.drivers.pools import CANARY, COMMAND, SCHEMES, assert_no_credential, pool_of, within
from tests.fault_proxy import FaultProxy, fault_proxy, silent_server
from tests.waiting import until

PORTS = {"postgres": 5432, "mysql": 3306}
SLEEP = {"postgres": "SELECT pg_sleep(0.5)", "mysql": "SELECT sleep(0.5)"}


@pytest.fixture(params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in SCHEMES])
def database(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def url(database: str, request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{database}_url")
    return found


@pytest.fixture
async def proxied(database: str, url: str) -> AsyncIterator[tuple[FaultProxy, str]]:
    at = urlsplit(url)
    async with fault_proxy(at.hostname or "", at.port or PORTS[database]) as (proxy, port):
        credentials, _, _ = at.netloc.rpartition("@")
        yield proxy, at._replace(netloc=f"{credentials}@127.0.0.1:{port}").geturl()


# --- a server that never answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES.values())
async def test_a_server_that_accepts_and_never_answers(scheme: str) -> None:
    async with silent_server() as port:
        pool = pool_of(f"{scheme}://bob:{CANARY}@127.0.0.1:{port}/app?connect_timeout=0.3")
        async with within(0.3):
            with pytest.raises(UnavailableError, match="no answer in time") as caught:
                await pool.open()
        assert_no_credential(caught.value, "bob", CANARY)
        async with within(0.0):
            await pool.close(5.0)


@pytest.mark.parametrize("scheme", SCHEMES.values())
async def test_a_connect_that_is_cancelled_and_a_pool_that_is_closed_meanwhile(scheme: str) -> None:
    async with silent_server() as port:
        pool = pool_of(f"{scheme}://bob@127.0.0.1:{port}/app?connect_timeout=20")
        opening = asyncio.create_task(pool.open())
        await asyncio.sleep(0.05)
        async with within(0.0):
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        async with within(0.0):
            await pool.close(5.0)


@pytest.mark.parametrize("ways", [("down",), ("up", "down")], ids=["answers are lost", "nothing goes through"])
async def test_a_session_that_goes_silent(proxied: tuple[FaultProxy, str], ways: tuple[str, ...]) -> None:
    proxy, url = proxied
    pool = pool_of(url)
    await pool.open()
    proxy.stall(*ways)
    async with within(COMMAND):
        with pytest.raises(ConnectionLostError, match="did not answer in"):
            async with pool.connection(Use.STATEMENT, "test") as connection:
                await connection.fetch("SELECT 1")
    proxy.resume()
    async with within(0.0), pool.connection(Use.STATEMENT, "test") as connection:
        assert [tuple(row) for row in await connection.fetch("SELECT 2")] == [(2,)], "the next one has a session of its own"
    await pool.close(1.0)


@pytest.mark.parametrize("statement", ["fetch", "execute", "script", "begin", "prepare", "columns"])
async def test_a_cancel_on_a_silent_session_is_bounded(proxied: tuple[FaultProxy, str], statement: str) -> None:
    proxy, url = proxied
    pool = pool_of(url, command_timeout=30.0)
    await pool.open()

    async def run() -> None:
        async with pool.connection(Use.STATEMENT, "test") as connection:
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "fetch": lambda: connection.fetch("SELECT 1"),
                "execute": lambda: connection.execute("SELECT 1"),
                "script": lambda: connection.script("SELECT 1"),
                "begin": connection.begin,
                "prepare": lambda: connection.prepare("SELECT 3"),
                "columns": lambda: connection.columns("jobs", None),
            }
            await calls[statement]()

    proxy.stall()
    running = asyncio.create_task(run())
    await asyncio.sleep(0.05)
    async with within(0.0):
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    proxy.resume()
    async with within(0.0), pool.connection(Use.STATEMENT, "test") as connection:
        assert not connection.broken
        assert await connection.execute("SELECT 1") == 1
    await pool.close(1.0)


async def test_a_cancel_while_a_long_statement_is_on_its_way_out(proxied: tuple[FaultProxy, str]) -> None:
    """What was not sent must not keep the socket open until a silent host takes it."""
    proxy, url = proxied
    pool = pool_of(url, command_timeout=30.0)
    await pool.open()
    proxy.stall()
    connection = await pool.acquire(Use.STATEMENT, "test")
    running = asyncio.create_task(connection.fetch("SELECT 1 -- " + "x" * 8_000_000))
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await pool.release(connection)
    proxy.resume()
    await until(lambda: not proxy.open)
    assert proxy.passed["up"] < 8_000_000, "the rest of the statement was dropped, not sent"
    await pool.close(1.0)


async def test_a_close_is_bounded_while_sessions_are_silent(proxied: tuple[FaultProxy, str]) -> None:
    proxy, url = proxied
    pool = pool_of(url, command_timeout=30.0)
    await pool.open()
    first, second = [await pool.acquire(Use.STATEMENT, "test") for _ in range(2)]
    await pool.release(second)  # idle, and silent
    proxy.stall()
    running = asyncio.create_task(first.fetch("SELECT 1"))  # in use, and silent
    async with within(2 * 0.5):
        await pool.close(0.5)
    with pytest.raises((ConnectionLostError, ClosedError)):
        await running
    with pytest.raises(ClosedError):
        await pool.acquire(Use.STATEMENT, "test")
    await pool.release(first)
    await pool.close(0.5)


async def test_a_release_in_a_transaction_on_a_silent_session_is_bounded(proxied: tuple[FaultProxy, str]) -> None:
    proxy, url = proxied
    pool = pool_of(url, command_timeout=30.0)
    await pool.open()
    connection = await pool.acquire(Use.STATEMENT, "test")
    await connection.begin()
    proxy.stall()
    async with within(1.0):
        await pool.release(connection)
    proxy.resume()
    async with pool.connection(Use.STATEMENT, "test") as other:
        assert other is not connection
        assert not other.in_transaction
    await pool.close(1.0)


async def test_a_reset_connection_costs_its_statement_alone(database: str, proxied: tuple[FaultProxy, str]) -> None:
    proxy, url = proxied
    pool = pool_of(url)
    await pool.open()
    async with pool.connection(Use.STATEMENT, "test") as connection:
        running = asyncio.create_task(connection.fetch(SLEEP[database]))
        await asyncio.sleep(0.05)
        proxy.cut()
        with pytest.raises(ConnectionLostError):
            await running
    async with pool.connection(Use.STATEMENT, "test") as connection:
        assert await connection.execute("SELECT 1") == 1
    await pool.close(1.0)


async def test_an_answer_that_stops_in_the_middle(proxied: tuple[FaultProxy, str]) -> None:
    proxy, url = proxied
    pool = pool_of(url)
    await pool.open()
    proxy.stall_after(2000)
    async with within(COMMAND):
        with pytest.raises(ConnectionLostError):
            async with pool.connection(Use.STATEMENT, "test") as connection:
                await connection.fetch("SELECT repeat('x', 100000)")
    proxy.resume()
    async with pool.connection(Use.STATEMENT, "test") as connection:
        assert [tuple(row) for row in await connection.fetch("SELECT 2")] == [(2,)]
    await pool.close(1.0)


async def test_waiters_are_told_who_holds_what(url: str) -> None:
    pool = pool_of(url, size=2, acquire_timeout=0.3, command_timeout=30.0)
    await pool.open()
    held = [await pool.acquire(Use.STATEMENT, f"publish {n}") for n in range(2)]
    async with within(0.3):
        with pytest.raises(PoolTimeoutError, match=r"the pool has 2, held by 1 x publish 0, 1 x publish 1"):
            await pool.acquire(Use.STATEMENT, "test")
    for connection in held:
        await pool.release(connection)
    await pool.close(1.0)


# --- a host that is lost ------------------------------------------------------------------------------------------------------------------


async def test_the_server_watches_over_sessions(postgres_url: str) -> None:
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
    for query, expected in (("", [20, 10, 3]), ("?tcp_keepalives_idle=7", [7, 10, 3])):
        pool = pool_of(postgres_url + query)
        await pool.open()
        async with pool.connection(Use.STATEMENT, "test") as connection:
            text = ", ".join(f"current_setting('{name}')::int" for name in names)
            ((*found,),) = await connection.fetch(f"SELECT {text}")
        await pool.close(1.0)
        assert found == expected


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_release_that_is_cancelled_leaves_nothing_behind(url: str, moment: Moment) -> None:
    pool = pool_of(url, size=1, command_timeout=10.0)
    await pool.open()
    for place in (1, 2):
        connection = await pool.acquire(Use.STATEMENT, "test")
        await connection.begin()
        reached, _ = await cancelled_at(pool.release(connection), place, moment)
        async with within(0.0), pool.connection(Use.STATEMENT, "test") as other:
            assert not other.in_transaction
            if reached:
                assert other is not connection
    await pool.close(1.0)


@pytest.mark.parametrize("moment", ["waiting", "woken"])
async def test_a_close_that_is_cancelled_leaves_no_session(url: str, moment: Moment) -> None:
    """The fixture looks for sessions that are left."""
    for place in range(1, 8):
        pool = pool_of(url)
        await pool.open()
        connections = [await pool.acquire(Use.STATEMENT, "test") for _ in range(2)]
        await pool.release(connections[0])
        await cancelled_at(pool.close(0.01), place, moment)
        await pool.release(connections[1])
