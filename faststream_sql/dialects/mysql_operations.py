"""MySQL and MariaDB: counting what a table holds, and work on dead letters.

For an operator and for metrics, not for the path of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from faststream_sql.dialects.base import DeadLetterStatements, SelectThenWrite, Statement
from faststream_sql.dialects.compiler import Compiler
from faststream_sql.dialects.mysql_names import lock_name, quote
from faststream_sql.dialects.schema import requeued_columns
from faststream_sql.table.table import QueueTable

# One pass over the rows that are not finished. A row under a row lock looks like any other here: nothing is written in it. Groups are told
# apart as bytes, as a claim tells them apart.
DEPTH = """
SELECT MIN({group})                                      --? group
SELECT ''                                                --? !group
     , COUNT(CASE WHEN TRUE
         AND {retry_after} <= :now@retry_after           --? retry_after
         AND ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)  --? locked_until
       THEN 1 END)
     , COUNT(CASE WHEN {retry_after} > :now@retry_after  --? retry_after
         AND ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)  --? retry_after, locked_until
       THEN 1 END)                                       --? retry_after
     , 0                                                 --? !retry_after
     , COUNT(CASE WHEN {locked_until} > :now@locked_until THEN 1 END)  --? locked_until
     , NULL                                              --? !locked_until
     , MIN(CASE WHEN {retry_after} <= :now@retry_after   --? retry_after
         AND ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)  --? retry_after, locked_until
       THEN {retry_after} END)                           --? retry_after
     , NULL                                              --? !retry_after
FROM {table}
WHERE {processed_at} IS NULL                             --? processed_at
GROUP BY CAST({group} AS BINARY)                         --? group
"""

_DEAD = """
WHERE TRUE
  AND {group} = :group                                   --? group
  AND CAST({group} AS BINARY) = :group                   --? group
  AND {processed_at} IS NULL                             --? processed_at
"""

LIST = (
    """
SELECT {id}
     , {attempt}                                         --? attempt
     , NULL                                              --? !attempt
     , {retry_after}                                     --? retry_after
     , NULL                                              --? !retry_after
     , {locked_until} > :now@locked_until                --? locked_until
     , NULL                                              --? !locked_until
     , LENGTH({payload})                                 --? payload
     , NULL                                              --? !payload
FROM {table}"""
    + _DEAD
    + """
ORDER BY {claim_order}
LIMIT :limit
"""
)
SHOW = "SELECT {claimed} FROM {table}" + _DEAD + "  AND {id} = :id"
PICK = (
    "SELECT {id} FROM {table}"
    + _DEAD
    + """
  AND ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)  --? locked_until
  <free>
ORDER BY {claim_order}
LIMIT :limit
FOR UPDATE SKIP LOCKED
"""
)
# A claim takes the key first and the row after it, and here the row is locked before its key is looked at: whoever comes second sees it.
_KEY_FREE = "AND IS_FREE_LOCK({key}) = 1"
REQUEUE_IN_GROUP = """
UPDATE {table}
SET {group} = :queue
  , {attempt} = 1                                        --? attempt
  , {locked_until} = NULL                                --? locked_until
WHERE {id} IN (:ids)
"""
REQUEUE_IN_TABLE = "INSERT INTO {home_table} ({columns}) SELECT {values} FROM {table} WHERE {id} IN (:ids)"
DELETE = "DELETE FROM {table} WHERE {id} IN (:ids)"


class Compile(Protocol):
    """Compiles a template with a purpose, as `mysql.py` does it; `more` are marks of this template alone."""

    def __call__(self, compiler: Compiler, purpose: str, template: str, **more: str) -> Statement: ...


def dead_letters(
    compiler: Compiler, home: QueueTable | None, home_table: str, compile_: Compile, pack: Callable[[Sequence[object]], object]
) -> DeadLetterStatements:
    """As `Dialect.dead_letters`; `home_table` is the name of `home`, quoted."""
    table = compiler.table
    requeue = None
    held = table.form == "advisory"
    pick = PICK.replace("<free>", _KEY_FREE if held else "")
    key = lock_name(table) if held else ""
    delete = compile_(compiler, "purge", DELETE)
    if table.group:
        requeue = SelectThenWrite(compile_(compiler, "requeue", pick, key=key), (compile_(compiler, "requeue", REQUEUE_IN_GROUP),), pack)
    elif home is not None:
        insert = compile_(compiler, "requeue", REQUEUE_IN_TABLE, home_table=home_table, **requeued_columns(table, home, quote))
        requeue = SelectThenWrite(compile_(compiler, "requeue", pick, key=key), (insert, delete), pack)
    return DeadLetterStatements(
        listed=compile_(compiler, "list", LIST),
        shown=compile_(compiler, "show", SHOW),
        columns=compiler.claimed,
        requeue=requeue,
        purge=SelectThenWrite(compile_(compiler, "purge", pick, key=key), (delete,), pack),
    )
