import { GatewayError } from "../../src/canon/errors.ts";
import { openStore, type Store } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { LedgerError } from "../../src/ledger/book.ts";
import type { Hold, ModelPrices } from "../../src/ledger/ledger.ts";
import { type OpenLedger, openLedger } from "../../src/ledger/open-ledger.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { Model, type Refused, type Tariff } from "./model.ts";

/** Where the ledger and its model came apart, or a promise of the ledger's was broken. */
export class Difference extends Error {}

const TARIFFS: readonly Tariff[] = [
  { model: "lab/usual", input: 3_000_000, cacheRead: 300_000, cacheWrite: 3_750_000, output: 15_000_000 },
  { model: "lab/tiny", input: 50_000, cacheRead: 50_000, cacheWrite: 50_000, output: 80_000 },
  {
    ...{ model: "lab/long", input: 2_000_000, cacheRead: 200_000, cacheWrite: 2_000_000, output: 10_000_000 },
    long: { above: 5_000, factor: 2 },
  },
];

function pricesOf({ model, input, cacheRead, cacheWrite, output, long }: Tariff): ModelPrices {
  const rates = (factor: number) => ({
    ...{ input: BigInt(input * factor), output: BigInt(output * factor) },
    ...{ cacheRead: BigInt(cacheRead * factor), cacheWrite: BigInt(cacheWrite * factor) },
  });
  return { model, prices: { ...rates(1), ...(long && { tiers: [{ above: long.above, ...rates(long.factor) }] }) } };
}

const PRICES = new Map(TARIFFS.map((tariff) => [tariff.model, pricesOf(tariff)]));
const GRANTS = [0n, 0n, 2_000_000n, 30_000_000n, 400_000_000n];
const ACCOUNTS = ["acct_a", "acct_b", "acct_c"];
/** Open holds and claims at a time. */
const MAX_OPEN = 24;

/** A small generator with a seed (mulberry32): the same seed plays the same history. */
export function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const codeOf = (thrown: unknown): Refused => {
  if (thrown instanceof LedgerError) return { refused: thrown.code };
  if (!(thrown instanceof GatewayError)) throw thrown;
  const affordable = thrown.extra["affordable_output_tokens"];
  return typeof affordable === "number" ? { refused: thrown.code, affordable } : { refused: thrown.code };
};

const show = (value: unknown) =>
  JSON.stringify(value, (_, each: unknown) => (typeof each === "bigint" ? `${each}n` : each));

function expectSame(what: string, real: unknown, model: unknown): void {
  if (show(real) !== show(model))
    throw new Difference(`${what}: the ledger says ${show(real)}, the model ${show(model)}`);
}

/** A ledger on a store in memory beside its model, and random steps for both. */
export class World {
  readonly #clock: ManualClock = manualClock(Date.UTC(2026, 0, 1));
  readonly #store: Store = openStore(":memory:");
  readonly #model = new Model();
  readonly #random: (below: number) => number;
  #writer = new Writer(this.#store);
  #books: OpenLedger;
  #holds = new Map<string, Hold>();
  #open: string[] = [];
  #claims: string[] = [];
  #made = 0;
  /** How often each step was taken. */
  readonly taken = new Map<string, number>();

  constructor(seed: number) {
    this.#random = randomOf(seed);
    for (const id of ACCOUNTS) this.#store.database.run("INSERT INTO account VALUES (?, ?, 'pro', 1)", [id, id]);
    this.#books = this.#start();
    this.#model.now = this.#clock.now();
  }

  #start(): OpenLedger {
    const fail = (thrown: unknown) => {
      throw thrown;
    };
    return openLedger(this.#store, this.#writer, { clock: this.#clock, onFault: fail });
  }

  #pick<T>(from: readonly T[]): T {
    return from[this.#random(from.length)] as T;
  }

  /** Takes one step in both worlds and compares what came of it. Throws Difference. */
  async step(): Promise<void> {
    const steps = this.#open.length < MAX_OPEN ? GROWING : SHRINKING;
    const name = this.#pick(steps);
    this.taken.set(name, (this.taken.get(name) ?? 0) + 1);
    await this[name]();
  }

