import type { OutputFormat, Prompt, TextPart, Tool, ToolChoice } from "../../canon/prompt.ts";
import { lostFormats } from "../custom-tools.ts";
import type { Encoded } from "../dialect.ts";
import { encodedBody } from "../encoded.ts";
import { cleanText } from "../text.ts";
import { fitToolNames, GEMINI_NAMES } from "../tool-names.ts";
import { encodeContents } from "./encode-contents.ts";
import { isEmptySchema, toJsonSchema } from "./schema.ts";

type Wire = Record<string, unknown>;

/** Most stop sequences that the vendor takes (dialects.md 3.1). */
const MAX_STOPS = 5;
const MAX_TEMPERATURE = 2;
/** Seeds are 32-bit integers here. */
const MAX_SEED = 2_147_483_647;

/** The system prompt: its parts, then system turns from mid-conversation, lifted up in order (dialects.md 4.1). */
function encodeSystem(prompt: Prompt): Wire {
  const inline = prompt.turns
    .filter((turn) => turn.role === "system")
    .flatMap((turn) => turn.parts.filter((part): part is TextPart => part.type === "text"));
  const parts = [...prompt.system, ...inline].filter((part) => part.text !== "");
  return parts.length === 0
    ? {}
    : { systemInstruction: { parts: parts.map(({ text }) => ({ text: cleanText(text) })) } };
}

function encodeTool({ name, description, schema }: Tool): Wire {
  return {
    name,
    ...(description && { description: cleanText(description) }),
    ...(!isEmptySchema(schema) && { parametersJsonSchema: toJsonSchema({ type: "object", ...schema }) }),
  };
}

function encodeToolChoice(choice: ToolChoice | undefined): Wire {
  if (!choice) return {};
  const functionCallingConfig =
    choice.type === "tool"
      ? { mode: "ANY", allowedFunctionNames: [choice.name] }
      : { mode: { auto: "AUTO", none: "NONE", required: "ANY" }[choice.type] };
  return { toolConfig: { functionCallingConfig } };
}

function encodeTools(prompt: Prompt, dropped: string[]): Wire {
  if (prompt.tools.length === 0) return {};
  // This dialect has no word for these.
  if (prompt.parallelToolCalls === false) dropped.push("parallel_tool_calls");
  dropped.push(...lostFormats(prompt.tools));
  for (const tool of prompt.tools) if (tool.strict) dropped.push(`tools.${tool.name}.strict`);
  return {
    tools: [{ functionDeclarations: prompt.tools.map(encodeTool) }],
    ...encodeToolChoice(prompt.toolChoice),
  };
}

function encodeOutput(output: OutputFormat | undefined): Wire {
  if (!output) return {};
  return {
    responseMimeType: "application/json",
    ...(output.type === "json-schema" && { responseJsonSchema: toJsonSchema(output.schema) }),
  };
}

/** A seed as the vendor's integer; the same one for the same seed. */
const toSeed = (seed: number): number => Math.trunc(Math.abs(seed)) % (MAX_SEED + 1);

function encodeGeneration(prompt: Prompt, stop: readonly string[]): Wire {
  const { maxOutputTokens, temperature, topP, topK, seed, frequencyPenalty, presencePenalty } = prompt;
  return {
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    ...(temperature !== undefined && { temperature: Math.min(temperature, MAX_TEMPERATURE) }),
    ...(topP !== undefined && { topP }),
    ...(topK !== undefined && { topK }),
    ...(stop.length > 0 && { stopSequences: stop }),
    ...(seed !== undefined && { seed: toSeed(seed) }),
    // Newer models refuse the fields altogether, and clients often send the 0 that says nothing.
    ...(frequencyPenalty && { frequencyPenalty }),
    ...(presencePenalty && { presencePenalty }),
    ...encodeOutput(prompt.output),
  };
}

/**
 * A prompt as a body of this dialect (dialects.md 3.1, 4.1, 4.4). Model and stream stand in the path; reasoning, and what depends on the
 * model, come with `amend`. Throws GatewayError (invalid_request, with the part's place) for file ids, web addresses and schemas that this
 * dialect cannot carry. Stop sequences beyond what the vendor takes are watched for by the gateway itself.
 */
export function encodeRequest(given: Prompt): Encoded {
  const dropped: string[] = [];
  const { prompt, toolNames } = fitToolNames(given, GEMINI_NAMES, dropped);
  // Its labels are for billing, not for end users (dialects.md 4.1).
  if (prompt.userId !== undefined) dropped.push("user");
  const contents = encodeContents(prompt.turns, dropped);
  const stops = prompt.stop.filter((sequence) => sequence !== "");
  const generationConfig = encodeGeneration(prompt, stops.slice(0, MAX_STOPS));
  const body: Wire = {
    ...encodeSystem(prompt),
    contents,
    ...encodeTools(prompt, dropped),
    ...(Object.keys(generationConfig).length > 0 && { generationConfig }),
  };
  return encodedBody(body, dropped, toolNames, stops.slice(MAX_STOPS));
}
