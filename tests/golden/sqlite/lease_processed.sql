-- ddl
CREATE TABLE IF NOT EXISTS "work"."jobs" (
    "job_id" INTEGER PRIMARY KEY AUTOINCREMENT,
    "name" TEXT NOT NULL,
    "retry_after" TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')),
    "attempt" INTEGER NOT NULL DEFAULT 1,
    "processed_at" TEXT,
    "locked_until" TEXT,
    "payload" BLOB NOT NULL,
    "account"
);
CREATE INDEX IF NOT EXISTS "work"."jobs_claim" ON "jobs" ("name", "retry_after", "job_id") WHERE "processed_at" IS NULL;

-- insert
INSERT INTO "work"."jobs" ("name", "retry_after", "attempt", "processed_at", "locked_until", "payload") VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING "job_id";

-- claim
SELECT "job_id", "name", "retry_after", "attempt", "processed_at", "locked_until", "payload", "account" FROM "work"."jobs" INDEXED BY "jobs_claim"
WHERE ("locked_until" IS NULL OR "locked_until" <= ?1)
  AND "name" = ?2
  AND "processed_at" IS NULL
  AND "retry_after" <= ?3
ORDER BY "retry_after", "job_id"
LIMIT ?4;

-- claim
UPDATE "work"."jobs"
SET "locked_until" = ?1
  , "attempt" = CASE WHEN "attempt" < 9223372036854775807 THEN "attempt" + 1 ELSE "attempt" END
WHERE "job_id" IN (SELECT value FROM json_each(?2));

-- renew
WITH k (id, locked_until, attempt, expiry) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(?1))
UPDATE "work"."jobs" AS t SET "locked_until" = k.expiry FROM k
WHERE t."job_id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
  AND t."processed_at" IS NULL
RETURNING "job_id";

-- renew
UPDATE "work"."jobs" SET "locked_until" = ?1
WHERE "job_id" = ?2
  AND "locked_until" IN (?3, ?4)
  AND "attempt" = ?5
  AND "processed_at" IS NULL
RETURNING "job_id";

-- finish
WITH k (id, locked_until, attempt, now) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(?1))
UPDATE "work"."jobs" AS t SET "processed_at" = k.now, "locked_until" = NULL FROM k
WHERE t."job_id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
  AND t."processed_at" IS NULL
RETURNING "job_id";

-- finish
UPDATE "work"."jobs" SET "processed_at" = ?1, "locked_until" = NULL
WHERE "job_id" = ?2
  AND "locked_until" IN (?3, ?4)
  AND "attempt" = ?5
  AND "processed_at" IS NULL
RETURNING "job_id";

-- nack
WITH k (id, locked_until, attempt, due) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(?1))
UPDATE "work"."jobs" AS t
SET "locked_until" = NULL
  , "retry_after" = COALESCE(k.due, t."retry_after")
FROM k
WHERE t."job_id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
  AND t."processed_at" IS NULL
RETURNING "job_id";

-- nack
UPDATE "work"."jobs"
SET "locked_until" = NULL
  , "retry_after" = COALESCE(?1, "retry_after")
WHERE "job_id" = ?2
  AND "locked_until" IN (?3, ?4)
  AND "attempt" = ?5
  AND "processed_at" IS NULL
RETURNING "job_id";

-- release
WITH k (id, locked_until, attempt, was, delivered) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'), json_extract(value, '$[4]') FROM json_each(?1))
UPDATE "work"."jobs" AS t
SET "locked_until" = k.was
  , "attempt" = k.delivered
FROM k
WHERE t."job_id" = k.id
  AND t."locked_until" = k.locked_until
  AND t."attempt" = k.attempt
  AND t."processed_at" IS NULL
RETURNING "job_id";

-- dead letter
SELECT "job_id" FROM "work"."jobs"
WHERE "job_id" = ?1
  AND "locked_until" IN (?2, ?3)
  AND "attempt" = ?4
  AND "processed_at" IS NULL
  AND "name" = ?5;

-- dead letter
UPDATE "work"."jobs"
SET "name" = ?1
  , "locked_until" = NULL
  , "attempt" = ?2
WHERE "job_id" IN (SELECT value FROM json_each(?3));
