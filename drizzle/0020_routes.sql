-- The calls to vendors of requests that took more than one (contract 3: a receipt's attempts). They go with the request's usage row.
CREATE TABLE `attempt` (
	`request_id` text NOT NULL,
	`number` integer NOT NULL,
	`vendor` text NOT NULL,
	`model` text NOT NULL,
	`key` integer NOT NULL,
	`outcome` text NOT NULL,
	`duration_ms` integer NOT NULL,
	PRIMARY KEY(`request_id`, `number`),
	CHECK (`number` > 0),
	CHECK (`key` >= 0),
	CHECK (`duration_ms` >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TRIGGER `attempt_goes_with_usage` AFTER DELETE ON `usage` BEGIN
	DELETE FROM `attempt` WHERE `request_id` = OLD.`request_id`;
END;
