"""A service in a module of its own, and the command line run on it."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from faststream_sql import SQLBroker
from faststream_sql.cli import main
from tests.conformance.conftest import PAIRS

DATABASES = sorted({pair.database for pair in PAIRS} - {"memory"})
_numbers = itertools.count()
T = TypeVar("T")


class Result(NamedTuple):
    """What a command said, and its exit status."""

    status: int
    out: str
    err: str


class Service(NamedTuple):
    """A module with a broker."""

    name: str
    url: str

    @property
    def target(self) -> str:
        return f"{self.name}:broker"

    @property
    def broker(self) -> SQLBroker:
        return importlib.import_module(self.name).broker

    def do(self, work: Callable[[SQLBroker], Awaitable[T]]) -> T:
        """Work on its broker, connected, in a loop of its own."""

        async def connect_and_work() -> T:
            try:
                await self.broker.connect()
                return await work(self.broker)
            finally:
                await self.broker.stop()

        return asyncio.run(connect_and_work())

    def create_tables(self) -> None:
        self.do(lambda broker: broker.create_tables())

    def sql(self, text: str) -> None:
        async def run(broker: SQLBroker) -> None:
            async with broker.engine.pool.connection(_statement(), "test") as connection:
                await connection.script(text)

        self.do(run)

    def moment(self, when: datetime) -> str:
        """A moment as the recommended column of the database takes it."""
        match self.url.partition(":")[0]:
            case "sqlite":
                return f"'{when:%Y-%m-%dT%H:%M:%S.%f}+00:00'"
            case "postgresql":
                return f"'{when:%Y-%m-%d %H:%M:%S.%f}+00'"
            case _:
                return f"'{when:%Y-%m-%d %H:%M:%S.%f}'"

    def rows(self, columns: str, table: str = "faststream_queue") -> list[tuple[Any, ...]]:
        async def run(broker: SQLBroker) -> list[tuple[Any, ...]]:
            async with broker.engine.pool.connection(_statement(), "test") as connection:
                return [tuple(row) for row in await connection.fetch(f"SELECT {columns} FROM {table} ORDER BY id")]

        return self.do(run)


def _statement() -> Any:
    from faststream_sql.drivers.base import Use

    return Use.STATEMENT


@pytest.fixture(params=[pytest.param(name, marks=[getattr(pytest.mark, name)] if name != "sqlite" else []) for name in DATABASES])
def database_url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Runs a command in the test's folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("DATABASE_URL", "PGPASSWORD", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Result:
        capfd.readouterr()
        status = main(arguments)
        return Result(status, *capfd.readouterr())

    return run


@pytest.fixture
def make_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Service]]:
    """Writes a module with a broker on a database; `body` follows it."""
    before = list(sys.path)
    made: list[str] = []

    def make(body: str, url: str = "sqlite:///service.db", options: str = "") -> Service:
        name = f"service_{next(_numbers)}"
        head = "from faststream_sql import *\nfrom faststream_sql import SQLBroker, QueueTable, SQLRouter\n"
        (tmp_path / f"{name}.py").write_text(f"{head}broker = SQLBroker({url!r}, logger=None, {options})\n{body}\n")
        made.append(name)
        importlib.invalidate_caches()
        return Service(name, url)

    monkeypatch.syspath_prepend(str(tmp_path))
    yield make
    sys.path[:] = before
    for name in made:
        sys.modules.pop(name, None)


EMAILS = """
@broker.subscriber("emails", max_attempts=5, dead_letter="emails.dead")
async def send(to: str) -> None: ...
"""
