import type { Socket } from "bun";
import { until } from "./wait.ts";

/** Largest request that is taken, bytes: a larger one is a fault of the test. */
const MAX_REQUEST_BYTES = 64 * 1024 * 1024;

/** One piece of a scripted body: bytes to write, or a promise that holds the rest back until the test resolves it. */
export type Part = string | Uint8Array | Promise<unknown>;

/** What the scripted vendor does with a call. */
export type Answer = {
  status?: number;
  headers?: Record<string, string>;
  parts: readonly Part[];
  /** `length`: content-length; `chunked`: one chunk per part; `close`: the body ends with the connection. */
  framing: "length" | "chunked" | "close";
  /** content-length to claim instead of the true one. */
  claimedLength?: number;
  /**
   * After the last part: `end` finishes the body, `cut` closes the connection without finishing it, `reset` tears it down at once,
   * `silence` leaves it open without a word.
   */
  finish: "end" | "cut" | "reset" | "silence";
  /** The status line itself is held back until this resolves. */
  headersAfter?: Promise<unknown>;
  /** Nothing is written at all before `finish`. */
  mute?: boolean;
};

/** Every call that reached the vendor, with what became of it. */
export type Call = {
  method: string;
  /** Path without query string. */
  path: string;
  query: string;
  /** Lower-case names. */
  headers: Record<string, string>;
  text: string;
  /** The body as JSON; undefined when it is none. */
  json: unknown;
  /** The gateway closed the connection before the answer was complete. */
  aborted: boolean;
  /** The answer was written to its end. */
  finished: boolean;
  /** Resolves when the gateway closes the connection early. */
  whenAborted: Promise<void>;
};

/** A scripted answer, or a function that makes one from the call. */
export type Script = Answer | ((call: Call) => Answer | Promise<Answer>);

export type Upstream = {
  /** `http://127.0.0.1:PORT`, without a path. */
  url: string;
  calls: Call[];
  /** Calls for which nothing was scripted: a test asserts that there are none. */
  unexpected: Call[];
  /** Adds answers for `path`, given once each, in order. */
  answer(path: string, ...scripts: Script[]): void;
  /** The answer for `path` whenever its queue is empty. */
  always(path: string, script: Script): void;
  /** Resolves with call number `index` (from 0) once it has arrived. */
  called(index?: number): Promise<Call>;
  /** Forgets calls and scripts. */
  reset(): void;
  close(): void;
};

type Connection = {
  pending: Uint8Array[];
  length: number;
  closed: boolean;
  busy: boolean;
  call: Call | undefined;
  onAbort: (() => void) | undefined;
  onDrain: (() => void) | undefined;
};

/** A JSON answer. */
export function json(value: unknown, options: { status?: number; headers?: Record<string, string> } = {}): Answer {
  const headers = { "content-type": "application/json", ...options.headers };
  return { status: options.status ?? 200, headers, parts: [JSON.stringify(value)], framing: "length", finish: "end" };
}

/** A chat vendor's whole reply with the text `content`, and its token counts (3 of input, 2 of output). */
export const chatReply = (content: string) => ({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "m-1",
  choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
});

/** The same of the messages dialect. */
export const messagesReply = (text: string) => ({
  ...{ id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "end_turn" },
  content: [{ type: "text", text }],
  usage: { input_tokens: 3, output_tokens: 2 },
});

/** The same of the responses dialect. */
export const responsesReply = (text: string) => ({
  ...{ id: "resp_1", object: "response", created_at: 1, status: "completed", model: "m" },
  output: [
    {
      ...{ type: "message", id: "msg_1", role: "assistant", status: "completed" },
      content: [{ type: "output_text", text, annotations: [] }],
    },
  ],
  usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
});

/** An SSE answer: `text` is cut into chunks of `chunk` bytes, also within characters and records. */
export function sse(
  text: string | readonly Part[],
  options: { chunk?: number | "whole"; finish?: Answer["finish"]; headers?: Record<string, string> } = {},
): Answer {
  const parts = typeof text === "string" ? [text] : text;
  return {
    headers: { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", ...options.headers },
    parts: parts.flatMap((part) => cutPart(part, options.chunk ?? "whole")),
    framing: "chunked",
    finish: options.finish ?? "end",
  };
}

function cutPart(part: Part, size: number | "whole"): Part[] {
  if (size === "whole" || part instanceof Promise) return [part];
  const bytes = typeof part === "string" ? new TextEncoder().encode(part) : part;
  const pieces: Part[] = [];
  for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size));
  return pieces;
}

