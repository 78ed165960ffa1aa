import { describe, expect, test } from "bun:test";
import { responses } from "../../src/dialects/responses/index.ts";
import { faultOf } from "../support/fault.ts";
import { send, UPSTREAMS, type Wire } from "./crossing.ts";

const OTHERS = UPSTREAMS.filter((to) => to !== "responses");
const user = { role: "user", content: "Hi" };
const HEAD = "Message Type: NEW_TASK\nTask name: /root/look\nSender: /root\nPayload:\n";
const SEALED = `gAAAAAB${"x".repeat(60)}==`;

/** As Codex tells a sub-agent its task, and its parent what came of it: the words of models that are not OpenAI's stand plainly in what is named sealed. */
const told = (...content: Wire[]): Wire => ({
  ...{ type: "agent_message", id: "amsg_1", author: "/root", recipient: "/root/look" },
  content,
});
const plain = (text: string) => ({ type: "input_text", text });
const sealed = (text: string) => ({ type: "encrypted_content", encrypted_content: text });

/** The text of the conversation's last turn, in whatever dialect. */
const lastWords = ({ messages, contents }: Wire): string =>
  JSON.stringify(((messages ?? contents) as Wire[]).at(-1)).replaceAll("\\n", "\n");

describe("what one agent of a client's says to another, for another dialect", () => {
  test.each(OTHERS)("%s: is the user's side speaking, in the order in which it was said", (to) => {
    const { body, dropped } = send(
      { from: "responses", to },
      { input: [told(plain(HEAD), sealed("List the files."))] },
    );
    expect(lastWords(body)).toContain(`${HEAD}List the files.`);
    expect(lastWords(body)).toContain('"role":"user"');
    expect(dropped).toEqual([]);
  });

  test.each([
    [
      "an answer",
      told(plain("Message Type: FINAL_ANSWER\nSender: /root\nPayload:\nDone")),
      "Sender: /root\nPayload:\nDone",
    ],
    ["one that does not say whose it is", told(sealed("Go on")), "Message from the agent /root:\nGo on"],
    ["a string", { ...told(), content: "From /root: go on" }, "From /root: go on"],
  ])("%s", (_name, item, words) => {
    const { body } = send(
      { from: "responses", to: "chat" },
      { input: [user, { role: "assistant", content: "a" }, item] },
    );
    expect(lastWords(body)).toContain(words);
  });

  test("what OpenAI has sealed is named, and the model is told that it is not there", () => {
    const { body, dropped } = send({ from: "responses", to: "chat" }, { input: [told(plain(HEAD), sealed(SEALED))] });
    expect(dropped).toEqual(["input[0].content[1]"]);
    expect(lastWords(body)).toContain(`${HEAD}(What is said here is sealed`);
    expect(lastWords(body)).not.toContain("gAAAA");
  });

  test("one that says nothing makes no turn", () => {
    for (const item of [told(), { ...told(), content: null }]) {
      const { body } = send({ from: "responses", to: "chat" }, { input: [user, item] });
      expect(body["messages"]).toEqual([user]);
    }
  });

  test("it parts two turns of the assistant, for what is remembered of them as well", () => {
    const call = (id: string) => ({ type: "function_call", call_id: id, name: "f", arguments: "{}" });
    const input = [user, call("c1"), told(plain(HEAD)), call("c2")];
    const { turns } = responses.replay.read({ input }, false);
    expect(turns.map(({ callIds }) => callIds)).toEqual([["c1"], ["c2"]]);
    const { prompt } = responses.decodeRequest({ model: "a/b", input });
    expect(prompt.turns.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
  });

  test("OpenAI's own dialect takes it as it came", () => {
    const input = [told(plain(HEAD), sealed(SEALED))];
    expect(send({ from: "responses", to: "responses" }, { input }).body["input"]).toEqual(input);
  });
});

describe("a conversation that is to be sealed, which no other vendor does", () => {
  const input = [user, { type: "compaction_trigger" }];

  test.each(OTHERS)("%s: is refused in place of being answered and paid for", (to) => {
    const { code, param, message } = faultOf(() => send({ from: "responses", to }, { input }));
    expect([code, param]).toEqual(["invalid_request", "input[1]"]);
    expect(message).toContain("not named OpenAI");
  });

  test("OpenAI's own dialect takes it as it came", () => {
    expect(send({ from: "responses", to: "responses" }, { input }).body["input"]).toEqual(input);
  });
});
