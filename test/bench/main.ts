/**
 * The benchmark: `bun run bench`. The gateway against a bare passthrough of the same run, CPU time per request; memory; start. It
 * prints and never asserts: figures depend on the machine, ratios less so. `--source` measures the source instead of the executable,
 * `--quick` takes a fifth of the requests, `--only WORD` runs the rows whose name holds it.
 */
import { writeFileSync } from "node:fs";
import { cpus, release } from "node:os";
import { join } from "node:path";
import { readFlags } from "../../.release/flags.ts";
import { MODEL as PAID_MODEL, preparePaidFolder } from "../prove/paid-folder.ts";
import { buildBinary, makeFolder, removeFolder, startBinary } from "../support/binary.ts";
import { type LoadOptions, type LoadResult, runLoad } from "./load.ts";
import {
  isPinned,
  LOAD_CORE,
  MEASURED_CORE,
  pinned,
  pinSelf,
  readCpuSeconds,
  readRssMegabytes,
  startHelper,
} from "./processes.ts";
import { ALONE, type Client, PACED, PAID, SCENARIOS, type Scenario, WAITED_FOR } from "./scenarios.ts";
import { waitBeside } from "./second-client.ts";
import { measureStart } from "./start.ts";
import {
  AGENT_BODIES,
  COUNTED,
  chatBody,
  messagesBody,
  modelId,
  PACED_EVENTS,
  request,
  responsesBody,
  VENDOR_KINDS,
  type VendorPorts,
  vendorId,
} from "./wire.ts";

const ROUNDS = 5;
const MANY_STREAMS = 2_000;
/** Memory is read once after the load has stopped for this long, milliseconds. */
const SETTLE_MS = 2_000;
/** Memory that is not used any more is given back by then, milliseconds. */
const REST_MS = 15_000;
/** Aim: the event loop is never blocked for longer than this, milliseconds. */
const LONGEST_BLOCK_MS = 20;
/** How many counts are asked for, one after the other, after as many to warm up. */
const COUNTS = 40;
/** Aim: the gateway adds no more than this to the wait of one client, milliseconds. */
const ADDED_MS = [
  ["half of the answers within", "p50Us", 0.3],
  ["all but a hundredth within", "p99Us", 1.5],
] as const;
/** Aim: a count takes no longer than this once warm, milliseconds. */
const COUNT_TARGET_MS = { "100 KB of prose": 60, "100 KB of code": 60, "100,000 equal letters": 20 };

type Target = { name: string; pid: number; load: Pick<LoadOptions, "port" | "request"> };
type Round = LoadResult & { cpuUs: number };

