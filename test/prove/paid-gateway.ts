import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Subprocess } from "bun";
import { Accounts } from "../../src/accounts/accounts.ts";
import { Keys } from "../../src/accounts/keys.ts";
import { storePath } from "../../src/config/data-folder.ts";
import { type Books, withBooks } from "../support/books.ts";

const MAIN = join(import.meta.dir, "../../src/main.ts");
/** How long a start may take on a busy machine, ms. */
const START_MS = 20_000;

/** USD per 1M tokens of the one model, and the same as nano-USD per 1,000 tokens. */
export const USD = { input: 3, output: 15 };
export const NANO_PER_THOUSAND = { input: 3_000_000n, output: 15_000_000n };
export const MODEL = "lab/paid";

/** What so many tokens cost, nano-USD, rounded up. */
export function costOf(input: number, output: number): bigint {
  const pico = BigInt(input) * NANO_PER_THOUSAND.input + BigInt(output) * NANO_PER_THOUSAND.output;
  return (pico + 999n) / 1_000n;
}

const modelRow = (name: string): string =>
  `  - { id: lab/${name}, pricing: { input: ${USD.input}, output: ${USD.output} }, routes: [{ vendor: lab, model: ${name} }] }`;

export type StartOptions = {
  prefix?: readonly string[];
  command?: readonly string[];
  env?: Readonly<Record<string, string>>;
};
export type PaidAccount = { id: string; key: string };

/** A data folder with accounts that have money, and the server of this project on it, as a process of its own. */
export class PaidGateway {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-prove-"));
  readonly store = storePath(this.folder);
  accounts: PaidAccount[] = [];
  url = "";
  #child: Subprocess<"ignore", "pipe", "inherit"> | undefined;

  /** `upstreamModels`: names at the vendor, each served as `lab/<name>` at the one price. */
  constructor(vendorUrl: string, upstreamModels: readonly string[] = ["paid"]) {
    const limits = "requests_per_minute: 1000000, concurrent_generations: 100000, spending_window_usd: 0";
    writeFileSync(
      join(this.folder, "sluice.yaml"),
      `vendors:
  - { id: lab, dialect: chat, base_url: "${vendorUrl}/v1", api_key: none, models: any }
models:
${upstreamModels.map(modelRow).join("\n")}
plans:
  paying: { ${limits} }
local_discovery: false
`,
      { mode: 0o600 },
    );
  }

  /** Makes accounts on plan `paying` with so much money each. The server must not run. */
  async fund(amounts: readonly bigint[]): Promise<void> {
    await this.withBooks(async ({ store, writer, book }) => {
      const keys = new Keys(store, writer);
      const accounts = new Accounts(store, writer, keys);
      for (const [at, amountNano] of amounts.entries()) {
        const { id } = await accounts.create({ name: `account-${at}`, plan: "paying" });
        const { key } = await keys.create({ accountId: id, name: "k", kind: "api" });
        await book.deposit({ accountId: id, amountNano, reference: `payment-${id}` });
        this.accounts.push({ id, key });
      }
    });
  }

  /** Opens the books of the folder in this process. */
  withBooks<T>(work: (books: Books) => Promise<T> | T): Promise<T> {
    return withBooks(this.store, work);
  }

  /** Another configuration than that of the one vendor. */
  configure(config: Record<string, unknown>): void {
    // Every JSON document is one of YAML.
    writeFileSync(join(this.folder, "sluice.yaml"), JSON.stringify(config), { mode: 0o600 });
  }

  /** Starts the server and resolves once it listens. `prefix`: what starts it, `command`: what it is, where that is not the source, `env`: variables it is given. */
  async start({ prefix = [], command = [process.execPath, MAIN], env = {} }: StartOptions = {}): Promise<void> {
    const child = Bun.spawn([...prefix, ...command, "serve", "--data", this.folder, "--port", "0"], {
      env: { PATH: process.env["PATH"] ?? "", HOME: this.folder, SLUICE_LOG_LEVEL: "error", ...env },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    });
    this.#child = child;
    this.url = await readUrl(child);
  }

  /** The port it listens on. */
  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** The process that serves now. */
  get pid(): number {
    return this.#child?.pid ?? Number.NaN;
  }

  /** Ends it as a power cut would, and resolves once it is dead. */
  async kill(): Promise<void> {
    this.#child?.kill("SIGKILL");
    await this.#child?.exited;
  }

  /** Lets it close its books. */
  async stop(): Promise<void> {
    this.#child?.kill("SIGTERM");
    await this.#child?.exited;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Posts a chat request with an account's key. */
  ask(key: string, body: Record<string, unknown>): Promise<Response> {
    return fetch(`${this.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: MODEL, ...body }),
    });
  }
}

async function readUrl(child: Subprocess<"ignore", "pipe", "inherit">): Promise<string> {
  const timer = setTimeout(() => child.kill("SIGKILL"), START_MS);
  let text = "";
  const decoder = new TextDecoder();
  const reader = child.stdout.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error(`the server ended before it listened: ${text}`);
      text += decoder.decode(value, { stream: true });
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(text);
      if (found) return found[0];
    }
  } finally {
    clearTimeout(timer);
    // What it says later is read and forgotten, so that it never waits for its pipe.
    reader.releaseLock();
    void child.stdout.pipeTo(new WritableStream()).catch(() => undefined);
  }
}
