import { json, type Script, type Upstream } from "../support/upstream.ts";
import { PNG, PNG_BASE64, RESULT } from "./image-lab.ts";

/** What a fake answers, path by path, in order. */
export type Scripts = Readonly<Record<string, readonly Script[]>>;

/** A vendor's documented wire (dialects.md 7), as its fake plays it. */
export type VendorCase = {
  id: string;
  model: string;
  ratio: string;
  /** How the key arrives: header and value, KEY standing for it. */
  auth?: readonly [string, string];
  wins(upstream: Upstream): Scripts;
  /** The calls of a success, one after the other. */
  calls: readonly string[];
  /** Fields of the call that asks for the image; dots lead inwards. */
  asks: Readonly<Record<string, unknown>>;
  /** Answers that are refusals on content grounds. */
  blocked: readonly Scripts[];
  /** An answer by which it failed, and what the caller is told of it. */
  fails: readonly [Scripts, RegExp];
  /** The path that is asked first. */
  path: string;
};

const image = (bytes: Uint8Array, headers: Record<string, string> = {}): Script => ({
  headers: { "content-type": "text/html", ...headers },
  parts: [bytes],
  framing: "length",
  finish: "end",
});
const error = (status: number, value: unknown) => json(value, { status });
const openaiError = (status: number, code: string | null, message = "no", type = "invalid_request_error") =>
  error(status, { error: { message, type, param: null, code } });

const GENERATIONS = "/v1/images/generations";
const BEARER = ["authorization", "Bearer KEY"] as const;
const base64 = json({ created: 1, data: [{ b64_json: PNG_BASE64 }], usage: { output_tokens: 1 } });

const GEMINI = "/v1beta/models/gemini-3-pro-image:generateContent";
const candidate = (finishReason: string, parts: unknown[] = [], finishMessage?: string) =>
  json({ candidates: [{ content: { role: "model", parts }, finishReason, finishMessage }] });
/** What a model said through an aggregator, and drew nothing. */
const said = (content: string) => json({ choices: [{ finish_reason: "stop", message: { content } }] });
/** What a vendor behind an aggregator said, as that tells it. */
const wrapped = {
  error: {
    code: 400,
    message: "Provider returned error",
    metadata: {
      provider_name: "OpenAI",
      raw: JSON.stringify({
        error: {
          message: "Your request was rejected by the safety system. safety_violations=[sexual].",
          ...{ type: "image_generation_user_error", param: null, code: "moderation_blocked" },
        },
      }),
    },
  },
};
/** What Google says where nothing came of a prompt, and where that was for what is in it. */
const NOT_MADE =
  "Unable to show the generated image. The model could not make it. You will not be charged. Rephrase it.";
const NOT_SHOWN =
  "Unable to show the generated image. It was filtered out because it violated the Prohibited Use policy.";

const REPLICATE = "/v1/models/black-forest-labs/flux-schnell/predictions";
const prediction = (status: string, more: object = {}) =>
  json({ id: "p1", status, error: null, output: null, ...more });
const FAL = "/fal-ai/flux/dev";
const FAL_PLACE = "/fal-ai/flux/requests/r-1";
const falPlace = (upstream: Upstream) =>
  json({
    status: "IN_QUEUE",
    request_id: "r-1",
    response_url: upstream.url + FAL_PLACE,
    status_url: `${upstream.url + FAL_PLACE}/status`,
    cancel_url: `${upstream.url + FAL_PLACE}/cancel`,
  });
const BFL_POLL = "/v1/get_result";
const bflTask = (upstream: Upstream) => json({ id: "t1", polling_url: `${upstream.url}${BFL_POLL}?id=t1` });
const STABILITY = "/v2beta/stable-image/generate/ultra";
const KONTEXT = "/inference/v1/workflows/accounts/fireworks/models/flux-kontext-pro";
const FIREWORKS = "/inference/v1/workflows/accounts/fireworks/models/flux-1-dev-fp8/text_to_image";
const history = (entry: object) => json({ "c-1": entry });

