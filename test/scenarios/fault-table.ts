import { gzipSync } from "node:zlib";
import type { DialectName, UpstreamDialectName } from "../../src/dialects/dialect.ts";
import { MAX_FRAME_CHARACTERS } from "../../src/dialects/frames.ts";
import {
  type Answer,
  html,
  json,
  neverAnswer,
  type Part,
  redirect,
  reset,
  sse,
  truncatedJson,
} from "../support/upstream.ts";
import type { FaultLab, Place } from "./fault-lab.ts";
import { ANSWERED, broken, COUNTED, type Outcome, refused, TIMED_OUT } from "./fault-outcomes.ts";
import type { RawAnswer } from "./fault-sockets.ts";
import { CEILING, type FaultWire, soundStreamOf } from "./fault-wires.ts";
import { type Mode, PIECES, type RawUsage } from "./wires.ts";

/** What a fault may look at and do while its request is under way. */
export type Scene = {
  lab: FaultLab;
  mode: Mode;
  /** The client has read something of the answer. */
  shown: Promise<void>;
  /** The vendor has the request. */
  called(): Promise<unknown>;
};

/** One of the faults of reliability 8.3, in one of its shapes. */
export type Fault = {
  /** Its number there. */
  number: number;
  name: string;
  /** Default: both. */
  modes?: readonly Mode[];
  /** Vendors' dialects in which it can be played; default: all. */
  upstreams?: readonly UpstreamDialectName[];
  /** Default: all. */
  clients?: readonly DialectName[];
  /** Where it happens, if not at a scripted vendor. */
  place?: Place;
  /** What the vendor at place `raw` writes. */
  raw?(mode: Mode, shown: Promise<void>): RawAnswer;
  answer?(wire: FaultWire, scene: Scene): Answer;
  /** What happens meanwhile, time above all. */
  drive?(scene: Scene): Promise<void>;
  outcome: Outcome | Record<Mode, Outcome>;
  /** Where the model has a second route: is it tried? Never, when absent, as in every case where something has come out. */
  failsOver?: boolean;
};

export const KEY_FRAGMENT = "sk-proj-ab12************34yz";
const leak = `Incorrect API key provided: ${KEY_FRAGMENT}, see http://127.0.0.1:9/keys at /srv/vendor/keys.py`;
const failure =
  (status: number, type: string, words: string, headers: Record<string, string> = {}) =>
  (wire: FaultWire) =>
    json(wire.error(type, words), { status, headers });
const page = (status: number) => () => html(status, `<html>${"<p>Bad gateway</p>".repeat(12_000)}</html>`);
const failsOver = true;
/** For what takes long: megabytes that say nothing of the client's dialect. */
const ONE_CLIENT = ["chat"] as const;
const STREAM = ["stream"] as const;
const BLOCKING = ["blocking"] as const;

const CONNECTIONS: Fault[] = [
  { number: 1, name: "NXDOMAIN", place: "no-such-name", outcome: refused("upstream_unreachable", "true"), failsOver },
  { number: 3, name: "refused", place: "refused", outcome: refused("upstream_unreachable", "true"), failsOver },
  { number: 6, name: "RST after accept", place: "reset", outcome: refused("upstream_error", "false"), failsOver },
  { number: 6, name: "FIN after accept", place: "closed", outcome: refused("upstream_error", "false"), failsOver },
  {
    number: 6,
    name: "RST after the request",
    answer: () => reset(),
    outcome: refused("upstream_error", "false"),
    failsOver,
  },
];

/** Drips so many bytes a second, which are less than a head. */
function drip(scene: Scene): readonly Part[] {
  const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-slow: ";
  const second = (at: number) => new Promise<void>((resolve) => scene.lab.clock.after(at * 1_000, resolve));
  return Array.from({ length: 100 }, (_, at) => [second(at), head[at] ?? "x"]).flat();
}

const advance =
  (ms: number) =>
  async ({ lab, called }: Scene) => {
    await called();
    await lab.clock.advance(ms);
  };
