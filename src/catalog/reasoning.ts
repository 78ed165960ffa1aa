import {
  type Effort,
  LEVEL_BUDGETS,
  OFF_WORDS,
  type ReasoningForm,
  type ReasoningIntent,
  type ReasoningOrder,
} from "../canon/intent.ts";
import type { Entry, ReasoningControl, Route } from "./entry.ts";

/** What becomes of a request's reasoning. */
export type ReasoningPlan = {
  order: ReasoningOrder;
  /** The model will reason: sampling fields go (interface 4.8). */
  active: boolean;
  /** Top-level fields the upstream refuses of this request: the entry's, and while the model reasons the control's too. */
  refused: readonly string[];
};

/** Graded levels, least first. Off positions and switches are none. */
const GRADED: readonly string[] = ["minimal", "low", "medium", "high", "xhigh", "max"];

/** Forms that say a depth as a number of tokens. */
const BUDGET_FORMS = new Set<ReasoningForm>(["budget", "thinking-budget", "enable-thinking"]);
/** Forms that know on and off only. */
const SWITCH_FORMS = new Set<ReasoningForm>([
  "thinking-type",
  "template-enable-thinking",
  "template-thinking",
  "adaptive-switch",
]);
/** Forms that write the model's own word. The others have their own way of saying off. */
const WORD_FORMS = new Set<ReasoningForm>(["effort", "adaptive-switch", "thinking-level"]);
/** Forms that cannot say off unless the model declares a word for it. */
const FORMS_WITHOUT_OFF = new Set<ReasoningForm>(["effort", "effort-only", "thinking-level"]);

const NOTHING: ReasoningOrder = { kind: "nothing" };
const KEEP: ReasoningOrder = { kind: "keep" };
const NO_FIELDS: readonly string[] = [];

/** The level a budget stands for (interface 4.8, budget conversion). `tokens` of 0 and less is none. */
export function effortOfBudget(tokens: number): Effort {
  if (tokens <= 0) return "none";
  if (tokens <= 6_000) return "low";
  if (tokens <= 13_000) return "medium";
  return tokens <= 24_000 ? "high" : "xhigh";
}

/** A model's levels, sorted by what they are. */
type Scale = {
  control: ReasoningControl;
  form: ReasoningForm;
  /** Declared word for off. */
  off: string | undefined;
  /** Graded levels, least first. */
  graded: readonly string[];
  /** Declared word for on, of a switch. */
  on: string | undefined;
  /** There is no off, and `minimal` is served in its place (interface 4.8, "Minimal is off"). */
  minimalIsOff: boolean;
};

function readScale(control: ReasoningControl, form: ReasoningForm): Scale {
  const off = control.levels.find((level) => OFF_WORDS.has(level));
  const graded = control.levels
    .filter((level) => GRADED.includes(level))
    .sort((first, second) => GRADED.indexOf(first) - GRADED.indexOf(second));
  const on = control.levels.find((level) => level !== off && !GRADED.includes(level));
  // A form that counts tokens, or knows on and off only, has an off of its own.
  const saysLevels = !SWITCH_FORMS.has(form) && !BUDGET_FORMS.has(form);
  return { control, form, off, graded, on, minimalIsOff: saysLevels && off === undefined && graded[0] === "minimal" };
}

function turnOn({ form, on }: Scale): ReasoningOrder {
  return on !== undefined && WORD_FORMS.has(form) ? { kind: "on", form, value: on } : { kind: "on", form };
}

/** A level that the model has, said in its form. */
function sendLevel(scale: Scale, level: string): ReasoningOrder {
  const { form } = scale;
  if (OFF_WORDS.has(level)) return turnOff(scale);
  const tokens = LEVEL_BUDGETS.get(level);
  if (tokens === undefined || SWITCH_FORMS.has(form)) return turnOn(scale);
  if (BUDGET_FORMS.has(form)) return { kind: "budget", form, tokens };
  return { kind: "level", form, level };
}

/** Rule 2 for a level below the lowest, and off where it cannot be said: nothing, except on models that always reason. */
function sendBelowLowest(scale: Scale): ReasoningOrder {
  const lowest = scale.graded[0];
  return scale.control.alwaysReasons && lowest !== undefined ? sendLevel(scale, lowest) : NOTHING;
}

/** Off, the declared way, else the form's own; `minimal` where that is off; else as below the lowest level (interface 4.8 rule 2). */
function turnOff(scale: Scale): ReasoningOrder {
  const { control, form, off } = scale;
  if (off !== undefined) return WORD_FORMS.has(form) ? { kind: "off", form, value: off } : { kind: "off", form };
  if (scale.minimalIsOff) return sendLevel(scale, "minimal");
  if (control.alwaysReasons) return sendBelowLowest(scale);
  if (control.noOff) return { kind: "nothing", form };
  // The odd word for off is known for the model's own form alone; what another vendor makes of off is not.
  if (control.offValue !== undefined)
    return form === control.form ? { kind: "off", form, value: control.offValue } : NOTHING;
  return FORMS_WITHOUT_OFF.has(form) ? NOTHING : { kind: "off", form };
}

