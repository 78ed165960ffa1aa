import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Subprocess } from "bun";
import { sql } from "drizzle-orm";
import { Keys } from "../../src/accounts/keys.ts";
import type { App } from "../../src/app.ts";
import type { Config } from "../../src/config/load.ts";
import { openStore, type Store } from "../../src/db/open.ts";
import { account, usage } from "../../src/db/schema.ts";
import { Writer } from "../../src/db/writer.ts";
import type { Book } from "../../src/ledger/book.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";
import { type Clock, systemClock } from "../../src/lib/clock.ts";
import { newId } from "../../src/lib/id.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import type { TestApp, TestAppOptions } from "./app.ts";
import { cleanEnvironment, makeFolder, removeFolder } from "./binary.ts";
import { CLOCK_BY_HAND, InsideOnly, readMoreFlags, sealed, writeConfigFile } from "./black-box-config.ts";

/** How long the executable may take to start, to take over a configuration, and to stop, ms: machines that run tests are busy. */
const PATIENCE_MS = 20_000;
/** Status of the answer that stands in for the one which a client that left did not get. */
const NOBODY_THERE = 499;
/** How long a call that was given up may take to reach its vendor, ms. */
const ARRIVE_MS = 100;
/** How long the server may take to see that another process has changed a key, ms (see Keys). */
const SEEN_MS = 15;
/** How long this process waits while the gateway writes to the same store, ms. */
const WAIT_MS = 5_000;

type Process = {
  child: Subprocess;
  url: string;
  key: string;
  version: string;
  folder: string;
  output(): string;
};

/** Waits until `look` gives something, blocking this whole process. Throws Error with `what` after {@link PATIENCE_MS}. */
function waitHard<T>(look: () => T | undefined, what: string): T {
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = look();
    if (found !== undefined) return found;
    if (performance.now() > until) throw new Error(`waited ${PATIENCE_MS} ms in vain: ${what}`);
    Bun.sleepSync(2);
  }
}

/** Starts the executable on a folder of its own. Its two outputs go to files: a test reads them when it wants to. */
async function startProcess(executable: string, config: Config, vendors: readonly Vendor[]): Promise<Process> {
  const folder = makeFolder();
  const file = join(folder, "sluice.json");
  writeFileSync(file, JSON.stringify(writeConfigFile(config, vendors)), { mode: 0o600 });
  const paths = { out: join(folder, "out.txt"), err: join(folder, "err.txt") };
  const streams = { out: openSync(paths.out, "w"), err: openSync(paths.err, "w") };
  const child = Bun.spawn([executable, "serve", "--port", "0", "--config", file, ...readMoreFlags()], {
    cwd: folder,
    env: cleanEnvironment({ folder, env: { SLUICE_LOG_LEVEL: "info" } }),
    stdin: "ignore",
    stdout: streams.out,
    stderr: streams.err,
  });
  closeSync(streams.out);
  closeSync(streams.err);
  const said = () => readFileSync(paths.out, "utf8");
  const until = performance.now() + PATIENCE_MS;
  // Not by waitHard: the executable may ask scripted vendors in this process for their models meanwhile.
  while (said().split("\n").length < 5) {
    if (child.exitCode !== null || performance.now() > until) {
      child.kill("SIGKILL");
      throw new Error(`the executable did not start:\n${said()}\n${readFileSync(paths.err, "utf8")}`);
    }
    await Bun.sleep(2);
  }
  const url = /listening on (http:\/\/\S+)/.exec(said())?.[1] ?? "";
  const key = /sk-sluice-[0-9A-Za-z]{38}/.exec(said())?.[0] ?? "";
  const version = /^Sluice (\S+) listening/.exec(said())?.[1] ?? "";
  return { child, url, key, version, folder, output: () => readFileSync(paths.err, "utf8") };
}

/** Lines of the log so far, the same array each time, so that a test may empty it. */
function followLog(output: () => string): () => Record<string, unknown>[] {
  const lines: Record<string, unknown>[] = [];
  let taken = 0;
  return () => {
    const text = output();
    const end = text.lastIndexOf("\n") + 1;
    for (const line of text.slice(taken, end).split("\n")) {
      if (line.startsWith("{")) lines.push(JSON.parse(line) as Record<string, unknown>);
    }
    taken = Math.max(taken, end);
    return lines;
  };
}

/** A client's address for each call. */
const addressOf = (call: number) => `10.${(call >> 16) & 255}.${(call >> 8) & 255}.${call & 255}`;

