import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { answerOnce } from "../../src/http/idempotency.ts";
import { openapiDocument } from "../../src/http/openapi/openapi.ts";
import { createLog, silentLog } from "../../src/observe/log.ts";
import { IdempotencyStore, KEEP_MS } from "../../src/relay/idempotency-store.ts";
import { temporaryFolders } from "../db/temp-folder.ts";
import { startApp } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import { sse } from "../support/upstream.ts";
import { gate, until } from "../support/wait.ts";
import { COST, PRICED, startAccountLab } from "./account-lab.ts";

const folder = temporaryFolders();

function lab() {
  const store = openStore(":memory:");
  const clock = manualClock();
  const writer = new Writer(store, clock);
  const lines: unknown[] = [];
  const log = createLog({ level: "error", write: (line) => lines.push(JSON.parse(line)) });
  const kept = new IdempotencyStore(store, writer, clock, log);
  let runs = 0;
  const ask = (key: string | null, run: () => Promise<Response>, body = "{}", path = "/v1/images/generations") => {
    const headers: Record<string, string> = key === null ? {} : { "idempotency-key": key };
    const request = new Request(`http://localhost${path}?x=1`, { method: "POST", headers });
    return answerOnce({ request, accountId: "acct_1", body }, kept, () => {
      runs++;
      return run();
    });
  };
  return { ask, kept, clock, writer, lines, runs: () => runs };
}

const made = () =>
  Promise.resolve(
    Response.json(
      { id: crypto.randomUUID() },
      { status: 202, headers: { "x-request-id": "req_1", "x-sluice-cost-usd": "0.020000000" } },
    ),
  );

