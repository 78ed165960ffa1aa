import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { DIALECTS, type DialectName } from "../../src/dialects/dialect.ts";
import { GENERATION_PATH as PATH, startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream, type Upstream } from "../support/upstream.ts";
import { MODES, type Mode, readRecords } from "./wires.ts";

const SAID = "Hello there, world.";
/** What the gateway makes of it: one token for four characters. */
const SAID_TOKENS = 5;

/** Replies whose vendor counts nothing: says no word of it, or null, or noughts; or counts one side alone. */
const SILENCE = ["absent", "null", "nought", "output", "input"] as const;
type Silence = (typeof SILENCE)[number];

/** What a vendor that counts the input alone says of it. */
const ASKED_TOKENS = 90;

const usageOf = (silence: Silence, input: string, output: string) => {
  if (silence === "absent") return {};
  if (silence === "null") return { usage: null };
  const [asked, said] = [silence === "input" ? ASKED_TOKENS : 0, silence === "output" ? SAID_TOKENS : 0];
  return { usage: { [input]: asked, [output]: said, note: "kept" } };
};

const REPLIES: Record<DialectName, (silence: Silence) => Record<string, unknown>> = {
  chat: (silence) => ({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: SAID }, finish_reason: "stop" }],
    ...usageOf(silence, "prompt_tokens", "completion_tokens"),
  }),
  messages: (silence) => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [{ type: "text", text: SAID }],
    stop_reason: "end_turn",
    stop_sequence: null,
    ...usageOf(silence, "input_tokens", "output_tokens"),
  }),
  responses: (silence) => ({
    id: "resp_1",
    object: "response",
    created_at: 1,
    status: "completed",
    model: "m",
    output: [
      {
        id: "msg_1",
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: SAID, annotations: [] }],
      },
    ],
    ...usageOf(silence, "input_tokens", "output_tokens"),
  }),
};

const record = (type: string, fields: Record<string, unknown>) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
const chunk = (fields: Record<string, unknown>) =>
  `data: ${JSON.stringify({ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "m", ...fields })}\n\n`;

