import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { json, neverAnswer, sse } from "../support/upstream.ts";
import { gate, within } from "../support/wait.ts";
import { BLOCKING_SECONDS, DIALECTS, type DialectName, type Lab, startLab, UPSTREAM_MODEL } from "./lab.ts";
import { MODES, type Mode } from "./outcomes.ts";
import { ERROR_BODIES, GREETING, RECORDS, splitAfterText } from "./replies.ts";

setDefaultTimeout(60_000);

const CLIENTS = ["openai", "anthropic"] as const;
type ClientName = (typeof CLIENTS)[number];

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
afterEach(() => {
  const faults = Object.values(lab.vendors).flatMap((vendor) => [...vendor.faults]);
  for (const vendor of Object.values(lab.vendors)) vendor.reset();
  expect(faults).toEqual([]);
});

const ways = CLIENTS.flatMap((client) => DIALECTS.map((upstream) => [client, upstream] as const));
const waysAndModes = ways.flatMap(([client, upstream]) => MODES.map((mode) => [client, upstream, mode] as const));

type AskOptions = { apiKey?: string; maxRetries?: number; signal?: AbortSignal; model?: string; onText?: () => void };

const messages = [{ role: "user" as const, content: "Hello" }];

/** Asks and reads to the end, event by event as programs do that use no accumulator; throws what the SDK throws. Returns the text. */
async function ask(client: ClientName, upstream: DialectName, mode: Mode, options: AskOptions = {}): Promise<string> {
  const { signal, apiKey, maxRetries, onText } = options;
  const model = options.model ?? lab.model(upstream, "plain");
  const settings = { ...(apiKey !== undefined && { apiKey }), ...(maxRetries !== undefined && { maxRetries }) };
  const ending = signal ? { signal } : {};
  let text = "";
  const take = (piece: string | null | undefined) => {
    if (!piece) return;
    text += piece;
    onText?.();
  };
  if (client === "openai") {
    const { completions } = lab.openai(settings).chat;
    if (mode === "blocking") {
      take((await completions.create({ model, messages }, ending)).choices[0]?.message.content);
      return text;
    }
    const stream = await completions.create({ model, messages, stream: true }, ending);
    for await (const chunk of stream) take(chunk.choices[0]?.delta.content);
    return text;
  }
  const api = lab.anthropic(settings).messages;
  const params = { model, messages, max_tokens: 64 };
  if (mode === "blocking") {
    for (const block of (await api.create(params, ending)).content) take(block.type === "text" ? block.text : "");
    return text;
  }
  for await (const event of await api.create({ ...params, stream: true }, ending)) {
    if (event.type === "content_block_delta" && event.delta.type === "text_delta") take(event.delta.text);
  }
  return text;
}

type SdkError = InstanceType<typeof OpenAI.APIError> | InstanceType<typeof Anthropic.APIError>;

/** The error an SDK throws; fails when it throws none, or something that is no error of its own. */
async function errorOf(client: ClientName, asking: Promise<unknown>): Promise<SdkError> {
  const thrown: unknown = await asking.then(
    (text) => new Error(`nothing was thrown; the text is ${JSON.stringify(text)}`),
    (error: unknown) => error,
  );
  const base = client === "openai" ? OpenAI.APIError : Anthropic.APIError;
  if (!(thrown instanceof base)) throw thrown;
  return thrown;
}

const callsOf = (upstream: DialectName) => lab.vendors[upstream].upstream.calls;

/** An error of the vendor, and what the client is told: the SDK's class, the status, the stable code (contract 6). */
const VENDOR_ERRORS: {
  name: string;
  status: Record<DialectName, number>;
  type: Record<DialectName, string>;
  code: string;
  seen: Record<ClientName, { status: number; name: string }>;
  retry: "true" | "false" | null;
}[] = [
  {
    name: "a refused request",
    status: { chat: 400, messages: 400 },
    type: { chat: "invalid_request_error", messages: "invalid_request_error" },
    code: "invalid_request",
    seen: {
      openai: { status: 400, name: "BadRequestError" },
      anthropic: { status: 400, name: "BadRequestError" },
    },
    retry: null,
  },
  {
    name: "the gateway's own key refused",
    status: { chat: 401, messages: 401 },
    type: { chat: "invalid_request_error", messages: "authentication_error" },
    code: "upstream_auth",
    seen: {
      openai: { status: 502, name: "InternalServerError" },
      anthropic: { status: 502, name: "InternalServerError" },
    },
    retry: "false",
  },
  {
    name: "too many requests",
    status: { chat: 429, messages: 429 },
    type: { chat: "requests", messages: "rate_limit_error" },
    code: "rate_limit_exceeded",
    seen: {
      openai: { status: 429, name: "RateLimitError" },
      anthropic: { status: 429, name: "RateLimitError" },
    },
    retry: "true",
  },
  {
    name: "a fault of the vendor",
    status: { chat: 500, messages: 500 },
    type: { chat: "server_error", messages: "api_error" },
    code: "upstream_error",
    seen: {
      openai: { status: 502, name: "InternalServerError" },
      anthropic: { status: 502, name: "InternalServerError" },
    },
    retry: "true",
  },
  {
    name: "an overloaded vendor",
    status: { chat: 503, messages: 529 },
    type: { chat: "service_unavailable_error", messages: "overloaded_error" },
    code: "upstream_overloaded",
    seen: {
      openai: { status: 503, name: "InternalServerError" },
      anthropic: { status: 529, name: "OverloadedError" },
    },
    retry: "true",
  },
];