  async post(): Promise<void> {
    const kind = this.#pick(["deposit", "promotion", "correction"] as const);
    const accountId = this.#pick(ACCOUNTS);
    const sign = kind === "correction" && this.#random(2) === 0 ? -1n : 1n;
    const amountNano = sign * BigInt(this.#random(20) === 0 ? 0 : this.#random(150_000_000));
    // Few references, so that many come again.
    const reference = `pay-${this.#random(8) === 0 ? this.#random(40) : this.#made++}`;
    const order = { accountId, amountNano, reference };
    const post = { deposit: "deposit", promotion: "promote", correction: "correct" } as const;
    const real = await this.#books.book[post[kind]](order).then(({ repeated }) => ({ repeated }), codeOf);
    expectSame(`${kind} ${reference}`, real, this.#model.post(kind, accountId, amountNano, reference));
  }

  async hold(): Promise<void> {
    const requestId = `req_${this.#made++}`;
    const accountId = this.#pick(ACCOUNTS);
    const tariff = this.#pick(TARIFFS);
    const estimate = 1 + this.#random(8_000);
    const stream = this.#random(3) > 0;
    const asked = this.#random(3) === 0 ? undefined : 1 + this.#random(this.#random(2) === 0 ? 600 : 60_000);
    const grant = this.#pick(GRANTS);
    const premium = this.#random(12) === 0;
    // Refused at once, or after a wait: to whoever holds it is the same.
    const held = async () =>
      this.#books.ledger.hold({
        ...{ requestId, accountId, keyId: "key_1", model: tariff.model, dialect: "chat", stream },
        ...{ estimateInput: () => estimate, prices: PRICES.get(tariff.model) },
        ...(asked !== undefined && { maxOutputTokens: asked }),
        payment: { windowNano: grant, premium, sliced: stream, unseenOutput: 0 },
      });
    const real = await held().then((hold) => {
      this.#holds.set(requestId, hold);
      this.#open.push(requestId);
      return {};
    }, codeOf);
    const model = this.#model.hold(requestId, accountId, { tariff, estimate, asked, stream, grant, premium });
    expectSame(`hold ${requestId}`, real, "refused" in model ? model : {});
  }

