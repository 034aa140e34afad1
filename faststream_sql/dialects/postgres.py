"""The statements of Postgres.

The lease form proves ownership by `(id, attempt, expiry)`. Statements over several rows lock them in the order of their ids and skip rows
that somebody else holds, so that two of them cannot deadlock and one held row cannot delay the rest; a row that did not come back is tried
alone. Forms were measured at a million rows; `docs/statements.md` says what each text locks and scans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from faststream_sql.dialects.base import (
    ColumnTypes,
    GroupStatement,
    Guarded,
    LeaseStatements,
    Once,
    Plan,
    RowLockStatements,
    Statement,
)
from faststream_sql.dialects.compiler import Compiler, Spelling
from faststream_sql.dialects.postgres_schema import judge_types, quote, recommended_types, table_ddl
from faststream_sql.dialects.schema import claim_index, dead_letter_columns
from faststream_sql.dialects.template import listed
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts
from faststream_sql.table.table import QueueTable

SPELLING = Spelling(quote=quote, placeholder=lambda n: f"${n}", reuse=True)

ISOLATION: Mapping[str | None, str] = {
    None: "READ COMMITTED",
    "read_committed": "READ COMMITTED",
    "repeatable_read": "REPEATABLE READ",
    "serializable": "SERIALIZABLE",
}

# --- lease -----------------------------------------------------------------------------------------------------------------------------

CLAIM_LEASE = """
WITH picked AS MATERIALIZED (                            -- materialized: a plan that ran the subquery again would claim more than the limit
  SELECT {id} AS id
       , {locked_until} AS was
       , {attempt} AS delivered                          --? attempt
  FROM {table}
  WHERE ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)
    AND {group} = :group                                 --? group
    AND {processed_at} IS NULL                           --? processed_at
    AND {retry_after} <= :now@retry_after                --? retry_after
  ORDER BY {claim_order}
  LIMIT :limit
  FOR NO KEY UPDATE SKIP LOCKED                          -- foreign keys that point at the row are not blocked
)
UPDATE {table} AS t
SET {locked_until} = :expiry@locked_until
  , {attempt} = CASE WHEN t.{attempt} < {attempt_max} THEN t.{attempt} + 1 ELSE t.{attempt} END  --? attempt
