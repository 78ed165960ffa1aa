import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { startApp, type TestApp, type TestAppOptions, vendorAt } from "../support/app.ts";
import { CLOCK_BY_HAND, insideOnly, oneProcessOnly } from "../support/black-box-config.ts";
import { type ManualClock, manualClock, settle } from "../support/clock.ts";
import {
  type Answer,
  chatReply,
  json,
  neverAnswer,
  reset,
  sse,
  startUpstream,
  type Upstream,
} from "../support/upstream.ts";
import { gate, until } from "../support/wait.ts";
import { WIRES } from "./wires.ts";

const PATH = "/v1/chat/completions";
const chatWire = WIRES.chat;
const first = startUpstream();
const second = startUpstream();
const apps: TestApp[] = [];

const fault = (status: number, headers: Record<string, string> = {}, type = "x") =>
  json({ error: { message: "No.", type, code: type } }, { status, headers });
const refusing = (status: number, message: string, type: string) => json({ error: { message, type } }, { status });
const keysOf = ({ calls }: Upstream) => calls.map(({ headers }) => headers["authorization"]?.replace("Bearer ", ""));

async function appWith(options: TestAppOptions): Promise<TestApp> {
  const app = await startApp(options);
  app.app.services.pause = () => Promise.resolve();
  apps.push(app);
  return app;
}

const ROUTES = [
  { vendor: "one", model: "big" },
  { vendor: "two", model: "big" },
];
const twoVendors = (clock?: ManualClock, routes = ROUTES) =>
  appWith({
    vendors: [vendorAt(first, "chat", "one"), vendorAt(second, "chat", "two")],
    models: [{ id: "lab/big", pricing: "free", routes }],
    ...(clock && { clock }),
  });
const withKeys = (...keys: string[]): Vendor => ({
  ...vendorAt(first, "chat", "one"),
  ...{ apiKey: keys[0] ?? "", apiKeys: keys },
});
const say = (app: TestApp, content: string, model = "lab/big") =>
  app.post(PATH, { model, messages: [{ role: "user", content }] });
const posting = (app: TestApp, content: string, stream = true) => ({
  method: "POST",
  headers: { authorization: `Bearer ${app.key}`, "content-type": "application/json" },
  body: JSON.stringify({ model: "lab/big", stream, messages: [{ role: "user", content }] }),
});
const stream = async (app: TestApp, content: string) => (await app.call(PATH, posting(app, content))).text();
/** Two vendors, asked so often: the first one fails each time it is asked, the second one answers for it. */
async function askedInVain(times: number, status: number): Promise<{ app: TestApp; clock: ManualClock }> {
  const clock = manualClock();
  const app = await twoVendors(clock);
  first.always(PATH, fault(status));
  second.always(PATH, json(chatReply("two")));
  for (let count = 0; count < times; count++) expect((await say(app, `${count}`)).status).toBe(200);
  return { app, clock };
}
const answers = (upstream: Upstream, ...scripts: Answer[]) => upstream.answer(PATH, ...scripts);

beforeEach(() => {
  first.reset();
  second.reset();
});
afterEach(async () => {
  for (const app of apps.splice(0)) await app.stop();
});
afterAll(() => {
  first.close();
  second.close();
});

