import {
  type Attempt,
  attemptOutcome,
  NANO_PER_USD,
  type RequestFacts,
  type RequestSettings,
  type RpcFacts,
  SAMPLING_FIELDS,
  type ToolCall,
  type WorkCall,
  type WorkFacts,
} from "./request-facts.ts";

/** A span as OTLP writes it in JSON. */
export type Span = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Attribute[];
  links?: { traceId: string; spanId: string }[];
  status: { code: number; message?: string };
};
type Value = { stringValue: string } | { intValue: string } | { doubleValue: number } | { boolValue: boolean };
type Attribute = { key: string; value: Value | { arrayValue: { values: Value[] } } };

const INTERNAL = 1;
const SERVER = 2;
const CLIENT = 3;
const FAILED = 2;
/** The status of what did not fail: by the conventions on errors, only an operator may call a span OK. */
const UNSET = 0;
const NS_PER_MS = 1_000_000n;

/**
 * Names of operations by the GenAI conventions (`gen_ai.operation.name`), of a generation and of the call of a tool. For the other operations of
 * {@link WorkFacts}, the making of images and the count of tokens, the conventions have no name; ours are used, which they allow.
 */
const GENERATION = "chat";
const TOOL_CALL = "execute_tool";

/** Vendors whose name in the conventions (`gen_ai.provider.name`, which must be used) is not their ID here. */
const PROVIDERS: Readonly<Record<string, string>> = {
  azure: "azure.ai.openai",
  bedrock: "aws.bedrock",
  google: "gcp.gemini",
  mistral: "mistral_ai",
  moonshotai: "moonshot_ai",
  vertex: "gcp.vertex_ai",
  "vertex-anthropic": "gcp.vertex_ai",
  xai: "x_ai",
};
const providerOf = (vendor: string): string => (Object.hasOwn(PROVIDERS, vendor) ? PROVIDERS[vendor]! : vendor);

/** Well-formed, because the text may be a client's or a vendor's: for one lone surrogate a collector refuses the whole batch, with other requests' spans. */
const text = (key: string, value: string): Attribute => ({ key, value: { stringValue: value.toWellFormed() } });
const count = (key: string, value: number): Attribute => ({ key, value: { intValue: String(Math.round(value)) } });
/** {@link text} as a list, which is empty where the value is not known. */
const textOf = (key: string, value: string | undefined): Attribute[] => (value === undefined ? [] : [text(key, value)]);
const countOf = (key: string, value: number | undefined): Attribute[] =>
  value === undefined ? [] : [count(key, value)];
const toNano = (atMs: number): string => String(BigInt(Math.round(atMs)) * NS_PER_MS);

function randomId(bytes: number): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex");
}

type Parent = { traceId: string; spanId: string; sampled: boolean };

/** Which traces are sent. `byParent`: where a client sends a trace context, what that says. `ratio`: the fraction of all other traces, from 0 to 1. */
export type Sampling = { byParent: boolean; ratio: number };

/** What spans depend on beside their request. */
export type SpanSettings = {
  /** Default: all traces but those that their client does not sample. */
  sampling?: Sampling | undefined;
  /** A vendor's base URL, by its ID; undefined for one that is not known any more. */
  baseUrlOf?(vendor: string): string | undefined;
};

/** What OpenTelemetry does where nobody says otherwise. */
const DEFAULT_SAMPLING: Sampling = { byParent: true, ratio: 1 };
/** The hexadecimal digits of a trace's ID that decide whether it is sampled: from the middle on, where other programs look too, as many as a double holds. */
const DECIDING_FROM = 16;
const DECIDING_DIGITS = 13;
const DECISIONS = 16 ** DECIDING_DIGITS;

/** Whether a trace is sent. It goes by the trace's ID, so that every program that does the same decides alike for all parts of a trace. */
function isSampled(traceId: string, parent: Parent | undefined, { byParent, ratio }: Sampling): boolean {
  if (byParent && parent) return parent.sampled;
  if (ratio === 0 || ratio === 1) return ratio === 1;
  return Number.parseInt(traceId.slice(DECIDING_FROM, DECIDING_FROM + DECIDING_DIGITS), 16) < ratio * DECISIONS;
}

