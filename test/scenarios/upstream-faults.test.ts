import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { type Answer, html, json, redirect, reset, type Script, sse, truncatedJson } from "../support/upstream.ts";
import { gate } from "../support/wait.ts";
import {
  ask,
  charged,
  DEAD_MODEL,
  DEAD_THEN_SPARE,
  expectBroken,
  expectFinished,
  expectNoSecret,
  ONE_ROUTE,
  PATH,
  readFailure,
  type ScenarioLab,
  startScenarioLab,
  TWO_ROUTES,
} from "./lab.ts";
import {
  INPUT,
  MODES,
  type Mode,
  OUTPUT,
  PIECES,
  type RawUsage,
  readRecords,
  SAID,
  SIDES,
  type Side,
  saidIn,
  soundAnswer,
  soundStream,
  WIRES,
  type Wire,
} from "./wires.ts";

setDefaultTimeout(30_000);

let lab: ScenarioLab;
beforeAll(async () => {
  lab = await startScenarioLab();
});
afterAll(() => lab.stop());
afterEach(() => {
  const unexpected = [lab.vendors.chat, lab.vendors.messages, lab.spare].flatMap((upstream) => upstream.unexpected);
  const under = lab.gateway.app.running.count;
  lab.reset();
  expect(unexpected).toEqual([]);
  expect(under).toBe(0);
});

/** Contract 6 as far as an upstream's fault can lead there: status and type for each dialect. */
const ERRORS = {
  invalid_request: { chat: [400, "invalid_request_error"], messages: [400, "invalid_request_error"] },
  context_length_exceeded: { chat: [400, "invalid_request_error"], messages: [400, "invalid_request_error"] },
  rate_limit_exceeded: { chat: [429, "rate_limit_error"], messages: [429, "rate_limit_error"] },
  upstream_error: { chat: [502, "server_error"], messages: [502, "api_error"] },
  upstream_auth: { chat: [502, "server_error"], messages: [502, "api_error"] },
  upstream_unreachable: { chat: [502, "server_error"], messages: [502, "api_error"] },
  upstream_overloaded: { chat: [503, "server_error"], messages: [529, "overloaded_error"] },
  stream_truncated: { chat: [502, "server_error"], messages: [502, "api_error"] },
} as const satisfies Record<string, Record<Side, readonly [number, string]>>;
type Code = keyof typeof ERRORS;

/** What a client sees: an error status; a stream that begins and ends in an error; or an answer, with what the ledger says of it. */
type Outcome =
  | { kind: "refused"; code: Code; retry: "true" | "false" | null; retryAfter?: string; words?: string }
  | { kind: "broken"; code: Code; said: string }
  | { kind: "answered"; input: number | "estimate"; output: number };

const refused = (code: Code, retry: "true" | "false" | null, more: { retryAfter?: string; words?: string } = {}) =>
  ({ kind: "refused", code, retry, ...more }) as const;
const broken = (code: Code, said = PIECES[0]) => ({ kind: "broken", code, said }) as const;
const ANSWERED: Outcome = { kind: "answered", input: INPUT, output: OUTPUT };
/** A token for every four characters. */
const COUNTED: Outcome = { kind: "answered", input: "estimate", output: 5 };

type Fault = {
  name: string;
  modes?: readonly Mode[];
  /** Only where the vendor speaks this dialect. */
  side?: Side;
  /** `shown` resolves when the client has read something of the answer. */
  answer(wire: Wire, mode: Mode, shown: Promise<void>): Script;
  outcome: Outcome | Record<Mode, Outcome>;
  /** Where the model has a second route: is it tried? Never, when absent, as in every case where something has come out. */
  failsOver?: boolean;
};

const KEY_FRAGMENT = "sk-proj-ab12************34yz";
const leak = `Incorrect API key provided: ${KEY_FRAGMENT}, see http://127.0.0.1:9/keys at /srv/vendor/keys.py`;
const failure =
  (status: number, type: string, words: string, headers: Record<string, string> = {}) =>
  (wire: Wire) =>
    json(wire.error(type, words), { status, headers });
const limited = (headers: Record<string, string>) => failure(429, "rate_limit_error", "slow down", headers);
const page = (status: number) => () => html(status, `<html>${"<p>Bad gateway</p>".repeat(12_000)}</html>`);
const overflow = "This model's maximum context length is 8192 tokens, your prompt has 12000 tokens.";

