import type { OfferedTool, ServedFunction, ServerToolHalf } from "../../dialects/server-tools.ts";
import { DistinctNames } from "../../dialects/tools/distinct-names.ts";
import { isObject, listOf } from "../../lib/json.ts";
import { editObject, JsonText } from "../../lib/json-text.ts";
import type { Way } from "../../vendors/health.ts";
import { MAX_QUERY } from "../../wire/bounds.ts";
import type { Job } from "../job.ts";
import { runsThemselves } from "../mend-history.ts";
import type { Target } from "../target.ts";
import { lostInRounds, ServedLoop } from "./loop.ts";

type Wire = Record<string, unknown>;

const SEARCH_TEXT =
  "Searches the web. Returns results with title, URL, date and a snippet. Use it for what may have changed since you were trained, and for what you are not sure of. Name the pages that your answer rests on as Markdown links: [title](URL).";
const FETCH_TEXT = "Reads the page or PDF at a URL and returns its text as Markdown.";

const object = (field: string, description: string) => ({
  type: "object",
  properties: { [field]: { type: "string", description } },
  required: [field],
  additionalProperties: false,
});

/** Names of the client's own tools, in any dialect's way of writing them, and of those that its conversation brings. Offered tools are none of these. */
function ownNames(body: Wire, offered: readonly OfferedTool[], { brought }: ServerToolHalf): Set<string> {
  const places = new Set(offered.map(({ place }) => place));
  const own = listOf(body["tools"]).filter((_tool, at) => !places.has(`tools[${at}]`));
  const names = new Set<string>();
  for (const entry of [...own, ...(brought?.find(body).map(({ tool }) => tool) ?? [])]) {
    if (!isObject(entry)) continue;
    for (const holder of [entry, entry["function"], entry["custom"]]) {
      if (isObject(holder) && typeof holder["name"] === "string") names.add(holder["name"]);
    }
  }
  return names;
}

/** The offered tools as functions that the model can call. */
function toFunctions(body: Wire, offered: readonly OfferedTool[], half: ServerToolHalf): ServedFunction[] {
  const names = new DistinctNames();
  for (const own of ownNames(body, offered, half)) names.take(own, () => own);
  return offered.map((tool) => {
    const name = names.take(tool.tool, (count) => (count === 1 ? tool.tool : `${tool.tool}_${count}`));
    if (tool.tool === "web_fetch") {
      return { offered: tool, name, description: FETCH_TEXT, schema: object("url", "An http or https URL.") };
    }
    const near = tool.near === undefined ? "" : ` The user is here: ${tool.near}.`;
    return {
      offered: tool,
      name,
      description: SEARCH_TEXT + near,
      schema: object("query", `What to search for, at most ${MAX_QUERY} characters.`),
    };
  });
}

/** What of these tools is lost where the gateway runs them, behind what was lost before; undefined: nothing. */
function lostOfServed(
  before: readonly string[] | undefined,
  functions: readonly ServedFunction[],
): readonly string[] | undefined {
  const lost = functions.flatMap(({ offered }) => offered.lost);
  return lost.length > 0 ? [...(before ?? []), ...lost] : before;
}

/** The loop that serves a request's web tools on this way's route; undefined where there are none, or the vendor runs them itself. */
export function serveTools(job: Job, target: Target, way: Way): ServedLoop | undefined {
  if (!job.served || runsThemselves(target, job.served)) return undefined;
  const functions = toFunctions(job.body.value, job.served.tools, target.client.serverTools);
  return new ServedLoop({ ...job, lost: lostOfServed(job.lost, functions) }, target, way, functions);
}

/** A request that is only shown or counted, with its web tools as this route's vendor would be told of them. */
export function showTools<T extends Pick<Job, "body" | "served" | "lost">>(
  asked: T,
  target: Pick<Target, "client" | "upstream" | "vendor">,
): T {
  const { served, body } = asked;
  if (!served || runsThemselves(target, served)) return asked;
  const value = body.value;
  const { serverTools } = target.client;
  const functions = toFunctions(value, served.tools, serverTools);
  const edits = serverTools.open(value, functions);
  const lost = lostInRounds({ body, lost: lostOfServed(asked.lost, functions) }, target);
  return { ...asked, body: new JsonText(editObject(body.text, edits)), lost };
}
