import type { Abort, Abortable } from "../../lib/abort.ts";
import { BARE_HEAD_END, HEAD_END, MalformedMessage } from "../../lib/http1/fields.ts";
import { type BodyReader, createBodyReader, viewOf } from "../../lib/http1/framing.ts";
import { release } from "../../lib/http1/memory.ts";
import { decodeBytes } from "../../lib/piece-decoder.ts";
import type { Text } from "../../lib/text-pieces.ts";
import { type Answer, type Read, type ReadTaker, readText } from "../answer.ts";
import { ConnectionLost } from "./faults.ts";
import { canBeginHead, type Head, MAX_HEAD_BYTES, parseHead } from "./head.ts";
import { cut, MAX_PIECE_BYTES, type Piece, pack, sizeOf, unpack } from "./pieces.ts";
import type { Outgoing } from "./request.ts";
import { type Taker, Turns } from "./turns.ts";

/** Bytes of a body that wait to be read before the upstream is made to wait (reliability 6.4). */
const MAX_WAITING_BYTES = 64 * 1024;
/** Pieces of at least so many bytes have their memory freed at once, without waiting for a garbage collection. */
const LEAST_RELEASED_BYTES = 2 * 1024;
/** Interim heads (1xx, such as 103) that are passed over before the final one must come. */
const MAX_INTERIM = 16;

/** For all answers of the process. */
const turns = new Turns();
const OVER: Promise<Read> = Promise.resolve({ done: true });

/** What a call asks of the connection that it is on. */
export type Line = {
  pause(): void;
  resume(): void;
  /** The answer was read to its end; `clean`: another request may follow. */
  ended(clean: boolean): void;
  /** Nobody waits for the answer any more. */
  abandon(): void;
  /**
   * The other side tells that it has waited long enough for a request. True where it cannot have had this one by then: it goes out once more, on another
   * connection.
   */
  missed(): boolean;
};

/** How the outcome of a call is told to whoever made it. */
export type CallRules = {
  /** Returns what is given in the place of an answer of which only the head has come. What it throws is thrown in the place of that answer. */
  accept(answer: Answer): Answer;
  /** Returns what is thrown in the place of a ConnectFailed or ConnectionLost that comes before the answer. */
  explain(thrown: unknown): unknown;
};

/** One request on its connection, and its answer. The head comes first, by `answered`; the body is read as an {@link Answer}. */
export class Call implements Answer, Abortable, Outgoing, Taker {
  #head: Head | undefined;
  /** The body has no other end than that of the connection; another request may follow. */
  #endsWithConnection = false;
  #staysOpen = false;
  #body: BodyReader | undefined;
  /** Bytes of a head that has not come whole. */
  #held: Buffer | undefined;
  #interim = 0;
  /** The piece that is read next, and those that follow it. */
  #piece: Piece | undefined;
  #further: Piece[] | undefined;
  /** So much came at once that it is read in turns with other calls; and whether such a turn is to come. */
  #isMuch = false;
  #hasTurn = false;
  #waitingBytes = 0;
  #paused = false;
  #waiting: ReadTaker | undefined;
  #fault: { reason: unknown } | undefined;
  #complete = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #line: Line | undefined;
  #answer: ((answer: Answer) => void) | undefined;
  #refuse: ((reason: unknown) => void) | undefined;

  /**
   * `head` and `body` are what is sent; `onSent` is told when the system has taken all of it. `abort` ends the call; its reason is then what every read
   * rejects with.
   */
  constructor(
    public head: string,
    public body: Text,
    private readonly abort: Abort,
    private readonly rules: CallRules,
    private readonly onSent?: (() => void) | undefined,
  ) {
    abort.add(this);
  }

