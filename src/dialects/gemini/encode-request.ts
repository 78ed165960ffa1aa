import type { OutputFormat, Part, Prompt, Tool, ToolChoice } from "../../canon/prompt.ts";
import { isEmpty, put } from "../../lib/json.ts";
import type { Encoded, Quirks } from "../dialect.ts";
import { encodedBody } from "../encoded.ts";
import { nameShared } from "../openai-fields.ts";
import { describedSchema } from "../schema/format.ts";
import { cleanText } from "../text.ts";
import { lostFormats } from "../tools/custom-tools.ts";
import { fitToolNames, GEMINI_NAMES } from "../tools/tool-names.ts";
import { placeOf } from "../tools/tool-place.ts";
import { partOpening } from "../turns.ts";
import { encodeContents } from "./encode-contents.ts";
import { traitsOf } from "./model-traits.ts";
import { isEmptySchema, toJsonSchema } from "./schema.ts";

type Wire = Record<string, unknown>;

/** Most stop sequences that the vendor takes (dialects.md 3.1). */
const MAX_STOPS = 5;
const NO_STOPS: readonly string[] = [];
const MAX_TEMPERATURE = 2;
/** Seeds are 32-bit integers here. */
const MAX_SEED = 2_147_483_647;

/** The system prompt: its parts, then what the system said before the model first spoke (dialects.md 4.1). */
function encodeSystem(system: readonly Part[], opening: readonly Part[]): Wire | undefined {
  const parts: Wire[] = [];
  const add = (part: Part) => {
    if (part.type === "text" && part.text !== "") parts.push({ text: cleanText(part.text) });
  };
  for (const part of system) add(part);
  for (const part of opening) add(part);
  return parts.length === 0 ? undefined : { parts };
}

function encodeTool({ name, description, schema }: Tool): Wire {
  return {
    name,
    ...(description && { description: cleanText(description) }),
    ...(!isEmptySchema(schema) && { parametersJsonSchema: toJsonSchema({ type: "object", ...schema }) }),
  };
}

function encodeToolChoice(choice: ToolChoice): Wire {
  const functionCallingConfig =
    choice.type === "tool"
      ? { mode: "ANY", allowedFunctionNames: [choice.name] }
      : { mode: { auto: "AUTO", none: "NONE", required: "ANY" }[choice.type] };
  return { functionCallingConfig };
}

function addTools(prompt: Prompt, body: Wire, dropped: string[]): void {
  if (prompt.tools.length === 0) return;
  // This dialect has no word for these.
  if (prompt.parallelToolCalls === false) dropped.push("parallel_tool_calls");
  dropped.push(...lostFormats(prompt.tools));
  for (const tool of prompt.tools) if (tool.strict) dropped.push(`${placeOf(tool)}.strict`);
  body["tools"] = [{ functionDeclarations: prompt.tools.map(encodeTool) }];
  if (prompt.toolChoice) body["toolConfig"] = encodeToolChoice(prompt.toolChoice);
}

function addOutput(output: OutputFormat | undefined, config: Wire): void {
  if (!output) return;
  config["responseMimeType"] = "application/json";
  if (output.type === "json-schema") config["responseJsonSchema"] = toJsonSchema(describedSchema(output));
}

function addPictures({ ratio, size }: NonNullable<Prompt["pictures"]>, config: Wire): void {
  config["responseModalities"] = ["TEXT", "IMAGE"];
  if (ratio === undefined && size === undefined) return;
  config["imageConfig"] = {
    ...(ratio !== undefined && { aspectRatio: ratio }),
    ...(size !== undefined && { imageSize: size }),
  };
}

/** A seed as the vendor's integer; the same one for the same seed. */
const toSeed = (seed: number): number => Math.trunc(Math.abs(seed)) % (MAX_SEED + 1);

function encodeGeneration(prompt: Prompt, stop: readonly string[]): Wire {
  const { maxOutputTokens, temperature, topP, topK, seed, frequencyPenalty, presencePenalty } = prompt;
  const config: Wire = {};
  put(config, "maxOutputTokens", maxOutputTokens);
  if (temperature !== undefined) config["temperature"] = Math.min(temperature, MAX_TEMPERATURE);
  put(config, "topP", topP);
  put(config, "topK", topK);
  if (stop.length > 0) config["stopSequences"] = stop;
  if (seed !== undefined) config["seed"] = toSeed(seed);
  // Clients often send 0, which is the default. `amend` takes any other away from models that refuse it.
  if (frequencyPenalty) config["frequencyPenalty"] = frequencyPenalty;
  if (presencePenalty) config["presencePenalty"] = presencePenalty;
  addOutput(prompt.output, config);
  if (prompt.pictures) addPictures(prompt.pictures, config);
  return config;
}

/**
 * A prompt as a body of this dialect (dialects.md 3.1, 4.1, 4.4). Model and stream stand in the path. `upstreamModel` decides only whether calls have ids;
 * reasoning, and all else that depends on the model, is added by `amend`. Throws GatewayError (invalid_request) for file ids and web addresses that this
 * dialect cannot carry, with the part's place, and for schemas that are nested too deep. Stop sequences beyond {@link MAX_STOPS} are returned apart: the
 * gateway watches for them itself.
 */
export function encodeRequest(given: Prompt, _quirks: Quirks, upstreamModel = ""): Encoded {
  const dropped: string[] = [];
  const { prompt, toolNames } = fitToolNames(given, GEMINI_NAMES, dropped);
  // Its labels are for billing, not for end users (dialects.md 4.1).
  if (prompt.userId !== undefined) dropped.push("user");
  nameShared(prompt, dropped);
  const { opening, spoken } = partOpening(prompt.turns);
  const contents = encodeContents(spoken, dropped, traitsOf(upstreamModel).current);
  const stops = prompt.stop.length === 0 ? prompt.stop : prompt.stop.filter((sequence) => sequence !== "");
  const tooMany = stops.length > MAX_STOPS;
  const generationConfig = encodeGeneration(prompt, tooMany ? stops.slice(0, MAX_STOPS) : stops);
  const body: Wire = {};
  put(body, "systemInstruction", encodeSystem(prompt.system, opening));
  body["contents"] = contents;
  addTools(prompt, body, dropped);
  if (!isEmpty(generationConfig)) body["generationConfig"] = generationConfig;
  return encodedBody(body, dropped, toolNames, tooMany ? stops.slice(MAX_STOPS) : NO_STOPS);
}
