import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { type Lab, startLab } from "./reasoning-lab.ts";
import { THOUGHTS } from "./reasoning-vendors.ts";

const TOOLS: OpenAI.Chat.ChatCompletionTool[] = ["weather", "clock"].map((name) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: {} } },
}));
let lab: Lab;

beforeEach(async () => {
  lab = await startLab();
});

afterEach(() => lab.stop());

/** The official SDK, whose requests go straight into the gateway. */
const sdk = () =>
  new OpenAI({
    apiKey: lab.keys.own,
    baseURL: "http://localhost/v1",
    maxRetries: 0,
    fetch: async (url, init) => lab.app.gateway.answerRequest(new Request(url as string, init as RequestInit)),
  });

const MODELS = [
  ["lab/claude-budget", "anthropic"],
  ["lab/claude-adaptive", "anthropic"],
  ["lab/gemini", "google"],
  ["lab/gpt", "openai"],
  ["lab/deepseek", "deepseek"],
  ["lab/kimi", "kimi"],
] as const;

describe("a plain tool loop of the official SDK", () => {
  test.each(MODELS)("%s: chat completions, whole", async (model, vendor) => {
    const messages: OpenAI.Chat.ChatCompletionMessageParam[] = [{ role: "user", content: "What is the weather?" }];
    let text: string | null = null;
    for (let turn = 0; turn < 5; turn++) {
      const answer = await sdk().chat.completions.create({ model, messages, tools: TOOLS, reasoning_effort: "high" });
      const message = answer.choices[0]?.message;
      if (!message) throw new Error("no choice");
      // What the SDK's own examples keep: content and calls.
      const { role, content, tool_calls: calls } = message;
      messages.push({ role, content, ...(calls && { tool_calls: calls }) });
      if (!calls) {
        text = content;
        break;
      }
      for (const call of calls) messages.push({ role: "tool", tool_call_id: call.id, content: "rain" });
    }
    expect(text).toBe("It rains in Ulm.\n\nNot in Bonn.");
    expect(lab.vendors[vendor].refusals).toEqual([]);
    expect(lab.vendors[vendor].returned()).toEqual(THOUGHTS.slice(0, 2));
  });

  test.each(MODELS)("%s: the runner of tools, streamed", async (model, vendor) => {
    const called: string[] = [];
    const tools = ["weather", "clock"].map((name) => ({
      type: "function" as const,
      function: {
        name,
        parameters: { type: "object", properties: {} },
        function: () => {
          called.push(name);
          return "rain";
        },
      },
    }));
    const runner = sdk().chat.completions.runTools({
      model,
      stream: true,
      reasoning_effort: "high",
      messages: [{ role: "user", content: "What is the weather?" }],
      tools: tools as never,
    });
    expect(await runner.finalContent()).toBe("It rains in Ulm.\n\nNot in Bonn.");
    expect(called).toEqual(["weather", "weather", "clock"]);
    expect(lab.vendors[vendor].refusals).toEqual([]);
    // Whatever else the runner sends back, it knows no proof and no reasoning.
    expect(lab.vendors[vendor].returned().slice(0, 2)).toEqual(THOUGHTS.slice(0, 2));
  });

  test.each(MODELS)("%s: responses, its output sent back as it came", async (model, vendor) => {
    const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: "What is the weather?" }];
    const tools = ["weather", "clock"].map((name) => ({
      type: "function" as const,
      name,
      parameters: { type: "object", properties: {} },
      strict: false,
    }));
    let text = "";
    for (let turn = 0; turn < 5; turn++) {
      const answer = await sdk().responses.create({ model, input, tools, reasoning: { effort: "high" }, store: false });
      input.push(...(answer.output as OpenAI.Responses.ResponseInput));
      const calls = answer.output.filter((item) => item.type === "function_call");
      if (calls.length === 0) {
        text = answer.output_text;
        break;
      }
      for (const call of calls) input.push({ type: "function_call_output", call_id: call.call_id, output: "rain" });
    }
    expect(text).toBe("It rains in Ulm.\n\nNot in Bonn.");
    expect(lab.vendors[vendor].refusals).toEqual([]);
    expect(lab.vendors[vendor].returned()).toEqual(THOUGHTS.slice(0, 2));
  });
});
