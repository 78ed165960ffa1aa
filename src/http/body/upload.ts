import { GatewayError } from "../../canon/errors.ts";
import type { Clock } from "../../lib/clock.ts";
import { releaseWhole } from "../../lib/http1/memory.ts";
import { addPiece } from "../../lib/http1/pieces.ts";
import { timeoutsOf } from "../../lib/timeouts.ts";
import type { BodyRoom, Place } from "../../limits/body-room.ts";
import { NO_MEMORY } from "../../limits/overloaded.ts";
import type { AskedBody } from "../asked.ts";

/** An upload may take this long in all, milliseconds. */
export const UPLOAD_TOTAL_MS = 120_000;
/** An upload may stand still this long, milliseconds. */
export const UPLOAD_STALL_MS = 30_000;
/** What an upload must bring, bytes a second, once its first {@link UPLOAD_GRACE_MS} are over (reliability 6.1). */
export const UPLOAD_RATE = 16 * 1024;
export const UPLOAD_GRACE_MS = 10_000;
/**
 * What an upload must bring, bytes a second, that holds a place for which others wait, once its first {@link HURRY_GRACE_MS} there are over; how often
 * that is looked at, ms.
 */
export const HURRIED_RATE = 512 * 1024;
export const HURRY_GRACE_MS = 5_000;
const HURRY_LOOK_MS = 1_000;
/**
 * A declared body up to this size is read in one piece: cheaper than a stream, and no more memory than a stream's own buffer.
 * Its progress cannot be seen, so it must be here whole within {@link UPLOAD_STALL_MS}.
 */
const ONE_PIECE_BYTES = 256 * 1024;

export type UploadOptions = {
  maxBytes: number;
  clock: Clock;
  /** Where a large one needs a place. */
  room?: BodyRoom | undefined;
  /** Is given that place, to be left when nothing more is done with the body. Without it the place is left once it is read. */
  keeper?: { place?: Place } | undefined;
};

/** What is made of a body's bytes. `isOwn`: nobody else reads them any more, nor will. */
type Use<T> = (bytes: Uint8Array, isOwn: boolean) => T;

/**
 * What `use` makes of a body's bytes, at once where they have come whole. `declared`: how long it says it is, bytes; NaN where it says nothing. `own`:
 * `use` is given the bytes, and not only for that call. Throws GatewayError: request_too_large, invalid_request for one that breaks off, {@link UploadCut}
 * for one that is too slow, and upstream_overloaded where others wait for the memory that it holds.
 */
export function readUpload<T>(
  request: AskedBody,
  options: UploadOptions,
  declared: number,
  use: Use<T>,
  own: boolean,
): T | Promise<T> {
  if (!(declared <= ONE_PIECE_BYTES)) return readWatched(request, options, declared, use);
  const taken = request.lend ? request.lend(use, own) : useBytes(request, options, use);
  return taken instanceof Promise ? waitWhole(taken, options.clock) : taken;
}

/** Of a request that is not read from its connection here nobody knows whether it is as long as it says. */
async function useBytes<T>(request: AskedBody, { maxBytes }: UploadOptions, use: Use<T>): Promise<T> {
  const bytes = await request.bytes();
  if (bytes.length > maxBytes) throw tooLarge(maxBytes);
  return use(bytes, true);
}

async function readWatched<T>(request: AskedBody, options: UploadOptions, declared: number, use: Use<T>): Promise<T> {
  const gathering = new Gathering(request, options, declared);
  try {
    if (request.body !== null) await gathering.read(request.body);
    return use(gathering.bytes(), gathering.isOwn);
  } catch (error) {
    throw brokenOff(error);
  } finally {
    gathering.end();
  }
}

/** An upload that is given up: its connection is closed behind the answer, since nobody waits for the rest. */
export class UploadCut extends GatewayError {
  constructor() {
    super("invalid_request", "The request body did not arrive in time.");
  }
}

const tooSlow = () => new UploadCut();

const brokenOff = (error: unknown) =>
  error instanceof GatewayError
    ? error
    : new GatewayError("invalid_request", "The request body ended before it was complete.", { cause: error });

/** A small body in one piece, with as little around it as can be. */
function waitWhole<T>(taken: Promise<T>, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const stall = timeoutsOf(clock, UPLOAD_STALL_MS).start(() => reject(tooSlow()));
    taken.then(
      (whole) => {
        stall.stop();
        resolve(whole);
      },
      (error: unknown) => {
        stall.stop();
        reject(brokenOff(error));
      },
    );
  });
}

/** A large body on its way. */
class Gathering {
  readonly #watch: UploadWatch;
  /** Its pieces are nobody else's, and it is as long as it says. */
  readonly isOwn: boolean;
  readonly #pieces: Uint8Array[] = [];
  /** All of it together, once it is large enough to have a place. */
  #whole: Buffer | undefined;
  #length = 0;
  #place: Place | undefined;

  constructor(
    private readonly request: AskedBody,
    private readonly options: UploadOptions,
    /** How long it says it is; NaN where it says nothing. */
    private readonly declared: number,
  ) {
    this.#watch = new UploadWatch(options.clock);
    this.isOwn = request.lend !== undefined;
  }

