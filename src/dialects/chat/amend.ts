import { budgetBelow, type Orders, type ReasoningOrder, reasons } from "../../canon/intent.ts";
import { type Edits, isEmpty, isObject, listOf } from "../../lib/json.ts";
import { mapChanged } from "../../lib/map-changed.ts";
import { withChatMarks } from "../cache-marks.ts";
import type { Quirks } from "../dialect.ts";
import { withNamedProperties } from "../function-schema.ts";
import { goingFields } from "../going-fields.ts";
import { CONTINUE_TEXT, callHint } from "../own-words.ts";
import { withObjectArguments } from "./call-arguments.ts";
import { shortCallId, withOwnCallIds } from "./call-ids.ts";
import { evenStrict } from "./even-strict.ts";
import { isUsageWish, REASONING_FIELDS } from "./intent.ts";
import { amendFields, joinContent, removeMarks, unmarkedTools } from "./message-fields.ts";
import { toFunctionMessages, toolEdits } from "./older-tools.ts";
import { fitFormat } from "./output-format.ts";
import { PICTURES, refusesPictures } from "./pictures.ts";
import { withPlainFormat, withPlainSchemas } from "./plain-schema.ts";
import { LOST_REASONING, lacksReasoning, renameReasoning } from "./replay.ts";
import { inRoleOrder, inTurns, openedByUser, withOneSystem } from "./role-order.ts";
import { soundMessages } from "./sound-messages.ts";
import { saidStops } from "./stops.ts";
import { nameEdits } from "./wire-names.ts";

type Wire = Record<string, unknown>;

/** Words of `thinking.type`; a catalog that calls its positions `on` and `off` means enabled and disabled. */
const THINKING_TYPES = new Set(["adaptive", "auto", "enabled", "disabled"]);

/** Equal as JSON. Hardly ever is more than a word compared. */
const isSame = (before: unknown, value: unknown): boolean =>
  before === value ||
  (typeof before === "object" && typeof value === "object" && JSON.stringify(before) === JSON.stringify(value));

/** The edits of one body: a field counts as edited only when its value really changes, so that all else stays byte-equal. */
class EditList {
  readonly edits: Edits = {};
  constructor(readonly body: Wire) {}

  /** A field as it goes out so far; undefined for one that is taken out. */
  get(field: string): unknown {
    return Object.hasOwn(this.edits, field) ? this.edits[field] : this.body[field];
  }

  set(field: string, value: unknown): void {
    if (isSame(this.body[field], value)) delete this.edits[field];
    else this.edits[field] = value;
  }

  remove(field: string): void {
    if (Object.hasOwn(this.body, field)) this.edits[field] = undefined;
    else delete this.edits[field];
  }
}

function amendStream(list: EditList, orders: Orders, quirks: Quirks): void {
  // The gateway grants it, and many vendors refuse what they do not know. Its own vendor is the one that takes cache marks.
  if (!quirks.acceptsCacheControl && isUsageWish(list.body["usage"])) list.remove("usage");
  if (!orders.stream) {
    if (list.body["stream"] === true) list.set("stream", false);
    // It is refused without a stream.
    list.remove("stream_options");
    return;
  }
  list.set("stream", true);
  if (quirks.noStreamOptions) {
    list.remove("stream_options");
    return;
  }
  const own = isObject(list.body["stream_options"]) ? list.body["stream_options"] : {};
  list.set("stream_options", { ...own, include_usage: true });
}

/**
 * The name of the ceiling. For a vendor of which nothing is known it is the client's own, else the older one (dialects.md 4.1): many servers read that
 * alone, and lose the other without a word, while OpenAI's, which refuses the older one, says so.
 */
export const ceilingField = (
  { max_completion_tokens: newer }: Wire,
  { maxTokensField, customTools }: Quirks,
): "max_tokens" | "max_completion_tokens" =>
  maxTokensField ?? (newer == null && customTools === undefined ? "max_tokens" : "max_completion_tokens");

