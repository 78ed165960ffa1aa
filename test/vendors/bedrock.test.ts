import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { EventStreamCodec, type Message } from "@smithy/eventstream-codec";
import fc from "fast-check";
import { GatewayError } from "../../src/canon/errors.ts";
import type { Orders } from "../../src/canon/intent.ts";
import { messages } from "../../src/dialects/messages/index.ts";
import { Abort } from "../../src/lib/abort.ts";
import { signAws } from "../../src/vendors/auth/sigv4.ts";
import { BrokenFrame, EventStreamReader, unframe } from "../../src/vendors/event-stream.ts";
import { fromEnvironment } from "../../src/vendors/from-environment.ts";
import { generationPath } from "../../src/vendors/outgoing.ts";
import { send } from "../../src/vendors/send.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { startApp } from "../support/app.ts";
import { json, startUpstream } from "../support/upstream.ts";
import { leastWork, within } from "../support/wait.ts";

const upstream = startUpstream();
afterAll(() => upstream.close());
afterEach(() => {
  expect(upstream.unexpected).toEqual([]);
  upstream.reset();
});

const SIGNED = {
  AWS_ACCESS_KEY_ID: "AKIDEXAMPLE",
  AWS_SECRET_ACCESS_KEY: "secret-of-the-test",
  AWS_REGION: "eu-central-1",
};
const MODEL = "anthropic.claude-test-v1:0";

/** The registry's own row, led to the scripted vendor. */
function vendorOf(environment: Record<string, string>): Vendor {
  const vendor = fromEnvironment(environment).find((each) => each.id === "bedrock");
  if (!vendor) throw new Error("bedrock is not on");
  return { ...vendor, baseUrl: upstream.url };
}

const encoder = new TextEncoder();
const codec = new EventStreamCodec(
  (input) => (typeof input === "string" ? input : new TextDecoder().decode(input)),
  (input) => encoder.encode(input),
);

const header = (value: string) => ({ type: "string" as const, value });
const frame = (headers: Record<string, string>, body: string): Uint8Array => {
  const message: Message = {
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, header(value)])),
    body: encoder.encode(body),
  };
  return codec.encode(message);
};
const chunk = (event: unknown): Uint8Array =>
  frame(
    { ":event-type": "chunk", ":content-type": "application/json", ":message-type": "event" },
    JSON.stringify({ bytes: Buffer.from(JSON.stringify(event)).toString("base64"), p: "abcdefgh" }),
  );
const exception = (type: string, message: string): Uint8Array =>
  frame({ ":exception-type": type, ":message-type": "exception" }, JSON.stringify({ message }));

const EVENTS = [
  {
    type: "message_start",
    message: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      content: [],
      model: "m",
      usage: { input_tokens: 3, output_tokens: 1 },
    },
  },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Grüße 😀" } },
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 5 } },
  { type: "message_stop", "amazon-bedrock-invocationMetrics": { inputTokenCount: 3 } },
];
const sseOf = (events: readonly { type: string }[]) =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
/** Bytes that a connection may bring at a time. */
const PIECE = 1_024;
const bytesOf = (...frames: Uint8Array[]) => new Uint8Array(Buffer.concat(frames));

