import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { startApp, type TestApp, type UsageRow, vendorAt } from "../support/app.ts";
import { type Answer, type Call, chatReply, json, sse, startUpstream, type Upstream } from "../support/upstream.ts";

type Wire = Record<string, unknown>;

/** For 300 turns of conversations that fill a window, also where other work takes the processor, ms. */
const LONG_MS = 30_000;
const WINDOW = 128_000;
const OUTPUT = 4_000;
const PROMPT = "You are an agent. ".repeat(40);
/** What a tool gives back in one turn: about 2,400 tokens by the vendor's count. */
const OUTCOME = "drwxr-xr-x 2 agent agent 4096 src/file.ts\n".repeat(120);

/** The vendor's count of a request: two characters a token. It need not be the gateway's. */
const countOf = ({ text }: Call): number => Math.ceil(text.length / 2);

/** A vendor in its dialect: how it streams or gives a call, and how it says that a request does not fit. */
type VendorScript = {
  path: string;
  reply(step: number, input: number, stream: boolean): Answer;
  refuse(input: number): Answer;
};

const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const typed = (value: Wire) => `event: ${value["type"]}\n${data(value)}`;

const CHAT: VendorScript = {
  path: "/v1/chat/completions",
  reply(step, input) {
    const chunk = (choices: Wire[], usage: unknown = null) =>
      data({ id: `chatcmpl-${step}`, object: "chat.completion.chunk", created: 1, model: "m", choices, usage });
    const delta = (delta: Wire, finish: string | null = null) => chunk([{ index: 0, delta, finish_reason: finish }]);
    const call = {
      index: 0,
      id: `call_${step}`,
      type: "function",
      function: { name: "list", arguments: `{"step":${step}}` },
    };
    return sse(
      [
        delta({ role: "assistant", content: `Step ${step}.` }),
        delta({ tool_calls: [call] }),
        delta({}, "tool_calls"),
        chunk([], {
          prompt_tokens: input,
          completion_tokens: 20,
          total_tokens: input + 20,
          prompt_tokens_details: { cached_tokens: 64 },
        }),
        "data: [DONE]\n\n",
      ].join(""),
    );
  },
  // DeepSeek's words.
  refuse: (input) =>
    json(
      {
        error: {
          message: `This model's maximum context length is ${WINDOW} tokens. However, you requested ${input + OUTPUT} tokens (${input} in the messages, ${OUTPUT} in the completion). Please reduce the length of the messages or completion.`,
          type: "invalid_request_error",
          param: null,
          code: "invalid_request_error",
        },
      },
      { status: 400 },
    ),
};

const MESSAGES: VendorScript = {
  path: "/v1/messages",
  reply: (step, input) =>
    json({
      id: `msg_${step}`,
      type: "message",
      role: "assistant",
      model: "m",
      content: [
        { type: "text", text: `Step ${step}.` },
        { type: "tool_use", id: `toolu_${step}`, name: "list", input: { step } },
      ],
      stop_reason: "tool_use",
      stop_sequence: null,
      usage: {
        input_tokens: input - 64,
        cache_read_input_tokens: 64,
        cache_creation_input_tokens: 0,
        output_tokens: 20,
      },
    }),
  refuse: (input) =>
    json(
      {
        type: "error",
        error: { type: "invalid_request_error", message: `prompt is too long: ${input} tokens > ${WINDOW} maximum` },
      },
      { status: 400 },
    ),
};

/** It says so inside a 200, and without a figure. */
const RESPONSES: VendorScript = {
  path: "/v1/responses",
  reply(step, input) {
    const item = {
      type: "function_call",
      id: `fc_${step}`,
      call_id: `call_${step}`,
      name: "list",
      arguments: `{"step":${step}}`,
      status: "completed",
    };
    const usage = {
      input_tokens: input,
      input_tokens_details: { cached_tokens: 64 },
      output_tokens: 20,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + 20,
    };
    const response = {
      id: `resp_${step}`,
      object: "response",
      created_at: 1,
      model: "m",
      status: "completed",
      error: null,
      incomplete_details: null,
      output: [item],
      usage,
    };
    return sse(
      [
        typed({ type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } }),
        typed({ type: "response.output_item.added", output_index: 0, item: { ...item, arguments: "" } }),
        typed({
          type: "response.function_call_arguments.delta",
          item_id: item.id,
          output_index: 0,
          delta: item.arguments,
        }),
        typed({ type: "response.output_item.done", output_index: 0, item }),
        typed({ type: "response.completed", response }),
      ].join(""),
    );
  },
  refuse: () =>
    sse(
      [
        typed({
          type: "response.created",
          response: { id: "resp_x", object: "response", status: "in_progress", output: [] },
        }),
        typed({
          type: "error",
          error: {
            type: "invalid_request_error",
            code: "context_length_exceeded",
            message: "Your input exceeds the context window of this model. Please adjust your input and try again.",
            param: "input",
          },
        }),
      ].join(""),
    ),
};

