import type { Orders, ReasoningOrder } from "../../canon/intent.ts";
import { type Edits, isObject } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import { shortCallId } from "./call-ids.ts";

type Wire = Record<string, unknown>;

/** Every spelling of a client's wish about reasoning (dialects.md 1.1). */
const REASONING_FIELDS = ["reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget"] as const;

/** Words of `thinking.type`; a catalog that calls its positions `on` and `off` means enabled and disabled. */
const THINKING_TYPES = new Set(["adaptive", "auto", "enabled", "disabled"]);

/** The edits of one body: a field counts as edited only when its value really changes, so that all else stays byte-equal. */
class EditList {
  readonly edits: Edits = {};
  constructor(readonly body: Wire) {}

  set(field: string, value: unknown): void {
    if (JSON.stringify(this.body[field]) === JSON.stringify(value)) delete this.edits[field];
    else this.edits[field] = value;
  }

  remove(field: string): void {
    if (Object.hasOwn(this.body, field)) this.edits[field] = undefined;
    else delete this.edits[field];
  }
}

function amendStream(list: EditList, orders: Orders, quirks: Quirks): void {
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

function amendMaxTokens(list: EditList, orders: Orders, quirks: Quirks): void {
  const field = quirks.maxTokensField ?? "max_completion_tokens";
  const other = field === "max_tokens" ? "max_completion_tokens" : "max_tokens";
  const value = orders.maxOutputTokens ?? list.body["max_completion_tokens"] ?? list.body["max_tokens"];
  if (value == null) return;
  list.set(field, value);
  list.remove(other);
}

const thinkingType = (value: string | undefined, usual: string) =>
  value !== undefined && THINKING_TYPES.has(value) ? value : usual;

/** The fields of a reasoning order in the model's form (dialects.md 5.1). Forms of other dialects write nothing here. */
function reasoningFields(order: ReasoningOrder, body: Wire): Wire {
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
      return { enable_thinking: !isOff, thinking_budget: budget };
    case "template-enable-thinking":
      return { chat_template_kwargs: { ...template, enable_thinking: !isOff } };
    case "template-thinking":
      return { chat_template_kwargs: { ...template, thinking: !isOff } };
    case "reasoning-object":
      if (isOff) return { reasoning: { enabled: false } };
      if (budget !== undefined) return { reasoning: { max_tokens: budget } };
      return { reasoning: order.kind === "level" ? { effort: value } : { enabled: true } };
    default:
      return {};
  }
}

function amendReasoning(list: EditList, orders: Orders): void {
  if (orders.reasoning.kind === "keep") return;
  for (const field of REASONING_FIELDS) list.remove(field);
  for (const [field, value] of Object.entries(reasoningFields(orders.reasoning, list.body))) {
    if (value !== undefined) list.set(field, value);
  }
}

function amendToolChoice(list: EditList, quirks: Quirks): void {
  const choice = list.body["tool_choice"];
  if (quirks.toolChoiceRequired === "any" && choice === "required") list.set("tool_choice", "any");
  if (quirks.toolChoiceRequired !== "auto") return;
  if (choice === "required" || isObject(choice)) list.set("tool_choice", "auto");
}

/** One message as this upstream takes it: the same object where nothing is in its way. */
function amendMessage(message: Wire, quirks: Quirks): Wire {
  const changes: Wire = {};
  const isAssistant = message["role"] === "assistant";
  if (quirks.noDeveloperRole && message["role"] === "developer") changes["role"] = "system";
  if (isAssistant && quirks.emptyContent && message["content"] == null) changes["content"] = "";
  if (isAssistant && quirks.reasoningReplayAlways && typeof message["reasoning_content"] !== "string") {
    const known = message["reasoning"];
    changes["reasoning_content"] = typeof known === "string" ? known : "";
  }
  if (quirks.nineCharacterToolIds) amendCallIds(message, changes);
  for (const _ in changes) return { ...message, ...changes };
  return message;
}

function amendCallIds(message: Wire, changes: Wire): void {
  const resultOf = message["tool_call_id"];
  if (typeof resultOf === "string" && shortCallId(resultOf) !== resultOf) {
    changes["tool_call_id"] = shortCallId(resultOf);
  }
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return;
  const isLong = (call: unknown): call is Wire & { id: string } =>
    isObject(call) && typeof call["id"] === "string" && shortCallId(call["id"]) !== call["id"];
  if (!calls.some(isLong)) return;
  changes["tool_calls"] = calls.map((call) => (isLong(call) ? { ...call, id: shortCallId(call.id) } : call));
}

function amendMessages(list: EditList, quirks: Quirks): void {
  const messages = list.body["messages"];
  const hasOddity =
    quirks.noDeveloperRole || quirks.emptyContent || quirks.reasoningReplayAlways || quirks.nineCharacterToolIds;
  if (!hasOddity || !Array.isArray(messages)) return;
  let changed = false;
  const amended = messages.map((message: unknown) => {
    const sound = isObject(message) ? amendMessage(message, quirks) : message;
    if (sound !== message) changed = true;
    return sound;
  });
  // Not through `set`, which would write a long conversation twice only to compare it.
  if (changed) list.edits["messages"] = amended;
}

/**
 * Orders as edits of a chat body (dialects.md 1.1, 4.8 #31 and #50, 5.1; the oddities of an upstream). Only fields that really change
 * are named, `undefined` where one is taken out.
 */
export function amend(body: Wire, orders: Orders, quirks: Quirks): Edits {
  const list = new EditList(body);
  list.set("model", orders.upstreamModel);
  amendStream(list, orders, quirks);
  amendMaxTokens(list, orders, quirks);
  if (orders.dropSampling) for (const field of ["temperature", "top_p", "top_k"]) list.remove(field);
  if (quirks.seedField === "random_seed" && body["seed"] != null) {
    list.set("random_seed", body["seed"]);
    list.remove("seed");
  }
  amendMessages(list, quirks);
  amendToolChoice(list, quirks);
  amendReasoning(list, orders);
  for (const field of orders.remove) list.remove(field);
  return list.edits;
}