/** GETs an address while this process is blocked: tests read such values synchronously. Throws Error when there is no answer. */
function ask(url: string, key = ""): string {
  const header = key === "" ? [] : ["--header", `authorization: Bearer ${key}`];
  const { stdout, exitCode } = Bun.spawnSync(["curl", "--silent", "--max-time", "5", ...header, url]);
  if (exitCode !== 0) throw new Error(`curl of ${url} ended with ${exitCode}`);
  return stdout.toString();
}

/** One figure of `/metrics`. */
function readFigure(url: string, name: string): number {
  const line = ask(`${url}/metrics`).match(new RegExp(`^${name} (\\S+)$`, "m"));
  if (!line) throw new Error(`/metrics has no ${name}`);
  return Number(line[1]);
}

/** Has the gateway reload its configuration, and waits until it has said that it did. */
function hangUp({ child, output }: Process): void {
  const count = () => output().split("read again and taken over").length;
  const before = count();
  child.kill("SIGHUP");
  waitHard(() => (count() > before ? true : undefined), "the configuration to be read again");
}

/** Keys that are changed in the store as by a management command; each change waits until the server has seen it. */
function keysBeside(store: Store, writer: Writer): Keys {
  const keys = new Keys(store, writer);
  const seen = async <T>(change: Promise<T>): Promise<T> => {
    const changed = await change;
    await Bun.sleep(SEEN_MS);
    return changed;
  };
  return Object.assign(keys, {
    create: (wanted: Parameters<Keys["create"]>[0]) => seen(Keys.prototype.create.call(keys, wanted)),
    revoke: (name: string) => seen(Keys.prototype.revoke.call(keys, name)),
    change: (...change: Parameters<Keys["change"]>) => seen(Keys.prototype.change.apply(keys, change)),
    reload: () => Bun.sleepSync(SEEN_MS),
  });
}

const NANO = 1_000_000_000;

/** Makes an admin key, of an account of its own without limits, by which this process may ask as often as it wants. Blocks until the server knows it. */
function makeLooker(store: Store, writer: Writer): string {
  const id = newId("acct");
  store.query.insert(account).values({ id, name: id, plan: "local", createdAt: Date.now() }).run();
  const { key } = new Keys(store, writer).insert({ accountId: id, kind: "admin", name: "looks from outside" });
  Bun.sleepSync(SEEN_MS);
  return key;
}

/** The book as this process reads it from the store; what is held of a wallet is asked of the server, in whose memory alone holds are. */
function bookBeside({ url }: Process, store: Store, writer: Writer, accountId: string): Book {
  const { book } = openLedger(store, writer);
  // A new book each time: one remembers what it has read, since normally no other process writes.
  const fresh = () => openLedger(store, writer).book;
  let looker = "";
  return {
    ...book,
    allowance: (...asked) => fresh().allowance(...asked),
    hasDeposit: (id) => fresh().hasDeposit(id),
    window: () => {
      throw new InsideOnly("book.window");
    },
    balance(id) {
      const balance = fresh().balance(id);
      if (id !== accountId) return balance;
      looker ||= makeLooker(store, writer);
      const { balance: told } = JSON.parse(ask(`${url}/admin/v1/accounts/${id}`, looker)) as {
        balance: { held_usd: number };
      };
      return { ...balance, heldNano: BigInt(Math.round(told.held_usd * NANO)) };
    },
  };
}

/** The gateway's `answerRequest`, as an app in this process would have it. */
const frontDoor = (call: TestApp["call"]) => ({
  async answerRequest(request: Request) {
    const { pathname, search } = new URL(request.url);
    const { method, headers, signal } = request;
    const body = request.body ? await request.arrayBuffer() : undefined;
    return call(`${pathname}${search}`, { method, headers, signal, ...(body && { body }) });
  },
});

/** The parts of an {@link App} that can be had from outside: over HTTP, by signals, and through the store as for management commands. */
function appearance(running: Process, store: Store, writer: Writer, accountId: string, call: TestApp["call"]): App {
  const { url } = running;
  const count = () => readFigure(url, "sluice_requests_running");
  const running_ = {
    get count() {
      return count();
    },
    async idle() {
      while (count() > 0) await Bun.sleep(2);
    },
  };
  const health = sealed("services.health", { forgetTrouble: () => hangUp(running) });
  return sealed("", {
    running: sealed("running", running_),
    keys: keysBeside(store, writer),
    book: bookBeside(running, store, writer, accountId),
    gateway: sealed("gateway", frontDoor(call)),
    services: sealed("services", { health }, ["pause"]),
  }) as unknown as App;
}

