"""Checks at start: every statement is prepared, every column judged, before the first row is touched."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from faststream_sql.dialects.base import (
    AdvisoryStatements,
    Bound,
    Dialect,
    GroupSelectThenWrite,
    GroupStatement,
    Guarded,
    LeaseStatements,
    LockThenTake,
    Mutex,
    Once,
    RowLockStatements,
    SelectThenWrite,
    Statement,
)
from faststream_sql.drivers.base import Connection, Pool, Server, Use
from faststream_sql.engine.tables import Expiries, OpenTable
from faststream_sql.errors import DatabaseError, DeclarationError, SchemaError, ServerTooOldError, StatementError, TransientError
from faststream_sql.table.catalogue import IndexFacts
from faststream_sql.table.table import QueueTable

Statements = LeaseStatements | RowLockStatements | AdvisoryStatements


def check_server(dialect: Dialect, server: Server, need: str) -> None:
    """Raises ServerTooOldError or DeclarationError where the server cannot serve a form (`row_lock`, `lease`, `advisory`, or `fifo`)."""
    floor = dialect.floors.get(need)
    if floor is not None and server.version[: len(floor)] < floor:
        needed = ".".join(map(str, floor))
        msg = f"{dialect.product} {server.detail} is too old for {need.replace('_', ' ')}: it needs {needed} or later"
        raise ServerTooOldError(msg)
    if need in server.refuses:
        msg = f"{dialect.product} {server.detail} cannot serve the {need.replace('_', ' ')} form: {server.refuses[need]}"
        raise DeclarationError(msg)


def index_warning(dialect: Dialect, table: QueueTable, indexes: Sequence[IndexFacts], who: str) -> str | None:
    """What to say where no index serves a claim, with the DDL that makes one."""
    missing = dialect.missing_index(table, indexes)
    if missing is None:
        return None
    return f"{who}: no index serves its claims, which will slow down as the table grows. Create one: {missing}"


async def open_table(pool: Pool, dialect: Dialect, table: QueueTable, who: str, purpose: str) -> OpenTable:
    """Read the table's columns and judge them. `who` and `purpose` name the subscription and the statement in errors."""
    async with pool.connection(Use.STATEMENT, f"start of {who}") as connection:
        facts = await connection.columns(table.name, table.schema)
        indexes = await connection.indexes(table.name, table.schema) if facts else []
    try:
        types = dialect.types(table, facts, indexes)
    except SchemaError as error:
        msg = f"{who}, statement {purpose!r}: {error}"
        raise SchemaError(msg) from error
    expiries = Expiries(types.times["locked_until"]) if "locked_until" in types.times else None
    return OpenTable(table, dialect, types, tuple(indexes), expiries)


async def prepare_all(pool: Pool, statements: Statements, table: QueueTable, who: str) -> None:
    """Have the server check every statement of a form. Raises SchemaError with the subscription, the table and the statement's purpose."""
    async with pool.connection(Use.STATEMENT, f"start of {who}") as connection:
        for purpose, text in texts_of(statements):
            await prepare_one(connection, text, table, who, purpose)


async def prepare_one(connection: Connection, text: str, table: QueueTable, who: str, purpose: str) -> None:
    """Have the server check one statement. Raises SchemaError, as `prepare_all` does."""
    try:
        await connection.prepare(text)
    except StatementError as error:
        msg = f"{who}, statement {purpose!r} on table {table.qualified_name!r}: {error}"
        raise SchemaError(msg) from error


async def create_one(pool: Pool, dialect: Dialect, text: str) -> None:
    """Carry out an `IF NOT EXISTS` statement. Another process may be at the same: where that gets in the way, it is there the next time.

    Raises TransientError for a statement to be tried again.
    """
    async with pool.connection(Use.STATEMENT, "create_tables") as connection:
        try:
            await connection.script(text)
        except DatabaseError as error:
            if error.code not in dialect.created_twice:
                raise
            msg = f"it was created by another process at the same time: {error}"
            raise TransientError(msg, code=error.code) from error


def texts_of(statements: Statements) -> Iterator[tuple[str, str]]:
    """Every text of a form with its purpose, each once."""
    seen: set[str] = set()
    for field in dataclasses.fields(statements):
        for purpose, text in _texts(getattr(statements, field.name)):
            if text not in seen:
                seen.add(text)
                yield purpose, text


def _texts(value: object) -> Iterator[tuple[str, str]]:
    match value:
        case Statement():
            yield value.purpose, value.text
        case Once() | SelectThenWrite() | Guarded() | Mutex() | LockThenTake():
            for field in dataclasses.fields(value):
                yield from _texts(getattr(value, field.name))
        case tuple():
            for part in value:
                yield from _texts(part)
        case GroupStatement():
            yield value.purpose, _sample(value.pack([tuple(None for _ in value.fields)]))
        case GroupSelectThenWrite():
            row = tuple(None for _ in value.fields)
            yield value.purpose, _sample(value.select([row]))
            yield value.purpose, _sample(value.write([row], [None]))
        case _:
            return


def _sample(bound: Bound) -> str:
    return bound[0]


def check_limit(name: str, table: QueueTable, max_attempts: int | None, dead: object | None) -> None:
    """Raises DeclarationError for a limit that the subscription cannot carry out."""
    if (max_attempts is None) != (dead is None):
        given, missing = ("max_attempts", "dead_letter") if dead is None else ("dead_letter", "max_attempts")
        msg = (
            f"subscription {name!r} declares {given} without {missing}: the two go together, since a row that is given up must go somewhere"
        )
        raise DeclarationError(msg)
    if max_attempts is not None and table.attempt is None:
        msg = (
            f"subscription {name!r} declares max_attempts={max_attempts}, and table {table.qualified_name!r} counts none: "
            "add a column of the role Attempt"
        )
        raise DeclarationError(msg)
    if isinstance(dead, str) and table.group is not None and dead == name:
        msg = f"subscription {name!r} sends its dead letters into its own group: they would come back at once; name another group"
        raise DeclarationError(msg)
    if isinstance(dead, QueueTable) and table.group is not None:
        msg = (
            f"subscription {name!r} names the table {dead.qualified_name!r} for its dead letters, and its own table "
            f"{table.qualified_name!r} has groups: name a group instead"
        )
        raise DeclarationError(msg)
    if isinstance(dead, QueueTable) and (dead.name, dead.schema) == (table.name, table.schema):
        msg = f"subscription {name!r} sends its dead letters into its own table: they would come back at once; name another table"
        raise DeclarationError(msg)