async function runRound(target: Target, scenario: Scenario, requests: number): Promise<Round> {
  const before = readCpuSeconds(target.pid);
  const { connections, events } = scenario;
  const result = await runLoad({ ...target.load, connections, requests, events });
  return { ...result, cpuUs: ((readCpuSeconds(target.pid) - before) / requests) * 1e6 };
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
const figure = (value: number, digits = 0): string => value.toFixed(digits);

function printRow(cells: readonly string[]): void {
  const [name = "", ...rest] = cells;
  console.log(name.padEnd(40) + rest.map((cell) => cell.padStart(16)).join(""));
}

const milliseconds = (...microseconds: number[]): string => microseconds.map((us) => figure(us / 1000, 1)).join("/");

const verdict = (ratio: number, target: number | undefined): string =>
  target === undefined ? "" : `${ratio <= target ? "within" : "ABOVE"} ${target}`;

/** Passthrough and gateway in turns, the same body, after a warm-up of each. */
async function compare(scenario: Scenario, targets: readonly [Target, Target], share: number): Promise<number> {
  const requests = Math.max(scenario.connections, Math.round(scenario.requests * share));
  const warmUp = Math.max(requests, Math.round((scenario.warmUp ?? 0) * share));
  for (const target of targets) await runRound(target, scenario, warmUp);
  const rounds: [Round[], Round[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    for (const index of [0, 1] as const) rounds[index].push(await runRound(targets[index], scenario, requests));
  }
  const of = (index: 0 | 1, key: keyof Round) => median(rounds[index].map((round) => round[key]));
  const wrong = rounds.flat().reduce((sum, round) => sum + round.wrong, 0);
  const ratio = of(1, "cpuUs") / of(0, "cpuUs");
  printRow([
    scenario.name,
    figure(of(0, "cpuUs"), 1),
    figure(of(1, "cpuUs"), 1),
    `${figure(ratio, 2)}x`,
    scenario.targetMs === undefined
      ? verdict(ratio, scenario.target)
      : `${verdict(of(1, "cpuUs") / 1000, scenario.targetMs)} ms`,
    milliseconds(of(0, "p50Us"), of(0, "p99Us")),
    milliseconds(of(1, "p50Us"), of(1, "p99Us")),
    String(wrong),
  ]);
  return wrong;
}

function configure(ports: VendorPorts): string {
  const vendors = VENDOR_KINDS.map((kind) => {
    const [dialect = ""] = kind.split("-");
    const base = `http://127.0.0.1:${ports[kind]}`;
    return {
      id: vendorId(kind),
      dialect,
      base_url: dialect === "messages" ? base : `${base}/v1`,
      api_key: "bench-key",
      models: "any",
    };
  });
  return JSON.stringify({ local_discovery: false, vendors });
}

const PATHS: Record<Client, string> = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses",
};

function bodyOf({ client, kind, bodyBytes, turns, events, paid }: Scenario): string {
  const model = paid ? PAID_MODEL : modelId(kind);
  if (turns !== undefined) return AGENT_BODIES[client](model, bodyBytes, turns);
  if (client === "chat") return chatBody(model, bodyBytes, events > 0);
  return client === "messages" ? messagesBody(model, bodyBytes) : responsesBody(model, bodyBytes);
}

const clientHeaders = (key: string) => ({ authorization: `Bearer ${key}`, "anthropic-version": "2023-06-01" });

function requestsOf(scenario: Scenario, ports: VendorPorts, key: string): { raw: Uint8Array; gateway: Uint8Array } {
  const body = bodyOf(scenario);
  const path = PATHS[scenario.client];
  return {
    raw: request(path, { "x-bench-port": String(ports[scenario.kind]) }, body),
    gateway: request(path, clientHeaders(key), body),
  };
}

/** What the gateway adds to the wait of a client that asks alone, one question after the other. */
async function measureAlone(targets: readonly [Target, Target], share: number): Promise<void> {
  const alone: Scenario = { ...ALONE, requests: Math.round(ALONE.requests * share) };
  const rounds: [Round[], Round[]] = [[], []];
  for (const target of targets) await runRound(target, alone, alone.requests);
  for (let round = 0; round < ROUNDS; round++) {
    for (const index of [0, 1] as const) rounds[index].push(await runRound(targets[index], alone, alone.requests));
  }
  for (const [name, key, aimMs] of ADDED_MS) {
    const [raw, gateway] = rounds.map((all) => median(all.map((one) => one[key])) / 1000) as [number, number];
    const cells = [raw, gateway, gateway - raw].map((ms) => `${figure(ms, 2)} ms`);
    const wrong = rounds.flat().reduce((sum, one) => sum + one.wrong, 0);
    printRow([`one client, ${name}`, ...cells, verdict(gateway - raw, aimMs), String(wrong)]);
  }
}

/** How long a second client waits at most while an agent's conversation is translated. */
async function measureWaits(scenario: Scenario, targets: readonly Target[]): Promise<void> {
  const { events } = scenario;
  for (const target of targets) {
    const run = () => runLoad({ ...target.load, connections: 1, requests: COUNTS, events });
    await run();
    const { longestMs, medianMs, questions } = await waitBeside(target.load.port, run);
    printRow([
      `${scenario.name}, ${target.name}`,
      `${figure(medianMs, 1)} ms`,
      `${figure(longestMs, 1)} ms`,
      "",
      target.name === "gateway" ? verdict(longestMs, LONGEST_BLOCK_MS) : "",
      String(questions),
    ]);
  }
}

/** How long counting takes once warm, and a second client's longest wait meanwhile. */
async function measureCounts(port: number, key: string): Promise<void> {
  for (const [name, bodyFor] of Object.entries(COUNTED)) {
    const bytes = request("/v1/messages/count_tokens", clientHeaders(key), bodyFor(modelId("chat-whole")));
    const check = (body: string) => /^\{"input_tokens":\d{5,6}\}$/.test(body);
    const run = () => runLoad({ port, request: bytes, connections: 1, requests: COUNTS, events: 0, check });
    await run();
    let result: LoadResult | undefined;
    const { longestMs } = await waitBeside(port, async () => {
      result = await run();
    });
    const { p50Us = Number.NaN, p99Us = Number.NaN, wrong = COUNTS } = result ?? {};
    const target = COUNT_TARGET_MS[name as keyof typeof COUNT_TARGET_MS];
    printRow([
      `count of ${name}`,
      `${figure(p50Us / 1000, 1)} ms`,
      `${figure(p99Us / 1000, 1)} ms`,
      `${figure(longestMs, 1)} ms`,
      verdict(p50Us / 1000, target),
      String(wrong),
    ]);
  }
}

/** Many slow streams at once: memory at their height, and whether every one was right. */
async function measureMany(target: Target, load: Uint8Array): Promise<void> {
  let peak = 0;
  const before = readRssMegabytes(target.pid);
  const timer = setInterval(() => {
    peak = Math.max(peak, readRssMegabytes(target.pid));
  }, 100);
  let together = false;
  const result = await runLoad({
    port: target.load.port,
    request: load,
    connections: MANY_STREAMS,
    requests: MANY_STREAMS,
    events: PACED_EVENTS,
    onAllAnswering: () => {
      together = true;
    },
  });
  clearInterval(timer);
  printRow([
    `${MANY_STREAMS} paced streams at once, ${target.name}`,
    `${figure(before)} MB`,
    `${figure(peak)} MB`,
    "",
    target.name === "raw" ? "" : verdict(peak, 150),
    together ? "all at once" : "NOT AT ONCE",
    `${figure(result.seconds, 1)} s`,
    String(result.wrong),
  ]);
}

type Gateway = { pid: number; port: number; key: string; stop(): Promise<void> };

/** A gateway with a data folder of its own, on the core that is measured. */
async function startGateway(command: readonly string[], ports: VendorPorts): Promise<Gateway> {
  const folder = makeFolder();
  const file = join(folder, "bench.json");
  writeFileSync(file, configure(ports), { mode: 0o600 });
  return startIn(folder, command, ["--config", file]);
}

/** The same with an account that pays, whose key is the gateway's here. */
async function startPaidGateway(command: readonly string[], ports: VendorPorts): Promise<Gateway> {
  const folder = makeFolder();
  const key = await preparePaidFolder(folder, ports["chat-whole"]);
  return { ...(await startIn(folder, command, ["--data", folder])), key };
}

async function startIn(folder: string, command: readonly string[], args: readonly string[]): Promise<Gateway> {
  const options = { folder, command: pinned(MEASURED_CORE, command) };
  const { child, url, key } = await startBinary(["serve", "--port", "0", ...args], options);
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
    removeFolder(folder);
  };
  return { pid: child.pid, port: Number(new URL(url).port), key, stop };
}

