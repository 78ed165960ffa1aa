import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { DIALECTS } from "../sdk/lab.ts";
import { COUNTS } from "../sdk/replies.ts";
import { FIRST, modelOf, type ServedLab, says, searches, startServedLab } from "./server-tools.lab.ts";

let lab: ServedLab;
beforeAll(async () => {
  lab = await startServedLab();
});
afterAll(() => lab.stop());
afterEach(() => {
  for (const dialect of DIALECTS) {
    expect([dialect, lab.vendors[dialect].faults]).toEqual([dialect, []]);
    lab.vendors[dialect].reset();
  }
});

const QUESTION = "When do the gates open?";
const LINK = `[${FIRST.title}](${FIRST.url})`;
const ANSWER = [`At dawn (${LINK}`, "), I found."];
const WHOLE = ANSWER.join("");
const MODES = ["blocking", "stream"] as const;

/** Both rounds' counts together, as the vendors count each of them. */
const INPUT = 2 * (COUNTS.fresh + COUNTS.cached);
const OUTPUT = 2 * COUNTS.output;

/** The two usage rows of one served reply: a search, and all rounds of the generation. */
function expectRows(before: number, dialect: string): void {
  const rows = lab.gateway.rows().slice(before);
  expect(rows.map(({ model, units, outcome }) => [model, units, outcome])).toContainEqual([
    "web_search",
    1,
    "completed",
  ]);
  const generation = rows.find(({ model }) => model.startsWith("lab/"));
  expect(rows).toHaveLength(2);
  expect(generation).toMatchObject({ dialect, outcome: "completed", estimated: false });
  expect(generation && generation.input + generation.cacheRead + generation.cacheWrite).toBe(INPUT);
  expect(generation?.output).toBe(OUTPUT);
}

/** What every vendor is to see: a function in the place of the tool, and in the second round its result. */
function expectAsked(dialect: (typeof DIALECTS)[number]): void {
  const { calls } = lab.vendors[dialect].upstream;
  expect(calls).toHaveLength(2);
  const [first, second] = calls.map(({ text }) => text);
  expect(first).toContain('"web_search"');
  expect(first).not.toContain("web_search_options");
  expect(first).not.toContain(FIRST.url);
  expect(second).toContain(FIRST.url);
  expect(second).toContain("I will look.");
}