const SILENT = { blocking: TIMED_OUT, stream: broken("upstream_error", "") };

const SLOW: Fault[] = [
  { number: 7, name: "headers never", answer: () => neverAnswer(), drive: advance(95_000), outcome: SILENT },
  {
    number: 8,
    name: "headers, a byte a second",
    answer: (_wire, scene) => ({ ...neverAnswer(), parts: drip(scene) }),
    drive: advance(95_000),
    outcome: SILENT,
  },
  {
    number: 24,
    name: "silence after the head of the answer",
    answer: (wire, { mode }) =>
      mode === "stream"
        ? sse([], { finish: "silence" })
        : { ...json(wire.reply()), claimedLength: 100_000, finish: "silence" },
    drive: advance(95_000),
    outcome: SILENT,
  },
  {
    number: 24,
    name: "5 min of silence in the middle",
    modes: STREAM,
    answer: (wire) => sse(begun(wire), { finish: "silence" }),
    async drive({ lab, shown }) {
      await shown;
      await lab.clock.advance(300_000);
    },
    outcome: broken("upstream_error"),
  },
  {
    number: 15,
    name: "500 after 16 s: what may have run is repeated within 15 s only",
    answer: (wire, scene) => ({ ...failure(500, "server_error", leak)(wire), headersAfter: later(scene, 16_000) }),
    drive: advance(20_000),
    outcome: { blocking: refused("upstream_error", "true"), stream: broken("upstream_error", "") },
  },
  {
    number: 16,
    name: "503 after 16 s: what has not run is",
    modes: BLOCKING,
    answer: (wire, scene) => ({ ...failure(503, "server_error", leak)(wire), headersAfter: later(scene, 16_000) }),
    drive: advance(40_000),
    outcome: refused("upstream_overloaded", "true"),
    failsOver,
  },
  {
    number: 31,
    name: "an answer at 94.9 s",
    modes: BLOCKING,
    answer: (wire, scene) => ({ ...json(wire.reply()), headersAfter: later(scene, 94_900) }),
    drive: advance(95_200),
    outcome: ANSWERED,
  },
  {
    number: 31,
    name: "an answer at 95.1 s",
    modes: BLOCKING,
    answer: (wire, scene) => ({ ...json(wire.reply()), headersAfter: later(scene, 95_100) }),
    drive: advance(95_200),
    outcome: TIMED_OUT,
  },
  {
    number: 31,
    name: "a stream that begins at 89.9 s",
    modes: STREAM,
    answer: (wire, scene) => ({ ...sse(soundStreamOf(wire)), headersAfter: later(scene, 89_900) }),
    drive: advance(95_200),
    outcome: ANSWERED,
  },
  {
    number: 31,
    name: "a stream that begins at 90.1 s",
    modes: STREAM,
    answer: (wire, scene) => ({ ...sse(soundStreamOf(wire)), headersAfter: later(scene, 90_100) }),
    drive: advance(95_200),
    outcome: broken("upstream_error", ""),
  },
];

/** What OpenRouter tells of a vendor that broke off before it said a word. */
function brokenBehind(mode: Mode): Answer {
  const ended = { index: 0, finish_reason: "stop", native_finish_reason: "network_error" };
  const said = { role: "assistant", content: "" };
  const head = { id: "gen-1", created: 1, model: "m" };
  if (mode === "blocking") return json({ ...head, object: "chat.completion", choices: [{ ...ended, message: said }] });
  const records = [
    { index: 0, delta: said, finish_reason: null },
    { ...ended, delta: { content: "" } },
  ];
  const chunk = (choice: unknown) => JSON.stringify({ ...head, object: "chat.completion.chunk", choices: [choice] });
  return sse(`${records.map((record) => `data: ${chunk(record)}\n\n`).join("")}data: [DONE]\n\n`);
}

/** Counted from the call's arrival: the vendor's clock. */
const later = ({ lab }: Scene, ms: number) => new Promise<void>((resolve) => lab.clock.after(ms, resolve));

