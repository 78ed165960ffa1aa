import type { GatewayError } from "../canon/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { Fields } from "../lib/http1/fields.ts";
import { WholeHeap } from "../lib/whole-heap.ts";
import { type Figure, figure, single } from "../observe/figures.ts";
import { BodyRoom } from "./body-room.ts";
import { NO_MEMORY, NO_STORE, OVERLOADED, Overloaded } from "./overloaded.ts";

/** Generations that may be under way before anybody is asked to wait: with fewer there is nothing to order. */
const FREE = 8;
/** How many requests are let in with each turn of the event loop: at first, and the bounds between which that is set anew at every turn. */
const PACE = 16;
const LEAST_PACE = 1;
const MOST_PACE = 64;
/** How long a turn may take, ms: after a longer one fewer are let in with the next. */
const TURN_MS = 3;
/**
 * A turn that waited for the disk for longer than the first, ms, may have worked for such a part of that wait, which is not counted itself: a slow disk's
 * commit takes as long for one request as for sixty.
 */
const SLOW_DISK_MS = 10;
const TURN_OF_WAIT = 0.25;
/** Requests that may wait to come in. */
const MOST_WAITING = 4_096;
/** How much of the body of each may be in memory meanwhile, bytes: its connection takes no more before its sender has to wait. */
const KEPT_OF_EACH = 512 * 1024;
/** How much that may come to for all who wait, bytes, and as a part of the memory. */
const MOST_WAITING_BYTES = 256 * 1024 * 1024;
const WAITING_PART = 1 / 8;
/** Assumed of a body that does not say how long it is, bytes. */
const UNKNOWN_BYTES = 64 * 1024;
/** How often it is looked at whether the queue of those who wait grows, ms. */
const WINDOW_MS = 100;
/**
 * It grows when the most who waited in this many looks are more than in as many looks before, and so are the most who were here at all, waiting or let in.
 * Where only the first is so, clients ask again as soon as they are answered, and their streams end in waves; where only the second is so, a burst of long
 * streams is being let in.
 */
const LOOKS = 3;
/** By how many more it must be at least, as a part of those who were let in since the last look. */
const GROWTH = 0.1;
/** A queue that is let in within this time is never too long, ms. */
const SHORT_WAIT_MS = 100;
/** A queue that grows for this long is no burst that passes, but more than can be done: from then on it is strict, ms. */
const BURST_MS = 2_500;
/** One look counts for no longer than this, ms: a turn that took seconds, as of a machine that stood still, says nothing of how it went on meanwhile. */
const MOST_LOOK_MS = 2 * WINDOW_MS;
/** While it is strict: how many may wait, and how long (ms). It is over when nobody has been turned away for the third (ms). */
const STRICT_WAITING = 16;
const STRICT_WAIT_MS = 100;
const CALM_MS = 2_000;
/** Nobody waits for longer, ms, though the queue does not grow: clients that each ask again as soon as they are answered become no more, and may be too many. */
const MOST_WAIT_MS = 10_000;
/** Once the queue has grown for the second, nobody waits for longer than the first, ms: those who came later were let in before them all that time. */
const OVERTAKEN_MS = BURST_MS;
const WAVES_MS = 500;
/** While the queue grows, the newest is let in first, once the oldest has waited for this long, ms; the second: while it is strict. */
const LATEST_FIRST_MS = 100;
const STRICT_LATEST_FIRST_MS = 25;
/** When even the newest has waited for {@link LATEST_FIRST_MS}, nobody is let in before nobody has come for this long, ms: then the burst is over. */
const STILL_MS = 20;
/** How many of those who have waited too long are refused with each turn. */
const TOLD_EACH_TURN = 64;
/** The parts of the memory in use from which no new streams, and no new requests at all, are taken (reliability 4); and how often it is looked at, ms. */
const STREAMS_UNTIL = 0.85;
const REQUESTS_UNTIL = 0.95;
const MEMORY_EVERY_MS = 1_000;
/** It is also looked at whenever large bodies of this part of it have come in: within a second they could fill all of it. */
const MEMORY_EVERY_PART = 1 / 64;

export type AdmissionParts = {
  clock: Clock;
  /** What this process may use, bytes. */
  memoryBytes: number;
  /** What it uses, bytes. Asked about once a second. */
  readMemory(): number;
  /** See {@link WholeHeap}. */
  collect?: () => void;
  /** Generations that are under way. */
  running(): number;
  /** How long this process has stood still for the disk so far, ms. Default: it never does. */
  waitedMs?(): number;
  /** The store takes no writes at the moment: what a request comes to could not be written down. */
  storeFails?(): boolean;
  /** Runs `work` with the next turn of the event loop. Default: setImmediate. */
  nextTurn?(work: () => void): void;
};

