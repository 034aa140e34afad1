-- ddl
CREATE TABLE IF NOT EXISTS "a""b" (
    "select" INTEGER PRIMARY KEY AUTOINCREMENT,
    "ünï %s" TEXT NOT NULL,
    "{id}" TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')),
    ":now" INTEGER NOT NULL DEFAULT 1,
    "--? x" TEXT,
    "or`der" BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS "a""b_claim" ON "a""b" ("ünï %s", "{id}", "select");

-- insert
INSERT INTO "a""b" ("ünï %s", "{id}", ":now", "--? x", "or`der") VALUES (?1, ?2, ?3, ?4, ?5) RETURNING "select";

-- claim
SELECT "select", "ünï %s", "{id}", ":now", "--? x", "or`der" FROM "a""b" INDEXED BY "a""b_claim"
WHERE ("--? x" IS NULL OR "--? x" <= ?1)
  AND "ünï %s" = ?2
  AND "{id}" <= ?3
ORDER BY "{id}", "select"
LIMIT ?4;

-- claim
UPDATE "a""b"
SET "--? x" = ?1
  , ":now" = CASE WHEN ":now" < 9223372036854775807 THEN ":now" + 1 ELSE ":now" END
WHERE "select" IN (SELECT value FROM json_each(?2));

-- renew
WITH k (id, locked_until, attempt, expiry) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(?1))
UPDATE "a""b" AS t SET "--? x" = k.expiry FROM k
WHERE t."select" = k.id
  AND t."--? x" = k.locked_until
  AND t.":now" = k.attempt
RETURNING "select";

-- renew
UPDATE "a""b" SET "--? x" = ?1
WHERE "select" = ?2
  AND "--? x" IN (?3, ?4)
  AND ":now" = ?5
RETURNING "select";

-- finish
WITH k (id, locked_until, attempt) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?1))
DELETE FROM "a""b" WHERE "select" IN (SELECT t."select" FROM k CROSS JOIN "a""b" AS t
WHERE t."select" = k.id
  AND t."--? x" = k.locked_until
  AND t.":now" = k.attempt
) RETURNING "select";

-- finish
DELETE FROM "a""b"
WHERE "select" = ?1
  AND "--? x" IN (?2, ?3)
  AND ":now" = ?4
RETURNING "select";

-- nack
WITH k (id, locked_until, attempt, due) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(?1))
UPDATE "a""b" AS t
SET "--? x" = NULL
  , "{id}" = COALESCE(k.due, t."{id}")
FROM k
WHERE t."select" = k.id
  AND t."--? x" = k.locked_until
  AND t.":now" = k.attempt
RETURNING "select";

-- nack
UPDATE "a""b"
SET "--? x" = NULL
  , "{id}" = COALESCE(?1, "{id}")
WHERE "select" = ?2
  AND "--? x" IN (?3, ?4)
  AND ":now" = ?5
RETURNING "select";

-- release
WITH k (id, locked_until, attempt, was, delivered) AS MATERIALIZED (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'), json_extract(value, '$[4]') FROM json_each(?1))
UPDATE "a""b" AS t
SET "--? x" = k.was
  , ":now" = k.delivered
FROM k
WHERE t."select" = k.id
  AND t."--? x" = k.locked_until
  AND t.":now" = k.attempt
RETURNING "select";

-- dead letter
SELECT "select" FROM "a""b"
WHERE "select" = ?1
  AND "--? x" IN (?2, ?3)
  AND ":now" = ?4
  AND "ünï %s" = ?5;

-- dead letter
UPDATE "a""b"
SET "ünï %s" = ?1
  , "--? x" = NULL
  , ":now" = ?2
WHERE "select" IN (SELECT value FROM json_each(?3));
