/**
 * The kill loop of image jobs (reliability 8.1): a gateway with jobs at work is ended by SIGKILL at random moments, started again, and asked in the end
 * what became of every job that it had accepted. `bun test/prove/jobs-kill.ts [kills]`. Exits 1 unless each ended in exactly one state, billed as contract 5
 * says, with its file where it succeeded, no prompt worked on twice, and sound books.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Subprocess } from "bun";
import { Accounts } from "../../src/accounts/accounts.ts";
import { Keys } from "../../src/accounts/keys.ts";
import { storePath } from "../../src/config/data-folder.ts";
import type { Store } from "../../src/db/open.ts";
import type { Book } from "../../src/ledger/book.ts";
import { type Books, withBooks } from "../support/books.ts";
import { until } from "../support/wait.ts";
import { type CountingVendor, KINDS, startDrawingVendor, UNIT_NANO } from "./jobs-vendor.ts";

const GATEWAY = join(import.meta.dir, "jobs-gateway.ts");
const CLIENTS = 6;
/** Each life has accounts of its own, so that none is turned away for its blocked prompts for the rest of the proof. */
const ACCOUNTS_A_LIFE = 2;
const FUNDED = 1_000_000_000_000n;
const LEAST_MS = 60;
const MOST_MS = 420;
/** For a start on a busy machine, and for the last jobs to end, ms. */
const START_MS = 30_000;
const END_MS = 330_000;

/** What the loop came to; `faults` says what is wrong. */
export type JobsReport = {
  kills: number;
  accepted: number;
  ends: Record<string, number>;
  works: number;
  faults: string[];
};

const OUTCOMES = ["image", "image", "image", "image", "image", "blocked", "failed"] as const;

type Account = { id: string; key: string };
type Accepted = { id: string; prompt: string };
type JobFacts = {
  id: string;
  account_id: string;
  state: string;
  error_code: string | null;
  file: string | null;
  prompt: string;
};
type ClaimFacts = {
  id: string;
  account_id: string;
  state: string;
  counted: bigint;
  charged: bigint;
  paid: bigint;
  allowance: bigint;
};

class Proof {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-jobs-"));
  readonly accounts: Account[] = [];
  readonly accepted: Accepted[] = [];
  url = "";
  #child: Subprocess<"ignore", "pipe", "inherit"> | undefined;

  constructor(readonly vendor: CountingVendor) {}

  withBooks<T>(work: (books: Books) => Promise<T> | T): Promise<T> {
    return withBooks(storePath(this.folder), work);
  }

  async fund(lives: number): Promise<void> {
    await this.withBooks(async ({ store, book, writer }) => {
      const keys = new Keys(store, writer);
      const accounts = new Accounts(store, writer, keys);
      for (let at = 0; at < lives * ACCOUNTS_A_LIFE; at++) {
        const { id } = await accounts.create({ name: `account-${at}`, plan: "free" });
        store.database.run("UPDATE account SET plan = 'proving' WHERE id = ?", [id]);
        const { key } = await keys.create({ accountId: id, name: "k", kind: "api" });
        await book.deposit({ accountId: id, amountNano: FUNDED, reference: `payment-${id}` });
        this.accounts.push({ id, key });
      }
    });
  }

  async start(): Promise<void> {
    const child = Bun.spawn([process.execPath, GATEWAY, this.folder, this.vendor.url], {
      env: { PATH: process.env["PATH"] ?? "", HOME: this.folder },
      ...{ stdin: "ignore", stdout: "pipe", stderr: "inherit" },
    });
    this.#child = child;
    const late = setTimeout(() => child.kill("SIGKILL"), START_MS);
    let said = "";
    for await (const bytes of child.stdout) {
      said += new TextDecoder().decode(bytes);
      const url = /listening on (\S+)\n/.exec(said)?.[1];
      if (url) {
        this.url = url;
        break;
      }
    }
    clearTimeout(late);
    if (this.url === "") throw new Error(`the gateway did not start: ${said}`);
  }

