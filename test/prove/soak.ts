/**
 * Soak (reliability 8.2, N5): the compiled gateway under mixed traffic for a while: streams, whole answers across dialects, streams that are left, image jobs and their
 * polls, MCP calls, bad requests, counts, the catalog. `bun test/prove/soak.ts [--minutes 15] [--rate 50]`. Exits 1 unless its memory stands still over the last 80 % of the
 * time (the upper end of the 95 % interval of the slope below 1 MB an hour, or less than 3 MB in all), files and holds are back to what they were,
 * the event loop was late by 20 ms at less than one look of a hundred and everything was answered as it should be. Linux only.
 */
import { readdirSync } from "node:fs";
import { parseArgs } from "node:util";
import { buildBinary } from "../support/binary.ts";
import { type CountingVendor, startCountingVendor, type Wish } from "./counting-vendor.ts";
import { check, faults } from "./faults.ts";
import { holdsWithin, readMemory } from "./look.ts";
import { MODEL, PaidGateway, USD } from "./paid-gateway.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "15" },
    rate: { type: "string", default: "50" },
    quick: { type: "boolean" },
  },
});
const MINUTES = values.quick ? 0.15 : Number(values.minutes);
const PER_SECOND = Number(values.rate);
const SAMPLE_MS = values.quick ? 500 : Math.max(5_000, Math.min(10_000, MINUTES * 2_000));
const FUNDED = 900_000_000_000_000n;
/**
 * Part of the samples that is not looked at: the runtime still compiles what it runs often, and its heaps and those of its threads still grow to what they
 * need. At 50 requests a second that takes three minutes, so what is looked at in a run of less than fifteen is that.
 */
const WARM_UP = 0.2;
const AIM_MB_AN_HOUR = 1;
/** A look in between ends before the runtime has come to rest, and with connections that are kept for a minute. */
const AIM_MB = values.quick ? 40 : 3;
/** The event loop's lateness, ms, that so many looks at the most may reach: its 99th percentile. One of the bounds of the gateway's own histogram. */
const AIM_LAG_MS = 20;
const MOST_LATE = 0.01;
/** How soon after the load files and holds are as before, ms; connections to a vendor are kept for a while. */
const BACK_MS = 90_000;
const BACK_FILES = values.quick ? 80 : 8;
/** As the interface has it: who asks more often is limited. */
const POLL_MS = 1_000;
const JOB_MS = 20_000;
/** Student's t for 95 % with as many samples as there are here, about. */
const T95 = 2.1;

/** `looks`: at the event loop since the start, of them `late` by more than the aim; `lagMs`: the 99th percentile of the last ten seconds. */
type Sample = {
  at: number;
  rss: number;
  files: number;
  running: number;
  looks: number;
  late: number;
  lagMs: number;
  queued: number;
};

const counts = new Map<string, number>();
const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);

/** The clients: each kind of request, and whether it came out as it should. */
class Traffic {
  #made = 0;

  constructor(
    private readonly gateway: PaidGateway,
    private readonly key: string,
    private readonly account: string,
  ) {}

  /** One request of a kind that is chosen by its number: the mix is the same in every run. */
  async one(number: number): Promise<void> {
    const at = number % 100;
    const [, name, run] = this.#mix.find(([until]) => at < until)!;
    try {
      await run();
      count(name);
    } catch (thrown) {
      faults.push(`${name}: ${String(thrown).slice(0, 300)}`);
    }
  }

