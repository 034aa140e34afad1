"""The tables of a database as they are, and whether what is declared fits them: judged without I/O, so also from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import assert_never

from faststream_sql.dialects import dialect_for
from faststream_sql.dialects.base import ColumnTypes, Dialect
from faststream_sql.drivers.base import Pool, Server, Use
from faststream_sql.engine.startup import check_limit, check_server, index_warning
from faststream_sql.errors import DeclarationError, SchemaError, ServerTooOldError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts
from faststream_sql.table.table import QueueTable


class TableName(NamedTuple):
    """What the catalogue knows a table by."""

    schema: str | None
    name: str

    @classmethod
    def of(cls, table: QueueTable) -> TableName:
        """The name of a described table."""
        return cls(table.schema, table.name)

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table as its database describes it. One without columns is not there."""

    columns: tuple[ColumnFacts, ...] = ()
    indexes: tuple[IndexFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class Schema:
    """What a server said of itself and of some tables."""

    server: Server
    tables: Mapping[TableName, TableFacts]


@dataclass(frozen=True, slots=True)
class Reader:
    """A subscription as it is declared."""

    queue: str
    table: QueueTable
    max_attempts: int | None
    dead_letter: str | QueueTable | None
    dead_table: QueueTable | None
    """The table that its dead letters move to, where that is not its own."""

    @property
    def who(self) -> str:
        """What errors call it."""
        return f"subscription {self.queue!r}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not fit (an error), or that will hurt later (a warning)."""

    text: str
    is_error: bool = True


async def read_schema(pool: Pool, server: Server, tables: Iterable[QueueTable]) -> Schema:
    """Read what the catalogue says of the tables. Raises DatabaseError."""
    found: dict[TableName, TableFacts] = {}
    async with pool.connection(Use.STATEMENT, "reading of the schema") as connection:
        for name in dict.fromkeys(TableName.of(table) for table in tables):
            columns = await connection.columns(name.name, name.schema)
            indexes = await connection.indexes(name.name, name.schema) if columns else []
            found[name] = TableFacts(tuple(columns), tuple(indexes))
    return Schema(server, found)


def judge(schema: Schema, readers: Sequence[Reader], tables: Iterable[QueueTable]) -> list[Finding]:
    """Everything about the readers and tables that does not fit the schema: each missing name, and not the first alone."""
    dialect = dialect_for(schema.server.product, schema.server.version)
    types: dict[QueueTable, ColumnTypes] = {}
    findings: list[Finding] = []
    for table in dict.fromkeys(tables):
        facts = schema.tables.get(TableName.of(table), TableFacts())
        try:
            types[table] = dialect.types(table, facts.columns, facts.indexes)
        except (SchemaError, DeclarationError) as error:
            used_by = [reader.who for reader in readers if table in {reader.table, reader.dead_table}]
            findings.append(Finding(f"{', '.join(dict.fromkeys(used_by))}: {error}" if used_by else str(error)))
    for reader in readers:
        findings += (Finding(text) for text in _unfit(schema, dialect, reader, types))
        facts = schema.tables.get(TableName.of(reader.table), TableFacts())
        if reader.table in types and (text := index_warning(dialect, reader.table, facts.indexes, reader.who)):
            findings.append(Finding(text, is_error=False))
    return list(dict.fromkeys(findings))


def _unfit(schema: Schema, dialect: Dialect, reader: Reader, types: Mapping[QueueTable, ColumnTypes]) -> Iterator[str]:
    """What a subscription cannot have on this server."""
    table = reader.table
    try:
        check_limit(reader.queue, table, reader.max_attempts, reader.dead_letter)
    except DeclarationError as error:
        yield str(error)
    try:
        for need in (table.form, *(["fifo"] if table.fifo else [])):
            check_server(dialect, schema.server, need)
        if table in types:
            _compile(dialect, table, types[table], reader.dead_table)
    except (DeclarationError, ServerTooOldError) as error:
        yield f"{reader.who}: {error}"


def _compile(dialect: Dialect, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> None:
    match table.form:
        case "lease":
            dialect.lease(table, types, dead)
        case "row_lock":
            dialect.row_lock(table, types, dead)
        case "advisory":
            dialect.advisory(table, types, dead)
        case form:
            assert_never(form)


def differences(before: Schema, now: Schema) -> list[str]:
    """In what the tables of `now` differ from what they were; the server's version and the order of columns are no matter."""
    if before.server.product != now.server.product:
        return [f"the database was {before.server.product}, and is {now.server.product}"]
    found: list[str] = []
    for name, facts in now.tables.items():
        known = before.tables.get(name)
        if known is None:
            found.append(f"table {str(name)!r} is not in it")
        else:
            found += _changes(name, known, facts)
    return found + [f"table {str(name)!r} is in it, and is used no more" for name in before.tables if name not in now.tables]


def _changes(name: TableName, before: TableFacts, now: TableFacts) -> list[str]:
    if bool(before.columns) != bool(now.columns):
        return [f"table {str(name)!r} {'was made' if now.columns else 'is gone'}"]
    found: list[str] = []
    for what, old, new in (
        ("column", {column.name: column for column in before.columns}, {column.name: column for column in now.columns}),
        ("index", {index.name: index for index in before.indexes}, {index.name: index for index in now.indexes}),
    ):
        where = f"table {str(name)!r}: {what}"
        found += [f"{where} {key!r} is gone" for key in old if key not in new]
        found += [f"{where} {key!r} is new" for key in new if key not in old]
        changed = [key for key in old if key in new and old[key] != new[key]]
        found += [f"{where} {key!r} was {_words(old[key])}, and is {_words(new[key])}" for key in changed]
    return found


def _words(facts: ColumnFacts | IndexFacts) -> str:
    match facts:
        case ColumnFacts():
            default = "" if facts.default is None else f" DEFAULT {facts.default}"
            extra = f" ({facts.extra})" if facts.extra else ""
            return f"{facts.type}{'' if facts.nullable else ' NOT NULL'}{default}{extra}"
        case IndexFacts():
            return f"({', '.join(facts.columns)})"
        case _:
            assert_never(facts)