function amendMaxTokens(list: EditList, orders: Orders, quirks: Quirks): void {
  const field = ceilingField(list.body, quirks);
  const other = field === "max_tokens" ? "max_completion_tokens" : "max_tokens";
  const value = orders.maxOutputTokens ?? list.body["max_completion_tokens"] ?? list.body["max_tokens"];
  if (value == null) {
    // It is no wish, and who knows the older name alone refuses the newer one also without a value.
    if (quirks.maxTokensField === "max_tokens") list.remove(other);
    return;
  }
  const { maxOutputTokens: most } = quirks;
  list.set(field, most !== undefined && typeof value === "number" && value > most ? most : value);
  list.remove(other);
}

function amendTemperature(list: EditList, { maxTemperature: most }: Quirks): void {
  const { temperature } = list.body;
  if (most !== undefined && typeof temperature === "number" && temperature > most) list.set("temperature", most);
}

const thinkingType = (value: string | undefined, usual: string) =>
  value !== undefined && THINKING_TYPES.has(value) ? value : usual;

/** A budget that leaves room for the answer where both share the ceiling. */
const within = (budget: number, ceiling: unknown): number =>
  typeof ceiling === "number" && budget >= ceiling ? budgetBelow(ceiling) : budget;

/**
 * The fields of a reasoning order in the model's form (dialects.md 5.1). Forms of other dialects write nothing here. `ceiling`: of what is thought and said
 * together, tokens.
 */
function reasoningFields(order: ReasoningOrder, body: Wire, ceiling: unknown): Wire {
  if (order.kind === "keep" || order.kind === "nothing") return {};
  const isOff = order.kind === "off";
  const value = order.kind === "level" ? order.level : order.kind === "budget" ? undefined : order.value;
  const budget = order.kind === "budget" ? order.tokens : undefined;
  const template = isObject(body["chat_template_kwargs"]) ? body["chat_template_kwargs"] : {};
  switch (order.form) {
    case "effort":
      return { reasoning_effort: value ?? (isOff ? "none" : undefined) };
    case "thinking-type":
    case "thinking-type-effort": {
      const own = isObject(body["thinking"]) ? body["thinking"] : {};
      const { type: _type, budget_tokens: _budget, ...rest } = own;
      const type = isOff ? thinkingType(value, "disabled") : thinkingType(value, "enabled");
      const effort = order.form === "thinking-type-effort" && order.kind === "level" ? value : undefined;
      return {
        thinking: { ...rest, type, ...(budget !== undefined && { budget_tokens: budget }) },
        reasoning_effort: effort,
      };
    }
    case "enable-thinking":
      return { enable_thinking: !isOff, thinking_budget: budget === undefined ? undefined : within(budget, ceiling) };
    case "template-enable-thinking":
      return { chat_template_kwargs: { ...template, enable_thinking: !isOff } };
    case "template-thinking":
      return { chat_template_kwargs: { ...template, thinking: !isOff } };
    case "reasoning-object": {
      const own = isObject(body["reasoning"]) ? body["reasoning"] : {};
      // What else its vendor knows, such as that the reply is to be without the text.
      const { effort: _effort, max_tokens: _tokens, enabled: _enabled, ...rest } = own;
      if (isOff) return { reasoning: { enabled: false, ...rest } };
      if (budget !== undefined) return { reasoning: { max_tokens: budget, ...rest } };
      return { reasoning: { ...(order.kind === "level" ? { effort: value } : { enabled: true }), ...rest } };
    }
    default:
      return {};
  }
}

function amendReasoning(list: EditList, orders: Orders): void {
  if (orders.reasoning.kind === "keep") return;
  for (const field of REASONING_FIELDS) list.remove(field);
  if (orders.reasoning.kind === "nothing") return;
  const ceiling = orders.maxOutputTokens ?? list.body["max_completion_tokens"] ?? list.body["max_tokens"];
  for (const [field, value] of Object.entries(reasoningFields(orders.reasoning, list.body, ceiling))) {
    if (value !== undefined) list.set(field, value);
  }
}

/** The name of the tool that a choice forces, or that a tool of a request has; undefined where there is none. */
function namedTool(choice: unknown): string | undefined {
  const called = isObject(choice) ? choice["function"] : undefined;
  const name = isObject(called) ? called["name"] : undefined;
  return typeof name === "string" ? name : undefined;
}

