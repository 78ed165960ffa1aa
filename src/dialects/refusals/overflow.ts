import { GatewayError } from "../../canon/errors.ts";

/**
 * What a vendor told, or the gateway knows, of a request that does not fit its model's window, in tokens. `asked` is all that was asked
 * for; where the vendor tells input and wanted output apart, their sum. `output` alone: of the input it tells no more than that both do not fit.
 */
export type OverflowFigures = { asked?: number; maximum?: number; input?: number; output?: number };

/** Longest text of a vendor's that is searched, characters: the figures stand in its first sentences. */
const MAX_SEARCHED = 4_000;

/** A model, or a plan, that reads no more than this many times 1024 tokens (Kimi). */
export const ONLY_CONTEXT = /\bsupports only (?:\S{1,60} up to )?(\d+)K context\b/i;

/** How the vendors say that a request does not fit (dialects.md 4.8 #36; field.md 23), beside their codes for it. */
const WORDINGS: readonly RegExp[] = [
  /context[_ -]?(?:length|window|size)[_ ]?exceeded|exceed_context_size|model_max_prompt_tokens/i,
  // Anthropic, Bedrock, Fireworks, Ollama
  /prompt (?:is )?too long|input is too long|input token(?: length|s)? (?:is )?(?:too long|exceed)/i,
  /input length and [`'"]?max_tokens[`'"]? exceed/i,
  // OpenAI, Azure, DeepSeek, OpenRouter, Together, vLLM, SGLang
  /maximum (?:context|prompt|model|sequence|allowed input) length/i,
  /exceed(?:s|ed)? (?:the |this |your )?(?:model'?s? )?(?:maximum |configured )?context[ _](?:window|length|limit)/i,
  /input tokens exceed the configured limit|reduce the length of (?:the|your) (?:messages|prompt|input)/i,
  /(?:is|are) longer than the (?:model'?s? )?(?:maximum )?(?:context|model) length/i,
  // What older vLLM says when nothing is left for the answer, and newer where the answer alone would not fit.
  /max_tokens must be at least 1, got -\d/i,
  // And of a prompt with pictures.
  /is too long to fit into the model\b/i,
  /\bmax_\w{0,20}tokens=\d+ cannot be greater than max_model_len\b/i,
  // Google, Bedrock, Copilot, GitHub Models (a 413: tashfeenahmed/freellmapi #426)
  /request body too large for \S+ model\. max size: \d|input token count|number of input tokens exceeds|too many input tokens|token count of \d[\d,]* exceeds the limit/i,
  // llama.cpp, LM Studio, MiniMax, LocalAI
  /available context size|larger than the max context size|configured context size|greater than the context length|context the overflows/i,
  /context window exceeds limit|context length of only \d|context size has been exceeded/i,
  // Kimi's plans for coding, in a 401 (MoonshotAI/kimi-code #2655, farion1231/cc-switch #5865)
  ONLY_CONTEXT,
  // mistral.rs (its `add_request.rs`)
  /\bprompt sequence length is greater than \d/i,
  // ds4-server (antirez/ds4 #150)
  /\bcontext_exceeded\b|\bexceeds context size \(\d/i,
  // mlx-vlm (its `server/generation.py`)
  /\bcontext tokens \(.{1,80}\), but MAX_KV_SIZE is \d/,
  // LM Studio's engine for MLX since the summer of 2026 (lmstudio-ai/lmstudio-bug-tracker #2322)
  /\bdoes not fit in context length\b/i,
  // llama.cpp's older words for that (ikawrakow/ik_llama.cpp #1619)
  /\btoo big compared to KV size\b/i,
  // Mistral, Moonshot, Z.ai, Qwen, TGI
  /too large for model with \d|exceeded model token limit|model max length exceeded|tokens? limit exceeded/i,
  /prompt exceeds max length|prompt 超长|range of (?:input|total) length should be/i,
  // Cohere's two of the last ones: the other names the highest ceiling that its model takes.
  /`?inputs`? (?:must have less than|tokens \+ `?max_new_tokens)|too many tokens(?!: max tokens must be)/i,
  /prompt is \d[\d,]* tokens long/i,
  // SGLang's scheduler, TensorRT-LLM, LMDeploy, SiliconFlow, OpenVINO, ONNX Runtime, MLC, Xinference, Huawei, DeepInfra, Volcengine, watsonx
  /(?:prompt|input) length (?:\([^)]{1,30}\)|\d+) (?:exceeds (?:the )?maximum (?:(?:allowed|input) )?length|must (?:be )?(?:smaller|less) than)|exceeds the KV memory budget/i,
  /should not exceed max_num_tokens|\bdefault_max_tokens`? \(-?\d+\) must be greater than 0|must be less than (?:or equal to )?max_seq_len/i,
  /prompt tokens: \d+ exceeds model max length|input_ids size \(\d+\).{0,60}exceeds max length|larger than the model capacity \d|prompt has \d+ tokens, but/i,
  /number of input tokens \d+ cannot exceed the total tokens limit/i,
  // Volcengine and BytePlus (agentscope-ai/QwenPaw #272), Snowflake (posit-dev/positron #11737)
  /\bexceed max message tokens\b|\bmax tokens of \d+ exceeded\b/i,
  // FastFlowLM, which says no more, and Lemonade behind which it runs (FastFlowLM/FastFlowLM, `rest_handler.cpp`)
  /\bmax length reached!?$/i,
  // Baidu's codes (cloud.baidu.com/doc/qianfan-api/s/rmwbl43x7)
  /\b(?:tokens|characters)_too_long\b/,
];

/** More than a minute's allowance in one request: no waiting cures that, a shorter one does (Groq, OpenAI). */
const LARGER_THAN_ALLOWANCE = /request too large .{0,200}?limit:? (\d[\d,_]*),? requested:? (\d[\d,_]*)/i;

/** Too many of many requests, which waiting cures. */
const THROTTLED = /throttl|rate limit|too many requests|wait before trying/i;

const N = "(\\d[\\d,_]*)";
const figure = (pattern: string) => new RegExp(pattern.replaceAll("#", N), "i");

/** Where the window's size stands, the surest wording first. */
const MAXIMUM: readonly RegExp[] = [
  "exceed context limit: \\d+ \\+ \\d+ > #",
  "tokens? > #",
  "with # maximum context length",
  "(?:maximum|max) (?:supported )?(?:(?:context|prompt|model|sequence|allowed input|allowed) )?length(?: of| is|:)?(?: just| only)? \\(?#",
  "context[ _]length (?:(?:of|is)(?: only)? )?\\(?#",
  "maximum number of tokens allowed \\(?#",
  "only supports? (?:up to )?#",
  "token limit: #",
  "max (?:length|size): ?#",
  "configured (?:limit of|context size is) #",
  "exceeds the limit of #",
  "while limit is #",
  "limit:? #,? requested",
  "context size (?:of )?\\(?#",
  "input length should be \\[\\d+, ?#\\]",
  "must (?:have less than|be <=) #",
  "greater than max_model_len=#",
  "sequence length is greater than #",
  "MAX_KV_SIZE is #",
  "max_(?:num_tokens|seq_len) \\(#",
  "model capacity #",
  "max(?:imum)? input tokens:? #",
  "maximum input length \\(?#",
  "context window limit \\(#",
  "total tokens limit #",
  "total length should be less than or equal to #",
  "max tokens of # exceeded",
].map(figure);

/** Where the request's own size stands. */
const ASKED: readonly RegExp[] = [
  "prompt is too long: #",
  "# tokens? > \\d",
  "resulted in #",
  "you requested (?:about |a total of |~)?#",
  "requested:? #",
  "request contains #",
  // vLLM counts the letters of a prompt that is far too long, and no tokens.
  "prompt (?:contains|has|is) #(?![\\d,_]| characters)",
  "input token count:? (?:is )?\\(?#",
  "token count of #",
  "current length is #",
  "\\((?:total )?length #\\)",
  "(?:prompt|input) length \\(?#",
  "prompt[_ ](?:tokens|len)[:`]? \\(?#",
  "input_ids size \\(#",
  "(?:input|request) \\(# tokens\\)",
  "request has # input tokens",
  "input has # tokens",
  "given: #",
  "keep the first # tokens",
  "tokens \\(#\\) (?:must be less|exceeded)",
  "input tokens # cannot exceed",
].map(figure);

/** Input and wanted output, told apart. */
const SPLIT: readonly RegExp[] = [
  "exceed context limit: # \\+ #",
  "\\(# (?:in the messages|of text input)[^)]{0,80}?,? (?:and )?# in the (?:completion|output)",
  "# tokens from the input messages and # tokens for the completion",
  "\\(# prompt \\+ # max generation\\)",
  // io.net (charmbracelet/fantasy #253)
  "\\(# input \\+ # output\\)",
  "given: # `?inputs`? tokens and # `?max_new_tokens",
  "input tokens length is #\\. output tokens length is #",
].map(figure);

/**
 * The wanted output, where the input was not counted, or no further than up to the first token that does not fit beside it: vLLM says "at least" of that, or
 * says it as any other count.
 */
const OUTPUT_ALONE = figure("(?<=requested |\\bmax_\\w{0,20}tokens=)#(?= output tokens| cannot be greater)");

/** The same with the output first. */
const SPLIT_OUTPUT_FIRST = figure("too large: #\\. .{0,120}?request has # input tokens");

const toNumber = (digits: string | undefined): number | undefined => {
  const value = digits === undefined ? Number.NaN : Number(digits.replaceAll(/[,_]/g, ""));
  return Number.isSafeInteger(value) && value > 0 ? value : undefined;
};

function findFirst(patterns: readonly RegExp[], text: string): number | undefined {
  for (const pattern of patterns) {
    const found = toNumber(pattern.exec(text)?.[1]);
    if (found !== undefined) return found;
  }
  return undefined;
}

function findSplit(text: string): OverflowFigures {
  const turned = SPLIT_OUTPUT_FIRST.exec(text);
  if (turned) return withSum(toNumber(turned[2]), toNumber(turned[1]));
  for (const pattern of SPLIT) {
    const match = pattern.exec(text);
    if (match) return withSum(toNumber(match[1]), toNumber(match[2]));
  }
  return {};
}

function withSum(input: number | undefined, output: number | undefined): OverflowFigures {
  return input === undefined || output === undefined ? {} : { input, output, asked: input + output };
}

/** Numbers that stand alone and are large enough for tokens: no part of a model's name, a date or a code. */
const LARGE_NUMBER = /(?<![\w.:-])\d[\d,_]{3,}(?![\w:-]|\.\d)/g;

/** In words nobody foresaw: two large numbers are the request and the window. */
function guessFigures(text: string): OverflowFigures {
  const numbers = [...text.matchAll(LARGE_NUMBER)].map(([digits]) => toNumber(digits) ?? 0);
  const [one = 0, other = 0] = numbers;
  return numbers.length === 2 && one !== other ? { asked: Math.max(one, other), maximum: Math.min(one, other) } : {};
}

/** The figures in a vendor's words. A pair that does not overflow is no pair: then only the window's size is believed. */
function readFigures(text: string): OverflowFigures {
  const split = findSplit(text);
  const thousands = toNumber(ONLY_CONTEXT.exec(text)?.[1]);
  const maximum = thousands ? thousands * 1024 : findFirst(MAXIMUM, text);
  const output = toNumber(OUTPUT_ALONE.exec(text)?.[1]);
  if (output !== undefined && maximum !== undefined) return { output, maximum };
  const beyond = toNumber(/exceeded (?:max )?context length by (\d+)/i.exec(text)?.[1]);
  const stated = [split.asked, findFirst(ASKED, text), beyond && maximum && maximum + beyond];
  const asked = stated.reduce((most, value) => (value && value > (most ?? 0) ? value : most), undefined);
  if (asked === undefined && maximum === undefined) return guessFigures(text);
  if (asked !== undefined && maximum !== undefined && asked <= maximum) return { maximum };
  return { ...split, ...(asked !== undefined && { asked }), ...(maximum !== undefined && { maximum }) };
}

/**
 * What an upstream's error tells of the context window, or undefined when it is about something else. `words` are its code, type and
 * message; the status counts only where it says that the fault is not the request's length: a wrong key, an empty account, a limit of
 * speed. A vendor may say it with any other one, 500 and a 200's own error included (dialects.md 4.8 #22, #36).
 */
export function readOverflow(status: number, words: string): OverflowFigures | undefined {
  if (status === 401 || status === 402 || status === 403) return undefined;
  const text = words.slice(0, MAX_SEARCHED);
  const allowance = LARGER_THAN_ALLOWANCE.exec(text);
  const [maximum, asked] = [toNumber(allowance?.[1]), toNumber(allowance?.[2])];
  if (maximum !== undefined && asked !== undefined && asked > maximum) return { asked, maximum };
  if (status === 429 || THROTTLED.test(text)) return undefined;
  return WORDINGS.some((wording) => wording.test(text)) ? readFigures(text) : undefined;
}

/** The next smaller power of two: windows come in these sizes, and the one that was overrun is at most that. */
const usualWindowBelow = (asked: number): number => 2 ** Math.max(0, Math.ceil(Math.log2(asked)) - 1);

/** The figures with what they lack: the gateway's own count of the input, and the catalog's size of the window. */
function complete(figures: OverflowFigures, estimate: number, window: number | undefined) {
  const known = figures.maximum ?? window;
  const { output } = figures;
  if (figures.asked === undefined && output !== undefined && known !== undefined) {
    const input = Math.max(estimate, known - output + 1);
    return { asked: input + output, maximum: known, input };
  }
  const asked = Math.max(figures.asked ?? Math.max(estimate, (known ?? 0) + 1), 2);
  const maximum = known !== undefined && known < asked ? known : usualWindowBelow(asked);
  return { asked, maximum };
}

/**
 * The words that agents know (contract 6; field.md 23). Claude Code compacts at the first sentence, and lowers `max_tokens` where the
 * second one says that the input alone would fit. Agents of the chat dialect look for the rest, which is OpenAI's: LiteLLM, and aider with it, for the
 * very words of its first sentence, charm's fantasy, which Crush is built on, for both figures in the words of the first two.
 */
function word({ input, output }: OverflowFigures, asked: number, maximum: number): string {
  const fits = input !== undefined && output !== undefined && input < maximum;
  const ceiling = fits
    ? ` input length and \`max_tokens\` exceed context limit: ${input} + ${output} > ${maximum}.`
    : "";
  return `prompt is too long: ${asked} tokens > ${maximum} maximum.${ceiling} This model's maximum context length is ${maximum} tokens. However, you requested ${asked} tokens. Please reduce the length of the messages.`;
}

/** A request that does not fit its model's window, in words that agents compact at (contract 6). */
export class ContextOverflow extends GatewayError {
  constructor(
    readonly figures: OverflowFigures,
    cause?: unknown,
  ) {
    const { asked, maximum } = figures;
    const text =
      asked !== undefined && maximum !== undefined
        ? word(figures, asked, maximum)
        : "prompt is too long: it does not fit the model's context window. Shorten the conversation.";
    super("context_length_exceeded", text, { cause });
  }

  /**
   * The same with both figures. What the vendor did not say comes from `estimate`, the gateway's count of the input, and `window`, the
   * catalog's context length, in tokens; a window that nobody knows is taken for the next usual size below.
   */
  completed(estimate: number, window: number | undefined): ContextOverflow {
    const { asked, maximum } = this.figures;
    if (asked !== undefined && maximum !== undefined) return this;
    return new ContextOverflow({ ...this.figures, ...complete(this.figures, estimate, window) }, this.cause);
  }
}
