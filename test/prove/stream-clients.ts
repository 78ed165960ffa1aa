/**
 * Many clients of streams in a process of their own, on raw sockets, so that ten thousand cost little: `bun test/prove/stream-clients.ts`, started by
 * {@link StreamClients}, which tells it what to do.
 */
import type { Socket, Subprocess } from "bun";

/** Connections that are being made at the same time. */
const OPENING = 100;
/** What has come of an answer is looked at together with so much of what came before, characters: marks may be cut in two. */
const KEPT = 16;

/** What became of the connections so far. */
export type ClientCounts = {
  open: number;
  /** Answers that began with 200. */
  begun: number;
  /** Connections that were sent at least one event, and at least `pings` pings. */
  spoken: number;
  pinged: number;
  events: number;
  /** Connections that the other side closed, answers of another status, error records. */
  faults: number;
  fault: string;
};

/** How connections are left: as a program does that closes them, or as a machine that is gone. */
export type Leaving = "close" | "reset";

type Order =
  | { do: "open"; port: number; request: string; count: number; answered: boolean }
  | { do: "count"; pings: number }
  | { do: "leave"; how: Leaving };

type State = { tail: string; begun: boolean; events: number; pings: number; left: boolean; onBegun?: () => void };

const connections = new Set<Socket<State>>();
const faults = { count: 0, first: "" };

function fault(text: string): void {
  faults.count++;
  faults.first ||= text.slice(0, 300);
}

const countOf = (text: string, mark: string) => text.split(mark).length - 1;

/** Counts the marks that end in what has just come. */
function countNew(state: State, text: string, mark: string): number {
  return countOf(state.tail.slice(-(mark.length - 1)) + text, mark);
}

function read(socket: Socket<State>, bytes: Buffer): void {
  const state = socket.data;
  const text = bytes.toString("latin1");
  if (!state.begun) {
    if (!text.startsWith("HTTP/1.1 200")) fault(text);
    state.begun = true;
    state.onBegun?.();
    delete state.onBegun;
  }
  state.events += countNew(state, text, "data: ");
  state.pings += countNew(state, text, "\n: ping");
  if (text.includes('"error"')) fault(text);
  state.tail = (state.tail + text).slice(-KEPT);
}

/** Resolves when the request is sent, or with `answered` when the first of its answer has come. */
async function connect(port: number, request: Uint8Array, answered: boolean): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  await Bun.connect<State>({
    hostname: "127.0.0.1",
    port,
    socket: {
      open(socket) {
        socket.data = {
          tail: "",
          begun: false,
          events: 0,
          pings: 0,
          left: false,
          ...(answered && { onBegun: resolve }),
        };
        connections.add(socket);
        socket.write(request);
        if (!answered) resolve();
      },
      data: read,
      close(socket) {
        connections.delete(socket);
        socket.data.onBegun?.();
        if (!socket.data.left) fault("the gateway closed the connection");
      },
      connectError(_socket, error) {
        fault(String(error));
        resolve();
      },
    },
  });
  await promise;
}

async function open(port: number, request: string, count: number, answered: boolean): Promise<void> {
  const bytes = new TextEncoder().encode(request);
  let left = count;
  const line = async () => {
    while (left-- > 0) await connect(port, bytes, answered);
  };
  await Promise.all(Array.from({ length: OPENING }, line));
}

function count(pings: number): ClientCounts {
  const counts = { open: connections.size, begun: 0, spoken: 0, pinged: 0, events: 0 };
  for (const { data } of connections) {
    if (data.begun) counts.begun++;
    if (data.events > 0) counts.spoken++;
    if (data.pings >= pings) counts.pinged++;
    counts.events += data.events;
  }
  return { ...counts, faults: faults.count, fault: faults.first };
}

function leave(how: Leaving): void {
  for (const socket of connections) {
    socket.data.left = true;
    if (how === "close") socket.end();
    else socket.terminate();
  }
}

/** The clients' process, seen from the one that proves something. */
export class StreamClients {
  readonly #child: Subprocess;
  #answer: ((counts: ClientCounts) => void) | undefined;

  constructor() {
    this.#child = Bun.spawn([process.execPath, import.meta.path], {
      ...{ stdin: "ignore", stdout: "inherit", stderr: "inherit" },
      ipc: (message: ClientCounts) => this.#answer?.(message),
    });
  }

  #order(order: Order): Promise<ClientCounts> {
    const { promise, resolve } = Promise.withResolvers<ClientCounts>();
    this.#answer = resolve;
    this.#child.send(order);
    return promise;
  }

  /**
   * Opens so many more connections and sends `request`, HTTP as it goes over the wire, on each. Resolves when all are sent. With `answered` each of a
   * hundred clients waits for the beginning of its answer before it asks again: all at once, they would be an overload, and be told so.
   */
  open(port: number, request: string, count: number, answered = false): Promise<ClientCounts> {
    return this.#order({ do: "open", port, request, count, answered });
  }

  /** What has come so far; `pings`: how many a connection needs to count as pinged. */
  count(pings = 1): Promise<ClientCounts> {
    return this.#order({ do: "count", pings });
  }

  /** Leaves every connection. */
  leave(how: Leaving): Promise<ClientCounts> {
    return this.#order({ do: "leave", how });
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }
}

async function obey(order: Order): Promise<ClientCounts> {
  if (order.do === "open") await open(order.port, order.request, order.count, order.answered);
  else if (order.do === "leave") leave(order.how);
  return count(order.do === "count" ? order.pings : 1);
}

if (import.meta.main) {
  process.on("message", (order: Order) => void obey(order).then((counts) => process.send?.(counts)));
}
