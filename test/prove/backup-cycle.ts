/**
 * The backup cycle (reliability 8.2, N14): while clients have a server write as fast as it can, the store is backed up every ten seconds, restored
 * elsewhere, and its books are checked there. `bun test/prove/backup-cycle.ts [cycles] [seconds]`. Exits 1 unless every copy is whole and right, and holds all that
 * had been acknowledged before it was begun; the last one is served from.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { storePath } from "../../src/config/data-folder.ts";
import { openStore } from "../../src/db/open.ts";
import { usage } from "../../src/db/schema.ts";
import { Writer } from "../../src/db/writer.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";
import { startCountingVendor, type Wish } from "./counting-vendor.ts";
import { check, faults } from "./faults.ts";
import { quantile } from "./look.ts";
import { costOf, PaidGateway } from "./paid-gateway.ts";

const CYCLES = Number(process.argv[2] ?? 8);
const EVERY_MS = Number(process.argv[3] ?? 10) * 1_000;
const CLIENTS = 16;
const FUNDED = 1_000_000_000_000_000n;
const MAIN = join(import.meta.dir, "../../src/main.ts");

/** Answers that clients had in full, and what each cost, nano-USD. */
type Acknowledged = readonly (readonly [requestId: string, cost: string])[];
/** A restored store, and what must be in it. */
type Facts = { store: string; account: string; before: Acknowledged };
type Found = { rows: number; faults: string[] };

/** Holds a restored store against what had been acknowledged before it was copied. */
function compare({ store: path, account, before }: Facts): Found {
  const store = openStore(path);
  const { book } = openLedger(store, new Writer(store));
  const found: string[] = [];
  const sound = store.database.query("PRAGMA integrity_check").values()[0]?.[0];
  if (sound !== "ok") found.push(String(sound));
  for (const { invariant, detail } of book.verify()) found.push(`${invariant}: ${detail}`);
  const rows = new Map(
    store.query
      .select()
      .from(usage)
      .all()
      .map((row) => [row.requestId, row.chargedNano]),
  );
  const wrong = before.filter(([requestId, cost]) => rows.get(requestId) !== BigInt(cost)).length;
  if (wrong > 0) found.push(`${wrong} of ${before.length} acknowledged answers are missing or wrong`);
  const charged = [...rows.values()].reduce((sum, nano) => sum + nano, 0n);
  const { postedNano } = book.balance(account);
  if (postedNano !== FUNDED - charged) found.push(`the wallet has ${postedNano}, its rows come to ${charged}`);
  return { rows: rows.size, faults: found };
}

class Proof {
  readonly #vendor = startCountingVendor();
  readonly #gateway = new PaidGateway(this.#vendor.url);
  /** What each answer cost that a client had in full, in the order in which they came. */
  readonly #acknowledged = new Map<string, string>();
  readonly #took: number[] = [];
  readonly #backupMs: number[] = [];
  #over = false;
  #rows = 0;

