import { entryOf, isObject, listOf, stringOf } from "../../lib/json.ts";

/**
 * The field of a content array's entry that holds what the model thought, by the entry's type: Mistral's `thinking` (dialects.md 4.8 #23), Databricks'
 * `reasoning` (docs.databricks.com, "Query reasoning models").
 */
const THOUGHT_FIELDS: Readonly<Record<string, string>> = { thinking: "thinking", reasoning: "summary" };

/** Where an entry of a content array holds what the model thought; undefined for what is none. */
export const thoughtField = (part: Record<string, unknown>): string | undefined =>
  entryOf(THOUGHT_FIELDS, stringOf(part["type"]));

/** The text of a content array's entries of one kind: text parts, or the nested text of what was thought. */
function joinParts(parts: readonly unknown[], wanted: "text" | "thinking"): string {
  let joined = "";
  for (const part of parts) {
    if (!isObject(part)) continue;
    const field = thoughtField(part);
    if ((field !== undefined) !== (wanted === "thinking")) continue;
    const value = part[field ?? "text"];
    if (typeof value === "string") joined += value;
    else if (field !== undefined && Array.isArray(value)) joined += joinParts(value, "text");
  }
  return joined;
}

/** A text field's words: Workers AI writes a piece that looks like a number as one (cloudflare/ai #651). */
const wordsOf = (value: unknown): string => (typeof value === "number" ? String(value) : stringOf(value));

/** Visible text of a delta's or a message's `content`: a string, a number that stands for one, or an array of parts. */
export const contentText = (content: unknown): string =>
  Array.isArray(content) ? joinParts(content, "text") : wordsOf(content);

function detailsText(details: unknown): string {
  if (!Array.isArray(details)) return "";
  let joined = "";
  for (const detail of details) {
    if (!isObject(detail)) continue;
    const value = detail["text"] ?? detail["summary"];
    if (typeof value === "string") joined += value;
  }
  return joined;
}

/**
 * Reasoning text of a delta or a message. Vendors spell it four ways and some send it twice at once, so the first that says something is
 * taken alone (dialects.md 4.8 #24); thinking parts of a content array come last.
 */
export function reasoningText(delta: Record<string, unknown>): string {
  const named = wordsOf(delta["reasoning_content"]) || wordsOf(delta["reasoning"]);
  if (named !== "") return named;
  const details = delta["reasoning_details"];
  if (details !== undefined) {
    const found = detailsText(details);
    if (found !== "") return found;
  }
  const thinking = delta["thinking"];
  if (typeof thinking === "string" && thinking !== "") return thinking;
  return Array.isArray(delta["content"]) ? joinParts(delta["content"], "thinking") : "";
}

/** The proof of Anthropic's own reasoning that a reseller hands on in `reasoning_details` (dialects.md 4.3); other formats prove nothing here. */
export function reasoningSignature(delta: Record<string, unknown>): string | undefined {
  const details = delta["reasoning_details"];
  if (!Array.isArray(details)) return undefined;
  let signature: string | undefined;
  for (const detail of details) {
    if (!isObject(detail) || typeof detail["signature"] !== "string" || detail["signature"] === "") continue;
    if (typeof detail["format"] === "string" && detail["format"].startsWith("anthropic-claude")) {
      signature = detail["signature"];
    }
  }
  return signature;
}

/** Fields of a message, or of a piece of one, that some servers always write, whatever is in them. */
const OBJECTS = ["function_call", "audio"] as const;

/** Whether something is an object of which nothing is filled. */
export const holdsNothing = (value: unknown): boolean =>
  isObject(value) && Object.values(value).every((part) => part === "" || part === 0);

/**
 * Objects of a message, or of a piece of one, of which nothing is filled, as fields to leave out; undefined where there are none. Who writes the types of
 * OpenAI's SDK for Go as they stand has them in every one (NexaAI/nexa-sdk, `runner/server/handler/chat.go`), and clients take a call, or a recording, that
 * is there for one that was made.
 */
export function emptyObjects(message: Record<string, unknown>): Record<string, undefined> | undefined {
  let empty: Record<string, undefined> | undefined;
  for (const field of OBJECTS) if (holdsNothing(message[field])) empty = { ...empty, [field]: undefined };
  return empty;
}

/** The call of the older form in a message, or in a piece of one; undefined where there is none, or nothing in it. */
export function olderCall({ function_call: call }: Record<string, unknown>): Record<string, unknown> | undefined {
  return isObject(call) && !holdsNothing(call) ? call : undefined;
}

/** Calls, or pieces of some, in a message or in a piece of one. That of the older form is as any other. */
export function callsIn(message: Record<string, unknown>): readonly unknown[] {
  const calls = listOf(message["tool_calls"]);
  const older = olderCall(message);
  return older ? [...calls, { function: older }] : calls;
}
