"""SQLite: counting what a table holds, and work on dead letters. For an operator and for metrics, not for the path of a message."""

from __future__ import annotations

import json

from faststream_sql.dialects.base import DeadLetterStatements, SelectThenWrite, Statement
from faststream_sql.dialects.compiler import Compiler
from faststream_sql.dialects.schema import key_expression, requeued_columns
from faststream_sql.dialects.sqlite_schema import quote
from faststream_sql.table.table import QueueTable

# One pass over the rows that are not finished. A row under an advisory lock looks like any other here: nothing is written in it.
DEPTH = """
SELECT {group}                                           --? group
SELECT ''                                                --? !group
     , count(*) FILTER (WHERE TRUE
         AND {retry_after} <= :now@retry_after           --? retry_after
         AND ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)  --? locked_until
       )
     , count(*) FILTER (WHERE {retry_after} > :now@retry_after  --? retry_after
         AND ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)  --? retry_after, locked_until
       )                                                 --? retry_after
     , 0                                                 --? !retry_after
     , count(*) FILTER (WHERE {locked_until} > :now@locked_until)  --? locked_until
     , NULL                                              --? !locked_until
     , min({retry_after}) FILTER (WHERE {retry_after} <= :now@retry_after  --? retry_after
         AND ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)  --? retry_after, locked_until
       )                                                 --? retry_after
     , NULL                                              --? !retry_after
FROM {table}
WHERE {processed_at} IS NULL                             --? processed_at
GROUP BY {group}                                         --? group
"""

_DEAD = """
WHERE TRUE
  AND {group} = :group                                   --? group
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
     , length(CAST({payload} AS BLOB))                   --? payload
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
"""
)
_KEY_FREE = "AND {key} NOT IN (SELECT value FROM json_each(:held))"
"""Rows under an advisory lock are passed over: the process that holds the keys is this one, or no other works on the file."""
REQUEUE_IN_GROUP = """
UPDATE {table}
SET {group} = :queue
  , {attempt} = 1                                        --? attempt
  , {locked_until} = NULL                                --? locked_until
WHERE {id} IN (SELECT value FROM json_each(:ids))
"""
REQUEUE_IN_TABLE = """
INSERT INTO {home_table} ({columns}) SELECT {values} FROM {table}
WHERE {id} IN (SELECT value FROM json_each(:ids))
"""
DELETE = "DELETE FROM {table} WHERE {id} IN (SELECT value FROM json_each(:ids))"


def depth(compiler: Compiler) -> Statement:
    """As `Dialect.depth`."""
    return compiler.statement("depth", DEPTH)


def dead_letters(compiler: Compiler, home: QueueTable | None, home_table: str) -> DeadLetterStatements:
    """As `Dialect.dead_letters`; `home_table` is the name of `home`, quoted."""
    table = compiler.table
    requeue = None
    held = table.form == "advisory"
    key = key_expression(table, quote, lambda column: f"CAST({column} AS TEXT)") if held else ""
    pick = PICK.replace("<free>", _KEY_FREE if held else "")
    delete = compiler.statement("purge", DELETE)
    if table.group:
        requeue = SelectThenWrite(
            compiler.statement("requeue", pick, key=key), (compiler.statement("requeue", REQUEUE_IN_GROUP),), json.dumps
        )
    elif home is not None:
        insert = compiler.statement("requeue", REQUEUE_IN_TABLE, home_table=home_table, **requeued_columns(table, home, quote))
        requeue = SelectThenWrite(compiler.statement("requeue", pick, key=key), (insert, delete), json.dumps)
    return DeadLetterStatements(
        listed=compiler.statement("list", LIST),
        shown=compiler.statement("show", SHOW),
        columns=compiler.claimed,
        requeue=requeue,
        purge=SelectThenWrite(compiler.statement("purge", pick, key=key), (delete,), json.dumps),
    )
