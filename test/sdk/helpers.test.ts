import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import type OpenAI from "openai";
import { ResponsesToolRunner } from "openai/helpers/responses-tool-runner";
import { sse } from "../support/upstream.ts";
import { gate, within } from "../support/wait.ts";
import { TOOLS } from "./cases.ts";
import { DIALECTS, type Lab, startLab } from "./lab.ts";
import { AS_JSON, CUT, GREETING, type Reply, splitAfterText, THREE_TURNS, TWO_CALLS } from "./replies.ts";

setDefaultTimeout(60_000);

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
afterEach(() => expect(lab.reset()).toEqual([]));

const QUESTION = "How warm is it in Paris, Oslo and Rome?";
const ANSWER = "Paris 18 °C, Oslo 3 °C, Rome 20 °C.";
const WEATHER: Record<string, string> = { Paris: "18 °C", Oslo: "3 °C", Rome: "20 °C" };
const CITY = {
  type: "object" as const,
  properties: { city: { type: "string" as const } },
  required: ["city"] as const,
};
const PLACE = {
  type: "object" as const,
  properties: { city: { type: "string" as const }, degrees: { type: "number" as const } },
  required: ["city", "degrees"] as const,
  additionalProperties: false as const,
};
const PARIS = { city: "Paris", degrees: 18 };
const messages = [{ role: "user" as const, content: QUESTION }];

describe.each(DIALECTS)("helpers that run tools, %s vendor", (upstream) => {
  const asked: string[] = [];
  const look = (city: string) => {
    asked.push(city);
    return WEATHER[city] ?? "unknown";
  };
  const model = () => lab.model(upstream, "thinker");
  const expectThreeTurns = () => {
    expect(asked.splice(0)).toEqual(["Paris", "Oslo", "Rome"]);
    const { calls } = lab.vendors[upstream].upstream;
    expect(calls.length).toBe(THREE_TURNS.length);
    // Every turn goes out with the whole conversation and its tools: some helpers would have the vendor keep them.
    const last = JSON.stringify(calls.at(-1)?.json);
    const said = ["The weather of a city.", QUESTION, "Paris", "18 °C", "3 °C", "20 °C"];
    expect(said.filter((words) => !last.includes(words))).toEqual([]);
  };

  test.each([false, true])("openai chat.completions.runTools, stream: %p", async (stream) => {
    lab.vendors[upstream].play(...THREE_TURNS);
    const tool = {
      type: "function" as const,
      function: {
        name: "get_weather",
        description: "The weather of a city.",
        parameters: { ...CITY, required: ["city"] },
        parse: (text: string) => JSON.parse(text) as { city: string },
        function: ({ city }: { city: string }) => look(city),
      },
    };
    const params = { model: model(), messages, tools: [tool] };
    const { completions } = lab.openai().chat;
    const runner = stream ? completions.runTools({ ...params, stream }) : completions.runTools(params);
    expect(await runner.finalContent()).toBe(ANSWER);
    expectThreeTurns();
  });

  test.each([false, true])("openai ResponsesToolRunner, stream: %p", async (stream) => {
    lab.vendors[upstream].play(...THREE_TURNS);
    const functions = [
      {
        tool: TOOLS.responses[0] as OpenAI.Responses.FunctionTool,
        execute: (args: Record<string, unknown>) => look(String(args["city"])),
      },
    ];
    const runner = new ResponsesToolRunner({ functions });
    const params = { model: model(), input: QUESTION, store: false };
    expect((await runner.run(lab.openai(), params, { stream })).output_text).toBe(ANSWER);
    expectThreeTurns();
  });

  test.each([false, true])("anthropic beta.messages.toolRunner, stream: %p", async (stream) => {
    lab.vendors[upstream].play(...THREE_TURNS);
    const tool = betaTool({
      name: "get_weather",
      description: "The weather of a city.",
      inputSchema: CITY,
      run: ({ city }) => look(city),
    });
    const params = { model: model(), max_tokens: 1_000, messages, tools: [tool] };
    const { messages: api } = lab.anthropic().beta;
    const runner = stream ? api.toolRunner({ ...params, stream }) : api.toolRunner(params);
    const last = await runner.runUntilDone();
    expect(last.content.map((block) => (block.type === "text" ? block.text : "")).join("")).toBe(ANSWER);
    expectThreeTurns();
  });
});

