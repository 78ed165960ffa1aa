import { afterEach, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { gate, until, within } from "../support/wait.ts";
import { type Account, beginStream, countEach, isLinux, untilTwoRun, WorkersLab } from "./workers-lab.ts";
import { isAlive } from "./workers-processes.ts";

/** Enough that each of three processes gets some, but for one time in ten million. */
const STREAMS = 40;
/** A thousand dollars, nano-USD. */
const RICH = 1_000_000_000_000n;
/** Pieces of text that are more than the first slice's 4,096 tokens: more money is asked for, and what was delivered is known by that. */
const LONG = 90;

const labs: WorkersLab[] = [];

async function startLab(): Promise<{ lab: WorkersLab; account: Account }> {
  const lab = new WorkersLab();
  labs.push(lab);
  const account = await lab.fund("paying", RICH);
  await lab.start();
  await untilTwoRun(lab);
  return { lab, account };
}

const beginAll = (lab: WorkersLab, account: Account, name: string, pieces = 1) =>
  Promise.all(
    Array.from({ length: STREAMS }, (_, at) => beginStream(lab, account, { id: `${name}-${at}`, pieces, waits: true })),
  );

/** What the store says of holds and rows. */
const readBooks = (lab: WorkersLab, account: Account) =>
  lab.withBooks(({ store, book }) => ({
    openHolds: store.database.query("SELECT count(*) AS count FROM ledger_hold").get() as { count: bigint },
    outcomes: store.database.query("SELECT outcome FROM usage").values().flat() as string[],
    held: book.balance(account.id).heldNano,
    breaches: book.verify(),
  }));

/** What /metrics says of requests that are over, by figure and labels. */
async function readCounters(lab: WorkersLab): Promise<Map<string, number>> {
  const ask = () => fetch(`${lab.running.url}/metrics`, { headers: { connection: "close" } });
  // The process that took the question may be the one that dies.
  const answer = await ask().catch(() => ask());
  const text = await answer.text();
  const lines = text.split("\n").filter((line) => /^sluice_(requests_total|tokens_total|request_duration)/.test(line));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").at(-1))]));
}

/** How many generations came to workers. */
async function countKnocks(lab: WorkersLab): Promise<number> {
  const text = await (await fetch(`${lab.running.url}/metrics`, { headers: { connection: "close" } })).text();
  return Number(/^sluice_worker_requests_total (\d+)$/m.exec(text)?.[1]);
}

/** Kills all workers, and waits until others listen. */
async function replaceWorkers(lab: WorkersLab, account: Account): Promise<void> {
  const before = lab.workers;
  for (const pid of before) process.kill(pid, "SIGKILL");
  await untilTwoRun(lab, before);
  const heard = await countKnocks(lab);
  const isHeard = async () => {
    await lab.askMany(account, 6, (at) => ({ id: `again-${at}` }));
    return (await countKnocks(lab)) > heard;
  };
  await until(isHeard, "a new one listens");
}

const fallen = (before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>) =>
  [...before].filter(([name, value]) => (after.get(name) ?? 0) < value).map(([name]) => name);

afterEach(async () => {
  for (const lab of labs.splice(0)) await lab.close();
});

describe.skipIf(!isLinux)("workers that die, and gateways that do", () => {
  test("a worker that is killed in the middle of streams: its holds are ended, the others stream on, and another takes its place", async () => {
    const { lab, account } = await startLab();
    const streams = await beginAll(lab, account, "killed", LONG);
    // All of them have asked for more money: it is known of all that something was delivered.
    const noted = () =>
      lab.withBooks(
        ({ store }) => store.database.query("SELECT count(*) FROM ledger_hold WHERE seen_output > 0").values()[0]?.[0],
      );
    for (let look = 0; look < 200 && (await noted()) !== BigInt(STREAMS); look++);
    expect(await noted()).toBe(BigInt(STREAMS));
    const before = lab.workers;
    const [victim] = before;
    process.kill(victim!, "SIGKILL");
    const broken: string[] = [];
    for (const { id, done } of streams) void done.then(({ whole }) => !whole && broken.push(id));
    await until(() => lab.vendor.left.length > 0, "the vendor is let go by the dead worker");
    await untilTwoRun(lab, [victim!]);
    // Whoever comes now is served, by the new one too.
    expect(await lab.askMany(account, 30, (at) => ({ id: `after-${at}` }))).toEqual({ 200: 30 });
    lab.vendor.gate.open();
    const ends = await Promise.all(streams.map(({ done }) => done));
    const whole = ends.filter((end) => end.whole).length;
    expect(broken.length).toBeGreaterThan(0);
    expect(whole).toBe(STREAMS - broken.length);
    expect(whole).toBeGreaterThan(0);
    const books = await readBooks(lab, account);
    expect(books.openHolds).toEqual({ count: 0n });
    expect(books.held).toBe(0n);
    expect(books.breaches).toEqual([]);
    // Who was sent something pays for that, and everybody once.
    expect(books.outcomes.filter((outcome) => outcome === "interrupted").length).toBe(broken.length);
    expect(books.outcomes.filter((outcome) => outcome === "completed").length).toBe(whole + 30);
    const figures = await (await fetch(`${lab.running.url}/metrics`)).text();
    expect(figures).toContain("sluice_worker_deaths_total 1\n");
    expect(figures).toContain("sluice_requests_running 0\n");
    expect(figures).toContain("sluice_unhandled_faults_total 0\n");
    expect(await lab.running.stop()).toBe(0);
    expect(lab.running.stderr).toContain('"event":"worker-died"');
    expect((await readBooks(lab, account)).breaches).toEqual([]);
  }, 60_000);

  test("no counter falls while a dead worker's books are closed", async () => {
    const { lab, account } = await startLab();
    const streams = await beginAll(lab, account, "counted", LONG);
    for (let round = 0; round < 3; round++) {
      await lab.askMany(account, STREAMS, (at) => ({ id: `quick-${round}-${at}` }));
      const before = lab.workers;
      const seen = [await readCounters(lab)];
      process.kill(before[round % 2]!, "SIGKILL");
      while (lab.workers.length < 2 || before.every((pid) => lab.workers.includes(pid))) {
        seen.push(await readCounters(lab));
      }
      seen.push(await readCounters(lab));
      expect(seen.flatMap((counters, at) => fallen(seen[at - 1] ?? new Map(), counters))).toEqual([]);
      await untilTwoRun(lab, before.slice(round % 2, (round % 2) + 1));
    }
    lab.vendor.gate.open();
    await Promise.all(streams.map(({ done }) => done));
  }, 60_000);

  test("what a dead worker had limited is free again", async () => {
    const { lab } = await startLab();
    await lab.running.stop();
    const narrow = await lab.fund("narrow");
    await lab.start();
    await untilTwoRun(lab);
    const asked = Array.from({ length: 4 }, (_, at) => beginStream(lab, narrow, { id: `n-${at}`, waits: true }));
    const streams = await Promise.all(asked);
    expect((await lab.ask(narrow, { id: "fifth" })).status).toBe(429);
    const before = lab.workers;
    for (const pid of before) process.kill(pid, "SIGKILL");
    await untilTwoRun(lab, before);
    lab.vendor.gate.open();
    await Promise.all(streams.map(({ done }) => done));
    lab.vendor.gate = gate();
    for (let round = 0; round < 3; round++) {
      expect(await lab.askMany(narrow, 4, (at) => ({ id: `free-${round}-${at}` }))).toEqual({ 200: 4 });
    }
  }, 60_000);

  test("SIGTERM lets the streams of every process end, and then all of them", async () => {
    const { lab, account } = await startLab();
    const streams = await beginAll(lab, account, "drained");
    const { workers } = lab;
    lab.running.child.kill("SIGTERM");
    // Nobody new is let in by any process.
    const refused = () =>
      lab.ask(account, { id: "late" }).then(
        () => false,
        () => true,
      );
    await within(
      (async () => {
        while (!(await refused()));
      })(),
      "new connections are refused",
    );
    lab.vendor.gate.open();
    const ends = await Promise.all(streams.map(({ done }) => done));
    expect(ends.filter(({ whole }) => whole).length).toBe(STREAMS);
    expect(await within(lab.running.child.exited, "the gateway ends")).toBe(0);
    expect(workers.filter(isAlive)).toEqual([]);
    const books = await readBooks(lab, account);
    expect(books.openHolds).toEqual({ count: 0n });
    expect(books.outcomes.filter((outcome) => outcome === "completed").length).toBeGreaterThanOrEqual(STREAMS);
    expect(books.breaches).toEqual([]);
  }, 60_000);

  test("SIGTERM says that it waits for answers, also where only a worker has any", async () => {
    const { lab, account } = await startLab();
    const atWorkers = async () => {
      const figures = await (await fetch(`${lab.running.url}/metrics`)).text();
      return Number(/^sluice_worker_requests_total (\d+)$/m.exec(figures)?.[1]);
    };
    let stream = await beginStream(lab, account, { id: "waited-for", waits: true });
    while ((await atWorkers()) === 0) {
      lab.vendor.gate.open();
      await stream.done;
      lab.vendor.gate = gate();
      stream = await beginStream(lab, account, { id: "waited-for", waits: true });
    }
    lab.running.child.kill("SIGTERM");
    await until(() => lab.running.stderr.includes("Stopping: running answers may end"), "it says so");
    lab.vendor.gate.open();
    expect((await stream.done).whole).toBe(true);
    expect(await within(lab.running.child.exited, "the gateway ends")).toBe(0);
  }, 60_000);

  test("a second SIGTERM has every process tell at once whom it cuts off, and write it down", async () => {
    const { lab, account } = await startLab();
    const streams = await beginAll(lab, account, "cut");
    lab.running.child.kill("SIGTERM");
    await until(() => lab.running.stderr.includes("Stopping: running answers may end"), "the first signal is heard");
    lab.running.child.kill("SIGTERM");
    const ends = await Promise.all(streams.map(({ done }) => done));
    expect(ends.filter(({ text }) => text.includes("shutting down")).length).toBe(STREAMS);
    expect(await within(lab.running.child.exited, "the gateway ends")).toBe(130);
    const books = await readBooks(lab, account);
    expect([books.openHolds, books.breaches]).toEqual([{ count: 0n }, []]);
    expect(books.outcomes.filter((outcome) => outcome === "interrupted").length).toBe(STREAMS);
  }, 60_000);

  test("SIGTERM lets what the authority answers through a worker end as well", async () => {
    const { lab, account } = await startLab();
    // Under an Idempotency-Key a request is the authority's, whichever process it comes to.
    const asked = Array.from({ length: STREAMS }, (_, at) =>
      lab.ask(account, { id: `kept-${at}`, waits: true }, {}, { headers: { "idempotency-key": `kept-${at}` } }),
    );
    await until(() => lab.vendor.calls.length === STREAMS, "the vendor works on all of them");
    lab.running.child.kill("SIGTERM");
    // Longer than connections on which nothing is under way are waited for.
    await Bun.sleep(1_500);
    lab.vendor.gate.open();
    const answers = await Promise.all(asked.map((answer) => answer.then(({ status }) => status).catch(String)));
    expect(countEach(answers)).toEqual({ 200: STREAMS });
    expect(await within(lab.running.child.exited, "the gateway ends")).toBe(0);
  }, 60_000);

  test("what workers pass on is answered though somebody has removed the socket for that: by those that run, and by one that starts then", async () => {
    const { lab, account } = await startLab();
    rmSync(join(lab.data, "workers.sock"));
    const headers = { authorization: `Bearer ${account.key}`, connection: "close" };
    const ask = async () => {
      const paths = Array.from({ length: STREAMS }, (_, at) => ["healthz", "readyz", "v1/account"][at % 3]);
      const answers = await Promise.all(paths.map((path) => fetch(`${lab.running.url}/${path}`, { headers })));
      return countEach(answers.map(({ status }) => status));
    };
    expect(await ask()).toEqual({ 200: STREAMS });
    await replaceWorkers(lab, account);
    expect(await ask()).toEqual({ 200: STREAMS });
  }, 60_000);

  test("without its authority no worker goes on, and the next start settles what was open", async () => {
    const { lab, account } = await startLab();
    const streams = await beginAll(lab, account, "orphaned", LONG);
    const { workers } = lab;
    expect(workers.length).toBe(2);
    process.kill(lab.running.child.pid, "SIGKILL");
    const ends = await within(Promise.all(streams.map(({ done }) => done)), "every stream breaks");
    expect(ends.filter(({ whole }) => whole)).toEqual([]);
    await until(() => !workers.some(isAlive), "the workers end");
    const { port } = new URL(lab.running.url);
    // The same port, at once: nobody is left who listens there.
    await lab.start("--port", port);
    expect(new URL(lab.running.url).port).toBe(port);
    const books = await readBooks(lab, account);
    expect(books.openHolds).toEqual({ count: 0n });
    expect(books.breaches).toEqual([]);
    expect(await lab.askMany(account, 10, (at) => ({ id: `again-${at}` }))).toEqual({ 200: 10 });
  }, 60_000);

  test("a reload reaches every process", async () => {
    const { lab, account } = await startLab();
    const ask = () => lab.askMany(account, 24, (at) => ({ id: `new-${at}` }), { model: "lab/new" });
    // The gateway has taken it over and says so; its workers hear of it in the same instant.
    const untilAll = (status: number) =>
      until(async () => (await ask())[status] === 24, `every process answers with ${status}`);
    expect(await ask()).toEqual({ 404: 24 });
    lab.configure("  - { id: lab/new, pricing: { input: 1, output: 2 }, routes: [{ vendor: lab, model: new }] }\n");
    lab.running.child.kill("SIGHUP");
    await until(() => lab.running.stderr.includes("taken over"), "the configuration is taken over");
    await untilAll(200);
    expect(await ask()).toEqual({ 200: 24 });
    // What means nothing to them is sent to all, as a service manager would.
    const all = [lab.running.child.pid, ...lab.workers];
    for (const pid of all) for (const signal of ["SIGUSR1", "SIGUSR2"] as const) process.kill(pid, signal);
    lab.configure();
    lab.running.child.kill("SIGHUP");
    await until(() => lab.running.stderr.split("taken over").length === 3, "it is taken over again");
    await untilAll(404);
    expect(await ask()).toEqual({ 404: 24 });
    expect([lab.running.child.pid, ...lab.workers]).toEqual(all);
  }, 60_000);

  test("what takes effect at the next start does not in a worker that is started before it", async () => {
    const { lab, account } = await startLab();
    lab.configure("", ', public_url: "https://new.example", cors_origins: ["https://page.example"]');
    lab.running.child.kill("SIGHUP");
    await until(() => lab.running.stderr.includes("of server takes effect at the next start"), "that is told");
    await replaceWorkers(lab, account);
    const ask = (headers: Record<string, string>) =>
      lab.askMany(account, STREAMS, (at) => ({ id: `next-${at}` }), {}, { headers });
    expect(await ask({ host: "new.example" })).toEqual({ 403: STREAMS });
    expect(await ask({ origin: "https://page.example" })).toEqual({ 403: STREAMS });
  }, 60_000);
});
