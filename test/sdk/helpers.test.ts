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
