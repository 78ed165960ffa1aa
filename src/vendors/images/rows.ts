import type { UpstreamDialectName } from "../../dialects/dialect.ts";
import { entryOf, isObject } from "../../lib/json.ts";
import type { Vendor } from "../vendor.ts";
import { listAt, objectAt, textAt } from "./answers.ts";
import { automaticWire } from "./automatic.ts";
import { chatWire } from "./chat.ts";
import { comfyWire } from "./comfy.ts";
import { falWire } from "./fal.ts";
import { geminiWire } from "./gemini.ts";
import { compatibleWire, openaiWire } from "./openai.ts";
import { replicateWire } from "./replicate.ts";
import { stabilityWire } from "./stability.ts";
import { bflWire, fireworksWire } from "./tasks.ts";
import type { ImageRow, PixelRule } from "./wire.ts";

const MEGAPIXEL = 1024 * 1024;

/** Ratios that most models draw. */
const USUAL = ["1:1", "3:2", "2:3", "4:3", "3:4", "5:4", "4:5", "16:9", "9:16", "21:9", "9:21"] as const;
/** The same, without the last, which Google's models lack. */
const GOOGLE = USUAL.slice(0, -1);
/** Those of Stability's models, whoever serves them. */
const STABILITY_RATIOS = ["1:1", "3:2", "2:3", "5:4", "4:5", "16:9", "9:16", "21:9", "9:21"] as const;
/** Those of nearly every model that is told a ratio, and of those that know few. */
const COMMON = ["1:1", "3:2", "2:3", "4:3", "3:4", "16:9", "9:16"] as const;
const FEW = ["1:1", "4:3", "3:4", "16:9", "9:16"] as const;

/** Those of FLUX 3, whoever serves it. */
const FLUX_3 = [...USUAL, "2:1", "1:2", "7:5", "5:7"] as const;

const EVERY = /^/;

const pixelRule = (multiple: number, maxEdge: number, area = MEGAPIXEL): PixelRule => ({
  multiple,
  area,
  minArea: Math.min(area, 256 * 256),
  maxArea: maxEdge * maxEdge,
  maxEdge,
});

/** Sentences by which hosts of other people's models say that a filter spoke. */
const FILTERED =
  /\bNSFW\b|\bflagged\b|(?<!case[ -])\bsensitive\b|E005|content[ _-]?(?:policy|moderation|filter)|moderat(?:ed|ion)|safety (?:system|filter|checker)/i;

/** OpenAI's codes, and Azure's for the same (dialects.md 7). */
const OPENAI_REFUSAL = {
  code: /^(?:moderation_blocked|content_policy_violation|contentFilter|content_filter|ResponsibleAIPolicyViolation)$/i,
  text: /rejected (?:by|as a result of) (?:the|our) safety system/i,
};

/** Sizes of ratios that only the operator's own words name: servers of other models go by the names of OpenAI's too. */
const OTHER_SIZES = pixelRule(16, 1792);

const THREE_SIZES = { "1:1": "1024x1024", "3:2": "1536x1024", "2:3": "1024x1536" } as const;

/** OpenAI's models: the first one that draws while it talks, the one before it, and those since. */
const GPT_IMAGE_1 = {
  match: /gpt-image-1(?:\.|-|$)|^chatgpt-image/,
  ratios: Object.keys(THREE_SIZES),
  takesSource: true,
  form: "multipart",
  size: "fixed",
  sizes: THREE_SIZES,
  pixels: OTHER_SIZES,
} as const;
const DALL_E_3 = {
  match: /dall-e-3/,
  ratios: ["1:1", "7:4", "4:7"],
  takesSource: false,
  size: "fixed",
  sizes: { "1:1": "1024x1024", "7:4": "1792x1024", "4:7": "1024x1792" },
  pixels: OTHER_SIZES,
  styles: { field: "style", names: ["vivid", "natural"] },
  extra: { response_format: "b64_json" },
} as const;
/** Any size whose sides are multiples of 16, from 1:3 to 3:1, of 655,360 to 8,294,400 pixels. */
const GPT_IMAGE = {
  match: /gpt-image/,
  ratios: [...USUAL, "2:1", "1:2", "3:1", "1:3"],
  takesSource: true,
  form: "multipart",
  size: "fixed",
  pixels: { ...pixelRule(16, 3840), minArea: 655_360, maxArea: 3840 * 2160 },
} as const;

