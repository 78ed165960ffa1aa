/** Everything that goes over the wire in the benchmark, serialised once. */

/** A word that stands in every right answer of a whole reply. */
const WHOLE_MARK = "benchmark-reply";
/** What each event of a stream carries, once. */
const EVENT_MARK = "tok-";
/** Events of one stream. */
export const BURST_EVENTS = 200;
export const PACED_EVENTS = 50;
/** Time between two events of a paced stream, milliseconds: as a model speaks, and slowly for the many. */
const PACE_MS = 20;
const SLOW_PACE_MS = 200;

/** What a mock vendor does, and the port it does it on. */
export const VENDOR_KINDS = [
  "chat-whole",
  "chat-burst",
  "chat-paced",
  "chat-slow",
  "messages-whole",
  "responses-whole",
  "gemini-whole",
] as const;
export type VendorKind = (typeof VENDOR_KINDS)[number];
export type VendorPorts = Record<VendorKind, number>;

/** The vendor's own name of its model. */
export const UPSTREAM_MODEL = "bench-1";
/** A vendor id of the gateway's configuration. */
export const vendorId = (kind: VendorKind): string => `bench-${kind}`;
export const modelId = (kind: VendorKind): string => `${vendorId(kind)}/${UPSTREAM_MODEL}`;

const encoder = new TextEncoder();
export const encode = (text: string): Uint8Array<ArrayBuffer> => encoder.encode(text);

const SENTENCE = "The quick brown fox of the benchmark jumps over the lazy dog, again and again, to fill a page. ";
/** Plain prose of about `length` characters. */
const prose = (length: number): string => SENTENCE.repeat(Math.ceil(length / SENTENCE.length)).slice(0, length);

/** A chat body of about `bytes`: a system prompt, some turns, and the question. */
export function chatBody(model: string, bytes: number, stream: boolean): string {
  const quarter = prose(Math.floor((bytes - 400) / 4));
  return JSON.stringify({
    model,
    messages: [
      { role: "system", content: quarter },
      { role: "user", content: quarter },
      { role: "assistant", content: quarter },
      { role: "user", content: quarter },
    ],
    temperature: 0.7,
    max_completion_tokens: 512,
    ...(stream && { stream: true, stream_options: { include_usage: true } }),
  });
}

/** The same as a messages body. */
export function messagesBody(model: string, bytes: number): string {
  const quarter = prose(Math.floor((bytes - 400) / 4));
  return JSON.stringify({
    model,
    system: quarter,
    messages: [
      { role: "user", content: quarter },
      { role: "assistant", content: quarter },
      { role: "user", content: quarter },
    ],
    temperature: 0.7,
    max_tokens: 512,
  });
}

/** The same as a responses body. */
export function responsesBody(model: string, bytes: number): string {
  const quarter = prose(Math.floor((bytes - 400) / 4));
  const input = ["user", "assistant", "user"].map((role) => ({ role, content: quarter }));
  return JSON.stringify({ model, instructions: quarter, input, temperature: 0.7, max_output_tokens: 512 });
}

/** What tools give back and agents write: quotes, line ends and backslashes, which JSON escapes. */
const CODE = `  const text = "a\\tb";\n\tif (names['key'] === "\\n") return \`\${text}\`;\n`;
const code = (length: number): string => CODE.repeat(Math.ceil(length / CODE.length)).slice(0, length);

/** Tools of an agent. */
const TOOLS = Array.from({ length: 20 }, (_, at) => ({
  name: `tool_${at}`,
  description: prose(300),
  schema: {
    type: "object",
    properties: { path: { type: "string", description: prose(80) }, line: { type: "integer" } },
  },
}));

/** One step of an agent: what it says, what it calls, and what comes back. */
type Step = { id: string; said: string; name: string; input: string; result: string };

function stepsOf(bytes: number, turns: number): Step[] {
  const share = Math.floor(bytes / turns) - 130;
  return Array.from({ length: turns / 2 }, (_, at) => ({
    id: `call_${at}`,
    said: prose(share / 2),
    name: `tool_${at % TOOLS.length}`,
    input: code(share / 4),
    result: code(share),
  }));
}

const QUESTION = "Go through the code and mend what is broken.";

/** An agent's conversation of about `bytes` and `turns` turns, in a dialect. */
export const AGENT_BODIES = {
  messages(model: string, bytes: number, turns: number): string {
    const messages = stepsOf(bytes, turns).flatMap(({ id, said, name, input, result }) => [
      {
        role: "assistant",
        content: [
          { type: "text", text: said },
          { type: "tool_use", id, name, input: { path: input, line: 1 } },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: [{ type: "text", text: result }] }] },
    ]);
    const tools = TOOLS.map(({ schema, ...tool }) => ({ ...tool, input_schema: schema }));
    const system = [{ type: "text", text: prose(4_000) }];
    return JSON.stringify({
      model,
      max_tokens: 512,
      system,
      tools,
      messages: [{ role: "user", content: QUESTION }, ...messages],
    });
  },
  chat(model: string, bytes: number, turns: number): string {
    const messages = stepsOf(bytes, turns).flatMap(({ id, said, name, input, result }) => [
      {
        role: "assistant",
        content: said,
        tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify({ path: input, line: 1 }) } }],
      },
      { role: "tool", tool_call_id: id, content: result },
    ]);
    const tools = TOOLS.map(({ schema, ...tool }) => ({ type: "function", function: { ...tool, parameters: schema } }));
    const head = [
      { role: "system", content: prose(4_000) },
      { role: "user", content: QUESTION },
    ];
    return JSON.stringify({ model, max_completion_tokens: 512, tools, messages: [...head, ...messages] });
  },
  responses(model: string, bytes: number, turns: number): string {
    const input = stepsOf(bytes, turns).flatMap(({ id, said, name, input, result }) => [
      { role: "assistant", content: said },
      { type: "function_call", call_id: id, name, arguments: JSON.stringify({ path: input, line: 1 }) },
      { type: "function_call_output", call_id: id, output: result },
    ]);
    const tools = TOOLS.map(({ schema, ...tool }) => ({ type: "function", ...tool, parameters: schema }));
    const body = { model, max_output_tokens: 512, instructions: prose(4_000), tools };
    return JSON.stringify({ ...body, input: [{ role: "user", content: QUESTION }, ...input] });
  },
};

