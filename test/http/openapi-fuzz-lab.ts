import { isObject } from "../../src/lib/json.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { DIALECTS, type DialectName, upstreamModel, WIRES } from "../sdk/lab.ts";
import { CUT, FILTERED, GREETING, ONE_CALL, REASONED, type Reply, TWO_CALLS } from "../sdk/replies.ts";
import { PLAIN_CONFIG, startApp, type TestApp } from "../support/app.ts";
import type { Schema } from "../support/json-schema.ts";
import {
  type Answer,
  type Call,
  html,
  json,
  reset,
  sse,
  startUpstream,
  truncatedJson,
  type Upstream,
} from "../support/upstream.ts";
import { openLab, PNG_BASE64 } from "../vendors/image-lab.ts";

/** Who asks. Each has a key of its own; `nobody` has none, and `stranger` one that nobody gave out. */
export const CALLERS = ["user", "admin", "payer", "poor", "narrow", "token", "revoked", "stranger", "nobody"] as const;
export type CallerName = (typeof CALLERS)[number];

/** A gateway with a vendor of each dialect, one that misbehaves, one that draws, a page to read and callers of every kind. */
export type FuzzLab = {
  gateway: TestApp;
  document: Schema;
  keys: Readonly<Record<CallerName, string>>;
  /** Ids of what the lab itself stands on: they are not handed to requests that could take it down. */
  own: ReadonlySet<string>;
  page: string;
  /** Where the vendors are: nobody is told. */
  addresses: readonly string[];
  stop(): Promise<void>;
};

/** Models that are answered well, and those that are not. */
export const SOUND_MODELS = DIALECTS.map((dialect) => `lab/${dialect}`);
export const FAULTY_MODELS = ["lab/faulty-chat", "lab/faulty-messages"];
export const IMAGE_MODELS = ["openai/gpt-image-1.5", "openai/gpt-image-1.5", "openai/gpt-image-1.5", "sluice/sketch"];
/** Known, and not served here; known, without a price; not known; without a prefix. */
export const UNSERVED_MODELS = ["anthropic/claude-sonnet-4-5", "lab/unpriced", "lab/none", "gpt-5"];

const REPLIES: readonly Reply[] = [GREETING, CUT, FILTERED, ONE_CALL, TWO_CALLS, REASONED];

/** Answers of a vendor of this dialect, one kind after the other. */
function playSound(upstream: Upstream, dialect: DialectName): void {
  const wire = WIRES[dialect];
  let calls = 0;
  const script = (call: Call): Answer => {
    const reply = REPLIES[calls++ % REPLIES.length] as Reply;
    const { stream, model } = wire.asks(call);
    return stream ? sse(wire.records(reply, model).join("")) : json(wire.whole(reply, model));
  };
  for (const stream of [true, false]) upstream.always(wire.path(upstreamModel(dialect, "plain"), stream), script);
}

const STATUSES = [400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529];

/** What is no answer, one kind after the other. */
function playFaulty(upstream: Upstream, dialect: "chat" | "messages"): void {
  const wire = WIRES[dialect];
  const said = (call: Call) => wire.whole(GREETING, wire.asks(call).model);
  const kinds: ((call: Call) => Answer)[] = [
    ...STATUSES.map((status) => () => json({ error: { message: "no", type: "t", code: "c" } }, { status })),
    () => html(502),
    () => html(200),
    () => reset(),
    (call) => truncatedJson(said(call)),
    () => json({ error: { message: "inside", type: "server_error" } }),
    () => json([]),
    () => sse(wire.records(GREETING, "m").slice(0, 3).join("")),
    () => sse(wire.records(GREETING, "m").slice(0, 3), { finish: "cut" }),
    () => sse(wire.records(GREETING, "m").slice(0, 2).join("") + wire.brokenRecord),
  ];
  let calls = 0;
  upstream.always(wire.path("m", true), (call) => (kinds[calls++ % kinds.length] as (call: Call) => Answer)(call));
}

function vendorRow(id: string, dialect: DialectName, upstream: Upstream): Vendor {
  const { auth, base } = WIRES[dialect];
  const row = { id, name: id, dialect, baseUrl: base(upstream.url), auth, apiKey: `vendor-key-of-${id}` };
  return { ...row, models: "catalog", quirks: {} };
}

const PRICE = { input: 1, output: 2 };

