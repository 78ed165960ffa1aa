import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Keys } from "../../src/accounts/keys.ts";
import { requestLogFolder } from "../../src/config/data-folder.ts";
import { costNano } from "../../src/ledger/price.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { estimateInputTokens } from "../../src/relay/tokens/estimate.ts";
import { sendRaw } from "../http/raw-request.ts";
import { buildBinary } from "../support/binary.ts";
import { gate, until, within } from "../support/wait.ts";
import {
  type Account,
  beginStream,
  countEach,
  isLinux,
  USD,
  untilTwoRun,
  type Wish,
  WorkersLab,
} from "./workers-lab.ts";

const OUTPUT = 50;
const AT_ONCE = 200;
const AFFORDED = 7;
/** A hundred dollars, nano-USD. */
const RICH = 100_000_000_000n;

const raceWish = (at: number): Wish => ({
  ...{ id: `race-${String(at).padStart(3, "0")}`, waits: true, output: OUTPUT },
});

/** What one request of the race sets aside, nano-USD. */
function raceHold(): bigint {
  const messages = [{ role: "user", content: JSON.stringify(raceWish(0)) }];
  const body = JSON.stringify({ model: "lab/paid", messages, max_tokens: OUTPUT });
  const input = Math.ceil((estimateInputTokens(new JsonText(body), "lab/paid") * 11) / 10);
  const prices = { input: BigInt(USD.input) * 1_000_000n, output: BigInt(USD.output) * 1_000_000n };
  return costNano({ input, cacheRead: 0, cacheWrite: 0, output: OUTPUT, reasoning: 0 }, prices);
}

