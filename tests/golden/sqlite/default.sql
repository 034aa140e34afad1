-- ddl
CREATE TABLE IF NOT EXISTS "faststream_queue" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT,
    "queue" TEXT NOT NULL,
    "priority" INTEGER NOT NULL DEFAULT 0,
    "retry_after" TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')),
    "attempt" INTEGER NOT NULL DEFAULT 1,
    "locked_until" TEXT,
    "headers" TEXT,
    "payload" BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS "faststream_queue_claim" ON "faststream_queue" ("queue", "priority", "retry_after", "id");

-- insert
INSERT INTO "faststream_queue" ("queue", "priority", "retry_after", "attempt", "locked_until", "headers", "payload") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING "id";

-- claim
WITH RECURSIVE step (priority, n) AS (
  SELECT * FROM (
    SELECT "priority", 1 FROM "faststream_queue"
    WHERE TRUE
      AND "queue" = ?1
    ORDER BY "priority" LIMIT 1)
  UNION ALL
  SELECT (SELECT d."priority" FROM "faststream_queue" AS d
          WHERE d."priority" > step.priority
            AND d."queue" = ?1
          ORDER BY d."priority" LIMIT 1), n + 1
  FROM step WHERE step.priority IS NOT NULL AND n < 64
)
SELECT * FROM (
  SELECT t."id", t."queue", t."priority", t."retry_after", t."attempt", t."locked_until", t."headers", t."payload" FROM step CROSS JOIN "faststream_queue" AS t INDEXED BY "faststream_queue_claim"
  WHERE step.priority IS NOT NULL
    AND t."priority" = step.priority
    AND t."queue" = ?1
    AND t."retry_after" <= ?2
    AND (t."locked_until" IS NULL OR t."locked_until" <= ?3)
  LIMIT ?4)
UNION ALL
SELECT * FROM (
  SELECT t."id", t."queue", t."priority", t."retry_after", t."attempt", t."locked_until", t."headers", t."payload" FROM step CROSS JOIN "faststream_queue" AS t INDEXED BY "faststream_queue_claim"
  WHERE step.n = 64
    AND t."priority" > step.priority
    AND t."queue" = ?1
    AND t."retry_after" <= ?2
    AND (t."locked_until" IS NULL OR t."locked_until" <= ?3)
  ORDER BY t."priority", t."retry_after", t."id"
  LIMIT ?4)
LIMIT ?4;

-- claim
UPDATE "faststream_queue"
SET "locked_until" = ?1
  , "attempt" = CASE WHEN "attempt" < 9223372036854775807 THEN "attempt" + 1 ELSE "attempt" END
WHERE "id" IN (SELECT value FROM json_each(?2));

-- renew
WITH k (id, locked_until, attempt, expiry) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(?1))
UPDATE "faststream_queue" AS t SET "locked_until" = k.expiry FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
RETURNING "id";

-- renew
UPDATE "faststream_queue" SET "locked_until" = ?1
WHERE "id" = ?2
  AND "locked_until" IN (?3, ?4)
  AND "attempt" = ?5
RETURNING "id";

-- finish
WITH k (id, locked_until, attempt) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?1))
DELETE FROM "faststream_queue" WHERE "id" IN (SELECT t."id" FROM k CROSS JOIN "faststream_queue" AS t
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
) RETURNING "id";

-- finish
DELETE FROM "faststream_queue"
WHERE "id" = ?1
  AND "locked_until" IN (?2, ?3)
  AND "attempt" = ?4
RETURNING "id";

-- nack
WITH k (id, locked_until, attempt, due) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(?1))
UPDATE "faststream_queue" AS t
SET "locked_until" = NULL
  , "retry_after" = COALESCE(k.due, t."retry_after")
FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
RETURNING "id";

-- nack
UPDATE "faststream_queue"
SET "locked_until" = NULL
  , "retry_after" = COALESCE(?1, "retry_after")
WHERE "id" = ?2
  AND "locked_until" IN (?3, ?4)
  AND "attempt" = ?5
RETURNING "id";

-- release
WITH k (id, locked_until, attempt, was, delivered) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'), json_extract(value, '$[4]') FROM json_each(?1))
UPDATE "faststream_queue" AS t
SET "locked_until" = k.was
  , "attempt" = k.delivered
FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
RETURNING "id";

-- dead letter
SELECT "id" FROM "faststream_queue"
WHERE "id" = ?1
  AND "locked_until" IN (?2, ?3)
  AND "attempt" = ?4
  AND "queue" = ?5;

-- dead letter
UPDATE "faststream_queue"
SET "queue" = ?1
  , "locked_until" = NULL
  , "attempt" = ?2
WHERE "id" IN (SELECT value FROM json_each(?3));
