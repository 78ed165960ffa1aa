import type { Caller } from "../accounts/caller.ts";
import { planOf } from "../accounts/plans.ts";
import type { WebToolName } from "../canon/web-tools.ts";
import type { Entry } from "../catalog/entry.ts";
import type { ClientDialect } from "../dialects/dialect.ts";
import type { Told } from "../dialects/own-forms.ts";
import type { BroughtTool, OfferedTool, ServerToolHalf } from "../dialects/server-tools.ts";
import { isObject, listOf } from "../lib/json.ts";
import { type Edits, JsonText, type ObjectText } from "../lib/json-text.ts";
import type { Served, Services } from "./job.ts";
import { dearerParts, isBound, isPriced } from "./stray-fields.ts";

/** A body, and what is to be done of the tools in it that vendors run. `lost`: those that are left out of it, by their places. */
export type Tooled = { body: ObjectText; served?: Served | undefined; lost?: readonly string[] | undefined };

type Asking = { client: ClientDialect; caller: Caller };
type Wire = Record<string, unknown>;

const NO_TOOLS: readonly BroughtTool[] = [];

/** Web calls are paid for or counted, so that nobody else may run them. */
const metersSearch = (caller: Caller, services: Pick<Services, "plans">): boolean =>
  isPriced(caller, services) || planOf(services.plans, caller.plan).webCallsPerDay !== undefined;

/** Its key may use web tools. */
const mayUseWeb = ({ narrow }: Caller): boolean => narrow?.endpoints === undefined || narrow.endpoints.includes("web");

/** Whether web tools are kept from vendors that would run them: such searches would be past the caller's allowance, or past what its key may do. */
const isWithheld = (caller: Caller, services: Pick<Services, "plans">): boolean =>
  metersSearch(caller, services) || !mayUseWeb(caller);

/** The gateway can serve web tools to this caller of this model: one that is known to take no tools cannot be served any. */
function canServe(caller: Caller, { capabilities, uncharted }: Entry, { runWebTool }: Services): boolean {
  return runWebTool !== undefined && (capabilities.tools || uncharted === true) && mayUseWeb(caller);
}

/** Places of the tools of which something is so. */
const placesOf = ({ tools }: Wire, isSo: (tool: Wire) => boolean): string[] =>
  listOf(tools).flatMap((tool, at) => (isObject(tool) && isSo(tool) ? [`tools[${at}]`] : []));

/** Places of tools that a vendor runs for money of its own. */
const pricedPlaces = (body: Wire, { isPriced }: ServerToolHalf): string[] => placesOf(body, (tool) => isPriced(tool));

const namesModel = (value: unknown): boolean => isObject(value) && typeof value["model"] === "string";

/** Tools of OpenRouter's that ask other models, also where none is named (openrouter.ai, "Server Tools"). */
const ASKING_TYPES: ReadonlySet<unknown> = new Set(
  ["advisor", "fusion", "image_generation", "subagent"].map((name) => `openrouter:${name}`),
);

/** Whether a vendor has another model answer beside the one that is asked by this tool: Anthropic's adviser, and OpenRouter's. */
const asksAnother = (tool: Wire): boolean =>
  typeof tool["type"] === "string" &&
  tool["type"] !== "function" &&
  (ASKING_TYPES.has(tool["type"]) || namesModel(tool) || namesModel(tool["parameters"]));

/** Places of such tools. */
const advisedPlaces = (body: Wire): string[] => placesOf(body, asksAnother);

/** Whether a choice names one of these tools: alone, or among those that are allowed. */
function chooses(choice: unknown, left: readonly unknown[]): boolean {
  const tools = left.filter(isObject);
  const types = new Set(tools.map(({ type }) => type));
  const names = new Set(tools.map(({ name }) => name));
  const isLeft = (one: unknown): boolean => {
    if (!isObject(one)) return false;
    if (Array.isArray(one["tools"])) return one["tools"].some(isLeft);
    return types.has(one["type"]) || (one["type"] === "tool" && names.has(one["name"]));
  };
  return isLeft(choice);
}

/** Leaves what stands at `field.part` out of a field's value; the field as well, where nothing else is in it. */
function leavePart(value: Wire, place: string, edits: Edits): void {
  const [field = "", part = ""] = place.split(".");
  const whole = edits[field] ?? value[field];
  if (part === "" || !isObject(whole)) return;
  const { [part]: _left, ...rest } = whole;
  edits[field] = Object.keys(rest).length > 0 ? rest : undefined;
}

