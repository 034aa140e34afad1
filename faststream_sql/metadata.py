"""The tables as SQLAlchemy's `MetaData`, for Alembic: the same tables and indexes that `faststream-sql ddl` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

try:
    from sqlalchemy import (
        BigInteger,
        Boolean,
        Column,
        Date,
        DateTime,
        Float,
        Identity,
        Index,
        Integer,
        LargeBinary,
        MetaData,
        Numeric,
        Table,
        Text,
        Uuid,
        text,
    )
    from sqlalchemy.dialects import mysql, postgresql
    from sqlalchemy.types import TypeEngine
except ModuleNotFoundError as missing:
    _MISSING = "faststream_sql.metadata needs the library 'sqlalchemy': pip install 'faststream-sql[sqlalchemy]'"
    raise ImportError(_MISSING) from missing

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.routes import Described, as_table
from faststream_sql.dialects.mysql_schema import claim_columns
from faststream_sql.dialects.schema import index_name, leases_index_name
from faststream_sql.errors import DeclarationError
from faststream_sql.table import QueueTable

_NULLABLE = ("partition_key", "processed_at", "locked_until", "headers")


@dataclass(frozen=True)
class _Types:
    """The recommended types of one database."""

    name: TypeEngine[Any]
    """Of groups, keys, and ids that are texts."""
    integer_id: TypeEngine[Any]
    uuid: TypeEngine[Any]
    time: TypeEngine[Any]
    now: str
    """The default of a due time."""
    headers: TypeEngine[Any]
    payload: TypeEngine[Any]
    plain: TypeEngine[Any]
    """Of a plain column whose type the description does not say."""
    plain_types: Mapping[type, TypeEngine[Any]]
    partial_indexes: bool = True

    def of_plain(self, kind: type | None) -> TypeEngine[Any]:
        """The type of a plain column."""
        return self.plain if kind is None else self.plain_types.get(kind, self.plain)


_BINARY_NAME = mysql.VARCHAR(191, charset="utf8mb4", collation="utf8mb4_bin")
_LONG_TEXT = mysql.LONGTEXT(charset="utf8mb4")
_MYSQL = _Types(
    name=_BINARY_NAME,
    integer_id=BigInteger(),
    uuid=mysql.CHAR(36),
    time=mysql.DATETIME(fsp=6),
    now="(UTC_TIMESTAMP(6))",
    headers=_LONG_TEXT,
    payload=mysql.LONGBLOB(),
    plain=_LONG_TEXT,
    plain_types={
        bool: mysql.TINYINT(1),
        int: BigInteger(),
        float: mysql.DOUBLE(),
        Decimal: Numeric(38, 10),
        bytes: mysql.LONGBLOB(),
        UUID: mysql.CHAR(36),
        datetime: mysql.DATETIME(fsp=6),
        date: Date(),
        dict: mysql.JSON(),
    },
    partial_indexes=False,
)
_SQLITE = _Types(
    name=Text(),
    integer_id=Integer(),
    uuid=Text(),
    time=Text(),
    now="(strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now'))",
    headers=Text(),
    payload=LargeBinary(),
    plain=Text(),
    plain_types={bool: Integer(), int: Integer(), float: Float(), bytes: LargeBinary()},
)
_POSTGRES = replace(
    _SQLITE,
    integer_id=BigInteger(),
    uuid=Uuid(),
    time=DateTime(timezone=True),
    now="now()",
    headers=postgresql.JSONB(),
    plain_types={
        bool: Boolean(),
        int: BigInteger(),
        float: postgresql.DOUBLE_PRECISION(),
        Decimal: Numeric(),
        bytes: LargeBinary(),
        UUID: Uuid(),
        datetime: DateTime(timezone=True),
        date: Date(),
        dict: postgresql.JSONB(),
    },
)
_TYPES = {"postgresql": _POSTGRES, "postgres": _POSTGRES, "mysql": _MYSQL, "mariadb": _MYSQL, "sqlite": _SQLITE}


def metadata_of(*described: SQLBroker | Described, dialect: str | None = None, metadata: MetaData | None = None) -> MetaData:
    """The tables of brokers, and tables described by themselves, as SQLAlchemy's.

    In Alembic's `env.py`: `target_metadata = metadata_of(broker)`, or with `metadata=Base.metadata` beside the service's own tables. A
    table that the metadata already knows is left as it is.

    Args:
        described: brokers (all tables that their names lead into, and those of dead letters), `QueueTable`s, `Inbox` classes.
        dialect: `"postgres"`, `"mysql"`, `"mariadb"` or `"sqlite"`; that of the first broker's database unless given. Types and indexes
            are those of one database: Alembic cannot choose among several.
        metadata: where the tables are added; a new one unless given.

    Raises:
        DeclarationError: no dialect is known, or something else was given.
    """
    brokers = [one for one in described if isinstance(one, SQLBroker)]
    product = dialect or (brokers[0].source.protocol if brokers else None)
    if product not in _TYPES:
        msg = f"dialect={dialect!r} cannot be: give 'postgres', 'mysql', 'mariadb' or 'sqlite', or a broker on one of them"
        raise DeclarationError(msg)
    found = MetaData() if metadata is None else metadata
    for one in described:
        for table in one.tables() if isinstance(one, SQLBroker) else [as_table(one)]:
            if table.qualified_name not in found.tables:
                _add(found, table, _TYPES[product])
    return found


def _add(metadata: MetaData, table: QueueTable, types: _Types) -> None:
    roles = {
        "group": (types.name, None),
        "priority": (Integer(), "0"),
        "partition_key": (types.name, None),
        "retry_after": (types.time, types.now),
        "attempt": (Integer(), "1"),
        "processed_at": (types.time, None),
        "locked_until": (types.time, None),
        "headers": (types.headers, None),
        "payload": (types.payload, None),
    }
    columns: list[Column[Any]] = [_id(table, types)]
    for role, column in table.roles().items():
        if role != "id":
            kind, default = roles[role]
            columns.append(Column(column.name, kind, nullable=role in _NULLABLE, server_default=text(default) if default else None))
    columns += [Column(column.name, types.of_plain(column.type)) for column in table.columns]
    engine: dict[str, Any] = {} if types.partial_indexes else {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}
    if types is _SQLITE and table.id_type is int:
        engine["sqlite_autoincrement"] = True  # without it an id is given out again after a delete
    made = Table(table.name, metadata, *columns, schema=table.schema, **engine)
    _add_indexes(table, made, types)


def _add_indexes(table: QueueTable, made: Table, types: _Types) -> None:
    unfinished = None if table.processed_at is None else made.c[table.processed_at.name].is_(None)
    # without partial indexes, rows that are processed are told apart by a column of the index
    order = [column.name for column in table.index_columns] if types.partial_indexes else claim_columns(table)
    Index(index_name(table), *(made.c[name] for name in order), **_where(types, unfinished))
    if table.fifo and table.group and table.locked_until:  # which leases of a group live
        group, lease = made.c[table.group.name], made.c[table.locked_until.name]
        leased = lease.is_not(None)
        Index(leases_index_name(table), group, lease, **_where(types, leased if unfinished is None else leased & unfinished))


def _where(types: _Types, condition: Any) -> dict[str, Any]:
    if condition is None or not types.partial_indexes:
        return {}
    return {"postgresql_where" if types is _POSTGRES else "sqlite_where": condition}


def _id(table: QueueTable, types: _Types) -> Column[Any]:
    name, generated = table.id.name, bool(table.id.generated)
    if table.id_type is int:
        identity = [Identity(always=False)] if generated and types is _POSTGRES else []
        return Column(name, types.integer_id, *identity, primary_key=True, autoincrement=generated)
    return Column(name, types.uuid if table.id_type is UUID else types.name, primary_key=True, autoincrement=False)
