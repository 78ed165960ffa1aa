import type { Socket } from "bun";
import type { Sleeper } from "../../lib/alarms.ts";
import type { Clock } from "../../lib/clock.ts";
import { BARE_HEAD_END, HEAD_END, MalformedMessage } from "../../lib/http1/fields.ts";
import { type Timeout, timeoutsOf } from "../../lib/timeouts.ts";
import type { Answered, Whole } from "../answered.ts";
import { pathOf } from "../request.ts";
import { type ClientLine, Incoming } from "./incoming.ts";
import { askedPath, canBeginHead, MAX_HEAD_BYTES, parseRequestHead } from "./request-head.ts";
import { sendResponse } from "./responses.ts";
import { Sender, type SenderOwner } from "./sender.ts";

/** A head must be whole within this, ms (reliability 6.4). */
const HEAD_MS = 12_000;
/**
 * A connection on which nothing is asked is closed after this, ms: later than the usual proxies and clients close theirs (nginx and AWS after 60 s, what is
 * built on Go after 90 s, Caddy after 120 s). Whoever closes first decides; where that is the server, a request that crosses with the end is lost, and a
 * proxy may not send a POST again.
 */
export const IDLE_MS = 130_000;
/** How long a connection counts as new, ms: of clients that come all at once every one is accepted before the first request is read. */
const NEW_MS = 1_000;
/** How long a client whose connection ends may go on sending what nobody reads, ms: cut off earlier, it would not see its answer. */
const LINGER_MS = 5_000;
/** Bytes of further requests that are kept while one is answered. */
const MAX_AHEAD_BYTES = 64 * 1024;
/** What is still to come of a body that nobody read is waited for up to this size, bytes; behind a larger one the connection ends. */
const MAX_REST_BYTES = 256 * 1024;

/** Methods that only read. */
const READING: ReadonlySet<string> = new Set(["GET", "HEAD"]);

/** Where the requests of all connections come in. */
export type Door = {
  /** Answers a request. Never throws and never rejects. */
  answer(incoming: Incoming): Answered | Response | Promise<Answered | Response>;
  /** The answer to what is no valid HTTP. `text`: what is wrong with it; `path`: what was asked for, where that could be read. */
  refuse(text: string, path?: string): Whole;
  /** Told of the fault that ended an answer which had begun. */
  broke(thrown: unknown): void;
};

/** What is the same for all connections of a server. */
export type ServerRules = {
  clock: Clock;
  door: Door;
  /** The connection is over. */
  gone(connection: ClientConnection): void;
  /** A request has come on a connection, for which one to a vendor may be opened. */
  asked(): void;
  /** The server stops: each connection ends after the answer that is under way. */
  readonly isStopping: boolean;
};

/**
 * How far a connection is. `idle`: no request is under way. `due`: the same, and what was kept of the next request is read in a turn of the event loop of its
 * own. `head`: a part of a head has come. `asked`: a request, or what is none, is being answered. `answered`: the whole answer was given, and some of the
 * request's body is still to come. `ending`: no more is answered, and what comes is thrown away. `over`: it is closed.
 */
type Phase = "idle" | "due" | "head" | "asked" | "answered" | "ending" | "over";

/** Phases in which the next request may begin. */
const FREE: ReadonlySet<Phase> = new Set(["idle", "due", "head"]);
/** Phases in which no request is under way, and none waits to be read. */
const RESTING: ReadonlySet<Phase> = new Set(["idle", "head", "ending", "over"]);

/** A client's connection, on which one request follows another. */
export class ClientConnection implements ClientLine, SenderOwner, Sleeper {
  #socket: Socket<ClientConnection> | undefined;
  #sender: Sender | undefined;
  /** Bytes of a head that has not come whole, or of what follows the request under way. */
  #held: Buffer | undefined;
  #isPaused = false;
  #phase: Phase = "idle";
  /** The request that was asked, until its body has come too. */
  #incoming: Incoming | undefined;
  /** No other request is taken up behind this one. */
  #ends = false;
  /** When the last answer goes out the client may still be sending: the rest of a body that nobody reads, or what is no HTTP. */
  #isUnread = false;
  #timer: Timeout | undefined;
  /** A request came on it. */
  #hasAsked = false;
  /** Monotonic ms. */
  readonly #since: number;

