-- ddl
CREATE TABLE IF NOT EXISTS `steps` (
    `id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `name` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `retry_after` datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    `attempt` int NOT NULL DEFAULT 1,
    `locked_until` datetime(6),
    `payload` longblob NOT NULL,
    KEY `steps_claim` (`name`, `retry_after`, `id`),
    KEY `steps_leases` (`name`, `locked_until`)
) ENGINE=InnoDB;

-- insert
INSERT INTO `steps` (`name`, `retry_after`, `attempt`, `locked_until`, `payload`) VALUES (%s, %s, %s, %s, %s);

-- look for a head
SELECT t.`id`, t.`name`, t.`retry_after`, t.`attempt`, t.`locked_until`, t.`payload` FROM `steps` AS t
WHERE t.`id` = (
    SELECT h.`id` FROM `steps` AS h FORCE INDEX (`steps_claim`)
    WHERE h.`name` = %s
      AND CAST(h.`name` AS BINARY) = %s
    ORDER BY h.`retry_after`, h.`id` LIMIT 1)
  AND t.`retry_after` <= %s
  AND (t.`locked_until` IS NULL OR t.`locked_until` <= %s)
  AND NOT EXISTS (
    SELECT 1 FROM `steps` AS o
    WHERE o.`name` = %s AND o.`locked_until` > %s
      AND CAST(o.`name` AS BINARY) = %s
  );

-- mutex of a group
SELECT GET_LOCK(SHA2(CONCAT(DATABASE(), '.', 'steps', '.', %s), 256), 0);

-- mutex of a group
SELECT RELEASE_LOCK(SHA2(CONCAT(DATABASE(), '.', 'steps', '.', %s), 256));

-- claim
SELECT t.`id`, t.`name`, t.`retry_after`, t.`attempt`, t.`locked_until`, t.`payload` FROM `steps` AS t
WHERE t.`id` = (
    SELECT h.`id` FROM `steps` AS h FORCE INDEX (`steps_claim`)
    WHERE h.`name` = %s
      AND CAST(h.`name` AS BINARY) = %s
    ORDER BY h.`retry_after`, h.`id` LIMIT 1)
  AND t.`retry_after` <= %s
  AND (t.`locked_until` IS NULL OR t.`locked_until` <= %s)
  AND NOT EXISTS (
    SELECT 1 FROM `steps` AS o
    WHERE o.`name` = %s AND o.`locked_until` > %s
      AND CAST(o.`name` AS BINARY) = %s
  )
FOR UPDATE SKIP LOCKED;

-- claim
UPDATE `steps`
SET `locked_until` = %s
  , `attempt` = CASE WHEN `attempt` < 2147483647 THEN `attempt` + 1 ELSE `attempt` END
WHERE `id` IN (%s);

-- renew
SELECT `id` FROM `steps`
WHERE `id` IN (%s) AND (`id`, `locked_until`, `attempt`) IN ((%s, %s, %s)) ORDER BY `id` FOR UPDATE SKIP LOCKED;

-- renew
UPDATE `steps` SET `locked_until` = CASE `id` WHEN %s THEN %s END WHERE `id` IN (%s);

-- renew
UPDATE `steps` SET `locked_until` = %s
WHERE `id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s;

-- finish
DELETE FROM `steps` WHERE `id` IN (%s);

-- finish
DELETE FROM `steps`
WHERE `id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s;

-- nack
UPDATE `steps` SET `locked_until` = NULL, `retry_after` = COALESCE(CASE `id` WHEN %s THEN %s END, `retry_after`) WHERE `id` IN (%s);

-- nack
UPDATE `steps`
SET `locked_until` = NULL
  , `retry_after` = COALESCE(%s, `retry_after`)
WHERE `id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s;

-- release
UPDATE `steps` SET `locked_until` = CASE `id` WHEN %s THEN %s END, `attempt` = CASE `id` WHEN %s THEN %s END WHERE `id` IN (%s);

-- dead letter
SELECT `id` FROM `steps`
WHERE `id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s
FOR UPDATE;

-- dead letter
UPDATE `steps`
SET `name` = %s
  , `locked_until` = NULL
  , `attempt` = %s
WHERE `id` IN (%s);
