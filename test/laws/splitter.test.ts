import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Event } from "../../src/canon/events.ts";
import { UPSTREAM_DIALECTS, type UpstreamDialectName } from "../../src/dialects/dialect.ts";
import { FrameSplitter } from "../../src/dialects/frames.ts";
import { upstreamDialects } from "../../src/dialects/index.ts";

// Tens of thousands of cuts are read from end to end: on a busy machine in more than the runner's five seconds.
setDefaultTimeout(60_000);

/** A record: its event's name, where it has one, and its data. */
type Sse = readonly [event: string | undefined, data: string];

/** Two records as the vendors of a dialect send them, as short as they can be: cut at every two places, a long stream takes minutes. */
const RECORDS: Record<UpstreamDialectName, readonly [Sse, Sse]> = {
  chat: [
    [undefined, '{"choices":[{"delta":{"content":"é😀"}}]}'],
    [undefined, "[DONE]"],
  ],
  messages: [
    ["content_block_delta", '{"delta":{"text":"é😀"}}'],
    ["message_stop", '{"type":"message_stop"}'],
  ],
  responses: [
    ["response.output_text.delta", '{"delta":"é😀"}'],
    ["response.completed", '{"response":{}}'],
  ],
  gemini: [
    [undefined, '{"candidates":[{"content":{"parts":[{"text":"é😀"}]}}]}'],
    [undefined, '{"candidates":[]}'],
  ],
};

/** A record with this line ending, the field's space as its vendor writes it. */
const write =
  (end: string, space = " ") =>
  ([event, data]: Sse): string =>
    `${event === undefined ? "" : `event:${space}${event}${end}`}data:${space}${data}${end}${end}`;
const all = (records: readonly Sse[], end: string, space?: string) => records.map(write(end, space)).join("");

/** Twelve ways in which streams are framed on the wire; all say the same two records. */
const FRAMINGS: Record<string, (records: readonly [Sse, Sse]) => string> = {
  "line feeds": (records) => all(records, "\n"),
  "carriage returns and line feeds": (records) => all(records, "\r\n"),
  "carriage returns": (records) => all(records, "\r"),
  "an ending for each record": ([one, two]) => write("\r\n")(one) + write("\n")(two),
  "carriage return behind line feed": ([one, two]) => write("\n")(one) + write("\r")(two),
  "no space behind the colon": (records) => all(records, "\n", ""),
  "a byte order mark": (records) => `\ufeff${all(records, "\n")}`,
  comments: ([one, two]) => `: hi\n\n${write("\n")(one)}:\n\n${write("\n")(two)}`,
  "comments between carriage returns": ([one, two]) =>
    `:\r\n\r\n${write("\r\n")(one)}: ping\r\n\r\n${write("\r\n")(two)}`,
  "names and waits": ([one, two]) => `retry: 9\nid: 1\n${write("\n")(one)}id\n${write("\n")(two)}`,
  "blank lines": ([one, two]) => `\n\n${write("\n")(one)}\n\n\n${write("\n")(two)}\n`,
  "no last blank line": ([one, two]) => write("\r\n")(one) + write("\n")(two).trimEnd(),
};

/** What the splitter makes of bytes cut at these places, decoded as the relay does it. */
function split(bytes: Uint8Array, cuts: readonly number[]): Sse[] {
  const splitter = new FrameSplitter();
  const decoder = new TextDecoder();
  const found: Sse[] = [];
  const take = () => {
    for (let frame = splitter.next(); frame; frame = splitter.next()) found.push([frame.event, frame.data]);
  };
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    splitter.add(decoder.decode(bytes.subarray(from, cut), { stream: true }));
    from = cut;
    take();
  }
  splitter.add(decoder.decode());
  take();
  for (const { event, data } of splitter.end()) found.push([event, data]);
  return found;
}

const isSame = (found: readonly Sse[], wanted: readonly Sse[]) =>
  found.length === wanted.length &&
  found.every(([event, data], at) => event === wanted[at]?.[0] && data === wanted[at]?.[1]);

const GOLDEN = UPSTREAM_DIALECTS.flatMap((dialect) =>
  Object.entries(FRAMINGS).map(([framing, frame]) => ({ dialect, framing, text: frame(RECORDS[dialect]) })),
);

describe("every one- and two-cut of twelve streams of each dialect, and byte by byte", () => {
  test("there are twelve of each", () => {
    expect(GOLDEN).toHaveLength(12 * UPSTREAM_DIALECTS.length);
  });

  test.each(GOLDEN)("$dialect, $framing", ({ dialect, text }) => {
    const bytes = new TextEncoder().encode(text);
    const wanted = RECORDS[dialect];
    expect(split(bytes, [])).toEqual([...wanted]);
    expect(split(bytes, Array.from(bytes.keys()))).toEqual([...wanted]);
    for (let first = 0; first <= bytes.length; first++) {
      for (let second = first; second <= bytes.length; second++) {
        if (isSame(split(bytes, [first, second]), wanted)) continue;
        throw new Error(`cut at ${first} and ${second}: ${JSON.stringify(split(bytes, [first, second]))}`);
      }
    }
  });
});

const FIXTURES = Bun.fileURLToPath(new URL("../fixtures/", import.meta.url));
const recordings = UPSTREAM_DIALECTS.map((dialect) => ({
  dialect,
  files: [...new Bun.Glob("*/{stream,upstream}.sse").scanSync(`${FIXTURES}${dialect}`)].sort(),
}));

/** Events of a recording cut at one place, the deltas of a block joined: runs of records are read as one. */
function read(dialect: UpstreamDialectName, bytes: Uint8Array, cut: number): string {
  const decoder = upstreamDialects[dialect].decoder({ quirks: {} });
  const splitter = new FrameSplitter();
  const text = new TextDecoder();
  const events: Event[] = [];
  const take = () => {
    while (!decoder.done) {
      const frame = splitter.next(decoder.pattern);
      if (!frame) return;
      events.push(...decoder.push(frame));
    }
  };
  for (const piece of [bytes.subarray(0, cut), bytes.subarray(cut)]) {
    splitter.add(text.decode(piece, { stream: true }));
    take();
  }
  for (const frame of splitter.end()) events.push(...decoder.push(frame));
  events.push(...decoder.end());
  return describeEvents(events);
}

function describeEvents(events: readonly Event[]): string {
  let out = "";
  for (const event of events) {
    if (event.type === "block-delta") out += event.text;
    else if (event.type === "error") out += `\nerror ${event.error.code}`;
    else out += `\n${JSON.stringify(event)}\n`;
  }
  // Names that are made up here differ each time.
  return out.replaceAll(/call_[0-9A-Za-z]{24}/g, "call_");
}

/** Bytes between two cuts of a recording: those of one dialect are long. */
const STEP: Record<UpstreamDialectName, number> = { chat: 1, messages: 1, responses: 5, gemini: 1 };

describe("recordings mean the same wherever they are cut, read as the relay reads them", () => {
  test.each(recordings)("$dialect", async ({ dialect, files }) => {
    expect(files.length).toBeGreaterThanOrEqual(12);
    let cuts = 0;
    for (const file of files) {
      const bytes = await Bun.file(`${FIXTURES}${dialect}/${file}`).bytes();
      const whole = read(dialect, bytes, bytes.length);
      for (let cut = 0; cut < bytes.length; cut += STEP[dialect]) {
        cuts++;
        const found = read(dialect, bytes, cut);
        if (found !== whole) throw new Error(`${file} cut at ${cut}:\n${found}\ninstead of\n${whole}`);
      }
    }
    expect(cuts).toBeGreaterThan(1_000);
  });
});
