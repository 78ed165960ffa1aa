/**
 * Overload (reliability 8.2, N9): the compiled gateway, paid and durable, on one core, with a vendor that streams 200 events
 * after 50 ms, as the fastest do, with one that streams 50 for a second, as a model speaks, and with one that answers whole after 400 ms. What it can do is measured, then 1, 2, 5 and 10 times as much is offered, whether or not it is answered, by clients that
 * wait ten seconds. `bun test/prove/overload.ts [--quick]`. Exits 1 unless at 10 times as much at least 75 % of the most is served, the slowest hundredth of
 * what is served takes less than three times as long as with hardly any load, whoever is turned away is told so in his dialect with `retry-after: 1`, nothing is billed
 * twice, and two seconds after the load all is as before. Linux only.
 */
import { parseArgs } from "node:util";
import { runLoad } from "../bench/load.ts";
import { LOAD_CORE, MEASURED_CORE, pinned, pinSelf, startHelper } from "../bench/processes.ts";
import { BURST_EVENTS, chatBody, messagesBody, PACED_EVENTS, request, type VendorKind } from "../bench/wire.ts";
import { buildBinary } from "../support/binary.ts";
import { check, faults } from "./faults.ts";
import { type OpenLoad, type OpenResult, offer } from "./open-loop.ts";
import { MODEL, PaidGateway } from "./paid-gateway.ts";

const { values } = parseArgs({ options: { quick: { type: "boolean" }, only: { type: "string", default: "" } } });
const QUICK = values.quick === true;

const FACTORS = QUICK ? [1, 10] : [1, 2, 5, 10];
const QUICK_SECONDS = 5;
const PATIENCE_MS = 10_000;
/** As a conversation's later turns are, bytes. */
const BODY_BYTES = 16_000;
const FUNDED = 900_000_000_000_000n;
/** Answers by which the capacity is measured, and connections that ask for them. */
const MEASURED = QUICK ? 1_000 : 4_000;
/** Part of the capacity that is hardly any load, and for how long, seconds. */
const IDLE_PART = 0.1;
const IDLE_SECONDS = QUICK ? 2 : 8;
const AIM_PART = 0.75;
const AIM_SLOWER = 3;
const AIM_RECOVERY_MS = 2_000;
/** The gateway counts as recovered after so many calls in a row that are as fast as without load. */
const CALM_CALLS = 5;

/** `seconds`: how long each load goes on. */
type Case = { name: string; kind: VendorKind; delayMs: number; events: number; connections: number; seconds: number };
const CASES: readonly Case[] = [
  { name: "streams of 1 s", kind: "chat-paced", delayMs: 0, events: PACED_EVENTS, connections: 800, seconds: 20 },
  { name: "streams after 50 ms", kind: "chat-burst", delayMs: 50, events: BURST_EVENTS, connections: 256, seconds: 10 },
  { name: "whole after 400 ms", kind: "chat-whole", delayMs: 400, events: 0, connections: 1_500, seconds: 10 },
];

const ms = (value: number) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
const rate = (value: number) => value.toFixed(0);

/** Requests of both dialects as they go over the wire, with what their answers end with and how they are turned away. */
function requestsOf({ events }: Case, key: string): Pick<OpenLoad, "requests" | "endings" | "shedStatuses"> {
  const stream = events > 0;
  const messages = { ...(JSON.parse(messagesBody(MODEL, BODY_BYTES)) as Record<string, unknown>), stream };
  return {
    requests: [
      request("/v1/chat/completions", { authorization: `Bearer ${key}` }, chatBody(MODEL, BODY_BYTES, stream)),
      request("/v1/messages", { "x-api-key": key }, JSON.stringify(messages)),
    ],
    endings: stream ? ["data: [DONE]\n\n\r\n0", '{"type":"message_stop"}\n\n\r\n0'] : ["}", "}"],
    shedStatuses: [503, 529],
  };
}

class Overload {
  #load!: Pick<OpenLoad, "port" | "requests" | "endings" | "shedStatuses" | "patienceMs">;
  #capacity = 0;
  #idleP99Ms = 0;
  #most = 0;

  constructor(
    private readonly of: Case,
    private readonly gateway: PaidGateway,
  ) {}

  async run(): Promise<void> {
    const { gateway, of } = this;
    const key = gateway.accounts[0]?.key ?? "";
    this.#load = { port: gateway.port, patienceMs: PATIENCE_MS, ...requestsOf(of, key) };
    await this.#measure();
    const idle = await this.#offer(IDLE_PART, IDLE_SECONDS);
    check(
      idle.shed === 0 && idle.served === idle.offered,
      `${of.name}: ${idle.offered - idle.served} not served at 0.1 x`,
    );
    this.#idleP99Ms = idle.p99Ms;
    console.log(`${of.name}: ${rate(this.#capacity)} a second; p99 of ${ms(idle.p99Ms)} at a tenth of that`);
    for (const factor of FACTORS) await this.#overload(factor);
  }

