import { describe, expect, test } from "bun:test";
import { checkRequest } from "../../src/dialects/messages/check.ts";
import { readIntent } from "../../src/dialects/messages/intent.ts";
import { send, type Wire } from "./crossing.ts";

const hello = { role: "user", content: "Hi" };
const answer = { role: "assistant", content: [{ type: "text", text: "Hello" }] };
const call = { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "f", input: {} }] };
const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "r" }] };
const text = { type: "text", text: "S" };
/** As Anthropic's page on it and Claude Code write it, and as its SDK allows. */
const sets = (effort: string, content: unknown = []): Wire => ({ role: "system", content, output_config: { effort } });
const once = { role: "system", content: [text], clear_at: "next_user_message" };
const NEWER = { upstreamModel: "claude-opus-4-8" };
const OLDER = { upstreamModel: "claude-opus-4-7" };

describe("a system turn that sets how the model answers from there on", () => {
  const bare = { role: "system", output_config: { effort: "low" } };

  test("is taken without content, and by nobody else", () => {
    const request = (turn: Wire) => () => checkRequest({ model: "m", max_tokens: 9, messages: [hello, turn] });
    expect(request(bare)).not.toThrow();
    expect(request({ role: "system" })).toThrow("messages[1].content is required");
    expect(request({ ...bare, role: "user" })).toThrow("messages[1].content is required");
  });

  test.each([
    ["no content", bare],
    ["empty content", sets("low")],
    ["empty text", sets("low", "")],
    ["content", sets("low", [text])],
  ])("goes to its own vendor as it came: %s", (_, turn) => {
    const messages = [hello, answer, turn, hello, once];
    const { body, dropped } = send({ from: "messages", to: "messages", orders: NEWER }, { messages });
    expect([body["messages"], dropped]).toEqual([messages, []]);
    // Also where something else of the conversation has to be mended.
    const torn = send({ from: "messages", to: "messages", orders: NEWER }, { messages: [hello, call, turn, hello] });
    expect((torn.body["messages"] as Wire[])[2]).toEqual(turn);
  });

  test("says nothing, and is none, where it sets nothing", () => {
    const mute = { role: "system", content: [], output_config: {} };
    const { body } = send({ from: "messages", to: "messages", orders: NEWER }, { messages: [hello, mute] });
    expect(body["messages"]).toEqual([{ ...hello, content: [{ type: "text", text: "Hi" }] }]);
  });

  test.each(["chat", "responses", "gemini"] as const)("is read by others as what is wanted now: %s", (to) => {
    const turn = { ...sets("low"), output_config: { effort: "low", novelty: 1 } };
    expect(send({ from: "messages", to }, { messages: [hello, answer, turn, hello] }).dropped).toEqual([
      "messages[2].output_config.novelty",
    ]);
  });

  test("is named where such turns are lifted into the prompt", () => {
    const messages = [hello, sets("low", [text]), answer, hello];
    const { body, dropped } = send({ from: "messages", to: "messages", orders: OLDER }, { messages });
    expect([body["system"], dropped]).toEqual([[text], ["messages[1].output_config"]]);
  });

  // Anthropic's "Per-message effort": behind the user's new words it counts at once, elsewhere from the user's next ones; results are no new words.
  test.each<[string, Wire[], string | undefined]>([
    ["nothing is set", [hello, answer, hello], undefined],
    ["behind the user's words", [hello, sets("low")], "low"],
    ["before them", [hello, answer, sets("low"), hello], "low"],
    ["for what came later too", [hello, answer, sets("low"), hello, answer, hello], "low"],
    ["in the loop of those words", [hello, sets("low"), call, result], "low"],
    ["the later one of two", [hello, sets("low"), answer, sets("max"), hello], "max"],
    ["the later one of two in a row", [hello, sets("low"), sets("max")], "max"],
    ["beside a turn that sets nothing", [hello, sets("low"), { role: "system", content: [text] }], "low"],
    ["behind results, not yet", [hello, sets("low"), call, result, sets("max")], "low"],
    ["before results, not yet", [hello, call, sets("max"), result], undefined],
    ["before results, once the user has spoken", [hello, call, sets("max"), result, answer, hello], "max"],
    ["at the very end", [hello, answer, sets("max")], undefined],
    ["taken back by nobody", [hello, { role: "system", content: [], output_config: { effort: null } }], undefined],
  ])("counts for the answer to come: %s", (_, messages, effort) => {
    const intent = readIntent({ model: "m", max_tokens: 9, messages, output_config: { effort: "high" } });
    expect(intent.reasoning).toEqual({ kind: "effort", effort: "high" });
    expect(intent.turnReasoning as unknown).toEqual(effort && { kind: "effort", effort });
    const off = readIntent({ model: "m", max_tokens: 9, messages, thinking: { type: "disabled" } });
    expect(off.turnReasoning).toEqual(effort === undefined ? undefined : { kind: "off" });
  });
});

describe("a system turn for one of the user's turns alone", () => {
  test.each(["chat", "responses", "gemini"] as const)("is seen by others as long as it is to be: %s", (to) => {
    const seen = send({ from: "messages", to }, { messages: [hello, once] });
    expect([seen.dropped, seen.text.includes('"S"')]).toEqual([[], true]);
    const later = send({ from: "messages", to }, { messages: [hello, once, answer, hello] });
    expect([later.dropped, later.text.includes('"S"')]).toEqual([[], false]);
    const stays = { ...once, clear_at: "never" };
    expect(send({ from: "messages", to }, { messages: [hello, stays, answer, hello] }).text).toContain('"S"');
  });

  test("so where such turns are lifted into the prompt", () => {
    const way = { from: "messages", to: "messages", orders: OLDER } as const;
    const seen = send(way, { messages: [hello, once] });
    expect([seen.body["system"], seen.dropped]).toEqual([[text], []]);
    const later = send(way, { messages: [hello, once, answer, hello] });
    expect([later.body["system"] ?? [], later.dropped]).toEqual([[], []]);
  });
});
