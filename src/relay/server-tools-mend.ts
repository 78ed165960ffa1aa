import { isSame } from "../dialects/translate.ts";
import { editObject, JsonText } from "../lib/json.ts";
import type { Job } from "./job.ts";
import type { Target } from "./read-reply.ts";

/** Whether the vendor of this route runs web tools itself: then it is told of them as the client wrote them. */
export function runsThemselves({ client, upstream, vendor }: Pick<Target, "client" | "upstream" | "vendor">): boolean {
  return isSame(client, upstream) && (vendor.quirks.webTools ?? client.serverTools.ownVendorRuns);
}

/**
 * The request for a vendor that runs web tools itself, in a conversation in which the gateway ran them before, on another route or for another
 * model: what the gateway put where the vendor puts its cipher becomes plain text, as the vendor refuses it. The very same job where there is none.
 */
export function mendHistory(job: Job, target: Target): Job {
  if (!runsThemselves(target)) return job;
  const edits = target.client.serverTools.mend?.(job.body.value as Record<string, unknown>);
  return edits ? { ...job, body: new JsonText(editObject(job.body.text, edits)) } : job;
}
