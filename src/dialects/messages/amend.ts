import type { Orders } from "../../canon/intent.ts";
import { isObject, listOf } from "../../lib/json.ts";
import { type Edits, editedField } from "../../lib/json-text.ts";
import type { Quirks } from "../dialect.ts";
import { goingFields, leaveOut } from "../going-fields.ts";
import { EARLIER_REASONING } from "../reasoning/lost-reasoning.ts";
import { asShown, isPacked } from "../reasoning/proof.ts";
import { withoutBillingLine } from "./billing-line.ts";
import { editStops, nameLostStops } from "./blank-stops.ts";
import { liftSystem, nameUnlifted } from "./later-system.ts";
import { traitsOf } from "./model-traits.ts";
import { modelEdits } from "./named-models.ts";
import { plainTerms } from "./plain-terms.ts";
import { answerPrefill, isAnswered } from "./prefill.ts";
import { editReasoning, losesEffort } from "./reasoning-edits.ts";
import { soundMessages } from "./sound-messages.ts";
import { editMarks, editTools, nameLostTools, visibleSystem } from "./sound-prompt.ts";
import { textResultEdits } from "./text-results.ts";
import { editChoice } from "./tool-choice.ts";
import { loopStart, withoutLoopThinking } from "./tool-loop.ts";
import { nameEdits } from "./wire-names.ts";

/** Tells a proof that another model is known to have made. */
const isAnothers = (proof: unknown, { isForeignProof }: Orders): boolean =>
  isForeignProof !== undefined && typeof proof === "string" && isForeignProof(proof);

/**
 * Tells thinking that another vendor's proof came with, another model's, or none at all: its own vendor refuses the whole request for each
 * of them (dialects.md 2.9, 4.8 #6).
 */
function isForeign(block: unknown, orders: Orders, { unsignedThinking }: Quirks): boolean {
  if (!isObject(block)) return false;
  if (block["type"] === "redacted_thinking") return !block["data"] || isAnothers(block["data"], orders);
  if (block["type"] !== "thinking") return false;
  const { signature } = block;
  // Of all that a vendor has refused, this is a part.
  if (!signature) return !unsignedThinking || isAnothers("", orders);
  if (!isPacked(typeof signature === "string" ? asShown(signature) : signature)) return isAnothers(signature, orders);
  // A gateway like this one packs what it has of vendors of other dialects, and wants it back so.
  return typeof signature !== "string" || orders.isOwnProof?.(signature) !== true;
}

/** Whether a turn holds foreign thinking: nearly none does, and nothing is made anew of those. */
function holdsForeign(message: unknown, orders: Orders, quirks: Quirks): boolean {
  if (!isObject(message) || message["role"] !== "assistant") return false;
  for (const block of listOf(message["content"])) if (isForeign(block, orders, quirks)) return true;
  return false;
}

/** The conversation as its own vendor takes it when an earlier turn was somebody else's; itself when there is none. */
function withoutForeignThinking(messages: unknown, orders: Orders, quirks: Quirks): unknown {
  let kept: unknown[] | undefined;
  const listed = listOf(messages);
  for (let at = 0; at < listed.length; at++) {
    const message = listed[at];
    if (!holdsForeign(message, orders, quirks)) {
      kept?.push(message);
      continue;
    }
    kept ??= listed.slice(0, at);
    const turn = message as { content: unknown[] };
    const content = turn.content.filter((block) => !isForeign(block, orders, quirks));
    // A turn of which nothing would be left is left out.
    if (content.length > 0) kept.push({ ...turn, content });
  }
  return kept ?? messages;
}

/** Whether foreign thinking was taken out of the tool loop that the conversation stands in. */
function losesThinking(messages: unknown, edits: Edits, orders: Orders, quirks: Quirks): boolean {
  if (orders.reasoning.kind === "off" || !Object.hasOwn(edits, "messages")) return false;
  const listed = listOf(messages);
  const start = loopStart(listed);
  return start >= 0 && listed.slice(start).some((message) => holdsForeign(message, orders, quirks));
}

/** Where the path names the model, the body must not, and says the version that elsewhere stands in a header. Most such paths name the stream as well. */
function nameModel(body: Record<string, unknown>, edits: Edits, orders: Orders, quirks: Quirks): void {
  const { versionInBody, publisherModels } = quirks;
  if (versionInBody !== undefined) {
    edits["anthropic_version"] = versionInBody;
    for (const field of ["model", ...(publisherModels ? [] : ["stream"])]) if (field in body) edits[field] = undefined;
    if (!publisherModels) return;
  } else if (body["model"] !== orders.upstreamModel) edits["model"] = orders.upstreamModel;
  if ((body["stream"] === true) !== orders.stream) edits["stream"] = orders.stream;
}