  constructor(private readonly rules: ServerRules) {
    this.#since = rules.clock.monotonic();
  }

  get peer(): string | undefined {
    return this.#socket?.remoteAddress;
  }

  /** A request that came whole waits for its answer, or an answer has not gone out whole. */
  get isBusy(): boolean {
    return (this.#phase === "asked" && this.#incoming?.isWhole === true) || this.#sender?.hasBegun === true;
  }

  /** No request is under way on it. */
  get isResting(): boolean {
    return RESTING.has(this.#phase);
  }

  /** No request ever came on it. */
  get isSilent(): boolean {
    return !this.#hasAsked;
  }

  /** It was opened only just now: its first request may be there without having been read. */
  get isNew(): boolean {
    return this.rules.clock.monotonic() - this.#since < NEW_MS;
  }

  /** Ends it to make room for another one. No request must be under way on it; what the system still has of its last answer goes out. */
  giveWay(): void {
    if (this.#phase === "ending") this.close();
    else this.#shut();
  }

  /** Ends it, if nothing is under way. */
  stop(): void {
    if (FREE.has(this.#phase)) this.#shut();
    else if (this.#phase === "answered") this.#end();
  }

  // What a request needs of it.

  pause(): void {
    this.#isPaused = true;
    this.#socket?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#socket?.resume();
  }

  sendContinue(): void {
    this.#sender?.sendContinue();
  }

  close(): void {
    this.#sender?.flush();
    this.#socket?.terminate();
    this.#leave(undefined);
  }

  // What the socket tells.

  onOpen(socket: Socket<ClientConnection>): void {
    this.#socket = socket;
    this.#sender = new Sender(socket, this.rules.clock, this);
    socket.setNoDelay(true);
    this.#wait(IDLE_MS);
  }

  onData(bytes: Buffer): void {
    const incoming = this.#incoming;
    if (!incoming) {
      if (!FREE.has(this.#phase)) return;
      this.#keep(bytes);
      this.#readOn();
    } else if (incoming.isWhole) this.#keepAhead(bytes);
    else this.#feed(incoming, bytes);
  }

  onDrain(): void {
    this.#sender?.drain();
  }

  /**
   * The client has closed its side. Where work is done for its request this counts as having left: hardly any client does so and still waits, and nobody is to
   * pay for what is not read. A request that only reads is answered all the same, and an answer that is written goes out.
   */
  onEnd(): void {
    const incoming = this.#phase === "asked" ? this.#incoming : undefined;
    if (this.#sender?.isWritten || (incoming && READING.has(incoming.method))) this.#ends = true;
    else if (incoming) this.close();
    else this.#shut();
  }

  onClose(error: unknown): void {
    this.#leave(error);
  }

  /** A handler of the socket's events threw: it is not known any more how far the request is. */
  onFault(thrown: unknown): void {
    this.rules.door.broke(thrown);
    this.close();
  }

  // Reading.

  #keep(bytes: Buffer): void {
    this.#held = this.#held ? Buffer.concat([this.#held, bytes]) : bytes;
  }

  #keepAhead(bytes: Buffer): void {
    this.#keep(bytes);
    if (this.#isFull && !this.#isPaused) this.pause();
  }

  /** As much of the requests that follow is kept as may be. */
  get #isFull(): boolean {
    return (this.#held?.length ?? 0) > MAX_AHEAD_BYTES;
  }

  /** Takes up the first request of what was kept. */
  #readOn(): void {
    const held = this.#held;
    if (!held || !FREE.has(this.#phase)) return;
    if (this.#phase === "due") this.#phase = "idle";
    try {
      this.#takeUp(held);
    } catch (thrown) {
      this.#refuse(thrown, pathAskedIn(held));
    }
  }

  /**
   * Reads the next request, which came before this one was answered, in a turn of the event loop of its own: else thousands that came at once would all be
   * answered in a single turn.
   */
  #readSoon(): void {
    this.#phase = "due";
    setImmediate(() => {
      try {
        this.#readOn();
      } catch (thrown) {
        this.onFault(thrown);
      }
    });
  }

  /** Begins the request at the start of what was kept, if its head is there. Throws MalformedMessage. */
  #takeUp(held: Buffer): void {
    const start = requestStart(held);
    const at = held.indexOf(HEAD_END, start);
    if ((at < 0 ? held.length : at) > MAX_HEAD_BYTES) throw new MalformedMessage("a head that is too long");
    if (at < 0) {
      // At once: a client that begins with TLS, because its address says https, would wait until the time for its head is over.
      if (!canBeginHead(held, start)) throw new MalformedMessage("no request line of HTTP/1.1");
      // What waits for the rest of its head must not keep the memory of all that came along with it.
      if (held.buffer.byteLength > 2 * MAX_HEAD_BYTES) this.#held = Buffer.from(held);
      if (held.indexOf(BARE_HEAD_END, start) >= 0) throw new MalformedMessage("lines without carriage returns");
      // An empty line behind the last body begins no head.
      if (this.#phase === "idle" && start < held.length) {
        this.#phase = "head";
        this.#wait(HEAD_MS);
      }
      return;
    }
    this.#held = undefined;
    const incoming = new Incoming(parseRequestHead(held.toString("latin1", start, at)), this);
    this.#timer?.stop();
    this.#phase = "asked";
    this.#incoming = incoming;
    this.#hasAsked = true;
    this.rules.asked();
    const next = at + HEAD_END.length;
    // It was paused since too much had come ahead. What comes now is the body of this request.
    if (!incoming.isWhole && this.#isPaused) this.resume();
    if (held.length > next) {
      if (incoming.isWhole) this.#keep(held.subarray(next));
      else this.#feed(incoming, held, next);
    }
    if (this.#incoming === incoming) this.#answer(incoming);
  }

  /** More of a body, from `start` on. */
  #feed(incoming: Incoming, bytes: Buffer, start = 0): void {
    try {
      const surplus = incoming.take(bytes, start);
      if (surplus) this.#keepAhead(surplus as Buffer);
    } catch (thrown) {
      incoming.leave(thrown);
      this.#refuse(thrown, pathOf(incoming.headers.path));
      return;
    }
    if (this.#phase === "answered" && incoming.isWhole) this.#next();
  }

  /** Answers what is no HTTP, and ends: nothing that follows can be believed. */
  #refuse(thrown: unknown, path: string | undefined): void {
    if (!(thrown instanceof MalformedMessage)) throw thrown;
    this.#held = undefined;
    // Within an answer that has begun, the client could not tell where this one begins.
    if (this.#phase === "answered" || this.#sender?.hasBegun) {
      this.close();
      return;
    }
    this.#phase = "asked";
    this.#incoming = undefined;
    this.#ends = true;
    this.#isUnread = true;
    const told = this.rules.door.refuse(thrown.message, path);
    this.#sender?.sendWhole({ ...told, ends: true, chunks: false }, told.body);
  }

  // Answering.

  #answer(incoming: Incoming): void {
    const answered = this.rules.door.answer(incoming);
    if (answered instanceof Promise) {
      answered.then(
        (late) => this.#give(incoming, late),
        (thrown: unknown) => this.broke(thrown),
      );
    } else this.#give(incoming, answered);
  }

  #give(incoming: Incoming, answered: Answered | Response): void {
    const sender = this.#sender;
    if (this.#incoming !== incoming || !sender) {
      forget(answered);
      return;
    }
    try {
      const { headers } = incoming;
      const isHead = incoming.method === "HEAD";
      this.#isUnread = !canReadRest(incoming);
      this.#ends ||= this.rules.isStopping || !headers.staysOpen || this.#isUnread;
      const head = { ends: this.#ends, chunks: headers.isCurrent };
      if ("chunks" in answered) {
        incoming.forgetHead();
        sender.sendStream(head, answered);
      } else if (answered instanceof Response) {
        if (answered.headers.get("connection") === "close") this.#ends = true;
        sendResponse(answered, head, isHead, sender).catch((thrown: unknown) => this.broke(thrown));
      } else {
        const { status, headers: fields, body } = answered;
        if (fields["connection"] === "close") this.#ends = true;
        const whole = { ends: head.ends, chunks: head.chunks, status, headers: fields };
        if (isHead) sender.sendHead(whole);
        else sender.sendWhole(whole, body);
      }
    } catch (thrown) {
      // A stream that nobody will read would stay under way for ever.
      forget(answered);
      this.broke(thrown);
    }
  }

  broke(thrown: unknown): void {
    if (this.#isOver) return;
    this.rules.door.broke(thrown);
    this.close();
  }

  answered(): void {
    if (this.#phase !== "asked") return;
    const incoming = this.#incoming;
    this.#phase = "answered";
    incoming?.discard();
    if (this.#ends || this.#sender?.isEndless) this.#end();
    else if (!incoming || incoming.isWhole) this.#next();
    else this.#wait(IDLE_MS);
  }

  #next(): void {
    this.#phase = "idle";
    this.#incoming = undefined;
    if (this.rules.isStopping) {
      this.#end();
      return;
    }
    this.#wait(IDLE_MS);
    // It stays paused while enough is kept: else, where requests come faster than they are answered, each answer would let in more than one of them.
    if (this.#isFull !== this.#isPaused) {
      if (this.#isFull) this.pause();
      else this.resume();
    }
    if (this.#held) this.#readSoon();
  }

  /** Ends it behind its last answer. */
  #end(): void {
    const isWhole = this.#incoming?.isWhole !== false;
    if (isWhole && this.#held === undefined && !this.#isUnread) {
      this.#shut();
      return;
    }
    this.#phase = "ending";
    this.#incoming = undefined;
    this.#held = undefined;
    this.#socket?.shutdown();
    if (this.#isPaused) this.resume();
    this.#wait(LINGER_MS);
  }

  /** Closes this side. The client closes its own within {@link LINGER_MS}, or is cut off. */
  #shut(): void {
    this.#phase = "ending";
    this.#incoming = undefined;
    this.#sender?.flush();
    this.#socket?.end();
    if (!this.#isOver) this.#wait(LINGER_MS);
  }

  /** May have become true by ending the socket, which may tell of its end before it returns. */
  get #isOver(): boolean {
    return this.#phase === "over";
  }

  #wait(ms: number): void {
    this.#timer?.stop();
    this.#timer = timeoutsOf(this.rules.clock, ms).wake(this);
  }

  /** What it waited for has not come. */
  wake(): void {
    if (this.#phase === "idle") this.#shut();
    else this.close();
  }

  #leave(reason: unknown): void {
    if (this.#isOver) return;
    const unanswered = this.#phase === "asked" ? this.#incoming : undefined;
    this.#phase = "over";
    // First of all: what follows may throw.
    this.rules.gone(this);
    this.#timer?.stop();
    this.#held = undefined;
    this.#incoming = undefined;
    this.#sender?.leave();
    unanswered?.leave(reason);
  }
}

/** Where a request begins: some clients send an empty line behind a body (RFC 9112, 2.2). */
function requestStart(held: Buffer): number {
  let start = 0;
  while (held[start] === 13 && held[start + 1] === 10) start += 2;
  return start;
}

/** What the request at the start of these bytes asks for, whatever is wrong behind its first line. */
function pathAskedIn(held: Buffer): string | undefined {
  const start = requestStart(held);
  return askedPath(held.toString("latin1", start, Math.min(held.length, start + MAX_HEAD_BYTES)));
}

/** Whether the rest of a body that nobody read is worth while waiting for: without it, no other request can be read. */
function canReadRest(incoming: Incoming): boolean {
  if (incoming.isWhole) return true;
  const { framing, waitsToSend } = incoming.headers;
  if (waitsToSend && !incoming.hasBegun) return false;
  return framing.kind === "length" && framing.bytes <= MAX_REST_BYTES;
}

/** Lets go of an answer whose client is gone. */
function forget(answered: Answered | Response): void {
  if ("chunks" in answered) answered.chunks.return?.().catch(ignoreGone);
  else if (answered instanceof Response && !answered.body?.locked) answered.body?.cancel().catch(ignoreGone);
}

/** Nobody is there to be told. */
function ignoreGone(): void {}
