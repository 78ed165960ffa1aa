import type { Orders } from "../../canon/intent.ts";
import { type Edits, isObject } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import { isPacked } from "../reasoning-proof.ts";
import { withoutBillingLine } from "./billing-line.ts";
import { nameLostStops, stopEdits } from "./blank-stops.ts";
import { answerPrefill, isAnswered } from "./prefill.ts";
import { reasoningEdits } from "./reasoning-edits.ts";
import { soundMessages } from "./sound-messages.ts";
import { choiceEdits } from "./tool-choice.ts";
import { withoutLoopThinking } from "./tool-loop.ts";

const SAMPLING = ["temperature", "top_p", "top_k"] as const;

type IsForeign = (block: unknown) => boolean;

/**
 * Tells thinking that another vendor's proof came with, another model's, or none at all: its own vendor refuses the whole request for each
 * of them (dialects.md 2.9, 4.8 #6).
 */
function foreignTo({ unsignedThinking }: Quirks, { isForeignProof }: Orders): IsForeign {
  const isAnothers = (proof: unknown) => typeof proof === "string" && isForeignProof?.(proof) === true;
  return (block) => {
    if (!isObject(block)) return false;
    if (block["type"] === "redacted_thinking") return isAnothers(block["data"]);
    if (block["type"] !== "thinking") return false;
    const { signature } = block;
    if (signature === undefined || signature === "") return !unsignedThinking;
    return isPacked(signature) || isAnothers(signature);
  };
}

/** Whether a turn holds foreign thinking: nearly none does, and nothing is made anew of those. */
const holdsForeign = (message: unknown, isForeign: IsForeign): boolean =>
  isObject(message) &&
  message["role"] === "assistant" &&
  Array.isArray(message["content"]) &&
  message["content"].some(isForeign);

/** A turn without foreign thinking; one of which nothing would be left is left out. */
function withoutForeign(message: unknown, isForeign: IsForeign): unknown[] {
  if (!holdsForeign(message, isForeign)) return [message];
  const turn = message as { content: unknown[] };
  const kept = turn.content.filter((block) => !isForeign(block));
  return kept.length === 0 ? [] : [{ ...turn, content: kept }];
}

/** The conversation as its own vendor takes it when an earlier turn was somebody else's; itself when there is none. */
function withoutForeignThinking(messages: unknown, isForeign: IsForeign): unknown {
  if (!Array.isArray(messages)) return messages;
  if (!messages.some((message) => holdsForeign(message, isForeign))) return messages;
  return messages.flatMap((message) => withoutForeign(message, isForeign));
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
  if (isAnswered(edits)) lost.push("prefill");
  nameLostStops(body, lost);
  return lost;
}

/** The conversation and what is asked of thinking in it: each decides about the other. */
function amendConversation(body: Record<string, unknown>, edits: Edits, orders: Orders, quirks: Quirks): void {
  const messages = soundMessages(withoutForeignThinking(body["messages"], foreignTo(quirks, orders)));
  Object.assign(edits, reasoningEdits(messages === body["messages"] ? body : { ...body, messages }, orders));
  if (!Array.isArray(messages)) return;
  const asked = { ...body, ...edits };
  const sound: readonly unknown[] = isSwitchedOff(asked) ? withoutLoopThinking(messages) : messages;
  const answered = answerPrefill(sound, orders.upstreamModel, asked["thinking"]);
  if (answered !== body["messages"]) edits["messages"] = answered;
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
  amendConversation(body, edits, orders, quirks);
  Object.assign(edits, stopEdits(body));
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
