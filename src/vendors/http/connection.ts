import type { Socket } from "bun";
import { restOf } from "../../lib/http1/fields.ts";
import { outbox, type Posting } from "../../lib/outbox.ts";
import { type Call, ConnectionReset, type Line } from "./call.ts";
import { ConnectFailed, ConnectionLost } from "./faults.ts";
import { type Heard, hearing } from "./hearing.ts";
import { type Origin, writeBytes } from "./request.ts";

/** A name must be found, a connection made and TLS agreed upon within this, ms (reliability 6.1). */
const CONNECT_MS = 5_000;

/** How long after a request has gone out a 408 may still be about the rest before it, the two having crossed on the way, ms: the server has not had the request then. */
const CROSSING_MS = 1_000;

/** What the system says of a connection that was taken, and then torn down. Nobody who refuses one says so. */
const TORN_DOWN: ReadonlySet<string> = new Set(["ECONNRESET", "ECONNABORTED", "EPIPE"]);

/** What a connection tells whoever keeps it. */
export type Keeper = {
  /** It may be used for another call. */
  freed(connection: Connection): void;
  /** It is gone. `rested`: the other side closed it while nothing was done on it. */
  gone(connection: Connection, rested: boolean): void;
  /** It had rested, and is gone: nothing of the call was sent on it, or read by the other side. */
  unsent(call: Call, origin: Origin): void;
  /** Monotonic ms. */
  now(): number;
};

/** A connection to an upstream, on which one call follows another. */
export class Connection implements Line, Posting, Heard {
  #socket: Socket<Connection> | undefined;
  #call: Call | undefined;
  /** The call's request is to go out at the end of this turn of the event loop: nothing of it has gone out yet. */
  #isDue = false;
  /** It rested at its keeper between two calls, or before its first. */
  #hasRested = false;
  /** When its request went out, by its keeper's clock. */
  #sentAt = 0;
  /** Its last answer has only just come. The other side may have closed the connection right behind it, and that may have arrived without having been read yet. */
  #isUnheard = false;
  /** Of a request that has not gone out whole. */
  #unsent: Uint8Array | undefined;
  /** A request can be sent, or could once. */
  #isOpen = false;
  #over = false;
  /** Settled once it can be used, or cannot. */
  #opening: PromiseWithResolvers<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Since when nothing is done on it, monotonic ms; its keeper's. */
  idleSince = 0;
  /** How many came on it whole. */
  answers = 0;

  constructor(
    readonly origin: Origin,
    private readonly keeper: Keeper,
  ) {}

  /**
   * Begins to connect. Resolves once a request can be sent. Rejects with ConnectFailed, or with ConnectionLost where it was torn down on its way; then it
   * is gone, which may be told before this returns. To be called once.
   */
  open(): Promise<void> {
    const { hostname, port, secure } = this.origin;
    const opening = Promise.withResolvers<void>();
    this.#opening = opening;
    this.#timer = setTimeout(() => this.#refuse("ETIMEDOUT"), CONNECT_MS);
    // An address is no name to ask for (RFC 6066, 3): some servers refuse one. The certificate must be of that address all the same.
    const tls = secure ? { serverName: isAddress(hostname) ? "" : hostname, rejectUnauthorized: true } : undefined;
    Bun.connect({ hostname, port, ...(tls && { tls }), socket: HANDLERS, data: this }).catch((thrown: unknown) =>
      this.#refuse(codeOf(thrown), thrown),
    );
    return opening.promise;
  }

