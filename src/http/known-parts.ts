import type { Clock } from "../lib/clock.ts";
import { ownText } from "../lib/own-text.ts";

/** Text that is kept at the most, characters, and what is counted for each part beside its own. */
const MOST_KEPT = 8 * 1024 * 1024;
const PART_OVERHEAD = 256;
/** Parts that are known to have followed one and the same: a system prompt is followed by whatever its users say. */
const MOST_NEXT = 64;
/** When no large body has come for so long, all is forgotten, ms. */
const KEPT_MS = 5 * 60_000;

/** A part of bodies that came before, as it was written and as it was read, and the parts that followed it. */
export class KnownPart {
  readonly next: KnownPart[] = [];

  /** `tokens`: how many it counts for the bound of a body (see Scan). `hasEscapes`: a character in it is spelled by its number. */
  constructor(
    readonly text: string,
    readonly value: unknown,
    readonly tokens: number,
    readonly hasEscapes: boolean,
  ) {}
}

/** Requests that have nothing else in common share what was read: whoever changed it would change it for all. */
function freeze(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) for (const item of value) freeze(item);
  else for (const key in value) freeze((value as Record<string, unknown>)[key]);
  // Of a frozen list the runtime makes a slow one.
  if (!Array.isArray(value)) Object.freeze(value);
}

/**
 * What was read of the last large bodies, part by part: agents send their whole conversation again with each turn, and what has not changed need
 * not be read again. Kept for one sender at a time, in memory alone, bounded, and forgotten soon.
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

  /** Text that is kept, characters, with what is counted for each part. */
  get kept(): number {
    return this.#kept;
  }

  /** What the first parts of a field follow. `owner`: whose bodies they are. */
  rootOf(owner: string, field: string): KnownPart {
    this.#usedAt = this.clock.monotonic();
    const name = `${owner}\n${field}`;
    const known = this.#roots.get(name);
    if (known) return known;
    const root = new KnownPart(name, undefined, 0, false);
    this.#roots.set(name, root);
    this.#count(root);
    return root;
  }

  /** The part behind `before` that stands in `text` at `at`. Only such are known as end by themselves, so that none is the beginning of a longer one. */
  find({ next }: KnownPart, text: string, at: number): KnownPart | undefined {
    for (let place = 0; place < next.length; place++) {
      const part = next[place] as KnownPart;
      if (text.slice(at, at + part.text.length) !== part.text) continue;
      if (place > 0) {
        next.splice(place, 1);
        next.unshift(part);
      }
      return part;
    }
    return undefined;
  }

  /** Keeps a part behind `before`: an object, a list or a string. Its text may lie in that of a body. */
  add(before: KnownPart, { text, value, tokens, hasEscapes }: KnownPart): KnownPart {
    freeze(value);
    const part = new KnownPart(ownText(text), value, tokens, hasEscapes);
    before.next.unshift(part);
    if (before.next.length > MOST_NEXT) before.next.pop();
    this.#count(part);
    return part;
  }

  #count({ text }: KnownPart): void {
    this.#kept += text.length + PART_OVERHEAD;
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
