"""The texts of Postgres' advisory lock form.

A row in work is held by a session lock on its key, with no transaction open. The claim tries keys in claim order, takes the first that is
free, and then takes the row only if it is still due: a row that was finished meanwhile gives nothing, and its key is let go.
"""

from __future__ import annotations

_CANDIDATES = """
    SELECT {id} AS id
         , hashtextextended({key}, 0) AS key
         , {attempt} AS delivered                        --? attempt
    FROM {table}
    WHERE TRUE
      AND {group} = :group                               --? group
      AND {processed_at} IS NULL                         --? processed_at
      AND {retry_after} <= :now@retry_after              --? retry_after
      AND ({partition_key} IS NULL OR {partition_key}::text <> ALL(:busy::text[]))  --? partition_key
    ORDER BY {claim_order}
"""

CLAIM = (
    """
WITH near AS{materialized} (                              -- the first few rows: in most queues one of their keys is free
  SELECT c.* FROM ("""
    + _CANDIDATES
    + """    LIMIT 16
  ) AS c
  WHERE pg_try_advisory_lock(c.key)                      -- lazy: stops at the first lock, and takes no other
  LIMIT 1
),
far AS{materialized} (                                    -- none was: look past every key that is known to be held, without trying it
  SELECT c.* FROM (
    SELECT n.* FROM ("""
    + _CANDIDATES
    + """    OFFSET 0) AS n
    WHERE NOT EXISTS (SELECT 1 FROM near)
      AND n.key NOT IN (
        SELECT (l.classid::bigint << 32) | l.objid::bigint FROM pg_locks AS l
        WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
    OFFSET 0                                             -- the lock function stays outside of the scan and of the filter
  ) AS c
  WHERE pg_try_advisory_lock(c.key)
  LIMIT 1
),
got AS (SELECT * FROM near UNION ALL SELECT * FROM far),
took AS (
  UPDATE {table} AS t
  SET {payload} = t.{payload}
    , {attempt} = CASE WHEN t.{attempt} < {attempt_max} THEN t.{attempt} + 1 ELSE t.{attempt} END  --? attempt
  FROM got
  WHERE t.{id} = got.id
    AND t.{attempt} = got.delivered                      --? attempt
    AND t.{group} = :group                               --? group
    AND t.{processed_at} IS NULL                         --? processed_at
    AND t.{retry_after} <= :now@retry_after              --? retry_after
  RETURNING t.*
)
SELECT got.key, {taken} FROM got LEFT JOIN took ON took.{id} = got.id
"""
)

UNLOCK = "SELECT pg_advisory_unlock(:key)"

_HELD = """
WHERE {id} = :id
  AND {attempt} = :attempt                               --? attempt
  AND {processed_at} IS NULL                             --? processed_at
"""

DELETE = "DELETE FROM {table}" + _HELD + "RETURNING {id}"
PROCESS = "UPDATE {table} SET {processed_at} = :now@processed_at" + _HELD + "RETURNING {id}"
NACK = (
    """
UPDATE {table}
SET {payload} = {payload}
  , {retry_after} = COALESCE(:due@retry_after, {retry_after})  --? retry_after
"""
    + _HELD
    + "RETURNING {id}"
)
RELEASE = (
    """
UPDATE {table}
SET {payload} = {payload}
  , {attempt} = :delivered                               --? attempt
"""
    + _HELD
    + "RETURNING {id}"
)
BURY_IN_GROUP = (
    """
UPDATE {table}
SET {group} = :dead
  , {attempt} = :delivered                               --? attempt
"""
    + _HELD
    + "RETURNING {id}"
)
BURY_IN_TABLE = (
    """
WITH gone AS (DELETE FROM {table}"""
    + _HELD
    + """
RETURNING *)
INSERT INTO {dead_table} (<columns>){overriding}
SELECT <values> FROM gone RETURNING {dead_id}
"""
)
