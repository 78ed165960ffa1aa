import { afterEach, expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { type Log, silentLog } from "../../src/observe/log.ts";
import { WorkerPool } from "../../src/workers/pool.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { until, within } from "../support/wait.ts";

/** A process that keeps its channel open and never says a word on it, as one that stands still. */
const MUTE = [
  "-e",
  'process.on("message", () => {}); process.on("disconnect", () => process.exit()); setInterval(() => {}, 1e6);',
];

/** One that says it cannot whatever it is asked. */
const UNABLE = [
  "-e",
  `const error = { code: "internal_error", message: "no", param: null, wait: null, retry: false, extra: {}, cause: null, rate: null };
   process.on("message", (batch) => process.send(batch.filter(([kind]) => kind === "?").map(([, id]) => ["!", id, error])));
   process.on("disconnect", () => process.exit());`,
];

/** One that answers whatever it is asked when it is asked the next time, and says behind it what makes no sense, so that it is seen to have answered. */
const LATE = [
  "-e",
  `let asked = [];
   process.on("message", (batch) => {
     process.send([...asked.map(([, id]) => ["=", id, []]), [".", "proof", { proof: "none", maker: "" }]]);
     asked = batch.filter(([kind]) => kind === "?");
   });
   process.on("disconnect", () => process.exit());`,
];

/** Seven looks, one each five seconds: what a worker that stands still has at the most; its answers alone would have 101 seconds. */
const UNHEARD_MS = 35_000;

let gateway: TestApp | undefined;
let folder: string | undefined;
let pool: WorkerPool | undefined;
afterEach(async () => {
  // Of a stop that failed: nothing waits for it.
  for (const pid of pool?.processIds ?? []) process.kill(pid, "SIGKILL");
  await gateway?.stop();
  if (folder) removeFolder(folder);
  gateway = folder = pool = undefined;
});

/** A pool of one process, whose program may stand in a folder of the test. */
async function makePool(command: (folder: string) => readonly string[], clock: ManualClock, log: Log) {
  gateway = await startApp({ clock });
  folder = makeFolder();
  const { app } = gateway;
  app.gateway.setServer({ requestIP: () => null, timeout() {}, port: 1 } as never);
  pool = new WorkerPool({
    ...{ app, count: 1, clock, log, requests: undefined, folder },
    secretsOf: () => [],
    command: command(folder),
    shownAs: "worker",
    environment: process.env,
    place: { version: "0", host: "127.0.0.1", port: 1, store: ":memory:" },
  });
  return pool;
}

/** One whose process does not say that it listens. */
async function startPool(program: readonly string[], clock: ManualClock, log: Log): Promise<WorkerPool> {
  const made = await makePool(() => [process.execPath, ...program], clock, log);
  const started = made.start();
  await clock.advance(10_000);
  await within(started, "a start goes on without it");
  expect(made.processIds.length).toBe(1);
  return made;
}

test.skipIf(process.platform !== "linux")(
  "a worker that says that it cannot tell its figures is left at work",
  async () => {
    const clock = manualClock();
    const said: string[] = [];
    const log = { ...silentLog, warn: (event: string) => void said.push(event) };
    const made = await startPool(UNABLE, clock, log);
    const [worker] = made.processIds;
    for (let look = 1; look <= 10; look++) {
      const before = said.length;
      await clock.advance(5_000);
      await until(() => said.length > before, "its answer");
    }
    expect(new Set(said)).toEqual(new Set(["worker-figures"]));
    expect(made.processIds).toEqual([worker ?? 0]);
  },
);

test.skipIf(process.platform !== "linux")(
  "a worker that tells its figures late each time is left at work",
  async () => {
    const clock = manualClock();
    const said: string[] = [];
    const log = { ...silentLog, error: (event: string) => void said.push(event) };
    const made = await startPool(LATE, clock, log);
    const [worker] = made.processIds;
    for (let look = 1; look <= 10; look++) {
      const before = said.length;
      await clock.advance(5_000);
      await until(() => said.length > before, "its answer to the look before");
    }
    expect(new Set(said)).toEqual(new Set(["worker-note"]));
    expect(made.processIds).toEqual([worker ?? 0]);
  },
);

test.skipIf(process.platform !== "linux")(
  "a stop does not wait for a worker that stands still until its answers would have ended",
  async () => {
    const clock = manualClock();
    pool = await startPool(MUTE, clock, silentLog);
    let stopped = false;
    const stopping = pool.stop().then(() => {
      stopped = true;
    });
    await clock.advance(20_000);
    expect(stopped).toBe(false);
    await clock.advance(UNHEARD_MS - 20_000);
    // The process ends in its own time; what it said last is waited for by the clock.
    await within(stopping, "it is killed");
  },
);

test.skipIf(process.platform !== "linux")(
  "a worker that cannot be started is tried again, later each time, and no more once there is a stop",
  async () => {
    const clock = manualClock();
    let tries = 0;
    const error = (event: string) => {
      if (event === "worker-start") tries++;
    };
    const log = { ...silentLog, error };
    const made = await makePool((at) => [join(at, "worker"), ...MUTE], clock, log);
    await within(made.start(), "a start goes on without it");
    expect(tries).toBe(1);
    for (const [at, pauseMs] of [100, 200, 400].entries()) {
      await clock.advance(pauseMs - 1);
      expect([at, tries]).toEqual([at, at + 1]);
      await clock.advance(1);
      expect([at, tries]).toEqual([at, at + 2]);
    }
    symlinkSync(process.execPath, join(folder ?? "", "worker"));
    await clock.advance(800);
    const [worker = 0] = made.processIds;
    expect([tries, made.processIds.length]).toEqual([4, 1]);
    // It dies, and would be started once more.
    process.kill(worker, "SIGKILL");
    await clock.armed(1_600);
    await clock.advance(1_600);
    // The next one lives for long, and dies by accident.
    await clock.advance(30_000);
    process.kill(made.processIds[0] ?? 0, "SIGKILL");
    await clock.armed(100);
    await within(made.stop(), "nothing is waited for");
    await clock.advance(20_000);
    expect([tries, made.processIds]).toEqual([4, []]);
  },
);
