import { formatUsd } from "../ledger/price.ts";
import type { Fields, Log } from "../observe/log.ts";
import { faultOf, type JobRow, outcomeOf } from "./job.ts";

/**
 * Writes into the log what became of an image job that has ended, under the job's id, as the ledger has it. `job`: its row as it is now;
 * `costNano`: what that says that it cost. What it was to show belongs to its caller.
 */
export function recordJob(job: JobRow, costNano: bigint, now: number, log: Log): void {
  const error = faultOf(job);
  const fields: Fields = {
    ...{ request_id: job.id, account: job.accountId, key: job.keyId, dialect: "images" },
    ...{ model: job.model, vendor: job.vendor, attempts: job.tries, outcome: outcomeOf(job.state) },
    duration_ms: Math.max(0, now - job.createdMs),
    cost_usd: formatUsd(costNano),
  };
  if (error !== undefined) {
    fields["error"] = error;
    fields["cause"] = job.errorMessage;
  }
  log[error === undefined ? "info" : "warn"]("image", fields);
}
