-- Image jobs (contract 8, reliability 5). Times are Unix ms. Each state has its own small index: a hundred thousand finished jobs are in none of them.
CREATE TABLE `image_job` (
	`id` text NOT NULL,
	`account_id` text NOT NULL,
	`key_id` text NOT NULL,
	`sort_ms` integer NOT NULL,
	`created_ms` integer NOT NULL,
	`state` text NOT NULL,
	`model` text NOT NULL,
	`prompt` text NOT NULL,
	`ratio` text NOT NULL,
	`width` integer,
	`height` integer,
	`style` text,
	`source_job` text,
	`source_file` text,
	`token` text NOT NULL,
	`attempt` integer NOT NULL DEFAULT 0,
	`tries` integer NOT NULL DEFAULT 0,
	`crashes` integer NOT NULL DEFAULT 0,
	`boot` text,
	`lease_ms` integer,
	`vendor` text NOT NULL,
	`upstream_model` text NOT NULL,
	`vendor_job` text,
	`run_after_ms` integer NOT NULL,
	`deadline_ms` integer NOT NULL,
	`started_ms` integer,
	`ended_ms` integer,
	`error_code` text,
	`error_message` text,
	`file` text,
	`sha256` blob,
	`bytes` integer,
	CHECK (`state` IN ('queued', 'dispatched', 'fetching', 'succeeded', 'failed', 'blocked', 'cancelled')),
	CHECK (`state` NOT IN ('dispatched', 'fetching') OR (`boot` IS NOT NULL AND `lease_ms` IS NOT NULL)),
	CHECK (`state` NOT IN ('fetching', 'succeeded') OR (`file` IS NOT NULL AND length(`sha256`) = 32 AND `bytes` > 0)),
	CHECK ((`ended_ms` IS NOT NULL) = (`state` IN ('succeeded', 'failed', 'blocked', 'cancelled'))),
	CHECK ((`error_code` IS NOT NULL AND `error_message` IS NOT NULL) = (`state` IN ('failed', 'blocked', 'cancelled'))),
	CHECK ((`source_job` IS NULL) = (`source_file` IS NULL)),
	CHECK (`attempt` >= 0 AND `tries` >= 0 AND `crashes` >= 0),
	CHECK ((`width` IS NULL) = (`height` IS NULL))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `image_job_id` ON `image_job` (`id`);
--> statement-breakpoint
-- Two jobs of an account never share a millisecond, so that a page begins where the last one ended (contract 8).
CREATE UNIQUE INDEX `image_job_page` ON `image_job` (`account_id`, `sort_ms`);
--> statement-breakpoint
CREATE UNIQUE INDEX `image_job_file` ON `image_job` (`file`) WHERE `file` IS NOT NULL;
--> statement-breakpoint
CREATE INDEX `image_job_queued` ON `image_job` (`sort_ms`, `id`, `account_id`, `vendor`, `run_after_ms`, `deadline_ms`) WHERE `state` = 'queued';
--> statement-breakpoint
CREATE INDEX `image_job_running` ON `image_job` (`boot`) WHERE `state` IN ('dispatched', 'fetching');
--> statement-breakpoint
CREATE INDEX `image_job_flight` ON `image_job` (`account_id`) WHERE `state` IN ('queued', 'dispatched', 'fetching');
--> statement-breakpoint
CREATE INDEX `image_job_blocked` ON `image_job` (`account_id`, `ended_ms`) WHERE `state` = 'blocked';
--> statement-breakpoint
CREATE INDEX `image_job_ended` ON `image_job` (`ended_ms`) WHERE `ended_ms` IS NOT NULL;
--> statement-breakpoint
-- A job that ended is never anything else again.
CREATE TRIGGER `image_job_terminal` BEFORE UPDATE ON `image_job` WHEN old.`ended_ms` IS NOT NULL
BEGIN SELECT raise(ABORT, 'a job that ended is never changed'); END;
