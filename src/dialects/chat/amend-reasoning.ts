import { budgetBelow, type Orders, type ReasoningOrder } from "../../canon/intent.ts";
import { isObject } from "../../lib/json.ts";
import type { EditList } from "../edit-list.ts";
import { REASONING_FIELDS } from "./intent.ts";

type Wire = Record<string, unknown>;

/** Words of `thinking.type`; a catalog that calls its positions `on` and `off` means enabled and disabled. */
const THINKING_TYPES = new Set(["adaptive", "auto", "enabled", "disabled"]);

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

/** Writes a reasoning order in the place of what the client says of reasoning; an order to keep that changes nothing. The ceiling is set before. */
export function amendReasoning(list: EditList, orders: Orders): void {
  if (orders.reasoning.kind === "keep") return;
  for (const field of REASONING_FIELDS) list.remove(field);
  if (orders.reasoning.kind === "nothing") return;
  const ceiling = list.get("max_completion_tokens") ?? list.get("max_tokens");
  for (const [field, value] of Object.entries(reasoningFields(orders.reasoning, list.body, ceiling))) {
    if (value !== undefined) list.set(field, value);
  }
}