const STREAMS: Record<DialectName, (silence: Silence) => string> = {
  chat: (silence) =>
    chunk({ choices: [{ index: 0, delta: { role: "assistant", content: SAID }, finish_reason: null }] }) +
    chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) +
    (silence === "absent" || silence === "null"
      ? ""
      : chunk({ choices: [], ...usageOf(silence, "prompt_tokens", "completion_tokens") })) +
    "data: [DONE]\n\n",
  messages: (silence) => {
    const usage = usageOf(silence, "input_tokens", "output_tokens");
    const message = { ...REPLIES.messages(silence), content: [], stop_reason: null };
    return [
      record("message_start", { message }),
      record("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
      record("content_block_delta", { index: 0, delta: { type: "text_delta", text: SAID } }),
      record("content_block_stop", { index: 0 }),
      record("message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, ...usage }),
      record("message_stop", {}),
    ].join("");
  },
  responses: (silence) => {
    const whole = REPLIES.responses(silence);
    const [item] = whole["output"] as Record<string, unknown>[];
    const place = { output_index: 0, item_id: "msg_1", content_index: 0 };
    const records: [string, Record<string, unknown>][] = [
      ["response.created", { response: { ...whole, status: "in_progress", output: [] } }],
      ["response.output_item.added", { output_index: 0, item: { ...item, content: [], status: "in_progress" } }],
      ["response.content_part.added", { ...place, part: { type: "output_text", text: "", annotations: [] } }],
      ["response.output_text.delta", { ...place, delta: SAID }],
      ["response.output_text.done", { ...place, text: SAID }],
      ["response.content_part.done", { ...place, part: { type: "output_text", text: SAID, annotations: [] } }],
      ["response.output_item.done", { output_index: 0, item }],
      ["response.completed", { response: whole }],
    ];
    return records.map(([type, fields], at) => record(type, { sequence_number: at, ...fields })).join("");
  },
};

let upstreams: Record<DialectName, Upstream>;
let app: TestApp;
beforeAll(async () => {
  upstreams = { chat: startUpstream(), messages: startUpstream(), responses: startUpstream() };
  app = await startApp({ vendors: DIALECTS.map((dialect) => vendorAt(upstreams[dialect], dialect, dialect)) });
});
beforeEach(() => {
  for (const upstream of Object.values(upstreams)) upstream.reset();
});
afterAll(async () => {
  await app.stop();
  for (const upstream of Object.values(upstreams)) {
    expect(upstream.unexpected).toEqual([]);
    upstream.close();
  }
});

function askIn(client: DialectName, upstream: DialectName, mode: Mode) {
  const shared = { model: `${upstream}/any`, ...(mode === "stream" && { stream: true }) };
  if (client === "responses") return { ...shared, input: "Hi there" };
  const talk = { ...shared, messages: [{ role: "user", content: "Hi there" }] };
  if (client === "messages") return { ...talk, max_tokens: 64 };
  return mode === "stream" ? { ...talk, stream_options: { include_usage: true } } : talk;
}

/** The last usage that a client was told, in whatever it was told. */
function toldIn(client: DialectName, text: string, mode: Mode): Record<string, unknown> {
  const values = mode === "stream" ? readRecords(text).map(({ value }) => value) : [JSON.parse(text)];
  const usages = values.flatMap((value) => {
    const holder = client === "responses" && mode === "stream" ? (value?.["response"] as typeof value) : value;
    return holder?.["usage"] ? [holder["usage"] as Record<string, unknown>] : [];
  });
  return usages.at(-1) ?? {};
}

const otherSide = { input: "output", output: "input" } as const;

const TABLE = DIALECTS.flatMap((client) =>
  DIALECTS.flatMap((upstream) =>
    MODES.flatMap((mode) =>
      // Some vendors stream what was asked for as a whole, or the other way round.
      MODES.flatMap((wire) => SILENCE.map((silence) => ({ client, upstream, mode, wire, silence }))),
    ),
  ),
);

test.each(TABLE)(
  "a vendor that counts nothing: the client is told what it is billed: $client from $upstream, $mode, a $wire, $silence",
  async ({ client, upstream, mode, wire, silence }) => {
    const answer = wire === "stream" ? sse(STREAMS[upstream](silence)) : json(REPLIES[upstream](silence));
    upstreams[upstream].answer(PATH[upstream], answer);
    const response = await app.post(PATH[client], askIn(client, upstream, mode));
    const told = toldIn(client, await response.text(), mode);
    const rows = app.rows().filter(({ requestId }) => requestId === response.headers.get("x-request-id"));
    expect(rows).toMatchObject([{ outcome: "completed", output: SAID_TOKENS, estimated: true, attempts: 1 }]);
    const [input, output] =
      client === "chat" ? ["prompt_tokens", "completion_tokens"] : ["input_tokens", "output_tokens"];
    // Its own record goes on as it came where it says something.
    const isItsOwn = client === upstream && mode === wire;
    const isVendors = isItsOwn && mode === "stream" && client !== "messages";
    const paid = { input: rows[0]?.input, output: SAID_TOKENS };
    const shown =
      isVendors && (silence === "output" || silence === "input") ? { ...paid, [otherSide[silence]]: 0 } : paid;
    expect([told[input], told[output]]).toEqual([shown.input, shown.output]);
    if (silence === "input") expect(rows[0]?.input).toBe(ASKED_TOKENS);
    else expect(rows[0]?.input).toBeGreaterThan(0);
    if (isItsOwn && silence === "nought" && mode === "blocking") expect(told["note"]).toBe("kept");
  },
);

/** What a messages vendor says of its counts at a stream's beginning and at its end, and what is billed. */
const AT_THE_START = [
  ["nothing at the end", 1, {}, SAID_TOKENS, true],
  ["no counts at the end", 1, { usage: {} }, SAID_TOKENS, true],
  ["null at the end", 1, { usage: null }, SAID_TOKENS, true],
  ["all of it at the beginning", 50, {}, 50, false],
  ["one token at the end, too", 1, { usage: { output_tokens: 1 } }, 1, false],
] as const;

test.each(DIALECTS.flatMap((client) => AT_THE_START.map((row) => [client, ...row] as const)))(
  "a vendor whose stream tells the input at its beginning and no more of the output than that it has begun: %s, %s",
  async (client, _name, begun, end, output, estimated) => {
    const usage = { input_tokens: 90, output_tokens: begun };
    const message = { ...REPLIES.messages("absent"), content: [], stop_reason: null, usage };
    const ended = { delta: { stop_reason: "end_turn", stop_sequence: null }, ...end };
    const stream = STREAMS.messages("absent").split(/(?<=\n\n)/);
    stream[0] = record("message_start", { message });
    stream[4] = record("message_delta", ended);
    upstreams.messages.answer(PATH.messages, sse(stream.join("")));
    const response = await app.post(PATH[client], askIn(client, "messages", "stream"));
    const told = toldIn(client, await response.text(), "stream");
    const rows = app.rows().filter(({ requestId }) => requestId === response.headers.get("x-request-id"));
    expect(rows).toMatchObject([{ outcome: "completed", input: 90, output, estimated }]);
    expect(told[client === "chat" ? "completion_tokens" : "output_tokens"]).toBe(output);
  },
);
