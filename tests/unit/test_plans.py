"""What the claims scan, by the planners' own word: the claim's index in its order, never the table, never a sort of what is due."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import asyncpg
import pytest

from faststream_sql.dialects import dialect_for
from faststream_sql.dialects.base import Once, SelectThenWrite, Statement
from faststream_sql.table import QueueTable
from tests.conformance.bench import queue_table

ROWS = 20_000


def tables() -> Iterator[QueueTable]:
    for form in ("lease", "row_lock", "advisory"):
        for changes in ({}, {"priority": None}, {"processed_at": "processed_at"}, {"partition_key": "key"}):
            yield queue_table(form, **changes)


def describe(table: QueueTable) -> str:
    roles = [role for role in ("priority", "processed_at", "partition_key") if role in table.roles()]
    return "-".join([table.form, *roles])


def claim_of(product: str, table: QueueTable) -> Statement:
    dialect = dialect_for(product)
    types = dialect.recommended_types(table)
    if table.form == "row_lock":
        return dialect.row_lock(table, types, None).claim
    plan = (dialect.lease if table.form == "lease" else dialect.advisory)(table, types, None).claim
    match plan:
        case Once(statement):
            return statement
        case SelectThenWrite(select, _, _):
            return select
        case _:
            raise AssertionError


@pytest.mark.parametrize("analyzed", [False, True], ids=["", "analyzed"])
@pytest.mark.parametrize("table", [table for table in tables() if table.form != "row_lock"], ids=describe)
def test_a_claim_on_sqlite_walks_its_index(table: QueueTable, analyzed: bool) -> None:
    database = sqlite3.connect(":memory:")
    for text in dialect_for("sqlite").ddl(table):
        database.execute(text)
    database.execute(
        f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) "
        "INSERT INTO jobs (name, retry_after, attempt, payload) SELECT 'jobs', '2020', 1, x'00' FROM n"
    )
    if analyzed:
        database.execute("ANALYZE")
    statement = claim_of("sqlite", table)
    values = ["[]" if name in {"held", "busy"} else "jobs" for name, _ in statement.params]
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement.text}", values)]
    database.close()
    claim = [step for step in plan if "jobs" in step or " t " in step or "SORT" in step or "B-TREE" in step]
    assert not [step for step in claim if step.startswith("SCAN")], plan
    # the tail beyond 64 priorities sorts what one walk has found; it runs only where there are so many
    assert len([step for step in claim if "TEMP B-TREE" in step]) <= (1 if table.priority and table.form == "lease" else 0), plan


@pytest.mark.parametrize("table", list(tables()), ids=describe)
async def test_a_claim_on_postgres_walks_its_index(table: QueueTable, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url, statement_cache_size=0)
    for text in dialect_for("postgresql").ddl(table):
        await connection.execute(text)
    await connection.execute(
        "INSERT INTO jobs (name, retry_after, attempt, payload) SELECT 'jobs', now() - interval '1 hour', 1, 'x' "
        f"FROM generate_series(1, {ROWS})"
    )
    await connection.execute("VACUUM ANALYZE jobs")
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    statement = claim_of("postgresql", table)
    kinds = {"group": "text", "limit": "bigint", "busy": "text[]", "mutex": "bigint"}
    types = ", ".join(kinds.get(name, "timestamptz") for name, _ in statement.params)
    await connection.execute(f"PREPARE claim ({types}) AS {statement.text}")
    values = {"group": "'jobs'", "limit": "1", "busy": "'{}'", "mutex": "1"}
    given = ", ".join(values.get(name, "now()") for name, _ in statement.params)
    plan = [row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE claim ({given})")]
    await connection.close()
    assert not [line for line in plan if "Seq Scan on jobs" in line], "\n".join(plan)
    assert any("jobs_claim" in line for line in plan), "\n".join(plan)