  async end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    this.#child?.kill(signal);
    await this.#child?.exited;
    this.url = "";
  }

  remove(): void {
    this.#child?.kill("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Asks for images, and now and then cancels one, until the gateway is gone. */
  async ask(life: number, client: number, state: { dead: boolean }): Promise<void> {
    for (let at = 0; !state.dead; at++) {
      const account = this.accounts[life * ACCOUNTS_A_LIFE + (at % ACCOUNTS_A_LIFE)]!;
      const outcome = pick(OUTCOMES);
      const prompt = `${outcome} ${Math.floor(Math.random() * 220)} ${life}.${client}.${at}`;
      const headers = { authorization: `Bearer ${account.key}`, "content-type": "application/json" };
      const path = `${this.url}/v1/images/generations`;
      try {
        const body = JSON.stringify({ model: `${pick(KINDS)}/draw`, prompt });
        const response = await fetch(path, { method: "POST", headers, body });
        if (response.status !== 202) {
          if (response.status !== 429 || !(await response.text()).includes("too_many_blocked")) {
            throw new TypeError(`refused: ${response.status}`);
          }
          continue;
        }
        const { id } = (await response.json()) as { id: string };
        this.accepted.push({ id, prompt });
        if (Math.random() < 0.12) await (await fetch(`${path}/${id}`, { method: "DELETE", headers })).text();
        await Bun.sleep(20 + Math.random() * 180);
      } catch (thrown) {
        // The gateway is gone in the middle of it: that is what this is about.
        if (!state.dead) throw thrown;
      }
    }
  }

  /** Waits until every job has ended. */
  async settle(): Promise<void> {
    const startedAt = performance.now();
    for (;;) {
      const open = await this.withBooks(({ store }) => {
        const count = store.database.prepare<{ n: bigint }, []>(
          "SELECT count(*) AS n FROM image_job WHERE ended_ms IS NULL",
        );
        return Number(count.get()?.n ?? 0n);
      });
      if (open === 0) return;
      if (performance.now() - startedAt > END_MS) throw new Error(`${open} jobs did not end`);
      await Bun.sleep(200);
    }
  }
}

const pick = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)]!;

/** Kills the gateway `kills` times while clients ask it without end; in each of its lives not before it has accepted `least` jobs. */
export async function runJobKills(kills: number, least = 0): Promise<JobsReport> {
  const vendor = startDrawingVendor();
  const proof = new Proof(vendor);
  try {
    await proof.fund(kills);
    for (let kill = 0; kill < kills; kill++) {
      await proof.start();
      const state = { dead: false };
      const clients = Array.from({ length: CLIENTS }, (_, at) => proof.ask(kill, at, state));
      const wanted = proof.accepted.length + least;
      const asking = Promise.all(clients);
      // A client that is refused ends with what refused it.
      await Promise.race([until(() => proof.accepted.length >= wanted, `${least} accepted jobs`, START_MS), asking]);
      await Bun.sleep(LEAST_MS + Math.random() * (MOST_MS - LEAST_MS));
      state.dead = true;
      await proof.end("SIGKILL");
      await asking;
    }
    await proof.start();
    await proof.settle();
    await proof.end("SIGTERM");
    return await proof.withBooks(({ store, book }) => inspect(proof, store, book, kills));
  } finally {
    vendor.stop();
    proof.remove();
  }
}

/** What a claim must say of a job by how that ended (contract 5). */
function billFault(job: JobFacts, claim: ClaimFacts | undefined): string | undefined {
  if (!claim) return "no claim";
  const { state, counted, charged, paid } = claim;
  const returned = state === "returned" && counted === 0n && charged === 0n;
  if (job.state === "failed" || job.state === "cancelled") return returned ? undefined : `${job.state}, and ${state}`;
  if (state !== "counted") return `${job.state}, and ${state}`;
  if (job.state === "blocked") return charged === 0n && counted === 1n ? undefined : `blocked, and charged ${charged}`;
  // One that was to be paid is free where free units have come back.
  const isRight = counted === 1n ? charged === 0n : paid === 1n && charged === UNIT_NANO && counted === 0n;
  return isRight ? undefined : `counted ${counted}, charged ${charged}`;
}

