import type { Socket } from "bun";
import { isRight } from "./wire.ts";

export type LoadOptions = {
  port: number;
  request: Uint8Array;
  /** How many connections there are, each kept open; each asks again as soon as it is answered. */
  connections: number;
  /** Answers to collect in all. */
  requests: number;
  /** Events of each stream; 0 for whole replies. */
  events: number;
  /** The status of a right answer. Default: 200. */
  status?: string;
  /** Checks an answer's body, for answers that are no generations. */
  check?: (body: string) => boolean;
  /** Called once when all connections have had their first byte of an answer. */
  onAllAnswering?: () => void;
};

export type LoadResult = { right: number; wrong: number; seconds: number; p50Us: number; p99Us: number };

type State = { text: string; startedAt: number; busy: boolean; answered: boolean; unsent: Uint8Array | undefined };

/** The body of a whole answer; undefined while it is incomplete. Chunks are joined, since an event may be cut between two. */
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

/** Writes what the socket takes and keeps the rest: large bodies do not fit into its buffer. */
function send(socket: Socket<State>, bytes: Uint8Array | undefined): void {
  if (!bytes) return;
  const written = Math.max(0, socket.write(bytes));
  socket.data.unsent = written < bytes.length ? bytes.subarray(written) : undefined;
}

/** One run of the load: what has been asked and what came of it. */
class Load {
  right = 0;
  wrong = 0;
  readonly latencies: number[] = [];
  readonly #finished = Promise.withResolvers<void>();
  readonly done = this.#finished.promise;
  #asked = 0;
  #answering = 0;

  constructor(private readonly options: LoadOptions) {}

  connect(): Promise<unknown> {
    return Bun.connect<State>({
      hostname: "127.0.0.1",
      port: this.options.port,
      socket: {
        open: (socket) => {
          socket.setNoDelay(true);
          socket.data = { text: "", startedAt: 0, busy: false, answered: false, unsent: undefined };
          this.#ask(socket);
        },
        data: (socket, bytes) => this.#take(socket, bytes),
        drain: (socket) => send(socket, socket.data.unsent),
        close: (socket) => this.#lose(socket),
        connectError: () => {
          this.#asked++;
          this.#count(false);
        },
      },
    });
  }

  #ask(socket: Socket<State>): void {
    const { data } = socket;
    if (this.#asked >= this.options.requests) {
      data.busy = false;
      socket.end();
      return;
    }
    this.#asked++;
    data.text = "";
    data.busy = true;
    data.startedAt = performance.now();
    send(socket, this.options.request);
  }

  #take(socket: Socket<State>, bytes: Buffer): void {
    const { data } = socket;
    const { connections, events, onAllAnswering } = this.options;
    data.text += bytes.toString("latin1");
    if (!data.answered) {
      data.answered = true;
      this.#answering++;
      if (this.#answering === connections) onAllAnswering?.();
    }
    const answer = readBody(data.text);
    if (!answer) return;
    this.latencies.push((performance.now() - data.startedAt) * 1000);
    const { check, status = "200" } = this.options;
    this.#count(answer.status === status && (check ? check(answer.body) : isRight(answer.body, events)));
    this.#ask(socket);
  }

  #lose(socket: Socket<State>): void {
    if (!socket.data.busy) return;
    this.#count(false);
    if (this.#asked < this.options.requests) void this.connect();
  }

  #count(isGood: boolean): void {
    if (isGood) this.right++;
    else this.wrong++;
    if (this.right + this.wrong >= this.options.requests) this.#finished.resolve();
  }
}

/** Asks until `requests` answers have come, checks each, and times them. Raw sockets: it must cost less than what it measures. */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const load = new Load(options);
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: options.connections }, () => load.connect()));
  await load.done;
  const seconds = (performance.now() - startedAt) / 1000;
  const sorted = Float64Array.from(load.latencies).sort();
  const { right, wrong } = load;
  return { right, wrong, seconds, p50Us: quantile(sorted, 0.5), p99Us: quantile(sorted, 0.99) };
}
