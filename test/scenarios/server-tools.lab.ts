import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import type { Config } from "../../src/config/load.ts";
import type { UpstreamDialectName } from "../../src/dialects/dialect.ts";
import type { Clock } from "../../src/lib/clock.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { apiKeyOf, DIALECTS, type LabVendor, startVendor, upstreamModel, WIRES } from "../sdk/lab.ts";
import type { Reply } from "../sdk/replies.ts";
import { startApp, type TestApp } from "../support/app.ts";
import type { Script } from "../support/upstream.ts";

/** A gateway in this process with a strict vendor of every dialect behind it, none of which runs web tools unless asked to, and both SDKs before it. */
export type ServedLab = {
  gateway: TestApp;
  vendors: Record<UpstreamDialectName, LabVendor>;
  openai: OpenAI;
  anthropic: Anthropic;
  stop(): Promise<void>;
};

/** A model with two routes: the chat vendor's, then the one of Google's dialect. */
export const TWO_WAYS = "lab/two";
/** The chat vendor's, as one that makes no more than this in one call, tokens. */
export const SMALL = "lab/small";
export const SMALL_OUTPUT = 1_000;
/** One that takes system turns in the midst of a conversation, as its vendor's name of it tells. */
export const CLAUDE = "lab/claude";
/** The chat vendor's, as one that is known to take no tools, which searches by itself all the same (Perplexity's). */
export const TOOLLESS = "lab/toolless";

const SHARED = { pricing: { input: 3, output: 15 }, capabilities: { tools: true, vision: true, reasoning: false } };

export const modelOf = (dialect: UpstreamDialectName) => `lab/${dialect}`;

export async function startServedLab(
  config: Partial<Config> = {},
  webTools = false,
  clock?: Clock,
): Promise<ServedLab> {
  const vendors = Object.fromEntries(DIALECTS.map((dialect) => [dialect, startVendor(dialect)])) as Record<
    UpstreamDialectName,
    LabVendor
  >;
  const rows = DIALECTS.map((dialect): Vendor => {
    const baseUrl = WIRES[dialect].base(vendors[dialect].upstream.url);
    const quirks = { webTools };
    return {
      ...{ id: `lab-${dialect}`, name: dialect, dialect, baseUrl, auth: WIRES[dialect].auth, quirks },
      ...{ apiKey: apiKeyOf(dialect), models: "any" },
      ...(dialect === "messages" && { headers: { "anthropic-version": "2023-06-01" } }),
    };
  });
  const routeTo = (dialect: UpstreamDialectName) => ({
    vendor: `lab-${dialect}`,
    model: upstreamModel(dialect, "plain"),
  });
  const models: Config["models"] = [
    ...DIALECTS.map((dialect) => ({ id: modelOf(dialect), ...SHARED, routes: [routeTo(dialect)] })),
    { id: SMALL, ...SHARED, max_output_tokens: SMALL_OUTPUT, routes: [routeTo("chat")] },
    { id: CLAUDE, ...SHARED, routes: [{ vendor: "lab-messages", model: "claude-opus-5" }] },
    {
      ...{ id: TOOLLESS, ...SHARED, capabilities: { ...SHARED.capabilities, tools: false } },
      routes: [routeTo("chat")],
    },
    { id: TWO_WAYS, ...SHARED, routes: [routeTo("chat"), routeTo("gemini")] },
  ];
  const gateway = await startApp({
    vendors: rows,
    models,
    config: { search: [{ engine: "fixture" }], ...config },
    ...(clock && { clock }),
  });
  const fetch = async (url: string | URL | Request, init?: RequestInit) =>
    gateway.app.gateway.answerRequest(new Request(url as string, init));
  const sdk = { apiKey: gateway.key, maxRetries: 0, timeout: 20_000, fetch: fetch as typeof globalThis.fetch };
  return {
    gateway,
    vendors,
    openai: new OpenAI({ ...sdk, baseURL: "http://localhost/v1" }),
    anthropic: new Anthropic({ ...sdk, baseURL: "http://localhost" }),
    async stop() {
      await gateway.stop();
      for (const dialect of DIALECTS) vendors[dialect].upstream.close();
    },
  };
}

/** What an account that pays begins with, nano-USD. */
export const DEPOSIT = 1_000_000_000n;

/** Has the lab's account pay: on plan `trial`, with so much in its wallet. */
export async function beginPaying({ gateway }: ServedLab): Promise<void> {
  gateway.store.database.run("UPDATE account SET plan = 'trial' WHERE id = ?", [gateway.accountId]);
  gateway.app.keys.reload();
  await gateway.app.book.deposit({ accountId: gateway.accountId, amountNano: DEPOSIT, reference: "first" });
}

/** What that account has paid. */
export const spent = ({ gateway }: ServedLab) => DEPOSIT - gateway.app.book.balance(gateway.accountId).postedNano;

/** A round in which the model says something and searches. */
export const searches = (query: string, id = "look", text = "I will look."): Reply => ({
  steps: [
    { kind: "text", pieces: [text] },
    { kind: "call", id, name: "web_search", pieces: ['{"que', `ry":${JSON.stringify(query)}}`] },
  ],
  finish: "calls",
});

export const says = (...pieces: string[]): Reply => ({ steps: [{ kind: "text", pieces }], finish: "stop" });

/** Has a vendor play these in turn, the last one again and again. */
export function playAt({ script }: LabVendor, ...scripts: Script[]): void {
  let calls = 0;
  script((call) => {
    const played = scripts[Math.min(calls++, scripts.length - 1)] as Script;
    return typeof played === "function" ? played(call) : played;
  });
}

/** The test engine's first result for a query. */
export const FIRST = { title: "sluice gates: result 1", url: "https://docs.example.com/sluice-gates/1" };