/** The level to use for a requested one (interface 4.8 rules 1, 2, 3 and 6). */
function sendEffort(scale: Scale, effort: Effort): ReasoningOrder {
  if (effort === "none") return turnOff(scale);
  const { graded, off } = scale;
  const lowest = graded[0];
  if (lowest === undefined) return turnOn(scale);
  if (off !== undefined && graded.length === 1) return sendLevel(scale, lowest);
  const wanted = GRADED.indexOf(effort);
  const level = graded.findLast((candidate) => GRADED.indexOf(candidate) <= wanted);
  return level === undefined ? sendBelowLowest(scale) : sendLevel(scale, level);
}

function sendBudget(scale: Scale, tokens: number): ReasoningOrder {
  if (tokens > 0 && BUDGET_FORMS.has(scale.form)) return { kind: "budget", form: scale.form, tokens };
  return sendEffort(scale, effortOfBudget(tokens));
}

/** What an absent field sends: nothing on the caller's behalf, except where the interface says otherwise of the vendor (4.8, default behaviour). */
function sendOmitted(scale: Scale): ReasoningOrder {
  const { control, graded } = scale;
  const omitted = control.omitted ?? (scale.minimalIsOff ? "lowest" : "nothing");
  if (omitted === "off") return control.noOff ? NOTHING : turnOff(scale);
  if (omitted === "default") return sendLevel(scale, control.default);
  const lowest = graded[0];
  return omitted === "lowest" && lowest !== undefined ? sendLevel(scale, lowest) : NOTHING;
}

function orderFor(intent: ReasoningIntent, scale: Scale): ReasoningOrder {
  if (intent.kind === "off") return turnOff(scale);
  if (intent.kind === "adaptive") return sendLevel(scale, scale.control.default);
  if (intent.kind === "effort") return sendEffort(scale, intent.effort);
  if (intent.kind === "budget") return sendBudget(scale, intent.tokens);
  const lowest = scale.graded[0];
  // Rule 4: a word nobody knows is dropped; on models that always reason it means their lowest level, not their default.
  if (intent.kind === "unrecognised" && scale.control.alwaysReasons && lowest !== undefined)
    return sendLevel(scale, lowest);
  return sendOmitted(scale);
}

function isActive(order: ReasoningOrder, scale: Scale): boolean {
  const { alwaysReasons, noOff, reasonsByDefault } = scale.control;
  if (alwaysReasons) return true;
  if (order.kind === "nothing") return noOff === true || reasonsByDefault === true;
  if (order.kind === "level") return !(scale.minimalIsOff && order.level === "minimal");
  return order.kind === "on" || order.kind === "budget";
}

function isPositive(intent: ReasoningIntent): boolean {
  if (intent.kind === "effort") return intent.effort !== "none";
  if (intent.kind === "budget") return intent.tokens > 0;
  return intent.kind === "adaptive";
}

function refusedBy(entry: Entry, active: boolean): readonly string[] {
  const always = entry.refuses ?? NO_FIELDS;
  const reasoning = active ? entry.reasoning?.refuses : undefined;
  return reasoning ? [...always, ...reasoning] : always;
}

/**
 * What reasoning a request gets of a model (interface 4.8, dialects.md 5.2 and 5.3): pure, and never an error. `route` is the one the
 * request takes, whose vendor may want another form than the model's own.
 *
 * A model without a control is told nothing and counts as inactive, even one that is known to reason: its vendor takes the sampling
 * fields. For a model whose control is unknown the client's own fields are kept, except a value that no dialect knows (rule 4).
 */
export function planReasoning(intent: ReasoningIntent, entry: Entry, route?: Route): ReasoningPlan {
  if (entry.uncharted) {
    const order = intent.kind === "unrecognised" ? NOTHING : KEEP;
    const active = isPositive(intent);
    return { order, active, refused: refusedBy(entry, active) };
  }
  if (!entry.reasoning) return { order: NOTHING, active: false, refused: refusedBy(entry, false) };
  const scale = readScale(entry.reasoning, route?.form ?? entry.reasoning.form);
  const order = orderFor(intent, scale);
  const active = isActive(order, scale);
  return { order, active, refused: refusedBy(entry, active) };
}

/**
 * Whether what a client asks has no effect: words that nobody knows (interface 4.8 rule 4), reasoning of a model without a control of it
 * ("parameters ignored"), and what nothing is sent for (rule 2): a depth below the lowest, and off of a model that reasons all the same.
 * `plan`: what {@link planReasoning} makes of it.
 */
export function ignoresReasoning(intent: ReasoningIntent, { order, active }: ReasoningPlan): boolean {
  if (intent.kind === "unrecognised") return true;
  if (order.kind !== "nothing") return false;
  return isPositive(intent) || (intent.kind !== "omitted" && active);
}
