-- ddl
CREATE TABLE IF NOT EXISTS `email_jobs` (
    `job_id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `name` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `retry_after` datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    `attempt` int NOT NULL DEFAULT 1,
    `payload` longblob NOT NULL,
    KEY `email_jobs_claim` (`name`, `retry_after`, `job_id`)
) ENGINE=InnoDB;

-- insert
INSERT INTO `email_jobs` (`name`, `retry_after`, `attempt`, `payload`) VALUES (%s, %s, %s, %s);

-- claim
SELECT `job_id`, `name`, `retry_after`, `attempt`, `payload` FROM `email_jobs` FORCE INDEX (`email_jobs_claim`)
WHERE TRUE
  AND `name` = %s
  AND CAST(`name` AS BINARY) = %s
  AND `retry_after` <= %s
ORDER BY `retry_after`, `job_id`
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- finish
DELETE FROM `email_jobs` WHERE `job_id` = %s;

-- nack
UPDATE `email_jobs`
SET `payload` = `payload`
  , `attempt` = CASE WHEN `attempt` < 2147483647 THEN `attempt` + 1 ELSE `attempt` END
  , `retry_after` = COALESCE(%s, `retry_after`)
WHERE `job_id` = %s;

-- dead letter
UPDATE `email_jobs` SET `name` = %s WHERE `job_id` = %s;

-- claim
SELECT `job_id`, `name`, `retry_after`, `attempt`, `payload` FROM `email_jobs`
WHERE `job_id` = %s
  AND `name` = %s
  AND CAST(`name` AS BINARY) = %s
  AND `retry_after` <= %s
FOR UPDATE SKIP LOCKED;
