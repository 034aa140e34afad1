-- ddl
CREATE TABLE IF NOT EXISTS `a"b` (
    `select` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `ünï %s` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `{id}` datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    `:now` int NOT NULL DEFAULT 1,
    `--? x` datetime(6),
    `or``der` longblob NOT NULL,
    KEY `a"b_claim` (`ünï %s`, `{id}`, `select`)
) ENGINE=InnoDB;

-- insert
INSERT INTO `a"b` (`ünï %%s`, `{id}`, `:now`, `--? x`, `or``der`) VALUES (%s, %s, %s, %s, %s) RETURNING `select`;

-- claim
SELECT `select`, `ünï %%s`, `{id}`, `:now`, `--? x`, `or``der` FROM `a"b` FORCE INDEX (`a"b_claim`)
WHERE (`--? x` IS NULL OR `--? x` <= %s)
  AND `ünï %%s` = %s
  AND CAST(`ünï %%s` AS BINARY) = %s
  AND `{id}` <= %s
ORDER BY `{id}`, `select`
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- claim
UPDATE `a"b`
SET `--? x` = %s
  , `:now` = CASE WHEN `:now` < 2147483647 THEN `:now` + 1 ELSE `:now` END
WHERE `select` IN (%s);

-- renew
SELECT `select` FROM `a"b`
WHERE `select` IN (%s) AND (`select`, `--? x`, `:now`) IN ((%s, %s, %s)) ORDER BY `select` FOR UPDATE SKIP LOCKED;

-- renew
UPDATE `a"b` SET `--? x` = CASE `select` WHEN %s THEN %s END WHERE `select` IN (%s);

-- renew
UPDATE `a"b` SET `--? x` = %s
WHERE `select` = %s
  AND `--? x` IN (%s, %s)
  AND `:now` = %s;

-- finish
DELETE FROM `a"b` WHERE `select` IN (%s);

-- finish
DELETE FROM `a"b`
WHERE `select` = %s
  AND `--? x` IN (%s, %s)
  AND `:now` = %s;

-- nack
UPDATE `a"b` SET `--? x` = NULL, `{id}` = COALESCE(CASE `select` WHEN %s THEN %s END, `{id}`) WHERE `select` IN (%s);

-- nack
UPDATE `a"b`
SET `--? x` = NULL
  , `{id}` = COALESCE(%s, `{id}`)
WHERE `select` = %s
  AND `--? x` IN (%s, %s)
  AND `:now` = %s;

-- release
UPDATE `a"b` SET `--? x` = CASE `select` WHEN %s THEN %s END, `:now` = CASE `select` WHEN %s THEN %s END WHERE `select` IN (%s);

-- dead letter
SELECT `select` FROM `a"b`
WHERE `select` = %s
  AND `--? x` IN (%s, %s)
  AND `:now` = %s
FOR UPDATE;

-- dead letter
UPDATE `a"b`
SET `ünï %%s` = %s
  , `--? x` = NULL
  , `:now` = %s
WHERE `select` IN (%s);
