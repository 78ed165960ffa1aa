import { type SearchHit, WEB_FRAME, type WebPage, type WebToolFault, type WebToolName } from "../canon/web-tools.ts";
import { entryOf, isObject, listOf, stringOf } from "../lib/json.ts";
import type { Edits } from "../lib/json-text.ts";

/** A web tool that a client asks its model's vendor to run, and the bounds it puts on it. */
export type OfferedTool = {
  tool: WebToolName;
  /** Where the client wrote it, such as `tools[1]`. */
  place: string;
  /** Calls in one reply; undefined: the gateway's own bound. */
  maxUses: number | undefined;
  /** Hosts, perhaps with a path behind them: only these, or none of these. Never both. */
  allowed: readonly string[];
  blocked: readonly string[];
  /** ISO 3166, two letters. */
  country: string | undefined;
  /** Where the user is, in words: for the model, which writes the query. */
  near: string | undefined;
  maxResults: number | undefined;
  maxContentTokens: number | undefined;
  /** Paths of what the client says of it that is lost where the gateway runs it. */
  lost: readonly string[];
};

/** A tool that a conversation brings itself. `place`: where the client wrote it, such as `messages[1].content[0]`. */
export type BroughtTool = { place: string; tool: Record<string, unknown> };

/**
 * Edits of a body without what stands at `places`, such as `messages[1].content[0]`, in the lists `inner` of what `outer` lists. An entry of which nothing
 * is left goes as well, unless it `stays`.
 */
export function leavePlaces(
  body: Record<string, unknown>,
  [outer, inner]: readonly [outer: string, inner: string],
  places: ReadonlySet<string>,
  stays: (entry: Record<string, unknown>) => boolean = () => false,
): Edits {
  const kept = listOf(body[outer]).flatMap((entry, at) => {
    const list = isObject(entry) ? entry[inner] : undefined;
    if (!isObject(entry) || !Array.isArray(list)) return [entry];
    const left = list.filter((_one, index) => !places.has(`${outer}[${at}].${inner}[${index}]`));
    if (left.length === list.length) return [entry];
    return left.length > 0 || stays(entry) ? [{ ...entry, [inner]: left }] : [];
  });
  return { [outer]: kept };
}

/** A function that stands for an offered tool while the vendor is asked. */
export type ServedFunction = {
  offered: OfferedTool;
  name: string;
  description: string;
  schema: Record<string, unknown>;
};

/** A call of an offered tool by the model. `shownId`: its name in what the client sees. */
export type ServedCall = { id: string; shownId: string; offered: OfferedTool; arguments: string };

/** Why a call gave nothing, in words of no dialect: the tool's own reason, or it was not run at all. */
export type ServedFault = WebToolFault | "too_long" | "used_up";

/** What came of a call. `text` is what the model reads, `subject` the query or the URL. */
export type ServedOutcome = { call: ServedCall; subject: string; text: string } & (
  | { kind: "results"; results: readonly SearchHit[] }
  | { kind: "page"; page: WebPage; retrievedAt: string }
  | { kind: "fault"; fault: ServedFault }
);

/** Whether OpenRouter runs a tool of this type, which it does in each of its dialects (openrouter.ai, "Server Tools"). */
export const isRouters = (type: unknown): boolean => typeof type === "string" && type.startsWith("openrouter:");

/**
 * How clients of one dialect ask for tools that a vendor's servers run, and what they are shown when the gateway runs them instead. Between
 * the rounds the gateway is the client of its own dialect: it offers the tools as functions, and gives their results back as any client
 * would.
 */
export interface ServerToolHalf {
  /** Whether a vendor runs this entry of `tools`, which is none of those of {@link find}, for money beside the tokens. */
  isPriced(tool: Record<string, unknown>): boolean;
  /** Clients send results back in later turns: a reply may then end with calls of their own beside served ones. */
  readonly keepsResults: boolean;
  /** Whether a block that one dialect alone knows is a call that the client answers; absent where this dialect has none such. */
  isClients?(block: Record<string, unknown>): boolean;
  /** The annotations are all that a client sees of a search, so pages that the text does not name are annotated too. */
  readonly citesAll: boolean;
  /** Fields that ask for what a reply that is written anew does not have, even where its vendor speaks the dialect. */
  readonly lost: readonly string[];
  /** Fields of the request that replies repeat, as the client wrote them. */
  readonly repeats: readonly string[];

