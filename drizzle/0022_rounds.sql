-- What each call of a vendor came to, of a reply that took several at rates that differ with the length of a prompt. They go with the request's usage row.
CREATE TABLE `usage_round` (
	`request_id` text NOT NULL,
	`number` integer NOT NULL,
	`input` integer NOT NULL,
	`cache_read` integer NOT NULL,
	`cache_write` integer NOT NULL,
	`output` integer NOT NULL,
	`reasoning` integer NOT NULL,
	PRIMARY KEY(`request_id`, `number`),
	CHECK (`number` > 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TRIGGER `usage_round_goes_with_usage` AFTER DELETE ON `usage` BEGIN
	DELETE FROM `usage_round` WHERE `request_id` = OLD.`request_id`;
END;
