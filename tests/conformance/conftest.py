"""Every (database, form) pair that is supported. A test that names `bench` or `make_bench` runs on each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from faststream_sql.drivers import open_pool
from faststream_sql.drivers.base import Pool
from faststream_sql.drivers.url import parse_url
from faststream_sql.table import QueueTable
from faststream_sql.testing.memory import MemoryPool
from tests.as_mysql import AsMySQL
from tests.conformance.bench import Bench, open_bench, queue_table


@dataclass(frozen=True)
class Pair:
    """A database and a form."""

    database: str
    form: str
    as_mysql: bool = False
    """MariaDB, taken for MySQL: the statements of MySQL's dialect run on both."""

    def __str__(self) -> str:
        return f"{self.database}-{self.form}" + ("-as MySQL" if self.as_mysql else "")


PAIRS = [
    Pair("memory", "lease"),
    Pair("memory", "row_lock"),
    Pair("sqlite", "lease"),
    Pair("postgres", "lease"),
    Pair("postgres", "row_lock"),
    Pair("memory", "advisory"),
    Pair("sqlite", "advisory"),
    Pair("postgres", "advisory"),
    Pair("mysql", "lease"),
    Pair("mysql", "row_lock"),
    Pair("mysql", "advisory"),
    *(Pair("mysql", form, as_mysql=True) for form in ("lease", "row_lock", "advisory")),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test runs on every pair, or on those that its marks `forms(...)` and `databases(...)` name."""
    if "pair" not in metafunc.fixturenames:
        return
    chosen = PAIRS
    for mark in metafunc.definition.iter_markers("forms"):
        chosen = [pair for pair in chosen if pair.form in mark.args]
    for mark in metafunc.definition.iter_markers("databases"):
        chosen = [pair for pair in chosen if pair.database in mark.args]
    marks = {"postgres": [pytest.mark.postgres], "mysql": [pytest.mark.mysql]}
    slow = {True: [pytest.mark.slow], False: []}
    params = [pytest.param(pair, id=str(pair), marks=[*marks.get(pair.database, []), *slow[pair.as_mysql]]) for pair in chosen]
    metafunc.parametrize("pair", params)


@pytest.fixture
def make_pool(pair: Pair, request: pytest.FixtureRequest) -> Callable[..., Pool]:
    """Makes pools on the pair's database; they reach the same rows."""
    if pair.database == "memory":
        shared = MemoryPool()
        return lambda **_: shared
    url = parse_url(request.getfixturevalue(f"{pair.database}_url"))
    kind: Callable[..., Pool] = AsMySQL if pair.as_mysql else open_pool
    return lambda **settings: kind(url, **{"size": 10, "acquire_timeout": 5.0, "command_timeout": 10.0, **settings})


@pytest.fixture
async def make_bench(pair: Pair, make_pool: Callable[..., Pool]) -> AsyncIterator[Callable[..., Awaitable[Bench]]]:
    """Makes benches on the pair's database and form: `changes` to the table by role, the rest are the engine's settings."""
    made: list[Bench] = []

    async def make(table: QueueTable | None = None, pool: dict[str, Any] | None = None, **settings: Any) -> Bench:
        bench = await open_bench(make_pool(**(pool or {})), table or queue_table(pair.form), **settings)
        made.append(bench)
        return bench

    yield make
    for bench in made:
        await bench.close()


@pytest.fixture
async def bench(make_bench: Callable[..., Awaitable[Bench]]) -> Bench:
    return await make_bench()
