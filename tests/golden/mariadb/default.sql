-- ddl
CREATE TABLE IF NOT EXISTS `faststream_queue` (
    `id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `queue` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `priority` int NOT NULL DEFAULT 0,
    `retry_after` datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    `attempt` int NOT NULL DEFAULT 1,
    `locked_until` datetime(6),
    `headers` longtext CHARACTER SET utf8mb4,
    `payload` longblob NOT NULL,
    KEY `faststream_queue_claim` (`queue`, `priority`, `retry_after`, `id`)
) ENGINE=InnoDB;

-- insert
INSERT INTO `faststream_queue` (`queue`, `priority`, `retry_after`, `attempt`, `locked_until`, `headers`, `payload`) VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING `id`;

-- claim
SELECT `id`, `queue`, `priority`, `retry_after`, `attempt`, `locked_until`, `headers`, `payload` FROM `faststream_queue` FORCE INDEX (`faststream_queue_claim`)
WHERE (`locked_until` IS NULL OR `locked_until` <= %s)
  AND `queue` = %s
  AND CAST(`queue` AS BINARY) = %s
  AND (`priority` IN (%s) AND `retry_after` <= %s
    OR `priority` NOT IN (%s) AND COALESCE(`retry_after`) <= %s)
ORDER BY `priority`, `retry_after`, `id`
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- claim
UPDATE `faststream_queue`
SET `locked_until` = %s
  , `attempt` = CASE WHEN `attempt` < 2147483647 THEN `attempt` + 1 ELSE `attempt` END
WHERE `id` IN (%s);

-- renew
SELECT `id` FROM `faststream_queue`
WHERE `id` IN (%s) AND (`id`, `locked_until`, `attempt`) IN ((%s, %s, %s)) ORDER BY `id` FOR UPDATE SKIP LOCKED;

-- renew
UPDATE `faststream_queue` SET `locked_until` = CASE `id` WHEN %s THEN %s END WHERE `id` IN (%s);

-- renew
UPDATE `faststream_queue` SET `locked_until` = %s
WHERE `id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s;

-- finish
DELETE FROM `faststream_queue` WHERE `id` IN (%s);

-- finish
DELETE FROM `faststream_queue`
WHERE `id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s;

-- nack
UPDATE `faststream_queue` SET `locked_until` = NULL, `retry_after` = COALESCE(CASE `id` WHEN %s THEN %s END, `retry_after`) WHERE `id` IN (%s);

-- nack
UPDATE `faststream_queue`
SET `locked_until` = NULL
  , `retry_after` = COALESCE(%s, `retry_after`)
WHERE `id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s;

-- release
UPDATE `faststream_queue` SET `locked_until` = CASE `id` WHEN %s THEN %s END, `attempt` = CASE `id` WHEN %s THEN %s END WHERE `id` IN (%s);

-- dead letter
SELECT `id` FROM `faststream_queue`
WHERE `id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s
FOR UPDATE;

-- dead letter
UPDATE `faststream_queue`
SET `queue` = %s
  , `locked_until` = NULL
  , `attempt` = %s
WHERE `id` IN (%s);

-- look for priorities
(SELECT `priority`, `retry_after` <= %s FROM `faststream_queue` FORCE INDEX (`faststream_queue_claim`)
WHERE TRUE
  AND `queue` = %s
  AND CAST(`queue` AS BINARY) = %s
ORDER BY `priority`, `retry_after` LIMIT 1);