/** The body without what stands at these places: entries of `tools`, fields of it, or parts of fields. */
function without(body: ObjectText, places: readonly string[]): ObjectText {
  const value = body.value;
  const edits: Edits = {};
  for (const place of places) {
    if (Object.hasOwn(value, place)) edits[place] = undefined;
    else leavePart(value, place, edits);
  }
  const tools = listOf(value["tools"]);
  const left = new Set(places);
  const isLeft = (_tool: unknown, at: number) => left.has(`tools[${at}]`);
  const kept = tools.filter((tool, at) => !isLeft(tool, at));
  const isEmpty = kept.length === 0 && listOf(value["functions"]).length === 0;
  if (kept.length < tools.length) edits["tools"] = kept.length === 0 ? undefined : kept;
  // What is chosen may be a search that a field asked for.
  if (isEmpty || chooses(value["tool_choice"], tools.filter(isLeft))) edits["tool_choice"] = undefined;
  if (isEmpty) edits["parallel_tool_calls"] = undefined;
  return new JsonText(body.edit(edits));
}

/** A body whose conversation brings no tools that its caller may not have. `lost`: those that were left out of it. */
type Cleared = { body: ObjectText; lost: readonly string[] };

/**
 * What becomes of tools that the conversation itself brings: the same as of those in `tools`. A web tool that the gateway is to run moves there, since a
 * function will stand for it.
 */
function clearBrought({ client, caller }: Asking, body: ObjectText, entry: Entry, services: Services): Cleared {
  const { brought, find, isPriced: costs } = client.serverTools;
  const value = body.value;
  const found = brought?.find(value) ?? NO_TOOLS;
  if (!brought || found.length === 0) return { body, lost: [] };
  const pays = isPriced(caller, services);
  const bound = isBound(caller, services);
  const withholds = isWithheld(caller, services);
  const isServed = canServe(caller, entry, services);
  const out = new Map<string, Wire>();
  const moved: Wire[] = [];
  const tools = listOf(value["tools"]);
  const offers = (list: readonly unknown[]) => find({ tools: list }).map(({ tool }) => tool);
  let offered: Set<WebToolName> | undefined;
  const lost: string[] = [];
  for (const { place, tool } of found) {
    const isOut = (pays && costs(tool)) || (bound && asksAnother(tool));
    const [web] = isOut || !withholds ? [] : offers([tool]);
    if (!isOut && !web) continue;
    out.set(place, tool);
    if (!web || !isServed) {
      lost.push(place);
      continue;
    }
    offered ??= new Set(offers(tools));
    if (!offered.has(web)) moved.push(tool);
    offered.add(web);
  }
  if (out.size === 0) return { body, lost };
  const edits = brought.leave(value, new Set(out.keys()));
  if (moved.length > 0) edits["tools"] = [...tools, ...moved];
  const gone = lost.map((place) => out.get(place));
  if (chooses(value["tool_choice"], gone)) edits["tool_choice"] = undefined;
  return { body: new JsonText(body.edit(edits)), lost };
}

/**
 * What becomes of the tools in a checked body that its model's vendor would run, and of what chooses a dearer host of the model. The gateway serves web
 * tools where the vendor runs none; and wherever it can, for callers whose searches are paid for or counted: those are metered by the call, and a
 * vendor's searches come with a bill of its own (interface 1 and 8). Left out are tools that nobody could charge, for who pays; those that have another model answer, for who may not call
 * every one; and web tools, for a key that may use none. Throws GatewayError (invalid_request, with param) for bounds that contradict each other.
 */
export function settleTools(
  asking: Asking,
  { body: checked, lost: untold }: Told,
  entry: Entry,
  services: Services,
): Tooled {
  const { client, caller } = asking;
  const { body, lost: brought } = clearBrought(asking, checked as ObjectText, entry, services);
  const value = body.value;
  const half = client.serverTools;
  const offered = half.find(value);
  const priced = isPriced(caller, services) ? [...pricedPlaces(value, half), ...dearerParts(value)] : [];
  const advised = isBound(caller, services) ? advisedPlaces(value) : [];
  const lost = [...new Set([...priced, ...advised])];
  const isServed = canServe(caller, entry, services);
  if (!isServed && offered.length > 0 && isWithheld(caller, services)) {
    lost.push(...offered.map(({ place }) => place));
  }
  const told = lost.length > 0 ? without(body, lost) : body;
  const tools = told === body ? offered : half.find(told.value);
  const left = [...untold, ...brought, ...lost];
  const named = left.length > 0 ? left : undefined;
  if (!isServed || tools.length === 0) return { body: told, lost: named };
  return { body: told, lost: named, served: { tools, always: isSearching(tools) && metersSearch(caller, services) } };
}

/** Reading pages costs nothing beside the tokens. */
const isSearching = (tools: readonly OfferedTool[]): boolean => tools.some(({ tool }) => tool === "web_search");
