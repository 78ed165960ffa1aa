import type { Clock } from "../../lib/clock.ts";

/** Text that is kept at the most, bytes, and what is counted for each part beside its own. */
const MOST_KEPT = 8 * 1024 * 1024;
const PART_OVERHEAD = 256;
/** Parts that are known to have followed one and the same: a system prompt is followed by whatever its users say. */
const MOST_NEXT = 64;
/** When no large body has come for so long, all is forgotten, ms. */
const KEPT_MS = 5 * 60_000;

/** A part of bodies that came before, as it was written and as it was read, and the parts that followed it. */
export class KnownPart {
  readonly next: KnownPart[] = [];

  /**
   * `bytes`: as it was written, the UTF-8 of a text. `tokens`: how many it counts for the bound of a body (see Scan). `mayHoldHalves`: half a
   * character may be spelled in it.
   */
  constructor(
    readonly bytes: Buffer,
    readonly value: unknown,
    readonly tokens: number,
    readonly mayHoldHalves: boolean,
  ) {}
}

function standsAt(part: Buffer, body: Buffer, at: number): boolean {
  const end = at + part.length;
  // Most that differ do so in their length, and then hardly ever end alike here.
  return (
    end <= body.length && body[end - 1] === part[part.length - 1] && body.compare(part, 0, part.length, at, end) === 0
  );
}

/** Requests that have nothing else in common share what was read: whoever changed it would change it for all. */
function freeze(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) for (const item of value) freeze(item);
  else for (const key in value) freeze((value as Record<string, unknown>)[key]);
  // Of a frozen list the runtime makes a slow one.
  if (!Array.isArray(value)) Object.freeze(value);
}

const NOTHING = Buffer.alloc(0);

/**
 * What was read of the last large bodies, part by part: agents send their whole conversation again with each turn, and what has not changed need
 * not be read again, nor be made text of. Kept for one sender at a time, in memory alone, bounded, and forgotten soon.
 */
export class KnownParts {
  readonly #roots = new Map<string, KnownPart>();
  #kept = 0;
  #usedAt = 0;
  #cancelLook: (() => void) | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly mostKept = MOST_KEPT,
  ) {}

  /** Text that is kept, bytes, with what is counted for each part. */
  get kept(): number {
    return this.#kept;
  }

  /** What the first parts of a field follow. `owner`: whose bodies they are. */
  rootOf(owner: string, field: string): KnownPart {
    this.#usedAt = this.clock.monotonic();
    const name = `${owner}\n${field}`;
    const known = this.#roots.get(name);
    if (known) return known;
    const root = new KnownPart(NOTHING, undefined, 0, false);
    this.#roots.set(name, root);
    this.#count(name.length);
    return root;
  }

  /** The part behind `before` that stands in `body` at `at`. Only such are known as end by themselves, so that none is the beginning of a longer one. */
  find({ next }: KnownPart, body: Buffer, at: number): KnownPart | undefined {
    for (let place = 0; place < next.length; place++) {
      const part = next[place] as KnownPart;
      if (!standsAt(part.bytes, body, at)) continue;
      if (place > 0) {
        next.splice(place, 1);
        next.unshift(part);
      }
      return part;
    }
    return undefined;
  }

  /** Keeps a part behind `before`: an object, a list or a string. Its bytes may lie in those of a body. */
  add(before: KnownPart, { bytes, value, tokens, mayHoldHalves }: KnownPart): KnownPart {
    freeze(value);
    const own = Buffer.allocUnsafeSlow(bytes.length);
    own.set(bytes);
    const part = new KnownPart(own, value, tokens, mayHoldHalves);
    before.next.unshift(part);
    if (before.next.length > MOST_NEXT) before.next.pop();
    this.#count(own.length);
    return part;
  }

  #count(length: number): void {
    this.#kept += length + PART_OVERHEAD;
    if (this.#kept > this.mostKept) this.#forget();
    else this.#cancelLook ??= this.clock.after(KEPT_MS, this.#look);
  }

  readonly #look = (): void => {
    const left = this.#usedAt + KEPT_MS - this.clock.monotonic();
    if (left <= 0) this.#forget();
    else this.#cancelLook = this.clock.after(left, this.#look);
  };

  /** Whoever is reading goes on with what he holds. */
  #forget(): void {
    this.#roots.clear();
    this.#kept = 0;
    this.#cancelLook?.();
    this.#cancelLook = undefined;
  }
}
