"""The texts of MySQL's and MariaDB's statements. `dialects/template.py` says what the marks mean.

Neither can change rows and return them in one statement (MariaDB can for a DELETE), so a claim selects and locks, then writes what it
locked, in one transaction at READ COMMITTED. Statements over several rows lock them in the order of their ids, and skip rows that somebody
holds. A group is compared as bytes besides by its collation: `emails` is not `EMAILS`, and the index still serves. `docs/statements.md`
says more.
"""

from __future__ import annotations

_IN_GROUP = """
  AND {group} = :group                                   --? group
  AND BINARY {group} = :group                            --? group
  AND {processed_at} IS NULL                             --? processed_at
  AND {retry_after} <= :now@retry_after                  --? retry_after
  AND ({partition_key} IN (:busy)) IS NOT TRUE           --? partition_key
"""

# `{walk}` names the index that has the claim's order: without it a filesort would lock every row that it reads.
CLAIM_SELECT = (
    """
SELECT {claimed} FROM {table} {walk}
WHERE ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)"""
    + _IN_GROUP
    + """
ORDER BY {claim_order}
LIMIT :limit
FOR UPDATE SKIP LOCKED
"""
)
CLAIM_UPDATE = """
UPDATE {table}
SET {locked_until} = :expiry@locked_until
  , {attempt} = CASE WHEN {attempt} < {attempt_max} THEN {attempt} + 1 ELSE {attempt} END  --? attempt
WHERE {id} IN (:ids)
"""

OWNED_SELECT = """
SELECT {id} FROM {table}
WHERE {id} IN (:ids)
  AND {processed_at} IS NULL                             --? processed_at
"""

_PROOF = """
WHERE {id} = :id
  AND {locked_until} IN (:confirmed, :sent)              -- the expiry last confirmed, and one sent whose answer never came
  AND {attempt} = :attempt                               --? attempt
  AND {processed_at} IS NULL                             --? processed_at
"""

RENEW_ONE = "UPDATE {table} SET {locked_until} = :expiry" + _PROOF
DELETE_ONE = "DELETE FROM {table}" + _PROOF
PROCESS_ONE = "UPDATE {table} SET {processed_at} = :now@processed_at, {locked_until} = NULL" + _PROOF
NACK_ONE = (
    """
UPDATE {table}
SET {locked_until} = NULL
  , {retry_after} = COALESCE(:due@retry_after, {retry_after})  --? retry_after
"""
    + _PROOF
)
BURY_SELECT = "SELECT {id} FROM {table}" + _PROOF + "FOR UPDATE"
BURY_UPDATE = """
UPDATE {table}
SET {group} = :dead
  , {locked_until} = NULL
  , {attempt} = :delivered                               --? attempt
WHERE {id} IN (:ids)
"""
BURY_INSERT = "INSERT INTO {dead_table} (<columns>) SELECT <values> FROM {table} WHERE {id} IN (:ids)"
BURY_DELETE = "DELETE FROM {table} WHERE {id} IN (:ids)"

# --- row lock --------------------------------------------------------------------------------------------------------------------------

CLAIM_ROW_LOCK = (
    """
SELECT {claimed} FROM {table} {walk}
WHERE TRUE"""
    + _IN_GROUP
    + """
ORDER BY {claim_order}
LIMIT :limit
FOR UPDATE SKIP LOCKED
"""
)
# InnoDB keeps the lock on each index entry that a locking read looks at, also of rows that it rejects, until the transaction ends. So the
# claim above runs in a transaction of its own, and the row that it found is locked by its id, in the one that lasts.
TAKE_ROW_LOCK = """
SELECT {claimed} FROM {table}
WHERE {id} = :id
  AND {group} = :group                                   --? group
  AND BINARY {group} = :group                            --? group
  AND {processed_at} IS NULL                             --? processed_at
  AND {retry_after} <= :now@retry_after                  --? retry_after
FOR UPDATE SKIP LOCKED
"""
DELETE_HELD = "DELETE FROM {table} WHERE {id} = :id"
PROCESS_HELD = "UPDATE {table} SET {processed_at} = :now@processed_at WHERE {id} = :id AND {processed_at} IS NULL"
NACK_HELD = """
UPDATE {table}
SET {payload} = {payload}                                -- keeps the statement whole where no other column is there to change
  , {attempt} = CASE WHEN {attempt} < {attempt_max} THEN {attempt} + 1 ELSE {attempt} END  --? attempt
  , {retry_after} = COALESCE(:due@retry_after, {retry_after})  --? retry_after
WHERE {id} = :id
"""
BURY_HELD_IN_GROUP = "UPDATE {table} SET {group} = :dead WHERE {id} = :id"
