import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { statusOfRawError } from "../../src/dialects/refusals/meant-status.ts";
import { ContextOverflow } from "../../src/dialects/refusals/overflow.ts";
import { readRawError } from "../../src/dialects/refusals/raw-error.ts";
import { readUpstreamError, upstreamError } from "../../src/dialects/refusals/upstream-error.ts";

type Told = readonly [vendor: string, status: number, body: unknown, asked?: number, maximum?: number];

const openai = (message: string, code: string | null = "context_length_exceeded") => ({
  error: { message, type: "invalid_request_error", param: "messages", code },
});
const anthropic = (message: string) => ({ type: "error", error: { type: "invalid_request_error", message } });
const google = (message: string) => ({ error: { code: 400, message, status: "INVALID_ARGUMENT" } });
const plain = (message: string) => ({ object: "error", message, type: "BadRequestError", param: null, code: 400 });

/** With its figures beside its words. */
const LLAMA_CPP = {
  ...{ code: 400, message: "the request exceeds the available context size, try increasing it" },
  ...{ type: "exceed_context_size_error", n_prompt_tokens: 4612, n_ctx: 4096 },
};

const FAST_FLOW_LM = { message: "Max length reached!", type: "model_error", code: 400 };

const EXCEEDED = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens";

/** How each vendor says it, with the figures that can be read in its words. */
const WORDINGS: readonly Told[] = [
  ...[
    { statusCode: 400, code: "FST_ERR_VALIDATION", error: "Bad Request", message: EXCEEDED },
    { message: [EXCEEDED], error: "Payload Too Large", statusCode: 413 },
    { error: "invalid_request_error", status: 400, message: EXCEEDED },
    { error: "The upstream refused", message: EXCEEDED },
    { httpStatus: 422, messages: [{ errorCode: "paas-feature-1", message: EXCEEDED }] },
  ].map((body): Told => [`a server that words it beside the status (${JSON.stringify(body)})`, 400, body, 9000, 8192]),
  [
    "ds4-server",
    400,
    {
      error: {
        ...{ message: "Prompt tokens (140213) exceeds context size (131072)", type: "context_exceeded" },
        ...{ n_prompt_tokens: 140_213, n_ctx: 131_072 },
      },
    },
    140_213,
    131_072,
  ],
  [
    "io.net",
    400,
    plain(
      "Your request exceeds this model's maximum context length of 204800 tokens. You requested ~269722 tokens (204186 input + 65536 output). Reduce your prompt length or max_tokens and retry.",
    ),
    269_722,
    204_800,
  ],
  [
    "mlx-vlm",
    400,
    { detail: "Request needs 36096 context tokens (32000 prompt + 4096 max generation), but MAX_KV_SIZE is 32768." },
    36_096,
    32_768,
  ],
  [
    "mistral.rs",
    422,
    { message: "Prompt sequence length is greater than 32768, perhaps consider using `truncate_sequence`?" },
    undefined,
    32_768,
  ],
  [
    "Kimi Code",
    401,
    { error: { type: "authentication_error", message: "k3-256k supports only 256K context." } },
    undefined,
    262_144,
  ],
  [
    "Kimi Code, of a plan",
    401,
    {
      type: "error",
      error: {
        type: "authentication_error",
        message:
          "Your current plan supports only k3 up to 256K context. 1M context is available on higher-tier Kimi Code plans.",
      },
    },
    undefined,
    262_144,
  ],
  [
    "LM Studio's engine for MLX",
    200,
    {
      error: {
        message:
          "Input does not fit in context length. The input has 31430 tokens, but the context length only supports 30000 tokens.",
      },
    },
    31_430,
    30_000,
  ],
  [
    "vLLM, of a prompt with pictures",
    400,
    plain(
      "The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.",
    ),
    25_938,
    4_096,
  ],
  [
    "LocalAI, whose llama.cpp shifts its window",
    400,
    {
      error: { code: 400, message: "input (9739 tokens) is larger than the max context size (8192 tokens). skipping" },
    },
    9_739,
    8_192,
  ],
  ["FastFlowLM", 400, { error: FAST_FLOW_LM }],
  [
    "FastFlowLM behind Lemonade, inside a 200",
    200,
    {
      error: {
        ...{ message: "FastFlowLM request failed", type: "backend_error" },
        details: { status_code: 400, response: { error: FAST_FLOW_LM } },
      },
    },
  ],
  ["anthropic", 400, anthropic("prompt is too long: 215000 tokens > 200000 maximum"), 215_000, 200_000],
  [
    "anthropic, input and output",
    400,
    anthropic("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length"),
    209_573,
    200_000,
  ],
  ["bedrock", 400, { message: "Input is too long for requested model." }],
  [
    "bedrock, titan",
    400,
    { message: "Too many input tokens. Max input tokens: 8192, request input token count: 9001" },
    9001,
    8192,
  ],
  ["bedrock, nova", 400, { message: "Input Tokens Exceeded: Number of input tokens exceeds maximum length" }],
  [
    "openai",
    400,
    openai(
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130513 tokens. Please reduce the length of the messages.",
    ),
    130_513,
    128_000,
  ],
  [
    "openai with tools",
    400,
    openai(
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 150084 tokens (149967 in the messages, 117 in the functions). Please reduce the length of the messages or functions.",
    ),
    150_084,
    128_000,
  ],
  [
    "openai responses",
    400,
    openai("Your input exceeds the context window of this model. Please adjust your input and try again."),
  ],
  [
    "openai, configured",
    400,
    openai(
      "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 299008 tokens. Please reduce the length of the messages.",
    ),
    299_008,
    272_000,
  ],
  ["code alone", 400, openai("Bad request.")],
  ["the request's size alone", 400, openai("Your messages resulted in 130513 tokens."), 130_513],
  [
    "a pair that would fit, of which only the window is believed",
    400,
    openai("This model's maximum context length is 128000 tokens. However, you requested 4000 tokens."),
    undefined,
    128_000,
  ],
  [
    "deepseek",
    400,
    openai(
      "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.",
      "invalid_request_error",
    ),
    131_134,
    131_072,
  ],
  [
    "openrouter",
    400,
    {
      error: {
        message:
          'This endpoint\'s maximum context length is 1048576 tokens. However, you requested about 1293741 tokens (1227853 of text input, 353 of tool input, 65535 in the output). Please reduce the length of either one, or use the "middle-out" transform.',
        code: 400,
      },
    },
    1_293_741,
    1_048_576,
  ],
  [
    "openrouter, a vendor behind it",
    400,
    {
      error: {
        message: "Provider returned error",
        code: 400,
        metadata: {
          raw: JSON.stringify(anthropic("prompt is too long: 201 tokens > 200 maximum")),
          provider_name: "Anthropic",
        },
      },
    },
    201,
    200,
  ],
  [
    "mistral",
    400,
    plain("Prompt contains 150002 tokens and 0 draft tokens, too large for model with 131072 maximum context length"),
    150_002,
    131_072,
  ],
  [
    "volcengine",
    400,
    {
      error: {
        ...{ code: "InvalidParameter", param: "", type: "BadRequest" },
        message:
          "Total tokens of image and text exceed max message tokens. Request id: 021772413947435d24b0b4d764165756d4018ab78dadfac58ac58",
      },
    },
  ],
  [
    "baidu",
    400,
    {
      error: { code: "tokens_too_long", message: "Prompt tokens too long", type: "invalid_request_error" },
      id: "as-1",
    },
  ],
  [
    "baidu, by its letters",
    400,
    {
      error: {
        code: "characters_too_long",
        message: "the max input characters is 516096",
        type: "invalid_request_error",
      },
    },
  ],
  [
    "alibaba, input and output",
    400,
    openai(
      "<400> InternalError.Algo.InvalidParameter: Input tokens length is 29618. Output tokens length is 8192. Range of total length should be less than or equal to 32768",
      "invalid_parameter_error",
    ),
    37_810,
    32_768,
  ],
  ["snowflake", 400, { message: "max tokens of 200000 exceeded", request_id: "5f0b" }, undefined, 200_000],
  ["groq", 400, openai("Please reduce the length of the messages or completion.")],
  ["groq without its code", 400, openai("Please reduce the length of the messages or completion.", null)],
  [
    "groq, beyond a minute's allowance",
    413,
    {
      error: {
        message:
          "Request too large for model `llama-3.1-8b-instant` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 7012, please reduce your message size and try again.",
        type: "tokens",
        code: "rate_limit_exceeded",
      },
    },
    7012,
    6000,
  ],
  [
    "openai, beyond a minute's allowance",
    429,
    openai(
      "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 49013. The input or output tokens must be reduced in order to run successfully.",
      "rate_limit_exceeded",
    ),
    49_013,
    30_000,
  ],
  [
    "xai",
    400,
    {
      code: "Client specified an invalid argument",
      error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    },
    537_812,
    131_072,
  ],
  [
    "together",
    422,
    openai(
      "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8195 `inputs` tokens and 100 `max_new_tokens`",
      null,
    ),
    8295,
    8193,
  ],
  [
    "together, newer",
    400,
    openai("The input (30012 tokens) is longer than the model's context length (16384 tokens).", null),
    30_012,
    16_384,
  ],
  [
    "tgi",
    422,
    {
      error: "Input validation error: `inputs` must have less than 4095 tokens. Given: 5012",
      error_type: "validation",
    },
    5012,
    4095,
  ],
  [
    "fireworks",
    400,
    openai("The prompt is too long: 140001, model maximum context length: 131071", null),
    140_001,
    131_071,
  ],
  [
    "cerebras",
    400,
    {
      message: "Please reduce the length of the messages or completion. Current length is 8233 while limit is 8192",
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    },
    8233,
    8192,
  ],
  [
    "moonshot",
    400,
    openai("Invalid request: Your request exceeded model token limit: 131072 (requested: 135001)", null),
    135_001,
    131_072,
  ],
  ["moonshot, older", 400, openai("model max length exceeded, max length:8192", null), undefined, 8192],
  ["zai", 400, { error: { code: "1261", message: "Prompt exceeds max length" } }],
  ["zai in Chinese", 400, { error: { code: "1261", message: "Prompt 超长" } }],
  [
    "qwen",
    400,
    openai(
      "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
      "invalid_parameter_error",
    ),
    undefined,
    98_304,
  ],
  [
    "perplexity",
    400,
    {
      error: {
        message: "The prompt exceeds the maximum context length of 127072 tokens",
        type: "invalid_request",
        code: 400,
      },
    },
    undefined,
    127_072,
  ],
  [
    "nvidia",
    400,
    plain(
      "This model's maximum context length is 4096 tokens. However, you requested 5123 tokens (4611 in the messages, 512 in the completion). Please reduce the length of the messages or completion.",
    ),
    5123,
    4096,
  ],
  [
    "azure",
    400,
    openai(
      "This model's maximum context length is 16385 tokens. However, you requested 17001 tokens (16001 in the messages, 1000 in the completion).",
    ),
    17_001,
    16_385,
  ],
  [
    "google",
    400,
    google("The input token count (1048590) exceeds the maximum number of tokens allowed (1048576)."),
    1_048_590,
    1_048_576,
  ],
  [
    "google, older",
    400,
    google("The input token count exceeds the maximum number of tokens allowed 1048576."),
    undefined,
    1_048_576,
  ],
  [
    "vertex",
    400,
    google(
      "Unable to submit request because the input token count is 1234567 but model only supports up to 1048576. Reduce the input token count and try again.",
    ),
    1_234_567,
    1_048_576,
  ],
  ["minimax", 400, anthropic("invalid params, context window exceeds limit (2013)")],
  [
    "copilot",
    400,
    {
      error: {
        message: "prompt token count of 135001 exceeds the limit of 128000",
        code: "model_max_prompt_tokens_exceeded",
      },
    },
    135_001,
    128_000,
  ],
  [
    "github models",
    413,
    {
      error: {
        code: "tokens_limit_reached",
        message: "Request body too large for gpt-4o model. Max size: 8000 tokens.",
      },
    },
    undefined,
    8_000,
  ],
  [
    "huawei",
    400,
    openai(
      "Inference failed: Prompt length exceeds: the prompt length 200439 must less than the maximum input length 196608.Request failed with status: 400 BAD_REQUEST.",
      "ModelArts.81001",
    ),
    200_439,
    196_608,
  ],
  [
    "workers ai",
    413,
    {
      errors: [
        {
          message:
            "AiError: AiError: The estimated number of input and maximum output tokens (35000) exceeded this model context window limit (24000). (6b0c0a4e-0c4f-4a55-9f6b-1d2f3a4b5c6d)",
          code: 5021,
        },
      ],
      success: false,
      result: {},
      messages: [],
    },
    35_000,
    24_000,
  ],
  [
    "watsonx",
    400,
    {
      errors: [
        {
          code: "invalid_input_argument",
          message:
            "Invalid input argument for Model 'ibm/granite-4-h-small': the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model",
          more_info: "https://cloud.ibm.com/apidocs/watsonx-ai",
        },
      ],
      trace: "f8a07210b001efe4c862b642f3ece475",
      status_code: 400,
    },
    9000,
    8192,
  ],
  ["deepinfra", 400, openai("Requested input length 39818 exceeds maximum input length 32767", null), 39_818, 32_767],
  [
    "siliconflow",
    400,
    { code: 20_015, message: "length of prompt_tokens (40961) must be less than max_seq_len (40960).", data: null },
    40_961,
    40_960,
  ],
  [
    "siliconflow, with the answer",
    400,
    { code: 20_015, message: "max_total_tokens (45001) must be less than or equal to max_seq_len (40960)", data: null },
    45_001,
    40_960,
  ],
  [
    "volcengine",
    400,
    {
      error: {
        code: "InvalidParameter",
        message: "Input length 188799 exceeds the maximum length 131072. Request id: 0217",
        param: "messages",
        type: "BadRequest",
      },
    },
    188_799,
    131_072,
  ],
  ["ollama", 400, { error: "prompt too long; exceeded context length by 12 tokens" }],
  [
    "ollama, 500",
    500,
    { error: { message: "input length exceeds the context length", type: "api_error", param: null, code: null } },
  ],
  [
    "lm studio",
    400,
    {
      error:
        "Trying to keep the first 7312 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
    },
    7312,
    4096,
  ],
  [
    "lm studio, other",
    400,
    { error: "The number of tokens to keep from the initial prompt is greater than the context length." },
  ],
  [
    "llama.cpp",
    400,
    {
      error: LLAMA_CPP,
    },
    4612,
    4096,
  ],
  [
    "llama.cpp, of a cache that is full",
    500,
    { error: { code: 500, message: "Context size has been exceeded.", type: "server_error" } },
  ],
  [
    "llama.cpp of before, and ik_llama.cpp",
    500,
    {
      error: {
        ...{ code: 500, type: "server_error" },
        message: "Input prompt is too big compared to KV size. Please try increasing KV size.",
      },
    },
  ],
  [
    "llama.cpp behind Lemonade",
    400,
    {
      error: {
        message: "llama-server request failed",
        type: "backend_error",
        details: {
          status_code: 400,
          response: {
            error: LLAMA_CPP,
          },
        },
      },
    },
    4612,
    4096,
  ],
  [
    "llama.cpp, older",
    500,
    {
      error: {
        code: 500,
        message:
          "the request exceeds the available context size. try increasing the context size or enable context shift",
        type: "server_error",
      },
    },
  ],
  [
    "vllm",
    400,
    plain(
      "This model's maximum context length is 32768 tokens. However, your request has 40001 input tokens. Please reduce the length of the input messages.",
    ),
    40_001,
    32_768,
  ],
  [
    "vllm, input and output",
    400,
    plain(
      "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 65536 tokens and your request has 57879 input tokens (8192 > 65536 - 57879). None",
    ),
    66_071,
    65_536,
  ],
  [
    "vllm, decoder",
    400,
    plain(
      "The decoder prompt (length 50012) is longer than the maximum model length of 32768. Make sure that `max_model_len` is no smaller than the number of text tokens.",
    ),
    50_012,
    32_768,
  ],
  [
    "vllm, newer",
    400,
    plain(
      "This model's maximum context length is 32768 tokens. However, you requested 8192 output tokens and your prompt contains at least 24577 input tokens, for a total of at least 32769 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=24577)",
    ),
    undefined,
    32_768,
  ],
  [
    "vllm, newest",
    400,
    plain(
      "You passed 99073 input tokens and requested 32000 output tokens. However, the model's context length is only 131072 tokens, resulting in a maximum input length of 99072 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=99073)",
    ),
    undefined,
    131_072,
  ],
  [
    "vllm, the wanted output alone",
    400,
    plain(
      "max_tokens=32000 cannot be greater than max_model_len=16384. Please request fewer output tokens. (parameter=max_tokens, value=32000)",
    ),
    undefined,
    16_384,
  ],
  [
    "vllm, letters in place of tokens",
    400,
    plain(
      "This model's maximum context length is 1024 tokens. However, your prompt contains 100050 characters (more than 34816 characters, which is the upper bound for 1024 input tokens). Please reduce the length of the input prompt. (parameter=input_text, value=100050)",
    ),
    undefined,
    1024,
  ],
  ["vllm, older", 400, plain("max_tokens must be at least 1, got -2012")],
  [
    "sglang",
    400,
    plain(
      "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 140001 tokens: 135001 tokens from the input messages and 5000 tokens for the completion.",
    ),
    140_001,
    131_072,
  ],
  [
    "sglang, input",
    400,
    plain("Input length (265330) exceeds model's maximum context length (262144)."),
    265_330,
    262_144,
  ],
  [
    "sglang, scheduler",
    400,
    plain(
      "Input length (40123 tokens) exceeds the maximum allowed length (32768 tokens). Use a shorter input or enable --allow-auto-truncate.",
    ),
    40_123,
    32_768,
  ],
  ["sglang, memory", 400, plain("Request prompt exceeds the KV memory budget: input_len=40123.")],
  [
    "lmdeploy",
    400,
    plain("Input length (40123) must be smaller than the model context length (32768)."),
    40_123,
    32_768,
  ],
  ["lmdeploy, engine", 400, plain("The request exceeds the model context length.")],
  [
    "tensorrt-llm",
    400,
    plain("The sum of prompt length (72417.0), query length (0) should not exceed max_num_tokens (69632)"),
    72_417,
    69_632,
  ],
  [
    "tensorrt-llm, window",
    400,
    plain(
      "`default_max_tokens` (-1234) must be greater than 0, `default_max_tokens` (-1234) = max_seq_len (32768) - `splited_prompt_len` (34002) - `query_token_len` (0)",
    ),
    34_002,
    32_768,
  ],
  [
    "tensorrt-llm, engine",
    400,
    plain(
      "Prompt length (40123) exceeds maximum input length (32768). Set log level to info and check TRTGptModel logs for how maximum input length is set",
    ),
    40_123,
    32_768,
  ],
  [
    "openvino",
    400,
    {
      error:
        'Mediapipe execution failed. MP status - INVALID_ARGUMENT: CalculatorGraph::Run() failed: \nCalculator::Process() for node "LLMExecutor" failed: Number of prompt tokens: 40123 exceeds model max length: 32768',
    },
    40_123,
    32_768,
  ],
  [
    "onnx runtime",
    500,
    openai("input_ids size (3216) + current sequence length (0) exceeds max length (2048)", null),
    3216,
    2048,
  ],
  [
    "siliconflow",
    400,
    { code: 20015, message: "length of prompt_tokens (163280) must be less than max_seq_len (32768).", data: null },
    163_280,
    32_768,
  ],
  [
    "mlc",
    400,
    plain("Request prompt has 40123 tokens in total, larger than the model capacity 32768."),
    40_123,
    32_768,
  ],
  ["xinference", 400, { detail: "Request exceeds the model's configured context length." }],
  [
    "xinference, mlx",
    400,
    anthropic(
      "[address=127.0.0.1:33441, pid=99] Prompt has 40123 tokens, but context_length is 32768; at least one output token is required.",
    ),
    40_123,
    32_768,
  ],
  [
    "xinference, transformers",
    400,
    anthropic(
      "[address=127.0.0.1:33441, pid=99] Prompt length 40123 reaches or exceeds context_length 32768, leaving no output capacity.",
    ),
    40_123,
    32_768,
  ],
  ["tabbyapi", 400, openai("Prompt length 40123 exceeds the available context size of 32768 tokens"), 40_123, 32_768],
  [
    "llama.cpp behind localai",
    500,
    {
      error: {
        code: 500,
        message:
          "rpc error: code = Internal desc = request (40123 tokens) exceeds the available context size (32768 tokens), try increasing it",
        type: "",
      },
    },
    40_123,
    32_768,
  ],
  ["ds4", 400, openai("Prompt has 5001 tokens, but the configured context size is 4096 tokens", null), 5001, 4096],
  [
    "words nobody foresaw",
    400,
    openai("Conversation too big for gpt-4-32768 of 2026-08-06: 140,001 of 131,072."),
    140_001,
    131_072,
  ],
  [
    "fastapi",
    422,
    { detail: "This model's maximum context length is 8192 tokens, your prompt has 12000 tokens." },
    12_000,
    8192,
  ],
];