  /** Resolves with this, once the head is read. Rejects with the abort's reason, or with a fault, both by the rules. To be called once. */
  answered(): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#answer = resolve;
      this.#refuse = reject;
    });
  }

  get status(): number {
    return this.#head?.status ?? 0;
  }

  get headers(): Head {
    return this.#head as Head;
  }

  /** Nothing more is expected of the connection. */
  get over(): boolean {
    return this.#complete || this.#fault !== undefined;
  }

  /** The call is on this connection from now on. */
  attach(line: Line): void {
    this.#line = line;
  }

  /** Drops the request, which will not be sent again: a stream that goes on for minutes need not hold it. */
  forget(): void {
    this.head = "";
    this.body = "";
  }

  /** The system has taken the whole request. */
  sent(): void {
    this.onSent?.();
  }

  /** Bytes came on the connection. */
  take(bytes: Buffer): void {
    try {
      if (this.#body) this.#takeBody(bytes, 0);
      else this.#takeHead(bytes);
    } catch (thrown) {
      if (!(thrown instanceof MalformedMessage)) throw thrown;
      this.#line?.abandon();
      this.fail(new ConnectionLost(`The answer is no HTTP: ${thrown.message}.`, { cause: thrown }));
    }
  }

  /** The connection has ended. That is the end of a body without any other, and a fault in the midst of one. */
  lost(reason: Error): void {
    if (this.over) return;
    if (this.#body && this.#endsWithConnection && !(reason instanceof ConnectionReset)) this.#end();
    else this.fail(new ConnectionLost(reason.message, { cause: reason }));
  }

  /** Ends the call: every read from now on rejects with `reason`. */
  fail(reason: unknown): void {
    if (this.over) return;
    this.#fault = { reason };
    this.#settle();
    this.#forgetPieces();
    if (!this.#body) this.#refuse?.(this.abort.aborted ? this.abort.reason : this.rules.explain(reason));
    this.#forgetAsker();
    const waiting = this.#waiting;
    this.#waiting = undefined;
    // Not before this returns: whoever ends a call does not expect its reader to run meanwhile.
    if (waiting) queueMicrotask(() => waiting.onBroken(reason));
  }

  read(): Promise<Read> {
    const piece = this.#piece;
    if (piece && !this.#isMuch) {
      const taken = this.#take(piece);
      return Promise.resolve({ done: false, value: viewOf(taken, taken.bytes) });
    }
    if (this.#fault) return Promise.reject(this.#fault.reason);
    if (this.#complete && !piece) return OVER;
    return new Promise((resolve, reject) => {
      this.#await({
        onBytes: (bytes, from, to) => resolve({ done: false, value: viewOf({ from, to }, bytes) }),
        onEnd: () => resolve({ done: true }),
        onBroken: reject,
      });
    });
  }

  readTo(taker: ReadTaker): void {
    // The reader of a stream has looked at the header fields by now. They are kilobytes, and would be held for the minutes that it goes on.
    this.#head = this.#head?.withoutFields();
    const piece = this.#piece;
    if (piece && !this.#isMuch) {
      const { bytes, from, to } = this.#take(piece);
      // Not at once: each piece would be worked through within the one before it.
      queueMicrotask(() => taker.onBytes(bytes, from, to));
      return;
    }
    if (!piece && this.over) {
      const fault = this.#fault;
      queueMicrotask(() => (fault ? taker.onBroken(fault.reason) : taker.onEnd()));
      return;
    }
    this.#await(taker);
  }

  /** Tells `taker` in its turn of what is there, or of what comes next. */
  #await(taker: ReadTaker): void {
    this.#waiting = taker;
    if (this.#piece) this.#wantTurn();
    else if (this.#paused) turns.addWanting(this);
  }

  #wantTurn(): void {
    if (this.#hasTurn) return;
    this.#hasTurn = true;
    turns.add(this);
  }

  onTurn(): void {
    this.#hasTurn = false;
    const waiting = this.#waiting;
    if (!waiting) {
      this.#pack();
      return;
    }
    // Cut only when its turn comes: many may have got much at the same moment.
    if (this.#piece && sizeOf(this.#piece) > MAX_PIECE_BYTES) this.#cut(this.#piece);
    const piece = this.#piece;
    // The pieces may have been dropped since the turn was asked for. Then nothing is told, unless the answer has come whole.
    if (!piece && !this.#complete) return;
    this.#waiting = undefined;
    if (piece) {
      const { bytes, from, to } = this.#take(piece);
      if (this.#piece) this.#wantTurn();
      waiting.onBytes(bytes, from, to);
    } else waiting.onEnd();
  }

  /** Packs the pieces that wait, for which nobody has asked since the turn before: the client takes nothing for now, and perhaps never will. */
  #pack(): void {
    const pieces = this.#piece ? [this.#piece, ...(this.#further ?? [])] : [];
    const packed = pieces.flatMap(pack);
    for (const { bytes, isPacked } of pieces) if (!isPacked) this.release(bytes);
    this.#piece = packed.shift();
    this.#further = packed;
  }

  onMore(): void {
    this.#unpause();
  }

  /** Takes out the piece that is read next, unpacked. */
  #take(piece: Piece): Piece {
    this.#piece = this.#further?.shift();
    if (!this.#piece) this.#isMuch = false;
    this.#waitingBytes -= sizeOf(piece);
    return unpack(piece);
  }

  text(maxBytes: number): string | Promise<string> {
    const piece = this.#piece;
    const isHere = this.#complete && piece && sizeOf(piece) <= maxBytes && !this.#further?.length;
    if (!isHere) return readText(this, maxBytes);
    this.#piece = undefined;
    const { bytes, from, to } = unpack(piece);
    const text = decodeBytes(bytes, from, to);
    this.#letGo(bytes);
    return text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text;
  }

  release(piece: Uint8Array): void {
    // A stream has too many small pieces for that; and the memory of small ones would first be moved by asking for it.
    if (piece.length >= LEAST_RELEASED_BYTES) this.#letGo(piece);
  }

  /** Frees the memory of a piece, unless what follows on the connection lies in it too. */
  #letGo(piece: Uint8Array): void {
    if (this.#body?.surplus === undefined) release(piece);
  }

  cancel(): void {
    if (this.over) return;
    this.#line?.abandon();
    this.fail(new ConnectionLost("The rest of the answer was given up."));
  }

  finish(ms: number): void {
    this.#forgetPieces();
    if (this.over) return;
    this.#timer = setTimeout(() => this.cancel(), ms);
    this.#unpause();
  }

  /**
   * Lets the upstream send again. Called only once all that came was read and more is asked for: the system then hands over half a megabyte at once, which
   * would be kept here for a client that takes nothing more.
   */
  #unpause(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#line?.resume();
  }

  /** Tells whoever asked that the head has come. */
  #tell(): void {
    const answer = this.#answer;
    const refuse = this.#refuse;
    this.#forgetAsker();
    try {
      answer?.(this.rules.accept(this));
    } catch (thrown) {
      refuse?.(thrown);
    }
  }

  /** Drops the functions that settle the promise of the answer, since they hold it. */
  #forgetAsker(): void {
    this.#answer = undefined;
    this.#refuse = undefined;
  }

  onAbort(reason: unknown): void {
    this.#line?.abandon();
    this.fail(reason);
  }

  #forgetPieces(): void {
    this.#piece = undefined;
    this.#further = undefined;
    this.#isMuch = false;
    this.#waitingBytes = 0;
  }

  /** Reads the head, once it is whole, and what follows it. */
  #takeHead(bytes: Buffer): void {
    const all = this.#held ? Buffer.concat([this.#held, bytes]) : bytes;
    let start = 0;
    for (;;) {
      let at = all.indexOf(HEAD_END, start);
      let length = HEAD_END.length;
      // Some small servers leave out the carriage returns, and may have them in the body that follows.
      const bare = all.subarray(0, at < 0 ? all.length : at).indexOf(BARE_HEAD_END, start);
      if (bare >= 0) {
        at = bare;
        length = BARE_HEAD_END.length;
      }
      if ((at < 0 ? all.length : at) - start > MAX_HEAD_BYTES) throw new MalformedMessage("a head that is too long");
      if (at < 0) {
        // At once: what speaks something else may wait for as long as anybody does.
        if (!canBeginHead(all, start)) throw new MalformedMessage("no status line");
        this.#held = start === 0 ? all : all.subarray(start);
        return;
      }
      const head = parseHead(all.toString("latin1", start, at));
      start = at + length;
      if (head.status >= 200) {
        this.#held = undefined;
        if (head.status === REQUEST_TIMEOUT && !head.staysOpen && this.#interim === 0 && this.#line?.missed()) return;
        this.forget();
        const { framing } = head;
        this.#body = createBodyReader(framing);
        this.#endsWithConnection = framing.kind === "close";
        this.#staysOpen = head.staysOpen && head.status !== SERVER_FAILED;
        this.#head = head;
        // Before the first piece is read, which may be the last one too.
        this.#tell();
        // Even where nothing follows: a body may end with its head.
        if (!this.over) this.#takeBody(all, start);
        return;
      }
      if (head.status === 101 || ++this.#interim > MAX_INTERIM)
        throw new MalformedMessage("an answer that never comes");
    }
  }

  /** Bytes of the body, and perhaps what is behind it, from `start` on. */
  #takeBody(bytes: Uint8Array, start: number): void {
    const body = this.#body as BodyReader;
    body.take(bytes, start);
    if (body.to > body.from) this.#hand(bytes, body.from, body.to);
    // The reader that was given it may have cancelled the rest.
    if (body.complete && !this.over) this.#end();
  }

  #hand(bytes: Uint8Array, from: number, to: number): void {
    if (this.#timer !== undefined) return;
    const waiting = this.#waiting;
    if (!waiting || this.#piece || to - from > MAX_PIECE_BYTES) this.#keep({ bytes, from, to });
    else {
      this.#waiting = undefined;
      waiting.onBytes(bytes, from, to);
    }
  }

  #queue(piece: Piece): void {
    if (!this.#piece) this.#piece = piece;
    else {
      this.#further ??= [];
      this.#further.push(piece);
    }
  }

  /** Cuts the piece that is the next into smaller ones. */
  #cut(piece: Piece): void {
    const parts = cut(piece);
    this.release(piece.bytes);
    this.#piece = parts.shift();
    this.#further = this.#further ? [...parts, ...this.#further] : parts;
  }

  #keep(piece: Piece): void {
    const isMuch = sizeOf(piece) > MAX_PIECE_BYTES;
    if (isMuch) this.#isMuch = true;
    // Many may get much at the same moment, before any of them has had a turn.
    if (isMuch && turns.isCrowded) {
      for (const packed of pack(piece)) this.#queue(packed);
      this.release(piece.bytes);
    } else this.#queue(piece);
    if (this.#isMuch) this.#wantTurn();
    this.#waitingBytes += sizeOf(piece);
    if (this.#waitingBytes >= MAX_WAITING_BYTES && !this.#paused) {
      this.#paused = true;
      this.#line?.pause();
    }
  }

  #end(): void {
    this.#complete = true;
    this.#settle();
    // The next call on the connection must not wait until this answer is read.
    this.#unpause();
    this.#line?.ended(this.#staysOpen && this.#body?.complete === true && this.#body.surplus === undefined);
    // The rest is read in turns, and the end is told behind it.
    if (this.#piece) return;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting) queueMicrotask(() => waiting.onEnd());
  }

  #settle(): void {
    clearTimeout(this.#timer);
    this.abort.delete(this);
  }
}

/** A connection that was torn down, not closed. */
export class ConnectionReset extends Error {
  override readonly name = "ConnectionReset";
}

/** The status of a server that gives up waiting for a request, or for the whole of one (RFC 9110, 15.5.9). */
const REQUEST_TIMEOUT = 408;

/**
 * Behind this answer to what nobody caught, uvicorn (vLLM, SGLang and all of FastAPI's) closes its connection without having said so, once it has written
 * down what happened: a request that went out there meanwhile would be lost.
 */
const SERVER_FAILED = 500;
const BYTE_ORDER_MARK = 0xfeff;