/** Of a request: whether its client is still there, and how long its body is. */
export type Asking = { readonly left: { readonly aborted: boolean }; readonly headers: Fields };

type Waiting = { asking: Asking; since: number; bytes: number; resolve(): void; reject(error: GatewayError): void };

/** How many wait, and how many are here at all, those let in among them. */
type Look = { waiting: number; here: number };

/**
 * Who is let in while there is too much to do (reliability 4, the adaptive part): asked before anything is done for a request, even its key. A few
 * come in with each turn of the event loop, the fewer the longer the turns are, so that what is under way goes on; the others wait. A burst waits and
 * passes. Where the wait does not end, there is more to do than can be done: then nobody waits any more, and who is not let in at once is told to come back.
 * Polls, health, reads and whatever is under way never come here: what they need is theirs.
 */
export class Admission {
  readonly shed = { load: 0, memory: 0, store: 0 };
  /** Where large bodies are worked on. */
  readonly bodies: BodyRoom;
  /** Requests that come in with one turn. */
  #pace = PACE;
  /** Those who wait, in the order of their coming; what stands before `#first` is gone. */
  #waiting: (Waiting | undefined)[] = [];
  #first = 0;
  /** Those who waited when it turned out that there is more to do than can be done, last ones first: they are being told. */
  #leaving: Waiting[] = [];
  #waitingBytes = 0;
  #entered = 0;
  #turning = false;
  /** When this turn of the event loop began: who came since then is not known before the next one. */
  #lookedAt = 0;
  /** How long this process had stood still for the disk by then. */
  #waitedMs = 0;
  /** When the time since the last look began, and how many had been refused and let in by then. */
  #windowAt = 0;
  #before = { shed: 0, admitted: 0 };
  /** The last looks, the latest last. */
  #looks: Look[] = [];
  #admitted = 0;
  /** For how long the queue has been growing, ms. */
  #growingMs = 0;
  /** When the last one came who had to wait. */
  #cameAt = Number.NEGATIVE_INFINITY;
  #strictUntil = Number.NEGATIVE_INFINITY;
  #memory: "free" | "tight" | "full" = "free";
  #sinceMemoryMs = 0;
  #sinceMemoryBytes = 0;
  readonly #heap: WholeHeap;
  /** Somebody has asked to come in since the last look at the memory. */
  #asked = false;
  readonly #mostWaitingBytes: number;
  readonly #nextTurn: (work: () => void) => void;

  constructor(private readonly parts: AdmissionParts) {
    const { clock, memoryBytes, readMemory, collect } = parts;
    this.#heap = new WholeHeap({ clock, memoryBytes, readMemory, collect });
    this.#nextTurn = parts.nextTurn ?? setImmediate;
    this.#mostWaitingBytes = Math.min(MOST_WAITING_BYTES, memoryBytes * WAITING_PART);
    this.bodies = new BodyRoom({
      ...{ clock, memoryBytes },
      check: (bytes) => this.#checkBody(bytes),
      onRefused: () => {
        this.shed.memory++;
      },
    });
  }

  /** How many wait to come in. */
  get waiting(): number {
    return this.#waiting.length - this.#first;
  }

