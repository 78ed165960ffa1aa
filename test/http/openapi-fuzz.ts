import fc from "fast-check";
import { isObject } from "../../src/lib/json.ts";
import { misfit, resolve, type Schema } from "../support/json-schema.ts";
import {
  CALLERS,
  type CallerName,
  FAULTY_MODELS,
  type FuzzLab,
  IMAGE_MODELS,
  SOUND_MODELS,
  UNSERVED_MODELS,
} from "./openapi-fuzz-lab.ts";
import { ANYTHING, almostValid, type Hints, isSlot, slot, validValues } from "./openapi-values.ts";

/** No reply may take longer (reliability 8.1, G13), ms. */
const MOST_MS = 1_000;

type Parameter = { name: string; in: "path" | "query" | "header"; required?: boolean; schema: Schema };
export type Operation = {
  name: string;
  method: string;
  path: string;
  parameters: Parameter[];
  body: Schema | undefined;
  responses: Record<string, { content?: Record<string, { schema: Schema }> }>;
};

/** `valid`: fits the document and has the right key; `almost`: fitted until something was changed; `wrong`: any JSON. */
const KINDS = ["valid", "almost", "wrong"] as const;
type Kind = (typeof KINDS)[number];

/** A request as it is made up, slots still in it. */
type Draft = {
  kind: Kind;
  caller: CallerName;
  both: boolean;
  path: Record<string, unknown>;
  query: [string, unknown][];
  headers: [string, unknown][];
  body: unknown;
};

export type Fault = { operation: string; what: string; request: string; answer: string };

export type FuzzReport = {
  requests: number;
  faults: Fault[];
  /** How often each operation gave each status. */
  statuses: Map<string, Map<number, number>>;
  slowestMs: number;
};

/** The operations of a document, in its order. */
export function operationsOf(document: Schema): Operation[] {
  return Object.entries(document["paths"] as Record<string, Record<string, Schema>>).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, detail]) => {
      const body = detail["requestBody"] as { content: Record<string, { schema: Schema }> } | undefined;
      return {
        name: `${method.toUpperCase()} ${path}`,
        method: method.toUpperCase(),
        path,
        parameters: (detail["parameters"] ?? []) as Parameter[],
        body: body?.content["application/json"]?.schema,
        responses: detail["responses"] as Operation["responses"],
      };
    }),
  );
}

const isAdmin = ({ path }: Operation) => path.startsWith("/admin/") || path === "/metrics";
const drawsImages = ({ path }: Operation) => path.startsWith("/v1/images");

const SIZES = fc.constantFrom("1024x1024", "auto", "1536x1024", "64x96", "1920x1080");
const PLANS = fc.constantFrom("free", "pro", "power", "local");
const CHAT_MODELS = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(...SOUND_MODELS, "sluice/echo") },
  { weight: 2, arbitrary: fc.constantFrom(...FAULTY_MODELS) },
  { weight: 1, arbitrary: fc.constantFrom(...UNSERVED_MODELS) },
);

const NAME = fc.stringMatching(/^[a-z]{1,9}$/);
const SAID = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
const chatCall = (id: string, name: string) => ({ id, type: "function", function: { name, arguments: "{}" } });

/** Conversations that make sense: what a schema of single messages cannot see to. */
const CHAT_TURNS = fc
  .array(
    fc.oneof(
      fc.record({ role: fc.constantFrom("system", "user", "developer"), content: SAID }).map((turn) => [turn]),
      SAID.map((text) => [{ role: "user", content: [{ type: "text", text }] }]),
      SAID.map((content) => [{ role: "assistant", content }]),
      fc.tuple(NAME, NAME, SAID).map(([id, name, content]) => [
        { role: "assistant", content: null, tool_calls: [chatCall(id, name)] },
        { role: "tool", tool_call_id: id, content },
      ]),
    ),
    { minLength: 1, maxLength: 4 },
  )
  .map((turns) => turns.flat());

