import type { BlockStart, Event, Picture } from "../../canon/events.ts";
import { newId } from "../../lib/id.ts";
import { isObject, listOf, objectsOf, stringOf } from "../../lib/json.ts";
import { type BlockCiter, type Cited, citedAt, citedPage, MAX_CITED } from "../cited.ts";
import { mediaTypeOf } from "../media/type.ts";
import { wholeSeconds } from "../openai-fields.ts";
import { carriedIn, packReasoning } from "../reasoning/proof.ts";
import { startEvent } from "../reply/start.ts";
import { UNNAMED_TOOL } from "../tools/tool-names.ts";
import { joinName } from "./namespaces.ts";
import { phaseSignature } from "./phase.ts";

export type Item = Record<string, unknown>;

/** Stands between the parts of a reasoning summary, which are paragraphs. */
export const PARAGRAPH = "\n\n";

const SAYING = ["text", "refusal"];

/** The text of an array's parts, in order: answer and refusal alike (dialects.md 4.8 #26), or one of them. */
function textOfParts(parts: unknown, between: string, fields: readonly string[] = SAYING): string {
  let joined = "";
  for (const part of listOf(parts)) {
    let text = "";
    if (isObject(part)) for (const field of fields) text ||= stringOf(part[field]);
    if (text !== "") joined = joined === "" ? text : joined + between + text;
  }
  return joined;
}

/** Visible text of a message item. */
export const messageText = (item: Item): string =>
  typeof item["content"] === "string" ? item["content"] : textOfParts(item["content"], "");

const placeIn = (place: unknown, before: number): unknown => (typeof place === "number" ? before + place : undefined);

/** The pages that a message item's text rests on (dialects.md 1.6); files, which have no address, are not among them. */
export function citedIn(item: Item): Cited[] {
  const cited: Cited[] = [];
  let before = 0;
  for (const part of listOf(item["content"])) {
    if (!isObject(part)) continue;
    for (const annotation of listOf(part["annotations"])) {
      if (cited.length >= MAX_CITED) return cited;
      if (!isObject(annotation)) continue;
      const { url, title, start_index: start, end_index: end } = annotation;
      for (const page of citedPage(url, title, ""))
        cited.push(citedAt(page, placeIn(start, before), placeIn(end, before)));
    }
    before += stringOf(part["text"]).length;
  }
  return cited;
}

/** The item of the pages that Perplexity's own search found; its text numbers them, and seldom says more of them. */
const FOUND = "search_results";

const pagesIn = (item: Item): Cited[] =>
  objectsOf(item["results"])
    .slice(0, MAX_CITED)
    .flatMap(({ url, title, snippet }) => citedPage(url, title, snippet));

/** What one of a client's agents tells another: the only place where a sub-agent's task stands (openai/codex #26210). */
const AGENT_MESSAGE = "agent_message";

/** Whether an item is {@link AGENT_MESSAGE}. */
export const isAgentMessage = (item: Item): boolean => item["type"] === AGENT_MESSAGE;

/** Sealed by OpenAI (a Fernet token), for its own models: under that name stands plain text where another vendor's model wrote it. */
const SEALED = /^gAAAA[\w-]{40,}=*$/;
const SEALED_WORDS = "(What is said here is sealed: OpenAI's models alone can read it.)";

/** The words of an agent's message, and the places of those in it that cannot be read. */
export function agentText({ content, author }: Item): { text: string; sealed: number[] } {
  const sealed: number[] = [];
  const words = listOf(typeof content === "string" ? [{ text: content }] : content).map((part, at) => {
    if (!isObject(part)) return "";
    const said = stringOf(part["text"]) || stringOf(part["encrypted_content"]);
    if (!SEALED.test(said)) return said;
    sealed.push(at);
    return SEALED_WORDS;
  });
  const text = words.join("");
  const from = stringOf(author);
  // Codex says it in the words; its earlier versions did not.
  return { text: text === "" || text.includes(from) ? text : `Message from the agent ${from}:\n${text}`, sealed };
}

/** Text of a reasoning item: the model's own where the vendor shows it, else the summary (dialects.md 4.8 #24: never both). */
export const reasoningText = (item: Item): string =>
  textOfParts(item["content"], "") || textOfParts(item["summary"], PARAGRAPH);

/** What proves a reasoning item to its vendor, as a signature; "" where there is nothing to prove it with. */
export function reasoningSignature(item: Item): string {
  const encrypted = stringOf(item["encrypted_content"]);
  if (encrypted === "") return "";
  const carried = carriedIn(encrypted);
  if (carried) return carried.kind === "signature" ? carried.text : "";
  return packReasoning({ id: stringOf(item["id"]), encrypted });
}

