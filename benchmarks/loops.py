"""Hand-written loops on the raw drivers: what a service would write without a broker. They decode nothing."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from pathlib import Path

import aiosqlite
import asyncpg

from benchmarks.common import BODY, Figure, Stopwatch, run_tasks

TABLE = (
    "CREATE TABLE bench_raw (id BIGSERIAL PRIMARY KEY, name TEXT NOT NULL, retry_after TIMESTAMPTZ NOT NULL, attempt INT NOT NULL, "
    "locked_until TIMESTAMPTZ, payload BYTEA NOT NULL)"
)
SELECT = "SELECT id, payload FROM bench_raw WHERE name = 'q' AND retry_after <= $1 ORDER BY retry_after, id LIMIT 1 FOR UPDATE SKIP LOCKED"
CLAIM = (
    "WITH picked AS MATERIALIZED (SELECT id FROM bench_raw WHERE name = 'q' AND retry_after <= $1 "
    "AND (locked_until IS NULL OR locked_until <= $1) "
    "ORDER BY retry_after, id LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED) UPDATE bench_raw t SET locked_until = $2, attempt = attempt + 1 "
    "FROM picked WHERE t.id = picked.id RETURNING t.id, t.payload"
)


async def _fill(url: str, messages: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("DROP TABLE IF EXISTS bench_raw")
    await connection.execute(TABLE)
    await connection.execute("CREATE INDEX ON bench_raw (name, retry_after, id)")
    await connection.execute(
        "INSERT INTO bench_raw (name, retry_after, attempt, payload) SELECT 'q', now(), 1, $1 FROM generate_series(1, $2)", BODY, messages
    )
    await connection.execute("VACUUM ANALYZE bench_raw")
    await connection.close()


async def raw_row_lock(url: str, messages: int, tasks: int) -> Figure:
    await _fill(url, messages)
    watch = Stopwatch(messages)

    async def work() -> None:
        connection = await asyncpg.connect(url)
        while True:
            await connection.execute("BEGIN")
            row = await connection.fetchrow(SELECT, datetime.now(timezone.utc))
            if row is None:
                await connection.execute("COMMIT")
                break
            await connection.execute("DELETE FROM bench_raw WHERE id = $1", row[0])
            await connection.execute("COMMIT")
            watch.tick()
        await connection.close()

    await run_tasks(tasks, work)
    return watch.figure()


ADVISORY = (
    "SELECT id, key FROM (SELECT id, hashtextextended('bench-' || id::text, 0) AS key FROM bench_raw "
    "WHERE name = 'q' AND retry_after <= $1 ORDER BY retry_after, id LIMIT 16) c WHERE pg_try_advisory_lock(key) LIMIT 1"
)
TAKE = "UPDATE bench_raw SET attempt = attempt + 1 WHERE id = $1 AND retry_after <= $2 RETURNING payload"


async def raw_advisory(url: str, messages: int, tasks: int) -> Figure:
    """Four round trips: try the keys, take the row, delete it, let the key go."""
    await _fill(url, messages)
    watch = Stopwatch(messages)

    async def work() -> None:
        connection = await asyncpg.connect(url)
        while watch.count < messages:
            now = datetime.now(timezone.utc)
            row = await connection.fetchrow(ADVISORY, now)
            if row is None:
                await asyncio.sleep(0.001)  # the last rows are others'
                continue
            if await connection.fetchrow(TAKE, row[0], now):
                await connection.execute("DELETE FROM bench_raw WHERE id = $1", row[0])
                watch.tick()
            await connection.fetchrow("SELECT pg_advisory_unlock($1)", row[1])
        await connection.close()

    await run_tasks(tasks, work)
    return watch.figure()


async def raw_lease(url: str, messages: int, batch: int) -> Figure:
    await _fill(url, messages)
    watch = Stopwatch(messages)
    connection = await asyncpg.connect(url)
    while True:
        now = datetime.now(timezone.utc)
        rows = await connection.fetch(CLAIM, now, now + timedelta(seconds=30), batch)
        if not rows:
            break
        await connection.execute("DELETE FROM bench_raw WHERE id = ANY($1::bigint[])", [row[0] for row in rows])
        for _ in rows:
            watch.tick()
    await connection.close()
    return watch.figure()


async def raw_sqlite_lease(path: Path, messages: int, batch: int) -> Figure:
    watch = Stopwatch(messages)
    async with aiosqlite.connect(path, isolation_level=None) as db:
        await db.execute("PRAGMA journal_mode = WAL")
        await db.execute("DROP TABLE IF EXISTS bench_raw")
        await db.execute("CREATE TABLE bench_raw (id INTEGER PRIMARY KEY, name TEXT, due INT, attempt INT, until INT, payload BLOB)")
        await db.execute("CREATE INDEX bench_raw_due ON bench_raw (name, due, id)")
        await db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "INSERT INTO bench_raw (name, due, attempt, payload) SELECT 'q', 0, 1, ? FROM n",
            (messages, BODY),
        )
        while True:
            rows = await db.execute_fetchall(
                "UPDATE bench_raw SET until = 1, attempt = attempt + 1 WHERE id IN (SELECT id FROM bench_raw WHERE name = 'q' AND due <= 1 "
                "AND until IS NULL ORDER BY due, id LIMIT ?) RETURNING id, payload",
                (batch,),
            )
            found = list(rows)
            if not found:
                break
            await db.execute(f"DELETE FROM bench_raw WHERE id IN ({','.join('?' * len(found))})", [row[0] for row in found])
            for _ in found:
                watch.tick()
    return watch.figure()
