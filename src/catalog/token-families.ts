import { nameOf } from "./rows.ts";

/** How a family counts a picture (dialects.md 6.3). Lengths in pixels. */
export type ImageRule =
  /** One token for so many pixels, after the long edge was fitted; never more than `most`. */
  | { kind: "area"; longEdge: number; pixelsPerToken: number; most: number }
  /** Fitted into 2048 x 2048, then the short edge to 768: `base` and so much for each tile of 512. */
  | { kind: "tiles"; base: number; perTile: number }
  /** Patches of `edge`, scaled down to at most `mostPatches`, times `factor`. */
  | { kind: "patches"; edge: number; mostPatches: number; factor: number }
  /** `perTile` for each tile of 768, one for a picture of at most 384 on both edges. */
  | { kind: "crops"; perTile: number }
  /** Every picture counts the same. */
  | { kind: "fixed"; tokens: number };

/** How a family's tools weigh beside their JSON: `base` once, `forced` more when a call is demanded, `perTool` from the second on. */
export type ToolRule = { factor: number; base: number; forced: number; perTool: number };

/**
 * How the models of one family count, relative to the o200k vocabulary (dialects.md 6.2). Tokens throughout; where measurements
 * differ, the greater one: a count that is too small makes an agent overrun its window.
 */
export type TokenFamily = {
  name: string;
  /** On the model's name, lower case, without the vendor's prefix. The first family that fits is taken. */
  models: RegExp;
  /** Tokens of a text for each token in o200k. */
  factor: number;
  /** How much `factor` grows where the text is wholly outside ASCII. */
  wide: number;
  perRequest: number;
  perMessage: number;
  tools: ToolRule;
  perCall: number;
  perResult: number;
  /** Once for a turn with two calls or more. */
  parallelCalls: number;
  /** Reasoning is switched on. */
  thinking: number;
  /** Reasoning of earlier exchanges stays in the model's view; else only that of the tool loop under way. */
  keepsReasoning: boolean;
  /** A tool that the vendor itself runs, beside its JSON; 0 where such tools are never sent. */
  vendorTool: number;
  image: ImageRule;
  /** A page of a PDF. */
  perPage: number;
};

type Shape = Omit<TokenFamily, "name" | "models">;

/** Models that nobody measured: a little above the middle of those that were. */
const UNKNOWN: Shape = {
  factor: 1.1,
  wide: 0.2,
  perRequest: 12,
  perMessage: 4,
  tools: { factor: 1.1, base: 100, forced: 0, perTool: 10 },
  perCall: 12,
  perResult: 10,
  parallelCalls: 20,
  thinking: 0,
  keepsReasoning: false,
  vendorTool: 0,
  image: { kind: "area", longEdge: 1568, pixelsPerToken: 750, most: 1600 },
  perPage: 1500,
};

const OLDER_GPT: Shape = {
  ...UNKNOWN,
  factor: 1,
  wide: 0,
  perRequest: 3,
  perMessage: 4,
  tools: { factor: 0.72, base: 20, forced: 0, perTool: 0 },
  perCall: 9,
  perResult: 9,
  image: { kind: "tiles", base: 85, perTile: 170 },
};

const GPT: Shape = {
  ...OLDER_GPT,
  perMessage: 3,
  tools: { factor: 0.93, base: 90, forced: 0, perTool: 0 },
  image: { kind: "tiles", base: 70, perTile: 140 },
};

const CLAUDE: Shape = {
  factor: 1.1,
  wide: 0.7,
  perRequest: 8,
  perMessage: 3,
  tools: { factor: 1.1, base: 510, forced: 115, perTool: 28 },
  perCall: 30,
  perResult: 24,
  parallelCalls: 0,
  thinking: 36,
  keepsReasoning: false,
  vendorTool: 700,
  image: { kind: "area", longEdge: 1568, pixelsPerToken: 750, most: 1600 },
  perPage: 2250,
};

