import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { startApp, type TestApp } from "../support/app.ts";
import { type ManualClock, manualClock } from "../support/clock.ts";
import { type Answer, html, json, type Script } from "../support/upstream.ts";
import { until } from "../support/wait.ts";
import { type Lab, openLab, PNG, PNG_BASE64, VENDOR_KEY } from "../vendors/image-lab.ts";

/** USD 0.02, and USD 1 to pay it from. */
const UNIT_NANO = 20_000_000n;
const FUNDS_NANO = 1_000_000_000n;
/** A job has five minutes (reliability 5.2 #5). */
const JOB_MS = 300_000;

/** One vendor that answers with the image, one that does its work under a name. */
const ANSWERS = { create: "/v1/images/generations", model: "lab/answers" };
const WORKS = { create: "/v1/models/owner/m/predictions", poll: "/v1/predictions/p1", model: "lab/works" };

let clock: ManualClock;
let gateway: TestApp;
let openai: Lab;
let replicate: Lab;
beforeAll(async () => {
  clock = manualClock();
  openai = openLab("openai");
  replicate = openLab("replicate");
  const row = (id: string, vendor: string, model: string) => ({
    ...{ id, modality: "image" as const, pricing: { per_image: 0.02 }, routes: [{ vendor, model }] },
  });
  gateway = await startApp({
    vendors: [openai.vendor, replicate.vendor],
    models: [row(ANSWERS.model, "openai", "gpt-image-2"), row(WORKS.model, "replicate", "owner/m")],
    config: { plans: { paying: { requests_per_minute: 1_000_000, image_jobs_in_flight: 100, images_per_day: 0 } } },
    clock,
  });
  const { accountId, store } = gateway;
  store.database.run("UPDATE account SET plan = 'paying' WHERE id = ?", [accountId]);
  gateway.app.keys.reload();
  await gateway.app.book.deposit({ accountId, amountNano: FUNDS_NANO, reference: "funds" });
});
afterEach(async () => {
  openai.upstream.reset();
  replicate.upstream.reset();
  gateway.log.length = 0;
  // So many images may be asked for in a minute.
  await clock.advance(60_000);
});
afterAll(async () => {
  // There is none where the suite is held against an executable: these vendors draw inside the test.
  if (gateway) expect(gateway.app.book.verify()).toEqual([]);
  await gateway?.stop();
  openai.close();
  replicate.close();
});

const balance = () => gateway.app.book.balance(gateway.accountId);
type Job = { id: string; status: string; data?: { url: string }[]; error?: { code: string; message: string } };

const show = async (id: string): Promise<Job> => {
  // Polls have a limit of their own, and the clock stands still.
  await clock.advance(1_000);
  const headers = { authorization: `Bearer ${gateway.key}` };
  return (await (await gateway.call(`/v1/images/generations/${id}`, { headers })).json()) as Job;
};

/** Asks for an image and waits until its job has ended; time passes only for a vendor that is to be polled, at most as long as a job may take. */
async function draw(model: string): Promise<Job> {
  const response = await gateway.post("/v1/images/generations", { model, prompt: "a fox" });
  expect(response.status).toBe(202);
  const { id } = (await response.json()) as Job;
  const row = gateway.store.database.query("SELECT vendor_job, ended_ms FROM image_job WHERE id = ?");
  const isOver = () => row.values(id)[0]?.[1] !== null;
  await until(() => isOver() || row.values(id)[0]?.[0] !== null, "the vendor's answer");
  const givenUpAt = clock.monotonic() + 2 * JOB_MS;
  while (!isOver() && clock.monotonic() < givenUpAt) {
    await clock.advance(500);
    // A call takes its own time.
    await Bun.sleep(1);
  }
  return show(id);
}

const file = (body: Uint8Array | string, type = "image/png"): Answer => ({
  headers: { "content-type": type },
  parts: typeof body === "string" ? [body] : [body],
  framing: "length",
  finish: "end",
});
const link = (url: string) => json({ data: [{ url }] });
const SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';

/** Reliability 8.3, 29: what comes in place of an image. */
const RESULTS: [name: string, answer: Answer, own?: Answer][] = [
  ["an internal URL", link("https://169.254.169.254/latest/meta-data")],
  ["a URL of this machine", link("http://127.0.0.1:9/x.png")],
  ["a file of this machine", link("file:///etc/passwd")],
  ["0 bytes", link("/own"), file("")],
  ["HTML as PNG", link("/own"), file("<!doctype html><html>Sign in</html>")],
  ["SVG", link("/own"), file(SVG, "image/svg+xml")],
  ["SVG as PNG", link("/own"), file(SVG)],
  ["an expired link", link("/own"), html(403)],
  ["a link that is gone", link("/own"), html(404)],
  ["bad base64", json({ data: [{ b64_json: "!!! this is no base64 ???" }] })],
  ["base64 of a page", json({ data: [{ b64_json: Buffer.from("<html>").toString("base64") }] })],
  ["half of an image's base64", json({ data: [{ b64_json: PNG_BASE64.slice(0, 8) }] })],
  ["a number for base64", json({ data: [{ b64_json: 7 }] })],
  ["no data", json({ data: [] })],
  ["nothing", json({})],
];

