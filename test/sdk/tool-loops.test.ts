import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type Anthropic from "@anthropic-ai/sdk";
import type OpenAI from "openai";
import { PDF, PIXEL, TOOLS } from "./cases.ts";
import { CLIENTS, type ClientName, DIALECTS, type DialectName, type Lab, startLab } from "./lab.ts";
import { MODES, type Mode } from "./outcomes.ts";
import { THREE_TURNS } from "./replies.ts";
import { proofOf } from "./vendors/gemini.ts";
import { signatureOf } from "./vendors/messages.ts";
import { encryptedOf } from "./vendors/responses.ts";

setDefaultTimeout(60_000);

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
afterEach(() => expect(lab.reset()).toEqual([]));

/** What a program keeps of an agent's run. */
type Run = { called: string[]; text: string };

const QUESTION = "How warm is it in Paris, Oslo and Rome?";
const WEATHER: Record<string, string> = { Paris: "18 °C", Oslo: "3 °C", Rome: "20 °C" };
/** More turns than this and the loop does not end. */
const MAX_TURNS = 5;

function weatherOf(args: unknown): string {
  const city = typeof args === "object" && args !== null && "city" in args ? String(args.city) : "";
  return WEATHER[city] ?? "unknown";
}

/** The plain loop of every tutorial: what came is put behind what was sent, as it came. */
async function loopChat(openai: OpenAI, model: string, mode: Mode): Promise<Run> {
  const run: Run = { called: [], text: "" };
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: QUESTION }];
  const params = { model, tools: TOOLS.chat, reasoning_effort: "medium" as const, messages };
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const completion =
      mode === "stream"
        ? await openai.chat.completions.stream(params).finalChatCompletion()
        : await openai.chat.completions.create(params);
    const message = completion.choices[0]?.message;
    if (!message) throw new Error("no message");
    const { role, content, tool_calls: calls } = message;
    if (!calls?.length) return { ...run, text: content ?? "" };
    messages.push({ role, content, tool_calls: calls } as OpenAI.ChatCompletionAssistantMessageParam);
    for (const call of calls) {
      if (call.type !== "function") throw new Error(`a call of type ${call.type}`);
      const args: unknown = JSON.parse(call.function.arguments);
      run.called.push(weatherOf(args));
      messages.push({ role: "tool", tool_call_id: call.id, content: weatherOf(args) });
    }
  }
  throw new Error("the loop does not end");
}

async function loopResponses(openai: OpenAI, model: string, mode: Mode): Promise<Run> {
  const run: Run = { called: [], text: "" };
  const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: QUESTION }];
  const reasoning = { effort: "medium" as const, summary: "auto" as const };
  const include = ["reasoning.encrypted_content" as const];
  const params = { model, tools: TOOLS.responses, reasoning, include, store: false, input };
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const response =
      mode === "stream" ? await openai.responses.stream(params).finalResponse() : await openai.responses.create(params);
    const output: OpenAI.Responses.ResponseOutputItem[] = response.output;
    const calls = output.filter((item) => item.type === "function_call");
    if (calls.length === 0) return { ...run, text: response.output_text };
    for (const item of output) {
      // The stream's accumulator adds fields of its own, which its own vendor refuses too.
      const { parsed_arguments: _parsed, ...sent } = item as typeof item & { parsed_arguments?: unknown };
      input.push(sent as OpenAI.Responses.ResponseInputItem);
    }
    for (const call of calls) {
      const args: unknown = JSON.parse(call.arguments);
      run.called.push(weatherOf(args));
      input.push({ type: "function_call_output", call_id: call.call_id, output: weatherOf(args) });
    }
  }
  throw new Error("the loop does not end");
}

async function loopMessages(anthropic: Anthropic, model: string, mode: Mode): Promise<Run> {
  const run: Run = { called: [], text: "" };
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: QUESTION }];
  const thinking = { type: "enabled" as const, budget_tokens: 8_192 };
  const params = { model, max_tokens: 16_000, thinking, tools: TOOLS.messages, messages };
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const message =
      mode === "stream"
        ? await anthropic.messages.stream(params).finalMessage()
        : await anthropic.messages.create(params);
    messages.push({ role: "assistant", content: message.content });
    const uses = message.content.filter((block) => block.type === "tool_use");
    if (uses.length === 0) {
      return { ...run, text: message.content.map((block) => (block.type === "text" ? block.text : "")).join("") };
    }
    run.called.push(...uses.map((use) => weatherOf(use.input)));
    messages.push({
      role: "user",
      content: uses.map((use) => ({ type: "tool_result", tool_use_id: use.id, content: weatherOf(use.input) })),
    });
  }
  throw new Error("the loop does not end");
}

