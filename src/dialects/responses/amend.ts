import { type Orders, type ReasoningOrder, reasons } from "../../canon/intent.ts";
import { isObject, listOf, stringOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged } from "../../lib/map-changed.ts";
import type { Lesson, Quirks, ReplyChanges, VendorTerms } from "../dialect.ts";
import { EditList } from "../edit-list.ts";
import { leaveOut } from "../going-fields.ts";
import { knowsAll, knowsLess } from "../knows-all.ts";
import { imageLessons } from "../media/blind-models.ts";
import { EARLIER_REASONING, loopBegin, type Said } from "../reasoning/lost-reasoning.ts";
import { isReplayable } from "../reasoning/proof.ts";
import { ceilingLessons } from "../refusals/output-ceiling.ts";
import { effortLessons } from "../refusals/refused-effort.ts";
import { formatName } from "../schema/format.ts";
import { looseLessons, namesLoosened, withLooseSchemas } from "../schema/loose-schemas.ts";
import { asObjectText } from "../tools/object-text.ts";
import { wholeLessons } from "../whole-replies.ts";
import { lostOnAgent, tellAgent } from "./agent-terms.ts";
import { isClientCall, isClientOutput } from "./client-tools.ts";
import { isAgentMessage, isMessage, isReasoning } from "./items.ts";
import { isGivenHere } from "./output-items.ts";
import { plainTerms } from "./plain-terms.ts";
import { withoutLoneIds } from "./replay.ts";
import { soundInput } from "./sound-input.ts";
import { nameEdits, withToolNames } from "./wire-names.ts";

type Wire = Record<string, unknown>;

/** Its own vendor refuses a smaller ceiling, tokens. */
export const MIN_OUTPUT_TOKENS = 16;
/** What must be asked for so that reasoning can be carried back to a vendor that stores nothing (dialects.md 5.1). */
const ENCRYPTED = "reasoning.encrypted_content";

/** `reasoning` as `encodeRequest` leaves it: the effort is still to be ordered, the summary is wanted. */
export const UNORDERED_REASONING = { effort: null, summary: "auto" } as const;

const isUnordered = (value: unknown): boolean =>
  isObject(value) && value["effort"] === null && value["summary"] === UNORDERED_REASONING.summary;

/**
 * The reasoning object that an order asks for, over what stands there; undefined for none. Forms of other dialects write nothing. Where
 * no depth is ordered of a model that reasons all the same, what else the client asked (a summary) stays.
 */
function wantedReasoning(order: ReasoningOrder, isActive: boolean, body: Wire, quirks: Quirks): unknown {
  const own = body["reasoning"];
  if (order.kind === "keep") return isUnordered(own) ? undefined : own;
  const isUnasked = quirks.noReasoningSummary === true && isUnordered(own);
  const { effort: _effort, ...rest } = isObject(own) && !isUnasked ? own : {};
  if (order.kind === "nothing") {
    return isActive && !isUnordered(own) && Object.keys(rest).length > 0 ? rest : undefined;
  }
  if (order.form !== "effort") return undefined;
  if (order.kind === "off") return { effort: order.value ?? "none" };
  const effort = order.kind === "level" ? order.level : order.kind === "on" ? order.value : undefined;
  const wanted = { ...(effort !== undefined && { effort }), ...rest };
  return Object.keys(wanted).length === 0 ? undefined : wanted;
}

/** Tools that OpenAI runs, and not at this effort: "The following tools cannot be used with reasoning.effort 'minimal': web_search." (openai/codex #3559). */
const BEYOND_MINIMAL = /^(?:web_search|image_generation|code_interpreter|file_search)/;

/** `reasoning` without the least effort where that is not the client's own word, and would have its tools refused: the model's own default applies. */
function withToolsInReach(reasoning: unknown, { reasoning: own, tools }: Wire): unknown {
  if (!isObject(reasoning) || reasoning["effort"] !== "minimal") return reasoning;
  if ((isObject(own) && own["effort"] === "minimal") || !listOf(tools).some(isBeyondMinimal)) return reasoning;
  const { effort: _effort, ...rest } = reasoning;
  return Object.keys(rest).length > 0 ? rest : undefined;
}

