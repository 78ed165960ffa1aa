import type { Lesson, Quirks, VendorTerms } from "../dialect.ts";
import { imageLessons } from "../media/blind-models.ts";
import { samplingLessons } from "../odd-sampling.ts";
import { BREAKPOINT } from "../openai-fields.ts";
import { taughtCeiling } from "../refusals/output-ceiling.ts";
import { EFFORT_REFUSED } from "../refusals/refused-effort.ts";
import { LEAD } from "../refusals/relayed-error.ts";
import { looseLessons } from "../schema/loose-schemas.ts";
import { wholeLessons } from "../whole-replies.ts";
import { REASONING_FIELDS } from "./intent.ts";

/** The place of a field in words, such as `body.messages.0.name`, `messages[0].name` or `'body', 'messages', 0, 'name'`. */
type Place = readonly string[];

/**
 * How servers of this dialect say that they do not know a field. In the group stands its place, or in a list of names several: vLLM and SGLang (pydantic
 * in Python's notation), FastAPI and NIM (pydantic in words), pydantic itself, Jackson (Java), a strict proxy (NousResearch/hermes-agent #93035), Fireworks, Groq and Cerebras, Groq of a model that takes none (vercel/ai #8056), Go's reader
 * (Databricks), Rust's, Cohere, OpenAI and Azure, Google, OpenCode's (lidge-jun/opencodex #4853), xAI (neavo/LinguaGacha #771, charmbracelet/crush #386), LiteLLM, JSON Schema, `transformers serve` (a set
 * of Python's; 4.57 has "keys", and "unused" for what it validates and does not heed).
 */
