import { expect } from "bun:test";
import { DIALECTS, type DialectName, UPSTREAM_DIALECTS, type UpstreamDialectName } from "../../src/dialects/dialect.ts";
import { findAttempts } from "../../src/ledger/attempts.ts";
import { CLOCK_BY_HAND, insideOnly } from "../support/black-box-config.ts";
import type { Answer } from "../support/upstream.ts";
import { gate, until, within } from "../support/wait.ts";
import { type FaultLab, modelOf, pathAt, SPARE, type Target, vendorIdOf } from "./fault-lab.ts";
import { ANSWERED, FAULT_ERRORS, type Outcome } from "./fault-outcomes.ts";
import { RAW_FAULTS } from "./fault-raw.ts";
import { FAULTS, type Fault, KEY_FRAGMENT, type Scene } from "./fault-table.ts";
import {
  askAs,
  CLIENT_PATH,
  expectBrokenAs,
  expectFinishedAs,
  FAULT_WIRES,
  readErrorOf,
  saidTo,
  saidWhole,
  soundAnswerOf,
} from "./fault-wires.ts";
import { costOf, estimateOf } from "./paying.ts";
import { HIDDEN_MODEL, INPUT, MODES, type Mode, PIECES, readRecords } from "./wires.ts";

/** One cell of the matrix. */
export type FaultCase = {
  name: string;
  fault: Fault;
  client: DialectName;
  target: Target;
  mode: Mode;
  routes: 1 | 2;
  /** What is seen in the end, the second route's answer included. */
  outcome: Outcome;
};

/** For each client a vendor of its own dialect and one of another, so that each dialect is asked by its own and by others. */
const UPSTREAMS_OF: Record<DialectName, readonly UpstreamDialectName[]> = {
  chat: ["chat", "messages"],
  messages: ["messages", "gemini"],
  responses: ["responses", "chat"],
};

function targetsOf(fault: Fault, client: DialectName): readonly Target[] {
  if (fault.place) return [fault.place];
  const { upstreams = UPSTREAM_DIALECTS } = fault;
  const usual = UPSTREAMS_OF[client].filter((upstream) => upstreams.includes(upstream));
  return usual.length > 0 ? usual : upstreams.slice(0, 1);
}

const outcomeOf = ({ outcome }: Fault, mode: Mode): Outcome => ("kind" in outcome ? outcome : outcome[mode]);

/** Every fault for every client, streamed and not, with one route and with two. */
export const FAULT_CASES: readonly FaultCase[] = [...FAULTS, ...RAW_FAULTS].flatMap((fault) =>
  (fault.clients ?? DIALECTS).flatMap((client) =>
    targetsOf(fault, client).flatMap((target) =>
      (fault.modes ?? MODES).flatMap((mode) =>
        ([1, 2] as const).map((routes) => {
          const outcome = routes === 2 && fault.failsOver ? ANSWERED : outcomeOf(fault, mode);
          const way = `${client} from ${target}, ${mode}, ${routes === 1 ? "one route" : "two routes"}`;
          return { fault, client, target, mode, routes, outcome, name: `${fault.number} ${fault.name}: ${way}` };
        }),
      ),
    ),
  ),
);

/** What a vendor's own headers may say: none of it is for clients. */
const VENDOR_CANARY = "canary-of-the-vendor";
const withCanary = (answer: Answer): Answer => ({
  ...answer,
  headers: { "x-vendor-trace": VENDOR_CANARY, "set-cookie": `session=${VENDOR_CANARY}`, ...answer.headers },
});

/**
 * Calls to the first vendor. Where there is one way only, a busy vendor is asked once more, and so is one that names a short wait and one
 * that cannot be reached (reliability 6.2, column three).
 */
function callsOf({ fault, mode, routes }: FaultCase): number {
  const outcome = outcomeOf(fault, mode);
  if (routes === 2 || outcome.kind !== "refused") return 1;
  const { code, retryAfter } = outcome;
  const again = code === "upstream_overloaded" || code === "upstream_unreachable";
  return again || (code === "rate_limit_exceeded" && Number(retryAfter) <= 5) ? 2 : 1;
}

/** The whole body; `onShown` is called once the vendor's first words are in it. */
async function readTo(response: Response, onShown: () => void): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length < MAX_LOOKED_AT && text.includes(PIECES[0].trim())) onShown();
  }
  return text;
}

