-- ddl
CREATE TABLE IF NOT EXISTS `steps` (
    `id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `name` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `priority` int NOT NULL DEFAULT 0,
    `key` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    `retry_after` datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    `locked_until` datetime(6),
    `payload` longblob NOT NULL,
    KEY `steps_claim` (`name`, `priority`, `retry_after`, `id`, `key`)
) ENGINE=InnoDB;

-- insert
INSERT INTO `steps` (`name`, `priority`, `key`, `retry_after`, `locked_until`, `payload`) VALUES (%s, %s, %s, %s, %s, %s);

-- claim
SELECT `id`, `name`, `priority`, `key`, `retry_after`, `locked_until`, `payload` FROM `steps` FORCE INDEX (`steps_claim`)
WHERE (`locked_until` IS NULL OR `locked_until` <= %s)
  AND `name` = %s
  AND CAST(`name` AS BINARY) = %s
  AND (`priority` IN (%s) AND `retry_after` <= %s
    OR `priority` NOT IN (%s) AND COALESCE(`retry_after`) <= %s)
  AND (`key` IN (%s)) IS NOT TRUE
ORDER BY `priority`, `retry_after`, `id`
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- claim
UPDATE `steps`
SET `locked_until` = %s
WHERE `id` IN (%s);

-- renew
SELECT `id` FROM `steps`
WHERE `id` IN (%s) AND (`id`, `locked_until`) IN ((%s, %s)) ORDER BY `id` FOR UPDATE SKIP LOCKED;

-- renew
UPDATE `steps` SET `locked_until` = CASE `id` WHEN %s THEN %s END WHERE `id` IN (%s);

-- renew
UPDATE `steps` SET `locked_until` = %s
WHERE `id` = %s
  AND `locked_until` IN (%s, %s);

-- finish
DELETE FROM `steps` WHERE `id` IN (%s);

-- finish
DELETE FROM `steps`
WHERE `id` = %s
  AND `locked_until` IN (%s, %s);

-- nack
UPDATE `steps` SET `locked_until` = NULL, `retry_after` = COALESCE(CASE `id` WHEN %s THEN %s END, `retry_after`) WHERE `id` IN (%s);

-- nack
UPDATE `steps`
SET `locked_until` = NULL
  , `retry_after` = COALESCE(%s, `retry_after`)
WHERE `id` = %s
  AND `locked_until` IN (%s, %s);

-- dead letter
SELECT `id` FROM `steps`
WHERE `id` = %s
  AND `locked_until` IN (%s, %s)
FOR UPDATE;

-- dead letter
UPDATE `steps`
SET `name` = %s
  , `locked_until` = NULL
WHERE `id` IN (%s);

-- look for priorities
(SELECT `priority`, `retry_after` <= %s FROM `steps` FORCE INDEX (`steps_claim`)
WHERE TRUE
  AND `name` = %s
  AND CAST(`name` AS BINARY) = %s
ORDER BY `priority`, `retry_after` LIMIT 1);