/** The code stands where each dialect's own vendor would put it. */
function codeIn(client: ClientName, error: SdkError): unknown {
  if (error instanceof OpenAI.APIError) return error.code;
  const body = error.error as { error?: { code?: unknown } } | undefined;
  return client === "anthropic" ? body?.error?.code : undefined;
}

describe("errors of the vendor", () => {
  const rows = VENDOR_ERRORS.flatMap((row) =>
    waysAndModes.map(([client, upstream, mode]) => [row.name, client, upstream, mode, row] as const),
  );
  test.each(rows)("%s: %s SDK, %s vendor, %s", async (_name, client, upstream, mode, row) => {
    const secret = `sk-lab-${"x".repeat(24)}`;
    const body = ERROR_BODIES[upstream](row.type[upstream], `It went wrong with ${secret}.`);
    lab.vendors[upstream].script(json(body, { status: row.status[upstream], headers: { "retry-after": "7" } }));
    const error = await errorOf(client, ask(client, upstream, mode));
    expect({ status: error.status, name: error.constructor.name }).toEqual(row.seen[client]);
    expect(codeIn(client, error)).toBe(row.code);
    expect(JSON.stringify(error.error)).not.toContain(secret);
    const headers = error.headers;
    expect(headers?.get("retry-after") ?? null).toBe(row.status[upstream] === 429 ? "7" : null);
    if (row.retry) expect(headers?.get("x-should-retry")).toBe(row.retry);
    expect(headers?.get(client === "openai" ? "x-request-id" : "request-id")).toMatch(/^req_/);
    expect(callsOf(upstream).length).toBe(1);
  });

  test.each(ways)("x-should-retry: false is honoured: %s SDK, %s vendor", async (client, upstream) => {
    lab.vendors[upstream].script(json(ERROR_BODIES[upstream]("authentication_error", "no"), { status: 401 }));
    await errorOf(client, ask(client, upstream, "stream", { maxRetries: 2 }));
    expect(callsOf(upstream).length).toBe(1);
  });

  test.each(ways)("what a retry can mend is retried, and mended: %s SDK, %s vendor", async (client, upstream) => {
    const { upstream: vendor } = lab.vendors[upstream];
    lab.vendors[upstream].play(GREETING);
    const path = upstream === "chat" ? "/v1/chat/completions" : "/v1/messages";
    vendor.answer(path, json(ERROR_BODIES[upstream]("api_error", "no"), { status: 500 }));
    expect(await ask(client, upstream, "blocking", { maxRetries: 2 })).toBe("Grüße aus dem Labor 🙂!");
    expect(callsOf(upstream).length).toBe(2);
  });

  test("a blocking request that takes too long is one attempt, and the vendor is let go", async () => {
    await Promise.all(
      ways.map(async ([client, upstream]) => {
        lab.vendors[upstream].script(neverAnswer());
        const startedAt = performance.now();
        const error = await errorOf(client, ask(client, upstream, "blocking", { maxRetries: 2 }));
        expect([error.status, codeIn(client, error)]).toEqual([504, "request_timeout"]);
        expect(error.headers?.get("x-should-retry")).toBe("false");
        expect(performance.now() - startedAt).toBeGreaterThanOrEqual(BLOCKING_SECONDS * 1000 - 50);
      }),
    );
    for (const upstream of DIALECTS) {
      expect(callsOf(upstream).length).toBe(CLIENTS.length);
      for (const call of callsOf(upstream)) await within(call.whenAborted, "the cut-off reaching the vendor");
    }
  });
});

const streamOf = (upstream: DialectName) => RECORDS[upstream](GREETING, UPSTREAM_MODEL.plain);