function loop(client: ClientName, model: string, mode: Mode): Promise<Run> {
  if (client === "chat") return loopChat(lab.openai(), model, mode);
  if (client === "responses") return loopResponses(lab.openai(), model, mode);
  return loopMessages(lab.anthropic(), model, mode);
}

/** How each vendor knows the reasoning of one turn when it comes back. */
const MARKS: Record<DialectName, (id: string, text: string) => string> = {
  chat: (_id, text) => `"reasoning_content":${JSON.stringify(text)}`,
  messages: (id, text) => JSON.stringify({ thinking: text, signature: signatureOf(id) }).slice(1, -1),
  responses: (id) => `"encrypted_content":${JSON.stringify(encryptedOf(id))}`,
  gemini: (id) => `"thoughtSignature":${JSON.stringify(proofOf(id))}`,
};

const TURNS = [
  { id: "first", text: "I need the weather." },
  { id: "second", text: "Now the others." },
];

/** Which turns' reasoning came back to the vendor with its call number `index`. */
function carriedBy(upstream: DialectName, index: number): string[] {
  const body = JSON.stringify(lab.vendors[upstream].upstream.calls[index]?.json);
  return TURNS.filter(({ id, text }) => body.includes(MARKS[upstream](id, text))).map(({ id }) => id);
}

const ways = CLIENTS.flatMap((client) =>
  DIALECTS.flatMap((upstream) => MODES.map((mode) => [client, upstream, mode] as const)),
);
/** The SDK of the chat dialect has no place for a vendor's proof: there the gateway itself keeps it. */
const keepsProofs = (client: ClientName) => client !== "chat";

describe("a tool loop over three turns with a model that reasons", () => {
  test.each(ways)(
    "runs to its end, and no vendor refuses a turn: %s SDK, %s vendor, %s",
    async (client, upstream, mode) => {
      lab.vendors[upstream].play(...THREE_TURNS);
      const run = await loop(client, lab.model(upstream, "thinker"), mode);
      expect(run).toEqual({ called: ["18 °C", "3 °C", "20 °C"], text: "Paris 18 °C, Oslo 3 °C, Rome 20 °C." });
      const counts = DIALECTS.map((dialect) => lab.vendors[dialect].upstream.calls.length);
      expect(counts).toEqual(DIALECTS.map((dialect) => (dialect === upstream ? THREE_TURNS.length : 0)));
      expect([0, 1, 2].map((index) => carriedBy(upstream, index))).toEqual([[], ["first"], ["first", "second"]]);
    },
  );
});

describe("a picture and a page in a tool's result", () => {
  const SEE = "Here they are.";
  const results = {
    messages: [
      { type: "text" as const, text: SEE },
      { type: "image" as const, source: { type: "base64" as const, media_type: "image/png" as const, data: PIXEL } },
      {
        type: "document" as const,
        source: { type: "base64" as const, media_type: "application/pdf" as const, data: PDF },
      },
    ],
    responses: [
      { type: "input_text" as const, text: SEE },
      { type: "input_image" as const, image_url: `data:image/png;base64,${PIXEL}`, detail: "auto" as const },
      { type: "input_file" as const, filename: "page.pdf", file_data: `data:application/pdf;base64,${PDF}` },
    ],
  };
  const ask = {
    messages: (model: string) =>
      lab.anthropic().messages.create({
        model,
        max_tokens: 100,
        tools: TOOLS.messages,
        messages: [
          { role: "user", content: QUESTION },
          { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "get_weather", input: {} }] },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: results.messages }] },
        ],
      }),
    responses: (model: string) =>
      lab.openai().responses.create({
        model,
        tools: TOOLS.responses,
        input: [
          { role: "user", content: QUESTION },
          { type: "function_call", call_id: "call_1", name: "get_weather", arguments: "{}" },
          { type: "function_call_output", call_id: "call_1", output: results.responses },
        ],
      }),
  };
  const ways = (["messages", "responses"] as const).flatMap((client) =>
    DIALECTS.map((upstream) => [client, upstream] as const),
  );

  test.each(ways)("arrive once each, whatever a result may hold there: %s SDK, %s vendor", async (client, upstream) => {
    const [, , last] = THREE_TURNS;
    if (!last) throw new Error("no turns");
    lab.vendors[upstream].play(last);
    await ask[client](lab.model(upstream, "plain"));
    const sent = JSON.stringify(lab.vendors[upstream].upstream.calls[0]?.json);
    expect([SEE, PIXEL, PDF].map((each) => sent.split(each).length - 1)).toEqual([1, 1, 1]);
  });
});