/** Everything a client was sent. */
type Seen = { status: number; headers: Headers; body: string };

/** The first words are looked for in so much of an answer, characters. */
const MAX_LOOKED_AT = 100_000;
/** For an answer, ms. */
const PATIENCE_MS = 15_000;

/** Plays one cell in the lab and checks all of it: what the client sees, what it is charged, what the vendors saw, and what is kept. */
export async function playFault(lab: FaultLab, each: FaultCase): Promise<void> {
  const { fault, client, target, mode, routes } = each;
  if (fault.drive) insideOnly(CLOCK_BY_HAND);
  const upstream = (UPSTREAM_DIALECTS as readonly string[]).includes(target)
    ? lab.vendors[target as "chat"]
    : undefined;
  const { opened: shown, open } = gate();
  const scene: Scene = { lab, mode, shown, called: async () => upstream?.called() };
  const wire = FAULT_WIRES[target as UpstreamDialectName];
  const { answer } = fault;
  const calls = callsOf(each);
  if (upstream && answer) {
    const script = () => withCanary(answer(wire, scene));
    upstream.answer(pathAt(target as UpstreamDialectName, mode), ...Array.from({ length: calls }, () => script));
  }
  const { raw } = fault;
  if (raw) lab.raw.answer(...Array.from({ length: calls }, () => raw(mode, shown)));
  if (routes === 2 && fault.failsOver)
    lab.spare.answer(CLIENT_PATH.chat, withCanary(soundAnswerOf(FAULT_WIRES.chat, mode)));
  const before = { wallet: lab.wallet().posted, rows: lab.rowCount() };
  const asked = askAs(client, modelOf(target, routes), mode);
  const asking = lab.gateway.post(CLIENT_PATH[client], asked);
  const driving = fault.drive?.(scene);
  const response = await within(asking, "the answer", PATIENCE_MS);
  const body = await within(readTo(response, open), "the end of the answer", PATIENCE_MS);
  const seen: Seen = { status: response.status, headers: response.headers, body };
  await driving;
  await until(() => lab.gateway.app.running.count === 0 && lab.wallet().held === 0n, "the end of the request");
  expectSeen(each, seen);
  expectBooks(lab, each, asked, seen, before);
  expectCalls(lab, each, calls);
  expectNoLeak(lab, seen);
}

const isRefused = (outcome: Outcome) => outcome.kind === "refused";

