import type { ErrorCode } from "../../canon/errors.ts";
import { isObject } from "../../lib/json.ts";
import { ONLY_CONTEXT } from "./overflow.ts";
import type { RawError } from "./raw-error.ts";

/** Groq's status of its own for a tier that has no room left (console.groq.com, "Flex Processing"): nothing ran, and asking later helps. */
const NO_ROOM_LEFT = 498;

/**
 * Statuses by which vendors refuse a request itself, beside the usual ones: Scaleway's for a ceiling beyond the model's (scaleway.com, "Fixing common
 * issues"), and Portkey's for one that its guardrails deny (Portkey-AI/gateway, `src/handlers/handlerUtils.ts`).
 */
const REFUSED: ReadonlySet<number> = new Set([400, 409, 415, 416, 422, 446]);

/** A body of more bytes than the vendor takes, where its words do not tell of tokens: by this status, and its type, Claude Code knows that it has to leave images out. */
const TOO_LARGE = 413;

/** What a vendor's status alone can come to. */
export type UpstreamCode = Extract<
  ErrorCode,
  | "upstream_auth"
  | "rate_limit_exceeded"
  | "upstream_overloaded"
  | "request_too_large"
  | "invalid_request"
  | "upstream_error"
>;

/** Meaning of an upstream status (reliability.md 6.2, contract 6). A vendor's 401 is never the client's 401. */
export function codeOf(status: number): UpstreamCode {
  if (status === 401 || status === 403) return "upstream_auth";
  if (status === 429 || status === NO_ROOM_LEFT) return "rate_limit_exceeded";
  if (status === 502 || status === 503 || status === 529) return "upstream_overloaded";
  if (status === TOO_LARGE) return "request_too_large";
  if (REFUSED.has(status)) return "invalid_request";
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
 * `data_inspection_failed`, StepFun's `censorship_blocked`, Volcengine's `OutputTextSensitiveContentDetected`, and OpenAI's words for a conversation that its
 * monitoring has stopped, a 403 (developers.openai.com, "Misalignment monitoring"), or that it flags (openai/codex, `sse/responses.rs`).
 */
const CONTENT_REFUSED_CODE =
  /content_?(?:policy|filter)|data_?inspection|censor|moderation|sensitive_?(?:content|words)|\b(?:misalignment|cyber|bio)_policy/i;

/** What is the gateway's key's, or passes, is no word about what was said, whatever it is called. */
const NEVER_CONTENT: ReadonlySet<number> = new Set([401, 429, 503, 529]);

/**
 * How a vendor says that it takes no request that has such a thing: OpenRouter in a 404 that none of a model's hosts takes tools, a forced one, or an image, or
 * is one that the request's `provider` allows (unoplat/unoplat-code-confluence #1080, agent0ai/agent-zero #1255); llama.cpp in a 500 that its model cannot see
 * or hear (ggml-org/llama.cpp #15377), or that it was started without tools; mlx-lm in a 404, and LM Studio's engine for MLX inside a 200 (lmstudio-ai/lms
 * #362), that its model cannot see; vLLM, Triton and LMDeploy that they were started without tools; Ollama that its model calls none, GPT4All that none does,
 * Xinference which families alone do, as a set of Python's; another gateway of this kind of what a strict client would lose there. The model is there all the
 * same for who asks for less.
 */
export const NEVER_TAKEN =
  /^(?:No endpoints (?:found|available) (?:that (?:support|can handle|match your)|matching your)|No allowed providers are available|(?:image|audio) input is not supported|tools param requires --jinja|Only 'text' content type is supported|(?:Error in iterating prediction stream: ValueError: )?Vision add-on is not loaded|"auto" tool choice requires --|having tools in the request requires --|Please launch the api_server with --tool-call-parser|Only [{[]'[\w.-]+(?=', ')|\S{1,200} does not support tools|'tools' is not supported|This model's vendor cannot be told all of the request)\b/i;

/**
 * How Alibaba says that a minute's tokens are used up, or that too much is asked at once: by OpenAI's code, and its sentence, for an account that is empty. Its
 * own sentence, or the page that it points to, tells the two apart (alibabacloud.com, "Rate limits": "typically recover automatically within one minute").
 */
const RATE = /^(?:concurrency )?allocated quota exceeded\b|\berror-code#token-limit\b/i;

/** Whether an error is a limit of the moment, whatever else its code says. */
export const limitsRate = ({ message }: { message?: unknown }): boolean => RATE.test(String(message));

/** How a field is refused by its name, and a model by OpenRouter, which stands first and is the client's own choice. */
const NAMED_FIELD = /: Extra inputs are not permitted/;
const NAMED_MODEL = /^(.{1,200}) is not a valid model ID\.?$/;

/** The model that OpenRouter says in these words not to have; undefined where they say something else. */
export const modelRefusedIn = (words: string): string | undefined => NAMED_MODEL.exec(words)?.[1];

/** Whether a sentence begins with what a client has chosen: it tells nothing of the gateway's account, whatever that is. */
export const beginsWithName = (words: string): boolean => NAMED_FIELD.test(words) || NAMED_MODEL.test(words);

/**
 * How servers say that they have a model, and that somebody has to load it there: llama.cpp's router (gsanhueza/pi-llama-cpp #24), LM Studio, Foundry Local
 * (microsoft/Foundry-Local, `chat_completions_handler.cc`), Unsloth's and older TabbyAPI.
 */
export const NOT_LOADED =
  /^(?:model is not loaded$|Model not loaded: |No models? (?:loaded\. |are currently loaded\.))/;
/** And that a model is none that they can load: mlx-vlm (Blaizzy/mlx-vlm #1717). */
export const UNLOADABLE = /^Failed to load model: /;

/** How llama.cpp says that a model's template refuses a conversation, behind a piece of the template. */
export const TEMPLATE_REFUSED = /^.*\bError: (?=Jinja Exception: )/s;

/** Whether a vendor will not have what was said to its model, or what that said: the fault of the request, to which it says the same again. */
export function refusesContent(status: number, { type, code, message }: RawError): boolean {
  // 451 is what StepFun and Tencent have for it.
  if (status === 451 || (!NEVER_CONTENT.has(status) && CONTENT_REFUSED_CODE.test(`${type} ${code}`))) return true;
  return (status === 403 || status === 424) && CONTENT_REFUSED.test(`${code} ${type} ${message}`);
}

/**
 * What Anthropic's errors mean by the word in their details, whatever status and sentence they have: "Its wording can change, so don't match on it"
 * (@anthropic-ai/sdk 1.14). The customer that a request has billed, in a 402 or a 403, and a file that it names, in a 404, are the request's own affair; an
 * organisation that is shut out, and a key whose owner has gone, in a 400, the gateway's.
 */
const DETAILED: readonly (readonly [word: RegExp, means: number])[] = [
  [/^(?:user_profile|linked_organization|file)_/, 400],
  [/^(?:organization_on_hold|claude_code_key_creator_not_member)$/, 401],
];

/** The word in an error's details; "" where there is none. */
export const detailOf = (details: unknown): string => (isObject(details) ? String(details["error_code"]) : "");

/** What an error means by the word in its details; undefined where none says. */
export const detailedStatus = (details: unknown): number | undefined =>
  DETAILED.find(([word]) => word.test(detailOf(details)))?.[1];

/** A status that says something else than it means. Statuses absent: any; with neither words nor name: that status always does. */
type Misnomer = {
  at?: readonly number[];
  /** The sentence, or its beginning, that tells it. From the beginning alone where that closes a model or a key: what a request says is quoted further on. */
  words?: RegExp;
  /** The type or the code that does. */
  name?: RegExp;
  means: number;
};

const BAD_REQUEST = [400, 422] as const;

/** By whom, and where that is written, beside each. The first that fits counts. */
const MISNOMERS: readonly Misnomer[] = [
  // A conversation that a model's template refuses, a 500 of llama.cpp's: nothing has run, and asked again it says the same (ggml-org/llama.cpp #27367).
  { at: [500], words: TEMPLATE_REFUSED, means: 400 },
  // What a web server said of a file that the request names, a 500 of vLLM's in its HTTP client's words (vllm-project/vllm #47163: a 422 since July 2026).
  { at: [500], words: /^\d{3}, message='[^']{0,100}', url=/, means: 400 },
  // What a request's reader in Python found amiss in its body, a 500 of llama-cpp-python's server (ggml-org/llama.cpp #23463).
  { at: [500], words: /^\d+ validation errors?:\s+\{'type': '\w+', 'loc': \('body'/, means: 400 },
  // No such thing as a request names, or none that may be read: an item, a file, a container (OpenAI's and Anthropic's 404), a file of Google's store or of
  // somebody's bucket (403). As a model's or a key's fault one such request would take the way from everybody.
  {
    at: [403, 404],
    words:
      /^(?:item|file|container|conversation|prompt|vector store|skill)\b.{0,200}\bnot found\b|\bpermission to access the file\b|\bstorage\.objects\.get\b/i,
    means: 400,
  },
  // A conversation that a model's template refuses (Qwen's, Gemma's, Mistral's, Llama's), which mlx-lm's server tells in a 404, as all that goes wrong before
  // the first token (ml-explore/mlx-lm, `mlx_lm/server.py`). Its model is there all the same.
  {
    at: [404],
    words:
      /^No user query\b|\b(?:message|conversation|user|assistant|system|tool) roles?\b|\broles? (?:are|is|must|not|')|\b(?:system|user|assistant|tool) messages?\b|\bsingle tool-calls\b|^Tool call IDs\b/i,
    means: 400,
  },
  { at: [404, 500], words: NEVER_TAKEN, means: 400 },
  // A model that a subscription at Z.ai does not have, told as a limit (1311: docs.z.ai/api-reference/api-code). Others know no such model.
  {
    at: [429],
    words: /^(?:Your current subscription plan does not yet include access to|当前订阅套餐暂未开放)/i,
    means: 404,
  },
  // A model for which new-api has no channel in a key's group, which it calls by this code in a 503 (its `middleware/distributor.go`), and one-api in words
  // alone (songquanpeng/one-api #2340). It is no overload: another key, of another group, may have one.
  { at: [503], words: /^(?:当前)?分组 .{1,300}无可用渠道/, name: /^model_not_found$/, means: 404 },
  // A model that a key may not use, told as a wrong key: by LiteLLM of a key, a team or a user (a 403 of late), Baidu (cloud.baidu.com/doc/qianfan-api/s/rmwbl43x7)
  // and Huawei (support.huaweicloud.com/model-call-maas/model-call-035.html). Its others are served. And one that the vendor does not have, or not in this
  // dialect, by Kimi's plans for coding (NousResearch/hermes-agent #105650) and OpenCode (anomalyco/opencode #33244).
  {
    at: [401],
    words: /^(?:Invalid (?:model|custom endpoint) \S{1,200}, rejected by api key\b|Your model id does not exist\b)/,
    name: /_model_access_denied$|^(?:invalid_model|ModelError)$/,
    means: 404,
  },
  // A prompt that does not fit, told as a wrong key.
  { at: [401], words: ONLY_CONTEXT, means: 400 },
  // Cloudflare's for a vendor whose own server it has not reached: refused, timed out, no way there, no TLS (developers.cloudflare.com, "Cloudflare 5xx errors";
  // Anthropic's 522: anthropics/claude-code #67341). Nothing ran. Not so 520 and 524, which say that it had been reached.
  { at: [521, 522, 523, 525, 526], means: 503 },
  // NVIDIA's for a model that has reached its end of life.
  { at: [410], means: 404 },
  // OpenAI's word for a server of tools that the request names and that fails: a 424, with which others mean a fault of their own.
  { name: /^external_connector_error$/, means: 400 },
  // How Lemonade says that it has no room for the model beside those that have to stay (lemonade-sdk/lemonade, `model_loader.cpp`).
  { at: [409], name: /^(?:slots_pinned_error|router_residency_conflict)$/, means: 503 },
  // OpenRouter's word, with a `retry-after`, for an account whose credit its requests of the moment hold: once they are done there is enough again
  // (openrouter.ai, "In-flight spending budget").
  { at: [402], name: /\bopenrouter_in_flight_budget\b/, means: 429 },
  { at: BAD_REQUEST, words: NAMED_MODEL, means: 404 },
  // No overload, which agents ask again: Claude Code for minutes, and of what an overload says it shows nothing (anthropics/claude-code #72390).
  { at: BAD_REQUEST, words: NOT_LOADED, means: 404 },
  { at: BAD_REQUEST, words: UNLOADABLE, means: 404 },
  // A model that is down, by NVIDIA (tashfeenahmed/freellmapi #522) and Volcengine ("currently closed or temporarily unavailable":
  // volcengine.com/docs/82379/1299023), or that could not be loaded, by LM Studio (tinyhumansai/openhuman #4181, continuedev/continue #12794): nothing ran,
  // and asking later helps.
  {
    at: BAD_REQUEST,
    words: /^(?:(?:Function id '[^']{1,100}': )?DEGRADED function cannot be invoked\b|Failed to load model ")/,
    name: /^InvalidEndpoint\.ClosedEndpoint$/,
    means: 503,
  },
  // A wrong key, by xAI (with a piece of the key) and Google, or one whose organisation is shut out, by Anthropic and Groq: it is no 401 of the client's, and no
  // fault of its request.
  {
    at: BAD_REQUEST,
    words:
      /^(?:Incorrect API key provided|API key (?:not valid|expired)|Invalid API[ -]?key|(?:This )?organization has been (?:disabled|restricted))/i,
    means: 401,
  },
  // A place from which Google serves nobody, or nobody who pays nothing (u14app/neo-chat #45), or Bedrock nobody Anthropic's models: it is where the gateway or
  // its account is, and another vendor may well serve it.
  {
    at: BAD_REQUEST,
    words:
      /^(?:User location is not supported for the API use|Gemini API free tier is not available in your country|Access to Anthropic models is not allowed from)\b/i,
    means: 403,
  },
  // A model that the vendor does not have, by DeepSeek, SiliconFlow, Mistral, Workers AI, LiteLLM, llama-swap, llama.cpp's router (its `server-models.cpp`),
  // Xinference (infiniflow/ragflow #514), Triton, MLC, Z.ai, Bedrock (cline/cline #7007), Groq of one that has ended, Together of one that is not served to all,
  // Hugging Face's router (huggingface/smolagents #2584, huggingface/huggingface.js #2225), GitHub's Models (github/gh-models #65) and Copilot (decolua/9router #3477), and with a 422 AI21 (elastic/elasticsearch #131238) and Scaleway
  // (scaleway.com, "Understanding errors"). Its name is the operator's choice.
  {
    at: BAD_REQUEST,
    words:
      /^(?:(?:\[address=[^\]]{1,100}\] )?Model (?:(?:Not|does not) Exist|(?:'[^']{1,200}' )?Not Found\b|not supported by provider\b)|The provided model (?:is not supported\b|identifier is invalid\b)|The requested model "[^"]{1,200}" is not served\b|(?:\w+: )*No such model @|(?:\/[\w/]+: )?Invalid model name passed in|could not find real modelID for |Unknown model(?:: |, please check\b)|Invocation of model ID \S{1,200} with on-demand throughput\b)/i,
    name: /^(?:invalid_model|unavailable_model|model_(?:not_(?:found|supported|available(?:_for_integrator)?)|decommissioned))$/i,
    means: 404,
  },
];

/** The status that a vendor's answer would have had at one that keeps to what they mean. */
export function meantStatus(status: number, raw: RawError): number {
  const { type, code, message, isRelayed } = raw;
  // A request that LM Studio's engine refuses is a 500 of LM Studio's own.
  if (status === 500 && isRelayed && code === "400") return 400;
  const detailed = detailedStatus(raw.details);
  if (detailed !== undefined) return detailed;
  if (refusesContent(status, raw)) return 400;
  if (NAMED_FIELD.test(message) && (status === 400 || status === 422)) return status;
  const misnomer = MISNOMERS.find(
    ({ at, words, name }) =>
      (at === undefined || at.includes(status)) &&
      ((words === undefined && name === undefined) || words?.test(message) || name?.test(type) || name?.test(code)),
  );
  return misnomer?.means ?? status;
}

/** Errors sent inside a 200 carry no status: the vendor's own word for it says which it would have been. */
export function statusOfRawError(raw: RawError): number {
  const numeric = Number(raw.code);
  if (Number.isInteger(numeric) && numeric >= 400 && numeric < 600) return numeric;
  if (limitsRate(raw)) return 429;
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
