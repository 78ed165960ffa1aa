import type { ListedModel } from "../canon/listed-model.ts";
import { isObject, listOf, objectsOf } from "../lib/json.ts";

type Listed = Record<string, unknown>;

/** Where lists say how much a model can read, tokens: OpenRouter, Together and Fireworks; vLLM; Groq; Mistral and LM Studio; Anthropic; Google. */
const LENGTHS = [
  ...["context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens", "inputTokenLimit"],
] as const;
/** No model reads more tokens than this: a larger number is a mistake of the list. */
const MAX_LENGTH = 100_000_000;

const isLength = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value > 0 && value <= MAX_LENGTH;

const isSupported = (value: unknown): boolean => value === true || (isObject(value) && value["supported"] === true);

/**
 * Tokens that a model can read, as its vendor's list has it. llama.cpp says beside what it knows of the model with how much of that it was started, which
 * is what counts, once the model is loaded; TabbyAPI says nothing else. Hugging Face's router says it of each host, and asks any of them
 * (huggingface/ml-intern #51).
 */
function lengthOf(entry: Listed): number | undefined {
  const { meta, parameters } = entry;
  if (isObject(meta) && isLength(meta["n_ctx"])) return meta["n_ctx"];
  if (isObject(parameters) && isLength(parameters["max_seq_len"])) return parameters["max_seq_len"];
  const length = LENGTHS.map((field) => entry[field]).find(isLength);
  if (length !== undefined) return length;
  const ofHosts = hostsOf(entry).map(({ context_length: ofHost }) => ofHost);
  return ofHosts.filter(isLength).toSorted((one, other) => one - other)[0];
}

const hostsOf = ({ providers }: Listed): Listed[] => objectsOf(providers);

/**
 * Where lists say how long an answer may be, tokens: gateways of this kind; the hosts of OpenRouter, in the form that it asks them for
 * (docs.wandb.ai, "Inference Router Openrouter Models"); SambaNova, Groq and Featherless (docs.sambanova.ai, "Get environment's available model list metadata").
 */
const OUTPUTS = ["max_output_tokens", "max_output_length", "max_completion_tokens"] as const;

/** The largest output that an entry tells, tokens. Where a list other than a gateway's says a figure as large as the context, that is no bound on output. */
function outputOf(entry: Listed, contextLength = MAX_LENGTH): number | undefined {
  const [own, ...others] = OUTPUTS.map((field) => entry[field]);
  return isLength(own) ? own : others.filter(isLength).find((most) => most < contextLength);
}

/**
 * What Xinference, Lemonade, exo (exo-explore/exo #1930), OpenRouter's hosts and Vercel's gateway (zed-industries/zed #50207) say that a model can do, in
 * words.
 */
const abilitiesOf = (entry: Listed): unknown[] =>
  [entry["model_ability"], entry["labels"], entry["capabilities"], entry["supported_features"], entry["tags"]].flatMap(
    (words) => listOf(words),
  );

const TOOL_WORDS: ReadonlySet<unknown> = new Set(["tools", "tool-calling", "tool-use"]);

/** What goes into a model, and what comes out: OpenRouter's own list says it in a form of its own, its hosts beside the rest. */
const modalitiesOf = (entry: Listed, side: "input_modalities" | "output_modalities"): unknown => {
  const { architecture } = entry;
  return (isObject(architecture) ? architecture[side] : undefined) ?? entry[side];
};

/** OpenRouter's list names the parameters of each model; the rest say what it can do, as a gateway of this kind does (interface 2.3). */
function takesTools(entry: Listed): boolean {
  const { supported_parameters: parameters, capabilities, supports_tools: supports } = entry;
  if (listOf(parameters).includes("tools") || supports === true) return true;
  if (abilitiesOf(entry).some((ability) => TOOL_WORDS.has(ability))) return true;
  if (hostsOf(entry).some(({ supports_tools: ofHost }) => ofHost === true)) return true;
  return isObject(capabilities) && (capabilities["function_calling"] === true || capabilities["tools"] === true);
}

