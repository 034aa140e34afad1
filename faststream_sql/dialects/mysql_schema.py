"""The types that MySQL and MariaDB columns may have, and the DDL that creates the recommended ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from faststream_sql.dialects.base import ColumnTypes
from faststream_sql.dialects.mysql_names import quote
from faststream_sql.dialects.plain import sql_type
from faststream_sql.dialects.schema import find_columns, index_name, leases_index_name, refuse_null, refuse_type
from faststream_sql.dialects.times import TimeCodec, TimeKind
from faststream_sql.errors import SchemaError
from faststream_sql.table.catalogue import ColumnFacts
from faststream_sql.table.table import QueueTable

_TIMES = ("retry_after", "processed_at", "locked_until")
_INTEGERS = {"tinyint": 2**7 - 1, "smallint": 2**15 - 1, "mediumint": 2**23 - 1, "int": 2**31 - 1, "bigint": 2**63 - 1}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_TIME = re.compile(r"datetime(?:\((\d)\))?")
_SMALL = {"tinyblob": 2**8 - 1, "tinytext": 2**8 - 1, "blob": 2**16 - 1, "text": 2**16 - 1}
"""The types of a payload that take fewer bytes than a message may well have."""
_CHARSETS = {
    "group": ("utf8mb4", "ascii"),  # others are compared with a name by way of a conversion, and the index is left out
    "partition_key": ("utf8mb4", "ascii"),
    "headers": ("utf8mb4",),
    "payload": ("utf8mb4",),
}
_RECOMMENDED = {
    "group": "varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
    "priority": "int NOT NULL DEFAULT 0",
    "partition_key": "varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "retry_after": "datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))",
    "attempt": "int NOT NULL DEFAULT 1",
    "processed_at": "datetime(6)",
    "locked_until": "datetime(6)",
    "headers": "longtext CHARACTER SET utf8mb4",
    "payload": "longblob NOT NULL",
}


_PLAIN: dict[type, str] = {
    bool: "tinyint(1)",
    int: "bigint",
    float: "double",
    Decimal: "decimal(38,10)",
    bytes: "longblob",
    UUID: "char(36)",
    datetime: "datetime(6)",
    date: "date",
    dict: "json",
}


def recommended_types(table: QueueTable) -> ColumnTypes:
    """The types that `table_ddl` creates."""
    roles = table.roles()
    times = {role: TimeCodec(TimeKind.NAIVE_UTC) for role in _TIMES if role in roles}
    sql = {role: _RECOMMENDED[role].split(" ", 1)[0] for role in roles if role != "id"}
    sql |= {"id": _key(table), **{table.key_of(column): sql_type(column, _PLAIN, "longtext") for column in table.columns}}
    form = "text" if table.id_type is UUID else "native"
    return ColumnTypes(sql, times, _INTEGERS["int"], "binary", "text", form, index_name(table))


def judge_types(table: QueueTable, facts: Sequence[ColumnFacts], claim_index: str | None) -> ColumnTypes:
    """Read the types of the columns found. Raises SchemaError, with the DDL that mends it, for one that cannot serve its role."""
    found = find_columns(table, facts)
    times: dict[str, TimeCodec] = {}
    for role, fact in found.items():
        if role not in table.roles():
            continue
        refuse_null(table, role, fact, _modify(table, role, fact))
        _judge(table, role, fact)
        if role in _TIMES:
            times[role] = _time(table, role, fact)
    return ColumnTypes(
        sql={role: fact.type for role, fact in found.items()},
        times=times,
        attempt_max=_INTEGERS[_plain(found["attempt"].type)] if table.attempt else 0,
        payload=_body(found["payload"].type),
        headers=_body(found["headers"].type) if table.headers else "text",
        id_form="text" if table.id_type is UUID else "native",
        claim_index=claim_index,
        warnings=_warnings(table, found["payload"]) if table.payload else (),
    )


def claim_columns(table: QueueTable) -> list[str]:
    """The columns of the claim's index.

    There are no partial indexes, so rows that are processed are told apart by a column of it. The partition key stands in it too: a row
    that a locking read rejects by its index alone is not locked, and one that it must look at stays locked until the transaction ends
    (seen on MariaDB 10.11), so that another claim would pass over it.
    """
    columns = [column.name for column in table.index_columns]
    if table.partition_key is not None:
        columns.append(table.partition_key.name)
    if table.processed_at is None:
        return columns
    place = 1 if table.group else 0
    return [*columns[:place], table.processed_at.name, *columns[place:]]


def table_ddl(table: QueueTable, qualified: str) -> tuple[str, ...]:
    """The recommended table with its index, `IF NOT EXISTS`."""
    generated = " AUTO_INCREMENT" if table.id.generated and table.id_type is int else ""
    lines = [f"{quote(table.id.name)} {_key(table)} NOT NULL{generated} PRIMARY KEY"]
    lines += [f"{quote(column.name)} {_RECOMMENDED[role]}" for role, column in table.roles().items() if role != "id"]
    lines += [f"{quote(column.name)} {sql_type(column, _PLAIN, 'longtext CHARACTER SET utf8mb4')}" for column in table.columns]
    lines.append(f"KEY {quote(index_name(table))} ({', '.join(quote(name) for name in claim_columns(table))})")
    if table.fifo and table.group and table.locked_until:  # which leases of a group live
        columns = f"{quote(table.group.name)}, {quote(table.locked_until.name)}"
        lines.append(f"KEY {quote(leases_index_name(table))} ({columns})")
    body = ",\n    ".join(lines)
    return (f"CREATE TABLE IF NOT EXISTS {qualified} (\n    {body}\n) ENGINE=InnoDB",)


def index_ddl(table: QueueTable, qualified: str) -> str:
    """The recommended index alone."""
    columns = ", ".join(quote(name) for name in claim_columns(table))
    return f"CREATE INDEX {quote(index_name(table))} ON {qualified} ({columns})"


def _key(table: QueueTable) -> str:
    kinds: dict[type, str] = {int: "bigint", UUID: "char(36)", str: "varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"}
    return kinds[table.id_type]


def _plain(kind: str) -> str:
    return kind.partition("(")[0].partition(" ")[0]


def _body(kind: str) -> str:
    plain = _plain(kind)
    return "binary" if plain in _BINARIES else "json" if plain == "json" else "text"


def _modify(table: QueueTable, role: str, fact: ColumnFacts, kind: str | None = None) -> str:
    name = f"{quote(table.schema)}.{quote(table.name)}" if table.schema else quote(table.name)
    return f"ALTER TABLE {name} MODIFY {quote(fact.name)} {kind or _RECOMMENDED.get(role, fact.type)}"


def _where(table: QueueTable, role: str, fact: ColumnFacts) -> str:
    return f"column {fact.name!r} ({role}) of table {table.qualified_name!r}"


def _warnings(table: QueueTable, payload: ColumnFacts) -> tuple[str, ...]:
    most = _SMALL.get(_plain(payload.type))
    if most is None:
        return ()
    larger = "longblob" if _plain(payload.type).endswith("blob") else "longtext CHARACTER SET utf8mb4"
    mend = _modify(table, "payload", payload, larger + ("" if payload.nullable else " NOT NULL"))
    where = _where(table, "payload", payload)
    return (f"{where} is {payload.type}, which takes {most:,} bytes: a longer message cannot be published. To take it: {mend}",)


def _charset(fact: ColumnFacts) -> str | None:
    """The character set of a text column, by its collation; None where the catalogue names none."""
    words = fact.extra.split()
    return words[-1].partition("_")[0] if words and _plain(fact.type) in _TEXTS and "_" in words[-1] else None


def _judge(table: QueueTable, role: str, fact: ColumnFacts) -> None:
    plain = _plain(fact.type)
    ids: dict[type, tuple[str, ...]] = {int: tuple(_INTEGERS), UUID: ("char", "varchar", "uuid"), str: _TEXTS}
    allowed: dict[str, tuple[str, ...]] = {
        "id": ids[table.id_type],
        "group": (*_TEXTS, "varbinary"),
        "priority": tuple(_INTEGERS),
        "attempt": tuple(_INTEGERS),
        "headers": (*_TEXTS, *_BINARIES, "json"),
        "payload": (*_TEXTS, *_BINARIES, "json"),
    }
    if role in allowed and plain not in allowed[role]:
        raise refuse_type(table, role, fact, " or ".join(allowed[role]), _modify(table, role, fact))
    if "on update" in fact.extra.lower():
        msg = f"{_where(table, role, fact)} changes by itself ({fact.extra}): {_modify(table, role, fact)}"
        raise SchemaError(msg)
    charset = _charset(fact)
    if charset is not None and charset not in _CHARSETS.get(role, (charset,)):
        mend = _modify(table, role, fact, f"{fact.type} CHARACTER SET utf8mb4" + ("" if fact.nullable else " NOT NULL"))
        msg = f"{_where(table, role, fact)} is of the character set {charset}, in which not every text can be written: {mend}"
        raise SchemaError(msg)


def _time(table: QueueTable, role: str, fact: ColumnFacts) -> TimeCodec:
    match = _TIME.fullmatch(fact.type)
    if match is None:
        wanted = "DATETIME(6) in UTC (a TIMESTAMP turns with the session's zone and ends in 2038)"
        raise refuse_type(table, role, fact, wanted, _modify(table, role, fact))
    codec = TimeCodec(TimeKind.NAIVE_UTC, int(match[1] or 0))
    if role == "locked_until" and codec.digits < 3 and table.attempt is None:
        msg = (
            f"{_where(table, role, fact)} is {fact.type}: two claims could write one expiry, "
            f"and the table has no Attempt to tell them apart. {_modify(table, role, fact)}"
        )
        raise SchemaError(msg)
    return codec