describe("every vendor's words for a request that does not fit", () => {
  for (const [vendor, status, body, asked, maximum] of WORDINGS)
    test(vendor, () => {
      const error = readUpstreamError(status, JSON.stringify(body));
      expect(error).toBeInstanceOf(ContextOverflow);
      expect(error.code).toBe("context_length_exceeded");
      expect(error.retry).toBe(false);
      const { figures } = error as ContextOverflow;
      expect([figures.asked, figures.maximum]).toEqual([asked, maximum]);
      expect(error.message).toStartWith(
        asked && maximum ? `prompt is too long: ${asked} tokens > ${maximum} maximum` : "prompt is too long:",
      );
    });

  for (const [vendor, , body, asked, maximum] of WORDINGS)
    test(`${vendor}, inside a 200, where no status says what it is`, () => {
      const raw = readRawError(body);
      const error = upstreamError(statusOfRawError(raw), raw);
      expect(error).toBeInstanceOf(ContextOverflow);
      expect((error as ContextOverflow).figures).toMatchObject({
        ...(asked && { asked }),
        ...(maximum && { maximum }),
      });
    });

  test("plain text instead of JSON", () => {
    const error = readUpstreamError(500, "error: prompt is too long: 12000 tokens > 8192 maximum");
    expect(error.message).toStartWith("prompt is too long: 12000 tokens > 8192 maximum");
  });

  test("input that would fit with a smaller ceiling says so in the words Claude Code acts on", () => {
    const body = plain(
      "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (5000 in the messages, 4000 in the completion).",
    );
    const { message } = readUpstreamError(400, JSON.stringify(body));
    expect(message).toContain("input length and `max_tokens` exceed context limit: 5000 + 4000 > 8192");
    const alone = plain(
      "This model's maximum context length is 8192 tokens. However, you requested 12000 tokens (9000 in the messages, 3000 in the completion).",
    );
    expect(readUpstreamError(400, JSON.stringify(alone)).message).not.toContain("exceed context limit");
  });

  test("so does input beside what was wanted, as io.net tells the two", () => {
    const body = plain(
      "Your request exceeds this model's maximum context length of 204800 tokens. You requested ~269722 tokens (204186 input + 65536 output).",
    );
    expect(readUpstreamError(400, JSON.stringify(body)).message).toContain(
      "input length and `max_tokens` exceed context limit: 204186 + 65536 > 204800",
    );
  });

  test("a wanted output beyond the window is told beside the gateway's own count of the input, so that agents want less", () => {
    for (const field of ["max_tokens", "max_completion_tokens", "max_output_tokens"]) {
      const words = `${field}=32000 cannot be greater than max_model_len=16384. Please request fewer output tokens. (parameter=${field}, value=32000)`;
      const error = readUpstreamError(400, JSON.stringify(plain(words))) as ContextOverflow;
      expect(error.completed(900, undefined).message).toBe(
        "prompt is too long: 32900 tokens > 16384 maximum. input length and `max_tokens` exceed context limit: 900 + 32000 > 16384. This model's maximum context length is 16384 tokens. However, you requested 32900 tokens. Please reduce the length of the messages.",
      );
    }
  });

  test.each([
    [20_000, 24_577],
    [25_000, 25_000],
    [40_000, undefined],
  ])(
    "input that its vendor stopped to count is taken for the gateway's own count, %p, and no less than does not fit",
    (estimate, input) => {
      for (const words of [
        "This model's maximum context length is 32768 tokens. However, you requested 8192 output tokens and your prompt contains at least 24577 input tokens, for a total of at least 32769 tokens.",
        "You passed 24577 input tokens and requested 8192 output tokens. However, the model's context length is only 32768 tokens, resulting in a maximum input length of 24576 tokens. Please reduce the length of the input prompt.",
      ]) {
        const error = readUpstreamError(400, JSON.stringify(plain(words))) as ContextOverflow;
        const { message } = error.completed(estimate, 1_000_000);
        expect(message).toStartWith(`prompt is too long: ${(input ?? estimate) + 8192} tokens > 32768 maximum.`);
        const split = ` input length and \`max_tokens\` exceed context limit: ${input} + 8192 > 32768.`;
        expect(message.includes(split)).toBe(input !== undefined);
      }
    },
  );
});