function startVendors() {
  const drawing = openLab("openai");
  const upstreams: Upstream[] = [];
  const start = () => {
    const upstream = startUpstream();
    upstreams.push(upstream);
    return upstream;
  };
  const vendors: Vendor[] = [{ ...drawing.vendor, apiKey: "vendor-key-of-openai" }];
  const models: { id: string; pricing?: typeof PRICE; routes: { vendor: string; model: string }[] }[] = [];
  for (const dialect of DIALECTS) {
    const upstream = start();
    playSound(upstream, dialect);
    vendors.push(vendorRow(`lab-${dialect}`, dialect, upstream));
    const routes = [{ vendor: `lab-${dialect}`, model: upstreamModel(dialect, "plain") }];
    models.push({ id: `lab/${dialect}`, pricing: PRICE, routes });
  }
  models.push({ id: "lab/unpriced", routes: [{ vendor: "lab-chat", model: upstreamModel("chat", "plain") }] });
  for (const dialect of ["chat", "messages"] as const) {
    const upstream = start();
    playFaulty(upstream, dialect);
    vendors.push(vendorRow(`faulty-${dialect}`, dialect, upstream));
    models.push({ id: `lab/faulty-${dialect}`, pricing: PRICE, routes: [{ vendor: `faulty-${dialect}`, model: "m" }] });
  }
  let drawn = 0;
  const draw = (): Answer => {
    const kind = drawn++ % 8;
    if (kind === 5) return json({ error: { code: "moderation_blocked", message: "no" } }, { status: 400 });
    if (kind === 6) return json({ error: { message: "no" } }, { status: 400 });
    return json({ data: [{ b64_json: PNG_BASE64 }] });
  };
  for (const path of ["/v1/images/generations", "/v1/images/edits"]) drawing.upstream.always(path, draw);
  const page = start();
  page.always("/page", html(200, "<html><title>T</title><main><h1>Page</h1><p>Text.</p></main>"));
  page.always("/missing", html(404));
  return { vendors, models, page, close: () => [drawing, ...upstreams].forEach((each) => void each.close()) };
}

type Made = { id: string; key: string };

async function makeCallers(gateway: TestApp): Promise<{ keys: Record<CallerName, string>; own: Set<string> }> {
  const { key: admin } = await gateway.app.keys.create({ accountId: gateway.accountId, name: "a", kind: "admin" });
  const make = async (path: string, body: object): Promise<Made> => {
    const response = await gateway.post(`/admin/v1/${path}`, body, { headers: { authorization: `Bearer ${admin}` } });
    const value: unknown = await response.json();
    if (!response.ok || !isObject(value)) throw new Error(`${path}: ${response.status} ${JSON.stringify(value)}`);
    return { id: String(value["id"]), key: String(value["key"]) };
  };
  const payer = await make("accounts", { name: "lab payer", plan: "power" });
  const poor = await make("accounts", { name: "lab poor", plan: "free" });
  await make(`accounts/${payer.id}/deposits`, { amount_usd: "5", reference: "lab" });
  const keys = {
    user: { id: "", key: gateway.key },
    admin: { id: "", key: admin },
    payer: await make("keys", { account: payer.id, name: "k" }),
    poor: await make("keys", { account: poor.id, name: "k" }),
    narrow: await make("keys", { account: payer.id, name: "n", models: ["lab/chat"], cap_requests_day: 1_000_000 }),
    token: await make("tokens", { account: payer.id, name: "t", scopes: ["web", "images:read"] }),
    revoked: await make("keys", { account: poor.id, name: "r" }),
    // Of the right form, and unknown.
    stranger: { id: "", key: gateway.key.slice(0, 20) + gateway.key.slice(20).split("").reverse().join("") },
    nobody: { id: "", key: "" },
  } satisfies Record<CallerName, Made>;
  await gateway.app.keys.revoke(keys.revoked.id);
  const own = new Set([gateway.accountId, payer.id, poor.id, ...gateway.app.keys.list().map(({ id }) => id)]);
  for (const { id } of Object.values(keys)) own.add(id);
  return { keys: Object.fromEntries(CALLERS.map((name) => [name, keys[name].key])) as Record<CallerName, string>, own };
}

/** Starts the lab; with `SLUICE_EXECUTABLE` the gateway is that program. */
export async function startFuzzLab(): Promise<FuzzLab> {
  const { vendors, models, page, close } = startVendors();
  const { host } = new URL(page.url);
  const gateway = await startApp({
    vendors,
    models,
    config: {
      search: [{ engine: "fixture" }],
      web: { fetch: { allow_hosts: [host] } },
      server: { ...PLAIN_CONFIG.server, trustedProxies: ["127.0.0.1"] },
    },
  });
  // How long is waited before a vendor is asked again is no matter of this test.
  gateway.app.services.pause = () => Promise.resolve();
  const { keys, own } = await makeCallers(gateway);
  const document = (await (await gateway.call("/openapi/json")).json()) as Schema;
  // What is loaded with the first need of it is no matter of this test: the tokenizer and the thread that draws.
  const ask = { messages: [{ role: "user", content: "Hi" }], model: "lab/unpriced" };
  for (const [path, body] of [
    ["/v1/messages/count_tokens", ask],
    ["/v1/images/generations", { model: "sluice/sketch", prompt: "a fox", size: "64x64" }],
  ] as const) {
    const response = await gateway.post(path, body, { headers: { prefer: "wait=20" } });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  }
  return {
    ...{ gateway, document, keys, own, page: page.url },
    addresses: vendors.map(({ baseUrl }) => new URL(baseUrl).host),
    async stop() {
      await gateway.stop();
      close();
    },
  };
}