/** Faults told by a status before anything else: the same for both ways of asking. */
const STATUSES: Fault[] = [
  {
    name: "401 with a piece of the key",
    answer: failure(401, "authentication_error", leak),
    outcome: refused("upstream_auth", "false"),
    failsOver: true,
  },
  {
    name: "402",
    answer: failure(402, "billing_error", "no credit"),
    outcome: refused("upstream_error", "false"),
    failsOver: true,
  },
  {
    name: "403 of a region",
    answer: failure(403, "permission_error", "country not supported"),
    outcome: refused("upstream_auth", "false"),
    failsOver: true,
  },
  {
    name: "404 of the model",
    answer: failure(404, "not_found_error", "model: hidden-weights-7b"),
    outcome: refused("upstream_error", "false"),
    failsOver: true,
  },
  ...[
    ["1", "1"],
    ["3600", "60"],
    ["0", "1"],
    [new Date(Date.now() + 86_400_000).toUTCString(), "60"],
    ["soon, perhaps", "1"],
    ["-5", "1"],
    ["1e9", "1"],
  ].map(([given, told]) => ({
    name: `429 with retry-after ${given === "1" || given === "3600" || given === "0" ? given : JSON.stringify(given?.slice(0, 3))}`,
    answer: limited({ "retry-after": String(given) }),
    outcome: refused("rate_limit_exceeded", "true", { retryAfter: String(told) }),
    failsOver: true,
  })),
  {
    name: "429 without retry-after",
    answer: limited({}),
    outcome: refused("rate_limit_exceeded", "true", { retryAfter: "1" }),
    failsOver: true,
  },
  {
    name: "429 that means: no credit",
    side: "chat",
    answer: (wire) => json(wire.error("insufficient_quota", "no credit", "insufficient_quota"), { status: 429 }),
    outcome: refused("upstream_error", "false"),
    failsOver: true,
  },
  {
    name: "400 with the vendor's reason",
    answer: failure(400, "invalid_request_error", `temperature is odd. ${leak}`),
    outcome: refused("invalid_request", null, { words: "temperature is odd" }),
  },
  {
    name: "413",
    answer: failure(413, "request_too_large", "too large"),
    outcome: refused("invalid_request", null),
  },
  {
    name: "422 in FastAPI's shape",
    answer: () => json({ detail: [{ loc: ["body", "top_k"], msg: "not an integer" }] }, { status: 422 }),
    outcome: refused("invalid_request", null),
  },
  {
    name: "context overflow",
    answer: failure(400, "invalid_request_error", overflow),
    outcome: refused("context_length_exceeded", null, { words: "prompt is too long: 12000 tokens > 8192 maximum" }),
  },
  {
    name: "500",
    answer: failure(500, "server_error", leak),
    outcome: refused("upstream_error", "true"),
    failsOver: true,
  },
  { name: "502 of 200 KB HTML", answer: page(502), outcome: refused("upstream_overloaded", "true"), failsOver: true },
  { name: "503 of 200 KB HTML", answer: page(503), outcome: refused("upstream_overloaded", "true"), failsOver: true },
  {
    name: "529",
    answer: failure(529, "overloaded_error", "Overloaded"),
    outcome: refused("upstream_overloaded", "true"),
    failsOver: true,
  },
  {
    name: "500 without a body",
    answer: () => ({ status: 500, parts: [], framing: "length", finish: "end" }),
    outcome: refused("upstream_error", "true"),
    failsOver: true,
  },
  ...[301, 302, 307, 308].map((status) => ({
    name: `redirect ${status}`,
    answer: () => redirect("http://127.0.0.1:9/v1/steal", status),
    outcome: refused("upstream_error", "false"),
    failsOver: true,
  })),
  { name: "200 with a web page", answer: () => html(200), outcome: refused("upstream_error", "true"), failsOver: true },
  {
    name: "a connection torn down before the answer",
    answer: () => reset(),
    outcome: refused("upstream_error", "false"),
    failsOver: true,
  },
  {
    name: "a 200 whose JSON is an overload",
    answer: (wire) => json(wire.error("overloaded_error", "Overloaded")),
    outcome: refused("upstream_overloaded", "true"),
    failsOver: true,
  },
  {
    name: "a 200 whose JSON is a limit",
    answer: (wire) => json(wire.error("rate_limit_error", "slow")),
    outcome: refused("rate_limit_exceeded", "true", { retryAfter: "1" }),
    failsOver: true,
  },
  {
    name: "a 200 whose JSON is an error in a million others",
    answer: () => nested('{"error":', "}"),
    outcome: refused("upstream_error", "true"),
    failsOver: true,
  },
  {
    name: "a 500 with a detail a million levels deep",
    answer: () => ({ ...nested('{"detail":[', "]}"), status: 500 }),
    outcome: refused("upstream_error", "true"),
    failsOver: true,
  },
  {
    name: "a 200 of half the JSON",
    answer: (wire) => truncatedJson(wire.reply()),
    outcome: refused("upstream_error", "true"),
    failsOver: true,
  },
  {
    name: "a 200 of JSON that is no reply",
    answer: () => json({ hello: "world" }),
    outcome: refused("upstream_error", "true"),
    failsOver: true,
  },
  {
    name: "a 200 of JSON that is an array",
    answer: () => json([]),
    outcome: refused("upstream_error", "true"),
    failsOver: true,
  },
  {
    name: "a 200 without a body",
    answer: (_wire, mode) => ({
      headers: { "content-type": mode === "stream" ? "text/event-stream" : "application/json" },
      parts: [],
      framing: "length",
      finish: "end",
    }),
    outcome: {
      blocking: refused("upstream_error", "true"),
      stream: refused("stream_truncated", "true"),
    },
    failsOver: true,
  },
  {
    name: "a content-length larger than the body",
    modes: ["blocking"],
    answer: (wire) => ({ ...json(wire.reply()), claimedLength: 100_000, finish: "cut" }),
    outcome: refused("upstream_error", "false"),
    failsOver: true,
  },
  {
    name: "a content-length smaller than the body",
    modes: ["blocking"],
    answer: (wire) => ({ ...json(wire.reply()), claimedLength: 40 }),
    outcome: refused("upstream_error", "true"),
    failsOver: true,
  },
  {
    name: "a gzip bomb",
    answer: () => bomb(200, "application/json"),
    outcome: refused("upstream_error", "true"),
    failsOver: true,
  },
  {
    name: "a gzip bomb as an error",
    answer: () => bomb(400, "application/json"),
    outcome: refused("invalid_request", null),
  },
  {
    name: "gzip that is none",
    answer: () => ({
      headers: { "content-type": "application/json", "content-encoding": "gzip" },
      parts: ["this is no gzip"],
      framing: "length",
      finish: "end",
    }),
    outcome: refused("upstream_error", "false"),
    failsOver: true,
  },
];