function seesPictures(entry: Listed): boolean {
  const { capabilities, supports_image_input: supports } = entry;
  if (listOf(modalitiesOf(entry, "input_modalities")).includes("image")) return true;
  if (supports === true || abilitiesOf(entry).includes("vision")) return true;
  return isObject(capabilities) && (isSupported(capabilities["vision"]) || isSupported(capabilities["image_input"]));
}

/** OpenRouter calls them files, Anthropic by their name. */
function readsPdf(entry: Listed): boolean {
  const { capabilities } = entry;
  if (listOf(modalitiesOf(entry, "input_modalities")).includes("file")) return true;
  return isObject(capabilities) && isSupported(capabilities["pdf_input"]);
}

/** More levels than this no model has: such a list is left out. */
const MAX_LEVELS = 20;
const isWord = (value: unknown): value is string => typeof value === "string" && /^[a-z]{1,20}$/.test(value);

function soundEfforts(levels: readonly unknown[], usual: unknown): ListedModel["efforts"] {
  if (levels.length > MAX_LEVELS || !levels.every(isWord) || !isWord(usual)) return undefined;
  return levels.includes(usual) ? { levels, default: usual } : undefined;
}

/** The depths of reasoning that a gateway of this kind tells of a model (interface 2.3). */
const effortsOf = ({ reasoning_efforts: efforts }: Listed): ListedModel["efforts"] =>
  isObject(efforts) ? soundEfforts(listOf(efforts["levels"]), efforts["default"]) : undefined;

/**
 * How OpenRouter's models reason (openrouter.ai/docs, "Reasoning Tokens" and ModelReasoning). It brings what it is told to each model's own control, but
 * refuses an off where a model has none.
 */
function reasoningOf({ supported_parameters: parameters, reasoning: told }: Listed): Partial<ListedModel> {
  if (!listOf(parameters).includes("reasoning")) return {};
  if (!isObject(told)) return { reasoning: "reasoning-object" };
  const mustReason = told["mandatory"] === true;
  // The deepest stands first.
  const graded = listOf(told["supported_efforts"]).toReversed();
  const levels = mustReason || graded.includes("none") ? graded : ["none", ...graded];
  const efforts = soundEfforts(levels, told["default_effort"]);
  return { reasoning: "reasoning-object", ...(mustReason && { mustReason }), ...(efforts && { efforts }) };
}

