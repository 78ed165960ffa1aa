import {
  budgetBelow,
  LEVEL_BUDGETS,
  type Orders,
  type ReasoningForm,
  type ReasoningOrder,
} from "../../canon/intent.ts";
import { isObject } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { OFF_TYPES } from "./intent.ts";
import { freeToolChoice } from "./tool-choice.ts";
import { continuesWithoutThinking } from "./tool-loop.ts";

/** Smallest thinking budget its own vendor takes, tokens (dialects.md 2.1). */
const MIN_BUDGET = 1024;
/** The budget for `on` without a level, and for a level nobody knows. */
const DEFAULT_BUDGET = 10_000;

const budgetOf = (level: unknown): number => LEVEL_BUDGETS.get(String(level)) ?? DEFAULT_BUDGET;

type Body = Record<string, unknown>;
type Thinking = Record<string, unknown> | undefined;
/** What shall stand in the body: the thinking object and the effort; undefined means none. */
type Wanted = { thinking: Thinking; effort?: string };

const NO_THINKING: Record<string, unknown> = Object.freeze({});
const NONE: Wanted = { thinking: undefined };
const DISABLED: Wanted = { thinking: { type: "disabled" } };

const thinkingOf = ({ thinking }: Body): Record<string, unknown> => (isObject(thinking) ? thinking : NO_THINKING);

/** Most requests say nothing of thinking, and shall not. */
const isSame = (one: unknown, other: Thinking): boolean => one === other || Bun.deepEquals(one, other);

/** Adaptive thinking: the client's own object where it wrote one, else with a summary, as newer models hide their text without it. */
function adaptive(body: Body): Thinking {
  const thinking = thinkingOf(body);
  if (thinking["type"] === "adaptive") return thinking;
  return { type: "adaptive", display: thinking["display"] ?? "summarized" };
}

/** What the client says of its thinking beside the budget; of another type only what every type knows. */
function besideBudget({ type, budget_tokens: _budget, ...rest }: Record<string, unknown>): Record<string, unknown> {
  const { display } = rest;
  return type === "enabled" ? rest : display === undefined ? {} : { display };
}

/** Thinking with a budget below the ceiling; off where it cannot fit. */
function budgeted(body: Body, tokens: number, ceiling: number | undefined): Wanted {
  if (continuesWithoutThinking(body["messages"])) return DISABLED;
  const wanted = Math.floor(tokens);
  const fits = ceiling === undefined || wanted < ceiling;
  const budget = Math.max(MIN_BUDGET, fits ? wanted : budgetBelow(ceiling));
  if (ceiling !== undefined && budget >= ceiling) return DISABLED;
  return { thinking: { type: "enabled", budget_tokens: budget, ...besideBudget(thinkingOf(body)) } };
}

type Positive = Exclude<ReasoningOrder, { kind: "keep" | "nothing" | "off" }>;
type Writer = {
  positive(order: Positive, body: Body, ceiling: number | undefined): Wanted;
  off: (value: string | undefined) => Wanted;
};

const levelOf = (order: Positive): string | undefined => (order.kind === "level" ? order.level : undefined);

/** Some models are switched off by another word than `disabled` (dialects.md 5.1: between_tools). */
const switchedOff = (value: string | undefined): Wanted =>
  value === "between_tools" ? { thinking: { type: value } } : DISABLED;

/** How each form of this dialect is written (dialects.md 2.9, 5.1). A form of another dialect writes nothing. */
const WRITERS: Partial<Record<ReasoningForm, Writer>> = {
  "adaptive-effort": {
    positive(order, body) {
      const effort = levelOf(order);
      return { thinking: adaptive(body), ...(effort !== undefined && { effort }) };
    },
    off: switchedOff,
  },
  "effort-only": {
    positive(order) {
      const effort = levelOf(order);
      return { thinking: undefined, ...(effort !== undefined && { effort }) };
    },
    off: () => NONE,
  },
  budget: {
    positive(order, body, ceiling) {
      if (order.kind === "budget") return budgeted(body, order.tokens, ceiling);
      return budgeted(body, budgetOf(levelOf(order)), ceiling);
    },
    off: switchedOff,
  },
  "adaptive-switch": {
    // Models of this form know the bare word only, so no display is added to it.
    positive(order, body) {
      const type = (order.kind === "on" && order.value) || "adaptive";
      return { thinking: thinkingOf(body)["type"] === type ? thinkingOf(body) : { type } };
    },
    off: switchedOff,
  },
};

