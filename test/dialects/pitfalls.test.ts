import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Event } from "../../src/canon/events.ts";
import type { Quirks } from "../../src/dialects/dialect.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { dialects, upstreamDialects } from "../../src/dialects/index.ts";
import { upstreamError } from "../../src/dialects/refusals/upstream-error.ts";
import { faultOf } from "../support/fault.ts";
import {
  chatStream,
  chunk,
  readBack,
  recordsOf,
  reply,
  send,
  stream,
  typedStream,
  type UpstreamName,
  type Wire,
} from "./crossing.ts";

/**
 * The fifty pitfalls of dialects.md 4.8. Each is shown here, or by the fixtures and tests that are named: those must exist, and a title
 * that is renamed must be renamed here.
 */
type Pitfall = {
  what: string;
  /** Shows how it is met. */
  show?: () => void;
  /** Recorded streams that hold it; every one is run by the tests of its dialect. */
  fixtures?: string[];
  /** Where else it is tested: file below test/, and a title in it. */
  seen?: [file: string, title: string][];
};

const PNG = "iVBORw0KGgoAAAANSUhEUg==";
const hello: Wire = { role: "user", content: "Hi" };
const text = (value: string) => ({ type: "text", text: value });
const use = (id: string) => ({ type: "tool_use", id, name: "f", input: {} });
const given = (id: string, content: unknown) => ({ type: "tool_result", tool_use_id: id, content });
const call = (id: string, args = "{}") => ({ id, type: "function", function: { name: "f", arguments: args } });
const tool = { type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } };

/** A messages client that ran two tools at once, and said something beside their results. */
const LOOP: Wire = {
  messages: [
    hello,
    { role: "assistant", content: [text("so"), use("a"), use("b")] },
    { role: "user", content: [given("b", "B"), given("a", "A"), text("and?")] },
  ],
};

/** A chat conversation whose assistant made one call. */
const called = (args: string): Wire => ({
  messages: [
    hello,
    { role: "assistant", content: null, tool_calls: [call("a", args)] },
    { role: "tool", tool_call_id: "a", content: "ok" },
  ],
});

const messagesOf = (body: Wire) => body["messages"] as Wire[];
const turnsTo = (to: UpstreamName, body: Wire, quirks: Quirks = {}) =>
  messagesOf(send({ from: "messages", to, quirks }, body).body);

/** What a chat vendor's stream means. */
const eventsOf = (sse: string): Event[] => {
  const decoder = dialects.chat.decoder({ quirks: {} });
  const splitter = new FrameSplitter();
  const frames = [...splitter.push(sse), ...splitter.end()];
  return [...frames.flatMap((frame) => decoder.push(frame)), ...decoder.end()];
};

const last = (events: readonly Event[]) => events.at(-1);
const joined = (events: readonly Event[]) =>
  events.flatMap((event) => (event.type === "block-delta" ? [event.text] : [])).join("");
const toolChunk = (more: Wire) => chunk({ tool_calls: [{ index: 0, ...more }] });

/** A messages vendor's stream around the given records. */
const messagesStream = (...records: (Wire & { type: string })[]) =>
  typedStream(
    { type: "message_start", message: { id: "m", content: [], usage: { input_tokens: 5, output_tokens: 1 } } },
    ...records,
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { input_tokens: 7, output_tokens: 3 } },
    { type: "message_stop" },
  );

const TO_CHAT = { from: "messages", to: "chat" } as const;
const FROM_MESSAGES = { from: "chat", to: "messages" } as const;

