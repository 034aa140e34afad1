-- ddl
CREATE TABLE IF NOT EXISTS "steps" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT,
    "name" TEXT NOT NULL,
    "retry_after" TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')),
    "attempt" INTEGER NOT NULL DEFAULT 1,
    "locked_until" TEXT,
    "payload" BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS "steps_claim" ON "steps" ("name", "retry_after", "id");
CREATE INDEX IF NOT EXISTS "steps_leases" ON "steps" ("name", "locked_until") WHERE "locked_until" IS NOT NULL;

-- insert
INSERT INTO "steps" ("name", "retry_after", "attempt", "locked_until", "payload") VALUES (?1, ?2, ?3, ?4, ?5) RETURNING "id";

-- claim
SELECT t."id", t."name", t."retry_after", t."attempt", t."locked_until", t."payload" FROM "steps" AS t
WHERE t."id" = (
    SELECT h."id" FROM "steps" AS h INDEXED BY "steps_claim"
    WHERE h."name" = ?1
    ORDER BY h."retry_after", h."id" LIMIT 1)
  AND (t."locked_until" IS NULL OR t."locked_until" <= ?2)
  AND t."retry_after" <= ?3
  AND NOT EXISTS (
    SELECT 1 FROM "steps" AS o
    WHERE o."name" = ?1 AND o."locked_until" > ?2
  )
LIMIT ?4;

-- claim
UPDATE "steps"
SET "locked_until" = ?1
  , "attempt" = CASE WHEN "attempt" < 9223372036854775807 THEN "attempt" + 1 ELSE "attempt" END
WHERE "id" IN (SELECT value FROM json_each(?2));

-- renew
WITH k (id, locked_until, attempt, expiry) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(?1))
UPDATE "steps" AS t SET "locked_until" = k.expiry FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
RETURNING "id";

-- renew
UPDATE "steps" SET "locked_until" = ?1
WHERE "id" = ?2
  AND "locked_until" IN (?3, ?4)
  AND "attempt" = ?5
RETURNING "id";

-- finish
WITH k (id, locked_until, attempt) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?1))
DELETE FROM "steps" WHERE "id" IN (SELECT t."id" FROM k CROSS JOIN "steps" AS t
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
) RETURNING "id";

-- finish
DELETE FROM "steps"
WHERE "id" = ?1
  AND "locked_until" IN (?2, ?3)
  AND "attempt" = ?4
RETURNING "id";

-- nack
WITH k (id, locked_until, attempt, due) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(?1))
UPDATE "steps" AS t
SET "locked_until" = NULL
  , "retry_after" = COALESCE(k.due, t."retry_after")
FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
RETURNING "id";

-- nack
UPDATE "steps"
SET "locked_until" = NULL
  , "retry_after" = COALESCE(?1, "retry_after")
WHERE "id" = ?2
  AND "locked_until" IN (?3, ?4)
  AND "attempt" = ?5
RETURNING "id";

-- release
WITH k (id, locked_until, attempt, was, delivered) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'), json_extract(value, '$[4]') FROM json_each(?1))
UPDATE "steps" AS t
SET "locked_until" = k.was
  , "attempt" = k.delivered
FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
RETURNING "id";

-- dead letter
SELECT "id" FROM "steps"
WHERE "id" = ?1
  AND "locked_until" IN (?2, ?3)
  AND "attempt" = ?4
  AND "name" = ?5;

-- dead letter
UPDATE "steps"
SET "name" = ?1
  , "locked_until" = NULL
  , "attempt" = ?2
WHERE "id" IN (SELECT value FROM json_each(?3));
