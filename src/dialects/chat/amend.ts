import type { Orders } from "../../canon/intent.ts";
import { isObject } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged } from "../../lib/map-changed.ts";
import { withChatMarks } from "../cache-marks.ts";
import type { Quirks } from "../dialect.ts";
import { EditList } from "../edit-list.ts";
import { goingFields } from "../going-fields.ts";
import { knowsAll, knowsLess } from "../knows-all.ts";
import { CONTINUE_TEXT } from "../refusals/own-words.ts";
import { amendMessage } from "./amend-message.ts";
import { amendReasoning } from "./amend-reasoning.ts";
import { amendToolChoice, amendTools } from "./amend-tools.ts";
import { withObjectArguments } from "./call-arguments.ts";
import { withOwnCallIds } from "./call-ids.ts";
import { isUsageWish } from "./intent.ts";
import { toFunctionMessages, toolEdits } from "./older-tools.ts";
import { fitFormat } from "./output-format.ts";
import { withPlainFormat } from "./plain-schema.ts";
import { inRoleOrder, inTurns, openedByUser, withOneSystem, withoutSystem } from "./role-order.ts";
import { soundMessages } from "./sound-messages.ts";
import { saidStops } from "./stops.ts";
import { withTextResults } from "./text-results.ts";
import { nameEdits } from "./wire-names.ts";

type Wire = Record<string, unknown>;

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

/** What the client says of it stands. */
function amendToolStream(list: EditList, { stream }: Orders, quirks: Quirks): void {
  if (quirks.toolStream && stream && list.get("tools") && list.body["tool_stream"] == null)
    list.set("tool_stream", true);
}

/**
 * The name of the ceiling. For a vendor of which nothing is known it is the client's own, else the older one (dialects.md 4.1): many servers read that
 * alone, and lose the other without a word, while OpenAI's, which refuses the older one, says so.
 */
export function ceilingField(
  { max_completion_tokens: newer }: Wire,
  quirks: Quirks,
): "max_tokens" | "max_completion_tokens" {
  const isUnknown = !knowsAll(quirks) && !knowsLess(quirks);
  return quirks.maxTokensField ?? (newer == null && isUnknown ? "max_tokens" : "max_completion_tokens");
}

function amendMaxTokens(list: EditList, orders: Orders, quirks: Quirks): void {
  const field = ceilingField(list.body, quirks);
  const other = field === "max_tokens" ? "max_completion_tokens" : "max_tokens";
  const value = orders.maxOutputTokens ?? list.body["max_completion_tokens"] ?? list.body["max_tokens"];
  if (value == null) {
    // It is no wish, and who knows the older name alone refuses the newer one also without a value.
    if (quirks.maxTokensField === "max_tokens") list.remove(other);
    return;
  }
  list.set(field, value);
  list.remove(other);
}

function amendTemperature(list: EditList, { maxTemperature: most }: Quirks): void {
  const { temperature } = list.body;
  if (most !== undefined && typeof temperature === "number" && temperature > most) list.set("temperature", most);
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

/** Mistral's models are as strict at every server that reads their conversations with its library; aggregators name them so, and their weights are. */
const mindsRoleOrder = (quirks: Quirks, { upstreamModel }: Orders): boolean =>
  quirks.strictRoleOrder === true || upstreamModel.startsWith("mistralai/");

function inOrder(messages: readonly unknown[], orders: Orders, quirks: Quirks): readonly unknown[] {
  const said = quirks.noSystemRole ? withoutSystem(messages) : messages;
  const led = quirks.oneSystemMessage ? withOneSystem(said) : said;
  const turns = quirks.alternatingRoles ? inTurns(led) : led;
  const opened = quirks.userFirst ? openedByUser(turns) : turns;
  return mindsRoleOrder(quirks, orders) ? inRoleOrder(opened) : opened;
}

function amendMessages(
  list: EditList,
  orders: Orders,
  quirks: Quirks,
  choiceHint: string | undefined,
  formatHint: string | undefined,
): void {
  const messages = list.body["messages"];
  if (!Array.isArray(messages)) return;
  const sound = soundMessages(toFunctionMessages(messages, quirks));
  const named = withOwnCallIds(sound, orders.upstreamModel);
  const shown = knowsAll(quirks) || quirks.textResults ? withTextResults(named) : named;
  const told = withHint(withHint(shown, choiceHint), formatHint);
  // OpenAI's own servers alone take whatever a model once wrote as arguments.
  const read = knowsAll(quirks) ? told : withObjectArguments(told);
  const taken = mapChanged(read, (message) => (isObject(message) ? amendMessage(message, quirks) : message));
  // A turn may have been no more than what this vendor does not take.
  const known = taken === told ? told : soundMessages(taken);
  const amended = amendPrefill(inOrder(known, orders, quirks), list, quirks);
  // Not through `set`, which would write a long conversation twice only to compare it.
  if (amended !== messages) list.edits["messages"] = amended;
}

/** Fields that nobody has filled, as clients with checked types write them. */
function leaveOutNulls(list: EditList): void {
  for (const field in list.body) if (list.get(field) === null) list.remove(field);
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
  amendToolStream(list, orders, quirks);
  if (quirks.acceptsCacheControl) amendCacheMarks(list, orders);
  amendReasoning(list, orders);
  if (quirks.unknownFields) for (const field of quirks.unknownFields) list.remove(field);
  for (const field of goingFields(orders)) list.remove(field);
  if (quirks.noNulls) leaveOutNulls(list);
  return list.edits;
}