/** A model's name where vendors put it; Google writes it as a path. */
function nameOf(model: unknown): unknown {
  if (!isObject(model)) return model;
  const name = model["id"] ?? model["model"] ?? model["name"];
  return typeof name === "string" && "supportedGenerationMethods" in model ? name.replace(/^models\//, "") : name;
}

/** 1 to 200 characters, all of them printable, and no blank but spaces inside, which names of files have. */
export const isPlausible = (name: unknown): name is string =>
  typeof name === "string" && /^(?! )[ -~\u00a1-\uffff]{1,200}$(?<! )/.test(name);

const OTHER_TYPES = /^(?:image|embeddings?|audio|moderation|rerank|video|transcribe|tts|speech)$/i;
/** LiteLLM's words for the same, in its table of models: `chat`, `completion` and `responses` are the others. */
const OTHER_MODES =
  /^(?:image_\w+|embedding|audio_\w+|moderation|rerank|video_generation|realtime|ocr|search|vector_store|guardrail|evaluation|extraction)$/;

/** Lemonade's labels for the same (lemonade-sdk/lemonade, `model_types.h`), and those of a model that chats whatever other labels it has. */
const OTHER_LABELS = /^(?:embeddings?|reranking|transcription|image|tts|audio-generation|classifi(?:cation|er)|3d)$/;
const CHAT_LABELS = /^(?:chat|chat-transcription|vision|reasoning|tools|tool-calling)$/;

/** What Speaches' models are for, which listens where vLLM does (speaches-ai/speaches, `api_types.py`, `executors`). */
const OTHER_TASKS = /^(?:automatic-speech-recognition|text-to-speech|voice-activity-detection|speaker-embedding)$/;
/** All that Infinity's models can do (michaelfeil/infinity, `ModelInfo`). */
const OTHER_ABILITIES = /^(?:(?:image_|audio_)?embed|rerank|classify)$/;

const hasLabel = (labels: unknown, pattern: RegExp): boolean =>
  listOf(labels).some((label) => typeof label === "string" && pattern.test(label));

/** What kind of model an entry says that it is; Xinference has another name for it. */
const typeOf = ({ type, model_type: modelType }: Record<string, unknown>): unknown => type ?? modelType;

/**
 * False for a model whose own entry says that it makes something else than text (Together, Fireworks, Mistral, OpenRouter, LiteLLM, Xinference,
 * Lemonade, Speaches, Infinity).
 */
function mayChat(model: unknown): boolean {
  if (!isObject(model)) return true;
  const { mode, supports_chat: supportsChat, capabilities, labels, task } = model;
  const type = typeOf(model);
  const { supportedGenerationMethods: methods } = model;
  if (Array.isArray(methods) && !methods.includes("generateContent")) return false;
  if (typeof type === "string" && OTHER_TYPES.test(type)) return false;
  if (typeof mode === "string" && OTHER_MODES.test(mode)) return false;
  if (supportsChat === false) return false;
  if (typeof task === "string" && OTHER_TASKS.test(task)) return false;
  const abilities = listOf(capabilities);
  if (abilities.length > 0 && abilities.every((one) => typeof one === "string" && OTHER_ABILITIES.test(one)))
    return false;
  if (hasLabel(labels, OTHER_LABELS) && !hasLabel(labels, CHAT_LABELS)) return false;
  if (isObject(capabilities) && capabilities["completion_chat"] === false) return false;
  const outputs = modalitiesOf(model, "output_modalities");
  return !Array.isArray(outputs) || outputs.includes("text");
}

/** How Fireworks' list calls its models for images. */
const FIREWORKS_IMAGES = "FLUMINA_BASE_MODEL";

/** Whether the entry of a model that does not chat says that it draws (Together, Fireworks, OpenRouter, LiteLLM, Xinference, Lemonade). */
function onlyDraws(model: unknown): boolean {
  if (!isObject(model)) return false;
  const { mode, kind, labels } = model;
  const type = typeOf(model);
  if (kind === FIREWORKS_IMAGES || mode === "image_generation" || listOf(labels).includes("image")) return true;
  if (typeof type === "string" && /^image$/i.test(type)) return true;
  return listOf(modalitiesOf(model, "output_modalities")).includes("image");
}

function factsOf(entry: unknown, name: string): ListedModel {
  if (!isObject(entry)) return { name };
  const contextLength = lengthOf(entry);
  const maxOutputTokens = outputOf(entry, contextLength);
  const efforts = effortsOf(entry);
  return {
    name,
    ...(contextLength !== undefined && { contextLength }),
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    ...(takesTools(entry) && { tools: true }),
    ...(seesPictures(entry) && { vision: true }),
    ...(readsPdf(entry) && { pdf: true }),
    ...(efforts && { efforts }),
    ...reasoningOf(entry),
  };
}

/**
 * What an entry of a vendor's list says of its model, in any of the ways in which vendors do; undefined for one that has no name, or neither chats nor draws
 * where `canDraw` says that the vendor's protocol of images is known.
 */
export function readListed(entry: unknown, canDraw: boolean): ListedModel | undefined {
  const name = nameOf(entry);
  if (!isPlausible(name)) return undefined;
  if (mayChat(entry)) return factsOf(entry, name);
  return canDraw && onlyDraws(entry) ? { name, draws: true } : undefined;
}
