import type { ReasoningIntent } from "../../src/canon/intent.ts";
import type { ReasoningControl } from "../../src/catalog/entry.ts";

/** What a client can ask for: the columns of the matrix, in this order. */
export const INTENTS: readonly [string, ReasoningIntent][] = [
  ["omitted", { kind: "omitted" }],
  ["none", { kind: "off" }],
  ["minimal", { kind: "effort", effort: "minimal" }],
  ["low", { kind: "effort", effort: "low" }],
  ["medium", { kind: "effort", effort: "medium" }],
  ["high", { kind: "effort", effort: "high" }],
  ["xhigh", { kind: "effort", effort: "xhigh" }],
  ["max", { kind: "effort", effort: "max" }],
  ["junk", { kind: "unrecognised" }],
  ["disabled", { kind: "off" }],
  ["adaptive", { kind: "adaptive" }],
  ["0", { kind: "budget", tokens: 0 }],
  ["6000", { kind: "budget", tokens: 6000 }],
  ["6001", { kind: "budget", tokens: 6001 }],
  ["13000", { kind: "budget", tokens: 13000 }],
  ["13001", { kind: "budget", tokens: 13001 }],
  ["24000", { kind: "budget", tokens: 24000 }],
  ["24001", { kind: "budget", tokens: 24001 }],
];

export type Shape = { name: string; control?: ReasoningControl; cells: string };

/**
 * One cell an intent, in the order of INTENTS, written by hand from interface 4.8. `-` nothing is sent · a word is that level ·
 * `off` the form's own way, `off:word` the declared word · `on`, `on:word` likewise · `#n` n tokens. A `*` says reasoning is active.
 */