const overflow = "This model's maximum context length is 8192 tokens, your prompt has 12000 tokens.";
const OPENAI_LIKE = ["chat", "responses"] as const;

const STATUSES: Fault[] = [
  ...[301, 302, 307, 308].map((status) => ({
    number: 9,
    name: `${status} to another host`,
    answer: () => redirect("http://127.0.0.1:9/v1/steal", status),
    outcome: refused("upstream_error", "false"),
    failsOver,
  })),
  {
    number: 10,
    name: "401 with a piece of the key",
    answer: failure(401, "authentication_error", leak),
    outcome: refused("upstream_auth", "false"),
    failsOver,
  },
  {
    number: 10,
    name: "400 that means: no such key",
    upstreams: ["gemini"],
    answer: failure(400, "invalid_request_error", "API key not valid. Please pass a valid API key."),
    outcome: refused("upstream_auth", "false"),
    failsOver,
  },
  {
    number: 11,
    name: "402",
    answer: failure(402, "billing_error", "no credit"),
    outcome: refused("upstream_error", "false"),
    failsOver,
  },
  {
    number: 11,
    name: "429 that means: no credit",
    upstreams: OPENAI_LIKE,
    answer: (wire) => json(wire.error("insufficient_quota", "no credit", "insufficient_quota"), { status: 429 }),
    outcome: refused("upstream_error", "false"),
    failsOver,
  },
  {
    number: 12,
    name: "403 of a region",
    answer: failure(403, "permission_error", "country not supported"),
    outcome: refused("upstream_auth", "false"),
    failsOver,
  },
  {
    number: 13,
    name: "404 of the model",
    answer: failure(404, "not_found_error", "model: hidden-weights-7b"),
    outcome: refused("upstream_error", "false"),
    failsOver,
  },
  ...LIMITS(),
  {
    number: 15,
    name: "500 JSON",
    answer: failure(500, "server_error", leak),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
  {
    number: 15,
    name: "500 without a body",
    answer: () => ({ status: 500, parts: [], framing: "length", finish: "end" }),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
  {
    number: 15,
    name: "500 with a detail a million levels deep",
    clients: ONE_CLIENT,
    answer: () => ({ ...nested('{"detail":[', "]}"), status: 500 }),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
  ...[502, 503].map((status) => ({
    number: 16,
    name: `${status} with 200 KB of HTML`,
    answer: page(status),
    outcome: refused("upstream_overloaded", "true"),
    failsOver,
  })),
  {
    number: 14,
    name: "a limit told by MiniMax's number inside a 200",
    upstreams: ["chat"],
    answer: () => json({ choices: null, base_resp: { status_code: 1002, status_msg: "rate limit" } }),
    outcome: refused("rate_limit_exceeded", "true", { retryAfter: "1" }),
    failsOver,
  },
  {
    number: 14,
    name: "a limit told by Alibaba in the first record of a 200",
    upstreams: ["chat"],
    answer: () => record({ code: "Throttling.AllocationQuota", message: "Allocated quota exceeded" }, "error"),
    outcome: refused("rate_limit_exceeded", "true", { retryAfter: "1" }),
    failsOver,
  },
  {
    number: 14,
    name: "Google's limit, which its body alone says the end of, in this dialect too",
    upstreams: ["chat"],
    answer: () =>
      json(
        [
          {
            error: {
              ...{ code: 429, message: "You exceeded your current quota, please check your plan and billing details." },
              status: "RESOURCE_EXHAUSTED",
              details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "20.4s" }],
            },
          },
        ],
        { status: 429 },
      ),
    outcome: refused("rate_limit_exceeded", "true", { retryAfter: "21" }),
    failsOver,
  },
  {
    number: 14,
    name: "the same there, in OpenAI's word for an empty account",
    upstreams: ["chat"],
    answer: () => record({ error: { code: "insufficient_quota", message: "Allocated quota exceeded" } }),
    outcome: refused("rate_limit_exceeded", "true", { retryAfter: "1" }),
    failsOver,
  },
  {
    number: 15,
    name: "a fault told by FastChat's number in the first record of a 200",
    upstreams: ["chat"],
    answer: () => record({ text: "**NETWORK ERROR DUE TO HIGH TRAFFIC.**", error_code: 50_001 }),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
  {
    number: 15,
    name: "a fault told by SiliconFlow's number in the first record of a 200",
    upstreams: ["chat"],
    answer: () => record({ code: 50_505, message: "Model service overloaded. Please try again later.", data: null }),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
  {
    number: 15,
    name: "a call that its model spoiled, told as a fault of the request (Groq)",
    upstreams: ["chat"],
    answer: (wire) =>
      json(wire.error("invalid_request_error", "Failed to call a function.", "tool_use_failed"), { status: 400 }),
    outcome: refused("upstream_error", "true", { words: "Failed to call a function." }),
    failsOver,
  },
  {
    number: 15,
    name: "an end that only the word of the vendor behind calls a failure",
    upstreams: ["chat"],
    answer: (_wire, { mode }) => brokenBehind(mode),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
  {
    number: 16,
    name: "a model that is down, told as a fault of the request (NVIDIA)",
    upstreams: ["chat"],
    answer: () =>
      json(
        {
          status: 400,
          title: "Bad Request",
          detail: "Function id '87ea0ddc-cff1-4bca-bf8b-3bd98a35ddd0': DEGRADED function cannot be invoked",
        },
        { status: 400 },
      ),
    outcome: refused("upstream_overloaded", "true"),
    failsOver,
  },
  {
    number: 16,
    name: "a model that is not loaded, told as a fault of the request (llama.cpp, LM Studio)",
    upstreams: ["chat"],
    answer: (wire) => json(wire.error("invalid_request_error", "model is not loaded"), { status: 400 }),
    outcome: refused("upstream_error", "false"),
    failsOver,
  },
  { number: 16, name: "504 with HTML", answer: page(504), outcome: refused("upstream_error", "true"), failsOver },
  {
    number: 17,
    name: "529",
    answer: failure(529, "overloaded_error", "Overloaded"),
    outcome: refused("upstream_overloaded", "true"),
    failsOver,
  },
];

/** `retry-after` as it comes, and as it is told. */
function LIMITS(): Fault[] {
  const inADay = ({ lab }: Scene) => new Date(lab.clock.now() + 86_400_000).toUTCString();
  const shapes: [string, string | undefined | ((scene: Scene) => string), string][] = [
    ["1", "1", "1"],
    ["5", "5", "5"],
    ["6", "6", "6"],
    ["3600", "3600", "60"],
    ["0", "0", "1"],
    ["a date", inADay, "60"],
    ["a date that is over", "Fri, 02 Jan 2015 03:04:05 GMT", "1"],
    ["garbage", "soon, perhaps", "1"],
    ["-5", "-5", "1"],
    ["1e9", "1e9", "1"],
    ["none", undefined, "1"],
  ];
  return shapes.map(([name, given, retryAfter]) => ({
    number: 14,
    name: `429 with retry-after ${name}`,
    answer(wire, scene) {
      const value = typeof given === "function" ? given(scene) : given;
      return failure(429, "rate_limit_error", "slow down", value === undefined ? {} : { "retry-after": value })(wire);
    },
    outcome: refused("rate_limit_exceeded", "true", { retryAfter }),
    failsOver,
  }));
}

/** What is wrong with the request goes nowhere else. */
const REQUESTS: Fault[] = [
  {
    number: 15,
    name: "400 with the vendor's reason",
    answer: failure(400, "invalid_request_error", `temperature is odd. ${leak}`),
    outcome: refused("invalid_request", null, { words: "temperature is odd" }),
  },
  {
    number: 15,
    name: "413",
    answer: failure(413, "request_too_large", "too large"),
    outcome: refused("request_too_large", null, { words: "too large" }),
  },
  {
    number: 15,
    name: "422 in FastAPI's shape",
    answer: () => json({ detail: [{ loc: ["body", "top_k"], msg: "not an integer" }] }, { status: 422 }),
    outcome: refused("invalid_request", null),
  },
  {
    number: 15,
    name: "what was said is refused by MiniMax's number inside a 200",
    upstreams: ["chat"],
    answer: () => json({ choices: null, base_resp: { status_code: 1026, status_msg: "input new_sensitive" } }),
    outcome: refused("invalid_request", null, { words: "input new_sensitive" }),
  },
  {
    number: 15,
    name: "what is wrong, told by DeepInfra's names in the first record of a 200",
    upstreams: ["chat"],
    answer: () => record({ choices: null, error_type: "BadRequestError", error_message: "temperature is odd" }),
    outcome: refused("invalid_request", null, { words: "temperature is odd" }),
  },
  {
    number: 15,
    name: "what is wrong, told by DeepInfra's names around the words of its engine, in the first record of a 200",
    upstreams: ["chat"],
    answer: () =>
      record({ error_type: "validation_error", error_message: '{"error":{"message":"temperature is odd"}}' }),
    outcome: refused("invalid_request", null, { words: "It says: temperature is odd" }),
  },
  {
    number: 15,
    name: "context overflow, told by Vercel's gateway as a record that it could not read",
    upstreams: ["chat"],
    answer: () =>
      record({
        id: "gen_01",
        object: "chat.completion.chunk",
        error: {
          ...{ code: "error", message: "Stream error occurred", name: "AI_TypeValidationError" },
          cause: { name: "ZodError", message: "[]" },
          value: { error_type: "validation_error", error_message: JSON.stringify({ error: { message: overflow } }) },
        },
      }),
    outcome: refused("context_length_exceeded", null, { words: "prompt is too long: 12000 tokens > 8192 maximum" }),
  },
  {
    number: 15,
    name: "context overflow, told by DeepInfra's names in the first record of a 200",
    upstreams: ["chat"],
    answer: () => record({ choices: null, error_type: "BadRequestError", error_message: overflow }),
    outcome: refused("context_length_exceeded", null, { words: "prompt is too long: 12000 tokens > 8192 maximum" }),
  },
  {
    number: 15,
    name: "context overflow",
    answer: failure(400, "invalid_request_error", overflow),
    outcome: refused("context_length_exceeded", null, { words: "prompt is too long: 12000 tokens > 8192 maximum" }),
  },
];

/** JSON that is deeper than any stack. */
function nested(open: string, close: string): Answer {
  const text = `${open.repeat(500_000)}1${close.repeat(500_000)}`;
  return { headers: { "content-type": "application/json" }, parts: [text], framing: "length", finish: "end" };
}

let packed: Uint8Array | undefined;
/** 64 MB of nothing in 64 KB. */
function bomb(status: number): Answer {
  packed ??= gzipSync(Buffer.alloc(64 * 1024 * 1024, 32));
  const headers = { "content-type": "application/json", "content-encoding": "gzip" };
  return { status, headers, parts: [packed], framing: "length", finish: "end" };
}

const plain = (text: string, type: string, more: Record<string, string> = {}): Answer => ({
  headers: { "content-type": type, ...more },
  parts: [text],
  framing: "length",
  finish: "end",
});

/** A stream that is one record and no terminator. */
const record = (value: unknown, event?: string): Answer =>
  plain(`${event ? `event: ${event}\n` : ""}data: ${JSON.stringify(value)}\n\n`, "text/event-stream");

const BODIES: Fault[] = [
  {
    number: 18,
    name: "200 text/html",
    answer: () => html(200),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
  {
    number: 19,
    name: "200 of half the JSON",
    answer: (wire) => truncatedJson(wire.reply()),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
  ...[
    ["that is no reply", { hello: "world" }],
    ["that is an empty array", []],
    ["that is a number", 7],
    ["that is null", null],
  ].map(([name, value]) => ({
    number: 19,
    name: `200 of JSON ${name}`,
    answer: () => json(value),
    outcome: refused("upstream_error", "true"),
    failsOver,
  })),
  {
    number: 19,
    name: "200 without a body",
    answer: (_wire, { mode }) => plain("", mode === "stream" ? "text/event-stream" : "application/json"),
    outcome: { blocking: refused("upstream_error", "true"), stream: refused("stream_truncated", "true") },
    failsOver,
  },
  {
    number: 20,
    name: "200 whose JSON is an overload",
    answer: (wire) => json(wire.error("overloaded_error", `Overloaded. ${leak}`)),
    outcome: refused("upstream_overloaded", "true"),
    failsOver,
  },
  {
    number: 20,
    name: "200 whose JSON is a limit",
    answer: (wire) => json(wire.error("rate_limit_error", leak)),
    outcome: refused("rate_limit_exceeded", "true", { retryAfter: "1" }),
    failsOver,
  },
  {
    number: 20,
    name: "200 whose JSON is an error in a million others",
    clients: ONE_CLIENT,
    answer: () => nested('{"error":', "}"),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
  {
    number: 20,
    name: "200 of a stream that is the JSON of an error",
    modes: STREAM,
    answer: (wire) => plain(JSON.stringify(wire.error("overloaded_error", leak)), "text/event-stream"),
    outcome: refused("upstream_overloaded", "true"),
    failsOver,
  },
  {
    number: 28,
    name: "a gzip bomb",
    answer: () => bomb(200),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
  { number: 28, name: "a gzip bomb as an error", answer: () => bomb(400), outcome: refused("invalid_request", null) },
  {
    number: 28,
    name: "gzip that is none",
    answer: () => ({
      headers: { "content-type": "application/json", "content-encoding": "gzip" },
      parts: ["this is no gzip"],
      framing: "length",
      finish: "end",
    }),
    outcome: refused("upstream_error", "false"),
    failsOver,
  },
  ...["lzma", "gzip, gzip"].map((coding) => ({
    number: 28,
    name: `packed in a way that nobody knows: ${coding}`,
    answer: (wire: FaultWire) => json(wire.reply(), { headers: { "content-encoding": coding } }),
    outcome: refused("upstream_error", "false"),
    failsOver,
  })),
  ...["none", "UTF-8", "identity"].map((coding) => ({
    number: 28,
    name: `not packed, and called ${coding}`,
    answer: (wire: FaultWire, { mode }: { mode: Mode }) => {
      const text = mode === "stream" ? soundStreamOf(wire) : JSON.stringify(wire.reply());
      const type = mode === "stream" ? "text/event-stream" : "application/json";
      return plain(text, type, { "content-encoding": coding });
    },
    outcome: ANSWERED,
  })),
  {
    number: 28,
    name: "gzip that nobody asked for",
    answer: (wire, { mode }) => {
      const text = mode === "stream" ? soundStreamOf(wire) : JSON.stringify(wire.reply());
      const type = mode === "stream" ? "text/event-stream" : "application/json";
      return {
        headers: { "content-type": type, "content-encoding": "gzip" },
        parts: [gzipSync(text)],
        framing: "chunked",
        finish: "end",
      };
    },
    outcome: ANSWERED,
  },
  {
    number: 28,
    name: "a content-length larger than the body",
    modes: BLOCKING,
    answer: (wire) => ({ ...json(wire.reply()), claimedLength: 100_000, finish: "cut" }),
    outcome: refused("upstream_error", "false"),
    failsOver,
  },
  {
    number: 28,
    name: "a content-length smaller than the body",
    modes: BLOCKING,
    answer: (wire) => ({ ...json(wire.reply()), claimedLength: 40 }),
    outcome: refused("upstream_error", "true"),
    failsOver,
  },
];

/** A stream up to the first half of what is said. */
const begun = (wire: FaultWire) => wire.head() + wire.text(PIECES[0]);
const TERMINATED = ["chat", "messages", "responses"] as const;

const STREAMS: Fault[] = [
  {
    number: 21,
    name: "an end behind the empty head",
    modes: STREAM,
    answer: (wire) => sse(wire.head()),
    outcome: refused("stream_truncated", "true"),
    failsOver,
  },
  {
    number: 21,
    name: "an end without terminator",
    modes: STREAM,
    answer: (wire) => sse(begun(wire)),
    outcome: broken("stream_truncated"),
  },
  {
    number: 21,
    name: "a connection that closes without terminator",
    modes: STREAM,
    answer: (wire) => ({ ...sse(begun(wire)), framing: "close" }),
    outcome: broken("stream_truncated"),
  },
  {
    number: 21,
    name: "a broken stream to a request for JSON",
    modes: BLOCKING,
    answer: (wire) => sse(begun(wire)),
    outcome: refused("stream_truncated", "true"),
    failsOver,
  },
  {
    number: 22,
    name: "a chunked body that is cut",
    modes: STREAM,
    answer: (wire, { shown }) => sse([begun(wire), shown], { finish: "cut" }),
    outcome: broken("stream_truncated"),
  },
  {
    number: 22,
    name: "RST inside an event",
    modes: STREAM,
    answer: (wire, { shown }) => sse([begun(wire), shown, wire.text("more").slice(0, 20)], { finish: "reset" }),
    outcome: broken("stream_truncated"),
  },
  {
    number: 23,
    name: "an error as the first record",
    modes: STREAM,
    answer: (wire) => sse(wire.errorRecord("overloaded_error", leak)),
    outcome: refused("upstream_overloaded", "true"),
    failsOver,
  },
  {
    number: 23,
    name: "an error behind the empty head",
    modes: STREAM,
    answer: (wire) => sse(wire.head() + wire.errorRecord("rate_limit_error", leak)),
    outcome: refused("rate_limit_exceeded", "true", { retryAfter: "1" }),
    failsOver,
  },
  {
    number: 23,
    name: "an error in the middle",
    modes: STREAM,
    answer: (wire) => sse(begun(wire) + wire.errorRecord("overloaded_error", leak)),
    outcome: broken("upstream_overloaded"),
  },
  {
    number: 23,
    name: "an error in the middle, and the stream goes on",
    modes: STREAM,
    answer: (wire) => sse(begun(wire) + wire.errorRecord("api_error", leak) + soundStreamOf(wire)),
    outcome: broken("upstream_error"),
  },
  {
    number: 23,
    name: "a failing stream to a request for JSON",
    modes: BLOCKING,
    answer: (wire) => sse(begun(wire) + wire.errorRecord("overloaded_error", leak)),
    outcome: refused("upstream_overloaded", "true"),
    failsOver,
  },
  {
    number: 25,
    name: "a record that is no JSON",
    modes: STREAM,
    answer: (wire) => sse(`${begun(wire)}data: {"oops\n\n${soundStreamOf(wire)}`),
    outcome: broken("upstream_error"),
  },
  {
    number: 25,
    name: "a record with a NUL in it",
    modes: STREAM,
    answer: (wire) => sse(begun(wire) + wire.text("more").replace("more", "mo\0re")),
    outcome: broken("upstream_error"),
  },
  {
    number: 25,
    name: "a record beyond every bound",
    clients: ONE_CLIENT,
    modes: STREAM,
    upstreams: ["chat"],
    // By more than a piece that is read at once: a record that ends within the piece that brings it there is taken.
    answer: (wire) =>
      sse(begun(wire) + wire.text("x".repeat(MAX_FRAME_CHARACTERS + 8 * 1024 * 1024)), { chunk: 4 * 1024 * 1024 }),
    outcome: broken("upstream_error"),
  },
  {
    number: 25,
    name: "one byte at a time, CRLF, comments and a BOM",
    modes: STREAM,
    answer: (wire) => sse(`\uFEFF: hi\0\r\n\r\n${soundStreamOf(wire).replaceAll("\n", "\r\n")}`, { chunk: 1 }),
    outcome: ANSWERED,
  },
  {
    number: 25,
    name: "carriage returns",
    modes: STREAM,
    answer: (wire) => sse(soundStreamOf(wire).replaceAll("\n", "\r"), { chunk: 61 }),
    outcome: ANSWERED,
  },
  {
    number: 25,
    name: "characters that are cut",
    modes: STREAM,
    answer: (wire) => sse(wire.head() + wire.text("é😀\\u0000 ") + wire.finish() + wire.end(), { chunk: 1 }),
    outcome: { ...ANSWERED, said: "é😀\\u0000 " },
  },
  {
    number: 27,
    name: "data behind the terminator",
    modes: STREAM,
    upstreams: TERMINATED,
    answer: (wire) => sse(soundStreamOf(wire) + wire.text("more") + wire.errorRecord("api_error", "late")),
    outcome: ANSWERED,
  },
  {
    number: 27,
    name: "the terminator twice",
    modes: STREAM,
    upstreams: TERMINATED,
    answer: (wire) => sse(soundStreamOf(wire) + wire.terminator),
    outcome: ANSWERED,
  },
  {
    number: 27,
    name: "JSON to a request for a stream",
    modes: STREAM,
    answer: (wire) => json(wire.reply()),
    outcome: ANSWERED,
  },
  {
    number: 27,
    name: "a stream to a request for JSON",
    modes: BLOCKING,
    answer: (wire) => sse(soundStreamOf(wire)),
    outcome: ANSWERED,
  },
];

const counted = (wire: FaultWire, mode: Mode, usage: RawUsage) =>
  mode === "stream" ? sse(soundStreamOf(wire, usage)) : json(wire.reply(usage));

/** A sound answer without a count in it. */
function uncounted(wire: FaultWire, mode: Mode): Answer {
  const text = mode === "stream" ? soundStreamOf(wire) : JSON.stringify(wire.reply());
  const bare = text.replaceAll(/,"usage(?:Metadata)?":\{[^}]*\}/g, "");
  return mode === "stream" ? sse(bare) : json(JSON.parse(bare));
}

/** The most that is believed: twice the window, and the ceiling with its grace (reliability 3.1 rule 6). */
const MOST = { input: 16_384, output: CEILING + 16 };

/** Counts that a vendor may send, and what is believed of them. */
const COUNTS: [name: string, usage: RawUsage | "none", outcome: Outcome][] = [
  ["missing", "none", COUNTED],
  ["zero", { input: 0, output: 0 }, COUNTED],
  ["negative", { input: -11, output: -7 }, COUNTED],
  ["as text", { input: "11", output: "7" }, ANSWERED],
  ["words", { input: "eleven", output: "7.5" }, COUNTED],
  ["null", { input: null, output: null }, COUNTED],
  ["not finite", { input: Number.NaN, output: Number.POSITIVE_INFINITY }, COUNTED],
  ["with a fraction", { input: 11.9, output: 7.9 }, ANSWERED],
  ["above the ceiling", { input: 11, output: 5_000 }, { ...ANSWERED, output: MOST.output, suspect: true }],
  ["absurd", { input: 1e18, output: 1e300 }, { ...ANSWERED, ...MOST, suspect: true }],
];

const USAGES: Fault[] = [
  ...COUNTS.map(([name, usage, outcome]) => ({
    number: 26,
    name: `usage ${name}`,
    answer: (wire: FaultWire, { mode }: Scene) =>
      usage === "none" ? uncounted(wire, mode) : counted(wire, mode, usage),
    outcome,
  })),
  {
    number: 26,
    name: "usage that changes twice",
    modes: STREAM,
    answer: (wire) => {
      const [one, two] = [
        { input: 3, output: 1 },
        { input: 900, output: 60 },
      ];
      const begin = wire.head(one) + wire.text(PIECES[0]) + wire.counts(one);
      return sse(begin + wire.text(PIECES[1]) + wire.counts(two) + wire.finish() + wire.end());
    },
    outcome: ANSWERED,
  },
];

/** The faults of reliability 8.3 but for those that need a certificate, a name server or a network (2, 4, 5), and those of images (29, 30). */
export const FAULTS: readonly Fault[] = [
  ...CONNECTIONS,
  ...SLOW,
  ...STATUSES,
  ...REQUESTS,
  ...BODIES,
  ...STREAMS,
  ...USAGES,
];