  readonly #mix: readonly (readonly [until: number, name: string, run: () => Promise<void>])[] = [
    [38, "streamed", () => this.#stream()],
    [58, "whole", () => this.#whole()],
    [68, "left", () => this.#leave()],
    [69, "images", () => this.#image()],
    [78, "mcp", () => this.#mcp()],
    [86, "refused", () => this.#bad()],
    [93, "counted", () => this.#countTokens()],
    [100, "listed", () => this.#list()],
  ];

  #call(
    path: string,
    body?: unknown,
    more: RequestInit & { headers?: Record<string, string> } = {},
  ): Promise<Response> {
    const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    const headers = {
      authorization: `Bearer ${this.key}`,
      ...(text !== undefined && { "content-type": "application/json" }),
      ...more.headers,
    };
    const method = text === undefined ? "GET" : "POST";
    // A connection of its own for each: what is left open at the end is the gateway's.
    return fetch(this.gateway.url + path, {
      method,
      keepalive: false,
      ...more,
      headers,
      ...(text !== undefined && { body: text }),
    });
  }

  #wish(delayMs: number): { role: string; content: string }[] {
    const wish: Wish = { id: `s${this.#made++}`, account: this.account, input: 30, output: 20, delayMs };
    return [{ role: "user", content: JSON.stringify(wish) }];
  }

  async #stream(): Promise<void> {
    const body = { model: MODEL, messages: this.#wish(200), stream: true, stream_options: { include_usage: true } };
    const response = await this.#call("/v1/chat/completions", body);
    const text = await response.text();
    check(
      response.status === 200 && text.trimEnd().endsWith("data: [DONE]"),
      `a stream: ${response.status} ${text.slice(-200)}`,
    );
  }

  async #whole(): Promise<void> {
    const body = { model: MODEL, max_tokens: 64, messages: this.#wish(50) };
    const response = await this.#call("/v1/messages", body, { headers: { "anthropic-version": "2023-06-01" } });
    const text = await response.text();
    check(
      response.status === 200 && text.includes("end_turn"),
      `a whole answer: ${response.status} ${text.slice(0, 200)}`,
    );
  }

  async #leave(): Promise<void> {
    const leaving = new AbortController();
    const body = { model: MODEL, messages: this.#wish(4_000), stream: true };
    const response = await this.#call("/v1/chat/completions", body, { signal: leaving.signal });
    const reader = response.body?.getReader();
    await reader?.read();
    leaving.abort();
    await reader?.read().catch(() => undefined);
    check(response.status === 200, `a stream that is left: ${response.status}`);
  }

  async #image(): Promise<void> {
    const created = await this.#call("/v1/images/generations", {
      model: "sluice/sketch",
      prompt: "A lighthouse",
      size: "256x256",
    });
    const { id = "" } = (await created.json()) as { id?: string };
    check(created.status === 202, `an image job: ${created.status}`);
    const until = performance.now() + JOB_MS;
    for (;;) {
      await Bun.sleep(POLL_MS);
      const polled = await this.#call(`/v1/images/generations/${id}`);
      const { status } = (await polled.json()) as { status?: string };
      if (status === "succeeded") return;
      check(status === "processing", `an image job is ${status}`);
      if (status !== "processing" || performance.now() > until) return check(false, `an image job: ${status}`);
    }
  }

  async #mcp(): Promise<void> {
    const accept = { accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18" };
    const response = await this.#call("/mcp/web", { jsonrpc: "2.0", id: 1, method: "tools/list" }, { headers: accept });
    check(response.status === 200 && (await response.text()).includes("web_search"), `MCP: ${response.status}`);
  }

  async #bad(): Promise<void> {
    const bodies = [
      '{"model":',
      { model: "nobody/nothing", messages: [{ role: "user", content: "Hi" }] },
      { model: MODEL, messages: 7 },
    ];
    const wanted = [400, 404, 400];
    const at = this.#made++ % bodies.length;
    const response = await this.#call("/v1/chat/completions", bodies[at]);
    await response.text();
    check(response.status === wanted[at], `a bad request: ${response.status}, not ${wanted[at]}`);
  }

  async #countTokens(): Promise<void> {
    const messages = [{ role: "user", content: "How many tokens are these? ".repeat(40) }];
    const response = await this.#call("/v1/messages/count_tokens", { model: MODEL, messages });
    check(/"input_tokens":\d+/.test(await response.text()), `a count: ${response.status}`);
  }

  async #list(): Promise<void> {
    const response = await this.#call("/v1/models?modality=all");
    check((await response.text()).startsWith('{"object":"list"'), `the catalog: ${response.status}`);
  }
}