describe("several routes", () => {
  test.each([
    [
      400,
      '{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access"}}',
    ],
    [401, '{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'],
  ])(
    "LiteLLM whose own key at a vendor is of no use (%i): the next route, and its other models go on",
    async (status, said) => {
      const words = `litellm.BadRequestError: AnthropicException - ${said}\n\nLiteLLM: model group 'big' failed.`;
      const app = await twoVendors();
      first.always(PATH, ({ json: body }) =>
        (body as { model: string }).model === "big"
          ? refusing(status, words, "invalid_request_error")
          : json(chatReply("one")),
      );
      second.always(PATH, json(chatReply("two")));
      expect((await say(app, "well?")).status).toBe(200);
      expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
      expect((await say(app, "well?", "one/small")).status).toBe(200);
      expect(app.log.filter(({ event, way }) => event === "route-rested" && way === "one#1")).toEqual([]);
    },
  );

  test.each([521, 522, 523, 525, 526])(
    "%i of Cloudflare before a vendor: nothing ran, so that it is asked once more, and where there is another one everybody is served by that",
    async (status) => {
      const told = { title: `Error ${status}`, status, detail: "No way there.", cloudflare_error: true };
      first.always(PATH, json(told, { status }));
      const sole = await say(await twoVendors(), "well?", "one/any");
      expect([sole.status, first.calls.length]).toEqual([503, 2]);
      const app = await twoVendors();
      second.always(PATH, json(chatReply("two")));
      const all = await Promise.all(Array.from({ length: 12 }, (_, at) => say(app, `${at}`)));
      expect(all.map((answer) => answer.status)).toEqual(Array(12).fill(200));
    },
  );

  test.each([502, 503, 529])("%i, and says that asking again is in vain: the next one is asked", async (status) => {
    const app = await twoVendors();
    first.always(PATH, fault(status, { "x-should-retry": "false" }));
    second.always(PATH, json(chatReply("two")));
    expect((await say(app, "well?")).status).toBe(200);
    expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
  });

  test("a breaker opens after five failures: the sixth request does not ask that vendor, and later one finds out", async () => {
    const { app, clock } = await askedInVain(7, 500);
    expect([first.calls.length, second.calls.length]).toEqual([5, 7]);
    expect(app.log.filter(({ event }) => event === "route-opened")).toHaveLength(1);
    first.always(PATH, json(chatReply("one")));
    await clock.advance(37_000);
    expect(await (await say(app, "is it mended?")).text()).toContain("one");
    expect(await (await say(app, "and stays so?")).text()).toContain("one");
    expect([first.calls.length, second.calls.length]).toEqual([7, 7]);
  });

  test("a client that leaves while it finds out keeps nobody from finding out", async () => {
    insideOnly("how many requests are under way");
    const { app, clock } = await askedInVain(5, 500);
    await clock.advance(37_000);
    first.always(PATH, neverAnswer());
    const leaving = new AbortController();
    const left = app.call(PATH, { ...posting(app, "finds out", false), signal: leaving.signal }).catch(() => undefined);
    await first.called(5);
    leaving.abort();
    await left;
    await app.app.running.idle();
    first.always(PATH, json(chatReply("one")));
    expect(await (await say(app, "is it mended?")).text()).toContain("one");
  });

  test("a sole key that is refused rests for ten minutes: the other vendor is asked at once", async () => {
    const { app, clock } = await askedInVain(7, 401);
    expect([first.calls.length, second.calls.length]).toEqual([1, 7]);
    await clock.advance(600_001);
    await say(app, "ten minutes later");
    expect(first.calls).toHaveLength(2);
  });

  test.each([
    ["broken off", sse(chatWire.text("so"))],
    ["torn down", sse(chatWire.text("so"), { finish: "cut" })],
    ["ended by an error", sse(chatWire.text("so") + chatWire.errorRecord("overloaded_error", "No."))],
  ])("a vendor whose streams are all %s is left alone after five, though each of them began", async (_name, answer) => {
    oneProcessOnly("a breaker");
    const app = await twoVendors();
    first.always(PATH, answer);
    second.always(PATH, sse(chatWire.text("two") + chatWire.finish() + chatWire.terminator));
    const said = await Promise.all([stream(app, "a"), stream(app, "b"), stream(app, "c")]);
    for (const content of ["d", "e", "f", "g"]) said.push(await stream(app, content));
    expect(said.map((text) => text.includes("[DONE]"))).toEqual([...Array(5).fill(false), true, true]);
    expect([first.calls.length, second.calls.length]).toEqual([5, 2]);
    expect(app.log.filter(({ event }) => event === "route-opened")).toMatchObject([{ way: "one#1/big" }]);
  });

  test("a vendor whose streams all begin and then say nothing more is left alone after five", async () => {
    const clock = manualClock();
    const app = await twoVendors(clock);
    first.always(PATH, sse(chatWire.text("so"), { finish: "silence" }));
    second.always(PATH, json(chatReply("two")));
    const asked = await Promise.all(Array.from({ length: 5 }, (_, at) => app.call(PATH, posting(app, `${at}`))));
    const said = Promise.allSettled(asked.map((response) => response.text()));
    await until(() => first.calls.length === 5, "all five to be asked");
    await clock.advance(90_000);
    for (const text of await said) expect(text).toMatchObject({ value: expect.stringContaining("error") });
    expect((await say(app, "somebody else?")).status).toBe(200);
    expect([first.calls.length, second.calls.length]).toEqual([5, 1]);
  });

  test("a vendor that breaks off behind the end of an empty reply: the next one may think for as long as any", async () => {
    insideOnly(CLOCK_BY_HAND);
    const clock = manualClock();
    const app = await twoVendors(clock);
    const think = gate();
    first.always(PATH, sse(chatWire.head() + chatWire.finish() + chatWire.errorRecord("server_error", "No.")));
    second.always(PATH, { ...sse(chatWire.text("two") + chatWire.finish()), headersAfter: think.opened });
    const asked = stream(app, "well?");
    await second.called();
    await clock.advance(60_000);
    think.open();
    expect(await asked).toContain("[DONE]");
    expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
  });

  test("a vendor that is limited behind the end of an empty reply is waited for as long as it says", async () => {
    insideOnly(CLOCK_BY_HAND);
    const clock = manualClock();
    const app = await appWith({
      ...{ vendors: [vendorAt(first, "chat", "one")], clock },
      models: [{ id: "lab/big", pricing: "free", routes: ROUTES.slice(0, 1) }],
    });
    delete app.app.services.pause;
    const error = { code: 429, message: "Quota.", status: "RESOURCE_EXHAUSTED", details: [{ retryDelay: "4s" }] };
    const limited = `data: ${JSON.stringify({ error })}\n\n`;
    answers(first, sse(chatWire.head() + chatWire.finish() + limited), sse(chatWire.text("one") + chatWire.finish()));
    const asked = stream(app, "well?");
    await clock.armed(4_000);
    await clock.advance(4_000);
    expect(await asked).toContain("[DONE]");
    expect(first.calls).toHaveLength(2);
  });

  test("streams that end well, or whose client leaves, begin the row of failures anew", async () => {
    oneProcessOnly("a breaker");
    const app = await twoVendors();
    const broken = sse(chatWire.text("so"));
    const sound = sse(chatWire.text("so") + chatWire.finish() + chatWire.terminator);
    for (let round = 0; round < 3; round++) {
      answers(
        first,
        broken,
        broken,
        broken,
        broken,
        round === 1 ? sse(chatWire.text("so"), { finish: "silence" }) : sound,
      );
      for (let count = 0; count < 4; count++) await stream(app, `${count}`);
      if (round !== 1) {
        await stream(app, "well?");
        continue;
      }
      const leaving = new AbortController();
      const left = await app.call(PATH, { ...posting(app, "well?"), signal: leaving.signal });
      await left.body?.getReader().read();
      leaving.abort();
      await first.calls.at(-1)?.whenAborted;
      await until(() => app.app.running.count === 0, "the end of the request");
    }
    expect([first.calls.length, second.calls.length]).toEqual([15, 0]);
  });

  test("a vendor that is found out by a stream is back as soon as its answer begins", async () => {
    const { app, clock } = await askedInVain(5, 500);
    await clock.advance(37_000);
    const held = Promise.withResolvers<void>();
    const rest = chatWire.finish() + chatWire.terminator;
    first.always(PATH, sse([chatWire.text("one"), held.promise, rest]));
    const response = await app.call(PATH, posting(app, "is it mended?"));
    first.always(PATH, json(chatReply("one")));
    expect(await (await say(app, "and now?")).text()).toContain("one");
    held.resolve();
    expect(await response.text()).toContain("[DONE]");
    expect([first.calls.length, second.calls.length]).toEqual([7, 5]);
  });

  test.each([
    ["a blocking request that is cut off", false, 95_000],
    ["a stream of which nothing comes", true, 90_000],
  ])("a vendor that never answers is left alone after five: %s", async (_name, streamed, ms) => {
    const clock = manualClock();
    const app = await twoVendors(clock);
    first.always(PATH, neverAnswer());
    second.always(PATH, json(chatReply("two")));
    const asked = Array.from({ length: 5 }, (_, at) => app.call(PATH, posting(app, `${at}`, streamed)));
    await first.called(4);
    await clock.advance(ms);
    for (const response of await Promise.all(asked)) expect(await response.text()).toContain("error");
    expect((await say(app, "somebody else?")).status).toBe(200);
    expect([first.calls.length, second.calls.length]).toEqual([5, 1]);
  });

  test.each([
    ["half of the request's time", 47_500, ["one#1/big", "two#1/big"]],
    ["less than that", 47_501, ["one#1/big"]],
  ])("a vendor that had %s and did not answer: whether it is left alone", async (_name, ms, opened) => {
    oneProcessOnly("a breaker");
    const clock = manualClock();
    const app = await twoVendors(clock);
    const held = gate();
    first.always(PATH, { ...fault(503), headersAfter: held.opened });
    second.always(PATH, neverAnswer());
    const asked = Array.from({ length: 5 }, (_, at) => say(app, `${at}`));
    await first.called(4);
    await clock.advance(ms);
    held.open();
    await second.called(4);
    await clock.advance(95_000 - ms);
    for (const { status } of await Promise.all(asked)) expect(status).toBe(504);
    expect(app.log.filter(({ event }) => event === "route-opened").map(({ way }) => way)).toEqual(opened);
  });

  test("a vendor that was given less than its time, as its clients left, has done nothing wrong", async () => {
    oneProcessOnly("a breaker");
    const clock = manualClock();
    const app = await twoVendors(clock);
    first.always(PATH, neverAnswer());
    const leaving = new AbortController();
    const { signal } = leaving;
    const asked = Array.from({ length: 5 }, (_, at) => app.call(PATH, { ...posting(app, `${at}`, false), signal }));
    await first.called(4);
    await clock.advance(94_999);
    leaving.abort();
    await Promise.allSettled(asked);
    await app.app.running.idle();
    expect(app.log.filter(({ event }) => event === "route-opened")).toEqual([]);
  });

  test("a vendor that is at work when a blocking request is cut off has done nothing wrong", async () => {
    const clock = manualClock();
    const app = await twoVendors(clock);
    first.always(PATH, { ...json(chatReply("one")), claimedLength: 100_000, finish: "silence" });
    const asked = Array.from({ length: 5 }, (_, at) => say(app, `${at}`));
    await first.called(4);
    await clock.advance(95_000);
    for (const { status } of await Promise.all(asked)) expect(status).toBe(504);
    first.always(PATH, json(chatReply("one")));
    expect((await say(app, "and now?")).status).toBe(200);
    expect([first.calls.length, second.calls.length]).toEqual([6, 0]);
  });

  test("what is wrong with the request opens nothing and goes nowhere else", async () => {
    const app = await twoVendors();
    first.always(PATH, fault(400));
    for (let count = 0; count < 8; count++) expect((await say(app, `${count}`)).status).toBe(400);
    expect([first.calls.length, second.calls.length]).toEqual([8, 0]);
  });

  test.each<[string, number, object, RegExp]>([
    [
      "OpenRouter's moderation",
      403,
      {
        error: {
          code: 403,
          message: "Your input was flagged.",
          metadata: { reasons: ["violence"], flagged_input: "x" },
        },
      },
      /flagged/,
    ],
    [
      "xAI's guidelines",
      403,
      {
        code: "The caller does not have permission to execute the specified operation",
        error:
          "Content violates usage guidelines. Team: 0f3a1b2c-1111-4222-8333-0123456789ab, API key ID: 9f3a1b2c-1111-4222-8333-0123456789ab, Model: m",
      },
      /violates usage guidelines/,
    ],
    [
      "what Huawei's moderation finds",
      403,
      {
        error: {
          code: "ModelArts.81011",
          message: "Input text May contain sensitive information, please try again.",
          type: "Forbidden",
        },
      },
      /May contain sensitive information/,
    ],
    [
      "Cloudflare's guardrails before another vendor, in a list",
      424,
      {
        ...{ success: false, result: [], messages: [], name: "AiGatewayError", httpCode: 424 },
        error: [{ code: 2016, message: "Prompt blocked due to security configurations" }],
      },
      /Prompt blocked due to security configurations/,
    ],
    [
      "StepFun's censorship",
      451,
      {
        error: {
          message: "The content you provided or machine outputted is blocked.",
          type: "censorship_blocked",
        },
      },
      /machine outputted is blocked/,
    ],
    [
      "Alibaba's inspection, inside a 200",
      200,
      {
        error: {
          message: "Output data may contain inappropriate content.",
          type: "data_inspection_failed",
          param: null,
          code: "data_inspection_failed",
        },
      },
      /may contain inappropriate content/,
    ],
    [
      "a policy of Tencent's",
      451,
      {
        error: {
          type: "content_filter_error",
          code: "451001",
          message: "content was filtered by safety policy",
          source: "gateway",
        },
      },
      /filtered by safety policy/,
    ],
    [
      "a conversation that OpenAI's monitoring has stopped",
      403,
      {
        error: {
          message: "Reason: Potentially unintended activity.",
          type: "invalid_request_error",
          param: null,
          code: "misalignment_policy_violation",
        },
      },
      /Potentially unintended activity/,
    ],
    [
      "the same, as its stream tells it, inside a 200",
      200,
      {
        error: {
          message: "Reason: Potentially unintended activity.",
          type: null,
          param: null,
          code: "misalignment_policy_violation",
        },
      },
      /Potentially unintended activity/,
    ],
    [
      "an item that OpenAI has not stored",
      404,
      { error: { message: "Item with id 'rs_1' not found.", type: "invalid_request_error", param: "input" } },
      /Item with id 'rs_1' not found/,
    ],
    [
      "a file that Anthropic has not stored",
      404,
      { type: "error", error: { type: "not_found_error", message: "File not found: file_1" } },
      /File not found: file_1/,
    ],
    ...(
      [
        ["user_profile_billing_not_authorized", 403, "permission_error"],
        ["user_profile_not_billable", 403, "permission_error"],
        ["linked_organization_spend_limit_reached", 402, "billing_error"],
        ["linked_organization_billing_unavailable", 402, "billing_error"],
        ["file_expired", 404, "not_found_error"],
      ] as const
    ).map(([word, status, type]): [string, number, object, RegExp] => [
      `whom or what a request names to Anthropic: ${word}`,
      status,
      { type: "error", error: { type, message: "It cannot be used.", details: { error_code: word } } },
      new RegExp(`It cannot be used\\..*"details":\\{"error_code":"${word}"\\}|"details".*It cannot be used`),
    ]),
    [
      "a file of somebody else's at Google",
      403,
      {
        error: {
          code: 403,
          message: "You do not have permission to access the File abc or it may not exist.",
          status: "PERMISSION_DENIED",
        },
      },
      /permission to access the File abc/,
    ],
    [
      "an image that vLLM cannot fetch",
      500,
      { error: { message: "404, message='Not Found', url='https://files.example/a.png?key=secret'", code: 500 } },
      /404, message='Not Found', url='\[removed\]'/,
    ],
    [
      "a server of tools that does not answer OpenAI",
      424,
      {
        error: {
          message: "Error retrieving tool list from MCP server: 'x'. Http status code: 424 (Failed Dependency)",
          type: "external_connector_error",
          param: "tools",
          code: "http_error",
        },
      },
      /retrieving tool list/,
    ],
  ])(
    "what is refused for what it says or names takes no key and no way from others (%s)",
    async (_name, status, body, words) => {
      const app = await appWith({
        vendors: [withKeys("key-a1", "key-b2"), vendorAt(second, "chat", "two")],
        models: [{ id: "lab/big", pricing: "free", routes: ROUTES }],
      });
      first.answer(PATH, json(body, { status }));
      first.always(PATH, json(chatReply("one")));
      const refused = await say(app, "well?");
      const text = await refused.text();
      expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([400, null]);
      expect(JSON.parse(text)).toMatchObject({ error: { type: "invalid_request_error", code: "invalid_request" } });
      expect(text).toMatch(words);
      // Whose key it was is the operator's alone.
      expect(text).not.toContain("0123456789ab");
      expect((await say(app, "well?")).status).toBe(200);
      expect([new Set(keysOf(first)).size, first.calls.length, second.calls.length]).toEqual([1, 2, 0]);
    },
  );

  test.each([false, true])("all of which fail: the error too says how many were tried (stream: %s)", async (stream) => {
    const app = await twoVendors();
    for (const upstream of [first, second]) upstream.always(PATH, fault(500));
    const ask = { model: "lab/big", stream, messages: [{ role: "user", content: "well?" }] };
    const response = await app.post(PATH, ask);
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([502, "2"]);
  });

  test("by weight, and a conversation stays where it began", async () => {
    const app = await twoVendors(
      undefined,
      ROUTES.map((route) => ({ ...route, weight: 1 })),
    );
    for (const upstream of [first, second]) upstream.always(PATH, json(chatReply("yes")));
    for (let count = 0; count < 40; count++) await say(app, `talk ${count}`);
    expect(first.calls.length).toBeGreaterThan(5);
    expect(second.calls.length).toBeGreaterThan(5);
    first.reset();
    second.reset();
    for (const upstream of [first, second]) upstream.always(PATH, json(chatReply("yes")));
    for (let turn = 0; turn < 6; turn++) {
      const more = Array.from({ length: turn }, (_, at) => [
        { role: "assistant", content: "yes" },
        { role: "user", content: `${at}` },
      ]);
      await app.post(PATH, { model: "lab/big", messages: [{ role: "user", content: "one talk" }, ...more.flat()] });
    }
    expect([first.calls.length, second.calls.length].sort()).toEqual([0, 6]);
  });

  test("another model of the same vendor is tried where the first one is overloaded, not where the vendor is not there", async () => {
    const routes = ["big", "small"].map((model) => ({ vendor: "one", model }));
    const app = await twoVendors(undefined, routes);
    first.always(PATH, ({ text }) => (text.includes('"big"') ? fault(503) : json(chatReply("small"))));
    const response = await say(app, "well?");
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
    expect(first.calls.map(({ json }) => (json as { model: string }).model)).toEqual(["big", "small"]);
    const dead = startUpstream();
    dead.close();
    const gone = await appWith({
      vendors: [vendorAt(dead, "chat", "one")],
      models: [{ id: "lab/big", pricing: "free", routes }],
    });
    const refused = await say(gone, "well?");
    // The same way once more, as where it is the only one.
    expect([refused.status, refused.headers.get("x-sluice-attempts")]).toEqual([502, "2"]);
    expect(gone.log.filter(({ event }) => event === "retry" || event === "failover")).toMatchObject([
      { event: "retry" },
    ]);
  });

  test("another model of an overloaded vendor is asked in its stead for three at a time", async () => {
    oneProcessOnly("a vendor's budget of repeats");
    const routes = ["big", "small"].map((model) => ({ vendor: "one", model }));
    const app = await twoVendors(undefined, routes);
    // Fewer than a breaker opens for.
    const [here, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    first.always(PATH, ({ text }) =>
      text.includes('"big"')
        ? { ...fault(503), headersAfter: here.promise }
        : { ...json(chatReply("small")), headersAfter: held.promise },
    );
    const all = Array.from({ length: 4 }, (_, at) => say(app, `${at}`));
    await first.called(3);
    here.resolve();
    expect((await Promise.any(all)).status).toBe(503);
    await first.called(6);
    held.resolve();
    expect((await Promise.all(all)).map(({ status }) => status).sort()).toEqual([200, 200, 200, 503]);
    expect(first.calls).toHaveLength(7);
  });

  test("a key that was refused is not tried with another model of its vendor", async () => {
    const routes = ["big", "small"].map((model) => ({ vendor: "one", model }));
    const app = await twoVendors(undefined, [...routes, ROUTES[1]!]);
    first.always(PATH, fault(401));
    second.always(PATH, json(chatReply("two")));
    expect((await say(app, "well?")).status).toBe(200);
    expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
    // One that may not have this model may have another one.
    first.reset();
    app.app.services.health.forgetTrouble();
    first.always(PATH, ({ text }) => (text.includes('"big"') ? fault(403) : json(chatReply("small"))));
    expect((await say(app, "well?")).status).toBe(200);
    expect([first.calls.length, second.calls.length]).toEqual([2, 1]);
  });

  test("what one vendor may have done already is not done again by another for everybody: three at a time", async () => {
    oneProcessOnly("a vendor's budget of repeats");
    const app = await twoVendors();
    // Fewer than a breaker opens for.
    const [here, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    first.always(PATH, { ...fault(500), headersAfter: here.promise });
    second.always(PATH, { ...json(chatReply("two")), headersAfter: held.promise });
    const all = Array.from({ length: 4 }, (_, at) => say(app, `${at}`));
    await first.called(3);
    here.resolve();
    expect((await Promise.any(all)).status).toBe(502);
    await second.called(2);
    held.resolve();
    expect((await Promise.all(all)).map(({ status }) => status).sort()).toEqual([200, 200, 200, 502]);
    expect([first.calls.length, second.calls.length]).toEqual([4, 3]);
  });

  test.each([
    ["a fifth that was answered with a 500", fault(500), 12],
    ["a fiftieth of which nobody knows whether it ran", reset(), 3],
  ])("of a vendor's requests of the last ten seconds another does %s again", async (_which, answer, repeated) => {
    oneProcessOnly("a vendor's budget of repeats");
    const app = await twoVendors();
    first.always(PATH, json(chatReply("one")));
    for (let at = 0; at < 60; at++) await say(app, `${at}`);
    const [here, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    first.always(PATH, { ...answer, headersAfter: here.promise });
    second.always(PATH, { ...json(chatReply("two")), headersAfter: held.promise });
    // A fifth of them and of those before, or a fiftieth and three.
    const all = Array.from({ length: 12 }, (_, at) => say(app, `${at}`));
    await first.called(71);
    here.resolve();
    await second.called(repeated - 1);
    held.resolve();
    const told = (await Promise.all(all)).map(({ status }) => status);
    expect(told.filter((status) => status === 200)).toHaveLength(repeated);
    expect([first.calls.length, second.calls.length]).toEqual([72, repeated]);
  });

  test("a place in a vendor's budget is given back once, whatever way follows it", async () => {
    insideOnly("places in a vendor's budget of repeats");
    const clock = manualClock();
    const routes = [...ROUTES, { vendor: "three", model: "small" }];
    const app = await appWith({
      vendors: [vendorAt(first, "chat", "one"), ...["two", "three"].map((id) => vendorAt(second, "chat", id))],
      models: [{ id: "lab/big", pricing: "free", routes }],
      clock,
    });
    first.always(PATH, fault(500));
    second.always(PATH, ({ text }) => (text.includes('"big"') ? fault(503) : json(chatReply("three"))));
    for (let count = 0; count < 3; count++) expect((await say(app, `${count}`)).status).toBe(200);
    const { budget } = app.app.services.health.of("one");
    const places = Array.from({ length: 4 }, () => budget.take(clock.now(), { doubtful: false, elsewhere: true }));
    expect(places).toEqual([true, true, true, false]);
  });

  test("one that may be burdened no more has not been tried: the next request finds out whether it is back", async () => {
    insideOnly("places in a vendor's budget of repeats");
    const { app, clock } = await askedInVain(5, 500);
    const { health } = app.app.services;
    const { budget } = health.of("two");
    const elsewhere = { doubtful: false, elsewhere: true };
    const routes = ["two", "one"].map((vendor) => ({ vendor, model: "big" }));
    await clock.advance(37_000);
    const later = await twoVendors(clock, routes);
    later.app.services.health = health;
    second.always(PATH, fault(500));
    first.always(PATH, json(chatReply("one")));
    for (let place = 0; place < 3; place++) budget.take(clock.now(), elsewhere);
    expect([(await say(later, "no place")).status, first.calls.length]).toEqual([502, 5]);
    for (let place = 0; place < 3; place++) budget.give(elsewhere);
    expect([(await say(later, "a place")).status, first.calls.length]).toEqual([200, 6]);
  });

  test.each([
    ["two that broke down at work: a third is not asked", [500, 500], 502, [1, 1]],
    ["an overloaded one and one that broke down", [503, 500], 200, [1, 2]],
    ["one that broke down and an overloaded one", [500, 503], 200, [1, 2]],
    ["two overloaded ones", [503, 503], 200, [1, 2]],
  ])("after %s", async (_name, [one = 0, two = 0], status, calls) => {
    const app = await twoVendors(undefined, [...ROUTES, { vendor: "two", model: "small" }]);
    first.always(PATH, fault(one));
    second.always(PATH, ({ text }) => (text.includes('"big"') ? fault(two) : json(chatReply("small"))));
    expect((await say(app, "well?")).status).toBe(status);
    expect([first.calls.length, second.calls.length]).toEqual(calls);
  });

  test.each([
    [14_999, 500, 200, 1],
    [15_000, 500, 502, 0],
    [15_000, 503, 200, 1],
  ])("%i ms after the request came a %i: whether another vendor is asked", async (ms, fails, status, asked) => {
    const clock = manualClock();
    const app = await twoVendors(clock);
    const held = Promise.withResolvers<void>();
    first.always(PATH, { ...fault(fails), headersAfter: held.promise });
    second.always(PATH, json(chatReply("two")));
    const response = say(app, "well?");
    await first.called();
    await clock.advance(ms);
    held.resolve();
    expect([(await response).status, second.calls.length]).toEqual([status, asked]);
  });

  test.each([
    ["refused the key, which stays so", fault(401), 429, "20"],
    ["is overloaded, which passes sooner", fault(503), 503, null],
    ["broke down at work that may be paid for", fault(500), 502, null],
    ["broke down so, and says that asking again is in vain", fault(500, { "x-should-retry": "false" }), 502, null],
    ["refused the request, which is the client's to mend", fault(400), 400, null],
  ])("one is limited and the other one %s: what is told", async (_name, fails, status, retryAfter) => {
    const app = await twoVendors();
    first.always(PATH, fault(429, { "retry-after": "20" }));
    second.always(PATH, fails);
    const refused = await say(app, "well?");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([status, retryAfter]);
    expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
  });

  test("a wait that its vendor tells with all the digits of a double is told", async () => {
    const app = await twoVendors();
    for (const vendor of [first, second]) vendor.always(PATH, fault(429, { "retry-after": "19.299999999999997" }));
    const refused = await say(app, "well?");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "20"]);
  });

  const limited = fault(429, { "retry-after": "20" });
  test.each<[string, Answer]>([
    ["breaks off", { ...limited, claimedLength: 100_000, finish: "cut" }],
    ["is torn down", { ...limited, claimedLength: 100_000, finish: "reset" }],
    ["does not come", { ...limited, claimedLength: 100_000, finish: "silence" }],
    ["is not packed as it says", fault(429, { "retry-after": "20", "content-encoding": "gzip" })],
    ["is nothing, and packed", { ...fault(429, { "retry-after": "20", "content-encoding": "gzip" }), parts: [] }],
  ])("a refusal of which what it says %s is what its status tells", async (_name, answer) => {
    const app = await appWith({
      vendors: [vendorAt(first, "chat", "one")],
      models: [{ id: "lab/big", pricing: "free", routes: ROUTES.slice(0, 1) }],
    });
    first.always(PATH, answer);
    const refused = await say(app, "well?");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "20"]);
    expect(first.calls.length).toBe(1);
  });

  test("a vendor that hangs up on everybody does not keep a hundred clients from the other one", async () => {
    const dead = startUpstream();
    dead.close();
    const gone = await appWith({
      vendors: [vendorAt(dead, "chat", "one"), vendorAt(second, "chat", "two")],
      models: [{ id: "lab/big", pricing: "free", routes: ROUTES }],
    });
    second.always(PATH, json(chatReply("two")));
    const replies = await Promise.all(Array.from({ length: 100 }, (_, at) => say(gone, `${at}`)));
    expect(replies.every(({ status }) => status === 200)).toBe(true);
    expect(second.calls).toHaveLength(100);
  });
});