describe.each(DIALECTS)("a %s vendor without web tools", (dialect) => {
  const model = modelOf(dialect);

  test.each(MODES)("serves the messages SDK's web search: %s", async (mode) => {
    const before = lab.gateway.rows().length;
    lab.vendors[dialect].play(searches("sluice gates"), says(...ANSWER));
    const body = {
      ...{ model, max_tokens: 500, messages: [{ role: "user" as const, content: QUESTION }] },
      tools: [{ type: "web_search_20250305" as const, name: "web_search" as const, max_uses: 3 }],
    };
    const message =
      mode === "stream"
        ? await lab.anthropic.messages.stream(body).finalMessage()
        : await lab.anthropic.messages.create(body);
    // What proves a call to its vendor stands in a block of its own.
    const content = message.content.filter(({ type }) => type !== "thinking");
    expect(content.map(({ type }) => type)).toEqual(["text", "server_tool_use", "web_search_tool_result", "text"]);
    const [said, call, result, answer] = content;
    expect(said).toMatchObject({ text: "I will look." });
    expect(call).toMatchObject({ name: "web_search", input: { query: "sluice gates" } });
    if (call?.type !== "server_tool_use" || result?.type !== "web_search_tool_result") throw new Error("no call");
    expect(call.id).toMatch(/^srvtoolu_\w+$/);
    expect(result.tool_use_id).toBe(call.id);
    expect(result.content).toContainEqual(expect.objectContaining({ type: "web_search_result", ...FIRST }));
    expect(answer).toMatchObject({ text: WHOLE, citations: [{ type: "web_search_result_location", ...FIRST }] });
    expect(message.stop_reason).toBe("end_turn");
    const { usage } = message;
    expect(usage.output_tokens).toBe(OUTPUT);
    expect(usage.input_tokens + (usage.cache_read_input_tokens ?? 0)).toBe(INPUT);
    expect(usage.server_tool_use).toEqual({ web_search_requests: 1, web_fetch_requests: 0 });
    expectAsked(dialect);
    expectRows(before, "messages");
  });

  test.each(MODES)("serves the chat SDK's web_search_options: %s", async (mode) => {
    const before = lab.gateway.rows().length;
    lab.vendors[dialect].play(searches("sluice gates"), says(...ANSWER));
    const body = {
      ...{ model, messages: [{ role: "user" as const, content: QUESTION }] },
      web_search_options: { search_context_size: "low" as const },
    };
    const reply =
      mode === "stream"
        ? await lab.openai.chat.completions
            .stream({ ...body, stream_options: { include_usage: true } })
            .finalChatCompletion()
        : await lab.openai.chat.completions.create(body);
    const [choice] = reply.choices;
    expect(reply.choices).toHaveLength(1);
    const content = `I will look.${WHOLE}`;
    expect(choice?.message.content).toBe(content);
    expect(choice?.message.tool_calls ?? []).toEqual([]);
    expect(choice?.finish_reason).toBe("stop");
    const [annotation, ...others] = choice?.message.annotations ?? [];
    expect(others).toEqual([]);
    expect(annotation).toMatchObject({ type: "url_citation", url_citation: FIRST });
    const { start_index: start = 0, end_index: end = 0 } = annotation?.url_citation ?? {};
    expect(content.slice(start, end)).toBe(LINK);
    expect(reply.usage).toMatchObject({ prompt_tokens: INPUT, completion_tokens: OUTPUT });
    expectAsked(dialect);
    expectRows(before, "chat");
  });

  test.each(MODES)("serves the responses SDK's web_search: %s", async (mode) => {
    const before = lab.gateway.rows().length;
    lab.vendors[dialect].play(searches("sluice gates"), says(...ANSWER));
    const tools = [{ type: "web_search" as const, search_context_size: "low" as const }];
    const body = { model, input: QUESTION, store: false, tools };
    const reply =
      mode === "stream"
        ? await lab.openai.responses.stream(body).finalResponse()
        : await lab.openai.responses.create(body);
    // What proves a call to its vendor stands in an item of its own.
    const items = reply.output.filter(({ type }) => type !== "reasoning");
    expect(items.map(({ type }) => type)).toEqual(["message", "web_search_call", "message"]);
    expect(items[1]).toMatchObject({
      status: "completed",
      action: {
        type: "search",
        query: "sluice gates",
        sources: expect.arrayContaining([{ type: "url", url: FIRST.url }]),
      },
    });
    const [said, , answer] = items;
    if (said?.type !== "message" || answer?.type !== "message") throw new Error("no answer");
    // What the model said before it searched rests on nothing.
    expect(said.content).toMatchObject([{ type: "output_text", annotations: [] }]);
    const [part] = answer.content;
    expect(part).toMatchObject({ type: "output_text", text: WHOLE });
    if (part?.type !== "output_text") throw new Error("no text");
    expect(part.annotations).toHaveLength(1);
    const [annotation] = part.annotations;
    if (annotation?.type !== "url_citation") throw new Error("no citation");
    expect(annotation).toMatchObject(FIRST);
    expect(WHOLE.slice(annotation.start_index, annotation.end_index)).toBe(LINK);
    expect(reply.status).toBe("completed");
    expect(reply.tools).toMatchObject(tools);
    expect(reply.usage).toMatchObject({ input_tokens: INPUT, output_tokens: OUTPUT });
    expectAsked(dialect);
    expectRows(before, "responses");
  });
});

describe.each(MODES)("a stop sequence that the vendor's dialect does not know, %s", (mode) => {
  test.each([
    { where: "the last round", replies: [searches("sluice gates"), says("At dawn. ", "ST", "OP And more.")] },
    {
      where: "the first one, before its search",
      replies: [searches("sluice gates", "look", "At dawn. STOP And more.")],
    },
  ])("ends a served reply in $where", async ({ replies }) => {
    const { gateway, vendors } = lab;
    vendors.responses.play(...replies);
    const response = await gateway.post("/v1/messages", {
      ...{ model: modelOf("responses"), stream: mode === "stream", max_tokens: 500, stop_sequences: ["STOP"] },
      messages: [{ role: "user", content: QUESTION }],
      tools: [{ type: "web_search_20250305", name: "web_search" }],
    });
    const text = await response.text();
    expect([response.status, vendors.responses.upstream.calls.length]).toEqual([200, replies.length]);
    expect(text).toContain("At dawn. ");
    expect(text).not.toContain("And more");
    expect(text).toContain('"stop_reason":"stop_sequence","stop_sequence":"STOP"');
  });
});