function expectSeen(each: FaultCase, { status, headers, body }: Seen): void {
  const { client, mode, outcome, routes, fault } = each;
  const calls = callsOf(each) + (routes === 2 && fault.failsOver ? 1 : 0);
  const attempts = calls > 1 ? String(calls) : null;
  expect(headers.get("x-request-id")).toMatch(/^req_\w+$/);
  expect(headers.get("request-id")).toBe(headers.get("x-request-id"));
  if (outcome.kind === "refused") {
    const shape = client === "messages" ? "messages" : "chat";
    const [wanted, type] = FAULT_ERRORS[outcome.code][shape];
    expect(headers.get("content-type")).toBe("application/json");
    const told = readErrorOf(client, JSON.parse(body));
    const retry = [headers.get("x-should-retry"), headers.get("retry-after")];
    expect([status, told.code, told.type, headers.get("x-sluice-attempts"), ...retry]).toEqual([
      ...[wanted, outcome.code, type, attempts],
      ...[outcome.retry, outcome.retryAfter ?? null],
    ]);
    if (outcome.words) expect(told.message).toContain(outcome.words);
    return;
  }
  expect([status, headers.get("x-sluice-attempts"), headers.get("x-should-retry")]).toEqual([200, attempts, null]);
  if (mode === "blocking") {
    expect(headers.get("content-type")).toBe("application/json");
    expect(saidWhole(client, body)).toBe(outcome.said);
    return;
  }
  expect(headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const records = readRecords(body).filter(({ data, event }) => data !== "" && event !== "ping");
  if (outcome.kind === "answered") expectFinishedAs(client, records);
  else {
    const { code, type } = expectBrokenAs(client, records);
    expect([code, type]).toEqual([
      outcome.code,
      FAULT_ERRORS[outcome.code][client === "messages" ? "messages" : "chat"][1],
    ]);
  }
  expect(saidTo(client, records)).toBe(outcome.said);
}

/** What is charged (contract 5): undefined where nothing is. */
function chargeOf({ outcome, target }: FaultCase, body: { model: string }) {
  const estimate = estimateOf(body);
  if (outcome.kind === "answered") {
    const input = outcome.input === "estimate" ? estimate : outcome.input;
    const how = { outcome: "completed", estimated: outcome.input === "estimate", error: null };
    return { ...how, input, output: outcome.output, flags: outcome.suspect ? 3 : 0 };
  }
  const row = { estimated: true, error: outcome.code, flags: 0 };
  if (outcome.kind === "refused") {
    // The vendor may well go on with what nobody waits for any more (reliability 3.6).
    return outcome.code === "request_timeout"
      ? { ...row, outcome: "timed-out", input: estimate, output: 0 }
      : undefined;
  }
  if (outcome.said === "") return undefined;
  // Of a stream that broke off, messages vendors have told the input already.
  const input = target === "messages" ? INPUT : estimate;
  return { ...row, outcome: "upstream-failed", input, output: Math.ceil(outcome.said.length / 4) };
}

function expectBooks(
  lab: FaultLab,
  each: FaultCase,
  body: { model: string },
  { headers, body: text }: Seen,
  before: { wallet: bigint; rows: number },
): void {
  const { fault, target, mode, routes } = each;
  const id = headers.get("x-request-id") ?? "";
  const wanted = chargeOf(each, body);
  const cost = wanted ? costOf(wanted.input, wanted.output) : 0n;
  expect(lab.wallet()).toEqual({ posted: before.wallet - cost, held: 0n });
  expect([lab.openHolds(), lab.rowCount() - before.rows]).toEqual([0, wanted ? 1 : 0]);
  if (!wanted) {
    expect(lab.row(id)).toBeUndefined();
    return;
  }
  const failedOver = routes === 2 && fault.failsOver === true;
  expect(lab.row(id)).toMatchObject({
    ...wanted,
    ...{ costNano: cost, chargedNano: cost, attempts: failedOver ? 2 : 1, stream: mode === "stream" },
    vendor: failedOver ? SPARE : vendorIdOf(target),
  });
  // A failure that is paid for says so as a reply does.
  const note = /^: x-sluice-cost-usd: (.*)$/m.exec(text)?.[1];
  expect(note ?? headers.get("x-sluice-cost-usd")).toBe(`0.${cost.toString().padStart(9, "0")}`);
  const first = outcomeOf(fault, mode);
  const attempts = findAttempts(lab.gateway.store, id).map(({ vendor, outcome: end }) => [vendor, end]);
  const told = [
    [vendorIdOf(target), "code" in first ? first.code : ""],
    [SPARE, "served"],
  ];
  expect(attempts).toEqual(failedOver ? told : []);
}

function expectCalls(lab: FaultLab, { fault, target, routes, outcome }: FaultCase, calls: number): void {
  const other = routes === 2 && fault.failsOver ? 1 : 0;
  expect(lab.spare.calls).toHaveLength(other);
  for (const dialect of UPSTREAM_DIALECTS) {
    expect([dialect, lab.vendors[dialect].calls.length]).toEqual([dialect, dialect === target ? calls : 0]);
    expect(lab.vendors[dialect].unexpected).toEqual([]);
  }
  expect(lab.spare.unexpected).toEqual([]);
  if (fault.place === "reset" || fault.place === "closed") expect(lab.hungUp(fault.place)).toBe(calls);
  expect(lab.raw.calls).toHaveLength(fault.raw ? calls : 0);
  const lines = lab.gateway.log.filter(({ event }) => event === "generate");
  expect(lines.map(({ attempts }) => attempts)).toEqual([calls + other]);
  if (isRefused(outcome)) expect(lines[0]).toMatchObject({ level: "warn" });
}

/** No key, no address, no name of the vendor's, and nothing of its headers reaches a client or the log. */
function expectNoLeak(lab: FaultLab, { headers, body }: Seen): void {
  const sent = `${JSON.stringify([...headers])}\n${body}`;
  const secrets = ["vendor-key-of", KEY_FRAGMENT.slice(0, 12), "/srv/vendor", VENDOR_CANARY, lab.gateway.key];
  const places = [HIDDEN_MODEL, "127.0.0.1", ".invalid", ...lab.ports().map((port) => `:${port}`)];
  for (const word of [...secrets, ...places]) expect(sent).not.toContain(word);
  const logged = JSON.stringify(lab.gateway.log);
  for (const word of secrets) expect(logged).not.toContain(word);
}
