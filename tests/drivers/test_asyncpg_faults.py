"""asyncpg's pool before servers that are wedged, away or unwilling: everything ends in time, and no error holds a credential."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from faststream_sql.drivers import open_pool
from faststream_sql.drivers.base import Pool, Use
from faststream_sql.drivers.url import parse_url
from faststream_sql.errors import ClosedError, ConnectionLostError, PoolTimeoutError, UnavailableError
from tests.cancellation import Moment, cancelled_at
from tests.fault_proxy import FaultProxy, fault_proxy, silent_server
from tests.servers import PrivatePostgres, ServerUnavailableError, skip_without

CANARY = "s3cr3t-CANARY"
COMMAND = 0.4
MARGIN = 1.5
"""What a bound may be exceeded by on a machine under load."""


def pool_of(url: str, **settings: float) -> Pool:
    return open_pool(parse_url(url), **{"size": 3, "acquire_timeout": 1.0, "command_timeout": COMMAND, **settings})


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    started = time.monotonic()
    yield
    taken = time.monotonic() - started
    assert taken < seconds + MARGIN, f"{taken:.2f} s, and {seconds} s are the bound"


@pytest.fixture
async def proxied(postgres_url: str) -> AsyncIterator[tuple[FaultProxy, str]]:
    at = urlsplit(postgres_url)
    async with fault_proxy(at.hostname or "", at.port or 5432) as (proxy, port):
        credentials, _, _ = at.netloc.rpartition("@")
        yield proxy, at._replace(netloc=f"{credentials}@127.0.0.1:{port}").geturl()


# --- a server that never answers ---------------------------------------------------------------------------------------------------------


async def test_a_server_that_accepts_and_never_answers() -> None:
    async with silent_server() as port:
        pool = pool_of(f"postgresql://bob:{CANARY}@127.0.0.1:{port}/app?connect_timeout=0.3")
        async with within(0.3):
            with pytest.raises(UnavailableError, match="no answer in time") as caught:
                await pool.open()
        assert_no_credential(caught.value, "bob", CANARY)
        async with within(0.0):
            await pool.close(5.0)


async def test_a_connect_that_is_cancelled_and_a_pool_that_is_closed_meanwhile() -> None:
    async with silent_server() as port:
        pool = pool_of(f"postgresql://bob@127.0.0.1:{port}/app?connect_timeout=20")
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
        with pytest.raises(ConnectionLostError, match="did not answer in time"):
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


async def test_a_reset_connection_costs_its_statement_alone(proxied: tuple[FaultProxy, str]) -> None:
    proxy, url = proxied
    pool = pool_of(url)
    await pool.open()
    async with pool.connection(Use.STATEMENT, "test") as connection:
        running = asyncio.create_task(connection.fetch("SELECT pg_sleep(0.5)"))
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


async def test_waiters_are_told_who_holds_what(postgres_url: str) -> None:
    pool = pool_of(postgres_url, size=2, acquire_timeout=0.3, command_timeout=30.0)
    await pool.open()
    held = [await pool.acquire(Use.STATEMENT, f"publish {n}") for n in range(2)]
    async with within(0.3):
        with pytest.raises(PoolTimeoutError, match=r"the pool has 2, held by 1 x publish 0, 1 x publish 1"):
            await pool.acquire(Use.STATEMENT, "test")
    for connection in held:
        await pool.release(connection)
    await pool.close(1.0)


# --- connections that cannot be made ------------------------------------------------------------------------------------------------------


def everything_in(error: BaseException) -> str:
    """All that any report of the error could show: its texts, those of its causes and contexts, and the locals that come along."""
    texts: list[str] = []
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        texts += [str(one), repr(one), repr(one.args), repr(vars(one))]
        left += [one.__cause__, one.__context__]
    report = traceback.TracebackException.from_exception(error, capture_locals=True)
    for part in (frame for one in reports(report) for frame in one.stack):
        if part.filename != __file__:  # the test's own frames hold the credential that it looks for
            texts += [f"{part.name}: {name} = {value}" for name, value in (part.locals or {}).items()]
    return "\n".join([*texts, *traceback.format_exception(error)])


def reports(report: traceback.TracebackException | None) -> list[traceback.TracebackException]:
    return [] if report is None else [report, *reports(report.__cause__), *reports(report.__context__)]


def assert_no_credential(error: BaseException, *secrets: str) -> None:
    found = everything_in(error)
    for secret in secrets:
        assert secret not in found, found


async def failure_of(url: str) -> UnavailableError:
    pool = pool_of(url)
    with pytest.raises(UnavailableError) as caught:
        await pool.open()
    await pool.close(1.0)
    return caught.value


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_refused_port(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    port = unused_port()
    error = await failure_of(f"postgresql://bob_canary:{CANARY}@127.0.0.1:{port}/app")
    assert_no_credential(error, "bob_canary", CANARY)
    assert f"127.0.0.1:{port}" in str(error)
    assert CANARY not in caplog.text


async def test_a_name_that_leads_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error = await failure_of(f"postgresql://bob_canary:{CANARY}@no-such-host.invalid/app")
    assert_no_credential(error, "bob_canary", CANARY)
    assert "no-such-host.invalid" in str(error)
    assert CANARY not in caplog.text


@pytest.fixture(scope="module")
def password_server() -> Iterator[PrivatePostgres]:
    """A server that asks for passwords: a role per method, each with the password `right`."""
    try:
        with PrivatePostgres() as server:
            path, rules = asyncio.run(_ask_for_passwords(server))
            Path(path).write_text(rules)
            server.restart()
            yield server
    except ServerUnavailableError as error:
        skip_without(error)


async def _ask_for_passwords(server: PrivatePostgres) -> tuple[str, str]:
    connection = await asyncpg.connect(server.url())
    try:
        for method in ("md5", "scram-sha-256"):
            await connection.execute(f"SET password_encryption = '{method}'; CREATE ROLE \"bob-{method}\" LOGIN PASSWORD 'right'")
        path = await connection.fetchval("SHOW hba_file")
        administrator = await connection.fetchval("SELECT current_user")
        rules = [f'host all "bob-{method}" 127.0.0.1/32 {method}' for method in ("md5", "scram-sha-256")]
        return path, "\n".join([*rules, f'host all "{administrator}" 127.0.0.1/32 trust', ""])
    finally:
        await connection.close()


@pytest.mark.postgres
@pytest.mark.parametrize("method", ["md5", "scram-sha-256"])
async def test_passwords(password_server: PrivatePostgres, method: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    at = urlsplit(password_server.url("postgres"))
    where = f"{at.hostname}:{at.port}"
    wrong = await failure_of(f"postgresql://bob-{method}:{CANARY}@{where}/postgres")
    assert wrong.code == "28P01"
    nobody = await failure_of(f"postgresql://nobody-canary:{CANARY}@{where}/postgres")
    assert nobody.code == "28000"
    nowhere = await failure_of(f"postgresql://bob-{method}:right@{where}/no_such_database")
    assert nowhere.code == "3D000"
    for error in (wrong, nobody, nowhere):
        assert_no_credential(error, f"bob-{method}", "nobody-canary", CANARY, ":right@")
        assert where in str(error)
    assert "no_such_database" in str(nowhere)
    assert CANARY not in caplog.text
    pool = pool_of(f"postgresql://bob-{method}:right@{where}/postgres")
    await pool.open()
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
async def test_a_release_that_is_cancelled_leaves_nothing_behind(postgres_url: str, moment: Moment) -> None:
    pool = pool_of(postgres_url, size=1, command_timeout=10.0)
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
async def test_a_close_that_is_cancelled_leaves_no_session(postgres_url: str, moment: Moment) -> None:
    """The fixture looks for sessions that are left."""
    for place in range(1, 8):
        pool = pool_of(postgres_url)
        await pool.open()
        connections = [await pool.acquire(Use.STATEMENT, "test") for _ in range(2)]
        await pool.release(connections[0])
        await cancelled_at(pool.close(0.01), place, moment)
        await pool.release(connections[1])
