import type { Intent, Orders, ReasoningIntent, ReasoningOrder } from "../canon/intent.ts";
import type { Entry, Route } from "../catalog/entry.ts";
import { effortOfBudget, ignoresReasoning, planReasoning } from "../catalog/reasoning.ts";
import { asksForNothing } from "../dialects/chat/decode-request.ts";
import type { Quirks, UpstreamDialect } from "../dialects/dialect.ts";
import { isSame } from "../dialects/translate.ts";
import { isObject } from "../lib/json.ts";
import type { Job } from "./job.ts";
import type { Target } from "./target.ts";

/** Output ceiling for an upstream that demands one, when neither the client nor the catalog names any. Every current messages model of Anthropic's takes it. */
const DEFAULT_MAX_OUTPUT = 8_192;

/** The same in tokens for a model of a smaller window, such as one of one's own vLLM: prompt and answer have to fit in together. */
const defaultCeiling = ({ contextLength = Number.POSITIVE_INFINITY }: Entry): number =>
  Math.min(DEFAULT_MAX_OUTPUT, Math.ceil(contextLength / 2));

/**
 * The ceiling on output to send in place of the client's, tokens; undefined: the client's own stays. `paidFor`: what the account's money pays for, which is
 * sent where it is the lower one.
 */
function outputCeiling(
  intent: Intent,
  entry: Entry,
  upstream: UpstreamDialect,
  quirks: Quirks,
  paidFor: number | undefined,
): number | undefined {
  const told = modelCeiling(intent, entry, upstream, quirks);
  const sent = told ?? intent.maxOutputTokens;
  if (paidFor === undefined || (sent !== undefined && sent <= paidFor)) return told;
  return Math.min(paidFor, quirks.maxOutputTokens ?? paidFor);
}

/**
 * The ceiling of the model, tokens, where the client asks for more than it, or names none and the vendor demands one: the lower one of what the catalog says
 * and what the vendor's row says or its refusal has told. A figure of the vendor's own list is left to the vendor to enforce.
 */
function modelCeiling(intent: Intent, entry: Entry, upstream: UpstreamDialect, quirks: Quirks): number | undefined {
  const asked = intent.maxOutputTokens;
  const { maxOutputTokens: taken = Number.POSITIVE_INFINITY } = quirks;
  const { maxOutputTokens: listed, isListed } = entry;
  if (asked === undefined) {
    return upstream.demandsOutputCeiling ? Math.min(listed ?? defaultCeiling(entry), taken) : undefined;
  }
  const most = isListed || listed === undefined ? taken : Math.min(listed, taken);
  return asked > most ? most : undefined;
}

/**
 * The route with a form of the reasoning control that its vendor's dialect can write. A row that says nothing of its form, or is served by a
 * vendor of another dialect than the form's own, would else have no control at all.
 */
function withForm(route: Route, entry: Entry, { reasoningForms }: UpstreamDialect): Route {
  const form = route.form ?? entry.reasoning?.form;
  return form === undefined || reasoningForms.includes(form) ? route : { ...route, form: reasoningForms[0] };
}

/**
 * The entry as its reasoning is steered here. Where a model's depths are its vendor's own affair (`uncharted`, though a control is known), only a request that
 * crosses dialects is steered: in the client's own dialect its fields go on, and the vendor itself brings them to what the model has.
 */
const steered = (entry: Entry, isAcross: boolean): Entry =>
  entry.uncharted && entry.reasoning && isAcross ? { ...entry, uncharted: false } : entry;

/**
 * The order of a request that crosses dialects, as its vendor's row has it told: off of a model that is off unasked, and by which way a model is switched off of
 * whose control nothing is known, since the client's own field does not cross.
 */
function tellOff(order: ReasoningOrder, wish: ReasoningIntent, { reasoning }: Entry, quirks: Quirks): ReasoningOrder {
  const { reasoningOff: form, silentOff } = quirks;
  if (silentOff && order.kind === "off" && !reasoning?.reasonsByDefault) return { kind: "nothing" };
  return order.kind === "keep" && wish.kind === "off" && form !== undefined ? { kind: "off", form } : order;
}

/** Where a model's refusal has told that it takes a level, and the client asks for a budget, orders the level (interface 4.8); any other order stays. */
export function tellByEffort(orders: Orders, wish: ReasoningIntent): void {
  if (orders.reasoning.kind !== "keep" || wish.kind !== "budget" || wish.tokens <= 0) return;
  orders.reasoning = { kind: "level", form: "adaptive-effort", level: effortOfBudget(wish.tokens) };
  orders.isReasoningActive = true;
  orders.dropSampling = true;
}

/** What the gateway changes in this request, and nothing else. Pure. `quirks`: the vendor's, with what it has taught by refusing. */
export function planOrders(
  { intent, entry, money }: Pick<Job, "intent" | "entry" | "money">,
  { route, client, upstream }: Pick<Target, "route" | "client" | "upstream">,
  quirks: Quirks,
): Orders {
  const isAcross = !isSame(client, upstream);
  const wish = isAcross ? (intent.turnReasoning ?? intent.reasoning) : intent.reasoning;
  const reasoning = planReasoning(wish, steered(entry, isAcross), withForm(route, entry, upstream));
  const maxOutputTokens = outputCeiling(intent, entry, upstream, quirks, money?.ceiling);
  // A wish to reason does not cross to a model of which nobody knows how it is steered: it may reason or not, as without the wish, and keeps its sampling.
  const isUntold = isAcross && reasoning.order.kind === "keep";
  const orders: Orders = {
    upstreamModel: route.model,
    stream: intent.stream || money?.asStream === true,
    reasoning: isAcross ? tellOff(reasoning.order, wish, entry, quirks) : reasoning.order,
    isReasoningActive: reasoning.active,
    dropSampling: reasoning.active && !isUntold,
    remove: intent.remove ? [...intent.remove, ...reasoning.refused] : reasoning.refused,
  };
  if (maxOutputTokens !== undefined) orders.maxOutputTokens = maxOutputTokens;
  if (ignoresReasoning(wish, reasoning)) orders.isReasoningIgnored = true;
  if (entry.capabilities.reasoning && !entry.reasoning) orders.reasonsUnsteered = true;
  return orders;
}

/** Whether the vendor gives a reply that is wanted whole as a stream alone. `orders`: what it is told. */
export function onlyStreams(orders: Orders, { maxOutputTokens }: Intent, quirks: Quirks): boolean {
  const ceiling = orders.maxOutputTokens ?? maxOutputTokens ?? 0;
  if (quirks.streamsReasoning && orders.reasoning.kind !== "off") return true;
  return quirks.maxWholeTokens !== undefined && ceiling > quirks.maxWholeTokens;
}

/** Chat fields that ask for what is lost when a stream is collected into one reply: several choices, likelihoods, sound. */
const LOST_IN_COLLECTING = ["n", "logprobs", "top_logprobs", "audio", "modalities"];

/** Whether the reply loses nothing when it comes as a stream and is put together. */
export function isCollectable(body: unknown): boolean {
  if (!isObject(body)) return false;
  // Clients with checked types write every field that they know.
  const isUsual = (field: string) => (field === "n" && body[field] === 1) || asksForNothing(field, body[field]);
  return LOST_IN_COLLECTING.every(isUsual);
}