FROM picked
WHERE t.{id} = picked.id
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
picked AS MATERIALIZED (
  SELECT r.* FROM (
    SELECT s.* FROM step CROSS JOIN LATERAL (            -- each priority has a range of its own: rows not yet due are not stepped over
      SELECT {id} AS id
           , {locked_until} AS was
           , {attempt} AS delivered                      --? attempt
      FROM {table}
      WHERE ({locked_until} IS NULL OR {locked_until} <= :now@locked_until)
        AND {priority} = step.priority
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
WHERE t.{id} = picked.id
RETURNING {before}
"""

# The head of a FIFO group: its first unfinished row. Only the head is claimed, only when it is due, and only while nothing of the group is
# in work. A row that arrives in front of one in work does not change that.
_HEAD = """
WITH head AS MATERIALIZED (
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
GUARD_FIFO = "SELECT 1 WHERE pg_try_advisory_xact_lock(:mutex)"
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
_OWN = """
WITH own AS MATERIALIZED (
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
RELEASE_MANY = """
UPDATE {table} AS t
SET {locked_until} = NULL
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
INSERT INTO {dead_table} (<columns>) OVERRIDING SYSTEM VALUE  -- the row keeps its id
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
WITH mutex AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(:mutex) AS held)
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
SET {id} = {id}                                          -- keeps the statement whole where no other column is there to change
  , {attempt} = CASE WHEN {attempt} < {attempt_max} THEN {attempt} + 1 ELSE {attempt} END  --? attempt
  , {retry_after} = COALESCE(:due@retry_after, {retry_after})  --? retry_after
WHERE {id} = :id
RETURNING {id}
"""
BURY_HELD_IN_GROUP = "UPDATE {table} SET {group} = :dead WHERE {id} = :id RETURNING {id}"
BURY_HELD_IN_TABLE = """
WITH gone AS (DELETE FROM {table} WHERE {id} = :id RETURNING *)
INSERT INTO {dead_table} (<columns>) OVERRIDING SYSTEM VALUE
SELECT <values> FROM gone RETURNING {dead_id}
"""


class Postgres:
    """Postgres 9.5 and later."""

    name = "postgres"
    product = "Postgres"
    floors: Mapping[str, tuple[int, ...]] = {"row_lock": (9, 5), "lease": (9, 5), "advisory": (11,), "fifo": (11,)}

    def quote(self, name: str) -> str:
        return quote(name)

    def types(self, table: QueueTable, facts: Sequence[ColumnFacts], indexes: Sequence[IndexFacts]) -> ColumnTypes:
        return judge_types(table, facts, claim_index(table, indexes))

    def recommended_types(self, table: QueueTable) -> ColumnTypes:
        return recommended_types(table)

    def insert(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> Statement:
        names = _column_names(table, columns)
        values = ", ".join(f":c{n}" for n in range(len(columns)))
        template = (
            "INSERT INTO {table} ({names}) VALUES (" + values + ") RETURNING {id}"
            if columns
            else ("INSERT INTO {table} DEFAULT VALUES RETURNING {id}")
        )
        return _compiler(table, types).statement("insert", template, names=listed(names))

    def insert_many(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> GroupStatement:
        names = _column_names(table, columns)
        arrays = ", ".join(f"${n}::{types.sql[column]}[]" for n, column in enumerate(columns, 1))
        # the ordinal keeps the ids of a sequence in the order of the rows
        text = (
            f"INSERT INTO {SPELLING.qualified(table)} ({listed(names)}) SELECT {listed([f'k.c{n}' for n in range(len(columns))])} "
            f"FROM unnest({arrays}) WITH ORDINALITY AS k ({listed([f'c{n}' for n in range(len(columns))])}, n) ORDER BY k.n "
            f"RETURNING {quote(table.id.name)}"
        )
        return GroupStatement("insert_many", tuple(columns), lambda rows: (text, _columns_of(rows)))

    def lease(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> LeaseStatements:
        compiler = _compiler(table, types, dead)
        bury = _bury(compiler, dead, in_group=BURY_IN_GROUP, in_table=BURY_IN_TABLE)
        finish_many, finish_one = (PROCESS_MANY, PROCESS_ONE) if table.processed_at else (DELETE_MANY, DELETE_ONE)
        return LeaseStatements(
            claimed=compiler.claimed,
            claim=self._claim(compiler),
            renew_many=_group(compiler, "renew", RENEW_MANY, ("expiry", "locked_until"), strength="NO KEY UPDATE"),
            renew_one=compiler.statement("renew", RENEW_ONE),
            finish_many=_group(compiler, "finish", finish_many, *([("now", "processed_at")] if table.processed_at else [])),
            finish_one=compiler.statement("finish", finish_one),
            nack_many=_group(compiler, "nack", NACK_MANY, *([("due", "retry_after")] if table.retry_after else [])),
            nack_one=compiler.statement("nack", NACK_ONE),
            release_many=_group(compiler, "release", RELEASE_MANY, *([("delivered", "attempt")] if table.attempt else [])),
            bury=None if bury is None else Once(bury),
        )

    def row_lock(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> RowLockStatements:
        compiler = _compiler(table, types, dead)
        claim = CLAIM_ROW_LOCK_BY_PRIORITY if table.priority and table.retry_after else CLAIM_ROW_LOCK
        if table.fifo:
            claim = CLAIM_ROW_LOCK_FIFO
        bury = _bury(compiler, dead, in_group=BURY_HELD_IN_GROUP, in_table=BURY_HELD_IN_TABLE)
        return RowLockStatements(
            claimed=compiler.claimed,
            claim=compiler.statement("claim", claim),
            finish=compiler.statement("finish", PROCESS_HELD if table.processed_at else DELETE_HELD),
            nack=compiler.statement("nack", NACK_HELD),
            bury=bury,
            commit_and_begin=commit_and_begin,
            finish_inline=None if table.processed_at or table.id_type is str else _finish_inline(compiler),
        )

    def ddl(self, table: QueueTable) -> tuple[str, ...]:
        return table_ddl(table, SPELLING.qualified(table))

    def missing_index(self, table: QueueTable, indexes: Sequence[IndexFacts]) -> str | None:
        return None if claim_index(table, indexes) else self.ddl(table)[1]

    def _claim(self, compiler: Compiler) -> Plan:
        table = compiler.table
        # Without both, the rows that are due are one range of the index, and one ordered walk meets nothing else.
        template = CLAIM_LEASE_BY_PRIORITY if table.priority and table.retry_after else CLAIM_LEASE
        old = {"locked_until": "picked.was", "attempt": "picked.delivered"}
        roles = [old.get(role, f"t.{quote(column.name)}") for role, column in table.roles().items()]
        plain = [f"t.{quote(column.name)}" for column in table.columns]
        before = listed([*roles, *plain])
        if table.fifo:
            return Guarded(
                compiler.statement("look for a head", PROBE_FIFO),
                compiler.statement("guard of a group", GUARD_FIFO),
                compiler.statement("claim", CLAIM_FIFO, before=before.replace("picked.", "head.")),
            )
        return Once(compiler.statement("claim", template, before=before))


def _compiler(table: QueueTable, types: ColumnTypes, dead: QueueTable | None = None) -> Compiler:
    extra = {"dead_table": SPELLING.qualified(dead), "dead_id": quote(dead.id.name)} if dead else {}
    return Compiler(table, types, SPELLING, extra)


def _bury(compiler: Compiler, dead: QueueTable | None, *, in_group: str, in_table: str) -> Statement | None:
    """The move to the dead letter: to another group of the table, to another table, or none where neither is there."""
    if compiler.table.group:
        return compiler.statement("dead letter", in_group)
    if dead is None:
        return None
    columns, values = dead_letter_columns(compiler.table, dead, quote)
    return compiler.statement("dead letter", in_table.replace("<columns>", columns).replace("<values>", values))


def _group(compiler: Compiler, purpose: str, write: str, *extra: tuple[str, str], strength: str = "UPDATE") -> GroupStatement:
    """A statement over the rows whose proof holds. `extra` names the new values of each row, with the column whose type they have."""
    table, types = compiler.table, compiler.types.sql
    proof = [("id", "id"), ("locked_until", "locked_until"), *([("attempt", "attempt")] if table.attempt else [])]
    fields = [*proof, *extra]
    own = _OWN.format(
        values="".join(f", k.{name}" for name, _ in extra),
        arrays=", ".join(f"${n}::{types[column]}[]" for n, (_, column) in enumerate(fields, 1)),
        fields=listed([name for name, _ in fields]),
        strength=strength,
    )
    text = compiler.text(own + write).text
    return GroupStatement(purpose, tuple(name for name, _ in fields), lambda rows: (text, _columns_of(rows)))


def _columns_of(rows: Sequence[tuple[object, ...]]) -> list[object]:
    """Rows as the arrays that `unnest` puts back together."""
    return [list(column) for column in zip(*rows, strict=True)]


def _column_names(table: QueueTable, columns: Sequence[str]) -> list[str]:
    roles = table.roles()
    return [quote(roles[column].name if column in roles else column) for column in columns]


def commit_and_begin(isolation: str | None) -> str:
    """One simple query that ends a transaction and opens the next."""
    return f"COMMIT;BEGIN ISOLATION LEVEL {ISOLATION[isolation]}"


def _finish_inline(compiler: Compiler) -> Callable[[object, str | None], str]:
    """The last round trip of an acknowledged row as one simple query: delete, prove that it was there, commit, begin again.

    A simple query carries no values, so the id stands in the text: only an integer or a UUID, which the types themselves keep clean. Where
    no row was deleted the division fails, and with it the whole transaction, so that nothing is lost in silence.
    """
    table, id_column = SPELLING.qualified(compiler.table), quote(compiler.table.id.name)
    spell = _spell_uuid if compiler.table.id_type is UUID else _spell_int

    def text(row_id: object, isolation: str | None) -> str:
        return (
            f"WITH d AS (DELETE FROM {table} WHERE {id_column} = {spell(row_id)} RETURNING 1) SELECT 1/count(*) FROM d;"
            + commit_and_begin(isolation)
        )

    return text


def _spell_int(value: object) -> str:
    return str(int(value)) if isinstance(value, int) else _refuse_inline(value)


def _spell_uuid(value: object) -> str:
    return f"'{value}'" if isinstance(value, UUID) else _refuse_inline(value)


def _refuse_inline(value: object) -> str:
    msg = f"{type(value).__name__} cannot stand in the text of a statement"
    raise TypeError(msg)
