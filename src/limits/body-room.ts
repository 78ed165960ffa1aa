import type { Leaving } from "../lib/abort.ts";
import type { Clock } from "../lib/clock.ts";
import { NO_MEMORY } from "./overloaded.ts";

const MIB = 1024 * 1024;
/**
 * The part of the memory that large bodies may be, which are worked on at the same time, in their own bytes. Each takes four to six times that until it is gone:
 * its bytes, its text, the values read from it, and what is sent of it. At least the largest body that there is; at most what keeps a machine busy.
 */
const PART = 1 / 8;
const LEAST_BYTES = 32 * MIB;
const MOST_BYTES = 512 * MIB;
/** The fraction of its size that a body counts for once it was sent: only its text is kept then, which another vendor may need until there is an answer. */
const KEPT_PART = 1 / 4;
/** Memory that a body takes which waits, bytes: what was read of it, and what came meanwhile. All that wait may take as much as those that are worked on. */
const WAITING_BYTES = 512 * 1024;
/** Longer than this nobody waits, ms. */
const WAIT_MS = 10_000;

/** A body's place among those that are worked on. */
export type Place = {
  /** It has turned out to be no larger than this, bytes. */
  shrink(bytes: number): void;
  /** Only its text is kept from now on. */
  rest(): void;
  /** Nothing is left of it. */
  leave(): void;
};

export type BodyRoomParts = {
  clock: Clock;
  /** What this process may use, bytes. */
  memoryBytes: number;
  /** Asked before a body of so many bytes comes in. Throws {@link Overloaded} where there is no memory for any. */
  check(bytes: number): void;
  /** One was turned away here. */
  onRefused(): void;
};

type Waiting = { bytes: number; resolve(place: Place): void; reject(thrown: unknown): void; stop(): void };

/**
 * Bounds the large bodies that are read and worked on at the same time, by their bytes: dozens at once would take all of the memory before anybody has
 * looked how much is left. The others wait in their order; nothing more is read of them meanwhile, so that they wait at their senders.
 */
export class BodyRoom {
  readonly #most: number;
  #used = 0;
  readonly #waiting = new Set<Waiting>();

  constructor(private readonly parts: BodyRoomParts) {
    this.#most = Math.min(MOST_BYTES, Math.max(LEAST_BYTES, parts.memoryBytes * PART));
  }

  /** Bytes that are worked on. */
  get used(): number {
    return this.#used;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Resolves when there is room for so many bytes. Rejects with {@link Overloaded} when too many wait for that, or for too long, and with the reason of
   * `left` when nobody waits any more.
   */
  async enter(bytes: number, left?: Leaving): Promise<Place> {
    const { clock, check, onRefused } = this.parts;
    check(bytes);
    if (this.#waiting.size === 0 && this.#fits(bytes)) return this.#take(bytes);
    if ((this.#waiting.size + 1) * WAITING_BYTES > this.#most) {
      onRefused();
      throw NO_MEMORY;
    }
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { bytes, resolve, reject, stop: clock.after(WAIT_MS, () => this.#giveUp(waiting)) };
      this.#waiting.add(waiting);
      left?.add({ onAbort: (reason) => this.#leave(waiting, reason) });
    });
  }

  /** Whether there is room for so many bytes. When nothing else is worked on, there is room for any body. */
  #fits(bytes: number): boolean {
    return this.#used === 0 || this.#used + bytes <= this.#most;
  }

  #take(bytes: number): Place {
    let size = bytes;
    let held = bytes;
    this.#used += held;
    const hold = (to: number) => {
      if (to >= held) return;
      this.#used -= held - to;
      held = to;
      this.#letIn();
    };
    const shrink = (to: number) => {
      size = Math.min(size, to);
      hold(size);
    };
    return { shrink, rest: () => hold(size * KEPT_PART), leave: () => hold(0) };
  }

  #letIn(): void {
    for (const waiting of this.#waiting) {
      if (!this.#fits(waiting.bytes)) return;
      this.#waiting.delete(waiting);
      waiting.stop();
      waiting.resolve(this.#take(waiting.bytes));
    }
  }

  /** Its client is gone. */
  #leave(waiting: Waiting, reason: unknown): void {
    if (!this.#waiting.delete(waiting)) return;
    waiting.stop();
    waiting.reject(reason);
    this.#letIn();
  }

  #giveUp(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    this.parts.onRefused();
    waiting.reject(NO_MEMORY);
    // A small one behind it may find room.
    this.#letIn();
  }
}
