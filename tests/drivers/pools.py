"""Pools under test on servers, and what an error of theirs could give away."""

from __future__ import annotations

import socket
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from faststream_sql.drivers import open_pool
from faststream_sql.drivers.base import Connection, Pool, Use
from faststream_sql.drivers.url import parse_url
from faststream_sql.errors import DatabaseError, UnavailableError

CANARY = "s3cr3t-CANARY"
COMMAND = 0.4
MARGIN = 4.0
"""What a bound may be exceeded by on a machine under load: less than any wait that a test is there to rule out, 5 s or more."""

SCHEMES = {"postgres": "postgresql", "mysql": "mysql"}


def pool_of(url: str, **settings: float) -> Pool:
    return open_pool(parse_url(url), **{"size": 3, "acquire_timeout": 1.0, "command_timeout": COMMAND, **settings})


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    started = time.monotonic()
    yield
    taken = time.monotonic() - started
    assert taken < seconds + MARGIN, f"{taken:.2f} s, and {seconds} s are the bound"


@asynccontextmanager
async def opened(url: str, *, command_timeout: float = 10.0, size: int = 4) -> AsyncIterator[Pool]:
    pool = open_pool(parse_url(url), size=size, acquire_timeout=5.0, command_timeout=command_timeout)
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close(1.0)


async def fails(connection: Connection, text: str, *args: object) -> DatabaseError:
    with pytest.raises(DatabaseError) as caught:
        await connection.fetch(text, args)
    return caught.value


async def works(pool: Pool) -> None:
    async with pool.connection(Use.STATEMENT, "test") as connection:
        assert [tuple(row) for row in await connection.fetch("SELECT 1")] == [(1,)]


@asynccontextmanager
async def two(pool: Pool) -> AsyncIterator[tuple[Connection, Connection]]:
    async with pool.connection(Use.STATEMENT, "first") as first, pool.connection(Use.STATEMENT, "second") as second:
        yield first, second


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def failure_of(url: str) -> UnavailableError:
    """How it fails to open a pool there."""
    pool = pool_of(url)
    with pytest.raises(UnavailableError) as caught:
        await pool.open()
    await pool.close(1.0)
    return caught.value


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
        if "/tests/" not in part.filename:  # the tests' own frames hold the credential that they look for
            texts += [f"{part.name}: {name} = {value}" for name, value in (part.locals or {}).items()]
    return "\n".join([*texts, *traceback.format_exception(error)])


def reports(report: traceback.TracebackException | None) -> list[traceback.TracebackException]:
    return [] if report is None else [report, *reports(report.__cause__), *reports(report.__context__)]


def assert_no_credential(error: BaseException, *secrets: str) -> None:
    found = everything_in(error)
    for secret in secrets:
        assert secret not in found, found
