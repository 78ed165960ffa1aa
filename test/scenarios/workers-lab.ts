import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Accounts } from "../../src/accounts/accounts.ts";
import { Keys } from "../../src/accounts/keys.ts";
import { storePath } from "../../src/config/data-folder.ts";
import { openStore } from "../../src/db/open.ts";
import { makeFolder, type RunningBinary, removeFolder, startBinary } from "../support/binary.ts";
import { type Books, withBooks } from "../support/books.ts";
import { type Gate, gate, until } from "../support/wait.ts";
import { childrenOf } from "./workers-processes.ts";

/** Why nothing of this runs elsewhere: there several processes cannot listen on one port, and `serve` says so. */
export const isLinux = process.platform === "linux";

/** What the vendor is to do, written as the text of a request: how much it says, and whether it then waits for the gate. */
export type Wish = { id: string; pieces?: number; waits?: boolean; output?: number };

export type LabVendor = {
  url: string;
  /** Ids of wishes in the order in which they came, and of those whose connection was given up. */
  calls: string[];
  left: string[];
  /** What waits goes on when it is opened. */
  gate: Gate;
  stop(): void;
};

const PIECE = "Well then, here are some words. ".repeat(8);

async function* stream({ id, pieces = 1, waits, output = 5 }: Wish, vendor: LabVendor): AsyncGenerator<string> {
  const chunk = (fields: object) =>
    `data: ${JSON.stringify({ id, object: "chat.completion.chunk", created: 1, model: "x", ...fields })}\n\n`;
  for (let piece = 0; piece < pieces; piece++) {
    yield chunk({ choices: [{ index: 0, delta: { content: PIECE }, finish_reason: null }] });
  }
  if (waits) await vendor.gate.opened;
  yield chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  yield chunk({ choices: [], usage: { prompt_tokens: 10, completion_tokens: output, total_tokens: 10 + output } });
  yield "data: [DONE]\n\n";
}

/** A vendor on a free port that does as the last text of a request says. */
function startLabVendor(): LabVendor {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 120,
    async fetch(request) {
      const body = (await request.json()) as { stream?: boolean; messages: { content: string }[] };
      const wish = JSON.parse(body.messages.at(-1)?.content ?? "{}") as Wish;
      vendor.calls.push(wish.id);
      request.signal.addEventListener("abort", () => vendor.left.push(wish.id));
      if (body.stream) {
        return new Response(stream(wish, vendor), { headers: { "content-type": "text/event-stream" } });
      }
      if (wish.waits) await vendor.gate.opened;
      const output = wish.output ?? 5;
      return Response.json({
        ...{ id: wish.id, object: "chat.completion", created: 1, model: "x" },
        choices: [{ index: 0, message: { role: "assistant", content: "Well." }, finish_reason: "stop" }],
        usage: { prompt_tokens: 10, completion_tokens: output, total_tokens: 10 + output },
      });
    },
  });
  const vendor: LabVendor = {
    ...{ url: `http://127.0.0.1:${server.port}`, calls: [], left: [], gate: gate() },
    stop: () => void server.stop(true),
  };
  return vendor;
}

export type Account = { id: string; key: string };

/** USD per 1M tokens of `lab/paid`. */
export const USD = { input: 3, output: 15 };

const CONFIG = (vendorUrl: string, rows = "", server = "") => `vendors:
  - { id: lab, dialect: chat, base_url: "${vendorUrl}/v1", api_key: none, models: catalog }
models:
  - { id: lab/paid, pricing: { input: ${USD.input}, output: ${USD.output} }, routes: [{ vendor: lab, model: paid }] }
${rows}plans:
  paying: { requests_per_minute: 1000000, concurrent_generations: 100000, spending_window_usd: 0 }
  slow: { metered: false, requests_per_minute: 12, concurrent_generations: 1000 }
  narrow: { metered: false, requests_per_minute: 1000000, concurrent_generations: 4 }
server: { trusted_proxies: [127.0.0.1]${server} }
request_log: { bodies: true }
local_discovery: false
`;

/** The gateway with two workers as processes of their own, the vendor, and accounts of three plans. */
export class WorkersLab {
  readonly folder = makeFolder();
  readonly data = join(this.folder, "data");
  readonly vendor = startLabVendor();
  #running: RunningBinary | undefined;

  constructor() {
    this.configure();
  }

