import { isObject } from "../../../src/lib/json.ts";
import { COUNTS, type Reply, type Step } from "../replies.ts";
import { Checker, isBase64, isBetween, isCount, isText, isThinker, type Value } from "./checker.ts";
import type { VendorFault, VendorWire } from "./wire.ts";

const USAGE = {
  promptTokenCount: COUNTS.fresh + COUNTS.cached,
  cachedContentTokenCount: COUNTS.cached,
  candidatesTokenCount: COUNTS.output - COUNTS.reasoning,
  thoughtsTokenCount: COUNTS.reasoning,
  totalTokenCount: COUNTS.fresh + COUNTS.cached + COUNTS.output,
  promptTokensDetails: [{ modality: "TEXT", tokenCount: COUNTS.fresh + COUNTS.cached }],
};
const FINISH: Record<Reply["finish"], string> = {
  stop: "STOP",
  length: "MAX_TOKENS",
  "stop-sequence": "STOP",
  calls: "STOP",
  filter: "SAFETY",
};

/** How this vendor proves a call or a text; it takes back no other proof, but for the word below. */
export const proofOf = (id: string) => Buffer.from(`lab thought signature of ${id}.`).toString("base64");
const isProof = (value: unknown) =>
  isBase64(value) && Buffer.from(String(value), "base64").toString().startsWith("lab thought signature of ");
/** Documented for history that this vendor never saw (dialects.md 3.3). */
const FOREIGN = "skip_thought_signature_validator";

/**
 * Parts as they come one by one. Thoughts carry no proof of their own: it stands on the first call of the step, or on an empty text at
 * the end (dialects.md 3.3). Calls come whole, without ids.
 */
function partsOf({ steps }: Reply): Value[] {
  const thought = steps.find((step) => step.kind === "reasoning");
  const first = steps.find((step) => step.kind === "call");
  const parts = steps.flatMap((step): Value[] => {
    if (step.kind === "reasoning") return step.pieces.map((text) => ({ text, thought: true }));
    if (step.kind === "text") return step.pieces.map((text) => ({ text }));
    const call = { functionCall: { name: step.name, args: JSON.parse(step.pieces.join("")) as unknown } };
    return [step === first ? { ...call, thoughtSignature: proofOf(proofId(thought, step)) } : call];
  });
  return thought && !first ? [...parts, { text: "", thoughtSignature: proofOf(proofId(thought)) }] : parts;
}

const proofId = (...steps: (Step | undefined)[]) =>
  steps.map((step) => step && "id" in step && step.id).find(Boolean) || "";

const replyOf = (model: string, parts: Value[], finishReason?: string): Value => ({
  candidates: [{ content: { parts, role: "model" }, ...(finishReason && { finishReason }), index: 0 }],
  usageMetadata: finishReason ? USAGE : { ...USAGE, candidatesTokenCount: 1 },
  modelVersion: model,
  responseId: "Lab7QkZ1vXw4kc669",
});

const record = (value: unknown) => `data: ${JSON.stringify(value)}\r\n\r\n`;

function recordsOf(reply: Reply, model: string): string[] {
  const parts = partsOf(reply);
  const records = parts.map((part, index) =>
    record(replyOf(model, [part], index === parts.length - 1 ? FINISH[reply.finish] : undefined)),
  );
  return records;
}

const ERRORS: Record<VendorFault, { code: number; status: string; details?: unknown[] }> = {
  refused: { code: 400, status: "INVALID_ARGUMENT" },
  // A refused key is a 400 here (dialects.md 3).
  key: {
    code: 400,
    status: "INVALID_ARGUMENT",
    details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }],
  },
  limit: {
    code: 429,
    status: "RESOURCE_EXHAUSTED",
    details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.4s" }],
  },
  fault: { code: 500, status: "INTERNAL" },
  overloaded: { code: 503, status: "UNAVAILABLE" },
};

function errorOf(fault: VendorFault, message: string) {
  const error = ERRORS[fault];
  return { status: error.code, body: { error: { ...error, message } } };
}

/** Schema words that this vendor knows (dialects.md 3.4). */
const SCHEMA_WORDS =
  "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf oneOf properties additionalProperties required propertyOrdering".split(
    " ",
  );

