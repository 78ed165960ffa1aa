import { invalidField } from "../../canon/errors.ts";
import type { WebToolName } from "../../canon/web-tools.ts";
import { isEmptyList, isObject, listOf, stringOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged, mapListIn } from "../../lib/map-changed.ts";
import { MAX_DOMAINS } from "../../wire/bounds.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import {
  countOf,
  describePage,
  describeResults,
  describeSearch,
  isRouters,
  type OfferedTool,
  readPlace,
  type ServedCall,
  type ServedFault,
  type ServedFunction,
  type ServedOutcome,
  type ServerToolHalf,
  textsOf,
} from "../server-tools.ts";
import { toInput } from "../tools/tool-input.ts";
import { broughtTools, leaveBrought } from "./tool-changes.ts";

type Wire = Record<string, unknown>;

/** Versions of the two tools come and go; all take the same bounds (dialects.md 2.3). */
const TYPES: readonly [RegExp, WebToolName][] = [
  [/^web_search_\d{8}$/, "web_search"],
  [/^web_fetch_\d{8}$/, "web_fetch"],
];

const RESULT_OF: Readonly<Record<string, WebToolName>> = {
  web_search_tool_result: "web_search",
  web_fetch_tool_result: "web_fetch",
};

/** Stands before a call's own id in what clients see. */
const ID_PREFIX = "srvtoolu_";
/** Stands before a text that the gateway put where the vendor puts its cipher. */
const SEAL = "sluice.";

/** A text where clients expect one that only its maker can read. */
export const sealText = (text: string): string => SEAL + Buffer.from(text.toWellFormed()).toString("base64url");

/** The text of {@link sealText}; undefined for the vendor's own cipher. */
function openText(sealed: unknown): string | undefined {
  const text = stringOf(sealed);
  return text.startsWith(SEAL) ? Buffer.from(text.slice(SEAL.length), "base64url").toString("utf8") : undefined;
}

const FAULT_OF: Readonly<Record<WebToolName, Readonly<Record<ServedFault, string>>>> = {
  web_search: {
    bad_arguments: "invalid_tool_input",
    not_allowed: "invalid_tool_input",
    not_accessible: "unavailable",
    unsupported: "unavailable",
    too_many: "too_many_requests",
    too_long: "query_too_long",
    used_up: "max_uses_exceeded",
    unavailable: "unavailable",
  },
  web_fetch: {
    bad_arguments: "invalid_tool_input",
    not_allowed: "url_not_allowed",
    not_accessible: "url_not_accessible",
    unsupported: "unsupported_content_type",
    too_many: "too_many_requests",
    too_long: "url_too_long",
    used_up: "max_uses_exceeded",
    unavailable: "unavailable",
  },
};

function toolOf(entry: unknown): WebToolName | undefined {
  const type = isObject(entry) ? stringOf(entry["type"]) : "";
  return type.startsWith("web_") ? TYPES.find(([pattern]) => pattern.test(type))?.[1] : undefined;
}

/** Fields of the two tools that are heeded, ask for what is done anyway, or are told apart. */
const OFFER_FIELDS: ReadonlySet<string> = new Set([
  ...["type", "name", "max_uses", "allowed_domains", "blocked_domains", "user_location", "max_content_tokens"],
  ...["cache_control", "strict", "allowed_callers", "citations", "use_cache", "response_inclusion"],
]);

/** Paths of what only the vendor's own tools heed: which addresses may be read, hosts beyond those that an engine is told, that nothing is taken from a cache, citations, other callers. */
function lostOf(tool: WebToolName, entry: Wire, place: string): string[] {
  const lost = [...unknownPaths(entry, OFFER_FIELDS, place)];
  const { allowed_callers: callers, citations, use_cache: cached } = entry;
  if (Array.isArray(callers) && callers.length > 0 && !callers.includes("direct"))
    lost.push(`${place}.allowed_callers`);
  if (isObject(citations) && citations["enabled"] === true) lost.push(`${place}.citations`);
  if (cached === false) lost.push(`${place}.use_cache`);
  if (tool === "web_search" && textsOf(entry["allowed_domains"]).length > MAX_DOMAINS)
    lost.push(`${place}.allowed_domains`);
  return lost;
}