const SCRIPTS = { chat: CHAT, messages: MESSAGES, responses: RESPONSES };
type Side = keyof typeof SCRIPTS;

let upstream: Upstream;
let gateway: TestApp;
let earlier: Set<string>;

beforeAll(async () => {
  upstream = startUpstream();
  const sides = Object.keys(SCRIPTS) as Side[];
  gateway = await startApp({
    vendors: sides.map((side) => vendorAt(upstream, side, `vendor-${side}`)),
    models: sides.map((side) => ({
      id: `lab/${side}`,
      pricing: "free" as const,
      context_length: WINDOW,
      routes: [{ vendor: `vendor-${side}`, model: "m" }],
    })),
  });
});
afterEach(() => {
  expect(upstream.unexpected).toEqual([]);
  upstream.reset();
});
afterAll(async () => {
  await gateway.stop();
  upstream.close();
});

/** The vendor answers what fits and refuses what does not; gives the calls it refused. */
function play(side: Side): { refused: number[]; inputs: number[] } {
  const script = SCRIPTS[side];
  const seen = { refused: [] as number[], inputs: [] as number[] };
  earlier = new Set(gateway.rows().map(({ requestId }) => requestId));
  upstream.always(script.path, (call) => {
    const input = countOf(call);
    if (input > WINDOW) {
      seen.refused.push(input);
      return script.refuse(input);
    }
    seen.inputs.push(input);
    return script.reply(seen.inputs.length, input, true);
  });
  return seen;
}

const rows = (): UsageRow[] => gateway.rows().filter(({ requestId }) => !earlier.has(requestId));

/** What an agent knows of its session. */
type Session = { history: Wire[]; compactions: { asked: number; maximum: number }[]; turns: number };

/** As an agent compacts: its past becomes a summary, by the figures of the error. */
function compact(session: Session, message: string): void {
  const match = /^prompt is too long: (\d+) tokens > (\d+) maximum/.exec(message);
  if (!match) throw new Error(`an agent would die of: ${message}`);
  const [asked, maximum] = [Number(match[1]), Number(match[2])];
  expect(asked).toBeGreaterThan(maximum);
  session.compactions.push({ asked, maximum });
  session.history = [{ role: "user", content: `Summary of ${session.turns} steps so far. Go on.` }];
}

const TOOL = {
  name: "list",
  description: "Lists a folder.",
  schema: { type: "object", properties: { step: { type: "integer" } } },
};

/** One turn of an agent of the messages dialect, as Claude Code asks: streamed, with a line that is new every time. */
async function stepMessages(side: Side, session: Session): Promise<boolean> {
  const response = await gateway.post("/v1/messages", {
    model: `lab/${side}`,
    max_tokens: OUTPUT,
    stream: true,
    system: [
      {
        type: "text",
        text: `x-anthropic-billing-header: cc_version=2.1; cch=${session.turns}${session.compactions.length};`,
      },
      { type: "text", text: PROMPT, cache_control: { type: "ephemeral" } },
    ],
    tools: [{ name: TOOL.name, description: TOOL.description, input_schema: TOOL.schema }],
    messages: session.history,
  });
  const text = await response.text();
  if (response.status !== 200) {
    const { error } = JSON.parse(text) as { error: Wire };
    expect([response.status, error["type"], error["code"]]).toEqual([
      400,
      "invalid_request_error",
      "context_length_exceeded",
    ]);
    compact(session, String(error["message"]));
    return false;
  }
  const values = new FrameSplitter().push(text).map(({ value }) => value as Wire);
  expect(values.at(-1)?.["type"]).toBe("message_stop");
  const block = values.find(({ content_block: start }) => (start as Wire | undefined)?.["type"] === "tool_use")?.[
    "content_block"
  ] as Wire;
  const start = (values[0] as { message: { usage: { input_tokens: number } } }).message.usage.input_tokens;
  const end = values.find(({ type }) => type === "message_delta") as { delta: Wire; usage: Record<string, number> };
  expect(end.delta["stop_reason"]).toBe("tool_use");
  // The first figure is an estimate that is good for a warning, the last one is the vendor's, in disjoint buckets.
  expect(start).toBeGreaterThan(100);
  expect(end.usage["cache_read_input_tokens"]).toBe(64);
  const partial = values.flatMap(
    ({ delta }) => ((delta as Wire | undefined)?.["partial_json"] as string | undefined) ?? [],
  );
  const { id, name } = block;
  session.history.push(
    { role: "assistant", content: [{ type: "tool_use", id, name, input: JSON.parse(partial.join("")) }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: OUTCOME }] },
  );
  return true;
}

