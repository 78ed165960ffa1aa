import { Abort, type Abortable } from "../../lib/abort.ts";
import { type BodyReader, createBodyReader, viewOf } from "../../lib/http1/framing.ts";
import { releaseWhole } from "../../lib/http1/memory.ts";
import { addPiece, joinPieces } from "../../lib/http1/pieces.ts";
import type { Asked } from "../asked.ts";
import { RequestHead } from "./request-head.ts";

/** Bytes of a body that may wait to be read before its client is made to wait: no client waits with a body that is no larger (reliability 6.4). */
const MAX_WAITING_BYTES = 256 * 1024;

const NOTHING = new Uint8Array(0);
const NO_HEAD = new RequestHead("POST", "/", "", true);

/** What a request needs of the connection that it came on. */
export type ClientLine = {
  readonly peer: string | undefined;
  pause(): void;
  resume(): void;
  /** Tells the client that its body is wanted. */
  sendContinue(): void;
  close(): void;
};

/** The client went away before its body had come whole. */
class BodyLost extends Error {
  override readonly name = "BodyLost";
}

const asTheyAre = (bytes: Uint8Array): Uint8Array => bytes;

const made = new WeakMap<Request, Incoming>();

/** The request on its connection that a Request was made of; undefined for a Request that was made otherwise. */
export function incomingOf(request: Request): Incoming | undefined {
  return made.get(request);
}

/** One request on its connection. */
export class Incoming implements Asked {
  readonly left = new Abort();
  readonly #body: BodyReader;
  #pieces: Uint8Array[] | undefined;
  #waitingBytes = 0;
  #paused = false;
  /** What comes of the body is thrown away. */
  #unwanted = false;
  #lost: unknown;
  /** Called once, when more of the body has come or its client is gone. */
  #onMore: (() => void) | undefined;

  /** Throws MalformedMessage for a body whose end cannot be known. */
  constructor(
    public headers: RequestHead,
    private readonly line: ClientLine,
  ) {
    this.#body = createBodyReader(headers.framing);
  }

  get method(): string {
    return this.headers.method;
  }

  /** The whole address; the target as it came where that is no path, or no host is named. */
  get url(): string {
    const { host, path } = this.headers;
    return host !== null && path.startsWith("/") ? `http://${host}${path}` : path;
  }

  get peer(): string | undefined {
    return this.line.peer;
  }

  /** All of the body has come. */
  get isWhole(): boolean {
    return this.#body.complete;
  }

  /** Some of the body waits to be read, or all of it has come. */
  get hasBegun(): boolean {
    return this.#pieces !== undefined || this.#body.complete;
  }

  /** Takes bytes that came on the connection, from `start` on. Returns those behind the end of the body, if there are any. Throws MalformedMessage. */
  take(bytes: Uint8Array, start = 0): Uint8Array | undefined {
    const body = this.#body;
    body.take(bytes, start);
    if (!this.#unwanted) {
      if (body.to > body.from) this.#keep(viewOf(body, bytes));
    } else if (body.surplus === undefined) releaseWhole(bytes);
    this.#tell();
    return this.#body.surplus;
  }

  /** The client is gone. */
  leave(reason: unknown): void {
    if (!this.#body.complete) this.#lost ??= new BodyLost("The connection was closed.", { cause: reason });
    this.left.abort(reason);
    this.#tell();
  }

  /** Drops the head, for which nobody asks any more: a stream that goes on for minutes need not hold it. */
  forgetHead(): void {
    this.headers = NO_HEAD;
  }

  /** What still comes of the body is read and forgotten. */
  discard(): void {
    this.#unwanted = true;
    if (this.#pieces) for (const piece of this.#pieces) releaseWhole(piece);
    this.#pieces = undefined;
    this.#waitingBytes = 0;
    this.#goOn();
  }

  async bytes(): Promise<Uint8Array> {
    return this.lend(asTheyAre, true);
  }

  lend<T>(use: (bytes: Uint8Array, isOwn: boolean) => T, own = false): T | Promise<T> {
    if (this.#body.complete) return this.#lend(use, own);
    this.#want();
    return new Promise((resolve, reject) => {
      const look = () => {
        if (this.#lost !== undefined) reject(this.#lost);
        else if (!this.#body.complete) this.#onMore = look;
        else {
          try {
            resolve(this.#lend(use, own));
          } catch (thrown) {
            reject(thrown);
          }
        }
      };
      look();
    });
  }

  get body(): ReadableStream<Uint8Array> | null {
    if (this.#body.complete && this.#pieces === undefined) return null;
    return new ReadableStream<Uint8Array>(
      { pull: (controller) => this.#pull(controller), cancel: () => this.#cancel() },
      { highWaterMark: 0 },
    );
  }

  bearSilence(): void {
    // A connection on which something is done may be quiet here anyway.
  }

  close(): void {
    this.line.close();
  }

  /** The same as a Request, for code that takes nothing else; perhaps with another method than its own. */
  toRequest(method = this.method): Request {
    const { url } = this;
    const abort = new AbortController();
    const follower: Abortable = { onAbort: (reason) => abort.abort(reason) };
    this.left.add(follower);
    const headers = new Headers([...this.headers.entries()]);
    headers.set("host", this.headers.host ?? "");
    const hasBody = method !== "GET" && method !== "HEAD";
    const body = hasBody ? (this.#body.complete ? this.#lend(asTheyAre, true) : this.body) : null;
    const settings = { method, headers, signal: abort.signal, body: body as Uint8Array<ArrayBuffer> | null };
    const request = new Request(url, settings);
    made.set(request, this);
    return request;
  }

  #want(): void {
    if (!this.hasBegun && this.headers.waitsToSend) this.line.sendContinue();
  }

  #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#want();
    return new Promise((resolve) => {
      const look = () => {
        const piece = this.#pieces?.shift();
        if (piece) {
          this.#waitingBytes -= piece.length;
          this.#goOn();
          controller.enqueue(piece);
        } else if (this.#lost !== undefined) controller.error(this.#lost);
        else if (this.#body.complete) controller.close();
        else {
          this.#onMore = look;
          return;
        }
        resolve();
      };
      look();
    });
  }

  /** Whoever waits for more has been told that there is none. */
  #cancel(): void {
    this.#onMore = undefined;
    this.discard();
  }

  #keep(piece: Uint8Array): void {
    this.#pieces ??= [];
    addPiece(this.#pieces, piece);
    this.#waitingBytes += piece.length;
    if (this.#waitingBytes > MAX_WAITING_BYTES && !this.#paused) {
      this.#paused = true;
      this.line.pause();
    }
  }

  #goOn(): void {
    if (!this.#paused || this.#waitingBytes > MAX_WAITING_BYTES) return;
    this.#paused = false;
    this.line.resume();
  }

  #tell(): void {
    const look = this.#onMore;
    this.#onMore = undefined;
    look?.();
  }

  #lend<T>(use: (bytes: Uint8Array, isOwn: boolean) => T, own: boolean): T {
    const pieces = this.#pieces;
    this.#pieces = undefined;
    this.#waitingBytes = 0;
    // While a connection is paused, the leaving of its client goes unnoticed.
    this.#goOn();
    if (!pieces) return use(NOTHING, false);
    if (own && pieces.length === 1) return use(pieces[0] as Uint8Array, true);
    try {
      return use(own ? Buffer.concat(pieces) : joinPieces(pieces), own);
    } finally {
      for (const piece of pieces) releaseWhole(piece);
    }
  }
}
