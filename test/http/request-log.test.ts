import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLog, silentLog } from "../../src/observe/log.ts";
import { RequestLog, type RequestLogSettings, withRequestLog } from "../../src/observe/request-log.ts";
import { temporaryFolders } from "../db/temp-folder.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";

const folder = temporaryFolders();
const apps: TestApp[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.stop();
});

function open(more: Partial<RequestLogSettings> = {}) {
  const path = join(folder(), "requests");
  const faults: unknown[] = [];
  const settings = { folder: path, days: 14, maxBytes: 1024 * 1024, bodies: false, scrub: silentLog.scrub };
  const log = new RequestLog({ ...settings, onFault: (thrown) => faults.push(thrown), ...more });
  const files = () => readdirSync(path).sort();
  const text = () =>
    files()
      .map((name) => readFileSync(join(path, name), "utf8"))
      .join("");
  const lines = () =>
    text()
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { log, path, files, text, lines, faults };
}

describe("the request log", () => {
  test("a line for each request, good or bad, in a private file; no bodies", async () => {
    const { log, path, files, text, lines } = open();
    const app = await startApp({ requests: log });
    apps.push(app);
    const body = { model: "sluice/echo", messages: [{ role: "user", content: "a canary of a prompt" }] };
    await (await app.post("/v1/chat/completions", body)).text();
    await (await app.post("/v1/chat/completions", { ...body, stream: true })).text();
    expect((await app.post("/v1/chat/completions", { ...body, messages: 7 })).status).toBe(400);
    await log.flush();
    expect(lines().map(({ level, outcome, stream, error }) => [level, outcome, stream, error])).toEqual([
      ["info", "completed", false, undefined],
      ["info", "completed", true, undefined],
      ["warn", "refused", false, "invalid_request"],
    ]);
    expect(lines()[0]).toMatchObject({ account: app.accountId, model: "sluice/echo", vendor: "sluice", attempts: 1 });
    expect(text()).not.toContain("canary");
    if (process.platform !== "win32") {
      expect(statSync(path).mode & 0o777).toBe(0o700);
      expect(statSync(join(path, files()[0] ?? "")).mode & 0o777).toBe(0o600);
    }
  });

  test("a name that no model has is noted: whoever looks for the mistake has to see it", async () => {
    const { log, lines } = open();
    const app = await startApp({ requests: log });
    apps.push(app);
    const messages = [{ role: "user", content: "Hi" }];
    for (const model of ["sluice/ecko", "ecko", `sluice/${"x".repeat(9_000)}\n`, "sluice/sk-ant-0123456789abcdef", 7]) {
      await (await app.post("/v1/chat/completions", { model, messages })).text();
    }
    await log.flush();
    expect(lines().map(({ model, error }) => [model, error])).toEqual([
      ["sluice/ecko", "model_not_found"],
      ["ecko", "model_not_found"],
      [`sluice/${"x".repeat(249)}`, "model_not_found"],
      ["sluice/[removed]", "model_not_found"],
      [undefined, "invalid_request"],
    ]);
  });

  test("prompts and answers only where that is switched on", async () => {
    const { log, lines } = open({ bodies: true });
    const app = await startApp({ requests: log });
    apps.push(app);
    const body = { model: "sluice/echo", messages: [{ role: "user", content: "a canary" }] };
    const whole = await (await app.post("/v1/chat/completions", body)).text();
    const stream = await (await app.post("/v1/chat/completions", { ...body, stream: true })).text();
    await log.flush();
    const bodies = lines().filter((line) => line["event"] === "bodies");
    expect(bodies.map((line) => line["reply"])).toEqual([whole, stream]);
    expect(bodies[0]?.["request"]).toBe(JSON.stringify(body));
  });

  test("of a stream that its client leaves as much as he was sent, once; and it ends as any other", async () => {
    const { log, lines } = open({ bodies: true });
    const app = await startApp({ requests: log });
    apps.push(app);
    const body = { model: "sluice/echo", messages: [{ role: "user", content: "a canary ".repeat(50) }], stream: true };
    const reader = (await app.post("/v1/chat/completions", body)).body!.getReader();
    const sent = new TextDecoder().decode((await reader.read()).value);
    await reader.cancel();
    await log.flush();
    const bodies = lines().filter((line) => line["event"] === "bodies");
    expect(bodies.map(({ request }) => request)).toEqual([JSON.stringify(body)]);
    expect(String(bodies[0]?.["reply"])).toStartWith(sent);
    expect(String(bodies[0]?.["reply"])).not.toContain("[DONE]");
    expect(app.rows().map(({ outcome }) => outcome)).toEqual(["client-left"]);
  });

  test("secrets are taken out", async () => {
    const source = createLog({ level: "silent" });
    source.addSecret("very-secret-value-1");
    const { log, text } = open({ scrub: source.scrub });
    log.add("warn", { cause: 'it said very-secret-value-1 and Bearer abc.def\\" and sk-sluice-abcdefghij' });
    await log.flush();
    expect(text()).not.toMatch(/secret-value|abc\.def|abcdefghij/);
    expect(JSON.parse(text())).toHaveProperty("cause");
  });

  test("a secret that a prompt is cut within is taken out whole", async () => {
    const source = createLog({ level: "silent" });
    source.addSecret("very-secret-value-1");
    const { log, lines } = open({ scrub: source.scrub, bodies: true });
    log.addBodies("req_1", `${"x".repeat(64 * 1024 - 12)}very-secret-value-1 and on`, "Yes");
    await log.flush();
    const [{ request, reply } = {}] = lines();
    expect([request, reply]).toEqual([`${"x".repeat(64 * 1024 - 12)}[removed] an`, "Yes"]);
  });

  test("no text ends in half a character, at which strict readers of JSON stop", async () => {
    const { log, lines } = open({ bodies: true });
    const cut = `${"x".repeat(64 * 1024 - 1)}🚀 and on`;
    log.addBodies("req_1", cut, cut);
    await log.flush();
    const half = lines().filter(({ request, reply }) => !`${request}${reply}`.isWellFormed());
    expect([lines().length, half]).toEqual([1, []]);
  });

  test("bounded by size: the oldest file goes; by age: what is old goes", async () => {
    let at = Date.UTC(2026, 0, 1);
    const { log, path, files } = open({ maxBytes: 512 * 1024, now: () => ++at });
    writeFileSync(join(path, "notes.txt"), "mine");
    const old = join(path, "requests-20250101T000000000Z.jsonl");
    writeFileSync(old, "{}\n");
    utimesSync(old, new Date(2025, 0, 1), new Date(2025, 0, 1));
    for (let round = 0; round < 40; round++) {
      for (let line = 0; line < 20; line++) log.add("info", { text: "x".repeat(1000) });
      await log.flush();
    }
    const sizes = files()
      .filter((name) => name.endsWith(".jsonl"))
      .map((name) => statSync(join(path, name)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(512 * 1024);
    expect(sizes.length).toBeGreaterThan(3);
    expect(sizes.length).toBeLessThanOrEqual(9);
    expect(files()).toContain("notes.txt");
    expect(files()).not.toContain("requests-20250101T000000000Z.jsonl");
  });

  test("stays within its bound when much comes at once, and keeps what came last", async () => {
    const { log, path, files, lines } = open({ maxBytes: 512 * 1024, now: () => Date.UTC(2026, 0, 1) });
    for (let at = 0; at < 3_000; at++) log.add("info", { at, text: "x".repeat(1000) });
    await log.flush();
    const sizes = files().map((name) => statSync(join(path, name)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(512 * 1024);
    const kept = lines().map(({ at }) => Number(at));
    expect(kept.length).toBeGreaterThan(300);
    expect(kept).toEqual(kept.map((_, at) => 3_000 - kept.length + at));
  });

  test("a log that fills no file is cut by age all the same, so that what is old goes", async () => {
    const begunAt = Date.now() - 30 * 86_400_000;
    let at = begunAt;
    const { log, path, files, lines } = open({ days: 14, now: () => at });
    log.add("info", { text: "a month ago" });
    await log.flush();
    utimesSync(join(path, files()[0]!), begunAt / 1_000, begunAt / 1_000);
    at = Date.now();
    log.add("info", { text: "now" });
    await log.flush();
    expect(lines().map(({ text }) => text)).toEqual(["now"]);
  });

  test("what is old goes also where no request comes any more: soon after the start, and then by the hour", async () => {
    const clock = manualClock();
    const { log, path, files, faults } = open({ days: 14, now: clock.now });
    const age = (name: string, days: number) => {
      const at = (clock.now() - days * 86_400_000) / 1_000;
      utimesSync(join(path, name), at, at);
    };
    const [prompts, recent] = ["requests-20251201T000000000Z.jsonl", "requests-20251225T000000000Z.jsonl"];
    for (const name of [prompts, recent, "notes.txt"]) writeFileSync(join(path, name), "{}\n");
    age(prompts, 15);
    age(recent, 13);
    age("notes.txt", 99);
    apps.push(await startApp({ requests: log, clock }));
    await clock.advance(60_000);
    await log.flush();
    expect(files()).toEqual(["notes.txt", recent]);
    age(recent, 15);
    await clock.advance(3_600_000);
    await log.flush();
    expect(files()).toEqual(["notes.txt"]);
    rmSync(path, { recursive: true });
    await clock.advance(3_600_000);
    log.add("info", { text: "next" });
    await log.flush();
    expect([files().length, faults]).toEqual([1, []]);
  });

  test("a disk that cannot be written to is told of, and stops nobody; what it cost is counted", async () => {
    const { log, path, faults, lines } = open();
    const app = await startApp({ requests: log });
    apps.push(app);
    await Bun.$`rm -rf ${path}`.quiet();
    writeFileSync(path, "a file in its place");
    const body = { model: "sluice/echo", messages: [{ role: "user", content: "Hi" }] };
    expect((await app.post("/v1/chat/completions", body)).status).toBe(200);
    await log.flush();
    expect(faults.length).toBe(1);
    log.add("info", { at: 2 });
    await log.flush();
    expect(faults.length).toBe(2);
    await Bun.$`rm -f ${path}`.quiet();
    mkdirSync(path);
    log.add("info", { at: 3 });
    await log.flush();
    expect(lines()).toEqual([
      expect.objectContaining({ at: 3 }),
      expect.objectContaining({ event: "left-out", lines: 2 }),
    ]);
  });

  test("a folder that is removed under it is made again, and nothing is lost", async () => {
    const { log, path, lines, faults } = open();
    const note = async (at: number) => {
      log.add("info", { event: "generate", request_id: `req_${at}` });
      await log.flush();
    };
    await note(1);
    rmSync(path, { recursive: true });
    await note(2);
    await note(3);
    expect(lines().map((line) => line["request_id"])).toEqual(["req_2", "req_3"]);
    if (process.platform !== "win32") expect(statSync(path).mode & 0o777).toBe(0o700);
    expect(faults).toEqual([]);
    rmSync(path, { recursive: true });
    expect(await log.removeOld()).toBeUndefined();
  });

  test("old files that cannot be removed keep no later line from being written", async () => {
    const { log, path, lines } = open();
    rmSync(path, { recursive: true });
    writeFileSync(path, "a file in its place");
    expect(await log.removeOld().catch((thrown) => (thrown as { code: string }).code)).toBe("ENOTDIR");
    rmSync(path);
    log.add("info", { event: "generate" });
    await log.flush();
    expect(lines()).toMatchObject([{ event: "generate" }]);
  });

  test("names of models are searched for secrets once, and a bounded number of them is remembered", () => {
    const searched = new Map<string, number>();
    const scrub = (text: string) => {
      searched.set(text, (searched.get(text) ?? 0) + 1);
      return text;
    };
    const { log } = open({ scrub });
    const add = (model: string) => log.add("info", { model });
    add("lab/a");
    add("lab/a");
    expect(searched.get("lab/a")).toBe(1);
    for (let at = 0; at < 1_000; at++) add(`lab/${at}`);
    add("lab/a");
    expect(searched.get("lab/a")).toBe(2);
  });

  test("what waits is bounded, and what was left out is counted", async () => {
    const { log, files, lines } = open({ maxBytes: 64 * 1024 * 1024 });
    for (let at = 0; at < 20_010; at++) log.add("info", { at });
    await log.flush();
    expect(lines().length).toBe(20_001);
    expect(lines().at(-1)).toMatchObject({ event: "left-out", lines: 10 });
    // An eighth of the bound is one file.
    expect(files()).toHaveLength(1);
  });

  test("only what became of requests is noted, and the log itself goes on as before", () => {
    const said: string[] = [];
    const noted: string[] = [];
    const base = createLog({
      level: "warn",
      write: (line) => said.push((JSON.parse(line) as { event: string }).event),
    });
    const log = withRequestLog(base, { add: (level: string) => noted.push(level) } as unknown as RequestLog);
    log.info("generate", { a: 1 });
    log.warn("generate", { a: 1 });
    log.warn("image", { a: 1 });
    log.error("settle", { a: 1 });
    expect([said, noted]).toEqual([
      ["generate", "image", "settle"],
      ["info", "warn", "warn"],
    ]);
  });
});
