/**
 * The bank test (reliability 8.1, G2): 64 clients on 5 accounts with 0.10 USD each, over HTTP, on a server of its own, while a reader adds up
 * all accounts at random moments. `bun test/prove/bank.ts [seconds]`. Exits 1 unless every read adds up, no wallet is overdrawn, and what
 * was charged is the vendor's own count to the nano.
 */
import { Database } from "bun:sqlite";
import type { Book } from "../../src/ledger/book.ts";
import { startCountingVendor, type Wish } from "./counting-vendor.ts";
import { costOf, PaidGateway } from "./paid-gateway.ts";

const CLIENTS = 64;
const ACCOUNTS = 5;
const FUNDED = 100_000_000n;
/** On a slow machine the wallets are empty later: the test goes on until a client is refused, for at most so much longer, ms. */
const LONGER_MS = 20_000;

/** What the bank test saw; `faults` says what is wrong. */
export type BankReport = {
  served: number;
  refused: number;
  failed: number;
  reads: number;
  lines: string[];
  faults: string[];
};

/** One bank test, with everything it is made of. */
class Bank {
  readonly report: BankReport = { served: 0, refused: 0, failed: 0, reads: 0, lines: [], faults: [] };
  readonly #vendor = startCountingVendor();
  readonly #gateway = new PaidGateway(this.#vendor.url);
  #until = 0;
  #made = 0;

  async run(seconds: number): Promise<BankReport> {
    try {
      await this.#gateway.fund(Array.from({ length: ACCOUNTS }, () => FUNDED));
      await this.#gateway.start();
      this.#until = performance.now() + seconds * 1000;
      await Promise.all([this.#read(), ...Array.from({ length: CLIENTS }, () => this.#ask())]);
      await this.#gateway.stop();
      await this.#gateway.withBooks(({ book }) => this.#compare(book));
      return this.report;
    } finally {
      await this.#gateway.kill();
      this.#vendor.stop();
      this.#gateway.remove();
    }
  }

  get #goesOn(): boolean {
    const leftMs = this.#until - performance.now();
    return leftMs > 0 || (this.report.refused === 0 && leftMs > -LONGER_MS);
  }

  async #ask(): Promise<void> {
    const { report } = this;
    while (this.#goesOn) {
      const account = this.#gateway.accounts[Math.floor(Math.random() * ACCOUNTS)]!;
      const fails = Math.random() < 0.1;
      const counts = { input: 20 + Math.floor(Math.random() * 20), output: 1 + Math.floor(Math.random() * 60) };
      const wish: Wish = { id: `r${this.#made++}`, account: account.id, ...counts, fails };
      const stream = Math.random() < 0.5;
      const messages = [{ role: "user", content: JSON.stringify(wish) }];
      const more = stream && { stream, stream_options: { include_usage: true } };
      const response = await this.#gateway.ask(account.key, { messages, max_tokens: 64, ...more });
      const text = await response.text();
      if (response.status === 200) report.served++;
      else if (response.status === 402) report.refused++;
      else if (fails) report.failed++;
      else report.faults.push(`${response.status}: ${text.slice(0, 200)}`);
      if (response.status === 200 && stream && !text.includes("[DONE]")) report.faults.push("a stream without its end");
    }
  }

  /** Looks at all accounts at once, through a connection of its own. */
  async #read(): Promise<void> {
    const { faults } = this.report;
    const database = new Database(this.#gateway.store, { readonly: true, safeIntegers: true });
    const query = database.prepare<{ total: bigint; least: bigint; paid: bigint }, []>(
      `SELECT sum(posted) AS total, min(CASE kind WHEN 'wallet' THEN posted END) AS least,
         sum(CASE WHEN kind = 'wallet' OR id = 'house:revenue' THEN posted ELSE 0 END) AS paid FROM ledger_account`,
    );
    while (this.#goesOn) {
      const row = query.get();
      this.report.reads++;
      if (row?.total !== 0n) faults.push(`all accounts together: ${row?.total}`);
      if (row && row.least < 0n) faults.push(`a wallet at ${row.least}`);
      if (row?.paid !== FUNDED * BigInt(ACCOUNTS)) faults.push(`wallets and revenue together: ${row?.paid}`);
      await Bun.sleep(Math.random() * 10);
    }
    database.close();
  }

  #compare(book: Book): void {
    const { faults, lines } = this.report;
    for (const { invariant, detail } of book.verify()) faults.push(`${invariant}: ${detail}`);
    for (const { id } of this.#gateway.accounts) {
      const answered = this.#vendor.answered.get(id) ?? [];
      const counted = answered.reduce((sum, { input, output }) => sum + costOf(input, output), 0n);
      const { postedNano, heldNano } = book.balance(id);
      const line = `${id}: charged ${FUNDED - postedNano} nano, the vendor counts ${counted}, held ${heldNano}`;
      lines.push(line);
      if (FUNDED - postedNano !== counted || heldNano !== 0n) faults.push(line);
    }
  }
}

/** Runs the bank test for so long. */
export function runBank(seconds: number): Promise<BankReport> {
  return new Bank().run(seconds);
}

if (import.meta.main) {
  const seconds = Number(process.argv[2] ?? 20);
  const { served, refused, failed, reads, lines, faults } = await runBank(seconds);
  for (const line of lines) console.log(line);
  for (const fault of faults.slice(0, 20)) console.log(`FAULT ${fault}`);
  const counts = `${served} served, ${refused} × 402, ${failed} failed upstream, ${reads} reads in ${seconds} s`;
  console.log(`${counts}: ${faults.length} faults`);
  process.exit(faults.length === 0 && served > 0 && refused > 0 ? 0 : 1);
}
