"""The statements of SQLite.

There is one writer at a time, so a transaction that begins with the write lock (`BEGIN IMMEDIATE`) sees and holds everything that it reads:
a claim selects, then writes what it selected. A statement over several rows takes them as one JSON text, and is a transaction of its own.
`docs/statements.md` says what each text scans.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from faststream_sql.dialects.base import (
    Bound,
    ColumnTypes,
    GroupStatement,
    LeaseStatements,
    Plan,
    RowLockStatements,
    SelectThenWrite,
    Statement,
)
from faststream_sql.dialects.compiler import Compiler, Spelling
from faststream_sql.dialects.schema import claim_index, dead_letter_columns
from faststream_sql.dialects.sqlite_schema import judge_types, quote, recommended_types, table_ddl
from faststream_sql.dialects.template import listed
from faststream_sql.errors import DeclarationError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts
from faststream_sql.table.table import QueueTable

SPELLING = Spelling(quote=quote, placeholder=lambda n: f"?{n}", reuse=True)

MAX_VALUES = 32_000
"""SQLite binds at most 32,766 values in one statement."""

# --- lease -----------------------------------------------------------------------------------------------------------------------------

CLAIM_SELECT = """
SELECT {claimed} FROM {table}
WHERE ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)
  AND {group} = :group                                   --? group
  AND {processed_at} IS NULL                             --? processed_at
  AND {retry_after} <= :now@retry_after                  --? retry_after
ORDER BY {claim_order}
LIMIT :limit
"""

CLAIM_SELECT_BY_PRIORITY = """
WITH RECURSIVE step (priority, n) AS (                   -- the distinct priorities, one index probe each, no more than are needed
  SELECT * FROM (
    SELECT {priority}, 1 FROM {table}
    WHERE TRUE
      AND {group} = :group                               --? group
      AND {processed_at} IS NULL                         --? processed_at
    ORDER BY {priority} LIMIT 1)
  UNION ALL
  SELECT (SELECT d.{priority} FROM {table} AS d
          WHERE d.{priority} > step.priority
            AND d.{group} = :group                       --? group
            AND d.{processed_at} IS NULL                 --? processed_at
          ORDER BY d.{priority} LIMIT 1), n + 1
  FROM step WHERE step.priority IS NOT NULL AND n < 64
)
SELECT * FROM (
  SELECT {claimed_of_t} FROM step CROSS JOIN {table} AS t INDEXED BY {claim_index}
  WHERE step.priority IS NOT NULL                        -- the cross join fixes the order: an ORDER BY would sort every row that is due
    AND t.{priority} = step.priority
    AND t.{group} = :group                               --? group
    AND t.{processed_at} IS NULL                         --? processed_at
    AND t.{retry_after} <= :now@retry_after
    AND (t.{locked_until} IS NULL OR t.{locked_until} <= :now@locked_until)
  LIMIT :limit)
UNION ALL
SELECT * FROM (
  SELECT {claimed_of_t} FROM step CROSS JOIN {table} AS t INDEXED BY {claim_index}
  WHERE step.n = 64                                      -- more than 64 priorities: the rest in one walk
    AND t.{priority} > step.priority
    AND t.{group} = :group                               --? group
    AND t.{processed_at} IS NULL                         --? processed_at
    AND t.{retry_after} <= :now@retry_after
    AND (t.{locked_until} IS NULL OR t.{locked_until} <= :now@locked_until)
  ORDER BY {claim_order_of_t}
  LIMIT :limit)
LIMIT :limit
"""

# The head of a FIFO group: its first unfinished row, claimed when it is due and nothing of the group is in work.
CLAIM_SELECT_FIFO = """
SELECT {claimed_of_t} FROM {table} AS t
WHERE t.{id} = (
    SELECT h.{id} FROM {table} AS h
    WHERE h.{group} = :group
      AND h.{processed_at} IS NULL                       --? processed_at
    ORDER BY {claim_order_of_h} LIMIT 1)
  AND (t.{locked_until} IS NULL OR t.{locked_until} <= :now@locked_until)
  AND t.{retry_after} <= :now@retry_after                --? retry_after
  AND NOT EXISTS (
    SELECT 1 FROM {table} AS o
    WHERE o.{group} = :group AND o.{locked_until} > :now@locked_until
      AND o.{processed_at} IS NULL                       --? processed_at
  )
