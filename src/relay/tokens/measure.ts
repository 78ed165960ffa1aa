import { invalidField } from "../../canon/errors.ts";
import type { DocumentPart, Part, Prompt, Turn } from "../../canon/prompt.ts";
import type { TokenFamily } from "../../catalog/token-families.ts";
import { isTextType } from "../../dialects/media/type.ts";
import type { Counts, GroupCount, Work } from "../tokenizer/work.ts";
import { imageTokens, readImageSize } from "./image-tokens.ts";

/** A prompt taken apart: what the vocabulary has to count, and what the family's rules say of the rest, in tokens of the family. */
export type Measure = { work: Work; fixed: number };

/** The groups of {@link Work}, in order. */
const CONTENT = 0;
const TOOLS = 1;

/** Base64 characters of encrypted reasoning for one token of it. */
const SEALED_CHARACTERS_PER_TOKEN = 5;
/** Bytes of sound for one token: 16-bit samples at 16 kHz, 32 tokens a second. */
const SOUND_BYTES_PER_TOKEN = 1_000;
/** What a schema for the answer costs beside its own JSON, tokens. */
const OUTPUT_FORMAT_TOKENS = 20;

/** Tokens of sound, by the characters of its base64. */
export const soundTokens = (characters: number): number => Math.ceil((characters * 3) / 4 / SOUND_BYTES_PER_TOKEN);

class Ruler {
  readonly content: string[] = [];
  readonly tools: string[] = [];
  readonly pdfs: string[] = [];
  fixed = 0;

  constructor(readonly family: TokenFamily) {}

  say(...texts: (string | undefined)[]): void {
    for (const text of texts) if (text !== undefined && text !== "") this.content.push(text);
  }

  turn(turn: Turn, fresh: boolean): void {
    this.fixed += this.family.perMessage;
    const calls = turn.parts.filter((part) => part.type === "tool-call").length;
    if (calls > 1) this.fixed += this.family.parallelCalls;
    for (const part of turn.parts) this.part(part, fresh);
  }

  /** `fresh`: reasoning in this part goes back to the model. */
  part(part: Part, fresh: boolean): void {
    const { family } = this;
    if (part.type === "text") this.say(part.text);
    else if (part.type === "image") this.fixed += imageTokens(family.image, sizeOf(part.source));
    else if (part.type === "document") this.document(part);
    else if (part.type === "audio") this.fixed += soundTokens(part.data.length);
    else if (part.type === "opaque") this.say(JSON.stringify(part.value, withoutBytes));
    else if (part.type === "tool-call") {
      this.fixed += family.perCall;
      this.say(part.name, part.arguments);
    } else if (part.type === "tool-result") {
      this.fixed += family.perResult;
      for (const inner of part.parts) this.part(inner, fresh);
    } else if (!fresh) return;
    else if (part.type === "redacted-reasoning") this.sealed(part.data);
    else if (part.text === "") this.sealed(part.signature ?? "");
    else this.say(part.text);
  }

  /** Reasoning that only its vendor can read, by the length of its cipher text. */
  sealed(data: string): void {
    this.fixed += Math.ceil(data.length / SEALED_CHARACTERS_PER_TOKEN);
  }

  document({ source, title, context }: DocumentPart): void {
    this.say(title, context);
    if (source.kind === "text") this.say(source.text);
    else if (source.kind !== "base64") throw uncountable("a document that is not part of the request");
    else if (source.mediaType === "application/pdf") this.pdfs.push(source.data);
    else if (isTextType(source.mediaType)) this.say(Buffer.from(source.data, "base64").toString("utf8"));
    else throw uncountable("a document that is neither PDF nor text");
  }

  /** `vendorTools`: beside the prompt's, those that the family's own vendor runs. */
  addTools({ tools, toolChoice }: Prompt, vendorTools: readonly unknown[]): void {
    const count = tools.length + vendorTools.length;
    if (count === 0) return;
    const rule = this.family.tools;
    const demanded = toolChoice?.type === "required" || toolChoice?.type === "tool";
    this.fixed += rule.base + (demanded ? rule.forced : 0) + rule.perTool * (count - 1);
    this.fixed += this.family.vendorTool * vendorTools.length;
    for (const { name, description, schema } of tools) {
      this.tools.push(JSON.stringify({ name, description, parameters: schema }));
    }
    for (const tool of vendorTools) this.tools.push(JSON.stringify(tool));
  }
}

const uncountable = (what: string) => invalidField("messages", `The tokens of ${what} cannot be counted here.`);

const sizeOf = (source: DocumentPart["source"]) => (source.kind === "base64" ? readImageSize(source.data) : undefined);

/** Base64 inside a block that nobody here knows: bytes, not language. */
const BYTES = /^[A-Za-z0-9+/_-]{2048}/;

/** A replacer for JSON that leaves {@link BYTES} out. */
function withoutBytes(_key: string, value: unknown): unknown {
  return typeof value === "string" && BYTES.test(value) ? "" : value;
}

/** Index of the last turn in which the user says something of their own: everything behind it is one tool loop. */
function lastQuestion(turns: readonly Turn[]): number {
  return turns.findLastIndex(({ role, parts }) => role === "user" && parts.some((part) => part.type !== "tool-result"));
}

/** What the prompt alone does not tell. */
export type MeasureOptions = {
  /** Reasoning is switched on. */
  thinks?: boolean;
  /** The vendor is sent all earlier reasoning back, whatever the family does with it. */
  replaysReasoning?: boolean;
  /** Definitions of tools that the model's own vendor runs and no other is sent. */
  vendorTools?: readonly unknown[];
};

/**
 * What a prompt is made of, for the counting (dialects.md 6). Throws GatewayError (invalid_request) for documents whose length cannot
 * be known: no number is better than one that is far too small (field.md 22).
 */
export function measurePrompt(prompt: Prompt, family: TokenFamily, options: MeasureOptions): Measure {
  const { thinks = false, replaysReasoning = false, vendorTools = [] } = options;
  const ruler = new Ruler(family);
  ruler.fixed += family.perRequest + (thinks ? family.thinking : 0);
  for (const part of prompt.system) ruler.part(part, true);
  const question = family.keepsReasoning || replaysReasoning ? -1 : lastQuestion(prompt.turns);
  prompt.turns.forEach((turn, at) => {
    ruler.turn(turn, at > question);
  });
  // Other vendors are not sent what only one of them can run.
  ruler.addTools(prompt, family.vendorTool > 0 ? vendorTools : []);
  if (prompt.output?.type === "json-schema") {
    ruler.fixed += OUTPUT_FORMAT_TOKENS;
    ruler.say(JSON.stringify(prompt.output.schema));
  }
  return { work: { groups: [ruler.content, ruler.tools], pdfs: ruler.pdfs }, fixed: ruler.fixed };
}

/** Tokens of a group in the family's own vocabulary. */
function weigh(group: GroupCount | undefined, factor: number, wide: number): number {
  if (!group || group.tokens === 0) return 0;
  return group.tokens * (factor + (wide * group.wide) / group.characters);
}

/** Input tokens from a measure and its counts. A whole number, at least 1. */
export function sumTokens({ fixed }: Measure, { groups, pages }: Counts, family: TokenFamily): number {
  const content = weigh(groups[CONTENT], family.factor, family.wide);
  const tools = weigh(groups[TOOLS], family.tools.factor, family.wide);
  return Math.max(1, Math.ceil(fixed + pages * family.perPage + content + tools));
}
