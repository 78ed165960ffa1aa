import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { JOB_STATES } from "../../src/db/schema-jobs.ts";
import { readRange } from "../../src/http/images/files.ts";
import { nearestRatio, readSize, usualRatio } from "../../src/jobs/aspect-ratio.ts";
import { BadImage, inspectImage } from "../../src/jobs/inspect-image.ts";
import { isEnded, JOB_EVENTS, nextState, statesBefore, statusOf } from "../../src/jobs/job.ts";
import { retryPause } from "../../src/jobs/retry.ts";
import { readRatio } from "../../src/lib/pixels.ts";
import { PNG } from "./lab.ts";

describe("states of a job", () => {
  test("an ended job is never anything else again, and every other one can end", () => {
    const ended = JOB_STATES.filter(isEnded);
    expect(ended).toEqual(["succeeded", "failed", "blocked", "cancelled"]);
    for (const state of ended) for (const event of JOB_EVENTS) expect(nextState(state, event)).toBeUndefined();
    for (const state of JOB_STATES.filter((each) => !isEnded(each))) {
      expect(nextState(state, "fail")).toBe("failed");
      expect(nextState(state, "cancel")).toBe("cancelled");
    }
  });

  test("each event leads to one state only, and from where the table says", () => {
    for (const event of JOB_EVENTS) {
      const to = new Set(statesBefore(event).map((state) => nextState(state, event)));
      expect(to.size).toBe(1);
    }
    expect(statesBefore("claim")).toEqual(["queued"]);
    expect(statesBefore("succeed")).toEqual(["fetching"]);
    expect(statesBefore("requeue")).toEqual(["dispatched", "fetching"]);
  });

  test("callers see four states", () => {
    expect(JOB_STATES.map(statusOf)).toEqual([
      ...(["processing", "processing", "processing"] as const),
      ...(["succeeded", "failed", "blocked", "failed"] as const),
    ]);
  });

  test("a random walk ends within the table's length or stays open, and passes `claim` before it succeeds", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...JOB_EVENTS), { maxLength: 60 }), (events) => {
        let state: (typeof JOB_STATES)[number] = "queued";
        let claimed = false;
        for (const event of events) {
          const next = nextState(state, event);
          if (!next) continue;
          if (next === "dispatched") claimed = true;
          if (next === "succeeded" || next === "blocked") expect(claimed).toBe(true);
          expect(isEnded(state)).toBe(false);
          state = next;
        }
      }),
    );
  });
});

describe("aspect ratios", () => {
  const RATIOS = ["1:1", "2:3", "3:2", "9:16", "16:9", "21:9"];

  test.each([
    ["1024x1024", "1:1"],
    ["1024x1536", "2:3"],
    ["1920x1080", "16:9"],
    ["1919x1080", "16:9"],
    ["1080x1920", "9:16"],
    ["2560x1080", "21:9"],
    ["512x500", "1:1"],
    ["800x100", "21:9"],
    ["100x800", "9:16"],
  ])("%s is %s", (text, ratio) => {
    expect(nearestRatio(readSize(text) as { width: number; height: number }, RATIOS)).toBe(ratio);
  });

  test.each([
    ...["0x0", "00x00", "axb", "10:1", "16:9", "1024", "1024x", "x1024", "1024X1024", " 1024x1024", "1024x1024\n"],
    ...["-10x10", "1.5x10", "9x9", "100000x100000", "10000x1000", "1000x10000", "", "Infinityx10", "1e3x1e3"],
  ])("%j is no size", (text) => {
    expect(readSize(text)).toBe("bad");
  });

  test("auto and nothing are the model's own", () => {
    expect([readSize("auto"), readSize(undefined), readSize(null)]).toEqual([undefined, undefined, undefined]);
    expect(usualRatio(RATIOS)).toBe("1:1");
    expect(usualRatio(["4:5", "5:4"])).toBe("4:5");
  });

  test("the chosen ratio is one of the model's, none is nearer, and turning the size turns the ratio", () => {
    const side = fc.integer({ min: 10, max: 99_999 });
    fc.assert(
      fc.property(side, side, (width, height) => {
        const size = { width, height };
        const far = (ratio: string) => {
          const parts = readRatio(ratio);
          return Math.abs(Math.log(width / height) - Math.log(parts.width / parts.height));
        };
        const chosen = nearestRatio(size, RATIOS);
        expect(RATIOS).toContain(chosen);
        for (const ratio of RATIOS) expect(far(chosen)).toBeLessThanOrEqual(far(ratio) + 1e-9);
        const turned = RATIOS.map((ratio) => ratio.split(":").reverse().join(":"));
        expect(far(nearestRatio({ width: height, height: width }, turned).split(":").reverse().join(":"))).toBeCloseTo(
          far(chosen),
          9,
        );
      }),
    );
  });

  test("as near on the logarithm: the one fewer pixels apart", () => {
    // 2:1 and 1:2 are as far from a square; both cost as many pixels, so the earlier one wins.
    expect(nearestRatio({ width: 100, height: 100 }, ["2:1", "1:2"])).toBe("2:1");
    expect(nearestRatio({ width: 100, height: 100 }, ["1:2", "2:1"])).toBe("1:2");
  });
});

