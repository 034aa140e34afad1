-- ddl
CREATE TABLE IF NOT EXISTS `work`.`jobs` (
    `job_id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `name` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `retry_after` datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    `attempt` int NOT NULL DEFAULT 1,
    `processed_at` datetime(6),
    `locked_until` datetime(6),
    `payload` longblob NOT NULL,
    `account` longtext CHARACTER SET utf8mb4,
    KEY `jobs_claim` (`name`, `processed_at`, `retry_after`, `job_id`)
) ENGINE=InnoDB;

-- insert
INSERT INTO `work`.`jobs` (`name`, `retry_after`, `attempt`, `processed_at`, `locked_until`, `payload`) VALUES (%s, %s, %s, %s, %s, %s);

-- claim
SELECT `job_id`, `name`, `retry_after`, `attempt`, `processed_at`, `locked_until`, `payload`, `account` FROM `work`.`jobs` FORCE INDEX (`jobs_claim`)
WHERE (`locked_until` IS NULL OR `locked_until` <= %s)
  AND `name` = %s
  AND CAST(`name` AS BINARY) = %s
  AND `processed_at` IS NULL
  AND `retry_after` <= %s
ORDER BY `retry_after`, `job_id`
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- claim
UPDATE `work`.`jobs`
SET `locked_until` = %s
  , `attempt` = CASE WHEN `attempt` < 2147483647 THEN `attempt` + 1 ELSE `attempt` END
WHERE `job_id` IN (%s);

-- renew
SELECT `job_id` FROM `work`.`jobs`
WHERE `job_id` IN (%s)
  AND `processed_at` IS NULL AND (`job_id`, `locked_until`, `attempt`) IN ((%s, %s, %s)) ORDER BY `job_id` FOR UPDATE SKIP LOCKED;

-- renew
UPDATE `work`.`jobs` SET `locked_until` = CASE `job_id` WHEN %s THEN %s END WHERE `job_id` IN (%s);

-- renew
UPDATE `work`.`jobs` SET `locked_until` = %s
WHERE `job_id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s
  AND `processed_at` IS NULL;

-- finish
UPDATE `work`.`jobs` SET `locked_until` = NULL, `processed_at` = CASE `job_id` WHEN %s THEN %s END WHERE `job_id` IN (%s);

-- finish
UPDATE `work`.`jobs` SET `processed_at` = %s, `locked_until` = NULL
WHERE `job_id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s
  AND `processed_at` IS NULL;

-- nack
UPDATE `work`.`jobs` SET `locked_until` = NULL, `retry_after` = COALESCE(CASE `job_id` WHEN %s THEN %s END, `retry_after`) WHERE `job_id` IN (%s);

-- nack
UPDATE `work`.`jobs`
SET `locked_until` = NULL
  , `retry_after` = COALESCE(%s, `retry_after`)
WHERE `job_id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s
  AND `processed_at` IS NULL;

-- release
UPDATE `work`.`jobs` SET `locked_until` = CASE `job_id` WHEN %s THEN %s END, `attempt` = CASE `job_id` WHEN %s THEN %s END WHERE `job_id` IN (%s);

-- dead letter
SELECT `job_id` FROM `work`.`jobs`
WHERE `job_id` = %s
  AND `locked_until` IN (%s, %s)
  AND `attempt` = %s
  AND `processed_at` IS NULL
FOR UPDATE;

-- dead letter
UPDATE `work`.`jobs`
SET `name` = %s
  , `locked_until` = NULL
  , `attempt` = %s
WHERE `job_id` IN (%s);
