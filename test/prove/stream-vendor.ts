/**
 * A vendor for proofs of many streams, a process of its own on raw sockets: `bun test/prove/stream-vendor.ts`. The model of a request says how it is
 * answered: `whole` at once; `paced` as a stream of one event a second without end; `silent` as a stream that says one word and then nothing; `mute`
 * never. `GET /open` tells how many calls are under way, and how many there were. Prints its port as JSON.
 */
import type { Socket } from "bun";

/** Each open stream of `paced` is written to once in so many steps, one step every {@link STEP_MS}. */
const STEPS = 20;
const STEP_MS = 50;

/** What the vendor answers with to `GET /open`. */
export type VendorCounts = { open: number; calls: number };

type State = { received: string; slot: number; open: boolean };

const HEAD_END = "\r\n\r\n";
const encode = (text: string) => new TextEncoder().encode(text);
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const record = (delta: unknown) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;

const STREAM_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const BEGIN = encode(STREAM_HEAD + chunk(record({ role: "assistant", content: "Well" })));
const EVENT = encode(chunk(record({ content: " well" })));
const REPLY = JSON.stringify({
  ...{ id: "c", object: "chat.completion", created: 1, model: "m" },
  choices: [{ index: 0, message: { role: "assistant", content: "Well." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
});
const whole = (body: string) =>
  encode(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
const WHOLE = whole(REPLY);

const slots = Array.from({ length: STEPS }, () => new Set<Socket<State>>());
let open = 0;
let calls = 0;

/** Takes one whole request off what has come; undefined while it is not all there. */
function takeRequest(state: State): { path: string; body: string } | undefined {
  const { received } = state;
  const headEnd = received.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const length = Number(/content-length: *(\d+)/i.exec(received.slice(0, headEnd))?.[1] ?? 0);
  const end = headEnd + HEAD_END.length + length;
  if (received.length < end) return undefined;
  state.received = received.slice(end);
  return { path: received.slice(0, headEnd).split(" ")[1] ?? "", body: received.slice(headEnd + HEAD_END.length, end) };
}

function answer(socket: Socket<State>, { path, body }: { path: string; body: string }): void {
  if (path === "/open") {
    socket.write(whole(JSON.stringify({ open, calls } satisfies VendorCounts)));
    return;
  }
  calls++;
  const model = /"model": *"([a-z]+)"/.exec(body)?.[1];
  if (model === "whole") {
    socket.write(WHOLE);
    return;
  }
  open++;
  socket.data.open = true;
  if (model === "mute") return;
  socket.write(BEGIN);
  if (model === "silent") return;
  socket.data.slot = calls % STEPS;
  slots[socket.data.slot]?.add(socket);
}

const listener = Bun.listen<State>({
  hostname: "127.0.0.1",
  port: 0,
  socket: {
    open(socket) {
      socket.setNoDelay(true);
      socket.data = { received: "", slot: -1, open: false };
    },
    data(socket, bytes) {
      socket.data.received += bytes.toString("latin1");
      for (let taken = takeRequest(socket.data); taken; taken = takeRequest(socket.data)) answer(socket, taken);
    },
    close(socket) {
      slots[socket.data.slot]?.delete(socket);
      if (socket.data.open) open--;
    },
  },
});

let step = 0;
setInterval(() => {
  step = (step + 1) % STEPS;
  for (const socket of slots[step] ?? []) socket.write(EVENT);
}, STEP_MS);

console.log(JSON.stringify({ port: listener.port }));
