"""The texts of MySQL's and MariaDB's advisory lock form.

A row in work is held by a session lock (`GET_LOCK`) on its key, with no transaction open. No statement takes such a lock and writes, so a
claim is two: the first takes the first free key in claim order, the second takes the row if it is still due.
"""

from __future__ import annotations

from faststream_sql.dialects.mysql_sql import DUE, IN_GROUP

# The inner select has no side effects: it passes over every key that somebody holds, and stops at a few that were free. It reads a column
# that is in no index, since from the index alone MariaDB would rather walk the whole group than the ranges of its priorities. The outer one
# tries those keys in their order and stops at the first that it gets, so that no other lock is taken: a condition on rows that lie in a
# table of their own is evaluated for one after the other.
LOCK = (
    """
SELECT c.held_key, c.id FROM (
  SELECT {key} AS held_key, t.{id} AS id, t.{payload} IS NULL AS unused FROM {table} AS t {walk}
  WHERE IS_FREE_LOCK({key}) = 1"""
    + IN_GROUP
    + """<due>
    AND ({partition_key} IN (:busy)) IS NOT TRUE  --? partition_key
  ORDER BY {claim_order_of_t}
  LIMIT 16
) AS c
WHERE GET_LOCK(c.held_key, 0) = 1
LIMIT 1
"""
)
TAKE_SELECT = (
    """
SELECT {claimed} FROM {table}
WHERE {id} = :id
  AND {key} = :key                                       -- a row whose key was changed meanwhile is held by another lock"""
    + IN_GROUP
    + DUE
    + "FOR UPDATE"
)
TAKE_UPDATE = """
UPDATE {table}
SET {attempt} = CASE WHEN {attempt} < {attempt_max} THEN {attempt} + 1 ELSE {attempt} END
WHERE {id} IN (:ids)
"""

# The session holds the lock of one row, however often it was taken, and nothing of anybody else's.
UNLOCK = "SELECT RELEASE_LOCK(:key)"

_HELD = """
WHERE {id} = :id
  AND {attempt} = :attempt                               --? attempt
  AND {processed_at} IS NULL                             --? processed_at
"""

DELETE = "DELETE FROM {table}" + _HELD
PROCESS = "UPDATE {table} SET {processed_at} = :now@processed_at" + _HELD
NACK = (
    """
UPDATE {table}
SET {payload} = {payload}
  , {retry_after} = COALESCE(:due@retry_after, {retry_after})  --? retry_after
"""
    + _HELD
)
RELEASE = (
    """
UPDATE {table}
SET {payload} = {payload}
  , {attempt} = :delivered                               --? attempt
"""
    + _HELD
)
BURY_SELECT = "SELECT {id} FROM {table}" + _HELD + "FOR UPDATE"
BURY_UPDATE = """
UPDATE {table}
SET {group} = :dead
  , {attempt} = :delivered                               --? attempt
WHERE {id} IN (:ids)
"""
