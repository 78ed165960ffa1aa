import { and, asc, count, eq, inArray, lt, sql } from "drizzle-orm";
import { GatewayError } from "../canon/errors.ts";
import { removeInBatches } from "../db/batches.ts";
import type { Store } from "../db/open.ts";
import { usage } from "../db/schema.ts";
import { idempotency } from "../db/schema-idempotency.ts";
import type { Writer } from "../db/writer.ts";
import type { Clock } from "../lib/clock.ts";
import { newId } from "../lib/id.ts";
import { PieceDecoder } from "../lib/piece-decoder.ts";
import { repeat } from "../lib/repeat.ts";
import { DAY_MS } from "../lib/spans.ts";
import { errorFields, type Log } from "../observe/log.ts";

/** How long an answer is kept (contract 5). */
export const KEEP_MS = DAY_MS;
/** Largest answer that is kept, bytes, compressed (reliability 3.8). */
const MAX_KEPT_BYTES = 256 * 1024;
/** Most keys of one account; the oldest answer makes room for a new key (reliability 3.8). */
export const MAX_KEYS = 1_000;
/** Expired rows removed in one transaction. */
const SWEEP_BATCH = 64;
/** How often expired rows are looked for, ms. */
const SWEEP_MS = 10 * 60_000;
/** How long a stopping server waits for answers to be kept, ms. */
const IDLE_MS = 5_000;

/** Who asks what under which key. `fingerprint`: SHA-256 of method, path and body. */
export type Wish = { accountId: string; route: string; key: string; fingerprint: Buffer; requestId: string };

type Head = { status: number; headers: Record<string, string> };

/** An answer as it was first given. */
export type Answer = Head & { body: string };

/** An answer as it is kept: {@link readBody} and {@link readRecords} unpack it. */
export type Kept = Head & { packed: Buffer };

/** What asking with a key comes to: the request is the caller's to run, or its answer is there. */
export type Claimed = { kind: "run"; claim: Claim } | { kind: "kept"; answer: Kept };

type Row = typeof idempotency.$inferSelect;

const inProgress = () =>
  new GatewayError("idempotency_in_progress", "A request with this Idempotency-Key is still running. Try again.", {
    retryAfterSeconds: 1,
  });

const reused = () =>
  new GatewayError(
    "idempotency_key_reused",
    "This Idempotency-Key was used with another request. Send a new key with a new request.",
  );

/** The first request was charged, and its answer cannot be given again: it must not run twice (reliability 3.8). */
const unknownOutcome = (row: Row, why: string) =>
  new GatewayError("idempotency_in_progress", `${why} It is not run again; use a new Idempotency-Key for that.`, {
    retry: false,
    extra: { outcome: "unknown", request_id: row.requestId },
  });

const TOO_LARGE = "The request with this Idempotency-Key was answered, and its answer was not kept.";
const CUT_OFF = "The request with this Idempotency-Key was charged, but its answer was lost when the gateway stopped.";

const nameOf = ({ accountId, route, key }: Wish) => `${accountId}\n${route}\n${key}`;

const whereIs = ({ accountId, route, key }: Wish) =>
  and(eq(idempotency.accountId, accountId), eq(idempotency.route, route), eq(idempotency.key, key));

/**
 * The answers of requests that carry an Idempotency-Key (contract 5, reliability 3.8): at most {@link MAX_KEYS} an account, of
 * {@link MAX_KEPT_BYTES} each, for 24 hours.
 */
export class IdempotencyStore {
  readonly #boot = newId("boot");
  /** Requests that this process is running now, by {@link nameOf}. */
  readonly #running = new Set<string>();
  #onIdle: (() => void) | undefined;

