"""The texts of SQLite's advisory lock form. The keys are held in the process, so a claim is told which it must pass over."""

from __future__ import annotations

# `{walk}` names the index that has the claim's order: left to itself, a planner that has seen ANALYZE may scan the table and
# sort it. The `+` keeps it from skipping through that index by the time.
SELECT = """
SELECT {key} AS held_key, {claimed} FROM {table} {walk}
WHERE {key} NOT IN (SELECT value FROM json_each(:held))
  AND {group} = :group                                   --? group
  AND {processed_at} IS NULL                             --? processed_at
  AND {retry_after} <= :now@retry_after                  --? retry_after, !priority
  AND +{retry_after} <= :now@retry_after                 --? retry_after, priority
  AND ({partition_key} IS NULL OR {partition_key} NOT IN (SELECT value FROM json_each(:busy)))  --? partition_key
ORDER BY {claim_order}
LIMIT 1
"""

TAKE = """
UPDATE {table}
SET {payload} = {payload}
  , {attempt} = CASE WHEN {attempt} < {attempt_max} THEN {attempt} + 1 ELSE {attempt} END  --? attempt
WHERE {id} IN (SELECT value FROM json_each(:ids))
"""

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
BURY_SELECT = "SELECT {id} FROM {table}" + _HELD
BURY_UPDATE = """
UPDATE {table}
SET {group} = :dead
  , {attempt} = :delivered                               --? attempt
WHERE {id} IN (SELECT value FROM json_each(:ids))
"""
