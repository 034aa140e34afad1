"""The texts of MySQL's and MariaDB's statements. `dialects/template.py` says what the marks mean.

Neither can change rows and return them in one statement (MariaDB can for a DELETE), so a claim selects and locks, then writes what it
locked, in one transaction at READ COMMITTED. Statements over several rows lock them in the order of their ids, and skip rows that somebody
holds. A group is compared as bytes besides by its collation: `emails` is not `EMAILS`, and the index still serves. `docs/statements.md`
says more.
"""

from __future__ import annotations

SAVEPOINT = ("SAVEPOINT dead_letter", "ROLLBACK TO SAVEPOINT dead_letter")

# The last two are MariaDB's. In seconds; 0 is no limit.
LIMITS = """
SHOW SESSION VARIABLES
WHERE Variable_name IN ('wait_timeout', 'idle_transaction_timeout', 'idle_write_transaction_timeout') AND Value > 0
"""

IN_GROUP = """
  AND {group} = :group                                   --? group
  AND CAST({group} AS BINARY) = :group                   --? group
  AND {processed_at} IS NULL                             --? processed_at
"""
_IN_GROUP = (
    IN_GROUP
    + """<due>
  AND ({partition_key} IN (:busy)) IS NOT TRUE           --? partition_key
"""
)

# What stands for `<due>`.
DUE = """
  AND {retry_after} <= :now@retry_after                  --? retry_after
"""
# Rows of a better priority that are not due are not stepped over: each known priority is a range of the index of its own. What lies between
# them is one walk; the function hides its due time from the optimizer, which else would see that the two together are everything.
DUE_BY_PRIORITY = """
  AND ({priority} IN (:steps) AND {retry_after} <= :now@retry_after
    OR {priority} NOT IN (:steps) AND COALESCE({retry_after}) <= :now@retry_after)
"""

# The first entry of the claim's index in the group, or the first one after a priority. `<after>` is nothing, or `AFTER`.
FIRST = (
    """
(SELECT {priority}, {retry_after} <= :now@retry_after FROM {table} {walk}
WHERE TRUE"""
    + IN_GROUP
    + """<after>
ORDER BY {priority}, {retry_after} LIMIT 1)
"""
)
AFTER = "  AND {priority} > :after"

# --- lease -----------------------------------------------------------------------------------------------------------------------------

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

# The head of a FIFO group: its first unfinished row, claimed when it is due and nothing of the group is in work. The subquery locks
# nothing, so that only the head is locked, and a head that somebody holds is not claimed, nor what stands behind it.
_HEAD = """
SELECT {claimed_of_t} FROM {table} AS t
WHERE t.{id} = (
    SELECT h.{id} FROM {table} AS h {walk}
    WHERE h.{group} = :group
      AND CAST(h.{group} AS BINARY) = :group
      AND h.{processed_at} IS NULL                       --? processed_at
    ORDER BY {claim_order_of_h} LIMIT 1)
  AND t.{retry_after} <= :now@retry_after                --? retry_after
"""
_NOTHING_IN_WORK = """
  AND (t.{locked_until} IS NULL OR t.{locked_until} <= :now@locked_until)
  AND NOT EXISTS (
    SELECT 1 FROM {table} AS o
    WHERE o.{group} = :group AND o.{locked_until} > :now@locked_until
      AND CAST(o.{group} AS BINARY) = :group
      AND o.{processed_at} IS NULL                       --? processed_at
  )
"""
PROBE_HEAD = _HEAD + _NOTHING_IN_WORK
CLAIM_HEAD = _HEAD + _NOTHING_IN_WORK + "FOR UPDATE SKIP LOCKED"
CLAIM_HEAD_ROW_LOCK = _HEAD + "FOR UPDATE SKIP LOCKED"

# The mutex of a group is the session's, and the server's as a whole, so its name holds the database. Names end at 64 characters.
TAKE_MUTEX = "SELECT GET_LOCK(SHA2(CONCAT({database}, '.', {table_text}, '.', :group), 256), 0)"
LET_MUTEX_GO = "SELECT RELEASE_LOCK(SHA2(CONCAT({database}, '.', {table_text}, '.', :group), 256))"

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
TAKE_ROW_LOCK = (
    """
SELECT {claimed} FROM {table}
WHERE {id} = :id"""
    + IN_GROUP
    + DUE
    + "FOR UPDATE SKIP LOCKED"
)
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
BURY_HELD_INSERT = "INSERT INTO {dead_table} (<columns>) SELECT <values> FROM {table} WHERE {id} = :id"
