import type { Socket } from "bun";
import { within } from "../support/wait.ts";

/** How long a client waits for what is to come, ms. */
const PATIENCE_MS = 15_000;
const HEAD_END = "\r\n\r\n";

/** One answer as its framing delimits it. */
export type WireAnswer = {
  status: number;
  version: string;
  /** Lower-case names; values of one name joined by ", ". */
  headers: Record<string, string>;
  framing: "none" | "length" | "chunked" | "close";
  /** Lengths of the chunks that it came in, without the last one. */
  chunks: number[];
  body: string;
};

type Taken = { answer: WireAnswer; length: number };

/** The head of an answer, strictly by RFC 9112. Throws Error for anything else. */
function readHead(text: string): Omit<WireAnswer, "framing" | "chunks" | "body"> {
  const [statusLine = "", ...lines] = text.split("\r\n");
  const [, version = "", status] = /^(HTTP\/1\.[01]) (\d{3}) [ -~]*$/.exec(statusLine) ?? [];
  if (status === undefined) throw new Error(`no status line: ${JSON.stringify(statusLine)}`);
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const [, name = "", value = ""] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ -~\t]*?)[ \t]*$/.exec(line) ?? [];
    if (name === "") throw new Error(`no header: ${JSON.stringify(line)}`);
    const before = headers[name.toLowerCase()];
    headers[name.toLowerCase()] = before === undefined ? value : `${before}, ${value}`;
  }
  return { status: Number(status), version, headers };
}

/** A chunked body that begins at `start`; undefined while it is not whole. Throws Error where it is not as RFC 9112 7.1 has it. */
function takeChunks(bytes: Buffer, start: number): { body: string; chunks: number[]; end: number } | undefined {
  const parts: Buffer[] = [];
  const chunks: number[] = [];
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const line = bytes.toString("latin1", at, lineEnd);
    if (!/^[0-9A-Fa-f]+$/.test(line)) throw new Error(`no chunk size: ${JSON.stringify(line)}`);
    const size = Number.parseInt(line, 16);
    const end = lineEnd + 2 + size;
    if (bytes.length < end + 2) return undefined;
    if (bytes.toString("latin1", end, end + 2) !== "\r\n") throw new Error(`a chunk of ${size} bytes ends elsewhere`);
    if (size === 0) return { body: Buffer.concat(parts).toString("utf8"), chunks, end: end + 2 };
    parts.push(bytes.subarray(lineEnd + 2, end));
    chunks.push(size);
    at = end + 2;
  }
}

/** The first answer of `bytes`; undefined while it is not whole. `over`: nothing more comes. */
function takeAnswer(bytes: Buffer, over: boolean, toHead: boolean): Taken | undefined {
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const head = readHead(bytes.toString("latin1", 0, headEnd));
  const start = headEnd + HEAD_END.length;
  const { status, headers } = head;
  const none = { ...head, framing: "none" as const, chunks: [], body: "" };
  const declared = headers["content-length"];
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && declared !== undefined) throw new Error("an answer with two framings");
  if (toHead || status < 200 || status === 204 || status === 304) return { answer: none, length: start };
  if (coding !== undefined) {
    if (coding.toLowerCase() !== "chunked") throw new Error(`an answer in ${coding}`);
    const taken = takeChunks(bytes, start);
    if (!taken) return undefined;
    const { body, chunks, end } = taken;
    return { answer: { ...head, framing: "chunked", chunks, body }, length: end };
  }
  if (declared !== undefined) {
    if (!/^\d+$/.test(declared)) throw new Error(`an answer of length ${declared}`);
    const end = start + Number(declared);
    if (bytes.length < end) return undefined;
    return { answer: { ...none, framing: "length", body: bytes.toString("utf8", start, end) }, length: end };
  }
  if (!over) return undefined;
  return { answer: { ...none, framing: "close", body: bytes.toString("utf8", start) }, length: bytes.length };
}

/** How a connection ended: as it should, or torn down. */
export type Ending = "closed" | "reset";

