import type { Orders, ReasoningOrder } from "../../canon/intent.ts";
import { isEmpty, isObject } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged, mapListIn } from "../../lib/map-changed.ts";
import { goingFields } from "../going-fields.ts";
import { CONTINUE_TEXT, JSON_INSTRUCTION } from "../refusals/own-words.ts";
import { type ModelTraits, traitsOf } from "./model-traits.ts";
import { PLACEHOLDER } from "./proof.ts";
import { CopyAllowance, toOpenApiSchema } from "./schema.ts";

type Wire = Record<string, unknown>;

/** Leaves it to the model how long it thinks (dialects.md 5.1). */
const DYNAMIC_BUDGET = -1;

/** A list of a body that `encodeRequest` wrote: there it holds objects alone. */
const listOf = (value: unknown): readonly Wire[] => (Array.isArray(value) ? (value as Wire[]) : NONE);
const NONE: readonly Wire[] = [];

const toCamelCase = (field: string): string =>
  field.replace(/_([a-z])/g, (_whole, letter: string) => letter.toUpperCase());

/** The `thinkingConfig` that an order means: a level or a budget, never both (dialects.md 5.1); undefined for an order in the form of another dialect. */
function thinkingConfig(order: ReasoningOrder, active: boolean, traits: ModelTraits): Wire | undefined {
  if (order.kind === "keep" || order.kind === "nothing") return undefined;
  const shown = active ? { includeThoughts: true } : {};
  if (order.form === "thinking-level") {
    const level = order.kind === "level" ? order.level : order.kind === "budget" ? undefined : order.value;
    if (level === undefined) return active ? shown : undefined;
    return { ...shown, thinkingLevel: level };
  }
  if (order.form !== "thinking-budget") return undefined;
  if (order.kind === "off") return { thinkingBudget: 0 };
  const [least, most] = traits.budget;
  const tokens = order.kind === "budget" ? Math.min(Math.max(Math.floor(order.tokens), least), most) : DYNAMIC_BUDGET;
  return { ...shown, thinkingBudget: tokens };
}

const isCall = (part: Wire): boolean => isObject(part["functionCall"]);

const isPicture = (part: Wire): boolean => isObject(part["inlineData"]);

/**
 * The contents in which the first call of each of the model's turns, and every image that it made, has a signature: its own, or {@link PLACEHOLDER}
 * where that is lost (dialects.md 3.3).
 */
const signModels = (contents: readonly Wire[]): readonly Wire[] =>
  mapChanged(contents, (content) => (content["role"] === "model" ? sign(content) : content));

/** The contents without the signatures that are known not to be this vendor's, and without the parts and turns that held nothing else. */
function withoutForeignProofs(contents: readonly Wire[], isForeign: (proof: string) => boolean): readonly Wire[] {
  const unsign = (part: Wire): Wire[] => {
    const { thoughtSignature: proof, ...rest } = part;
    if (typeof proof !== "string" || !isForeign(proof)) return [part];
    return rest["text"] === "" ? [] : [rest];
  };
  return contents.flatMap((content) => {
    const parts = listOf(content["parts"]).flatMap(unsign);
    return parts.length > 0 ? [{ ...content, parts }] : [];
  });
}

function sign(content: Wire): Wire {
  const first = listOf(content["parts"]).find(isCall);
  const lacks = (part: Wire) => part["thoughtSignature"] === undefined && (part === first || isPicture(part));
  return mapListIn(content, "parts", (part) =>
    isObject(part) && lacks(part) ? { ...part, thoughtSignature: PLACEHOLDER } : part,
  );
}

/** The user's turn that is put behind a last turn of the model's, which it would refuse to continue. One object, by which {@link repairs} finds it. */
const ANSWER: Wire = { role: "user", parts: [{ text: CONTINUE_TEXT }] };

/** The contents with the system prompt at the beginning of the first one, for models without `systemInstruction` (dialects.md 3.1). */
function prependSystem(contents: readonly Wire[], system: unknown): readonly Wire[] {
  const [first, ...rest] = contents;
  const parts = isObject(system) ? listOf(system["parts"]) : NONE;
  return first ? [{ ...first, parts: [...parts, ...listOf(first["parts"])] }, ...rest] : [...contents];
}

/** Tools with their schemas in the OpenAPI subset. Throws GatewayError (invalid_request) as {@link toOpenApiSchema} does. */
function toOpenApiTools(tools: unknown): Wire[] {
  const copies = new CopyAllowance();
  const declaration = ({ parametersJsonSchema: schema, ...rest }: Wire): Wire =>
    isObject(schema) ? { ...rest, parameters: toOpenApiSchema(schema, copies) } : rest;
  return listOf(tools).map((tool) => {
    const declarations = listOf(tool["functionDeclarations"]);
    return declarations.length === 0 ? tool : { ...tool, functionDeclarations: declarations.map(declaration) };
  });
}

