"""SQLite's pool under cancellation, timeouts and rivals for the write lock: nothing is left locked, and the next operation works."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faststream_sql.drivers import open_pool
from faststream_sql.drivers.base import Connection, Pool, Query, Use
from faststream_sql.drivers.url import parse_url
from faststream_sql.errors import ConnectionLostError, TransientError
from tests.conformance.bench import open_bench, queue_table

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "t.db"
    with sqlite3.connect(found) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, value INTEGER NOT NULL)")
        database.execute("INSERT INTO t VALUES (1, 0)")
    database.close()
    return found


class Rival:
    """Another process that has the write lock."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.processes.lock_holder", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._expect("LOCKED\n")

    def _expect(self, line: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == line

    def let_go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._expect("FREE\n")

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture
def rival(path: Path) -> Iterator[Rival]:
    held = Rival(path)
    yield held
    held.end()


@pytest.fixture
async def pool(path: Path) -> AsyncIterator[Pool]:
    opened = open_pool(parse_url(f"sqlite:///{path}"), size=1, acquire_timeout=10.0, command_timeout=20.0)
    await opened.open()
    yield opened
    await opened.close(1.0)


def write_from_outside(path: Path, timeout: float = 0.0) -> None:
    """Raises where somebody holds the write lock."""
    database = sqlite3.connect(path, timeout=timeout, isolation_level=None)
    try:
        database.execute("BEGIN IMMEDIATE")
        database.execute("ROLLBACK")
    finally:
        database.close()


async def value(pool: Pool) -> int:
    async with pool.connection(Use.STATEMENT, "test") as connection:
        ((found,),) = await connection.fetch("SELECT value FROM t")
        assert isinstance(found, int)
        return found


async def claim_like(connection: Connection) -> None:
    await connection.select_then_write(Query("SELECT id FROM t"), lambda rows: [Query("UPDATE t SET value = value + 1")])


async def begin(connection: Connection) -> None:
    await connection.begin()


async def update(connection: Connection) -> None:
    await connection.execute("UPDATE t SET value = value + 1")


async def script(connection: Connection) -> None:
    await connection.script("BEGIN IMMEDIATE; UPDATE t SET value = value + 1; COMMIT")


@pytest.mark.parametrize("work", [claim_like, begin, update, script])
async def test_a_cancel_while_another_process_has_the_lock(pool: Pool, path: Path, rival: Rival, work: Any) -> None:
    async def run() -> None:
        async with pool.connection(Use.STATEMENT, "test") as connection:
            await work(connection)

    waiting = asyncio.create_task(run())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.sleep(0)
    rival.let_go()  # SQLite does not leave a wait for the lock when it is told to
    with pytest.raises(asyncio.CancelledError):
        await waiting
    write_from_outside(path)
    assert await value(pool) in {0, 1}, "it ran, or it did not"
    async with pool.connection(Use.STATEMENT, "test") as connection:
        assert not connection.in_transaction
        await claim_like(connection)
    write_from_outside(path)


async def test_a_cancelled_wait_for_a_lock_ends_with_the_busy_timeout(path: Path, rival: Rival) -> None:
    pool = open_pool(parse_url(f"sqlite:///{path}?timeout=0.3"), size=1, acquire_timeout=10.0, command_timeout=20.0)
    await pool.open()

    async def run() -> None:
        async with pool.connection(Use.STATEMENT, "test") as connection:
            await claim_like(connection)

    waiting = asyncio.create_task(run())
    await asyncio.sleep(0.05)
    waiting.cancel()
    done, _ = await asyncio.wait([waiting], timeout=10.0)
    assert done, "it waits neither for the lock nor for the command timeout of 20 s"
    rival.let_go()
    assert await value(pool) == 0
    await pool.close(1.0)


async def test_a_cancel_in_every_place(pool: Pool, path: Path) -> None:
    """A write that is cancelled is done, or is not; never half, and never in the way of the next one."""
    before = 0
    for turn in range(60):

        async def run() -> None:
            async with pool.connection(Use.STATEMENT, "test") as connection:
                await connection.begin()
                await update(connection)
                await connection.commit()

        running = asyncio.create_task(run())
        for _ in range(turn % 30):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        after = await value(pool)
        assert after in {before, before + 1}
        write_from_outside(path)
        before = after


async def test_a_statement_without_end_is_interrupted_and_the_next_one_works(path: Path) -> None:
    pool = open_pool(parse_url(f"sqlite:///{path}"), size=1, acquire_timeout=5.0, command_timeout=0.2)
    await pool.open()
    for _ in range(2):
        async with pool.connection(Use.STATEMENT, "test") as connection:
            await connection.begin()
            await update(connection)
            with pytest.raises(ConnectionLostError, match=r"did not answer in 0\.2 s"):
                await connection.fetch(ENDLESS)
            assert connection.broken
        write_from_outside(path)
        assert await value(pool) == 0
    await pool.close(1.0)


async def test_a_statement_without_end_does_not_hold_up_the_close(path: Path) -> None:
    pool = open_pool(parse_url(f"sqlite:///{path}"), size=1, acquire_timeout=5.0, command_timeout=30.0)
    await pool.open()
    connection = await pool.acquire(Use.STATEMENT, "test")
    await connection.begin()
    running = asyncio.create_task(connection.fetch(ENDLESS))
    await asyncio.sleep(0.05)
    await asyncio.wait_for(pool.close(0.2), 15.0)  # half of the command timeout, which is what it must not wait for
    with pytest.raises(ConnectionLostError):
        await asyncio.wait_for(running, 5.0)
    await pool.release(connection)
    write_from_outside(path)


async def test_a_lock_that_is_never_let_go_is_a_busy_file(path: Path, rival: Rival) -> None:
    pool = open_pool(parse_url(f"sqlite:///{path}?timeout=0.1"), size=1, acquire_timeout=5.0, command_timeout=5.0)
    await pool.open()
    async with pool.connection(Use.STATEMENT, "test") as connection:
        with pytest.raises(TransientError):
            await claim_like(connection)
        assert not connection.broken
        rival.let_go()
        await claim_like(connection)
    await pool.close(1.0)


async def test_bad_utf8_is_its_own_rows_trouble(pool: Pool, path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, body TEXT)")
        database.execute("INSERT INTO texts VALUES (1, 'good'), (2, CAST(x'ff61' AS TEXT)), (3, 'good too')")
    database.close()
    async with pool.connection(Use.STATEMENT, "test") as connection:
        assert await connection.fetch("SELECT id, body FROM texts ORDER BY id") == [(1, "good"), (2, b"\xffa"), (3, "good too")]


async def test_bad_utf8_among_rows_claimed_together(tmp_path: Path) -> None:
    table = replace(queue_table("lease"), name="texts")
    pool = open_pool(parse_url(f"sqlite:///{tmp_path}/texts.db"), size=1, acquire_timeout=5.0, command_timeout=5.0)
    bench = await open_bench(pool, table)
    await bench.sql("DROP TABLE texts")
    await bench.sql(
        "CREATE TABLE texts (id INTEGER PRIMARY KEY, name TEXT NOT NULL, priority INTEGER NOT NULL DEFAULT 0, retry_after TEXT NOT NULL,"
        " attempt INTEGER NOT NULL DEFAULT 1, headers TEXT, payload TEXT, locked_until TEXT)"
    )
    bodies = {1: "'good'", 2: "CAST(x'ff61' AS TEXT)", 3: "'good too'"}
    for row_id, body in bodies.items():
        await bench.sql(
            f"INSERT INTO texts (id, name, retry_after, headers, payload)"
            f" VALUES ({row_id}, 'jobs', '2020-01-01T00:00:00.000000+00:00', CAST(x'7bff' AS TEXT), {body})"
        )
    await bench.subscribe(prefetch=5, max_workers=1)
    await bench.until(lambda: len(bench.deliveries) == 3)
    assert [(delivery.payload, delivery.attempt) for delivery in bench.deliveries] == [("good", 1), (b"\xffa", 1), ("good too", 1)]
    await bench.until_rows(lambda rows: rows == [])
    await bench.close()


async def test_a_close_twice_and_an_acquire_after_it(path: Path) -> None:
    pool = open_pool(parse_url(f"sqlite:///{path}"), size=1, acquire_timeout=1.0, command_timeout=1.0)
    await pool.open()
    await pool.close(1.0)
    await pool.close(1.0)
    await pool.open()
    assert await value(pool) == 0
    await pool.close(1.0)


# --- processes ----------------------------------------------------------------------------------------------------------------------------

WAYS = {
    "returns": "await broker.start()",
    "raises": "await broker.start(); raise RuntimeError('at startup')",
    "exits": "await broker.start(); sys.exit(3)",
    "returns with a statement under way": "await broker.start(); asyncio.create_task(endless(broker)); await asyncio.sleep(0.2)",
    "fails to start": "await broker.start(); await SQLBroker('sqlite:////nowhere/at/all.db').start()",
    "is cancelled while it connects": "await asyncio.wait_for(broker.start(), 0.000001)",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_process_whose_main_ends_without_a_stop_exits(tmp_path: Path, way: str) -> None:
    script = f"""
import asyncio, sys
from faststream_sql import SQLBroker
from faststream_sql.drivers.base import Use
async def endless(broker):
    async with broker.engine.pool.connection(Use.STATEMENT, "test") as connection:
        await connection.fetch({ENDLESS!r})
async def main():
    broker = SQLBroker("sqlite:///{tmp_path}/t.db", logger=None)
    await broker.create_tables()
    @broker.subscriber("jobs")
    async def handle(body: str) -> None: ...
    {WAYS[way]}
asyncio.run(main())
"""
    # the limit is below the command timeout of 30 s, which the endless statement would otherwise run into
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=25, check=False)
    assert ended.returncode == {"returns": 0, "returns with a statement under way": 0, "exits": 3}.get(way, 1), ended.stderr


WRITER = """
import asyncio, sys
from faststream_sql.drivers import open_pool
from faststream_sql.drivers.base import Query, Use
from faststream_sql.drivers.url import parse_url
async def main():
    pool = open_pool(parse_url(sys.argv[1]), size=1, acquire_timeout=30.0, command_timeout=30.0)
    await pool.open()
    print("READY", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        async with pool.connection(Use.STATEMENT, "test") as connection:
            await connection.select_then_write(Query("SELECT id FROM t"), lambda rows: [Query("UPDATE t SET value = value + 1")])
    await pool.close(1.0)
asyncio.run(main())
"""


def test_four_processes_wait_for_one_lock(path: Path) -> None:
    turns = 150
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, f"sqlite:///{path}", str(turns)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "READY\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=50)
        assert writer.returncode == 0, "nobody waited for as long as the busy timeout, which is an error"
    database = sqlite3.connect(path)
    assert database.execute("SELECT value FROM t").fetchone() == (4 * turns,)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
