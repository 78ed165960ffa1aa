-- Answers kept for clients that send an Idempotency-Key (contract 5). Rowid table: the answers are large, and the indices stay small.
CREATE TABLE `idempotency` (
	`account_id` text NOT NULL,
	`route` text NOT NULL,
	`key` text NOT NULL,
	`fingerprint` blob NOT NULL,
	`state` text NOT NULL,
	`boot` text NOT NULL,
	`request_id` text NOT NULL,
	`status` integer,
	`headers` text,
	`body` blob,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`account_id`, `route`, `key`),
	CHECK (length(`key`) BETWEEN 1 AND 255),
	CHECK (length(`fingerprint`) = 32),
	CHECK (`state` IN ('running', 'done')),
	CHECK ((`state` = 'done') = (`status` IS NOT NULL)),
	CHECK (`body` IS NULL OR length(`body`) <= 262144)
) STRICT;
--> statement-breakpoint
CREATE INDEX `idempotency_age` ON `idempotency` (`created_at`);--> statement-breakpoint
CREATE INDEX `idempotency_account_age` ON `idempotency` (`account_id`,`created_at`);
