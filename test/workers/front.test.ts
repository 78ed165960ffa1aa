import { afterAll, afterEach, expect, test } from "bun:test";
import type { App } from "../../src/app.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { manualClock, settle } from "../support/clock.ts";
import { toIncoming } from "../support/incoming.ts";
import { json, startUpstream } from "../support/upstream.ts";
import { gate, until } from "../support/wait.ts";
import { type Pair, startPair } from "./pair.ts";

const PATH = "/v1/chat/completions";
const upstream = startUpstream();
const REPLY = { choices: [{ index: 0, message: { role: "assistant", content: "Yes" }, finish_reason: "stop" }] };

let gateway: TestApp;
let pair: Pair;

async function start(): Promise<App> {
  upstream.reset();
  gateway = await startApp({ vendors: [vendorAt(upstream, "chat", "lab")] });
  pair = startPair(gateway.app, ":memory:", gateway.clock);
  return gateway.app;
}

afterEach(async () => {
  await pair.worker.close();
  await gateway.stop();
});
afterAll(() => upstream.close());

const ask = () =>
  new Request(`http://localhost${PATH}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ model: "lab/any", messages: [{ role: "user", content: "Hi" }] }),
  });

test("who comes in with too many others waits at the worker, before it is asked for", async () => {
  await start();
  const turn = gate();
  upstream.always(PATH, () => turn.opened.then(() => json(REPLY)));
  const answer = async (request: Request) => pair.worker.front.entrance.answer(await toIncoming(request));
  const running = Array.from({ length: 8 }, () => answer(ask()));
  await until(() => upstream.calls.length === 8, "so many are under way that others are let in by and by");
  const many = await Promise.all(Array.from({ length: 17 }, () => toIncoming(ask())));
  const answers = many.map((incoming) => pair.worker.front.entrance.answer(incoming));
  // Who has left by his turn is asked for by nobody.
  many.at(-1)?.leave(new Error("The client left."));
  turn.open();
  const told = await Promise.all([...running, ...answers]);
  expect(told.map((one) => ("status" in one ? one.status : "stream"))).toEqual([...Array(24).fill(200), 503]);
  expect(pair.session.knocks).toBe(24);
  const errors = pair.worker.figures().find(({ name }) => name === "sluice_errors_total");
  expect(errors?.samples).toEqual([{ labels: { code: "upstream_overloaded" }, value: 1 }]);
});

test("a worker looks at its memory by itself, and lets nobody in when that is full", async () => {
  const app = await start();
  upstream.always(PATH, () => json(REPLY));
  // As one of so many processes it has a few kilobytes.
  const clock = manualClock();
  const full = startPair(app, ":memory:", clock, [], { processes: 1_000_000 });
  try {
    const answer = async () => full.worker.front.entrance.answer(await toIncoming(ask()));
    expect(await answer()).toMatchObject({ status: 200 });
    // A look at the event loop is told how much time has gone by since the last.
    await clock.advance(2_000);
    const status = async () => {
      const told = await answer();
      return "status" in told && told.status;
    };
    await until(async () => (await status()) === 503, "it is full");
    const shed = full.worker.figures().find(({ name }) => name === "sluice_shed_total");
    expect(shed?.samples.find(({ labels }) => labels?.["reason"] === "memory")?.value).toBeGreaterThan(0);
    expect(full.session.open).toEqual({ permits: 0, holds: 0 });
  } finally {
    await full.worker.close();
  }
});

test("a worker that is to end waits for who waits to be let in", async () => {
  const { services } = await start();
  upstream.always(PATH, () => json(REPLY));
  const turn = gate();
  services.admission = { enter: () => turn.opened } as object as NonNullable<App["services"]["admission"]>;
  const answer = pair.worker.front.entrance.answer(await toIncoming(ask()));
  await until(() => pair.session.knocks === 1, "it waits");
  let hasEnded = false;
  const ended = pair.worker.drain().then(() => {
    hasEnded = true;
  });
  await settle();
  expect(hasEnded).toBe(false);
  turn.open();
  expect(await answer).toMatchObject({ status: 200 });
  await ended;
});
