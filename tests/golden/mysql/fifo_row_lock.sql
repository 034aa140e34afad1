-- ddl
CREATE TABLE IF NOT EXISTS `steps` (
    `id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `name` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `retry_after` datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    `attempt` int NOT NULL DEFAULT 1,
    `payload` longblob NOT NULL,
    KEY `steps_claim` (`name`, `retry_after`, `id`)
) ENGINE=InnoDB;

-- insert
INSERT INTO `steps` (`name`, `retry_after`, `attempt`, `payload`) VALUES (%s, %s, %s, %s);

-- claim
SELECT t.`id`, t.`name`, t.`retry_after`, t.`attempt`, t.`payload` FROM `steps` AS t
WHERE t.`id` = (
    SELECT h.`id` FROM `steps` AS h FORCE INDEX (`steps_claim`)
    WHERE h.`name` = %s
      AND CAST(h.`name` AS BINARY) = %s
    ORDER BY h.`retry_after`, h.`id` LIMIT 1)
  AND t.`retry_after` <= %s
FOR UPDATE SKIP LOCKED;

-- finish
DELETE FROM `steps` WHERE `id` = %s;

-- nack
UPDATE `steps`
SET `payload` = `payload`
  , `attempt` = CASE WHEN `attempt` < 2147483647 THEN `attempt` + 1 ELSE `attempt` END
  , `retry_after` = COALESCE(%s, `retry_after`)
WHERE `id` = %s;

-- dead letter
UPDATE `steps` SET `name` = %s WHERE `id` = %s;

-- mutex of a group
SELECT GET_LOCK(SHA2(CONCAT(DATABASE(), '.', 'steps', '.', %s), 256), 0);

-- mutex of a group
SELECT RELEASE_LOCK(SHA2(CONCAT(DATABASE(), '.', 'steps', '.', %s), 256));