describe("a conversation that moves on to a model without reasoning", () => {
  const moves = CLIENTS.filter((client) => keepsProofs(client)).flatMap((client) =>
    DIALECTS.map((upstream) => [client, upstream] as const),
  );
  test.each(moves)("leaves the reasoning behind: %s SDK, %s vendor", async (client, upstream) => {
    const [first, , last] = THREE_TURNS;
    if (!first || !last) throw new Error("no turns");
    lab.vendors[upstream].play(first, last);
    const models = [lab.model(upstream, "thinker"), lab.model(upstream, "plain")] as const;
    const text =
      client === "messages"
        ? await moveMessages(lab.anthropic(), ...models)
        : await moveResponses(lab.openai(), ...models);
    expect(text).toBe("Paris 18 °C, Oslo 3 °C, Rome 20 °C.");
    expect(lab.vendors[upstream].upstream.calls.length).toBe(2);
  });
});

describe("a conversation that moves on to another vendor", () => {
  const moves = CLIENTS.filter((client) => keepsProofs(client)).flatMap((client) =>
    DIALECTS.flatMap((from) => DIALECTS.filter((to) => to !== from).map((to) => [client, from, to] as const)),
  );
  // The strict vendors refuse every proof that is not their own: that nothing foreign arrives is asserted after each test.
  test.each(moves)("leaves the old vendor's reasoning behind: %s SDK, %s to %s", async (client, from, to) => {
    const [first, , last] = THREE_TURNS;
    if (!first || !last) throw new Error("no turns");
    lab.vendors[from].play(first);
    lab.vendors[to].play(last);
    const text =
      client === "messages"
        ? await moveMessages(lab.anthropic(), lab.model(from, "thinker"), lab.model(to, "thinker"))
        : await moveResponses(lab.openai(), lab.model(from, "thinker"), lab.model(to, "thinker"));
    expect(text).toBe("Paris 18 °C, Oslo 3 °C, Rome 20 °C.");
    const arrived = JSON.stringify(lab.vendors[to].upstream.calls[0]?.json);
    const marks = DIALECTS.filter((dialect) => dialect !== "chat" && dialect !== to).map((dialect) =>
      MARKS[dialect]("first", TURNS[0]?.text ?? ""),
    );
    expect(marks.filter((mark) => arrived.includes(mark))).toEqual([]);
  });
});

async function moveMessages(anthropic: Anthropic, from: string, to: string): Promise<string> {
  const thinking = { type: "adaptive" as const };
  const params = { max_tokens: 16_000, thinking, tools: TOOLS.messages };
  const question = { role: "user" as const, content: QUESTION };
  const message = await anthropic.messages.create({ ...params, model: from, messages: [question] });
  const results = message.content
    .filter((block) => block.type === "tool_use")
    .map((use) => ({ type: "tool_result" as const, tool_use_id: use.id, content: weatherOf(use.input) }));
  const messages = [
    question,
    { role: "assistant" as const, content: message.content },
    { role: "user" as const, content: results },
  ];
  const last = await anthropic.messages.create({ ...params, model: to, messages });
  return last.content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

async function moveResponses(openai: OpenAI, from: string, to: string): Promise<string> {
  const params = { tools: TOOLS.responses, reasoning: { effort: "medium" as const } };
  const question = { role: "user" as const, content: QUESTION };
  const response = await openai.responses.create({ ...params, model: from, input: [question] });
  const outputs = response.output
    .filter((item) => item.type === "function_call")
    .map((call) => ({
      type: "function_call_output" as const,
      call_id: call.call_id,
      output: weatherOf(JSON.parse(call.arguments)),
    }));
  const items = response.output as OpenAI.Responses.ResponseInputItem[];
  return (await openai.responses.create({ ...params, model: to, input: [question, ...items, ...outputs] })).output_text;
}