LIMIT :limit
"""

CLAIM_UPDATE = """
UPDATE {table}
SET {locked_until} = :expiry@locked_until
  , {attempt} = CASE WHEN {attempt} < {attempt_max} THEN {attempt} + 1 ELSE {attempt} END  --? attempt
WHERE {id} IN (SELECT value FROM json_each(:ids))
"""

# The rows and their proofs, from one JSON text; the cross join looks each up by its id (the other way round would scan the table).
_GIVEN = "WITH k ({fields}) AS MATERIALIZED (SELECT {values} FROM json_each(?1))"
_OWNED = """
WHERE t.{id} = k.id
  AND t.{locked_until} = k.locked_until
  AND t.{attempt} = k.attempt                            --? attempt
  AND t.{processed_at} IS NULL                           --? processed_at
"""

RENEW_MANY = "UPDATE {table} AS t SET {locked_until} = k.expiry FROM k" + _OWNED + "RETURNING {id}"
DELETE_MANY = "DELETE FROM {table} WHERE {id} IN (SELECT t.{id} FROM k CROSS JOIN {table} AS t" + _OWNED + ") RETURNING {id}"
PROCESS_MANY = "UPDATE {table} AS t SET {processed_at} = k.now, {locked_until} = NULL FROM k" + _OWNED + "RETURNING {id}"
NACK_MANY = (
    """
UPDATE {table} AS t
SET {locked_until} = NULL
  , {retry_after} = COALESCE(k.due, t.{retry_after})     --? retry_after
FROM k"""
    + _OWNED
    + "RETURNING {id}"
)
RELEASE_MANY = (
    """
UPDATE {table} AS t
SET {locked_until} = NULL
  , {attempt} = k.delivered                              --? attempt
FROM k"""
    + _OWNED
    + "RETURNING {id}"
)

_PROOF = """
WHERE {id} = :id
  AND {locked_until} IN (:confirmed, :sent)              -- the expiry last confirmed, and one sent whose answer never came
  AND {attempt} = :attempt                               --? attempt
  AND {processed_at} IS NULL                             --? processed_at
"""

RENEW_ONE = "UPDATE {table} SET {locked_until} = :expiry" + _PROOF + "RETURNING {id}"
DELETE_ONE = "DELETE FROM {table}" + _PROOF + "RETURNING {id}"
PROCESS_ONE = "UPDATE {table} SET {processed_at} = :now@processed_at, {locked_until} = NULL" + _PROOF + "RETURNING {id}"
NACK_ONE = (
    """
UPDATE {table}
SET {locked_until} = NULL
  , {retry_after} = COALESCE(:due@retry_after, {retry_after})  --? retry_after
"""
    + _PROOF
    + "RETURNING {id}"
)
BURY_SELECT = (
    "SELECT {id} FROM {table}"
    + _PROOF
    + """
  AND {group} = :group                                   --? group
"""
)
BURY_UPDATE = """
UPDATE {table}
SET {group} = :dead
  , {locked_until} = NULL
  , {attempt} = :delivered                               --? attempt
