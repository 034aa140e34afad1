"""New rows: what a publish says, and the values that it becomes."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from uuid import UUID, uuid4

from faststream_sql.engine.tables import OpenTable
from faststream_sql.errors import DeclarationError


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRow:
    """One row to insert. `delay_seconds` and `available_at` exclude each other; both need a table with RetryAfter."""

    group: str | None
    payload: bytes
    headers: Mapping[str, object] | None = None
    delay_seconds: float | None = None
    available_at: datetime | None = None
    priority: int | None = None
    partition_key: str | None = None
    columns: Mapping[str, object] | None = None
    row_id: object | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """A row as an insert takes it: its columns (roles, or names of plain columns) and their values, and when it falls due."""

    columns: tuple[str, ...]
    values: tuple[object, ...]
    due: datetime | None
    """None where it is due at once."""


_write_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str).encode

STATEMENT_BYTES = 256 * 1024
"""About how long an insert of many rows may become. Servers refuse a statement beyond a limit (MySQL's `max_allowed_packet`)."""


def in_statements(rows: Sequence[Values], most: int) -> Iterator[Sequence[Values]]:
    """The rows in parts, one for each insert: `most` rows or about `STATEMENT_BYTES` in each, and one row at least."""
    start = size = 0
    for place, row in enumerate(rows):
        length = sum(len(value) for value in row.values if isinstance(value, (bytes, str)))
        if place > start and (place - start >= most or size + length > STATEMENT_BYTES):
            yield rows[start:place]
            start, size = place, 0
        size += length
    if rows:
        yield rows[start:]


def rows_values(opened: OpenTable, rows: Sequence[NewRow], now: datetime) -> list[Values]:
    """The values of rows. Raises ValueError or DeclarationError for what the table cannot take, saying what it could."""
    roles = opened.table.roles()
    generated = {role for role, column in roles.items() if column.generated and role != "id"}
    return [_row_values(opened, roles, generated, row, now) for row in rows]


def _row_values(opened: OpenTable, roles: Collection[str], generated: Collection[str], row: NewRow, now: datetime) -> Values:
    due = _due(opened, row, now)
    put: dict[str, object] = {}
    if (row_id := _row_id(opened, row)) is not None:
        put["id"] = row_id
    if "group" in roles:
        put["group"] = row.group
    if "priority" in roles:
        put["priority"] = 0 if row.priority is None else row.priority
    elif row.priority is not None:
        raise _lacks(opened, "priority", "Priority")
    if "partition_key" in roles:
        put["partition_key"] = row.partition_key
    elif row.partition_key is not None:
        raise _lacks(opened, "partition_key", "PartitionKey")
    if "retry_after" in roles:
        put["retry_after"] = opened.types.times["retry_after"].encode(due or now)
    if "attempt" in roles:
        put["attempt"] = 1
    if "headers" in roles:
        put["headers"] = _headers(opened, row.headers)
    put["payload"] = row.payload if opened.types.payload == "binary" else _text(opened, row.payload)
    if row.columns:
        put |= _plain(opened, row.columns)
    for role in generated:
        put.pop(role, None)
    return Values(tuple(put), tuple(put.values()), due)


def _plain(opened: OpenTable, columns: Mapping[str, object]) -> Mapping[str, object]:
    """The plain columns' values, each checked to be one that publish may write."""
    table = opened.table
    known = {column.name: column for column in table.columns}
    for name in columns:
        if name not in known:
            msg = f"table {table.qualified_name!r} describes no plain column {name!r}: it has {', '.join(map(repr, known)) or 'none'}"
            raise DeclarationError(msg)
        if known[name].generated:
            msg = f"column {name!r} of table {table.qualified_name!r} is generated: the database fills it in, and publish cannot"
            raise DeclarationError(msg)
    types = opened.types.sql
    keys = {name: table.key_of(known[name]) for name in columns}
    return {keys[name]: opened.dialect.plain_value(value, types.get(keys[name], "")) for name, value in columns.items()}


def _due(opened: OpenTable, row: NewRow, now: datetime) -> datetime | None:
    if row.delay_seconds is None and row.available_at is None:
        return None
    if opened.table.retry_after is None:
        raise _lacks(opened, "delay or available_at", "RetryAfter")
    if row.available_at is not None:
        if row.available_at.tzinfo is None:
            msg = f"available_at={row.available_at!r} names no time zone: give an aware datetime"
            raise ValueError(msg)
        due = row.available_at.astimezone(timezone.utc)
    else:
        if row.delay_seconds is None or not math.isfinite(row.delay_seconds) or row.delay_seconds < 0:
            msg = f"delay={row.delay_seconds!r} cannot be: give 0 or more seconds"
            raise ValueError(msg)
        try:
            due = now + timedelta(seconds=row.delay_seconds)
        except OverflowError:
            msg = f"delay={row.delay_seconds!r} seconds from now is past the year 9999"
            raise ValueError(msg) from None
    return due if due > now else None


def _row_id(opened: OpenTable, row: NewRow) -> object | None:
    table = opened.table
    if row.row_id is not None:
        wrong = not isinstance(row.row_id, table.id_type) or isinstance(row.row_id, bool)
        if wrong:
            msg = f"row_id={row.row_id!r} cannot be: the ids of table {table.qualified_name!r} are {table.id_type.__name__}"
            raise ValueError(msg)
        value: object = row.row_id
    elif table.id.generated:
        return None
    elif table.id_type is UUID:
        value = uuid4()
    else:
        msg = f"the ids of table {table.qualified_name!r} are not generated: give one with publish(..., row_id=)"
        raise ValueError(msg)
    return str(value) if opened.types.id_form == "text" else value


def _headers(opened: OpenTable, headers: Mapping[str, object] | None) -> object:
    text = _write_json(dict(headers or {}))
    return text.encode() if opened.types.headers == "binary" else text


def _text(opened: OpenTable, payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        msg = f"the payload column of table {opened.table.qualified_name!r} holds text, and this body is no UTF-8: use a binary column"
        raise ValueError(msg) from None


def _lacks(opened: OpenTable, what: str, role: str) -> DeclarationError:
    return DeclarationError(f"{what} was given, and table {opened.table.qualified_name!r} has no column of the role {role}")
