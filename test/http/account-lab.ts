import { BEHIND_PROXY, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { json, startUpstream, type Upstream } from "../support/upstream.ts";

export const DAY_MS = 86_400_000;
export const PRICED = "lab/priced";
export const UNPRICED = "lab/unpriced";

/** The usage that the scripted vendor tells: 1,000 cached, 234 fresh, 567 out, of which 200 reasoning (reliability 3.1, case A). */
const USAGE = {
  prompt_tokens: 1_234,
  completion_tokens: 567,
  total_tokens: 1_801,
  prompt_tokens_details: { cached_tokens: 1_000 },
  completion_tokens_details: { reasoning_tokens: 200 },
};
/** 234 × 3 + 1,000 × 0.3 + 567 × 15 USD for a million. */
export const COST = "0.009507000";

const REPLY = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "hidden",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, logprobs: null, finish_reason: "stop" }],
  usage: USAGE,
};

export type Json = Record<string, unknown>;
export type Told = { status: number; body: Json; headers: Headers };

/** An account with a plan, a key and a wallet. */
export type Tenant = { id: string; key: string; keyId: string };

export type AccountLab = {
  gateway: TestApp;
  upstream: Upstream;
  clock: ManualClock;
  /** An admin key. */
  admin: string;
  /** Makes an account as an operator would, over HTTP. */
  tenant(name: string, plan: string, depositUsd?: string): Promise<Tenant>;
  /** Asks with a key; the answer read as JSON. */
  ask(
    key: string,
    path: string,
    init?: { method?: string; body?: unknown; headers?: Record<string, string> },
  ): Promise<Told>;
  /** One request for generation; gives its id. */
  generate(key: string, model?: string): Promise<string>;
  stop(): Promise<void>;
};

/** A gateway with a priced and an unpriced model at a scripted vendor, and an admin key; the clock is turned by hand. */
export async function startAccountLab(): Promise<AccountLab> {
  const upstream = startUpstream();
  const clock = manualClock(Date.UTC(2026, 5, 10, 12));
  const routes = [{ vendor: "lab", model: "hidden" }];
  const gateway = await startApp({
    clock,
    config: BEHIND_PROXY,
    vendors: [vendorAt(upstream, "chat", "lab")],
    models: [
      { id: PRICED, pricing: { input: 3, output: 15, cache_read: 0.3 }, routes },
      { id: UNPRICED, routes },
    ],
  });
  upstream.always("/v1/chat/completions", json(REPLY));
  const { keys } = gateway.app;
  const admin = (await keys.create({ accountId: gateway.accountId, name: "admin", kind: "admin" })).key;
  const ask: AccountLab["ask"] = async (key, path, { method, body, headers = {} } = {}) => {
    const response = await gateway.call(path, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: {
        authorization: `Bearer ${key}`,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Json, headers: response.headers };
  };
  const expectMade = ({ status, body }: Told) => {
    if (status === 201) return body;
    throw new Error(`not made: ${status} ${JSON.stringify(body)}`);
  };
  return {
    gateway,
    upstream,
    clock,
    admin,
    ask,
    async tenant(name, plan, depositUsd) {
      const account = expectMade(await ask(admin, "/admin/v1/accounts", { body: { name, plan } }));
      const id = String(account["id"]);
      const key = expectMade(await ask(admin, "/admin/v1/keys", { body: { account: name, name: `${name}'s key` } }));
      if (depositUsd !== undefined) {
        const body = { amount_usd: depositUsd, reference: `first of ${name}` };
        expectMade(await ask(admin, `/admin/v1/accounts/${id}/deposits`, { body }));
      }
      return { id, key: String(key["key"]), keyId: String(key["id"]) };
    },
    async generate(key, model = PRICED) {
      const body = { model, messages: [{ role: "user", content: "Hi" }] };
      const { status, body: reply, headers } = await ask(key, "/v1/chat/completions", { body });
      if (status !== 200) throw new Error(`${status} ${JSON.stringify(reply)}`);
      return headers.get("x-request-id") ?? "";
    },
    async stop() {
      await gateway.stop();
      upstream.close();
    },
  };
}