const HUGE = { city: `${'Llanfair🙂\u2028\\"é'.repeat(2_500)}` };
/** A call whose arguments are large and cut anywhere, inside escapes too. */
const HUGE_CALL: Reply = {
  steps: [{ kind: "call", id: "Huge", name: "get_weather", pieces: cutText(JSON.stringify(HUGE), 997) }],
  finish: "calls",
};

function cutText(text: string, size: number): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    // A piece may end anywhere but inside a pair of surrogates: JSON text on a wire cannot hold half of one.
    const code = text.charCodeAt(at + size - 1);
    const end = at + size + (code >= 0xd800 && code < 0xdc00 ? 1 : 0);
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

describe.each(DIALECTS)("helpers that parse, %s vendor", (upstream) => {
  const model = () => lab.model(upstream, "plain");
  const format = { type: "json_schema" as const, json_schema: { name: "place", schema: PLACE, strict: true } };
  const textFormat = { type: "json_schema" as const, name: "place", schema: PLACE, strict: true };

  test("chat.completions.parse and its stream", async () => {
    lab.vendors[upstream].play(AS_JSON);
    const params = { model: model(), messages, response_format: format };
    const { completions } = lab.openai().chat;
    expect((await completions.parse(params)).choices[0]?.message.parsed).toEqual(PARIS as never);
    const stream = completions.stream(params);
    let events = 0;
    stream.on("content.delta", () => events++);
    expect((await stream.finalChatCompletion()).choices[0]?.message.parsed).toEqual(PARIS as never);
    expect(events).toBeGreaterThan(1);
  });

  test("chat.completions.parse of an answer that was cut says so", async () => {
    lab.vendors[upstream].play(CUT);
    const asking = lab.openai().chat.completions.parse({ model: model(), messages, response_format: format });
    expect((await asking.catch((error: unknown) => error))?.constructor.name).toBe("LengthFinishReasonError");
  });

  test("responses.parse and its stream", async () => {
    lab.vendors[upstream].play(AS_JSON);
    const params = { model: model(), input: QUESTION, text: { format: textFormat } };
    const { responses } = lab.openai();
    expect((await responses.parse(params)).output_parsed).toEqual(PARIS as never);
    expect((await responses.stream(params).finalResponse()).output_parsed).toEqual(PARIS as never);
  });

  test("messages.parse and its stream", async () => {
    lab.vendors[upstream].play(AS_JSON);
    const output_config = { format: jsonSchemaOutputFormat(PLACE) };
    const params = { model: model(), max_tokens: 100, messages, output_config };
    const { messages: api, beta } = lab.anthropic();
    expect((await api.parse(params)).parsed_output).toEqual(PARIS);
    expect((await api.stream(params).finalMessage()).parsed_output).toEqual(PARIS);
    expect((await beta.messages.parse(params)).parsed_output).toEqual(PARIS);
  });

  test("large arguments, cut anywhere, come whole to every helper", async () => {
    lab.vendors[upstream].play(HUGE_CALL);
    const tools = TOOLS.chat.map((tool) => ({ ...tool, function: { ...tool.function, strict: true } }));
    const openai = lab.openai();
    const chat = await openai.chat.completions
      .stream({ model: model(), messages, tools: [...tools] })
      .finalFunctionToolCall();
    expect(JSON.parse(chat?.arguments ?? "")).toEqual(HUGE);
    const response = await openai.responses
      .stream({ model: model(), input: QUESTION, tools: TOOLS.responses })
      .finalResponse();
    const output: OpenAI.Responses.ResponseOutputItem[] = response.output;
    const call = output.find((item) => item.type === "function_call");
    expect(JSON.parse(call?.arguments ?? "")).toEqual(HUGE);
    let parsed: unknown;
    const stream = lab
      .anthropic()
      .messages.stream({ model: model(), max_tokens: 100, messages, tools: TOOLS.messages });
    stream.on("contentBlock", (block) => {
      if (block.type === "tool_use") parsed = block.input;
    });
    await stream.done();
    expect(parsed).toEqual(HUGE);
  });
});

/** The names of events, each run of one name as one. */
const runsOf = (names: readonly string[]) => names.filter((name, at) => name !== names[at - 1]);

