import { afterEach, expect, setDefaultTimeout, spyOn, test } from "bun:test";
import { join } from "node:path";
import { and, eq } from "drizzle-orm";
import { openStore } from "../../src/db/open.ts";
import { idempotency } from "../../src/db/schema-idempotency.ts";
import { fingerprint } from "../../src/relay/idempotency.ts";
import { serve } from "../cli/support.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { makeFolder, type RunningBinary, removeFolder } from "../support/binary.ts";
import { settle } from "../support/clock.ts";
import { gate, until } from "../support/wait.ts";

setDefaultTimeout(60_000);

const PATH = "/v1/chat/completions";
const ECHO = { model: "sluice/echo", messages: [{ role: "user", content: "one two three" }] };
const SCRIPT = { blocks: [{ type: "text", text: "a b c d", chunk: 1 }], chunk_delay_ms: 60_000 };
const SLOW = { model: "sluice/script", stream: true, messages: [{ role: "user", content: JSON.stringify(SCRIPT) }] };

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

test("kill -9: an answer that was given is given again after it; a request that was cut off may run again", async () => {
  const folder = makeFolder();
  closing.push(() => removeFolder(folder));
  const start = async () => {
    const server = await serve(folder, ["--port", "0"]);
    closing.push(async () => {
      server.child.kill("SIGKILL");
      await server.child.exited;
    });
    return server;
  };
  const ask = ({ url }: RunningBinary, key: string, name: string, body: object) =>
    fetch(`${url}${PATH}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", "idempotency-key": name },
      body: JSON.stringify(body),
    });
  const first = await start();
  const { key } = first;
  const whole = await (await ask(first, key, "whole", ECHO)).text();
  const stream = await (await ask(first, key, "stream", { ...ECHO, stream: true })).text();
  expect(stream).toContain("[DONE]");
  const cut = await ask(first, key, "cut", SLOW);
  const reader = cut.body?.getReader();
  await reader?.read();
  first.child.kill("SIGKILL");
  await first.child.exited;
  await reader?.cancel().catch(() => undefined);

  const second = await start();
  for (const [name, body, text] of [
    ["whole", ECHO, whole],
    ["stream", { ...ECHO, stream: true }, stream],
  ] as const) {
    const again = await ask(second, key, name, body);
    expect([again.status, again.headers.get("idempotency-replayed"), await again.text()]).toEqual([200, "true", text]);
  }
  // Another body is told apart from the one that died, and the one that died left nothing behind.
  expect((await ask(second, key, "cut", ECHO)).status).toBe(422);
  const retried = await ask(second, key, "cut", SLOW);
  expect([retried.status, retried.headers.get("idempotency-replayed")]).toEqual([200, null]);
  await retried.body?.cancel();
});

/** A row of a process that is no more, as if it had died in the middle of this request. */
async function withDeadRow(charged: boolean): Promise<{ app: TestApp; requestId: string }> {
  const app = await startApp();
  closing.push(() => app.stop());
  let requestId = "req_of_the_dead";
  if (charged) {
    await (await app.post(PATH, ECHO)).text();
    requestId = app.rows()[0]?.requestId ?? "";
  }
  app.store.query
    .insert(idempotency)
    .values({
      ...{ accountId: app.accountId, route: PATH, key: "k", state: "running", boot: "boot_of_the_dead", requestId },
      ...{ fingerprint: fingerprint(PATH, JSON.stringify(ECHO)), createdAt: Date.now() },
    })
    .run();
  return { app, requestId };
}

const ask = (app: TestApp, body: object = ECHO) => app.post(PATH, body, { headers: { "idempotency-key": "k" } });

test("cut off and charged: its answer is lost, and it is not run again", async () => {
  const { app, requestId } = await withDeadRow(true);
  for (let round = 0; round < 2; round++) {
    const told = await ask(app);
    expect([told.status, told.headers.get("x-should-retry"), told.headers.get("retry-after")]).toEqual([
      409,
      "false",
      null,
    ]);
    expect(await told.json()).toMatchObject({
      error: { code: "idempotency_in_progress", outcome: "unknown", request_id: requestId },
    });
  }
  expect((await ask(app, { ...ECHO, seed: 1 })).status).toBe(422);
  expect(app.rows().length).toBe(1);
});

test("cut off and not charged: it runs, once, and is kept from then on", async () => {
  const { app } = await withDeadRow(false);
  const both = await Promise.all([ask(app), ask(app)]);
  expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
  const again = await ask(app);
  expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([200, "true"]);
  expect(app.rows().length).toBe(1);
  const row = app.store.query
    .select()
    .from(idempotency)
    .where(and(eq(idempotency.key, "k"), eq(idempotency.state, "done")))
    .get();
  expect(row?.requestId).toBe(app.rows()[0]?.requestId ?? "");
});

test("a server that stops keeps what it answered last", async () => {
  const folder = makeFolder();
  closing.push(() => removeFolder(folder));
  const path = join(folder, "sluice.db");
  const first = await startApp({ store: openStore(path) });
  const held = gate();
  // The last write before the answer waits until the server is told to stop.
  const compress = Bun.zstdCompress;
  const spy = spyOn(Bun, "zstdCompress").mockImplementation(async (...args) => {
    await held.opened;
    return compress(...args);
  });
  closing.push(() => spy.mockRestore());
  const answer = ask(first);
  await until(() => spy.mock.calls.length === 1, "the keeping");
  const stopped = first.stop();
  // Enough for everything else that a stop does.
  await settle(100);
  held.open();
  expect((await answer).status).toBe(200);
  await stopped;
  const store = openStore(path);
  expect(store.query.select().from(idempotency).all()).toMatchObject([{ key: "k", state: "done", status: 200 }]);
  store.close();
});

test("an answer that cannot be kept is given all the same, told to the log, and not run again", async () => {
  const app = await startApp();
  closing.push(() => app.stop());
  app.store.database.run(
    "CREATE TRIGGER no_room BEFORE UPDATE ON idempotency BEGIN SELECT raise(ABORT, 'no room for it'); END",
  );
  const first = await ask(app);
  expect([first.status, ((await first.json()) as { object: string }).object]).toEqual([200, "chat.completion"]);
  await until(() => app.log.some(({ event }) => event === "idempotency-keep"), "the word in the log");
  const again = await ask(app);
  expect([again.status, again.headers.get("x-should-retry")]).toEqual([409, "false"]);
  expect(app.rows().length).toBe(1);
});