describe("any POST that costs", () => {
  test("runs once; its answer comes again with its status, without its price and another's request id", async () => {
    const { ask, runs } = lab();
    const first = await ask("k", made);
    const again = await ask("k", made);
    expect([again.status, await again.text()]).toEqual([202, await first.text()]);
    expect(first.headers.get("idempotency-replayed")).toBeNull();
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect([first, again].map(({ headers }) => headers.get("x-sluice-cost-usd"))).toEqual([
      "0.020000000",
      "0.000000000",
    ]);
    expect(again.headers.get("x-request-id")).toMatch(/^req_\w{24}$/);
    expect(again.headers.get("content-type")).toStartWith("application/json");
    expect(runs()).toBe(1);
  });

  test("an error, returned or thrown, leaves the key free; without a key everything runs", async () => {
    const { ask, runs } = lab();
    const bad = await ask("k", () => Promise.resolve(Response.json({}, { status: 400 })));
    expect(bad.status).toBe(400);
    await expect(ask("k", () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
    expect((await ask("k", made)).headers.get("idempotency-replayed")).toBeNull();
    for (let round = 0; round < 2; round++)
      expect((await ask(null, made)).headers.get("idempotency-replayed")).toBeNull();
    expect(runs()).toBe(5);
  });

  test("another body, another path, and one at a time", async () => {
    const { ask, runs } = lab();
    const held = gate();
    const slow = ask("k", () => held.opened.then(made));
    const refused = { code: "idempotency_in_progress", retry: true, retryAfterSeconds: 1 };
    // Who is refused takes nothing from who runs: the next one is refused as well.
    for (let round = 0; round < 2; round++) await expect(ask("k", made)).rejects.toMatchObject(refused);
    await expect(ask("k", made, "{ }")).rejects.toMatchObject({ code: "idempotency_key_reused", retry: false });
    expect((await ask("k", made, "{}", "/v1/web/search")).status).toBe(202);
    held.open();
    expect((await slow).status).toBe(202);
    await expect(ask("", made)).rejects.toMatchObject({ code: "invalid_request", param: "Idempotency-Key" });
    expect(runs()).toBe(2);
  });
});

test("a request that still runs when a clock's jump has its row swept away does not run beside itself", async () => {
  const { ask, kept, clock, runs } = lab();
  const held = gate();
  const slow = ask("k", () => held.opened.then(made));
  await until(() => runs() === 1, "the request");
  clock.setWall(clock.now() + KEEP_MS + 1);
  expect(await kept.sweep()).toBe(1);
  await expect(ask("k", made)).rejects.toMatchObject({ code: "idempotency_in_progress", retry: true });
  held.open();
  expect((await slow).status).toBe(202);
  expect(runs()).toBe(1);
});

describe("the stop of the server", () => {
  test("waits until what is under way is kept", async () => {
    const { ask, kept, runs } = lab();
    const held = gate();
    const slow = ask("k", () => held.opened.then(made));
    await until(() => runs() === 1, "the request");
    const stopped = kept.idle().then(() => ask("k", made));
    // One that ends before it is not the last.
    await ask("other", made);
    held.open();
    expect((await slow).headers.get("idempotency-replayed")).toBeNull();
    expect((await stopped).headers.get("idempotency-replayed")).toBe("true");
  });

  test("for five seconds at most", async () => {
    const { ask, kept, clock, runs } = lab();
    void ask("k", () => gate().opened.then(made));
    await until(() => runs() === 1, "the request");
    let idle = false;
    void kept.idle().then(() => {
      idle = true;
    });
    await clock.advance(4_999);
    expect(idle).toBe(false);
    await clock.advance(1);
    expect(idle).toBe(true);
  });

  test("does not wait for a key that could not be taken", async () => {
    const { ask, kept, clock, writer, runs } = lab();
    const run = writer.run.bind(writer);
    // What is done in the transaction is undone at its end, as where the disk is full.
    writer.run = (operation) => run(operation).then(() => Promise.reject(new Error("no room")));
    await expect(ask("k", made)).rejects.toThrow("no room");
    const before = clock.monotonic();
    await kept.idle();
    expect([clock.monotonic(), runs()]).toEqual([before, 0]);
  });
});

test.each([
  { what: "kept", status: 202, event: "idempotency-keep" },
  { what: "let go of", status: 400, event: "idempotency-drop" },
])("a key that cannot be $what is a word in the log, and the answer is the client's", async ({ status, event }) => {
  const { ask, writer, lines } = lab();
  const answer = async () => {
    await writer.close();
    return Response.json({}, { status });
  };
  expect((await ask("k", answer)).status).toBe(status);
  await until(() => lines.length > 0, "the log");
  expect(lines).toMatchObject([{ event }]);
});

test("an answer that has had its day leaves no byte behind", async () => {
  const path = join(folder(), "sluice.db");
  const store = openStore(path);
  const clock = manualClock();
  const kept = new IdempotencyStore(store, new Writer(store, clock), clock, silentLog);
  // What cannot be compressed stands in the file as it is.
  const secret = Buffer.from(crypto.getRandomValues(new Uint8Array(9_000))).toString("base64");
  const wish = { accountId: "acct_1", route: "/v1/web/fetch", key: "the-key-of-a-client", requestId: "req_1" };
  const claimed = await kept.claim({ ...wish, fingerprint: Buffer.alloc(32, 7) });
  if (claimed.kind !== "run") throw new Error("it was free");
  await claimed.claim.keep({ status: 200, headers: { "x-sluice-dropped": "a-header-of-it" }, body: secret });
  const row = store.database.query("SELECT body FROM idempotency").values()[0]?.[0] as Uint8Array;
  const piece = Buffer.from(row).subarray(4_000, 4_016);
  const holds = () => {
    store.database.query("PRAGMA wal_checkpoint(TRUNCATE)").all();
    const bytes = readFileSync(path);
    return [piece, "the-key-of-a-client", "a-header-of-it"].map((what) => bytes.includes(what));
  };
  expect(holds()).toEqual([true, true, true]);
  const madeAt = clock.now();
  clock.setWall(madeAt + KEEP_MS);
  expect([await kept.sweep(), holds()]).toEqual([0, [true, true, true]]);
  clock.setWall(madeAt + KEEP_MS + 1);
  expect(await kept.sweep()).toBe(1);
  expect(holds()).toEqual([false, false, false]);
  store.close();
});

test("a request that is paid for is paid once: the answer that comes again costs nothing and takes no place", async () => {
  const lab = await startAccountLab();
  const { key, id } = await lab.tenant("team", "free", "1");
  const body = { model: PRICED, messages: [{ role: "user", content: "Hi" }] };
  const headers = { "idempotency-key": "k" };
  const ask = () => lab.ask(key, "/v1/chat/completions", { body, headers });
  const first = await ask();
  const again = await ask();
  expect([first, again].map(({ headers }) => headers.get("x-sluice-cost-usd"))).toEqual([COST, "0.000000000"]);
  expect(again.body).toEqual(first.body);
  const { body: account } = await lab.ask(lab.admin, `/admin/v1/accounts/${id}`);
  expect(account["balance"]).toMatchObject({ usd: 0.990493, held_usd: 0 });
  expect(lab.gateway.rows().length).toBe(1);
  // Of a stream the comment at its end says so.
  const [begun, ended] = [{ delta: { role: "assistant", content: "Hi." } }, { delta: {}, finish_reason: "stop" }].map(
    (choice) => ({ id: "c", object: "chat.completion.chunk", created: 1, choices: [{ index: 0, ...choice }] }),
  );
  const usage = { prompt_tokens: 100, completion_tokens: 2, total_tokens: 102 };
  const records = [begun, ended, { ...begun, choices: [], usage }].map(
    (record) => `data: ${JSON.stringify(record)}\n\n`,
  );
  lab.upstream.answer("/v1/chat/completions", sse(`${records.join("")}data: [DONE]\n\n`));
  const streaming = { authorization: `Bearer ${key}`, "content-type": "application/json", "idempotency-key": "s" };
  const streamed = { method: "POST", headers: streaming, body: JSON.stringify({ ...body, stream: true }) };
  const told = async () => {
    const text = await (await lab.gateway.call("/v1/chat/completions", streamed)).text();
    return /^: x-sluice-cost-usd: (.*)$/m.exec(text)?.[1];
  };
  expect([await told(), await told()]).toEqual(["0.000330000", "0.000000000"]);
  // Plan free lets five requests begin at once: those that come again are none of them.
  for (let round = 0; round < 10; round++) expect((await ask()).status).toBe(200);
  // A refusal leaves the key free: after a deposit the same request runs.
  const poor = await lab.tenant("poor", "free");
  const askPoor = () => lab.ask(poor.key, "/v1/chat/completions", { body, headers });
  expect((await askPoor()).status).toBe(402);
  const deposit = { amount_usd: 1, reference: "at last" };
  await lab.ask(lab.admin, `/admin/v1/accounts/${poor.id}/deposits`, { body: deposit });
  expect(await askPoor()).toMatchObject({ status: 200 });
  expect(lab.upstream.calls.length).toBe(3);
  await lab.stop();
});

test("the header is in the document of every endpoint that generates", async () => {
  const app = await startApp();
  type Operation = { parameters?: { name: string; in: string }[] };
  const { paths } = (await openapiDocument(await app.app.gateway.routes())) as {
    paths: Record<string, Record<string, Operation>>;
  };
  for (const path of ["/v1/chat/completions", "/v1/messages", "/v1/responses"]) {
    expect(paths[path]?.["post"]?.parameters?.map((each) => [each.name, each.in])).toContainEqual([
      "Idempotency-Key",
      "header",
    ]);
  }
  await app.stop();
});