const CHAT_TOOLS = fc
  .uniqueArray(NAME, { maxLength: 2 })
  .map((names) =>
    names.map((name) => ({ type: "function", function: { name, parameters: { type: "object", properties: {} } } })),
  );

const mostly = (good: fc.Arbitrary<unknown>) => (own: () => fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 3, arbitrary: good }, { weight: 1, arbitrary: own() });
const seldomOf = (values: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 10, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: values });
const seldom = (own: () => fc.Arbitrary<unknown>) => seldomOf(own());

type Hint = fc.Arbitrary<unknown> | ((own: () => fc.Arbitrary<unknown>) => fc.Arbitrary<unknown>);

/** What a schema does not say of a value: which models, accounts, plans and pages there are, and that times pass. */
function hintsOf({ path }: Operation, page: string): Hints {
  const urls = fc.constantFrom(`${page}/page`, `${page}/missing`, "http://127.0.0.1:9/", "http://[::1]/", "ftp://x/");
  const models: Hint = CHAT_MODELS;
  const rpc: Record<string, Hint> = {
    method: fc.constantFrom("initialize", "ping", "tools/list", "tools/call", "notifications/initialized", "x/y"),
    params: fc.oneof(
      fc.record({ name: fc.constantFrom("web_search"), arguments: fc.constant({ query: "news" }) }),
      fc.record({ name: fc.constant("web_fetch"), arguments: fc.record({ urls: fc.array(urls, { maxLength: 3 }) }) }),
      fc.constant({ protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "f", version: "1" } }),
    ),
  };
  const draws = mostly(fc.constantFrom(...IMAGE_MODELS));
  const byPath: Record<string, Record<string, Hint>> = {
    "/mcp/web": rpc,
    "/v1/chat/completions": { model: models, messages: mostly(CHAT_TURNS), tools: mostly(CHAT_TOOLS), n: seldom },
    "/v1/messages": { model: models },
    "/v1/messages/count_tokens": { model: models },
    "/v1/responses": {
      model: models,
      input: mostly(SAID),
      previous_response_id: seldom,
      conversation: seldom,
      background: seldom,
    },
    "/v1/images/generations": {
      model: draws,
      prompt: mostly(SAID),
      size: SIZES,
      source_job_id: () => seldomOf(slot("jobs")),
    },
    "/v1/web/search": { search_domain_filter: fc.constantFrom(["example.com"], ["-example.com"], []) },
    "/v1/web/fetch": { urls: fc.array(urls, { minLength: 1, maxLength: 3 }) },
  };
  const admin: Record<string, Hint> = {
    account: slot("accounts"),
    plan: PLANS,
    expires_at: fc.constantFrom("2099-01-31T00:00:00Z", null),
  };
  const hints = byPath[path] ?? admin;
  return (place, own) => {
    const hint = Object.hasOwn(hints, place) ? hints[place] : undefined;
    return typeof hint === "function" ? hint(own) : hint;
  };
}

const TRANSLATED = ["chat/completions", "messages", "responses"] as const;

/** Bodies of an operation that fit the document; undefined where it takes none. */
function bodiesOf(operation: Operation, { document, page }: Pick<FuzzLab, "document" | "page">) {
  if (operation.path === "/v1/debug/translate") {
    const asked = operationsOf(document);
    const shown = TRANSLATED.map((name) => {
      const inner = asked.find(({ path }) => path === `/v1/${name}`) as Operation;
      const body = validValues(inner.body as Schema, document, hintsOf(inner, page));
      return fc.record({ dialect: fc.constant(name.split("/")[0]), body });
    });
    return fc.oneof(...shown);
  }
  return operation.body && validValues(operation.body, document, hintsOf(operation, page));
}

const PATH_SLOTS: Record<string, string> = {
  account: "accounts",
  key: "keys",
  token: "tokens",
  request_id: "requests",
  name: "files",
};

