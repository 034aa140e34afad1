"""The dialect of the database in memory: SQLite's, with row locks, and with claims that can be narrowed to one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from faststream_sql.dialects import add_dialect
from faststream_sql.dialects.base import (
    AdvisoryStatements,
    ColumnTypes,
    LeaseStatements,
    LockThenTake,
    Plan,
    RowLockStatements,
    SelectThenWrite,
    Statement,
)
from faststream_sql.dialects.compiler import Compiler
from faststream_sql.dialects.schema import dead_letter_columns
from faststream_sql.dialects.sqlite import SPELLING, SQLite
from faststream_sql.table.table import QueueTable

PRODUCT = "memory"
COMMIT_AND_BEGIN = "COMMIT; BEGIN"

_FREE = """
WITH free AS MATERIALIZED (
  SELECT * FROM {table}
  WHERE row_wanted({id}) AND row_free({key}, {id})
    AND {group} = :group                                 --? group
    AND {processed_at} IS NULL                           --? processed_at
    AND {retry_after} <= :now@retry_after                --? retry_after
    AND ({partition_key} IS NULL OR {partition_key} NOT IN (SELECT value FROM json_each(:busy)))  --? partition_key
  ORDER BY {claim_order}
  LIMIT :limit
)
SELECT {claimed} FROM free WHERE row_lock({key}, {id})
"""
_HEAD = """
WITH head AS MATERIALIZED (
  SELECT t.* FROM {table} AS t
  WHERE t.{id} = (
      SELECT h.{id} FROM {table} AS h
      WHERE h.{group} = :group
        AND h.{processed_at} IS NULL                     --? processed_at
      ORDER BY {claim_order_of_h} LIMIT 1)
    AND row_wanted(t.{id}) AND row_free('a group', :mutex)
    AND t.{retry_after} <= :now@retry_after              --? retry_after
    AND (t.{partition_key} IS NULL OR t.{partition_key} NOT IN (SELECT value FROM json_each(:busy)))  --? partition_key
  LIMIT :limit
)
SELECT {claimed} FROM head WHERE row_lock('a group', :mutex) AND row_lock({key}, {id})
"""
_DELETE = "DELETE FROM {table} WHERE {id} = :id RETURNING {id}"
_PROCESS = "UPDATE {table} SET {processed_at} = :now@processed_at WHERE {id} = :id AND {processed_at} IS NULL RETURNING {id}"
_NACK = """
UPDATE {table}
SET {id} = {id}
  , {attempt} = CASE WHEN {attempt} < {attempt_max} THEN {attempt} + 1 ELSE {attempt} END  --? attempt
  , {retry_after} = COALESCE(:due@retry_after, {retry_after})  --? retry_after
WHERE {id} = :id
RETURNING {id}
"""
_BURY_IN_GROUP = "UPDATE {table} SET {group} = :dead WHERE {id} = :id RETURNING {id}"
_BURY_IN_TABLE = "INSERT INTO {dead_table} (<columns>) SELECT <values> FROM {table} WHERE {id} = :id RETURNING 1"


class Memory(SQLite):
    """What `SQLite` says, but for the claims and the row lock form."""

    name = PRODUCT
    product = "the test client's database"
    floors: Mapping[str, tuple[int, ...]] = {**SQLite.floors, "row_lock": (3, 35)}

    def lease(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> LeaseStatements:
        """SQLite's, with a claim that can be narrowed."""
        statements = super().lease(table, replace(types, claim_index=None), dead)  # without an index the claim is one plain select
        return replace(
            statements, claim=_narrowed(statements.claim, f"t.{self.quote(table.id.name)}" if table.fifo else self.quote(table.id.name))
        )

    def advisory(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> AdvisoryStatements:
        """SQLite's, with a claim that can be narrowed."""
        statements = super().advisory(table, replace(types, claim_index=None), dead)
        return replace(statements, claim=_narrowed(statements.claim, self.quote(table.id.name)))

    def row_lock(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> RowLockStatements:
        """The row lock form, on the locks of `memory.Locks`."""
        names = {"key": _text(table.qualified_name), "dead_table": SPELLING.qualified(dead) if dead else ""}
        compiler = Compiler(table, types, SPELLING, names)
        bury: tuple[Statement, ...] = ()
        if table.group:
            bury = (compiler.statement("dead letter", _BURY_IN_GROUP),)
        elif dead is not None:
            move = dead_letter_columns(table, dead, self.quote)
            insert = compiler.statement("dead letter", move.into(_BURY_IN_TABLE), **move.names)
            bury = (insert, compiler.statement("dead letter", _DELETE))
        return RowLockStatements(
            claimed=compiler.claimed,
            claim=compiler.statement("claim", _HEAD if table.fifo else _FREE),
            finish=compiler.statement("finish", _PROCESS if table.processed_at else _DELETE),
            nack=compiler.statement("nack", _NACK),
            bury=bury,
            commit_and_begin=_commit_and_begin,
            finish_inline=None,
        )


def _narrowed(claim: Plan | LockThenTake, key: str) -> Plan:
    """The claim with a select that finds no row but a wanted one."""
    if not isinstance(claim, SelectThenWrite) or claim.select.text.count("\nWHERE ") != 1:
        msg = f"the claim is no longer one plain select: {claim}"
        raise TypeError(msg)
    text = claim.select.text.replace("\nWHERE ", f"\nWHERE row_wanted({key}) AND ")
    return replace(claim, select=replace(claim.select, text=text))


def _commit_and_begin(_isolation: str | None) -> str:
    return COMMIT_AND_BEGIN


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


add_dialect(PRODUCT, Memory())