describe.each(DIALECTS)("the order of events, %s vendor", (upstream) => {
  test("responses.stream: thoughts, words, a call, each with its whole sequence", async () => {
    const [first] = THREE_TURNS;
    if (!first) throw new Error("no turn");
    lab.vendors[upstream].play(first);
    const stream = lab.openai().responses.stream({
      model: lab.model(upstream, "thinker"),
      input: QUESTION,
      tools: TOOLS.responses,
      reasoning: { effort: "medium", summary: "auto" },
    });
    const names: string[] = [];
    const numbers: number[] = [];
    for await (const event of stream) {
      names.push(event.type.replace(/^response\./, ""));
      numbers.push(event.sequence_number);
    }
    expect(numbers).toEqual(numbers.map((_number, at) => at));
    const item = (...inside: string[]) => ["output_item.added", ...inside, "output_item.done"];
    const summary = ["part.added", "text.delta", "text.done", "part.done"].map((name) => `reasoning_summary_${name}`);
    const words = ["content_part.added", "output_text.delta", "output_text.done", "content_part.done"];
    const call = ["function_call_arguments.delta", "function_call_arguments.done"];
    const items = [...item(...summary), ...item(...words), ...item(...call)];
    // This vendor proves a call by a signature that has no place in the dialect but a block of its own before it.
    const withProof = [...item(...summary), ...item(...words), ...item(), ...item(...call)];
    const wanted = upstream === "gemini" ? withProof : items;
    expect(runsOf(names)).toEqual(["created", "in_progress", ...wanted, "completed"]);
    const { output } = await stream.finalResponse();
    expect(output.map((each) => each.type).filter((type, at) => type !== "reasoning" || at === 0)).toEqual([
      "reasoning",
      "message",
      "function_call",
    ]);
  });

  test("messages.stream: its helpers' events", async () => {
    lab.vendors[upstream].play(TWO_CALLS);
    const params = { model: lab.model(upstream, "plain"), max_tokens: 100, messages, tools: TOOLS.messages };
    const stream = lab.anthropic().messages.stream(params);
    const inputs: unknown[] = [];
    const blocks: string[] = [];
    stream.on("inputJson", (_piece, snapshot) => inputs.push(snapshot));
    stream.on("contentBlock", (block) => blocks.push(block.type));
    const names: string[] = [];
    for await (const event of stream) names.push(event.type);
    const block = ["content_block_start", "content_block_delta", "content_block_stop"];
    // One vendor's proof of a call comes in a block of its own before it.
    const proof = upstream === "gemini" ? block : [];
    expect(runsOf(names)).toEqual(["message_start", ...proof, ...block, ...block, "message_delta", "message_stop"]);
    expect(blocks).toEqual([...(proof.length > 0 ? ["thinking"] : []), "tool_use", "tool_use"]);
    expect(inputs.at(-1)).toEqual({ city: "Oslo" });
  });
});

describe.each(DIALECTS)("streams that are left in the middle, %s vendor", (upstream) => {
  const leave = {
    async "chat.completions.stream"() {
      const stream = lab.openai().chat.completions.stream({ model: lab.model(upstream, "plain"), messages });
      for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    },
    async "responses.stream"() {
      const stream = lab.openai().responses.stream({ model: lab.model(upstream, "plain"), input: QUESTION });
      for await (const event of stream) if (event.type === "response.output_text.delta") break;
    },
    async "messages.stream"() {
      const params = { model: lab.model(upstream, "plain"), max_tokens: 100, messages };
      const stream = lab.anthropic().messages.stream(params);
      stream.on("text", () => stream.abort());
      await stream.done().catch((error: unknown) => expect(String(error)).toContain("abort"));
    },
  };

  test.each(Object.entries(leave))("%s lets the vendor go", async (_name, run) => {
    const { begun, rest } = splitAfterText(lab.vendors[upstream].wire.records(GREETING, "m"), " aus dem");
    const held = gate();
    lab.vendors[upstream].script(sse([...begun, held.opened, ...rest]));
    await run();
    const call = await lab.vendors[upstream].upstream.called();
    await within(call.whenAborted, "the abort reaching the vendor");
    expect([call.aborted, call.finished, lab.vendors[upstream].upstream.calls.length]).toEqual([true, false, 1]);
    held.open();
  });
});
