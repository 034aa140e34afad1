"""The texts of Postgres' statements, form by form. `dialects/template.py` says what the marks mean.

The lease form proves ownership by `(id, attempt, expiry)`. Statements over several rows lock them in the order of their ids and skip rows
that somebody else holds, so that two of them cannot deadlock and one held row cannot delay the rest; a row that did not come back is tried
alone. Forms were measured at a million rows; `docs/statements.md` says what each text locks and scans.
"""

from __future__ import annotations

# Settings of time are in milliseconds here, and 0 is no limit. `transaction_timeout` came with Postgres 17, `idle_session_timeout` with 14.
LIMITS_IN_TRANSACTION = """
SELECT name, setting::float8 / 1000 FROM pg_settings
WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout') AND setting::bigint > 0 ORDER BY name
"""
LIMITS_OUTSIDE = "SELECT name, setting::float8 / 1000 FROM pg_settings WHERE name = 'idle_session_timeout' AND setting::bigint > 0"

SAVEPOINT = ("SAVEPOINT dead_letter", "ROLLBACK TO SAVEPOINT dead_letter")
NOTIFY = "SELECT pg_notify($1, $2)"

# --- lease -----------------------------------------------------------------------------------------------------------------------------

CLAIM_LEASE = """
WITH picked AS{materialized} (                           -- materialized: a plan that ran the subquery again would claim more than the limit
  SELECT {id} AS id
       , {locked_until} AS was
       , {attempt} AS delivered                          --? attempt
  FROM {table}
  WHERE ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)
    AND {group} = :group                                 --? group
    AND {processed_at} IS NULL                           --? processed_at
    AND {retry_after} <= :now@retry_after                --? retry_after
    AND ({partition_key} IS NULL OR {partition_key}::text <> ALL(:busy::text[]))  --? partition_key
  ORDER BY {claim_order}
  LIMIT :limit
  FOR NO KEY UPDATE SKIP LOCKED                          -- foreign keys that point at the row are not blocked
)
UPDATE {table} AS t
SET {locked_until} = :expiry@locked_until
  , {attempt} = CASE WHEN t.{attempt} < {attempt_max} THEN t.{attempt} + 1 ELSE t.{attempt} END  --? attempt
FROM picked
WHERE t.{id} = ANY (ARRAY(SELECT id FROM picked))        -- by the ids: a generic plan, which knows no limit, would join the whole table
  AND t.{id} = picked.id
RETURNING {before}
"""

CLAIM_LEASE_BY_PRIORITY = """
WITH RECURSIVE step (priority, n) AS (                   -- the distinct priorities, one index probe each, no more than are needed
  (SELECT {priority}, 1 FROM {table}
   WHERE TRUE
     AND {group} = :group                                --? group
     AND {processed_at} IS NULL                          --? processed_at
   ORDER BY {priority} LIMIT 1)
  UNION ALL
  SELECT (SELECT d.{priority} FROM {table} AS d
          WHERE d.{priority} > step.priority
            AND d.{group} = :group                       --? group
            AND d.{processed_at} IS NULL                 --? processed_at
          ORDER BY d.{priority} LIMIT 1), n + 1
  FROM step WHERE step.priority IS NOT NULL AND n < 64
),
picked AS{materialized} (
  SELECT r.* FROM (
    SELECT s.* FROM step CROSS JOIN LATERAL (            -- each priority has a range of its own: rows not yet due are not stepped over
      SELECT {id} AS id
           , {locked_until} AS was
           , {attempt} AS delivered                      --? attempt
      FROM {table}
      WHERE ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)
        AND {priority} = step.priority
        AND ({partition_key} IS NULL OR {partition_key}::text <> ALL(:busy::text[]))  --? partition_key
        AND {group} = :group                             --? group
        AND {processed_at} IS NULL                       --? processed_at
        AND {retry_after} <= :now@retry_after
      ORDER BY {retry_after}, {id}
      LIMIT :limit
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS s
    WHERE step.priority IS NOT NULL
    UNION ALL
    SELECT s.* FROM step CROSS JOIN LATERAL (            -- more than 64 priorities: the rest in one walk
      SELECT {id} AS id
           , {locked_until} AS was
           , {attempt} AS delivered                      --? attempt
      FROM {table}
      WHERE ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)
        AND {priority} > step.priority
        AND ({partition_key} IS NULL OR {partition_key}::text <> ALL(:busy::text[]))  --? partition_key
        AND {group} = :group                             --? group
        AND {processed_at} IS NULL                       --? processed_at
        AND {retry_after} <= :now@retry_after
      ORDER BY {claim_order}
      LIMIT :limit
      FOR NO KEY UPDATE SKIP LOCKED
    ) AS s
    WHERE step.n = 64
  ) AS r
  LIMIT :limit                                           -- lazy: only the rows picked are locked
)
UPDATE {table} AS t
SET {locked_until} = :expiry@locked_until
  , {attempt} = CASE WHEN t.{attempt} < {attempt_max} THEN t.{attempt} + 1 ELSE t.{attempt} END  --? attempt
FROM picked
WHERE t.{id} = ANY (ARRAY(SELECT id FROM picked))        -- by the ids: a generic plan, which knows no limit, would join the whole table
  AND t.{id} = picked.id
RETURNING {before}
"""

