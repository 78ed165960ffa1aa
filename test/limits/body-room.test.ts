import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { Abort } from "../../src/lib/abort.ts";
import { Admission } from "../../src/limits/admission.ts";
import { BodyRoom, type Place } from "../../src/limits/body-room.ts";
import { NO_MEMORY, Overloaded } from "../../src/limits/overloaded.ts";
import { chatStream, chunk } from "../dialects/crossing.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { manualClock, settle } from "../support/clock.ts";
import { sse, startUpstream } from "../support/upstream.ts";
import { gate, until } from "../support/wait.ts";

const MIB = 1024 * 1024;

/** A room on a machine with so much memory, in MiB, of which more is used once `isFull`. */
function room(memoryMib: number) {
  const clock = manualClock();
  const state = { isFull: false, refused: 0 };
  const bodies = new BodyRoom({
    ...{ clock, memoryBytes: memoryMib * MIB },
    check: () => {
      if (state.isFull) throw NO_MEMORY;
    },
    onRefused: () => {
      state.refused++;
    },
  });
  /** What became of those who asked, in the order in which that came about. */
  const inside: string[] = [];
  const refused: string[] = [];
  const places = new Map<string, Place>();
  const ask = (name: string, mib: number) => {
    bodies.enter(mib * MIB).then(
      (place) => {
        places.set(name, place);
        inside.push(name);
      },
      (thrown) => {
        if (!(thrown instanceof Overloaded)) throw thrown;
        refused.push(name);
      },
    );
  };
  return { clock, state, bodies, inside, refused, places, ask };
}

describe("room for large bodies", () => {
  test("an eighth of the memory at a time; the others come in in their order, as soon as there is room", async () => {
    const { bodies, inside, places, ask } = room(512);
    for (const name of ["a", "b", "c"]) ask(name, 30);
    ask("small", 1);
    await settle();
    expect([inside, bodies.used, bodies.waiting]).toEqual([["a", "b"], 60 * MIB, 2]);
    places.get("a")?.leave();
    places.get("a")?.leave();
    // A later round of its reply has been sent.
    places.get("a")?.rest();
    await settle();
    expect([inside, bodies.used]).toEqual([["a", "b", "c", "small"], 61 * MIB]);
  });

  test("what turned out smaller, and what is only kept, makes room for others", async () => {
    const { bodies, inside, places, ask } = room(512);
    for (const name of ["a", "b", "c", "d"]) ask(name, 32);
    await settle();
    places.get("a")?.shrink(MIB);
    places.get("a")?.shrink(5 * MIB);
    await settle();
    expect([inside.length, bodies.used]).toEqual([2, 33 * MIB]);
    places.get("b")?.rest();
    await settle();
    expect([inside, bodies.used]).toEqual([["a", "b", "c"], 41 * MIB]);
    for (const place of places.values()) place.leave();
    await settle();
    expect([inside.length, bodies.used]).toEqual([4, 32 * MIB]);
  });

  test("of what turned out smaller a quarter is kept", async () => {
    const { bodies, places, ask } = room(512);
    ask("a", 32);
    await settle();
    places.get("a")?.shrink(8 * MIB);
    places.get("a")?.rest();
    expect(bodies.used).toBe(2 * MIB);
  });

  test("whose client leaves waits no longer", async () => {
    const { clock, bodies, inside, ask } = room(64);
    const left = new Abort();
    ask("a", 30);
    const waiting = bodies.enter(32 * MIB, left);
    ask("b", 1);
    expect(bodies.waiting).toBe(2);
    await settle();
    left.abort(new Error("gone"));
    await expect(waiting).rejects.toThrow("gone");
    await settle();
    // A small one behind it has room.
    expect([bodies.waiting, inside, clock.pending]).toEqual([0, ["a", "b"], 0]);
  });

  test("the largest body finds room on the smallest machine, by itself", async () => {
    const { inside, places, ask } = room(64);
    for (const name of ["a", "b"]) ask(name, 32);
    await settle();
    expect(inside).toEqual(["a"]);
    places.get("a")?.leave();
    await settle();
    expect(inside).toEqual(["a", "b"]);
  });

  test("nobody waits for longer than ten seconds, nor where too many do, nor where there is no memory left", async () => {
    const { clock, state, bodies, inside, refused, ask } = room(512);
    for (const name of ["a", "b", "late"]) ask(name, 32);
    for (let each = 0; each < 128; each++) ask(`small ${each}`, 0.5);
    await settle();
    expect([refused, bodies.waiting]).toEqual([["small 127"], 128]);
    await clock.advance(10_000);
    expect([inside, refused.length, bodies.waiting]).toEqual([["a", "b"], 129, 0]);
    expect(state.refused).toBe(129);
    state.isFull = true;
    ask("no memory", 0.5);
    await settle();
    expect([refused.at(-1), clock.pending]).toEqual(["no memory", 0]);
  });

  test("who waits behind one that gives up comes in where there is room for him", async () => {
    const { clock, inside, refused, ask } = room(64);
    for (const name of ["a", "late"]) ask(name, 30);
    await clock.advance(9_000);
    ask("small", 1);
    await clock.advance(1_000);
    expect([inside, refused]).toEqual([["a", "small"], ["late"]]);
  });
});

