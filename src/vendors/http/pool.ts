import type { Abort } from "../../lib/abort.ts";
import type { Text } from "../../lib/text-pieces.ts";
import type { Answer } from "../answer.ts";
import { Call, type CallRules } from "./call.ts";
import { Connection, type Keeper } from "./connection.ts";
import type { Origin } from "./request.ts";
import { countTimeAsleep } from "./time-asleep.ts";

/** Connections to one origin that are kept while nothing is done on them. */
const MAX_IDLE = 1_024;
/** For how long, ms: less than the servers of vendors keep theirs (most: 60 s and more). */
const MAX_IDLE_MS = 50_000;
/**
 * Some servers close a connection that has rested for a time of their own; five seconds are common. It is used again only within this part of that time:
 * a request that crosses with the end of its connection is lost, and may not be sent twice (reliability 6.2).
 */
const SAFE_PART = 0.8;
/** But for so long in any case, ms: a server that starts anew closes all of them, which tells nothing of its time. */
export const LEAST_IDLE_MS = 1_000;
/**
 * A server that has closed so many connections in a row behind their first answer, within that time, keeps none and does not say so: none is used again
 * until one has rested for that time.
 */
const MOST_CLOSED_AT_ONCE = 4;
/** How often those are looked for that have rested too long, ms. */
const SWEEP_MS = 5_000;

/**
 * HTTP/1.1 to upstreams, over connections that are kept (RFC 9112). Bun's `fetch` can do more and costs three times as much: it keeps no more than
 * 64 idle connections, holds 64 KB for every body that is waited for, and runs in a thread of its own (performance.md).
 */
export class Pool implements Keeper {
  readonly #idle = new Map<string, Connection[]>();
  readonly #open = new Set<Connection>();
  /** For how long connections to an origin may rest and be used again, ms, where one was closed that had rested. */
  readonly #restMs = new Map<string, number>();
  /** How many connections to an origin were closed in a row behind their first answer. */
  readonly #closedAtOnce = new Map<string, number>();
  #sweepTimer: ReturnType<typeof setInterval> | undefined;
  /** Since the start. */
  readonly counts = { opened: 0, reused: 0 };

  /** `now`: monotonic ms, in which the time counts that the machine was asleep. */
  constructor(readonly now: () => number = countTimeAsleep()) {}

  /**
   * Sends one request and resolves with its answer once the head is there. Rejects with the abort's reason, also where it came before, with ConnectFailed
   * when no connection came about, and with ConnectionLost when one broke or what came is no HTTP; the rules may change that. `onSent` is told when all of
   * it has gone out.
   */
  call(
    origin: Origin,
    head: string,
    body: Text,
    abort: Abort,
    rules: CallRules,
    onSent?: (() => void) | undefined,
  ): Promise<Answer> {
    // Its end has been, and would be told to nobody any more: nothing could end this call.
    if (abort.aborted) return Promise.reject(abort.reason);
    const call = new Call(head, body, abort, rules, onSent);
    const answered = call.answered();
    const idle = this.#takeIdle(origin.name);
    if (idle) {
      this.counts.reused++;
      idle.start(call);
    } else this.#connect(call, origin);
    return answered;
  }

  /** How many connections are open. */
  get open(): number {
    return this.#open.size;
  }

  /** Connections that are open, and those of them on which nothing is done. */
  get figures(): { open: number; idle: number } {
    let idle = 0;
    for (const connections of this.#idle.values()) idle += connections.length;
    return { open: this.#open.size, idle };
  }

  /** Closes those that have rested for too long; done every few seconds. */
  sweep(): void {
    const before = this.now() - MAX_IDLE_MS;
    let left = 0;
    for (const [name, idle] of this.#idle) {
      // Those used last stand last, and are used again first.
      const rested = idle.filter(({ idleSince }) => idleSince < before);
      // They rested for longer than was learnt of the server, and it has not closed them: what was learnt was wrong.
      if (rested.length > 0) this.#restMs.delete(name);
      for (const connection of rested) connection.close();
      if (idle.length === 0) this.#idle.delete(name);
      left += idle.length;
    }
    if (left > 0) return;
    clearInterval(this.#sweepTimer);
    this.#sweepTimer = undefined;
  }

  freed(connection: Connection): void {
    const { name } = connection.origin;
    connection.idleSince = this.now();
    if (connection.answers > 1) this.#closedAtOnce.delete(name);
    const idle = this.#idle.get(name);
    if (!idle) this.#idle.set(name, [connection]);
    else if (idle.length < MAX_IDLE) idle.push(connection);
    else {
      connection.close();
      return;
    }
    this.#sweepTimer ??= setInterval(() => this.sweep(), SWEEP_MS).unref();
  }

  gone(connection: Connection, rested: boolean): void {
    this.#open.delete(connection);
    const { name } = connection.origin;
    const idle = this.#idle.get(name);
    const at = idle?.indexOf(connection) ?? -1;
    if (at >= 0) idle?.splice(at, 1);
    if (!rested) return;
    const restedMs = this.now() - connection.idleSince;
    this.#restMs.set(name, Math.min(MAX_IDLE_MS, Math.max(LEAST_IDLE_MS, restedMs * SAFE_PART)));
    if (connection.answers > 1 || restedMs >= LEAST_IDLE_MS) return;
    this.#closedAtOnce.set(name, (this.#closedAtOnce.get(name) ?? 0) + 1);
  }

  unsent(call: Call, origin: Origin): void {
    // On a new one: others that rest may be about to end too.
    this.#connect(call, origin);
  }

  /** The connection that was used last, unless it has rested for too long, as then all others have too; undefined where the server keeps none. */
  #takeIdle(name: string): Connection | undefined {
    const idle = this.#idle.get(name);
    const last = idle?.at(-1);
    if ((this.#closedAtOnce.get(name) ?? 0) >= MOST_CLOSED_AT_ONCE) {
      if (!idle?.[0] || this.now() - idle[0].idleSince < LEAST_IDLE_MS) return undefined;
      this.#closedAtOnce.delete(name);
    }
    if (!last || this.now() - last.idleSince >= (this.#restMs.get(name) ?? MAX_IDLE_MS)) return undefined;
    idle?.pop();
    return last;
  }

  #connect(call: Call, origin: Origin): void {
    const connection = new Connection(origin, this);
    // Before it is opened: where there is no way to an address it is gone before this returns, and if added then it would count for ever.
    this.#open.add(connection);
    this.counts.opened++;
    connection.open().then(
      () => {
        if (!call.over) return connection.start(call);
        // The call was given up meanwhile: the connection waits for the next one.
        connection.rest();
      },
      (reason: unknown) => call.fail(reason),
    );
  }
}
