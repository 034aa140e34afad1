-- ddl
CREATE TABLE IF NOT EXISTS "steps" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT,
    "name" TEXT NOT NULL,
    "priority" INTEGER NOT NULL DEFAULT 0,
    "key" TEXT,
    "retry_after" TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')),
    "locked_until" TEXT,
    "payload" BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS "steps_claim" ON "steps" ("name", "priority", "retry_after", "id");

-- insert
INSERT INTO "steps" ("name", "priority", "key", "retry_after", "locked_until", "payload") VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING "id";

-- claim
WITH RECURSIVE step (priority, n) AS (
  SELECT * FROM (
    SELECT "priority", 1 FROM "steps"
    WHERE TRUE
      AND "name" = ?1
    ORDER BY "priority" LIMIT 1)
  UNION ALL
  SELECT (SELECT d."priority" FROM "steps" AS d
          WHERE d."priority" > step.priority
            AND d."name" = ?1
          ORDER BY d."priority" LIMIT 1), n + 1
  FROM step WHERE step.priority IS NOT NULL AND n < 64
)
SELECT * FROM (
  SELECT t."id", t."name", t."priority", t."key", t."retry_after", t."locked_until", t."payload" FROM step CROSS JOIN "steps" AS t INDEXED BY "steps_claim"
  WHERE step.priority IS NOT NULL
    AND t."priority" = step.priority
    AND t."name" = ?1
    AND t."retry_after" <= ?2
    AND (t."key" IS NULL OR t."key" NOT IN (SELECT value FROM json_each(?3)))
    AND (t."locked_until" IS NULL OR t."locked_until" <= ?4)
  LIMIT ?5)
UNION ALL
SELECT * FROM (
  SELECT t."id", t."name", t."priority", t."key", t."retry_after", t."locked_until", t."payload" FROM step CROSS JOIN "steps" AS t INDEXED BY "steps_claim"
  WHERE step.n = 64
    AND t."priority" > step.priority
    AND t."name" = ?1
    AND t."retry_after" <= ?2
    AND (t."key" IS NULL OR t."key" NOT IN (SELECT value FROM json_each(?3)))
    AND (t."locked_until" IS NULL OR t."locked_until" <= ?4)
  ORDER BY t."priority", t."retry_after", t."id"
  LIMIT ?5)
LIMIT ?5;

-- claim
UPDATE "steps"
SET "locked_until" = ?1
WHERE "id" IN (SELECT value FROM json_each(?2));

-- renew
WITH k (id, locked_until, expiry) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?1))
UPDATE "steps" AS t SET "locked_until" = k.expiry FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
RETURNING "id";

-- renew
UPDATE "steps" SET "locked_until" = ?1
WHERE "id" = ?2
  AND "locked_until" IN (?3, ?4)
RETURNING "id";

-- finish
WITH k (id, locked_until) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1))
DELETE FROM "steps" WHERE "id" IN (SELECT t."id" FROM k CROSS JOIN "steps" AS t
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
) RETURNING "id";

-- finish
DELETE FROM "steps"
WHERE "id" = ?1
  AND "locked_until" IN (?2, ?3)
RETURNING "id";

-- nack
WITH k (id, locked_until, due) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?1))
UPDATE "steps" AS t
SET "locked_until" = NULL
  , "retry_after" = COALESCE(k.due, t."retry_after")
FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
RETURNING "id";

-- nack
UPDATE "steps"
SET "locked_until" = NULL
  , "retry_after" = COALESCE(?1, "retry_after")
WHERE "id" = ?2
  AND "locked_until" IN (?3, ?4)
RETURNING "id";

-- release
WITH k (id, locked_until, was) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?1))
UPDATE "steps" AS t
SET "locked_until" = k.was
FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
RETURNING "id";

-- dead letter
SELECT "id" FROM "steps"
WHERE "id" = ?1
  AND "locked_until" IN (?2, ?3)
  AND "name" = ?4;

-- dead letter
UPDATE "steps"
SET "name" = ?1
  , "locked_until" = NULL
WHERE "id" IN (SELECT value FROM json_each(?2));