/** JSON that is deeper than any stack. */
function nested(open: string, close: string): Answer {
  const text = `${open.repeat(500_000)}1${close.repeat(500_000)}`;
  return { headers: { "content-type": "application/json" }, parts: [text], framing: "length", finish: "end" };
}

let packed: Uint8Array | undefined;
/** 64 MB of nothing in 64 KB. */
function bomb(status: number, type: string): Answer {
  packed ??= gzipSync(Buffer.alloc(64 * 1024 * 1024, 32));
  const headers = { "content-type": type, "content-encoding": "gzip" };
  return { status, headers, parts: [packed], framing: "length", finish: "end" };
}

/** A stream up to the first half of what is said. */
const begun = (wire: Wire) => wire.head() + wire.text(PIECES[0]);
const STREAM = ["stream"] as const;

/** Faults of a stream: of its beginning, which can still be told by a status, and of what has begun. */
const STREAMS: Fault[] = [
  {
    name: "an error as the first record",
    modes: STREAM,
    answer: (wire) => sse(wire.errorRecord("overloaded_error", leak)),
    outcome: refused("upstream_overloaded", "true"),
    failsOver: true,
  },
  {
    name: "an error behind the empty head",
    modes: STREAM,
    answer: (wire) => sse(wire.head() + wire.errorRecord("rate_limit_error", leak)),
    outcome: refused("rate_limit_exceeded", "true", { retryAfter: "1" }),
    failsOver: true,
  },
  {
    name: "an end behind the empty head",
    modes: STREAM,
    answer: (wire) => sse(wire.head()),
    outcome: refused("stream_truncated", "true"),
    failsOver: true,
  },
  {
    name: "an end without terminator",
    modes: STREAM,
    answer: (wire) => sse(begun(wire)),
    outcome: broken("stream_truncated"),
  },
  {
    name: "a connection that closes without terminator",
    modes: STREAM,
    answer: (wire) => ({ ...sse(begun(wire)), framing: "close" }),
    outcome: broken("stream_truncated"),
  },
  {
    name: "a chunked body that is cut",
    modes: STREAM,
    answer: (wire, _mode, shown) => sse([begun(wire), shown], { finish: "cut" }),
    outcome: broken("stream_truncated"),
  },
  {
    name: "a reset inside a record",
    modes: STREAM,
    answer: (wire, _mode, shown) => sse([begun(wire), shown, wire.text("more").slice(0, 20)], { finish: "reset" }),
    outcome: broken("stream_truncated"),
  },
  {
    name: "an error in the middle",
    modes: STREAM,
    answer: (wire) => sse(begun(wire) + wire.errorRecord("overloaded_error", leak)),
    outcome: broken("upstream_overloaded"),
  },
  {
    name: "an error in the middle, and the stream goes on",
    modes: STREAM,
    answer: (wire) => sse(begun(wire) + wire.errorRecord("api_error", leak) + soundStream(wire)),
    outcome: broken("upstream_error"),
  },
  {
    name: "a record that is no JSON",
    modes: STREAM,
    answer: (wire) => sse(`${begun(wire)}data: {"oops\n\n${soundStream(wire)}`),
    outcome: broken("upstream_error"),
  },
  {
    name: "a record beyond every bound",
    modes: STREAM,
    answer: (wire) => sse(begun(wire) + wire.text("x".repeat(17 * 1024 * 1024)), { chunk: 4 * 1024 * 1024 }),
    outcome: broken("upstream_error"),
  },
  {
    name: "data behind the terminator",
    modes: STREAM,
    answer: (wire) => sse(soundStream(wire) + wire.text("more") + wire.errorRecord("api_error", "late")),
    outcome: ANSWERED,
  },
  {
    name: "the terminator twice",
    modes: STREAM,
    answer: (wire) => sse(soundStream(wire) + wire.terminator),
    outcome: ANSWERED,
  },
  {
    name: "one byte at a time, CRLF, comments and a BOM",
    modes: STREAM,
    answer: (wire) => sse(`\uFEFF: hi\r\n\r\n${soundStream(wire).replaceAll("\n", "\r\n")}`, { chunk: 1 }),
    outcome: ANSWERED,
  },
  {
    name: "JSON to a request for a stream",
    modes: STREAM,
    answer: (wire) => json(wire.reply()),
    outcome: ANSWERED,
  },
  {
    name: "a stream to a request for JSON",
    modes: ["blocking"],
    answer: (wire) => sse(soundStream(wire)),
    outcome: ANSWERED,
  },
  {
    name: "a broken stream to a request for JSON",
    modes: ["blocking"],
    answer: (wire) => sse(begun(wire)),
    outcome: refused("stream_truncated", "true"),
    failsOver: true,
  },
  {
    name: "a failing stream to a request for JSON",
    modes: ["blocking"],
    answer: (wire) => sse(begun(wire) + wire.errorRecord("overloaded_error", leak)),
    outcome: refused("upstream_overloaded", "true"),
    failsOver: true,
  },
];

