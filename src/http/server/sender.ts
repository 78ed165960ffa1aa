import type { Socket } from "bun";
import type { Clock } from "../../lib/clock.ts";
import { restOf, writeChunk, writeMessage } from "../../lib/http1/fields.ts";
import { outbox, type Posting } from "../../lib/outbox.ts";
import { type Timeout, timeoutsOf } from "../../lib/timeouts.ts";
import { type Sink, SseFlow, STALLED_MS, type Streamed } from "../sse.ts";
import { type AnswerHead, writeHead } from "./answer-head.ts";

/** A client must take so many bytes of its answer within {@link STALLED_MS}, or all that waits: one that takes a little now and then would keep its connection for hours. */
const LEAST_TAKEN_BYTES = 16 * 1024;

const LAST_CHUNK = "0\r\n\r\n";
const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";

/** Told of what becomes of an answer. */
export type SenderOwner = {
  /** The system has taken all of it. */
  answered(): void;
  /** It cannot go on: the connection must end here. */
  close(): void;
  /** The same, for a fault in here. */
  broke(thrown: unknown): void;
};

/** Where pieces are read from. */
type Source = { cancel(reason: unknown): Promise<void> };

/** Nobody is there to be told. */
function ignoreGone(): void {}

const clientGone = () => new Error("The client has left.");

/** Writes answers to a client's connection, one after the other, never more than it takes; texts with the end of a turn of the event loop. */
export class Sender implements Sink, Posting {
  /** The head of an answer in pieces, until the first of them goes out with it. */
  #head = "";
  #chunks = false;
  #flow: SseFlow | undefined;
  /** Waits for the end of the turn: the text, its length where it is no chunk, bytes, and what stands behind it. */
  #text: string | undefined;
  #length = 0;
  #end = "";
  /** Behind it nothing of its answer follows. */
  #isLast = false;
  /** All of the answer was written. */
  #isWritten = false;
  /** What the system has not taken yet. */
  #unsent: Uint8Array | undefined;
  #waiting: { resolve(): void; reject(thrown: unknown): void } | undefined;
  /** An answer has begun that has not ended. */
  #hasBegun = false;
  /** Its end is that of the connection. */
  #isEndless = false;
  /** The flow has been asked for a piece that has not come: a ping may go out meanwhile. */
  #isAsked = false;
  /** Where the pieces of an answer come from. */
  #source: Source | undefined;
  #isGone = false;
  #stall: Timeout | undefined;
  /** Bytes that were taken since that began to run. */
  #taken = 0;

  constructor(
    private readonly socket: Socket<unknown>,
    private readonly clock: Clock,
    private readonly owner: SenderOwner,
  ) {}

  /** Tells the client that its body is wanted. */
  sendContinue(): void {
    this.#write(writeMessage(CONTINUE, "", 0));
  }

  /** The head alone, for HEAD: of another length than the body would have it must not speak (RFC 9110, 8.6). */
  sendHead(head: AnswerHead): void {
    this.#write(writeMessage(`${writeHead(head)}\r\n`, "", 0));
    this.#finish();
  }

  /** An answer that is there whole; `body` null: the head alone, of what has no body. */
  sendWhole(head: AnswerHead, body: string | null): void {
    if (body === null) {
      const hasLength = head.status === 204 || head.status === 304 || "content-length" in head.headers;
      this.#write(writeMessage(`${writeHead(head)}${hasLength ? "" : "content-length: 0\r\n"}\r\n`, "", 0));
      this.#finish();
      return;
    }
    this.#chunks = false;
    this.#length = Buffer.byteLength(body);
    this.#head = `${writeHead(head)}content-length: ${this.#length}\r\n\r\n`;
    this.#post(body, "", true);
  }

  /** {@link sendWhole} of bytes. */
  sendBytes(head: AnswerHead, bytes: Uint8Array): void {
    const text = `${writeHead(head)}content-length: ${bytes.length}\r\n\r\n`;
    this.#write(Buffer.concat([Buffer.from(text, "latin1"), bytes]));
    this.#finish();
  }

  /** An answer that streams; its head goes out with the first piece. */
  sendStream(head: Omit<AnswerHead, "status" | "headers">, streamed: Streamed): void {
    this.begin({ ...head, status: 200, headers: streamed.headers });
    this.#flow = new SseFlow(streamed, this);
    this.#ask();
  }

  /** Begins an answer whose length is not known, or is among its fields. */
  begin(head: AnswerHead): void {
    this.#hasBegun = true;
    const hasLength = "content-length" in head.headers;
    this.#chunks = head.chunks && !hasLength;
    this.#isEndless = !this.#chunks && !hasLength;
    this.#head = `${writeHead(this.#isEndless ? { ...head, ends: true } : head)}${this.#chunks ? "transfer-encoding: chunked\r\n" : ""}\r\n`;
  }