describe("streams that break", () => {
  const faults = ["end", "cut", "reset"] as const;
  const rows = faults.flatMap((finish) => ways.map(([client, upstream]) => [finish, client, upstream] as const));
  test.each(rows)("a stream without terminator (%s) throws: %s SDK, %s vendor", async (finish, client, upstream) => {
    const { begun } = splitAfterText(streamOf(upstream), " aus dem");
    const seen = gate();
    // Broken only once the client has its first text: what is lost on the way of a torn connection may be asked for again.
    lab.vendors[upstream].script(sse([...begun, seen.opened], { finish }));
    let texts = 0;
    const onText = () => {
      texts++;
      seen.open();
    };
    const error = await errorOf(client, ask(client, upstream, "stream", { maxRetries: 2, onText }));
    expect(error.message).toMatch(/stream|broke off|end/i);
    // After it nobody ran the request again.
    expect(texts).toBeGreaterThan(0);
    expect(callsOf(upstream).length).toBe(1);
  });

  test.each(ways)("the accumulators throw too: %s SDK, %s vendor", async (client, upstream) => {
    const { begun } = splitAfterText(streamOf(upstream), " aus dem");
    lab.vendors[upstream].script(sse(begun));
    const model = lab.model(upstream, "plain");
    const final =
      client === "openai"
        ? lab.openai().chat.completions.stream({ model, messages }).finalChatCompletion()
        : lab.anthropic().messages.stream({ model, messages, max_tokens: 64 }).finalMessage();
    await expect(Promise.resolve(final)).rejects.toThrow();
  });

  test.each(ways)("an error in the stream is an error, not an end: %s SDK, %s vendor", async (client, upstream) => {
    const { begun } = splitAfterText(streamOf(upstream), " aus dem");
    const body = ERROR_BODIES[upstream]("overloaded_error", "Overloaded");
    const record = `${upstream === "messages" ? "event: error\n" : ""}data: ${JSON.stringify(body)}\n\n`;
    lab.vendors[upstream].script(sse([...begun, record]));
    const error = await errorOf(client, ask(client, upstream, "stream", { maxRetries: 2 }));
    expect(JSON.stringify(error.error)).toContain("overload");
    expect(callsOf(upstream).length).toBe(1);
  });

  test.each(CLIENTS)(
    "a chat vendor that leaves out [DONE] after its finish reason has ended: %s SDK",
    async (client) => {
      const records = streamOf("chat").filter((record) => !record.includes("[DONE]"));
      lab.vendors.chat.script(sse(records));
      expect(await ask(client, "chat", "stream")).toBe("Grüße aus dem Labor 🙂!");
    },
  );
});

describe("clients that leave", () => {
  test.each(ways)("in the middle of a stream: %s SDK, %s vendor", async (client, upstream) => {
    const { begun, rest } = splitAfterText(streamOf(upstream), " aus dem");
    const held = gate();
    lab.vendors[upstream].script(sse([...begun, held.opened, ...rest]));
    const abort = new AbortController();
    const asking = ask(client, upstream, "stream", { signal: abort.signal, onText: () => abort.abort() });
    // An SDK ends its iterator or throws its own abort error; both are its business.
    const left = asking.catch((error: unknown) => String(error));
    const call = await lab.vendors[upstream].upstream.called();
    await left;
    await within(call.whenAborted, "the abort reaching the vendor");
    expect([call.aborted, call.finished]).toEqual([true, false]);
    expect(callsOf(upstream).length).toBe(1);
    held.open();
  });

  test.each(waysAndModes)("before the first byte: %s SDK, %s vendor, %s", async (client, upstream, mode) => {
    lab.vendors[upstream].script(neverAnswer());
    const abort = new AbortController();
    const asking = errorOf(client, ask(client, upstream, mode, { signal: abort.signal, maxRetries: 2 }));
    const call = await lab.vendors[upstream].upstream.called();
    expect(call.aborted).toBe(false);
    abort.abort();
    expect((await asking).constructor.name).toBe("APIUserAbortError");
    await within(call.whenAborted, "the abort reaching the vendor");
    expect(callsOf(upstream).length).toBe(1);
  });
});

describe("requests that are refused never reach a vendor", () => {
  const refusals: { name: string; options: AskOptions; seen: string; code: string }[] = [
    {
      name: "no key of ours",
      options: { apiKey: "sk-nothing-of-ours" },
      seen: "AuthenticationError",
      code: "invalid_api_key",
    },
    { name: "an unknown model", options: { model: "lab/none" }, seen: "NotFoundError", code: "model_not_found" },
    {
      name: "a model without prefix",
      options: { model: "chat-plain" },
      seen: "NotFoundError",
      code: "model_not_found",
    },
  ];
  const rows = refusals.flatMap((row) =>
    waysAndModes.map(([client, upstream, mode]) => [row.name, client, upstream, mode, row] as const),
  );
  test.each(rows)("%s: %s SDK, %s vendor, %s", async (_name, client, upstream, mode, row) => {
    const error = await errorOf(client, ask(client, upstream, mode, { ...row.options, maxRetries: 2 }));
    expect([error.constructor.name, codeIn(client, error)]).toEqual([row.seen, row.code]);
    for (const dialect of DIALECTS) expect(callsOf(dialect)).toEqual([]);
  });

  test.each(DIALECTS)("a malformed request to a model of a %s vendor names the field", async (upstream) => {
    const model = lab.model(upstream, "plain");
    const noMessages = await errorOf("openai", lab.openai().chat.completions.create({ model, messages: [] }));
    expect([noMessages.constructor.name, noMessages instanceof OpenAI.APIError && noMessages.param]).toEqual([
      "BadRequestError",
      "messages",
    ]);
    const noCeiling = { model, messages } as unknown as Anthropic.MessageCreateParamsNonStreaming;
    const withoutCeiling = await errorOf("anthropic", lab.anthropic().messages.create(noCeiling));
    expect(withoutCeiling.constructor.name).toBe("BadRequestError");
    expect(withoutCeiling.message).toContain("max_tokens");
    for (const dialect of DIALECTS) expect(callsOf(dialect)).toEqual([]);
  });
});
