"""What the statements on MariaDB scan: by the planner's own word, and by the server's count of the rows that it read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from faststream_sql.dialects import dialect_for
from faststream_sql.dialects.base import (
    GroupSelectThenWrite,
    Guarded,
    LeaseStatements,
    LockThenTake,
    RowLockStatements,
    SelectThenWrite,
    Statement,
)
from faststream_sql.dialects.mysql import Several
from faststream_sql.drivers import open_pool
from faststream_sql.drivers.base import Connection, Use
from faststream_sql.drivers.url import parse_url
from faststream_sql.table import QueueTable
from tests.conformance.bench import queue_table

ROWS = 20_000
FEW = 300
"""How many rows a claim of one may read, whatever stands in the table: its own, and the first of each priority."""
DIALECT = dialect_for("mariadb")
NOW = datetime.now(timezone.utc)


def tables() -> Iterator[QueueTable]:
    for form in ("lease", "row_lock", "advisory"):
        for changes in ({}, {"priority": None}, {"processed_at": "processed_at"}, {"partition_key": "key"}, {"fifo": True}):
            if not (form == "advisory" and "fifo" in changes):
                yield queue_table(form, **changes)


def describe(table: QueueTable) -> str:
    roles = [role for role in ("priority", "processed_at", "partition_key") if role in table.roles()]
    return "-".join([table.form, *roles, *(["fifo"] if table.fifo else [])])


def claims_of(table: QueueTable) -> list[Statement]:
    """The statements that a claim reads the table by."""
    types = DIALECT.recommended_types(table)
    if table.form == "row_lock":
        held = DIALECT.row_lock(table, types, None)
        return [held.claim, *([held.probe] if held.probe else [])]
    statements = (DIALECT.lease if table.form == "lease" else DIALECT.advisory)(table, types, None)
    match statements.claim:
        case SelectThenWrite(select, _, _):
            found = [select]
        case Guarded(probe, _, SelectThenWrite(select, _, _)):
            found = [probe, select]
        case LockThenTake(lock, _):
            found = [lock]
        case claim:
            raise AssertionError(claim)
    return [*found, *([statements.probe] if statements.probe else [])]


def values(*priorities: int) -> dict[str, Any]:
    return {"group": "jobs", "now": NOW, "limit": 1, "busy": Several(()), "steps": Several(priorities or (0,)), "known": priorities}


@pytest.fixture
async def connection(mysql_url: str) -> AsyncIterator[Connection]:
    pool = open_pool(parse_url(mysql_url), size=2, acquire_timeout=5.0, command_timeout=60.0)
    await pool.open()
    async with pool.connection(Use.STATEMENT, "test") as session:
        yield session
    await pool.close(5.0)


async def fill(connection: Connection, table: QueueTable, **columns: str) -> None:
    """Create the table, and put `ROWS` rows into it. `columns` is SQL by column, over the number `n` of the row; the rest is due."""
    for text in DIALECT.ddl(table):
        await connection.script(text)
    given = {"name": "'jobs'", "retry_after": "UTC_TIMESTAMP(6) - INTERVAL 1 HOUR", "payload": "'x'", **columns}
    await connection.script(
        f"INSERT INTO jobs ({', '.join(given)}) WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 99), "
        f"r (n) AS (SELECT 100 * a.i + b.i FROM d AS a, d AS b UNION ALL SELECT 10000 + 100 * a.i + b.i FROM d AS a, d AS b) "
        f"SELECT {', '.join(given.values())} FROM r WHERE n < {ROWS}"
    )


async def explain(connection: Connection, text: str, args: Any) -> list[dict[str, Any]]:
    names = ["id", "select_type", "table", "type", "possible_keys", "key", "key_len", "ref", "rows", "extra"]
    return [dict(zip(names, row, strict=True)) for row in await connection.fetch(f"EXPLAIN {text}", args)]


async def rows_read(connection: Connection, text: str, args: Any) -> tuple[int, list[Any]]:
    """How many index entries and rows the server read for a statement, and what it found."""

    async def total() -> int:
        return sum(int(row[1]) for row in await connection.fetch("SHOW SESSION STATUS LIKE 'Handler_read%%'"))

    asking = -(await total()) + await total()  # the question itself is counted
    before = await total()
    found = await connection.fetch(text, args)
    return await total() - before - asking, found


@pytest.mark.parametrize("analyzed", [False, True], ids=["", "analyzed"])
@pytest.mark.parametrize("table", list(tables()), ids=describe)
async def test_a_claim_walks_its_index(table: QueueTable, analyzed: bool, connection: Connection) -> None:
    await fill(connection, table)
    if analyzed:
        await connection.fetch("ANALYZE TABLE jobs")
    for statement in claims_of(table):
        text, args = statement.bind(values())
        for step in await explain(connection, text, args):
            if str(step["table"]).startswith("<") or step["table"] is None:
                continue  # what other steps found
            assert step["key"] in {"jobs_claim", "jobs_leases", "PRIMARY"}, (text, step)
            assert step["type"] in {"ref", "range", "const", "eq_ref"}, (text, step)
            assert "filesort" not in step["extra"], (text, step)
            assert "temporary" not in step["extra"], (text, step)
            if not table.fifo and statement.purpose == "claim":
                # from the index alone, the planner would rather walk a large group than the ranges of its priorities
                assert "Using index" not in step["extra"].split("; "), (text, step)
        read, found = await rows_read(connection, text, args)
        assert found, text
        assert read <= FEW, text
    await connection.fetch("SELECT RELEASE_ALL_LOCKS()")


@pytest.mark.parametrize("analyzed", [False, True], ids=["", "analyzed"])
@pytest.mark.parametrize("table", [table for table in tables() if table.priority and not table.fifo], ids=describe)
async def test_rows_of_a_better_priority_that_are_not_due_cost_nothing(table: QueueTable, analyzed: bool, connection: Connection) -> None:
    due = f"UTC_TIMESTAMP(6) + INTERVAL IF(n < {ROWS // 2}, 1, -1) HOUR"
    await fill(connection, table, priority=f"IF(n < {ROWS // 2}, 0, 1 + n % 9)", retry_after=due)
    if analyzed:
        await connection.fetch("ANALYZE TABLE jobs")
    for statement in claims_of(table):
        read, found = await rows_read(connection, *statement.bind(values(*range(10))))
        assert found
        assert read <= FEW, statement.text
    await connection.fetch("SELECT RELEASE_ALL_LOCKS()")


@pytest.mark.parametrize("known", [(), (0,), (0, 1, 2), tuple(range(10)), (5, 70)], ids=str)
async def test_what_is_known_of_priorities_decides_nothing(known: tuple[int, ...], connection: Connection) -> None:
    """A claim that was told nothing, half, all, or what is long gone finds the same rows in the same order."""
    table = queue_table("lease")
    due = "UTC_TIMESTAMP(6) + INTERVAL IF(n % 3 = 0, n, -n) SECOND"
    await fill(connection, table, priority="n % 10", retry_after=due)
    (claim, _) = claims_of(table)
    plain = "SELECT id FROM jobs WHERE retry_after <= %s ORDER BY priority, retry_after, id"
    wanted = [row[0] for row in await connection.fetch(plain, [NOW.replace(tzinfo=None)])]
    for limit in (1, 700, len(wanted) + 1):
        found = await connection.fetch(*claim.bind({**values(*known), "limit": limit}))
        assert [row[0] for row in found] == wanted[:limit]


@pytest.mark.parametrize("form", ["lease", "row_lock", "advisory"])
async def test_processed_rows_cost_nothing(form: str, connection: Connection) -> None:
    table = queue_table(form, processed_at="processed_at")
    await fill(connection, table, processed_at=f"IF(n < {ROWS - 10}, UTC_TIMESTAMP(6), NULL)")
    for statement in claims_of(table):
        read, found = await rows_read(connection, *statement.bind(values(0)))
        assert found
        assert read <= FEW, statement.text
    await connection.fetch("SELECT RELEASE_ALL_LOCKS()")


async def test_a_group_statement_finds_its_rows_by_their_ids(connection: Connection) -> None:
    """Of one row as of many: a list of proofs alone would scan the table where it has one row."""
    table = queue_table("lease")
    await fill(connection, table, locked_until=f"'{NOW:%Y-%m-%d %H:%M:%S.%f}'")
    statements: LeaseStatements = DIALECT.lease(table, DIALECT.recommended_types(table), None)
    plan = statements.finish_many
    assert isinstance(plan, GroupSelectThenWrite)
    for count in (1, 2, 50):
        rows = [(n, NOW.replace(tzinfo=None), 1) for n in range(1, count + 1)]
        for text, args in (plan.select(rows), plan.write(rows, [row[0] for row in rows])):
            (step,) = await explain(connection, text, args)
            assert step["key"] == "PRIMARY", (text, step)
            assert step["type"] in {"const", "range"}, (text, step)


async def test_a_claim_of_the_head_locks_the_head_alone(connection: Connection) -> None:
    """The subqueries that find it read without locks."""
    table = queue_table("row_lock", fifo=True)
    await fill(connection, table)
    statements: RowLockStatements = DIALECT.row_lock(table, DIALECT.recommended_types(table), None)
    await connection.begin()
    assert await connection.fetch(*statements.claim.bind(values()))
    mine = "SELECT trx_rows_locked FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID()"
    assert [int(row[0]) for row in await connection.fetch(mine)] == [1]
    await connection.rollback()