/** What is said in place of a forced choice. */
function hintFor(choice: unknown): string | undefined {
  if (choice === "required") return callHint();
  const name = namedTool(choice);
  return name === undefined ? undefined : callHint(name);
}

/** A tool forced by its name, for a server that knows `required` and no names: that tool alone. */
function tellAlone(list: EditList, choice: unknown): void {
  const name = namedTool(choice);
  if (name === undefined) return;
  const alone = listOf(list.get("tools")).filter((tool) => namedTool(tool) === name);
  // One that is not there is for the server to refuse.
  if (alone.length === 0) return;
  list.set("tools", alone);
  list.set("tool_choice", "required");
}

/** Whether a vendor cannot be told a forced choice now. */
function refusesForced(spelled: Quirks["toolChoiceRequired"], orders: Orders): boolean {
  if (spelled === "auto-while-reasoning") return reasons(orders);
  return (
    spelled === "auto" || spelled === "auto-alone" || (spelled === "auto-unless-off" && orders.reasoning.kind !== "off")
  );
}

/** What goes when no tools are told. */
const OF_TOOLS = ["tools", "tool_choice", "parallel_tool_calls"];

/** A forced choice in the vendor's spelling. Returns what is to be said in words where the vendor cannot force one. */
function amendToolChoice(list: EditList, orders: Orders, quirks: Quirks): string | undefined {
  const asked = list.get("tool_choice");
  // The one is Mistral's word, which its clients say to others too; the other is everybody else's.
  const choice = asked === "any" ? "required" : asked;
  const spelled = quirks.toolChoiceRequired;
  if (choice === "required") list.set("tool_choice", spelled === "any" ? "any" : choice);
  if (spelled === "unnamed") tellAlone(list, choice);
  if (spelled === "auto-alone" && choice === "none") for (const field of OF_TOOLS) list.remove(field);
  if (!refusesForced(spelled, orders)) return undefined;
  if (choice !== "required" && !isObject(choice)) return undefined;
  list.set("tool_choice", "auto");
  return hintFor(choice);
}

/** What the vendor does not take of the tools that are left. */
function amendTools(list: EditList, quirks: Quirks): void {
  const tools = list.get("tools");
  if (tools === undefined) return;
  const { tools: even } = evenStrict(tools, quirks);
  const unmarked = quirks.acceptsCacheControl === false ? unmarkedTools(even) : even;
  const named = quirks.namedProperties ? withNamedProperties(unmarked) : unmarked;
  list.set("tools", quirks.plainSchemas ? withPlainSchemas(named) : named);
}

function amendStop(list: EditList, quirks: Quirks): void {
  const said = saidStops(list.body, quirks);
  if (said === undefined) list.remove("stop");
  else list.set("stop", said);
}

/** Returns what is to be said of the format in words. */
function amendFormat(list: EditList, quirks: Quirks): string | undefined {
  const { format, hint } = fitFormat(list.body["response_format"], quirks, list.get("tools"));
  if (format === undefined) list.remove("response_format");
  else list.set("response_format", quirks.plainSchemas ? withPlainFormat(format) : format);
  return hint;
}

/** The system prompt with one more sentence at its end. */
function withHint(messages: readonly unknown[], hint: string | undefined): readonly unknown[] {
  if (hint === undefined) return messages;
  const [first, ...rest] = messages;
  if (!isObject(first) || (first["role"] !== "system" && first["role"] !== "developer")) {
    return [{ role: "system", content: hint }, ...messages];
  }
  const { content } = first;
  const said = Array.isArray(content)
    ? [...content, { type: "text", text: hint }]
    : `${String(content ?? "")}\n${hint}`;
  return [{ ...first, content: said }, ...rest];
}