function targetOf(name: string, gateway: Gateway, scenario: Scenario, ports: VendorPorts): Target {
  const request = requestsOf(scenario, ports, gateway.key).gateway;
  return { name, pid: gateway.pid, load: { port: gateway.port, request } };
}

function describeMachine(what: string): void {
  const model = cpus()[0]?.model ?? "unknown CPU";
  const pin = isPinned() ? `gateway on core ${MEASURED_CORE}, load and vendor on core ${LOAD_CORE}` : "not pinned";
  console.log(
    `${cpus().length} x ${model.trim()}, ${process.platform} ${release()}, Bun ${Bun.version}; ${what}; ${pin}\n`,
  );
}

async function main(): Promise<void> {
  const values = readFlags("bench: [--only WORD] [--quick] [--source]", {
    source: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
    only: { type: "string", default: "" },
  });
  if (process.platform !== "linux")
    throw new Error("the benchmark reads CPU time and memory from /proc: it needs Linux");
  const root = join(import.meta.dir, "../..");
  const command = values.source ? [process.execPath, join(root, "src/main.ts")] : [buildBinary()];
  const share = values.quick ? 0.2 : 1;
  const helper = (name: string) => [process.execPath, join(import.meta.dir, name)];
  const env = { PATH: process.env["PATH"] ?? "", NODE_ENV: "production", BUN_CONFIG_MAX_HTTP_REQUESTS: "8192" };
  pinSelf(LOAD_CORE);
  describeMachine(values.source ? "from source" : "executable");

  const vendor = await startHelper<VendorPorts>(pinned(LOAD_CORE, helper("vendor.ts")), env);
  const raw = await startHelper<{ port: number }>(pinned(MEASURED_CORE, helper("passthrough.ts")), env);
  const gateway = await startGateway(command, vendor.said);
  const targets = (scenario: Scenario): [Target, Target] => [
    {
      name: "raw",
      pid: raw.child.pid,
      load: { port: raw.said.port, request: requestsOf(scenario, vendor.said, "").raw },
    },
    targetOf("gateway", gateway, scenario, vendor.said),
  ];
  try {
    await Bun.sleep(SETTLE_MS);
    const idle = readRssMegabytes(gateway.pid);
    printRow([
      "CPU µs a request, medians",
      "raw",
      "gateway",
      "ratio",
      "target",
      "raw p50/99 ms",
      "gw p50/99 ms",
      "wrong",
    ]);
    for (const scenario of SCENARIOS) {
      if (scenario.name.includes(values.only)) await compare(scenario, targets(scenario), share);
    }
    const paid = PAID.filter(({ name }) => name.includes(values.only));
    if (paid.length > 0) {
      const paying = await startPaidGateway(command, vendor.said);
      try {
        for (const scenario of paid) {
          const [plain] = targets(scenario);
          await compare(scenario, [plain, targetOf("gateway", paying, scenario, vendor.said)], share);
        }
      } finally {
        await paying.stop();
      }
    }
    if (ALONE.name.includes(values.only)) {
      console.log("");
      printRow(["one client", "raw", "gateway", "added", "target", "wrong"]);
      await measureAlone(targets(ALONE), share);
    }
    console.log("");
    printRow(["a second client beside 1 MB", "median wait", "longest wait", "", "target", "questions"]);
    for (const scenario of WAITED_FOR) {
      if (`waits ${scenario.name}`.includes(values.only)) await measureWaits(scenario, targets(scenario));
    }
    console.log("");
    printRow(["counting, one at a time", "p50", "p99", "longest wait", "target", "wrong"]);
    if ("counting".includes(values.only)) await measureCounts(gateway.port, gateway.key);
    console.log("");
    printRow(["memory", "before", "at height", "", "target", "", "took", "wrong"]);
    printRow(["idle after start", "", `${figure(idle)} MB`, "", verdict(idle, 70)]);
    const many: Scenario = { ...PACED, kind: "chat-slow" };
    if ("many paced streams".includes(values.only)) {
      const [plain, used] = targets(many);
      await measureMany(plain, plain.load.request);
      const fresh = await startGateway(command, vendor.said);
      try {
        await Bun.sleep(SETTLE_MS);
        const target = targetOf("gateway", fresh, many, vendor.said);
        await measureMany(target, target.load.request);
      } finally {
        await fresh.stop();
      }
      await Bun.sleep(REST_MS);
      await measureMany({ ...used, name: "the gateway of all the above" }, used.load.request);
    }
  } finally {
    for (const { child } of [vendor, raw]) child.kill("SIGKILL");
    await gateway.stop();
  }
  console.log("");
  printRow(["start, to the first right answer", "median", "best", "worst", "target"]);
  for (const start of await measureStart(pinned(MEASURED_CORE, command))) {
    printRow([
      start.name,
      ...[start.median, start.best, start.worst].map((ms) => `${figure(ms)} ms`),
      verdict(start.median, 50),
    ]);
  }
}

await main();
