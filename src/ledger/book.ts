import type { Usage } from "../canon/usage.ts";
import type { Outcome, UsageFlag } from "./ledger.ts";
import type { Prices } from "./price.ts";
import type { UsageRow } from "./usage-rows.ts";

/**
 * The book of money and counts, for everyone but the hot path (which uses `Ledger`, ledger.ts). All amounts are nano-USD (1 USD =
 * 1,000,000,000), BigInt; all times are Unix milliseconds; `accountId` is the id of an account (`acct_…`). Reads answer from the store
 * as it stands, at once, on whatever process they run: a server or a command beside it.
 */
export interface Book {
  /**
   * Puts real money into an account's wallet; a deposit opens premium models (contract 4). Idempotent by `reference`: a second call with
   * the same reference writes nothing and gives the first entry with `repeated`. Throws LedgerError: `bad_amount` (not above 0, or above
   * 1,000,000 USD), `bad_reference`, `reference_reused` (same reference, another account, kind or amount), `no_account`; StoreError as the
   * writer does. Durable when it resolves.
   */
  deposit(money: MoneyOrder): Promise<Posted>;
  /** As {@link deposit}, for money given away: it is spent like any other, but opens no premium model (contract 4). */
  promote(money: MoneyOrder): Promise<Posted>;
  /**
   * As {@link deposit}, for righting a wrong; `amountNano` may be negative, never 0. Takes no more than the wallet has free: LedgerError
   * `insufficient` otherwise. Earlier entries stay as they are (append-only, reliability 1).
   */
  correct(money: MoneyOrder): Promise<Posted>;

  /** What the account's wallet has. All zero for an account that never had money, or that does not exist. */
  balance(accountId: string): Balance;
  /**
   * The plan's spending window as it stands (contract 4: USD per 5 h). `grantNano` is what the account's plan gives for a window. Between two
   * windows `startedAtMs` is undefined and all of the grant is available: a window opens at its first use. Undefined for a grant of 0.
   */
  window(accountId: string, grantNano: bigint): WindowState | undefined;
  /** Whether the wallet ever received a real deposit, which premium models ask for (interface 5 rule 6). */
  hasDeposit(accountId: string): boolean;
  /** Entries of the account that are no charge for tokens (those are told by their usage rows), newest first; `before` is the `seq` of the last one seen. At most 1,000. */
  entries(accountId: string, page?: { before?: number; limit?: number }): LedgerEntry[];

  /**
   * Counts of one kind that are used up or claimed: images in the rolling 24 h up to now (half-open, `(now − 24 h, now]`), web calls in the UTC day
   * (contract 4). `limit` comes from the account's plan; `resetsAtMs` is when the next unit comes free (images) or the day ends (web).
   */
  allowance(accountId: string, kind: UnitKind, limit: number): AllowanceState;

  /**
   * Claims units for one request or job: free ones first, then the wallet, never the window (interface 8, reliability 3.4). Must be called
   * inside an operation of the writer (`writer.run(() => …)`), so that the claim and the caller's own rows (a job, say) are written
   * together or not at all. All or nothing: throws LedgerError `insufficient` when the free units and the wallet do not cover it, or
   * `allowance_exhausted` when the rest may not be paid for (`unitNano` undefined). A second claim of the same `claimId` throws `claimed`.
   */
  claimUnits(claim: ClaimOrder): Claim;
  /**
   * Ends a claim: `used` units are counted or paid for, the others given back, the wallet's first; a unit that was to be paid is free where others
   * have given free ones back meanwhile. Writes the usage row of the request.
   * `charge: false` is a blocked image: no money, but every used unit counts against the allowance (interface 3). The last
   * thing that an operation of the writer does. Returns what was charged; a claim that is resolved already gives its first result (`repeated`). Throws LedgerError
   * `no_claim` for an unknown one, `bad_amount` for more units than were claimed.
   */
  countUnits(count: ClaimCount): ClaimResult;
  /** Gives a whole claim back: nothing is counted and nothing paid; no usage row (failed, cancelled: contract 5). Inside an operation of the writer. */
  giveBackUnits(claimId: string): ClaimResult;
  /** Claims that are still open, of at least `leastPaid` paid units, oldest first: what a start goes through after a crash. At most 10,000. */
  openClaims(kind: UnitKind, leastPaid?: number): Claim[];

  /** One settled request: counts, prices, cost and where the money came from. Only of this account, where one is given. */
  receipt(requestId: string, accountId?: string): Receipt | undefined;