const PITFALLS: Record<number, Pitfall> = {
  1: {
    what: "tool results become messages of their own, adjacent to the calls, before the user's text",
    show() {
      expect(turnsTo("chat", LOOP).slice(2)).toEqual([
        { role: "tool", tool_call_id: "a", content: "A" },
        { role: "tool", tool_call_id: "b", content: "B" },
        { role: "user", content: "and?" },
      ]);
    },
    seen: [
      ["dialects/sound-conversations.test.ts", "whatever conversation a client sends, its upstream's rules are met"],
    ],
  },
  2: {
    what: "several tool messages become one user turn, results first",
    show() {
      const messages = [
        hello,
        { role: "assistant", content: null, tool_calls: [call("a"), call("b")] },
        { role: "tool", tool_call_id: "b", content: "B" },
        { role: "tool", tool_call_id: "a", content: "A" },
        { role: "user", content: "and?" },
      ];
      const { body } = send(FROM_MESSAGES, { messages });
      expect(messagesOf(body)).toHaveLength(3);
      expect(messagesOf(body)[2]).toMatchObject({
        role: "user",
        content: [{ tool_use_id: "b", content: "B" }, { tool_use_id: "a", content: "A" }, text("and?")],
      });
    },
  },
  3: {
    what: "images in tool results move behind (chat), stay nested (messages), stand beside (gemini)",
    show() {
      const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } };
      const body = {
        messages: [hello, { role: "assistant", content: [use("a")] }, { role: "user", content: [given("a", [image])] }],
      };
      expect(turnsTo("chat", body)[3]).toMatchObject({
        role: "user",
        content: [{ type: "text" }, { type: "image_url" }],
      });
      expect(turnsTo("messages", body)[2]).toEqual(body.messages[2]!);
      const contents = send({ from: "messages", to: "gemini" }, body).body["contents"] as { parts: Wire[] }[];
      expect(contents[2]?.parts.map((part) => Object.keys(part)[0])).toEqual([
        "functionResponse",
        "text",
        "inlineData",
      ]);
    },
  },
  4: {
    what: "empty content never leaves",
    show() {
      const body = {
        messages: [
          { role: "user", content: "" },
          { role: "assistant", content: [] },
          { role: "user", content: " " },
        ],
      };
      expect(turnsTo("messages", body)).toEqual([{ role: "user", content: [text("(empty)")] }]);
      expect(turnsTo("chat", { messages: [{ role: "user", content: [] }] })).toEqual([
        { role: "user", content: "(empty)" },
      ]);
      const contents = send({ from: "messages", to: "gemini" }, body).body["contents"] as { parts: Wire[] }[];
      for (const { parts } of contents) expect(parts.length).toBeGreaterThan(0);
    },
    seen: [["dialects/sound-conversations.test.ts", "turns that say nothing"]],
  },
  5: {
    what: "turns of one role in a row are merged where that matters",
    show() {
      const messages = [
        { role: "user", content: "a" },
        { role: "user", content: "b" },
      ];
      expect(turnsTo("chat", { messages })).toEqual([{ role: "user", content: "a\nb" }]);
      const said = [hello, { role: "assistant", content: "a" }, { role: "user", content: "" }];
      const calls = { role: "assistant", content: [text("b"), use("c")] };
      expect(turnsTo("chat", { messages: [...said, calls, { role: "user", content: [given("c", "C")] }] })).toEqual([
        hello,
        { role: "assistant", content: "a\nb", tool_calls: [call("c")] },
        { role: "tool", tool_call_id: "c", content: "C" },
      ]);
      expect(send({ from: "chat", to: "gemini" }, { messages }).body["contents"]).toEqual([
        { role: "user", parts: [{ text: "a" }, { text: "b" }] },
      ]);
      // Its own vendor merges by itself: the diagonal is left alone.
      expect(turnsTo("messages", { messages })).toEqual(messages);
    },
  },
  6: {
    what: "signatures go back to the vendor they came from and to no other",
    seen: [
      [
        "dialects/responses-pairs.test.ts",
        "and never to a vendor of its own dialect, which would refuse the whole request",
      ],
      ["dialects/gemini-request.test.ts", "and reasoning of other vendors do not"],
      ["dialects/messages-stream.test.ts", "no signature is made up"],
    ],
  },
  7: {
    what: "a tool loop whose thinking did not come back goes on without thinking",
    seen: [
      ["dialects/messages-amend.test.ts", "a tool loop whose thinking did not come back goes on without thinking"],
    ],
  },
  8: {
    what: "reasoning goes back where a chat vendor wants it, on every turn where it must",
    show() {
      const messages = [
        hello,
        { role: "assistant", content: [{ type: "thinking", thinking: "hm", signature: "s" }, text("a")] },
        hello,
      ];
      const always: Quirks = { reasoningReplay: "reasoning_content", reasoningReplayAlways: true };
      expect(turnsTo("chat", { messages }, always)[1]).toMatchObject({ reasoning_content: "hm", content: "a" });
      const plain = [hello, { role: "assistant", content: "a" }, hello];
      expect(turnsTo("chat", { messages: plain }, always)[1]).toMatchObject({ reasoning_content: "" });
      expect(JSON.stringify(turnsTo("chat", { messages }))).not.toContain("hm");
    },
  },
  9: {
    what: "argument fragments may split anywhere and are never trimmed",
    show() {
      const args = '{"a":" \\u00e9 \\ud83d\\ude00 "}';
      const pieces = args.split("").map((piece) => toolChunk({ function: { arguments: piece } }));
      const sse = chatStream(
        toolChunk({ id: "c", function: { name: "f", arguments: "" } }),
        ...pieces,
        chunk({}, "tool_calls"),
      );
      expect(joined(eventsOf(sse))).toBe(args);
    },
  },
  10: {
    what: "empty, null and doubly encoded arguments mean what they should",
    show() {
      for (const args of ["", "null", "{}"]) {
        expect(JSON.stringify(send(FROM_MESSAGES, called(args)).body)).toContain('"input":{}');
      }
      expect(JSON.stringify(send(FROM_MESSAGES, called(JSON.stringify('{"a":1}'))).body)).toContain('"input":{"a":1}');
      const sse = messagesStream(
        { type: "content_block_start", index: 0, content_block: use("t") },
        { type: "content_block_stop", index: 0 },
      );
      expect(joined(readBack("chat", stream(FROM_MESSAGES, sse)))).toBe("{}");
    },
    fixtures: ["chat/odd-arguments", "chat/no-arguments", "messages/tool-no-arguments"],
  },
  11: {
    what: "a whole call, its finish and its usage in one chunk",
    fixtures: ["chat/whole-call-in-finish-chunk", "gemini/tool-call"],
  },
  12: {
    what: "parallel calls interleaved by index",
    fixtures: ["chat/interleaved-calls", "responses/interleaved-calls"],
  },
  13: {
    what: "an index that is missing or used twice",
    fixtures: ["chat/missing-index", "chat/reused-index", "chat/sparse-index", "chat/slipped-index"],
  },
  14: {
    what: "a missing id is made up",
    fixtures: ["chat/null-id"],
    seen: [
      ["dialects/gemini-stream.test.ts", "ids that are made up are new in every reply"],
      ["dialects/messages-stream.test.ts", "a call without an id gets one"],
    ],
  },
  15: { what: "id and name repeated on every fragment", fixtures: ["chat/repeated-name-and-id"] },
  16: { what: "a name in fragments", fixtures: ["chat/name-in-pieces"] },
  17: {
    what: "usage behind the finish is waited for, but not for long",
    seen: [
      ["scenarios/streams.test.ts", "usage that comes in those 2 s is taken"],
      ["scenarios/streams.test.ts", "a finish without a terminator waits 2 s and counts as terminated"],
    ],
  },
  18: {
    what: "usage on every chunk: the last one wins",
    fixtures: ["chat/usage-on-every-chunk", "messages/usage-several-times"],
  },
  19: {
    what: "a finish twice, with content, or empty",
    fixtures: ["chat/duplicate-finish", "chat/empty-finish-and-no-role", "chat/finish-on-every-chunk"],
  },
  20: {
    what: "the role on every delta or never: once to the client",
    show() {
      const sse = chatStream(
        chunk({ role: "assistant", content: "a" }),
        chunk({ role: "assistant", content: "b" }),
        chunk({}, "stop"),
      );
      const roles = (records: Wire[]) =>
        records.flatMap((one) => (one["choices"] as { delta: Wire }[]).filter(({ delta }) => "role" in delta));
      const across = typedStream(
        { type: "response.created", response: {} },
        { type: "response.output_text.delta", output_index: 0, delta: "a" },
        { type: "response.completed", response: { status: "completed", output: [] } },
      );
      expect(roles(recordsOf(stream({ from: "chat", to: "responses" }, across)))).toHaveLength(1);
      expect(joined(eventsOf(sse))).toBe("ab");
    },
    fixtures: ["chat/empty-finish-and-no-role"],
  },
  21: {
    what: "no finish but a terminator is success, neither is failure, a finish alone is success",
    show() {
      const spoken = chunk({ role: "assistant", content: "a" });
      const cut = (...records: Wire[]) => records.map((record) => `data: ${JSON.stringify(record)}\n\n`).join("");
      expect(last(eventsOf(chatStream(spoken)))).toMatchObject({ type: "finish", finish: { reason: "stop" } });
      expect(last(eventsOf(cut(spoken)))).toMatchObject({ type: "error", error: { code: "stream_truncated" } });
      expect(last(eventsOf(cut(spoken, chunk({}, "stop"))))).toMatchObject({ type: "finish" });
    },
    fixtures: ["chat/no-finish-but-done", "chat/no-done-but-finish", "chat/cut-off", "responses/truncated"],
  },
  22: {
    what: "an error inside a 200, a JSON error to a stream, a web page",
    fixtures: [
      "chat/error-first",
      "messages/error-first",
      "gemini/error-first",
      "responses/error-first",
      "chat/error-in-the-middle",
      "chat/detail-in-the-middle",
      "chat/status-beside-no-choice",
    ],
    seen: [
      ["scenarios/fault-table.ts", "an error as the first record"],
      ["scenarios/fault-table.ts", "200 text/html"],
      ["scenarios/fault-table.ts", "200 whose JSON is an overload"],
    ],
  },
  23: { what: "content as an array in deltas", fixtures: ["chat/content-array", "chat/content-array-summed-up"] },
  24: {
    what: "four spellings of reasoning, two of them at once",
    fixtures: ["chat/reasoning-twice", "responses/raw-reasoning"],
  },
  25: {
    what: "inline think tags",
    fixtures: ["chat/think-tags", "chat/think-tags-preopened", "chat/think-tags-absent"],
  },
  26: { what: "refusal text is text", fixtures: ["chat/refusal", "responses/refusal", "messages/refusal"] },
  27: {
    what: "every way to write server-sent events",
    fixtures: [
      "chat/carriage-returns",
      "messages/carriage-returns",
      "responses/no-last-blank-line",
      "gemini/no-last-blank-line",
    ],
    seen: [
      ["laws/frames.test.ts", "any document, any ending, any cuts: the same frames as whole"],
      ["scenarios/fault-table.ts", "one byte at a time, CRLF, comments and a BOM"],
    ],
  },
  28: {
    what: "plain JSON to a request for a stream",
    seen: [["scenarios/fault-table.ts", "JSON to a request for a stream"]],
  },
  29: {
    what: "a stop sequence is told only with evidence",
    show() {
      const answer = (more: Wire): Wire => ({
        id: "1",
        choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "a" }, ...more }],
      });
      expect(reply(TO_CHAT, answer({}))).toMatchObject({ stop_reason: "end_turn", stop_sequence: null });
      expect(reply(TO_CHAT, answer({ matched_stop: "END" }))).toMatchObject({
        stop_reason: "stop_sequence",
        stop_sequence: "END",
      });
    },
    fixtures: ["chat/matched-stop"],
  },
  30: {
    what: "stops that the gateway enforces hold text back and leave reasoning and arguments alone",
    seen: [
      ["dialects/stop-watch.test.ts", "one sequence: lets out all before its first place, whatever the pieces"],
      ["dialects/stop-watch.test.ts", "is not looked for in reasoning and in arguments, nor across two texts"],
    ],
  },
  31: {
    what: "the ceiling is the client's, cut to the catalog's, and one is said where it is demanded",
    show() {
      const way = { from: "chat", to: "messages", orders: { maxOutputTokens: 4_096 } } as const;
      expect(send(way, { messages: [hello], max_tokens: 64_000 }).body["max_tokens"]).toBe(4_096);
      expect(send(way, { messages: [hello] }).body["max_tokens"]).toBe(4_096);
      expect(send(FROM_MESSAGES, { messages: [hello], max_tokens: 9 }).body["max_tokens"]).toBe(9);
    },
  },
  32: {
    what: "schemas as each upstream takes them",
    show() {
      const schema = { $schema: "x", properties: { a: { const: "b" } }, required: ["a"] };
      const tools = [{ name: "f", input_schema: schema, strict: true }];
      const to = (upstream: UpstreamName, orders = {}) =>
        JSON.stringify(send({ from: "messages", to: upstream, orders }, { messages: [hello], tools }).body["tools"]);
      expect(to("chat")).toContain(
        '"parameters":{"type":"object","properties":{"a":{"type":"string","const":"b"}},"required":["a"],"additionalProperties":false}',
      );
      expect(to("responses")).toContain('"strict":true');
      expect(to("gemini", { upstreamModel: "gemini-3-pro" })).toContain('{"enum":["b"]}');
      expect(to("gemini")).not.toContain("$schema");
    },
    seen: [
      ["dialects/gemini-schema.test.ts", "whatever comes, only known keywords are left, at every level"],
      ["dialects/odd-requests.test.ts", "a strict schema for OpenAI (dialects.md 4.8 #32)"],
    ],
  },
  33: {
    what: "unknown keys of tools do not reach strict servers",
    show() {
      const tools = [
        {
          name: "f",
          input_schema: { type: "object" },
          type: "custom",
          cache_control: { type: "ephemeral" },
          input_examples: [{}],
          defer_loading: true,
        },
      ];
      const sent = (to: UpstreamName) => send({ from: "messages", to }, { messages: [hello], tools }).body["tools"];
      const parameters = { type: "object", properties: {} };
      expect(sent("chat")).toEqual([{ type: "function", function: { name: "f", parameters } }]);
      expect(JSON.stringify([sent("responses"), sent("gemini")])).not.toMatch(
        /cache_control|input_examples|defer_loading|custom/,
      );
    },
  },
  34: {
    what: "compressed answers are read, and bombs are not unpacked",
    seen: [
      ["scenarios/fault-table.ts", "a gzip bomb"],
      ["scenarios/fault-table.ts", "gzip that is none"],
    ],
  },
  35: {
    what: "a vendor's 401 is not the client's, and its key and address stay inside",
    show() {
      const raw = {
        message: "Incorrect API key provided: sk-abcdefghijkl at https://api.vendor.test/v1",
        type: "",
        code: "",
      };
      const error = upstreamError(401, raw);
      expect(error.code).toBe("upstream_auth");
      expect(error.message).not.toMatch(/sk-abc|api\.vendor/);
      const asBadRequest = upstreamError(400, { ...raw, message: "Incorrect API key provided: sk***YA." });
      expect(asBadRequest.code).toBe("upstream_auth");
      expect(asBadRequest.message).not.toContain("YA");
    },
    seen: [["scenarios/fault-table.ts", "401 with a piece of the key"]],
  },
  36: {
    what: "a full context window in the words that agents compact at",
    show() {
      const raw = {
        message: "This model's maximum context length is 8192 tokens, you requested 9000",
        type: "",
        code: "",
      };
      expect(upstreamError(400, raw)).toMatchObject({ code: "context_length_exceeded" });
      expect(upstreamError(400, raw).message).toStartWith("prompt is too long");
    },
    seen: [["dialects/overflow.test.ts", "every vendor's words for a request that does not fit"]],
  },
  37: {
    what: "a client that leaves takes its upstream along, and is booked",
    seen: [["scenarios/streams.test.ts", "in the middle of a stream: the vendor is let go and one row is written"]],
  },
  38: {
    what: "a slow client slows the vendor, and silence is filled",
    seen: [
      ["scenarios/streams.test.ts", "slows the vendor down"],
      ["scenarios/streams.test.ts", "is filled with pings, and the answer goes on"],
    ],
  },
  39: {
    what: "the model that was asked for, and ids of the gateway's own that stay the same",
    show() {
      const sse = messagesStream(
        { type: "content_block_start", index: 0, content_block: text("") },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "a" } },
        { type: "content_block_stop", index: 0 },
      );
      const records = recordsOf(stream(FROM_MESSAGES, sse));
      for (const record of records) {
        expect(record).toMatchObject({ id: "chatcmpl-Reply1", model: "a/b", created: 1_790_000_001 });
      }
      expect(records.length).toBeGreaterThan(2);
    },
    seen: [["scenarios/streams.test.ts", "the model is the one that was asked for, everywhere"]],
  },
  40: {
    what: "message_start carries an estimate, message_delta the exact count",
    show() {
      const usage = { prompt_tokens: 77, completion_tokens: 5, total_tokens: 82 };
      const records = recordsOf(stream(TO_CHAT, chatStream(chunk({ content: "a" }), { ...chunk({}, "stop"), usage })));
      expect(records.at(0)).toMatchObject({ message: { usage: { input_tokens: 9 } } });
      expect(records.find((record) => record["type"] === "message_delta")).toMatchObject({
        usage: { input_tokens: 77, output_tokens: 5 },
      });
    },
  },
  41: {
    what: "counts of message_delta win over those of message_start",
    show() {
      const usages = recordsOf(stream(FROM_MESSAGES, messagesStream())).flatMap((record) => record["usage"] ?? []);
      expect(usages).toMatchObject([{ prompt_tokens: 7, completion_tokens: 3 }]);
    },
  },
  42: {
    what: "a second message_start is merged into one message",
    fixtures: ["messages/several-messages", "messages/spliced-message-start", "messages/duplicate-message-start"],
  },
  43: {
    what: "numbers of arguments keep their digits",
    show() {
      const args = '{"id":12345678901234567890}';
      expect(send(FROM_MESSAGES, called(args)).text).toContain(`"input":${args}`);
      expect(send({ from: "chat", to: "gemini" }, called(args)).text).toContain(`"args":${args}`);
      expect(send({ from: "chat", to: "responses" }, called(args)).text).toContain(JSON.stringify(args));
    },
  },
  44: {
    what: "lone surrogates never leave",
    show() {
      for (const to of ["chat", "messages", "responses", "gemini"] as const) {
        const { text: sent } = send({ from: "chat", to }, { messages: [{ role: "user", content: "a\ud83d" }] });
        expect(sent).not.toContain("\\ud83d");
        expect(sent).toMatch(/a(?:\ufffd|\\ufffd)/);
      }
    },
    seen: [["dialects/odd-requests.test.ts", "on the diagonal, in names and keys alike"]],
  },
  45: {
    what: "null characters never leave",
    show() {
      for (const to of ["messages", "responses", "gemini"] as const) {
        expect(send({ from: "chat", to }, { messages: [{ role: "user", content: "a\0b" }] }).text).toContain('"ab"');
      }
    },
  },
  46: {
    what: "an image's bytes know better than its label; data URLs in every form",
    show() {
      const image = (url: string) => ({
        messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }],
      });
      const sent = (url: string) => send(FROM_MESSAGES, image(url)).text;
      for (const url of [
        `data:image/jpeg;base64,${PNG}`,
        `data:image/png;charset=utf-8;base64,${PNG}`,
        `data:image/jpg;base64,${encodeURIComponent(PNG)}`,
        `DATA:;base64,${PNG.slice(0, 8)}\n${PNG.slice(8)}`,
      ]) {
        expect(sent(url)).toContain(`"media_type":"image/png","data":"${PNG}"`);
      }
      const svg = JSON.stringify(send({ from: "chat", to: "gemini" }, image("data:image/svg+xml,%3Csvg/%3E")).body);
      expect(svg).toContain(`"data":"${btoa("<svg/>")}"`);
    },
    seen: [["dialects/sound-conversations.test.ts", "an image under another name"]],
  },
  47: {
    what: "nothing is tried again once something was emitted",
    seen: [
      ["vendors/retry-policy.test.ts", "what may have run is repeated only early, and only once"],
      ["scenarios/fault-table.ts", "an error in the middle"],
    ],
  },
  48: { what: "Azure's filter record first is neither usage nor end", fixtures: ["chat/azure-filter-first"] },
  49: {
    what: "content of a turn of calls alone: null, or empty where null is refused",
    show() {
      const body = {
        messages: [hello, { role: "assistant", content: [use("a")] }, { role: "user", content: [given("a", "A")] }],
      };
      expect(turnsTo("chat", body)[1]).toMatchObject({ content: null });
      expect(turnsTo("chat", body, { emptyContent: true })[1]).toMatchObject({ content: "" });
    },
  },
  50: {
    what: "a forced tool choice becomes auto where it is refused, and is said in words",
    show() {
      const body = { messages: [hello], tools: [tool], tool_choice: "required" };
      const to = (quirks: Quirks) => send({ from: "chat", to: "chat", quirks }, body).body;
      expect(to({})["tool_choice"]).toBe("required");
      expect(to({ toolChoiceRequired: "any" })["tool_choice"]).toBe("any");
      expect(to({ toolChoiceRequired: "auto" })["tool_choice"]).toBe("auto");
      expect(messagesOf(to({ toolChoiceRequired: "auto" }))[0]?.["content"]).toContain("calling one of the tools");
      expect(() => faultOf(() => to({ toolChoiceRequired: "auto" }))).toThrow("nothing was thrown");
    },
    seen: [["dialects/odd-requests.test.ts", "a tool choice that may not be forced (dialects.md 2.9, 4.8 #50)"]],
  },
};

const ROOT = join(import.meta.dir, "..");
const ROWS = Object.entries(PITFALLS).map(([number, row]) => ({ number: Number(number), ...row }));

describe("the pitfalls of dialects.md 4.8", () => {
  test("are all here", () => {
    expect(ROWS.map(({ number }) => number)).toEqual(Array.from({ length: 50 }, (_, at) => at + 1));
    expect(Object.keys(upstreamDialects).sort()).toEqual(["chat", "gemini", "messages", "responses"]);
  });

  test.each(ROWS)("$number: $what", ({ show, fixtures = [], seen = [] }) => {
    expect(show !== undefined || fixtures.length + seen.length > 0).toBe(true);
    show?.();
    for (const fixture of fixtures) {
      const folder = join(ROOT, "fixtures", fixture);
      const stream = ["upstream.sse", "stream.sse"].some((name) => existsSync(join(folder, name)));
      expect([fixture, stream, existsSync(join(folder, "events.json"))]).toEqual([fixture, true, true]);
    }
    for (const [file, title] of seen) expect(readFileSync(join(ROOT, file), "utf8")).toContain(title);
  });
});