function readOffer(tool: WebToolName, entry: Wire, place: string): OfferedTool {
  const allowed = textsOf(entry["allowed_domains"]);
  const blocked = textsOf(entry["blocked_domains"]);
  if (allowed.length > 0 && blocked.length > 0) {
    const message = `${place}: allowed_domains and blocked_domains cannot both be given.`;
    throw invalidField(`${place}.blocked_domains`, message);
  }
  return {
    tool,
    place,
    maxUses: countOf(entry["max_uses"]),
    allowed,
    blocked,
    ...readPlace(entry["user_location"]),
    maxResults: undefined,
    maxContentTokens: countOf(entry["max_content_tokens"]),
    lost: lostOf(tool, entry, place),
  };
}

const NONE: readonly OfferedTool[] = [];

function find(body: Wire): readonly OfferedTool[] {
  const { tools } = body;
  if (!Array.isArray(tools) || !tools.some(toolOf)) return NONE;
  return tools.flatMap((entry: unknown, at) => {
    const tool = toolOf(entry);
    return tool ? [readOffer(tool, entry as Wire, `tools[${at}]`)] : [];
  });
}

/** The text of an earlier search result, as far as it can be read: another vendor's own is a title and an address. */
function readResult(entry: Wire) {
  const date = stringOf(entry["page_age"]);
  const snippet = openText(entry["encrypted_content"]) ?? "";
  return { title: stringOf(entry["title"]), url: stringOf(entry["url"]), snippet, source: "", date: date || null };
}

/** An earlier result as the content of a tool_result. */
function resultContent(block: Wire): { content: unknown; is_error?: true } {
  const { content } = block;
  if (Array.isArray(content)) return { content: describeResults(content.filter(isObject).map(readResult)) };
  if (!isObject(content) || content["error_code"] !== undefined) {
    const code = isObject(content) ? stringOf(content["error_code"]) : "";
    return { content: `The tool failed: ${code || "unavailable"}.`, is_error: true };
  }
  const page = content["content"];
  const source = isObject(page) ? page["source"] : undefined;
  if (isObject(source) && source["type"] === "text") {
    const [url, title, text] = [content["url"], isObject(page) && page["title"], source["data"]].map(stringOf);
    return { content: describePage({ url: url ?? "", title: title ?? "", text: text ?? "" }) };
  }
  return { content: isObject(page) ? [page] : stringOf(content["url"]) };
}

/**
 * What an earlier call of these tools, or what it found, says to a model that is offered none of them any more: a search that is switched off for one turn
 * has been made all the same. Undefined for any other block, and for what is no text.
 */
export function textOfServed(block: Wire): string | undefined {
  const { type, name, input, content } = block;
  if (type === "server_tool_use") {
    const said = isObject(input) ? input : {};
    const query = name === "web_search" ? stringOf(said["query"]) : "";
    const url = name === "web_fetch" ? stringOf(said["url"]) : "";
    if (query !== "") return describeSearch(query);
    return url === "" ? undefined : `Read on the web: ${url}`;
  }
  if (!Object.hasOwn(RESULT_OF, stringOf(type))) return undefined;
  if (isEmptyList(content)) return undefined;
  const result = resultContent(block);
  return typeof result.content === "string" && !result.is_error ? result.content : undefined;
}

const callIdOf = (shown: unknown): string => {
  const id = stringOf(shown);
  return id.startsWith(ID_PREFIX) && id.length > ID_PREFIX.length ? id.slice(ID_PREFIX.length) : id;
};

/** A turn of results that a client itself never wrote. */
class ResultTurn {
  readonly role = "user";
  constructor(readonly content: readonly Wire[]) {}
}

/** Cuts an assistant turn at its results into the turns of a client that ran the tools itself. */
class TurnCutter {
  readonly messages: (Wire | ResultTurn)[] = [];
  #content: unknown[] = [];
  #results: Wire[] = [];

  constructor(
    private readonly message: Wire,
    private readonly names: ReadonlyMap<WebToolName, string>,
  ) {}

  cut(blocks: readonly unknown[]): (Wire | ResultTurn)[] {
    for (const block of blocks) this.#take(isObject(block) ? block : {}, block);
    this.#flush();
    return this.messages;
  }

