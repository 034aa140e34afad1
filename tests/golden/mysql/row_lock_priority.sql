-- ddl
CREATE TABLE IF NOT EXISTS `jobs` (
    `id` char(36) NOT NULL PRIMARY KEY,
    `name` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `rank` int NOT NULL DEFAULT 0,
    `retry_after` datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    `payload` longblob NOT NULL,
    KEY `jobs_claim` (`name`, `rank`, `retry_after`, `id`)
) ENGINE=InnoDB;

-- insert
INSERT INTO `jobs` (`id`, `name`, `rank`, `retry_after`, `payload`) VALUES (%s, %s, %s, %s, %s);

-- claim
SELECT `id`, `name`, `rank`, `retry_after`, `payload` FROM `jobs` FORCE INDEX (`jobs_claim`)
WHERE TRUE
  AND `name` = %s
  AND CAST(`name` AS BINARY) = %s
  AND (`rank` IN (%s) AND `retry_after` <= %s
    OR `rank` NOT IN (%s) AND COALESCE(`retry_after`) <= %s)
ORDER BY `rank`, `retry_after`, `id`
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- finish
DELETE FROM `jobs` WHERE `id` = %s;

-- nack
UPDATE `jobs`
SET `payload` = `payload`
  , `retry_after` = COALESCE(%s, `retry_after`)
WHERE `id` = %s;

-- dead letter
UPDATE `jobs` SET `name` = %s WHERE `id` = %s;

-- claim
SELECT `id`, `name`, `rank`, `retry_after`, `payload` FROM `jobs`
WHERE `id` = %s
  AND `name` = %s
  AND CAST(`name` AS BINARY) = %s
  AND `retry_after` <= %s
FOR UPDATE SKIP LOCKED;

-- look for priorities
(SELECT `rank`, `retry_after` <= %s FROM `jobs` FORCE INDEX (`jobs_claim`)
WHERE TRUE
  AND `name` = %s
  AND CAST(`name` AS BINARY) = %s
ORDER BY `rank`, `retry_after` LIMIT 1);
