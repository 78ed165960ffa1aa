import type { Socket } from "bun";
import { isRight } from "./wire.ts";

export type LoadOptions = {
  port: number;
  request: Uint8Array;
  /** Connections that ask one after the other, each kept open. */
  connections: number;
  /** Answers to collect in all. */
  requests: number;
  /** Events of each stream; 0 for whole replies. */
  events: number;
  /** Called once when all connections have had their first byte of an answer. */
  onAllAnswering?: () => void;
};

export type LoadResult = { right: number; wrong: number; seconds: number; p50Us: number; p99Us: number };

type State = { text: string; startedAt: number; busy: boolean; answered: boolean };

/** A whole answer's body, or undefined while it is incomplete. Chunks are taken apart: their borders may fall inside an event. */
function readBody(text: string): { status: string; body: string } | undefined {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const status = text.slice(9, 12);
  const head = text.slice(0, headEnd).toLowerCase();
  const rest = headEnd + 4;
  const length = /\ncontent-length: *(\d+)/.exec(head)?.[1];
  if (length !== undefined) {
    const body = text.slice(rest, rest + Number(length));
    return body.length === Number(length) ? { status, body } : undefined;
  }
  if (!text.endsWith("\r\n0\r\n\r\n")) return undefined;
  let body = "";
  for (let at = rest; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    if (!(size > 0)) return { status, body };
    body += text.slice(lineEnd + 2, lineEnd + 2 + size);
    at = lineEnd + 2 + size + 2;
  }
}

const quantile = (sorted: Float64Array, share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN;

/** Asks until `requests` answers have come, checks each, and times them. Raw sockets: it must cost less than what it measures. */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const { port, request, connections, requests, events } = options;
  const latencies: number[] = [];
  let right = 0;
  let wrong = 0;
  let asked = 0;
  let answering = 0;
  const { promise: done, resolve } = Promise.withResolvers<void>();

  const ask = (socket: Socket<State>) => {
    if (asked >= requests) {
      socket.data.busy = false;
      socket.end();
      return;
    }
    asked++;
    socket.data.text = "";
    socket.data.busy = true;
    socket.data.startedAt = performance.now();
    socket.write(request);
  };
  const count = (isGood: boolean) => {
    if (isGood) right++;
    else wrong++;
    if (right + wrong >= requests) resolve();
  };
  const connect = () =>
    Bun.connect<State>({
      hostname: "127.0.0.1",
      port,
      socket: {
        open(socket) {
          socket.setNoDelay(true);
          socket.data = { text: "", startedAt: 0, busy: false, answered: false };
          ask(socket);
        },
        data(socket, bytes) {
          const { data } = socket;
          data.text += bytes.toString("latin1");
          if (!data.answered) {
            data.answered = true;
            answering++;
            if (answering === connections) options.onAllAnswering?.();
          }
          const answer = readBody(data.text);
          if (!answer) return;
          latencies.push((performance.now() - data.startedAt) * 1000);
          count(answer.status === "200" && isRight(answer.body, events));
          ask(socket);
        },
        close(socket) {
          if (!socket.data.busy) return;
          count(false);
          if (asked < requests) void connect();
        },
        connectError() {
          asked++;
          count(false);
        },
      },
    });

  const startedAt = performance.now();
  await Promise.all(Array.from({ length: connections }, connect));
  await done;
  const seconds = (performance.now() - startedAt) / 1000;
  const sorted = Float64Array.from(latencies).sort();
  return { right, wrong, seconds, p50Us: quantile(sorted, 0.5), p99Us: quantile(sorted, 0.99) };
}
