import { toKey } from "../../src/accounts/tokens.ts";
import type { Config } from "../../src/config/load.ts";
import type { Store } from "../../src/db/open.ts";
import type { SearchSource } from "../../src/web/search/search.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { givenExecutable } from "../support/binary.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";

const NOON = Date.UTC(2026, 10, 21, 12);
const DAY_MS = 86_400_000;
/** When that day ends; an executable has the day that it is. */
export const DAY_END = new Date(
  (Math.floor((givenExecutable() ? Date.now() : NOON) / DAY_MS) + 1) * DAY_MS,
).toISOString();

export type Json = Record<string, unknown>;
/** An answer of the MCP endpoint. */
export type Told = { status: number; headers: Headers; text: string; json: Json };
/** An account with a plan, a key and a wallet. */
export type Tenant = { id: string; key: string };

export type McpLab = {
  gateway: TestApp;
  clock: ManualClock;
  /** A page that can be read. */
  page: string;
  /** How often pages were asked for. */
  readonly fetched: number;
  /** Holds pages back until the returned function is called. */
  hold(): () => void;
  /** Sends a message (or text that is to pass for one). */
  send(message: unknown, options?: { key?: string; path?: string; headers?: Record<string, string> }): Promise<Told>;
  /** Calls a tool; the result of its answer. */
  call(name: string, args: unknown, key?: string): Promise<ToolResult>;
  tenant(plan: string, depositUsd?: string): Promise<Tenant>;
  /** A narrow token of the first account. */
  token(callsPerDay?: number, scopes?: ("web" | "images:read")[]): Promise<string>;
  stop(): Promise<void>;
};

export type ToolResult = {
  content: { type: string; text: string }[];
  structuredContent: Json;
  isError: boolean;
  _meta: {
    "sluice/pages"?: Json[];
    "sluice/usage": { day: Json; minute: Json; concurrent: Json; overage: Json; plan: string };
  };
};

export const request = (method: string, params?: unknown, id: string | number = 1): Json => ({
  jsonrpc: "2.0",
  id,
  method,
  ...(params !== undefined && { params: params as Json }),
});

/** A gateway whose search engine needs no network and whose clock is turned by hand, and a page on loopback that it may read. */
export async function startMcpLab(
  options: { sources?: readonly SearchSource[]; store?: Store; clock?: ManualClock; plans?: Config["plans"] } = {},
): Promise<McpLab> {
  const clock = options.clock ?? manualClock(NOON);
  let fetched = 0;
  let held: Promise<void> | undefined;
  const pages = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(asked) {
      fetched++;
      await held;
      const { pathname } = new URL(asked.url);
      if (pathname === "/missing") return new Response("no", { status: 404 });
      const [, to] = /^\/moved(\/.*)$/.exec(pathname) ?? [];
      if (to) return new Response(null, { status: 302, headers: { location: to } });
      const head = '<meta name="date" content="2026-03-01"><script src="app.js"></script>';
      if (pathname === "/app")
        return new Response(`<title>App</title>${head}`, { headers: { "content-type": "text/html" } });
      const html = `<html><title>Page ${pathname}</title><main><h1>Page ${pathname}</h1><p>Text of ${pathname}.</p></main>`;
      return new Response(html, { headers: { "content-type": "text/html" } });
    },
  });
  const gateway = await startApp({
    clock,
    ...(options.store && { store: options.store }),
    config: {
      plans: options.plans ?? {},
      search: options.sources ?? [{ engine: "fixture" }],
      web: { fetch: { allow_hosts: [`127.0.0.1:${pages.port}`] } },
    },
  });
  const { keys } = gateway.app;
  const admin = (await keys.create({ accountId: gateway.accountId, name: "admin", kind: "admin" })).key;
  const post = async (path: string, body: Json): Promise<Json> => {
    const response = await gateway.post(path, body, { headers: { authorization: `Bearer ${admin}` } });
    if (response.status !== 201) throw new Error(`${response.status} ${await response.text()}`);
    return (await response.json()) as Json;
  };
  const send: McpLab["send"] = async (message, { key = gateway.key, path = "/mcp/web", headers = {} } = {}) => {
    const authorization: Record<string, string> = key === "" ? {} : { authorization: `Bearer ${key}` };
    const response = await gateway.call(path, {
      method: "POST",
      headers: { "content-type": "application/json", ...authorization, ...headers },
      body: typeof message === "string" ? message : JSON.stringify(message),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: text === "" ? {} : JSON.parse(text) };
  };
  let tenants = 0;
  return {
    gateway,
    clock,
    page: `http://127.0.0.1:${pages.port}`,
    get fetched() {
      return fetched;
    },
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      held = promise;
      return resolve;
    },
    send,
    async call(name, args, key = gateway.key) {
      const { status, json, text } = await send(request("tools/call", { name, arguments: args }), { key });
      if (status !== 200 || !json["result"]) throw new Error(`${status} ${text}`);
      return json["result"] as ToolResult;
    },
    async tenant(plan, depositUsd) {
      const name = `tenant ${++tenants}`;
      const { id } = await post("/admin/v1/accounts", { name, plan });
      const { key } = await post("/admin/v1/keys", { account: name, name: `${name}'s key` });
      if (depositUsd !== undefined) {
        await post(`/admin/v1/accounts/${id}/deposits`, { amount_usd: depositUsd, reference: name });
      }
      return { id: String(id), key: String(key) };
    },
    async token(callsPerDay, scopes = ["web"]) {
      const wish = { name: "narrow", scopes, ...(callsPerDay !== undefined && { callsPerDay }) };
      return (await keys.create({ accountId: gateway.accountId, ...toKey(wish, clock.now()) })).key;
    },
    async stop() {
      await gateway.stop();
      await pages.stop(true);
    },
  };
}