function wantedBy(order: ReasoningOrder, body: Body, ceiling: number | undefined): Wanted {
  if (order.kind === "keep" || order.kind === "nothing") return NONE;
  const writer = WRITERS[order.form];
  if (!writer) return NONE;
  return order.kind === "off" ? writer.off(order.value) : writer.positive(order, body, ceiling);
}

/** Depths that every model with an effort takes, also while it does not think (dialects.md 2.9). */
const USUAL_EFFORTS: ReadonlySet<unknown> = new Set(["low", "medium", "high"]);

/**
 * The effort of a request without thinking: it says how much goes into the whole answer, so that the client's own stays, also where the model cannot
 * be switched off. Undefined where there is none, or where the model may refuse it.
 */
function keptEffort({ reasoning }: Orders, body: Body, effort: unknown): string | undefined {
  if (reasoning.kind !== "off" && reasoning.kind !== "nothing") return undefined;
  const isTaken = reasoning.form === "adaptive-effort" && USUAL_EFFORTS.has(effort);
  return isTaken && OFF_TYPES.has(thinkingOf(body)["type"]) ? String(effort) : undefined;
}

const effortIn = ({ output_config: config }: Body): unknown => (isObject(config) ? config["effort"] : undefined);

/** Whether an effort was taken out of a request because it is, or was, to be without thinking. */
export function losesEffort(body: Body, edits: Edits, { reasoning: { kind } }: Orders): boolean {
  const isOff = kind === "off" || (kind === "nothing" && OFF_TYPES.has(thinkingOf(body)["type"]));
  return isOff && effortIn(body) != null && Object.hasOwn(edits, "output_config") && !effortIn(edits);
}

/** The client's output_config with this effort, or without any; undefined when nothing else is left in it. */
function configWith(config: unknown, effort: string | undefined): Body | undefined {
  const { effort: _replaced, ...rest } = isObject(config) ? config : {};
  const wanted = effort === undefined ? rest : { ...rest, effort };
  return Object.keys(wanted).length === 0 ? undefined : wanted;
}

/** The client's own thinking, where its vendor can be told that: below a ceiling that was lowered, and by a budget where it knows no other way. */
function keepThinking(body: Body, edits: Edits, orders: Orders, ceiling: number | undefined): void {
  const { type, budget_tokens: budget } = thinkingOf(body);
  if (type === "adaptive" && orders.thinksByBudget) {
    edits["thinking"] = budgeted(body, budgetOf(effortIn(body)), ceiling).thinking;
  }
  if (type !== "enabled") return;
  const { maxOutputTokens: lowered } = orders;
  const isAbove = lowered !== undefined && typeof budget === "number" && budget >= lowered;
  if (isAbove) edits["thinking"] = budgeted(body, budget, lowered).thinking;
  else if (continuesWithoutThinking(body["messages"])) edits["thinking"] = DISABLED.thinking;
}

/**
 * Adds the reasoning order to `edits`, as `thinking`, `output_config` and `tool_choice` (interface 4.8). Only what differs from the client's
 * own words is edited. The ceiling is the one that goes upstream: budgets shrink below it, it is never raised.
 */
export function editReasoning(body: Body, edits: Edits, orders: Orders): void {
  const own = body["max_tokens"];
  const ceiling = orders.maxOutputTokens ?? (typeof own === "number" ? own : undefined);
  if (orders.reasoning.kind === "keep" && !orders.missesThought) {
    keepThinking(body, edits, orders, ceiling);
    return;
  }
  const wanted = orders.missesThought ? DISABLED : wantedBy(orders.reasoning, body, ceiling);
  if (!isSame(body["thinking"], wanted.thinking)) edits["thinking"] = wanted.thinking;
  const effort = effortIn(body);
  const wantedEffort = wanted.effort ?? keptEffort(orders, body, effort);
  if (effort !== wantedEffort) edits["output_config"] = configWith(body["output_config"], wantedEffort);
  // A forced tool call is refused while thinking is enabled with a budget (dialects.md 2.9, 4.8 #50).
  const freed = wanted.thinking?.["type"] === "enabled" ? freeToolChoice(body["tool_choice"]) : undefined;
  if (freed) edits["tool_choice"] = freed;
}
