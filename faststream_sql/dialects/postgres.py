"""Postgres: which of its texts a table needs, and how values are put into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from faststream_sql.dialects import postgres_advisory_sql as advisory
from faststream_sql.dialects import postgres_operations as operations
from faststream_sql.dialects import postgres_sql as sql
from faststream_sql.dialects.base import (
    AdvisoryStatements,
    ColumnTypes,
    DeadLetterStatements,
    GroupStatement,
    Guarded,
    InlineFinish,
    LeaseStatements,
    Mutex,
    Once,
    Plan,
    RowLockStatements,
    Statement,
)
from faststream_sql.dialects.compiler import Compiler, Spelling
from faststream_sql.dialects.plain import as_json, as_text
from faststream_sql.dialects.postgres_schema import judge_types, quote, recommended_types, table_ddl
from faststream_sql.dialects.schema import claim_index, dead_letter_columns, key_expression
from faststream_sql.dialects.template import Param, listed
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts
from faststream_sql.table.table import QueueTable

SPELLING = Spelling(quote=quote, placeholder=lambda n: f"${n}", reuse=True)

ISOLATION: Mapping[str | None, str] = {
    None: "READ COMMITTED",
    "read_committed": "READ COMMITTED",
    "repeatable_read": "REPEATABLE READ",
    "serializable": "SERIALIZABLE",
}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a server's version has."""

    materialized: bool = True
    """Postgres 12: `AS MATERIALIZED` says what before it every CTE did anyway."""
    identity: bool = True
    """Postgres 10: `GENERATED … AS IDENTITY`."""

    @classmethod
    def of(cls, version: Sequence[int]) -> Capabilities:
        """The capabilities of a server."""
        return cls(materialized=tuple(version) >= (12,), identity=tuple(version) >= (10,))