/** Counts that a vendor may send, and what is believed of them. */
const COUNTS: [name: string, usage: RawUsage | "none", outcome: Outcome][] = [
  ["none", "none", COUNTED],
  ["zeros", { input: 0, output: 0 }, COUNTED],
  ["negative", { input: -11, output: -7 }, COUNTED],
  ["strings", { input: "11", output: "7" }, COUNTED],
  ["null", { input: null, output: null }, COUNTED],
  ["not finite", { input: Number.NaN, output: Number.POSITIVE_INFINITY }, COUNTED],
  ["with a fraction", { input: 11.9, output: 7.9 }, ANSWERED],
  ["absurd", { input: 1e18, output: 1e300 }, { kind: "answered", input: 100_000_000, output: 100_000_000 }],
];

const USAGES: Fault[] = COUNTS.map(([name, usage, outcome]) => ({
  name: `counts that are ${name}`,
  answer: (wire, mode) => {
    if (usage !== "none") return mode === "stream" ? sse(soundStream(wire, usage)) : json(wire.reply(usage));
    // `undefined` would stand for the usual counts.
    const text = mode === "stream" ? soundStream(wire) : JSON.stringify(wire.reply());
    const bare = text.replaceAll(/,"usage":\{[^}]*\}/g, "");
    return mode === "stream" ? sse(bare) : json(JSON.parse(bare));
  },
  outcome,
}));