describe("a way along which the request cannot be told", () => {
  const MESSAGES = "/v1/messages";
  const messagesReply = {
    ...{ id: "msg_1", type: "message", role: "assistant", model: "big", stop_reason: "end_turn", stop_sequence: null },
    ...{ content: [{ type: "text", text: "two" }], usage: { input_tokens: 3, output_tokens: 1 } },
  };
  /** Only the first one, of chat, takes it: the dialect of the other one has no place for two answers. */
  const twofold = (app: TestApp, stream = false) =>
    app.post(PATH, { model: "lab/big", stream, n: 2, messages: [{ role: "user", content: "well?" }] });
  const mixed = (routes = ROUTES) =>
    appWith({
      vendors: [vendorAt(first, "chat", "one"), vendorAt(second, "messages", "two")],
      models: [{ id: "lab/big", pricing: "free", routes }],
    });
  const code = async (response: Response) => ((await response.json()) as { error: { code: string } }).error.code;

  test("is passed by, where another one takes it", async () => {
    const app = await mixed(ROUTES.toReversed());
    first.always(PATH, json(chatReply("one")));
    expect((await twofold(app)).status).toBe(200);
    expect([first.calls.length, second.calls.length]).toEqual([1, 0]);
  });

  test.each([
    [404, "No endpoints found that support tool use", ". To learn more, visit: https://openrouter.ai/docs"],
    [404, "No endpoints found matching your data policy (Zero data retention)", ". Configure: https://openrouter.ai"],
    [404, "No endpoints available matching your guardrail restrictions and data policy", ". Configure: https://"],
    [404, "No endpoints found that match your data policy", "."],
    [404, "No allowed providers are available for the selected model.", ""],
    [404, "Only 'text' content type is supported.", ""],
    [500, "image input is not supported", " - hint: if this is unexpected, you may need to provide the mmproj"],
    [500, "tools param requires --jinja flag", ""],
    [400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', ""],
    [400, '"auto" tool choice requires --tool-call-parser to be set', ""],
    [400, "having tools in the request requires --tool-call-parser to be set", ""],
    [400, "registry.ollama.ai/library/gemma2:2b does not support tools", ""],
    [400, "'tools' is not supported", ""],
    [400, "Please launch the api_server with --tool-call-parser if you want to use tools.", ""],
    [400, "Only {'qwen2.5-instruct', 'glm4-chat', ", `${"'qwen3', ".repeat(60)}'qwen3'} support tool calls`],
  ])("is passed by as well where its vendor says so (%d, %s), and is there for others", async (status, words, more) => {
    const refusal = json({ error: { code: status, message: words + more } }, { status });
    first.always(PATH, ({ text }) => (text.includes("tools") ? refusal : json(chatReply("one"))));
    second.always(MESSAGES, json(messagesReply));
    const app = await mixed();
    const tools = [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }];
    const withTools = (asked: TestApp) =>
      asked.post(PATH, { model: "lab/big", tools, messages: [{ role: "user", content: "well?" }] });
    for (let count = 0; count < 6; count++) expect((await withTools(app)).status).toBe(200);
    expect([first.calls.length, second.calls.length]).toEqual([6, 6]);
    expect((await say(app, "well?")).status).toBe(200);
    expect([first.calls.length, second.calls.length]).toEqual([7, 6]);
    const alone = await mixed(ROUTES.slice(0, 1));
    const refused = await withTools(alone);
    const { error } = (await refused.json()) as { error: { code: string; message: string } };
    expect([refused.status, error.code]).toEqual([400, "invalid_request"]);
    expect(error.message).toContain(words);
  });

  test("is no call to a vendor: neither the header nor the receipt nor the figures know of it", async () => {
    const app = await mixed(ROUTES.toReversed());
    first.always(PATH, json(chatReply("one")));
    const answer = await twofold(app);
    expect([answer.status, answer.headers.get("x-sluice-attempts")]).toEqual([200, null]);
    const headers = { authorization: `Bearer ${app.key}` };
    const receipt = await app.call(`/v1/usage/${answer.headers.get("x-request-id")}`, { headers });
    expect(await receipt.json()).toMatchObject({ attempts: 1, attempt_list: [{ vendor: "one", outcome: "served" }] });
    first.always(PATH, fault(500));
    const failed = await twofold(app);
    expect([failed.status, failed.headers.get("x-sluice-attempts")]).toEqual([502, null]);
    first.always(PATH, fault(503));
    const repeated = await twofold(app);
    expect([repeated.status, repeated.headers.get("x-sluice-attempts")]).toEqual([503, "2"]);
    const told = (await (await app.call("/metrics")).text()).split("\n");
    expect(told.filter((line) => /^sluice_upstream_(?:attempts_total\{|in_flight )/.test(line)).toSorted()).toEqual([
      'sluice_upstream_attempts_total{vendor="one",outcome="served"} 1',
      'sluice_upstream_attempts_total{vendor="one",outcome="upstream_error"} 1',
      'sluice_upstream_attempts_total{vendor="one",outcome="upstream_overloaded"} 2',
      "sluice_upstream_in_flight 0",
    ]);
  });

  test("is passed by for a strict client, where the other one loses nothing", async () => {
    const app = await mixed(ROUTES.toReversed());
    first.always(PATH, json(chatReply("one")));
    second.always(MESSAGES, json(messagesReply));
    const ask = { model: "lab/big", seed: 5, messages: [{ role: "user", content: "well?" }] };
    const lax = await app.post(PATH, ask);
    expect([lax.status, lax.headers.get("x-sluice-dropped"), second.calls.length]).toEqual([200, "seed", 1]);
    const strict = await app.post(PATH, ask, { headers: { "x-sluice-strict": "1" } });
    expect([strict.status, strict.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
  });

  test.each([false, true])("makes no fault of the client of another vendor's trouble (stream: %s)", async (stream) => {
    oneProcessOnly("ways that rest");
    const app = await mixed();
    first.always(PATH, fault(503));
    const busy = await twofold(app, stream);
    expect([busy.status, await code(busy)]).toEqual([503, "upstream_overloaded"]);
    // Once more along the only way that there is.
    expect([first.calls.length, second.calls.length]).toEqual([2, 0]);
    first.always(PATH, fault(429, { "retry-after": "30" }));
    const limited = await twofold(app, stream);
    expect([limited.status, limited.headers.get("retry-after")]).toEqual([429, "30"]);
    // It is known to be limited by now, and is not asked.
    const later = await twofold(app, stream);
    expect([later.status, first.calls.length]).toEqual([429, 3]);
    app.app.services.health.forgetTrouble();
    // What may have been done already is not done again, though the only way that is left is this one.
    first.always(PATH, fault(500));
    const broken = await twofold(app, stream);
    expect([broken.status, await code(broken), first.calls.length]).toEqual([502, "upstream_error", 4]);
  });

  test("makes none of a breaker that is open, and closes none", async () => {
    oneProcessOnly("a breaker");
    const app = await mixed();
    first.always(PATH, fault(500));
    second.always(MESSAGES, json(messagesReply));
    for (let count = 0; count < 5; count++) expect((await say(app, `${count}`)).status).toBe(200);
    const probe = await twofold(app);
    expect([probe.status, first.calls.length]).toEqual([502, 6]);
    const refused = await twofold(app);
    expect([refused.status, await code(refused), first.calls.length]).toEqual([503, "upstream_overloaded", 6]);
    second.always(MESSAGES, fault(500));
    for (let count = 0; count < 5; count++) await say(app, `again ${count}`);
    const asked = second.calls.length;
    expect((await twofold(app)).status).toBe(503);
    expect((await say(app, "once more")).status).toBe(502);
    expect((await say(app, "and more")).status).toBe(503);
    expect(second.calls).toHaveLength(asked + 1);
  });

  test("is told of where there is no other one", async () => {
    const app = await appWith({
      vendors: [vendorAt(first, "messages", "one"), vendorAt(second, "messages", "two")],
      models: [{ id: "lab/big", pricing: "free", routes: ROUTES }],
    });
    const response = await twofold(app);
    expect([response.status, first.calls.length, second.calls.length]).toEqual([400, 0, 0]);
    expect(await response.json()).toMatchObject({ error: { code: "invalid_request", param: "n" } });
  });
});

describe("several keys of a vendor", () => {
  const models = [{ id: "one/big", pricing: "free" as const }];
  const talk = (app: TestApp, content: string) => say(app, content, "one/big");

  test("share the conversations, and each conversation keeps its key", async () => {
    // The account's name is another one each time: of thirty, one run in sixty thousand left a key without any.
    const TALKS = 90;
    const app = await appWith({ vendors: [withKeys("key-a1", "key-b2", "key-c3")], models });
    first.always(PATH, json(chatReply("yes")));
    for (let count = 0; count < TALKS; count++) await talk(app, `talk ${count}`);
    const once = keysOf(first);
    expect(new Set(once)).toEqual(new Set(["key-a1", "key-b2", "key-c3"]));
    for (let count = 0; count < TALKS; count++) await talk(app, `talk ${count}`);
    expect(keysOf(first).slice(TALKS)).toEqual(once);
  });

  test.each([
    ["401", fault(401)],
    ["402", fault(402)],
    [
      "xAI's 400 of a wrong key",
      json(
        {
          code: "Client specified an invalid argument",
          error: "Incorrect API key provided: ke***a1. You can obtain an API key from https://console.x.ai.",
        },
        { status: 400 },
      ),
    ],
    [
      "Anthropic's 400 of an organisation that is shut out",
      refusing(400, "This organization has been disabled.", "invalid_request_error"),
    ],
    [
      "Groq's",
      refusing(
        400,
        "Organization has been restricted. Please reach out to support if you believe this was in error.",
        "invalid_request_error",
      ),
    ],
    [
      "Google's 429 of credits that are depleted",
      refusing(429, "Your prepayment credits are depleted. Please go to AI Studio.", "RESOURCE_EXHAUSTED"),
    ],
    ["429 that means no credit", fault(429, {}, "insufficient_quota")],
    ...["organization_spend_limit_exceeded", "project_spend_limit_exceeded", "organization_usage_limit_exceeded"].map(
      (code): [string, Answer] => [
        `OpenAI's 429 of a limit of money: ${code}`,
        json(
          { error: { message: "The limit was reached.", type: "rate_limit_error", param: null, code } },
          { status: 429 },
        ),
      ],
    ),
    [
      "Anthropic's 400 of an empty account",
      refusing(
        400,
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
        "invalid_request_error",
      ),
    ],
    [
      "Moonshot's 429 of an empty account",
      refusing(
        429,
        "Your account is suspended due to insufficient balance, please recharge.",
        "exceeded_current_quota_error",
      ),
    ],
    [
      "OpenRouter's 403 of a key that has spent what it may",
      json(
        {
          error: {
            message: "Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys",
            code: 403,
          },
        },
        { status: 403 },
      ),
    ],
    [
      "OpenRouter's 403 of a workspace that has spent what it may",
      json(
        {
          error: {
            message: "Workspace monthly budget of $500.00 exceeded. Contact your workspace admin.",
            code: 403,
          },
        },
        { status: 403 },
      ),
    ],
    ...[
      "Your project has exceeded its monthly spending cap. Please go to AI Studio at https://ai.studio/spend to manage your project spend cap.",
      "Your billing account has exceeded its monthly spending cap. Please go to AI Studio at https://ai.studio/billing to manage your billing.",
    ].map((message): [string, Answer] => [
      `Google's 429 of a month that is spent (${message.slice(0, 20)})`,
      json({ error: { code: 429, message, status: "RESOURCE_EXHAUSTED" } }, { status: 429 }),
    ]),
    ...["blocked_api_access", "spend_limit_reached"].map((code): [string, Answer] => [
      `Groq's 400 of a month that is spent (${code})`,
      json(
        {
          error: {
            message:
              "Organization has blocked API access because a spend alert threshold was met. Please visit https://console.groq.com/settings/billing to manage your spend alerts.",
            ...{ type: "invalid_request_error", code },
          },
        },
        { status: 400 },
      ),
    ]),
    [
      "xAI's 403 of an empty account",
      refusing(
        403,
        "Your team has either used all available credits or reached its monthly spending limit.",
        "permission",
      ),
    ],
    [
      "xAI's 403 of an account that nobody has paid for yet",
      json(
        {
          code: "The caller does not have permission to execute the specified operation",
          error:
            "Your newly created team doesn't have any credits or licenses yet. You can purchase those on https://console.x.ai/team/1.",
        },
        { status: 403 },
      ),
    ],
    [
      "DeepInfra's 402 of an empty account",
      json(
        {
          detail: {
            error: "inference prohibited, please enter a payment method in https://deepinfra.com/dash/settings",
          },
        },
        { status: 402 },
      ),
    ],
    [
      "Zhipu's 429 of an account that owes",
      json({ error: { code: "1113", message: "您的账户已欠费，请充值后重试。" } }, { status: 429 }),
    ],
    [
      "new-api's 403 of an empty account",
      json(
        {
          error: {
            message: "Your account balance is insufficient. Please recharge your account to continue using the API.",
            ...{ type: "Aihubmix_api_error", param: "", code: "insufficient_user_quota" },
          },
        },
        { status: 403 },
      ),
    ],
    [
      "new-api's 403 of a key that has spent what it may",
      json(
        {
          error: {
            message: "token quota is not enough, token remain quota: ＄0.100000 (request id: 1)",
            ...{ type: "new_api_error", param: "", code: "pre_consume_token_quota_failed" },
          },
        },
        { status: 403 },
      ),
    ],
    [
      "Volcengine's 403 of an empty account",
      json(
        {
          error: {
            message: "The request failed because your account has an overdue balance. Request ID: 1",
            ...{ type: "Forbidden", param: "", code: "AccountOverdueError" },
          },
        },
        { status: 403 },
      ),
    ],
    ...["organization_on_hold", "claude_code_key_creator_not_member"].map((word): [string, Answer] => [
      `Anthropic's 400 of whose key it is (${word})`,
      json(
        {
          type: "error",
          error: { type: "invalid_request_error", message: "It is not to be used.", details: { error_code: word } },
        },
        { status: 400 },
      ),
    ]),
    ...["enforced_spend_limit_reached", "contract_spend_limit_reached"].map((word): [string, Answer] => [
      `Anthropic's 429 of a month that is spent (${word})`,
      json(
        {
          type: "error",
          error: {
            type: "rate_limit_error",
            message: "This organization cannot spend more.",
            details: { error_code: word },
          },
        },
        { status: 429 },
      ),
    ]),
    [
      "Anthropic's 400 of a workspace that has spent what it may",
      refusing(
        400,
        "You have reached your specified workspace API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        "invalid_request_error",
      ),
    ],
    [
      "SiliconFlow's 403 of an empty account",
      json({ code: 30_001, message: "Sorry, your account balance is insufficient", data: null }, { status: 403 }),
    ],
    [
      "Upstage's 403 of an empty account",
      refusing(
        403,
        "API key suspended due to insufficient credit. Check and register your payment method.",
        "invalid_request_error",
      ),
    ],
    [
      "Novita's 403 of an empty account",
      json({ code: 403, reason: "NOT_ENOUGH_BALANCE", message: "not enough balance", metadata: {} }, { status: 403 }),
    ],
    [
      "Ollama's 403 of an unpaid account",
      refusing(403, "your subscription payment is past due. update your payment method (ref: 1)", "api_error"),
    ],
  ])("a key that is refused (%s) rests for ten minutes, and nobody notices", async (_name, refusal) => {
    const clock = manualClock();
    const app = await appWith({ vendors: [withKeys("key-a1", "key-b2")], models, clock });
    const bad = "Bearer key-a1";
    first.always(PATH, ({ headers }) => (headers["authorization"] === bad ? refusal : json(chatReply("yes"))));
    for (let count = 0; count < 20; count++) expect((await talk(app, `${count}`)).status).toBe(200);
    const tried = keysOf(first).filter((key) => key === "key-a1");
    expect([tried.length, first.calls.length]).toEqual([1, 21]);
    const told = app.log.filter(({ event }) => event === "route-rested");
    expect(told).toMatchObject([{ level: "error", way: "one#1", rest_ms: 600_000 }]);
    expect(JSON.stringify(app.log)).not.toContain("key-a1");
    await clock.advance(600_001);
    for (let count = 0; count < 20; count++) await talk(app, `${count}`);
    expect(keysOf(first).filter((key) => key === "key-a1")).toHaveLength(2);
  });

  test.each([
    "Allocated quota exceeded, please increase your quota limit. For details, see: https://help.aliyun.com/zh/model-studio/error-code#token-limit",
    "You exceeded your current quota, please check your plan and billing details. For details, see: https://www.alibabacloud.com/help/en/model-studio/error-code#token-limit",
    "concurrency allocated quota exceeded",
  ])(
    "Alibaba's limit of a minute, in OpenAI's words for an empty account, is no more than that: %s",
    async (message) => {
      const clock = manualClock();
      const both = [...models, { id: "one/small", pricing: "free" as const }];
      const app = await appWith({ vendors: [withKeys("key-a1", "key-b2")], models: both, clock });
      const refusal = json(
        { error: { message, type: "insufficient_quota", param: null, code: "insufficient_quota" } },
        { status: 429 },
      );
      first.always(PATH, refusal);
      const told = await talk(app, "well?");
      expect([told.status, told.headers.get("x-should-retry"), told.headers.get("retry-after")]).toEqual([
        ...[429, "true", "1"],
      ]);
      await clock.advance(1_001);
      first.always(PATH, json(chatReply("yes")));
      for (let count = 0; count < 20; count++) expect((await talk(app, `${count}`)).status).toBe(200);
      expect(new Set(keysOf(first).slice(-20)).size).toBe(2);
    },
  );

  const unloaded = (words: string) =>
    json({ error: { message: words, type: "invalid_request_error", param: "model" } }, { status: 400 });
  const toldUnloaded = async (app: TestApp, words: string) => {
    const told = await talk(app, "well?");
    expect([told.status, told.headers.get("x-should-retry"), await told.json()]).toMatchObject([
      ...[502, "false"],
      { error: { message: `The vendor has not loaded this model. It says: ${words}` } },
    ]);
  };

  test.each([
    ["No models loaded. Please load a model in the developer page or use the 'lms load' command."],
    ["Failed to load model: Model type bert not supported."],
  ])(
    "a model that is not loaded is none that asking again loads, and told with what its server says: %s",
    async (words) => {
      const app = await twoVendors();
      first.always(PATH, unloaded(words));
      second.always(PATH, json(chatReply("two")));
      expect((await say(app, "well?")).status).toBe(200);
      await toldUnloaded(await appWith({ vendors: [withKeys("key-a1")], models }), words);
    },
  );

  test("so it is however often it is asked for, and is served once it is loaded", async () => {
    const words = "No models loaded. Please load a model in the developer page or use the 'lms load' command.";
    const alone = await appWith({ vendors: [withKeys("key-a1")], models });
    first.always(PATH, unloaded(words));
    for (let count = 0; count < 8; count++) await toldUnloaded(alone, words);
    first.always(PATH, json(chatReply("one")));
    expect((await talk(alone, "and now?")).status).toBe(200);
  });

  test("a model that has reached its end of life (410) is none that asking again brings back", async () => {
    const app = await twoVendors();
    const words = "The model 'big' has reached its end of life on 2026-08-26T09:00:00Z and is no longer available.";
    first.always(PATH, json({ type: "about:blank", title: "Gone", status: 410, detail: words }, { status: 410 }));
    second.always(PATH, json(chatReply("two")));
    expect((await say(app, "well?")).status).toBe(200);
    second.always(PATH, fault(404));
    const told = await say(app, "well?");
    expect([told.status, told.headers.get("x-should-retry")]).toEqual([502, "false"]);
    const alone = await appWith({ vendors: [withKeys("key-a1")], models });
    const gone = await talk(alone, "well?");
    expect([gone.status, gone.headers.get("x-should-retry")]).toEqual([502, "false"]);
  });

  test.each([
    [503, "model_not_found", "No available channel for model big under group default (distributor) (request id: 1)"],
    [503, "", "当前分组 default 下对于模型 big 无可用渠道 (request id: 1)"],
    [401, "key_model_access_denied", "key not allowed to access model. This key can only access models=['small']."],
    [401, "team_model_access_denied", "team not allowed to access model. This team can only access models=['small']."],
    [401, "invalid_model", "No permission to use the model"],
    [401, "ModelArts.81015", "Invalid model big, rejected by api key model allowlist setting."],
    [
      401,
      "authentication_error",
      "Your model id does not exist, recognized as other:big. Please set model id as `k3`.",
    ],
    [401, "ModelError", "Model big is not supported for format oa-compat"],
    [401, "ModelError", "Model is disabled"],
  ])(
    "a model that a gateway has not for one key is had by another, and nothing rests: %d %s",
    async (status, word, message) => {
      const app = await appWith({ vendors: [withKeys("key-a1", "key-b2")], models });
      const refusal = json({ error: { message, type: word, code: word } }, { status });
      const isFirst = (headers: Record<string, string>) => headers["authorization"] === "Bearer key-a1";
      first.always(PATH, ({ headers }) => (isFirst(headers) ? refusal : json(chatReply("yes"))));
      for (let count = 0; count < 4; count++) expect((await talk(app, `${count}`)).status).toBe(200);
      expect(app.log.some(({ event }) => event === "route-rested")).toBe(false);
      first.always(PATH, refusal);
      const told = await talk(app, "well?");
      expect([told.status, told.headers.get("x-should-retry"), await told.json()]).toMatchObject([
        ...[502, "false"],
        { error: { code: "upstream_error", message: "The vendor does not know this model or path." } },
      ]);
    },
  );

  test.each([
    ["CreditsError", "No payment method. Add a payment method here: https://opencode.ai/workspace/w/billing"],
    ["MonthlyLimitError", "Your workspace has reached its monthly spending limit of $20."],
    ["UserLimitError", "You have reached your monthly spending limit of $20."],
  ])(
    "an account that cannot pay, which OpenCode tells as a wrong key (401), is told as what it is: %s",
    async (type, message) => {
      const app = await appWith({ vendors: [withKeys("key-a1")], models });
      first.always(PATH, json({ type: "error", error: { type, message } }, { status: 401 }));
      const told = await talk(app, "well?");
      expect([told.status, told.headers.get("x-should-retry"), await told.json()]).toMatchObject([
        ...[502, "false"],
        { error: { message: "The vendor refused: this gateway's account there has no credit left." } },
      ]);
    },
  );

  test.each([
    "Access to Anthropic models is not allowed from unsupported countries, regions, or territories.",
    "User location is not supported for the API use.",
    "Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio.",
  ])("a place that a model is not served to says nothing of the key's others: %s", async (message) => {
    const routes = ["big", "small"].map((model) => ({ vendor: "one", model }));
    const both = [...models, { id: "one/small", pricing: "free" as const }, { id: "lab/either", routes }];
    const app = await appWith({ vendors: [withKeys("key-a1")], models: both });
    first.always(PATH, ({ text }) =>
      text.includes('"big"') ? json({ message }, { status: 400 }) : json(chatReply("small")),
    );
    const told = await talk(app, "well?");
    expect([told.status, await told.json()]).toMatchObject([502, { error: { code: "upstream_auth" } }]);
    expect(app.log.flatMap(({ event, way }) => (event === "route-rested" ? [way] : []))).toEqual(["one#1/big"]);
    const calls = first.calls.length;
    expect((await say(app, "well?", "lab/either")).status).toBe(200);
    expect(first.calls.length - calls).toBe(1);
  });

  test.each([
    [429, "1308", "Usage limit reached for 5 hour. Your limit will reset at 2026-07-03 11:11:54", "one#1/big"],
    [429, "1310", "您已达到每周/每月使用上限，您的限额将在 2026-09-21 11:16:58 重置。", "one#1/big"],
    [429, "1113", "Insufficient balance or no resource package. Please recharge.", "one#1"],
    [429, "1113", "余额不足或无可用资源包,请充值。", "one#1"],
    [429, "1309", "Your GLM Coding Plan package has expired and is temporarily unavailable.", "one#1"],
    [429, "1311", "Your current subscription plan does not yet include access to GLM-5V-Turbo", undefined],
    [400, "1211", "Unknown Model, please check the model code.", undefined],
    [429, "1302", "Rate limit reached for requests", "one#1/big"],
  ])("what Z.ai says in brackets in the messages dialect is read: %d %s %s", async (status, code, message, rests) => {
    const vendor = { ...vendorAt(first, "messages", "one"), apiKey: "key-a1", apiKeys: ["key-a1", "key-b2"] };
    const app = await appWith({ vendors: [vendor], models });
    const said = `[${code}][${message}][20260703110251648ad94226c14a7e]`;
    const refusal = { type: "error", error: { type: "rate_limit_error", code, message: said }, request_id: "1" };
    first.always("/v1/messages", ({ headers }) =>
      headers["x-api-key"] === "key-a1" ? json(refusal, { status }) : json(WIRES.messages.reply()),
    );
    // Of ten, one run in a thousand left the first key without any.
    for (let count = 0; count < 30; count++) expect((await talk(app, `${count}`)).status).toBe(200);
    const told = app.log.flatMap(({ event, way }) => (event === "route-rested" ? [way] : []));
    expect(told).toEqual(rests === undefined ? [] : [rests]);
    first.always("/v1/messages", json(refusal, { status }));
    const failed = await talk(app, "well?");
    expect(failed.headers.get("x-should-retry")).toBe(code === "1302" ? "true" : "false");
    expect(await failed.text()).not.toContain("[");
  });

  test("a key that is limited rests as long as its vendor says, for that model alone", async () => {
    const clock = manualClock();
    const app = await appWith({
      vendors: [withKeys("key-a1", "key-b2")],
      models: [...models, { id: "one/small", pricing: "free" }],
      clock,
    });
    first.always(PATH, ({ headers, json: body }) => {
      const limited = headers["authorization"] === "Bearer key-a1" && (body as { model: string }).model === "big";
      return limited ? fault(429, { "retry-after": "7" }) : json(chatReply("yes"));
    });
    for (let count = 0; count < 20; count++) expect((await talk(app, `${count}`)).status).toBe(200);
    expect(keysOf(first).filter((key) => key === "key-a1")).toHaveLength(1);
    for (let count = 0; count < 20; count++) await say(app, `${count}`, "one/small");
    const before = keysOf(first).filter((key) => key === "key-a1").length;
    expect(before).toBeGreaterThan(1);
    await clock.advance(7_001);
    for (let count = 0; count < 20; count++) await talk(app, `${count}`);
    expect(keysOf(first).filter((key) => key === "key-a1")).toHaveLength(before + 1);
  });

  test.each([
    ["limited", fault(429, { "retry-after": "20" })],
    ["refused", fault(401)],
  ])("one that is %s while many wait for it: all of them are answered by the other", async (_name, answer) => {
    const app = await appWith({ vendors: [withKeys("key-a1", "key-b2")], models });
    const here = Promise.withResolvers<void>();
    first.always(PATH, async ({ headers }) => {
      const isOther = headers["authorization"] !== "Bearer key-a1";
      if (!isOther) await here.promise;
      return isOther ? json(chatReply("yes")) : answer;
    });
    const all = Array.from({ length: 40 }, (_, at) => say(app, `${at}`, "one/big"));
    await first.called(39);
    here.resolve();
    expect((await Promise.all(all)).filter(({ status }) => status !== 200)).toEqual([]);
    const asked = keysOf(first).filter((key) => key === "key-a1").length;
    expect(asked).toBeGreaterThan(5);
    expect(first.calls).toHaveLength(40 + asked);
  });

  test.each([
    ["500", fault(500)],
    ["a page in place of an answer", { ...json(""), headers: { "content-type": "text/html" }, parts: ["<html>"] }],
    ["a connection that is torn down", reset()],
  ])(
    "%s: what may have run is repeated at the next vendor, where there is one, and by another key elsewhere",
    async (_name, answer) => {
      const app = await appWith({
        vendors: [withKeys("key-a1", "key-b2"), vendorAt(second, "chat", "two")],
        models: [{ id: "lab/big", pricing: "free", routes: ROUTES }, ...models],
      });
      first.always(PATH, answer);
      second.always(PATH, json(chatReply("two")));
      expect((await say(app, "well?")).status).toBe(200);
      expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
      expect((await talk(app, "well?")).status).toBe(502);
      expect(new Set(keysOf(first).slice(1))).toEqual(new Set(["key-a1", "key-b2"]));
    },
  );

  test.each([
    [
      "Z.ai's 429 of a plan whose hours are used up",
      json(
        {
          error: {
            code: "1308",
            message: "Usage limit reached for 5 hour. Your limit will reset at 2026-09-09 05:38:28",
          },
        },
        { status: 429 },
      ),
    ],
    [
      "the same in its own country",
      json(
        { error: { code: "1308", message: "已达到 5 小时的使用上限。您的限额将在 2026-08-25 07:41:44 重置。" } },
        { status: 429 },
      ),
    ],
    [
      "and of its week",
      json(
        {
          error: {
            code: "1310",
            message: "Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-09-14 05:00:00",
          },
        },
        { status: 429 },
      ),
    ],
    [
      "MiniMax's",
      refusing(
        429,
        "usage limit exceeded, 5-hour usage limit reached for Token Plan Starter (0/0 used), resets at 2026-05-15T15:00:00Z (2056)",
        "rate_limit_error",
      ),
    ],
    [
      "Kimi Code's 403 of its hours",
      refusing(
        403,
        "You've reached your usage limit for this billing cycle. Your quota will be refreshed in the next cycle. To continue now, purchase extra usage or upgrade your plan: https://www.kimi.com/code/#pricing",
        "permission_error",
      ),
    ],
    [
      "and of its week",
      refusing(
        403,
        "You've reached your weekly (7-day) usage limit. Your quota will reset when the current 7-day window ends.",
        "access_terminated_error",
      ),
    ],
    [
      "Ollama's 429 of a plan that is used up",
      json(
        {
          error:
            "you (seppe) have reached your weekly usage limit, upgrade for higher limits: https://ollama.com/upgrade",
        },
        { status: 429 },
      ),
    ],
    ...[
      "Usage limit reached for the past 5 hours. Insufficient balance for extra usage. Resets at 2026-10-12 22:00:00.",
      "您已达到每周/每月使用上限，您的限额将在 2026-09-03 01:49:02 重置。",
      "Token Plan usage limit reached: Upgrade your Token Plan or purchase Credits for more usage. (2056)",
      "已达到 Token Plan 用量上限：请升级 Token Plan 套餐或购买积分补充用量 (2056)",
      "usage limit exceeded (2056)",
      "You have exceeded the 5-hour usage quota. It will reset at 2026-08-15 19:23:44 +0800 CST. Request id: 0217",
      'Your account [2101141013] has reached the set inference limit for the [doubao-seed-1-6] model, and the model service has been paused. To continue using this model, please visit the Model Activation page to adjust or close the "Safe Experience Mode". Request id: 0217',
      "The account (2101141013) has exhausted the free trial quota of the model (doubao-seed-1-6).",
      "Your token-plan 1-week quota has been exhausted. The quota will reset at 08-05 22:23:00 UTC.",
      "week allocated quota exceeded",
      "You have exceeded today's quota for model ZhipuAI/GLM-5.1, please try again tomorrow, or consider using other models",
      "Too many tokens per day, please wait before trying again.",
      "Tokens per day limit exceeded - too many tokens processed.",
      "Weekly usage limit reached. Resets in 7hr 29min.",
      "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day",
    ].map((words): [string, Answer] => [words.slice(0, 50), refusing(429, words, "rate_limit_error")]),
    [
      "Huawei's Token Plan",
      refusing(
        403,
        "Your Token plan quota has been exhausted. You can upgrade to a higher-tier plan or wait for the quota reset in the next billing cycle.",
        "ModelArts.81022",
      ),
    ],
    [
      "what Tencent gives away of a model",
      json(
        {
          error: {
            ...{ type: "permission_error", code: "403004", message: "endpoint is inactive: FREE_QUOTA_EXHAUSTED" },
            ...{ source: "gateway", request_id: "1" },
          },
        },
        { status: 402 },
      ),
    ],
    [
      "what Alibaba gives away of a model",
      refusing(
        403,
        'The free tier of the model has been exhausted. If you wish to continue access the model on a paid basis, please disable the "use free tier only" mode in the management console.',
        "AllocationQuota.FreeTierOnly",
      ),
    ],
    ...[400, 429].map((status): [string, Answer] => [
      `LiteLLM's of what a key may spend: ${status}`,
      refusing(status, "Budget has been exceeded! Current cost: 5.0, Max budget: 1.0", "budget_exceeded"),
    ]),
    [
      "Baidu's, by its word for programs",
      json(
        {
          error: { code: "coding_plan_hour_quota_exceeded", message: "Exceeded.", type: "rate_limit_exceeded" },
          id: "as-1",
        },
        { status: 429 },
      ),
    ],
    ...["AiError: ", "AiError: AiError: "].map((named): [string, Answer] => [
      `what Workers AI gives away in a day (${named})`,
      json(
        {
          errors: [
            {
              message: `${named}you have used up your daily free allocation of 10,000 neurons, please upgrade to Cloudflare's Workers Paid plan if you would like to continue usage.`,
              code: 4006,
            },
          ],
          success: false,
          result: {},
          messages: [],
        },
        { status: 429 },
      ),
    ]),
  ])("a plan that is used up (%s) is no rate: that model of its key rests for ten minutes", async (_name, refusal) => {
    const clock = manualClock();
    const both = [...models, { id: "one/small", pricing: "free" as const }];
    const app = await appWith({ vendors: [withKeys("key-a1", "key-b2")], models: both, clock });
    first.always(PATH, ({ headers, json: body }) => {
      const isUsedUp = headers["authorization"] === "Bearer key-a1" && (body as { model: string }).model === "big";
      return isUsedUp ? refusal : json(chatReply("yes"));
    });
    for (let count = 0; count < 20; count++) expect((await talk(app, `${count}`)).status).toBe(200);
    expect(keysOf(first).filter((key) => key === "key-a1")).toHaveLength(1);
    expect(app.log.filter(({ event }) => event === "route-rested")).toMatchObject([
      { way: "one#1/big", rest_ms: 600_000 },
    ]);
    for (let count = 0; count < 20; count++) expect((await say(app, `${count}`, "one/small")).status).toBe(200);
    expect(keysOf(first).filter((key) => key === "key-a1").length).toBeGreaterThan(1);
    first.always(PATH, refusal);
    const told = await talk(app, "well?");
    expect([told.status, told.headers.get("x-should-retry"), await told.json()]).toMatchObject([
      ...[502, "false"],
      { error: { code: "upstream_error", message: expect.stringContaining("used up what its plan allows") } },
    ]);
  });

  test.each<[string, Record<string, unknown>, Answer]>([
    [
      "a field that it names like a plan that is used up",
      { "Usage limit reached for 5": 1 },
      refusing(400, "Usage limit reached for 5: Extra inputs are not permitted", "invalid_request_error"),
    ],
    [
      "a model that it names like a key that has spent what it may",
      { model: "one/Key limit exceeded" },
      refusing(400, "Key limit exceeded is not a valid model ID", "400"),
    ],
    [
      "a model that it names like a wrong key",
      { model: "one/Invalid API key" },
      refusing(400, "Invalid API key is not a valid model ID", "400"),
    ],
  ])("one client's request takes them from nobody: %s", async (_name, asked, refusal) => {
    const vendors = [{ ...withKeys("key-a1", "key-b2"), models: "any" as const }];
    const app = await appWith({ vendors, models });
    first.always(PATH, refusal);
    const body = { model: "one/big", messages: [{ role: "user", content: "well?" }], ...asked };
    for (let count = 0; count < 6; count++) expect((await app.post(PATH, body)).ok).toBe(false);
    expect(app.log.some(({ event }) => event === "route-rested")).toBe(false);
    first.always(PATH, json(chatReply("yes")));
    for (let count = 0; count < 20; count++) expect((await talk(app, `${count}`)).status).toBe(200);
    expect(new Set(keysOf(first).slice(-20)).size).toBe(2);
  });

  test("a model that a request names to be asked instead of its own, and that is none, closes its own to nobody", async () => {
    const app = await appWith({ vendors: [withKeys("key-a1", "key-b2")], models });
    first.always(PATH, refusing(400, "bogus is not a valid model ID", "400"));
    const body = { model: "one/big", models: ["bogus"], messages: [{ role: "user", content: "well?" }] };
    for (let count = 0; count < 12; count++) {
      const response = await app.post(PATH, body);
      expect([response.status, await response.json()]).toMatchObject([
        400,
        {
          error: { code: "invalid_request", param: "models", message: expect.stringContaining("bogus is not a valid") },
        },
      ]);
    }
    expect(first.calls).toHaveLength(12);
    expect(app.log.some(({ event }) => event === "route-opened")).toBe(false);
    // Of the model itself the same words say that there is none.
    first.always(PATH, refusing(400, "big is not a valid model ID", "400"));
    expect((await app.post(PATH, { ...body, models: ["big", "bogus"] })).status).toBe(502);
  });

  test("when every key is refused, all are asked once and the client is told so; the next request asks again", async () => {
    const app = await appWith({ vendors: [withKeys("key-a1", "key-b2")], models });
    first.always(PATH, fault(401));
    for (const calls of [2, 4]) {
      const response = await talk(app, "well?");
      expect(response.status).toBe(502);
      expect(await response.json()).toMatchObject({ error: { code: "upstream_auth" } });
      expect(first.calls).toHaveLength(calls);
    }
  });

  test("refused ones are left alone while another is limited, and what is told is when that one is back", async () => {
    const clock = manualClock();
    const app = await appWith({ vendors: [withKeys("key-a1", "key-b2", "key-c3")], models, clock });
    const refusals: Record<string, Answer> = {
      "Bearer key-a1": fault(401),
      "Bearer key-b2": fault(402),
      "Bearer key-c3": fault(429, { "retry-after": "20" }),
    };
    first.always(PATH, ({ headers }) => refusals[headers["authorization"] ?? ""] ?? fault(500));
    const told = ({ status, headers }: Response) => [status, headers.get("x-should-retry"), headers.get("retry-after")];
    for (let count = 0; count < 12; count++) expect(told(await talk(app, `${count}`))).toEqual([429, "true", "20"]);
    expect(keysOf(first).sort()).toEqual(["key-a1", "key-b2", "key-c3"]);
    await clock.advance(12_500);
    expect(told(await talk(app, "later"))).toEqual([429, "true", "8"]);
    expect(first.calls).toHaveLength(3);
    await clock.advance(7_501);
    refusals["Bearer key-c3"] = json(chatReply("yes"));
    for (let count = 0; count < 3; count++) expect((await talk(app, `${count}`)).status).toBe(200);
    expect(keysOf(first).slice(3)).toEqual(["key-c3", "key-c3", "key-c3"]);
  });

  test("where all are limited, what is told is when the first of them is back", async () => {
    const clock = manualClock();
    const app = await appWith({ vendors: [withKeys("key-a1", "key-b2")], models, clock });
    const waits: Record<string, string> = { "Bearer key-a1": "8", "Bearer key-b2": "40" };
    first.always(PATH, ({ headers }) => fault(429, { "retry-after": waits[headers["authorization"] ?? ""] ?? "1" }));
    // Whichever of the two a conversation begins with.
    const told = async () => (await talk(app, "well?")).headers.get("retry-after");
    expect([await told(), await told()]).toEqual(["8", "8"]);
    expect(keysOf(first).sort()).toEqual(["key-a1", "key-b2"]);
    await clock.advance(8_001);
    waits["Bearer key-a1"] = "50";
    expect(await told()).toBe("32");
  });

  test("work that one key's vendor may have done is done again by another model before another key is asked", async () => {
    const routes = ["big", "small"].map((model) => ({ vendor: "one", model }));
    const app = await appWith({
      vendors: [withKeys("key-a1", "key-b2")],
      models: [{ id: "one/big", pricing: "free", routes }],
    });
    first.always(PATH, ({ text }) => (text.includes('"big"') ? fault(500) : json(chatReply("small"))));
    expect((await talk(app, "well?")).status).toBe(200);
    expect(first.calls.map(({ json }) => (json as { model: string }).model)).toEqual(["big", "small"]);
  });

  test("a vendor that is overloaded is not asked again with another key", async () => {
    const app = await appWith({ vendors: [withKeys("key-a1", "key-b2")], models });
    first.always(PATH, fault(503));
    expect((await talk(app, "well?")).status).toBe(503);
    expect(new Set(keysOf(first)).size).toBe(1);
    // The once that the table allows, on the same way.
    expect(first.calls).toHaveLength(2);
  });
});

describe("the only way", () => {
  const single = (clock?: ManualClock) =>
    appWith({ vendors: [vendorAt(first, "chat", "one")], ...(clock && { clock }) });
  const talk = (app: TestApp, content = "well?") => say(app, content, "one/any");

  test.each<[string, Record<string, unknown>, Answer]>([
    ["OpenAI's flex", { service_tier: "flex" }, fault(429, { "retry-after": "30" })],
    ["Groq's flex", { service_tier: "flex" }, fault(498, { "retry-after": "30" })],
    ["Anthropic's fast mode", { speed: "fast" }, fault(429, { "retry-after": "30" })],
  ])("is there for others where a service is limited that is apart (%s)", async (_name, service, answer) => {
    const app = await single();
    first.always(PATH, ({ text }) => (text.includes(Object.keys(service)[0]!) ? answer : json(chatReply("yes"))));
    for (let count = 0; count < 6; count++) {
      const asked = { model: "one/any", ...service, messages: [{ role: "user", content: "well?" }] };
      const limited = await app.post(PATH, asked);
      expect([limited.status, limited.headers.get("retry-after")]).toEqual([429, "30"]);
      expect((await talk(app)).status).toBe(200);
    }
    expect(first.calls).toHaveLength(12);
  });

  test.each([
    ["503", fault(503)],
    ["429 with a short wait", fault(429, { "retry-after": "2" })],
  ])("%s: is asked once more, and its answer is the answer", async (_name, answer) => {
    const app = await single();
    answers(first, answer, json(chatReply("yes")));
    const response = await talk(app);
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
    expect(app.rows()).toMatchObject([{ attempts: 2, outcome: "completed" }]);
  });

  test.each([
    ["500", fault(500)],
    ["401", fault(401)],
    ["429 with a long wait", fault(429, { "retry-after": "6" })],
    ["a connection torn down", reset()],
  ])("%s: is not asked again", async (_name, answer) => {
    const app = await single();
    answers(first, answer);
    expect((await talk(app)).status).toBeGreaterThan(400);
    expect([first.calls.length, first.unexpected.length]).toEqual([1, 0]);
  });

  test("limited, and LiteLLM hands on for how long: is not asked before", async () => {
    const app = await single();
    first.always(PATH, fault(429, { "llm_provider-retry-after": "17" }));
    for (let count = 0; count < 2; count++) expect((await talk(app)).headers.get("retry-after")).toBe("17");
    expect(first.calls).toHaveLength(1);
  });

  test.each([
    ["20", "20", 20],
    // No word keeps the gateway away for longer than a minute.
    ["3600", "60", 60],
  ])("limited for %s s: is not asked before, and the rest of that is told", async (given, told, restSeconds) => {
    const clock = manualClock();
    const app = await single(clock);
    answers(first, fault(429, { "retry-after": given }));
    expect((await talk(app)).headers.get("retry-after")).toBe(told);
    await clock.advance(7_000);
    const later = await talk(app);
    const { status, headers } = later;
    expect([status, headers.get("x-should-retry"), headers.get("retry-after")]).toEqual([
      ...[429, "true", String(restSeconds - 7)],
    ]);
    expect(await later.json()).toMatchObject({ error: { code: "rate_limit_exceeded" } });
    expect(first.calls).toHaveLength(1);
    first.always(PATH, json(chatReply("yes")));
    expect((await say(app, "another model", "one/other")).status).toBe(200);
    await clock.advance(restSeconds * 1_000 - 7_000);
    expect((await talk(app)).status).toBe(200);
  });

  test("limited for one model and refused for another: is asked, and the refusal told", async () => {
    oneProcessOnly("ways that rest");
    const app = await single();
    answers(first, fault(429, { "retry-after": "20" }), fault(401), fault(401));
    await talk(app);
    await say(app, "well?", "one/other");
    const response = await talk(app);
    expect([response.status, await response.json()]).toMatchObject([502, { error: { code: "upstream_auth" } }]);
    expect(first.calls).toHaveLength(3);
  });

  test("limited without a word of how long: is asked by each request", async () => {
    const app = await single();
    first.always(PATH, fault(429));
    for (let count = 0; count < 4; count++) expect((await talk(app, `${count}`)).status).toBe(429);
    expect(first.calls).toHaveLength(8);
  });

  test.each([500, 502, 503, 504, 529])("%i, and says that asking again is in vain: that is told", async (status) => {
    const app = await single();
    first.always(PATH, fault(status, { "x-should-retry": "false" }));
    for (let count = 0; count < 2; count++) {
      const refused = await talk(app, `${count}`);
      expect([refused.status, refused.headers.get("x-should-retry"), await refused.json()]).toMatchObject([
        502,
        "false",
        { error: { code: "upstream_error", message: expect.stringContaining("does not help. It says: No.") } },
      ]);
    }
    expect(first.calls).toHaveLength(2);
  });

  test.each([
    ["20", "20"],
    ["3600", "60"],
  ])("busy for %s s: that is told", async (given, told) => {
    const app = await single();
    first.always(PATH, fault(503, { "retry-after": given }));
    first.always("/v1/messages", fault(529, { "retry-after": given }));
    const refused = await talk(app);
    expect([refused.status, refused.headers.get("retry-after"), first.calls.length]).toEqual([503, told, 2]);
    const body = { model: "one/any", max_tokens: 9, messages: [{ role: "user", content: "well?" }] };
    const other = await app.post("/v1/messages", body);
    expect([other.status, other.headers.get("retry-after"), first.calls.length]).toEqual([529, told, 4]);
  });

  test.each([429, 503])("%i: waits as long as the vendor says before it asks again", async (status) => {
    const clock = manualClock();
    const app = await single(clock);
    delete app.app.services.pause;
    answers(first, fault(status, { "retry-after": "3" }), json(chatReply("yes")));
    const response = talk(app);
    await clock.armed(3_000);
    await clock.advance(2_999);
    expect(first.calls).toHaveLength(1);
    await clock.advance(1);
    expect((await response).status).toBe(200);
  });

  test.each([
    [90_999, 200, null],
    [91_000, 503, "4"],
  ])(
    "%i ms after a blocking request came: a wait of 4 s that its time does not hold is none",
    async (ms, status, told) => {
      const clock = manualClock();
      const app = await single(clock);
      delete app.app.services.pause;
      const held = Promise.withResolvers<void>();
      const busy = { ...fault(503, { "retry-after": "4" }), headersAfter: held.promise };
      answers(first, busy, json(chatReply("yes")));
      const response = talk(app);
      await first.called();
      await clock.advance(ms);
      held.resolve();
      if (status === 200) {
        await clock.armed(4_000);
        await clock.advance(4_000);
      }
      const answer = await response;
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([status, told]);
    },
  );

  test("a breaker that opens during the wait keeps the repeat away", async () => {
    insideOnly("a pause that is ended by hand");
    const app = await single();
    const [paused, waited, held] = [gate(), gate(), gate()];
    app.app.services.pause = () => {
      paused.open();
      return waited.opened;
    };
    answers(first, fault(503), ...Array.from({ length: 4 }, () => fault(500)));
    const response = talk(app);
    await paused.opened;
    for (let count = 0; count < 4; count++) await talk(app, `${count}`);
    first.always(PATH, { ...json(chatReply("yes")), headersAfter: held.opened });
    const probe = talk(app, "probe");
    await first.called(5);
    waited.open();
    expect((await response).status).toBe(503);
    held.open();
    expect([(await probe).status, first.calls.length]).toEqual([200, 6]);
  });

  test("a client that leaves during the wait leaves nothing behind", async () => {
    const clock = manualClock();
    const app = await single(clock);
    delete app.app.services.pause;
    answers(first, fault(429, { "retry-after": "3" }));
    const leaving = new AbortController();
    const body = { model: "one/any", messages: [{ role: "user", content: "Hi" }] };
    const response = app.post(PATH, body, { signal: leaving.signal });
    await clock.armed(3_000);
    leaving.abort();
    await response.catch(() => undefined);
    await app.app.running.idle();
    // Nor the timer of its pause.
    expect(await Promise.race([clock.armed(3_000).then(() => "it"), settle().then(() => "nothing")])).toBe("nothing");
    await clock.advance(10_000);
    expect([first.calls.length, app.app.running.count]).toEqual([1, 0]);
  });

  test.each(["waited for", "under way"])(
    "who leaves while a repeat is %s takes nobody's place in the budget",
    async (what) => {
      insideOnly("a pause that is ended by hand");
      const app = await single();
      for (let count = 0; count < 5; count++) {
        first.reset();
        if (what === "waited for") first.always(PATH, fault(503));
        else answers(first, fault(503), neverAnswer());
        const leaving = new AbortController();
        const paused = Promise.withResolvers<void>();
        app.app.services.pause = () => {
          paused.resolve();
          if (what === "under way") return Promise.resolve();
          return new Promise((resolve) => leaving.signal.addEventListener("abort", () => resolve()));
        };
        const body = { model: "one/m", messages: [{ role: "user", content: `${count}` }] };
        const left = app.post(PATH, body, { signal: leaving.signal }).catch(() => undefined);
        await paused.promise;
        if (what === "under way") await first.called(1);
        leaving.abort();
        await left;
        await app.app.running.idle();
      }
      first.reset();
      first.always(PATH, fault(503));
      app.app.services.pause = () => Promise.resolve();
      app.app.services.health.forgetTrouble();
      await talk(app, "is it repeated?");
      expect(first.calls).toHaveLength(2);
    },
  );

  test("a storm does not become two: three repeats at a time, no more", async () => {
    const app = await single();
    const waiting = Promise.withResolvers<void>();
    // All are there before the first one fails: a breaker that opens would keep the rest away.
    const here = Promise.withResolvers<void>();
    first.always(PATH, { ...fault(503), headersAfter: here.promise });
    const all = Array.from({ length: 30 }, (_, at) => talk(app, `${at}`));
    await first.called(29);
    // Not before: one whose connection failed on its way there would wait as well, and the 30 would never be whole.
    app.app.services.pause = () => waiting.promise;
    here.resolve();
    // Those that may not be repeated are told at once.
    await Promise.any(all);
    waiting.resolve();
    const statuses = await Promise.all(all);
    expect(new Set(statuses.map(({ status }) => status))).toEqual(new Set([503]));
    expect(first.calls.length).toBeLessThanOrEqual(30 * 1.2 + 3);
  });

  test.each([
    ["401", fault(401), "upstream_auth"],
    ["402", fault(402), "upstream_error"],
    ["403", fault(403), "upstream_auth"],
  ])(
    "a sole key that is refused (%s): its client is told so however often, and the log once",
    async (_, refusal, code) => {
      oneProcessOnly("a key that rests");
      const app = await single();
      first.always(PATH, refusal);
      for (let count = 0; count < 8; count++) {
        const response = await talk(app, `${count}`);
        expect([response.status, await response.json()]).toMatchObject([502, { error: { code } }]);
      }
      expect(first.calls).toHaveLength(8);
      expect(app.log.filter(({ event }) => String(event).startsWith("route-"))).toMatchObject([
        { event: "route-rested" },
      ]);
      first.always(PATH, json(chatReply("yes")));
      expect((await talk(app)).status).toBe(200);
    },
  );

  test.each([
    [
      "This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 30104. To increase, visit https://openrouter.ai/settings/credits and add more credits",
      { provider_name: null },
    ],
    [
      "Prompt tokens limit exceeded: 64128 > 6964. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account",
      { provider_name: null },
    ],
    [
      "This request's maximum cost exceeds your available credits. Add credits, or lower max_tokens or prompt size.",
      { reason: "weight_exceeds_budget", limit_source: "openrouter_credits" },
    ],
  ])("OpenRouter's 402 for a request beyond what is left is no empty account: %s", async (words, metadata) => {
    oneProcessOnly("a key that rests");
    const app = await appWith({
      vendors: [withKeys("key-a1", "key-b2")],
      models: [{ id: "one/any", pricing: "free" }],
    });
    first.always(PATH, json({ error: { message: words, code: 402, metadata } }, { status: 402 }));
    for (let count = 1; count <= 6; count++) {
      const response = await talk(app, "the same conversation");
      expect([response.status, response.headers.get("x-should-retry")]).toEqual([502, "false"]);
      const { error } = (await response.json()) as { error: { code: string; message: string } };
      expect([error.code, error.message]).toEqual(["upstream_error", expect.stringContaining("too little credit")]);
      expect(error.message).not.toMatch(/\d/);
      // Another key may be another account's.
      expect(first.calls).toHaveLength(2 * count);
    }
    expect(app.log.filter(({ event }) => String(event).startsWith("route-"))).toEqual([]);
    first.always(PATH, json(chatReply("yes")));
    expect((await talk(app, "the same conversation")).status).toBe(200);
    expect(keysOf(first)[12]).toBe(keysOf(first)[0]);
  });

  test("OpenRouter's 402 for an account whose credit its requests of the moment hold is a limit, and ends as one", async () => {
    oneProcessOnly("a key that rests");
    const clock = manualClock();
    const app = await single(clock);
    const message =
      "This request would exceed your available credits given your current in-flight requests. Retry after in-flight requests settle, or add credits.";
    const metadata = { reason: "in_flight_budget_exhausted", limit_source: "openrouter_in_flight_budget" };
    const held = json({ error: { code: 402, message, metadata } }, { status: 402, headers: { "retry-after": "40" } });
    first.always(PATH, held);
    const response = await talk(app);
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "40"]);
    expect(await response.json()).toMatchObject({ error: { code: "rate_limit_exceeded" } });
    first.always(PATH, json(chatReply("yes")));
    await clock.advance(41_000);
    expect((await talk(app)).status).toBe(200);
  });

  test("while its breaker is open one call at a time finds out, and the others are told at once", async () => {
    oneProcessOnly("a breaker");
    const clock = manualClock();
    const app = await single(clock);
    first.always(PATH, fault(500));
    for (let count = 0; count < 5; count++) await talk(app, `${count}`);
    await clock.advance(20_000);
    const held = Promise.withResolvers<void>();
    first.always(PATH, { ...json(chatReply("yes")), headersAfter: held.promise });
    const probe = talk(app, "probe");
    await first.called(5);
    const refused = await talk(app, "beside it");
    expect([refused.status, first.calls.length]).toEqual([503, 6]);
    // However long it is left alone: who slept through all of that would stay away long after it is back.
    expect(refused.headers.get("retry-after")).toBe("5");
    // It is due by now, and the one that finds out is still under way.
    await clock.advance(17_000);
    expect((await talk(app, "later")).headers.get("retry-after")).toBe("1");
    held.resolve();
    expect((await probe).status).toBe(200);
    expect((await talk(app, "after it")).status).toBe(200);
  });
});

describe("the receipt", () => {
  test("tells each attempt: vendor, key, outcome, time", async () => {
    const app = await appWith({
      vendors: [withKeys("key-a1", "key-b2"), vendorAt(second, "chat", "two")],
      models: [{ id: "lab/big", pricing: "free", routes: ROUTES }],
    });
    first.always(PATH, fault(401));
    second.always(PATH, json(chatReply("two")));
    const response = await say(app, "well?");
    const id = response.headers.get("x-request-id");
    const receipt = await (
      await app.call(`/v1/usage/${id}`, { headers: { authorization: `Bearer ${app.key}` } })
    ).json();
    const { attempts, attempt_list: list } = receipt as { attempts: number; attempt_list: Record<string, unknown>[] };
    expect(attempts).toBe(3);
    expect(list.map(({ vendor, upstream_model: model, outcome }) => [vendor, model, outcome])).toEqual([
      ["one", "big", "upstream_auth"],
      ["one", "big", "upstream_auth"],
      ["two", "big", "served"],
    ]);
    expect(list.map(({ key }) => key).sort()).toEqual([1, 1, 2]);
    expect(list.every(({ duration_ms: ms }) => typeof ms === "number" && ms >= 0)).toBe(true);
    app.store.database.run(`UPDATE usage_kept SET rows_from_ms = ${Date.now() + 1_000}`);
    app.store.database.run("DELETE FROM usage");
    expect(app.store.database.query("SELECT count(*) FROM attempt").values()).toEqual([[0n]]);
  });

  test("of a request that took one call has that one", async () => {
    const app = await appWith({ vendors: [vendorAt(first, "chat", "one")] });
    first.always(PATH, json(chatReply("yes")));
    const response = await say(app, "well?", "one/any");
    expect(response.headers.has("x-sluice-attempts")).toBe(false);
    const id = response.headers.get("x-request-id");
    const receipt = await (
      await app.call(`/v1/usage/${id}`, { headers: { authorization: `Bearer ${app.key}` } })
    ).json();
    expect(receipt).toMatchObject({ attempt_list: [{ vendor: "one", upstream_model: "any", outcome: "served" }] });
  });
});
