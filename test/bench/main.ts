/**
 * The benchmark: `bun run bench`. The gateway against a bare passthrough of the same run, CPU time per request; memory; start. It
 * prints and never asserts: figures depend on the machine, ratios less so. `--source` measures the source instead of the executable,
 * `--quick` takes a fifth of the requests, `--only WORD` runs the rows whose name holds it.
 */
import { writeFileSync } from "node:fs";
import { cpus, release } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
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
import { measureStart } from "./start.ts";
import {
  BURST_EVENTS,
  chatBody,
  messagesBody,
  modelId,
  PACED_EVENTS,
  request,
  VENDOR_KINDS,
  type VendorKind,
  type VendorPorts,
  vendorId,
} from "./wire.ts";

const ROUNDS = 5;
const BODY_BYTES = 4096;
const LARGE_BODY_BYTES = 100 * 1024;
const MANY_STREAMS = 2_000;
/** Memory is read once after the load has stopped for this long, milliseconds. */
const SETTLE_MS = 2_000;

type Client = "chat" | "messages";
type Scenario = {
  name: string;
  client: Client;
  kind: VendorKind;
  bodyBytes: number;
  connections: number;
  requests: number;
  events: number;
  /** Highest ratio to the passthrough we mean to have. */
  target: number | undefined;
};

const SCENARIOS: readonly Scenario[] = [
  {
    name: "same dialect, 4 KB in, 1 KB out",
    client: "chat",
    kind: "chat-whole",
    bodyBytes: BODY_BYTES,
    connections: 32,
    requests: 15_000,
    events: 0,
    target: 2.0,
  },
  {
    name: "across: messages client, chat vendor",
    client: "messages",
    kind: "chat-whole",
    bodyBytes: BODY_BYTES,
    connections: 32,
    requests: 15_000,
    events: 0,
    target: 2.6,
  },
  {
    name: "across: chat client, messages vendor",
    client: "chat",
    kind: "messages-whole",
    bodyBytes: BODY_BYTES,
    connections: 32,
    requests: 15_000,
    events: 0,
    target: 2.6,
  },
  {
    name: "same dialect, 100 KB in",
    client: "chat",
    kind: "chat-whole",
    bodyBytes: LARGE_BODY_BYTES,
    connections: 16,
    requests: 3_000,
    events: 0,
    target: undefined,
  },
  {
    name: `stream of ${BURST_EVENTS} events, burst`,
    client: "chat",
    kind: "chat-burst",
    bodyBytes: BODY_BYTES,
    connections: 16,
    requests: 2_000,
    events: BURST_EVENTS,
    target: 2.0,
  },
  {
    name: `stream of ${PACED_EVENTS} events, one each 20 ms`,
    client: "chat",
    kind: "chat-paced",
    bodyBytes: BODY_BYTES,
    connections: 100,
    requests: 300,
    events: PACED_EVENTS,
    target: 1.8,
  },
];

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
  for (const target of targets) await runRound(target, scenario, requests);
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
    verdict(ratio, scenario.target),
    milliseconds(of(0, "p50Us"), of(0, "p99Us")),
    milliseconds(of(1, "p50Us"), of(1, "p99Us")),
    String(wrong),
  ]);
  return wrong;
}

function configure(ports: VendorPorts): string {
  const vendors = VENDOR_KINDS.map((kind) => {
    const dialect = kind.startsWith("messages") ? "messages" : "chat";
    const base = `http://127.0.0.1:${ports[kind]}`;
    return {
      id: vendorId(kind),
      dialect,
      base_url: dialect === "chat" ? `${base}/v1` : base,
      api_key: "bench-key",
      models: "any",
    };
  });
  return JSON.stringify({ local_discovery: false, vendors });
}

function requestsOf(scenario: Scenario, ports: VendorPorts, key: string): { raw: Uint8Array; gateway: Uint8Array } {
  const { client, kind, bodyBytes } = scenario;
  const stream = scenario.events > 0;
  const model = modelId(kind);
  const body = client === "chat" ? chatBody(model, bodyBytes, stream) : messagesBody(model, bodyBytes);
  const path = client === "chat" ? "/v1/chat/completions" : "/v1/messages";
  return {
    raw: request(path, { "x-bench-port": String(ports[kind]) }, body),
    gateway: request(path, { authorization: `Bearer ${key}`, "anthropic-version": "2023-06-01" }, body),
  };
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
    target.name === "gateway" ? verdict(peak, 150) : "",
    together ? "all at once" : "NOT AT ONCE",
    `${figure(result.seconds, 1)} s`,
    String(result.wrong),
  ]);
}

function describeMachine(what: string): void {
  const model = cpus()[0]?.model ?? "unknown CPU";
  const pin = isPinned() ? `gateway on core ${MEASURED_CORE}, load and vendor on core ${LOAD_CORE}` : "not pinned";
  console.log(
    `${cpus().length} x ${model.trim()}, ${process.platform} ${release()}, Bun ${Bun.version}; ${what}; ${pin}\n`,
  );
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      source: { type: "boolean", default: false },
      quick: { type: "boolean", default: false },
      only: { type: "string", default: "" },
    },
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

  const folder = makeFolder();
  const vendor = await startHelper<VendorPorts>(pinned(LOAD_CORE, helper("vendor.ts")), env);
  const raw = await startHelper<{ port: number }>(pinned(MEASURED_CORE, helper("passthrough.ts")), env);
  const file = join(folder, "bench.json");
  writeFileSync(file, configure(vendor.said), { mode: 0o600 });
  const gateway = await startBinary(["serve", "--port", "0", "--config", file], {
    folder,
    command: pinned(MEASURED_CORE, command),
  });
  const gatewayPort = Number(new URL(gateway.url).port);
  const targets = (scenario: Scenario): [Target, Target] => {
    const bytes = requestsOf(scenario, vendor.said, gateway.key);
    return [
      { name: "raw", pid: raw.child.pid, load: { port: raw.said.port, request: bytes.raw } },
      { name: "gateway", pid: gateway.child.pid, load: { port: gatewayPort, request: bytes.gateway } },
    ];
  };
  try {
    await Bun.sleep(SETTLE_MS);
    const idle = readRssMegabytes(gateway.child.pid);
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
    console.log("");
    printRow(["memory", "before", "at height", "", "target", "", "took", "wrong"]);
    printRow(["idle after start", "", `${figure(idle)} MB`, "", verdict(idle, 70)]);
    const many: Scenario = { ...SCENARIOS.at(-1)!, kind: "chat-slow" };
    for (const target of targets(many)) {
      if ("many paced streams".includes(values.only)) await measureMany(target, target.load.request);
    }
  } finally {
    for (const { child } of [vendor, raw, gateway]) child.kill("SIGKILL");
    await gateway.child.exited;
    removeFolder(folder);
  }
  console.log("");
  printRow(["start, to the first right answer", "median", "best", "worst", "target"]);
  for (const start of await measureStart(pinned(MEASURED_CORE, command))) {
    printRow([
      start.name,
      ...[start.median, start.best, start.worst].map((ms) => `${figure(ms)} ms`),
      verdict(start.median, 60),
    ]);
  }
}

await main();