WHERE {id} IN (SELECT value FROM json_each(:ids))
"""
BURY_INSERT = """
INSERT INTO {dead_table} (<columns>) SELECT <values> FROM {table}
WHERE {id} IN (SELECT value FROM json_each(:ids))
"""
BURY_DELETE = "DELETE FROM {table} WHERE {id} IN (SELECT value FROM json_each(:ids))"


class SQLite:
    """SQLite 3.35 and later."""

    name = "sqlite"
    product = "SQLite"
    floors: Mapping[str, tuple[int, ...]] = {"lease": (3, 35), "advisory": (3, 35), "fifo": (3, 35)}

    def quote(self, name: str) -> str:
        return quote(name)

    def types(self, table: QueueTable, facts: Sequence[ColumnFacts], indexes: Sequence[IndexFacts]) -> ColumnTypes:
        return judge_types(table, facts, claim_index(table, indexes))

    def recommended_types(self, table: QueueTable) -> ColumnTypes:
        return recommended_types(table)

    def insert(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> Statement:
        roles = table.roles()
        names = [quote(roles[column].name if column in roles else column) for column in columns]
        values = listed([f":c{n}" for n in range(len(columns))])
        template = (
            "INSERT INTO {table} ({names}) VALUES (" + values + ") RETURNING {id}"
            if columns
            else ("INSERT INTO {table} DEFAULT VALUES RETURNING {id}")
        )
        return Compiler(table, types, SPELLING, {}).statement("insert", template, names=listed(names))

    def insert_many(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> GroupStatement:
        roles = table.roles()
        names = [quote(roles[column].name if column in roles else column) for column in columns]
        head = f"INSERT INTO {SPELLING.qualified(table)} ({listed(names)}) VALUES "
        one, tail = f"({listed(['?'] * len(columns))})", f" RETURNING {quote(table.id.name)}"

        def pack(rows: Sequence[tuple[object, ...]]) -> Bound:
            return head + listed([one] * len(rows)) + tail, [value for row in rows for value in row]

        return GroupStatement("insert_many", tuple(columns), pack, most=max(1, MAX_VALUES // max(1, len(columns))))

    def lease(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> LeaseStatements:
        compiler = _compiler(table, types, dead)
        finish_many, finish_one = (PROCESS_MANY, PROCESS_ONE) if table.processed_at else (DELETE_MANY, DELETE_ONE)
        return LeaseStatements(
            claimed=compiler.claimed,
            claim=self._claim(compiler),
            renew_many=_group(compiler, "renew", RENEW_MANY, "expiry"),
            renew_one=compiler.statement("renew", RENEW_ONE),
            finish_many=_group(compiler, "finish", finish_many, *(["now"] if table.processed_at else [])),
            finish_one=compiler.statement("finish", finish_one),
            nack_many=_group(compiler, "nack", NACK_MANY, *(["due"] if table.retry_after else [])),
            nack_one=compiler.statement("nack", NACK_ONE),
            release_many=_group(compiler, "release", RELEASE_MANY, *(["delivered"] if table.attempt else [])),
            bury=_bury(compiler, dead),
        )

    def row_lock(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> RowLockStatements:
        msg = (
            f"table {table.qualified_name!r} has no LockedUntil, so its rows are held by row locks, and SQLite has none: "
            "add a LockedUntil column (the lease form), or declare advisory_lock='...-{id}'"
        )
        raise DeclarationError(msg)

    def ddl(self, table: QueueTable) -> tuple[str, ...]:
        return table_ddl(table)

    def missing_index(self, table: QueueTable, indexes: Sequence[IndexFacts]) -> str | None:
        return None if claim_index(table, indexes) else self.ddl(table)[1]

    def _claim(self, compiler: Compiler) -> Plan:
        table, index = compiler.table, compiler.types.claim_index
        # Without both roles the rows that are due are one range of the index; without the index the order needs the sort.
        template = CLAIM_SELECT_BY_PRIORITY if table.priority and table.retry_after and index else CLAIM_SELECT
        if table.fifo:
            template = CLAIM_SELECT_FIFO
        return SelectThenWrite(
            compiler.statement("claim", template, claim_index=quote(index or "")),
            (compiler.statement("claim", CLAIM_UPDATE),),
            pack_ids,
        )


def pack_ids(ids: Sequence[object]) -> str:
    """Ids as the JSON text that `json_each` takes apart."""
    return json.dumps(list(ids))


def _compiler(table: QueueTable, types: ColumnTypes, dead: QueueTable | None = None) -> Compiler:
    return Compiler(table, types, SPELLING, {"dead_table": SPELLING.qualified(dead)} if dead else {})


def _bury(compiler: Compiler, dead: QueueTable | None) -> Plan | None:
    select = compiler.statement("dead letter", BURY_SELECT)
    if compiler.table.group:
        return SelectThenWrite(select, (compiler.statement("dead letter", BURY_UPDATE),), pack_ids)
    if dead is None:
        return None
    columns, values = dead_letter_columns(compiler.table, dead, quote)
    insert = compiler.statement("dead letter", BURY_INSERT.replace("<columns>", columns).replace("<values>", values))
    return SelectThenWrite(select, (insert, compiler.statement("dead letter", BURY_DELETE)), pack_ids)


def _group(compiler: Compiler, purpose: str, write: str, *extra: str) -> GroupStatement:
    """A statement over the rows whose proof holds. `extra` names the new values of each row."""
    fields = ("id", "locked_until", *(["attempt"] if compiler.table.attempt else []), *extra)
    given = _GIVEN.format(fields=listed(fields), values=listed([f"json_extract(value, '$[{n}]')" for n in range(len(fields))]))
    text = compiler.text(given + "\n" + write).text
    return GroupStatement(purpose, fields, lambda rows: (text, [json.dumps(rows)]))