  async run(): Promise<void> {
    const gateway = this.#gateway;
    try {
      await gateway.fund([FUNDED]);
      await gateway.start();
      const clients = Array.from({ length: CLIENTS }, (_, at) => this.#askWithoutEnd(at));
      const startedAt = performance.now();
      for (let cycle = 1; cycle <= CYCLES; cycle++) {
        await Bun.sleep(Math.max(0, startedAt + cycle * EVERY_MS - performance.now()));
        await this.#backUpAndRestore(cycle);
      }
      this.#over = true;
      await Promise.all(clients);
      const seconds = (performance.now() - startedAt) / 1_000;
      await this.#serveFrom(CYCLES);
      this.#show(seconds);
    } finally {
      await gateway.kill();
      this.#vendor.stop();
      gateway.remove();
    }
  }

  #show(seconds: number): void {
    const rate = Math.round(this.#acknowledged.size / seconds);
    const slowest = Math.max(...this.#backupMs).toFixed(0);
    const latency = `p99 ${quantile(this.#took, 0.99).toFixed(0)} ms, slowest ${Math.max(...this.#took).toFixed(0)} ms`;
    console.log(
      `${this.#acknowledged.size} answers, ${rate} a second, ${latency}; ${this.#rows} rows in the last copy`,
    );
    console.log(`a backup takes ${slowest} ms at the most, its process's start included`);
  }

  async #askWithoutEnd(client: number): Promise<void> {
    const key = this.#gateway.accounts[0]?.key ?? "";
    for (let at = 0; !this.#over; at++) {
      const stream = (at + client) % 2 === 0;
      const wish: Wish = { id: `${client}-${at}`, account: "a", input: 10 + (at % 90), output: 1 + (at % 60) };
      const messages = [{ role: "user", content: JSON.stringify(wish) }];
      const startedAt = performance.now();
      const more = stream && { stream, stream_options: { include_usage: true } };
      const response = await this.#gateway.ask(key, { messages, max_tokens: 64, ...more });
      const text = await response.text();
      this.#took.push(performance.now() - startedAt);
      const whole = stream ? text.includes("data: [DONE]") : response.status === 200;
      if (!whole) faults.push(`${response.status}: ${text.slice(0, 200)}`);
      else this.#acknowledged.set(response.headers.get("x-request-id") ?? "", String(costOf(wish.input, wish.output)));
    }
  }

  #file = (cycle: number) => join(this.#gateway.folder, `copy-${cycle}.db`);
  #elsewhere = (cycle: number) => join(this.#gateway.folder, `elsewhere-${cycle}`);

  async #command(...words: string[]): Promise<void> {
    const child = Bun.spawn([process.execPath, MAIN, ...words], {
      env: { PATH: process.env["PATH"] ?? "", HOME: this.#gateway.folder },
      ...{ stdin: "ignore", stdout: "ignore", stderr: "pipe" },
    });
    const [stderr, code] = await Promise.all([child.stderr.text(), child.exited]);
    if (code !== 0) faults.push(`${words[0]} ended with ${code}: ${stderr.slice(0, 300)}`);
  }

  async #backUpAndRestore(cycle: number): Promise<void> {
    const before = [...this.#acknowledged];
    const startedAt = performance.now();
    await this.#command("backup", this.#file(cycle), "--data", this.#gateway.folder);
    this.#backupMs.push(performance.now() - startedAt);
    await this.#command("restore", this.#file(cycle), "--data", this.#elsewhere(cycle));
    await this.#compare(cycle, before);
    if (cycle < CYCLES)
      for (const path of [this.#file(cycle), this.#elsewhere(cycle)]) rmSync(path, { recursive: true, force: true });
  }

  /** {@link compare} in a process of its own: this one has clients to serve. */
  async #compare(cycle: number, before: Acknowledged): Promise<void> {
    const facts: Facts = {
      store: storePath(this.#elsewhere(cycle)),
      account: this.#gateway.accounts[0]?.id ?? "",
      before,
    };
    const file = join(this.#gateway.folder, `facts-${cycle}.json`);
    writeFileSync(file, JSON.stringify(facts));
    const child = Bun.spawn([process.execPath, import.meta.path, "--compare", file], {
      ...{ stdin: "ignore", stdout: "pipe", stderr: "inherit" },
    });
    const found = JSON.parse(await child.stdout.text()) as Found;
    this.#rows = found.rows;
    for (const fault of found.faults) faults.push(`copy ${cycle}: ${fault}`);
  }

  /** A server on a restored store knows its keys and its money. */
  async #serveFrom(cycle: number): Promise<void> {
    await this.#gateway.stop();
    await this.#command("restore", this.#file(cycle), "--data", this.#gateway.folder);
    await this.#gateway.start();
    const [account] = this.#gateway.accounts;
    const messages = [{ role: "user", content: JSON.stringify({ id: "last", account: "a", input: 20, output: 8 }) }];
    const response = await this.#gateway.ask(account?.key ?? "", { messages, max_tokens: 64 });
    check(
      response.status === 200,
      `a server on a restored store: ${response.status} ${(await response.text()).slice(0, 200)}`,
    );
    await this.#gateway.stop();
  }
}

if (process.argv[2] === "--compare") {
  console.log(JSON.stringify(compare(JSON.parse(readFileSync(process.argv[3] ?? "", "utf8")) as Facts)));
  process.exit(0);
}
await new Proof().run();
for (const fault of faults.slice(0, 20)) console.log(`FAULT ${fault}`);
console.log(`${CYCLES} backups under load, each restored and checked: ${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);