/** A last assistant turn is to be continued: vendors want that said, each in its way (dialects.md 4.2 "prefill"). */
function amendPrefill(messages: readonly unknown[], list: EditList, quirks: Quirks): readonly unknown[] {
  const last = messages.at(-1);
  if (!quirks.prefill || !isObject(last) || last["role"] !== "assistant") return messages;
  if (quirks.prefill === "refused") return [...messages, { role: "user", content: CONTINUE_TEXT }];
  if (quirks.prefill === "prefix" || quirks.prefill === "partial")
    return [...messages.slice(0, -1), { ...last, [quirks.prefill]: true }];
  if (quirks.prefill === "continue" && list.body["add_generation_prompt"] === undefined) {
    list.set("continue_final_message", true);
    list.set("add_generation_prompt", false);
  }
  return messages;
}

/** Where an assistant turn carries its reasoning (dialects.md 1.1). JSON leaves out what is undefined. */
const REPLAYED = ["reasoning_content", "reasoning", "reasoning_details"] as const;

/** A call that carries another vendor's proof of reasoning (dialects.md 3.3). */
const isSigned = (call: unknown): call is Wire => isObject(call) && Object.hasOwn(call, "extra_content");
const withoutProof = (call: unknown) => (isSigned(call) ? { ...call, extra_content: undefined } : call);

/** One message as this upstream takes it: the same object where nothing is in its way. */
function amendMessage(message: Wire, quirks: Quirks): Wire {
  const changes: Wire = {};
  const isAssistant = message["role"] === "assistant";
  if (quirks.noDeveloperRole && message["role"] === "developer") changes["role"] = "system";
  if (isAssistant && quirks.emptyContent && message["content"] == null) changes["content"] = "";
  if (isAssistant && quirks.blankContent && message["tool_calls"] && !message["content"]) changes["content"] = " ";
  if (isAssistant && quirks.reasoningReplayAlways && typeof message["reasoning_content"] !== "string") {
    const known = message["reasoning"];
    changes["reasoning_content"] = typeof known === "string" ? known : "";
  }
  if (isAssistant && quirks.refusesReasoning) {
    for (const field of REPLAYED) if (Object.hasOwn(message, field)) changes[field] = undefined;
  }
  if (isAssistant && (quirks.refusesReasoning || quirks.unknownFields?.length)) removeProofs(message, changes);
  if (isAssistant && refusesPictures(quirks) && Object.hasOwn(message, PICTURES)) changes[PICTURES] = undefined;
  if (quirks.reasoningReplayCalls && lacksReasoning(message)) changes["reasoning_content"] = LOST_REASONING;
  if (quirks.nineCharacterToolIds) amendCallIds(message, changes);
  if (quirks.acceptsCacheControl === false) removeMarks(message, changes);
  if (quirks.joinedContent) joinContent(message, changes);
  if (quirks.messageFields) {
    if (isAssistant && quirks.reasoningReplay) renameReasoning(message, quirks.reasoningReplay, changes);
    amendFields(message, quirks.messageFields, changes);
  }
  if (quirks.documentUrls)
    amendDocuments(changes["content"] === undefined ? message : { ...message, ...changes }, changes);
  return isEmpty(changes) ? message : { ...message, ...changes };
}

/** A file part with its bytes in it. */
const isFilled = (part: unknown): part is Wire & { file: { file_data: string; filename?: unknown } } =>
  isObject(part) && part["type"] === "file" && isObject(part["file"]) && typeof part["file"]["file_data"] === "string";

function toDocumentUrl(part: unknown): unknown {
  if (!isFilled(part)) return part;
  const { file_data: url, filename } = part.file;
  return { type: "document_url", document_url: url, ...(typeof filename === "string" && { document_name: filename }) };
}

function amendDocuments({ content }: Wire, changes: Wire): void {
  if (Array.isArray(content) && content.some(isFilled)) changes["content"] = content.map(toDocumentUrl);
}

function removeProofs(message: Wire, changes: Wire): void {
  const calls = message["tool_calls"];
  if (Array.isArray(calls) && calls.some(isSigned)) changes["tool_calls"] = calls.map(withoutProof);
}

/** OpenAI's own alone take whatever a model once wrote as arguments. */
const readsArguments = (quirks: Quirks): boolean => quirks.customTools !== true;