const FAULTS = [...STATUSES, ...STREAMS, ...USAGES];
const CASES = FAULTS.flatMap((fault) =>
  SIDES.filter((upstream) => !fault.side || fault.side === upstream).flatMap((upstream) =>
    SIDES.flatMap((client) =>
      (fault.modes ?? MODES).map((mode) => {
        const outcome = "kind" in fault.outcome ? fault.outcome : fault.outcome[mode];
        return { fault, upstream, client, mode, outcome, name: `${fault.name}: ${client} from ${upstream}, ${mode}` };
      }),
    ),
  ),
);

/** The whole body; `onShown` is called with its first piece. */
async function readText(response: Response, onShown: () => void): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    onShown();
  }
  return text;
}

async function expectOutcome(
  client: Side,
  mode: Mode,
  response: Response,
  outcome: Outcome,
  onShown = () => {},
): Promise<string> {
  if (outcome.kind === "refused") {
    const told = await readFailure(client, response);
    const [status, type] = ERRORS[outcome.code][client];
    const { retry, retryAfter = null, code } = outcome;
    expect(told).toMatchObject({ status, code, type, retry, retryAfter });
    if (outcome.words) expect(told.message).toContain(outcome.words);
    return JSON.stringify([told, [...response.headers]]);
  }
  expect(response.status).toBe(200);
  const text = await readText(response, onShown);
  if (mode === "blocking") {
    expect(text).toContain(SAID);
    return text;
  }
  const records = readRecords(text);
  if (outcome.kind === "answered") {
    expectFinished(client, records);
    expect(saidIn(client, records)).toBe(SAID);
  } else {
    const told = expectBroken(client, records);
    expect(told).toMatchObject({ code: outcome.code, type: ERRORS[outcome.code][client][1] });
    expect(saidIn(client, records)).toBe(outcome.said);
  }
  return text;
}

/** What the ledger holds afterwards (contract 5): nothing where nothing came out, else one row. */
function expectCharge(upstream: Side, outcome: Outcome): void {
  const rows = charged(lab.rows());
  if (outcome.kind === "refused") {
    expect(rows).toEqual([]);
    return;
  }
  expect(rows[0]?.input).toBeGreaterThan(0);
  const vendor = `vendor-${upstream}`;
  if (outcome.kind === "broken") {
    // Of a stream that broke off, messages vendors have told the input already.
    const input = upstream === "messages" ? INPUT : expect.any(Number);
    const output = Math.ceil(outcome.said.length / 4);
    expect(rows).toEqual([
      { outcome: "upstream-failed", input, output, estimated: true, attempts: 1, vendor, error: outcome.code },
    ]);
    return;
  }
  const estimated = outcome.input === "estimate";
  const input = estimated ? expect.any(Number) : outcome.input;
  expect(rows).toEqual([
    { outcome: "completed", input, output: outcome.output, estimated, attempts: 1, vendor, error: null },
  ]);
}

/** Where there is one way only, a busy vendor is asked once more, and so is one that names a short wait (reliability 6.2). */
const isRepeated = (outcome: Outcome) =>
  outcome.kind === "refused" &&
  (outcome.code === "upstream_overloaded" || (outcome.code === "rate_limit_exceeded" && outcome.retryAfter === "1"));

describe("one route", () => {
  test.each(CASES)("$name", async ({ fault, upstream, client, mode, outcome }) => {
    const { opened, open } = gate();
    const calls = isRepeated(outcome) ? 2 : 1;
    const scripts = Array.from({ length: calls }, () => fault.answer(WIRES[upstream], mode, opened));
    lab.vendors[upstream].answer(PATH[upstream], ...scripts);
    const response = await lab.gateway.post(PATH[client], ask(client, ONE_ROUTE[upstream], mode));
    const seen = await expectOutcome(client, mode, response, outcome, open);
    expectNoSecret(lab, seen);
    expect(seen).not.toContain(KEY_FRAGMENT.slice(0, 12));
    expect(seen).not.toContain("/srv/vendor");
    expectCharge(upstream, outcome);
    expect(lab.vendors[upstream].calls).toHaveLength(calls);
    expect(lab.spare.calls).toHaveLength(0);
    const logged = JSON.stringify(lab.gateway.log);
    expect(logged).not.toContain("vendor-key-of");
    expect(logged).not.toContain(lab.gateway.key);
  });
});

