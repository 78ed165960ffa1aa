import { afterEach, beforeEach, expect, test } from "bun:test";
import { startApp, vendorAt } from "../support/app.ts";
import { chatReply, json, startUpstream, type Upstream } from "../support/upstream.ts";
import { PATH } from "./lab.ts";
import { type PayingLab, PRICED, startPayingLab } from "./paying.ts";
import { SIDES, type Side, WIRES } from "./wires.ts";

let lab: PayingLab;
beforeEach(async () => {
  lab = await startPayingLab();
  await lab.fund(10_000_000_000n);
});
afterEach(() => lab.stop());

const FURTHER: Record<Side, Record<string, unknown>> = {
  chat: { models: ["lab/dear"] },
  messages: { fallbacks: [{ model: "lab/dear" }] },
};
const ask = (side: Side, extra: Record<string, unknown>) => ({
  model: PRICED[side],
  max_tokens: 50,
  messages: [{ role: "user", content: "Hello" }],
  ...extra,
});
const answer = (upstream: Upstream, side: Side) =>
  upstream.answer(
    PATH[side],
    json(side === "chat" ? chatReply("Hello") : WIRES.messages.reply({ input: 3, output: 2 })),
  );

async function send(side: Side, extra: Record<string, unknown>, headers: Record<string, string> = {}) {
  answer(lab.vendors[side], side);
  const response = await lab.gateway.post(PATH[side], ask(side, extra), { headers });
  await response.text();
  const sent = lab.vendors[side].calls[0]?.json as Record<string, unknown> | undefined;
  return { status: response.status, dropped: response.headers.get("x-sluice-dropped"), sent };
}

test.each(SIDES)(
  "who pays has no vendor fall back on another model than the one that is paid for: %s",
  async (side) => {
    const [field = ""] = Object.keys(FURTHER[side]);
    const { status, dropped, sent } = await send(side, FURTHER[side]);
    expect([status, dropped, sent?.[field]]).toEqual([200, field, undefined]);
  },
);

test.each([
  { context_window_fallbacks: [{ cheap: ["dear"] }] },
  { content_policy_fallbacks: [{ cheap: ["dear"] }] },
  { router_settings_override: { fallbacks: [{ cheap: ["dear"] }] } },
  { deployment_id: "dear" },
  { extra_body: { model: "dear", n: 100, service_tier: "priority" } },
  { providerOptions: { gateway: { models: ["dear"], sort: "tps" } } },
])("nor has LiteLLM or Vercel answer with one, in any of their words: %j", async (further) => {
  const [field = ""] = Object.keys(further);
  const { status, dropped, sent } = await send("chat", further);
  expect([status, dropped, sent && field in sent]).toEqual([200, field, false]);
  await lab.join("local");
  expect((await send("chat", further)).dropped).toBeNull();
  expect(lab.vendors.chat.calls[1]?.json).toMatchObject(further);
});

test.each(SIDES)("a key for some models reaches no others by it: %s", async (side) => {
  await lab.join("local");
  const [field = ""] = Object.keys(FURTHER[side]);
  const { key } = await lab.gateway.app.keys.create({
    accountId: lab.gateway.accountId,
    name: "some",
    kind: "api",
    models: ["lab/*"],
  });
  const { status, dropped, sent } = await send(side, FURTHER[side], { authorization: `Bearer ${key}` });
  expect([status, dropped, sent?.[field]]).toEqual([200, field, undefined]);
});

test.each(SIDES)("who neither pays nor is kept from a model sends it on: %s", async (side) => {
  await lab.join("local");
  const { dropped, sent } = await send(side, FURTHER[side]);
  expect(dropped).toBeNull();
  expect(sent).toMatchObject(FURTHER[side]);
});

const DEARER: Record<Side, Record<string, unknown>> = {
  chat: { service_tier: "priority" },
  messages: { speed: "fast", inference_geo: "us" },
};

test.each(SIDES)("who pays the model's price is not served for a higher one: %s", async (side) => {
  const fields = Object.keys(DEARER[side]);
  const { status, dropped, sent } = await send(side, DEARER[side]);
  expect([status, dropped]).toEqual([200, fields.join(", ")]);
  for (const field of fields) expect(sent).not.toContainKey(field);
  await lab.join("local");
  const free = await send(side, DEARER[side]);
  expect(free.dropped).toBeNull();
  expect(lab.vendors[side].calls[1]?.json).toMatchObject(DEARER[side]);
});

test("nor is a key with a cap of its own, which counts at the model's price, whatever its plan", async () => {
  await lab.join("local");
  const wanted = { accountId: lab.gateway.accountId, name: "capped", kind: "api", capDayNano: 1_000_000_000n } as const;
  const { key } = await lab.gateway.app.keys.create(wanted);
  const fields = { ...DEARER.chat, ...FURTHER.chat };
  const { status, dropped, sent } = await send("chat", fields, { authorization: `Bearer ${key}` });
  expect([status, dropped]).toEqual([200, "service_tier, models"]);
  for (const field of Object.keys(fields)) expect(sent).not.toContainKey(field);
});

