import type { Settlement } from "../../src/ledger/ledger.ts";

/**
 * The ledger as it is meant to be, in plain objects: written from contract 4 and 5 and reliability 3.3 to 3.5, with nothing of the real one. The
 * real one is compared with it after every step.
 */
export type Tariff = {
  model: string;
  /** Pico-USD a token; the second list is for prompts above `above` tokens. */
  input: number;
  cacheRead: number;
  cacheWrite: number;
  output: number;
  long?: { above: number; factor: number };
};

type ModelWindow = { start: number; end: number; grant: bigint; posted: bigint; held: bigint };
type ModelHold = {
  account: ModelAccount;
  tariff: Tariff;
  estimate: number;
  asked: number | undefined;
  stream: boolean;
  window: ModelWindow | undefined;
  windowLeg: bigint;
  walletLeg: bigint;
  output: number;
  /** Output tokens that the vendor was told. */
  told: number;
  grown: number;
  reading: number;
  state: "open" | "closed";
  charge: bigint;
};
type ModelClaim = {
  account: ModelAccount;
  kind: "image" | "web";
  at: number;
  units: number;
  free: number;
  paid: number;
  /** Free units of the plan at the claim. */
  allowance: number;
  unit: bigint;
  counted: number;
  charged: bigint;
  open: boolean;
};

export type ModelAccount = {
  posted: bigint;
  unitsHeld: bigint;
  walletHeld: bigint;
  deposited: boolean;
  windows: ModelWindow[];
};

const FIVE_HOURS = 5 * 3_600_000;
const DAY = 24 * 3_600_000;
const BELOW_ZERO = 20_000_000n;
const zeroOrMore = (value: bigint) => (value < 0n ? 0n : value);
const smaller = (a: bigint, b: bigint) => (a < b ? a : b);

/** A refusal, by its code, with what could be paid for where that is told. */
export type Refused = { refused: string; affordable?: number };

export class Model {
  readonly accounts = new Map<string, ModelAccount>();
  readonly references = new Map<string, { kind: string; account: string; amount: bigint }>();
  readonly holds = new Map<string, ModelHold>();
  readonly claims = new Map<string, ModelClaim>();
  /** Everything that accounts were charged, and what the operator lost. */
  charged = 0n;
  lost = 0n;
  now = 0;

  account(id: string): ModelAccount {
    let account = this.accounts.get(id);
    if (!account) {
      account = { posted: 0n, unitsHeld: 0n, walletHeld: 0n, deposited: false, windows: [] };
      this.accounts.set(id, account);
    }
    return account;
  }

  free(id: string): bigint {
    const { posted, unitsHeld, walletHeld } = this.account(id);
    return posted - unitsHeld - walletHeld;
  }

  post(kind: string, id: string, amount: bigint, reference: string): Refused | { repeated: boolean } {
    if (amount === 0n || (kind !== "correction" && amount < 0n)) return { refused: "bad_amount" };
    const before = this.references.get(reference);
    if (before) {
      const same = before.kind === kind && before.account === id && before.amount === amount;
      return same ? { repeated: true } : { refused: "reference_reused" };
    }
    if (amount < 0n && this.free(id) < -amount) return { refused: "insufficient" };
    const account = this.account(id);
    account.posted += amount;
    if (kind === "deposit") account.deposited = true;
    this.references.set(reference, { kind, account: id, amount });
    return { repeated: false };
  }

  openWindow(id: string): ModelWindow | undefined {
    return this.account(id).windows.find((window) => this.now < window.end);
  }

