import { ANSWERED, broken, refused } from "./fault-outcomes.ts";
import type { RawAnswer } from "./fault-sockets.ts";
import type { Fault } from "./fault-table.ts";
import { FAULT_WIRES, soundStreamOf } from "./fault-wires.ts";
import { type Mode, PIECES } from "./wires.ts";

/** What a vendor of the chat dialect says, as bytes on the wire: what is odd or broken here is its HTTP (RFC 9112), not its dialect. */
const wire = FAULT_WIRES.chat;
const bodyOf = (mode: Mode) => (mode === "stream" ? soundStreamOf(wire) : JSON.stringify(wire.reply()));
const typeOf = (mode: Mode) => `content-type: ${mode === "stream" ? "text/event-stream" : "application/json"}\r\n`;
const bytesOf = (text: string) => Buffer.byteLength(text);
const OK = "HTTP/1.1 200 OK\r\n";

/** Status line, type, these fields, body. */
const answer = (mode: Mode, fields: string, body: string, start = OK) => `${start}${typeOf(mode)}${fields}\r\n${body}`;
const whole = (mode: Mode, more = "", start = OK): string => {
  const body = bodyOf(mode);
  return answer(mode, `content-length: ${bytesOf(body)}\r\n${more}`, body, start);
};
const chunk = (text: string) => `${bytesOf(text).toString(16)}\r\n${text}\r\n`;
const CHUNKED = "transfer-encoding: chunked\r\n";
/** The body in so many chunks. */
function chunked(mode: Mode, end = "0\r\n\r\n", size = (text: string) => chunk(text)): string {
  const body = bodyOf(mode);
  const third = Math.ceil(body.length / 3);
  const parts = [body.slice(0, third), body.slice(third, 2 * third), body.slice(2 * third)];
  return answer(mode, CHUNKED, parts.map(size).join("") + end);
}

type Written = string | RawAnswer["pieces"];
const send = (pieces: Written, finish: RawAnswer["finish"] = "keep"): RawAnswer => ({
  pieces: typeof pieces === "string" ? [pieces] : pieces,
  finish,
});
const eachByte = (text: string) => [...Buffer.from(text)].map((byte) => Uint8Array.of(byte));

/** HTTP that is odd, and understood. */
const UNDERSTOOD: [string, (mode: Mode) => RawAnswer][] = [
  ["no reason phrase", (mode) => send(whole(mode, "", "HTTP/1.1 200\r\n"))],
  ["HTTP/1.0 with a length", (mode) => send(whole(mode, "", "HTTP/1.0 200 OK\r\n"), "end")],
  ["HTTP/1.0 up to the end", (mode) => send(answer(mode, "", bodyOf(mode), "HTTP/1.0 200 OK\r\n"), "end")],
  ["100 Continue first", (mode) => send(`HTTP/1.1 100 Continue\r\n\r\n${whole(mode)}`)],
  ["103 Early Hints first", (mode) => send(["HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n", whole(mode)])],
  ["names in capitals", (mode) => send(whole(mode).replace("content-length", "CONTENT-LENGTH"))],
  ["no space behind a colon", (mode) => send(whole(mode).replaceAll(/(content-\w+): /g, "$1:"))],
  ["tabs around a value", (mode) => send(whole(mode).replace(/(content-length:) (\d+)/, "$1\t $2 \t"))],
  ["line feeds alone in the head", (mode) => send(whole(mode).replaceAll("\r\n", "\n"))],
  ["a hundred fields", (mode) => send(whole(mode, "x-field: value\r\n".repeat(100)))],
  ["a field of 30 KB", (mode) => send(whole(mode, `x-long: ${"v".repeat(30_000)}\r\n`))],
  ["a field that is not ASCII", (mode) => send(whole(mode, "x-name: d\xe9j\xe0 vu\r\n"))],
  ["its length twice", (mode) => send(whole(mode, `content-length: ${bytesOf(bodyOf(mode))}\r\n`))],
  ["a length with noughts in front", (mode) => send(whole(mode).replace("content-length: ", "content-length: 000"))],
  ["Connection: close", (mode) => send(whole(mode, "connection: close\r\n"), "end")],
  ["Connection: close, and it stays open", (mode) => send(whole(mode, "connection: close\r\n"))],
  ["no length, up to the end", (mode) => send(answer(mode, "", bodyOf(mode)), "end")],
  ["chunks", (mode) => send(chunked(mode))],
  [
    "chunks with extensions",
    (mode) => send(chunked(mode, "0\r\n\r\n", (text) => chunk(text).replace("\r\n", ';a="b"\r\n'))),
  ],
  ["chunks with noughts in front", (mode) => send(chunked(mode, "000\r\n\r\n", (text) => `000${chunk(text)}`))],
  [
    "chunks with capitals",
    (mode) => send(chunked(mode, "0\r\n\r\n", (text) => chunk(text).replace(/^\w+/, (size) => size.toUpperCase()))),
  ],
  ["fields behind the last chunk", (mode) => send(chunked(mode, "0\r\nx-trailer: 1\r\nx-more: 2\r\n\r\n"))],
  ["a byte at a time", (mode) => send(eachByte(chunked(mode)))],
  ["a length beside chunks", (mode) => send(chunked(mode).replace(CHUNKED, `content-length: 7\r\n${CHUNKED}`))],
  ["more than its length", (mode) => send(`${whole(mode)}surplus`)],
  ["a second answer that nobody asked for", (mode) => send(whole(mode) + whole(mode).replaceAll(PIECES[0], "Bye. "))],
  ["a reset behind its end", (mode) => send([whole(mode)], "reset")],
];