/** Text for a place in a path: never "", "." or "..", which make another path. */
const STEP = fc
  .oneof(
    fc.string({ minLength: 1, maxLength: 12 }),
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 6 }),
    fc.constantFrom("%", "%00", "a%2Fb", "a\u0000", "x".repeat(3_000), "' OR 1=1 --", "0", "null", "..%2f..%2fetc"),
  )
  .filter((text) => !/^\.{1,2}$/.test(text) && text.isWellFormed());

function pathValues(operation: Operation, { name }: Parameter): fc.Arbitrary<unknown> {
  const known = drawsImages(operation) && name === "id" ? "jobs" : (PATH_SLOTS[name] ?? "");
  const right = known === "" ? fc.constantFrom(...SOUND_MODELS, "sluice/echo") : slot(known);
  return right;
}

function queryValues(operation: Operation, { name, schema }: Parameter, document: Schema): fc.Arbitrary<unknown> {
  const times = fc.constantFrom("2020-01-31", "2026-01-31T10:00:00Z", "0", "1790000000");
  const known: Record<string, fc.Arbitrary<unknown>> = {
    cursor: slot(`cursor ${operation.path}`),
    before: slot("before"),
    since: times,
    until: times,
    model: fc.constantFrom(...SOUND_MODELS),
    key: fc.oneof(slot("keys"), fc.constant("key_none")),
    account: slot("accounts"),
    probe: fc.constantFrom("true", "false"),
    after_id: fc.constantFrom(...SOUND_MODELS),
    before_id: fc.constantFrom(...SOUND_MODELS),
  };
  return known[name] ?? validValues(schema, document, () => undefined);
}

function headerValues({ name, schema }: Parameter, document: Schema): fc.Arbitrary<unknown> {
  const known: Record<string, fc.Arbitrary<unknown>> = {
    "Idempotency-Key": fc.oneof(fc.stringMatching(/^[\x21-\x7e]{1,40}$/), fc.constantFrom("one", "two")),
    // Longer ones are what they are for.
    Prefer: fc.constantFrom("wait=0", "respond-async", "wait"),
  };
  return known[name] ?? validValues(schema, document, () => undefined);
}

const HEADER_TEXT = fc.stringMatching(/^[\x21-\x7e]{0,30}$/);
const ODD_HEADERS = fc.oneof(
  fc.tuple(fc.constant("idempotency-key"), fc.oneof(HEADER_TEXT, fc.constant("k".repeat(256)))),
  fc.tuple(
    fc.constantFrom("anthropic-version", "anthropic-beta", "openai-beta", "mcp-protocol-version", "traceparent"),
    HEADER_TEXT,
  ),
  fc.tuple(
    fc.constantFrom("x-sluice-strict", "prefer", "if-none-match", "range", "accept-encoding", "cookie"),
    HEADER_TEXT,
  ),
  fc.constantFrom<[string, string]>(
    ["accept", "text/html"],
    ["accept", "text/csv"],
    ["content-type", "text/plain"],
    ["content-type", ""],
    ["content-encoding", "gzip"],
    ["range", "bytes=0-9"],
    ["range", "bytes=9999999-"],
    ["x-sluice-strict", "1"],
  ),
);

const weighted = (weights: Partial<Record<CallerName, number>>) =>
  fc.oneof(...CALLERS.map((name) => ({ weight: weights[name] ?? 0, arbitrary: fc.constant(name) })));

/** Optional parts that a valid request has now and then. */
const some = (parameters: Parameter[], make: (parameter: Parameter) => fc.Arbitrary<unknown>) =>
  fc
    .tuple(...parameters.map((parameter) => fc.tuple(fc.constant(parameter.name), make(parameter), fc.nat(3))))
    .map((made) =>
      made.filter(([, , chance]) => chance === 0).map(([name, value]): [string, unknown] => [name, value]),
    );