/** Accounts of which more images were free than their plan gives. */
function freeFaults(rows: readonly JobFacts[], claims: ReadonlyMap<string, ClaimFacts>): string[] {
  const free = new Map<string, { given: bigint; allowance: bigint }>();
  for (const { id, state } of rows) {
    const claim = claims.get(id);
    if (state !== "succeeded" || !claim) continue;
    const { given = 0n } = free.get(claim.account_id) ?? {};
    free.set(claim.account_id, { given: given + claim.counted, allowance: claim.allowance });
  }
  const over = [...free].filter(([, { given, allowance }]) => given > allowance);
  return over.map(([account, { given, allowance }]) => `${account}: ${given} images were free of ${allowance}`);
}

function inspect(proof: Proof, store: Store, book: Book, kills: number): JobsReport {
  const faults: string[] = [];
  const ends: Record<string, number> = {};
  const rows = store.database.prepare<JobFacts, []>("SELECT * FROM image_job").all();
  const jobs = new Map(rows.map((row) => [row.id, row]));
  const claims = new Map(
    store.database
      .prepare<ClaimFacts, []>("SELECT * FROM unit_claim")
      .all()
      .map((row) => [row.id, row]),
  );
  const usage = new Map<string, number>();
  for (const { request_id: id } of store.database
    .prepare<{ request_id: string }, []>("SELECT request_id FROM usage")
    .all()) {
    usage.set(id, (usage.get(id) ?? 0) + 1);
  }
  for (const { id } of proof.accepted) if (!jobs.has(id)) faults.push(`${id}: accepted, and not there`);
  for (const job of rows) {
    const end = job.error_code && job.state === "failed" ? `failed (${job.error_code})` : job.state;
    ends[end] = (ends[end] ?? 0) + 1;
    const fault = billFault(job, claims.get(job.id));
    if (fault) faults.push(`${job.id}: ${fault}`);
    const billed = job.state === "succeeded" || job.state === "blocked" ? 1 : 0;
    if ((usage.get(job.id) ?? 0) !== billed)
      faults.push(`${job.id}: ${job.state}, and ${usage.get(job.id)} rows of usage`);
    const there = job.file !== null && existsSync(join(proof.folder, "images", job.file.slice(0, 2), job.file));
    if (there !== (job.state === "succeeded"))
      faults.push(`${job.id}: ${job.state}, and its file is ${there ? "there" : "gone"}`);
    if (job.state === "succeeded" && !job.prompt.startsWith("image "))
      faults.push(`${job.id}: ${job.prompt} succeeded`);
  }
  faults.push(...freeFaults(rows, claims));
  for (const id of claims.keys()) if (!jobs.has(id)) faults.push(`${id}: a claim without a job`);
  for (const [prompt, works] of proof.vendor.works) if (works > 1) faults.push(`${prompt}: worked on ${works} times`);
  for (const { id, detail } of book.verify().map(({ invariant, detail }) => ({ id: invariant, detail })))
    faults.push(`${id}: ${detail}`);
  const sound = store.database.prepare<{ integrity_check: string }, []>("PRAGMA integrity_check").get();
  if (sound?.integrity_check !== "ok") faults.push(`the store: ${sound?.integrity_check}`);
  return { kills, accepted: proof.accepted.length, ends, works: proof.vendor.works.size, faults };
}

if (import.meta.main) {
  const startedAt = performance.now();
  const report = await runJobKills(Number(process.argv[2] ?? 300));
  for (const fault of report.faults.slice(0, 20)) console.log(`FAULT ${fault}`);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
  console.log(
    `${report.kills} kills in ${seconds} s; ${report.accepted} jobs accepted, ${report.works} prompts at the vendor, ${report.faults.length} faults`,
  );
  for (const [end, jobs] of Object.entries(report.ends).sort())
    console.log(`  ${end.padEnd(32)} ${String(jobs).padStart(6)}`);
  process.exit(report.faults.length === 0 && report.accepted > 0 ? 0 : 1);
}