/** The sentence that asks for an answer in JSON, for models that refuse a response format beside tools. */
function jsonInstruction(schema: unknown): Wire {
  const rule = isObject(schema) ? ` It must fit this JSON Schema: ${JSON.stringify(schema)}` : "";
  return { text: JSON_INSTRUCTION + rule };
}

/**
 * Edits of `body`, and changes to `config`, its generation config, that depend on the model: where the system prompt, the answer's format and the schemas
 * stand, signatures, and a last turn that it does not continue.
 */
function amendForModel(body: Wire, config: Wire, traits: ModelTraits, { isForeignProof }: Orders): Wire {
  const edits: Wire = {};
  let { systemInstruction } = body;
  let contents = listOf(body["contents"]);
  if (isForeignProof) contents = withoutForeignProofs(contents, isForeignProof);
  if (!traits.current && body["tools"] !== undefined && config["responseMimeType"] !== undefined) {
    const parts = isObject(systemInstruction) ? listOf(systemInstruction["parts"]) : NONE;
    systemInstruction = { parts: [...parts, jsonInstruction(config["responseJsonSchema"])] };
    delete config["responseMimeType"];
    delete config["responseJsonSchema"];
  }
  if (!traits.systemInstruction && systemInstruction !== undefined) {
    contents = prependSystem(contents, systemInstruction);
    systemInstruction = undefined;
  }
  if (traits.current) contents = signModels(contents);
  if (!traits.prefill && contents.at(-1)?.["role"] === "model") contents = [...contents, ANSWER];
  if (contents !== body["contents"]) edits["contents"] = contents;
  if (systemInstruction !== body["systemInstruction"]) edits["systemInstruction"] = systemInstruction;
  if (traits.jsonSchema) return edits;
  if (body["tools"] !== undefined) edits["tools"] = toOpenApiTools(body["tools"]);
  const { responseJsonSchema: schema } = config;
  if (isObject(schema)) {
    delete config["responseJsonSchema"];
    config["responseSchema"] = toOpenApiSchema(schema);
  }
  return edits;
}

const PENALTIES = ["frequency_penalty", "presence_penalty"];

/** The fields that are not sent to the model, by their names in the chat dialect. */
const untoldFields = (orders: Orders, { penalties }: ModelTraits): readonly string[] =>
  penalties ? goingFields(orders) : [...goingFields(orders), ...PENALTIES];

/** The fields that {@link amend} takes away from the generation config: a comparison of the bodies' top level does not show them. */
function lostFields(body: Wire, orders: Orders): string[] {
  const { generationConfig: config } = body;
  if (!isObject(config)) return [];
  return untoldFields(orders, traitsOf(orders.upstreamModel)).filter(
    (field) => config[toCamelCase(field)] !== undefined,
  );
}

/**
 * What of the request was lost by {@link amend}, by name, for `x-sluice-dropped`: fields, `prefill` for a last turn that was to be continued and is answered,
 * and `thought_signature` for a signature in whose place {@link PLACEHOLDER} stands.
 */
export function repairs(body: Wire, edits: Edits, orders: Orders): string[] {
  const isLost = (part: Wire) => part["thoughtSignature"] === PLACEHOLDER;
  const holdsLost = ({ parts }: Wire) => listOf(parts).some(isLost);
  const lost = lostFields(body, orders);
  const contents = listOf(edits["contents"] ?? body["contents"]);
  if (contents.at(-1) === ANSWER) lost.push("prefill");
  if (contents.some(holdsLost)) lost.push("thought_signature");
  return lost;
}

/**
 * Orders as edits of a body that `encodeRequest` wrote; no client speaks this dialect, so nothing in it has to stay as it came.
 * Model and stream are not in the body but in the path. Throws GatewayError (invalid_request) for a schema that is too large or nested too deep to be rewritten.
 */
export function amend(body: Record<string, unknown>, orders: Orders): Edits {
  const traits = traitsOf(orders.upstreamModel);
  const config: Wire = isObject(body["generationConfig"]) ? { ...body["generationConfig"] } : {};
  if (orders.maxOutputTokens !== undefined) config["maxOutputTokens"] = orders.maxOutputTokens;
  const thinking = thinkingConfig(orders.reasoning, orders.isReasoningActive, traits);
  if (thinking) config["thinkingConfig"] = thinking;
  const edits: Edits = amendForModel(body, config, traits, orders);
  for (const field of untoldFields(orders, traits)) {
    delete config[toCamelCase(field)];
    if (field in body) edits[field] = undefined;
  }
  edits["generationConfig"] = isEmpty(config) ? undefined : config;
  return edits;
}
