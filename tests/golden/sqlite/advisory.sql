-- ddl
CREATE TABLE IF NOT EXISTS "accounts" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT,
    "name" TEXT NOT NULL,
    "key" TEXT,
    "retry_after" TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')),
    "attempt" INTEGER NOT NULL DEFAULT 1,
    "payload" BLOB NOT NULL,
    "account"
);
CREATE INDEX IF NOT EXISTS "accounts_claim" ON "accounts" ("name", "retry_after", "id");

-- insert
INSERT INTO "accounts" ("name", "key", "retry_after", "attempt", "payload") VALUES (?1, ?2, ?3, ?4, ?5) RETURNING "id";

-- claim
SELECT ('account''s-' || COALESCE(CAST("account" AS TEXT), '')) AS held_key, "id", "name", "key", "retry_after", "attempt", "payload", "account" FROM "accounts" INDEXED BY "accounts_claim"
WHERE ('account''s-' || COALESCE(CAST("account" AS TEXT), '')) NOT IN (SELECT value FROM json_each(?1))
  AND "name" = ?2
  AND "retry_after" <= ?3
  AND ("key" IS NULL OR "key" NOT IN (SELECT value FROM json_each(?4)))
ORDER BY "retry_after", "id"
LIMIT 1;

-- claim
UPDATE "accounts"
SET "payload" = "payload"
  , "attempt" = CASE WHEN "attempt" < 9223372036854775807 THEN "attempt" + 1 ELSE "attempt" END
WHERE "id" IN (SELECT value FROM json_each(?1));

-- finish
DELETE FROM "accounts"
WHERE "id" = ?1
  AND "attempt" = ?2
RETURNING "id";

-- nack
UPDATE "accounts"
SET "payload" = "payload"
  , "retry_after" = COALESCE(?1, "retry_after")
WHERE "id" = ?2
  AND "attempt" = ?3
RETURNING "id";

-- release
UPDATE "accounts"
SET "payload" = "payload"
  , "attempt" = ?1
WHERE "id" = ?2
  AND "attempt" = ?3
RETURNING "id";

-- dead letter
SELECT "id" FROM "accounts"
WHERE "id" = ?1
  AND "attempt" = ?2;

-- dead letter
UPDATE "accounts"
SET "name" = ?1
  , "attempt" = ?2
WHERE "id" IN (SELECT value FROM json_each(?3));