const openai: ImageRow = {
  wire: openaiWire,
  refusal: OPENAI_REFUSAL,
  models: [GPT_IMAGE_1, DALL_E_3, { ...GPT_IMAGE, match: EVERY }],
};

/** A name there is the operator's own name of a deployment: unless it tells, what every model of the kind draws. */
const azure: ImageRow = {
  ...openai,
  models: [DALL_E_3, { ...GPT_IMAGE, match: /gpt-image-[2-9]/ }, { ...GPT_IMAGE_1, match: EVERY }],
};

/**
 * ByteDance's models as its own servers have them (Volcengine, BytePlus) and those that resell them in OpenAI's protocol: they draw nothing small, and take
 * a source image beside the prompt (TGYD-helige/pi #72, withceleste/celeste-python #408, langgenius/dify-plugins #2819).
 */
const SEEDREAM = {
  ratios: USUAL,
  takesSource: true,
  form: "field",
  sourceField: "image",
  size: "fixed",
  extra: { response_format: "b64_json" },
} as const;
const SEEDREAM_PIXELS: PixelRule = { ...pixelRule(16, 4096, 2048 * 2048), minArea: 2560 * 1440 };

/** Z.ai's models, which draw from words alone (docs.z.ai, "Generate Image"): of the first no side may be shorter than 1024, so that no long ratio fits. */
const ZAI = { takesSource: false, size: "fixed" } as const;
const GLM_PIXELS: PixelRule = { ...pixelRule(32, 2048, 2 ** 21), minArea: 1_900_000 };
const COGVIEW_PIXELS: PixelRule = { ...pixelRule(16, 2048), minArea: 655_360, maxArea: 2 ** 21 };

/**
 * Recraft's models by the names its own server has for them. They draw the sizes of a list, another one for each, and take a ratio in that field; to draw
 * from a source there is another path (recraft.ai/docs, "Appendix" and "Endpoints").
 */
const RECRAFT = {
  ratios: [...COMMON, "5:4", "4:5", "2:1", "1:2"],
  takesSource: false,
  size: "ratio",
  ratioField: "size",
  extra: { response_format: "b64_json" },
} as const;

/** Any server that speaks OpenAI's images protocol. Base64 is asked for: what it would link to may be out of reach. */
const compatible: ImageRow = {
  wire: compatibleWire,
  refusal: { ...OPENAI_REFUSAL, text: FILTERED },
  models: [
    ...[GPT_IMAGE_1, DALL_E_3, GPT_IMAGE],
    { match: /seedream-5-0-pro/, ...SEEDREAM, pixels: { ...SEEDREAM_PIXELS, minArea: 921_600, maxArea: 4_624_220 } },
    { match: /seedream-[45]/, ...SEEDREAM, pixels: SEEDREAM_PIXELS },
    { match: /^glm-image/, ...ZAI, ratios: [...COMMON, "5:4", "4:5"], pixels: GLM_PIXELS },
    { match: /^recraft(?:v\d|20b)/, ...RECRAFT },
    { match: /^cogview/, ...ZAI, ratios: USUAL, pixels: COGVIEW_PIXELS },
    {
      match: EVERY,
      ratios: USUAL,
      takesSource: true,
      form: "multipart",
      size: "fixed",
      pixels: pixelRule(8, 2048),
      extra: { response_format: "b64_json" },
    },
  ],
};

/** Of Google's models that draw at more than one resolution. */
const GOOGLE_RESOLUTIONS = {
  field: "imageSize",
  steps: [
    { area: 2.5 * MEGAPIXEL, name: "2K" },
    { area: 12 * MEGAPIXEL, name: "4K" },
  ],
} as const;