  constructor(
    private readonly store: Store,
    private readonly writer: Writer,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  /**
   * Takes the key for a request, durably before it resolves, or finds the answer that is kept under it. Throws GatewayError:
   * `idempotency_key_reused` for another request, `idempotency_in_progress` while the first one runs, and with `retry: false` when it
   * was charged and its answer is lost. A request that was cut off by the end of its process and left no charge may run again.
   */
  async claim(wish: Wish): Promise<Claimed> {
    let taken = false;
    try {
      const row = await this.writer.run(() => {
        const found = this.#find(wish);
        if (found?.state === "done") return found;
        if (found) this.#checkLost(wish, found);
        this.#take(wish, found !== undefined);
        this.#running.add(nameOf(wish));
        taken = true;
        return undefined;
      });
      return row ? readKept(row) : { kind: "run", claim: new Claim(wish, this) };
    } catch (thrown) {
      if (taken) this.#leave(wish);
      throw thrown;
    }
  }

  /** The row in force. Throws when it is another request's, or was swept away under one that runs: a clock that jumps must not have it run twice. */
  #find(wish: Wish): Row | undefined {
    const row = this.store.query.select().from(idempotency).where(whereIs(wish)).get();
    const isRunning = this.#running.has(nameOf(wish));
    if (!row) {
      if (isRunning) throw inProgress();
      return undefined;
    }
    if (row.createdAt <= this.clock.now() - KEEP_MS && !isRunning) {
      this.store.query.delete(idempotency).where(whereIs(wish)).run();
      return undefined;
    }
    if (!row.fingerprint.equals(wish.fingerprint)) throw reused();
    return row;
  }

  /** A row that says "running": throws unless whoever ran it is gone and nothing was charged for it. */
  #checkLost(wish: Wish, row: Row): void {
    if (row.boot === this.#boot && this.#running.has(nameOf(wish))) throw inProgress();
    // Holds of a dead process are settled or released before the first request is let in, so a charge has its row by now.
    const charged = this.store.query
      .select({ id: usage.requestId })
      .from(usage)
      .where(eq(usage.requestId, row.requestId))
      .get();
    if (charged) throw unknownOutcome(row, CUT_OFF);
  }

  #take(wish: Wish, again: boolean): void {
    const fresh = { boot: this.#boot, requestId: wish.requestId, createdAt: this.clock.now() };
    if (again) {
      this.store.query.update(idempotency).set(fresh).where(whereIs(wish)).run();
      return;
    }
    this.#makeRoom(wish.accountId);
    this.store.query
      .insert(idempotency)
      .values({ ...wish, ...fresh, state: "running" })
      .run();
  }