  /** The next bytes of it; a promise where the system has not taken them at once. Throws, and rejects, when the client is gone. */
  sendPiece(bytes: Uint8Array): Promise<void> | undefined {
    if (this.#isGone) throw clientGone();
    // As a chunk it would be the last one.
    if (bytes.length === 0) return undefined;
    const before = this.#chunks ? `${this.#head}${bytes.length.toString(16)}\r\n` : this.#head;
    const parts = [Buffer.from(before, "latin1"), bytes];
    if (this.#chunks) parts.push(Buffer.from("\r\n"));
    this.#head = "";
    this.#write(Buffer.concat(parts));
    if (!this.#unsent) return undefined;
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  /** The system takes more. */
  drain(): void {
    const unsent = this.#unsent;
    if (!unsent) return;
    this.#unsent = undefined;
    this.#write(unsent);
    if (this.#unsent) return;
    this.#stall?.stop();
    this.#stall = undefined;
    if (this.#isWritten) this.#finish();
    else {
      const waiting = this.#waiting;
      this.#waiting = undefined;
      if (waiting) waiting.resolve();
      else if (!this.#isAsked) this.#ask();
    }
  }

  /** Has the pieces that are to be sent cancelled when the client leaves. */
  follow(source: Source): void {
    if (this.#isGone) source.cancel(clientGone()).catch(ignoreGone);
    else this.#source = source;
  }

  /** The client is gone. */
  leave(): void {
    this.#isGone = true;
    this.#stall?.stop();
    this.#text = undefined;
    this.#unsent = undefined;
    this.#waiting?.reject(clientGone());
    this.#source?.cancel(clientGone()).catch(ignoreGone);
    this.#flow?.cancel().catch(ignoreGone);
  }

  /** The last answer had no end but that of the connection. */
  get isEndless(): boolean {
    return this.#isEndless;
  }

  /** An answer was written to its end that the system has not taken whole. */
  get isWritten(): boolean {
    return this.#isWritten || (this.#text !== undefined && this.#isLast);
  }

  /** Something of an answer is on its way that has not been taken whole. */
  get hasBegun(): boolean {
    return this.#hasBegun || this.#text !== undefined || this.#unsent !== undefined;
  }

  // What an SseFlow has to send.

  get isFree(): boolean {
    return this.#text === undefined && !this.#unsent;
  }

  send(text: string, last: boolean): void {
    this.#isAsked = false;
    this.#postPiece(text, last);
  }

  /** To be called while {@link isFree} alone, so that it never waits behind a piece. */
  ping(text: string): void {
    this.#postPiece(text, false);
  }

  end(): void {
    // A ping that waits.
    this.flush();
    const text = this.#head + (this.#chunks ? LAST_CHUNK : "");
    this.#head = "";
    this.#write(writeMessage(text, "", 0));
    this.#finish();
  }

  fail(): void {
    // Without its end: what was sent must not be taken for all of it.
    this.owner.close();
  }

  #postPiece(text: string, last: boolean): void {
    // A ping of the same turn may still wait.
    this.flush();
    // Only chunks have an end of their own.
    if (this.#chunks) this.#post(text, last ? `\r\n${LAST_CHUNK}` : "\r\n", last);
    else {
      this.#length = Buffer.byteLength(text);
      this.#post(text, "", last);
    }
  }

  #post(text: string, end: string, last: boolean): void {
    this.#text = text;
    this.#end = end;
    this.#isLast = last;
    outbox.add(this);
  }

  /** Writes the text that waits for the end of the turn, for whoever cannot. */
  flush(): void {
    const text = this.#text;
    if (text === undefined) return;
    const head = this.#head;
    this.#text = undefined;
    this.#head = "";
    this.#write(this.#chunks ? writeChunk(head, text, this.#end) : writeMessage(head, text, this.#length));
  }

  sendNow(): void {
    if (this.#text === undefined) return;
    try {
      this.flush();
      if (this.#isLast) this.#finish();
    } catch (thrown) {
      this.owner.broke(thrown);
    }
  }

  goOn(): void {
    if (!this.#flow || this.#isAsked || !this.isFree || this.#isGone) return;
    try {
      this.#ask();
    } catch (thrown) {
      this.owner.broke(thrown);
    }
  }

  #ask(): void {
    this.#isAsked = true;
    this.#flow?.pull();
  }

  #finish(): void {
    this.#flow = undefined;
    this.#source = undefined;
    this.#hasBegun = false;
    this.#isWritten = this.#unsent !== undefined;
    if (!this.#isWritten) this.owner.answered();
  }

  /** Something waits of which so much was taken now. */
  #watch(taken: number): void {
    this.#taken += taken;
    if (this.#stall && this.#taken < LEAST_TAKEN_BYTES) return;
    this.#taken = 0;
    this.#stall?.stop();
    this.#stall = timeoutsOf(this.clock, STALLED_MS).start(() => this.owner.close());
  }

  #write(bytes: Uint8Array): void {
    if (bytes.length === 0 || this.#isGone) return;
    if (this.#unsent) {
      this.#unsent = Buffer.concat([this.#unsent, bytes]);
      return;
    }
    const written = this.socket.write(bytes);
    // Of a socket that is closed the end is told as well.
    if (written < 0 || written >= bytes.length) return;
    this.#unsent = restOf(bytes, written);
    this.#watch(written);
  }
}