  /**
   * The tools that a checked body asks for; an empty list for nearly every one, found at once. Throws GatewayError (invalid_request,
   * with param) for bounds that contradict each other.
   */
  find(body: Record<string, unknown>): readonly OfferedTool[];
  /** Edits of a body by which `functions` stand in the place of the offered tools, and earlier results where any client would put them. */
  open(body: Record<string, unknown>, functions: readonly ServedFunction[]): Edits;
  /**
   * Edits by which such a body goes on with the model's reply and what came of its calls. The model may choose freely from now on, and with
   * `last` only to answer.
   */
  extend(
    body: Record<string, unknown>,
    reply: Record<string, unknown>,
    outcomes: readonly ServedOutcome[],
    last: boolean,
  ): Edits;
  /** Tools that stand in the midst of a conversation as others do in `tools`; absent where the dialect has none. */
  readonly brought?: {
    /** Those of a checked body; an empty list for nearly every one. */
    find(body: Record<string, unknown>): readonly BroughtTool[];
    /** Edits of the body that take those at `places` out of its conversation. */
    leave(body: Record<string, unknown>, places: ReadonlySet<string>): Edits;
  };
  /** What a vendor of this dialect cannot read of what the gateway showed in earlier turns; absent where it can read all of it. */
  readonly mending?: {
    /** What stands in every body that has something to be mended, as JSON spells it. */
    readonly seal: string;
    /** Edits by which the vendor can read it; undefined: there is nothing. */
    edit(body: Record<string, unknown>): Edits | undefined;
  };
  /** The name of a call in what clients see, from the model's own. */
  shownId(id: string): string;
  /** The block that shows a call to the client while the model makes it; {@link callInput} follows when it is made. Undefined: nothing is shown. */
  callBlock(call: ServedCall): Record<string, unknown> | undefined;
  /** The input of a call that is shown, as JSON text that clients can read whatever the model wrote. */
  callInput(call: ServedCall): string;
  /** The block that shows what came of it; undefined: nothing is shown. */
  resultBlock(outcome: ServedOutcome): Record<string, unknown> | undefined;
}

/** The fields of {@link ServerToolHalf.lost} that a body says: what it asks for by them, a reply that is written anew does not have. */
export const lostInWriting = (body: Record<string, unknown>, { lost }: ServerToolHalf): string[] =>
  lost.filter((field) => body[field] != null && body[field] !== false && body[field] !== 0);

/** A positive whole number, or undefined for anything else. */
export const countOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isInteger(value) && value > 0 ? value : undefined;

/** The texts of a list; an empty one for anything else. */
export const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((entry): entry is string => typeof entry === "string" && entry !== "") : [];

/** A place as clients of all dialects tell it: `city`, `region`, `country` and `timezone`. */
export function readPlace(value: unknown): Pick<OfferedTool, "country" | "near"> {
  const place = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  const country = stringOf(place["country"]);
  const named = [place["city"], place["region"], country].map(stringOf).filter((text) => text !== "");
  const zone = stringOf(place["timezone"]);
  const near = [...named, ...(zone === "" ? [] : [`time zone ${zone}`])].join(", ");
  return {
    country: /^[a-z]{2}$/i.test(country) ? country.toUpperCase() : undefined,
    near: near === "" ? undefined : near.slice(0, 200),
  };
}

/** Results of one search by how much of the context they may take (dialects.md 1.1: search_context_size). */
const RESULTS_OF_SIZE: Readonly<Record<string, number>> = { low: 5, medium: 10, high: 20 };

/** How many results a client wants that says a size of context; undefined where it says none that is known. */
export function resultsOfSize(size: unknown): number | undefined {
  return typeof size === "string" ? entryOf(RESULTS_OF_SIZE, size) : undefined;
}

/** A page as the model reads it. */
export function describePage({ url, title, text }: WebPage): string {
  const head = [url, title, WEB_FRAME].filter((line) => line !== "");
  return `${head.join("\n")}\n\n${text}`;
}

/** That the web was searched, as a model is told that does not search itself. */
export const describeSearch = (query: string): string => `Searched the web for: ${query}`;

/** Search results as the model reads them. */
export function describeResults(results: readonly SearchHit[], notes: readonly string[] = []): string {
  const entries = results.map(({ title, url, date, snippet }, index) => {
    const head = `${index + 1}. ${title}\n   URL: ${url}${date ? `\n   Date: ${date}` : ""}`;
    return snippet === "" ? head : `${head}\n   ${snippet}`;
  });
  if (entries.length === 0) entries.push("No results.");
  return [WEB_FRAME, ...entries, ...notes].join("\n\n");
}