async function sample(gateway: PaidGateway, startedAt: number): Promise<Sample> {
  const text = await (await fetch(`${gateway.url}/metrics`, { keepalive: false })).text();
  const figure = (name: string) => Number(new RegExp(`^${RegExp.escape(name)} (\\S+)$`, "m").exec(text)?.[1]);
  const looks = figure("sluice_event_loop_delay_seconds_count");
  return {
    at: performance.now() - startedAt,
    rss: readMemory(gateway.pid).rss,
    files: readdirSync(`/proc/${gateway.pid}/fd`).length,
    running: figure("sluice_requests_running"),
    looks,
    late: looks - figure(`sluice_event_loop_delay_seconds_bucket{le="${AIM_LAG_MS / 1_000}"}`),
    lagMs: figure('sluice_event_loop_lag_seconds{quantile="0.99"}') * 1_000,
    queued: figure("sluice_store_queued"),
  };
}

/** Asks at an even rate until the time is over, and looks at the gateway meanwhile. Resolves when the last request is answered. */
async function soak(gateway: PaidGateway, traffic: Traffic, minutes: number): Promise<Sample[]> {
  const startedAt = performance.now();
  const endsAt = startedAt + minutes * 60_000;
  const samples: Sample[] = [];
  const asked = new Set<Promise<void>>();
  let sampleAt = startedAt + SAMPLE_MS;
  for (let number = 0; performance.now() < endsAt; ) {
    const due = ((performance.now() - startedAt) / 1_000) * PER_SECOND;
    for (; number < due; number++) {
      // In an order that mixes the kinds: 37 and 100 have no common factor.
      const one = traffic.one(number * 37).finally(() => asked.delete(one));
      asked.add(one);
    }
    if (performance.now() >= sampleAt) {
      samples.push(await sample(gateway, startedAt));
      sampleAt += SAMPLE_MS;
    }
    await Bun.sleep(5);
  }
  await Promise.all(asked);
  return samples;
}