/** Requests of an operation, of every kind. */
export function draftsOf(operation: Operation, lab: Pick<FuzzLab, "document" | "page">): fc.Arbitrary<Draft> {
  const { document } = lab;
  const place = (where: Parameter["in"]) => operation.parameters.filter((parameter) => parameter.in === where);
  const valid = bodiesOf(operation, lab);
  const right = isAdmin(operation) ? "admin" : "user";
  const callers = weighted(
    isAdmin(operation)
      ? { admin: 16, user: 1, token: 1, stranger: 1, nobody: 1, revoked: 1 }
      : { user: 12, payer: 4, poor: 2, narrow: 2, token: 2, admin: 1, revoked: 1, stranger: 1, nobody: 1 },
  );
  const paths = place("path");
  const rightPath = fc.record(Object.fromEntries(paths.map((each) => [each.name, pathValues(operation, each)])));
  const anyPath = fc.record(
    Object.fromEntries(paths.map((each) => [each.name, fc.oneof(pathValues(operation, each), STEP)])),
  );
  const rightQuery = some(place("query"), (each) => queryValues(operation, each, document));
  const oddQuery = fc.array(
    fc.tuple(
      fc.constantFrom(...place("query").map(({ name }) => name), "beta", "key"),
      fc.oneof(HEADER_TEXT, fc.string({ maxLength: 9 }), fc.constantFrom("", "0", "-1", "1e3", "9".repeat(400))),
    ),
    { maxLength: 3 },
  );
  const rightHeaders = some(place("header"), (each) => headerValues(each, document));
  const oddHeaders = fc.array(ODD_HEADERS, { maxLength: 2 });
  const constant = { caller: fc.constant(right as CallerName), both: fc.constant(false) };
  const odd = { caller: callers, both: fc.nat(30).map((one) => one === 0), path: anyPath };
  const none = fc.constant(undefined);
  return fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        ...constant,
        kind: fc.constant<Kind>("valid"),
        path: rightPath,
        query: rightQuery,
        headers: rightHeaders,
        body: valid ?? none,
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        ...odd,
        kind: fc.constant<Kind>("almost"),
        query: fc.oneof(rightQuery, oddQuery),
        headers: oddHeaders,
        body: valid ? fc.oneof(valid, almostValid(valid), almostValid(valid)) : none,
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        ...odd,
        kind: fc.constant<Kind>("wrong"),
        query: oddQuery,
        headers: oddHeaders,
        body: valid ? ANYTHING : none,
      }),
    },
  );
}

/** What earlier answers gave, by kind: ids, cursors, names of files. */
class Memory {
  readonly #known = new Map<string, unknown[]>();

  constructor(private readonly own: ReadonlySet<string>) {}

  keep(name: string, value: unknown): void {
    if (typeof value === "string" && this.own.has(value)) return;
    const known = this.#known.get(name) ?? [];
    // The newest are kept: cursors and jobs grow old.
    if (!known.includes(value)) this.#known.set(name, [...known, value].slice(-50));
  }

  /** Everything that an answer to `path` names. */
  learn(value: unknown, path: string): void {
    if (Array.isArray(value)) for (const entry of value) this.learn(entry, path);
    if (!isObject(value)) return;
    const kinds: Record<string, string> = {
      "image.generation.job": "jobs",
      account: "accounts",
      key: "keys",
      token: "tokens",
    };
    const kind = kinds[String(value["object"])];
    if (kind !== undefined) this.keep(kind, value["id"]);
    if (typeof value["request_id"] === "string" && value["object"] === "usage")
      this.keep("requests", value["request_id"]);
    if (typeof value["next_cursor"] === "string") this.keep(`cursor ${path}`, value["next_cursor"]);
    if (typeof value["next_before"] === "string") this.keep("before", value["next_before"]);
    if (typeof value["url"] === "string" && value["url"].includes("/files/"))
      this.keep("files", value["url"].split("/").at(-1));
    for (const inner of Object.values(value)) if (typeof inner === "object") this.learn(inner, path);
  }