const gemini: ImageRow = {
  wire: geminiWire,
  refusal: { code: /SAFETY|PROHIBITED/, text: /safety (?:filter|polic)|Responsible AI/i },
  models: [
    { match: /^imagen/, ratios: FEW, takesSource: false, form: "predict" },
    {
      match: /3\.1-flash-image|nano-banana/,
      ratios: [...GOOGLE, "4:1", "1:4", "8:1", "1:8"],
      takesSource: true,
      resolutions: GOOGLE_RESOLUTIONS,
    },
    { match: /gemini-3-pro/, ratios: GOOGLE, takesSource: true, resolutions: GOOGLE_RESOLUTIONS },
    // The oldest one draws only beside text.
    { match: /gemini-2\.0/, ratios: ["1:1"], takesSource: true, extra: { responseModalities: ["TEXT", "IMAGE"] } },
    { match: EVERY, ratios: GOOGLE, takesSource: true },
  ],
};

const xai: ImageRow = {
  wire: openaiWire,
  refusal: { code: /content_(?:policy|filter)|moderation/i, text: /moderat|content polic|usage guidelines|safety/i },
  models: [
    {
      match: EVERY,
      ratios: ["1:1", "3:2", "2:3", "4:3", "3:4", "16:9", "9:16", "2:1", "1:2", "20:9", "9:20"],
      takesSource: true,
      form: "object",
      size: "ratio",
      resolutions: { field: "resolution", steps: [{ area: 2.5 * MEGAPIXEL, name: "2k" }] },
      extra: { response_format: "b64_json" },
    },
  ],
};

const TOGETHER = {
  ratios: USUAL,
  size: "pixels",
  pixels: pixelRule(16, 1792),
  extra: { response_format: "base64" },
} as const;

const together: ImageRow = {
  wire: openaiWire,
  refusal: { code: /^(?:nsfw|content_policy_violation)$/i, text: FILTERED },
  models: [
    { match: /kontext/i, ...TOGETHER, takesSource: true, form: "field" },
    { match: EVERY, ...TOGETHER, takesSource: false },
  ],
};

/** At the aggregator's endpoint for images. */
const ALONE = { form: "images", takesSource: true } as const;

