"""Looking at rows and putting them in, as another process would."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel

from faststream_sql.drivers.base import Use
from faststream_sql.engine import Engine
from faststream_sql.engine.tables import OpenTable
from faststream_sql.errors import DeclarationError
from faststream_sql.table import Column, Inbox, QueueTable
from faststream_sql.testing.hands import columns_of, select_all

T = TypeVar("T")

_TIMES = ("retry_after", "processed_at", "locked_until")
PURPOSE = "test"


async def read_rows(engine: Engine, table: QueueTable) -> list[dict[str, Any]]:
    """All rows of a table by role, or by name for a plain column, in claim order. Times are aware moments, headers are a dict."""
    opened = await engine.open_table(table, PURPOSE, "rows")
    quote, roles = engine.dialect.quote, table.roles()
    order = ", ".join(quote(roles[role].name) for role in table.claim_order)
    async with engine.pool.connection(Use.STATEMENT, PURPOSE) as connection:
        found = await connection.fetch(f"{select_all(table, quote)} ORDER BY {order}")
    return [{name: _read(opened, name, value) for name, value in zip(columns_of(table), row, strict=True)} for row in found]


def _read(opened: OpenTable, name: str, value: Any) -> Any:
    roles = opened.table.roles()
    if value is None or name not in roles:
        return value
    if name in _TIMES:
        return opened.types.times[name].decode(value)
    if name == "id" and opened.table.id_type is UUID and isinstance(value, str):
        return UUID(value)
    if name == "headers" and isinstance(value, (str, bytes)):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return bytes(value) if isinstance(value, memoryview) else value


async def insert_row(engine: Engine, table: QueueTable, given: Mapping[str, Any]) -> Any:
    """Insert a row of columns by name; returns its id. What was not given and cannot be NULL is as a publish would have it."""
    opened = await engine.open_table(table, PURPOSE, "insert")
    roles = table.roles()
    values: dict[str, Any] = {"priority": 0, "retry_after": engine.clock.now(), "attempt": 1, "headers": {}, "payload": b""}
    values = {role: value for role, value in values.items() if role in roles and not roles[role].generated}
    names = _names(table)
    for name, value in given.items():
        if name not in names:
            known = ", ".join(sorted(repr(column.name) for column in table.all_columns()))
            msg = f"insert({table.qualified_name!r}, {name}=…) names no column: the table's are {known}"
            raise DeclarationError(msg)
        values[names[name]] = value
    if table.group and "group" not in values:
        msg = f"insert({table.qualified_name!r}) needs the row's group: {table.group.name}=…"
        raise DeclarationError(msg)
    columns = tuple(values)
    args = {f"c{n}": _written(opened, name, values[name]) for n, name in enumerate(columns)}
    async with engine.pool.connection(Use.STATEMENT, PURPOSE) as connection:
        ((row_id, *_),) = await connection.fetch(*opened.insert(columns).bind(args))
    return row_id


def _written(opened: OpenTable, name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            msg = f"insert(…, {name}={value!r}) names no time zone: give an aware datetime"
            raise ValueError(msg)
        return opened.types.times[name].encode(value) if name in opened.types.times else value
    if name == "headers" and "headers" in opened.table.roles() and isinstance(value, Mapping):
        text = json.dumps(dict(value), default=str)
        return text.encode() if opened.types.headers == "binary" else text
    if name == "payload":
        return _body(opened, value)
    return str(value) if isinstance(value, UUID) and opened.types.id_form == "text" else value


def _body(opened: OpenTable, value: Any) -> Any:
    """A payload as the column holds it; a model or a dict is encoded as a publish would."""
    if isinstance(value, BaseModel):
        value = value.model_dump_json()
    elif isinstance(value, (dict, list)):
        value = json.dumps(value)
    if opened.types.payload == "binary":
        return value.encode() if isinstance(value, str) else value
    return bytes(value).decode() if isinstance(value, (bytes, bytearray)) else value


def _names(table: QueueTable) -> dict[str, str]:
    """The names that `insert` knows, each with the role (or plain column) that it means: columns', a model's fields', and roles'."""
    by_column = {column.name: key for key, column in table.keyed().items()}
    roles = {role: role for role in table.roles()}
    fields: dict[str, str] = {}
    if table.model is not None and issubclass(table.model, Inbox):
        for name, field in table.model.model_fields.items():
            marker = next((part for part in field.metadata if isinstance(part, Column) or hasattr(part, "role")), None)
            column = marker.name if isinstance(marker, Column) else getattr(marker, "column", None)
            fields[name] = by_column[column or name]
    return {**roles, **fields, **by_column}


def by_column(table: QueueTable, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `read_rows` by the names of its columns."""
    columns = table.keyed()
    return {columns[key].name: value for key, value in row.items()}


def dues(table: QueueTable, rows: Sequence[Mapping[str, Any]], now: datetime) -> list[datetime]:
    """When rows of `read_rows`, all of one queue, may be claimed: now, or later. Of a FIFO group only the head may."""
    waiting = [row for row in rows if not (table.processed_at and row["processed_at"] is not None)]
    if table.fifo and waiting:
        leased = [row["locked_until"] for row in waiting if table.locked_until and row["locked_until"] is not None]
        return [max([_due(waiting[0], now), *leased])]
    return [_due(row, now) for row in waiting]


def _due(row: Mapping[str, Any], now: datetime) -> datetime:
    latest: datetime = max([now, *(row[role] for role in ("retry_after", "locked_until") if row.get(role) is not None)])
    return latest


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end what waits for nothing: work on the database in memory."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    msg = "work on the database in memory waited"
    raise RuntimeError(msg)


def run_elsewhere(make_engine: Callable[[], Engine], work: Callable[[Engine], Awaitable[T]]) -> T:
    """Run work in a thread, on an engine of its own: the running loop's connections are not to be had without `await`."""
    results: list[T] = []
    errors: list[BaseException] = []

    async def run() -> None:
        engine = make_engine()
        await engine.open()
        try:
            results.append(await work(engine))
        finally:
            await engine.close(1.0)

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=main, name="rows of a test")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
