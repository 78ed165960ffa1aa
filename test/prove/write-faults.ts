/**
 * The write-fault sweep (reliability 8.2, N2): one scenario of keys, money, chat, streams, images and a backup is played again and again, and each
 * time another write to the disk fails, with another fault, alone or with all behind it. `bun test/prove/write-faults.ts [faults]`. Exits 1 unless
 * nothing is ever half done: whoever was told yes has it, whoever was told no has nothing of it, the books are right, reads go on, nobody is told 500, and the gateway
 * serves again by itself once the disk does.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Accounts } from "../../src/accounts/accounts.ts";
import { type App, createApp } from "../../src/app.ts";
import { backupStore } from "../../src/db/backup.ts";
import { openStore, type Store } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/observe/log.ts";
import { encodePng, newPicture } from "../../src/vendors/builtin/canvas-picture.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { PLAIN_CONFIG } from "../support/app.ts";
import { startCountingVendor } from "./counting-vendor.ts";
import { check, faults } from "./faults.ts";
import { disk, FAULTS, installFaultyDisk } from "./faulty-disk.ts";
import { costOf, MODEL, USD } from "./paid-gateway.ts";

const FAULTS_PLAYED = Number(process.argv[2] ?? 400);
/** After so many scenarios the gateway is started anew on what the disk has. */
const LIFE = 10;
/** The gateway's clock goes so much faster: it tries a store that failed once a second. */
const HASTE = 20;
/** A timer that rings so much too late waits for so much longer, ms. */
const STALL_MS = 10;
const GRACE_MS = 100;
const PATIENCE_MS = 10_000;
const DOLLAR = 1_000_000_000n;
const READS = ["/v1/models", "/v1/account", "/v1/usage", "/v1/images/generations", "/healthz"];
const PNG = await encodePng(newPicture(16, 9));

const hasty: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now() * HASTE,
  // As the gateway's own clock does (lib/alarms.ts): behind a stall, which counts for twenty times as long here, what came meanwhile is read first.
  after(ms, callback) {
    const dueAt = performance.now() + ms / HASTE;
    let timer = setTimeout(() => {
      if (performance.now() - dueAt < STALL_MS) callback();
      else timer = setTimeout(callback, GRACE_MS);
    }, ms / HASTE);
    return () => clearTimeout(timer);
  },
};

type Answer = { status: number; text: string };
const json = (text: string) => JSON.parse(text) as Record<string, never>;
const succeeded = ({ status }: Answer) => status >= 200 && status < 300;

/** What must be true of the disk, by what clients were told. */
class Promised {
  wallet = 0n;
  requests = 0;
  /** Keys by whether they are in force. */
  readonly keys = new Map<string, boolean>();
  readonly images = new Set<string>();
  readonly refusedPrompts: string[] = [];
}

class Proof {
  readonly promised = new Promised();
  readonly #folder = mkdtempSync(join(tmpdir(), "sluice-faults-"));
  readonly #vendor = startCountingVendor();
  readonly #counts = { refused: 0, served: 0, faults: 0, backups: 0, resumed: 0 };
  #store!: Store;
  #app!: App;
  #made = 0;
  #account = "";
  #key = "";
  #adminKey = "";
  #case = "";

