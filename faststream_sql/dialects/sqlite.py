"""SQLite: which of its texts a table needs, and how values are put into them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from faststream_sql.dialects import sqlite_advisory_sql as advisory
from faststream_sql.dialects import sqlite_operations as operations
from faststream_sql.dialects import sqlite_sql as sql
from faststream_sql.dialects.base import (
    AdvisoryStatements,
    Bound,
    ColumnTypes,
    DeadLetterStatements,
    GroupStatement,
    LeaseStatements,
    Plan,
    RowLockStatements,
    SelectThenWrite,
    Statement,
)
from faststream_sql.dialects.compiler import Compiler, Spelling
from faststream_sql.dialects.plain import as_json, as_simple
from faststream_sql.dialects.schema import claim_index, dead_letter_columns, key_expression
from faststream_sql.dialects.sqlite_schema import judge_types, quote, recommended_types, table_ddl
from faststream_sql.dialects.template import listed
from faststream_sql.errors import DeclarationError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts
from faststream_sql.table.table import QueueTable

SPELLING = Spelling(quote=quote, placeholder=lambda n: f"?{n}", reuse=True)

MAX_VALUES = 32_000
"""SQLite binds at most 32,766 values in one statement."""


class SQLite:
    """SQLite 3.35 and later."""

    name = "sqlite"
    product = "SQLite"
    read_clock: str | None = None
    floors: Mapping[str, tuple[int, ...]] = {"lease": (3, 35), "advisory": (3, 35), "fifo": (3, 35)}
    limits: Mapping[str, str] = {}
    notify: Statement | None = None
    created_twice: frozenset[str] = frozenset()

    def pack(self, values: Sequence[object]) -> object:
        return json.dumps(list(values))

    def quote(self, name: str) -> str:
        return quote(name)

    def types(self, table: QueueTable, facts: Sequence[ColumnFacts], indexes: Sequence[IndexFacts]) -> ColumnTypes:
        return judge_types(table, facts, claim_index(table, indexes))

    def recommended_types(self, table: QueueTable) -> ColumnTypes:
        return recommended_types(table)

    def plain_value(self, value: object, sql: str) -> object:
        return as_json(as_simple(value))

    def insert(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> Statement:
        keyed = table.keyed()
        names = [quote(keyed[key].name) for key in columns]
        values = listed([f":c{n}" for n in range(len(columns))])
        template = (
            "INSERT INTO {table} ({names}) VALUES (" + values + ") RETURNING {id}"
            if columns
            else ("INSERT INTO {table} DEFAULT VALUES RETURNING {id}")
        )
        return Compiler(table, types, SPELLING, {}).statement("insert", template, names=listed(names))

    def insert_many(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> GroupStatement:
        keyed = table.keyed()
        names = [quote(keyed[key].name) for key in columns]
        head = f"INSERT INTO {SPELLING.qualified(table)} ({listed(names)}) VALUES "
        one, tail = f"({listed(['?'] * len(columns))})", f" RETURNING {quote(table.id.name)}"

        def pack(rows: Sequence[tuple[object, ...]]) -> Bound:
            return head + listed([one] * len(rows)) + tail, [value for row in rows for value in row]

        return GroupStatement("insert_many", tuple(columns), pack, most=max(1, MAX_VALUES // max(1, len(columns))))

    def lease(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> LeaseStatements:
        compiler = _compiler(table, types, dead)
        finish_many, finish_one = (sql.PROCESS_MANY, sql.PROCESS_ONE) if table.processed_at else (sql.DELETE_MANY, sql.DELETE_ONE)
        return LeaseStatements(
            claimed=compiler.claimed,
            claim=self._claim(compiler),
            renew_many=_group(compiler, "renew", sql.RENEW_MANY, "expiry"),
            renew_one=compiler.statement("renew", sql.RENEW_ONE),
            finish_many=_group(compiler, "finish", finish_many, *(["now"] if table.processed_at else [])),
            finish_one=compiler.statement("finish", finish_one),
            nack_many=_group(compiler, "nack", sql.NACK_MANY, *(["due"] if table.retry_after else [])),
            nack_one=compiler.statement("nack", sql.NACK_ONE),
            release_many=_group(compiler, "release", sql.RELEASE_MANY, "was", *(["delivered"] if table.attempt else [])),
            bury=_bury(compiler, dead),
        )

    def row_lock(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> RowLockStatements:
        msg = (
            f"table {table.qualified_name!r} has no LockedUntil, so its rows are held by row locks, and SQLite has none: "
            "add a LockedUntil column (the lease form), or declare advisory_lock='...-{id}'"
        )
        raise DeclarationError(msg)

    def advisory(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> AdvisoryStatements:
        compiler = _compiler(table, types, dead)
        key = key_expression(table, quote, lambda column: f"CAST({column} AS TEXT)")
        take = SelectThenWrite(
            compiler.statement("claim", advisory.SELECT, key=key), (compiler.statement("claim", advisory.TAKE),), pack_ids
        )
        return AdvisoryStatements(
            claimed=compiler.claimed,
            claim=take,
            unlock=None,
            finish=compiler.statement("finish", advisory.PROCESS if table.processed_at else advisory.DELETE),
            nack=compiler.statement("nack", advisory.NACK),
            release=compiler.statement("release", advisory.RELEASE),
            bury=_bury(compiler, dead, select=advisory.BURY_SELECT, update=advisory.BURY_UPDATE),
        )

    def depth(self, table: QueueTable, types: ColumnTypes) -> Statement:
        return operations.depth(_compiler(table, types))

    def dead_letters(self, table: QueueTable, types: ColumnTypes, home: QueueTable | None) -> DeadLetterStatements:
        return operations.dead_letters(_compiler(table, types), home, SPELLING.qualified(home) if home else "")

    def ddl(self, table: QueueTable) -> tuple[str, ...]:
        return table_ddl(table)

    def missing_index(self, table: QueueTable, indexes: Sequence[IndexFacts]) -> str | None:
        return None if claim_index(table, indexes) else self.ddl(table)[1]

    def _claim(self, compiler: Compiler) -> Plan:
        table, index = compiler.table, compiler.types.claim_index
        # Without both roles the rows that are due are one range of the index; without the index the order needs the sort.
        template = sql.CLAIM_SELECT_BY_PRIORITY if table.priority and table.retry_after and index else sql.CLAIM_SELECT
        if table.fifo:
            template = sql.CLAIM_SELECT_FIFO
        return SelectThenWrite(
            compiler.statement("claim", template),
            (compiler.statement("claim", sql.CLAIM_UPDATE),),
            pack_ids,
        )


def pack_ids(ids: Sequence[object]) -> str:
    """Ids as the JSON text that `json_each` takes apart."""
    return json.dumps(list(ids))


def _compiler(table: QueueTable, types: ColumnTypes, dead: QueueTable | None = None) -> Compiler:
    walk = f"INDEXED BY {quote(types.claim_index)}" if types.claim_index else ""
    return Compiler(table, types, SPELLING, {"walk": walk, **({"dead_table": SPELLING.qualified(dead)} if dead else {})})


def _bury(compiler: Compiler, dead: QueueTable | None, *, select: str = sql.BURY_SELECT, update: str = sql.BURY_UPDATE) -> Plan | None:
    found = compiler.statement("dead letter", select)
    if compiler.table.group:
        return SelectThenWrite(found, (compiler.statement("dead letter", update),), pack_ids)
    if dead is None:
        return None
    move = dead_letter_columns(compiler.table, dead, quote)
    insert = compiler.statement("dead letter", move.into(sql.BURY_INSERT), **move.names)
    return SelectThenWrite(found, (insert, compiler.statement("dead letter", sql.BURY_DELETE)), pack_ids)


def _group(compiler: Compiler, purpose: str, write: str, *extra: str) -> GroupStatement:
    """A statement over the rows whose proof holds. `extra` names the new values of each row."""
    fields = ("id", "locked_until", *(["attempt"] if compiler.table.attempt else []), *extra)
    given = sql.GIVEN.format(fields=listed(fields), values=listed([f"json_extract(value, '$[{n}]')" for n in range(len(fields))]))
    text = compiler.text(given + "\n" + write).text
    return GroupStatement(purpose, fields, lambda rows: (text, [json.dumps(rows)]))