  /** A draft's value with its slots filled; undefined for one of which nothing is known yet. */
  fill(value: unknown): unknown {
    if (isSlot(value)) {
      const known = this.#known.get(value.slot) ?? [];
      return known[value.pick % Math.max(1, known.length)];
    }
    if (Array.isArray(value)) return value.map((entry) => this.fill(entry));
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, this.fill(inner)]));
  }
}

/** A refusal of a body that fits the document, where no schema can say what is wrong. */
export type Excuse = { operation: RegExp; message: RegExp; why: string };

type Sent = { operation: Operation; draft: Draft; url: string; init: RequestInit; body: unknown; fitting: boolean };

/** One run of random requests against a gateway. */
export class Fuzz {
  readonly report: FuzzReport = { requests: 0, faults: [], statuses: new Map(), slowestMs: 0 };
  readonly #memory: Memory;

  constructor(
    private readonly lab: FuzzLab,
    private readonly excuses: readonly Excuse[],
  ) {
    this.#memory = new Memory(lab.own);
  }

  /** Sends `each` requests of every operation, mixed, `lanes` at a time. */
  async run(seed: number, each: number, lanes = 1): Promise<FuzzReport> {
    const operations = operationsOf(this.lab.document);
    const work = operations.flatMap((operation, place) => {
      const drafts = fc.sample(draftsOf(operation, this.lab), { seed: seed + place, numRuns: each });
      return drafts.map((draft, at) => ({ operation, draft, at: (at + place / operations.length) / each }));
    });
    work.sort((one, other) => one.at - other.at);
    const queue = work.values();
    const lane = async () => {
      for (const { operation, draft } of queue) await this.#ask(this.#prepare(operation, draft));
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    return this.report;
  }

  #prepare(operation: Operation, draft: Draft): Sent {
    const fill = (value: unknown) => this.#memory.fill(value);
    let missing = false;
    const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = fill(draft.path[name]);
      if (value === undefined) missing = true;
      return encodeURIComponent(String(value ?? "none"));
    });
    const query = draft.query
      .map(([name, value]) => [name, fill(value)] as const)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value).toWellFormed())}`);
    const body = fill(draft.body);
    const init: RequestInit = { method: operation.method, headers: this.#headers(draft) };
    if (operation.body) init.body = JSON.stringify(body) ?? "null";
    // Filled slots and what JSON leaves out may have changed the body: only what is really sent is held against the document.
    const fits =
      !operation.body || misfit(JSON.parse(String(init.body)), operation.body, this.lab.document) === undefined;
    const url = `${path}${query.length > 0 ? `?${query.join("&")}` : ""}`;
    return { operation, draft, url, init, body, fitting: draft.kind === "valid" && fits && !missing };
  }

  #headers({ caller, both, headers }: Draft): Headers {
    const sent = new Headers({ "content-type": "application/json" });
    // Each from an address of its own, so that one caller's wrong keys are not another's.
    sent.set("x-forwarded-for", `203.0.113.${this.report.requests % 250}`);
    const key = this.lab.keys[caller];
    if (key !== "")
      sent.set(
        this.report.requests % 3 === 0 ? "x-api-key" : "authorization",
        this.report.requests % 3 === 0 ? key : `Bearer ${key}`,
      );
    if (both) sent.set("x-api-key", "sk-sluice-other");
    for (const [name, value] of headers) if (value !== undefined) sent.set(name, String(value));
    return sent;
  }

  async #ask(sent: Sent): Promise<void> {
    this.report.requests++;
    const startedAt = performance.now();
    const response = await this.lab.gateway.call(sent.url, sent.init);
    const text = await response.text();
    const tookMs = performance.now() - startedAt;
    this.report.slowestMs = Math.max(this.report.slowestMs, tookMs);
    const counts = this.report.statuses.get(sent.operation.name) ?? new Map<number, number>();
    counts.set(response.status, (counts.get(response.status) ?? 0) + 1);
    this.report.statuses.set(sent.operation.name, counts);
    const faults = [
      ...(tookMs > MOST_MS ? [`took ${Math.round(tookMs)} ms`] : []),
      ...this.#judge(sent, response, text),
    ];
    for (const what of faults) this.#note(sent, response, text, what);
  }

  #judge(sent: Sent, response: Response, text: string): string[] {
    const { operation } = sent;
    const faults: string[] = [];
    const { status } = response;
    if (!response.headers.has("x-request-id")) faults.push("has no x-request-id");
    if (text.includes("vendor-key-of-")) faults.push("tells a vendor's key");
    // To show the address is what these are for.
    const shown = ["/v1/debug/translate", "/admin/v1/vendors"].includes(operation.path) && status === 200;
    // Whole ports only: the gateway's own may begin with a vendor's.
    const tells = (address: string) => new RegExp(`${RegExp.escape(address)}(?!\\d)`).test(text);
    if (!shown && this.lab.addresses.some(tells)) faults.push("tells a vendor's address");
    const declared = operation.responses[String(status)];
    if (!declared) return [...faults, `status ${status} is not declared`];
    const fault = this.#judgeContent(operation, response, text);
    if (fault !== undefined) faults.push(fault);
    return [...faults, ...this.#judgeMeaning(sent, status, text)];
  }

  /** 500 is never right; other faults of the server are the vendor's, or said of a model that is not served. A good body is not refused. */
  #judgeMeaning({ operation, fitting, body }: Sent, status: number, text: string): string[] {
    const code = /"code":"(\w+)"/.exec(text)?.[1] ?? "";
    if (status === 500) return ["status 500"];
    if (status > 500) {
      const about = JSON.stringify(body ?? null);
      const unserved = code === "model_unpriced" || code === "vendor_not_configured";
      const expected = unserved || FAULTY_MODELS.some((model) => about.includes(`"${model}"`));
      return expected ? [] : [`status ${status} (${code}) without a reason`];
    }
    if (!fitting || status !== 400 || (operation.path !== "/mcp/web" && code !== "invalid_request")) return [];
    if (JSON.stringify(body ?? null).includes("lab/faulty")) return [];
    const message = /"message":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? "";
    const excused = this.excuses.some(
      (excuse) => excuse.operation.test(operation.name) && excuse.message.test(message),
    );
    return excused ? [] : [`a body that fits is refused: ${message.slice(0, 200)}`];
  }

  #judgeContent({ path, responses }: Operation, response: Response, text: string): string | undefined {
    const content = responses[String(response.status)]?.content;
    const type = (response.headers.get("content-type") ?? "").split(";", 1)[0] ?? "";
    if (!content) return text === "" ? undefined : `a body of type ${type} is not declared`;
    const declared = content[type];
    if (!declared) return `content of type ${type} is not declared`;
    if (type === "text/event-stream") return this.#judgeStream(text);
    if (type !== "application/json") return undefined;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return "is no JSON";
    }
    this.#memory.learn(value, path);
    const fault = misfit(value, resolve(declared.schema, this.lab.document), this.lab.document);
    return fault === undefined ? undefined : `its body:${fault.startsWith(" ") ? "" : " "}${fault}`;
  }

  /** A stream ends with its terminator or with an error, and with nothing behind it. */
  #judgeStream(text: string): string | undefined {
    const last = text.trimEnd().split("\n\n").at(-1) ?? "";
    const ends = /^data: \[DONE\]$|^event: (?:message_stop|error|response\.\w+)\n|^data: \{"error":/.test(last);
    return ends ? undefined : `a stream ends with ${last.slice(0, 100)}`;
  }

  #note({ operation, draft, url, init }: Sent, response: Response, text: string, what: string): void {
    const request = `${init.method} ${url.slice(0, 300)} as ${draft.caller} (${draft.kind}) ${String(init.body ?? "").slice(0, 1_500)}`;
    this.report.faults.push({
      operation: operation.name,
      what,
      request,
      answer: `${response.status} ${text.slice(0, 400)}`,
    });
  }
}
