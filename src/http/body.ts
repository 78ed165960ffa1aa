import { GatewayError } from "../canon/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { releaseWhole } from "../lib/http1/memory.ts";
import { addPiece } from "../lib/http1/pieces.ts";
import { isObject, JsonText } from "../lib/json.ts";
import { timeoutsOf } from "../lib/timeouts.ts";
import type { BodyRoom, Place } from "../limits/body-room.ts";
import { NO_MEMORY } from "../limits/overloaded.ts";
import type { AskedBody } from "./asked.ts";
import { type Known, LARGE_BODY, readInParts } from "./json-parts.ts";
import { maySpellProto, Scan } from "./json-scan.ts";

const MIB = 1024 * 1024;

// Largest body per kind of endpoint, bytes (reliability 7.5).
/** Also of a count of tokens, which takes the same body as the generation it is made for (interface 4.6). */
export const MAX_GENERATION_BYTES = 32 * MIB;
export const MAX_IMAGE_REQUEST_BYTES = 4 * MIB;
export const MAX_WEB_BYTES = 4 * MIB;
export const MAX_ADMIN_BYTES = 256 * 1024;

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

export type ReadOptions = {
  maxBytes: number;
  clock: Clock;
  /** What is known of the bodies that this sender sent before, where they are conversations. */
  known?: Known | undefined;
  /** Where a large one needs a place. */
  room?: BodyRoom | undefined;
  /** Is given that place, to be left when nothing more is done with the body. Without it the place is left once it is read. */
  keeper?: { place?: Place } | undefined;
};

const invalid = (message: string, param?: string) =>
  new GatewayError("invalid_request", message, param === undefined ? {} : { param });

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The request's JSON object, as text and value. Bounded before it is believed: type and encoding, size, time, UTF-8, depth and number of
 * tokens, in this order, and all before `JSON.parse` (reliability 2 row 23, 7.5). Throws GatewayError: `unsupported_media_type`,
 * `request_too_large`, or `invalid_request`, never with content of the body in its message.
 */
export async function readJson(request: AskedBody, options: ReadOptions): Promise<JsonText> {
  return readJsonSoon(request, options);
}

/** {@link readJson}, at once for a body that has come whole, as nearly all have: then it throws, and does not reject. */
export function readJsonSoon(request: AskedBody, options: ReadOptions): JsonText | Promise<JsonText> {
  const { known } = options;
  const declared = checkHead(request, options);
  // What is known of other bodies helps only with a large one.
  if (!known || declared < LARGE_BODY) return readSoon(request, options, declared, readPlain, false);
  return readSoon(request, options, declared, (bytes, isOwn) => readKnown(bytes, isOwn, known), true);
}

const readPlain = (bytes: Uint8Array, isOwn: boolean): JsonText => checkJson(toText(bytes, isOwn));

const readKnown = (bytes: Uint8Array, isOwn: boolean, known: Known): JsonText =>
  isOwn ? checkParts(bytes, known) : readPlain(bytes, false);

/** The body of a request that says it is JSON, as text, under the same bounds; what it says is not looked at. Throws as {@link readJson}. */
export async function readText(request: AskedBody, options: ReadOptions): Promise<string> {
  return readSoon(request, options, checkHead(request, options), toText, false);
}

/** How long a body says it is, bytes; NaN where it says nothing. Throws for one that says it is no JSON, packed, or too large. */
function checkHead(request: AskedBody, { maxBytes }: ReadOptions): number {
  const { headers } = request;
  checkHeaders(headers);
  const declared = Number(headers.get("content-length") ?? Number.NaN);
  if (declared > maxBytes) throw tooLarge(maxBytes);
  return declared;
}

/** What is made of a body's bytes. `isOwn`: nobody else reads them any more, nor will. */
type Use<T> = (bytes: Uint8Array, isOwn: boolean) => T;

