import { afterEach, expect, test } from "bun:test";
import { silentLog } from "../../src/observe/log.ts";
import { WorkerPool } from "../../src/workers/pool.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";
import { manualClock } from "../support/clock.ts";
import { within } from "../support/wait.ts";

/** A process that keeps its channel open and never says a word on it, as one that stands still. */
const MUTE = [
  "-e",
  'process.on("message", () => {}); process.on("disconnect", () => process.exit()); setInterval(() => {}, 1e6);',
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

test.skipIf(process.platform !== "linux")(
  "a stop does not wait for a worker that stands still until its answers would have ended",
  async () => {
    const clock = manualClock();
    gateway = await startApp({ clock });
    folder = makeFolder();
    const { app } = gateway;
    app.gateway.setServer({ requestIP: () => null, timeout() {}, port: 1 } as never);
    pool = new WorkerPool({
      ...{ app, count: 1, clock, log: silentLog, requests: undefined, folder },
      secretsOf: () => [],
      command: [process.execPath, ...MUTE],
      shownAs: "worker",
      environment: process.env,
      place: { version: "0", host: "127.0.0.1", port: 1, store: ":memory:" },
    });
    const started = pool.start();
    await clock.advance(10_000);
    await within(started, "a start goes on without it");
    expect(pool.processIds.length).toBe(1);
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