/** The slope of the memory by least squares, MB an hour, and half the width of its 95 % interval; and what it comes to over the samples, MB. */
function slopeOf(samples: readonly Sample[]): { perHour: number; give: number; growth: number } {
  const hours = samples.map(({ at }) => at / 3_600_000);
  const mean = (list: readonly number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;
  const [x, y] = [mean(hours), mean(samples.map(({ rss }) => rss))];
  const spread = hours.reduce((sum, hour) => sum + (hour - x) ** 2, 0);
  const perHour = samples.reduce((sum, { rss }, at) => sum + ((hours[at] ?? 0) - x) * (rss - y), 0) / spread;
  const rest = samples.reduce((sum, { rss }, at) => sum + (rss - y - perHour * ((hours[at] ?? 0) - x)) ** 2, 0);
  const give = T95 * Math.sqrt(rest / Math.max(1, samples.length - 2) / spread);
  return { perHour, give, growth: perHour * ((hours.at(-1) ?? 0) - (hours[0] ?? 0)) };
}

/** The least memory in each quarter of the time, MB: what is left when garbage has just been collected. It tells growth from the saw's teeth. */
function troughsOf(samples: readonly Sample[]): number[] {
  const quarter = Math.max(1, Math.ceil(samples.length / 4));
  const parts = [0, 1, 2, 3].map((at) => samples.slice(at * quarter, (at + 1) * quarter));
  return parts.filter((part) => part.length > 0).map((part) => Math.min(...part.map(({ rss }) => rss)));
}

function judge(before: Sample, samples: readonly Sample[], after: Sample): void {
  const looked = samples.slice(Math.floor(samples.length * WARM_UP));
  const { perHour, give, growth } = slopeOf(looked);
  const [first, last] = [looked[0] ?? before, looked.at(-1) ?? after];
  const late = (last.late - first.late) / (last.looks - first.looks);
  const worstMs = Math.max(...looked.map((one) => one.lagMs));
  const kinds = [...counts].map(([name, times]) => `${times} ${name}`).join(", ");
  console.log(kinds);
  console.log(
    `memory ${before.rss.toFixed(0)} MB, then ${(looked[0]?.rss ?? 0).toFixed(1)} to ${(looked.at(-1)?.rss ?? 0).toFixed(1)} MB: ${perHour.toFixed(1)} ± ${give.toFixed(1)} MB an hour, ` +
      `${growth.toFixed(2)} MB in all, at the least ${troughsOf(looked).map(Math.round).join(", ")} in its quarters; files ${before.files}, ${Math.max(...samples.map(({ files }) => files))}, ${after.files}; ` +
      `the loop late by ${AIM_LAG_MS} ms at ${(late * 100).toFixed(2)} % of looks (in the worst ten seconds p99 ${worstMs.toFixed(1)} ms); ${after.running} still running`,
  );
  check(
    perHour + give < AIM_MB_AN_HOUR || growth < AIM_MB,
    `memory grows by ${perHour.toFixed(1)} ± ${give.toFixed(1)} MB an hour, ${growth.toFixed(2)} MB in all`,
  );
  check(after.files <= before.files + BACK_FILES, `${after.files} files are open, ${before.files} were`);
  check(late < MOST_LATE, `the loop was late by ${AIM_LAG_MS} ms at ${(late * 100).toFixed(2)} % of looks`);
  check(after.running === 0 && after.queued === 0, `${after.running} still running, ${after.queued} writes wait`);
}

/** One vendor, and a plan that bounds nothing here. */
function configOf(vendorUrl: string): Record<string, unknown> {
  const many = 1_000_000;
  const figures = {
    requests_per_minute: many,
    concurrent_generations: many,
    spending_window_usd: 0,
    web_calls_per_minute: many,
  };
  return {
    vendors: [{ id: "lab", dialect: "chat", base_url: `${vendorUrl}/v1`, api_key: "none", models: "any" }],
    models: [{ id: MODEL, pricing: USD, routes: [{ vendor: "lab", model: "paid" }] }],
    plans: { paying: { ...figures, images_per_day: many, image_jobs_in_flight: many, web_calls_concurrent: many } },
    local_discovery: false,
  };
}

async function checkBooks(gateway: PaidGateway): Promise<void> {
  await gateway.withBooks(({ store, book }) => {
    for (const { invariant, detail } of book.verify()) faults.push(`${invariant}: ${detail}`);
    const [open] = store.database.query("SELECT count(*) FROM ledger_hold").values()[0] ?? [];
    check(open === 0n && book.balance(gateway.accounts[0]?.id ?? "").heldNano === 0n, `${open} holds are open`);
  });
}

async function run(vendor: CountingVendor): Promise<void> {
  const gateway = new PaidGateway(vendor.url);
  try {
    gateway.configure(configOf(vendor.url));
    await gateway.fund([FUNDED]);
    await gateway.start({ command: [buildBinary()] });
    const { key = "", id = "" } = gateway.accounts[0] ?? {};
    const traffic = new Traffic(gateway, key, id);
    // Each kind once: what is loaded with the first of it is no growth.
    for (let number = 0; number < 100; number += 3) await traffic.one(number);
    const before = await sample(gateway, performance.now());
    const samples = await soak(gateway, traffic, MINUTES);
    let after = await sample(gateway, performance.now());
    await holdsWithin(BACK_MS, async () => {
      after = await sample(gateway, performance.now());
      return after.running === 0 && after.files <= before.files + BACK_FILES;
    });
    judge(before, samples, after);
    await gateway.stop();
    await checkBooks(gateway);
  } finally {
    await gateway.kill();
    gateway.remove();
  }
}

const vendor = startCountingVendor();
try {
  await run(vendor);
} finally {
  vendor.stop();
}
for (const fault of faults.slice(0, 20)) console.log(`FAULT ${fault}`);
console.log(`${faults.length} faults in ${MINUTES} minutes at ${PER_SECOND} a second`);
process.exit(faults.length === 0 ? 0 : 1);
