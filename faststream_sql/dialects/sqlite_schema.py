"""The types that SQLite columns may have, and the DDL that creates the recommended ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from faststream_sql.dialects.base import ColumnTypes
from faststream_sql.dialects.plain import sql_type
from faststream_sql.dialects.schema import find_columns, index_name, leases_index_name, refuse_null, refuse_type
from faststream_sql.dialects.times import TimeCodec, TimeKind
from faststream_sql.errors import DeclarationError
from faststream_sql.table.catalogue import ColumnFacts
from faststream_sql.table.table import QueueTable

_TIMES = ("retry_after", "processed_at", "locked_until")
_NOW = "(strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now'))"
_RECOMMENDED: dict[str, str] = {
    "group": "TEXT NOT NULL",
    "priority": "INTEGER NOT NULL DEFAULT 0",
    "partition_key": "TEXT",
    "retry_after": f"TEXT NOT NULL DEFAULT {_NOW}",
    "attempt": "INTEGER NOT NULL DEFAULT 1",
    "processed_at": "TEXT",
    "locked_until": "TEXT",
    "headers": "TEXT",
    "payload": "BLOB NOT NULL",
}


def quote(name: str) -> str:
    """An SQLite identifier, quoted. Raises DeclarationError for an empty one or one with a NUL."""
    if "\0" in name:
        msg = f"{name!r} cannot be a name in SQLite: it holds a NUL"
        raise DeclarationError(msg)
    return '"' + name.replace('"', '""') + '"'


_PLAIN: dict[type, str] = {
    bool: "INTEGER",
    int: "INTEGER",
    float: "REAL",
    Decimal: "TEXT",
    str: "TEXT",
    bytes: "BLOB",
    UUID: "TEXT",
    datetime: "TEXT",
    date: "TEXT",
    dict: "TEXT",
}


def recommended_types(table: QueueTable) -> ColumnTypes:
    """The types that `table_ddl` creates."""
    roles = table.roles()
    times = {role: TimeCodec(TimeKind.ISO_TEXT) for role in _TIMES if role in roles}
    sql = {role: _RECOMMENDED[role].split(" ", 1)[0] for role in roles if role != "id"}
    index = index_name(table)
    return ColumnTypes({"id": _id_type(table), **sql}, times, 2**63 - 1, "binary", "text", _id_form(table), index)


def judge_types(table: QueueTable, facts: Sequence[ColumnFacts], claim_index: str | None) -> ColumnTypes:
    """Read the types of the columns found. Raises SchemaError, with the DDL that mends it, for one that cannot serve its role."""
    found = find_columns(table, facts)
    times: dict[str, TimeCodec] = {}
    for role, fact in found.items():
        if role not in table.roles():
            continue
        refuse_null(table, role, fact, f"create the table anew with {quote(fact.name)} {_RECOMMENDED.get(role, fact.type)}")
        if role in _TIMES:
            times[role] = _time(table, role, fact)
    return ColumnTypes(
        sql={role: fact.type for role, fact in found.items()},
        times=times,
        attempt_max=2**63 - 1,
        payload=_body(found["payload"].type) if table.payload else "binary",
        headers="binary" if table.headers and _body(found["headers"].type) == "binary" else "text",
        id_form=_id_form(table),
        claim_index=claim_index,
    )


def table_ddl(table: QueueTable) -> tuple[str, ...]:
    """The recommended table and its index, each `IF NOT EXISTS`."""
    schema = f"{quote(table.schema)}." if table.schema else ""
    # without AUTOINCREMENT an id is given out again after a delete, and a late settlement could meet another row
    key = "INTEGER PRIMARY KEY AUTOINCREMENT" if table.id_type is int else "TEXT PRIMARY KEY NOT NULL"
    lines = [f"{quote(table.id.name)} {key}"]
    lines += [f"{quote(column.name)} {_RECOMMENDED[role]}" for role, column in table.roles().items() if role != "id"]
    lines += [f"{quote(column.name)} {sql_type(column, _PLAIN, '')}".rstrip() for column in table.columns]
    where = f" WHERE {quote(table.processed_at.name)} IS NULL" if table.processed_at else ""
    index = ", ".join(quote(column.name) for column in table.index_columns)
    body = ",\n    ".join(lines)
    texts = [
        f"CREATE TABLE IF NOT EXISTS {schema}{quote(table.name)} (\n    {body}\n)",
        f"CREATE INDEX IF NOT EXISTS {schema}{quote(index_name(table))} ON {quote(table.name)} ({index}){where}",
    ]
    if table.fifo and table.group and table.locked_until:  # which leases of a group live
        columns = f"{quote(table.group.name)}, {quote(table.locked_until.name)}"
        leased = f"{quote(table.locked_until.name)} IS NOT NULL"
        name = f"{schema}{quote(leases_index_name(table))}"
        texts.append(f"CREATE INDEX IF NOT EXISTS {name} ON {quote(table.name)} ({columns}) WHERE {leased}")
    return tuple(texts)


def _id_type(table: QueueTable) -> str:
    return "INTEGER" if table.id_type is int else "TEXT"


def _id_form(table: QueueTable) -> str:
    return "text" if table.id_type is UUID else "native"


def _body(declared: str) -> str:
    kind = declared.upper()
    return "text" if any(word in kind for word in ("TEXT", "CHAR", "CLOB", "JSON")) else "binary"


def _time(table: QueueTable, role: str, fact: ColumnFacts) -> TimeCodec:
    kind = fact.type.upper()
    if any(word in kind for word in ("TEXT", "CHAR", "CLOB")):
        return TimeCodec(TimeKind.ISO_TEXT)
    if "INT" in kind:
        return TimeCodec(TimeKind.MICROSECONDS)
    way_out = f"create the table anew with {quote(fact.name)} {_RECOMMENDED[role]}"
    raise refuse_type(table, role, fact, "TEXT (YYYY-MM-DDTHH:MM:SS.ffffff+00:00) or INTEGER (microseconds since 1970 in UTC)", way_out)
