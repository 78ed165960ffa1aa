import type { Orders } from "../../canon/intent.ts";
import { type Edits, isObject } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import { isPacked } from "../reasoning-proof.ts";
import { withoutBillingLine } from "./billing-line.ts";
import { reasoningEdits } from "./reasoning-edits.ts";
import { soundMessages } from "./sound-messages.ts";
import { choiceEdits } from "./tool-choice.ts";
import { withoutLoopThinking } from "./tool-loop.ts";

const SAMPLING = ["temperature", "top_p", "top_k"] as const;

/** Thinking that another vendor's proof came with, or none: its own vendor refuses the whole request for either. */
function isForeignThinking(block: unknown, { unsignedThinking }: Quirks): boolean {
  if (!isObject(block) || block["type"] !== "thinking") return false;
  const { signature } = block;
  return isPacked(signature) || (!unsignedThinking && (signature === undefined || signature === ""));
}

/** A turn without another vendor's thinking; one of which nothing would be left is left out. */
function withoutForeign(message: unknown, quirks: Quirks): unknown[] {
  if (!isObject(message) || message["role"] !== "assistant" || !Array.isArray(message["content"])) return [message];
  const { content } = message;
  if (!content.some((block) => isForeignThinking(block, quirks))) return [message];
  const kept = content.filter((block) => !isForeignThinking(block, quirks));
  return kept.length === 0 ? [] : [{ ...message, content: kept }];
}

/** The conversation as its own vendor takes it when an earlier turn was another vendor's (dialects.md 4.8 #6); itself when there is none. */
function withoutForeignThinking(messages: unknown, quirks: Quirks): unknown {
  if (!Array.isArray(messages)) return messages;
  const kept = messages.flatMap((message) => withoutForeign(message, quirks));
  return kept.length === messages.length && kept.every((message, at) => message === messages[at]) ? messages : kept;
}

function nameModel(body: Record<string, unknown>, orders: Orders): Edits {
  const edits: Edits = {};
  if (body["model"] !== orders.upstreamModel) edits["model"] = orders.upstreamModel;
  if ((body["stream"] === true) !== orders.stream) edits["stream"] = orders.stream;
  return edits;
}

/** Where the path names model and stream, the body must not, and says the version that elsewhere stands in a header. */
function nameVersion(body: Record<string, unknown>, version: string): Edits {
  const edits: Edits = { anthropic_version: version };
  for (const field of ["model", "stream"]) if (field in body) edits[field] = undefined;
  return edits;
}

const isSwitchedOff = ({ thinking }: Edits): boolean => isObject(thinking) && thinking["type"] === "disabled";

/** Claude models refuse both of these together: the temperature stays (dialects.md 4.1). */
const isSampledTwice = (body: Record<string, unknown>, { upstreamModel, dropSampling, remove }: Orders): boolean =>
  body["top_p"] != null &&
  body["temperature"] != null &&
  !dropSampling &&
  !remove.includes("top_p") &&
  !remove.includes("temperature") &&
  upstreamModel.includes("claude");

/** Thinking that was wanted and had to be switched off (the loop's own is lost, or the ceiling leaves no room for any), and other repairs. */
export function repairs(body: Record<string, unknown>, edits: Edits, orders: Orders): string[] {
  const { kind } = orders.reasoning;
  const lost = kind !== "off" && kind !== "nothing" && isSwitchedOff(edits) ? ["thinking"] : [];
  if (isSampledTwice(body, orders)) lost.push("top_p");
  return lost;
}

/**
 * Orders as edits of a body's top-level fields, whether the client wrote it or `encodeRequest` (design 1). Only fields that really
 * change are named: they are spliced into the client's own bytes.
 */
export function amend(body: Record<string, unknown>, orders: Orders, quirks: Quirks): Edits {
  const edits = quirks.versionInBody === undefined ? nameModel(body, orders) : nameVersion(body, quirks.versionInBody);
  if (orders.maxOutputTokens !== undefined && body["max_tokens"] !== orders.maxOutputTokens) {
    edits["max_tokens"] = orders.maxOutputTokens;
  }
  const messages = soundMessages(withoutForeignThinking(body["messages"], quirks));
  const changed = messages !== body["messages"];
  if (changed) edits["messages"] = messages;
  Object.assign(edits, reasoningEdits(changed ? { ...body, messages } : body, orders));
  if (isSwitchedOff({ ...body, ...edits }) && Array.isArray(messages)) {
    const stripped = withoutLoopThinking(messages);
    if (stripped !== messages) edits["messages"] = stripped;
  }
  if (!quirks.ownBillingLine) {
    const system = withoutBillingLine(body["system"]);
    if (system !== body["system"]) edits["system"] = system;
  }
  Object.assign(edits, choiceEdits(body, edits, orders.upstreamModel));
  if (isSampledTwice(body, orders)) edits["top_p"] = undefined;
  const removed = orders.dropSampling ? [...SAMPLING, ...orders.remove] : orders.remove;
  for (const field of removed) {
    if (field in body) edits[field] = undefined;
    else delete edits[field];
  }
  return edits;
}
