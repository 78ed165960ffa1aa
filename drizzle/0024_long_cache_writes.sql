-- Of what a request wrote to its vendor's cache, the part that is kept for an hour, which has a price of its own.
ALTER TABLE `usage` ADD COLUMN `cache_write_long` integer NOT NULL DEFAULT 0;
--> statement-breakpoint
ALTER TABLE `usage_round` ADD COLUMN `cache_write_long` integer NOT NULL DEFAULT 0;
--> statement-breakpoint
ALTER TABLE `price` ADD COLUMN `cache_write_long` integer;
