import type { Orders, ReasoningOrder } from "../../canon/intent.ts";
import { type Edits, isEmpty, isObject } from "../../lib/json.ts";
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

/** `thinkingConfig` of an order: a level or a budget, never both (dialects.md 5.1). Forms of other dialects write nothing here. */
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
 * The first call of each step, and every image that the model made, carries a signature, or the word that stands for one in foreign history
 * (dialects.md 3.3).
 */
const signModels = (contents: readonly Wire[]): readonly Wire[] =>
  mapChanged(contents, (content) => (content["role"] === "model" ? sign(content) : content));

/** The contents without signatures that are known not to be this vendor's, and without the parts and turns that were there for them alone. */
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

/** The user's turn behind a last one that the model would refuse to continue, so that it is known again. */
const ANSWER: Wire = { role: "user", parts: [{ text: CONTINUE_TEXT }] };

/** The system prompt as the opening of the first user content, for models that know no other place (dialects.md 3.1). */
function prependSystem(contents: readonly Wire[], system: unknown): readonly Wire[] {
  const [first, ...rest] = contents;
  const parts = isObject(system) ? listOf(system["parts"]) : NONE;
  return first ? [{ ...first, parts: [...parts, ...listOf(first["parts"])] }, ...rest] : [...contents];
}

/** Tools with their schemas in the older form. */
function toOpenApiTools(tools: unknown): Wire[] {
  const copies = new CopyAllowance();
  const declaration = ({ parametersJsonSchema: schema, ...rest }: Wire): Wire =>
    isObject(schema) ? { ...rest, parameters: toOpenApiSchema(schema, copies) } : rest;
  return listOf(tools).map((tool) => {
    const declarations = listOf(tool["functionDeclarations"]);
    return declarations.length === 0 ? tool : { ...tool, functionDeclarations: declarations.map(declaration) };
  });
}

/** A wanted JSON answer as a sentence, for models that refuse a response format beside tools. */
function jsonInstruction(schema: unknown): Wire {
  const rule = isObject(schema) ? ` It must fit this JSON Schema: ${JSON.stringify(schema)}` : "";
  return { text: JSON_INSTRUCTION + rule };
}

/** What is written for this model otherwise than for a current one: where the system prompt, the answer's format and the schemas stand. */
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

/** The fields that the model is not told, by the names that clients know them by. */
const untoldFields = (orders: Orders, { penalties }: ModelTraits): readonly string[] =>
  penalties ? goingFields(orders) : [...goingFields(orders), ...PENALTIES];

/** Fields that went: they stand inside another one here, where whoever compares the top level does not see them. */
function lostFields(body: Wire, orders: Orders): string[] {
  const { generationConfig: config } = body;
  if (!isObject(config)) return [];
  return untoldFields(orders, traitsOf(orders.upstreamModel)).filter(
    (field) => config[toCamelCase(field)] !== undefined,
  );
}

/**
 * What went, a call's or an image's signature that is lost, so that the vendor's own word for that stands in its place, and a last turn that was to be
 * continued and is answered.
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
 * Orders as edits of a body that `encodeRequest` wrote: no client speaks this dialect, so it is written anew where the model wants it.
 * Model and stream stand in the path. Throws GatewayError (invalid_request) for a schema that the model cannot be told.
 */
export function amend(body: Record<string, unknown>, orders: Orders): Edits {
  const traits = traitsOf(orders.upstreamModel);
  const config: Wire = isObject(body["generationConfig"]) ? { ...body["generationConfig"] } : {};
  if (orders.maxOutputTokens !== undefined) config["maxOutputTokens"] = orders.maxOutputTokens;
  const thinking = thinkingConfig(orders.reasoning, orders.dropSampling, traits);
  if (thinking) config["thinkingConfig"] = thinking;
  const edits: Edits = amendForModel(body, config, traits, orders);
  for (const field of untoldFields(orders, traits)) {
    delete config[toCamelCase(field)];
    if (field in body) edits[field] = undefined;
  }
  edits["generationConfig"] = isEmpty(config) ? undefined : config;
  return edits;
}