describe("at the door", () => {
  let app: TestApp;
  let clock: ReturnType<typeof manualClock>;
  let admission: Admission;

  beforeAll(async () => {
    app = await startApp();
    clock = manualClock();
    admission = new Admission({ clock, memoryBytes: 256 * MIB, readMemory: () => 0, running: () => 0 });
    app.app.services.admission = admission;
  });
  afterAll(() => app.stop());

  const ask = (path: string, length: number) => {
    const body = { model: "sluice/echo", messages: [{ role: "user", content: "a".repeat(length) }], max_tokens: 5 };
    return app.post(path, body, { headers: { authorization: `Bearer ${app.key}` } });
  };
  const PATHS = ["/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"];

  test("a large body waits while there is no room, a small one does not; nothing is left of either", async () => {
    const taken = await admission.bodies.enter(32 * MIB);
    let answered = 0;
    const large = PATHS.map((path) =>
      ask(path, 300_000).then((response) => {
        answered++;
        return response;
      }),
    );
    while (admission.bodies.waiting < PATHS.length) await settle(1);
    for (const path of PATHS) expect((await ask(path, 1_000)).status).toBe(200);
    expect(answered).toBe(0);
    taken.leave();
    for (const response of await Promise.all(large)) expect(response.status).toBe(200);
    expect([admission.bodies.used, admission.bodies.waiting]).toEqual([0, 0]);
  });

  test("who has waited for too long is told so in his dialect", async () => {
    const taken = await admission.bodies.enter(32 * MIB);
    const large = PATHS.map((path) => ask(path, 300_000));
    while (admission.bodies.waiting < PATHS.length) await settle(1);
    await clock.advance(10_000);
    const told = await Promise.all(large);
    expect(told.map(({ status, headers }) => [status, headers.get("retry-after")])).toEqual([
      [503, "1"],
      [529, "1"],
      [529, "1"],
    ]);
    expect(admission.shed.memory).toBe(PATHS.length);
    taken.leave();
    expect(admission.bodies.used).toBe(0);
  });
});

describe("a large body at its vendor", () => {
  const upstream = startUpstream();
  afterEach(() => upstream.reset());
  afterAll(() => upstream.close());

  test("counts for a quarter once it was sent, also behind early headers, until its answer begins", async () => {
    const clock = manualClock();
    const app = await startApp({ vendors: [vendorAt(upstream, "chat", "far")], clock });
    const { admission } = app.app.services;
    if (!admission) throw new Error("nobody is admitted");
    const head = gate();
    const answer = sse(chatStream(chunk({ content: "Well." }, "stop")));
    upstream.answer("/v1/chat/completions", { ...answer, headersAfter: head.opened });
    const length = 400_000;
    const messages = [{ role: "user", content: "a".repeat(length) }];
    const asked = app.post("/v1/chat/completions", { model: "far/m", stream: true, messages });
    await upstream.called();
    await until(() => admission.bodies.used < length, "the request to be sent");
    const kept = admission.bodies.used;
    expect([kept > length / 4, kept < length / 4 + 100]).toEqual([true, true]);
    await clock.advance(5_000);
    const response = await asked;
    expect(admission.bodies.used).toBe(kept);
    head.open();
    expect(await response.text()).toContain("Well.");
    expect(admission.bodies.used).toBe(0);
    await app.stop();
  });
});

test.each(["/mcp/web", "/v1/web/fetch", "/v1/images/generations"])(
  "a large body for %s waits for room as well",
  async (path) => {
    const app = await startApp();
    const { admission } = app.app.services;
    if (!admission) throw new Error("nobody is admitted");
    const { bodies } = admission;
    const all = await bodies.enter(513 * MIB);
    const asked = app.post(path, { padding: "a".repeat(300_000) });
    while (bodies.waiting === 0) await settle(1);
    all.leave();
    expect((await asked).status).toBe(400);
    expect([bodies.used, bodies.waiting]).toEqual([0, 0]);
    await app.stop();
  },
);