test("a field of a dearer service that says nothing is nothing lost", async () => {
  const said = { service_tier: null };
  const { status, dropped, sent } = await send("chat", said, { "x-sluice-strict": "true" });
  expect([status, dropped]).toEqual([200, null]);
  expect(sent).toMatchObject(said);
});

test.each(["fast", "scale", "ultrafast", "a tier of next year"])(
  "who pays has no other tier than those that cost no more: %p",
  async (service_tier) => {
    const { status, dropped, sent } = await send("chat", { service_tier });
    expect([status, dropped, sent?.["service_tier"]]).toEqual([200, "service_tier", undefined]);
  },
);

test("who pays does not choose a dearer host of the model; what a host does with what is said, and what it may cost, stays", async () => {
  const kept = { data_collection: "deny", max_price: { completion: 2 } };
  const provider = {
    order: ["dear"],
    only: ["dear"],
    ...kept,
    ignore: ["cheap"],
    sort: "throughput",
    quantizations: ["bf16"],
  };
  const named = "provider.order, provider.only, provider.ignore, provider.sort, provider.quantizations";
  const paid = await send("chat", { provider });
  expect([paid.status, paid.dropped, paid.sent?.["provider"]]).toEqual([200, named, kept]);
  const alone = await send("chat", { provider: { sort: { by: "latency" } } });
  expect([alone.status, alone.dropped]).toEqual([200, "provider.sort"]);
  expect(lab.vendors.chat.calls[1]?.json).not.toContainKey("provider");
  const byPrice = { provider: { sort: "price" } };
  expect((await send("chat", byPrice)).dropped).toBeNull();
  expect(lab.vendors.chat.calls[2]?.json).toMatchObject(byPrice);
  await lab.join("local");
  expect((await send("chat", { provider })).dropped).toBeNull();
  expect(lab.vendors.chat.calls[3]?.json).toMatchObject({ provider });
});

test("who pays may wait for a lower price, and have the usual one", async () => {
  for (const service_tier of ["flex", "auto", "default"]) {
    const { dropped } = await send("chat", { service_tier });
    expect(dropped).toBeNull();
    expect(lab.vendors.chat.calls.at(-1)?.json).toMatchObject({ service_tier });
  }
});

test.each(SIDES)("a field that decides is not said again in other letters: %s", async (side) => {
  const again = { Model: "dear", MAX_TOKENS: 100_000, "\u017ftream": true, "to\u212Aens": 1 };
  const { status, dropped, sent } = await send(side, again);
  expect([status, dropped]).toEqual([200, "Model, MAX_TOKENS, ?tream"]);
  expect(Object.keys(sent ?? {}).filter((field) => field in again)).toEqual(["to\u212Aens"]);
});

/** How servers are told of a long reply or several, beside the words of the dialect that the gateway reads. */
const LONGER: Record<Side, Record<string, unknown>> = {
  chat: { n_predict: 90_000, n_cmpl: 8, max_output_tokens: 90_000, max_new_tokens: 90_000, maxTokens: 90_000 },
  messages: { n_predict: 90_000, n: 8, max_completion_tokens: 90_000, num_predict: 90_000 },
};

test.each(SIDES)("who pays for so much output asks for no more of it in other words: %s", async (side) => {
  const longer = LONGER[side];
  const { status, dropped, sent } = await send(side, longer);
  expect([status, dropped]).toEqual([200, Object.keys(longer).join(", ")]);
  expect(sent).toMatchObject({ max_tokens: 50 });
  for (const field of Object.keys(longer)) expect(sent).not.toContainKey(field);
  await lab.join("local");
  expect((await send(side, longer)).dropped).toBeNull();
  expect(lab.vendors[side].calls[1]?.json).toMatchObject(longer);
});

const NEWER = {
  id: "newer/priced",
  pricing: { input: 3, output: 15 },
  routes: [{ vendor: "newer", model: "hidden" }],
};
const responsesReply = {
  ...{ id: "resp_1", object: "response", created_at: 1, status: "completed", model: "hidden" },
  output: [
    {
      ...{ id: "msg_1", type: "message", role: "assistant", status: "completed" },
      content: [{ type: "output_text", text: "Hello", annotations: [] }],
    },
  ],
  usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
};

test("nor in the newer dialect, of which llama.cpp reads the older one's words first", async () => {
  const upstream = startUpstream();
  const gateway = await startApp({ vendors: [vendorAt(upstream, "responses", "newer")], models: [NEWER] });
  try {
    const wanted = { accountId: gateway.accountId, name: "capped", kind: "api", capDayNano: 1_000_000_000n } as const;
    const { key } = await gateway.app.keys.create(wanted);
    const body = { model: NEWER.id, input: "Hello", max_output_tokens: 50, max_completion_tokens: 90_000, n: 8 };
    const headers = { authorization: `Bearer ${key}` };
    upstream.answer("/v1/responses", json(responsesReply));
    const response = await gateway.post("/v1/responses", body, { headers });
    expect([response.status, response.headers.get("x-sluice-dropped")]).toEqual([200, "max_completion_tokens, n"]);
    const sent = upstream.calls[0]?.json;
    expect(sent).toMatchObject({ max_output_tokens: 50 });
    for (const field of ["max_completion_tokens", "n"]) expect(sent).not.toContainKey(field);
  } finally {
    await gateway.stop();
    upstream.close();
  }
});
