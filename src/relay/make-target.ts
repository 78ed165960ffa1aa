import type { Route } from "../catalog/entry.ts";
import type { ReplyContext } from "../dialects/dialect.ts";
import { upstreamDialects, upstreamFor } from "../dialects/index.ts";
import { randomName } from "../lib/id.ts";
import type { Vendor } from "../vendors/vendor.ts";
import type { Job } from "./job.ts";
import { NEWER, wantsNewer } from "./lessons/newer-dialect.ts";
import type { Candidate } from "./routes/routes.ts";
import type { Target } from "./target.ts";

/** What a target is made of. */
export type Targeted = Pick<Job, "request" | "services" | "intent" | "newer"> & {
  exchange: { readonly estimatedInput: number };
};

/** What a reply's writer knows of its request. */
class AttemptContext implements ReplyContext {
  readonly model: string;
  readonly replyId = randomName(24);
  readonly created: number;
  readonly wantsUsage: boolean;
  changes?: ReplyContext["changes"];
  upstreamModel?: string;
  hidesReasoning?: boolean;

  constructor(private readonly job: Targeted) {
    const { intent, services } = job;
    this.model = intent.model;
    this.wantsUsage = intent.wantsUsage;
    if (intent.hidesReasoning) this.hidesReasoning = true;
    this.created = Math.floor(services.clock.now() / 1000);
  }

  get estimatedInputTokens(): number {
    return this.job.exchange.estimatedInput;
  }
}

/** One of the model's routes with its vendor, which is switched on, as a target: in the dialect in which that vendor is asked. */
export function makeTarget(job: Targeted, route: Route, vendor: Vendor): Target {
  const { client } = job.request;
  return {
    route,
    vendor,
    upstream: wantsNewer(job, vendor, route)
      ? upstreamDialects[NEWER]
      : upstreamFor(client, vendor.dialect, route.dialect),
    client,
    context: new AttemptContext(job),
  };
}

/** Where a later call of the same reply goes that is made anew: what its writer knows stays, but for what the call before was told, and whose model that was. */
export function turnTo({ context }: Target, { route, vendor }: Pick<Candidate, "route" | "vendor">, job: Job): Target {
  delete context.changes;
  delete context.cachesForHour;
  delete context.upstreamModel;
  return { ...makeTarget(job, route, vendor), context };
}