/** How a call of a function or a custom tool begins. A missing call_id is made up: without one no output can be given back (dialects.md 4.8 #14). */
export function startOfCall(item: Item): BlockStart {
  const id = stringOf(item["call_id"]) || stringOf(item["id"]) || newId("call");
  const custom = item["type"] === CUSTOM_CALL ? ({ custom: true } as const) : {};
  const name = joinName(item["namespace"], stringOf(item["name"]) || UNNAMED_TOOL);
  return { kind: "tool-call", id, name, ...custom };
}

/** The item of a custom tool's call, whose input is free text. */
export const CUSTOM_CALL = "custom_tool_call";

/** Whether an item of this type is a call of a function or a custom tool. */
export const isCallType = (type: unknown): boolean => type === "function_call" || type === CUSTOM_CALL;

/** Whether an item of this type answers such a call. */
export const isOutputType = (type: unknown): boolean =>
  type === "function_call_output" || type === "custom_tool_call_output";

/** The text of a call as a whole: a function's arguments, or a custom tool's input. */
export const callText = (item: Item): string =>
  item["type"] === CUSTOM_CALL ? stringOf(item["input"]) : argumentsText(item["arguments"]);

/** A function call's arguments as JSON text, or "" when there are none. */
export function argumentsText(value: unknown): string {
  if (typeof value === "string") return value;
  return isObject(value) && Object.keys(value).length > 0 ? JSON.stringify(value) : "";
}

/** The event by which a reply begins, from its response's fields. */
export const startOfReply = ({ id, model, created_at: created }: Item): Event =>
  startEvent(id, model, wholeSeconds(created));

/** The item of an image that the model made. */
export const PICTURE = "image_generation_call";

/** The image of an item; undefined for one of another type, or that failed. */
export function pictureIn(item: Item): Picture | undefined {
  const data = item["type"] === PICTURE ? stringOf(item["result"]) : "";
  return data === ""
    ? undefined
    : { mediaType: mediaTypeOf(`image/${stringOf(item["output_format"]) || "png"}`, data), data };
}

function writeBlock(
  block: BlockStart,
  text: string,
  signature: string,
  events: Event[],
  citations: readonly Event[] = [],
): void {
  events.push({ type: "block-start", block });
  if (text !== "") events.push({ type: "block-delta", text });
  if (signature !== "") events.push({ type: "block-signature", signature });
  events.push(...citations);
  events.push({ type: "block-end" });
}

/** Adds a whole output item's events to `events`: none for one that says nothing, an opaque block for a type of this dialect's own. `citer`: that of its reply. */
export function readWholeItem(item: Item, citer: BlockCiter, events: Event[]): void {
  const type = item["type"];
  if (type === "message") {
    const { content } = item;
    const text = typeof content === "string" ? content : textOfParts(content, "", ["text"]);
    if (text !== "") {
      writeBlock({ kind: "text" }, text, phaseSignature(item), events, citer.end(text.length, citedIn(item)));
    }
    const refusal = textOfParts(content, "", ["refusal"]);
    if (refusal !== "") writeBlock({ kind: "text", refusal: true }, refusal, "", events);
  } else if (type === "reasoning") readWholeReasoning(item, events);
  else if (isCallType(type)) writeBlock(startOfCall(item), callText(item), "", events);
  else {
    if (type === FOUND) citer.find(pagesIn(item));
    const picture = pictureIn(item);
    const block: BlockStart = picture
      ? { kind: "image", ...picture }
      : { kind: "opaque", dialect: "responses", value: item };
    writeBlock(block, "", "", events);
  }
}

function readWholeReasoning(item: Item, events: Event[]): void {
  const carried = carriedIn(stringOf(item["encrypted_content"]));
  if (carried?.kind === "redacted") {
    writeBlock({ kind: "redacted-reasoning", data: carried.text }, "", "", events);
    return;
  }
  const text = reasoningText(item);
  const signature = reasoningSignature(item);
  if (text !== "" || signature !== "") writeBlock({ kind: "reasoning" }, text, signature, events);
}

/** What a tool put out that no model called, such as one that the client ran by itself: it names the tool, and no call (OpenAI's API reference, `input`). */
export const isUncalledOutput = (item: Item): boolean =>
  item["type"] === "function_call_output" && item["call_id"] == null;

/** Whether an item is a message: a type that is not said stands for one. */
export const isMessage = (item: Item): boolean => (item["type"] ?? "message") === "message";

export const isReasoning = (item: unknown): item is Item => isObject(item) && item["type"] === "reasoning";
