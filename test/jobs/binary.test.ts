import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import {
  buildBinary,
  makeFolder,
  type RunningBinary,
  removeFolder,
  runBinary,
  startBinary,
} from "../support/binary.ts";
import { CHROMIUM } from "../support/chromium.ts";
import type { Job } from "./lab.ts";

let folder: string;
let gateway: RunningBinary;

beforeAll(async () => {
  buildBinary();
  folder = makeFolder();
  gateway = await startBinary(["serve", "--port", "0"], { folder });
}, 60_000);
afterAll(async () => {
  await gateway.stop();
  removeFolder(folder);
});

const headers = () => ({
  authorization: `Bearer ${gateway.key}`,
  "content-type": "application/json",
  prefer: "wait=30",
});
const path = () => `${gateway.url}/v1/images/generations`;

async function draw(body: Record<string, unknown>): Promise<Job & { data: [{ url: string }] }> {
  const response = await fetch(path(), { method: "POST", headers: headers(), body: JSON.stringify(body) });
  expect(response.status).toBe(202);
  const job = (await response.json()) as Job;
  expect(job).toMatchObject({ status: "succeeded" });
  return job as Job & { data: [{ url: string }] };
}

const fetchImage = async (url: string) => {
  const bytes = await (await fetch(url)).bytes();
  return { bytes, ...(await new Bun.Image(bytes).metadata()) };
};

type Drawn = Awaited<ReturnType<typeof fetchImage>>;

/** The mean colour of a part of an image, cut out by scaling rows: red, green, blue. */
async function pixels(bytes: Uint8Array, width: number, height: number): Promise<Buffer> {
  const { decodeAt } = await import("../../src/vendors/builtin/canvas-picture.ts");
  const picture = await decodeAt(bytes, width, height);
  return Buffer.from(picture.pixels);
}