describe("two routes", () => {
  test.each(CASES)("$name", async ({ fault, upstream, client, mode, outcome }) => {
    const { opened, open } = gate();
    lab.vendors[upstream].answer(PATH[upstream], fault.answer(WIRES[upstream], mode, opened));
    if (fault.failsOver) lab.spare.answer(PATH.chat, soundAnswer(WIRES.chat, mode));
    const response = await lab.gateway.post(PATH[client], ask(client, TWO_ROUTES[upstream], mode));
    expectNoSecret(lab, await expectOutcome(client, mode, response, fault.failsOver ? ANSWERED : outcome, open));
    expect(lab.vendors[upstream].calls).toHaveLength(1);
    expect(lab.spare.calls).toHaveLength(fault.failsOver ? 1 : 0);
    if (!fault.failsOver) {
      expectCharge(upstream, outcome);
      return;
    }
    expect(charged(lab.rows())).toEqual([
      {
        outcome: "completed",
        input: INPUT,
        output: OUTPUT,
        estimated: false,
        attempts: 2,
        vendor: "vendor-spare",
        error: null,
      },
    ]);
  });

  test.each(MODES)("both fail, %s: the second one's fault is told, and nothing is charged", async (mode) => {
    lab.vendors.chat.answer(PATH.chat, failure(529, "overloaded_error", "no")(WIRES.chat));
    lab.spare.answer(PATH.chat, failure(401, "authentication_error", leak)(WIRES.chat));
    const response = await lab.gateway.post(PATH.chat, ask("chat", TWO_ROUTES.chat, mode));
    await expectOutcome("chat", mode, response, refused("upstream_auth", "false"));
    expect([lab.vendors.chat.calls.length, lab.spare.calls.length, lab.rows()]).toEqual([1, 1, []]);
  });
});

describe("nobody listens", () => {
  const ways = SIDES.flatMap((client) => MODES.map((mode) => ({ client, mode, name: `${client}, ${mode}` })));

  test.each(ways)("$name", async ({ client, mode }) => {
    const response = await lab.gateway.post(PATH[client], ask(client, DEAD_MODEL, mode));
    expectNoSecret(lab, await expectOutcome(client, mode, response, refused("upstream_unreachable", "true")));
    expect(lab.rows()).toEqual([]);
  });

  test.each(ways)("$name, with another route", async ({ client, mode }) => {
    lab.spare.answer(PATH.chat, soundAnswer(WIRES.chat, mode));
    const response = await lab.gateway.post(PATH[client], ask(client, DEAD_THEN_SPARE, mode));
    await expectOutcome(client, mode, response, ANSWERED);
    expect(charged(lab.rows())).toMatchObject([{ outcome: "completed", attempts: 2, vendor: "vendor-spare" }]);
  });
});

describe("a record of 10 MB", () => {
  const ways = SIDES.flatMap((upstream) =>
    SIDES.map((client) => ({ upstream, client, name: `${client} from ${upstream}` })),
  );

  test.each(ways)("goes through whole: $name", async ({ upstream, client }) => {
    const wire = WIRES[upstream];
    const long = "long ".repeat(2 * 1024 * 1024);
    const text = wire.head() + wire.text(long) + wire.finish() + wire.usage() + wire.terminator;
    lab.vendors[upstream].answer(PATH[upstream], sse(text, { chunk: 64 * 1024 }));
    const response = await lab.gateway.post(PATH[client], ask(client, ONE_ROUTE[upstream], "stream"));
    const records = readRecords(await response.text());
    expectFinished(client, records);
    expect(saidIn(client, records) === long).toBe(true);
    expect(charged(lab.rows())).toMatchObject([{ outcome: "completed", input: INPUT, output: OUTPUT }]);
  });
});

describe("a connection is not poisoned by what came before on it", () => {
  const before: [string, (wire: Wire) => Answer][] = [
    ["a content-length smaller than the body", (wire) => ({ ...json(wire.reply()), claimedLength: 40 })],
    ["an error status with more body than is read", () => html(500, "<p>x</p>".repeat(100_000))],
    ["a redirect with a body", () => ({ ...html(302), headers: { location: "http://127.0.0.1:9/" } })],
  ];
  test.each(before)("%s", async (_name, answer) => {
    const { chat } = lab.vendors;
    for (let round = 0; round < 5; round++) {
      chat.answer(PATH.chat, answer(WIRES.chat), soundAnswer(WIRES.chat, "blocking"));
      const bad = await lab.gateway.post(PATH.chat, ask("chat", ONE_ROUTE.chat, "blocking"));
      expect(bad.status).toBe(502);
      const good = await lab.gateway.post(PATH.chat, ask("chat", ONE_ROUTE.chat, "blocking"));
      expect([good.status, (await good.text()).includes(SAID)]).toEqual([200, true]);
    }
    expect(lab.rows()).toHaveLength(5);
  });
});
