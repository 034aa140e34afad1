-- ddl
CREATE TABLE IF NOT EXISTS `accounts` (
    `id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `name` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `key` varchar(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    `retry_after` datetime(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    `attempt` int NOT NULL DEFAULT 1,
    `payload` longblob NOT NULL,
    `account` longtext CHARACTER SET utf8mb4,
    KEY `accounts_claim` (`name`, `retry_after`, `id`, `key`)
) ENGINE=InnoDB;

-- insert
INSERT INTO `accounts` (`name`, `key`, `retry_after`, `attempt`, `payload`) VALUES (%s, %s, %s, %s, %s) RETURNING `id`;

-- claim
SELECT c.held_key, c.id FROM (
  SELECT IF(CHAR_LENGTH(CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), ''))) > 64 OR LENGTH(CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), ''))) > 192, SHA2(CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), '')), 256), CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), ''))) AS held_key, t.`id` AS id, t.`payload` IS NULL AS unused FROM `accounts` AS t FORCE INDEX (`accounts_claim`)
  WHERE IS_FREE_LOCK(IF(CHAR_LENGTH(CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), ''))) > 64 OR LENGTH(CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), ''))) > 192, SHA2(CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), '')), 256), CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), '')))) = 1
  AND `name` = %s
  AND CAST(`name` AS BINARY) = %s
  AND `retry_after` <= %s
    AND (`key` IN (%s)) IS NOT TRUE
  ORDER BY t.`retry_after`, t.`id`
  LIMIT 16
) AS c
WHERE GET_LOCK(c.held_key, 0) = 1
LIMIT 1;

-- claim
SELECT `id`, `name`, `key`, `retry_after`, `attempt`, `payload`, `account` FROM `accounts`
WHERE `id` = %s
  AND IF(CHAR_LENGTH(CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), ''))) > 64 OR LENGTH(CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), ''))) > 192, SHA2(CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), '')), 256), CONCAT(DATABASE(), '.', CONVERT(X'6163636f756e7427732d' USING utf8mb4), COALESCE(CAST(`account` AS CHAR), ''))) = %s
  AND `name` = %s
  AND CAST(`name` AS BINARY) = %s
  AND `retry_after` <= %s
FOR UPDATE;

-- claim
UPDATE `accounts`
SET `attempt` = CASE WHEN `attempt` < 2147483647 THEN `attempt` + 1 ELSE `attempt` END
WHERE `id` IN (%s);

-- unlock
SELECT RELEASE_LOCK(%s);

-- finish
DELETE FROM `accounts`
WHERE `id` = %s
  AND `attempt` = %s;

-- nack
UPDATE `accounts`
SET `payload` = `payload`
  , `retry_after` = COALESCE(%s, `retry_after`)
WHERE `id` = %s
  AND `attempt` = %s;

-- release
UPDATE `accounts`
SET `payload` = `payload`
  , `attempt` = %s
WHERE `id` = %s
  AND `attempt` = %s;

-- dead letter
SELECT `id` FROM `accounts`
WHERE `id` = %s
  AND `attempt` = %s
FOR UPDATE;

-- dead letter
UPDATE `accounts`
SET `name` = %s
  , `attempt` = %s
WHERE `id` IN (%s);
