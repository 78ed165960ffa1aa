import type { Prompt, Turn } from "../../canon/prompt.ts";
import type { Quirks, ReplyChanges } from "../dialect.ts";
import { fingerprint } from "../fingerprint.ts";
import { placeOf } from "./tool-place.ts";

/**
 * What a call is named that its vendor gave none: weaker models make such (DeepSeek, MiMo, Nemotron: NousResearch/hermes-agent #47967). A client answers that there
 * is no such tool, and its model goes on; without a name OpenAI and Anthropic would refuse the whole conversation from then on (continuedev/continue #9784).
 */
export const UNNAMED_TOOL = "unnamed_tool";

/**
 * Which names of tools an upstream takes: of at most `longest` characters, and matched by `legal`. `strange` matches each character that it does not take.
 * `start`, where given, matches names with a legal beginning; `opening` (default `_`) is put before any other.
 */
export type NameRule = { longest: number; legal: RegExp; strange: RegExp; start?: RegExp; opening?: string };

/** Names of OpenAI's two dialects (dialects.md 1.1). */
export const OPENAI_NAMES: NameRule = { longest: 64, legal: /^[\w-]{1,64}$/, strange: /[^\w-]/g };
/** The same where a letter must begin a name (Moonshot: "function name is invalid, must start with a letter"). */
const LETTER_FIRST: NameRule = {
  longest: 64,
  legal: /^[A-Za-z][\w-]{0,63}$/,
  strange: /[^\w-]/g,
  start: /^[A-Za-z]/,
  opening: "t_",
};
/** Names of letters, digits and `_` alone (docs.cohere.com/reference/errors). */
const WORDS: NameRule = { longest: 64, legal: /^[A-Za-z_]\w{0,63}$/, strange: /\W/g, start: /^[A-Za-z_]/ };
/** No name of a tool that Perplexity's Agent API itself runs: functions there may not have one. */
const NOT_RESERVED = "^(?!(?:web_search|search_web|people_search|search_people|fetch_url|finance_search|sandbox)$)";
const UNRESERVED: NameRule = {
  longest: 64,
  legal: new RegExp(`${NOT_RESERVED}[\\w-]{1,64}$`),
  strange: /[^\w-]/g,
  start: new RegExp(NOT_RESERVED),
  opening: "t_",
};
/** Names that a responses vendor takes. */
export const responsesNames = ({ agentTerms }: Quirks): NameRule => (agentTerms ? UNRESERVED : OPENAI_NAMES);
/** Names that a chat vendor takes. */
export const chatNames = ({ letterFirstNames, wordNames }: Quirks): NameRule =>
  wordNames ? WORDS : letterFirstNames ? LETTER_FIRST : OPENAI_NAMES;
export const MESSAGES_NAMES: NameRule = { longest: 128, legal: /^[\w-]{1,128}$/, strange: /[^\w-]/g };
/** Names of the messages dialect (dialects.md 2.3); Bedrock stayed with the older length (4.3). */
export const messagesNames = ({ versionInBody }: Quirks): NameRule =>
  versionInBody === undefined ? MESSAGES_NAMES : OPENAI_NAMES;
/** Names of the gemini dialect (dialects.md 3.1): its reference says 128 characters, and its API has refused more than 64. */
export const GEMINI_NAMES: NameRule = {
  longest: 64,
  legal: /^[A-Za-z_][\w.:-]{0,63}$/,
  strange: /[^\w.:-]/g,
  start: /^[A-Za-z_]/,
};

const clean = (name: string, { strange, start, opening = "_" }: NameRule): string => {
  const plain = name.replace(strange, "_");
  return start && !start.test(plain) ? `${opening}${plain}` : plain;
};

/** Whether a prompt holds any name of a tool. Most do not, and their names need not be gathered. */
function mayCall({ tools, toolChoice, turns }: Prompt): boolean {
  if (tools.length > 0 || toolChoice?.type === "tool") return true;
  for (const turn of turns) for (const part of turn.parts) if (part.type === "tool-call") return true;
  return false;
}

/** Every name of a tool in a prompt: offered, forced, and called in earlier turns. */
function namesOf(prompt: Prompt): Set<string> {
  const names = new Set(prompt.tools.map((tool) => tool.name));
  if (prompt.toolChoice?.type === "tool") names.add(prompt.toolChoice.name);
  for (const turn of prompt.turns) {
    for (const part of turn.parts) if (part.type === "tool-call") names.add(part.name);
  }
  return names;
}

/** A legal name that is not taken: other characters become `_`; where that is taken, empty or too long, it is cut and gets a hash of the original name. */
function fitName(name: string, rule: NameRule, taken: ReadonlySet<string>): string {
  const plain = clean(name, rule);
  if (plain !== "" && plain.length <= rule.longest && !taken.has(plain)) return plain;
  const head = plain.slice(0, rule.longest - 9) || "tool";
  let fitted = `${head}_${fingerprint(name)}`;
  for (let again = 2; taken.has(fitted); again++) fitted = `${head}_${fingerprint(`${name}#${again}`)}`;
  return fitted;
}