const isBeyondMinimal = (tool: unknown): boolean => isObject(tool) && BEYOND_MINIMAL.test(stringOf(tool["type"]));

/** Whether the model will not reason, as far as the orders tell: then it is neither asked for reasoning nor shown any. */
const isMute = ({ reasoning, isReasoningActive, reasonsUnsteered }: Orders): boolean =>
  reasoning.kind === "nothing" && !isReasoningActive && reasonsUnsteered !== true;

/** Tells a proof that is known not to be this vendor's. */
const isAnothers = (proof: unknown, { isForeignProof }: Orders): boolean =>
  isForeignProof !== undefined && typeof proof === "string" && proof !== "" && isForeignProof(proof);

/**
 * The input without reasoning that this model cannot be shown: nothing of it is stored here, another vendor's proof is none, and a model
 * that does not reason refuses to see what another one thought.
 */
function withoutLostReasoning(input: unknown, orders: Orders): unknown {
  if (!Array.isArray(input) || !input.some(isReasoning)) return input;
  const mute = isMute(orders);
  const isLost = (item: unknown) =>
    isReasoning(item) && (mute || !isReplayable(item) || isAnothers(item["encrypted_content"], orders));
  return input.some(isLost) ? input.filter((item) => !isLost(item)) : input;
}

/**
 * The input without the ids that reasoning got where its reply was written anew: OpenAI refuses what it encrypted under another id than its own,
 * and takes it without any. The same value where there is none.
 */
const withoutGivenIds = (input: unknown): unknown => (Array.isArray(input) ? mapChanged(input, withoutGivenId) : input);

function withoutGivenId(item: unknown): unknown {
  if (!isReasoning(item) || !isGivenHere(item["id"])) return item;
  const { id: _id, ...rest } = item;
  return rest;
}

/** What an item is to the tool loop that the input stands in. */
function saidIn(item: unknown): Said {
  if (!isObject(item)) return undefined;
  if (isReasoning(item) || isClientCall(item)) return "answer";
  if (isClientOutput(item)) return "results";
  if (isAgentMessage(item)) return "words";
  if (!isMessage(item)) return undefined;
  return item["role"] === "assistant" ? "answer" : item["role"] === "user" ? "words" : undefined;
}

/** Names storing that was asked for, reasoning that {@link withoutLostReasoning} took out of the tool loop, and what {@link plainTerms} cannot say. */
export function repairs(body: Wire, edits: Edits, orders: Orders, quirks: Quirks): string[] {
  const unsaid = plainTerms(body, quirks)?.dropped ?? [];
  const { include } = body;
  const cannotInclude = knowsLess(quirks) && Array.isArray(include) && include.some(isUnknown);
  return [
    ...(body["store"] === true ? ["store"] : []),
    ...lostReasoning(body, edits, orders),
    ...(cannotInclude ? ["include"] : []),
    ...namesLoosened(body["tools"], quirks),
    ...(quirks.agentTerms ? lostOnAgent(body) : []),
    ...unsaid,
  ];
}

/** What a reply to an amended body must be changed back in: names of tools, and all that {@link plainTerms} told otherwise. */
export const replyChanges = (body: Wire, quirks: Quirks): ReplyChanges | undefined =>
  plainTerms(body, quirks)?.changes ?? withToolNames(body);

function lostReasoning({ input }: Wire, edits: Edits, orders: Orders): string[] {
  if (orders.reasoning.kind === "off" || !Object.hasOwn(edits, "input") || !Array.isArray(input)) return [];
  const loop: unknown[] = input.slice(loopBegin(input.length, (at) => saidIn(input[at])));
  return withoutLostReasoning(loop, orders) === loop ? [] : [EARLIER_REASONING];
}