  /** Sends a call's request, with the end of this turn of the event loop, or of the next one behind an answer; nothing else is under way. */
  start(call: Call): void {
    // It ended while no call was on it that could have been told.
    if (this.#over) {
      call.lost(new Error("The connection was closed."));
      return;
    }
    this.#call = call;
    this.#isDue = true;
    call.attach(this);
    if (!this.#isUnheard) outbox.add(this);
  }

  onHeard(): void {
    this.#isUnheard = false;
    if (this.#isDue) outbox.add(this);
  }

  sendNow(): void {
    const call = this.#call;
    this.#isDue = false;
    // The call was given up meanwhile, or the connection has ended.
    if (!call || this.#over) return;
    try {
      this.#sentAt = this.keeper.now();
      this.#write(writeBytes(call));
      if (!this.#hasRested) call.forget();
    } catch (thrown) {
      this.onFailure(thrown);
    }
  }

  /** Ends it now, whatever is under way. */
  close(): void {
    this.#end(false);
  }

  pause(): void {
    this.#socket?.pause();
  }

  resume(): void {
    this.#socket?.resume();
  }

  ended(clean: boolean): void {
    this.#call = undefined;
    // An answer that came before its request had gone out whole leaves a connection that nobody can use.
    if (!clean || this.#unsent || this.#isDue || this.#over) this.close();
    else {
      this.answers++;
      this.#isUnheard = true;
      hearing.add(this);
      this.rest();
    }
  }

  /** Gives it to its keeper: no call is on it, or the one that it was opened for was given up. */
  rest(): void {
    if (this.#over) return;
    this.#hasRested = true;
    this.keeper.freed(this);
  }

  abandon(): void {
    this.#call = undefined;
    this.close();
  }

  missed(): boolean {
    const call = this.#call;
    if (!call || !this.#hasRested || this.keeper.now() - this.#sentAt > CROSSING_MS) return false;
    this.#call = undefined;
    this.#end(true);
    this.keeper.unsent(call, this.origin);
    return true;
  }

  #write(bytes: Uint8Array): void {
    const written = this.#socket?.write(bytes) ?? -1;
    // Where the socket is closed already (-1), its end is told by itself.
    this.#unsent = written >= 0 && written < bytes.length ? restOf(bytes, written) : undefined;
    if (written >= 0 && !this.#unsent) this.#call?.sent();
  }

  // What the socket tells.

  onOpen(socket: Socket<Connection>): void {
    this.#socket = socket;
    if (this.#over) socket.terminate();
    else if (!this.origin.secure) this.#ready();
  }

  /** Nothing is sent before this: the other side must have proven who it is. */
  onHandshake(proven: boolean, error: Error | null): void {
    if (proven && error === null && this.#socket?.authorized === true) this.#ready();
    else this.#refuse(codeOf(error), error);
  }

  onData(bytes: Buffer): void {
    const unsent = this.#takeUnsent();
    if (this.#call) this.#call.take(bytes);
    else {
      // Some servers send a 408 before they close a connection that has rested: it answers no request.
      this.#end(this.#hasRested);
      if (unsent) this.keeper.unsent(unsent, this.origin);
    }
  }

  onDrain(): void {
    if (this.#unsent) this.#write(this.#unsent);
  }

  onClose(error: unknown): void {
    this.#refuse(codeOf(error), error);
    const unsent = this.#takeUnsent();
    this.#leave(this.#hasRested && this.#call === undefined);
    if (unsent) this.keeper.unsent(unsent, this.origin);
    const call = this.#call;
    this.#call = undefined;
    if (!call) return;
    // Even one that had rested may have been closed because of this request: to send it again might have it done, and billed, twice (reliability 6.2).
    if (error) call.lost(new ConnectionReset(`The connection was torn down (${codeOf(error)}).`));
    else call.lost(new Error("The connection was closed."));
  }

  onFailure(error: unknown): void {
    this.#refuse(codeOf(error), error);
    // TLS that breaks under way is told by the same words as one that was never agreed upon: by then the request may be at work (reliability 6.2).
    this.#call?.fail(new ConnectionLost(`The connection broke (${codeOf(error)}).`, { cause: error }));
    this.close();
  }

  /**
   * The call of a connection that had rested, when its request has not gone out: whatever comes on it now was not meant for that call. So it is where the
   * other side closed what rested in the same turn of the event loop in which it was to be used again.
   */
  #takeUnsent(): Call | undefined {
    if (!this.#isDue || !this.#hasRested) return undefined;
    const call = this.#call;
    this.#isDue = false;
    this.#call = undefined;
    return call;
  }

  #ready(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isOpen = true;
    this.#socket?.setNoDelay(true);
    this.#opening?.resolve();
    this.#opening = undefined;
  }

  /** The connection did not come about. Without effect once it has. */
  #refuse(code: string, cause?: unknown): void {
    if (this.#isOpen) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // Whether this side had sent its request by then is chance, so it is told like every other reset (reliability 8.3 #6). Over TLS nothing can have been sent.
    const torn = !this.origin.secure && TORN_DOWN.has(code);
    const lost = () => new ConnectionLost(`The connection was torn down (${code}).`, { cause });
    this.#opening?.reject(torn ? lost() : new ConnectFailed(code, { cause }));
    this.close();
  }

  #end(rested: boolean): void {
    this.#leave(rested);
    // Its close event may come before this returns.
    this.#socket?.terminate();
  }

  #leave(rested: boolean): void {
    if (this.#over) return;
    this.#over = true;
    this.keeper.gone(this, rested);
  }
}

/**
 * Whether a URL's host, without brackets, is an IP address: one that ends in a number always is (URL Standard, 3.5). The runtime knows as well, in a module
 * that brings streams along, for which a start waits 3 ms.
 */
const isAddress = (hostname: string): boolean => hostname.includes(":") || /^[\d.]+$/.test(hostname);

const codeOf = (error: unknown): string => {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return String(code ?? message ?? "closed");
};

/** One set for all sockets; each one's own connection is its data. */
const HANDLERS = {
  binaryType: "buffer" as const,
  open: (socket: Socket<Connection>) => socket.data.onOpen(socket),
  handshake: (socket: Socket<Connection>, proven: boolean, error: Error | null) =>
    socket.data.onHandshake(proven, error),
  data: (socket: Socket<Connection>, bytes: Buffer) => socket.data.onData(bytes),
  drain: (socket: Socket<Connection>) => socket.data.onDrain(),
  close: (socket: Socket<Connection>, error?: unknown) => socket.data.onClose(error),
  error: (socket: Socket<Connection>, error: Error) => socket.data.onFailure(error),
  connectError: (socket: Socket<Connection>, error: Error) => socket.data.onClose(error),
};