  #window(id: string, grant: bigint): ModelWindow {
    const account = this.account(id);
    const open = this.openWindow(id);
    if (open) {
      if (grant > open.grant) {
        open.posted += grant - open.grant;
        open.grant = grant;
      }
      return open;
    }
    for (const old of account.windows) if (old.held === 0n) old.posted = 0n;
    const fresh = { start: this.now, end: this.now + FIVE_HOURS, grant, posted: grant, held: 0n };
    account.windows.push(fresh);
    return fresh;
  }

  #rate(tariff: Tariff, prompt: number, token: number): bigint {
    const { long } = tariff;
    return BigInt(long && prompt > long.above ? token * long.factor : token);
  }

  #hold(tariff: Tariff, estimate: number, output: number): bigint {
    const dearest = Math.max(tariff.input, tariff.cacheRead, tariff.cacheWrite);
    // As long as it may be: beyond a tier's edge all of it costs the tier's price.
    const upper = Math.ceil((estimate * 11) / 10);
    const pico =
      BigInt(upper) * this.#rate(tariff, upper, dearest) + BigInt(output) * this.#rate(tariff, upper, tariff.output);
    return pico / 1_000n + (pico % 1_000n > 0n ? 1n : 0n);
  }

  /** The most tokens whose hold `money` covers: looked for by halving, where the ledger divides. */
  #affordable(tariff: Tariff, estimate: number, money: bigint): number {
    if (this.#hold(tariff, estimate, 0) > money) return -1;
    let low = 0;
    let high = 1;
    while (high < 2 ** 40 && this.#hold(tariff, estimate, high) <= money) high *= 2;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.#hold(tariff, estimate, middle) <= money) low = middle;
      else high = middle;
    }
    return low;
  }

  hold(
    requestId: string,
    id: string,
    wish: {
      tariff: Tariff;
      estimate: number;
      asked: number | undefined;
      stream: boolean;
      grant: bigint;
      premium: boolean;
    },
  ): Refused | { output: number } {
    const { tariff, estimate, asked, stream, grant, premium } = wish;
    const account = this.account(id);
    if (premium && !account.deposited) return { refused: "deposit_required" };
    const window = grant > 0n ? this.#window(id, grant) : undefined;
    const hold: ModelHold = {
      ...{ account, tariff, estimate, asked, stream, window, windowLeg: 0n, walletLeg: 0n },
      ...{ output: 0, told: 0, grown: 0, reading: 0, state: "open" as const, charge: 0n },
    };
    const wanted = stream ? Math.min(4_096, asked ?? 4_096) : (asked ?? 16_384);
    const affordable = this.#affordable(tariff, estimate, this.#available(hold));
    if (affordable < Math.min(256, wanted)) {
      return { refused: "insufficient_quota", affordable: Math.max(0, affordable) };
    }
    hold.output = Math.min(wanted, affordable);
    hold.grown = hold.output;
    hold.told = stream ? (asked ?? Number.POSITIVE_INFINITY) : hold.output;
    this.#take(hold, this.#hold(tariff, estimate, hold.output));
    this.holds.set(requestId, hold);
    return { output: hold.output };
  }

  #windowFree({ window }: ModelHold): bigint {
    return window && this.now < window.end ? zeroOrMore(window.posted - window.held) : 0n;
  }

  #walletFree({ account }: ModelHold): bigint {
    return account.posted - account.unitsHeld - account.walletHeld;
  }

  #available(hold: ModelHold): bigint {
    return this.#windowFree(hold) + zeroOrMore(this.#walletFree(hold));
  }

  #take(hold: ModelHold, total: bigint): void {
    const more = total - hold.windowLeg - hold.walletLeg;
    if (more <= 0n) return;
    const ofWindow = smaller(more, this.#windowFree(hold));
    hold.windowLeg += ofWindow;
    if (hold.window) hold.window.held += ofWindow;
    hold.walletLeg += more - ofWindow;
    hold.account.walletHeld += more - ofWindow;
  }

  extend(requestId: string, reading: number): boolean {
    const hold = this.holds.get(requestId);
    if (hold?.state !== "open") return false;
    hold.reading = reading;
    const ceiling = hold.asked ?? Number.POSITIVE_INFINITY;
    const wanted = Math.min(hold.output + Math.min(16_384, hold.grown * 2), ceiling);
    const money = hold.windowLeg + hold.walletLeg + this.#available(hold);
    const reached = Math.min(wanted, this.#affordable(hold.tariff, hold.estimate, money));
    if (reached <= hold.output) return false;
    this.#take(hold, this.#hold(hold.tariff, hold.estimate, reached));
    hold.grown = reached - hold.output;
    hold.output = reached;
    return true;
  }

  cost(tariff: Tariff, usage: Settlement["usage"]): bigint {
    const prompt = usage.input + usage.cacheRead + usage.cacheWrite;
    let pico = BigInt(usage.input) * this.#rate(tariff, prompt, tariff.input);
    pico += BigInt(usage.cacheRead) * this.#rate(tariff, prompt, tariff.cacheRead);
    pico += BigInt(usage.cacheWrite) * this.#rate(tariff, prompt, tariff.cacheWrite);
    pico += BigInt(usage.output) * this.#rate(tariff, prompt, tariff.output);
    return pico / 1_000n + (pico % 1_000n > 0n ? 1n : 0n);
  }

  settle(requestId: string, usage: Settlement["usage"]): bigint {
    const hold = this.holds.get(requestId);
    if (!hold) throw new Error("the model knows no such hold");
    if (hold.state === "closed") return hold.charge;
    const mostOutput = Math.max(Math.floor(hold.told * 1.05), hold.told + 16);
    const cost = this.cost(hold.tariff, { ...usage, output: Math.min(usage.output, mostOutput) });
    this.#charge(hold, cost);
    return hold.charge;
  }

  #charge(hold: ModelHold, cost: bigint, windowFree = this.#windowFree(hold)): void {
    const { account, window } = hold;
    const ofWindow = smaller(cost, hold.windowLeg + windowFree);
    let ofWallet = smaller(cost - ofWindow, hold.walletLeg);
    let rest = cost - ofWindow - ofWallet;
    const moreWallet = smaller(rest, zeroOrMore(this.#walletFree(hold) + BELOW_ZERO));
    ofWallet += moreWallet;
    rest -= moreWallet;
    this.#close(hold);
    if (window) window.posted -= ofWindow;
    account.posted -= ofWallet;
    hold.charge = ofWindow + ofWallet;
    this.charged += hold.charge;
    this.lost += rest;
  }

  release(requestId: string): void {
    const hold = this.holds.get(requestId);
    if (hold?.state === "open") this.#close(hold);
  }

  #close(hold: ModelHold): void {
    hold.state = "closed";
    if (hold.window) hold.window.held -= hold.windowLeg;
    hold.account.walletHeld -= hold.walletLeg;
  }

  /** The process dies and another one begins: what was seen of a reply is paid for, as far as it was held. */
  crash(): { settled: number; released: number } {
    const counts = { settled: 0, released: 0 };
    for (const hold of this.holds.values()) {
      if (hold.state === "closed") continue;
      const usage = { input: hold.estimate, cacheRead: 0, cacheWrite: 0, output: hold.reading, reasoning: 0 };
      const cost = this.cost(hold.tariff, usage);
      const seen = hold.reading > 0;
      counts[seen ? "settled" : "released"]++;
      if (!seen) this.#close(hold);
      else {
        const charged = smaller(cost, hold.windowLeg + hold.walletLeg);
        this.#charge(hold, charged, 0n);
        this.lost += cost - charged;
      }
    }
    return counts;
  }

  used(id: string, kind: "image" | "web"): number {
    return this.counted(this.account(id), kind, this.now);
  }

  /** What counts in the period of `at`. */
  counted(account: ModelAccount, kind: "image" | "web", at: number): number {
    const day = (ms: number) => Math.floor(ms / DAY);
    // An image that lies a day ahead was claimed by a clock that stood wrong.
    const counts = (claim: ModelClaim) =>
      kind === "image" ? Math.abs(claim.at - at) < DAY : day(claim.at) === day(at);
    let used = 0;
    for (const claim of this.claims.values()) {
      if (claim.account === account && claim.kind === kind && counts(claim)) used += claim.counted;
    }
    return used;
  }

  claim(
    claimId: string,
    id: string,
    wish: { kind: "image" | "web"; units: number; freeUnits: number | undefined; unit: bigint | undefined },
  ): Refused | { free: number } {
    const { kind, units, freeUnits, unit } = wish;
    if (this.claims.has(claimId)) return { refused: "claimed" };
    const account = this.account(id);
    const left = freeUnits === undefined ? units : freeUnits - this.used(id, kind);
    const free = Math.min(units, Math.max(0, left));
    const paid = units - free;
    if (paid > 0) {
      if (unit === undefined) return { refused: "allowance_exhausted" };
      const nano = unit * BigInt(paid);
      if (this.free(id) < nano) return { refused: "insufficient" };
      account.unitsHeld += nano;
    }
    const rest = { counted: free, charged: 0n, open: true };
    const allowance = freeUnits ?? 0;
    this.claims.set(claimId, { account, kind, at: this.now, units, free, paid, allowance, unit: unit ?? 0n, ...rest });
    return { free };
  }

  resolve(claimId: string, used: number, charge: boolean): { counted: number; charged: bigint } {
    const claim = this.claims.get(claimId);
    if (!claim) throw new Error("the model knows no such claim");
    if (claim.open) {
      claim.open = false;
      claim.account.unitsHeld -= claim.unit * BigInt(claim.paid);
      const back = Math.max(0, claim.allowance - this.counted(claim.account, claim.kind, claim.at));
      const paid = charge ? Math.max(0, used - claim.free - Math.min(claim.paid, back)) : 0;
      claim.counted = used - paid;
      claim.charged = claim.unit * BigInt(paid);
      claim.account.posted -= claim.charged;
      this.charged += claim.charged;
    }
    return { counted: claim.counted, charged: claim.charged };
  }
}
