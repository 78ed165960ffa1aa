import { GatewayError } from "../../canon/errors.ts";
import type { BlockStart, Event } from "../../canon/events.ts";
import { NO_USAGE } from "../../canon/usage.ts";
import { isObject, listOf } from "../../lib/json.ts";
import type { Edits, JsonText } from "../../lib/json-text.ts";
import { mapChanged, mapListIn } from "../../lib/map-changed.ts";
import type { DecodeContext, ReplyContext } from "../dialect.ts";
import { repairHead } from "../openai-fields.ts";
import { gatherReply, type WholeBlock } from "../reply/gather.ts";
import { ReplyCallIds } from "../tools/counted-ids.ts";
import { UNNAMED_TOOL } from "../tools/tool-names.ts";
import { errorOf } from "../translate.ts";
import { annotationOf } from "./citations.ts";
import { ChatDecoder, errorInside, replySeed } from "./decode-stream.ts";
import { emptyObjects, olderCall } from "./delta.ts";
import { replyIdOf } from "./encode-stream.ts";
import { extraContentOf } from "./extra-content.ts";
import { fittingWord, writeFinish } from "./finish.ts";
import { PICTURES, pictureOf, withProof } from "./pictures.ts";
import { repairTexts } from "./repair.ts";
import { inventCallId, isOfOwnKind, readToolFragment } from "./tool-calls.ts";
import { soundUsage, writeUsage } from "./usage.ts";

type Wire = Record<string, unknown>;

/** What a whole reply says it is. */
const COMPLETION = "chat.completion";

const NO_MESSAGE: Wire = Object.freeze({});

/** A choice's message as the delta of a chunk: whole calls get the place they stand at. */
function asDelta({ message }: Wire): Wire {
  if (!isObject(message)) return NO_MESSAGE;
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return message;
  return { ...message, tool_calls: calls.map((call, index) => (isObject(call) ? { ...call, index } : call)) };
}

/** The choice that is meant: the one of index 0, else the first. */
function firstChoice(choices: unknown): Wire | undefined {
  if (!Array.isArray(choices)) return undefined;
  let first: Wire | undefined;
  for (const choice of choices) {
    if (!isObject(choice)) continue;
    if (choice["index"] === 0) return choice;
    first ??= choice;
  }
  return first;
}

/**
 * A whole chat reply as events. Throws GatewayError: upstream_error when the body is no reply, or what an error object inside a 200 means
 * (dialects.md 4.8 #22).
 */
export function decodeReply(body: unknown, context: DecodeContext): Event[] {
  if (!isObject(body)) throw new GatewayError("upstream_error", "The vendor's answer is no reply of its dialect.");
  const error = errorInside(body);
  if (error) throw error;
  const choice = firstChoice(body["choices"]);
  if (!choice) throw new GatewayError("upstream_error", "The vendor's answer holds no choice.");
  const events = new ChatDecoder(context).readWhole(body, choice, asDelta(choice));
  const failure = errorOf(events);
  if (failure) throw failure;
  return events;
}

/** A call, alone in a list; an empty one for any other block. */
function writeCall({ start, text, signature }: WholeBlock): Wire[] {
  if (start.kind !== "tool-call") return [];
  const { id, name, custom } = start;
  if (custom) return [{ id, type: "custom", custom: { name, input: text } }];
  const extra = extraContentOf(signature);
  const called = { name, arguments: text || "{}" };
  return [{ id, type: "function", function: called, ...(extra && { extra_content: extra }) }];
}

/** What the blocks of a kind say, joined; "" where none does. */
const textOf = (blocks: readonly WholeBlock[], isOfKind: (start: BlockStart) => boolean): string =>
  blocks.map(({ start, text }) => (isOfKind(start) ? text : "")).join("");

/** Events of a finished reply as a whole chat reply (dialects.md 1.3). */
export function encodeReply(events: readonly Event[], context: ReplyContext): Wire {
  const legacy = context.changes?.legacyFunctions === true;
  const { blocks, usage, finish } = gatherReply(events);
  const content = textOf(blocks, (start) => start.kind === "text" && !start.refusal);
  const refusal = textOf(blocks, (start) => start.kind === "text" && start.refusal === true);
  const reasoning = textOf(blocks, (start) => start.kind === "reasoning");
  const annotations = blocks.flatMap(({ citations }) => citations.map(annotationOf));
  const pictures: Wire[] = [];
  for (const { start, signature } of blocks) {
    if (start.kind === "image") pictures.push(withProof(pictureOf(start, pictures.length), signature));
  }
  const calls = blocks.flatMap(writeCall);
  const [first] = calls;
  const message: Wire = {
    role: "assistant",
    content: content === "" && (first || refusal !== "") ? null : content,
    refusal: refusal === "" ? null : refusal,
  };
  if (reasoning !== "") message["reasoning_content"] = reasoning;
  if (annotations.length > 0) message["annotations"] = annotations;
  if (pictures.length > 0) message[PICTURES] = pictures;
  // The older form, in which the client offered its tools, has place for one.
  if (first && legacy) message["function_call"] = first["function"];
  else if (first) message["tool_calls"] = calls;
  return {
    id: replyIdOf(context),
    object: COMPLETION,
    created: context.created,
    model: context.model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: writeFinish(finish, legacy) }],
    ...(finish.tier !== undefined && { service_tier: finish.tier }),
    usage: writeUsage(usage ?? NO_USAGE),
  };
}

