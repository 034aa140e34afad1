-- ddl
CREATE TABLE IF NOT EXISTS `report_jobs` (
    `id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `locked_until` datetime(6),
    `payload` longblob NOT NULL,
    KEY `report_jobs_claim` (`id`)
) ENGINE=InnoDB;

-- insert
INSERT INTO `report_jobs` (`locked_until`, `payload`) VALUES (%s, %s);

-- claim
SELECT `id`, `locked_until`, `payload` FROM `report_jobs` FORCE INDEX (`report_jobs_claim`)
WHERE (`locked_until` IS NULL OR `locked_until` <= %s)
ORDER BY `id`
LIMIT %s
FOR UPDATE SKIP LOCKED;

-- claim
UPDATE `report_jobs`
SET `locked_until` = %s
WHERE `id` IN (%s);

-- renew
SELECT `id` FROM `report_jobs`
WHERE `id` IN (%s) AND (`id`, `locked_until`) IN ((%s, %s)) ORDER BY `id` FOR UPDATE SKIP LOCKED;

-- renew
UPDATE `report_jobs` SET `locked_until` = CASE `id` WHEN %s THEN %s END WHERE `id` IN (%s);

-- renew
UPDATE `report_jobs` SET `locked_until` = %s
WHERE `id` = %s
  AND `locked_until` IN (%s, %s);

-- finish
DELETE FROM `report_jobs` WHERE `id` IN (%s);

-- finish
DELETE FROM `report_jobs`
WHERE `id` = %s
  AND `locked_until` IN (%s, %s);

-- nack
UPDATE `report_jobs` SET `locked_until` = NULL WHERE `id` IN (%s);

-- nack
UPDATE `report_jobs`
SET `locked_until` = NULL
WHERE `id` = %s
  AND `locked_until` IN (%s, %s);

-- dead letter
SELECT `id` FROM `report_jobs`
WHERE `id` = %s
  AND `locked_until` IN (%s, %s)
FOR UPDATE;

-- dead letter
INSERT INTO `report_jobs_dead` (`id`, `payload`, `locked_until`) SELECT `id`, `payload`, NULL FROM `report_jobs` WHERE `id` IN (%s);