function checkSchema(checker: Checker, schema: unknown, path: string): void {
  if (!isObject(schema)) {
    checker.require(false, `${path} is no schema`);
    return;
  }
  checker.only(schema, SCHEMA_WORDS, path);
  const isAlone = Object.keys(schema).every((word) => word.startsWith("$"));
  checker.require(schema["$ref"] === undefined || isAlone, `${path}: more than $ref`);
  const { properties, items } = schema;
  if (isObject(properties))
    for (const [name, inner] of Object.entries(properties)) checkSchema(checker, inner, `${path}.${name}`);
  if (isObject(items)) checkSchema(checker, items, `${path}[]`);
}

function checkTools(checker: Checker, body: Value): void {
  const { tools, toolConfig } = body;
  if (tools === undefined) {
    checker.require(toolConfig === undefined, "toolConfig without tools");
    return;
  }
  for (const tool of checker.objects(tools, "tools")) {
    checker.only(tool, ["functionDeclarations"], "tool");
    for (const declaration of checker.objects(tool["functionDeclarations"], "functionDeclarations")) {
      checker.only(declaration, ["name", "description", "parametersJsonSchema"], "declaration");
      checker.require(/^[A-Za-z_][\w.:-]{0,127}$/.test(String(declaration["name"])), "a function's name is malformed");
      // A function without parameters has no schema at all.
      if ("parametersJsonSchema" in declaration)
        checkSchema(checker, declaration["parametersJsonSchema"], "parameters");
    }
  }
  const config = isObject(toolConfig) ? toolConfig["functionCallingConfig"] : undefined;
  if (toolConfig === undefined) return;
  if (!isObject(config)) {
    checker.require(false, "toolConfig is malformed");
    return;
  }
  checker.require(["AUTO", "ANY", "NONE", "VALIDATED"].includes(String(config["mode"])), "a mode nobody knows");
  checker.require(config["allowedFunctionNames"] === undefined || config["mode"] === "ANY", "names without ANY");
}

function checkPart(checker: Checker, part: Value, role: unknown, path: string): void {
  const kinds = ["text", "inlineData", "fileData", "functionCall", "functionResponse"].filter((kind) => kind in part);
  checker.require(kinds.length === 1, `${path} is ${kinds.join(" and ") || "nothing"}`);
  checker.only(part, [...kinds, "thought", "thoughtSignature"], path);
  const proof = part["thoughtSignature"];
  checker.require(proof === undefined || proof === FOREIGN || isProof(proof), `${path}: a foreign thought signature`);
  checker.require(role === "model" || !("functionCall" in part || "thought" in part), `${path} is not the user's`);
  checker.require(role === "user" || !("functionResponse" in part), `${path} is not the model's`);
  if (kinds[0] === "text") checker.require(isText(part["text"]) || proof !== undefined, `${path}: an empty text`);
  const { inlineData, fileData, functionCall, functionResponse } = part;
  if (isObject(inlineData)) {
    const good = /^(image\/(png|jpeg|webp)|application\/pdf|text\/plain)$/.test(String(inlineData["mimeType"]));
    checker.require(good && isBase64(inlineData["data"]), `${path}: malformed data`);
  }
  // Any other address is not fetched by this vendor (dialects.md 3.1).
  if (isObject(fileData))
    checker.require(/^gs:|generativelanguage|youtube/.test(String(fileData["fileUri"])), "a file");
  if (isObject(functionCall)) checker.require(isObject(functionCall["args"]), `${path}: arguments are no object`);
  if (isObject(functionResponse)) checker.require(isObject(functionResponse["response"]), `${path}: no object`);
}

/** What calls and their results must say alike. */
const namesIn = (parts: Value[], kind: string) =>
  parts.flatMap((part) => (isObject(part[kind]) ? [[part[kind]["name"], part[kind]["id"]]] : []));