describe("results are believed by their bytes alone", () => {
  const text = (words: string) => new TextEncoder().encode(words);
  const header = (bytes: number[], length = 64) => Uint8Array.from({ length }, (_, at) => bytes[at] ?? 0);

  test("PNG, JPEG and WebP by their headers", async () => {
    expect(inspectImage(PNG)).toEqual({ type: "image/png", width: 2, height: 2 });
    const other = (image: Bun.Image) => image.resize(31, 17).bytes();
    expect(inspectImage(await other(new Bun.Image(PNG).jpeg()))).toEqual({ type: "image/jpeg", width: 31, height: 17 });
    expect(inspectImage(await other(new Bun.Image(PNG).jpeg({ progressive: true })))).toMatchObject({
      width: 31,
      height: 17,
    });
    expect(inspectImage(await other(new Bun.Image(PNG).webp()))).toEqual({ type: "image/webp", width: 31, height: 17 });
    expect(inspectImage(await other(new Bun.Image(PNG).webp({ lossless: true })))).toMatchObject({
      width: 31,
      height: 17,
    });
  });

  test("of an image that breaks off nothing is kept, whatever its header says; what stands behind its end is nobody's", async () => {
    const image = () => new Bun.Image(PNG).resize(31, 17);
    const whole = [PNG, await image().jpeg().bytes(), await image().jpeg({ progressive: true }).bytes()];
    whole.push(await image().webp().bytes(), await image().webp({ lossless: true }).bytes());
    for (const bytes of whole) {
      for (let length = 33; length < bytes.length - 12; length += 7) {
        expect(() => inspectImage(bytes.slice(0, length))).toThrow(BadImage);
      }
      expect(() => inspectImage(bytes.slice(0, -1))).toThrow(BadImage);
      expect(inspectImage(Buffer.concat([bytes, Buffer.from("more")]))).toEqual(inspectImage(bytes));
    }
  });

  const NONE = "is no PNG, JPEG or WebP";
  const PNG_HEAD = [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52];

  test.each([
    ["HTML", NONE, text("<!doctype html><html><body>Bad gateway</body></html>")],
    ["SVG", NONE, text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')],
    ["JSON", NONE, text('{"error":"no"}')],
    ["GIF", NONE, text("GIF89a.................................")],
    ["nothing", NONE, new Uint8Array()],
    ["a PNG's first bytes", "is damaged", PNG.slice(0, 20)],
    ["a PNG of no size", "is damaged", header(PNG_HEAD)],
    ["a PNG of too many pixels", "more than 64 megapixels", header([...PNG_HEAD, 0, 1, 0, 0, 0, 1, 0, 0])],
    ["a JPEG without a frame", "is damaged", header([0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0, 0xff, 0xd9])],
    ["more than 32 MiB", "larger than 32 MiB", header([0x89, 0x50, 0x4e, 0x47], 32 * 1024 * 1024 + 1)],
  ])("%s is refused: %s", (_name, words, bytes) => {
    expect(() => inspectImage(bytes)).toThrow(BadImage);
    expect(() => inspectImage(bytes)).toThrow(words);
  });

  test("the end of a preview is not that of its JPEG", async () => {
    const jpeg = await new Bun.Image(PNG).resize(31, 17).jpeg().bytes();
    const preview = [0xff, 0xe1, 0, 4, 0xff, 0xd9];
    const whole = Uint8Array.from([...jpeg.slice(0, 2), ...preview, ...jpeg.slice(2)]);
    expect(inspectImage(whole)).toEqual({ type: "image/jpeg", width: 31, height: 17 });
    expect(() => inspectImage(whole.slice(0, -2))).toThrow("breaks off");
  });

  test("whatever the bytes are, they are refused in words or have a size", () => {
    const magic = fc.constantFrom(
      [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10],
      [0xff, 0xd8, 0xff],
      [0x52, 0x49, 0x46, 0x46, 0, 0, 0, 0, 0x57, 0x45, 0x42, 0x50],
      [],
    );
    fc.assert(
      fc.property(magic, fc.uint8Array({ maxLength: 200 }), (first, rest) => {
        try {
          const { width, height } = inspectImage(Uint8Array.from([...first, ...rest]));
          expect(Math.min(width, height)).toBeGreaterThan(0);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(BadImage);
        }
      }),
    );
  });
});

describe("another attempt", () => {
  const facts = { tries: 1, busy: false, leftMs: 100_000, random: 0 };

  test("spread out, as late as the vendor says, and only so often", () => {
    expect(retryPause(facts)).toBe(1_000);
    expect(retryPause({ ...facts, random: 0.999_999 })).toBe(15_000);
    // Another vendor is asked at once. A fourth attempt is not made there either.
    expect(retryPause({ ...facts, elsewhere: true, random: 0.999_999 })).toBe(0);
    expect(retryPause({ ...facts, elsewhere: true, tries: 3 })).toBeUndefined();
    expect(retryPause({ ...facts, waitMs: 40_000 })).toBe(40_000);
    expect(retryPause({ ...facts, tries: 2 })).toBe(1_000);
    expect(retryPause({ ...facts, tries: 3 })).toBeUndefined();
  });

  test("a vendor that is busy costs no attempt, and the job's time bounds it", () => {
    expect(retryPause({ ...facts, tries: 99, busy: true })).toBe(1_000);
    expect(retryPause({ ...facts, waitMs: 101_000 })).toBeUndefined();
    expect(retryPause({ ...facts, leftMs: 1_000 })).toBeUndefined();
    expect(retryPause({ ...facts, leftMs: 1_001 })).toBe(1_000);
  });
});

describe("ranges of a file", () => {
  test.each([
    ["bytes=0-7", { start: 0, end: 7 }],
    ["bytes=5-", { start: 5, end: 99 }],
    ["bytes=-10", { start: 90, end: 99 }],
    ["bytes=-1000", { start: 0, end: 99 }],
    ["bytes=90-1000", { start: 90, end: 99 }],
    ["bytes=100-", "none"],
    ["bytes=-0", "none"],
    ["bytes=7-3", undefined],
    ["bytes=0-1,5-6", undefined],
    ["lines=0-1", undefined],
    ["bytes=-", undefined],
    ["bytes=a-b", undefined],
    [null, undefined],
  ])("%s", (header, range) => {
    expect(readRange(header, 100)).toEqual(range as never);
  });
});
