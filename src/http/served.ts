import type { Keys } from "../accounts/keys.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { ImageJobs } from "../jobs/image-jobs.ts";
import type { AddressLimiter } from "../limits/addresses.ts";
import type { KeySpend } from "../limits/key-spend.ts";
import type { Log } from "../observe/log.ts";
import type { BodyLog } from "../relay/body-log.ts";
import type { IdempotencyStore } from "../relay/idempotency-store.ts";
import type { Services } from "../relay/job.ts";
import type { Tokenizer } from "../relay/tokenizer/tokenizer.ts";
import type { McpServer } from "../web/mcp/mcp.ts";
import type { WebTools } from "../web/tools/tools.ts";
import type { AdminDependencies } from "./admin/answer.ts";
import type { createAddressReader } from "./caller/address.ts";
import type { Observation } from "./observation.ts";

/** How the gateway may be reached, of the configuration. */
export type Reach = {
  allowedHosts: readonly string[];
  corsOrigins: readonly string[];
  trustedProxies: Parameters<typeof createAddressReader>[1];
  publicUrl?: string | undefined;
  cdnUrl?: string | undefined;
};

/** What the endpoints serve. */
export type Served = {
  reach: Reach;
  log: Log;
  catalog: Catalog;
  keys: Keys;
  services: Services;
  jobs: ImageJobs;
  web: WebTools;
  mcp: McpServer;
  keySpend: KeySpend;
  kept: IdempotencyStore;
  bodies: BodyLog | undefined;
  tokenizer: Tokenizer;
  addresses: AddressLimiter;
  observation: Observation;
  admin: AdminDependencies;
  ready(): boolean;
};