/** One turn of an agent of the chat dialect, blocking. */
async function stepChat(side: Side, session: Session): Promise<boolean> {
  const response = await gateway.post("/v1/chat/completions", {
    model: `lab/${side}`,
    messages: [{ role: "system", content: PROMPT }, ...session.history],
    tools: [
      { type: "function", function: { name: TOOL.name, description: TOOL.description, parameters: TOOL.schema } },
    ],
  });
  const body = (await response.json()) as Wire;
  if (response.status !== 200) {
    const error = body["error"] as Wire;
    expect([response.status, error["type"], error["code"]]).toEqual([
      400,
      "invalid_request_error",
      "context_length_exceeded",
    ]);
    expect(error["message"]).toContain(`This model's maximum context length is ${WINDOW} tokens`);
    compact(session, String(error["message"]));
    return false;
  }
  const [choice] = body["choices"] as { finish_reason: string; message: Wire & { tool_calls: { id: string }[] } }[];
  expect(choice?.finish_reason).toBe("tool_calls");
  session.history.push(
    { ...choice?.message },
    { role: "tool", tool_call_id: choice?.message.tool_calls[0]?.id, content: OUTCOME },
  );
  return true;
}

async function run(
  step: (side: Side, session: Session) => Promise<boolean>,
  side: Side,
  turns: number,
): Promise<Session> {
  const session: Session = { history: [{ role: "user", content: "Tidy the folder." }], compactions: [], turns: 0 };
  for (let tries = 0; session.turns < turns; tries++) {
    if (tries > turns * 2) throw new Error("the session does not get on");
    if (await step(side, session)) session.turns++;
  }
  return session;
}

/** What is true of every session: each turn is one row at the vendor's count, refusals cost nothing and are never repeated. */
function expectBooked(seen: { refused: number[]; inputs: number[] }, session: Session): void {
  const booked = rows();
  expect(booked).toHaveLength(session.turns);
  const byInput = (one: number, other: number) => one - other;
  expect(new Set(booked.map(({ outcome }) => outcome))).toEqual(new Set(["completed"]));
  expect(booked.map(({ input, cacheRead }) => Number(input) + Number(cacheRead)).sort(byInput)).toEqual(
    seen.inputs.toSorted(byInput),
  );
  expect(upstream.calls).toHaveLength(session.turns + session.compactions.length);
  expect(session.compactions).toHaveLength(seen.refused.length);
  expect(session.compactions.length).toBeGreaterThan(0);
}

test(
  "300 turns of a messages agent on a 128K chat model: it compacts by the error it gets, and goes on",
  async () => {
    const seen = play("chat");
    const session = await run(stepMessages, "chat", 300);
    expectBooked(seen, session);
    expect(session.compactions.map(({ asked, maximum }) => [asked, maximum])).toEqual(
      seen.refused.map((input) => [input + OUTPUT, WINDOW]),
    );
    expect(session.compactions.length).toBeGreaterThanOrEqual(5);
    // Between two compactions every request begins with all of the one before, whatever the client's first line says.
    const prompts = upstream.calls.map(({ json: body }) => JSON.stringify((body as Wire)["messages"]).slice(0, -1));
    const kept = prompts.slice(1).filter((prompt, at) => prompt.startsWith(prompts[at] as string));
    expect(kept).toHaveLength(prompts.length - 1 - session.compactions.length);
    expect(prompts.join("")).not.toContain("billing");
  },
  LONG_MS,
);

test(
  "300 turns of a chat agent on a 128K messages model",
  async () => {
    const seen = play("messages");
    const session = await run(stepChat, "messages", 300);
    expectBooked(seen, session);
    expect(session.compactions.map(({ asked }) => asked)).toEqual(seen.refused);
    // Its vendor caches what is marked, so the end of each request is: never more than four marks.
    for (const { text } of upstream.calls) {
      const marks = text.split('"cache_control"').length - 1;
      expect([1, 2, 3, 4]).toContain(marks);
    }
  },
  LONG_MS,
);

