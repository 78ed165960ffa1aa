import { afterEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { openStore } from "../../src/db/open.ts";
import { JobStore } from "../../src/jobs/store.ts";
import { encodePng, newPicture } from "../../src/vendors/builtin/canvas-picture.ts";
import { manualClock } from "../support/clock.ts";
import { until, within } from "../support/wait.ts";
import { hang, IMAGE, type ImageLab, type Job, newJob, Painter, PNG, startImageLab } from "./lab.ts";

let lab: ImageLab | undefined;
afterEach(async () => {
  await lab?.stop();
  lab = undefined;
});

type Fault = { error: { code: string; param: string | null; message: string; type: string } };
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

describe("a job from its creation to its image", () => {
  test("202 with exactly the interface's fields, then the image under an address of 128 random bits", async () => {
    lab = await startImageLab();
    const before = Math.floor(Date.now() / 1000);
    const response = await lab.post({ model: "paint/priced", prompt: "a cat", size: "1500x1000", style: "ink" });
    expect(response.status).toBe(202);
    expect(response.headers.get("retry-after")).toBe("2");
    const job = (await response.json()) as Job;
    expect(job).toEqual({
      ...{ id: job.id, object: "image.generation.job", status: "processing", created: job.created },
      ...{ model: "paint/priced", prompt: "a cat", aspect_ratio: "3:2", style: "ink" },
    });
    expect(job.id).toMatch(UUID);
    expect(job.created).toBeGreaterThanOrEqual(before);
    expect(job.created).toBeLessThanOrEqual(Math.floor(Date.now() / 1000));
    const done = await lab.ended(job.id);
    const { data, ...rest } = done;
    expect(rest).toEqual({ ...job, status: "succeeded" });
    expect(data).toHaveLength(1);
    const name = data![0]!.url.replace("http://localhost/v1/images/files/", "");
    expect(name).toMatch(/^[0-9a-f]{32}\.png$/);
    expect(name).not.toContain(job.id.replaceAll("-", "").slice(0, 8));
    expect(lab.painter.creates).toHaveLength(1);
    expect(lab.painter.creates[0]).toMatchObject({
      prompt: "a cat",
      ratio: "3:2",
      style: "ink",
      size: { width: 1500, height: 1000 },
    });
    expect(lab.gateway.rows()).toMatchObject([
      { requestId: job.id, units: 1, outcome: "completed", chargedNano: 0n, vendor: "paint", attempts: 1 },
    ]);
  });

  test("it is forgotten, and its image with it, when it has been kept for as long as it is to be", async () => {
    const clock = manualClock();
    lab = await startImageLab({ clock });
    const { data, id } = await lab.ended((await lab.create()).id);
    const address = data![0]!.url.replace("http://localhost", "");
    const look = async (path: string) => (await lab!.gateway.call(path)).status;
    clock.setWall(clock.now() + 91 * 86_400_000);
    const { id: kept } = await lab.ended((await lab.create()).id);
    await clock.advance(60_000);
    // A wall clock that has jumped is believed in the next round.
    expect([await look(address), (await lab.get(`/${id}`)).status]).toEqual([200, 200]);
    await clock.advance(3_600_000);
    await until(async () => (await look(address)) === 404, "the image to be removed");
    expect([(await lab.get(`/${id}`)).status, (await lab.get(`/${kept}`)).status]).toEqual([404, 200]);
  });

  test("the file: whole, in parts, unchanged, without a key, and never as anything but an image", async () => {
    lab = await startImageLab();
    const { data } = await lab.ended((await lab.create()).id);
    const path = new URL(data![0]!.url).pathname;
    const get = (headers: Record<string, string> = {}, method = "GET") => lab!.gateway.call(path, { method, headers });
    const whole = await get();
    expect(whole.status).toBe(200);
    expect(await whole.bytes()).toEqual(PNG);
    const headers = Object.fromEntries(whole.headers);
    expect(headers).toMatchObject({
      "content-type": "image/png",
      "x-content-type-options": "nosniff",
      "content-security-policy": "default-src 'none'; sandbox",
      "cross-origin-resource-policy": "cross-origin",
      "accept-ranges": "bytes",
      "referrer-policy": "no-referrer",
    });
    expect(headers["cache-control"]).toBe("private, max-age=31536000, immutable");
    expect(headers["content-disposition"]).toStartWith("inline; filename=");
    const part = await get({ range: "bytes=1-3" });
    expect([part.status, part.headers.get("content-range"), await part.text()]).toEqual([
      206,
      `bytes 1-3/${PNG.length}`,
      "PNG",
    ]);
    const late = await get({ range: `bytes=${PNG.length}-` });
    expect([late.status, late.headers.get("content-range"), await late.text()]).toEqual([
      416,
      `bytes */${PNG.length}`,
      "",
    ]);
    const told = await get({ range: "bytes=1-3" }, "HEAD");
    expect([told.status, told.headers.get("content-range"), await told.text()]).toEqual([200, null, ""]);
    const same = await get({ "if-none-match": `"x", ${headers["etag"]}` });
    expect([same.status, await same.text()]).toEqual([304, ""]);
    expect((await get({ range: "bytes=1-3", "if-range": '"another"' })).status).toBe(200);
    expect((await get({ range: "bytes=1-3", "if-range": headers["etag"]! })).status).toBe(206);
    expect((await get({}, "POST")).status).toBe(405);
    expect((await get({}, "HEAD")).status).toBe(200);
  });

  test.each([
    ["image/jpeg", "jpg", () => new Bun.Image(PNG).jpeg().bytes()],
    ["image/webp", "webp", () => new Bun.Image(PNG).webp().bytes()],
  ] as const)(
    "a picture that its vendor made as %s is given as that, as a whole and in part",
    async (type, extension, made) => {
      lab = await startImageLab();
      const bytes = await made();
      lab.painter.create_ = [{ kind: "image", bytes }];
      const { data } = await lab.ended((await lab.create()).id);
      const path = new URL(data![0]!.url).pathname;
      expect(path).toEndWith(`.${extension}`);
      const whole = await lab.gateway.call(path);
      expect([whole.status, whole.headers.get("content-type")]).toEqual([200, type]);
      expect(await whole.bytes()).toEqual(bytes);
      const part = await lab.gateway.call(path, { headers: { range: "bytes=0-3" } });
      expect([part.status, part.headers.get("content-type")]).toEqual([206, type]);
    },
  );

  test("a large file waits on the disk for a client that takes it slowly: 64 KiB of it are read at a time", async () => {
    const picture = newPicture(600, 400);
    for (let at = 0, value = 1; at < picture.pixels.length; at++) {
      value = (value * 48_271) % 2_147_483_647;
      picture.pixels[at] = value;
    }
    const png = await encodePng(picture);
    lab = await startImageLab();
    lab.painter.create_ = [{ kind: "image", bytes: png }];
    const { data } = await lab.ended((await lab.create()).id);
    const path = new URL(data![0]!.url).pathname;
    const whole = await lab.gateway.call(path);
    const pieces: Uint8Array[] = [];
    for await (const piece of whole.body!) pieces.push(piece);
    expect(pieces.length).toBeGreaterThan(5);
    expect(Math.max(...pieces.map(({ length }) => length))).toBe(64 * 1024);
    expect(Buffer.concat(pieces).equals(png)).toBe(true);
    const part = await lab.gateway.call(path, { headers: { range: "bytes=1000-300999" } });
    expect(part.headers.get("content-length")).toBe("300000");
    expect(Buffer.from(await part.bytes()).equals(png.subarray(1_000, 301_000))).toBe(true);
  });

  test.each([
    "..%2f..%2fsluice.db",
    "..",
    "%2e%2e%2fsluice.db",
    "0123456789abcdef0123456789abcdef.svg",
    "0123456789abcdef0123456789abcdef.png",
    "0123456789ABCDEF0123456789ABCDEF.png",
    "0123456789abcdef0123456789abcdef.png%00.html",
    "tmp",
    "00",
  ])("no file of the name %s", async (name) => {
    lab = await startImageLab();
    await lab.ended((await lab.create()).id);
    const response = await lab.gateway.call(`/v1/images/files/${name}`);
    expect(response.status).toBe(404);
    expect(((await response.json()) as Fault).error.code).toBe("not_found");
  });

  test("its receipt has the unit that it was, what that cost, and who paid", async () => {
    lab = await startImageLab({ plans: { paying: { images_per_day: 0 } } });
    lab.join("paying");
    const { app, accountId, key } = lab.gateway;
    await app.book.deposit({ accountId, amountNano: 50_000_000n, reference: "real" });
    const { id } = await lab.ended((await lab.create()).id);
    const headers = { authorization: `Bearer ${key}` };
    expect(await (await lab.gateway.call(`/v1/usage/${id}`, { headers })).json()).toMatchObject({
      ...{ request_id: id, units: 1, cost: "0.020000000", charged: "0.020000000", price: null },
      lines: [{ bucket: "units", count: 1, usd_per_1m: null, usd: "0.020000000000" }],
      paid_from: [{ from: "wallet", usd: "0.020000000" }],
    });
  });

  test("blocked, failed and cancelled: what callers see, and what is counted", async () => {
    const painter = new Painter();
    painter.create_ = [
      { kind: "blocked", message: "No." },
      { kind: "failed", message: "Broken.", ran: "maybe" },
      hang().script,
    ];
    lab = await startImageLab({ painter });
    lab.join("fast");
    const blocked = await lab.ended((await lab.create()).id);
    expect(blocked).toMatchObject({ status: "blocked", error: { code: "content_policy", message: "No." } });
    expect(blocked).not.toHaveProperty("data");
    const failed = await lab.ended((await lab.create()).id);
    expect(failed).toMatchObject({ status: "failed", error: { code: "upstream_error", message: "Broken." } });
    const cancelled = await lab.cancel((await lab.create()).id);
    expect(cancelled).toMatchObject({ status: "failed", error: { code: "cancelled" } });
    expect(lab.claims().map(({ state, counted, charged }) => [state, counted, charged])).toEqual([
      ["counted", 1n, 0n],
      ["returned", 0n, 0n],
      ["returned", 0n, 0n],
    ]);
    expect(lab.gateway.rows()).toMatchObject([
      { requestId: blocked.id, units: 1, outcome: "blocked", error: "content_policy", chargedNano: 0n },
    ]);
    expect(lab.gateway.app.book.verify()).toEqual([]);
  });

  test("Prefer: wait answers when the job ends, on create and on poll, and 60 s are the most", async () => {
    const clock = manualClock();
    const painter = new Painter();
    const first = hang();
    const second = hang();
    painter.create_ = [first.script, second.script];
    lab = await startImageLab({ painter, clock });
    const asked = lab.post({ model: "paint/priced", prompt: "a cat" }, { prefer: "respond-async, wait=10" });
    await clock.armed(10_000);
    first.end(IMAGE);
    const created = await within(asked, "the end of the wait");
    expect([created.status, created.headers.get("preference-applied"), created.headers.get("retry-after")]).toEqual([
      202,
      "wait=10",
      null,
    ]);
    expect(((await created.json()) as Job).status).toBe("succeeded");
    const { id } = await lab.create();
    const polled = lab.get(`/${id}`, { prefer: "wait=900" });
    await clock.armed(60_000);
    await clock.advance(60_000);
    const late = await within(polled, "the end of the longest wait");
    expect(((await late.json()) as Job).status).toBe("processing");
    expect([late.headers.get("retry-after"), late.headers.get("preference-applied")]).toEqual(["2", "wait=60"]);
    const last = lab.get(`/${id}`, { prefer: "wait=10" });
    await clock.armed(10_000);
    second.end(IMAGE);
    const ended = await within(last, "the end of the job");
    expect([ended.headers.get("preference-applied"), ((await ended.json()) as Job).status]).toEqual([
      "wait=10",
      "succeeded",
    ]);
  });
});

describe("what is wrong with a request is told, and nothing is left of it", () => {
  const long = "x".repeat(32_001);
  const cases: [string, Record<string, unknown> | string, number, string, string | null][] = [
    ["no model", { prompt: "x" }, 400, "invalid_request", "model"],
    ["no prompt", { model: "paint/priced" }, 400, "invalid_request", "prompt"],
    ["an empty prompt", { model: "paint/priced", prompt: "" }, 400, "invalid_request", "prompt"],
    ["a blank prompt", { model: "paint/priced", prompt: " \n " }, 400, "invalid_request", "prompt"],
    ["a long prompt", { model: "paint/priced", prompt: long }, 400, "invalid_request", "prompt"],
    ["a prompt of another type", { model: "paint/priced", prompt: 7 }, 400, "invalid_request", "prompt"],
    ["n of 2", { model: "paint/priced", prompt: "x", n: 2 }, 400, "invalid_request", "n"],
    ["n of 0", { model: "paint/priced", prompt: "x", n: 0 }, 400, "invalid_request", "n"],
    ["n as text", { model: "paint/priced", prompt: "x", n: "1" }, 400, "invalid_request", "n"],
    ["size 0x0", { model: "paint/priced", prompt: "x", size: "0x0" }, 400, "invalid_request", "size"],
    ["size axb", { model: "paint/priced", prompt: "x", size: "axb" }, 400, "invalid_request", "size"],
    ["size 10:1", { model: "paint/priced", prompt: "x", size: "10:1" }, 400, "invalid_request", "size"],
    ["a size of 10:1", { model: "paint/priced", prompt: "x", size: "10000x1000" }, 400, "invalid_request", "size"],
    ["a size of another type", { model: "paint/priced", prompt: "x", size: 1024 }, 400, "invalid_request", "size"],
    ["a style of another type", { model: "paint/priced", prompt: "x", style: {} }, 400, "invalid_request", "style"],
    ["a long style", { model: "paint/priced", prompt: "x", style: "y".repeat(1_001) }, 400, "invalid_request", "style"],
    ["a model without prefix", { model: "priced", prompt: "x" }, 404, "model_not_found", "model"],
    ["a model nobody knows", { model: "nobody/knows", prompt: "x" }, 404, "model_not_found", "model"],
    ["a model that chats", { model: "sluice/echo", prompt: "x" }, 400, "invalid_request", "model"],
    ["one whose row says that it chats", { model: "paint/chats", prompt: "x" }, 400, "invalid_request", "model"],
    ["one whose row says that it embeds", { model: "paint/embeds", prompt: "x" }, 400, "invalid_request", "model"],
    [
      "a source nobody knows",
      { model: "paint/priced", prompt: "x", source_job_id: "nobody" },
      404,
      "not_found",
      "source_job_id",
    ],
    ["an empty source", { source_job_id: "" }, 404, "not_found", "source_job_id"],
    [
      "a source of another type",
      { model: "paint/priced", prompt: "x", source_job_id: 1 },
      400,
      "invalid_request",
      "source_job_id",
    ],
    ["a source without a model that is no text", { source_job_id: 1 }, 400, "invalid_request", "source_job_id"],
    ["no JSON", "{", 400, "invalid_request", null],
    ["a list", "[]", 400, "invalid_request", null],
    ["a key __proto__", '{"model":"paint/priced","prompt":"x","__proto__":{}}', 400, "invalid_request", "__proto__"],
  ];
  test.each(cases)("%s", async (_name, body, status, code, param) => {
    lab = await startImageLab();
    const response = await lab.post(body);
    const { error } = (await response.json()) as Fault;
    expect([response.status, error.code, error.param]).toEqual([status, code, param]);
    expect(error.message.length).toBeGreaterThan(5);
    expect(lab.stored()).toEqual([]);
    expect(lab.claims()).toEqual([]);
    expect(lab.painter.creates).toEqual([]);
  });

  test("a key that is for some models makes images with no other, of a source neither", async () => {
    lab = await startImageLab();
    const { id: source } = await lab.ended((await lab.create()).id);
    const narrow = { accountId: lab.gateway.accountId, name: "narrow", kind: "api", models: ["paint/f*"] } as const;
    const { key } = await lab.gateway.app.keys.create(narrow);
    for (const body of [{ model: "paint/priced", prompt: "a cat" }, { source_job_id: source }]) {
      const refused = await lab.post(body, {}, key);
      const { error } = (await refused.json()) as Fault;
      expect([refused.status, error.code, error.param]).toEqual([403, "permission_denied", "model"]);
    }
    expect((await lab.post({ model: "paint/free", prompt: "a cat" }, {}, key)).status).toBe(202);
    expect(lab.stored()).toHaveLength(2);
  });

  test("fields that no image is made by are named, also when the answer comes again, and refused where nothing may be lost", async () => {
    lab = await startImageLab();
    const body = {
      ...{ model: "paint/priced", prompt: "a cat", n: 1, size: "1024x1024", style: "ink", source_job_id: null },
      ...{ quality: "high", "né\r\nx: y": 1, user: "", response_format: null },
    };
    const headers = { "idempotency-key": "one" };
    for (const replayed of [null, "true"]) {
      const told = await lab.post(body, headers);
      expect([told.status, told.headers.get("x-sluice-dropped"), told.headers.get("idempotency-replayed")]).toEqual([
        ...[202, "quality, n???x:?y", replayed],
      ]);
    }
    const whole = await lab.post({ model: "paint/priced", prompt: "a cat" }, { "x-sluice-strict": "1" });
    expect([whole.status, whole.headers.get("x-sluice-dropped")]).toEqual([202, null]);
    expect(lab.stored()).toHaveLength(2);
    const strict = await lab.post({ model: "paint/priced", prompt: "a cat", seed: 4 }, { "x-sluice-strict": "1" });
    const { error } = (await strict.json()) as Fault;
    expect([strict.status, error.code, error.param]).toEqual([400, "invalid_request", "seed"]);
    expect(lab.stored()).toHaveLength(2);
  });

  test("32,000 characters pass, however many units of text they take", async () => {
    lab = await startImageLab();
    const job = await lab.create({ prompt: "🖼".repeat(32_000) });
    expect((await lab.ended(job.id)).prompt.length).toBe(64_000);
    expect((await lab.post({ model: "paint/priced", prompt: "🖼".repeat(32_001) })).status).toBe(400);
  });

  test("a style of 1,000 characters passes, however many units of text they take", async () => {
    lab = await startImageLab();
    const style = "🖼".repeat(1_000);
    expect((await lab.create({ prompt: "a cat", style })).style).toBe(style);
    const over = (await (await lab.post({ model: "paint/priced", prompt: "x", style: `${style}x` })).json()) as Fault;
    expect(over.error).toMatchObject({ param: "style", message: expect.stringContaining("1000 characters") });
    // What else is wrong beside such a style is told.
    const other = (await (await lab.post({ model: "paint/priced", prompt: "x", style, n: 2 })).json()) as Fault;
    expect(other.error.param).toBe("n");
  });

  test.each(["\u0000", "\u0000 a cat", "a \u0000 cat", "\ud800", "__proto__", "'; DROP TABLE image_job; --"])(
    "the prompt %j is drawn like any other",
    async (prompt) => {
      lab = await startImageLab();
      const job = await lab.ended((await lab.create({ prompt })).id);
      expect([job.status, job.prompt]).toEqual(["succeeded", prompt.toWellFormed()]);
    },
  );

  test.each(["yesterday", "2026-01-01", "2026-01-01T00:00:00Z", "2026-02-30T00:00:00.000Z", "1700000000", ""])(
    "before=%s is no time",
    async (before) => {
      lab = await startImageLab();
      const response = await lab.get(`?before=${encodeURIComponent(before)}`);
      const { error } = (await response.json()) as Fault;
      expect([response.status, error.param]).toEqual([400, "before"]);
    },
  );

  test.each(["0", "101", "-1", "1.5", "x", ""])("limit=%s is none", async (limit) => {
    lab = await startImageLab();
    const response = await lab.get(`?limit=${limit}`);
    expect([response.status, ((await response.json()) as Fault).error.param]).toEqual([400, "limit"]);
  });

  test("nobody sees, polls, cancels or re-frames another account's job, nor learns that there is one", async () => {
    lab = await startImageLab();
    const mine = await lab.ended((await lab.create()).id);
    const other = await lab.account("other");
    const unknown = "01a1fed3-b5a8-72ac-9e63-6e6cb2e9b9e7";
    const told = async (id: string) => {
      const seen = await lab!.get(`/${id}`, {}, other.key);
      const gone = await lab!.gateway.call(`/v1/images/generations/${id}`, {
        method: "DELETE",
        headers: { authorization: `Bearer ${other.key}` },
      });
      const framed = await lab!.post({ source_job_id: id, size: "100x150" }, {}, other.key);
      return [seen.status, await seen.text(), gone.status, await gone.text(), framed.status, await framed.text()];
    };
    expect(await told(mine.id)).toEqual(await told(unknown));
    expect((await told(mine.id))[0]).toBe(404);
    expect(((await (await lab.get("", {}, other.key)).json()) as { data: unknown[] }).data).toEqual([]);
    expect((await lab.show(mine.id)).status).toBe("succeeded");
    expect((await lab.get(`/${mine.id}`, { authorization: "Bearer nothing-valid" })).status).toBe(401);
  });
});

describe("another frame for an image that is there", () => {
  test("prompt and model are the source's, the original stays, and one unit more is counted", async () => {
    lab = await startImageLab();
    const source = await lab.ended((await lab.create({ prompt: "a cat", style: "ink" })).id);
    const framed = await lab.post({ source_job_id: source.id, size: "1000x1500" });
    expect(framed.status).toBe(202);
    const job = (await framed.json()) as Job;
    expect(job).toMatchObject({ model: "paint/priced", prompt: "a cat", aspect_ratio: "2:3", style: null });
    await lab.ended(job.id);
    const [, asked] = lab.painter.creates;
    // What nobody has said its vendor is not asked for.
    const said = lab.painter.creates.map((request) => ["size" in request, "style" in request]);
    expect(said).toEqual([
      [false, true],
      [true, false],
    ]);
    expect(asked?.source).toMatchObject({ type: "image/png" });
    expect(Buffer.from(asked!.source!.bytes).equals(PNG)).toBe(true);
    expect(asked?.prompt).toContain("2:3");
    expect(await lab.show(source.id)).toEqual(source);
    expect(lab.gateway.rows()).toHaveLength(2);
  });

  test("words of the caller's own are not added to", async () => {
    lab = await startImageLab();
    const source = await lab.ended((await lab.create()).id);
    const job = await lab.create({ source_job_id: source.id, prompt: "now in red" });
    await lab.ended(job.id);
    expect(job.aspect_ratio).toBe(source.aspect_ratio);
    expect(lab.painter.creates[1]?.prompt).toBe("now in red");
  });

  test("no source that has not succeeded, and no model that takes none", async () => {
    const painter = new Painter();
    const waiting = hang();
    painter.create_ = [IMAGE, { kind: "failed", message: "Broken.", ran: "maybe" }, waiting.script];
    lab = await startImageLab({ painter });
    const source = await lab.ended((await lab.create()).id);
    const failed = await lab.ended((await lab.create()).id);
    const running = await lab.create();
    for (const { id } of [failed, running]) {
      const response = await lab.post({ source_job_id: id, size: "100x100" });
      expect([response.status, ((await response.json()) as Fault).error.param]).toEqual([404, "source_job_id"]);
    }
    painter.takesSource = false;
    const response = await lab.post({ source_job_id: source.id, size: "100x100" });
    expect([response.status, ((await response.json()) as Fault).error.param]).toEqual([400, "model"]);
    expect(lab.stored()).toHaveLength(3);
    waiting.end(IMAGE);
  });

  test("a source that is forgotten before its copy is drawn", async () => {
    const clock = manualClock();
    const painter = new Painter();
    const busy = Array.from({ length: 4 }, () => hang());
    painter.create_ = [IMAGE, ...busy.map(({ script }) => script), IMAGE];
    lab = await startImageLab({ painter, clock });
    const source = await lab.ended((await lab.create()).id);
    for (const _ of busy) await lab.create();
    const framed = await lab.create({ source_job_id: source.id });
    await lab.gateway.app.jobs.files.remove(new URL(source.data![0]!.url).pathname.split("/").at(-1)!);
    for (const { end } of busy) end(IMAGE);
    expect(await lab.ended(framed.id)).toMatchObject({ status: "failed", error: { code: "source_gone" } });
    expect(painter.creates).toHaveLength(5);
    // It is no failing of the vendor's.
    expect(lab.gateway.app.services.health?.of("paint")).toMatchObject({ served: 5, failed: 0 });
  });
});

describe("pages", () => {
  test("newest first, 20 a page, next_before null on the last", async () => {
    lab = await startImageLab();
    const ids: string[] = [];
    for (let at = 0; at < 41; at++) ids.push((await lab.create({ prompt: `${at}` })).id);
    const seen: string[] = [];
    const sizes: number[] = [];
    let next: string | null = "";
    while (next !== null) {
      const query: string = next === "" ? "" : `?before=${next}`;
      const page = (await (await lab.get(query)).json()) as { object: string; data: Job[]; next_before: string | null };
      expect(page.object).toBe("list");
      sizes.push(page.data.length);
      seen.push(...page.data.map(({ id }) => id));
      next = page.next_before;
      if (next !== null) expect(next).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    }
    expect(sizes).toEqual([20, 20, 1]);
    expect(seen).toEqual(ids.toReversed());
    const whole = (await (await lab.get("?limit=41")).json()) as { data: Job[]; next_before: string | null };
    expect([whole.data.length, whole.next_before]).toEqual([41, null]);
  });

  test("any history, ties, clock steps back and jobs that come between pages: each job exactly once", () => {
    const steps = fc.array(
      fc.record({
        account: fc.integer({ min: 0, max: 2 }),
        stepMs: fc.oneof(fc.constant(0), fc.integer({ min: -3_600_000, max: 50 })),
      }),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 7 }), fc.nat({ max: 9 }), (history, limit, between) => {
        const store = openStore(":memory:");
        try {
          const jobs = new JobStore(store);
          const made: string[][] = [[], [], []];
          let now = 1_790_000_000_000;
          const add = (account: number) => {
            const job = newJob({ accountId: `a${account}`, createdMs: now, runAfterMs: now, deadlineMs: now });
            jobs.insert(job);
            made[account]!.push(job.id);
          };
          for (const { account, stepMs } of history) {
            now += stepMs;
            add(account);
          }
          const wanted = made.map((ids) => ids.toReversed());
          for (const [account, ids] of wanted.entries()) {
            const seen: string[] = [];
            let before: number | undefined = Number.MAX_SAFE_INTEGER;
            while (before !== undefined) {
              const page = jobs.page(`a${account}`, before, limit + 1);
              seen.push(...page.slice(0, limit).map(({ id }) => id));
              before = page.length > limit ? page[limit - 1]?.sortMs : undefined;
              // What comes while somebody turns pages is on none that are still to come.
              for (let at = 0; at < between; at++) add(account);
            }
            expect(seen).toEqual(ids);
          }
        } finally {
          store.close();
        }
      }),
      { numRuns: 40 },
    );
  });
});

