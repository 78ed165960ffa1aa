import { describe, expect, spyOn, test } from "bun:test";
import fc from "fast-check";
import type { Event } from "../../src/canon/events.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { dialects } from "../../src/dialects/index.ts";
import type { RecordWriter } from "../../src/dialects/run-writer.ts";

type Name = "chat" | "messages";
/** `looks`: how many records of runs were written carefully. */
type Out = { text: string; events: Event[]; runs: number; looks: number };

const chatChunk = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ id: "c-1", object: "chat.completion.chunk", created: 1, model: "up", choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`;
const event = (value: { type: string }) => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;

/** A stream of each dialect whose text comes in these pieces. */
const STREAMS: Record<Name, (pieces: readonly string[]) => string> = {
  chat: (pieces) =>
    chatChunk({ role: "assistant", content: "" }) +
    pieces.map((content) => chatChunk({ content })).join("") +
    chatChunk({}, { finish_reason: "stop" }) +
    "data: [DONE]\n\n",
  messages: (pieces) => {
    const message = {
      id: "m",
      type: "message",
      role: "assistant",
      model: "up",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    };
    return [
      { type: "message_start", message },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      ...pieces.map((text) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })),
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 2 } },
      { type: "message_stop" },
    ]
      .map(event)
      .join("");
  },
};

/** Relabels a stream cut at `cuts`, as the relay does it (`inRuns`) or record by record. */
function relabel(name: Name, stream: string, cuts: readonly number[], inRuns: boolean): Out {
  const dialect = dialects[name];
  const decoder = dialect.decoder({ quirks: {} });
  const relabeler = dialect.relabeler({
    model: "lab/x",
    replyId: "r",
    created: 1,
    wantsUsage: false,
    estimatedInputTokens: 1,
  });
  const careful = spyOn(relabeler as typeof relabeler & RecordWriter, "writeRecord");
  const splitter = new FrameSplitter();
  const out: Out = { text: "", events: [], runs: 0, looks: 0 };
  let from = 0;
  for (const cut of [...cuts, stream.length]) {
    splitter.add(stream.slice(from, cut));
    from = cut;
    for (;;) {
      const frame = splitter.next(inRuns ? decoder.pattern : undefined);
      if (!frame) break;
      if (frame.run) out.runs++;
      const events = decoder.push(frame);
      out.events.push(...events);
      out.text += relabeler.push(frame, events);
    }
  }
  const last = decoder.end();
  out.events.push(...last);
  out.text += relabeler.end(last);
  out.looks = careful.mock.calls.length;
  return out;
}

/** Events with neighbouring deltas joined: a run tells in one what its records tell in many. */
function joined(events: readonly Event[]): Event[] {
  const all: Event[] = [];
  for (const each of events) {
    const last = all.at(-1);
    if (each.type === "block-delta" && last?.type === "block-delta")
      all[all.length - 1] = { ...last, text: last.text + each.text };
    else all.push(each);
  }
  return all;
}

const pieces = fc.array(
  fc.oneof(
    fc.constantFrom("a", " tok", '"', "\\", "up", '"model":"up"', "\n\n", "data: ", "😀", "\ud83d", ""),
    fc.string(),
  ),
  { maxLength: 12 },
);

describe.each(["chat", "messages"] as const)("runs of text records, %s", (name) => {
  test("come out byte for byte as they do one by one, and mean the same, whatever the pieces and the cuts", () => {
    fc.assert(
      fc.property(pieces, fc.array(fc.nat(3_000), { maxLength: 6 }), (texts, points) => {
        const stream = STREAMS[name](texts);
        const cuts = points.filter((point) => point < stream.length).sort((a, b) => a - b);
        const single = relabel(name, stream, cuts, false);
        const inRuns = relabel(name, stream, cuts, true);
        expect(inRuns.text).toBe(single.text);
        expect(joined(inRuns.events)).toEqual(joined(single.events));
      }),
      { numRuns: 500 },
    );
  });

  test("many records are one run, and none of them is lost", () => {
    const texts = Array.from({ length: 50 }, (_, at) => `tok-${at} `);
    const out = relabel(name, STREAMS[name](texts), [], true);
    expect(out.runs).toBe(1);
    for (const text of texts) expect(out.text).toContain(`"${text}"`);
    expect(out.text).not.toContain('"model":"up"');
  });

  test("a record that says more than text is never part of a run", () => {
    const stream = STREAMS[name](["a", "b", "c"]);
    const odd =
      name === "chat"
        ? chatChunk({ content: "d", extra: 1 })
        : event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "d" }, extra: 1 } as {
            type: string;
          });
    const at = stream.lastIndexOf(name === "chat" ? chatChunk({ content: "c" }) : "event: content_block_delta");
    const out = relabel(name, stream.slice(0, at) + odd + stream.slice(at), [], true);
    expect(out.text).toContain('"extra":1');
    expect(joined(out.events).find((each) => each.type === "block-delta")).toEqual({
      type: "block-delta",
      text: "abdc",
    });
  });
});

describe("runs of chat records", () => {
  const same = (stream: string) => {
    const inRuns = relabel("chat", stream, [], true);
    expect(inRuns.text).toBe(relabel("chat", stream, [], false).text);
    return inRuns;
  };

  test("records that need repair are repaired one by one: an id that every one of them lacks", () => {
    const out = same(STREAMS.chat(["a", "b", "c", "d"]).replaceAll('"id":"c-1",', ""));
    expect(out.runs).toBe(1);
    expect(out.text.match(/"id":"chatcmpl-r"/g)?.length).toBe(6);
  });

  test("reasoning that its vendor calls otherwise goes on under the name that clients read, also behind a record without words", () => {
    const texts = ["a", "b", "", "c", "", "d"];
    const stream = STREAMS.chat(texts).replaceAll(/"content":"(?=[a-d]|"\},"finish_reason":null)/g, '"reasoning":"');
    const records = same(chatChunk({ role: "assistant" }) + stream).text;
    expect([...records.matchAll(/"reasoning_content":"(\w+)"/g)].map(([, text]) => text)).toEqual(["a", "b", "c", "d"]);
  });

  /** The same stream with more at the beginning of each delta that has words. */
  const withEach = (stream: string, more: string) =>
    stream.replaceAll('"delta":{"content"', `"delta":{${more}"content"`);

  test.each([
    ["the role", '"role":"assistant",'],
    ["an empty role", '"role":"",'],
    ["a call that is none", '"function_call":{"name":"","arguments":""},'],
  ])("%s, which a vendor says in every record, is left out of all of them with one look", (_what, more) => {
    fc.assert(
      fc.property(pieces, fc.array(fc.nat(3_000), { maxLength: 6 }), (texts, points) => {
        const stream = withEach(STREAMS.chat(texts), more);
        const cuts = points.filter((point) => point < stream.length).sort((a, b) => a - b);
        expect(relabel("chat", stream, cuts, true).text).toBe(relabel("chat", stream, cuts, false).text);
      }),
      { numRuns: 200 },
    );
    const texts = Array.from({ length: 50 }, (_, at) => `tok-${at} `);
    const { text, runs, looks } = same(withEach(STREAMS.chat(texts), more));
    expect([runs, looks]).toEqual([1, 1]);
    expect(text.match(/"role"|function_call/g)).toEqual(['"role"']);
    for (const each of texts) expect(text).toContain(`"${each}"`);
  });

  test("another choice that ended while the first goes on in runs keeps its own end", () => {
    const other = (delta: object, finish: string | null) =>
      chatChunk(delta, { finish_reason: finish }).replace('"index":0', '"index":1');
    const ended = other({ role: "assistant", content: "z" }, null) + other({}, "length");
    const stream = STREAMS.chat(["a", "b", "c", "d"]).replace(chatChunk({ content: "c" }), (found) => ended + found);
    const { text, runs } = same(stream);
    expect(runs).toBe(1);
    expect(text).toContain('"choices":[{"index":1,"delta":{},"finish_reason":"length"}]');
  });

  test("an empty delta behind the end is no more of the reply, and without a terminator that is whole", () => {
    const [said] = STREAMS.chat(["a", "b", "c"]).split(chatChunk({}, { finish_reason: "stop" }));
    const stream = said + chatChunk({}, { finish_reason: "length" }) + chatChunk({ content: "" });
    const { text, events, runs } = same(stream);
    expect(runs).toBe(2);
    expect(events.at(-1)).toMatchObject({ type: "finish", finish: { reason: "length" } });
    expect(text.match(/"finish_reason":"\w+"/g)).toEqual(['"finish_reason":"length"']);
  });

  test("a record of another choice has another head and the same tail: it is not of the run", () => {
    const other = chatChunk({ content: "z" }).replace('"index":0', '"index":1');
    const stream = STREAMS.chat(["a", "b", "c"]).replace(chatChunk({ content: "c" }), (found) => other + found);
    const text = joined(same(stream).events).find((each) => each.type === "block-delta");
    expect(text).toEqual({ type: "block-delta", text: "abc" });
  });
});

test("without numbers what comes behind another block's start is that block's, whatever the records before it look like", () => {
  const start = event({ type: "content_block_start", content_block: { type: "text", text: "" } } as { type: string });
  const stream = STREAMS.messages(["a", "b", "c", "d"]).replaceAll('"index":0,', "");
  const records = stream.split(/(?<=\n\n)/);
  const at = records.findIndex((record) => record.includes('"text":"c"'));
  const two = [...records.slice(0, at), start, ...records.slice(at)].join("");
  const [inRuns, single] = [true, false].map((each) => relabel("messages", two, [], each).events);
  expect(joined(inRuns ?? [])).toEqual(joined(single ?? []));
  const texts = joined(inRuns ?? []).flatMap((each) => (each.type === "block-delta" ? [each.text] : []));
  expect(texts).toEqual(["ab", "cd"]);
});