const isSwitchedOff = (thinking: unknown): boolean => isObject(thinking) && thinking["type"] === "disabled";

/** Claude models refuse both of these together: the temperature stays (dialects.md 4.1). */
const isSampledTwice = (body: Record<string, unknown>, { upstreamModel, dropSampling, remove }: Orders): boolean =>
  body["top_p"] != null &&
  body["temperature"] != null &&
  !dropSampling &&
  !remove.includes("top_p") &&
  !remove.includes("temperature") &&
  traitsOf(upstreamModel).claude;

/** Thinking that was wanted and had to be switched off (the loop's own is lost, or the ceiling leaves no room for any), and other repairs. */
export function repairs(body: Record<string, unknown>, edits: Edits, orders: Orders, quirks: Quirks): string[] {
  const { kind } = orders.reasoning;
  const lost = kind !== "off" && kind !== "nothing" && isSwitchedOff(edits["thinking"]) ? ["thinking"] : [];
  if (losesThinking(body["messages"], edits, orders, quirks)) lost.push(EARLIER_REASONING);
  if (losesEffort(body, edits, orders)) lost.push("output_config.effort");
  if (isSampledTwice(body, orders)) lost.push("top_p");
  if (isAnswered(edits)) lost.push("prefill");
  nameLostStops(body, lost);
  nameLostTools(body, edits, lost, quirks);
  nameUnlifted(body, orders.upstreamModel, lost);
  lost.push(...(plainTerms(body, quirks)?.dropped ?? []));
  return lost;
}

/** The conversation and what is asked of thinking in it: each decides about the other. */
function amendConversation(body: Record<string, unknown>, edits: Edits, orders: Orders, quirks: Quirks): void {
  const messages = soundMessages(withoutForeignThinking(body["messages"], orders, quirks));
  editReasoning(messages === body["messages"] ? body : { ...body, messages }, edits, orders);
  if (!Array.isArray(messages)) return;
  const thinking = editedField("thinking", body, edits);
  const sound: readonly unknown[] = isSwitchedOff(thinking) ? withoutLoopThinking(messages) : messages;
  const answered = answerPrefill(sound, body, orders.upstreamModel, thinking, quirks.prefill === "none");
  if (answered !== body["messages"]) edits["messages"] = answered;
}

type Step = (body: Record<string, unknown>, orders: Orders, quirks: Quirks) => Edits | undefined;

/** In what words the vendor takes a body, whatever is ordered of it. Each reads the body as those before it have left it, and most change nothing. */
const WORDINGS: readonly Step[] = [
  modelEdits,
  (body, _orders, quirks) => plainTerms(body, quirks)?.edits,
  (body, _orders, quirks) => textResultEdits(body, quirks),
  (body, _orders, quirks) => nameEdits(body, quirks),
  (body, { upstreamModel }) => liftSystem(body, upstreamModel),
];

/**
 * Orders as edits of a body's top-level fields, whether the client wrote it or `encodeRequest` (design 1). Only fields that really
 * change are named: they are spliced into the client's own bytes.
 */
export function amend(body: Record<string, unknown>, orders: Orders, quirks: Quirks): Edits {
  let worded = body;
  let before: Edits | undefined;
  for (const step of WORDINGS) {
    const edits = step(worded, orders, quirks);
    if (!edits) continue;
    before = { ...before, ...edits };
    worded = { ...worded, ...edits };
  }
  const edits = amendWorded(worded, orders, quirks);
  return before ? { ...before, ...edits } : edits;
}

/** {@link amend} of a body in its vendor's words. */
function amendWorded(body: Record<string, unknown>, orders: Orders, quirks: Quirks): Edits {
  const edits: Edits = {};
  nameModel(body, edits, orders, quirks);
  if (orders.maxOutputTokens !== undefined && body["max_tokens"] !== orders.maxOutputTokens) {
    edits["max_tokens"] = orders.maxOutputTokens;
  }
  amendConversation(body, edits, orders, quirks);
  editStops(body, edits);
  const system = visibleSystem(quirks.ownBillingLine ? body["system"] : withoutBillingLine(body["system"]));
  if (system !== body["system"]) edits["system"] = system;
  editTools(body, edits, quirks);
  editChoice(body, edits, orders.upstreamModel, quirks);
  if (isSampledTwice(body, orders)) edits["top_p"] = undefined;
  for (const field of goingFields(orders)) {
    leaveOut(body, edits, field);
  }
  editMarks(body, edits);
  return edits;
}