/** Throws {@link InsideOnly} for parts that cannot be given to an executable. Returns the clock, which does so when it is turned by hand. */
function refuseParts({ store, requests, clock }: TestAppOptions, abandon: (why: InsideOnly) => void): Clock {
  if (store) throw new InsideOnly("a store of the test");
  if (requests) throw new InsideOnly("a request log of the test");
  if (!clock || clock === systemClock) return systemClock;
  // A manual clock. A test that never turns it does not notice that the executable has another one.
  const set = () => {
    const why = new InsideOnly(CLOCK_BY_HAND);
    abandon(why);
    throw why;
  };
  const turn = async () => {
    const why = new InsideOnly(CLOCK_BY_HAND);
    abandon(why);
    // Calls that are on their way to a vendor belong to this case, not to the next one.
    await Bun.sleep(ARRIVE_MS);
    throw why;
  };
  return Object.assign(clock, { advance: turn, setWall: set, armed: turn, now: systemClock.now });
}

/** Ends the executable as an operator would. Throws Error unless its exit code is 0 and its books are right. */
async function endProcess({ child, folder, output }: Process, store: Store, writer: Writer): Promise<void> {
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  child.kill("SIGTERM");
  const code = await child.exited;
  clearTimeout(timer);
  const breaches = openLedger(store, writer).book.verify();
  await writer.close();
  store.close();
  const said = output();
  removeFolder(folder);
  if (code !== 0) throw new Error(`the executable ended with ${code ?? child.signalCode}:\n${said.slice(-2_000)}`);
  if (breaches.length > 0) throw new Error(`the books are not right: ${JSON.stringify(breaches.slice(0, 3))}`);
}

/** A function that posts JSON with a key, through `call`. */
export const posting =
  (call: TestApp["call"], key: string): TestApp["post"] =>
  (path, body, init = {}) => {
    const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
    return call(path, {
      ...init,
      method: "POST",
      headers: { ...headers, ...(init.headers as Record<string, string> | undefined) },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  };

/**
 * {@link TestApp} around an executable that runs as a process of its own, told everything by a configuration file. What a test wants that cannot be had
 * from outside throws {@link InsideOnly}.
 */
export async function startOutside(executable: string, config: Config, options: TestAppOptions): Promise<TestApp> {
  let over = new AbortController();
  // A case that is left out in its middle has calls under way: nobody waits for them any more.
  const abandon = (why: InsideOnly) => {
    over.abort(why);
    over = new AbortController();
  };
  const clock = refuseParts(options, abandon);
  const running = await startProcess(executable, config, options.vendors ?? []);
  const { url, key, folder } = running;
  const store = openStore(join(folder, "data", "sluice.db"), { waitMs: WAIT_MS, check: false });
  const writer = new Writer(store);
  const log = followLog(running.output);
  let ended: Promise<void> | undefined;
  const behindProxy = config.server.trustedProxies.length > 0;
  let calls = 0;
  const call = (path: string, init?: RequestInit) => {
    const signal = init?.signal ? AbortSignal.any([init.signal, over.signal]) : over.signal;
    const headers = new Headers(init?.headers);
    if (behindProxy && !headers.has("x-forwarded-for")) headers.set("x-forwarded-for", addressOf(calls++));
    const answer = fetch(`${url}${path}`, { ...init, headers, redirect: "manual", signal }).catch((thrown: unknown) => {
      // A client that has left gets no answer. A gateway in this process would give one that nobody looks at.
      if (init?.signal?.aborted) return new Response(null, { status: NOBODY_THERE });
      throw thrown;
    });
    // A case that ended early may never await this: without a handler its rejection would fail the run. Whoever awaits it still gets the rejection.
    answer.catch(() => undefined);
    return answer;
  };
  const accountId = store.query.select().from(account).get()?.id ?? "";
  return {
    app: appearance(running, store, writer, accountId, call),
    store,
    clock,
    key,
    accountId,
    origin: `http://localhost:${new URL(url).port}`,
    version: running.version,
    get log() {
      return log();
    },
    call,
    post: posting(call, key),
    rows: () => store.query.select().from(usage).orderBy(sql`rowid`).all(),
    stop() {
      over.abort();
      ended ??= endProcess(running, store, writer);
      return ended;
    },
  };
}
