import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type DialectName, UPSTREAM_DIALECTS, type UpstreamDialectName } from "../../src/dialects/dialect.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { type Answer, json, sse, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const ASKED = 140_001;
const MAXIMUM = 128_000;
/** Wordings of four vendors, each in its dialect's shape. */
const WORDS: Record<UpstreamDialectName, Wire> = {
  chat: {
    error: {
      message: `This model's maximum context length is ${MAXIMUM} tokens. However, your messages resulted in ${ASKED} tokens.`,
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    },
  },
  messages: {
    type: "error",
    error: { type: "invalid_request_error", message: `prompt is too long: ${ASKED} tokens > ${MAXIMUM} maximum` },
  },
  responses: {
    error: {
      message: `Input tokens exceed the configured limit of ${MAXIMUM} tokens. Your messages resulted in ${ASKED} tokens.`,
      type: "invalid_request_error",
      param: "input",
      code: "context_length_exceeded",
    },
  },
  gemini: {
    error: {
      code: 400,
      message: `The input token count (${ASKED}) exceeds the maximum number of tokens allowed (${MAXIMUM}).`,
      status: "INVALID_ARGUMENT",
    },
  },
};

/** Where the vendor says it: by a status, in a 200's body, as the first record of a stream, or bare where its records should be. */
const PLACES: Record<string, (from: UpstreamDialectName) => Answer> = {
  ...Object.fromEntries(
    [400, 413, 422, 500].map((status) => [
      `status ${status}`,
      (from: UpstreamDialectName) => json(WORDS[from], { status }),
    ]),
  ),
  "a 200's body": (from) => json(WORDS[from]),
  "a stream's first record": (from) => sse(recordOf(from)),
  "a stream that is no more than an object": (from) => sse(JSON.stringify(WORDS[from])),
};

function recordOf(from: UpstreamDialectName): string {
  const named = from === "messages" || from === "responses" ? "event: error\n" : "";
  return `${named}data: ${JSON.stringify(from === "responses" ? { type: "error", ...WORDS.responses } : WORDS[from])}\n\n`;
}

const PATHS: Record<UpstreamDialectName, string[]> = {
  chat: ["/v1/chat/completions"],
  messages: ["/v1/messages"],
  responses: ["/v1/responses"],
  gemini: ["/v1/models/m:generateContent", "/v1/models/m:streamGenerateContent"],
};

let upstream: Upstream;
let gateway: TestApp;

beforeAll(async () => {
  upstream = startUpstream();
  const vendors = UPSTREAM_DIALECTS.map(
    (dialect): Vendor => ({ ...vendorAt(upstream, dialect === "gemini" ? "chat" : dialect, dialect), dialect }),
  );
  const spare = vendorAt(upstream, "chat", "spare");
  gateway = await startApp({
    vendors: [...vendors, spare],
    models: UPSTREAM_DIALECTS.map((dialect) => ({
      id: `lab/${dialect}`,
      pricing: "free" as const,
      // The other route is never taken: the request is at fault.
      routes: [
        { vendor: dialect, model: "m" },
        { vendor: "spare", model: "m" },
      ],
    })),
  });
});
afterEach(() => {
  expect(upstream.unexpected).toEqual([]);
  expect(gateway.rows()).toEqual([]);
  upstream.reset();
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

const ASK: Record<DialectName, (model: string, stream: boolean) => [path: string, body: Wire]> = {
  chat: (model, stream) => ["/v1/chat/completions", { model, stream, messages: [{ role: "user", content: "Hi" }] }],
  messages: (model, stream) => [
    "/v1/messages",
    { model, stream, max_tokens: 9, messages: [{ role: "user", content: "Hi" }] },
  ],
  responses: (model, stream) => ["/v1/responses", { model, stream, input: "Hi" }],
};

for (const client of Object.keys(ASK) as DialectName[]) {
  describe(`${client} client`, () => {
    for (const from of UPSTREAM_DIALECTS) {
      for (const [place, answer] of Object.entries(PLACES)) {
        for (const stream of [false, true]) {
          test(`${from} vendor, ${place}, ${stream ? "streamed" : "blocking"}`, async () => {
            for (const path of PATHS[from]) upstream.always(path, answer(from));
            const [path, body] = ASK[client](`lab/${from}`, stream);
            const response = await gateway.post(path, body);
            const told = (await response.json()) as { error: Wire };
            expect([response.status, response.headers.get("x-should-retry")]).toEqual([400, null]);
            expect(told.error).toMatchObject({ type: "invalid_request_error", code: "context_length_exceeded" });
            expect(told.error["message"]).toStartWith(`prompt is too long: ${ASKED} tokens > ${MAXIMUM} maximum`);
            // As OpenAI says it, both figures: what agents for its dialect read them from.
            expect(told.error["message"]).toContain(
              `maximum context length is ${MAXIMUM} tokens. However, you requested ${ASKED} tokens.`,
            );
            expect(upstream.calls).toHaveLength(1);
          });
        }
      }
    }
  });
}