function amendCallIds(message: Wire, changes: Wire): void {
  const resultOf = message["tool_call_id"];
  if (typeof resultOf === "string" && shortCallId(resultOf) !== resultOf) {
    changes["tool_call_id"] = shortCallId(resultOf);
  }
  const calls = changes["tool_calls"] ?? message["tool_calls"];
  if (!Array.isArray(calls)) return;
  const isLong = (call: unknown): call is Wire & { id: string } =>
    isObject(call) && typeof call["id"] === "string" && shortCallId(call["id"]) !== call["id"];
  if (!calls.some(isLong)) return;
  changes["tool_calls"] = calls.map((call) => (isLong(call) ? { ...call, id: shortCallId(call.id) } : call));
}

/** Mistral's models are as strict at every server that reads their conversations with its library; aggregators name them so, and their weights are. */
const mindsRoleOrder = (quirks: Quirks, { upstreamModel }: Orders): boolean =>
  quirks.strictRoleOrder === true || upstreamModel.startsWith("mistralai/");

function inOrder(messages: readonly unknown[], orders: Orders, quirks: Quirks): readonly unknown[] {
  const led = quirks.oneSystemMessage ? withOneSystem(messages) : messages;
  const turns = quirks.alternatingRoles ? inTurns(led) : led;
  const opened = quirks.userFirst ? openedByUser(turns) : turns;
  return mindsRoleOrder(quirks, orders) ? inRoleOrder(opened) : opened;
}

function amendMessages(list: EditList, orders: Orders, quirks: Quirks, choiceHint?: string, formatHint?: string): void {
  const messages = list.body["messages"];
  if (!Array.isArray(messages)) return;
  const sound = soundMessages(toFunctionMessages(messages, quirks));
  const named = withOwnCallIds(sound, orders.upstreamModel);
  const told = withHint(withHint(named, choiceHint), formatHint);
  const read = readsArguments(quirks) ? withObjectArguments(told) : told;
  const taken = mapChanged(read, (message) => (isObject(message) ? amendMessage(message, quirks) : message));
  // A turn may have been no more than what this vendor does not take.
  const known = taken === told ? told : soundMessages(taken);
  const amended = amendPrefill(inOrder(known, orders, quirks), list, quirks);
  // Not through `set`, which would write a long conversation twice only to compare it.
  if (amended !== messages) list.edits["messages"] = amended;
}

/** Prefix caches behind an aggregator, for clients that know nothing of marks (field.md 11). */
function amendCacheMarks(list: EditList, { upstreamModel }: Orders): void {
  const messages = list.get("messages");
  const marked = Array.isArray(messages) ? withChatMarks(list.body, messages, upstreamModel) : undefined;
  if (marked) list.edits["messages"] = marked;
}

/**
 * Orders as edits of a chat body (dialects.md 1.1, 1.2, 4.8 #31 and #50, 5.1; the oddities of an upstream). Only fields that really change
 * are named, `undefined` where one is taken out. Of the messages nothing changes that the vendor would take as it is.
 */
export function amend(body: Wire, orders: Orders, quirks: Quirks): Edits {
  const named = nameEdits(body, quirks);
  return named ? { ...named, ...amendNamed({ ...body, ...named }, orders, quirks) } : amendNamed(body, orders, quirks);
}

/** {@link amend} of a body whose tools are called as the vendor takes it. */
function amendNamed(body: Wire, orders: Orders, quirks: Quirks): Edits {
  const list = new EditList(body);
  list.set("model", orders.upstreamModel);
  amendStream(list, orders, quirks);
  amendMaxTokens(list, orders, quirks);
  amendTemperature(list, quirks);
  if (quirks.seedField === "random_seed") {
    if (body["seed"] != null) list.set("random_seed", body["seed"]);
    list.remove("seed");
  }
  Object.assign(list.edits, toolEdits(body, quirks));
  amendTools(list, quirks);
  amendStop(list, quirks);
  amendMessages(list, orders, quirks, amendToolChoice(list, orders, quirks), amendFormat(list, quirks));
  if (quirks.acceptsCacheControl) amendCacheMarks(list, orders);
  amendReasoning(list, orders);
  if (quirks.unknownFields) for (const field of quirks.unknownFields) list.remove(field);
  for (const field of goingFields(orders)) list.remove(field);
  return list.edits;
}
