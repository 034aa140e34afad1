"""The columns that MySQL and MariaDB may have, judged by what their catalogue says."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from faststream_sql.dialects import dialect_for
from faststream_sql.dialects.times import TimeCodec, TimeKind
from faststream_sql.errors import SchemaError
from faststream_sql.table import QueueTable
from faststream_sql.table.catalogue import ColumnFacts
from tests.conformance.bench import queue_table

DIALECT = dialect_for("mariadb")
GOOD = {
    "id": ColumnFacts("id", "bigint(20)", nullable=False, default=None, extra="auto_increment"),
    "name": ColumnFacts("name", "varchar(191)", nullable=False, default=None, extra="utf8mb4_bin"),
    "priority": ColumnFacts("priority", "int(11)", nullable=False, default="0"),
    "retry_after": ColumnFacts("retry_after", "datetime(6)", nullable=False, default=None),
    "attempt": ColumnFacts("attempt", "int(11)", nullable=False, default="1"),
    "locked_until": ColumnFacts("locked_until", "datetime(6)", nullable=True, default=None),
    "headers": ColumnFacts("headers", "longtext", nullable=True, default=None, extra="utf8mb4_general_ci"),
    "payload": ColumnFacts("payload", "longblob", nullable=False, default=None),
}


def judge(table: QueueTable | None = None, **changes: dict[str, object]) -> tuple[str, ...]:
    """The warnings for the good columns with some changed."""
    facts = [fact._replace(**changes.get(name, {})) for name, fact in GOOD.items()]  # type: ignore[arg-type]
    return DIALECT.types(table or queue_table("lease"), facts, []).warnings


def test_the_recommended_columns_serve() -> None:
    assert judge() == ()


@pytest.mark.parametrize("kind", ["timestamp(6)", "timestamp", "date", "varchar(40)"])
def test_a_time_is_a_datetime(kind: str) -> None:
    with pytest.raises(SchemaError, match=r"MODIFY `retry_after` datetime\(6\) NOT NULL"):
        judge(retry_after={"type": kind})


def test_a_coarse_lease_needs_the_attempt() -> None:
    assert judge(locked_until={"type": "datetime"}) == ()
    with pytest.raises(SchemaError, match=r"MODIFY `locked_until` datetime\(6\)"):
        judge(queue_table("lease", attempt=None), locked_until={"type": "datetime(2)"})


def test_a_column_that_changes_by_itself_is_refused() -> None:
    with pytest.raises(SchemaError, match="changes by itself"):
        judge(locked_until={"extra": "on update current_timestamp(6)"})


@pytest.mark.parametrize(
    ("column", "collation"),
    [("name", "utf8mb3_general_ci"), ("name", "latin1_swedish_ci"), ("headers", "utf8_general_ci"), ("headers", "ascii_bin")],
)
def test_a_text_that_cannot_hold_every_text_is_refused(column: str, collation: str) -> None:
    with pytest.raises(SchemaError, match=rf"MODIFY `{column}` {GOOD[column].type.partition('(')[0]}.* CHARACTER SET utf8mb4"):
        judge(**{column: {"extra": collation}})


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_0900_ai_ci", "ascii_bin"])
def test_a_group_may_have_any_collation_of_these(collation: str) -> None:
    assert judge(name={"extra": collation}) == ()


@pytest.mark.parametrize(
    ("kind", "bytes_", "larger"),
    [
        ("blob", "65,535", "longblob NOT NULL"),
        ("tinyblob", "255", "longblob NOT NULL"),
        ("text", "65,535", "longtext CHARACTER SET utf8mb4"),
    ],
)
def test_a_small_payload_is_a_warning_with_the_ddl(kind: str, bytes_: str, larger: str) -> None:
    (warning,) = judge(payload={"type": kind, "extra": "utf8mb4_bin" if kind == "text" else ""})
    assert f"takes {bytes_} bytes" in warning
    assert f"ALTER TABLE `jobs` MODIFY `payload` {larger}" in warning


def test_what_is_sent_is_what_a_coarse_column_keeps() -> None:
    moment = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=timezone.utc)
    naive = moment.replace(tzinfo=None)
    assert TimeCodec(TimeKind.NAIVE_UTC, 0).encode(moment) == naive.replace(microsecond=0)
    assert TimeCodec(TimeKind.NAIVE_UTC, 3).encode(moment) == naive.replace(microsecond=999_000)
    assert TimeCodec(TimeKind.NAIVE_UTC).encode(moment) == naive
