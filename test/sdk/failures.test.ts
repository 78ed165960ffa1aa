import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { json, neverAnswer, sse } from "../support/upstream.ts";
import { gate, within } from "../support/wait.ts";
import {
  BLOCKING_SECONDS,
  CLIENTS,
  type ClientName,
  DIALECTS,
  type DialectName,
  type Lab,
  startLab,
  upstreamModel,
  WIRES,
} from "./lab.ts";
import { MODES, type Mode } from "./outcomes.ts";
import { GREETING, splitAfterText, THREE_TURNS } from "./replies.ts";
import type { VendorFault } from "./vendors/wire.ts";

setDefaultTimeout(60_000);

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
afterEach(async () => {
  expect(lab.reset()).toEqual([]);
  // A vendor that fails again and again is left alone for a while: each case is the first one.
  await lab.calm();
});

const ways = CLIENTS.flatMap((client) => DIALECTS.map((upstream) => [client, upstream] as const));
const waysAndModes = ways.flatMap(([client, upstream]) => MODES.map((mode) => [client, upstream, mode] as const));

type AskOptions = { apiKey?: string; maxRetries?: number; signal?: AbortSignal; model?: string; onText?: () => void };
type Asking = { model: string; ending: { signal?: AbortSignal }; take(piece: string | null | undefined): void };

const GREETED = "Grüße aus dem Labor 🙂!";
const messages = [{ role: "user" as const, content: "Hello" }];

async function askChat({ chat: { completions } }: OpenAI, mode: Mode, { model, ending, take }: Asking) {
  if (mode === "blocking") {
    take((await completions.create({ model, messages }, ending)).choices[0]?.message.content);
    return;
  }
  const stream = await completions.create({ model, messages, stream: true }, ending);
  for await (const chunk of stream) take(chunk.choices[0]?.delta.content);
}

async function askResponses({ responses }: OpenAI, mode: Mode, { model, ending, take }: Asking) {
  if (mode === "blocking") {
    take((await responses.create({ model, input: "Hello" }, ending)).output_text);
    return;
  }
  const stream = await responses.create({ model, input: "Hello", stream: true }, ending);
  for await (const event of stream) if (event.type === "response.output_text.delta") take(event.delta);
}

async function askMessages({ messages: api }: Anthropic, mode: Mode, { model, ending, take }: Asking) {
  const params = { model, messages, max_tokens: 64 };
  if (mode === "blocking") {
    for (const block of (await api.create(params, ending)).content) take(block.type === "text" ? block.text : "");
    return;
  }
  for await (const event of await api.create({ ...params, stream: true }, ending)) {
    if (event.type === "content_block_delta" && event.delta.type === "text_delta") take(event.delta.text);
  }
}

/** Asks and reads to the end, event by event as programs do that use no accumulator; throws what the SDK throws. Returns the text. */
async function ask(client: ClientName, upstream: DialectName, mode: Mode, options: AskOptions = {}): Promise<string> {
  const { signal, apiKey, maxRetries, onText } = options;
  const settings = { ...(apiKey !== undefined && { apiKey }), ...(maxRetries !== undefined && { maxRetries }) };
  let text = "";
  const asking: Asking = {
    model: options.model ?? lab.model(upstream, "plain"),
    ending: signal ? { signal } : {},
    take(piece) {
      if (!piece) return;
      text += piece;
      onText?.();
    },
  };
  if (client === "chat") await askChat(lab.openai(settings), mode, asking);
  else if (client === "responses") await askResponses(lab.openai(settings), mode, asking);
  else await askMessages(lab.anthropic(settings), mode, asking);
  return text;
}

type SdkError = InstanceType<typeof OpenAI.APIError> | InstanceType<typeof Anthropic.APIError>;

/** The error an SDK throws; fails when it throws none, or something that is no error of its own. */
async function errorOf(client: ClientName, asking: Promise<unknown>): Promise<SdkError> {
  const thrown: unknown = await asking.then(
    (text) => new Error(`nothing was thrown; the text is ${JSON.stringify(text)}`),
    (error: unknown) => error,
  );
  const base = client === "messages" ? Anthropic.APIError : OpenAI.APIError;
  if (!(thrown instanceof base)) throw thrown;
  return thrown;
}

const callsOf = (upstream: DialectName) => lab.vendors[upstream].upstream.calls;

/** An error of the vendor, and what the client is told: the SDK's class, the status, the stable code (contract 6). */
const VENDOR_ERRORS: {
  fault: VendorFault;
  code: string;
  status: number;
  /** Where the messages dialect shows another status. */
  messagesStatus?: number;
  name: string;
  messagesName?: string;
  retry: "true" | "false" | null;
}[] = [
  { fault: "refused", code: "invalid_request", status: 400, name: "BadRequestError", retry: null },
  { fault: "key", code: "upstream_auth", status: 502, name: "InternalServerError", retry: "false" },
  { fault: "limit", code: "rate_limit_exceeded", status: 429, name: "RateLimitError", retry: "true" },
  { fault: "fault", code: "upstream_error", status: 502, name: "InternalServerError", retry: "true" },
  {
    fault: "overloaded",
    code: "upstream_overloaded",
    status: 503,
    messagesStatus: 529,
    name: "InternalServerError",
    messagesName: "OverloadedError",
    retry: "true",
  },
];

