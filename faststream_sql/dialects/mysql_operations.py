"""MySQL and MariaDB: counting what a table holds, and work on dead letters.

For an operator and for metrics, not for the path of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from faststream_sql.dialects.base import DeadLetterStatements, SelectThenWrite, Statement
from faststream_sql.dialects.compiler import Compiler
from faststream_sql.dialects.mysql_names import quote
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
ORDER BY {claim_order}
LIMIT :limit
FOR UPDATE SKIP LOCKED
"""
)
REQUEUE_IN_GROUP = """
UPDATE {table}
SET {group} = :queue
  , {attempt} = 1                                        --? attempt
  , {locked_until} = NULL                                --? locked_until
WHERE {id} IN (:ids)
"""
REQUEUE_IN_TABLE = "INSERT INTO {home_table} (<columns>) SELECT <values> FROM {table} WHERE {id} IN (:ids)"
DELETE = "DELETE FROM {table} WHERE {id} IN (:ids)"

Compile = Callable[[Compiler, str, str], Statement]
"""Compiles a template with a purpose, as `mysql.py` does it."""


def dead_letters(
    compiler: Compiler, home: QueueTable | None, home_table: str, compile_: Compile, pack: Callable[[Sequence[object]], object]
) -> DeadLetterStatements:
    """As `Dialect.dead_letters`; `home_table` is the name of `home`, quoted."""
    table = compiler.table
    requeue = None
    delete = compile_(compiler, "purge", DELETE)
    if table.group:
        requeue = SelectThenWrite(compile_(compiler, "requeue", PICK), (compile_(compiler, "requeue", REQUEUE_IN_GROUP),), pack)
    elif home is not None:
        columns, values = requeued_columns(table, home, quote)
        text = REQUEUE_IN_TABLE.replace("<columns>", columns).replace("<values>", values).replace("{home_table}", home_table)
        requeue = SelectThenWrite(compile_(compiler, "requeue", PICK), (compile_(compiler, "requeue", text), delete), pack)
    return DeadLetterStatements(
        listed=compile_(compiler, "list", LIST),
        shown=compile_(compiler, "show", SHOW),
        columns=compiler.claimed,
        requeue=requeue,
        purge=SelectThenWrite(compile_(compiler, "purge", PICK), (delete,), pack),
    )