  async read(body: ReadableStream<Uint8Array>): Promise<void> {
    const { maxBytes } = this.options;
    const reader = body.getReader();
    try {
      for (;;) {
        const { done, value } = await this.#watch.race(reader.read());
        if (done) break;
        this.#watch.progress(value.length);
        if (this.#length + value.length > maxBytes) throw tooLarge(maxBytes);
        this.#add(value);
        // Whoever sends too little to need a place keeps none from others.
        if (this.#length > ONE_PIECE_BYTES && !this.#place) await this.#findPlace();
      }
    } catch (error) {
      // What is still to come is not wanted. The cancel itself may fail only because the connection is gone already.
      reader.cancel().catch(() => undefined);
      throw error;
    }
    this.#place?.shrink(this.#length);
  }

  bytes(): Uint8Array {
    const [first] = this.#pieces;
    return this.#whole ?? (this.#pieces.length === 1 && first ? first : Buffer.concat(this.#pieces, this.#length));
  }

  end(): void {
    this.#watch.stop();
    if (!this.options.keeper) this.#place?.leave();
  }

  #add(piece: Uint8Array): void {
    const at = this.#length;
    this.#length += piece.length;
    if (!this.#whole) {
      addPiece(this.#pieces, piece);
      return;
    }
    this.#whole.set(piece, at);
    releaseWhole(piece);
  }

  /** From here on each piece goes where it will be read, and its memory is used for the next one: kept until the end it would be there twice. */
  async #findPlace(): Promise<void> {
    const { room, keeper, maxBytes } = this.options;
    if (!room) return;
    const most = Number.isNaN(this.declared) ? maxBytes : this.declared;
    this.#place = await this.#watch.excuse(room.enter(most, this.request.left));
    this.#watch.hurry(() => room.waiting > 0);
    if (keeper) keeper.place = this.#place;
    if (!this.isOwn || Number.isNaN(this.declared)) return;
    const pieces = this.#pieces.splice(0);
    this.#whole = Buffer.allocUnsafeSlow(this.declared);
    this.#length = 0;
    for (const piece of pieces) this.#add(piece);
  }
}

/** The error of a body of more than `maxBytes`. */
export const tooLarge = (maxBytes: number) =>
  new GatewayError(
    "request_too_large",
    `The request body is larger than ${maxBytes} bytes, the most this endpoint takes.`,
  );

/**
 * Cuts an upload that lasts too long, stands still or only drips. One timer for the whole upload, armed again only while it runs: first when it
 * has to bring so much a second.
 */
class UploadWatch {
  readonly #clock: Clock;
  #started: number;
  #lastProgress: number;
  #received = 0;
  /** Whether others wait for the place that the upload holds; since when it does, and what had come before. */
  #isHurried: (() => boolean) | undefined;
  #heldSince = 0;
  #receivedBefore = 0;
  #cancelTimer: () => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  readonly #cut: Promise<never>;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#started = clock.monotonic();
    this.#lastProgress = this.#started;
    this.#cut = new Promise<never>((_resolve, reject) => {
      this.#reject = reject;
    });
    // Whoever lost the race has nobody left to tell.
    this.#cut.catch(() => undefined);
    this.#wait(UPLOAD_GRACE_MS);
  }

  race<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#cut]);
  }

  /** While this is waited for nothing is expected of the sender. */
  async excuse<T>(work: Promise<T>): Promise<T> {
    const since = this.#clock.monotonic();
    this.#cancelTimer();
    const done = await work;
    const now = this.#clock.monotonic();
    this.#started += now - since;
    this.#lastProgress = now;
    this.#check();
    return done;
  }

  /** From now on the upload holds a place. `isHurried`: whether others wait for it. */
  hurry(isHurried: () => boolean): void {
    this.#isHurried = isHurried;
    this.#heldSince = this.#clock.monotonic();
    this.#receivedBefore = this.#received;
    this.#cancelTimer();
    this.#check();
  }

  progress(bytes: number): void {
    this.#received += bytes;
    this.#lastProgress = this.#clock.monotonic();
  }

  stop(): void {
    this.#cancelTimer();
  }

  #check(): void {
    const paidForMs = UPLOAD_GRACE_MS + (this.#received / UPLOAD_RATE) * 1_000;
    const endsAt = Math.min(
      this.#started + UPLOAD_TOTAL_MS,
      this.#lastProgress + UPLOAD_STALL_MS,
      this.#started + paidForMs,
    );
    const now = this.#clock.monotonic();
    if (endsAt <= now) this.#reject(tooSlow());
    else if (!this.#isHurried) this.#wait(endsAt - now);
    else if (this.#isHurried() && this.#hurriedUntil() <= now) this.#reject(NO_MEMORY);
    else this.#wait(Math.min(endsAt - now, HURRY_LOOK_MS));
  }

  #hurriedUntil(): number {
    const brought = this.#received - this.#receivedBefore;
    return this.#heldSince + HURRY_GRACE_MS + (brought / HURRIED_RATE) * 1_000;
  }

  #wait(ms: number): void {
    this.#cancelTimer = this.#clock.after(ms, () => this.#check());
  }
}