  #take(fields: Wire, block: unknown): void {
    const type = stringOf(fields["type"]);
    if (Object.hasOwn(RESULT_OF, type)) {
      const id = callIdOf(fields["tool_use_id"]);
      this.#results.push({ type: "tool_result", tool_use_id: id, ...resultContent(fields) });
      return;
    }
    if (this.#results.length > 0) this.#flush();
    const name = type === "server_tool_use" ? this.names.get(fields["name"] as WebToolName) : undefined;
    if (name === undefined) this.#content.push(block);
    else this.#content.push({ type: "tool_use", id: callIdOf(fields["id"]), name, input: fields["input"] ?? {} });
  }

  #flush(): void {
    if (this.#content.length > 0) this.messages.push({ ...this.message, content: this.#content });
    if (this.#results.length > 0) this.messages.push(new ResultTurn(this.#results));
    this.#content = [];
    this.#results = [];
  }
}

const isServed = (block: unknown): boolean =>
  isObject(block) && (block["type"] === "server_tool_use" || Object.hasOwn(RESULT_OF, stringOf(block["type"])));

/** The conversation with earlier calls and results of these tools where a client's own would stand; undefined where there are none. */
function openHistory(messages: unknown, functions: readonly ServedFunction[]): unknown[] | undefined {
  if (!Array.isArray(messages)) return undefined;
  const holds = (message: unknown): message is Wire & { content: unknown[] } =>
    isObject(message) && Array.isArray(message["content"]) && message["content"].some(isServed);
  if (!messages.some(holds)) return undefined;
  const names = new Map<WebToolName, string>([
    ["web_search", "web_search"],
    ["web_fetch", "web_fetch"],
    ...functions.map(({ offered, name }) => [offered.tool, name] as const),
  ]);
  const opened: unknown[] = [];
  for (const message of messages) {
    if (holds(message)) opened.push(...new TurnCutter(message, names).cut(message.content));
    else opened.push(joinResults(opened, message));
  }
  return opened;
}

/** A user's turn behind results that were cut out of the turn before it: one turn, results first (dialects.md 2.2). */
function joinResults(opened: unknown[], message: unknown): unknown {
  const last = opened.at(-1);
  if (!(last instanceof ResultTurn) || !isObject(message) || message["role"] !== "user") return message;
  opened.pop();
  const { content } = message;
  const own = typeof content === "string" ? [{ type: "text", text: content }] : listOf(content);
  return { ...message, content: [...last.content, ...own] };
}

/** Whether a block is a search result of the gateway's own. */
const isOwnResult = (block: unknown): block is Wire =>
  isObject(block) &&
  block["type"] === "web_search_tool_result" &&
  Array.isArray(block["content"]) &&
  block["content"].some((entry) => isObject(entry) && openText(entry["encrypted_content"]) !== undefined);

/** A citation names its page by a cipher too. */
const isOwnCitation = (citation: unknown): boolean =>
  isObject(citation) && openText(citation["encrypted_index"]) !== undefined;

/** A block without the gateway's own citations; itself where it has none. */
function withoutOwnCitations(block: unknown): unknown {
  const citations = isObject(block) ? block["citations"] : undefined;
  if (!isObject(block) || !Array.isArray(citations) || !citations.some(isOwnCitation)) return block;
  const { citations: _cited, ...rest } = block;
  const kept = citations.filter((citation) => !isOwnCitation(citation));
  return kept.length > 0 ? { ...rest, citations: kept } : rest;
}

/** A turn with its blocks changed, if it is the assistant's. */
const mapBlocks = (message: unknown, change: (block: unknown) => unknown): unknown =>
  isObject(message) && message["role"] === "assistant" ? mapListIn(message, "content", change) : message;

/** The conversation without them; the same one where there are none. */
const uncited = (messages: unknown): unknown =>
  Array.isArray(messages) ? mapChanged(messages, (message) => mapBlocks(message, withoutOwnCitations)) : messages;

/** A block without what only the gateway can read: its own search becomes text, its own citations go. */
function mendBlock(block: unknown, own: ReadonlySet<unknown>): unknown {
  if (!isObject(block)) return block;
  const isOwnCall = block["type"] === "server_tool_use" && own.has(block["id"]);
  if (isOwnCall || isOwnResult(block)) return { type: "text", text: textOfServed(block) ?? "Searched the web." };
  return withoutOwnCitations(block);
}

function mend(body: Wire): Edits | undefined {
  const messages = listOf(body["messages"]);
  const mended = mapChanged(messages, (message) => {
    const results = listOf(isObject(message) && message["content"]).filter(isOwnResult);
    const own = new Set(results.map((block) => block["tool_use_id"]));
    return mapBlocks(message, (block) => mendBlock(block, own));
  });
  return mended === messages ? undefined : { messages: mended };
}

/** Not copied to the function: what steers the vendor's own tool. */
function toFunction({ name, description, schema }: ServedFunction, entry: Wire): Wire {
  const mark = entry["cache_control"];
  return { name, description, input_schema: schema, ...(mark != null && { cache_control: mark }) };
}

function open(body: Wire, functions: readonly ServedFunction[]): Edits {
  const left = functions.values();
  const tools = (body["tools"] as unknown[]).map((entry) => {
    const served = toolOf(entry) ? left.next().value : undefined;
    return served ? toFunction(served, entry as Wire) : entry;
  });
  const edits: Edits = { tools };
  const plain = uncited(body["messages"]);
  const messages = openHistory(plain, functions) ?? plain;
  if (messages !== body["messages"]) edits["messages"] = messages;
  return edits;
}

/** A choice that the first round has honoured binds the next ones no more: the loop would never end. */
function freeChoice(choice: unknown, last: boolean): Edits {
  if (last) return { tool_choice: { type: "none" } };
  const type = isObject(choice) ? choice["type"] : undefined;
  if (type !== "any" && type !== "tool") return {};
  const parallel = (choice as Wire)["disable_parallel_tool_use"];
  return { tool_choice: { type: "auto", ...(parallel != null && { disable_parallel_tool_use: parallel }) } };
}

/** The next round runs code where this one did: by its id alone, or with the skills that the client wants there. */
function sameContainer({ container: asked }: Wire, { container }: Wire): Edits {
  if (!isObject(container) || typeof container["id"] !== "string") return {};
  return { container: isObject(asked) ? { ...asked, id: container["id"] } : container["id"] };
}

function extend(body: Wire, reply: Wire, outcomes: readonly ServedOutcome[], last: boolean): Edits {
  const messages = listOf(body["messages"]);
  const results = outcomes.map(({ call, text, kind }) => ({
    type: "tool_result",
    tool_use_id: call.id,
    content: text,
    ...(kind === "fault" && { is_error: true }),
  }));
  const turns = [
    { role: "assistant", content: reply["content"] },
    { role: "user", content: results },
  ];
  const more = { ...freeChoice(body["tool_choice"], last), ...sameContainer(body, reply) };
  return { messages: [...messages, ...turns], ...more };
}

function callBlock({ shownId, offered }: ServedCall): Wire {
  return { type: "server_tool_use", id: shownId, name: offered.tool, input: {}, caller: { type: "direct" } };
}

function resultOf(outcome: ServedOutcome): unknown {
  const { tool } = outcome.call.offered;
  if (outcome.kind === "fault") {
    return { type: `${tool}_tool_result_error`, error_code: FAULT_OF[tool][outcome.fault] };
  }
  if (outcome.kind === "results") {
    return outcome.results.map(({ title, url, snippet, date }) => ({
      type: "web_search_result",
      title,
      url,
      encrypted_content: sealText(snippet),
      page_age: date,
    }));
  }
  const { url, title, text } = outcome.page;
  const source = { type: "text", media_type: "text/plain", data: text };
  const content = { type: "document", source, title: title || null, citations: null };
  return { type: "web_fetch_result", url, content, retrieved_at: outcome.retrievedAt };
}

function resultBlock(outcome: ServedOutcome): Wire {
  const { shownId, offered } = outcome.call;
  const named = { type: `${offered.tool}_tool_result`, tool_use_id: shownId };
  return { ...named, content: resultOf(outcome), caller: { type: "direct" } };
}

/** Server tools of the messages dialect (dialects.md 2.2 to 2.5): a block for the call and a block for its result, both in the reply. */
export const serverTools: ServerToolHalf = {
  isPriced: ({ type }) => isRouters(type),
  keepsResults: true,
  citesAll: false,
  lost: [],
  repeats: [],
  find,
  open,
  brought: { find: broughtTools, leave: leaveBrought },
  mending: { seal: `"${SEAL}`, edit: mend },
  extend,
  // The model's own name is found again in later turns.
  shownId: (id) => ID_PREFIX + id.replace(/[^a-zA-Z0-9_]/g, "_"),
  callBlock,
  callInput: ({ arguments: text }) => JSON.stringify(toInput(text)),
  resultBlock,
};