# The head of a FIFO group: its first unfinished row. Only the head is claimed, only when it is due, and only while nothing of the group is
# in work. A row that arrives in front of one in work does not change that.
_HEAD = """
WITH head AS{materialized} (
  SELECT {id} AS id
       , {locked_until} AS was
       , {attempt} AS delivered                          --? attempt
  FROM {table}
  WHERE {group} = :group
    AND {processed_at} IS NULL                           --? processed_at
  ORDER BY {claim_order}
  LIMIT 1
)
"""
_HEAD_IS_FREE = """
  AND (t.{locked_until} IS NULL OR t.{locked_until} <= :now@locked_until)
  AND t.{retry_after} <= :now@retry_after                --? retry_after
  AND NOT EXISTS (                                       -- by the last expiry alone: `EXISTS (… > now)` becomes a scan in a generic plan
    SELECT 1 FROM (
      SELECT o.{locked_until} AS ends FROM {table} AS o
      WHERE o.{group} = :group AND o.{locked_until} IS NOT NULL
        AND o.{processed_at} IS NULL                     --? processed_at
      ORDER BY o.{locked_until} DESC LIMIT 1
    ) AS live WHERE live.ends > :now@locked_until)
"""
PROBE_FIFO = _HEAD + "SELECT 1 FROM head JOIN {table} AS t ON t.{id} = head.id WHERE TRUE" + _HEAD_IS_FREE
MUTEX_FIFO = "SELECT 1 WHERE pg_try_advisory_xact_lock(:mutex)"
CLAIM_FIFO = (
    _HEAD
    + """
UPDATE {table} AS t
SET {locked_until} = :expiry@locked_until
  , {attempt} = CASE WHEN t.{attempt} < {attempt_max} THEN t.{attempt} + 1 ELSE t.{attempt} END  --? attempt
FROM head
WHERE t.{id} = head.id"""
    + _HEAD_IS_FREE
    + "RETURNING {before}"
)

# The rows of a group whose proof holds, locked in the order of their ids. `k` holds the proofs and the new values.
OWN_MANY = """
WITH own AS{{materialized}} (
  SELECT t.{{id}} AS id{values}
  FROM unnest({arrays}) AS k ({fields})
  JOIN {{table}} AS t ON t.{{id}} = k.id
  WHERE t.{{locked_until}} = k.locked_until
    AND t.{{attempt}} = k.attempt                        --? attempt
    AND t.{{processed_at}} IS NULL                       --? processed_at
  ORDER BY t.{{id}}
  FOR {strength} OF t SKIP LOCKED
)
"""

RENEW_MANY = "UPDATE {table} AS t SET {locked_until} = own.expiry FROM own WHERE t.{id} = own.id RETURNING t.{id}"
DELETE_MANY = "DELETE FROM {table} AS t USING own WHERE t.{id} = own.id RETURNING t.{id}"
PROCESS_MANY = """
UPDATE {table} AS t SET {processed_at} = own.now, {locked_until} = NULL FROM own WHERE t.{id} = own.id RETURNING t.{id}
"""
NACK_MANY = """
UPDATE {table} AS t
SET {locked_until} = NULL
  , {retry_after} = COALESCE(own.due, t.{retry_after})   --? retry_after
FROM own WHERE t.{id} = own.id
RETURNING t.{id}
"""
# An expiry that had ended before the claim is put back: the row's last worker may have died of it, and whoever claims it next must know.
RELEASE_MANY = """
UPDATE {table} AS t
SET {locked_until} = own.was
  , {attempt} = own.delivered                            --? attempt
FROM own WHERE t.{id} = own.id
RETURNING t.{id}
"""

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
BURY_IN_GROUP = (
    """
UPDATE {table}
SET {group} = :dead
  , {locked_until} = NULL
  , {attempt} = :delivered                               --? attempt
"""
    + _PROOF
    + """
  AND {group} = :group                                   -- a second try cannot hit the row that has moved
RETURNING {id}
"""
)
BURY_IN_TABLE = (
    """
WITH gone AS (DELETE FROM {table}"""
    + _PROOF
    + """
RETURNING *)
INSERT INTO {dead_table} (<columns>){overriding}                  -- the row keeps its id
SELECT <values> FROM gone RETURNING {dead_id}
"""
)