const UNKNOWN_PLACES: readonly RegExp[] = [
  /'type': 'extra_forbidden', 'loc': \(([^)]*)\)/g,
  /([\w.[\]]+): extra (?:inputs are|fields) not permitted/gi,
  /(body(?: -> \w+)+)\s+Extra inputs are not permitted/g,
  /([\w.]+)\s+Extra inputs are not permitted \[type=/g,
  /Extra inputs are not permitted, field: '([\w.[\]]+)'/g,
  /((?:'messages[\w.]*' : )?property '[\w.]+') is unsupported/g,
  /(messages\[\d+\]\.\w+)`?: \w+ is not supported/g,
  /(?:unknown|unrecognized) (?:field(?:: parameter)?|parameter) ["'`]([\w.]+)["'`]/gi,
  /\bunrecognizedProperty=(\w+)/g,
  /Unknown name "(\w+)"(?: at '[\w.[\]]+')?: Cannot find field/g,
  /Unsupported value: '([\w.[\]]+)' does not support/g,
  /["'`]?\b([a-z]+(?:_[a-z]+)+|(?<=["'`])[a-z]+)["'`]? (?:is|are) (?:not supported|unsupported)/g,
  /(?:^|(?<!\]\.\w+`?): )([a-z]+) is not supported/g,
  /^(?:Model \S+ does not support parameter|Argument not supported(?: on this model)?:) (\w+)/g,
  // Claude's models behind others, in their own words and in those of Databricks (leonardovida/duckdb-ai #85).
  new RegExp(`^${LEAD}["'\`]?(\\w+)["'\`]? is deprecated for this model\\b`, "g"),
  // Moonshot's models, which are sampled in one way alone, by whatever way they are asked (tinyhumansai/openhuman #2082, HenriGrimm/Minnow #291).
  /\binvalid (temperature|top_p|presence_penalty|frequency_penalty): only [\d.]+ is allowed for this model/g,
  /^(?:BAD_REQUEST: )?Model \S+ does not support the (\w+) parameter/g,
];
const UNKNOWN_NAMES: readonly RegExp[] = [
  /(?:unsupported|unknown|unrecognized|unexpected|unused) (?:request )?(?:parameter|argument|field|key)(?:s|\(s\))?(?: supplied| in object| in the request)?: \{?((?:["'`]?[\w.[\]]+["'`]?(?:, )?)+)/gi,
  /Additional properties are not allowed \(([^)]*) w(?:as|ere) unexpected\)/g,
  /does not support parameters: \[([^\]]*)\]/g,
];

/** Numbers of places in lists, the body itself, what a property is, and the kinds between which pydantic had to choose, are none. */
const isStep = (step: string): boolean => /^[a-z_]/.test(step) && step !== "body" && step !== "property";
/** Of the names that xAI's server has for them itself. */
const asTold = (name: string): string => name.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const placeOf = (words: string): Place => words.split(/\W+/).filter(isStep).map(asTold);

function unknownPlaces(words: string): Place[] {
  const found = (patterns: readonly RegExp[]) =>
    patterns.flatMap((pattern) => [...words.matchAll(pattern)].map(([, group = ""]) => group));
  const places = [...found(UNKNOWN_PLACES), ...found(UNKNOWN_NAMES).flatMap((names) => names.split(","))];
  return places.map(placeOf).filter((place) => place.length > 0);
}

/** What is refused beside something else, or of one value among others: of another request it may be taken. */
const BESIDE_OTHERS =
  /\b(?:not?|only|cannot|must|unsupported|incompatible)\b.*\b(?:when|while|in [\w-]+ mode|with (?:stream|tool|function|think|reason))|\bwith [\w'`-]+ (?:is|are) (?:not supported|unsupported)/i;
const OF_FIELDS_VALUE = /\bunsupported value\b(?!.*\bonly the default\b)/i;
const OF_CHOICES =
  /\bsupported (?:string )?values\b|\bmust (?:either )?be\b|\binput should be\b|\bone of\b|\bnot support (?:this\b|`?tool_choice=)|\bsupport the provided\b/i;
const OF_LEVELS =
  /^Reasoning is mandatory\b|\binvalid thinking: only\b|\b(?:thinking|reasoning)[ _](?:effort|level|budget|mode|value)\b/i;

/** Without these a request would be another one: who refuses them, be it beside others, is not told it again. */
const ESSENTIAL: ReadonlySet<string> = new Set([
  ...["model", "messages", "stream", "tools", "functions", "n", "modalities", "audio", "response_format"],
  ...["tool_choice", "function_call", "role", "content", "tool_calls", "tool_call_id"],
  // What the answer is made from, and what it must be, in fields of servers' own (Cohere, vLLM, SGLang, llama.cpp).
  ...["documents", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"],
  ...["grammar", "json_schema", "regex", "ebnf", "structural_tag"],
]);
/** What messages hold, be it of a reply that is sent back: a server that refuses one of these may want any other. */
const MESSAGE_FIELDS: readonly string[] = [
  ...["role", "content", "name", "tool_calls", "tool_call_id", "function_call", "audio", "refusal", "annotations"],
  ...["reasoning_content", "reasoning", "reasoning_details", "images", "prefix", "cache_control"],
];
/** Fields that stand in messages alone: some servers say no more of one than its name. */
const OF_MESSAGES: ReadonlySet<string> = new Set(
  "name refusal annotations reasoning_content reasoning_details".split(" "),
);

/** A model that does not think, a depth that it does not have, and an off where it has none (OpenRouter). Nothing is rejected for such reasons (interface 4.8, 7). */
const REASONING_REFUSED = new RegExp(
  `^Reasoning is mandatory for this endpoint\\b|\\binvalid thinking: only type=enabled is allowed\\b|\\bdoes not support (?:thinking|reasoning)\\b|${EFFORT_REFUSED.source}`,
  "i",
);

/** Claude behind a server of this dialect, which has no place for what proves its thoughts: where the calls before stand without any, it does not think. */
const NO_THOUGHT_BEFORE = /\bmust start with a thinking block\b/i;

/** What a part of a message's content holds; a part needs neither a message's role nor its calls. */
const isOfPart = ([first, second, ...more]: Place): boolean =>
  first === "messages" && second === "content" && more.length === 1;

const isEssential = (place: Place): boolean => ESSENTIAL.has(place.at(-1) ?? "") && !isOfPart(place);

/** vLLM says of Mistral's models that they have no template, be it that only arguments of one were told ("chat_template is not supported for Mistral tokenizers"). */
const OF_TEMPLATE: ReadonlySet<string> = new Set(["chat_template", "chat_template_kwargs"]);

/** What follows for a model without a template: it cannot be told by one that it is not to think either. */
function withoutTemplate({ quirks, refuses = [] }: VendorTerms): VendorTerms {
  const { reasoningOff: _untold, ...rest } = quirks;
  return { quirks: rest, refuses: [...refuses, ...OF_TEMPLATE] };
}

/** What follows for a server that does not know a field. */
function withoutField({ quirks, refuses = [] }: VendorTerms, place: Place): VendorTerms {
  const [first = ""] = place;
  const name = place.at(-1) ?? "";
  const isOfMessage = first === "messages" ? place[1] !== "content" : OF_MESSAGES.has(name);
  const terms = (more: Quirks): VendorTerms => ({ quirks: { ...quirks, ...more }, refuses });
  if (name === "cache_control") return terms({ acceptsCacheControl: false });
  if (name === BREAKPOINT) return terms({ refusesBreakpoints: true });
  if (name === "strict" && first !== "response_format") return terms({ noStrictTools: true });
  if (first === "stream_options") return terms({ noStreamOptions: true });
  if (OF_TEMPLATE.has(name)) return withoutTemplate({ quirks, refuses });
  if (isOfPart(place)) return terms({ messageFields: quirks.messageFields ?? MESSAGE_FIELDS });
  if (isOfMessage) {
    return terms({ messageFields: (quirks.messageFields ?? MESSAGE_FIELDS).filter((field) => field !== name) });
  }
  if (name === "max_tokens" || name === "max_completion_tokens") {
    const other = name === "max_tokens" ? "max_completion_tokens" : "max_tokens";
    return quirks.maxTokensField ? { quirks, refuses } : terms({ maxTokensField: other });
  }
  if (place.length > 1) return { quirks, refuses };
  return { quirks, refuses: [...refuses, name] };
}

/** No server that refuses so knows more than one way: Qwen's, Gemma's and Mistral's templates, Mistral's own reader, Tencent's. */
const IN_TURNS: Quirks = {
  ...{ alternatingRoles: true, strictRoleOrder: true, userFirst: true, oneSystemMessage: true },
  noDeveloperRole: true,
};

/** Of some templates the system's words are out of turn, or nobody's (Mistral's and Gemma's first ones; Google of Gemma 3): the user says them. */
const TURNS_REFUSED = /\balternat(?:e|ing)\b|unexpected role '\w+' after role|角色需交替出现/i;
const SYSTEM_REFUSED = /\bSystem role not supported\b|^Developer instruction is not enabled\b/i;

const EMPTY_TURN =
  /\bmessage at position \d+ with role 'assistant' must not be empty\b|\ball messages must have non-empty content\b/;

/**
 * What else servers refuse of what the dialect's own vendor takes, and how each can be told it. A rule that changes nothing of a request is passed
 * by; none loses anything that is not named.
 */
const RULES: readonly (readonly [words: RegExp, quirks: Quirks])[] = [
  [
    /\bdeveloper\b.*\b(?:roles?|variant|is not one of)\b|\b(?:roles?|variant|value)\b.*\bdeveloper\b|unexpected message role|roles are supported|\brole'?: input should be/i,
    { noDeveloperRole: true },
  ],
  // Null, or a list of parts: which of them the words seldom say, and neither loses anything.
  [
    /\bcontent\b(?!.*\b(?:too long|length|empty|policy|flagged)\b).{0,80}\b(?:string|str|null|none)\b|missing (?:field )?["'`]content|: missing content$|\bcontent["'`]?(?: field)?:? (?:is |field )?required|invalid ["'`]content|invalid type: (?:sequence|null), expected a string|invalid message (?:format|content type)|`text` is not (?:set|present)/i,
    { emptyContent: true, joinedContent: true },
  ],
  [/\btext content blocks must be non-empty\b/, { blankContent: true }],
  // Moonshot's words, and Claude's behind others. Of turns that call, some take no empty text (anomalyco/opencode #46577).
  [EMPTY_TURN, { noEmptyTurns: true }],
  [EMPTY_TURN, { noEmptyTurns: true, blankContent: true }],
  // Moonshot's, by whatever way it is asked (earendil-works/pi #4138, CommandCodeAI/command-code #594; MoonshotAI/kimi-cli #178).
  [/\bmoonshot flavored json schema\b|\bmissing 'type' or 'anyOf' key in parameter type\b/, { plainSchemas: true }],
  // llama.cpp's of June 2026 (ggml-org/llama.cpp #25515), OpenAI of a ceiling (eclipse-basyx/basyx-pdf-to-aas #8), Bedrock's schemas (x3n0cr4735/celi #91), pydantic.
  [/\b(?:but is|but got|received|found:) null\b|["']input["']: None\b/i, { noNulls: true }],
  // Qwen at hosts that have no row of its own.
  [
    /thinking\b.{0,40}(?:\bnon-streaming calls\b|\bwhen `?stream=false\b)|\bonly supports? stream mode\b/i,
    { streamsReasoning: true },
  ],
  // Of several, and of one that stands later, MiniMax says no more than the last two (MiniMax-AI/MiniMax-M2 #51, temm1e-labs/temm1e #59); the turn is Cohere's.
  [
    /\bsystem turn must be the first\b|\bsystem messages?\b.*\b(?:beginning|first|start|one|multiple)\b|\b(?:one|multiple) system messages?\b|\binvalid chat setting\b|\binvalid message role: system\b/i,
    { oneSystemMessage: true, noDeveloperRole: true },
  ],
  [TURNS_REFUSED, IN_TURNS],
  [new RegExp(`${SYSTEM_REFUSED.source}|${TURNS_REFUSED.source}`, "i"), { ...IN_TURNS, noSystemRole: true }],
  // LM Studio, in the words of its reader, OpenAI's models behind others, MiniMax (QwenLM/qwen-code #11834), TabbyAPI (theroyallab/tabbyAPI #485), Databricks (posit-dev/querychat #273), Groq (usestrix/strix #1088).
  [
    /'required' present but 'properties' is missing|"parameters",\s*"properties"\s*\],\s*"message":\s*"Required"|\bobject schema missing properties\b|\bfunction parameters is empty\b|\bfunction\.parameters: Field required\b|"parameters" is a required property\b/,
    { namedProperties: true },
  ],
  // Servers that hold no reply to a schema, and models of Cerebras (Ambolio/ninfer-4090-windows #3, livekit/agents #3134).
  [/\bstrict=true\b/i, { noStrictTools: true }],
  [/\bfunction name is invalid, must start with a letter\b/i, { letterFirstNames: true }],
  [/\btool names can only contain certain characters\b/, { wordNames: true }],
  [/\bcall ids?\b.*\blength (?:of )?9\b/i, { nineCharacterToolIds: true }],
  // OpenAI's models behind others (anomalyco/opencode #12653, BerriAI/litellm #17343, OpenHands/OpenHands #7700).
  [/\btool_call(?:s\[\d+\]\.|_)id\b.{0,4}string too long\b/i, { fortyCharacterToolIds: true }],
  [/\bimage urls are only allowed for messages with role .?user\b.*\brole .?tool\b/i, { textResults: true }],
  // A custom tool, where a server knows functions alone: llama.cpp, MiniMax (decolua/9router #2509), pydantic (vLLM, FastAPI), Rust's reader, JSON Schema (JiuliNuoyi/CodexRosetta #1).
  [
    /\b(?:unsupported|invalid) tool type\b|\binput should be ["'`]function["'`]|\bunknown variant ["'`]custom["'`]|["'`]function["'`] is a required property\b/i,
    { customTools: false },
  ],
  // Claude's models since 4.6, behind OpenRouter and others (anomalyco/opencode #29760).
  [/\bdoes not support assistant message prefill\b/, { prefill: "refused" }],
];

const FORCED_REFUSED =
  /\btool_choice\b.*\b(?:not?|only|must|input should be|invalid|unsupported|supported|incompatible)\b|(?:invalid|unsupported|not support(?: this)?) `?tool_choice|that support the provided 'tool_choice'/i;

const FORMAT = /\b(?:response_?format|json_schema|json_object|json mode|grammar constraints)\b/i;
const FORMAT_REFUSED =
  /\b(?:not supported|unsupported|not support|not enabled|unavailable|unknown variant|must be|input should be(?= ')|one of|cannot|incompatible)\b/i;
/** A schema that is at fault is the client's to mend. */
const SCHEMA_AT_FAULT =
  /\b(?:invalid (?:json[ _])?schema|additionalProperties|properties|keywords?|features?|compile)\b/i;

/** Who asks for two forms at once (llama.cpp, SGLang) is told so: in words one of them would bind nothing. */
const TWO_FORMS = /\bonly one of\b|\b(?:use|set|specify) both\b/i;

/** Who wants back what its model thought: DeepSeek of each turn, and Moonshot of those with calls. Their models are served under many names by others. */
const THOUGHT_MISSED = /\breasoning_content\b.{0,40}\bmust be passed back|\bmissing ["'`]?reasoning_content\b/i;
const CALLS_THOUGHT_MISSED = /\breasoning_content is missing in assistant tool call message/i;

/** Quirks that follow from words. */
type Taught = { rule: Quirks; isOnce?: boolean };

function formatLessons(words: string, isOnce: boolean): Taught[] {
  if (!FORMAT.test(words) || !FORMAT_REFUSED.test(words) || SCHEMA_AT_FAULT.test(words)) return [];
  const inWords: Taught[] = [
    { rule: { noJsonSchema: true }, isOnce },
    { rule: { noJsonObject: true }, isOnce },
    { rule: { noJsonSchema: true, noJsonObject: true }, isOnce },
  ];
  if (/\btools?\b/i.test(words)) return [{ rule: { noFormatBesideTools: true } }, ...inWords];
  return TWO_FORMS.test(words) ? [] : inWords;
}

/**
 * See {@link UpstreamDialect.lessons}: servers of this dialect differ in what they know of it, and say so in words alone. Also one that
 * knows all that the dialect's own one does, as Azure: behind a deployment's name may be any maker's model, and one of OpenAI's that takes less than others
 * (OpenHands/software-agent-sdk #1062, esengine/DeepSeek-Reasonix #1299, OpenCoworkAI/open-codesign #257).
 */
export function lessons(words: string, terms: VendorTerms): Lesson[] {
  const { quirks, refuses = [] } = terms;
  if (words === "") return [];
  const isBeside = BESIDE_OTHERS.test(words);
  const isOnce = (pattern: RegExp) => isBeside || pattern.test(words);
  const places = unknownPlaces(words);
  const taught: Lesson[] =
    places.length > 0 && !places.some(isEssential)
      ? [{ ...places.reduce(withoutField, terms), isOnce: isOnce(OF_FIELDS_VALUE) }]
      : [];
  taught.push(...imageLessons(words, terms), ...wholeLessons(words, terms), ...looseLessons(words, terms));
  taught.push(...samplingLessons(words, terms));
  const unreasoned = { quirks, refuses: [...refuses, ...REASONING_FIELDS, "think"] };
  if (REASONING_REFUSED.test(words))
    taught.push({ ...unreasoned, isOnce: EFFORT_REFUSED.test(words) || isOnce(OF_LEVELS) });
  if (NO_THOUGHT_BEFORE.test(words)) taught.push({ ...unreasoned, isOnce: true });
  const { reasoningReplay = "reasoning_content" } = quirks;
  const forced: Taught = { rule: { toolChoiceRequired: "auto" }, isOnce: isOnce(OF_CHOICES) };
  const ceiling = taughtCeiling(words);
  const more: Taught[] = [
    ...(ceiling ? [{ rule: ceiling, isOnce: isBeside }] : []),
    ...RULES.flatMap(([pattern, rule]) => (pattern.test(words) ? [{ rule }] : [])),
    ...(THOUGHT_MISSED.test(words) ? [{ rule: { reasoningReplay, reasoningReplayAlways: true } }] : []),
    ...(CALLS_THOUGHT_MISSED.test(words) ? [{ rule: { reasoningReplay, reasoningReplayCalls: true } }] : []),
    ...(FORCED_REFUSED.test(words) ? [forced] : []),
    ...formatLessons(words, isBeside),
  ];
  return [...taught, ...more.map(({ rule, isOnce = false }) => ({ quirks: { ...quirks, ...rule }, refuses, isOnce }))];
}