describe("an Idempotency-Key", () => {
  test("makes one job, whose answer comes again", async () => {
    lab = await startImageLab();
    const headers = { "idempotency-key": "one" };
    const first = await lab.post({ model: "paint/priced", prompt: "a cat" }, headers);
    const again = await lab.post({ model: "paint/priced", prompt: "a cat" }, headers);
    expect([first.status, again.status]).toEqual([202, 202]);
    expect([first.headers.get("idempotency-replayed"), again.headers.get("idempotency-replayed")]).toEqual([
      null,
      "true",
    ]);
    expect(await again.json()).toEqual(await first.json());
    const other = await lab.post({ model: "paint/priced", prompt: "a dog" }, headers);
    expect([other.status, ((await other.json()) as Fault).error.code]).toEqual([422, "idempotency_key_reused"]);
    expect(lab.stored()).toHaveLength(1);
  });

  test("is kept in the transaction of its job: a process that dies before it answers makes no second one", async () => {
    const clock = manualClock();
    const painter = new Painter();
    painter.create_ = [hang().script];
    lab = await startImageLab({ clock, painter });
    // This answer is never given: its client waits, and the answer that is kept is the one of the moment the job was written.
    const stopWaiting = new AbortController();
    const headers = { "idempotency-key": "two", prefer: "wait=50" };
    const asked = lab.gateway.post(
      "/v1/images/generations",
      { model: "paint/priced", prompt: "a cat" },
      { headers, signal: stopWaiting.signal },
    );
    await clock.armed(50_000);
    const again = await lab.post({ model: "paint/priced", prompt: "a cat" }, { "idempotency-key": "two" });
    expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([202, "true"]);
    stopWaiting.abort();
    expect(((await (await asked).json()) as Job).id).toBe(((await again.json()) as Job).id);
    expect(lab.stored()).toHaveLength(1);
  });

  test("of a refused request stays free", async () => {
    lab = await startImageLab();
    const headers = { "idempotency-key": "three" };
    expect((await lab.post({ model: "paint/priced", prompt: "" }, headers)).status).toBe(400);
    expect((await lab.post({ model: "paint/priced", prompt: "a cat" }, headers)).status).toBe(202);
  });
});
