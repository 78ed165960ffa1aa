import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { Accounts } from "../../src/accounts/accounts.ts";
import { Writer } from "../../src/db/writer.ts";
import { PLAIN_MS } from "../../src/relay/plain-servers.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

const REPLY = {
  ...{ id: "resp_1", object: "response", status: "completed", model: "m" },
  output: [{ type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "ok" }] }],
  usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
};
const user = { type: "message", role: "user", content: "Hi" };
const custom = { type: "custom", name: "apply_patch", format: { type: "grammar", syntax: "lark", definition: "s: X" } };
/** What Codex sends that only OpenAI knows. */
const ODD: Wire = { input: [{ type: "message", role: "developer", content: "Be brief." }, user], tools: [custom] };
const PLAIN: Wire = { input: [user], tools: [{ type: "function", name: "f", parameters: {} }] };

const kindsIn = (body: Wire) => [
  ...(body["input"] as Wire[]).map(({ role }) => role),
  ...((body["tools"] ?? []) as Wire[]).map(({ type }) => type),
];
const AS_IT_CAME = ["developer", "user", "custom"];
const PLAINLY = ["user", "function"];

describe("a responses server of which nothing is known", () => {
  let upstream: Upstream;
  let gateway: TestApp;
  const clock = manualClock();

  beforeAll(async () => {
    upstream = startUpstream();
    const all = { ...vendorAt(upstream, "responses", "all"), quirks: { customTools: true } };
    gateway = await startApp({ vendors: [vendorAt(upstream, "responses", "lab"), all], clock });
  });
  afterEach(async () => {
    upstream.reset();
    await clock.advance(PLAIN_MS);
  });
  afterAll(async () => {
    await gateway.stop();
    upstream.close();
  });

  const refuse = (message = "tools[0].type: unsupported tool type custom") =>
    json({ error: { message, type: "invalid_request_error" } }, { status: 400 });
  const refusing = (isTaken: (body: Wire) => boolean) =>
    upstream.always("/v1/responses", ({ json: body }) => (isTaken(body as Wire) ? json(REPLY) : refuse()));
  const takesFunctions = (body: Wire) => !kindsIn(body).some((kind) => kind === "custom" || kind === "developer");
  const ask = (body: Wire, vendor = "lab", key?: string) =>
    gateway.post(
      "/v1/responses",
      { model: `${vendor}/m`, ...body },
      key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } },
    );
  const seen = () => upstream.calls.map((call) => kindsIn(call.json as Wire));

  test("is told all as it came; what it refuses is told again plainly, and so are the next ones at once, for a while", async () => {
    refusing(takesFunctions);
    const response = await ask(ODD);
    expect([response.status, response.headers.get("x-sluice-attempts")]).toEqual([200, "2"]);
    expect(response.headers.get("x-sluice-dropped")).toBe("tools[0].format");
    expect(seen()).toEqual([AS_IT_CAME, PLAINLY]);
    expect((await ask(ODD)).status).toBe(200);
    expect(seen().slice(2)).toEqual([PLAINLY]);
    await clock.advance(PLAIN_MS);
    expect((await ask(ODD)).headers.get("x-sluice-attempts")).toBe("2");
    expect(seen().slice(3)).toEqual([AS_IT_CAME, PLAINLY]);
  });

  test("takes what it takes as it came", async () => {
    refusing(() => true);
    const response = await ask(ODD);
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, null]);
    expect(seen()).toEqual([AS_IT_CAME]);
  });

  test("refuses for good what it refuses plainly told, and nothing is learnt of that", async () => {
    refusing(() => false);
    const before = gateway.rows().length;
    for (const round of [0, 1]) {
      expect((await ask(ODD)).status).toBe(400);
      expect(seen().slice(round * 2)).toEqual([AS_IT_CAME, PLAINLY]);
    }
    expect(gateway.rows()).toHaveLength(before);
  });

  test("is asked once for what every server knows, and so is one whose row says that it knows all", async () => {
    refusing(() => false);
    expect((await ask(PLAIN)).status).toBe(400);
    expect((await ask(ODD, "all")).status).toBe(400);
    expect(seen()).toEqual([PLAINLY, AS_IT_CAME]);
  });

  test("what one account's requests have shown changes no other's", async () => {
    refusing(takesFunctions);
    await ask(ODD);
    const { app, store } = gateway;
    const writer = new Writer(store, clock);
    const other = await new Accounts(store, writer, app.keys, clock).create({ name: "other", plan: "local" });
    await writer.close();
    const { key } = await app.keys.create({ accountId: other.id, name: "other", kind: "api" });
    await ask(ODD, "lab", key);
    expect(seen().slice(2)).toEqual([AS_IT_CAME, PLAINLY]);
  });
});
