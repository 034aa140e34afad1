"""Fixtures of the whole suite: databases to work in, and the check that a test leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import Database, MySQLDatabase, PostgresDatabase
from tests.servers import ServerUnavailableError, mysql_server, postgres_server, skip_without

MARKED = {"postgres_database": "postgres", "postgres_url": "postgres", "mysql_database": "mysql", "mysql_url": "mysql"}
GRACE_SECONDS = 1.0

LEFT_TO_CI = (
    ("tests/conformance/", "mysql-row_lock"),
    ("tests/conformance/", "mysql-advisory"),
    ("tests/conformance/", "postgres-advisory"),
    ("tests/citizen/", "postgres"),
    ("tests/citizen/", "sqlite"),
    ("tests/docs/", "_on_"),
    ("tests/processes/", "test_restart"),
    ("tests/unit/", "test_servers"),
    ("tests/unit/", "test_plans_mysql"),
)
"""Tests, by a part of their path and a word of their name, that are marked slow: the suite of every day stays short, CI runs them all."""

# A loaded machine draws examples slowly, which says nothing of the code.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    """With several workers the servers are started before them, once for all."""
    if not getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
        return
    for start in (postgres_server, mysql_server):
        with contextlib.suppress(ServerUnavailableError):  # the tests that want it say so
            start()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in {MARKED[name] for name in getattr(item, "fixturenames", ()) if name in MARKED}:
            item.add_marker(mark)
        if any(part in item.nodeid and word in item.nodeid for part, word in LEFT_TO_CI):
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    # What is imported by now stays: with it out of the way, the collection after each test takes a few milliseconds.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def postgres_database() -> Iterator[PostgresDatabase]:
    """A database of this module's own: `.url`, and methods that look into it."""
    try:
        database = PostgresDatabase(postgres_server())
    except ServerUnavailableError as error:
        skip_without(error)
    database.create()
    yield database
    database.drop()


@pytest.fixture
def postgres_url(postgres_database: PostgresDatabase) -> Iterator[str]:
    """The URL of an empty Postgres database. Whatever is in it after the test is dropped; open sessions fail the test."""
    yield from _clean(postgres_database)


@pytest.fixture(scope="module")
def mysql_database() -> Iterator[MySQLDatabase]:
    """As `postgres_database`, on MySQL or MariaDB."""
    try:
        database = MySQLDatabase(mysql_server())
    except ServerUnavailableError as error:
        skip_without(error)
    database.create()
    yield database
    database.drop()


@pytest.fixture
def mysql_url(mysql_database: MySQLDatabase) -> Iterator[str]:
    """As `postgres_url`, on MySQL or MariaDB."""
    yield from _clean(mysql_database)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'test.db'}"


def _clean(database: Database) -> Iterator[str]:
    yield database.url
    leaks = database.leaks_after_grace()
    database.empty()
    if leaks:
        pytest.fail("left in the database:\n" + "\n".join(leaks), pytrace=False)


@pytest.fixture(autouse=True)
def no_thread_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Torn down after the event loop, whose end stops the threads of its executor."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + GRACE_SECONDS
    while left := [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]:
        if time.monotonic() > deadline:
            pytest.fail(f"threads left running: {left}", pytrace=False)
        time.sleep(0.01)
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        gc.collect()  # what is open and unreachable warns now, and so fails this test and not another


@pytest.fixture(autouse=True)
def no_task_left(no_thread_left: None, request: pytest.FixtureRequest) -> None:
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("no_pending_task")


@pytest.fixture
async def no_pending_task() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    deadline = time.monotonic() + GRACE_SECONDS
    while left := asyncio.all_tasks() - before - {asyncio.current_task()}:
        if time.monotonic() > deadline:
            pytest.fail("tasks left pending:\n" + "\n".join(map(repr, left)), pytrace=False)
        await asyncio.sleep(0.01)
