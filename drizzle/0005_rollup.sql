-- Sums of usage by day (86,400,000 ms) and hour (3,600,000 ms), kept with the rows; and how long rows are kept.
CREATE TABLE `usage_rollup` (
	`span_ms` integer NOT NULL,
	`start_ms` integer NOT NULL,
	`account_id` text NOT NULL,
	`key_id` text NOT NULL,
	`model` text NOT NULL,
	`requests` integer NOT NULL,
	`estimated` integer NOT NULL,
	`unpriced` integer NOT NULL,
	`input` integer NOT NULL,
	`cache_read` integer NOT NULL,
	`cache_write` integer NOT NULL,
	`output` integer NOT NULL,
	`reasoning` integer NOT NULL,
	`units` integer NOT NULL,
	`cost_nano` integer NOT NULL,
	`charged_nano` integer NOT NULL,
	PRIMARY KEY(`span_ms`, `start_ms`, `account_id`, `key_id`, `model`),
	CHECK (`span_ms` IN (3600000, 86400000)),
	CHECK (`start_ms` % `span_ms` = 0),
	CHECK (`requests` > 0 AND `estimated` BETWEEN 0 AND `requests` AND `unpriced` BETWEEN 0 AND `requests`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `usage_rollup_account` ON `usage_rollup` (`account_id`,`span_ms`,`start_ms`);
--> statement-breakpoint
INSERT INTO `usage_rollup` SELECT 86400000, `at_ms` / 86400000 * 86400000 AS `start`, `account_id`, `key_id`, `model`,
	count(*), sum(`estimated`), sum(`cost_nano` IS NULL), sum(`input`), sum(`cache_read`), sum(`cache_write`), sum(`output`), sum(`reasoning`),
	sum(`units`), coalesce(sum(`cost_nano`), 0), sum(`charged_nano`)
FROM `usage` GROUP BY `start`, `account_id`, `key_id`, `model`;
--> statement-breakpoint
INSERT INTO `usage_rollup` SELECT 3600000, `at_ms` / 3600000 * 3600000 AS `start`, `account_id`, `key_id`, `model`,
	count(*), sum(`estimated`), sum(`cost_nano` IS NULL), sum(`input`), sum(`cache_read`), sum(`cache_write`), sum(`output`), sum(`reasoning`),
	sum(`units`), coalesce(sum(`cost_nano`), 0), sum(`charged_nano`)
FROM `usage` GROUP BY `start`, `account_id`, `key_id`, `model`;
--> statement-breakpoint
CREATE TABLE `usage_kept` (
	`id` integer PRIMARY KEY NOT NULL,
	`rows_from_ms` integer NOT NULL,
	`hours_from_ms` integer NOT NULL,
	CHECK (`id` = 1)
) STRICT;
--> statement-breakpoint
INSERT INTO `usage_kept` VALUES (1, 0, 0);
--> statement-breakpoint
DROP TRIGGER `usage_no_delete`;
--> statement-breakpoint
CREATE TRIGGER `usage_no_delete` BEFORE DELETE ON `usage` WHEN old.`at_ms` >= (SELECT `rows_from_ms` FROM `usage_kept`)
BEGIN SELECT raise(ABORT, 'usage rows are never removed before their time'); END;