# --- row lock --------------------------------------------------------------------------------------------------------------------------

CLAIM_ROW_LOCK = """
SELECT {claimed} FROM {table}
WHERE TRUE
  AND {group} = :group                                   --? group
  AND {processed_at} IS NULL                             --? processed_at
  AND {retry_after} <= :now@retry_after                  --? retry_after
  AND ({partition_key} IS NULL OR {partition_key}::text <> ALL(:busy::text[]))  --? partition_key
ORDER BY {claim_order}
LIMIT :limit
FOR UPDATE SKIP LOCKED
"""

CLAIM_ROW_LOCK_BY_PRIORITY = """
WITH RECURSIVE step (priority, n) AS (                   -- see the lease form: the distinct priorities, one index probe each
  (SELECT {priority}, 1 FROM {table}
   WHERE TRUE
     AND {group} = :group                                --? group
     AND {processed_at} IS NULL                          --? processed_at
   ORDER BY {priority} LIMIT 1)
  UNION ALL
  SELECT (SELECT d.{priority} FROM {table} AS d
          WHERE d.{priority} > step.priority
            AND d.{group} = :group                       --? group
            AND d.{processed_at} IS NULL                 --? processed_at
          ORDER BY d.{priority} LIMIT 1), n + 1
  FROM step WHERE step.priority IS NOT NULL AND n < 64
)
SELECT {claimed} FROM (
  SELECT s.* FROM step CROSS JOIN LATERAL (
    SELECT * FROM {table}
    WHERE {priority} = step.priority
      AND ({partition_key} IS NULL OR {partition_key}::text <> ALL(:busy::text[]))  --? partition_key
      AND {group} = :group                               --? group
      AND {processed_at} IS NULL                         --? processed_at
      AND {retry_after} <= :now@retry_after
    ORDER BY {retry_after}, {id}
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
  ) AS s
  WHERE step.priority IS NOT NULL
  UNION ALL
  SELECT s.* FROM step CROSS JOIN LATERAL (
    SELECT * FROM {table}
    WHERE {priority} > step.priority
      AND ({partition_key} IS NULL OR {partition_key}::text <> ALL(:busy::text[]))  --? partition_key
      AND {group} = :group                               --? group
      AND {processed_at} IS NULL                         --? processed_at
      AND {retry_after} <= :now@retry_after
    ORDER BY {claim_order}
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
  ) AS s
  WHERE step.n = 64
) AS r
LIMIT :limit
"""

# The mutex is the transaction's, so it is held as long as the row's lock. An old snapshot does no harm: the mutex says that nobody works on
# the group, and the lock is taken on the row as it is then.
CLAIM_ROW_LOCK_FIFO = """
WITH mutex AS{materialized} (SELECT pg_try_advisory_xact_lock(:mutex) AS held)
SELECT {claimed_of_t} FROM mutex JOIN {table} AS t ON t.{id} = (
  SELECT h.{id} FROM {table} AS h
  WHERE h.{group} = :group
    AND h.{processed_at} IS NULL                         --? processed_at
  ORDER BY {claim_order_of_h} LIMIT 1)
WHERE mutex.held
  AND t.{group} = :group
  AND t.{processed_at} IS NULL                           --? processed_at
  AND t.{retry_after} <= :now@retry_after                --? retry_after
LIMIT :limit
FOR UPDATE OF t SKIP LOCKED
"""

DELETE_HELD = "DELETE FROM {table} WHERE {id} = :id RETURNING {id}"
PROCESS_HELD = "UPDATE {table} SET {processed_at} = :now@processed_at WHERE {id} = :id AND {processed_at} IS NULL RETURNING {id}"
NACK_HELD = """
UPDATE {table}
SET {payload} = {payload}  -- keeps the statement whole where no other column is there to change
  , {attempt} = CASE WHEN {attempt} < {attempt_max} THEN {attempt} + 1 ELSE {attempt} END  --? attempt
  , {retry_after} = COALESCE(:due@retry_after, {retry_after})  --? retry_after
WHERE {id} = :id
RETURNING {id}
"""
BURY_HELD_IN_GROUP = "UPDATE {table} SET {group} = :dead WHERE {id} = :id RETURNING {id}"
BURY_HELD_IN_TABLE = """
WITH gone AS (DELETE FROM {table} WHERE {id} = :id RETURNING *)
INSERT INTO {dead_table} (<columns>){overriding}
SELECT <values> FROM gone RETURNING {dead_id}
"""
