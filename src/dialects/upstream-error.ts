import { type ErrorCode, GatewayError } from "../canon/errors.ts";
import { INVISIBLE } from "../lib/invisible.ts";
import { isObject, listOf } from "../lib/json.ts";
import { withFormsOf } from "../observe/secret-forms.ts";
import { ContextOverflow, type OverflowFigures, readOverflow } from "./overflow.ts";
import { plainFaults } from "./python-faults.ts";
import { relayedError } from "./relayed-error.ts";

/** Longest excerpt of an upstream's own words that a client may see (contract 6). */
const MAX_EXCERPT = 300;
/** Longest `retry-after` handed on, seconds (contract 6). */
const MAX_RETRY_AFTER = 60;
/** How long a limit lasts that says no time, or less than this, seconds: whoever is limited for no longer is asked all the same. */
export const SHORTEST_LIMIT_SECONDS = 1;

/**
 * Keys, tokens, URLs, addresses, people and machine paths: replaced, whatever vendor wrote them. A JSON pointer (`#/a/b`, and Cloudflare's
 * `/messages/0/content`) is no path, nor are the dialects' own (`/v1/responses`), and the field `user_location` of web searches is nobody.
 */
const SECRETS: readonly RegExp[] = [
  /\b(?:sk|pk|rk|gsk|xai|csk|fw|nvapi|pplx|tgp|hf|r8|key|AIza|slt|gh[opusr]|github_pat|glpat|xox[abeprs])[-_][A-Za-z0-9_*.-]{6,}/g,
  /\bAIza[A-Za-z0-9_-]{10,}|\bya29\.[\w.-]{6,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b/g,
  /\beyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?/g,
  /\b(?:(?:Bearer|Basic)\s+)+[^\s"',]{4,}/gi,
  /\b(?:org|proj|user|acct|account)[-_](?!location\b)[A-Za-z0-9]{8,}/g,
  /\b(?:team|project|organi[sz]ation|account|key)(?: id)?: ?[0-9a-f]{8}-[0-9a-f-]{27}/gi,
  /\b[a-z][a-z\d+.-]{1,15}:\/\/[^\s"'<>)]+/gi,
  /\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g,
  /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g,
  /\[[\da-f.]*:[\da-f.]*:[\da-f:.]*(?:%\w+)?\](?::\d+)?|(?<!\w|::)(?:[\da-f]{1,4}(?::[\da-f]{1,4})*)?::[\da-f]{1,4}(?::[\da-f]{1,4})*(?![\w:])/gi,
  /(?<![\w.\])}#-])(?!\/(?:(?:messages|tools)\/\d|(?:tool_choice|response_format)\/|v1\/(?:responses|chat\/completions)(?![\w/-])))(?:\/[\w.@-]+){2,}|[A-Za-z]:\\[^\s"']+|\\\\[\w.-]+\\[^\s"']+/g,
];

/** Shorter keys are words: taking them out would blank what a vendor says. */
const MIN_HIDDEN = 6;
/** The keys of this gateway's vendors, in all their forms. There are as many as the configuration has ever named. */
let hidden: readonly string[] = [];

/**
 * From now on no upstream's words are shown with this in them, as it is or as it was encoded on its way: keys that look like no other, such as
 * those of one's own servers.
 */
export function hideFromExcerpts(secret: string): void {
  if (secret.length >= MIN_HIDDEN) hidden = withFormsOf(secret, hidden);
}

/** An upstream's own words made safe to show: one line of whole characters, no secrets, at most 300 characters. */
export function scrub(text: string): string {
  let clean = text.replace(INVISIBLE, " ");
  for (const secret of hidden) clean = clean.replaceAll(secret, "[removed]");
  clean = clean.slice(0, 4 * MAX_EXCERPT);
  for (const pattern of SECRETS) clean = clean.replace(pattern, "[removed]");
  clean = clean.trim();
  // A cut may fall inside a character, and strict clients refuse JSON with half of one.
  return (clean.length > MAX_EXCERPT ? `${clean.slice(0, MAX_EXCERPT - 1)}…` : clean).toWellFormed();
}

/** What can be read of an error in any of the shapes vendors use (dialects.md 1.5). */
type RawError = {
  message: string;
  type: string;
  code: string;
  param?: string;
  /**
   * What went wrong, in one word (`error_code`) by which Anthropic's SDKs choose the class of the error they throw, with the figures and the places in the
   * request that belong to it (dialects.md 2.6).
   */
  details?: Record<string, unknown>;
  figures?: OverflowFigures;
  /** It is of a vendor behind the one that was asked. */
  isRelayed?: true;
};

const text = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";

function writeDetail(detail: unknown): string {
  try {
    return JSON.stringify(detail);
  } catch {
    // Nested deeper than the stack: nobody could read it either.
    return "";
  }
}

/** Wrappings around an error that are opened: a vendor in trouble must not take our stack along. */
const MAX_WRAPPINGS = 8;

/** One fault of a list as FastAPI tells it: what is wrong, and where. What was sent stands beside it, and is left out. */
const writeFault = (fault: unknown): string => {
  if (!isObject(fault) || typeof fault["msg"] !== "string") return writeDetail(fault);
  const { loc, msg } = fault;
  return Array.isArray(loc) ? `${loc.join(".")}: ${msg}` : msg;
};

/** Faults of a list that are told. */
const MAX_FAULTS = 5;

function writeFaults(detail: unknown): string {
  if (typeof detail === "string") return detail;
  if (Array.isArray(detail)) return detail.slice(0, MAX_FAULTS).map(writeFault).join("; ");
  return detail ? writeDetail(detail) : "";
}

/** One fault of a list as Zod tells it. */
const writeIssue = (issue: unknown): string => {
  if (!isObject(issue)) return "";
  const path = listOf(issue["path"]).join(".");
  return path === "" ? text(issue["message"]) : `${path}: ${text(issue["message"])}`;
};

/** What is wrong of a request, where the sentence itself says only that something is (Venice). */
const writeIssues = (issues: unknown): string => listOf(issues).slice(0, MAX_FAULTS).map(writeIssue).join("; ");

/** What is no name of a field: MiMo says "Param Incorrect", and why in the place where others name the field (XiaomiMiMo/MiMo #44). */
const SENTENCE = /^\S+ \S+ \S/;

/**
 * The sentence of an error object, by whatever name: Mistral has an object in its place, Cloudflare a list of errors, Amazon a capital letter,
 * DeepInfra a longer name, MiniMax words beside a status.
 */
function wordsIn(value: Record<string, unknown>, wrappings: number): string {
  const { message, detail, errors, base_resp: response } = value;
  if (isObject(message)) return readRawError(message, wrappings - 1).message;
  return (
    text(message) ||
    writeFaults(detail) ||
    text(value["msg"]) ||
    text(value["Message"]) ||
    text(value["error_message"]) ||
    readRawError(errors, wrappings - 1).message ||
    (isObject(response) ? text(response["status_msg"]) : "")
  );
}

/** Whether what a vendor sent inside a 200 is an error, in any of OpenAI's servers' shapes (dialects.md 1.5): an object, a text, or its fields flat. */
export const isErrorBody = (value: Record<string, unknown>): boolean =>
  Boolean(value["error"]) || value["object"] === "error" || value["type"] === "error";

/**
 * MiniMax's numbers, which stand inside a 200 of its own, as the HTTP status that each means (platform.minimax.io, "Error Codes"); any other is a fault of
 * its server's. Without it a limit of one minute, or one user's refused prompt, would be a broken vendor to everybody.
 */
const MINIMAX_STATUS: Readonly<Record<string, number>> = {
  ...{ 1002: 429, 1039: 429, 1041: 429, 2045: 429, 2056: 429 },
  ...{ 1004: 401, 2049: 401, 1008: 402 },
  ...{ 1026: 400, 1027: 400, 1042: 400, 2013: 400 },
};

const codeIn = ({ code, base_resp: response }: Record<string, unknown>): string =>
  text(code) ||
  (isObject(response) ? text(MINIMAX_STATUS[text(response["status_code"])] ?? response["status_code"]) : "");

/** Finds message, type, code and param in an error value: an object, a string, a FastAPI `detail`, or an array around one. */
export function readRawError(value: unknown, wrappings = MAX_WRAPPINGS): RawError {
  if (Array.isArray(value) && wrappings > 0) return readRawError(value[0], wrappings - 1);
  if (typeof value === "string") return readRelayed({ message: value, type: "", code: "" }, wrappings);
  if (!isObject(value) || wrappings === 0) return { message: "", type: "", code: "" };
  // Cloudflare's gateway has a list there.
  const [inner] = [value["error"]].flat();
  if (isObject(inner)) {
    const found = readRawError(inner, wrappings - 1);
    return { ...found, type: found.type || (value["type"] === "error" ? "" : text(value["type"])) };
  }
  if (typeof inner === "string") {
    const said = [inner, writeIssues(value["issues"])].filter((words) => words !== "").join(": ");
    return readRelayed({ message: said, type: text(value["type"]), code: text(value["code"]) }, wrappings);
  }
  const behind = readBehind(value["value"], wrappings);
  if (behind) return behind;
  const words = wordsIn(value, wrappings);
  const place = text(value["param"]);
  const isReason = SENTENCE.test(place);
  const message = isReason ? `${words}: ${place}` : words;
  const param = isReason ? "" : place;
  const details = detailsOf(value);
  const figures = figuresOf(value);
  const found: RawError = {
    message: innerMessage(value["metadata"], wrappings) || message,
    type: text(value["type"]) || text(value["error_type"]) || text(value["reason"]) || text(value["status"]),
    code: codeIn(value),
    ...(param && { param }),
    ...(details && { details }),
    ...(figures && { figures }),
  };
  return readRelayed(found, wrappings);
}

/** What Vercel's gateway could not read of a vendor's stream, where that is an error (vercel/ai #18303): its own words say only that something was wrong. */
function readBehind(record: unknown, wrappings: number): RawError | undefined {
  const found = isObject(record) ? readRawError(record, wrappings - 1) : undefined;
  return found && found.message !== "" ? { ...found, isRelayed: true } : undefined;
}

/** An error as the vendor behind a gateway told it, where that gateway's words are no more than a wrapping of its. */
function readRelayed(error: RawError, wrappings: number): RawError {
  const relayed = wrappings > 0 ? relayedError(error.message) : undefined;
  if (relayed === undefined) return error;
  const { message, type, code, ...more } = readRawError(relayed, wrappings - 1);
  if (message === "") return { ...error, isRelayed: true };
  return { ...error, ...more, message, type: type || error.type, code: code || error.code, isRelayed: true };
}

/** A place in a request as Anthropic writes it, and the most of them that are told. */
const PLACE = /^messages(?:\.\w{1,64}){1,16}$/;
const MOST_PLACES = 200;

const isPlaces = (value: unknown): boolean =>
  Array.isArray(value) && value.every((place) => typeof place === "string" && PLACE.test(place));

/** An error's details where they hold a word, which no sentence is: that, and what stands beside it that can tell nothing of the gateway's account. */
function detailsOf({ details }: Record<string, unknown>): Record<string, unknown> | undefined {
  const word = isObject(details) ? text(details["error_code"]) : "";
  if (!isObject(details) || !/^[a-z][a-z\d_]{0,63}$/.test(word)) return undefined;
  const { max_side_length_pixels: pixels, paths } = details;
  return {
    error_code: word,
    // ImageDimensionsTooLargeErrorDetails of @anthropic-ai/sdk 1.12.
    ...(Number.isSafeInteger(pixels) && { max_side_length_pixels: pixels }),
    ...(isPlaces(paths) && { paths: listOf(paths).slice(0, MOST_PLACES) }),
  };
}

/** An aggregator's own words say only that a vendor failed; what that vendor said stands in `metadata.raw`, often as JSON (OpenRouter). */
function innerMessage(metadata: unknown, wrappings: number): string {
  const raw = isObject(metadata) ? metadata["raw"] : undefined;
  if (typeof raw !== "string") return "";
  try {
    return readRawError(JSON.parse(raw), wrappings - 1).message;
  } catch {
    return raw.trimStart().startsWith("<") ? "" : raw;
  }
}

/** What llama.cpp tells as numbers instead of words. */
function figuresOf({ n_prompt_tokens: asked, n_ctx: maximum }: Record<string, unknown>): OverflowFigures | undefined {
  const isCount = (value: unknown): value is number =>
    typeof value === "number" && Number.isSafeInteger(value) && value > 0;
  return isCount(asked) && isCount(maximum) && asked > maximum ? { asked, maximum } : undefined;
}

/** Groq's status of its own for a tier that has no room left (console.groq.com, "Flex Processing"): nothing ran, and asking later helps. */
const NO_ROOM_LEFT = 498;

/** Meaning of an upstream status (reliability.md 6.2, contract 6). A vendor's 401 is never the client's 401. */
function codeOf(status: number): ErrorCode {
  if (status === 401 || status === 403) return "upstream_auth";
  if (status === 429 || status === NO_ROOM_LEFT) return "rate_limit_exceeded";
  if (status === 502 || status === 503 || status === 529) return "upstream_overloaded";
  if (status === 400 || status === 409 || status === 413 || status === 415 || status === 422) return "invalid_request";
  return "upstream_error";
}

/**
 * How vendors say in a 403 that they will not have what was said to the model: OpenRouter whose moderation flags the input, xAI under the very code
 * that it has for keys without a right, Huawei's MaaS; and in a 424 Cloudflare's guardrails before another vendor. That is the request's own fault, as the same refusal is that comes as a 400 (Azure's).
 */
const CONTENT_REFUSED =
  /\b(?:input|prompt|content|text|message|output)s?\b[^.]{0,40}\b(?:flagged|violates?|sensitive)\b|\bmoderation\b|\bblocked due to security configurations\b|\bcontent[ _-]?(?:policy|filter)|\bguardrail|\bprompt injection\b|\bSAFETY_CHECK_/i;

/**
 * And how they say so to programs, with whatever status, or inside a 200, where what the model said is refused: Azure's `content_filter`, Alibaba's
 * `data_inspection_failed`, StepFun's `censorship_blocked`, Volcengine's `OutputTextSensitiveContentDetected`.
 */
const CONTENT_REFUSED_CODE =
  /content_?(?:policy|filter)|data_?inspection|censor|moderation|sensitive_?(?:content|words)/i;

/**
 * How vendors say that they have no such thing as a request names, or may not read it: an item, a file, a container (OpenAI's and Anthropic's 404), a file of
 * Google's store or of somebody's bucket (403). As a model's or a key's fault one such request would take the way from everybody.
 */
const NOT_STORED =
  /^(?:item|file|container|conversation|prompt|vector store|skill)\b.{0,200}\bnot found\b|\bpermission to access the file\b|\bstorage\.objects\.get\b/i;
/** OpenAI's word for a server of tools that the request names and that fails: a 424, with which others mean a fault of their own. */
const TOOL_SERVER_FAILED = "external_connector_error";

/**
 * How a vendor says that it takes no request that has such a thing: OpenRouter in a 404 that none of a model's hosts takes tools, a forced one, or an
 * image; llama.cpp in a 500 that its model cannot see or hear (ggml-org/llama.cpp #15377), or that it was started without tools; mlx-lm in a 404 that its
 * model cannot see; vLLM that it was started without tools; another gateway of this kind of what a strict client would lose there. The model is there all the same for who asks for less.
 */
const NEVER_TAKEN =
  /^(?:No endpoints found that (?:support|can handle)|(?:image|audio) input is not supported|tools param requires --jinja|Only 'text' content type is supported|"auto" tool choice requires --enable-auto-tool-choice|This model's vendor cannot be told all of the request)\b/i;

/** How a field is refused by its name, which stands first and is the client's own choice: such a sentence tells nothing of the gateway's account. */
const NAMED_FIELD = /: Extra inputs are not permitted/;

/** A wrong key that is told as a bad request, by xAI (with a piece of the key) and Google: it is no 401 of the client's, and no fault of its request. */
const KEY_REFUSED = /^(?:Incorrect API key provided|API key (?:not valid|expired)|Invalid API[ -]?key)/i;

/**
 * A model that the vendor does not have, told as a bad request: by DeepSeek, SiliconFlow, Mistral, OpenRouter, Workers AI and LiteLLM. Its name is the
 * operator's choice.
 */
const NO_MODEL =
  /^(?:Model (?:Not|does not) Exist|(?:\w+: )*No such model @|\S{1,200} is not a valid model ID|(?:\/[\w/]+: )?Invalid model name passed in)/i;
const NO_MODEL_TYPE = /^(?:invalid_model|model_not_found)$/i;

/**
 * A conversation that a model's template refuses, which llama.cpp tells as a fault of its own: a 500, behind a piece of the template. Nothing has run,
 * and asked again it says the same (ggml-org/llama.cpp #27367).
 */
const TEMPLATE_REFUSED = /^.*\bError: (?=Jinja Exception: )/s;

/** A model that is down, which NVIDIA tells as a bad request (tashfeenahmed/freellmapi #522): nothing ran, and asking later helps. */
const MODEL_DOWN = /\bDEGRADED function cannot be invoked\b/;

/**
 * What a web server said of a file that the request names, which vLLM tells as a fault of its own, in its HTTP client's words (vllm-project/vllm #47163: a
 * 422 since July 2026).
 */
const NOT_FETCHED = /^\d{3}, message='[^']{0,100}', url=/;

/** What a request's reader in Python found amiss in its body, which llama-cpp-python's server tells as a fault of its own (ggml-org/llama.cpp #23463). */
const BODY_REFUSED = /^\d+ validation errors?:\s+\{'type': '\w+', 'loc': \('body'/;

/**
 * A conversation that a model's template refuses (Qwen's, Gemma's, Mistral's, Llama's), which mlx-lm's server tells in a 404, as all that goes wrong before
 * the first token (ml-explore/mlx-lm, `mlx_lm/server.py`). Its model is there all the same.
 */
const CONVERSATION_REFUSED =
  /^No user query\b|\b(?:message|conversation|user|assistant|system|tool) roles?\b|\broles? (?:are|is|must|not|')|\b(?:system|user|assistant|tool) messages?\b|\bsingle tool-calls\b|^Tool call IDs\b/i;

/** The status that a vendor's answer would have had at one that keeps to what they mean. */
function meantStatus(status: number, { type, code, message, isRelayed }: RawError): number {
  // A request that LM Studio's engine refuses is a 500 of LM Studio's own.
  if (status === 500 && isRelayed && code === "400") return 400;
  if (status === 500 && [TEMPLATE_REFUSED, NOT_FETCHED, BODY_REFUSED].some((words) => words.test(message))) return 400;
  if ((status === 403 || status === 424) && CONTENT_REFUSED.test(`${code} ${type} ${message}`)) return 400;
  // 451 is what StepFun and Tencent have for it.
  if (status === 451 || CONTENT_REFUSED_CODE.test(`${type} ${code}`)) return 400;
  if ((status === 403 || status === 404) && NOT_STORED.test(message)) return 400;
  if (status === 404 && CONVERSATION_REFUSED.test(message)) return 400;
  if ((status === 404 || status === 500) && NEVER_TAKEN.test(message)) return 400;
  if (type === TOOL_SERVER_FAILED || code === TOOL_SERVER_FAILED) return 400;
  if (status !== 400 || NAMED_FIELD.test(message)) return status;
  if (MODEL_DOWN.test(message)) return 503;
  if (KEY_REFUSED.test(message)) return 401;
  return NO_MODEL_TYPE.test(type) || NO_MODEL_TYPE.test(code) || NO_MODEL.test(message) ? 404 : status;
}

/**
 * Words for programs by which vendors say that the account there is empty, whatever status they choose (Alibaba's `Arrearage` is a 400, new-api's
 * `insufficient_user_quota`, Novita's `NOT_ENOUGH_BALANCE` and Volcengine's `AccountOverdueError` a 403).
 */
const NO_CREDIT_CODE =
  /insufficient_(?:user_)?(?:quota|balance)|not_enough_balance|exceeded_current_quota|credit_balance|billing|arrearage|account_?overdue|(?:organization|project)_(?:spend|usage)_limit/i;
/**
 * And the beginnings of sentences of those that have no such word: Anthropic's 400 is an `invalid_request_error` like any other, xAI's 403 a right that
 * is missing, SiliconFlow's 403, Z.ai's 429 and Fireworks' 412 have a code that tells nothing. Google's "check your plan and billing details" is a limit of the minute as
 * well, and none; OpenRouter's 403 of a key that has spent what it may is one. Beginnings alone: what a request says is quoted further on, and would put
 * the key to rest for everybody.
 */
const NO_CREDIT_TEXT =
  /^(?:key limit exceeded\b|your (?:credit balance is too low|subscription payment is past due)|insufficient (?:account )?balance|(?:sorry, )?your account balance is insufficient|you have reached your specified API usage limits|your (?:newly created )?team\b[^"'`]{0,120}\b(?:used all available credits|reached (?:its|your|the) monthly spending limit)|(?:your )?account\b[^"'`]{0,120}\bsuspended\b[^"'`]{0,60}\b(?:balance|spending limit|invoices))/i;

/**
 * How OpenRouter says that an account has credit, but not as much as this request may come to: by the output that it asks for, which is its model's most
 * where it names none (can1357/oh-my-pi #9569), or by its prompt (continuedev/continue #11227). Another request of the same minute is served.
 */
const EXCEEDS_CREDIT =
  /^(?:This request requires more credits, or fewer max_tokens\b.*\bcan only afford [1-9]|Prompt tokens limit exceeded: \d+ > [1-9])/;

/** Whether the gateway's account at the vendor has credit, and the request is too large for it: of the key and of its way that says nothing. */
export const exceedsCredit = ({ message }: { message?: unknown }): boolean => EXCEEDS_CREDIT.test(String(message));

/**
 * How vendors say that a plan's hours or its week are used up, with a 429 that names no time: Z.ai's 1308 and 1310 (hugalafutro/model-hotel #955,
 * dirge-code/dirge #818), MiniMax (MiniMax-AI/MiniMax-M2.7 #36) and Ollama's cloud (NousResearch/hermes-agent #68832); and with a 403 that of Kimi Code
 * (MoonshotAI/kimi-code #2121, openclaw/openclaw #142656). It is not over in a moment, as a rate is.
 */
const PLAN_USED_UP =
  /^(?:usage limit reached for \d|已达到 ?\d+ ?小时的使用上限|weekly\/monthly limit exhausted|usage limit exceeded, |you(?: \([^)]{1,100}\))?(?:'ve| have) reached your (?:(?:session|hourly|weekly|monthly) (?:\([^)]{1,20}\) )?)?usage limit)/i;

/** Whether a vendor says so. Of the key's other models that tells nothing: a local Ollama has some of its own beside those of the cloud. */
export const meansUsedUp = ({ message }: { message?: unknown }): boolean => PLAN_USED_UP.test(String(message));

/** Whether an error means that the gateway's account at the vendor has no credit left: its key is of no use to any request (reliability 6.2). */
export function meansNoCredit(
  status: unknown,
  { type, code, message }: { type?: unknown; code?: unknown; message?: unknown },
): boolean {
  if (exceedsCredit({ message })) return false;
  if (status === 402 || NO_CREDIT_CODE.test(`${code} ${type}`)) return true;
  const words = String(message);
  return NO_CREDIT_TEXT.test(words) && !NAMED_FIELD.test(words);
}

/** Errors sent inside a 200 carry no status: the vendor's own word for it says which it would have been. */
export function statusOfRawError(raw: RawError): number {
  const numeric = Number(raw.code);
  if (Number.isInteger(numeric) && numeric >= 400 && numeric < 600) return numeric;
  const word = `${raw.type} ${raw.code}`;
  if (/overloaded|unavailable/i.test(word)) return 529;
  if (/rate_?limit|resource_exhausted|too_many|throttl/i.test(word)) return 429;
  if (/insufficient_quota|billing|credit/i.test(word)) return 402;
  if (/authentication|invalid_api_key/i.test(word)) return 401;
  if (/permission/i.test(word)) return 403;
  if (/not_?found/i.test(word)) return 404;
  if (/invalid_request|invalid_argument|bad_?request|validation/i.test(word)) return 400;
  return 500;
}

/** {@link upstreamError} of what a vendor sent inside a 200. */
export function innerError(value: unknown): GatewayError {
  const raw = readRawError(value);
  return upstreamError(statusOfRawError(raw), raw);
}

/** The error for a record of a stream that cannot be read. */
export const unreadableRecord = (cause: unknown): GatewayError =>
  new GatewayError("upstream_error", "The vendor sent a record that is not JSON.", { cause });

/**
 * Groq's code for a call that its model wrote so that nobody can read it. It tells that as a fault of the request (a 400), which may well succeed when it is
 * asked again (pydantic/pydantic-ai #4354, tashfeenahmed/freellmapi #291), as other vendors' replies that end so.
 */
const SPOILED = "tool_use_failed";

/** How long the vendor wants to be left alone: a limit for a second at the least, an overload where it says so (RFC 9110, 10.2.3). */
function waitOf(code: ErrorCode, toldSeconds: number | undefined): number | undefined {
  if (code !== "rate_limit_exceeded" && (code !== "upstream_overloaded" || toldSeconds === undefined)) return undefined;
  return Math.min(Math.max(SHORTEST_LIMIT_SECONDS, toldSeconds ?? 0), MAX_RETRY_AFTER);
}

/** In the midst of a stream these words are all that some agents go by: "rate limit", "overloaded" and "server error" have them ask again. */
const WORDS: Partial<Record<ErrorCode, string>> = {
  upstream_auth: "The vendor refused this gateway's credentials. The operator has to check the vendor's key.",
  rate_limit_exceeded: "The vendor's rate limit for this gateway's requests is reached.",
  upstream_overloaded: "The vendor is overloaded or down. Try again later.",
  upstream_error: "The vendor answered with a server error.",
  invalid_request: "The vendor refused the request.",
};

/** A 403 is no word about the key itself: a model or an endpoint that it is not for, a region, a host name that the vendor does not go by. */
const FORBIDDEN =
  "The vendor does not allow this gateway what was asked. The operator has to check the vendor's key, what it may do, and the vendor's address.";

const NO_CREDIT = "The vendor refused: this gateway's account there has no credit left.";
const USED_UP =
  "The vendor refused: this gateway's account there has used up what its plan allows for now. Asking again at once does not help.";
/** How much there is left is the operator's to know. */
const TOO_DEAR =
  "The vendor refused: this gateway's account there has too little credit for a request of this size. Ask for fewer output tokens, or shorten the prompt; the operator can add credit.";

/**
 * What a client may know of an upstream's error answer: contract 6's code for it, our words, and for faults of the request the
 * vendor's own reason, scrubbed. Context overflow is recognised whatever the vendor calls it, and re-worded so that agents compact.
 */
export function upstreamError(status: number, raw: RawError, retryAfterSeconds?: number): GatewayError {
  const told = scrub(plainFaults(raw.message.replace(TEMPLATE_REFUSED, "")));
  // Without a status it is a way along which the request cannot be told: there may be another one.
  const { type, isRelayed } = raw;
  const cause = {
    ...(!NEVER_TAKEN.test(told) && { status }),
    ...{ type, code: raw.code, message: told },
    ...(isRelayed && { isRelayed }),
  };
  if (raw.code === SPOILED) {
    const words = `The vendor's model wrote a call that it could not read. It says: ${told}`;
    return new GatewayError("upstream_error", words, { cause: { ...cause, finish: SPOILED } });
  }
  const overflow = readOverflow(status, `${raw.code} ${raw.type} ${raw.message}`);
  if (overflow) return new ContextOverflow({ ...overflow, ...raw.figures }, cause);
  const meant = meantStatus(status, raw);
  let code = codeOf(meant);
  let retry: boolean | undefined;
  const isTooDear = exceedsCredit(raw);
  const isUsedUp = meansUsedUp(raw);
  if (isTooDear || isUsedUp || meansNoCredit(status, raw)) {
    code = "upstream_error";
    retry = false;
  }
  if (meant === 404) retry = false;
  const excerpt = code === "invalid_request" ? told : "";
  const details = {
    cause,
    retry,
    ...(code === "invalid_request" && raw.param && { param: scrub(raw.param).slice(0, 100) }),
    ...(code === "invalid_request" && raw.details && { extra: { details: raw.details } }),
    retryAfterSeconds: waitOf(code, retryAfterSeconds),
  };
  if (meant === 404) return new GatewayError(code, "The vendor does not know this model or path.", details);
  if (isTooDear) return new GatewayError(code, TOO_DEAR, details);
  if (retry === false) return new GatewayError(code, isUsedUp ? USED_UP : NO_CREDIT, details);
  const words = (meant === 403 ? FORBIDDEN : WORDS[code]) ?? "The vendor answered with an error.";
  // Another gateway of this kind has said as much, and what its vendor says is not to be pushed out by it.
  const said = excerpt.startsWith(words) ? excerpt : `${words} It says: ${excerpt}`;
  return new GatewayError(code, excerpt === "" ? words : said, details);
}

/**
 * A vendor's failure of which the vendor itself says that asking again does not help: no overload, whatever its status (another gateway's 502 for a
 * refused key, its 503 for a model without a price), told with its reason. What is final anyway stays, and so does a limit, which ends.
 */
export function asFinal(error: GatewayError): GatewayError {
  const { code, retry, cause } = error;
  if (!retry || (code !== "upstream_overloaded" && code !== "upstream_error")) return error;
  const said = isObject(cause) ? text(cause["message"]) : "";
  const words = "The vendor failed, and says that asking again does not help.";
  return new GatewayError("upstream_error", said === "" ? words : `${words} It says: ${said}`, { retry: false, cause });
}

/** How JSON begins whose end was not read, as far as its sentence: a vendor that repeats what it was sent makes it as long as that. */
const CUT_WORDS =
  /^\s*\{\s*(?:"object"\s*:\s*"error"\s*,\s*)?(?:"error"\s*:\s*\{\s*)?"(?:message|detail)"\s*:\s*"((?:[^"\\]|\\.){1,1200})/;
const CUT_FAULT =
  /^\s*\{\s*(?:"object"\s*:\s*"error"\s*,\s*"message"\s*:\s*\{\s*)?"detail"\s*:\s*\[\s*\{\s*"type"\s*:\s*"[^"]*"\s*,\s*"loc"\s*:\s*\[([^\]]*)\]\s*,\s*"msg"\s*:\s*"((?:[^"\\]|\\.){1,600})/;

function readCut(cut: string): string {
  try {
    return String(JSON.parse(`"${cut}"`));
  } catch {
    // Cut inside an escape.
    return cut;
  }
}

/** What a body says that is no whole JSON, where it begins as vendors' errors do. */
function cutWords(body: string): string {
  const [, words] = CUT_WORDS.exec(body) ?? [];
  if (words !== undefined) return readCut(words);
  const [, place = "", fault] = CUT_FAULT.exec(body) ?? [];
  return fault === undefined ? "" : `${place.replaceAll(/["\s]/g, "").replaceAll(",", ".")}: ${readCut(fault)}`;
}

/** How a vendor begins that tells an error as a record of the stream that it was asked for, with the error's own status (MiMo: Tencent/WeKnora #1302; Alibaba). */
const RECORD = /^\s*(?:(?:event|id)?:.*\r?\n)*data:(.*)/;

/** {@link upstreamError} for an HTTP answer whose body may be JSON in any shape, a record of a stream with that in it, HTML, or nothing. */
export function readUpstreamError(status: number, body: string, retryAfterSeconds?: number): GatewayError {
  let value: unknown;
  try {
    value = JSON.parse(RECORD.exec(body)?.[1] ?? body);
  } catch {
    // HTML of a proxy in between, or plain text: it tells a client nothing, and is not shown. But some servers say in it what is too long.
    value = cutWords(body);
    const overflow = readOverflow(status, body);
    if (overflow) return new ContextOverflow(overflow, { status, message: scrub(body) });
  }
  return upstreamError(status, readRawError(value), retryAfterSeconds);
}
