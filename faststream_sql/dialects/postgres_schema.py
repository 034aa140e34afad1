"""The types that Postgres columns may have, and the DDL that creates the recommended ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from faststream_sql.dialects.base import ColumnTypes
from faststream_sql.dialects.plain import sql_type
from faststream_sql.dialects.schema import find_columns, index_name, leases_index_name, refuse_null, refuse_type
from faststream_sql.dialects.times import TimeCodec, TimeKind
from faststream_sql.errors import DeclarationError, SchemaError
from faststream_sql.table.catalogue import ColumnFacts
from faststream_sql.table.table import QueueTable

MAX_NAME_BYTES = 63
_INTEGERS = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}
_TEXTS = ("text", "character varying", "character", "citext", "name")
_TIME = re.compile(r"timestamp(?:\((\d)\))? (with|without) time zone")
_RECOMMENDED: dict[str, str] = {
    "group": "text",
    "priority": "integer",
    "partition_key": "text",
    "retry_after": "timestamp with time zone",
    "attempt": "integer",
    "processed_at": "timestamp with time zone",
    "locked_until": "timestamp with time zone",
    "headers": "jsonb",
    "payload": "bytea",
}
_TIMES = ("retry_after", "processed_at", "locked_until")
_NULLABLE = ("partition_key", "processed_at", "locked_until", "headers")
_DEFAULTS = {"priority": "0", "attempt": "1", "retry_after": "now()"}


def quote(name: str) -> str:
    """A Postgres identifier, quoted. Raises DeclarationError for one that Postgres would cut short or cannot hold."""
    if not name or "\0" in name:
        msg = f"{name!r} cannot be a name in Postgres: it is empty or holds a NUL"
        raise DeclarationError(msg)
    if len(name.encode()) > MAX_NAME_BYTES:
        msg = f"{name!r} is longer than {MAX_NAME_BYTES} bytes, and Postgres would cut it short: choose a shorter name"
        raise DeclarationError(msg)
    return '"' + name.replace('"', '""') + '"'


_PLAIN: dict[type, str] = {
    bool: "boolean",
    int: "bigint",
    float: "double precision",
    Decimal: "numeric",
    bytes: "bytea",
    UUID: "uuid",
    datetime: "timestamp with time zone",
    date: "date",
    dict: "jsonb",
}


def recommended_types(table: QueueTable) -> ColumnTypes:
    """The types that `table_ddl` creates."""
    sql = {role: _RECOMMENDED[role] for role in table.roles() if role != "id"}
    times: dict[str, TimeCodec] = {role: TimeCodec(TimeKind.AWARE) for role in _TIMES if role in sql}
    sql |= {table.key_of(column): sql_type(column, _PLAIN, "text") for column in table.columns}
    return ColumnTypes({"id": _id_type(table), **sql}, times, _INTEGERS["integer"], "binary", "json")


def judge_types(table: QueueTable, facts: Sequence[ColumnFacts], claim_index: str | None = None) -> ColumnTypes:
    """Read the types of the columns found. Raises SchemaError, with the DDL that mends it, for one that cannot serve its role."""
    found = find_columns(table, facts)
    times: dict[str, TimeCodec] = {}
    for role, fact in found.items():
        if role in table.roles():
            refuse_null(table, role, fact, f"ALTER TABLE {_name(table)} ALTER COLUMN {quote(fact.name)} SET NOT NULL")
            _judge(table, role, fact)
            if role in _TIMES:
                times[role] = _time(table, role, fact)
    return ColumnTypes(
        sql={role: fact.type for role, fact in found.items()},
        times=times,
        attempt_max=_INTEGERS[found["attempt"].type] if table.attempt else 0,
        payload=_body(found["payload"].type) if table.payload else "binary",
        headers=_body(found["headers"].type) if table.headers else "json",
        claim_index=claim_index,
    )


def table_ddl(table: QueueTable, qualified: str, *, identity: bool) -> tuple[str, ...]:
    """The recommended table and its index, each `IF NOT EXISTS`."""
    types = recommended_types(table).sql
    lines = [f"{quote(table.id.name)} {_key(table, types['id'], identity=identity)} PRIMARY KEY"]
    for role, column in table.roles().items():
        if role != "id":
            null = "" if role in _NULLABLE else " NOT NULL"
            default = f" DEFAULT {_DEFAULTS[role]}" if role in _DEFAULTS else ""
            lines.append(f"{quote(column.name)} {types[role]}{null}{default}")
    lines += [f"{quote(column.name)} {types[table.key_of(column)]}" for column in table.columns]
    where = f" WHERE {quote(table.processed_at.name)} IS NULL" if table.processed_at else ""
    index = ", ".join(quote(column.name) for column in table.index_columns)
    body = ",\n    ".join(lines)
    texts = [
        f"CREATE TABLE IF NOT EXISTS {qualified} (\n    {body}\n)",
        f"CREATE INDEX IF NOT EXISTS {quote(index_name(table))} ON {qualified} ({index}){where}",
    ]
    if table.fifo and table.group and table.locked_until:  # which leases of a group live
        leased = f"{quote(table.locked_until.name)} IS NOT NULL"
        unfinished = f" AND {quote(table.processed_at.name)} IS NULL" if table.processed_at else ""
        columns = f"{quote(table.group.name)}, {quote(table.locked_until.name)}"
        name = quote(leases_index_name(table))
        texts.append(f"CREATE INDEX IF NOT EXISTS {name} ON {qualified} ({columns}) WHERE {leased}{unfinished}")
    return tuple(texts)


def _key(table: QueueTable, kind: str, *, identity: bool) -> str:
    if not table.id.generated or table.id_type is not int:
        return kind
    return f"{kind} GENERATED BY DEFAULT AS IDENTITY" if identity else "bigserial"


def _id_type(table: QueueTable) -> str:
    return {int: "bigint", UUID: "uuid", str: "text"}[table.id_type]


def _name(table: QueueTable) -> str:
    return f"{quote(table.schema)}.{quote(table.name)}" if table.schema else quote(table.name)


def _alter(table: QueueTable, fact: ColumnFacts, to: str) -> str:
    return f"ALTER TABLE {_name(table)} ALTER COLUMN {quote(fact.name)} TYPE {to}"


def _plain(type_name: str) -> str:
    return re.sub(r"\(.*\)", "", type_name).strip()


def _body(type_name: str) -> str:
    if type_name == "bytea":
        return "binary"
    return "json" if type_name in ("json", "jsonb") else "text"


def _judge(table: QueueTable, role: str, fact: ColumnFacts) -> None:
    """Raises SchemaError where the column's type cannot serve its role."""
    kind = _plain(fact.type)
    allowed: dict[str, tuple[str, ...]] = {
        "id": {int: tuple(_INTEGERS), UUID: ("uuid",), str: _TEXTS}[table.id_type],
        "group": _TEXTS,
        "priority": tuple(_INTEGERS),
        "attempt": tuple(_INTEGERS),
        "headers": ("json", "jsonb", "bytea", *_TEXTS),
        "payload": ("json", "jsonb", "bytea", *_TEXTS),
    }
    if role in allowed and kind not in allowed[role]:
        raise refuse_type(table, role, fact, " or ".join(allowed[role]), _alter(table, fact, allowed[role][-1 if role == "id" else 0]))


def _time(table: QueueTable, role: str, fact: ColumnFacts) -> TimeCodec:
    match = _TIME.fullmatch(fact.type)
    if match is None:
        raise refuse_type(table, role, fact, "timestamptz or timestamp (in UTC)", _alter(table, fact, "timestamptz"))
    codec = TimeCodec(TimeKind.AWARE if match[2] == "with" else TimeKind.NAIVE_UTC, int(match[1]) if match[1] else 6)
    if role == "locked_until" and codec.digits < 3 and table.attempt is None:
        msg = (
            f"column {fact.name!r} (locked_until) of table {table.qualified_name!r} is {fact.type}: two claims could write the same "
            f"expiry, and the table has no Attempt to tell them apart. {_alter(table, fact, 'timestamptz')}"
        )
        raise SchemaError(msg)
    return codec