describe("SigV4", () => {
  const vendor: Vendor = {
    ...vendorOf(SIGNED),
    apiKey: "AKIDEXAMPLE",
    credentials: { secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" },
    region: "us-east-1",
  };
  const moment = { service: "service", datetime: "20150830T123600Z" };
  const request = (path: string, headers: Record<string, string> = {}, body = "") => ({
    url: `https://example.amazonaws.com${path}`,
    headers,
    body,
    signal: new AbortController().signal,
  });
  const signatureOf = (headers: Record<string, string>) => headers["authorization"]?.match(/Signature=(\w+)$/)?.[1];

  // Of the vendor's published test suite for signature version 4.
  test("get-vanilla", async () => {
    expect(await signAws(vendor, "GET", request("/"), moment)).toEqual({
      authorization:
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
      "x-amz-date": "20150830T123600Z",
    });
  });

  test("post-vanilla", async () => {
    expect(signatureOf(await signAws(vendor, "POST", request("/"), moment))).toBe(
      "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    );
  });

  test("body, path, secret, region and session token all count", async () => {
    const body = '{"a":1}';
    const sign = async (change: Partial<Vendor> = {}, path = "/model/a%3Ab/invoke", text = body) =>
      signatureOf(await signAws({ ...vendor, ...change }, "POST", request(path, {}, text), moment));
    const signatures = await Promise.all([
      sign(),
      sign({ region: "eu-west-1" }),
      sign({ credentials: { secretAccessKey: "other" } }),
      sign({ credentials: { ...vendor.credentials, sessionToken: "token" } }),
      sign({}, "/model/a/invoke"),
      sign({}, undefined, '{"a":2}'),
    ]);
    expect(new Set(signatures).size).toBe(signatures.length);
    expect(await sign()).toBe(signatures[0]);
  });

  test("a session token goes along; what is missing is told", async () => {
    const credentials = { ...vendor.credentials, sessionToken: "token-1" };
    const headers = await signAws({ ...vendor, credentials }, "POST", request("/"), moment);
    expect(headers["x-amz-security-token"]).toBe("token-1");
    expect(headers["authorization"]).toContain("SignedHeaders=host;x-amz-date;x-amz-security-token");
    const { region: _region, ...nowhere } = vendor;
    for (const each of [nowhere, { ...vendor, apiKey: "" }, { ...vendor, credentials: {} }]) {
      const failure = await signAws(each, "POST", request("/"), moment).catch((thrown: unknown) => thrown);
      expect(failure).toBeInstanceOf(GatewayError);
      expect((failure as GatewayError).code).toBe("vendor_not_configured");
    }
  });
});

describe("event-stream framing", () => {
  test("becomes the SSE that the dialect reads, wherever the bytes are cut", () => {
    const bytes = bytesOf(...EVENTS.map(chunk));
    const read = (cuts: readonly number[]) => {
      const reader = new EventStreamReader();
      const places = [0, ...cuts, bytes.length];
      return places
        .slice(1)
        .map((place, at) => reader.push(bytes.subarray(places[at], place)))
        .join("");
    };
    expect(read([])).toBe(sseOf(EVENTS));
    expect(read(Array.from(bytes.keys()))).toBe(sseOf(EVENTS));
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 10 }), (cuts) => {
        expect(read(cuts.sort((one, other) => one - other))).toBe(sseOf(EVENTS));
      }),
    );
  });

  test.each([
    ["throttlingException", "rate_limit_error"],
    ["serviceUnavailableException", "overloaded_error"],
    ["validationException", "invalid_request_error"],
    ["modelStreamErrorException", "api_error"],
    ["somethingNewException", "api_error"],
  ])("%s is the dialect's %s", (type, wanted) => {
    expect(new EventStreamReader().push(exception(type, "told"))).toBe(
      sseOf([{ type: "error", error: { type: wanted, message: "told" } } as { type: string }]),
    );
  });

  test("an error of the framing itself is told by its headers", () => {
    const headers = { ":message-type": "error", ":error-code": "InternalError", ":error-message": "it broke" };
    expect(new EventStreamReader().push(frame(headers, ""))).toContain('"message":"it broke"');
  });

  test("bytes that are no frames are refused: a wrong checksum, an impossible length, no JSON", () => {
    const damaged = chunk(EVENTS[0]);
    damaged[40] = (damaged[40] ?? 0) ^ 1;
    expect(() => new EventStreamReader().push(damaged)).toThrow(/checksum/i);
    expect(() => new EventStreamReader().push(encoder.encode("<html><body>"))).toThrow(BrokenFrame);
    expect(() => new EventStreamReader().push(new Uint8Array(8))).toThrow(BrokenFrame);
    expect(() => new EventStreamReader().push(frame({ ":message-type": "event" }, "no"))).toThrow(BrokenFrame);
  });

  test("the time of a large message grows with its length, however small the pieces are in which it comes", () => {
    const event = { type: "content_block_delta", text: "a".repeat(2 * 1024 * 1024) };
    const bytes = bytesOf(chunk(event), chunk(EVENTS[0]));
    let read = "";
    const work = () => {
      const reader = new EventStreamReader();
      read = "";
      for (let at = 0; at < bytes.length; at += PIECE) read += reader.push(bytes.subarray(at, at + PIECE));
    };
    // Joined anew with each piece, it would be copied some three thousand times: several GB.
    expect(leastWork(work, 2)).toBeLessThan(500);
    expect(read).toBe(sseOf([event, EVENTS[0]!]));
  });

  test("only answers so framed are touched, and reading stops when nobody reads", async () => {
    const plain = Response.json({ ok: true });
    expect(unframe(plain)).toBe(plain);
    let pulled = 0;
    let cancelled = false;
    const source = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled++;
          controller.enqueue(chunk(EVENTS[2]));
        },
        cancel() {
          cancelled = true;
        },
      },
      { highWaterMark: 0 },
    );
    const headers = { "content-type": "application/vnd.amazon.eventstream", "content-length": "9" };
    const framed = unframe(new Response(source, { headers }));
    expect(framed.headers.get("content-type")).toBe("text/event-stream");
    expect(framed.headers.has("content-length")).toBe(false);
    const reader = framed.body!.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe(sseOf([EVENTS[2]!]));
    await Promise.resolve();
    expect(pulled).toBeLessThanOrEqual(2);
    await reader.cancel();
    expect(cancelled).toBe(true);
  });
});