/** A client that writes bytes as they stand, and reads answers as their framing delimits them. */
export class RawClient {
  #socket!: Socket;
  #bytes: Buffer = Buffer.alloc(0);
  #ending: Ending | undefined;
  #onChange = Promise.withResolvers<void>();

  private constructor(private readonly fill: (text: string) => string) {}

  /** A connection to a port of this machine; what is sent as text goes through `fill` before. Rejects when it is refused. */
  static async open(port: number, fill: (text: string) => string): Promise<RawClient> {
    const client = new RawClient(fill);
    const changed = () => client.#change();
    client.#socket = await Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        data(_socket, bytes) {
          client.#bytes = Buffer.concat([client.#bytes, bytes]);
          client.#change();
        },
        drain: changed,
        close(_socket, error) {
          client.#ending = error ? "reset" : "closed";
          client.#change();
        },
        // What it was is told by `close`.
        error: changed,
      },
    });
    client.#socket.setNoDelay(true);
    return client;
  }

  /** Writes bytes, text as latin1. Resolves once the system has taken all of them: with false when the connection ended before. */
  async send(bytes: string | Uint8Array): Promise<boolean> {
    let rest = typeof bytes === "string" ? Buffer.from(this.fill(bytes), "latin1") : bytes;
    while (rest.length > 0) {
      if (this.#ending) return false;
      const changed = this.#onChange.promise;
      const written = this.#socket.write(rest);
      if (written < 0) return false;
      rest = rest.subarray(written);
      if (rest.length > 0) await within(changed, "the gateway to take what is sent", PATIENCE_MS);
    }
    return true;
  }

  /** The next answer, whole; those before the final one (1xx) are answers of their own. Throws when the connection ends before. */
  answer(to: { head?: boolean } = {}): Promise<WireAnswer> {
    return this.#until("an answer", () => {
      const over = this.#ending !== undefined;
      const taken = takeAnswer(this.#bytes, over, to.head === true);
      if (taken) {
        this.#bytes = this.#bytes.subarray(taken.length);
        return taken.answer;
      }
      if (over) throw new Error(`the connection was ${this.#ending} before a whole answer: ${this.rest.slice(0, 300)}`);
      return undefined;
    });
  }

  /** Waits until the bytes that no answer has been made of hold `words`. */
  async has(words: string): Promise<void> {
    await this.#until(JSON.stringify(words), () => (this.rest.includes(words) ? true : undefined));
  }

  /** Waits until the other side has ended the connection; says how. */
  over(patienceMs = PATIENCE_MS): Promise<Ending> {
    return this.#until("the connection to end", () => this.#ending, patienceMs);
  }

  /** Undefined while the connection is open. */
  get ending(): Ending | undefined {
    return this.#ending;
  }

  /** Bytes that have come and of which no answer has been made, as text. */
  get rest(): string {
    return this.#bytes.toString("utf8");
  }

  /** Reads nothing for now. */
  holdReading(): void {
    this.#socket.pause();
  }

  readOn(): void {
    this.#socket.resume();
  }

  /** Says that it has nothing more to send, and goes on reading. */
  endSending(): void {
    this.#socket.shutdown();
  }

  /** Goes away in good order (FIN). */
  leave(): void {
    this.#socket.end();
  }

  /** Tears the connection down (RST). */
  reset(): void {
    this.#socket.terminate();
  }

  #change(): void {
    const { resolve } = this.#onChange;
    this.#onChange = Promise.withResolvers<void>();
    resolve();
  }

  async #until<T>(what: string, look: () => T | undefined, patienceMs = PATIENCE_MS): Promise<T> {
    const startedAt = performance.now();
    for (;;) {
      const changed = this.#onChange.promise;
      const found = look();
      if (found !== undefined) return found;
      const leftMs = patienceMs - (performance.now() - startedAt);
      await within(changed, `${what}; there is ${JSON.stringify(this.rest.slice(0, 300))}`, Math.max(0, leftMs));
    }
  }
}