/** A web page, as a proxy in between answers. */
export function html(status = 200, text = "<html><body>Bad gateway</body></html>"): Answer {
  return { status, headers: { "content-type": "text/html" }, parts: [text], framing: "length", finish: "end" };
}

/** A redirect to another address. */
export function redirect(location: string, status = 302): Answer {
  return { status, headers: { location }, parts: [], framing: "length", finish: "end" };
}

/** JSON that stops in the middle while its framing says that all is well. */
export function truncatedJson(value: unknown): Answer {
  const text = JSON.stringify(value);
  const headers = { "content-type": "application/json" };
  return { headers, parts: [text.slice(0, Math.floor(text.length / 2))], framing: "length", finish: "end" };
}

/** The connection is torn down before a byte of the answer. */
export function reset(): Answer {
  return { parts: [], framing: "length", finish: "reset", mute: true };
}

/** The call is taken and never answered. */
export function neverAnswer(): Answer {
  return { parts: [], framing: "length", finish: "silence", mute: true };
}

const HEAD_END = new TextEncoder().encode("\r\n\r\n");

function parseHead(head: string): Omit<Call, "text" | "json" | "aborted" | "finished" | "whenAborted"> {
  const [requestLine = "", ...lines] = head.split("\r\n");
  const [method = "", target = ""] = requestLine.split(" ");
  const question = target.indexOf("?");
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(":");
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  return {
    method,
    path: question < 0 ? target : target.slice(0, question),
    query: question < 0 ? "" : target.slice(question + 1),
    headers,
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Takes one whole request out of what has arrived, if it is there. */
function takeCall(connection: Connection): Call | undefined {
  const bytes = Buffer.concat(connection.pending);
  connection.pending = [bytes];
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const head = parseHead(bytes.subarray(0, headEnd).toString("latin1"));
  if ("transfer-encoding" in head.headers) throw new Error("the scripted vendor reads no chunked requests");
  const bodyAt = headEnd + HEAD_END.length;
  const bodyLength = Number(head.headers["content-length"] ?? 0);
  if (bytes.length < bodyAt + bodyLength) return undefined;
  const text = bytes.subarray(bodyAt, bodyAt + bodyLength).toString("utf8");
  connection.pending = [bytes.subarray(bodyAt + bodyLength)];
  connection.length = bytes.length - bodyAt - bodyLength;
  const { promise, resolve } = Promise.withResolvers<void>();
  connection.onAbort = resolve;
  return { ...head, text, json: parseJson(text), aborted: false, finished: false, whenAborted: promise };
}

async function write(socket: Socket<Connection>, bytes: Uint8Array): Promise<void> {
  let rest = bytes;
  while (rest.length > 0 && !socket.data.closed) {
    const written = socket.write(rest);
    if (written < 0) return;
    rest = rest.subarray(written);
    if (rest.length === 0) break;
    await new Promise<void>((resolve) => {
      socket.data.onDrain = resolve;
    });
  }
}

const encode = (text: string) => new TextEncoder().encode(text);

function headOf(answer: Answer): string {
  const bytes = answer.parts.reduce(
    (sum, part) => sum + (part instanceof Promise ? 0 : typeof part === "string" ? encode(part).length : part.length),
    0,
  );
  const framing = {
    length: `content-length: ${answer.claimedLength ?? bytes}\r\n`,
    chunked: "transfer-encoding: chunked\r\n",
    close: "connection: close\r\n",
  }[answer.framing];
  const headers = Object.entries(answer.headers ?? {}).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${answer.status ?? 200} Scripted\r\n${headers.join("")}${framing}\r\n`;
}

async function play(socket: Socket<Connection>, answer: Answer): Promise<void> {
  await answer.headersAfter;
  if (!answer.mute) await write(socket, encode(headOf(answer)));
  const many = answer.parts.length > 1;
  for (const part of answer.parts) {
    if (part instanceof Promise) {
      await part;
      continue;
    }
    const bytes = typeof part === "string" ? encode(part) : part;
    if (answer.framing === "chunked") {
      await write(socket, Buffer.concat([encode(`${bytes.length.toString(16)}\r\n`), bytes, encode("\r\n")]));
    } else await write(socket, bytes);
    // One turn of the loop between two parts, so that they travel apart.
    if (many) await new Promise<void>((resolve) => setImmediate(resolve));
    if (socket.data.closed) return;
  }
  if (answer.finish === "end" && answer.framing === "chunked") await write(socket, encode("0\r\n\r\n"));
}

/** The state of a scripted vendor: what it is to answer, and the calls that came. */
class Book {
  readonly calls: Call[] = [];
  readonly unexpected: Call[] = [];
  readonly queues = new Map<string, Script[]>();
  readonly standing = new Map<string, Script>();
  readonly open = new Set<Socket<Connection>>();

  scriptFor(call: Call): Script {
    const script = this.queues.get(call.path)?.shift() ?? this.standing.get(call.path);
    if (script) return script;
    this.unexpected.push(call);
    return json({ error: { message: `nothing scripted for ${call.path}` } }, { status: 418 });
  }

  /** Answers the requests that have arrived whole on a connection, one after the other. */
  async serve(socket: Socket<Connection>): Promise<void> {
    const connection = socket.data;
    if (connection.busy) return;
    const call = takeCall(connection);
    if (!call) return;
    connection.busy = true;
    connection.call = call;
    this.calls.push(call);
    const script = this.scriptFor(call);
    const answer = typeof script === "function" ? await script(call) : script;
    await play(socket, answer);
    if (answer.finish === "silence") return;
    call.finished = !connection.closed;
    connection.call = undefined;
    connection.busy = false;
    if (answer.finish === "reset") socket.terminate();
    else if (answer.finish === "cut" || answer.framing === "close") socket.end();
    else await this.serve(socket);
  }

  reset(): void {
    this.calls.length = 0;
    this.unexpected.length = 0;
    this.queues.clear();
    this.standing.clear();
  }
}

function newConnection(): Connection {
  return {
    pending: [],
    length: 0,
    closed: false,
    busy: false,
    call: undefined,
    onAbort: undefined,
    onDrain: undefined,
  };
}

function closeConnection({ data }: Socket<Connection>): void {
  data.closed = true;
  data.onDrain?.();
  if (!data.call) return;
  data.call.aborted = true;
  data.onAbort?.();
}

function fail(thrown: unknown): never {
  throw new Error("the scripted vendor failed", { cause: thrown });
}

function listen(book: Book) {
  return Bun.listen<Connection>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.setNoDelay(true);
        socket.data = newConnection();
        book.open.add(socket);
      },
      data(socket, bytes) {
        socket.data.length += bytes.length;
        if (socket.data.length > MAX_REQUEST_BYTES) throw new Error("a test sends too much to the scripted vendor");
        socket.data.pending.push(new Uint8Array(bytes));
        void book.serve(socket).catch(fail);
      },
      drain(socket) {
        socket.data.onDrain?.();
      },
      close(socket) {
        book.open.delete(socket);
        closeConnection(socket);
      },
      error(_socket, error) {
        fail(error);
      },
    },
  });
}

/** Starts a scripted vendor on a free loopback port: raw sockets, so that every way of misbehaving can be played. */
export function startUpstream(): Upstream {
  const book = new Book();
  const server = listen(book);
  const { calls, unexpected, queues, standing } = book;
  return {
    url: `http://127.0.0.1:${server.port}`,
    calls,
    unexpected,
    answer(path, ...scripts) {
      queues.set(path, [...(queues.get(path) ?? []), ...scripts]);
    },
    always(path, script) {
      standing.set(path, script);
    },
    async called(index = 0) {
      await until(() => calls.length > index, `call ${index} to the scripted vendor`);
      return calls[index] as Call;
    },
    reset: () => book.reset(),
    close() {
      server.stop(true);
    },
  };
}