  async extend(): Promise<void> {
    const requestId = this.#pick(this.#open);
    if (requestId === undefined) return;
    const output = 1 + this.#random(5_000);
    const real = this.#holds.get(requestId)?.extend({ vendor: "lab", upstreamModel: "m", output });
    expectSame(`extend ${requestId}`, real, this.#model.extend(requestId, output));
  }

  /** One close, or several at once of the same hold: the first one counts. */
  async close(): Promise<void> {
    const requestId = this.#pick(this.#open);
    const hold = requestId === undefined ? undefined : this.#holds.get(requestId);
    if (requestId === undefined || !hold) return;
    this.#open.splice(this.#open.indexOf(requestId), 1);
    const usage = this.#usage();
    const way = this.#pick(["settle", "settle", "settle", "release", "settle-twice", "release-late", "settle-late"]);
    const outcome = this.#pick(["completed", "client-left", "timed-out", "upstream-failed"] as const);
    const settlement = {
      ...{ outcome, vendor: "lab", upstreamModel: "m", usage, estimated: this.#random(2) === 0 },
      ...{ attempts: 1, durationMs: 5 },
    };
    const settle = () => hold.settle(settlement).then(({ chargedNano }) => chargedNano);
    if (way.startsWith("release")) {
      this.#model.release(requestId);
      await hold.release();
      if (way === "release-late") expectSame(`settle behind a release, ${requestId}`, await settle(), 0n);
      return;
    }
    const charges = [settle()];
    if (way === "settle-twice") charges.push(settle());
    if (way === "settle-late") charges.push(hold.release().then(settle));
    const model = this.#model.settle(requestId, usage);
    for (const real of await Promise.all(charges)) expectSame(`settle ${requestId}`, real, model);
  }

  /** Several holds that are settled in one commit, as those of agents that end at the same time: one after the other, in the order of their calls. */
  async closeTogether(): Promise<void> {
    const count = Math.min(this.#open.length, 2 + this.#random(3));
    const requestIds = Array.from({ length: count }, () => {
      const [requestId = ""] = this.#open.splice(this.#random(this.#open.length), 1);
      return requestId;
    });
    const ends = requestIds.map((requestId) => ({ requestId, usage: this.#usage() }));
    const settled = ends.map(({ requestId, usage }) =>
      this.#holds.get(requestId)?.settle({
        ...{ outcome: "completed", vendor: "lab", upstreamModel: "m", usage, estimated: false },
        ...{ attempts: 1, durationMs: 5 },
      }),
    );
    const model = ends.map(({ requestId, usage }) => this.#model.settle(requestId, usage));
    const real = (await Promise.all(settled)).map((charge) => charge?.chargedNano);
    expectSame(`settle ${requestIds} in one commit`, real, model);
  }

  #usage() {
    const output = this.#random(this.#random(4) === 0 ? 80_000 : 4_000);
    const [input, cacheRead, cacheWrite] = [this.#random(9_000), this.#random(3_000), this.#random(500)];
    return { input, cacheRead, cacheWrite, output, reasoning: this.#random(output + 1) };
  }

  async claim(): Promise<void> {
    const claimId =
      this.#random(15) === 0 && this.#made > 0 ? `job_${this.#random(this.#made)}` : `job_${this.#made++}`;
    const accountId = this.#pick(ACCOUNTS);
    const kind = this.#pick(["image", "web"] as const);
    const units = 1 + this.#random(10);
    const freeUnits = this.#pick([undefined, 0, 3, 20]);
    const unitNano = this.#pick([undefined, 10_000_000n, 20_000_000n]);
    const order = { claimId, accountId, keyId: "key_1", kind, units, freeUnits, unitNano };
    const real = await this.#writer
      .run(() => this.#books.book.claimUnits(order))
      .then(({ free }) => ({ free }), codeOf);
    const model = this.#model.claim(claimId, accountId, { kind, units, freeUnits, unit: unitNano });
    expectSame(`claim ${claimId}`, real, model);
    if (!("refused" in model)) this.#claims.push(claimId);
  }

  async resolve(): Promise<void> {
    const claimId = this.#pick(this.#claims);
    const claim = claimId === undefined ? undefined : this.#model.claims.get(claimId);
    if (claimId === undefined || !claim) return;
    // Some are resolved twice.
    if (this.#random(5) > 0) this.#claims.splice(this.#claims.indexOf(claimId), 1);
    const used = this.#random(claim.units + 1);
    const way = this.#pick(["count", "count", "blocked", "give-back"]);
    const charge = way === "count";
    const usage = {
      ...{ dialect: "images", model: "lab/canvas", vendor: "lab", upstreamModel: "c" },
      ...{ outcome: "completed" as const, attempts: 1, durationMs: 1 },
    };
    const { book } = this.#books;
    const real = await this.#writer.run(() =>
      way === "give-back" ? book.giveBackUnits(claimId) : book.countUnits({ claimId, used, charge, usage }),
    );
    const model = this.#model.resolve(claimId, way === "give-back" ? 0 : used, charge);
    expectSame(`resolve ${claimId}`, { counted: real.counted, charged: real.chargedNano }, model);
  }

  async pass(): Promise<void> {
    const ms = this.#pick([1, 1_000, 60_000, 3_600_000, 9 * 3_600_000]);
    await this.#clock.advance(ms);
    this.#model.now = this.#clock.now();
  }

  /** The process dies where it stands; what it had written of its holds is all that is left of them. */
  async crash(): Promise<void> {
    if (this.#random(6) > 0) return;
    await this.#clock.advance(100);
    this.#model.now = this.#clock.now();
    await this.#writer.run(() => undefined);
    await this.#writer.close();
    this.#books.stop();
    this.#writer = new Writer(this.#store);
    this.#books = this.#start();
    expectSame("recovery", this.#books.start(), this.#model.crash());
    this.#holds.clear();
    this.#open = [];
  }

  /** Compares everything that can be seen of every account. Throws Difference. */
  compare(): void {
    const { book } = this.#books;
    for (const id of ACCOUNTS) {
      const { posted, unitsHeld, walletHeld, deposited } = this.#model.account(id);
      const heldNano = unitsHeld + walletHeld;
      const balance = { postedNano: posted, heldNano, availableNano: posted - heldNano };
      expectSame(`balance of ${id}`, book.balance(id), balance);
      if (posted < -20_000_000n) throw new Difference(`${id} is overdrawn: ${posted}`);
      expectSame(`deposit of ${id}`, book.hasDeposit(id), deposited);
      const window = this.#model.openWindow(id);
      const shown = window && { available: window.posted - window.held, ends: window.end, grant: window.grant };
      const state = book.window(id, 1n);
      const isOpen = state?.startedAtMs !== undefined;
      const seen = isOpen
        ? { available: state.availableNano, ends: state.endsAtMs, grant: state.grantNano }
        : undefined;
      expectSame(`window of ${id}`, seen, shown);
      for (const kind of ["image", "web"] as const) {
        expectSame(`${kind}s of ${id}`, book.allowance(id, kind, 20).used, this.#model.used(id, kind));
      }
    }
  }

  /** The invariants of the whole store, and the sum of all charges. Throws Difference. */
  verify(): void {
    // Requests stay open for days here, as their clock is turned by hand: that they are old is no fault.
    const breaches = this.#books.book.verify().filter(({ invariant }) => invariant !== "I7");
    if (breaches.length > 0)
      throw new Difference(breaches.map(({ invariant, detail }) => `${invariant} ${detail}`).join("\n"));
    const total = this.#store.database.prepare<{ n: bigint }, []>("SELECT sum(charged_nano) AS n FROM usage").get();
    expectSame("all charges", total?.n ?? 0n, this.#model.charged);
  }

  end(): void {
    this.#books.stop();
    this.#store.close();
  }
}

type Step = "post" | "hold" | "extend" | "close" | "closeTogether" | "claim" | "resolve" | "pass" | "crash";
const GROWING: readonly Step[] = [
  ...(["hold", "hold", "hold", "hold", "hold", "extend", "extend", "close", "close", "closeTogether"] as const),
  ...(["post", "claim", "claim", "resolve", "resolve", "pass", "crash"] as const),
];
const SHRINKING: readonly Step[] = ["close", "closeTogether", "extend", "resolve", "post", "pass"];

/** Plays `steps` random steps of this seed, comparing everything now and then and at the end. Throws Difference. */
export async function playWorld(seed: number, steps: number): Promise<World> {
  const world = new World(seed);
  try {
    for (let step = 1; step <= steps; step++) {
      await world.step();
      if (step % 50 === 0) world.compare();
    }
    world.compare();
    world.verify();
    return world;
  } finally {
    world.end();
  }
}
