import type { ListedModel } from "../canon/listed-model.ts";
import { isObject, listOf } from "../lib/json.ts";

type Listed = Record<string, unknown>;

/** Where lists say how much a model can read, tokens: OpenRouter, Together and Fireworks; vLLM; Groq; Mistral and LM Studio; Anthropic; Google. */
const LENGTHS = [
  ...["context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens", "inputTokenLimit"],
] as const;
/** No model reads more, tokens: beyond it a number is a slip. */
const MAX_LENGTH = 100_000_000;

const isLength = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value > 0 && value <= MAX_LENGTH;

const isSupported = (value: unknown): boolean => value === true || (isObject(value) && value["supported"] === true);

/**
 * Tokens that a model can read, as its vendor's list has it. llama.cpp says beside what it knows of the model with how much of that it was started, which
 * is what counts, once the model is loaded.
 */
function lengthOf(entry: Listed): number | undefined {
  const { meta } = entry;
  if (isObject(meta) && isLength(meta["n_ctx"])) return meta["n_ctx"];
  return LENGTHS.map((field) => entry[field]).find(isLength);
}

/** OpenRouter's list names the parameters of each model; the rest say what it can do, as a gateway of this kind does (interface 2.3). */
function takesTools({ supported_parameters: parameters, capabilities, supports_tools: supports }: Listed): boolean {
  if (listOf(parameters).includes("tools") || supports === true) return true;
  return isObject(capabilities) && (capabilities["function_calling"] === true || capabilities["tools"] === true);
}

function seesPictures({ architecture, capabilities, supports_image_input: supports }: Listed): boolean {
  if (isObject(architecture) && listOf(architecture["input_modalities"]).includes("image")) return true;
  if (supports === true) return true;
  return isObject(capabilities) && (isSupported(capabilities["vision"]) || isSupported(capabilities["image_input"]));
}

/** OpenRouter calls them files, Anthropic by their name. */
function readsPdf({ architecture, capabilities }: Listed): boolean {
  if (isObject(architecture) && listOf(architecture["input_modalities"]).includes("file")) return true;
  return isObject(capabilities) && isSupported(capabilities["pdf_input"]);
}

/** Levels of a model beyond these are no list of them. */
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

/** What an entry of a vendor's list says of its model, in any of the ways in which vendors do. `name`: how it is called. */
export function readListed(entry: unknown, name: string): ListedModel {
  if (!isObject(entry)) return { name };
  const contextLength = lengthOf(entry);
  const { max_output_tokens: maxOutputTokens } = entry;
  const efforts = effortsOf(entry);
  return {
    name,
    ...(contextLength !== undefined && { contextLength }),
    ...(isLength(maxOutputTokens) && { maxOutputTokens }),
    ...(takesTools(entry) && { tools: true }),
    ...(seesPictures(entry) && { vision: true }),
    ...(readsPdf(entry) && { pdf: true }),
    ...(efforts && { efforts }),
    ...reasoningOf(entry),
  };
}
