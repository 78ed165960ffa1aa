import { isSame } from "../dialects/translate.ts";
import { editObject, JsonText } from "../lib/json-text.ts";
import type { Job, Served } from "./job.ts";
import type { Target } from "./target.ts";

/** Whether the vendor of this route runs a request's web tools itself: then it is told of them as the client wrote them. */
export function runsThemselves(
  { client, upstream, vendor }: Pick<Target, "client" | "upstream" | "vendor">,
  { always }: Served,
): boolean {
  return !always && isSame(client, upstream) && vendor.quirks.webTools === true;
}

/**
 * The request for a vendor of the client's own dialect, in a conversation in which the gateway ran web tools before, on another route or for another
 * model. What the gateway put where the vendor puts its cipher becomes plain text: the vendor refuses it, whether the tools are offered this time or
 * not. The very same job where there is none, and where the gateway runs the tools of this request: then they are the client's own.
 */
export function mendHistory<T extends Pick<Job, "body"> & Partial<Pick<Job, "served">>>(job: T, target: Target): T {
  const { mending } = target.client.serverTools;
  if (!mending || !isSame(target.client, target.upstream)) return job;
  if (job.served ? !runsThemselves(target, job.served) : !job.body.includes(mending.seal)) return job;
  const edits = mending.edit(job.body.value);
  return edits ? { ...job, body: new JsonText(editObject(job.body.text, edits)) } : job;
}