export const CASES: readonly VendorCase[] = [
  {
    id: "openai",
    model: "gpt-image-1.5",
    ratio: "3:2",
    auth: BEARER,
    path: GENERATIONS,
    wins: () => ({ [GENERATIONS]: [base64] }),
    calls: [`POST ${GENERATIONS}`],
    asks: {
      model: "gpt-image-1.5",
      prompt: "a red fox",
      n: 1,
      size: "1536x1024",
      response_format: undefined,
      style: undefined,
    },
    blocked: [
      {
        [GENERATIONS]: [
          openaiError(400, "moderation_blocked", "Your request was rejected.", "image_generation_user_error"),
        ],
      },
      { [GENERATIONS]: [openaiError(400, "content_policy_violation")] },
      {
        [GENERATIONS]: [
          error(400, {
            error: { code: "contentFilter", message: "x", innererror: { code: "ResponsibleAIPolicyViolation" } },
          }),
        ],
      },
    ],
    fails: [
      { [GENERATIONS]: [openaiError(400, "unknown_parameter", "Unknown parameter: 'foo'.")] },
      /Unknown parameter: 'foo'/,
    ],
  },
  {
    id: "openai",
    model: "gpt-image-2.6-sunburst",
    ratio: "16:9",
    auth: BEARER,
    path: GENERATIONS,
    wins: () => ({ [GENERATIONS]: [base64] }),
    calls: [`POST ${GENERATIONS}`],
    asks: { model: "gpt-image-2.6-sunburst", size: "1280x720", response_format: undefined },
    blocked: [{ [GENERATIONS]: [openaiError(400, null, "Your request was rejected by the safety system.")] }],
    fails: [{ [GENERATIONS]: [json({ data: [] })] }, /gave no image/],
  },
  {
    id: "google",
    model: "gemini-3-pro-image",
    ratio: "21:9",
    auth: ["x-goog-api-key", "KEY"],
    path: GEMINI,
    wins: () => ({
      [GEMINI]: [
        candidate("STOP", [
          { thought: true, inlineData: { mimeType: "image/png", data: "ZHJhZnQ=" } },
          { text: "Here it is" },
          { inlineData: { mimeType: "image/png", data: PNG_BASE64 } },
        ]),
      ],
    }),
    calls: [`POST ${GEMINI}`],
    asks: {
      "contents.0.parts": [{ text: "a red fox" }],
      "generationConfig.responseModalities": ["IMAGE"],
      "generationConfig.imageConfig": { aspectRatio: "21:9" },
    },
    blocked: [
      { [GEMINI]: [json({ promptFeedback: { blockReason: "PROHIBITED_CONTENT" } })] },
      ...[
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "PROHIBITED_CONTENT",
        "SAFETY",
        "BLOCKLIST",
        "SPII",
        "RECITATION",
        "IMAGE_RECITATION",
        "ESCALATION",
      ].map((reason) => ({ [GEMINI]: [candidate(reason)] })),
      { [GEMINI]: [candidate("STOP", [{ text: "I'm sorry, I can't create that image." }])] },
      { [GEMINI]: [candidate("NO_IMAGE"), candidate("IMAGE_SAFETY")] },
      { [GEMINI]: [candidate("IMAGE_OTHER", [], NOT_SHOWN)] },
    ],
    fails: [
      // Nothing came of it, which is no refusal: it is asked for once more.
      { [GEMINI]: [candidate("IMAGE_OTHER", [], NOT_MADE), candidate("STOP", [{ text: "Which fox?" }])] },
      /says: Which fox/,
    ],
  },
  {
    id: "google",
    model: "imagen-4.0-generate-001",
    ratio: "16:9",
    auth: ["x-goog-api-key", "KEY"],
    path: "/v1beta/models/imagen-4.0-generate-001:predict",
    wins: () => ({
      "/v1beta/models/imagen-4.0-generate-001:predict": [json({ predictions: [{ bytesBase64Encoded: PNG_BASE64 }] })],
    }),
    calls: ["POST /v1beta/models/imagen-4.0-generate-001:predict"],
    asks: { "instances.0.prompt": "a red fox", parameters: { sampleCount: 1, aspectRatio: "16:9" } },
    blocked: [
      { "/v1beta/models/imagen-4.0-generate-001:predict": [json({})] },
      { "/v1beta/models/imagen-4.0-generate-001:predict": [json({ predictions: [{ raiFilteredReason: "x" }] })] },
    ],
    fails: [
      {
        "/v1beta/models/imagen-4.0-generate-001:predict": [
          error(400, { error: { code: 400, message: "Bad aspect ratio", status: "INVALID_ARGUMENT" } }),
        ],
      },
      /Bad aspect ratio/,
    ],
  },
  {
    id: "xai",
    model: "grok-imagine-image-2.0",
    ratio: "9:16",
    auth: BEARER,
    path: GENERATIONS,
    wins: () => ({ [GENERATIONS]: [json({ data: [{ url: RESULT, respect_moderation: true }] })] }),
    calls: [`POST ${GENERATIONS}`],
    asks: { aspect_ratio: "9:16", size: undefined, response_format: "b64_json", n: 1 },
    blocked: [
      { [GENERATIONS]: [json({ data: [{ url: "", respect_moderation: false }] })] },
      { [GENERATIONS]: [json({ data: [], block_reason: "sexual" })] },
      {
        [GENERATIONS]: [
          error(400, {
            code: "Client specified an invalid argument",
            error: "Generated image rejected by content moderation.",
          }),
        ],
      },
    ],
    fails: [
      { [GENERATIONS]: [error(400, { code: "x", error: "Argument not supported: size" })] },
      /not supported: size/,
    ],
  },
  {
    id: "together",
    model: "black-forest-labs/FLUX.1-schnell",
    ratio: "16:9",
    auth: BEARER,
    path: GENERATIONS,
    wins: () => ({ [GENERATIONS]: [base64] }),
    calls: [`POST ${GENERATIONS}`],
    asks: { width: 1280, height: 720, response_format: "base64", aspect_ratio: undefined },
    blocked: [{ [GENERATIONS]: [openaiError(422, null, "NSFW content detected in the prompt")] }],
    // Some answer a failure as if all were well.
    fails: [{ [GENERATIONS]: [json({ error: { message: "steps must be below 5" } })] }, /steps must be below 5/],
  },
  {
    id: "openrouter",
    model: "google/gemini-3-pro-image",
    ratio: "4:3",
    auth: BEARER,
    path: "/api/v1/chat/completions",
    wins: () => ({
      "/api/v1/chat/completions": [
        json({
          choices: [
            {
              finish_reason: "stop",
              message: {
                content: "",
                images: [{ type: "image_url", image_url: { url: `data:image/png;base64,${PNG_BASE64}` } }],
              },
            },
          ],
        }),
      ],
    }),
    calls: ["POST /api/v1/chat/completions"],
    asks: { modalities: ["image", "text"], image_config: { aspect_ratio: "4:3" }, stream: false },
    blocked: [
      {
        "/api/v1/chat/completions": [
          json({ choices: [{ finish_reason: "content_filter", message: { content: "" } }] }),
        ],
      },
      {
        "/api/v1/chat/completions": [
          json({ choices: [{ finish_reason: "stop", native_finish_reason: "IMAGE_SAFETY", message: {} }] }),
        ],
      },
      {
        "/api/v1/chat/completions": [
          error(403, { error: { code: 403, message: "Your input was flagged", metadata: { reasons: ["x"] } } }),
        ],
      },
      { "/api/v1/chat/completions": [said("I'm sorry, but I can't draw that.")] },
      { "/api/v1/chat/completions": [json({ choices: [{ finish_reason: "error", message: {}, ...wrapped }] })] },
    ],
    fails: [
      { "/api/v1/chat/completions": [json({ error: { code: 502, message: "Provider broke" } })] },
      /Provider broke/,
    ],
  },
  // A chat with a model that only draws: 404 (most), 500 (Seedream).
  {
    id: "openrouter",
    model: "bytedance-seed/seedream-5-0-pro",
    ratio: "16:9",
    auth: BEARER,
    path: "/api/v1/images",
    wins: () => ({
      "/api/v1/images": [json({ created: 1, data: [{ b64_json: PNG_BASE64, media_type: "image/png" }] })],
    }),
    calls: ["POST /api/v1/images"],
    asks: { aspect_ratio: "16:9", messages: undefined, modalities: undefined, stream: undefined },
    blocked: [
      { "/api/v1/images": [error(400, wrapped)] },
      { "/api/v1/images": [json(wrapped)] },
      {
        "/api/v1/images": [
          error(403, { error: { code: 403, message: "Your input was flagged", metadata: { reasons: ["x"] } } }),
        ],
      },
    ],
    fails: [{ "/api/v1/images": [json({ error: { code: 502, message: "Provider broke" } })] }, /Provider broke/],
  },
  {
    id: "fireworks",
    model: "flux-1-dev-fp8",
    ratio: "3:2",
    auth: BEARER,
    path: FIREWORKS,
    wins: () => ({ [FIREWORKS]: [image(PNG)] }),
    calls: [`POST ${FIREWORKS}`],
    asks: { prompt: "a red fox", aspect_ratio: "3:2", width: undefined },
    blocked: [{ [FIREWORKS]: [image(PNG, { "finish-reason": "CONTENT_FILTERED" })] }],
    fails: [
      { [FIREWORKS]: [image(new TextEncoder().encode("<svg xmlns='http://www.w3.org/2000/svg'/>"))] },
      /no PNG, JPEG or WebP/,
    ],
  },
  {
    id: "fireworks",
    model: "flux-kontext-pro",
    ratio: "16:9",
    auth: BEARER,
    path: KONTEXT,
    wins: () => ({
      [KONTEXT]: [json({ request_id: "q1" })],
      [`${KONTEXT}/get_result`]: [
        json({ id: "q1", status: "Pending", result: null }),
        json({ id: "q1", status: "Ready", result: { sample: RESULT } }),
      ],
    }),
    calls: [`POST ${KONTEXT}`, `POST ${KONTEXT}/get_result`, `POST ${KONTEXT}/get_result`],
    asks: { prompt: "a red fox", aspect_ratio: "16:9", input_image: undefined },
    blocked: ["Request Moderated", "Content Moderated"].map((status) => ({
      [KONTEXT]: [json({ request_id: "q1" })],
      [`${KONTEXT}/get_result`]: [json({ id: "q1", status })],
    })),
    fails: [
      {
        [KONTEXT]: [json({ request_id: "q1" })],
        [`${KONTEXT}/get_result`]: [json({ id: "q1", status: "Task not found" })],
      },
      /Task not found/,
    ],
  },
  {
    id: "replicate",
    model: "black-forest-labs/flux-schnell",
    ratio: "4:5",
    auth: BEARER,
    path: REPLICATE,
    wins: () => ({
      [REPLICATE]: [prediction("starting")],
      "/v1/predictions/p1": [prediction("processing"), prediction("succeeded", { output: [RESULT] })],
    }),
    calls: [`POST ${REPLICATE}`, "GET /v1/predictions/p1", "GET /v1/predictions/p1"],
    asks: { "input.prompt": "a red fox", "input.aspect_ratio": "4:5", version: undefined },
    blocked: ["NSFW content detected. Try again.", "The input or output was flagged as sensitive. (E005)"].map(
      (words) => ({
        [REPLICATE]: [prediction("starting")],
        "/v1/predictions/p1": [prediction("failed", { error: words })],
      }),
    ),
    fails: [
      {
        [REPLICATE]: [prediction("starting")],
        "/v1/predictions/p1": [prediction("failed", { error: "CUDA out of memory" })],
      },
      /CUDA out of memory/,
    ],
  },
  {
    id: "fal",
    model: "fal-ai/flux/dev",
    ratio: "16:9",
    auth: ["authorization", "Key KEY"],
    path: FAL,
    wins: (upstream) => ({
      [FAL]: [falPlace(upstream)],
      [`${FAL_PLACE}/status`]: [json({ status: "IN_QUEUE", queue_position: 2 }), json({ status: "COMPLETED" })],
      [FAL_PLACE]: [json({ images: [{ url: RESULT, content_type: "image/png" }], has_nsfw_concepts: [false] })],
    }),
    calls: [`POST ${FAL}`, `GET ${FAL_PLACE}/status`, `GET ${FAL_PLACE}/status`, `GET ${FAL_PLACE}`],
    asks: { prompt: "a red fox", image_size: "landscape_16_9", num_images: 1 },
    blocked: [
      {
        [FAL]: [json({ request_id: "r-1" })],
        [`${FAL_PLACE}/status`]: [json({ status: "COMPLETED" })],
        [FAL_PLACE]: [json({ images: [{ url: RESULT }], has_nsfw_concepts: [true] })],
      },
      {
        [FAL]: [json({ request_id: "r-1" })],
        [`${FAL_PLACE}/status`]: [json({ status: "COMPLETED" })],
        [FAL_PLACE]: [
          error(422, { detail: [{ loc: ["body", "prompt"], msg: "no", type: "content_policy_violation" }] }),
        ],
      },
    ],
    fails: [
      {
        [FAL]: [
          error(422, { detail: [{ loc: ["body", "prompt"], msg: "field required", type: "value_error.missing" }] }),
        ],
      },
      /field required/,
    ],
  },
  {
    id: "bfl",
    model: "flux-kontext-pro",
    ratio: "3:2",
    auth: ["x-key", "KEY"],
    path: "/v1/flux-kontext-pro",
    wins: (upstream) => ({
      "/v1/flux-kontext-pro": [bflTask(upstream)],
      [BFL_POLL]: [
        json({ id: "t1", status: "Pending" }),
        json({ id: "t1", status: "Ready", result: { sample: RESULT } }),
      ],
    }),
    calls: ["POST /v1/flux-kontext-pro", `GET ${BFL_POLL}`, `GET ${BFL_POLL}`],
    asks: { prompt: "a red fox", aspect_ratio: "3:2" },
    blocked: [],
    fails: [{ "/v1/flux-kontext-pro": [error(422, { detail: [{ loc: ["body"], msg: "bad ratio" }] })] }, /bad ratio/],
  },
  {
    id: "stability",
    model: "stable-image-ultra",
    ratio: "21:9",
    auth: BEARER,
    path: STABILITY,
    wins: () => ({ [STABILITY]: [json({ image: PNG_BASE64, finish_reason: "SUCCESS", seed: 1 })] }),
    calls: [`POST ${STABILITY}`],
    asks: {},
    blocked: [
      { [STABILITY]: [json({ image: PNG_BASE64, finish_reason: "CONTENT_FILTERED" })] },
      { [STABILITY]: [error(403, { id: "1", name: "content_moderation", errors: ["Your request was flagged."] })] },
    ],
    fails: [
      { [STABILITY]: [error(400, { id: "1", name: "bad_request", errors: ["seed: must be a number"] })] },
      /seed: must be a number/,
    ],
  },
  {
    id: "automatic1111",
    model: "sd_xl_base_1.0",
    ratio: "16:9",
    path: "/sdapi/v1/txt2img",
    wins: () => ({ "/sdapi/v1/txt2img": [json({ images: [PNG_BASE64], parameters: {}, info: "{}" })] }),
    calls: ["POST /sdapi/v1/txt2img"],
    asks: { width: 1408, height: 792, batch_size: 1, "override_settings.sd_model_checkpoint": "sd_xl_base_1.0" },
    blocked: [],
    fails: [{ "/sdapi/v1/txt2img": [error(422, { detail: [{ msg: "bad sampler" }] })] }, /bad sampler/],
  },
  {
    id: "comfyui",
    model: "sd_xl_base_1.0.safetensors",
    ratio: "1:1",
    path: "/prompt",
    wins: () => ({
      "/prompt": [json({ prompt_id: "c-1", number: 4, node_errors: {} })],
      "/history/c-1": [
        json({}),
        history({
          status: { status_str: "success", completed: true, messages: [] },
          outputs: {
            preview: { images: [{ filename: "p.png", subfolder: "", type: "temp" }] },
            saved: { images: [{ filename: "sluice_1 a.png", subfolder: "x", type: "output" }] },
          },
        }),
      ],
      "/view": [image(PNG)],
    }),
    calls: ["POST /prompt", "GET /history/c-1", "GET /history/c-1", "GET /view"],
    asks: {
      client_id: "sluice",
      "prompt.empty.inputs": { width: 1024, height: 1024, batch_size: 1 },
      "prompt.wanted.inputs.text": "a red fox",
      "prompt.model.inputs.ckpt_name": "sd_xl_base_1.0.safetensors",
    },
    blocked: [],
    fails: [
      {
        "/prompt": [json({ prompt_id: "c-1" })],
        "/history/c-1": [
          history({
            status: {
              status_str: "error",
              messages: [
                ["execution_start", {}],
                ["execution_error", { exception_message: "Allocation failed" }],
              ],
            },
          }),
        ],
      },
      /Allocation failed/,
    ],
  },
  {
    // Any server of OpenAI's protocol.
    id: "lab",
    model: "sdxl",
    ratio: "4:3",
    auth: BEARER,
    path: GENERATIONS,
    wins: () => ({
      [GENERATIONS]: [json({ data: [{ url: "/generated/one.png" }] })],
      "/generated/one.png": [image(PNG)],
    }),
    calls: [`POST ${GENERATIONS}`, "GET /generated/one.png"],
    asks: { model: "sdxl", response_format: "b64_json", n: 1 },
    blocked: [
      { [GENERATIONS]: [openaiError(400, "content_policy_violation")] },
      { [GENERATIONS]: [json({ images: [`data:image/png;base64,${PNG_BASE64}`], nsfw_content_detected: [true] })] },
      // As StepFun says it of all it does, and Alibaba.
      { [GENERATIONS]: [openaiError(451, null, "The content you provided is blocked.", "censorship_blocked")] },
      { [GENERATIONS]: [openaiError(400, "data_inspection_failed", "Input data may be inappropriate.")] },
    ],
    fails: [{ [GENERATIONS]: [openaiError(400, null, "model sdxl is not loaded")] }, /model sdxl is not loaded/],
  },
  ...[
    { model: "doubao-seedream-5-0-260128", ratio: "1:1", size: "2048x2048" },
    { model: "doubao-seedream-4-5-251128", ratio: "16:9", size: "2816x1584" },
    { model: "dola-seedream-5-0-pro-260628", ratio: "16:9", size: "2816x1584" },
  ].map(
    ({ model, ratio, size }): VendorCase => ({
      // ByteDance's own servers.
      ...{ id: "lab", model, ratio, auth: BEARER, path: GENERATIONS },
      wins: () => ({ [GENERATIONS]: [json({ data: [{ b64_json: PNG_BASE64, size }] })] }),
      calls: [`POST ${GENERATIONS}`],
      asks: { model, size, response_format: "b64_json", n: 1 },
      blocked: [
        {
          [GENERATIONS]: [
            openaiError(
              400,
              "InputTextSensitiveContentDetected",
              "The request failed because the input text may contain sensitive information.",
            ),
          ],
        },
      ],
      fails: [{ [GENERATIONS]: [openaiError(400, "InvalidParameter", "No such size")] }, /No such size/],
    }),
  ),
];

/** Refusals of Black Forest Labs: its tasks are asked for at an address of the fake's own. */
export const BFL_BLOCKED = (upstream: Upstream, status: string): Scripts => ({
  "/v1/flux-kontext-pro": [bflTask(upstream)],
  [BFL_POLL]: [json({ id: "t1", status })],
});

export function play(upstream: Upstream, scripts: Scripts): void {
  for (const [path, answers] of Object.entries(scripts)) upstream.answer(path, ...answers);
}
