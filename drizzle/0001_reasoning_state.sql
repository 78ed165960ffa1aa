CREATE TABLE `reasoning_state` (
	`id` integer PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`expires_at` integer NOT NULL,
	`bytes` integer NOT NULL,
	`sealed` blob NOT NULL,
	CHECK (`bytes` = length(`sealed`))
) STRICT;
--> statement-breakpoint
CREATE INDEX `reasoning_state_expiry` ON `reasoning_state` (`expires_at`);--> statement-breakpoint
CREATE INDEX `reasoning_state_account` ON `reasoning_state` (`account_id`, `id`, `bytes`);--> statement-breakpoint
CREATE TABLE `reasoning_key` (
	`key` text PRIMARY KEY NOT NULL,
	`state_id` integer NOT NULL,
	FOREIGN KEY (`state_id`) REFERENCES `reasoning_state`(`id`) ON UPDATE no action ON DELETE cascade
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `reasoning_key_state` ON `reasoning_key` (`state_id`);