/** What `use` makes of the bytes, at once where they have come whole. `own`: it is given them, and not only for that call. */
function readSoon<T>(
  request: AskedBody,
  options: ReadOptions,
  declared: number,
  use: Use<T>,
  own: boolean,
): T | Promise<T> {
  if (!(declared <= ONE_PIECE_BYTES)) return readWatched(request, options, declared, use);
  const taken = request.lend ? request.lend(use, own) : useBytes(request, options, use);
  return taken instanceof Promise ? waitWhole(taken, options.clock) : taken;
}

/** Of a request that is not read from its connection here nobody knows whether it is as long as it says. */
async function useBytes<T>(request: AskedBody, { maxBytes }: ReadOptions, use: Use<T>): Promise<T> {
  const bytes = await request.bytes();
  if (bytes.length > maxBytes) throw tooLarge(maxBytes);
  return use(bytes, true);
}

/** `isOwn`: the bytes are let go of. */
function toText(bytes: Uint8Array, isOwn: boolean): string {
  if (bytes.length === 0) throw invalid("The request body is empty; a JSON object was expected.");
  try {
    const text = strictUtf8.decode(bytes);
    if (isOwn) releaseWhole(bytes);
    return text;
  } catch {
    throw invalid("The request body is not valid UTF-8.");
  }
}

const JSON_TYPE = "application/json";

function checkHeaders(headers: AskedBody["headers"]): void {
  const said = headers.get("content-type") ?? "";
  const type = said === JSON_TYPE ? said : (said.split(";", 1)[0]?.trim().toLowerCase() ?? "");
  if (type !== JSON_TYPE && !/^application\/[a-z0-9.!#$&^_-]+\+json$/.test(type)) {
    throw new GatewayError(
      "unsupported_media_type",
      "The request body must be JSON, sent as 'content-type: application/json'.",
    );
  }
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding.trim().toLowerCase() !== "identity") {
    throw new GatewayError(
      "unsupported_media_type",
      "Compressed request bodies are not accepted; leave content-encoding out.",
    );
  }
}

async function readWatched<T>(request: AskedBody, options: ReadOptions, declared: number, use: Use<T>): Promise<T> {
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
    private readonly options: ReadOptions,
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

const tooLarge = (maxBytes: number) =>
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

/**
 * A body's text as bounded JSON: at most `MAX_DEPTH` levels and `MAX_TOKENS` tokens, no number beyond a double, no key
 * `__proto__` however it is spelled, an object at the top. Throws GatewayError `invalid_request`.
 */
export function checkJson(text: string): JsonText {
  const scan = new Scan(text);
  const closed = scan.run() >= 0;
  const hasEscapes = text.includes("\\u");
  // Of a text that is no JSON object the fields mean nothing; below, such a text is refused.
  const json = new JsonText(text, scan.fields, undefined, hasEscapes);
  let value: unknown;
  try {
    value = json.value;
  } catch {
    // The parser's own words quote the body, so they are not passed on.
    throw invalid(
      closed ? "The request body is not valid JSON." : "The request body is not valid JSON: it is cut off.",
    );
  }
  if (!isObject(value)) throw invalid("The request body must be a JSON object.");
  if (scan.holdsProto || (hasEscapes && maySpellProto(text))) {
    const param = findProto(value, "");
    if (param !== undefined) throw invalid("The key __proto__ is not allowed.", param);
  }
  return json;
}

/** {@link checkJson} of the bytes of a text, of which only what its sender did not send before is read. They are the document's own from then on. */
export function checkParts(bytes: Uint8Array, known: Known): JsonText {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return (body.length >= LARGE_BODY ? readInParts(body, known) : undefined) ?? checkJson(toText(body, true));
}

/** Path of the first `__proto__` key, if any. The depth is bounded by the scan. */
function findProto(value: unknown, path: string): string | undefined {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const found = findProto(value[index], `${path}[${index}]`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (!isObject(value)) return undefined;
  for (const [key, inner] of Object.entries(value)) {
    const inside = path === "" ? key : `${path}.${key}`;
    if (key === "__proto__") return inside;
    if (typeof inner !== "object" || inner === null) continue;
    const found = findProto(inner, inside);
    if (found !== undefined) return found;
  }
  return undefined;
}
