-- What the plan gave free when units were claimed: what was held then and came to nothing is free for who pays. Claims from before know none.
ALTER TABLE `unit_claim` ADD `allowance` integer NOT NULL DEFAULT 0 CHECK (`allowance` >= 0);
