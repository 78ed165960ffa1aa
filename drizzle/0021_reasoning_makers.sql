-- Who made a proof of reasoning: a digest that names neither the proof nor an account, and a model's family.
CREATE TABLE `reasoning_maker` (
	`digest` integer PRIMARY KEY NOT NULL,
	`maker` text NOT NULL,
	`expires_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
-- All of a row: what is known is read from it alone.
CREATE INDEX `reasoning_maker_expiry` ON `reasoning_maker` (`expires_at`, `maker`);
