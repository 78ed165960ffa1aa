import type { Abort } from "../../lib/abort.ts";
import type { Text } from "../../lib/json.ts";
import type { Answer } from "../answer.ts";
import { Call, type CallRules } from "./call.ts";
import { Connection, type Keeper } from "./connection.ts";
import type { Origin } from "./request.ts";

/** Connections to one origin that are kept while nothing is done on them. */
const MAX_IDLE = 1_024;
/** For how long, ms: less than the servers of vendors keep theirs (most: 60 s and more). */
const MAX_IDLE_MS = 50_000;
/** How often those are looked for that have rested too long, ms. */
const SWEEP_MS = 5_000;

/**
 * HTTP/1.1 to upstreams, over connections that are kept (RFC 9112). Bun's `fetch` can do more and costs three times as much: it keeps no more than
 * 64 idle connections, holds 64 KB for every body that is waited for, and runs in a thread of its own (performance.md).
 */
export class Pool implements Keeper {
  readonly #idle = new Map<string, Connection[]>();
  readonly #open = new Set<Connection>();
  #sweep: ReturnType<typeof setInterval> | undefined;
  /** Since the start. */
  readonly counts = { opened: 0, reused: 0 };

  /**
   * Sends one request and resolves with its answer once the head is there. Rejects with the abort's reason, with ConnectFailed
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
    const call = new Call(head, body, abort, rules, onSent);
    const answered = call.answered();
    const idle = this.#idle.get(origin.name)?.pop();
    if (idle) {
      this.counts.reused++;
      idle.start(call);
    } else this.#connect(call, origin);
    return answered;
  }

  /** Connections that are open, and those of them on which nothing is done. */
  get figures(): { open: number; idle: number } {
    let idle = 0;
    for (const connections of this.#idle.values()) idle += connections.length;
    return { open: this.#open.size, idle };
  }

  freed(connection: Connection): void {
    const { name } = connection.origin;
    const idle = this.#idle.get(name);
    if (!idle) this.#idle.set(name, [connection]);
    else if (idle.length < MAX_IDLE) idle.push(connection);
    else {
      connection.close();
      return;
    }
    this.#sweep ??= setInterval(() => this.#closeRested(), SWEEP_MS).unref();
  }

  gone(connection: Connection): void {
    this.#open.delete(connection);
    const idle = this.#idle.get(connection.origin.name);
    const at = idle?.indexOf(connection) ?? -1;
    if (at >= 0) idle?.splice(at, 1);
  }

  #connect(call: Call, origin: Origin): void {
    const connection = new Connection(origin, this);
    this.#open.add(connection);
    this.counts.opened++;
    connection.opened.then(
      () => {
        if (!call.over) return connection.start(call);
        // Whoever wanted it is gone; the next one is glad of it.
        connection.ended(true);
      },
      (reason: unknown) => call.fail(reason),
    );
  }

  #closeRested(): void {
    const before = performance.now() - MAX_IDLE_MS;
    let left = 0;
    for (const [name, idle] of this.#idle) {
      // The one used last is the last one, and the first to be used again.
      for (const connection of idle.filter(({ idleSince }) => idleSince < before)) connection.close();
      if (idle.length === 0) this.#idle.delete(name);
      left += idle.length;
    }
    if (left > 0) return;
    clearInterval(this.#sweep);
    this.#sweep = undefined;
  }
}