test("a vendor that says it inside a 200 and without figures: the gateway's count and the catalog's window", async () => {
  const seen = play("responses");
  const session = await run(stepMessages, "responses", 60);
  expectBooked(seen, session);
  for (const { maximum, asked } of session.compactions) {
    expect(maximum).toBe(WINDOW);
    expect(asked).toBeGreaterThan(WINDOW);
  }
});

const ask = (side: Side, content: string) => ({ model: `lab/${side}`, messages: [{ role: "user", content }] });

async function readError(response: Response): Promise<Wire> {
  return ((await response.json()) as { error: Wire }).error;
}

for (const [status, text] of [
  [400, ""],
  [400, "Bad Request\n"],
  [413, ""],
  [413, "Payload Too Large"],
  [413, "413: Request Entity Too Large"],
] as const) {
  const words = text === "" ? "without a word" : `that says ${JSON.stringify(text)}`;
  test(`a ${status} ${words} means the window when the request does not fit it, and only then`, async () => {
    const headers = { "content-type": "text/plain" };
    const wordless: Answer = { status, headers, parts: [text], framing: "length", finish: "end" };
    upstream.answer("/v1/chat/completions", wordless, wordless);
    const large = await gateway.post("/v1/chat/completions", ask("chat", "The gate stands open. ".repeat(40_000)));
    expect(large.status).toBe(400);
    const { code, message } = await readError(large);
    expect(code).toBe("context_length_exceeded");
    expect(message).toMatch(new RegExp(`^prompt is too long: \\d{6} tokens > ${WINDOW} maximum`));
    const small = await gateway.post("/v1/chat/completions", ask("chat", "Hi"));
    expect((await readError(small))["code"]).toBe(status === 413 ? "request_too_large" : "invalid_request");
  });
}

test.each([
  "Context size has been exceeded.",
  "Input prompt is too big compared to KV size. Please try increasing KV size.",
])(
  "a cache that is full of others' conversations is no fault of a short one, which is asked again; a long one makes room (%s)",
  async (words) => {
    const full = { error: { code: 500, message: words, type: "server_error" } };
    const refusal = json(full, { status: 500 });
    const path = "/v1/chat/completions";
    upstream.answer(path, refusal, json(chatReply("There is room.")));
    expect((await gateway.post(path, ask("chat", "Hi"))).status).toBe(200);
    upstream.answer(path, refusal, refusal);
    const short = await gateway.post(path, ask("chat", "Hi"));
    expect([short.status, short.headers.get("x-should-retry")]).toEqual([503, "true"]);
    expect((await readError(short))["code"]).toBe("upstream_overloaded");
    upstream.answer(path, refusal);
    const long = await gateway.post(path, ask("chat", "The gate stands open. ".repeat(16_000)));
    expect([long.status, (await readError(long))["code"]]).toEqual([400, "context_length_exceeded"]);
    const begun = { choices: [{ index: 0, delta: { role: "assistant", content: "There" }, finish_reason: null }] };
    for (const [text, code] of [
      ["Hi", "upstream_overloaded"],
      ["The gate stands open. ".repeat(16_000), "context_length_exceeded"],
    ] as const) {
      upstream.answer(path, sse([begun, full].map((event) => `data: ${JSON.stringify(event)}\n\n`)));
      const streamed = await gateway.post(path, { ...ask("chat", text), stream: true });
      expect(await streamed.text()).toContain(`"code":"${code}"`);
    }
  },
);

test("nor is it where nobody says how long a conversation may be: a window is not made up for a short one", async () => {
  const refusal = json(
    { error: { code: 500, message: "Context size has been exceeded.", type: "server_error" } },
    { status: 500 },
  );
  const path = "/v1/chat/completions";
  const ask = (content: string) => ({ model: "vendor-chat/unlisted", messages: [{ role: "user", content }] });
  upstream.answer(path, refusal, refusal);
  const short = await gateway.post(path, ask("Hi"));
  expect([short.status, (await readError(short))["code"]]).toEqual([503, "upstream_overloaded"]);
  upstream.answer(path, refusal);
  const long = await gateway.post(path, ask("The gate stands open. ".repeat(1_000)));
  expect([long.status, (await readError(long))["code"]]).toEqual([400, "context_length_exceeded"]);
});

test("a vendor's name of the model is exchanged where it stands as a word, and nowhere inside one", async () => {
  const told = { error: { message: "m cannot: my memory of models/m is empty, m.", type: "invalid_request_error" } };
  upstream.answer("/v1/chat/completions", json(told, { status: 400 }));
  const { message } = await readError(await gateway.post("/v1/chat/completions", ask("chat", "Hi")));
  expect(message).toEndWith("lab/chat cannot: my memory of models/lab/chat is empty, lab/chat.");
});