describe("the row", () => {
  test("is switched on by a token, or by a key with its secret, and always needs a region", () => {
    const on = (environment: Record<string, string>) => fromEnvironment(environment).find(({ id }) => id === "bedrock");
    expect(on(SIGNED)).toMatchObject({
      auth: "sigv4",
      env: "AWS_ACCESS_KEY_ID",
      apiKey: "AKIDEXAMPLE",
      credentials: { secretAccessKey: "secret-of-the-test" },
      region: "eu-central-1",
      baseUrl: "https://bedrock-runtime.eu-central-1.amazonaws.com",
    });
    expect(on({ ...SIGNED, AWS_SESSION_TOKEN: "t" })?.credentials).toEqual({
      secretAccessKey: "secret-of-the-test",
      sessionToken: "t",
    });
    const bearer = on({ ...SIGNED, AWS_BEARER_TOKEN_BEDROCK: "token" });
    expect(bearer).toMatchObject({ auth: "bearer", apiKey: "token", env: "AWS_BEARER_TOKEN_BEDROCK" });
    expect(bearer?.credentials).toBeUndefined();
    for (const name of Object.keys(SIGNED)) expect(on({ ...SIGNED, [name]: " " })).toBeUndefined();
    expect(on({ AWS_BEARER_TOKEN_BEDROCK: "token" })).toBeUndefined();
  });

  test("names model and method in the path, the model as one step", () => {
    const vendor = vendorOf(SIGNED);
    const path = (model: string, stream: boolean) => generationPath(vendor, messages.pathFor, model, stream);
    expect(path(MODEL, false)).toBe("/model/anthropic.claude-test-v1%3A0/invoke");
    expect(path(MODEL, true)).toBe("/model/anthropic.claude-test-v1%3A0/invoke-with-response-stream");
    expect(path("arn:aws:x/../y$&", false)).toBe("/model/arn%3Aaws%3Ax%2F..%2Fy%24%26/invoke");
  });

  test("the body says the version, and neither model nor stream", () => {
    const orders: Orders = {
      upstreamModel: MODEL,
      stream: true,
      reasoning: { kind: "keep" },
      isReasoningActive: false,
      dropSampling: false,
      remove: [],
    };
    const { quirks } = vendorOf(SIGNED);
    expect(messages.amend({ model: "m", stream: true, max_tokens: 5 }, orders, quirks)).toEqual({
      anthropic_version: "bedrock-2023-05-31",
      model: undefined,
      stream: undefined,
    });
    expect(messages.amend({ max_tokens: 5 }, orders, quirks)).toEqual({ anthropic_version: "bedrock-2023-05-31" });
  });
});

test("a request that is given up while it is signed is sent to nobody", async () => {
  const abort = new Abort();
  const reason = new Error("the client left");
  const sent = send(vendorOf(SIGNED), { path: "/invoke", body: "{}", headers: {}, abort, userAgent: "sluice/1.2.3" });
  abort.abort(reason);
  await expect(within(sent, "it is given up")).rejects.toBe(reason);
  expect(upstream.calls).toEqual([]);
});