describe("the executable draws", () => {
  test("the same words make the same picture, other words another one, at exactly the asked ratio", async () => {
    const size = "1920x1080";
    const dusk = { model: "sluice/canvas", prompt: "a lighthouse at dusk", size };
    const snow = { model: "sluice/canvas", prompt: "snow", size };
    // Together: four may be drawn at a time.
    const jobs = await Promise.all(
      [dusk, dusk, snow, { ...snow, style: "night" }, { model: "sluice/sketch", prompt: "a frog" }].map(draw),
    );
    expect(jobs[0]!.aspect_ratio).toBe("16:9");
    const images = await Promise.all(jobs.map(({ data }) => fetchImage(data[0].url)));
    const [image, again, other, styled, sketch] = images as [Drawn, Drawn, Drawn, Drawn, Drawn];
    expect([image.format, image.width * 9]).toEqual(["png", image.height * 16]);
    expect(Buffer.from(again.bytes).equals(Buffer.from(image.bytes))).toBe(true);
    expect(Buffer.from(other.bytes).equals(Buffer.from(image.bytes))).toBe(false);
    expect(Buffer.from(styled.bytes).equals(Buffer.from(other.bytes))).toBe(false);
    expect([sketch.format, sketch.width]).toEqual(["png", sketch.height]);
  }, 30_000);

  test("a source in a new frame: all of it, not stretched", async () => {
    const source = await draw({ model: "sluice/canvas", prompt: "moon over the sea", size: "1600x900" });
    const original = await fetchImage(source.data[0].url);
    const framed = await draw({ source_job_id: source.id, size: "900x1600" });
    expect(framed).toMatchObject({ model: "sluice/canvas", prompt: "moon over the sea", aspect_ratio: "9:16" });
    const image = await fetchImage(framed.data[0].url);
    expect(image.width * 16).toBe(image.height * 9);
    // The middle of the new picture is the old one, scaled evenly to its width.
    const height = Math.round((image.width * original.height) / original.width);
    const stride = Math.ceil((image.width * 3) / 4) * 4;
    const inner = await pixels(original.bytes, image.width, height);
    const whole = await pixels(image.bytes, image.width, image.height);
    const top = Math.floor((image.height - height) / 2);
    expect(whole.subarray(top * stride, (top + height) * stride).equals(inner)).toBe(true);
    // What is around it is no stretched copy of it, and not empty.
    expect(new Set(whole.subarray(0, top * stride)).size).toBeGreaterThan(20);
    const kept = await fetchImage(source.data[0].url);
    expect(Buffer.from(kept.bytes).equals(Buffer.from(original.bytes))).toBe(true);
  }, 30_000);

  test("HEAD, ranges and a second asking on the wire", async () => {
    const job = await draw({ model: "sluice/sketch", prompt: "a hedge" });
    const whole = await fetchImage(job.data[0].url);
    const head = await fetch(job.data[0].url, { method: "HEAD" });
    expect([head.status, head.headers.get("content-length"), head.headers.get("content-type")]).toEqual([
      ...[200, String(whole.bytes.length), "image/png"],
    ]);
    expect((await head.bytes()).length).toBe(0);
    const part = await fetch(job.data[0].url, { headers: { range: "bytes=-8" } });
    expect([part.status, part.headers.get("content-length")]).toEqual([206, "8"]);
    expect(Buffer.from(await part.bytes()).equals(Buffer.from(whole.bytes.slice(-8)))).toBe(true);
    // Of more than is read from the disk at a time the length is told as well.
    for (const [range, status, length] of [
      ["", 200, whole.bytes.length],
      ["bytes=1-", 206, whole.bytes.length - 1],
    ] as const) {
      const long = await fetch(job.data[0].url, { headers: { range } });
      expect([long.status, long.headers.get("content-length")]).toEqual([status, String(length)]);
      expect((await long.bytes()).length).toBe(length);
    }
    const etag = head.headers.get("etag") ?? "";
    for (const method of ["GET", "HEAD"]) {
      const known = await fetch(job.data[0].url, { method, headers: { "if-none-match": etag } });
      expect([known.status, known.headers.get("content-length")]).toEqual([304, null]);
    }
    for (const name of ["..%2f..%2fsluice.db", "%2e%2e/%2e%2e/sluice.db", "sluice.db"]) {
      expect((await fetch(`${gateway.url}/v1/images/files/${name}`)).status).toBe(404);
    }
  }, 30_000);

  test("the catalog lists them, `sluice usage` counts them, and the files are the user's own", async () => {
    const listed = (await (await fetch(`${gateway.url}/v1/models?modality=image`)).json()) as {
      data: { id: string; access_tier: string }[];
    };
    expect(
      listed.data.filter(({ id }) => id.startsWith("sluice/")).map(({ id, access_tier: tier }) => [id, tier]),
    ).toEqual([
      ["sluice/canvas", "paid"],
      ["sluice/sketch", "free"],
    ]);
    const { stdout } = await runBinary(["usage", "--json"], { folder });
    const rows = JSON.parse(stdout) as { model?: string; units: number }[];
    const drawn = readdirSync(join(folder, "data", "images")).filter((name) => name !== "tmp");
    expect(drawn.length).toBeGreaterThan(0);
    const units = rows.reduce((sum, row) => sum + row.units, 0);
    const list = (await (await fetch(`${path()}?limit=100`, { headers: headers() })).json()) as { data: Job[] };
    expect(units).toBe(list.data.filter(({ status }) => status === "succeeded").length);
  }, 30_000);

  const look = CHROMIUM ? test : test.skip;
  if (!CHROMIUM) console.log("no Chromium on this machine: the picture is not looked at");
  look(
    "a browser shows the picture on a page of another origin, and runs nothing of it",
    async () => {
      const job = await draw({ model: "sluice/canvas", prompt: "a forest in spring", size: "1500x1000" });
      const { url } = job.data[0];
      const profile = mkdtempSync(join(tmpdir(), "sluice-browser-"));
      const other = Bun.serve({
        ...{ port: 0, hostname: "127.0.0.1" },
        fetch: () =>
          new Response(`<!doctype html><img id="i" src="${url}" width="300">`, {
            headers: { "content-type": "text/html" },
          }),
      });
      const context = await chromium.launchPersistentContext(profile, {
        executablePath: CHROMIUM!,
        headless: true,
        args: ["--no-sandbox"],
      });
      try {
        const page = await context.newPage();
        await page.goto(`http://127.0.0.1:${other.port}/`);
        await page.waitForFunction("document.getElementById('i').complete");
        const shown = (await page.evaluate("[i.naturalWidth, i.naturalHeight]")) as [number, number];
        const image = await fetchImage(url);
        expect(shown).toEqual([image.width, image.height]);
        const direct = await page.goto(url);
        expect([direct?.status(), direct?.headers()["content-type"]]).toEqual([200, "image/png"]);
        if (process.env["SLUICE_SHOT"]) await page.screenshot({ path: process.env["SLUICE_SHOT"] });
      } finally {
        await context.close();
        void other.stop(true);
        rmSync(profile, { recursive: true, force: true });
      }
    },
    60_000,
  );
});
