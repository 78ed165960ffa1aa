/**
 * A disk that is full, for real (reliability 8.2, N3): the system lets the server's files grow no more for a while, and again and again, while clients
 * ask. `bun test/prove/full-disk.ts [times]`. Exits 1 unless meanwhile everything that costs is answered by 503, all else by 200, the server is not ready, goes
 * on by itself once there is room, and in the end every answer is in the books once and nothing else is. Linux only (prlimit).
 */
import { usage } from "../../src/db/schema.ts";
import { startCountingVendor, type Wish } from "./counting-vendor.ts";
import { check, faults } from "./faults.ts";
import { holdsWithin } from "./look.ts";
import { costOf, PaidGateway } from "./paid-gateway.ts";

const TIMES = Number(process.argv[2] ?? 15);
const CLIENTS = 12;
const FULL_MS = 1_000;
const ROOM_MS = 1_000;
/** Pause between two looks, ms: requests without a key are limited for each address. */
const LOOK_MS = 250;
/** How soon it is to be ready again, ms: a store that failed is tried once a second. */
const READY_MS = 2_500;
const FUNDED = 1_000_000_000_000n;
const READS = ["/healthz", "/v1/models", "/v1/account", "/v1/usage"];

class Proof {
  readonly #vendor = startCountingVendor();
  readonly #gateway = new PaidGateway(this.#vendor.url);
  readonly #acknowledged = new Map<string, Wish>();
  readonly #ready: number[] = [];
  #refused = 0;
  #broken = 0;
  #over = false;

  async run(): Promise<void> {
    const gateway = this.#gateway;
    try {
      await gateway.fund([FUNDED]);
      // Ignored, so that a file that may not grow is a fault of the write and not the end of the process.
      await gateway.start({
        prefix: ["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh"],
        env: { SLUICE_LOG_LEVEL: "silent" },
      });
      const clients = Array.from({ length: CLIENTS }, (_, at) => this.#askWithoutEnd(at));
      for (let time = 0; time < TIMES; time++) await this.#fillAndFree();
      this.#over = true;
      await Promise.all(clients);
      await gateway.stop();
      await this.#compare();
    } finally {
      await gateway.kill();
      this.#vendor.stop();
      gateway.remove();
    }
    const again = `${TIMES} times full: ready again after ${Math.max(...this.#ready).toFixed(0)} ms at the most, aim ${READY_MS}`;
    console.log(
      `${again}; ${this.#acknowledged.size} answers, ${this.#refused} x 503, ${this.#broken} streams ended by an error`,
    );
  }

  #limit(bytes: string): void {
    const result = Bun.spawnSync(["prlimit", "--pid", String(this.#gateway.pid), `--fsize=${bytes}:`]);
    if (result.exitCode !== 0) throw new Error(`prlimit: ${result.stderr.toString()}`);
  }

  async #status(path: string): Promise<number> {
    const key = this.#gateway.accounts[0]?.key;
    const response = await fetch(`${this.#gateway.url}${path}`, { headers: { authorization: `Bearer ${key}` } });
    await response.text();
    return response.status;
  }

  async #fillAndFree(): Promise<void> {
    this.#limit("1");
    check(await holdsWithin(READY_MS, async () => (await this.#status("/readyz")) === 503), "full, and still ready");
    const until = performance.now() + FULL_MS;
    while (performance.now() < until) {
      for (const path of READS) {
        const status = await this.#status(path);
        check(status === 200, `GET ${path} while the disk is full: ${status}`);
      }
      check((await this.#status("/readyz")) === 503, "full, and ready again");
      await Bun.sleep(LOOK_MS);
    }
    this.#limit("unlimited");
    const startedAt = performance.now();
    check(
      await holdsWithin(2 * READY_MS, async () => (await this.#status("/readyz")) === 200, 5),
      "room, and not ready",
    );
    this.#ready.push(performance.now() - startedAt);
    await Bun.sleep(ROOM_MS);
  }

  async #askWithoutEnd(client: number): Promise<void> {
    for (let at = 0; !this.#over; at++) {
      const stream = (at + client) % 2 === 0;
      const counts = { input: 10 + (at % 50), output: 1 + (at % 60) };
      const wish: Wish = { id: `${client}-${at}`, account: "a", ...counts, delayMs: stream ? (at % 5) * 100 : 0 };
      const messages = [{ role: "user", content: JSON.stringify(wish) }];
      const response = await this.#gateway.ask(this.#gateway.accounts[0]?.key ?? "", {
        ...{ messages, max_tokens: 64 },
        ...(stream && { stream, stream_options: { include_usage: true } }),
      });
      const text = await response.text();
      if (response.status === 503) {
        this.#refused++;
        await Bun.sleep(20);
      } else if (response.status !== 200) faults.push(`${response.status}: ${text.slice(0, 200)}`);
      else if (!stream || text.includes("data: [DONE]")) {
        this.#acknowledged.set(response.headers.get("x-request-id") ?? "", wish);
      } else if (text.includes('"error"')) this.#broken++;
      else faults.push(`a stream ends without a word: ${text.slice(-200)}`);
    }
  }

  #compare(): Promise<void> {
    return this.#gateway.withBooks(({ store, book }) => {
      const rows = store.query.select().from(usage).all();
      const wanted = new Map(this.#acknowledged);
      for (const { requestId, chargedNano } of rows) {
        const wish = wanted.get(requestId);
        wanted.delete(requestId);
        if (!wish) faults.push(`${requestId}: in the books, and nobody was answered`);
        else check(chargedNano === costOf(wish.input, wish.output), `${requestId}: charged ${chargedNano}`);
      }
      for (const requestId of wanted.keys()) faults.push(`${requestId}: answered, and not in the books`);
      const charged = rows.reduce((sum, row) => sum + row.chargedNano, 0n);
      const { postedNano, heldNano } = book.balance(this.#gateway.accounts[0]?.id ?? "");
      check(postedNano === FUNDED - charged && heldNano === 0n, `the wallet has ${postedNano}, ${heldNano} held`);
      for (const { invariant, detail } of book.verify()) faults.push(`${invariant}: ${detail}`);
      for (const [id, times] of this.#vendor.calls) check(times === 1, `${id}: sent upstream ${times} times`);
    });
  }
}

if (Bun.which("prlimit") === null) throw new Error("prlimit is not there: this proof needs Linux with util-linux");
await new Proof().run();
for (const fault of faults.slice(0, 20)) console.log(`FAULT ${fault}`);
console.log(`${TIMES} times a full disk: ${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);