const OTHERS: readonly (readonly [name: string, status: number, body: unknown, code: string])[] = [
  [
    "a model that is not there, by a word and a sentence beside",
    422,
    { error: "model_not_found", status: 422, message: "No such thing." },
    "upstream_error",
  ],
  ...["unavailable_model", "model_not_available_for_integrator"].map(
    (code): readonly [string, number, unknown, string] => [
      `a model that is not to be had (GitHub's ${code})`,
      400,
      { error: { code, message: "Unavailable model: o4-mini", details: "Unavailable model: o4-mini" } },
      "upstream_error",
    ],
  ),
  [
    "a ceiling beyond the model's (Cohere)",
    400,
    {
      message:
        "too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 8192.",
    },
    "invalid_request",
  ],
  [
    "a ceiling beyond the model's",
    400,
    anthropic("max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens for claude-x"),
    "invalid_request",
  ],
  [
    "a name that is too long",
    400,
    openai("tools[0].function.name exceeds the maximum allowed length (64)", null),
    "invalid_request",
  ],
  [
    "a ceiling, Groq",
    400,
    openai(
      "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
      null,
    ),
    "invalid_request",
  ],
  ["a ceiling, Qwen", 400, openai("Range of max_tokens should be [1, 8192]", null), "invalid_request"],
  ["a ceiling, other", 400, openai("max_tokens exceeds the limit of 8192", null), "invalid_request"],
  [
    "speed",
    429,
    openai(
      "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.",
      "rate_limit_exceeded",
    ),
    "rate_limit_exceeded",
  ],
  ["speed, Bedrock", 429, { message: "Too many tokens, please wait before trying again." }, "rate_limit_exceeded"],
  [
    "a small request that is refused for its speed",
    429,
    openai("Request too large: Limit 30000, Requested 20000", "rate_limit_exceeded"),
    "rate_limit_exceeded",
  ],
  [
    "an image",
    400,
    anthropic("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"),
    "invalid_request",
  ],
  [
    "a body of too many bytes",
    413,
    { type: "error", error: { type: "request_too_large", message: "Request exceeds the maximum size" } },
    "request_too_large",
  ],
  ["speed, in words of a length", 429, openai("Token limit exceeded for this minute.", null), "rate_limit_exceeded"],
  [
    "speed, by a status of its own",
    503,
    { message: "Too many tokens, please wait before trying again." },
    "upstream_overloaded",
  ],
  ["a key", 401, openai("prompt is too long"), "upstream_auth"],
  ["a right that the key has not", 403, openai("prompt is too long", null), "upstream_auth"],
  ["an account", 402, openai("reduce the length of the messages"), "upstream_error"],
  [
    "an account that a 400 calls empty",
    400,
    {
      type: "error",
      error: { type: "invalid_request_error", message: "Your credit balance is too low to access it." },
    },
    "upstream_error",
  ],
  [
    "a request that says so itself, and is quoted",
    400,
    openai(
      "Invalid value: 'your credit balance is too low'. Supported values are: 'auto' and 'flex'.",
      "invalid_value",
    ),
    "invalid_request",
  ],
  [
    "a request that calls its key wrong, and is quoted",
    400,
    openai("Invalid value: 'Incorrect API key provided'. Supported values are: 'auto' and 'flex'.", "invalid_value"),
    "invalid_request",
  ],
  [
    "a request that names a model, and is quoted",
    400,
    openai("Invalid value: 'x is not a valid model ID'. Supported values are: 'auto' and 'flex'.", "invalid_value"),
    "invalid_request",
  ],
  [
    "a request that calls its model down, and is quoted",
    400,
    openai(
      "Invalid value: 'DEGRADED function cannot be invoked'. Supported values are: 'none' and 'auto'.",
      "invalid_value",
    ),
    "invalid_request",
  ],
  [
    "a limit of the minute in words of an account",
    429,
    {
      error: {
        code: 429,
        status: "RESOURCE_EXHAUSTED",
        message: "You exceeded your current quota, please check your plan and billing details.",
      },
    },
    "rate_limit_exceeded",
  ],
  ["a model that is gone, DeepSeek", 400, openai("Model Not Exist", "invalid_request_error"), "upstream_error"],
  [
    "a model that is gone, Mistral",
    400,
    { object: "error", message: "Invalid model: tiny", type: "invalid_model", param: null, code: "1500" },
    "upstream_error",
  ],
  [
    "a model that is gone, OpenRouter",
    400,
    { error: { code: 400, message: "a/b is not a valid model ID" } },
    "upstream_error",
  ],
  [
    "a model that is gone, SiliconFlow",
    400,
    { code: 20_012, message: "Model does not exist. Please check it carefully.", data: null },
    "upstream_error",
  ],
  [
    "a model that is gone, Workers AI",
    400,
    { success: false, errors: [{ code: 5007, message: "AiError: No such model @cf/a/b or task" }] },
    "upstream_error",
  ],
  [
    "a model that is gone, Hugging Face's router",
    400,
    openai("The requested model 'a/b' is not supported by any provider you have enabled.", "model_not_supported"),
    "upstream_error",
  ],
  [
    "a model that is gone, Hugging Face's router before a provider",
    400,
    { error: "Model not supported by provider together" },
    "upstream_error",
  ],
  [
    "a model that is gone, AI21",
    422,
    {
      detail:
        "The provided model is not supported. See https://docs.ai21.com/docs/jamba-foundation-models#api-versioning for a list of supported models",
    },
    "upstream_error",
  ],
  [
    "a model that is gone, Scaleway",
    422,
    { object: "error", message: "Model not found", type: "NotFoundError", param: null, code: 422 },
    "upstream_error",
  ],
  [
    "a ceiling beyond the model's, Scaleway",
    416,
    { error: { message: "max_completion_tokens is limited for this model", type: "invalid_request", code: 416 } },
    "invalid_request",
  ],
  [
    "a guardrail, Portkey",
    446,
    {
      error: {
        ...{ type: "hooks_failed", param: null, code: null },
        message:
          "The guardrail checks defined in the config failed. You can find more information in the `hook_results` object.",
      },
      hook_results: { before_request_hooks: [], after_request_hooks: [] },
    },
    "invalid_request",
  ],
  ["a model that is gone, llama-swap", 400, { error: "could not find real modelID for a/b" }, "upstream_error"],
  [
    "a model that is gone, MLC",
    400,
    { object: "error", message: 'The requested model "tiny" is not served.', code: 400 },
    "upstream_error",
  ],
  ["a model that is gone, Triton", 400, { detail: "Unknown model: a" }, "upstream_error"],
  [
    "a model that is gone, llama.cpp's router",
    400,
    { error: { code: 400, message: "model 'a/b.gguf' not found", type: "invalid_request_error" } },
    "upstream_error",
  ],
  ...["Model not found, uid: qwen-0", "Model not found in the model list, uid: qwen"].map(
    (words): (typeof OTHERS)[0] => [
      `a model that is gone, Xinference (${words})`,
      400,
      { detail: `[address=0.0.0.0:51672, pid=57224] ${words}` },
      "upstream_error",
    ],
  ),
  [
    "a model that is not loaded, llama.cpp's router",
    400,
    { error: { code: 400, message: "model is not loaded", type: "invalid_request_error" } },
    "upstream_error",
  ],
  ...(
    [
      ["No models loaded. Please load a model in the developer page or use the 'lms load' command.", "upstream_error"],
      ['Failed to load model "google/gemma-4-e4b". Error: Error loading model.', "upstream_overloaded"],
    ] as const
  ).map(([message, code]): (typeof OTHERS)[0] => [
    `a model that is not loaded, LM Studio (${message})`,
    400,
    { error: { message, type: "invalid_request_error", param: "model", code: null } },
    code,
  ]),
  [
    "a model that is not loaded, mlx-vlm",
    400,
    { detail: "Failed to load model: Model type bert not supported." },
    "upstream_error",
  ],
  ["a model that is not loaded, older TabbyAPI", 400, { detail: "No models are currently loaded." }, "upstream_error"],
  [
    "a model that is not loaded, Foundry Local",
    400,
    openai("Model not loaded: Model 'qwen3-0.6b' must be loaded before inference", null),
    "upstream_error",
  ],
  [
    "a model that is not loaded, Unsloth",
    400,
    { error: { message: "No model loaded. Call POST /inference/load first." } },
    "upstream_error",
  ],
  [
    "a request that calls its model not loaded, and is quoted",
    400,
    openai("Invalid value: 'model is not loaded'. Supported values are: 'none' and 'auto'.", "invalid_value"),
    "invalid_request",
  ],
  ...["slots_pinned_error", "router_residency_conflict"].map((code): (typeof OTHERS)[0] => [
    `no room for a model, Lemonade (${code})`,
    409,
    { error: { message: "Cannot load: the others are pinned.", type: code, param: "model", code } },
    "upstream_overloaded",
  ]),
  [
    "a place that is not served, Google",
    400,
    [
      {
        error: {
          ...{ code: 400, message: "User location is not supported for the API use." },
          status: "FAILED_PRECONDITION",
        },
      },
    ],
    "upstream_auth",
  ],
  [
    "a place that is not served, Bedrock",
    400,
    {
      message:
        "Access to Anthropic models is not allowed from unsupported countries, regions, or territories. Please refer to https://www.anthropic.com/supported-countries for more information.",
    },
    "upstream_auth",
  ],
  [
    "an endpoint that is closed, Volcengine",
    400,
    {
      error: {
        message: "The request targeted an endpoint that is currently closed or temporarily unavailable. Request ID: 1",
        ...{ type: "BadRequest", param: "", code: "InvalidEndpoint.ClosedEndpoint" },
      },
    },
    "upstream_overloaded",
  ],
  [
    "a model that is gone, Groq",
    400,
    openai("The model `a` has been decommissioned and is no longer supported.", "model_decommissioned"),
    "upstream_error",
  ],
  [
    "a model that is gone, Together",
    400,
    openai("Unable to access non-serverless model a/b.", "model_not_available"),
    "upstream_error",
  ],
  ["a model that is gone, Bedrock", 400, { message: "The provided model identifier is invalid." }, "upstream_error"],
  [
    "a model that is had by another name, Bedrock",
    400,
    { message: "Invocation of model ID a.b-v1:0 with on-demand throughput isn’t supported. Retry your request." },
    "upstream_error",
  ],
  ["load", 529, { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }, "upstream_overloaded"],
  [
    "tools",
    400,
    openai(
      "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 200 instead.",
      "array_above_max_length",
    ),
    "invalid_request",
  ],
];