/** Reads a client's trace context (W3C); undefined for none, or one that is not well formed. Only versions after 00 may have more after the flags. */
export function readTraceparent(header: string | undefined): Parent | undefined {
  const [, version, traceId, spanId, flags, more] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(header?.trim() ?? "") ?? [];
  if (!traceId || !spanId || !flags || version === "ff" || (version === "00" && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** Where a span stands among others. */
type Place = Pick<Span, "traceId" | "spanId" | "parentSpanId">;

/** The place of a request's own span, in its client's trace where there is one; undefined when that trace is not sampled. */
function placeOf(traceparent: string | undefined, { sampling = DEFAULT_SAMPLING }: SpanSettings): Place | undefined {
  const parent = readTraceparent(traceparent);
  const traceId = parent?.traceId ?? randomId(16);
  if (!isSampled(traceId, parent, sampling)) return undefined;
  return { traceId, spanId: randomId(8), ...(parent && { parentSpanId: parent.spanId }) };
}

const below = ({ traceId, spanId }: Place): Place => ({ traceId, spanId: randomId(8), parentSpanId: spanId });

/** A span's name: what is done, and with what, where that is known. */
const nameOf = (operation: string, subject: string) =>
  subject === "" ? operation : `${operation} ${subject.toWellFormed()}`;

/** The times of a span that begins `at` ms after `startedAt` (Unix ms) and lasts `ms`. */
function timesOf(startedAt: number, at: number, ms: number): Pick<Span, "startTimeUnixNano" | "endTimeUnixNano"> {
  return { startTimeUnixNano: toNano(startedAt + at), endTimeUnixNano: toNano(startedAt + at + ms) };
}

const statusOf = (error: string | undefined): Span["status"] =>
  error === undefined ? { code: UNSET } : { code: FAILED, message: error };

/**
 * The spans of a generation: one for itself, as part of its client's trace where there is one, one for each call to a vendor, and one for each web tool
 * that the gateway ran for its model. None when the trace is not sampled. Attributes follow OpenTelemetry's GenAI conventions; what is ours is under
 * `sluice.`.
 */
export function toSpans(facts: RequestFacts, settings: SpanSettings = {}): Span[] {
  const place = placeOf(facts.traceparent, settings);
  if (!place) return [];
  const { startedAt, durationMs, error, tools = [] } = facts;
  const own: Span = {
    ...place,
    name: nameOf(GENERATION, facts.model),
    kind: SERVER,
    ...timesOf(startedAt, 0, durationMs),
    attributes: attributesOf(facts),
    status: statusOf(error),
  };
  const called = callsOf(facts).map((attempt) => toCallSpan(GENERATION, attempt, startedAt, place, settings));
  return [own, ...called, ...tools.map((tool) => toToolSpan(tool, facts, place))];
}

/** The spans of what is no generation: one for itself, by the rules of {@link toSpans}, and one for each call to a vendor. */
export function toWorkSpans(facts: WorkFacts, settings: SpanSettings): Span[] {
  const place = placeOf(facts.traceparent, settings);
  if (!place) return [];
  const { operation, subject, rpc, startedAt, durationMs, error, calls } = facts;
  const linked = readTraceparent(facts.linked);
  const own: Span = {
    ...place,
    name: nameOf(rpc?.method ?? operation, subject),
    kind: SERVER,
    ...timesOf(startedAt, 0, durationMs),
    attributes: workAttributesOf(facts),
    ...(linked && { links: [{ traceId: linked.traceId, spanId: linked.spanId }] }),
    status: statusOf(error),
  };
  return [own, ...calls.map((call) => toCallSpan(operation, call, startedAt, place, settings))];
}

/** Every call to a vendor. A last attempt whose reply took several rounds is as many calls; the last of these lasted until the end of the attempt. */
function callsOf(facts: RequestFacts): readonly Attempt[] {
  const attempts = attemptsOf(facts);
  const { rounds = [], lastCallMs: at = 0 } = facts;
  const last = attempts.at(-1);
  if (!last || rounds.length === 0) return attempts;
  return [...rounds, ...attempts.slice(0, -1), { ...last, at, ms: last.at + last.ms - at }];
}

/** Every attempt. Where a request took a single one, it is not in the facts' list and is put together from the rest of them. */
function attemptsOf({
  attempts,
  tried,
  vendor,
  upstreamModel: model,
  lastAttemptMs: at,
  lastKey: key,
  durationMs,
  outcome,
  error,
}: RequestFacts): readonly Attempt[] {
  if (attempts.length > 0 || tried === 0) return attempts;
  return [{ vendor, model, key, outcome: attemptOutcome(outcome, error), at, ms: durationMs - at }];
}

const DEFAULT_PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 };

/** The host and the port that are called, where they are known. */
function serverOf(baseUrl: string | undefined): Attribute[] {
  const url = baseUrl === undefined ? null : URL.parse(baseUrl);
  if (!url || url.hostname === "") return [];
  const port = Number(url.port) || DEFAULT_PORTS[url.protocol];
  // An IPv6 address stands without its brackets.
  return [text("server.address", url.hostname.replace(/^\[|\]$/g, "")), ...countOf("server.port", port)];
}

function toCallSpan(
  operation: string,
  call: WorkCall & Partial<Pick<Attempt, "key">>,
  startedAt: number,
  own: Place,
  { baseUrlOf }: SpanSettings,
): Span {
  const { vendor, model, key, outcome, at, ms } = call;
  const error = outcome === "served" || outcome === "client-left" ? undefined : outcome;
  return {
    ...below(own),
    name: nameOf(operation, model),
    kind: CLIENT,
    ...timesOf(startedAt, at, ms),
    attributes: [
      text("gen_ai.operation.name", operation),
      text("gen_ai.provider.name", providerOf(vendor)),
      text("gen_ai.request.model", model),
      ...serverOf(baseUrlOf?.(vendor)),
      text("sluice.vendor", vendor),
      ...(key === undefined ? [] : [count("sluice.vendor_key", key + 1)]),
      ...textOf("error.type", error),
    ],
    status: statusOf(error),
  };
}

/** Which tool was run. Arguments and results are left out: they are the words of users and of web pages. */
const toolAttributes = (tool: string): Attribute[] => [
  text("gen_ai.operation.name", TOOL_CALL),
  ...(tool === "" ? [] : [text("gen_ai.tool.name", tool), text("gen_ai.tool.type", "extension")]),
];

function toToolSpan(call: ToolCall, { startedAt, durationMs }: RequestFacts, own: Place): Span {
  const { tool, callId, at, ms = Math.max(0, durationMs - at), error } = call;
  return {
    ...below(own),
    name: nameOf(TOOL_CALL, tool),
    kind: INTERNAL,
    ...timesOf(startedAt, at, ms),
    attributes: [
      ...toolAttributes(tool),
      ...(callId === "" ? [] : [text("gen_ai.tool.call.id", callId)]),
      ...textOf("error.type", error),
    ],
    status: statusOf(error),
  };
}

function workAttributesOf(facts: WorkFacts): Attribute[] {
  const { operation, subject, vendor, upstreamModel, outcome, error, tried, requestId, rpc, jobId } = facts;
  const { inputTokens, units } = facts;
  return [
    ...(operation === TOOL_CALL ? toolAttributes(subject) : modelAttributes(facts)),
    ...(operation === "image_generation" ? [text("gen_ai.output.type", "image")] : []),
    ...textOf("gen_ai.response.model", outcome === "completed" ? upstreamModel : undefined),
    ...countOf("gen_ai.usage.input_tokens", inputTokens),
    ...(rpc ? rpcAttributes(rpc, facts.rpcCode) : []),
    ...textOf("sluice.request_id", requestId),
    ...textOf("sluice.job_id", jobId),
    text("sluice.account", facts.accountId),
    text("sluice.key", facts.keyId),
    text("sluice.dialect", facts.dialect),
    text("sluice.outcome", outcome),
    ...textOf("sluice.vendor", vendor),
    ...countOf("sluice.attempts", tried),
    ...countOf("sluice.units", units),
    ...textOf("error.type", error),
  ];
}

const modelAttributes = ({ operation, subject, vendor = "none" }: WorkFacts): Attribute[] => [
  text("gen_ai.operation.name", operation),
  text("gen_ai.provider.name", providerOf(vendor)),
  ...(subject === "" ? [] : [text("gen_ai.request.model", subject)]),
];

/** Attributes of the server's span for a message of MCP, by the MCP conventions. */
const rpcAttributes = ({ method, id, version }: RpcFacts, code: number | undefined): Attribute[] => [
  text("mcp.method.name", method),
  text("jsonrpc.request.id", id),
  ...textOf("mcp.protocol.version", version),
  ...textOf("rpc.response.status_code", code?.toString()),
  text("network.protocol.name", "http"),
  text("network.transport", "tcp"),
];

/** Which of {@link SAMPLING_FIELDS} are whole numbers. */
const WHOLE: ReadonlySet<string> = new Set(["top_k", "seed"]);

/** {@link count} of a number that a client has written; nothing where it is not whole or too large: for one such value a collector refuses the whole batch. */
const countOfClient = (key: string, value: number | undefined): Attribute[] =>
  Number.isSafeInteger(value) ? countOf(key, value) : [];

/** How the client wanted its reply made. What would be one of the client's own texts, such as its stop sequences, is left out. */
function settingsAttributes({ maxTokens, choices, effort, sampling }: RequestSettings): Attribute[] {
  const attributes = [
    ...countOfClient("gen_ai.request.max_tokens", maxTokens),
    // By the conventions one is not told.
    ...countOfClient("gen_ai.request.choice.count", choices === 1 ? undefined : choices),
    ...textOf("gen_ai.request.reasoning.level", effort),
  ];
  for (const field of SAMPLING_FIELDS) {
    const key = `gen_ai.request.${field}`;
    const value = sampling[field];
    if (WHOLE.has(field)) attributes.push(...countOfClient(key, value));
    else if (value !== undefined) attributes.push({ key, value: { doubleValue: value } });
  }
  return attributes;
}

function attributesOf(facts: RequestFacts): Attribute[] {
  const { usage, finish, error, firstTokenMs, costNano, stream, outcome } = facts;
  const attributes: Attribute[] = [
    text("gen_ai.operation.name", GENERATION),
    text("gen_ai.provider.name", providerOf(facts.vendor || "none")),
    ...(facts.model === "" ? [] : [text("gen_ai.request.model", facts.model)]),
    text("sluice.request_id", facts.requestId),
    text("sluice.account", facts.accountId),
    text("sluice.key", facts.keyId),
    text("sluice.dialect", facts.dialect),
    text("sluice.outcome", outcome),
    count("sluice.attempts", facts.tried),
    { key: "gen_ai.request.stream", value: { boolValue: stream } },
    ...(facts.settings ? settingsAttributes(facts.settings) : []),
  ];
  // Only where a model has answered: not where the request was refused or failed before the first token.
  if (outcome === "completed" || firstTokenMs !== undefined) {
    attributes.push(text("gen_ai.response.model", facts.upstreamModel));
  }
  if (usage) {
    attributes.push(
      count("gen_ai.usage.input_tokens", usage.input + usage.cacheRead + usage.cacheWrite),
      count("gen_ai.usage.output_tokens", usage.output),
      count("gen_ai.usage.cache_read.input_tokens", usage.cacheRead),
      count("gen_ai.usage.cache_write.input_tokens", usage.cacheWrite),
      // The earlier name of the same attribute, which most readers of traces still look for.
      count("gen_ai.usage.cache_creation.input_tokens", usage.cacheWrite),
      count("gen_ai.usage.reasoning.output_tokens", usage.reasoning),
    );
  }
  if (finish !== undefined) {
    const values = [{ stringValue: finish }];
    attributes.push({ key: "gen_ai.response.finish_reasons", value: { arrayValue: { values } } });
  }
  if (stream && firstTokenMs !== undefined) {
    attributes.push({ key: "gen_ai.response.time_to_first_chunk", value: { doubleValue: firstTokenMs / 1_000 } });
  }
  if (costNano !== undefined) {
    attributes.push({ key: "sluice.cost_usd", value: { doubleValue: Number(costNano) / NANO_PER_USD } });
  }
  attributes.push(...textOf("error.type", error));
  return attributes;
}