/** What cannot be understood, or in two ways: nothing of it reaches a client. */
const BROKEN: [string, (mode: Mode) => RawAnswer][] = [
  ["garbage", () => send("SSH-2.0-OpenSSH_9.9\r\n\r\n")],
  ["HTTP/2", () => send("HTTP/2 200\r\ncontent-length: 2\r\n\r\n{}")],
  ["HTTP/0.9", () => send("<html>old</html>", "end")],
  ["a status of two digits", (mode) => send(whole(mode, "", "HTTP/1.1 20 OK\r\n"))],
  ["a status of four digits", (mode) => send(whole(mode, "", "HTTP/1.1 2000 OK\r\n"))],
  ["a status that is none", (mode) => send(whole(mode, "", "HTTP/1.1 OK 200\r\n"))],
  ["a field without a colon", (mode) => send(whole(mode, "x-broken\r\n"))],
  ["a field without a name", (mode) => send(whole(mode, ": value\r\n"))],
  ["a space before the colon", (mode) => send(whole(mode, "x-odd : value\r\n"))],
  ["a field on two lines", (mode) => send(whole(mode, "x-folded: a\r\n b\r\n"))],
  ["a NUL in a name", (mode) => send(whole(mode, "x-\0: a\r\n"))],
  ["a length below nothing", (mode) => send(answer(mode, "content-length: -1\r\n", bodyOf(mode)))],
  ["a length in words", (mode) => send(answer(mode, "content-length: many\r\n", bodyOf(mode)))],
  ["a length with an exponent", (mode) => send(answer(mode, "content-length: 1e3\r\n", bodyOf(mode)))],
  ["a length with a sign", (mode) => send(answer(mode, "content-length: +7\r\n", bodyOf(mode)))],
  ["two lengths", (mode) => send(whole(mode, "content-length: 7\r\n"))],
  ["a length beyond all numbers", (mode) => send(answer(mode, `content-length: ${"9".repeat(40)}\r\n`, bodyOf(mode)))],
  ["a coding of the transfer", (mode) => send(chunked(mode).replace("chunked", "gzip, chunked"))],
  [
    "an unknown coding of the transfer",
    (mode) => send(answer(mode, "transfer-encoding: identity\r\n", bodyOf(mode)), "end"),
  ],
  ["a head of 80 KB", (mode) => send(whole(mode, `x-long: ${"v".repeat(80_000)}\r\n`))],
  ["a thousand fields", (mode) => send(whole(mode, "x-field: value\r\n".repeat(1_000)))],
  ["early hints without end", () => send("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100))],
  ["another protocol", () => send("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n")],
  ["a close inside the head", () => send("HTTP/1.1 200 OK\r\ncontent-ty", "end")],
  ["a close inside the status line", () => send("HTTP/1.", "end")],
];

/** Chunks that break off or lie: the first half of what is said has come by then. */
const half =
  (then: string) =>
  (mode: Mode, shown: Promise<void>): RawAnswer => {
    const begun = mode === "stream" ? wire.head() + wire.text(PIECES[0]) : bodyOf(mode).slice(0, -40);
    const start = answer(mode, CHUNKED, chunk(begun));
    return send(mode === "stream" ? [start, shown, then] : [start, then], "end");
  };
const LYING: [string, NonNullable<Fault["raw"]>][] = [
  ["a chunk of a size that is none", half("zz\r\nwhat\r\n")],
  ["a chunk without a size", half("\r\nwhat\r\n")],
  ["a chunk of a size below nothing", half("-5\r\nwhat\r\n")],
  ["a chunk of a size beyond all numbers", half(`${"f".repeat(20)}\r\nwhat\r\n`)],
  ["a chunk longer than it says", half("2\r\nwhat\r\n")],
  ["a chunk's line without end", half(`4;${"e".repeat(20_000)}`)],
  ["a close inside a chunk", half("ff\r\nwhat")],
  ["a close inside a chunk's size", half("f")],
  ["a close before the last chunk", half("")],
];

const CLIENTS = ["chat"] as const;
const LOST = refused("upstream_error", "false");

/** Faults of HTTP itself: part of 25 and 28 of reliability 8.3, in the shapes that a client of one's own has to know. */
export const RAW_FAULTS: readonly Fault[] = [
  ...UNDERSTOOD.map(([name, raw]) => ({ name, raw, outcome: ANSWERED })),
  ...BROKEN.map(([name, raw]) => ({ name, raw, outcome: LOST, failsOver: true })),
  ...LYING.map(([name, raw]) => ({
    ...{ name, raw, modes: ["blocking"] as const, outcome: LOST, failsOver: true },
  })),
  ...LYING.map(([name, raw]) => ({
    ...{ name, raw, modes: ["stream"] as const, outcome: broken("stream_truncated") },
  })),
  {
    name: "a close behind the stream's terminator, before the last chunk",
    modes: ["stream"] as const,
    raw: (mode: Mode) => send(chunked(mode, ""), "end"),
    outcome: ANSWERED,
  },
  {
    name: "204",
    raw: () => send("HTTP/1.1 204 No Content\r\n\r\n"),
    outcome: {
      blocking: refused("upstream_error", "true"),
      stream: refused("stream_truncated", "true"),
    },
    failsOver: true,
  },
].map((fault) => ({ ...fault, number: 28, clients: CLIENTS, place: "raw" as const }));