const holdsText = (value: unknown) => typeof value === "string" && value.trim() !== "";

/** Calls whose id, type, name or arguments a client could not use; the same array when all are sound. */
function repairCalls(calls: readonly unknown[], seed: string, { usedCallIds }: ReplyContext): readonly unknown[] {
  const ids = new ReplyCallIds(usedCallIds);
  return mapChanged(calls, (call, ordinal) => {
    const fragment = readToolFragment(call);
    if (!fragment || !isObject(call) || isOfOwnKind(call)) return call;
    const kind = fragment.custom ? "custom" : "function";
    const called = call[kind];
    const wrongArguments = !fragment.custom && isObject(called) && !holdsText(called["arguments"]);
    const name = fragment.name || UNNAMED_TOOL;
    const isMisnamed = isObject(called) && called["name"] !== name;
    const id = ids.take(fragment.id || inventCallId(seed, ordinal), seed);
    if (id === fragment.id && typeof call["type"] === "string" && !wrongArguments && !isMisnamed) return call;
    const changes = {
      ...(isMisnamed && { name }),
      ...(wrongArguments && { arguments: fragment.arguments || "{}" }),
    };
    return { ...call, id, type: kind, ...(isObject(called) && { [kind]: { ...called, ...changes } }) };
  });
}

/** Whether a call says neither what it calls nor with what: of a stream none is made of it either. */
function callsNothing(call: unknown): boolean {
  const fragment = isOfOwnKind(call) ? undefined : readToolFragment(call);
  return fragment !== undefined && fragment.name === "" && fragment.arguments.trim() === "";
}

/** A message with its role, reasoning where clients look for it and calls they can answer; the same object when nothing is wrong. */
function repairMessage(message: Wire, seed: string, context: ReplyContext): Wire {
  let changes = repairTexts(message);
  if (typeof message["role"] !== "string" || message["role"] === "") changes = { ...changes, role: "assistant" };
  const calls = message["tool_calls"];
  if (Array.isArray(calls)) {
    const made = calls.some(callsNothing) ? calls.filter((call) => !callsNothing(call)) : calls;
    const repaired = repairCalls(made, seed, context);
    if (repaired !== calls) changes = { ...changes, tool_calls: repaired.length > 0 ? repaired : undefined };
  }
  const empty = emptyObjects(message);
  if (empty) changes = { ...changes, ...empty };
  return changes ? { ...message, ...changes } : message;
}

/** The word for the end that fits the message's calls; undefined where the vendor's own does. A vendor that says none means the natural end. */
function repairFinish(word: unknown, message: Wire): string | undefined {
  if (olderCall(message)) return typeof word === "string" ? undefined : "function_call";
  const calls = listOf(message["tool_calls"]);
  // Whether it was run, or is to be, its vendor's word alone tells.
  if (typeof word === "string" && calls.some(isOfOwnKind)) return undefined;
  return fittingWord(typeof word === "string" ? word : "", calls.length > 0);
}

/** Stands for the message of a reply that has none: Google's endpoint writes none for what it blocks, and clients look into it. */
const EMPTY_MESSAGE: Wire = Object.freeze({ role: "assistant", content: "", refusal: null });

/** A choice that a client can read; the same object when nothing is wrong. */
function repairChoice(choice: unknown, at: number, seed: string, context: ReplyContext): unknown {
  if (!isObject(choice)) return choice;
  const said = choice["message"] ?? EMPTY_MESSAGE;
  if (!isObject(said)) return choice;
  const message = repairMessage(said, seed, context);
  const word = repairFinish(choice["finish_reason"], message);
  const isPlaced = typeof choice["index"] === "number";
  if (message === choice["message"] && word === undefined && isPlaced) return choice;
  return { ...choice, ...(!isPlaced && { index: at }), message, ...(word !== undefined && { finish_reason: word }) };
}

/** A chat reply for a chat client: the client's model ID, every other byte as it was unless a client could not read it (dialects.md 1.3). */
export function relabelReply(body: JsonText, context: ReplyContext): string {
  const edits: Edits = { model: context.model };
  const value = body.value;
  if (isObject(value)) {
    const seed = replySeed(value);
    if (typeof value["id"] !== "string" || value["id"] === "") edits["id"] = replyIdOf(context);
    if (value["object"] !== COMPLETION) edits["object"] = COMPLETION;
    repairHead(value, context.created, edits);
    const repaired = mapListIn(value, "choices", (choice, at) => repairChoice(choice, at, seed, context));
    if (repaired !== value) edits["choices"] = repaired["choices"];
    const usage = soundUsage(value["usage"]);
    if (usage !== value["usage"]) edits["usage"] = usage;
  }
  return body.edit(edits);
}