/** Requests for a count, by what their one message is made of. */
export const COUNTED = {
  "100 KB of prose": (model: string) => countBody(model, prose(100 * 1024)),
  "100 KB of code": (model: string) => countBody(model, code(100 * 1024)),
  "100,000 equal letters": (model: string) => countBody(model, "a".repeat(100_000)),
};

const countBody = (model: string, content: string): string =>
  JSON.stringify({ model, messages: [{ role: "user", content }] });

/** A whole HTTP/1.1 request. */
export function request(path: string, headers: Record<string, string>, body: string): Uint8Array {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n${lines.join("")}`;
  return encode(`${head}content-length: ${encode(body).length}\r\n\r\n${body}`);
}

const USAGE = { prompt_tokens: 1000, completion_tokens: 200, total_tokens: 1200 };

const CHAT_REPLY = JSON.stringify({
  id: "chatcmpl-bench",
  object: "chat.completion",
  created: 1_754_432_626,
  model: UPSTREAM_MODEL,
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: `${WHOLE_MARK} ${prose(640)}`, refusal: null },
      logprobs: null,
      finish_reason: "stop",
    },
  ],
  usage: USAGE,
});

const MESSAGES_REPLY = JSON.stringify({
  id: "msg_bench",
  type: "message",
  role: "assistant",
  model: UPSTREAM_MODEL,
  content: [{ type: "text", text: `${WHOLE_MARK} ${prose(700)}` }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 1000, output_tokens: 200 },
});

const RESPONSES_REPLY = JSON.stringify({
  id: "resp_bench",
  object: "response",
  created_at: 1_754_432_626,
  model: UPSTREAM_MODEL,
  status: "completed",
  error: null,
  incomplete_details: null,
  output: [
    {
      type: "message",
      id: "msg_bench",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: `${WHOLE_MARK} ${prose(560)}`, annotations: [] }],
    },
  ],
  usage: { input_tokens: 1000, output_tokens: 200, total_tokens: 1200 },
});

const GEMINI_REPLY = JSON.stringify({
  candidates: [
    { content: { role: "model", parts: [{ text: `${WHOLE_MARK} ${prose(660)}` }] }, finishReason: "STOP", index: 0 },
  ],
  usageMetadata: { promptTokenCount: 1000, candidatesTokenCount: 200, totalTokenCount: 1200 },
  modelVersion: UPSTREAM_MODEL,
  responseId: "bench",
});

const whole = (body: string) =>
  encode(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${encode(body).length}\r\n\r\n${body}`);

const chunk = (text: string) => encode(`${encode(text).length.toString(16)}\r\n${text}\r\n`);

function chatRecords(events: number): string[] {
  const head = { id: "chatcmpl-bench", object: "chat.completion.chunk", created: 1_754_432_626, model: UPSTREAM_MODEL };
  const record = (delta: unknown, finish: string | null) =>
    `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }], usage: null })}\n\n`;
  return [
    record({ role: "assistant", content: "" }, null),
    ...Array.from({ length: events }, (_, index) => record({ content: `${EVENT_MARK}${index} ` }, null)),
    record({}, "stop"),
    `data: ${JSON.stringify({ ...head, choices: [], usage: USAGE })}\n\n`,
    "data: [DONE]\n\n",
  ];
}

const STREAM_HEAD = encode(
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n",
);
const LAST_CHUNK = encode("0\r\n\r\n");

/** Answers of the mock vendor, in pieces that are written `paceMs` apart. */
export const VENDOR_ANSWERS: Record<VendorKind, { pieces: readonly Uint8Array[]; paceMs: number }> = {
  "chat-whole": { pieces: [whole(CHAT_REPLY)], paceMs: 0 },
  "messages-whole": { pieces: [whole(MESSAGES_REPLY)], paceMs: 0 },
  "responses-whole": { pieces: [whole(RESPONSES_REPLY)], paceMs: 0 },
  "gemini-whole": { pieces: [whole(GEMINI_REPLY)], paceMs: 0 },
  "chat-burst": {
    pieces: [Buffer.concat([STREAM_HEAD, ...chatRecords(BURST_EVENTS).map(chunk), LAST_CHUNK])],
    paceMs: 0,
  },
  "chat-paced": { pieces: pacedPieces(), paceMs: PACE_MS },
  "chat-slow": { pieces: pacedPieces(), paceMs: SLOW_PACE_MS },
};

function pacedPieces(): Uint8Array[] {
  const chunks = chatRecords(PACED_EVENTS).map(chunk);
  const last = chunks.splice(-3);
  return [Buffer.concat([STREAM_HEAD, chunks.shift() as Uint8Array]), ...chunks, Buffer.concat([...last, LAST_CHUNK])];
}

/** Whether an answer is right: a whole reply with its text, or a stream with all its events, each once, and its terminator. */
export function isRight(body: string, events: number): boolean {
  if (events === 0) return body.includes(WHOLE_MARK) && body.endsWith("}");
  return body.split(EVENT_MARK).length - 1 === events && body.trimEnd().endsWith("data: [DONE]");
}
