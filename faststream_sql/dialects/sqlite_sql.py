"""The texts of SQLite's statements. `dialects/template.py` says what the marks mean.

There is one writer at a time, so a transaction that begins with the write lock (`BEGIN IMMEDIATE`) sees and holds everything that it reads:
a claim selects, then writes what it selected. A statement over several rows takes them as one JSON text, and is a transaction of its own.
`docs/statements.md` says what each text scans.
"""

from __future__ import annotations

# --- lease -----------------------------------------------------------------------------------------------------------------------------

# `{walk}` names the index that has the claim's order: left to itself, a planner that has seen ANALYZE may scan the table and
# sort it. The `+` keeps it from skipping through that index by the time.
CLAIM_SELECT = """
SELECT {claimed} FROM {table} {walk}
WHERE ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)
  AND {group} = :group                                   --? group
  AND {processed_at} IS NULL                             --? processed_at
  AND {retry_after} <= :now@retry_after                  --? retry_after, !priority
  AND +{retry_after} <= :now@retry_after                 --? retry_after, priority
  AND ({partition_key} IS NULL OR {partition_key} NOT IN (SELECT value FROM json_each(:busy)))  --? partition_key
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
  SELECT {claimed_of_t} FROM step CROSS JOIN {table} AS t {walk}
  WHERE step.priority IS NOT NULL                        -- the cross join fixes the order: an ORDER BY would sort every row that is due
    AND t.{priority} = step.priority
    AND t.{group} = :group                               --? group
    AND t.{processed_at} IS NULL                         --? processed_at
    AND t.{retry_after} <= :now@retry_after
    AND (t.{partition_key} IS NULL OR t.{partition_key} NOT IN (SELECT value FROM json_each(:busy)))  --? partition_key
    AND (t.{locked_until} IS NULL OR t.{locked_until} <= :now@locked_until)
  LIMIT :limit)
UNION ALL
SELECT * FROM (
  SELECT {claimed_of_t} FROM step CROSS JOIN {table} AS t {walk}
  WHERE step.n = 64                                      -- more than 64 priorities: the rest in one walk
    AND t.{priority} > step.priority
    AND t.{group} = :group                               --? group
    AND t.{processed_at} IS NULL                         --? processed_at
    AND t.{retry_after} <= :now@retry_after
    AND (t.{partition_key} IS NULL OR t.{partition_key} NOT IN (SELECT value FROM json_each(:busy)))  --? partition_key
    AND (t.{locked_until} IS NULL OR t.{locked_until} <= :now@locked_until)
  ORDER BY {claim_order_of_t}
  LIMIT :limit)
LIMIT :limit
"""

# The head of a FIFO group: its first unfinished row, claimed when it is due and nothing of the group is in work.
CLAIM_SELECT_FIFO = """
SELECT {claimed_of_t} FROM {table} AS t
WHERE t.{id} = (
    SELECT h.{id} FROM {table} AS h {walk}
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
GIVEN = "WITH k ({fields}) AS MATERIALIZED (SELECT {values} FROM json_each(?1))"
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
# An expiry that had ended before the claim is put back: the row's last worker may have died of it, and whoever claims it next must know.
RELEASE_MANY = (
    """
UPDATE {table} AS t
SET {locked_until} = k.was
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
