import { afterEach, expect, test } from "bun:test";
import { json } from "../support/upstream.ts";
import { CASES, play } from "./image-cases.ts";
import { follow, type Lab, type LabOptions, openLab, request } from "./image-lab.ts";

const KEYS = ["key-one-0123456789", "key-two-0123456789", "key-three-0123456789"];
const refused = (status = 401) => json({ error: { message: "no", type: "invalid_request_error" } }, { status });

let lab: Lab;
afterEach(() => lab.close());

function start(id: string, clock?: LabOptions["clock"]) {
  lab = openLab(id, { vendor: { apiKeys: KEYS }, ...(clock && { clock }) });
  const each = CASES.find((one) => one.id === id);
  if (!each) throw new Error(`no case of ${id}`);
  return each;
}

const keysUsed = () => lab.upstream.calls.map(({ headers }) => /key-\w+/.exec(JSON.stringify(headers))?.[0]);

/** Names of jobs, by the key that is asked first for them. */
function namesFor(count: number): string[][] {
  const names: string[][] = KEYS.map(() => []);
  for (let at = 0; names.some((some) => some.length < count); at++) {
    names[Bun.hash.crc32(`job-${at}`) % KEYS.length]?.push(`job-${at}`);
  }
  return names;
}

test("new images are spread over the keys, the same one always over the same", async () => {
  const { model, ratio, wins } = start("openai");
  const used = new Map<string, Set<unknown>>();
  for (let at = 0; at < 24; at++) {
    play(lab.upstream, wins(lab.upstream));
    expect((await follow(lab.draw, request({ model, ratio, key: `job-${at % 12}` }))).kind).toBe("image");
    const key = keysUsed().at(-1);
    used.set(`job-${at % 12}`, (used.get(`job-${at % 12}`) ?? new Set()).add(key));
  }
  expect([...used.values()].every((keys) => keys.size === 1)).toBe(true);
  expect(new Set(keysUsed()).size).toBe(KEYS.length);
});

test.each([401, 402])("a key that is refused (%p) rests, and the next one draws", async (status) => {
  const { model, ratio, wins, path } = start("openai");
  const [first = []] = namesFor(2);
  lab.upstream.answer(path, refused(status));
  play(lab.upstream, wins(lab.upstream));
  expect((await follow(lab.draw, request({ model, ratio, key: first[0] ?? "" }))).kind).toBe("image");
  expect(keysUsed()).toEqual(["key-one", "key-two"]);
  play(lab.upstream, wins(lab.upstream));
  expect((await follow(lab.draw, request({ model, ratio, key: first[1] ?? "" }))).kind).toBe("image");
  expect(keysUsed().at(-1)).toBe("key-two");
});

test("a key rests no longer where the clock on the wall is set back meanwhile", async () => {
  let wall = 7_200_000;
  let passed = 0;
  const { model, ratio, wins, path } = start("openai", { now: () => wall, monotonic: () => passed });
  const [first = []] = namesFor(2);
  lab.upstream.answer(path, refused());
  play(lab.upstream, wins(lab.upstream));
  expect((await follow(lab.draw, request({ model, ratio, key: first[0] ?? "" }))).kind).toBe("image");
  expect(keysUsed()).toEqual(["key-one", "key-two"]);
  passed += 600_001;
  wall -= 3_600_000;
  play(lab.upstream, wins(lab.upstream));
  expect((await follow(lab.draw, request({ model, ratio, key: first[1] ?? "" }))).kind).toBe("image");
  expect(keysUsed().at(-1)).toBe("key-one");
});

test("a key that is limited rests for as long as it is told, and the next one draws", async () => {
  const { model, ratio, wins, path } = start("openai");
  const [first = []] = namesFor(3);
  const limit = json({ error: { message: "slow down" } }, { status: 429, headers: { "retry-after": "60" } });
  const draw = (name: string | undefined) => follow(lab.draw, request({ model, ratio, key: name ?? "" }));
  lab.upstream.answer(path, limit);
  play(lab.upstream, wins(lab.upstream));
  expect((await draw(first[0])).kind).toBe("image");
  expect(keysUsed()).toEqual(["key-one", "key-two"]);
  play(lab.upstream, wins(lab.upstream));
  expect((await draw(first[1])).kind).toBe("image");
  expect(keysUsed().at(-1)).toBe("key-two");
  // All limited: each was asked once, and the job waits.
  lab.upstream.answer(path, limit, limit);
  expect(await draw(first[2])).toMatchObject({ kind: "failed", ran: "no", retryAfterSeconds: 60 });
  expect(keysUsed().slice(-2)).toEqual(["key-two", "key-three"]);
});

test("a vendor that is overloaded is so whatever key is used", async () => {
  const { model, ratio, path } = start("openai");
  lab.upstream.answer(path, json({ error: { message: "busy" } }, { status: 503 }));
  expect(await follow(lab.draw, request({ model, ratio }))).toMatchObject({ kind: "failed", ran: "no" });
  expect(lab.upstream.calls.length).toBe(1);
});

test("all refused: each was asked once, and another vendor may be", async () => {
  const { model, ratio, path } = start("openai");
  lab.upstream.answer(path, refused(), refused(), refused());
  const step = await follow(lab.draw, request({ model, ratio }));
  expect(step).toMatchObject({ kind: "failed", elsewhere: true });
  expect([lab.upstream.calls.length, new Set(keysUsed()).size]).toEqual([3, 3]);
  // They rest: one is asked all the same.
  lab.upstream.answer(path, refused());
  expect((await follow(lab.draw, request({ model, ratio }))).kind).toBe("failed");
  expect(lab.upstream.calls.length).toBe(4);
});

test("what is not the key's fault is asked of no other", async () => {
  const { model, ratio, path } = start("openai");
  lab.upstream.answer(path, refused(400));
  expect(await follow(lab.draw, request({ model, ratio }))).toMatchObject({ kind: "failed", fault: true });
  expect(lab.upstream.calls.length).toBe(1);
});

test("work is asked for with the key that it was begun with, also after a restart", async () => {
  const { model, ratio, wins } = start("fal");
  const [, second = []] = namesFor(1);
  play(lab.upstream, wins(lab.upstream));
  const wanted = request({ model, ratio, key: second[0] ?? "" });
  const begun = await lab.draw.create(wanted, new AbortController().signal);
  if (begun.kind !== "pending") throw new Error(begun.kind);
  let step = await lab.again().resume!(begun.resumeId, wanted, new AbortController().signal);
  while (step.kind === "pending") step = await lab.again().resume!(step.resumeId, wanted, new AbortController().signal);
  expect(step.kind).toBe("image");
  expect([...new Set(keysUsed())]).toEqual(["key-two"]);
});
