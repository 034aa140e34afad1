-- ddl
CREATE TABLE IF NOT EXISTS "report_jobs" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT,
    "locked_until" TEXT,
    "payload" BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS "report_jobs_claim" ON "report_jobs" ("id");

-- insert
INSERT INTO "report_jobs" ("locked_until", "payload") VALUES (?1, ?2) RETURNING "id";

-- claim
SELECT "id", "locked_until", "payload" FROM "report_jobs" INDEXED BY "report_jobs_claim"
WHERE ("locked_until" IS NULL OR "locked_until" <= ?1)
ORDER BY "id"
LIMIT ?2;

-- claim
UPDATE "report_jobs"
SET "locked_until" = ?1
WHERE "id" IN (SELECT value FROM json_each(?2));

-- renew
WITH k (id, locked_until, expiry) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?1))
UPDATE "report_jobs" AS t SET "locked_until" = k.expiry FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
RETURNING "id";

-- renew
UPDATE "report_jobs" SET "locked_until" = ?1
WHERE "id" = ?2
  AND "locked_until" IN (?3, ?4)
RETURNING "id";

-- finish
WITH k (id, locked_until) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1))
DELETE FROM "report_jobs" WHERE "id" IN (SELECT t."id" FROM k CROSS JOIN "report_jobs" AS t
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
) RETURNING "id";

-- finish
DELETE FROM "report_jobs"
WHERE "id" = ?1
  AND "locked_until" IN (?2, ?3)
RETURNING "id";

-- nack
WITH k (id, locked_until) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1))
UPDATE "report_jobs" AS t
SET "locked_until" = NULL
FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
RETURNING "id";

-- nack
UPDATE "report_jobs"
SET "locked_until" = NULL
WHERE "id" = ?1
  AND "locked_until" IN (?2, ?3)
RETURNING "id";

-- release
WITH k (id, locked_until, was) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?1))
UPDATE "report_jobs" AS t
SET "locked_until" = k.was
FROM k
WHERE t."id" = k.id
  AND t."locked_until" = k.locked_until
RETURNING "id";

-- dead letter
SELECT "id" FROM "report_jobs"
WHERE "id" = ?1
  AND "locked_until" IN (?2, ?3);

-- dead letter
INSERT INTO "report_jobs_dead" ("id", "payload", "locked_until") SELECT "id", "payload", NULL FROM "report_jobs"
WHERE "id" IN (SELECT value FROM json_each(?1));

-- dead letter
DELETE FROM "report_jobs" WHERE "id" IN (SELECT value FROM json_each(?1));