  async run(): Promise<void> {
    try {
      await this.#start();
      await this.#setUp();
      disk.arm({ at: Number.POSITIVE_INFINITY, fault: FAULTS[0], lasting: false });
      await this.#play();
      const writes = disk.count;
      await this.#settle();
      for (let number = 0; number < FAULTS_PLAYED; number++) {
        // Round by round the other way, so that every write fails alone and with all behind it.
        await this.#suffer(1 + (number % writes), number, (number + Math.floor(number / writes)) % 2 === 1);
        if (number % LIFE === LIFE - 1) await this.#restart();
      }
      await this.#restart();
      await this.#stop();
      const { refused, served, resumed, backups } = this.#counts;
      console.log(`the scenario makes ${writes} writes; ${this.#counts.faults} faults were met by some of them`);
      console.log(
        `${served} answers, ${refused} refusals (503), ${backups} backups, ${resumed} times serving again by itself`,
      );
    } finally {
      this.#vendor.stop();
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }

  /** One scenario in which write number `at` fails; afterwards all is held against what was promised. */
  async #suffer(at: number, number: number, lasting: boolean): Promise<void> {
    const fault = FAULTS[number % FAULTS.length]!;
    this.#case = `write ${at}, ${fault.code}${fault.undoes ? " undoing" : ""}${lasting ? ", lasting" : ""}`;
    disk.arm({ at, fault, lasting });
    await this.#play();
    await this.#read();
    if (disk.thrown > 0) this.#counts.faults++;
    disk.heal();
    await this.#settle();
    this.#compare();
    // Everything works again, and nobody had to do anything for it.
    const refusals = this.#counts.refused;
    await this.#play();
    check(this.#counts.refused === refusals, `${this.#case}: refused although the disk is well again`);
    await this.#settle();
    this.#compare();
  }

  /** Keys, money, chat whole and streamed, chat once only, an image, and a copy of it all. */
  async #play(): Promise<void> {
    const name = `n${this.#made++}`;
    await this.#makeKey(name);
    await this.#deposit(name);
    await Promise.all([this.#chat(`${name}-a`, false), this.#chat(`${name}-b`, true), this.#chat(`${name}-c`, true)]);
    await this.#chatOnce(`${name}-d`);
    await this.#draw(`${name}`);
    await this.#revoke(name);
    this.#backUp(name);
  }

  async #ask(
    method: string,
    path: string,
    key: string,
    body?: unknown,
    more: Record<string, string> = {},
  ): Promise<Answer> {
    const headers = { "content-type": "application/json", authorization: `Bearer ${key}`, ...more };
    const request = new Request(`http://localhost${path}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const response = await this.#app.gateway.answerRequest(request);
    const answer = { status: response.status, text: await response.text() };
    if (method === "GET") return answer;
    if (succeeded(answer)) this.#counts.served++;
    else if (answer.status === 503) this.#counts.refused++;
    else faults.push(`${this.#case}: ${method} ${path}: ${answer.status} ${answer.text.slice(0, 200)}`);
    return answer;
  }

  async #makeKey(name: string): Promise<void> {
    const answer = await this.#ask("POST", "/admin/v1/keys", this.#adminKey, { account: this.#account, name });
    if (succeeded(answer)) this.promised.keys.set(`${json(answer.text)["id"]} ${json(answer.text)["key"]}`, true);
  }

  /** Revokes the last key that was made, whichever it is. */
  async #revoke(_name: string): Promise<void> {
    const last = [...this.promised.keys].findLast(([, inForce]) => inForce)?.[0];
    if (!last) return;
    const answer = await this.#ask("DELETE", `/admin/v1/keys/${last.split(" ")[0]}`, this.#adminKey);
    if (succeeded(answer)) this.promised.keys.set(last, false);
  }

  async #deposit(reference: string): Promise<void> {
    const path = `/admin/v1/accounts/${this.#account}/deposits`;
    const answer = await this.#ask("POST", path, this.#adminKey, { amount_usd: 1, reference });
    if (succeeded(answer)) this.promised.wallet += DOLLAR;
  }

