import { describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { call } from "./builtin.ts";

/** The official client, its network replaced by the built-in vendor: what it accepts, real clients accept. */
const client = new OpenAI({
  apiKey: "sk-any",
  baseURL: "http://sluice.internal/v1",
  maxRetries: 0,
  fetch: async (_url, init) => call(String(init?.body)),
});

const script = (value: object) => [{ role: "user" as const, content: JSON.stringify(value) }];

describe("the official openai client reads the built-in models", () => {
  test("whole", async () => {
    const reply = await client.chat.completions.create({
      model: "echo",
      messages: [{ role: "user", content: "hi there" }],
    });
    expect([reply.choices[0]?.message.content, reply.usage?.completion_tokens]).toEqual(["hi there", 2]);
  });

  test("streamed, gathered by its own helper: text, calls, usage", async () => {
    const messages = script({
      blocks: [
        { type: "text", text: "Look:" },
        { type: "tool_call", id: "call_a", name: "one", arguments: { x: "é😀" } },
        { type: "tool_call", id: "call_b", name: "two", arguments: {} },
      ],
    });
    const stream = client.chat.completions.stream({
      model: "script",
      messages,
      stream_options: { include_usage: true },
    });
    const final = await stream.finalChatCompletion();
    expect(final.choices[0]?.finish_reason).toBe("tool_calls");
    expect(final.choices[0]?.message.content).toBe("Look:");
    expect(
      final.choices[0]?.message.tool_calls?.map(
        (made) => "function" in made && [made.id, made.function.name, made.function.arguments],
      ),
    ).toEqual([
      ["call_a", "one", '{"x":"é😀"}'],
      ["call_b", "two", "{}"],
    ]);
    expect(final.usage?.total_tokens).toBeGreaterThan(1);
  });

  test("a status and an error in the stream are its errors", async () => {
    const refused = script({ blocks: [], error: { status: 429, message: "slow down" } });
    const thrown = await client.chat.completions.create({ model: "script", messages: refused }).catch((error) => error);
    expect(thrown).toBeInstanceOf(OpenAI.RateLimitError);
    const messages = script({
      blocks: [{ type: "text", text: "a b" }],
      error: { status: 500, message: "broke", after: 1 },
    });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const chunk of await client.chat.completions.create({ model: "script", messages, stream: true })) {
        seen.push(chunk.choices[0]?.delta.content ?? "");
      }
    })();
    await expect(reading).rejects.toThrow("broke");
    expect(seen.join("")).toBe("a");
  });
});
