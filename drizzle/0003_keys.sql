-- Keys that expire, that may do less than their account, and that have caps of their own; narrow tokens beside them. The table is made
-- anew because a check cannot be changed in place.
CREATE TABLE `api_key_next` (
	`hash` blob PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`kind` text NOT NULL,
	`name` text NOT NULL,
	`prefix` text NOT NULL,
	`last4` text NOT NULL,
	`created_at` integer NOT NULL,
	`last_used_at` integer,
	`revoked_at` integer,
	`expires_at` integer,
	`models` text,
	`endpoints` text,
	`cap_day_nano` integer,
	`cap_total_nano` integer,
	`cap_requests_day` integer,
	FOREIGN KEY (`account_id`) REFERENCES `account`(`id`) ON UPDATE no action ON DELETE no action,
	CHECK (length(`hash`) = 32),
	CHECK (`kind` IN ('api', 'admin', 'token')),
	CHECK (`kind` <> 'token' OR (`expires_at` IS NOT NULL AND `endpoints` IS NOT NULL)),
	CHECK (`expires_at` IS NULL OR `expires_at` > `created_at`),
	CHECK (`models` IS NULL OR json_type(`models`) = 'array'),
	CHECK (`endpoints` IS NULL OR json_type(`endpoints`) = 'array'),
	CHECK (`cap_day_nano` IS NULL OR `cap_day_nano` > 0),
	CHECK (`cap_total_nano` IS NULL OR `cap_total_nano` > 0),
	CHECK (`cap_requests_day` IS NULL OR `cap_requests_day` > 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `api_key_next` (`hash`, `id`, `account_id`, `kind`, `name`, `prefix`, `last4`, `created_at`, `last_used_at`, `revoked_at`)
	SELECT `hash`, `id`, `account_id`, `kind`, `name`, `prefix`, `last4`, `created_at`, `last_used_at`, `revoked_at` FROM `api_key`;
--> statement-breakpoint
DROP TABLE `api_key`;
--> statement-breakpoint
ALTER TABLE `api_key_next` RENAME TO `api_key`;
--> statement-breakpoint
CREATE UNIQUE INDEX `api_key_id` ON `api_key` (`id`);
--> statement-breakpoint
CREATE INDEX `api_key_account` ON `api_key` (`account_id`);
--> statement-breakpoint
-- What keys with a cap have come to, a row for each key and UTC day (days since 1970).
CREATE TABLE `key_spend` (
	`key_id` text NOT NULL,
	`day` integer NOT NULL,
	`requests` integer NOT NULL,
	`nano` integer NOT NULL,
	PRIMARY KEY (`key_id`, `day`),
	CHECK (`requests` >= 0),
	CHECK (`nano` >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
-- One row: whether the last server on this store ended as it should. Speed limits start half used after one that did not.
CREATE TABLE `server_stop` (
	`id` integer PRIMARY KEY NOT NULL,
	`clean` integer NOT NULL,
	CHECK (`id` = 1),
	CHECK (`clean` IN (0, 1))
) STRICT;
