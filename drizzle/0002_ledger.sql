-- The ledger (contract 5): double entry, append-only, nano-USD. Prices are micro-USD per 1M tokens, which is pico-USD per token.
CREATE TABLE `ledger_account` (
	`id` text PRIMARY KEY NOT NULL,
	`kind` text NOT NULL,
	`owner` text,
	`posted` integer NOT NULL DEFAULT 0,
	`held` integer NOT NULL DEFAULT 0,
	`grant_nano` integer,
	`starts_at` integer,
	`ends_at` integer,
	CHECK (`kind` IN ('wallet', 'window', 'house')),
	CHECK ((`kind` = 'house') = (`owner` IS NULL)),
	CHECK ((`kind` = 'window') = (`grant_nano` IS NOT NULL AND `starts_at` IS NOT NULL AND `ends_at` IS NOT NULL)),
	CHECK (`held` >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `ledger_account_window` ON `ledger_account` (`owner`, `ends_at`) WHERE `kind` = 'window';
--> statement-breakpoint
INSERT INTO `ledger_account` (`id`, `kind`) VALUES
	('house:funding', 'house'),
	('house:promotion', 'house'),
	('house:correction', 'house'),
	('house:plan', 'house'),
	('house:revenue', 'house'),
	('house:loss', 'house'),
	('house:vendor', 'house');
--> statement-breakpoint
CREATE TABLE `ledger_entry` (
	`seq` integer PRIMARY KEY NOT NULL,
	`at_ms` integer NOT NULL,
	`kind` text NOT NULL,
	`debit` text NOT NULL,
	`credit` text NOT NULL,
	`amount` integer NOT NULL,
	`owner` text,
	`request_id` text,
	`reference` text,
	`detail` text,
	`hash` blob NOT NULL,
	FOREIGN KEY (`debit`) REFERENCES `ledger_account`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`credit`) REFERENCES `ledger_account`(`id`) ON UPDATE no action ON DELETE no action,
	CHECK (`debit` <> `credit`),
	CHECK (`amount` > 0 AND `amount` <= 1000000000000000),
	CHECK (length(`hash`) = 32)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `ledger_entry_once` ON `ledger_entry` (`request_id`, `kind`, `debit`) WHERE `request_id` IS NOT NULL;
--> statement-breakpoint
CREATE UNIQUE INDEX `ledger_entry_reference` ON `ledger_entry` (`reference`) WHERE `reference` IS NOT NULL;
--> statement-breakpoint
-- What requests were charged is told by their usage rows; an index of those entries by owner would cost every settle.
CREATE INDEX `ledger_entry_owner` ON `ledger_entry` (`owner`, `seq`) WHERE `kind` NOT IN ('usage', 'usage_partial');
--> statement-breakpoint
CREATE TRIGGER `ledger_entry_no_update` BEFORE UPDATE ON `ledger_entry` BEGIN SELECT raise(ABORT, 'ledger entries are never changed'); END;
--> statement-breakpoint
CREATE TRIGGER `ledger_entry_no_delete` BEFORE DELETE ON `ledger_entry` BEGIN SELECT raise(ABORT, 'ledger entries are never removed'); END;
--> statement-breakpoint
CREATE TRIGGER `ledger_entry_post` AFTER INSERT ON `ledger_entry` BEGIN
	UPDATE `ledger_account` SET `posted` = `posted` - new.`amount` WHERE `id` = new.`debit`;
	UPDATE `ledger_account` SET `posted` = `posted` + new.`amount` WHERE `id` = new.`credit`;
END;
--> statement-breakpoint
-- Requests that are under way and paid for, so that what a crash cut off can be settled or let go. A row goes with its settle.
CREATE TABLE `ledger_hold` (
	`request_id` text PRIMARY KEY NOT NULL,
	`boot` text NOT NULL,
	`account_id` text NOT NULL,
	`key_id` text NOT NULL,
	`dialect` text NOT NULL,
	`stream` integer NOT NULL,
	`model` text NOT NULL,
	`vendor` text NOT NULL,
	`upstream_model` text NOT NULL,
	`window_id` text,
	`window_nano` integer NOT NULL,
	`wallet_nano` integer NOT NULL,
	`price_id` integer NOT NULL,
	`estimated_input` integer NOT NULL,
	`seen_output` integer NOT NULL,
	`created_at` integer NOT NULL,
	`deadline_at` integer NOT NULL,
	CHECK (`window_nano` >= 0 AND `wallet_nano` >= 0),
	CHECK (`window_nano` = 0 OR `window_id` IS NOT NULL),
	CHECK (`estimated_input` >= 0 AND `seen_output` >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
-- Units (images, web calls) that were claimed: free ones on the plan's allowance, paid ones held on the wallet.
CREATE TABLE `unit_claim` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`key_id` text NOT NULL,
	`kind` text NOT NULL,
	`at_ms` integer NOT NULL,
	`units` integer NOT NULL,
	`free` integer NOT NULL,
	`paid` integer NOT NULL,
	`unit_nano` integer NOT NULL,
	`counted` integer NOT NULL,
	`charged` integer NOT NULL DEFAULT 0,
	`state` text NOT NULL,
	CHECK (`kind` IN ('image', 'web')),
	CHECK (`units` > 0 AND `free` >= 0 AND `paid` >= 0 AND `free` + `paid` = `units`),
	CHECK (`unit_nano` >= 0 AND `charged` >= 0),
	CHECK (`counted` BETWEEN 0 AND `units`),
	CHECK (`state` IN ('claimed', 'counted', 'returned')),
	CHECK (`state` <> 'returned' OR (`counted` = 0 AND `charged` = 0))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `unit_claim_allowance` ON `unit_claim` (`account_id`, `kind`, `at_ms`, `counted`);
--> statement-breakpoint
CREATE INDEX `unit_claim_open` ON `unit_claim` (`kind`, `at_ms`) WHERE `state` = 'claimed';
--> statement-breakpoint
-- Prices as they were when requests used them. A changed price is a new row.
CREATE TABLE `price` (
	`id` integer PRIMARY KEY NOT NULL,
	`model` text NOT NULL,
	`since_ms` integer NOT NULL,
	`input` integer NOT NULL,
	`output` integer NOT NULL,
	`cache_read` integer,
	`cache_write` integer,
	`tiers` text NOT NULL,
	CHECK (`input` >= 0 AND `output` >= 0),
	CHECK (`cache_read` IS NULL OR `cache_read` >= 0),
	CHECK (`cache_write` IS NULL OR `cache_write` >= 0),
	CHECK (json_type(`tiers`) = 'array')
) STRICT;
--> statement-breakpoint
CREATE INDEX `price_model` ON `price` (`model`, `id`);
--> statement-breakpoint
CREATE TRIGGER `price_no_update` BEFORE UPDATE ON `price` BEGIN SELECT raise(ABORT, 'prices are never changed'); END;
--> statement-breakpoint
CREATE TRIGGER `price_no_delete` BEFORE DELETE ON `price` BEGIN SELECT raise(ABORT, 'prices are never removed'); END;
--> statement-breakpoint
ALTER TABLE `usage` ADD COLUMN `price_id` integer;
--> statement-breakpoint
ALTER TABLE `usage` ADD COLUMN `cost_nano` integer;
--> statement-breakpoint
ALTER TABLE `usage` ADD COLUMN `charged_nano` integer NOT NULL DEFAULT 0;
--> statement-breakpoint
ALTER TABLE `usage` ADD COLUMN `units` integer NOT NULL DEFAULT 0;
--> statement-breakpoint
ALTER TABLE `usage` ADD COLUMN `flags` integer NOT NULL DEFAULT 0;