const openrouter: ImageRow = {
  wire: chatWire,
  // Its list is of the models that write text, unless it is told otherwise (openrouter.ai/docs, "Models").
  listQuery: "output_modalities=all",
  refusal: { code: /^(?:content_filter|moderation|moderation_blocked|content_policy_violation)$/i, text: FILTERED },
  models: [
    { match: /^google\/gemini/, ratios: GOOGLE, takesSource: true },
    { match: /^openai\/gpt-\d/, ratios: Object.keys(THREE_SIZES), takesSource: true },
    // A chat with a model that only draws is refused (404) or fails (500), but for some of before June 2026 (rbb-dev/Open-WebUI-OpenRouter-pipe #61).
    // The endpoint for images has all of them, and refuses a ratio that /images/models does not list for the model.
    { match: /^openai\/gpt-image-[2-9]/, ratios: [...COMMON, "21:9"], ...ALONE },
    { match: /^openai\//, ratios: Object.keys(THREE_SIZES), ...ALONE },
    { match: /^(?:bytedance-seed\/|black-forest-labs\/flux-3)/, ratios: GOOGLE, ...ALONE },
    { match: /^(?:black-forest-labs|sourceful)\//, ratios: [...COMMON, "21:9"], ...ALONE },
    { match: /^x-ai\//, ratios: [...COMMON, "2:1", "1:2"], ...ALONE },
    { match: /^(?:qwen|tencent)\//, ratios: [...COMMON, "5:4", "4:5"], ...ALONE },
    { match: /^krea\//, ratios: ["1:1", "3:2", "2:3", "4:3", "16:9", "9:16", "4:5"], ...ALONE },
    // It draws vectors and pictures from text alone.
    { match: /^recraft\//, ratios: FEW, ...ALONE, takesSource: false },
    { match: /^meta\//, ratios: ["1:1"], ...ALONE, size: "none" },
    { match: EVERY, ratios: COMMON, ...ALONE },
  ],
};

const fireworks: ImageRow = {
  wire: fireworksWire,
  refusal: { text: FILTERED },
  models: [
    { match: /kontext/i, ratios: USUAL, takesSource: true, form: "task", size: "ratio" },
    {
      match: /stable-diffusion-xl|playground-v2|SSD-1B|japanese-stable/i,
      ratios: USUAL,
      takesSource: false,
      form: "generation",
      size: "pixels",
      pixels: pixelRule(8, 1536),
    },
    { match: EVERY, ratios: USUAL, takesSource: false, form: "workflow", size: "ratio" },
  ],
};

const replicate: ImageRow = {
  wire: replicateWire,
  refusal: { text: FILTERED },
  list: {
    path: "/models",
    read: (answer) => listAt(answer, "results").map((model) => `${textAt(model, "owner")}/${textAt(model, "name")}`),
  },
  models: [
    {
      match: /openai\/gpt-image/,
      ratios: Object.keys(THREE_SIZES),
      takesSource: true,
      sourceField: "input_images",
      sourceList: true,
    },
    { match: /nano-banana/, ratios: GOOGLE, takesSource: true, sourceField: "image_input", sourceList: true },
    {
      match: /seedream-[45]/,
      ratios: [...COMMON, "21:9"],
      takesSource: true,
      sourceField: "image_input",
      sourceList: true,
    },
    { match: /imagen/, ratios: FEW, takesSource: false },
    { match: /kontext/, ratios: USUAL, takesSource: true, sourceField: "input_image" },
    {
      match: /flux-2/,
      ratios: [...COMMON, "5:4", "4:5"],
      takesSource: true,
      sourceField: "input_images",
      sourceList: true,
    },
    {
      match: /sdxl|stable-diffusion(?!-3)/,
      ratios: USUAL,
      takesSource: true,
      size: "pixels",
      pixels: pixelRule(8, 1536),
    },
    { match: /stable-diffusion-3/, ratios: STABILITY_RATIOS, takesSource: true },
    { match: /qwen-image/, ratios: COMMON, takesSource: true },
    { match: /flux-3/, ratios: FLUX_3, takesSource: true, sourceField: "images", sourceList: true },
    { match: /flux-1\.1-pro-ultra/, ratios: USUAL, takesSource: true, sourceField: "image_prompt" },
    { match: /flux-(?:1\.1-)?pro/, ratios: [...COMMON, "5:4", "4:5"], takesSource: false },
    { match: /flux-dev/, ratios: USUAL, takesSource: true },
    { match: /flux/, ratios: USUAL, takesSource: false },
    // What a model of the many does not have among its ratios it refuses.
    { match: EVERY, ratios: COMMON, takesSource: false },
  ],
};

const FAL_SIZES = {
  "1:1": "square_hd",
  "4:3": "landscape_4_3",
  "3:4": "portrait_4_3",
  "16:9": "landscape_16_9",
  "9:16": "portrait_16_9",
} as const;

/** Several sources in one field. */
const FAL_SOURCES = { takesSource: true, sourceField: "image_urls", sourceList: true } as const;
const FAL_PIXELS = { pixels: pixelRule(16, 2048), sizes: FAL_SIZES } as const;
/** Of 5.0 Pro and 5.5: no larger ones, which cost more from a certain size on. */
const FAL_SEEDREAM_PRO = {
  ratios: USUAL,
  pixels: { ...pixelRule(16, 3072), minArea: MEGAPIXEL, maxArea: 2048 * 2048 },
  sizes: FAL_SIZES,
} as const;
/** Of the others from the fourth on: larger pictures alone. */
const FAL_SEEDREAM = { pixels: SEEDREAM_PIXELS, sizes: FAL_SIZES } as const;
const GPT_ONE = { ratios: Object.keys(THREE_SIZES), size: "fixed", sizes: THREE_SIZES, pixels: OTHER_SIZES } as const;
const GPT_LATER = { ratios: GPT_IMAGE.ratios, pixels: GPT_IMAGE.pixels } as const;
const KONTEXT = USUAL.filter((ratio) => ratio !== "5:4" && ratio !== "4:5");

/** Its models' fields, and the values these have, are in the types of fal's own client. */
const fal: ImageRow = {
  wire: falWire,
  refusal: { code: /^(?:content_policy_violation|nsfw)/i, text: FILTERED },
  models: [
    { match: /gpt-image-1.*edit/, ...GPT_ONE, ...FAL_SOURCES },
    { match: /gpt-image-1/, ...GPT_ONE, takesSource: false },
    { match: /gpt-image.*edit/, ...GPT_LATER, ...FAL_SOURCES },
    { match: /gpt-image/, ...GPT_LATER, takesSource: false },
    {
      match: /(?:nano-banana|gemini-(?!flash-edit)|flux-3).*(?:edit|image-to-image)/,
      ratios: GOOGLE,
      size: "ratio",
      ...FAL_SOURCES,
    },
    { match: /seedream\/v5(?:\/pro|\.).*edit/, ...FAL_SEEDREAM_PRO, ...FAL_SOURCES },
    { match: /seedream\/v5(?:\/pro|\.)/, ...FAL_SEEDREAM_PRO, takesSource: false },
    { match: /seedream\/v[4-9].*edit/, ratios: USUAL, ...FAL_SEEDREAM, ...FAL_SOURCES },
    { match: /seedream\/v[4-9]/, ratios: USUAL, ...FAL_SEEDREAM, takesSource: false },
    { match: /flux-pro\/kontext.*multi/, ratios: KONTEXT, size: "ratio", ...FAL_SOURCES },
    { match: /flux-pro\/kontext.*text-to-image/, ratios: KONTEXT, size: "ratio", takesSource: false },
    { match: /flux-pro\/kontext/, ratios: KONTEXT, size: "ratio", takesSource: true },
    {
      match: /flux-kontext(?!.*text-to-image)/,
      ratios: USUAL,
      size: "ratio",
      ratioField: "resolution_mode",
      takesSource: true,
    },
    { match: /v1\.1-ultra/, ratios: USUAL, size: "ratio", takesSource: true },
    {
      match:
        /(?:flux-2|qwen-image-(?:2|max)|grok-imagine|hunyuan-image|glm-image|firered|wan-25|\bwan\/v2\.[6-9]).*(?:edit|image-to-image)/,
      ratios: USUAL,
      ...FAL_PIXELS,
      ...FAL_SOURCES,
    },
    { match: /qwen-image-edit-(?:2|plus)|hy-wu-edit/, ratios: USUAL, ...FAL_PIXELS, ...FAL_SOURCES },
    { match: /luma-photon.*reframe/, ratios: FEW, size: "ratio", takesSource: true },
    { match: /image-editing\/|kling-image\/v3\/image|emu-3.*edit/, ratios: COMMON, size: "ratio", takesSource: true },
    { match: /[/-]edit|image-to-image|redux|reframe/, ratios: USUAL, ...FAL_PIXELS, takesSource: true },
    { match: /imagen\d|luma-photon|grok-imagine|phota/, ratios: FEW, size: "ratio", takesSource: false },
    { match: /vidu|imagineart|wan-alpha/, ratios: ["1:1", "16:9", "9:16"], size: "ratio", takesSource: false },
    {
      match: /bria|fibo|minimax\/image|ideogram\/v2|kling-image|emu-3/,
      ratios: COMMON,
      size: "ratio",
      takesSource: false,
    },
    { match: /nano-banana|gemini|flux-3/, ratios: GOOGLE, size: "ratio", takesSource: false },
    { match: EVERY, ratios: USUAL, ...FAL_PIXELS, takesSource: false },
  ],
};

const bfl: ImageRow = {
  wire: bflWire,
  refusal: { code: /moderated/i, text: /(?:request|content) moderated/i },
  apiHosts: [".bfl.ai"],
  models: [
    { match: /flux-3/, ratios: FLUX_3, takesSource: true, size: "ratio", sourceField: "images", sourceList: true },
    { match: /kontext/, ratios: [...USUAL, "7:3", "3:7"], takesSource: true, size: "ratio" },
    { match: /ultra/, ratios: USUAL, takesSource: true, size: "ratio", sourceField: "image_prompt" },
    { match: /flux-2/, ratios: USUAL, takesSource: true, size: "pixels", pixels: pixelRule(16, 2048) },
    {
      match: EVERY,
      ratios: USUAL,
      takesSource: true,
      size: "pixels",
      // No side may be shorter than 256, and of its longest ratio this area's is not.
      pixels: { ...pixelRule(32, 1440), minArea: 256 * 640 },
      sourceField: "image_prompt",
    },
  ],
};

const STABILITY_STYLES = {
  field: "style_preset",
  names:
    "enhance anime photographic digital-art comic-book fantasy-art line-art analog-film neon-punk isometric low-poly origami modeling-compound cinematic 3d-model pixel-art tile-texture".split(
      " ",
    ),
} as const;

const stability: ImageRow = {
  wire: stabilityWire,
  refusal: { code: /^content_moderation$|CONTENT_FILTERED/i },
  models: [
    { match: /core/, path: "core", ratios: STABILITY_RATIOS, takesSource: false, styles: STABILITY_STYLES },
    { match: /ultra/, path: "ultra", ratios: STABILITY_RATIOS, takesSource: true, styles: STABILITY_STYLES },
    { match: EVERY, path: "sd3", form: "named", ratios: STABILITY_RATIOS, takesSource: true },
  ],
};

/** Checkpoints, whatever server draws with them: the newer kinds draw at a megapixel, the first ones fall apart there. */
const CHECKPOINTS: ImageRow["models"] = [
  { match: /xl|flux|sd_?3|pony|illustrious/i, ratios: USUAL, takesSource: true, pixels: pixelRule(8, 2048) },
  { match: EVERY, ratios: USUAL, takesSource: true, pixels: pixelRule(8, 2048, 512 * 512) },
];

const automatic: ImageRow = {
  wire: automaticWire,
  refusal: {},
  list: {
    path: "/sdapi/v1/sd-models",
    read: (answer) => (Array.isArray(answer) ? answer.map((model) => textAt(model, "model_name")) : undefined),
  },
  models: CHECKPOINTS,
};

/** Names of checkpoints, as the node that loads them is told them. */
function readCheckpoints(answer: unknown): unknown[] | undefined {
  const node = isObject(answer) ? answer["CheckpointLoaderSimple"] : undefined;
  if (!isObject(node)) return undefined;
  const names = listAt(objectAt(objectAt(node, "input"), "required"), "ckpt_name");
  const first: unknown = names[0];
  if (Array.isArray(first)) return first;
  // Newer servers write the choices beside the kind of the field.
  return [...listAt(names[1], "options")];
}

const comfy: ImageRow = {
  wire: comfyWire,
  refusal: {},
  list: { path: "/object_info/CheckpointLoaderSimple", read: readCheckpoints },
  models: CHECKPOINTS,
};

/** The vendors that draw, by their ids in the registry; `compatible` is any server of OpenAI's protocol (dialects.md 7 is the source of all). */
export const imageRows: Readonly<Record<string, ImageRow>> = {
  openai,
  azure,
  google: gemini,
  vertex: gemini,
  xai,
  together,
  fireworks,
  openrouter,
  replicate,
  fal,
  bfl,
  stability,
  automatic1111: automatic,
  comfyui: comfy,
  compatible,
};

/** Names that `drawing.wire` of a vendor may have. */
export const IMAGE_ROW_NAMES: readonly string[] = Object.keys(imageRows);

/** What a vendor without a row of its own is taken for, by its dialect. */
const BY_DIALECT: Partial<Record<UpstreamDialectName, ImageRow>> = {
  chat: compatible,
  responses: compatible,
  gemini,
};

/** How a vendor draws: by what the operator says, its own row, or its dialect. Undefined where it cannot. */
export function rowOf(vendor: Pick<Vendor, "id" | "dialect" | "drawing" | "serve">): ImageRow | undefined {
  if (vendor.serve) return undefined;
  const named = vendor.drawing?.wire ?? vendor.id;
  return entryOf(imageRows, named) ?? BY_DIALECT[vendor.dialect];
}