class Postgres:
    """Postgres 9.5 and later."""

    def __init__(self, capabilities: Capabilities = Capabilities()) -> None:
        self._can = capabilities

    name = "postgres"
    product = "Postgres"
    read_clock: str | None = "SELECT clock_timestamp()"  # `now()` would be the start of the transaction
    floors: Mapping[str, tuple[int, ...]] = {"row_lock": (9, 5), "lease": (9, 5), "advisory": (11,), "fifo": (11,)}

    limits: Mapping[str, str] = {"row_lock": sql.LIMITS_IN_TRANSACTION, "advisory": sql.LIMITS_OUTSIDE}

    created_twice = frozenset({"23505", "42P07", "42710"})
    notify: Statement | None = Statement("notify", sql.NOTIFY, (Param("channel"), Param("group")))

    def pack(self, values: Sequence[object]) -> object:
        return [str(value) for value in values]

    def quote(self, name: str) -> str:
        return quote(name)

    def types(self, table: QueueTable, facts: Sequence[ColumnFacts], indexes: Sequence[IndexFacts]) -> ColumnTypes:
        return judge_types(table, facts, claim_index(table, indexes))

    def recommended_types(self, table: QueueTable) -> ColumnTypes:
        return recommended_types(table)

    def plain_value(self, value: object, sql: str) -> object:
        text = sql.startswith(("text", "character"))  # the driver takes nothing but a str for these
        return as_json(as_text(value) if text else value)

    def insert(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> Statement:
        names = _column_names(table, columns)
        values = ", ".join(f":c{n}" for n in range(len(columns)))
        template = (
            "INSERT INTO {table} ({names})" + self._overriding(columns) + " VALUES (" + values + ") RETURNING {id}"
            if columns
            else ("INSERT INTO {table} DEFAULT VALUES RETURNING {id}")
        )
        return self._compiler(table, types).statement("insert", template, names=listed(names))

    def insert_many(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> GroupStatement:
        names = _column_names(table, columns)
        arrays = ", ".join(f"${n}::{types.sql[column]}[]" for n, column in enumerate(columns, 1))
        # the ordinal keeps the ids of a sequence in the order of the rows
        text = (
            f"INSERT INTO {SPELLING.qualified(table)} ({listed(names)}){self._overriding(columns)} "
            f"SELECT {listed([f'k.c{n}' for n in range(len(columns))])} "
            f"FROM unnest({arrays}) WITH ORDINALITY AS k ({listed([f'c{n}' for n in range(len(columns))])}, n) ORDER BY k.n "
            f"RETURNING {quote(table.id.name)}"
        )
        return GroupStatement("insert_many", tuple(columns), lambda rows: (text, _columns_of(rows)))

    def lease(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> LeaseStatements:
        compiler = self._compiler(table, types, dead)
        bury = _bury(compiler, dead, in_group=sql.BURY_IN_GROUP, in_table=sql.BURY_IN_TABLE)
        finish_many, finish_one = (sql.PROCESS_MANY, sql.PROCESS_ONE) if table.processed_at else (sql.DELETE_MANY, sql.DELETE_ONE)
        return LeaseStatements(
            claimed=compiler.claimed,
            claim=self._claim(compiler),
            renew_many=_group(compiler, "renew", sql.RENEW_MANY, ("expiry", "locked_until"), strength="NO KEY UPDATE"),
            renew_one=compiler.statement("renew", sql.RENEW_ONE),
            finish_many=_group(compiler, "finish", finish_many, *([("now", "processed_at")] if table.processed_at else [])),
            finish_one=compiler.statement("finish", finish_one),
            nack_many=_group(compiler, "nack", sql.NACK_MANY, *([("due", "retry_after")] if table.retry_after else [])),
            nack_one=compiler.statement("nack", sql.NACK_ONE),
            release_many=_group(
                compiler, "release", sql.RELEASE_MANY, ("was", "locked_until"), *([("delivered", "attempt")] if table.attempt else [])
            ),
            bury=None if bury is None else Once(bury),
        )

    def row_lock(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> RowLockStatements:
        compiler = self._compiler(table, types, dead)
        claim = sql.CLAIM_ROW_LOCK_BY_PRIORITY if table.priority and table.retry_after else sql.CLAIM_ROW_LOCK
        if table.fifo:
            claim = sql.CLAIM_ROW_LOCK_FIFO
        bury = _bury(compiler, dead, in_group=sql.BURY_HELD_IN_GROUP, in_table=sql.BURY_HELD_IN_TABLE)
        return RowLockStatements(
            claimed=compiler.claimed,
            claim=compiler.statement("claim", claim),
            finish=compiler.statement("finish", sql.PROCESS_HELD if table.processed_at else sql.DELETE_HELD),
            nack=compiler.statement("nack", sql.NACK_HELD),
            bury=() if bury is None else (bury,),
            savepoint=sql.SAVEPOINT,
            commit_and_begin=commit_and_begin,
            finish_inline=None if table.processed_at or table.id_type is str else _finish_inline(compiler),
        )

    def advisory(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> AdvisoryStatements:
        compiler = self._compiler(table, types, dead)
        old = {"attempt": "got.delivered"}
        roles = [old.get(role, f"took.{quote(column.name)}") for role, column in table.roles().items()]
        plain = [f"took.{quote(column.name)}" for column in table.columns]
        key = key_expression(table, quote, lambda column: f"{column}::text")
        bury = _bury(compiler, dead, in_group=advisory.BURY_IN_GROUP, in_table=advisory.BURY_IN_TABLE)
        return AdvisoryStatements(
            claimed=compiler.claimed,
            claim=Once(compiler.statement("claim", advisory.CLAIM, key=key, taken=listed([*roles, *plain]))),
            unlock=compiler.statement("unlock", advisory.UNLOCK),
            finish=compiler.statement("finish", advisory.PROCESS if table.processed_at else advisory.DELETE),
            nack=compiler.statement("nack", advisory.NACK),
            release=compiler.statement("release", advisory.RELEASE),
            bury=None if bury is None else Once(bury),
        )

    def depth(self, table: QueueTable, types: ColumnTypes) -> Statement:
        return operations.depth(self._compiler(table, types))

    def dead_letters(self, table: QueueTable, types: ColumnTypes, home: QueueTable | None) -> DeadLetterStatements:
        home_table = SPELLING.qualified(home) if home else ""
        return operations.dead_letters(self._compiler(table, types), home, home_table, identity=self._can.identity)

    def ddl(self, table: QueueTable) -> tuple[str, ...]:
        return table_ddl(table, SPELLING.qualified(table), identity=self._can.identity)

    def missing_index(self, table: QueueTable, indexes: Sequence[IndexFacts]) -> str | None:
        return None if claim_index(table, indexes) else self.ddl(table)[1]

    def _overriding(self, columns: Sequence[str]) -> str:
        """A row that is given its id keeps it, also where the column is GENERATED ALWAYS."""
        return " OVERRIDING SYSTEM VALUE" if "id" in columns and self._can.identity else ""

    def _compiler(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None = None) -> Compiler:
        names = {"dead_table": SPELLING.qualified(dead), "dead_id": quote(dead.id.name)} if dead else {}
        extra = {**names, "overriding": self._overriding(("id",))}
        return Compiler(table, types, SPELLING, {"materialized": " MATERIALIZED" if self._can.materialized else "", **extra})

    def _claim(self, compiler: Compiler) -> Plan:
        table = compiler.table
        # Without both, the rows that are due are one range of the index, and one ordered walk meets nothing else.
        template = sql.CLAIM_LEASE_BY_PRIORITY if table.priority and table.retry_after else sql.CLAIM_LEASE
        old = {"locked_until": "picked.was", "attempt": "picked.delivered"}
        roles = [old.get(role, f"t.{quote(column.name)}") for role, column in table.roles().items()]
        plain = [f"t.{quote(column.name)}" for column in table.columns]
        before = listed([*roles, *plain])
        if table.fifo:
            return Guarded(
                compiler.statement("look for a head", sql.PROBE_FIFO),
                Mutex(compiler.statement("mutex of a group", sql.MUTEX_FIFO), None),
                Once(compiler.statement("claim", sql.CLAIM_FIFO, before=before.replace("picked.", "head."))),
            )
        return Once(compiler.statement("claim", template, before=before))


def _bury(compiler: Compiler, dead: QueueTable | None, *, in_group: str, in_table: str) -> Statement | None:
    """The move to the dead letter: to another group of the table, to another table, or none where neither is there."""
    if compiler.table.group:
        return compiler.statement("dead letter", in_group)
    if dead is None:
        return None
    move = dead_letter_columns(compiler.table, dead, quote)
    return compiler.statement("dead letter", move.into(in_table), **move.names)


def _group(compiler: Compiler, purpose: str, write: str, *extra: tuple[str, str], strength: str = "UPDATE") -> GroupStatement:
    """A statement over the rows whose proof holds. `extra` names the new values of each row, with the column whose type they have."""
    table, types = compiler.table, compiler.types.sql
    proof = [("id", "id"), ("locked_until", "locked_until"), *([("attempt", "attempt")] if table.attempt else [])]
    fields = [*proof, *extra]
    own = sql.OWN_MANY.format(
        values="".join(f", k.{name}" for name, _ in extra),
        arrays=", ".join(f"${n}::{types[column]}[]" for n, (_, column) in enumerate(fields, 1)),
        fields=listed([name for name, _ in fields]),
        strength=strength,
    )
    text = compiler.text(own + write).text
    return GroupStatement(purpose, tuple(name for name, _ in fields), lambda rows: (text, _columns_of(rows)))


def _columns_of(rows: Sequence[tuple[object, ...]]) -> list[object]:
    """Rows as the arrays that `unnest` puts back together."""
    return [list(column) for column in zip(*rows, strict=True)]


def _column_names(table: QueueTable, columns: Sequence[str]) -> list[str]:
    keyed = table.keyed()
    return [quote(keyed[key].name) for key in columns]


def commit_and_begin(isolation: str | None) -> str:
    """One simple query that ends a transaction and opens the next."""
    return f"COMMIT;BEGIN ISOLATION LEVEL {ISOLATION[isolation]}"


def _finish_inline(compiler: Compiler) -> InlineFinish:
    """The last round trip of an acknowledged row as one simple query: delete, prove that it was there, commit, begin again.

    A simple query carries no values, so the id stands in the text: only an integer or a UUID, which the types themselves keep clean. Where
    no row was deleted the division fails, and with it the whole transaction, so that nothing is lost in silence.
    """
    table, id_column = SPELLING.qualified(compiler.table), quote(compiler.table.id.name)
    spell = _spell_uuid if compiler.table.id_type is UUID else _spell_int

    def text(row_id: object, isolation: str | None) -> str:
        return (
            f"WITH d AS (DELETE FROM {table} WHERE {id_column} = {spell(row_id)} RETURNING 1) SELECT 1/count(*) FROM d;"
            + commit_and_begin(isolation)
        )

    return InlineFinish(text, no_row="22012")  # division by zero


def _spell_int(value: object) -> str:
    return str(int(value)) if isinstance(value, int) else _refuse_inline(value)


def _spell_uuid(value: object) -> str:
    return f"'{value}'" if isinstance(value, UUID) else _refuse_inline(value)


def _refuse_inline(value: object) -> str:
    msg = f"{type(value).__name__} cannot stand in the text of a statement"
    raise TypeError(msg)