  /** Writes the configuration, with more rows of models, and more settings of the server. */
  configure(rows?: string, server?: string): void {
    openStore(storePath(this.data)).close();
    writeFileSync(join(this.data, "sluice.yaml"), CONFIG(this.vendor.url, rows, server), { mode: 0o600 });
  }

  /** Makes an account with money; beside a running server too. */
  async fund(plan: string, amountNano = 0n): Promise<Account> {
    return this.withBooks(async ({ store, writer, book }) => {
      const keys = new Keys(store, writer);
      const { id } = await new Accounts(store, writer, keys).create({ name: `${plan}-${crypto.randomUUID()}`, plan });
      const { key } = await keys.create({ accountId: id, name: "k", kind: "api" });
      if (amountNano > 0n) await book.deposit({ accountId: id, amountNano, reference: `payment-${id}` });
      return { id, key };
    });
  }

  /** Opens the books beside the server. */
  withBooks<T>(work: (books: Books) => Promise<T> | T): Promise<T> {
    return withBooks(storePath(this.data), work, false);
  }

  async start(...flags: string[]): Promise<RunningBinary> {
    this.#running = await startBinary(["serve", "--port", "0", "--workers", "2", ...flags], {
      folder: this.folder,
      env: { SLUICE_LOG_LEVEL: "error" },
    });
    return this.#running;
  }

  get running(): RunningBinary {
    if (!this.#running) throw new Error("The gateway was not started.");
    return this.#running;
  }

  /** Process ids of the workers there are now, by the system's word. */
  get workers(): number[] {
    return childrenOf(this.running.child.pid);
  }

  /** Posts a chat request over a connection of its own, which any of the processes may get. */
  ask({ key }: Account, wish: Wish, fields: object = {}, init: RequestInit = {}): Promise<Response> {
    return fetch(`${this.running.url}/v1/chat/completions`, {
      method: "POST",
      ...init,
      headers: {
        "content-type": "application/json",
        authorization: `Bearer ${key}`,
        connection: "close",
        ...(init.headers as Record<string, string>),
      },
      body: JSON.stringify({
        model: "lab/paid",
        messages: [{ role: "user", content: JSON.stringify(wish) }],
        ...fields,
      }),
    });
  }

  /** Statuses of so many requests at the same time, and how often each came. */
  async askMany(
    account: Account,
    count: number,
    wish: (at: number) => Wish,
    fields: object = {},
    init: RequestInit = {},
  ) {
    const statuses = await Promise.all(
      Array.from({ length: count }, async (_, at) => {
        const response = await this.ask(account, wish(at), fields, init);
        await response.text();
        return response.status;
      }),
    );
    return countEach(statuses);
  }

  async close(): Promise<void> {
    this.vendor.gate.open();
    if (this.#running?.child.exitCode === null) {
      this.#running.child.kill("SIGKILL");
      await this.#running.child.exited;
    }
    this.vendor.stop();
    removeFolder(this.folder);
  }
}

export function countEach<T extends string | number>(values: readonly T[]): Record<T, number> {
  const counts = {} as Record<T, number>;
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}

/** Reads a stream as far as it comes. `whole`: it ended as it should. */
async function readStream(response: Response): Promise<{ text: string; whole: boolean }> {
  let text = "";
  const decoder = new TextDecoder();
  try {
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(bytes, { stream: true });
    }
  } catch {
    // The connection broke: what came is what there is.
    return { text, whole: false };
  }
  return { text, whole: text.endsWith("data: [DONE]\n\n") };
}

/** A stream that has begun: its first bytes are there, and the rest is read on. */
export async function beginStream(lab: WorkersLab, account: Account, wish: Wish) {
  const response = await lab.ask(account, wish, { stream: true, max_tokens: 20_000 });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const [seen, rest] = response.body!.tee();
  const reader = seen.getReader();
  await reader.read();
  void reader.cancel();
  return { id: wish.id, done: readStream(new Response(rest)) };
}

/** Waits until two workers run, and neither is one of `gone`. */
export function untilTwoRun(lab: WorkersLab, gone: readonly number[] = []): Promise<void> {
  const twoRun = () => {
    // Looked at once: one that is gone may be there at the first look and not at a second.
    const { workers } = lab;
    return workers.length === 2 && !workers.some((pid) => gone.includes(pid));
  };
  return until(twoRun, "two workers run", 10_000);
}