/** The code stands where each dialect's own vendor would put it. */
function codeIn(client: ClientName, error: SdkError): unknown {
  if (error instanceof OpenAI.APIError) return error.code;
  const body = error.error as { error?: { code?: unknown } } | undefined;
  return client === "messages" ? body?.error?.code : undefined;
}

describe("errors of the vendor", () => {
  // An overloaded vendor is asked once more after a real second: each vendor and each client once, and not all pairs.
  const rows = VENDOR_ERRORS.flatMap((row) =>
    waysAndModes
      .filter(([client, upstream, mode]) => {
        return row.fault !== "overloaded" || (mode === "stream" && (client === "messages" || upstream === "chat"));
      })
      .map(([client, upstream, mode]) => [row.fault, client, upstream, mode, row] as const),
  );
  test.each(rows)("%s: %s SDK, %s vendor, %s", async (fault, client, upstream, mode, row) => {
    const secret = `sk-lab-${"x".repeat(24)}`;
    const { status, body } = WIRES[upstream].error(fault, `It went wrong with ${secret}.`);
    lab.vendors[upstream].script(json(body, { status, headers: { "retry-after": "7" } }));
    const error = await errorOf(client, ask(client, upstream, mode));
    const seen = client === "messages" ? [row.messagesStatus ?? row.status, row.messagesName ?? row.name] : undefined;
    expect([error.status, error.constructor.name]).toEqual(seen ?? [row.status, row.name]);
    expect(codeIn(client, error)).toBe(row.code);
    expect(JSON.stringify(error.error)).not.toContain(secret);
    const { headers } = error;
    expect(headers?.get("retry-after") ?? null).toBe(fault === "limit" || fault === "overloaded" ? "7" : null);
    if (row.retry) expect(headers?.get("x-should-retry")).toBe(row.retry);
    expect(headers?.get(client === "messages" ? "request-id" : "x-request-id")).toMatch(/^req_/);
    expect(callsOf(upstream).length).toBe(fault === "overloaded" ? 2 : 1);
  });

  test.each(ways)("x-should-retry: false is honoured: %s SDK, %s vendor", async (client, upstream) => {
    const { status, body } = WIRES[upstream].error("key", "no");
    lab.vendors[upstream].script(json(body, { status }));
    await errorOf(client, ask(client, upstream, "stream", { maxRetries: 2 }));
    expect(callsOf(upstream).length).toBe(1);
  });

  test("what a retry can mend is retried, and mended, by every SDK with every vendor", async () => {
    // Side by side: an SDK waits half a second before it tries again.
    for (const client of CLIENTS) {
      await Promise.all(
        DIALECTS.map(async (upstream) => {
          const vendor = lab.vendors[upstream];
          vendor.reset();
          vendor.play(GREETING);
          const { status, body } = WIRES[upstream].error("fault", "no");
          vendor.once(json(body, { status, headers: { "retry-after-ms": "1" } }));
          expect(await ask(client, upstream, "blocking", { maxRetries: 2 })).toBe(GREETED);
          expect(callsOf(upstream).length).toBe(2);
        }),
      );
    }
  });

  test("a blocking request that takes too long is one attempt, and the vendor is let go", async () => {
    for (const upstream of DIALECTS) lab.vendors[upstream].script(neverAnswer());
    await Promise.all(
      ways.map(async ([client, upstream]) => {
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

const recordsOf = (upstream: DialectName) => WIRES[upstream].records(GREETING, upstreamModel(upstream, "plain"));

describe("streams that break", () => {
  const faults = ["end", "cut", "reset"] as const;
  const rows = faults.flatMap((finish) => ways.map(([client, upstream]) => [finish, client, upstream] as const));
  test.each(rows)("a stream without terminator (%s) throws: %s SDK, %s vendor", async (finish, client, upstream) => {
    const { begun } = splitAfterText(recordsOf(upstream), " aus dem");
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

  /** Records at the end of a stream without which it has ended all the same, and the one that ends it. */
  const CLOSING: Record<DialectName, number> = { chat: 3, messages: 1, responses: 1, gemini: 1 };

  test.each(ways)("cut behind any of its records a stream throws: %s SDK, %s vendor", async (client, upstream) => {
    const [first] = THREE_TURNS;
    if (!first) throw new Error("no turn");
    const records = WIRES[upstream].records(first, upstreamModel(upstream, "plain"));
    const cuts = records.slice(CLOSING[upstream]).map((_record, at) => records.slice(0, at + 1));
    for (const cut of cuts) {
      lab.vendors[upstream].script(sse(cut));
      await errorOf(client, ask(client, upstream, "stream"));
    }
    expect(callsOf(upstream).length).toBe(cuts.length);
    expect(cuts.length).toBeGreaterThan(2);
    lab.vendors[upstream].script(sse(records));
    await ask(client, upstream, "stream");
  });

  test.each(ways)("a stream without a word throws: %s SDK, %s vendor", async (client, upstream) => {
    lab.vendors[upstream].script(sse([": nothing follows\n\n"]));
    await errorOf(client, ask(client, upstream, "stream"));
    expect(callsOf(upstream).length).toBe(1);
  });

  test.each(ways)("the accumulators throw too: %s SDK, %s vendor", async (client, upstream) => {
    const { begun } = splitAfterText(recordsOf(upstream), " aus dem");
    lab.vendors[upstream].script(sse(begun));
    const model = lab.model(upstream, "plain");
    const finals: Record<ClientName, () => Promise<unknown>> = {
      chat: () => lab.openai().chat.completions.stream({ model, messages }).finalChatCompletion(),
      responses: () => lab.openai().responses.stream({ model, input: "Hello" }).finalResponse(),
      messages: () => lab.anthropic().messages.stream({ model, messages, max_tokens: 64 }).finalMessage(),
    };
    await errorOf(client, finals[client]());
  });

  test.each(ways)("an error in the stream is an error, not an end: %s SDK, %s vendor", async (client, upstream) => {
    const { begun } = splitAfterText(recordsOf(upstream), " aus dem");
    const seen = gate();
    lab.vendors[upstream].script(sse([...begun, seen.opened, WIRES[upstream].brokenRecord]));
    let text = "";
    const asking = ask(client, upstream, "stream", { maxRetries: 2, onText: () => seen.open() }).then((whole) => {
      text = whole;
    });
    const error = await errorOf(client, asking);
    expect(JSON.stringify(error.error)).toContain("overload");
    expect([text, callsOf(upstream).length]).toEqual(["", 1]);
  });

  // Each of them waits a real second before the vendor is asked once more: the four vendors at the same time.
  test.each(CLIENTS)("an error as the first record is an answer with a status: %s SDK", async (client) => {
    const status = client === "messages" ? 529 : 503;
    await Promise.all(
      DIALECTS.map(async (upstream) => {
        lab.vendors[upstream].script(sse([WIRES[upstream].brokenRecord]));
        const error = await errorOf(client, ask(client, upstream, "stream"));
        expect([upstream, error.status, codeIn(client, error)]).toEqual([upstream, status, "upstream_overloaded"]);
      }),
    );
  });

  test.each(CLIENTS)(
    "a chat vendor that leaves out [DONE] after its finish reason has ended: %s SDK",
    async (client) => {
      const records = recordsOf("chat").filter((record) => !record.includes("[DONE]"));
      lab.vendors.chat.script(sse(records));
      expect(await ask(client, "chat", "stream")).toBe(GREETED);
    },
  );

  test.each(CLIENTS)("a response that failed on the way is an error: %s SDK", async (client) => {
    const records = recordsOf("responses").slice(0, -1);
    const error = { code: "server_error", message: "It fell over." };
    const response = { id: "resp_1", object: "response", status: "failed", error, output: [], usage: null };
    const failed = { type: "response.failed", sequence_number: records.length, response };
    lab.vendors.responses.script(sse([...records, `event: response.failed\ndata: ${JSON.stringify(failed)}\n\n`]));
    const thrown = await errorOf(client, ask(client, "responses", "stream"));
    expect(codeIn(client, thrown)).toBe("upstream_error");
  });
});

describe("clients that leave", () => {
  test.each(ways)("in the middle of a stream: %s SDK, %s vendor", async (client, upstream) => {
    const { begun, rest } = splitAfterText(recordsOf(upstream), " aus dem");
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
    CLIENTS.flatMap((client) => MODES.map((mode) => [row.name, client, mode, row] as const)),
  );
  test.each(rows)("%s: %s SDK, %s", async (_name, client, mode, row) => {
    const error = await errorOf(client, ask(client, "chat", mode, { ...row.options, maxRetries: 2 }));
    expect([error.constructor.name, codeIn(client, error)]).toEqual([row.seen, row.code]);
    for (const dialect of DIALECTS) expect(callsOf(dialect)).toEqual([]);
  });

  test.each(DIALECTS)("a malformed request to a model of a %s vendor names the field", async (upstream) => {
    const model = lab.model(upstream, "plain");
    const wrong: [ClientName, Promise<unknown>, string][] = [
      ["chat", lab.openai().chat.completions.create({ model, messages: [] }), "messages"],
      ["responses", lab.openai().responses.create({ model, input: 5 as unknown as string }), "input"],
    ];
    for (const [client, asking, param] of wrong) {
      const error = await errorOf(client, asking);
      expect([error.constructor.name, error instanceof OpenAI.APIError && error.param]).toEqual([
        "BadRequestError",
        param,
      ]);
    }
    const noCeiling = { model, messages } as unknown as Anthropic.MessageCreateParamsNonStreaming;
    const withoutCeiling = await errorOf("messages", lab.anthropic().messages.create(noCeiling));
    expect(withoutCeiling.constructor.name).toBe("BadRequestError");
    expect(withoutCeiling.message).toContain("max_tokens");
    for (const dialect of DIALECTS) expect(callsOf(dialect)).toEqual([]);
  });
});