  /** Answers a second, both dialects in turn, to clients that each ask again as soon as they are answered. */
  async #measure(): Promise<void> {
    const { connections, events } = this.of;
    let seconds = 0;
    for (const [at, bytes] of this.#load.requests.entries()) {
      const check = (body: string) => body.endsWith((this.#load.endings[at] ?? "").replace("\r\n0", ""));
      const load = { port: this.#load.port, request: bytes, connections, requests: MEASURED, check };
      // The first round warms up.
      await runLoad({ ...load, events });
      const result = await runLoad({ ...load, events });
      if (result.wrong > 0) faults.push(`${this.of.name}: ${result.wrong} wrong answers`);
      seconds += result.seconds;
    }
    this.#capacity = (MEASURED * this.#load.requests.length) / seconds;
  }

  #offer(factor: number, seconds: number, onSent?: () => void): Promise<OpenResult> {
    return offer({ ...this.#load, perSecond: this.#capacity * factor, seconds, ...(onSent && { onSent }) });
  }

  async #overload(factor: number): Promise<void> {
    const { name } = this.of;
    const seconds = QUICK ? QUICK_SECONDS : this.of.seconds;
    let recovery: Promise<number> | undefined;
    const seen = await this.#offer(factor, seconds, () => {
      recovery = this.#recover();
    });
    const recoveredMs = (await recovery) ?? Number.NaN;
    const goodput = seen.servedEachSecond.reduce((sum, count) => sum + count, 0) / seconds;
    this.#most = Math.max(this.#most, goodput);
    const part = goodput / this.#most;
    const slower = seen.p99Ms / this.#idleP99Ms;
    const { shed, late, unasked, broken, odd, busy, behindMs, connections } = seen;
    const lost = `${late} gave up, ${unasked} never asked, ${broken} broken, ${odd} odd`;
    console.log(
      `${name}, ${factor} x: ${rate(goodput)} a second (${(part * 100).toFixed(0)} % of the most), p99 ${ms(seen.p99Ms)} (${slower.toFixed(1)} x), ` +
        `${shed} turned away (p99 ${ms(seen.shedP99Ms)}), ${lost}, as before after ${ms(recoveredMs)}; ` +
        `the load: ${(busy * 100).toFixed(0)} % of a core, ${ms(behindMs)} behind, ${connections} connections`,
    );
    check(odd === 0, `${name}, ${factor} x: ${odd} answers are neither: ${seen.firstOdd}`);
    check(recoveredMs < AIM_RECOVERY_MS, `${name}, ${factor} x: as before after ${ms(recoveredMs)}`);
    if (factor > 1) check(slower < AIM_SLOWER, `${name}, ${factor} x: p99 ${slower.toFixed(1)} times as long`);
    if (factor < 10) return;
    check(part >= AIM_PART, `${name}: ${(part * 100).toFixed(0)} % of the most at ${factor} x`);
    check(shed > 0 && broken === 0, `${name}, ${factor} x: ${shed} turned away, ${broken} broken`);
  }

  /** When, after the load, the first of some calls in a row was asked that were served as fast as without it, ms. */
  async #recover(): Promise<number> {
    const startedAt = performance.now();
    let calmAt = startedAt;
    for (let calm = 0; calm < CALM_CALLS && calmAt - startedAt < PATIENCE_MS; ) {
      const one = await offer({ ...this.#load, perSecond: 1, seconds: 1 });
      const isCalm = one.served === 1 && one.p99Ms < AIM_SLOWER * this.#idleP99Ms;
      calm = isCalm ? calm + 1 : 0;
      if (!isCalm) calmAt = performance.now();
    }
    return calmAt - startedAt;
  }
}

/** One row of usage for each call of the vendor at the most, each paid once, and books that are right. */
async function checkBooks(name: string, gateway: PaidGateway, calls: number): Promise<void> {
  await gateway.withBooks(({ store, book }) => {
    const [row = []] = store.database
      .query("SELECT count(*), count(DISTINCT request_id), sum(charged_nano), sum(outcome = 'completed') FROM usage")
      .values();
    const [rows = 0n, requests = 0n, charged = 0n, completed = 0n] = row as bigint[];
    const { postedNano, heldNano } = book.balance(gateway.accounts[0]?.id ?? "");
    for (const { invariant, detail } of book.verify()) faults.push(`${name}: ${invariant}: ${detail}`);
    check(rows === requests, `${name}: ${rows - requests} requests are billed twice`);
    check(rows <= BigInt(calls), `${name}: ${rows} rows for ${calls} calls of the vendor`);
    check(
      FUNDED - postedNano === charged && heldNano === 0n,
      `${name}: paid ${FUNDED - postedNano}, charged ${charged}, held ${heldNano}`,
    );
    console.log(
      `${name}: ${rows} billed of ${calls} calls of the vendor, ${completed} of them whole, each once; ${heldNano} nano held`,
    );
  });
}

async function prove(of: Case): Promise<void> {
  const program = [process.execPath, `${import.meta.dir}/late-vendor.ts`, `${of.kind}:${of.delayMs}`];
  const vendor = await startHelper<number[]>(pinned(LOAD_CORE, program), { PATH: process.env["PATH"] ?? "" });
  const url = `http://127.0.0.1:${vendor.said[0]}`;
  const gateway = new PaidGateway(url);
  try {
    await gateway.fund([FUNDED]);
    await gateway.start({ command: pinned(MEASURED_CORE, [buildBinary()]) });
    await new Overload(of, gateway).run();
    await gateway.stop();
    await checkBooks(of.name, gateway, Number(await (await fetch(url)).text()));
  } finally {
    await gateway.kill();
    vendor.child.kill();
    gateway.remove();
  }
}

pinSelf(LOAD_CORE);
for (const of of CASES) if (of.name.includes(values.only)) await prove(of);
for (const fault of faults) console.log(`FAULT ${fault}`);
process.exit(faults.length === 0 ? 0 : 1);