function includeEncrypted(include: unknown): unknown {
  const listed = listOf(include);
  return listed.includes(ENCRYPTED) ? include : [...listed, ENCRYPTED];
}

/** What the client wants included: the encrypted reasoning is asked for of models that reason, and of no other, which would refuse it. */
function wantedInclude(include: unknown, orders: Orders): unknown {
  if (reasons(orders)) return includeEncrypted(include);
  if (!isMute(orders) || !Array.isArray(include) || !include.includes(ENCRYPTED)) return include;
  const rest = include.filter((entry) => entry !== ENCRYPTED);
  return rest.length > 0 ? rest : undefined;
}

/** `text` with a schema's format under a legal name; itself where it is so already. */
function withFormatName(text: unknown): unknown {
  const format = isObject(text) ? text["format"] : undefined;
  if (!isObject(text) || !isObject(format) || format["type"] !== "json_schema") return text;
  const name = formatName(format["name"]);
  return name === format["name"] ? text : { ...text, format: { ...format, name } };
}

/**
 * Orders as edits of a body's top-level fields, whether the client wrote it or `encodeRequest` (design 1). Nothing is ever stored
 * upstream (contract 3), so that reasoning travels encrypted. Only fields that really change are named.
 */
export function amend(body: Wire, orders: Orders, quirks: Quirks): Edits {
  const named = plainTerms(body, quirks)?.edits ?? nameEdits(body);
  const edits = named
    ? { ...named, ...amendNamed({ ...body, ...named }, orders, quirks) }
    : amendNamed(body, orders, quirks);
  if (quirks.noDeveloperRole) setSystemRole(body, edits);
  if (knowsLess(quirks)) leaveOutUnknown(body, edits);
  if (quirks.agentTerms) tellAgent(body, edits);
  return edits;
}

/** See {@link UpstreamDialect.plainer}: of a body that says what not every server of the dialect knows, to a vendor whose row says nothing of that. */
export function plainer(body: Wire, quirks: Quirks): Quirks | undefined {
  if (knowsAll(quirks) || knowsLess(quirks)) return undefined;
  const plain: Quirks = { noDeveloperRole: true, ...quirks, customTools: false };
  const { include } = body;
  const isOdd = Array.isArray(include) && include.some(isUnknown);
  return isOdd || plainTerms(body, plain) ? plain : undefined;
}

/**
 * How OpenAI says that it shows summaries of reasoning to verified organisations alone (openai/codex #1321), and how others say that they know none: "Your
 * organization must be verified to generate reasoning summaries", "Unsupported parameter: 'reasoning.summary'".
 */
const SUMMARY_REFUSED = /\breasoning[. ]summar(?:y|ies)\b/i;

/** And how Azure says of other makers' models that they give no proof of what they thought, which the gateway asks all of that think for (earendil-works/pi #6228). */
const PROOF_UNKNOWN = /^Encrypted content is not supported with this model\b/;

/** And how xAI says of its older models that they are told no depth (earendil-works/pi #8381). */
const DEPTH_UNKNOWN = /\bdoes not support parameter reasoningEffort\b/;

/** And OpenAI of Codex's models, which are wordy in one way alone (openai/codex #19188): it names no field, and a single value. */
const WORDINESS_UNKNOWN =
  /^Unsupported value: '\w+' is not supported with the '[^']+' model\. Supported values are: '\w+'\.$/;