  async #chat(id: string, stream: boolean, more: Record<string, string> = {}): Promise<Answer> {
    const wish = { id, account: "a", input: 20, output: 8, delayMs: stream ? 40 : 0 };
    const messages = [{ role: "user", content: JSON.stringify(wish) }];
    const body = { model: MODEL, messages, max_tokens: 64, ...(stream && { stream }) };
    const answer = await this.#ask("POST", "/v1/chat/completions", this.#key, body, more);
    if (!succeeded(answer) || (stream && !answer.text.includes("data: [DONE]"))) {
      if (stream && succeeded(answer))
        check(answer.text.includes('"error"'), `${this.#case}: a stream ends without a word`);
      return { ...answer, status: succeeded(answer) ? 503 : answer.status };
    }
    this.promised.requests++;
    this.promised.wallet -= costOf(20, 8);
    return answer;
  }

  /** Sent twice with one key: the second answer is the first one's, and costs nothing. */
  async #chatOnce(id: string): Promise<void> {
    const more = { "idempotency-key": id };
    if (!succeeded(await this.#chat(id, false, more))) return;
    const { requests, wallet } = this.promised;
    const again = await this.#chat(id, false, more);
    Object.assign(this.promised, { requests, wallet });
    if (succeeded(again))
      check(this.#vendor.calls.get(id) === 1, `${this.#case}: sent twice though its answer was kept`);
  }

  async #draw(prompt: string): Promise<void> {
    const answer = await this.#ask("POST", "/v1/images/generations", this.#key, { model: "lab/draw", prompt });
    if (succeeded(answer)) this.promised.images.add(String(json(answer.text)["id"]));
    else this.promised.refusedPrompts.push(prompt);
  }

  /** A copy that is whole, or none at all. */
  #backUp(name: string): void {
    const file = join(this.#folder, `${name}.copy`);
    try {
      backupStore(this.#store, file);
      this.#counts.backups++;
      check(existsSync(file), `${this.#case}: a backup that is not there`);
    } catch (thrown) {
      check(disk.thrown > 0, `${this.#case}: a backup failed without a fault: ${thrown}`);
      check(!existsSync(file), `${this.#case}: a backup that failed left a file`);
    }
    const parts = readdirSync(this.#folder).filter((left) => left.endsWith(".partial"));
    check(parts.length === 0, `${this.#case}: a backup left a part of itself`);
    rmSync(file, { force: true });
  }

  /** While the disk is broken everything can be read. */
  async #read(): Promise<void> {
    for (const path of READS) {
      const { status, text } = await this.#ask("GET", path, this.#key);
      check(status === 200, `${this.#case}: GET ${path}: ${status} ${text.slice(0, 200)}`);
    }
  }

  /** Waits until the gateway has come to rest by itself: ready, no request or job under way, nothing held. */
  async #settle(): Promise<void> {
    const { database } = this.#store;
    const none = (sql: string) => database.query(sql).values()[0]?.[0] === 0n;
    const startedAt = performance.now();
    const wasRed = (await this.#ask("GET", "/readyz", "")).status !== 200;
    for (;;) {
      const ready = (await this.#ask("GET", "/readyz", "")).status === 200;
      const jobs = none("SELECT count(*) FROM image_job WHERE state IN ('queued', 'dispatched', 'fetching')");
      const holds = none("SELECT count(*) FROM ledger_hold");
      if (ready && jobs && holds && this.#app.running.count === 0) break;
      if (performance.now() - startedAt > PATIENCE_MS) {
        faults.push(
          `${this.#case}: not at rest: ready ${ready}, jobs ended ${jobs}, holds closed ${holds}, ${this.#app.running.count} running`,
        );
        break;
      }
      await Bun.sleep(2);
    }
    if (wasRed) this.#counts.resumed++;
  }

  #compare(): void {
    const { promised } = this;
    const { database } = this.#store;
    const one = (sql: string, ...values: string[]) => database.query(sql).values(...values)[0]?.[0];
    const { postedNano, heldNano } = this.#app.book.balance(this.#account);
    check(postedNano === promised.wallet, `${this.#case}: the wallet has ${postedNano}, promised ${promised.wallet}`);
    check(heldNano === 0n, `${this.#case}: ${heldNano} are held`);
    const rows = one("SELECT count(*) FROM usage WHERE model = ?", MODEL);
    check(rows === BigInt(promised.requests), `${this.#case}: ${rows} rows, promised ${promised.requests}`);
    for (const { invariant, detail } of this.#app.book.verify({ last: 1_000 })) {
      faults.push(`${this.#case}: ${invariant}: ${detail}`);
    }
    for (const prompt of promised.refusedPrompts.splice(0)) {
      check(
        one("SELECT count(*) FROM image_job WHERE prompt = ?", prompt) === 0n,
        `${this.#case}: a refused image is a job`,
      );
    }
    for (const id of promised.images) this.#compareImage(id);
    promised.images.clear();
    for (const [named, inForce] of promised.keys) {
      const found = this.#app.keys.find(named.split(" ")[1] ?? "", "api") !== undefined;
      check(
        found === inForce,
        `${this.#case}: a key is ${found ? "" : "not "}in force, its revocation was ${inForce ? "not " : ""}told`,
      );
    }
  }

  /** An image that was accepted has ended, and is counted if and only if it succeeded. */
  #compareImage(id: string): void {
    const [row] = this.#store.database
      .query("SELECT j.state, c.state, c.counted FROM image_job j LEFT JOIN unit_claim c ON c.id = j.id WHERE j.id = ?")
      .values(id);
    const [state, claim, counted] = row ?? [];
    const good =
      state === "succeeded"
        ? claim === "counted" && counted === 1n
        : state === "failed" && claim !== "claimed" && counted === 0n;
    check(good, `${this.#case}: image ${id} is ${state}, its claim ${claim}, counted ${counted}`);
  }

  async #setUp(): Promise<void> {
    const writer = new Writer(this.#store);
    const accounts = new Accounts(this.#store, writer, this.#app.keys);
    const { id } = await accounts.create({ name: "proof", plan: "paying" });
    this.#account = id;
    this.#key = (await this.#app.keys.create({ accountId: id, name: "k", kind: "api" })).key;
    this.#adminKey = (await this.#app.keys.create({ accountId: id, name: "admin", kind: "admin" })).key;
    await writer.close();
    await this.#deposit("first");
  }

  async #start(): Promise<void> {
    this.#store = openStore(join(this.#folder, "sluice.db"));
    const row = { name: "lab", dialect: "chat", auth: "none", models: "any", quirks: {} } as const;
    const drawing: NonNullable<Vendor["images"]> = {
      recovery: "none",
      traits: () => ({ ratios: ["1:1", "16:9"], takesSource: false }),
      create: () => Promise.resolve({ kind: "image", bytes: PNG }),
    };
    const lab: Vendor = { ...row, id: "lab", baseUrl: `${this.#vendor.url}/v1`, images: drawing };
    const models = [
      { id: MODEL, pricing: USD, routes: [{ vendor: "lab", model: "paid" }] },
      { id: "lab/draw", modality: "image" as const, pricing: "free" as const },
    ];
    const fast = {
      requests_per_minute: 1_000_000,
      web_calls_per_minute: 1_000_000,
      concurrent_generations: 1_000,
      images_per_day: 1_000_000,
      image_jobs_in_flight: 1_000,
    };
    this.#app = createApp({
      config: {
        ...PLAIN_CONFIG,
        dataFolder: this.#folder,
        models,
        plans: { paying: { ...fast, spending_window_usd: 0 } },
      },
      ...{ vendors: [lab], store: this.#store, clock: hasty, version: "0.0.0-prove" },
      log: createLog({ level: "error", write: () => undefined }),
    });
  }

  async #stop(): Promise<void> {
    await this.#app.stop();
    this.#store.close();
  }

  /** What a start finds on the disk is what was promised. */
  async #restart(): Promise<void> {
    await this.#stop();
    await this.#start();
    this.#case = `after a start behind ${this.#case}`;
    this.#compare();
  }
}

installFaultyDisk();
const startedAt = performance.now();
await new Proof().run();
for (const fault of new Set(faults.slice(0, 400))) console.log(`FAULT ${fault}`);
const seconds = ((performance.now() - startedAt) / 1_000).toFixed(0);
console.log(`${FAULTS_PLAYED} faults in ${seconds} s: ${faults.length} things half done, lost or told wrong`);
process.exit(faults.length === 0 ? 0 : 1);