  /**
   * Checks the invariants I1 to I10 of reliability 3.3. `last`: of entries and usage rows only the newest so many (the boot takes 10,000); absent: all.
   * `starting`: open holds are a dead process's, and may be as old as they like. Returns one sentence for each breach, at most 100; empty means sound. Writes nothing.
   */
  verify(options?: { last?: number; starting?: boolean }): Breach[];
}

/** A call of the book that is refused. `code` is stable and for programs; the text is for people, and holds no secrets. */
export class LedgerError extends Error {
  override readonly name = "LedgerError";
  constructor(
    readonly code:
      | "bad_amount"
      | "bad_reference"
      | "reference_reused"
      | "no_account"
      | "insufficient"
      | "allowance_exhausted"
      | "claimed"
      | "no_claim",
    message: string,
  ) {
    super(message);
  }
}

/** Money for or from a wallet. `reference` is the other side's own name for it (1 to 200 printable ASCII characters): a payment's id, say. */
export type MoneyOrder = { accountId: string; amountNano: bigint; reference: string; detail?: string };
export type Posted = { entry: LedgerEntry; repeated: boolean };

export type EntryKind =
  | "deposit"
  | "promotion"
  | "correction"
  | "usage"
  /** A request that did not end well, charged by what was made (contract 5). */
  | "usage_partial"
  | "image"
  | "web"
  /** A spending window opens. */
  | "grant"
  /** What a spending window had left when it closed. */
  | "expire"
  /** A cost that no customer pays: the operator's loss, made visible. */
  | "writeoff";

/** One transfer. `amountNano` is above 0; `credit` gained what `debit` lost. Both are ledger accounts, not accounts of people. */
export type LedgerEntry = {
  seq: number;
  atMs: number;
  kind: EntryKind;
  debit: string;
  credit: string;
  amountNano: bigint;
  requestId: string | null;
  reference: string | null;
  detail: string | null;
};

/** `availableNano` = posted − held: what a new request can take. It may be a little below 0 (contract 5: overrun). */
export type Balance = { postedNano: bigint; heldNano: bigint; availableNano: bigint };
export type WindowState = {
  grantNano: bigint;
  availableNano: bigint;
  heldNano: bigint;
  startedAtMs: number | undefined;
  endsAtMs: number | undefined;
};

export type UnitKind = "image" | "web";
export type AllowanceState = { limit: number; used: number; remaining: number; resetsAtMs: number | undefined };

export type ClaimOrder = {
  /** The request's or job's id; also the `request_id` of its usage row. */
  claimId: string;
  accountId: string;
  keyId: string;
  kind: UnitKind;
  /** 1 for an image; for `web_fetch` one per URL. 1 to 1,000. */
  units: number;
  /** Free units of the plan in the kind's period; undefined: unlimited (plan `local`), and then nothing is ever paid. */
  freeUnits: number | undefined;
  /** Price of a unit beyond the free ones; undefined: it cannot be had. */
  unitNano: bigint | undefined;
};
export type Claim = {
  claimId: string;
  accountId: string;
  keyId: string;
  kind: UnitKind;
  atMs: number;
  units: number;
  /** Of `units`, those on the allowance, and those held on the wallet at `unitNano` each. */
  free: number;
  paid: number;
  unitNano: bigint;
};
export type ClaimCount = {
  claimId: string;
  used: number;
  charge?: boolean;
  /** Told what is charged, nano-USD, before any sum counts it: writes what has to stand or fall with the charge, and waits for nothing. */
  beside?(chargedNano: bigint): void;
  usage: {
    /** What `usage.dialect` shows: the endpoint's family. */
    dialect: string;
    model: string;
    vendor: string;
    upstreamModel: string;
    outcome: Outcome;
    attempts: number;
    durationMs: number;
    error?: string;
  };
};
/** `costNano`: what is charged, or would be by a plan that bounds its units. */
export type ClaimResult = { counted: number; costNano: bigint; chargedNano: bigint; repeated: boolean };

export type PriceRow = { id: number; model: string; sinceMs: number; prices: Prices };

export type Receipt = {
  /** What was counted, its exact cost at the price of its time, rounded up once, and what the account paid of that. */
  row: UsageRow;
  usage: Usage;
  /** What each call of a vendor came to, where they were not all of one rate and the cost is the sum of theirs. */
  rounds: readonly Usage[] | undefined;
  flags: readonly UsageFlag[];
  price: PriceRow | undefined;
  /** Where the money came from, in order: the window first, then the wallet. */
  legs: readonly { from: "window" | "wallet"; amountNano: bigint }[];
};

export type Breach = { invariant: string; detail: string };