const state = (status: string, more: Record<string, unknown> = {}) => json({ id: "p1", status, ...more });
const DONE = state("succeeded", { output: `data:image/png;base64,${PNG_BASE64}` });
const gone = () => json({ detail: "Not found." }, { status: 404 });

/** Reliability 8.3, 30: what a poll may be told; the last one again and again. */
const POLLS: [name: string, polls: readonly Answer[], ends: "succeeded" | "failed", code?: string][] = [
  ["its state flaps", [state("processing"), state("starting"), state("processing"), DONE], "succeeded"],
  ["the vendor flaps", [state("processing"), html(502), json({}, { status: 429 }), html(500), DONE], "succeeded"],
  ["404 later", [state("processing"), gone()], "failed", "upstream_error"],
  ["it never ends", [state("processing")], "failed", "timeout"],
  ["a state that nobody knows", [state("dreaming")], "failed", "upstream_error"],
  ["it succeeds twice", [DONE, DONE], "succeeded"],
  ["it succeeds, and fails behind", [DONE, state("failed", { error: "CUDA out of memory" })], "succeeded"],
  ["it fails, and succeeds behind", [state("failed", { error: "CUDA out of memory" }), DONE], "failed"],
];

/** What is told of a job that failed: its code, and nothing of the vendor's. */
function expectFailed(job: Job): void {
  expect(job).toMatchObject({ status: "failed" });
  expect(job.data).toBeUndefined();
  expect(job.error?.message).toMatch(/^[A-Z]/);
  const told = JSON.stringify(job);
  for (const word of [VENDOR_KEY, "127.0.0.1", "169.254", "passwd", "<html"]) expect(told).not.toContain(word);
}

const creates = ({ upstream }: Lab) => upstream.calls.filter(({ method }) => method === "POST");

describe("29 what is no image", () => {
  const cases = RESULTS.map(([name, answer, own]) => ({ name, answer, own }));
  test.each(cases)("$name: failed, uncharged, asked for once", async ({ answer, own }) => {
    const before = balance();
    openai.upstream.answer(ANSWERS.create, answer);
    if (own) openai.upstream.always("/own", own);
    expectFailed(await draw(ANSWERS.model));
    expect(creates(openai)).toHaveLength(1);
    expect(openai.upstream.unexpected).toEqual([]);
    expect(balance()).toEqual(before);
    expect(JSON.stringify(gateway.log)).not.toContain(VENDOR_KEY);
  });
});

describe("30 polls", () => {
  const cases = POLLS.map(([name, polls, ends, code]) => ({ name, polls, ends, code }));
  test.each(cases)("$name", async ({ polls, ends, code }) => {
    const before = balance();
    replicate.upstream.answer(WORKS.create, state("starting"));
    let at = 0;
    const script: Script = () => polls[Math.min(at++, polls.length - 1)] as Answer;
    replicate.upstream.always(WORKS.poll, script);
    replicate.upstream.always(`${WORKS.poll}/cancel`, json({}));
    const job = await draw(WORKS.model);
    expect(creates(replicate).filter(({ path }) => path === WORKS.create)).toHaveLength(1);
    expect(replicate.upstream.unexpected).toEqual([]);
    if (ends === "failed") {
      expectFailed(job);
      if (code) expect(job.error?.code).toBe(code);
      expect(balance()).toEqual(before);
    } else {
      expect([job.status, job.data?.length]).toEqual(["succeeded", 1]);
      const image = await gateway.call(new URL(job.data?.[0]?.url ?? "").pathname);
      expect(Buffer.from(await image.arrayBuffer()).equals(PNG)).toBe(true);
      expect(balance().postedNano).toBe(before.postedNano - UNIT_NANO);
      expect(balance().heldNano).toBe(0n);
    }
    // What has ended stays as it is: the vendor is not asked again, and nothing more is charged.
    const asked = replicate.upstream.calls.length;
    const after = balance();
    await clock.advance(60_000);
    expect(await show(job.id)).toEqual(job);
    expect([replicate.upstream.calls.length, balance()]).toEqual([asked, after]);
  });
});