// Only Linux lets several processes listen on one port: elsewhere `serve --workers` says so and serves alone (cli/workers.test.ts).
describe.skipIf(!isLinux)("two workers beside the gateway are one gateway", () => {
  const lab = new WorkersLab();
  const accounts = {} as Record<"slow" | "narrow" | "race" | "rich" | "counted" | "revoked", Account>;
  beforeAll(async () => {
    // Before the start: a key that another process makes is known some milliseconds later.
    accounts.slow = await lab.fund("slow");
    accounts.narrow = await lab.fund("narrow");
    accounts.race = await lab.fund("paying", raceHold() * BigInt(AFFORDED));
    accounts.rich = await lab.fund("paying", RICH);
    accounts.counted = await lab.fund("paying", RICH);
    accounts.revoked = await lab.fund("paying", RICH);
    await lab.start();
    await untilTwoRun(lab);
  }, 60_000);
  afterAll(() => lab.close());

  test("a rate is one rate: as many pass as one process would let pass", async () => {
    // 12 a minute: a quarter at once, then one every five seconds.
    const account = accounts.slow;
    const startedAt = performance.now();
    const { 200: passed, 429: refused } = await lab.askMany(account, 60, (at) => ({ id: `rate-${at}` }));
    const later = Math.floor((performance.now() - startedAt) / 5_000);
    expect(passed! + refused!).toBe(60);
    expect(passed).toBeGreaterThanOrEqual(3);
    expect(passed).toBeLessThanOrEqual(3 + later);
    expect(lab.vendor.calls.filter((id) => id.startsWith("rate-")).length).toBe(passed!);
  });

  test("what runs at the same time is counted over all processes, and comes free again", async () => {
    lab.vendor.gate = gate();
    const account = accounts.narrow;
    const wish = (at: number): Wish => ({ id: `narrow-${at}`, waits: true });
    const asked = Array.from({ length: 20 }, (_, at) => lab.ask(account, wish(at)));
    const settled: number[] = [];
    for (const each of asked) void each.then(({ status }) => settled.push(status));
    await until(() => settled.length === 16, "all but four are refused");
    expect(settled).toEqual(Array.from({ length: 16 }, () => 429));
    const called = () => lab.vendor.calls.filter((id) => id.startsWith("narrow-")).length;
    await until(() => called() === 4, "four are at the vendor");
    lab.vendor.gate.open();
    const responses = await Promise.all(asked);
    expect(responses.filter(({ status }) => status === 200).length).toBe(4);
    for (const response of responses) await response.text();
    for (let round = 0; round < 5; round++) {
      expect(await lab.askMany(account, 4, (at) => ({ id: `again-${round}-${at}` }))).toEqual({ 200: 4 });
    }
  });

  test("a wallet for exactly 7 of 200 requests at once pays for 7, and 193 are told 402 before anybody is asked", async () => {
    lab.vendor.gate = gate();
    const account = accounts.race;
    const asked = Array.from({ length: AT_ONCE }, (_, at) => lab.ask(account, raceWish(at), { max_tokens: OUTPUT }));
    const refused: number[] = [];
    for (const each of asked) void each.then(({ status }) => refused.push(status));
    await until(() => refused.length === AT_ONCE - AFFORDED, "193 are refused", 15_000);
    expect(new Set(refused)).toEqual(new Set([402]));
    lab.vendor.gate.open();
    const statuses = await Promise.all(asked.map(async (each) => (await each).status));
    expect(statuses.filter((status) => status === 200).length).toBe(AFFORDED);
    expect(lab.vendor.calls.filter((id) => id.startsWith("race-")).length).toBe(AFFORDED);
    await lab.withBooks(({ book }) => {
      expect(book.balance(account.id).heldNano).toBe(0n);
      expect(book.verify()).toEqual([]);
    });
  }, 60_000);

  test("whatever is no generation is answered by the gateway, through whichever process it comes", async () => {
    const { url } = lab.running;
    const { key } = accounts.rich;
    for (let round = 0; round < 8; round++) {
      const own = { authorization: `Bearer ${key}`, connection: "close" };
      const [models, account, nothing, count, wrongMethod] = await Promise.all([
        fetch(`${url}/v1/models`, { headers: { connection: "close" } }),
        fetch(`${url}/v1/account`, { headers: own }),
        fetch(`${url}/nothing`, { headers: own }),
        fetch(`${url}/v1/messages/count_tokens`, {
          method: "POST",
          headers: { ...own, "content-type": "application/json" },
          body: JSON.stringify({ model: "lab/paid", messages: [{ role: "user", content: "Hello" }] }),
        }),
        fetch(`${url}/v1/chat/completions`, { headers: own }),
      ]);
      const statuses = [models, account, nothing, count, wrongMethod].map(({ status }) => status);
      expect(statuses).toEqual([200, 200, 404, 200, 405]);
      expect(((await models.json()) as { data: { id: string }[] }).data.map(({ id }) => id)).toContain("lab/paid");
      expect(await account.json()).toMatchObject({ plan: { id: "paying" } });
      expect(nothing.headers.get("x-request-id")).toStartWith("req_");
    }
  });

  test("a host that is not served is refused by every process", async () => {
    const statuses = await Promise.all(
      Array.from({ length: 12 }, async (_, at) => {
        const path = at % 2 === 0 ? "/v1/models" : "/v1/chat/completions";
        const headers = { host: "evil.example.com", connection: "close" };
        return (await fetch(`${lab.running.url}${path}`, { method: at % 2 === 0 ? "GET" : "POST", headers })).status;
      }),
    );
    expect(new Set(statuses)).toEqual(new Set([403]));
  });

  test("an Idempotency-Key counts once over all processes", async () => {
    const account = accounts.rich;
    const headers = { "idempotency-key": "one-and-the-same" };
    const ask = () => lab.ask(account, { id: "kept" }, {}, { headers });
    const first = await Promise.all(Array.from({ length: 12 }, async () => (await ask()).status));
    expect(first.filter((status) => status !== 200 && status !== 409)).toEqual([]);
    const later = await Promise.all(Array.from({ length: 6 }, ask));
    expect(later.map(({ headers: given }) => given.get("idempotency-replayed"))).toEqual(Array(6).fill("true"));
    expect(lab.vendor.calls.filter((id) => id === "kept").length).toBe(1);
  });

  test("what is passed on meets the bounds of the gateway itself, and is told why", async () => {
    const port = Number(new URL(lab.running.url).port);
    const own = `Host: 127.0.0.1:${port}\r\nConnection: close\r\nAuthorization: Bearer ${accounts.rich.key}\r\n`;
    const json = "Content-Type: application/json\r\n";
    const large = `POST /v1/messages/count_tokens HTTP/1.1\r\n${own}${json}Content-Length: 50000000\r\n\r\n`;
    const longHead = `GET /v1/account HTTP/1.1\r\n${own}Cookie: ${"c".repeat(25_000)}\r\n\r\n`;
    for (let round = 0; round < 12; round++) {
      const { status, head, body } = await sendRaw(port, large);
      expect(status).toBe(413);
      expect(head).toContain("x-request-id: req_");
      expect(JSON.parse(body)).toMatchObject({ error: { code: "request_too_large" } });
      expect((await sendRaw(port, longHead)).status).toBe(200);
      // What no client passes on as it is: one slash would be made of two, and this method is refused.
      expect((await sendRaw(port, `TRACE /v1/account HTTP/1.1\r\n${own}\r\n`)).status).toBe(405);
      expect((await sendRaw(port, `GET //v1/account HTTP/1.1\r\n${own}\r\n`)).status).toBe(404);
    }
  });

  test("hundreds that wait for the gateway's own answers hold up nobody", async () => {
    const port = Number(new URL(lab.running.url).port);
    const own = `Host: 127.0.0.1:${port}\r\nConnection: close\r\n`;
    lab.vendor.gate = gate();
    const count = 960;
    const ask = (at: number) => {
      const wish: Wish = { id: `held-${at}`, waits: true };
      const messages = [{ role: "user", content: JSON.stringify(wish) }];
      const body = JSON.stringify({ model: "lab/paid", max_tokens: 5, messages });
      const head = `${own}Authorization: Bearer ${accounts.rich.key}\r\nIdempotency-Key: held-${at}\r\n`;
      const rest = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
      return sendRaw(port, `POST /v1/chat/completions HTTP/1.1\r\n${head}${rest}`);
    };
    const asked: ReturnType<typeof sendRaw>[] = [];
    const early: string[] = [];
    const arrived = () => {
      expect(early).toEqual([]);
      return lab.vendor.calls.filter((id) => id.startsWith("held-")).length === asked.length;
    };
    // By and by: where this process, in which the vendor is, stands still for some seconds, no more than 512 connections wait for it.
    while (asked.length < count) {
      for (let at = 0; at < 120; at++) asked.push(ask(asked.length));
      for (const each of asked.slice(-120)) void each.then(({ status, body }) => early.push(`${status} ${body}`));
      await until(arrived, "the vendor works on all of them", 30_000);
    }
    const health = Array.from({ length: 24 }, () => sendRaw(port, `GET /healthz HTTP/1.1\r\n${own}\r\n`));
    const answers = await within(Promise.all(health), "every process says how it is");
    expect(answers.map(({ status }) => status)).toEqual(Array(24).fill(200));
    lab.vendor.gate.open();
    expect(countEach((await Promise.all(asked)).map(({ status }) => status))).toEqual({ 200: count });
  }, 60_000);

  test("figures and the request log tell of all processes together", async () => {
    const account = accounts.counted;
    const totalOf = async () => {
      const text = await (await fetch(`${lab.running.url}/metrics`, { headers: { connection: "close" } })).text();
      expect(text).toContain("sluice_workers 2\n");
      const lines = text.split("\n").filter((line) => line.startsWith('sluice_requests_total{dialect="chat"'));
      return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
    };
    const before = await totalOf();
    expect(await lab.askMany(account, 30, (at) => ({ id: `counted-${at}` }))).toEqual({ 200: 30 });
    expect((await totalOf()) - before).toBe(30);
    const logged = async () => {
      const child = Bun.spawn([buildBinary(), "logs", "--json", "--limit", "1000", "--data", lab.data], {
        stdout: "pipe",
        stderr: "inherit",
        stdin: "ignore",
      });
      const text = await child.stdout.text();
      return text.split("\n").filter((line) => line.includes(account.id)).length;
    };
    // Lines are written every half second: each look is a process of its own, and the next one begins when it has ended.
    let count = 0;
    const startedAt = performance.now();
    while (count < 30 && performance.now() - startedAt < 10_000) count = await logged();
    expect(count).toBe(30);
    const files = requestLogFolder(lab.data);
    const bodies = () =>
      readdirSync(files)
        .flatMap((name) => readFileSync(join(files, name), "utf8").split("\n"))
        .filter((line) => line.includes('"event":"bodies"') && line.includes("counted-"));
    await until(() => bodies().length === 30, "prompts and answers, whichever process had them");
    expect(bodies().every((line) => line.includes("Well."))).toBe(true);
  }, 60_000);

  test("a key that is revoked ends its streams in every process", async () => {
    const account = accounts.revoked;
    lab.vendor.gate = gate();
    const streams = await Promise.all(
      Array.from({ length: 12 }, (_, at) => beginStream(lab, account, { id: `revoked-${at}`, waits: true })),
    );
    await lab.withBooks(async ({ store, writer }) => {
      await new Keys(store, writer).revoke(account.key);
    });
    const ends = await within(Promise.all(streams.map(({ done }) => done)), "all streams end", 3_000);
    expect(ends.every(({ whole }) => !whole)).toBe(true);
    await until(() => lab.vendor.left.filter((id) => id.startsWith("revoked-")).length === 12, "the vendor is let go");
    expect((await lab.ask(account, { id: "revoked-later" })).status).toBe(401);
    lab.vendor.gate.open();
  }, 60_000);

  test("behind a proxy that is trusted, wrong keys are counted by the address that it tells", async () => {
    const wrong = { id: "x", key: `sk-sluice-${"0".repeat(38)}` };
    const from = (address: string, count: number) =>
      lab.askMany(wrong, count, () => ({ id: "wrong" }), {}, { headers: { "x-forwarded-for": address } });
    expect(await from("203.0.113.7", 15)).toEqual({ 401: 10, 429: 5 });
    expect(await from("203.0.113.8", 10)).toEqual({ 401: 10 });
  });

  // The last: whoever comes from this machine's address by way of others may not try further keys afterwards.
  test("wrong keys are counted by address over all processes", async () => {
    const wrong = { id: "x", key: `sk-sluice-${"0".repeat(38)}` };
    const refusals = await lab.askMany(
      wrong,
      30,
      (at) => ({ id: `wrong-${at}` }),
      {},
      { headers: { via: "1.1 proxy" } },
    );
    // Ten wrong keys a minute, whichever process is told them.
    expect(refusals).toEqual({ 401: 10, 429: 20 });
    // This machine's own programs are told of every one.
    expect(await lab.askMany(wrong, 20, (at) => ({ id: `wrong-${at}` }))).toEqual({ 401: 20 });
    expect(lab.vendor.calls.some((id) => id.startsWith("wrong-"))).toBe(false);
  });
});