  #makeRoom(accountId: string): void {
    const ofAccount = eq(idempotency.accountId, accountId);
    const { keys } = this.store.query.select({ keys: count() }).from(idempotency).where(ofAccount).get() ?? { keys: 0 };
    if (Number(keys) < MAX_KEYS) return;
    const oldest = this.store.query
      .select({ route: idempotency.route, key: idempotency.key })
      .from(idempotency)
      .where(and(ofAccount, eq(idempotency.state, "done")))
      .orderBy(asc(idempotency.createdAt))
      .limit(1)
      .get();
    if (!oldest) {
      const text = `More than ${MAX_KEYS} requests with an Idempotency-Key are running on this account.`;
      throw new GatewayError("rate_limit_exceeded", text, { retryAfterSeconds: 1 });
    }
    this.store.query
      .delete(idempotency)
      .where(and(ofAccount, eq(idempotency.route, oldest.route), eq(idempotency.key, oldest.key)))
      .run();
  }

  /** Keeps an answer; `null`: that there was one. Durable when it resolves; a fault is for the log, as the answer is the client's. */
  async keep(wish: Wish, answer: Answer | null): Promise<void> {
    try {
      const body = answer && (await Bun.zstdCompress(answer.body));
      await this.writer.run(() => this.write(wish, answer, body));
    } catch (thrown) {
      this.log.error("idempotency-keep", { request_id: wish.requestId, ...errorFields(thrown) });
    } finally {
      this.#leave(wish);
    }
  }

  /** The write of {@link keep}, for inside an operation of the writer. */
  write(wish: Wish, answer: Answer | null, body: Buffer | null): void {
    const fits = body !== null && body.length <= MAX_KEPT_BYTES;
    this.store.query
      .update(idempotency)
      .set({
        state: "done",
        status: answer?.status ?? 0,
        headers: JSON.stringify(answer?.headers ?? {}),
        body: fits ? body : null,
      })
      .where(and(whereIs(wish), eq(idempotency.requestId, wish.requestId)))
      .run();
  }

  /** Forgets a claim: nothing ran, nothing was charged, and the key is free. A claim made after this sees no row. */
  drop(wish: Wish): void {
    const removed = this.writer.run(() => {
      const mine = and(whereIs(wish), eq(idempotency.requestId, wish.requestId), eq(idempotency.state, "running"));
      this.store.query.delete(idempotency).where(mine).run();
    });
    removed.catch((thrown) =>
      this.log.error("idempotency-drop", { request_id: wish.requestId, ...errorFields(thrown) }),
    );
    this.#leave(wish);
  }

  #leave(wish: Wish): void {
    this.#running.delete(nameOf(wish));
    if (this.#running.size === 0) this.#onIdle?.();
  }

  /** Resolves when no request is under way any more, and every answer is kept: before the store is closed. After five seconds in any case. */
  idle(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.clock.after(IDLE_MS, resolve);
    this.#onIdle = () => {
      cancel();
      resolve();
    };
    return promise;
  }

  /** Removes expired rows, some in each transaction. Resolves with how many; rejects as the writer does. */
  sweep(): Promise<number> {
    return removeInBatches(this.writer, SWEEP_BATCH, () => {
      const expired = this.store.query
        .select({ at: sql`rowid` })
        .from(idempotency)
        .where(lt(idempotency.createdAt, this.clock.now() - KEEP_MS))
        .limit(SWEEP_BATCH);
      return this.store.query
        .delete(idempotency)
        .where(inArray(sql`rowid`, expired))
        .returning({ key: idempotency.key })
        .all().length;
    });
  }

  /** Sweeps every ten minutes. Returns its end. */
  watch(): () => void {
    const onFault = (thrown: unknown) => this.log.error("idempotency-sweep", errorFields(thrown));
    return repeat(this.clock, { everyMs: SWEEP_MS }, () => this.sweep(), onFault);
  }
}

function readKept(row: Row): Claimed {
  if (row.body === null) throw unknownOutcome(row, TOO_LARGE);
  const headers = JSON.parse(row.headers ?? "{}") as Record<string, string>;
  return { kind: "kept", answer: { status: row.status ?? 0, headers, packed: row.body } };
}

/** The body of an answer that comes whole. */
export async function readBody({ packed }: Kept): Promise<string> {
  return (await Bun.zstdDecompress(packed)).toString("utf8");
}

const RECORD_END = "\n\n";

/**
 * The body of a stream, some whole records at a time: a ping may go out between two. It is unpacked as it is read: 16 MiB may be kept in a few KB, and a
 * hundred clients that ask for them at once and read slowly would have all of them in memory.
 */
export async function* readRecords({ packed }: Kept): AsyncGenerator<string, undefined> {
  const decoder = new PieceDecoder();
  /** Of a record whose end has not come. */
  let held: string[] = [];
  for await (const bytes of new Blob([packed]).stream().pipeThrough(new DecompressionStream("zstd"))) {
    const text = decoder.decode(bytes);
    const end = text.lastIndexOf(RECORD_END);
    if (end < 0) {
      held.push(text);
      continue;
    }
    const next = end + RECORD_END.length;
    yield held.join("") + text.slice(0, next);
    held = [text.slice(next)];
  }
  const rest = held.join("") + decoder.end();
  if (rest !== "") yield rest;
}

/** The right to run one request. It ends in exactly one of `keep` and `drop`. */
export class Claim {
  constructor(
    private readonly wish: Wish,
    private readonly kept: IdempotencyStore,
  ) {}

  /** The request came to this answer and was charged; `null`: there is no answer that can be given again. Never rejects. */
  keep(answer: Answer | null): Promise<void> {
    return this.kept.keep(this.wish, answer);
  }

  /** Nothing was charged: the same key may try again. */
  drop(): void {
    this.kept.drop(this.wish);
  }
}
