-- Keys and tokens are listed apart, oldest first, all of them or an account's, a page at a time: each page is read by an index.
CREATE INDEX `api_key_list` ON `api_key` ((`kind` = 'token'), `created_at`, `id`);
--> statement-breakpoint
DROP INDEX `api_key_account`;
--> statement-breakpoint
CREATE INDEX `api_key_account` ON `api_key` (`account_id`, (`kind` = 'token'), `created_at`, `id`);
