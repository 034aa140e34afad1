-- ddl
CREATE TABLE IF NOT EXISTS "jobs" (
    "id" uuid PRIMARY KEY,
    "name" text NOT NULL,
    "rank" integer NOT NULL DEFAULT 0,
    "retry_after" timestamp with time zone NOT NULL DEFAULT now(),
    "payload" bytea NOT NULL
);
CREATE INDEX IF NOT EXISTS "jobs_claim" ON "jobs" ("name", "rank", "retry_after", "id");

-- insert
INSERT INTO "jobs" ("id", "name", "rank", "retry_after", "payload") OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4, $5) RETURNING "id";

-- claim
WITH RECURSIVE step (priority, n) AS (
  (SELECT "rank", 1 FROM "jobs"
   WHERE TRUE
     AND "name" = $1
   ORDER BY "rank" LIMIT 1)
  UNION ALL
  SELECT (SELECT d."rank" FROM "jobs" AS d
          WHERE d."rank" > step.priority
            AND d."name" = $1
          ORDER BY d."rank" LIMIT 1), n + 1
  FROM step WHERE step.priority IS NOT NULL AND n < 64
)
SELECT "id", "name", "rank", "retry_after", "payload" FROM (
  SELECT s.* FROM step CROSS JOIN LATERAL (
    SELECT * FROM "jobs"
    WHERE "rank" = step.priority
      AND "name" = $1
      AND "retry_after" <= $2
    ORDER BY "retry_after", "id"
    LIMIT $3
    FOR UPDATE SKIP LOCKED
  ) AS s
  WHERE step.priority IS NOT NULL
  UNION ALL
  SELECT s.* FROM step CROSS JOIN LATERAL (
    SELECT * FROM "jobs"
    WHERE "rank" > step.priority
      AND "name" = $1
      AND "retry_after" <= $2
    ORDER BY "rank", "retry_after", "id"
    LIMIT $3
    FOR UPDATE SKIP LOCKED
  ) AS s
  WHERE step.n = 64
) AS r
LIMIT $3;

-- finish
DELETE FROM "jobs" WHERE "id" = $1 RETURNING "id";

-- nack
UPDATE "jobs"
SET "payload" = "payload"
  , "retry_after" = COALESCE($1, "retry_after")
WHERE "id" = $2
RETURNING "id";

-- dead letter
UPDATE "jobs" SET "name" = $1 WHERE "id" = $2 RETURNING "id";
