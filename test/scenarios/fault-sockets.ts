import { dlopen, FFIType } from "bun:ffi";
import { type AddressInfo, connect, createServer } from "node:net";
import type { Socket } from "bun";

/** A listener that lets everybody connect and hangs up at once. */
export type HangUp = { url: string; connections(): number; reset(): void; close(): void };

/** Starts one on a free loopback port; it hangs up with a reset, or as one does who has nothing to say. */
export function startHangUp(how: "reset" | "close"): HangUp {
  let connections = 0;
  const server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        connections++;
        if (how === "reset") socket.terminate();
        else socket.end();
      },
      data() {},
      error() {},
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    connections: () => connections,
    reset() {
      connections = 0;
    },
    close: () => server.stop(true),
  };
}

/** What is written of a raw answer: bytes as they stand. */
export type RawAnswer = {
  /** Pieces, one turn of the loop between two of them; a promise holds the rest back. */
  pieces: readonly (string | Uint8Array | Promise<unknown>)[];
  /** What becomes of the connection afterwards. */
  finish: "keep" | "end" | "reset";
};

/** A vendor that writes bytes instead of HTTP. */
export type RawVendor = {
  url: string;
  /** Requests that came whole, as text. */
  calls: string[];
  /** Connections that were made. */
  connections(): number;
  /** Connections that are open. */
  open(): number;
  /** The answers to come, one for each request. */
  answer(...answers: readonly RawAnswer[]): void;
  /** Forgets the answers to come. */
  forget(): void;
  reset(): void;
  close(): void;
};

type State = { text: string };

/** Takes one whole request off what has come; undefined while it is not whole. */
function takeRequest(state: State): string | undefined {
  const end = state.text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(state.text.slice(0, end))?.[1] ?? 0);
  if (state.text.length < end + 4 + length) return undefined;
  const request = state.text.slice(0, end + 4 + length);
  state.text = state.text.slice(end + 4 + length);
  return request;
}

async function write(socket: Socket<State>, { pieces, finish }: RawAnswer): Promise<void> {
  for (const piece of pieces) {
    if (piece instanceof Promise) await piece;
    else socket.write(piece);
    socket.flush();
    if (pieces.length > 1) await new Promise<void>((resolve) => setImmediate(resolve));
  }
  if (finish === "end") socket.end();
  else if (finish === "reset") socket.terminate();
}

/** Starts one on a free loopback port, over TLS where a certificate is given. Answers must fit into a socket's buffer. */
export function startRawVendor(tls?: { cert: string; key: string }): RawVendor {
  const calls: string[] = [];
  const answers: RawAnswer[] = [];
  let connections = 0;
  let open = 0;
  const server = Bun.listen<State>({
    hostname: "127.0.0.1",
    port: 0,
    ...(tls && { tls }),
    socket: {
      open(socket) {
        connections++;
        open++;
        socket.data = { text: "" };
      },
      data(socket, bytes) {
        socket.data.text += bytes.toString("latin1");
        const request = takeRequest(socket.data);
        if (request === undefined) return;
        calls.push(request);
        const answer = answers.shift();
        if (answer) void write(socket, answer);
        else socket.terminate();
      },
      close() {
        open--;
      },
      error() {},
    },
  });
  return {
    url: `${tls ? "https" : "http"}://127.0.0.1:${server.port}`,
    calls,
    connections: () => connections,
    open: () => open,
    answer: (...more) => void answers.push(...more),
    forget() {
      answers.length = 0;
    },
    reset() {
      calls.length = 0;
      answers.length = 0;
      connections = 0;
    },
    close: () => server.stop(true),
  };
}

/** Hands on what a caller and a vendor over TLS say, until the vendor has a request: its answer becomes what is no TLS. */
export function startTlsBreaker(vendor: RawVendor): Pick<RawVendor, "url" | "close"> {
  const server = createServer((caller) => {
    const before = vendor.calls.length;
    const line = connect(Number(new URL(vendor.url).port), "127.0.0.1");
    caller.pipe(line);
    line.on("data", (bytes) => caller.write(vendor.calls.length > before ? "HTTP/1.1 400 Bad Request\r\n\r\n" : bytes));
    for (const [one, other] of [
      [caller, line],
      [line, caller],
    ] as const) {
      one.on("error", () => {}).on("close", () => other.destroy());
    }
  }).listen(0, "127.0.0.1");
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => void server.close(),
  };
}

/** An address where the first packet of a connection is dropped, as behind a firewall that says nothing. */
export type BlackHole = { url: string; close(): void };

const AF_INET = 2;
const SOCK_STREAM = 1;
/** Of a `sockaddr_in`: family, port, address, and eight bytes of nothing. */
const ADDRESS_BYTES = 16;

/** The system's own calls for sockets; undefined where they are not Linux's, or its library has another name (musl). */
function openSystem() {
  if (process.platform !== "linux") return undefined;
  const { i32, ptr, u32 } = FFIType;
  try {
    return dlopen("libc.so.6", {
      socket: { args: [i32, i32, i32], returns: i32 },
      bind: { args: [i32, ptr, u32], returns: i32 },
      listen: { args: [i32, i32], returns: i32 },
      getsockname: { args: [i32, ptr, ptr], returns: i32 },
      connect: { args: [i32, ptr, u32], returns: i32 },
      close: { args: [i32], returns: i32 },
    }).symbols;
  } catch {
    return undefined;
  }
}

/**
 * Makes one on a free loopback port: a listener that never accepts and whose queue is full. Needs the system's own calls, since no runtime makes a queue so
 * short; undefined where there are none.
 */
export function startBlackHole(): BlackHole | undefined {
  const system = openSystem();
  if (!system) return undefined;
  const address = Buffer.alloc(ADDRESS_BYTES);
  address.writeUInt16LE(AF_INET, 0);
  address.set([127, 0, 0, 1], 4);
  const listener = system.socket(AF_INET, SOCK_STREAM, 0);
  const length = new Uint32Array([ADDRESS_BYTES]);
  const failed = [
    system.bind(listener, address, ADDRESS_BYTES),
    system.getsockname(listener, address, length),
    system.listen(listener, 0),
  ].some((result) => result !== 0);
  // The one connection that a queue of length 0 takes.
  const filler = system.socket(AF_INET, SOCK_STREAM, 0);
  if (failed || system.connect(filler, address, ADDRESS_BYTES) !== 0) throw new Error("no black hole could be made");
  return {
    url: `http://127.0.0.1:${address.readUInt16BE(2)}`,
    close() {
      system.close(filler);
      system.close(listener);
    },
  };
}
