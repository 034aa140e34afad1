"""Postgres: counting what a table holds, and work on dead letters. For an operator and for metrics, not for the path of a message.

`docs/statements.md` says what each text scans.
"""

from __future__ import annotations

from faststream_sql.dialects.base import DeadLetterStatements, Once, Statement
from faststream_sql.dialects.compiler import Compiler
from faststream_sql.dialects.postgres_schema import quote
from faststream_sql.dialects.schema import key_expression, requeued_columns
from faststream_sql.table.table import QueueTable

# One pass over the rows that are not finished. A row under a row lock or an advisory lock looks like any other: nothing is written in it.
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
     , octet_length({body})                              --? payload
     , NULL                                              --? !payload
FROM {table}"""
    + _DEAD
    + """
ORDER BY {claim_order}
LIMIT :limit
"""
)
SHOW = "SELECT {claimed} FROM {table}" + _DEAD + "  AND {id} = :id"

# Rows that somebody has in work are passed over: those under a row lock are locked, a lease is in the row, and a key is tried.
_PICKED = (
    """
WITH candidates AS{materialized} (
  SELECT {id} AS id, {key} AS key
  FROM {table}"""
    + _DEAD
    + """
    AND ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)  --? locked_until
  ORDER BY {claim_order}
  LIMIT :limit::bigint + {ahead}
  FOR UPDATE SKIP LOCKED
),
picked AS{materialized} (SELECT id FROM candidates WHERE {free} LIMIT :limit::bigint)
"""
)
REQUEUE_IN_GROUP = (
    _PICKED
    + """
UPDATE {table} AS t
SET {group} = :queue
  , {attempt} = 1                                        --? attempt
  , {locked_until} = NULL                                --? locked_until
WHERE t.{id} = ANY (ARRAY(SELECT id FROM picked))
RETURNING t.{id}
"""
)
REQUEUE_IN_TABLE = (
    _PICKED
    + """
, gone AS (DELETE FROM {table} AS t WHERE t.{id} = ANY (ARRAY(SELECT id FROM picked)) RETURNING t.*)
INSERT INTO {home_table} ({columns}){overriding}
SELECT {values} FROM gone
RETURNING {home_id}
"""
)
PURGE = _PICKED + "DELETE FROM {table} AS t WHERE t.{id} = ANY (ARRAY(SELECT id FROM picked)) RETURNING t.{id}"


def depth(compiler: Compiler) -> Statement:
    """As `Dialect.depth`."""
    return compiler.statement("depth", DEPTH)


def dead_letters(compiler: Compiler, home: QueueTable | None, home_table: str, *, identity: bool) -> DeadLetterStatements:
    """As `Dialect.dead_letters`; `home_table` is the name of `home`, quoted."""
    table = compiler.table
    payload = quote(table.payload.name) if table.payload else ""
    body = payload if compiler.types.payload == "binary" else f"{payload}::text"
    held = table.form == "advisory"
    marks = {
        "key": key_expression(table, quote, lambda column: f"{column}::text") if held else "NULL::text",
        "ahead": "1000" if held else "0",  # keys in work are looked past; the locks of those tried end with the statement
        "free": "pg_try_advisory_xact_lock(hashtextextended(key, 0))" if held else "TRUE",
    }
    requeue = None
    if table.group:
        requeue = Once(compiler.statement("requeue", REQUEUE_IN_GROUP, **marks))
    elif home is not None:
        more = {
            **requeued_columns(table, home, quote),
            "home_table": home_table,
            "home_id": quote(home.id.name),
            "overriding": " OVERRIDING SYSTEM VALUE" if identity else "",
        }
        requeue = Once(compiler.statement("requeue", REQUEUE_IN_TABLE, **marks, **more))
    return DeadLetterStatements(
        listed=compiler.statement("list", LIST, body=body),
        shown=compiler.statement("show", SHOW),
        columns=compiler.claimed,
        requeue=requeue,
        purge=Once(compiler.statement("purge", PURGE, **marks)),
    )
