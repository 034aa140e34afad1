"""The text of every statement, as it reaches the server, for each dialect and a set of tables.

A change shows in `tests/golden/` as a diff of SQL. To write the files anew: `UPDATE_GOLDEN=1 pytest tests/unit/test_golden.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest

from faststream_sql.dialects import DIALECTS, dialect_for
from faststream_sql.dialects.base import Dialect
from faststream_sql.engine.startup import texts_of
from faststream_sql.errors import DeclarationError
from faststream_sql.table import Column, QueueTable

GOLDEN = Path(__file__).parent.parent / "golden"

TABLES = {
    "default": QueueTable.default(),
    "lease_processed": QueueTable(
        "jobs",
        id="job_id",
        group="name",
        attempt="attempt",
        retry_after="retry_after",
        processed_at="processed_at",
        locked_until="locked_until",
        payload="payload",
        columns=("account",),
        schema="work",
    ),
    "lease_bare": QueueTable("report_jobs", id="id", locked_until="locked_until", payload="payload"),
    "row_lock": QueueTable(
        "email_jobs", id=Column("job_id"), group="name", attempt="attempt", retry_after="retry_after", payload="payload"
    ),
    "row_lock_priority": QueueTable(
        "jobs", id="id", group="name", priority="rank", retry_after="retry_after", payload="payload", id_type=UUID
    ),
    "fifo_lease": QueueTable(
        "steps",
        id="id",
        group="name",
        retry_after="retry_after",
        attempt="attempt",
        locked_until="locked_until",
        payload="payload",
        fifo=True,
    ),
    "fifo_row_lock": QueueTable("steps", id="id", group="name", retry_after="retry_after", attempt="attempt", payload="payload", fifo=True),
    "advisory": QueueTable(
        "accounts",
        id="id",
        group="name",
        retry_after="retry_after",
        attempt="attempt",
        partition_key="key",
        payload="payload",
        columns=("account",),
        advisory_lock="account's-{account}",
    ),
    "partition_key": QueueTable(
        "steps",
        id="id",
        group="name",
        priority="priority",
        partition_key="key",
        retry_after="retry_after",
        locked_until="locked_until",
        payload="payload",
    ),
    "hostile_names": QueueTable(
        'a"b', id="select", group="ünï %s", attempt=":now", retry_after="{id}", locked_until="--? x", payload="or`der"
    ),
}
DEAD = {"lease_bare": QueueTable("report_jobs_dead", id="id", locked_until="locked_until", payload="payload")}


def rendered(dialect: Dialect, name: str) -> str:
    table = TABLES[name]
    types = dialect.recommended_types(table)
    parts = ["-- ddl\n" + ";\n".join(dialect.ddl(table)) + ";"]
    make = {"lease": dialect.lease, "row_lock": dialect.row_lock, "advisory": dialect.advisory}[table.form]
    try:
        statements = make(table, types, DEAD.get(name))
    except DeclarationError as error:
        return f"-- refused\n-- {error}\n"
    columns = [role for role, column in table.roles().items() if not column.generated]
    parts.append(f"-- insert\n{dialect.insert(table, types, columns).text};")
    parts += [f"-- {purpose}\n{text};" for purpose, text in texts_of(statements)]
    return "\n\n".join(parts) + "\n"


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_statements_are_the_golden_ones(dialect: Dialect, name: str) -> None:
    path = GOLDEN / dialect.name / f"{name}.sql"
    text = rendered(dialect, name)
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_every_golden_file_is_read() -> None:
    expected = {f"{dialect.name}/{name}.sql" for dialect in DIALECTS.values() for name in TABLES}
    assert {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.*")} == expected


def test_an_old_postgres_gets_no_words_that_it_does_not_know() -> None:
    old, table = dialect_for("postgresql", (9, 6)), TABLES["default"]
    assert "bigserial" in old.ddl(table)[0]
    for name in ("default", "row_lock", "fifo_lease", "fifo_row_lock", "lease_processed"):
        table = TABLES[name]
        make = {"lease": old.lease, "row_lock": old.row_lock}[table.form]
        for _, text in texts_of(make(table, old.recommended_types(table), None)):
            assert "MATERIALIZED" not in text