  /** Whether anybody waits, to come in or to be refused. */
  get #isNeeded(): boolean {
    return this.waiting > 0 || this.#leaving.length > 0;
  }

  /**
   * Undefined: the request may come in. A promise: it may when that resolves. Throws, and the promise rejects with,
   * {@link Overloaded} (upstream_overloaded: 503, or 529 in the messages dialect) when it cannot be taken.
   */
  enter(asking: Asking): Promise<void> | undefined {
    const turn = this.tryEnter(asking);
    if (turn instanceof Overloaded) throw turn;
    return turn;
  }

  /** {@link enter} that returns what it would throw: to throw costs a tenth of a refusal, and at the worst of times nearly all are refused. */
  tryEnter(asking: Asking): Promise<void> | Overloaded | undefined {
    this.#asked = true;
    if (this.#memory === "full") return this.#refuse("memory", NO_MEMORY);
    if (this.#storeFails) return this.#refuse("store", NO_STORE);
    if (this.waiting === 0) {
      if (this.parts.running() < FREE) return undefined;
      if (this.#entered < this.#pace) {
        this.#entered++;
        this.#turn();
        return undefined;
      }
    }
    return this.#wait(asking);
  }

  /** Throws {@link Overloaded} when what a request came to could not be written down. */
  checkStore(): void {
    if (this.#storeFails) throw this.#refuse("store", NO_STORE);
  }

  get #storeFails(): boolean {
    return this.parts.storeFails?.() === true;
  }

  /** {@link enter} for a request that turns out to be for a stream, which holds memory for minutes. */
  checkStream(): void {
    if (this.#memory !== "free") throw this.#refuse("memory", NO_MEMORY);
  }

  /** So much time has gone by, ms. */
  look(elapsedMs: number): void {
    this.#sinceMemoryMs += elapsedMs;
    if (this.#sinceMemoryMs < MEMORY_EVERY_MS) return;
    this.#lookAtMemory();
  }

  /** A body of so many bytes is about to come in. */
  #checkBody(bytes: number): void {
    this.#sinceMemoryBytes += bytes;
    if (this.#sinceMemoryBytes >= this.parts.memoryBytes * MEMORY_EVERY_PART) this.#lookAtMemory();
    if (this.#memory === "full") throw this.#refuse("memory", NO_MEMORY);
  }

  #lookAtMemory(): void {
    this.#sinceMemoryMs = 0;
    this.#sinceMemoryBytes = 0;
    const used = this.#heap.look(this.#asked || this.parts.running() > 0);
    this.#asked = false;
    this.#memory = used > REQUESTS_UNTIL ? "full" : used > STREAMS_UNTIL ? "tight" : "free";
  }

  /** How it stands, for the operator. */
  collect(): Figure[] {
    return [
      single(
        "sluice_admission_waiting",
        "gauge",
        "Requests that wait to come in.",
        this.waiting + this.#leaving.length,
      ),
      single("sluice_bodies_at_work_bytes", "gauge", "Large bodies that are read and worked on.", this.bodies.used),
      single("sluice_bodies_waiting", "gauge", "Large bodies that wait for room.", this.bodies.waiting),
      figure("sluice_shed_total", "counter", "Requests that were refused before anything was done for them.", [
        { labels: { reason: "load" }, value: this.shed.load },
        { labels: { reason: "memory" }, value: this.shed.memory },
        { labels: { reason: "store" }, value: this.shed.store },
      ]),
    ];
  }

  /** Counts a refusal, and returns it. */
  #refuse(reason: keyof Admission["shed"], error: Overloaded): Overloaded {
    this.shed[reason]++;
    return error;
  }

  #wait(asking: Asking): Promise<void> | Overloaded {
    const now = this.parts.clock.monotonic();
    const bytes = Math.min(Number(asking.headers.get("content-length") ?? UNKNOWN_BYTES) || 0, KEPT_OF_EACH);
    const most = now < this.#strictUntil ? STRICT_WAITING : MOST_WAITING;
    if (this.waiting >= most || this.#waitingBytes + bytes > this.#mostWaitingBytes) return this.#turnAway(now);
    if (this.waiting === 0) {
      this.#looks = [this.#look()];
      this.#beginWindow(now, 0);
    }
    this.#waitingBytes += bytes;
    this.#cameAt = now;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push({ asking, since: now, bytes, resolve, reject });
    this.#turn();
    return promise;
  }

  #turnAway(now: number): Overloaded {
    if (now < this.#strictUntil) this.#strictUntil = now + CALM_MS;
    return this.#refuse("load", OVERLOADED);
  }

  /** Sees to it that there is a next turn. */
  #turn(): void {
    if (this.#turning) return;
    this.#turning = true;
    this.#lookedAt = this.parts.clock.monotonic();
    this.#waitedMs = this.#readWaited();
    this.#nextTurn(this.#onTurn);
  }

  readonly #onTurn = (): void => {
    this.#turning = false;
    const now = this.parts.clock.monotonic();
    this.#setPace(now - this.#lookedAt, this.#readWaited() - this.#waitedMs);
    const entered = this.#entered;
    this.#entered = 0;
    if (this.#isNeeded) {
      if (now - this.#windowAt >= WINDOW_MS) this.#judge(now);
      this.#tellOldest(now);
      this.#admit(now);
    }
    if (this.#isNeeded || entered > 0) this.#turn();
  };

  #readWaited(): number {
    return this.parts.waitedMs?.() ?? 0;
  }

  #judge(now: number): void {
    const refused = this.shed.load - this.#before.shed;
    const came = this.#admitted - this.#before.admitted;
    const tookMs = now - this.#windowAt;
    const more = this.#lookForMore();
    const grows = refused > 0 || (more > came * GROWTH && this.waiting * tookMs > came * SHORT_WAIT_MS);
    this.#beginWindow(now, Math.max(0, this.#growingMs + (grows ? Math.min(tookMs, MOST_LOOK_MS) : -tookMs)));
    if (this.#growingMs < BURST_MS) return;
    if (now >= this.#strictUntil) this.#giveUp();
    this.#strictUntil = now + CALM_MS;
  }

  /** By how many the queue has grown, by the last looks; see {@link LOOKS}. */
  #lookForMore(): number {
    this.#looks = [...this.#looks, this.#look()].slice(-2 * LOOKS);
    const before = this.#looks.slice(0, Math.max(1, this.#looks.length - LOOKS));
    const since = this.#looks.slice(before.length);
    const more = (of: keyof Look) =>
      Math.max(...since.map((look) => look[of])) - Math.max(...before.map((look) => look[of]));
    return Math.min(more("waiting"), more("here"));
  }

  /** Those who were refused count as well: else they would wait, and be here. */
  #look(): Look {
    const waiting = this.waiting + this.shed.load;
    return { waiting, here: waiting + this.parts.running() };
  }

  /** It becomes strict: all who wait but the newest few are to be refused, since those who come now are let in before them. */
  #giveUp(): void {
    const last = Math.max(this.#first, this.#waiting.length - STRICT_WAITING);
    const given = this.#waiting.slice(this.#first, last) as Waiting[];
    this.#leaving = [...given.reverse(), ...this.#leaving];
    this.#waiting = this.#waiting.slice(last);
    this.#first = 0;
  }

  #beginWindow(now: number, growingMs: number): void {
    this.#growingMs = growingMs;
    this.#windowAt = now;
    this.#before = { shed: this.shed.load, admitted: this.#admitted };
  }

  /** Fewer for the next turn when this one took too long, one more when it did not. */
  #setPace(tookMs: number, waitedMs: number): void {
    const mostMs = waitedMs > SLOW_DISK_MS ? Math.max(TURN_MS, waitedMs * TURN_OF_WAIT) + waitedMs : TURN_MS;
    if (tookMs > mostMs) this.#pace = Math.max(LEAST_PACE, Math.floor(this.#pace * 0.75));
    else if (this.#pace < MOST_PACE) this.#pace++;
  }

  #admit(now: number): void {
    const latestFirstMs = now < this.#strictUntil ? STRICT_LATEST_FIRST_MS : LATEST_FIRST_MS;
    while (this.waiting > 0 && this.#entered < this.#pace) {
      const oldest = this.#waiting[this.#first]!;
      const latestFirst = this.#growingMs > 0 && now - oldest.since >= latestFirstMs;
      if (
        latestFirst &&
        now - this.#waiting.at(-1)!.since >= LATEST_FIRST_MS &&
        this.#lookedAt - this.#cameAt < STILL_MS
      )
        return;
      const next = latestFirst ? this.#takeLast() : this.#takeFirst();
      // Nobody is there any more to be answered.
      if (next.asking.left.aborted) next.reject(OVERLOADED);
      else {
        this.#entered++;
        this.#admitted++;
        next.resolve();
      }
    }
  }

  #tellOldest(now: number): void {
    const isStrict = now < this.#strictUntil;
    const patienceMs = this.#growingMs > WAVES_MS ? OVERTAKEN_MS : MOST_WAIT_MS;
    const mostMs = isStrict ? STRICT_WAIT_MS : patienceMs;
    for (let told = 0; told < TOLD_EACH_TURN && this.#isNeeded; told++) {
      const leaving = this.#leaving.pop();
      if (leaving) this.#waitingBytes -= leaving.bytes;
      else {
        const { since } = this.#waiting[this.#first]!;
        if (now - since < mostMs) return;
      }
      this.shed.load++;
      (leaving ?? this.#takeFirst()).reject(OVERLOADED);
      if (isStrict) this.#strictUntil = now + CALM_MS;
    }
  }

  #takeFirst(): Waiting {
    const taken = this.#waiting[this.#first]!;
    this.#waiting[this.#first++] = undefined;
    this.#waitingBytes -= taken.bytes;
    if (this.#first === this.#waiting.length) {
      this.#waiting.length = 0;
      this.#first = 0;
    } else if (this.#first > MOST_WAITING) {
      this.#waiting.splice(0, this.#first);
      this.#first = 0;
    }
    return taken;
  }

  #takeLast(): Waiting {
    const taken = this.#waiting.pop()!;
    this.#waitingBytes -= taken.bytes;
    if (this.waiting === 0) {
      this.#waiting.length = 0;
      this.#first = 0;
    }
    return taken;
  }
}