/** Roles in turn, results as many and in the order of the calls they answer, each step's first call proved. */
function checkContents(checker: Checker, contents: Value[]): void {
  let called: unknown[] = [];
  contents.forEach((content, index) => {
    const path = `contents[${index}]`;
    const { role } = content;
    checker.only(content, ["role", "parts"], path);
    checker.require(role === (index % 2 === 0 ? "user" : "model"), `${path}.role is ${String(role)}`);
    const parts = checker.objects(content["parts"], `${path}.parts`);
    parts.forEach((part, at) => {
      checkPart(checker, part, role, `${path}.parts[${at}]`);
    });
    checker.require(Bun.deepEquals(namesIn(parts, "functionResponse"), called), `${path} does not answer the calls`);
    called = namesIn(parts, "functionCall");
    const first = parts.find((part) => "functionCall" in part);
    checker.require(!first || first["thoughtSignature"] !== undefined, `${path}: the first call is not proved`);
  });
  checker.require(called.length === 0, "calls are left unanswered");
}

const GENERATION =
  "maxOutputTokens temperature topP topK stopSequences seed presencePenalty frequencyPenalty responseMimeType responseJsonSchema thinkingConfig".split(
    " ",
  );

function checkGeneration(checker: Checker, config: unknown, model: string): void {
  if (config === undefined) return;
  if (!isObject(config)) {
    checker.require(false, "generationConfig is no object");
    return;
  }
  checker.only(config, GENERATION, "generationConfig");
  const { maxOutputTokens: ceiling, stopSequences: stops, responseJsonSchema: schema, thinkingConfig } = config;
  checker.require(ceiling === undefined || isCount(ceiling), "maxOutputTokens is no count");
  checker.require(isBetween(config["temperature"], 0, 2), "temperature is not within 0..2");
  checker.require(stops === undefined || (Array.isArray(stops) && stops.length <= 5), "too many stop sequences");
  const mimeType = config["responseMimeType"];
  checker.require(mimeType === undefined || mimeType === "application/json", "responseMimeType");
  if (schema !== undefined) {
    checker.require(mimeType !== undefined, "a schema without its type");
    checkSchema(checker, schema, "responseJsonSchema");
  }
  if (thinkingConfig === undefined) return;
  if (!isObject(thinkingConfig) || !isThinker(model)) {
    checker.require(false, "thinkingConfig");
    return;
  }
  checker.only(thinkingConfig, ["includeThoughts", "thinkingLevel"], "thinkingConfig");
  const level = thinkingConfig["thinkingLevel"];
  checker.require(["low", "medium", "high"].includes(String(level).toLowerCase()), "a level the model has not");
}

const modelIn = (path: string) => /\/models\/([^:/]+):/.exec(path)?.[1] ?? "";

/** What reaches a vendor of this dialect, checked as that vendor would (dialects.md 3.1, 3.3, 3.4, 4.4). */
function check(call: Parameters<VendorWire["check"]>[0], apiKey: string) {
  const checker = new Checker();
  checker.headers(call, "x-goog-api-key", apiKey);
  const streams = call.path.endsWith(":streamGenerateContent");
  checker.require(call.query === (streams ? "alt=sse" : ""), `the query is ${call.query}`);
  if (!isObject(call.json)) return [...checker.faults, "the body is no JSON object"];
  const body = call.json;
  checker.only(body, ["contents", "systemInstruction", "tools", "toolConfig", "generationConfig"], "body");
  const system = body["systemInstruction"];
  if (system !== undefined) {
    const parts = isObject(system) ? checker.objects(system["parts"], "systemInstruction") : [];
    checker.require(parts.length > 0 && parts.every((part) => isText(part["text"])), "systemInstruction is no text");
  }
  checkTools(checker, body);
  checkGeneration(checker, body["generationConfig"], modelIn(call.path));
  checkContents(checker, checker.objects(body["contents"], "contents"));
  return checker.faults;
}

export const gemini: VendorWire = {
  path: (model, stream) => `/v1beta/models/${model}:${stream ? "streamGenerateContent" : "generateContent"}`,
  base: (url) => `${url}/v1beta`,
  auth: "x-goog-api-key",
  check,
  asks: ({ path }) => ({ stream: path.endsWith(":streamGenerateContent"), model: modelIn(path) }),
  records: recordsOf,
  whole: (reply, model) => replyOf(model, partsOf(reply), FINISH[reply.finish]),
  error: errorOf,
  brokenRecord: record(errorOf("overloaded", "The model is overloaded.").body),
};
