import { afterAll, expect, test } from "bun:test";
import { openStore } from "../../src/db/open.ts";
import { silentLog } from "../../src/observe/log.ts";
import { startServer } from "../../src/server.ts";
import { PLAIN_CONFIG, vendorAt } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import { json, startUpstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";

const upstream = startUpstream();
afterAll(() => upstream.close());

const listing = (...names: string[]) => json({ data: names.map((id) => ({ id })) });

test("a model that comes to a server on this machine is there within a minute, and one that is stopped keeps its models", async () => {
  const clock = manualClock();
  const logged: string[] = [];
  const log = { ...silentLog, warn: (event: string) => void logged.push(event) };
  upstream.always("/v1/models", listing("first"));
  const server = await startServer({
    ...{ config: PLAIN_CONFIG, store: openStore(":memory:"), clock, log, version: "0.0.0-test" },
    vendors: [{ ...vendorAt(upstream, "chat", "lab"), models: "discover" }],
    ...{ host: "127.0.0.1", port: 0 },
  });
  let changes = 0;
  const listed = async () => {
    const { data } = (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string }[] };
    return data.map(({ id }) => id).filter((id) => id.startsWith("lab/"));
  };
  try {
    await until(async () => (await listed()).length === 1, "the first list");
    server.app.onChange(() => changes++);
    await clock.advance(60_000);
    await until(() => upstream.calls.length === 2, "the second question");
    upstream.always("/v1/models", listing("first", "pulled"));
    await clock.advance(60_000);
    await until(async () => (await listed()).includes("lab/pulled"), "the new model");
    // A list that is as it was is no news to anybody.
    expect(changes).toBe(1);
    upstream.always("/v1/models", json({}, { status: 500 }));
    await clock.advance(60_000);
    await until(() => upstream.calls.length === 4, "the fourth question");
    expect(await listed()).toEqual(["lab/first", "lab/pulled"]);
    expect(logged).toEqual([]);
  } finally {
    await server.stop();
  }
  const asked = upstream.calls.length;
  await clock.advance(120_000);
  expect(upstream.calls.length).toBe(asked);
});

test("a model server that is found after the start is asked for its models, and again half a minute later where it did not answer", async () => {
  const clock = manualClock();
  upstream.reset();
  upstream.always("/v1/models", json({}, { status: 500 }));
  const server = await startServer({
    ...{ config: PLAIN_CONFIG, store: openStore(":memory:"), clock, log: silentLog, version: "0.0.0-test" },
    ...{ vendors: [], host: "127.0.0.1", port: 0 },
  });
  try {
    server.addVendors([{ ...vendorAt(upstream, "chat", "lab"), models: "discover" }]);
    await until(() => upstream.calls.length === 1, "the first question");
    // Its answer has come too.
    await clock.armed(30_000);
    upstream.always("/v1/models", listing("first"));
    await clock.advance(29_000);
    expect(upstream.calls).toHaveLength(1);
    await clock.advance(1_000);
    await until(() => upstream.calls.length === 2, "the second question");
    const listed = async () => (await fetch(`${server.url}/v1/models`)).text();
    await until(async () => (await listed()).includes('"lab/first"'), "the model");
  } finally {
    await server.stop();
  }
});

test("a vendor whose list cannot be had is asked again alone, ever more seldom, and told of once", async () => {
  const clock = manualClock();
  const logged: unknown[] = [];
  const log = { ...silentLog, warn: (event: string, fields: object = {}) => void logged.push({ event, ...fields }) };
  const refusing = startUpstream();
  upstream.reset();
  upstream.always("/v1/models", listing("first"));
  refusing.always("/v1/models", json({ error: { message: "no" } }, { status: 401 }));
  const server = await startServer({
    ...{ config: PLAIN_CONFIG, store: openStore(":memory:"), clock, log, version: "0.0.0-test" },
    vendors: [
      { ...vendorAt(upstream, "chat", "lab"), models: "discover" },
      { ...vendorAt(refusing, "chat", "refusing"), models: "discover" },
    ],
    ...{ host: "127.0.0.1", port: 0 },
  });
  const asked = () => [upstream.calls.length, refusing.calls.length];
  /** Turns the clock on, and waits until each vendor was asked so often and what is to come is set again. */
  const goOn = async (ms: number, ...calls: [number, number]) => {
    const { pending } = clock;
    await clock.advance(ms);
    await until(() => Bun.deepEquals(asked(), calls) && clock.pending >= pending, `${calls.join(" and ")} questions`);
  };
  try {
    await until(
      () => logged.length === 1 && server.app.discovery.lists.has("lab"),
      "the first list and the first failure",
    );
    expect(asked()).toEqual([1, 1]);
    // Only now is the round over: what `goOn` counts before is all that waits.
    await clock.armed(30_000);
    await goOn(30_000, 1, 2);
    // Both are on this machine, where every vendor is asked each minute.
    await goOn(30_000, 2, 3);
    await goOn(30_000, 2, 4);
    expect(logged).toEqual([expect.objectContaining({ event: "discovery", vendor: "refusing" })]);
    refusing.always("/v1/models", listing("at-last"));
    await goOn(30_000, 3, 5);
    await until(() => server.app.discovery.lists.has("refusing"), "its list");
    // Only those of the minute: it is missed no more.
    await goOn(90_000, 4, 6);
  } finally {
    await server.stop();
    refusing.close();
  }
});