/** The newer vocabulary of that family: 1.35 to 1.65 times the older one's counts. */
const NEWER = 1.5;
const CLAUDE_NEWER: Shape = {
  ...CLAUDE,
  factor: CLAUDE.factor * NEWER,
  perRequest: 12,
  perMessage: 5,
  tools: { factor: CLAUDE.tools.factor * NEWER, base: 765, forced: 173, perTool: 42 },
  perCall: 45,
  perResult: 36,
  thinking: 54,
  keepsReasoning: true,
  vendorTool: 1050,
  image: { kind: "area", longEdge: 2576, pixelsPerToken: 750, most: 4784 },
  perPage: 3000,
};

const GEMINI: Shape = {
  ...UNKNOWN,
  factor: 1.05,
  wide: 0,
  perRequest: 2,
  perMessage: 1,
  tools: { factor: 1, base: 20, forced: 0, perTool: 0 },
  image: { kind: "crops", perTile: 258 },
  perPage: 258,
};

const MISTRAL: Shape = {
  ...UNKNOWN,
  factor: 1.25,
  perRequest: 4,
  image: { kind: "patches", edge: 28, mostPatches: 3025, factor: 1 },
};

const patches = (factor: number): ImageRule => ({ kind: "patches", edge: 32, mostPatches: 1536, factor });

/** From the special to the general; the last one fits every name. */
export const tokenFamilies: readonly TokenFamily[] = [
  {
    ...CLAUDE_NEWER,
    name: "claude-5",
    models: /claude-(?:[a-z]+-4[-.](?:[7-9]|1\d)(?!\d)|[a-z]+-(?:[5-9]|\d\d)(?!\d))/,
  },
  { ...CLAUDE, name: "claude", models: /claude/ },
  { ...GPT, name: "gpt-oss", models: /gpt-oss/, perRequest: 71 },
  { ...GPT, name: "o4-mini", models: /(?:^|\/)o4-mini/, image: patches(1.72) },
  { ...GPT, name: "o-series", models: /(?:^|\/)o\d/, image: { kind: "tiles", base: 75, perTile: 150 } },
  { ...GPT, name: "gpt-5-nano", models: /(?:^|\/)gpt-[5-9].*nano/, image: patches(2.46) },
  { ...GPT, name: "gpt-5-mini", models: /(?:^|\/)gpt-[5-9].*mini/, image: patches(1.62) },
  { ...GPT, name: "gpt-5", models: /(?:^|\/)gpt-(?:[5-9]|\d\d)/ },
  { ...OLDER_GPT, name: "gpt-4.1-nano", models: /gpt-4\.1-nano/, image: patches(2.46) },
  { ...OLDER_GPT, name: "gpt-4.1-mini", models: /gpt-4\.1-mini/, image: patches(1.62) },
  { ...OLDER_GPT, name: "gpt-4o-mini", models: /gpt-4o-mini/, image: { kind: "tiles", base: 2833, perTile: 5667 } },
  { ...OLDER_GPT, name: "gpt-4", models: /gpt-/ },
  {
    ...GEMINI,
    name: "gemini-3",
    models: /gemini-(?:[3-9]|\d\d)/,
    image: { kind: "fixed", tokens: 1120 },
    perPage: 560,
  },
  { ...GEMINI, name: "gemini", models: /gemini/ },
  { ...GEMINI, name: "gemma", models: /gemma/, perRequest: 8, image: { kind: "fixed", tokens: 260 }, perPage: 1500 },
  { ...UNKNOWN, name: "llama", models: /llama/, factor: 1.05, perRequest: 35, perMessage: 5 },
  { ...MISTRAL, name: "magistral", models: /magistral/, perRequest: 19 },
  { ...MISTRAL, name: "mistral", models: /mistral|ministral|mixtral|codestral|devstral|pixtral/ },
  { ...UNKNOWN, name: "qwen", models: /qwen|qwq/, wide: 0.1 },
  { ...UNKNOWN, name: "deepseek", models: /deepseek/, perRequest: 8, wide: 0.1 },
  { ...UNKNOWN, name: "glm", models: /(?:^|\/)glm/, wide: 0.1 },
  { ...UNKNOWN, name: "unknown", models: /(?:)/ },
];

/** The family of a model by its ID `<vendor>/<model_name>`, whoever serves it. */
export function tokenFamilyOf(modelId: string): TokenFamily {
  const name = nameOf(modelId).toLowerCase();
  const found = tokenFamilies.find((family) => family.models.test(name));
  if (!found) throw new Error("the last family fits every name");
  return found;
}