/** See {@link UpstreamDialect.lessons}. A summary that a client asked for itself is asked for all the same. */
export function lessons(words: string, terms: VendorTerms): Lesson[] {
  const { quirks, refuses = [] } = terms;
  if (SUMMARY_REFUSED.test(words)) return [{ ...terms, quirks: { ...quirks, noReasoningSummary: true } }];
  if (PROOF_UNKNOWN.test(words)) return [{ ...terms, refuses: [...refuses, "include"] }];
  if (WORDINESS_UNKNOWN.test(words)) return [{ ...terms, refuses: [...refuses, "text.verbosity"] }];
  if (DEPTH_UNKNOWN.test(words)) return [{ ...terms, refuses: [...refuses, "reasoning.effort"] }];
  return [
    ...effortLessons("reasoning.effort", words, terms),
    ...ceilingLessons(words, terms),
    ...wholeLessons(words, terms),
    ...looseLessons(words, terms),
    ...imageLessons(words, terms),
  ];
}

const isDeveloper = (item: unknown): item is Wire => isObject(item) && item["role"] === "developer";

/** The developer's messages as the system's, for a server that does not know the former. */
function setSystemRole({ input: given }: Wire, edits: Edits): void {
  const input = Object.hasOwn(edits, "input") ? edits["input"] : given;
  if (!Array.isArray(input) || !input.some(isDeveloper)) return;
  edits["input"] = input.map((item: unknown) => (isDeveloper(item) ? { ...item, role: "system" } : item));
}

/** What may be asked for of any server to be included (openresponses.org, "Reference"): the rest is of tools that OpenAI runs. */
const INCLUDABLE: ReadonlySet<unknown> = new Set([ENCRYPTED, "message.output_text.logprobs"]);

const isUnknown = (entry: unknown): boolean => !INCLUDABLE.has(entry);

/** Leaves out what strict servers refuse: wishes for the results of OpenAI's tools, and fields that are null, which is as good as none (vLLM). */
function leaveOutUnknown(body: Wire, edits: Edits): void {
  const include = Object.hasOwn(edits, "include") ? edits["include"] : body["include"];
  if (Array.isArray(include) && include.some(isUnknown)) {
    const kept = include.filter((entry) => !isUnknown(entry));
    edits["include"] = kept.length > 0 ? kept : undefined;
  }
  for (const field in body) if (body[field] === null && !Object.hasOwn(edits, field)) edits[field] = undefined;
}

/** The input with calls whose arguments are an object; see {@link asObjectText}. The same value where none is in the way. */
const withObjectArguments = (input: unknown): unknown =>
  Array.isArray(input)
    ? mapChanged<unknown>(input, (item) => {
        const text = isObject(item) && item["type"] === "function_call" ? item["arguments"] : undefined;
        const sound = typeof text === "string" ? asObjectText(text) : text;
        return sound === text ? item : { ...(item as Wire), arguments: sound };
      })
    : input;

/** {@link amend} of a body whose tools are called as the vendor takes it. */
function amendNamed(body: Wire, orders: Orders, quirks: Quirks): Edits {
  const list = new EditList(body);
  const { edits } = list;
  list.set("model", orders.upstreamModel);
  if ((body["stream"] === true) !== orders.stream) list.set("stream", orders.stream);
  // It is refused without a stream.
  if (!orders.stream) list.set("stream_options", undefined);
  if (orders.maxOutputTokens !== undefined) {
    list.set("max_output_tokens", Math.max(MIN_OUTPUT_TOKENS, orders.maxOutputTokens));
  }
  list.set("store", false);
  const reasoning = wantedReasoning(orders.reasoning, orders.isReasoningActive, body, quirks);
  list.set("reasoning", withToolsInReach(reasoning, body));
  list.set("include", wantedInclude(body["include"], orders));
  list.set("text", withFormatName(body["text"]));
  list.set("tools", withLooseSchemas(body["tools"], quirks));
  const known = withoutGivenIds(withoutLostReasoning(body["input"], orders));
  const sound = soundInput(reasons(orders) || isMute(orders) ? withoutLoneIds(known) : known);
  const input = knowsAll(quirks) ? sound : withObjectArguments(sound);
  if (input !== body["input"]) edits["input"] = input;
  for (const field of orders.dropSampling ? ["temperature", "top_p", ...orders.remove] : orders.remove) {
    leaveOut(body, edits, field);
  }
  return edits;
}
