import type { Config } from "../../src/config/load.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { estimateInputTokens } from "../../src/relay/tokens/estimate.ts";
import { countMedia } from "../../src/relay/tokens/media-tokens.ts";
import { startApp, type TestApp, type UsageRow, vendorAt } from "../support/app.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";
import { HIDDEN_MODEL, type Side } from "./wires.ts";

/** Micro-USD per 1M tokens, which is nano-USD per 1,000 tokens: what a token costs in thousandths of a nano. */
const PRICE = { input: 3_000_000n, output: 15_000_000n };

/** Models with a price, one for a vendor of each dialect. */
export const PRICED: Record<Side, string> = { chat: "lab/priced-chat", messages: "lab/priced-messages" };
export const PREMIUM = "lab/premium";
/** A hundred times as dear as the others, with no tier in its row. */
export const DEAR = "lab/dear";
export const UNPRICED = "lab/unpriced";
export const GRATIS = "lab/gratis";
/** With two routes: the chat vendor's, then the messages vendor's. */
export const TWO_WAYS = "lab/two";
/** Its vendor takes connections and never says who it is: none comes about. */
export const UNPROVEN = "lab/unproven";

const vendorOf: Record<Side, string> = { chat: "vendor-chat", messages: "vendor-messages" };
const USUAL = { input: 3, output: 15 };
const routes = (side: Side) => [{ vendor: vendorOf[side], model: HIDDEN_MODEL }];

const ROWS: Config["models"] = [
  { id: PRICED.chat, pricing: USUAL, routes: routes("chat") },
  { id: PRICED.messages, pricing: USUAL, routes: routes("messages") },
  { id: PREMIUM, pricing: USUAL, access_tier: "premium", routes: routes("chat") },
  { id: DEAR, pricing: { input: 300, output: 1_500 }, routes: routes("chat") },
  { id: UNPRICED, routes: routes("chat") },
  { id: TWO_WAYS, pricing: USUAL, routes: [...routes("chat"), ...routes("messages")] },
  { id: GRATIS, pricing: "free", routes: routes("chat") },
  { id: UNPROVEN, pricing: USUAL, routes: [{ vendor: "vendor-unproven", model: HIDDEN_MODEL }] },
];

/** A gateway whose one account pays, with a scripted vendor of each dialect. */
export type PayingLab = {
  gateway: TestApp;
  vendors: Record<Side, Upstream>;
  /** Resolves when somebody connects to the vendor of {@link UNPROVEN}. */
  knocked: Promise<void>;
  /** Puts money into the wallet: a deposit unless it says otherwise. */
  fund(nano: bigint, kind?: "deposit" | "promote"): Promise<void>;
  /** What the wallet has, and how much of it is held. */
  wallet(): { posted: bigint; held: bigint };
  /** Puts the account on another plan. */
  join(plan: string): Promise<void>;
  /** {@link TestApp.rows}. */
  rows(): UsageRow[];
  stop(): Promise<void>;
};

/** Starts the lab; the account is on a plan that pays everything from its wallet, and has nothing. */
export async function startPayingLab(clock?: Clock): Promise<PayingLab> {
  const vendors = { chat: startUpstream(), messages: startUpstream() };
  const knocked = Promise.withResolvers<void>();
  const socket = { open: () => knocked.resolve(), data() {}, error() {} };
  const unproven = Bun.listen({ hostname: "127.0.0.1", port: 0, socket });
  const fast = { requests_per_minute: 1_000_000, concurrent_generations: 100_000 };
  const gateway = await startApp({
    vendors: [
      vendorAt(vendors.chat, "chat", vendorOf.chat),
      vendorAt(vendors.messages, "messages", vendorOf.messages),
      vendorAt({ url: `https://127.0.0.1:${unproven.port}` }, "chat", "vendor-unproven"),
    ],
    models: ROWS,
    config: { plans: { paying: fast, windowed: { ...fast, spending_window_usd: 0.001 } } },
    ...(clock && { clock }),
  });
  const { book, keys } = gateway.app;
  const { accountId, store } = gateway;
  let payments = 0;
  const join = async (plan: string) => {
    store.database.run("UPDATE account SET plan = ? WHERE id = ?", [plan, accountId]);
    keys.reload();
  };
  await join("paying");
  return {
    gateway,
    vendors,
    knocked: knocked.promise,
    async fund(amountNano, kind = "deposit") {
      await book[kind]({ accountId, amountNano, reference: `payment-${payments++}` });
    },
    wallet() {
      const { postedNano, heldNano } = book.balance(accountId);
      return { posted: postedNano, held: heldNano };
    },
    join,
    rows: () => gateway.rows(),
    async stop() {
      await gateway.stop();
      for (const upstream of [vendors.chat, vendors.messages]) upstream.close();
      unproven.stop(true);
    },
  };
}

/** What so many tokens cost, nano-USD, rounded up. */
export function costOf(input: number, output: number): bigint {
  return (BigInt(input) * PRICE.input + BigInt(output) * PRICE.output + 999n) / 1_000n;
}

/** The gateway's own estimate of a body's input. */
export function estimateOf(body: { model: string }, webTools = 0): number {
  return estimateInputTokens(new JsonText(JSON.stringify(body)), body.model, { webTools, ...countMedia(body) });
}

/** What is held for a body's input and so much output: a tenth is added to the estimate (contract 5). */
export function holdOf(body: { model: string }, output: number, webTools = 0): bigint {
  return costOf(Math.ceil((estimateOf(body, webTools) * 11) / 10), output);
}