export const SHAPES: readonly Shape[] = [
  {
    name: "no control",
    cells: "- - - - - - - - - - - - - - - - - -",
  },
  {
    name: "full scale",
    control: {
      levels: ["low", "medium", "high", "xhigh", "max"],
      default: "high",
      form: "effort",
      omitted: "nothing",
      reasonsByDefault: true,
    },
    cells: "-* -* -* low* medium* high* xhigh* max* -* -* high* -* low* medium* medium* high* high* xhigh*",
  },
  {
    name: "no max",
    control: { levels: ["low", "medium", "high", "xhigh"], default: "medium", form: "effort", omitted: "nothing" },
    cells: "- - - low* medium* high* xhigh* xhigh* - - medium* - low* medium* medium* high* high* xhigh*",
  },
  {
    name: "no xhigh",
    control: { levels: ["low", "medium", "high", "max"], default: "high", form: "effort", omitted: "nothing" },
    cells: "- - - low* medium* high* high* max* - - high* - low* medium* medium* high* high* high*",
  },
  {
    name: "three graded",
    control: { levels: ["low", "medium", "high"], default: "medium", form: "effort", omitted: "nothing" },
    cells: "- - - low* medium* high* high* high* - - medium* - low* medium* medium* high* high* high*",
  },
  {
    name: "non-adjacent",
    control: { levels: ["low", "high", "max"], default: "high", form: "effort", omitted: "nothing" },
    cells: "- - - low* low* high* high* max* - - high* - low* low* low* high* high* high*",
  },
  {
    name: "minimal is off",
    control: {
      levels: ["minimal", "low", "medium", "high"],
      default: "medium",
      form: "thinking-level",
      omitted: "lowest",
    },
    cells:
      "minimal minimal minimal low* medium* high* high* high* minimal minimal medium* minimal low* medium* medium* high* high* high*",
  },
  {
    name: "minimal is off, of a row that says its levels and no more",
    control: { levels: ["minimal", "low", "medium", "high"], default: "medium", form: "effort" },
    cells:
      "minimal minimal minimal low* medium* high* high* high* minimal minimal medium* minimal low* medium* medium* high* high* high*",
  },
  {
    name: "widest with off",
    control: {
      levels: ["none", "minimal", "low", "medium", "high", "xhigh", "max"],
      default: "medium",
      form: "effort",
      omitted: "nothing",
    },
    cells:
      "- off:none minimal* low* medium* high* xhigh* max* - off:none medium* off:none low* medium* medium* high* high* xhigh*",
  },
  {
    name: "two positions",
    control: { levels: ["none", "high"], default: "high", form: "effort", omitted: "nothing" },
    cells:
      "- off:none high* high* high* high* high* high* - off:none high* off:none high* high* high* high* high* high*",
  },
  {
    name: "switch",
    control: { levels: ["off", "on"], default: "on", form: "thinking-type", omitted: "nothing" },
    cells: "- off on* on* on* on* on* on* - off on* off on* on* on* on* on* on*",
  },
  {
    name: "adaptive or off",
    control: { levels: ["adaptive", "disabled"], default: "adaptive", form: "adaptive-switch", omitted: "nothing" },
    cells:
      "- off:disabled on:adaptive* on:adaptive* on:adaptive* on:adaptive* on:adaptive* on:adaptive* - off:disabled on:adaptive* off:disabled on:adaptive* on:adaptive* on:adaptive* on:adaptive* on:adaptive* on:adaptive*",
  },
  {
    name: "the chat vendor's newest, without none: always reasons",
    control: {
      levels: ["low", "medium", "high", "xhigh", "max"],
      default: "medium",
      form: "effort",
      omitted: "default",
      alwaysReasons: true,
    },
    cells:
      "medium* low* low* low* medium* high* xhigh* max* low* low* medium* low* low* medium* medium* high* high* xhigh*",
  },
  {
    name: "the chat vendor's newest, with none",
    control: {
      levels: ["none", "low", "medium", "high", "xhigh"],
      default: "medium",
      form: "effort",
      omitted: "default",
      reasonsByDefault: true,
    },
    cells:
      "medium* off:none -* low* medium* high* xhigh* xhigh* medium* off:none medium* off:none low* medium* medium* high* high* xhigh*",
  },
  {
    name: "the messages vendor's own, adaptive thinking",
    control: {
      levels: ["low", "medium", "high", "max"],
      default: "high",
      form: "adaptive-effort",
      omitted: "off",
    },
    cells: "off off - low* medium* high* high* max* off off high* off low* medium* medium* high* high* high*",
  },
  {
    name: "the messages vendor's own, off impossible",
    control: {
      levels: ["low", "medium", "high", "xhigh", "max"],
      default: "medium",
      form: "effort-only",
      omitted: "off",
      noOff: true,
      reasonsByDefault: true,
    },
    cells: "-* -* -* low* medium* high* xhigh* max* -* -* medium* -* low* medium* medium* high* high* xhigh*",
  },
  {
    name: "the messages vendor's own, always thinking",
    control: {
      levels: ["low", "medium", "high", "xhigh", "max"],
      default: "medium",
      form: "adaptive-effort",
      omitted: "off",
      noOff: true,
      reasonsByDefault: true,
    },
    cells: "-* -* -* low* medium* high* xhigh* max* -* -* medium* -* low* medium* medium* high* high* xhigh*",
  },
  {
    name: "the messages vendor's own, another word for off",
    control: {
      levels: ["low", "medium", "high", "xhigh", "max"],
      default: "high",
      form: "adaptive-effort",
      omitted: "off",
      offValue: "between_tools",
      reasonsByDefault: true,
    },
    cells:
      "off:between_tools off:between_tools -* low* medium* high* xhigh* max* off:between_tools off:between_tools high* off:between_tools low* medium* medium* high* high* xhigh*",
  },
  {
    name: "native budget, messages",
    control: { levels: ["low", "medium", "high"], default: "high", form: "budget", omitted: "off" },
    cells:
      "off off - #4000* #10000* #20000* #20000* #20000* off off #20000* off #6000* #6001* #13000* #13001* #24000* #24001*",
  },
  {
    name: "native budget, boolean with a number",
    control: {
      levels: ["none", "low", "medium", "high"],
      default: "medium",
      form: "enable-thinking",
      omitted: "nothing",
      reasonsByDefault: true,
    },
    cells:
      "-* off -* #4000* #10000* #20000* #20000* #20000* -* off #10000* off #6000* #6001* #13000* #13001* #24000* #24001*",
  },
  {
    name: "graded, with a switch of its own for off",
    control: {
      levels: ["low", "high", "max"],
      default: "high",
      form: "thinking-type-effort",
      omitted: "nothing",
      reasonsByDefault: true,
    },
    cells: "-* off -* low* low* high* high* max* -* off high* off low* low* low* high* high* high*",
  },
];