/** The client's names that must be changed, each with its legal name; undefined when all are legal. */
function mapNames(names: ReadonlySet<string>, rule: NameRule): Map<string, string> | undefined {
  let strange: string[] | undefined;
  for (const name of names) {
    if (rule.legal.test(name)) continue;
    strange ??= [];
    strange.push(name);
  }
  if (!strange) return undefined;
  const taken = names.difference(new Set(strange));
  const mapped = new Map<string, string>();
  for (const name of strange) {
    const fitted = fitName(name, rule, taken);
    taken.add(fitted);
    mapped.set(name, fitted);
  }
  return mapped;
}

/** Gathers the names in a body. Nearly all bodies hold only legal ones, and for these nothing more is made. */
export class SaidNames {
  readonly #names: string[] = [];
  #isStrange = false;

  constructor(private readonly rule: NameRule) {}

  add(name: string): void {
    this.#names.push(name);
    this.#isStrange ||= !this.rule.legal.test(name);
  }

  /** {@link mapNames} of them. */
  map(): Map<string, string> | undefined {
    return this.#isStrange ? mapNames(new Set(this.#names), this.rule) : undefined;
  }
}

/** What a tool that is called by one name is called by on the other side. */
export type Rename = (name: string) => string;

/** By a map of those that are called otherwise: all others keep their names. */
export const renameBy =
  (mapped: ReadonlyMap<string, string>): Rename =>
  (name) =>
    mapped.get(name) ?? name;

/** What holds a tool's name, with the other one. */
export const renamed = (holder: Record<string, unknown> & { name: string }, rename: Rename) => ({
  ...holder,
  name: rename(holder.name),
});

/** The inverse of {@link mapNames}: the upstream's name → the client's. */
const originalNames = (mapped: ReadonlyMap<string, string>): ReadonlyMap<string, string> =>
  new Map([...mapped].map(([name, fitted]) => [fitted, name]));

/** `changes` with the original names of a body's tools, if any was renamed. */
export const withOriginalNames = (
  mapped: ReadonlyMap<string, string> | undefined,
  changes: ReplyChanges | undefined,
): ReplyChanges | undefined => (mapped ? { ...changes, toolNames: originalNames(mapped) } : changes);

/** Whether two tools are the same but for their places. */
const isTwin = (first: object, tool: object): boolean =>
  Bun.deepEquals({ ...first, place: undefined }, { ...tool, place: undefined });

/**
 * The tools without those whose name an earlier one has: vendors refuse two of one name. One that differs from the earlier one is named in `dropped`, by
 * `placeOf`, its place in the client's body. Tools without a name are all kept. Returns the same list where none is left out.
 */
export function withoutTwins<T extends { name?: unknown }>(
  tools: readonly T[],
  dropped: string[],
  placeOf: (tool: T, at: number) => string = (_tool, at) => `tools[${at}]`,
): readonly T[] {
  if (tools.length < 2) return tools;
  const byName = new Map<string, T>();
  const kept = tools.filter((tool, at) => {
    if (typeof tool.name !== "string") return true;
    const first = byName.get(tool.name);
    if (!first) byName.set(tool.name, tool);
    else if (!isTwin(first, tool)) dropped.push(placeOf(tool, at));
    return !first;
  });
  return kept.length === tools.length ? tools : kept;
}

function renameTurn(turn: Turn, rename: Rename): Turn {
  if (!turn.parts.some((part) => part.type === "tool-call")) return turn;
  const parts = turn.parts.map((part) => (part.type === "tool-call" ? { ...part, name: rename(part.name) } : part));
  return { ...turn, parts };
}

/**
 * A prompt whose tools have names that the upstream takes, in definitions, choice and history alike; and `toolNames`, the upstream's name → the
 * client's (dialects.md 4.3 "Tool names"). The same names always give the same result; two never become one. Left-out twins are named in `dropped`. A
 * prompt with nothing to change is returned itself.
 */
export function fitToolNames(
  prompt: Prompt,
  rule: NameRule,
  dropped: string[],
): { prompt: Prompt; toolNames?: ReadonlyMap<string, string> } {
  if (!mayCall(prompt)) return { prompt };
  const tools = withoutTwins(prompt.tools, dropped, placeOf);
  const mapped = mapNames(namesOf(prompt), rule);
  if (!mapped) return { prompt: tools === prompt.tools ? prompt : { ...prompt, tools: [...tools] } };
  const rename = renameBy(mapped);
  const choice = prompt.toolChoice;
  return {
    prompt: {
      ...prompt,
      tools: tools.map((tool) => ({ ...tool, name: rename(tool.name) })),
      ...(choice?.type === "tool" && { toolChoice: { type: "tool", name: rename(choice.name) } }),
      turns: prompt.turns.map((turn) => renameTurn(turn, rename)),
    },
    toolNames: originalNames(mapped),
  };
}