test.each(OTHERS)("not the window: %s", (_name, status, body, code) => {
  expect(readUpstreamError(status, JSON.stringify(body)).code as string).toBe(code);
});

describe("what the vendor did not say", () => {
  const first = /^prompt is too long: (\d+) tokens > (\d+) maximum\./;

  test("comes from the gateway's count and the catalog", () => {
    const { message } = new ContextOverflow({}).completed(140_000, 128_000);
    expect(message).toStartWith("prompt is too long: 140000 tokens > 128000 maximum.");
  });

  test("a count that says it fits gives way to the vendor's word", () => {
    const { message } = new ContextOverflow({}).completed(120_000, 128_000);
    expect(message).toStartWith("prompt is too long: 128001 tokens > 128000 maximum.");
  });

  test("a vendor's own window wins over the catalog's, and its count over the gateway's", () => {
    expect(new ContextOverflow({ maximum: 98_304 }).completed(100_000, 131_072).message).toContain(
      "100000 tokens > 98304 maximum",
    );
    expect(new ContextOverflow({ asked: 9000 }).completed(100, 8192).message).toContain("9000 tokens > 8192 maximum");
  });

  test("a window nobody knows is the next usual size below", () => {
    expect(new ContextOverflow({}).completed(140_000, undefined).message).toContain("140000 tokens > 131072 maximum");
    expect(new ContextOverflow({}).completed(131_072, undefined).message).toContain("131072 tokens > 65536 maximum");
  });

  test("always more than the maximum, whatever is known", () => {
    const count = fc.option(fc.integer({ min: 1, max: 2 ** 40 }), { nil: undefined });
    fc.assert(
      fc.property(count, count, fc.integer({ min: 0, max: 2 ** 40 }), count, (asked, maximum, estimate, window) => {
        if (asked !== undefined && maximum !== undefined) return;
        const figures = { ...(asked !== undefined && { asked }), ...(maximum !== undefined && { maximum }) };
        const match = first.exec(new ContextOverflow(figures).completed(estimate, window).message);
        expect(match).not.toBeNull();
        expect(Number(match?.[1])).toBeGreaterThan(Number(match?.[2]));
      }),
    );
  });
});
