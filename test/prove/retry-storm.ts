/**
 * A vendor that answers everything with 503 for a while, and clients that try again as the official SDKs do (reliability 8.2, N10): how often the vendor
 * is asked all the same, when its breaker opens, and when everybody is served again after it is mended. `bun test/prove/retry-storm.ts [seconds]`, `--quick`
 * for a short outage. Exits 1 unless the aims hold.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { makeFolder, type RunningBinary, removeFolder, startBinary } from "../support/binary.ts";
import { until } from "../support/wait.ts";

/** Clients of each SDK, and how long each thinks between two requests, ms. */
const CLIENTS = 16;
const THINK_MS = 100;
/** The aims: calls for each request and beside them, ms until the breaker opens, ms until everybody is served again. */
const AIM = { share: 1.2, more: 3, opensMs: 2_000, recoversMs: 35_000 };
const MODEL = "lab/busy";

/** A vendor that can be broken and mended, and counts. */
function startFrailVendor() {
  const state = { broken: true, calls: 0, firstAt: 0 };
  const reply = {
    ...{ id: "c-1", object: "chat.completion", created: 1, model: "busy" },
    choices: [{ index: 0, message: { role: "assistant", content: "Well." }, finish_reason: "stop" }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  };
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      await request.text();
      state.calls++;
      state.firstAt ||= Date.now();
      if (!state.broken) return Response.json(reply);
      return Response.json({ error: { message: "Overloaded", type: "overloaded_error" } }, { status: 503 });
    },
  });
  return { state, url: `http://127.0.0.1:${server.port}`, stop: () => void server.stop(true) };
}

/** What one client came to: what it wanted, and what its SDK made of that on the wire. */
type Tally = { wanted: number; requests: number; servedAt: number | undefined };

/** Asks again and again, with its SDK's own retries, until it is told to stop. */
async function insist(ask: () => Promise<unknown>, tally: Tally, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    tally.wanted++;
    // What it is told is looked at elsewhere; here only how often anybody asks.
    const served = await ask().then(
      () => true,
      () => false,
    );
    if (served) tally.servedAt ??= performance.now();
    await Bun.sleep(THINK_MS);
  }
}

type Client = { tally: Tally; ask: () => Promise<unknown> };

/** A client with its SDK as it comes; what it sends is counted. */
function makeClient({ url, key }: RunningBinary, sdk: "openai" | "anthropic"): Client {
  const tally: Tally = { wanted: 0, requests: 0, servedAt: undefined };
  const counted = (...args: Parameters<typeof fetch>) => {
    tally.requests++;
    return fetch(...args);
  };
  const messages = [{ role: "user" as const, content: "Hi" }];
  if (sdk === "openai") {
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, fetch: counted });
    return { tally, ask: () => openai.chat.completions.create({ model: MODEL, messages }) };
  }
  const anthropic = new Anthropic({ baseURL: url, apiKey: key, fetch: counted });
  return { tally, ask: () => anthropic.messages.create({ model: MODEL, max_tokens: 64, messages }) };
}

/** When the breaker opened first, Unix ms, as the gateway's log tells it. */
function openedAt({ stderr }: RunningBinary): number | undefined {
  const line = stderr.split("\n").find((each) => each.includes('"route-opened"'));
  return line === undefined ? undefined : Date.parse((JSON.parse(line) as { time: string }).time);
}

async function prove(outageMs: number): Promise<boolean> {
  const vendor = startFrailVendor();
  const folder = makeFolder();
  mkdirSync(join(folder, "data"), { recursive: true, mode: 0o700 });
  const config = {
    vendors: [{ id: "lab", dialect: "chat", base_url: `${vendor.url}/v1`, api_key: "none", models: "any" }],
    models: [{ id: MODEL, pricing: "free", routes: [{ vendor: "lab", model: "busy" }] }],
    local_discovery: false,
  };
  writeFileSync(join(folder, "data/sluice.json"), JSON.stringify(config), { mode: 0o600 });
  const gateway = await startBinary(["--port", "0"], { folder });
  try {
    let over = false;
    const clients = Array.from({ length: CLIENTS }, () => [
      makeClient(gateway, "openai"),
      makeClient(gateway, "anthropic"),
    ]).flat();
    const tallies = clients.map(({ tally }) => tally);
    const work = clients.map(({ ask, tally }) => insist(ask, tally, () => over));
    await Bun.sleep(outageMs);
    const requests = tallies.reduce((sum, tally) => sum + tally.requests, 0);
    const wanted = tallies.reduce((sum, tally) => sum + tally.wanted, 0);
    const served = tallies.filter(({ servedAt }) => servedAt !== undefined).length;
    const { calls, firstAt } = vendor.state;
    vendor.state.broken = false;
    const mendedAt = performance.now();
    const all = () => tallies.every(({ servedAt }) => servedAt !== undefined);
    await until(all, "everybody served", AIM.recoversMs * 2).catch(() => undefined);
    over = true;
    const firstMs = Math.min(...tallies.map(({ servedAt = Number.POSITIVE_INFINITY }) => servedAt)) - mendedAt;
    const lastMs = Math.max(...tallies.map(({ servedAt = Number.POSITIVE_INFINITY }) => servedAt)) - mendedAt;
    const opensMs = (openedAt(gateway) ?? Number.POSITIVE_INFINITY) - firstAt;
    const bound = AIM.share * requests + AIM.more;
    console.log(
      `calls: ${calls} for ${requests} requests (${wanted} before the SDKs' own retries) in ${outageMs / 1000} s of 503, aim ${Math.floor(bound)}`,
    );
    console.log(`breaker: opened after ${opensMs} ms, aim ${AIM.opensMs}`);
    console.log(
      `mended: first served after ${Math.round(firstMs)} ms, all ${2 * CLIENTS} after ${Math.round(lastMs)} ms, aim ${AIM.recoversMs}`,
    );
    // What SDKs still wait for is nobody's business.
    void Promise.allSettled(work);
    return calls <= bound && opensMs < AIM.opensMs && lastMs < AIM.recoversMs && served === 0;
  } finally {
    await gateway.stop();
    removeFolder(folder);
    vendor.stop();
  }
}

if (import.meta.main) {
  const [word = "30"] = process.argv.slice(2);
  const holds = await prove(word === "--quick" ? 5_000 : Number(word) * 1_000);
  process.exit(holds ? 0 : 1);
}