describe("through the front door", () => {
  const PATH = "/model/anthropic.claude-test-v1%3A0/invoke";
  const STREAM_PATH = `${PATH}-with-response-stream`;
  const body = { model: `bedrock/${MODEL}`, max_tokens: 50, messages: [{ role: "user", content: "Hi" }] };
  const framed = (...frames: Uint8Array[]) => ({
    headers: { "content-type": "application/vnd.amazon.eventstream" },
    parts: [bytesOf(...frames)],
    framing: "chunked" as const,
    finish: "end" as const,
  });

  async function withApp<T>(
    environment: Record<string, string>,
    use: (app: Awaited<ReturnType<typeof startApp>>) => Promise<T>,
  ) {
    const app = await startApp({ vendors: [vendorOf(environment)] });
    try {
      return await use(app);
    } finally {
      await app.stop();
    }
  }

  test("a stream, signed, for a client of the same dialect and of another", async () => {
    await withApp(SIGNED, async (app) => {
      upstream.always(STREAM_PATH, framed(...EVENTS.map(chunk)));
      const same = await (await app.post("/v1/messages", { ...body, stream: true })).text();
      expect(same).toContain("Grüße 😀");
      expect(same).toEndWith("\n\n");
      expect(same).toContain("event: message_stop");
      const other = await (await app.post("/v1/chat/completions", { ...body, stream: true })).text();
      expect(other).toContain("Grüße 😀");
      expect(other).toEndWith("data: [DONE]\n\n");
      for (const call of upstream.calls) {
        expect(call.headers["authorization"]).toStartWith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/");
        expect(call.headers["authorization"]).toContain("/eu-central-1/bedrock/aws4_request");
        expect(call.headers["x-amz-date"]).toMatch(/^\d{8}T\d{6}Z$/);
        expect(call.headers["x-api-key"]).toBeUndefined();
        expect(call.json).toMatchObject({ anthropic_version: "bedrock-2023-05-31", max_tokens: 50 });
        expect(Object.keys(call.json as object)).not.toContain("model");
        expect(Object.keys(call.json as object)).not.toContain("stream");
        expect(call.text).not.toContain("secret-of-the-test");
      }
      expect(upstream.calls).toHaveLength(2);
      expect(app.rows().map((row) => Number(row.output))).toEqual([5, 5]);
    });
  });

  test("Claude is known as at its maker's, by whichever of its names: what a chat client asks of its reasoning is told it", async () => {
    await withApp({ AWS_BEARER_TOKEN_BEDROCK: "token", AWS_REGION: "eu-central-1" }, async (app) => {
      const reply = { ...EVENTS[0]!.message, content: [{ type: "text", text: "Hi" }], stop_reason: "end_turn" };
      for (const [name, wanted] of [
        ["us.anthropic.claude-sonnet-4-5-20250929-v1:0", { thinking: { type: "enabled" } }],
        ["anthropic.claude-opus-4-6-v1", { thinking: { type: "adaptive" }, output_config: { effort: "high" } }],
        ["global.anthropic.claude-opus-4-8", { thinking: { type: "adaptive" }, output_config: { effort: "high" } }],
      ] as const) {
        upstream.always(`/model/${encodeURIComponent(name)}/invoke`, json(reply));
        const asked = { ...body, model: `bedrock/${name}`, max_tokens: 30_000, reasoning_effort: "high" };
        const response = await app.post("/v1/chat/completions", asked);
        expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
        expect(upstream.calls.at(-1)?.json).toMatchObject(wanted);
      }
    });
  });

  test("a model that does not reason unasked is not told not to, which Amazon refuses of some; one that does is", async () => {
    await withApp({ AWS_BEARER_TOKEN_BEDROCK: "token", AWS_REGION: "eu-central-1" }, async (app) => {
      const reply = { ...EVENTS[0]!.message, content: [{ type: "text", text: "Hi" }], stop_reason: "end_turn" };
      const off = { type: "disabled" };
      const told = () => Object.entries(upstream.calls.at(-1)?.json ?? {}).find(([name]) => name === "thinking")?.[1];
      for (const [name, wanted] of [
        ["us.anthropic.claude-opus-4-7", undefined],
        ["anthropic.claude-haiku-4-5-20251001-v1:0", undefined],
        ["anthropic.claude-opus-5", off],
      ] as const) {
        upstream.always(`/model/${encodeURIComponent(name)}/invoke`, json(reply));
        const asked = { ...body, model: `bedrock/${name}`, reasoning_effort: "none" };
        const response = await app.post("/v1/chat/completions", asked);
        expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
        expect(told()).toEqual(wanted);
        // What a client of its own dialect says stays as it is.
        await app.post("/v1/messages", { ...body, max_tokens: 50, model: `bedrock/${name}`, thinking: off });
        expect(told()).toEqual(off);
      }
    });
  });

  test("a clock that is wrong, as a virtual machine's behind its host's sleep, costs a refusal: what is signed then has Amazon's time", async () => {
    let aheadMs = 20 * 60_000;
    upstream.always(PATH, (call) => {
      const theirs = Date.now() + aheadMs;
      const written = call.headers["x-amz-date"]?.replace(/^(....)(..)(..T..)(..)(..Z)$/, "$1-$2-$3:$4:$5");
      const headers = { date: new Date(theirs).toUTCString() };
      if (Math.abs(Date.parse(written ?? "") - theirs) > 5 * 60_000) {
        return json({ message: "Signature expired: … is now earlier than … (… - 5 min.)" }, { status: 403, headers });
      }
      const message = { id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "end_turn" };
      const usage = { input_tokens: 3, output_tokens: 1 };
      return json({ ...message, content: [{ type: "text", text: "ok" }], stop_sequence: null, usage }, { headers });
    });
    await withApp(SIGNED, async (app) => {
      const ask = async () => (await app.post("/v1/messages", body)).status;
      expect(await Promise.all([ask(), ask()])).toEqual([200, 200]);
      expect([await ask(), upstream.calls.length]).toEqual([200, 5]);
      // Set right again, or the other way.
      aheadMs = 0;
      expect([await ask(), await ask(), upstream.calls.length]).toEqual([200, 200, 8]);
      expect(app.rows().map(({ attempts, output }) => [Number(attempts), Number(output)])).toEqual(
        Array(5).fill([1, 1]),
      );
    });
  });

  test("a key that is refused though the clock is right is asked once", async () => {
    const headers = { date: new Date().toUTCString() };
    const refusal = { message: "The security token included in the request is invalid." };
    upstream.always(PATH, json(refusal, { status: 403, headers }));
    await withApp(SIGNED, async (app) => {
      expect((await app.post("/v1/messages", body)).status).toBe(502);
      expect(upstream.calls).toHaveLength(1);
    });
  });

  test("a whole reply, with a bearer token", async () => {
    await withApp({ AWS_BEARER_TOKEN_BEDROCK: "token-1", AWS_REGION: "us-east-1" }, async (app) => {
      const message = {
        id: "msg_1",
        type: "message",
        role: "assistant",
        model: "m",
        content: [{ type: "text", text: "Hi" }],
        stop_reason: "end_turn",
        stop_sequence: null,
        usage: { input_tokens: 3, output_tokens: 1 },
      };
      upstream.answer(PATH, json(message));
      const reply = (await (await app.post("/v1/messages", body)).json()) as Record<string, unknown>;
      expect(reply).toMatchObject({ model: body.model, content: [{ type: "text", text: "Hi" }] });
      const call = await upstream.called();
      expect(call.headers["authorization"]).toBe("Bearer token-1");
      expect(call.headers["x-amz-date"]).toBeUndefined();
    });
  });

  test("an exception, a cut and damaged bytes end a stream as an error, without a terminator", async () => {
    await withApp(SIGNED, async (app) => {
      const begun = EVENTS.slice(0, 3).map(chunk);
      const damaged = chunk(EVENTS[3]);
      damaged[30] = (damaged[30] ?? 0) ^ 1;
      upstream.answer(
        STREAM_PATH,
        framed(...begun, exception("throttlingException", "slow down")),
        framed(...begun),
        framed(...begun, damaged),
      );
      for (const type of ["rate_limit_error", "api_error", "api_error"]) {
        const text = await (await app.post("/v1/messages", { ...body, stream: true })).text();
        expect(text).toContain("Grüße");
        expect(text).toContain("event: error");
        expect(text).toContain(`"type":"${type}"`);
        expect(text).not.toContain("message_stop");
      }
    });
  });

  test("an error answer keeps its meaning", async () => {
    await withApp(SIGNED, async (app) => {
      upstream.answer(
        PATH,
        json({ message: "The security token included in the request is invalid." }, { status: 403 }),
      );
      const response = await app.post("/v1/messages", body);
      expect(response.status).toBe(502);
      expect(await response.text()).toContain("upstream_auth");
    });
  });
});
