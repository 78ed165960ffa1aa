import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { Admission } from "../../src/limits/admission.ts";
import { memoryBound } from "../../src/limits/memory-share.ts";
import { Overloaded } from "../../src/limits/overloaded.ts";
import { startApp, type TestApp } from "../support/app.ts";

const MIB = 1024 * 1024;

/** A machine of two processors with some memory, of which so many thousandths are used, whose event loop is turned by hand. */
function machine(memoryBytes = 8 * 1024 * MIB) {
  const state = { now: 0, used: 0, garbage: 0, reads: 0, running: 1_000, failing: false, waited: 0 };
  const turns: (() => void)[] = [];
  const admission = new Admission({
    ...{ memoryBytes, running: () => state.running, storeFails: () => state.failing, waitedMs: () => state.waited },
    readMemory: () => {
      state.reads++;
      return ((state.used + state.garbage) * memoryBytes) / 1_000;
    },
    collect: () => {
      state.garbage = 0;
    },
    clock: { now: () => state.now, monotonic: () => state.now, after: () => () => {} },
    nextTurn: (work) => turns.push(work),
  });
  /** What became of those who asked, by their names. */
  const inside: number[] = [];
  const refused: number[] = [];
  let asked = 0;
  /** One asks to come in. */
  const ask = ({ aborted = false, bytes = 10 } = {}) => {
    const name = asked++;
    const headers = new Headers(Number.isNaN(bytes) ? {} : { "content-length": String(bytes) });
    try {
      const turn = admission.enter({ left: { aborted }, headers });
      if (!turn) inside.push(name);
      turn?.then(
        () => inside.push(name),
        (thrown) => {
          if (!(thrown instanceof Overloaded)) throw thrown;
          refused.push(name);
        },
      );
    } catch (thrown) {
      if (!(thrown instanceof Overloaded)) throw thrown;
      refused.push(name);
    }
  };
  /** The loop turns once, which takes so long, and stands still for the disk for so long of it, ms. */
  const turn = async (tookMs = 1, waitedMs = 0) => {
    state.now += tookMs;
    state.waited += waitedMs;
    for (const work of turns.splice(0)) work();
    await Promise.resolve();
    await Promise.resolve();
  };
  return {
    ...{ state, admission, inside, refused, turns, ask, turn },
    askMany: (count: number) => {
      for (let each = 0; each < count; each++) ask();
    },
    /** Ten come with each turn of 10 ms, which is more than are let in, for so long (ms). Gives the most that one turn refused. */
    overload: async (forMs: number) => {
      let most = 0;
      for (const until = state.now + forMs; state.now < until; ) {
        for (let each = 0; each < 10; each++) ask();
        const before = refused.length;
        await turn(10);
        most = Math.max(most, refused.length - before);
      }
      return most;
    },
  };
}

describe("admission by turns (reliability 4)", () => {
  test("asks nobody to wait, and for no turn, while little is under way", () => {
    const { state, inside, askMany, turns, admission } = machine();
    state.running = 7;
    askMany(500);
    expect([inside.length, turns.length]).toEqual([500, 0]);
    state.running = 8;
    askMany(17);
    expect([inside.length, admission.waiting]).toEqual([516, 1]);
  });

  test("four thousand and ninety-six may wait, and no more", async () => {
    const { refused, askMany, turn } = machine();
    askMany(16 + 4_096 + 1);
    expect(refused).toEqual([16 + 4_096]);
    await turn();
    askMany(17);
    expect(refused).toEqual([16 + 4_096]);
    askMany(1);
    expect(refused).toHaveLength(2);
  });

  test("lets sixteen in at once, the others with the next turns, in their order", async () => {
    const { inside, askMany, turn, turns, admission } = machine();
    askMany(40);
    expect([inside.length, admission.waiting]).toEqual([16, 24]);
    await turn();
    expect([inside.length, admission.waiting]).toEqual([33, 7]);
    await turn();
    expect(inside).toEqual(Array.from({ length: 40 }, (_, name) => name));
    // Once nobody has come in with one, there is no further turn.
    for (let more = 0; more < 2; more++) {
      expect(turns).toHaveLength(1);
      await turn();
    }
    expect(turns).toEqual([]);
  });

  test("sixteen at once again with the next turn, though nobody has waited", async () => {
    const { inside, askMany, turn, admission } = machine();
    askMany(16);
    await turn();
    askMany(17);
    expect([inside.length, admission.waiting]).toEqual([33, 0]);
  });

  test("a burst of four thousand waits and passes, in turns as they are when as many begin", async () => {
    const { inside, refused, askMany, turn, admission } = machine();
    askMany(4_000);
    for (let turns = 0; admission.waiting > 0 && turns < 10_000; turns++) await turn(turns % 2 === 0 ? 2 : 8);
    expect([inside.length, refused.length]).toEqual([4_000, 0]);
  });

  test("fewer come in with a turn when turns take long, down to one, and more when they do not", async () => {
    const { inside, askMany, turn } = machine();
    askMany(1_000);
    const with_ = async (tookMs: number) => {
      const before = inside.length;
      await turn(tookMs);
      return inside.length - before;
    };
    expect([await with_(20), await with_(20), await with_(20)]).toEqual([12, 9, 6]);
    for (let turns = 0; turns < 10; turns++) await turn(20);
    expect([await with_(20), await with_(1), await with_(1)]).toEqual([1, 2, 3]);
    for (let turns = 0; turns < 10; turns++) await turn(1);
    expect(await with_(1)).toBe(14);
  });

  test("no fewer come in for the time that a turn waits for a slow disk, and a quarter of it may be worked; more than that is a long turn again", async () => {
    const { inside, askMany, turn } = machine();
    askMany(1_000);
    const with_ = async (tookMs: number, waitedMs: number) => {
      const before = inside.length;
      await turn(tookMs, waitedMs);
      return inside.length - before;
    };
    expect([await with_(42, 40), await with_(50, 40), await with_(51, 40)]).toEqual([17, 18, 13]);
    // The wait for a disk that is quick is a turn's as its work is.
    expect([await with_(13, 10), await with_(13.1, 10.1), await with_(13.2, 10.1)]).toEqual([9, 10, 7]);
  });

  test("who has left is not let in, and takes nobody's place", async () => {
    const { inside, refused, ask, askMany, turn } = machine();
    askMany(16);
    ask({ aborted: true });
    askMany(17);
    await turn();
    expect(refused).toEqual([16]);
    expect(inside).toHaveLength(33);
  });

  test.each([
    ["a large", 8 * 1024 * MIB, 32 * MIB, 512],
    ["a small", 512 * MIB, 32 * MIB, 128],
    // They do not say.
    ["a small", 512 * MIB, Number.NaN, 1_024],
  ])(
    "what is kept of those who wait on %s machine is bounded, however much they say they bring",
    async (_, memory, bytes, most) => {
      const { refused, ask, askMany, turn } = machine(memory);
      askMany(16);
      for (let each = 0; each <= most; each++) ask({ bytes });
      expect(refused).toEqual([16 + most]);
      await turn();
      ask({ bytes });
      expect(refused).toEqual([16 + most]);
    },
  );
});

describe("more than can be done", () => {
  test("all who waited in vain are told, though nobody comes any more and nobody waits behind them", async () => {
    const { inside, refused, turns, overload, turn, admission } = machine();
    // No turn is spent on all of them at once.
    expect(await overload(2_600)).toBe(64);
    expect(admission.waiting).toBeLessThan(100);
    while (turns.length > 0) await turn(10);
    expect([inside.length + refused.length, admission.waiting]).toEqual([2_600, 0]);
  });

  test("two and a half seconds in which those who wait become more: nobody waits any more, who is late is told", async () => {
    const { admission, refused, overload, askMany, turn } = machine();
    await overload(2_400);
    expect(refused).toEqual([]);
    expect(admission.waiting).toBeGreaterThan(1_000);
    await overload(1_500);
    expect(admission.waiting).toBeLessThanOrEqual(16);
    expect(refused.length).toBeGreaterThan(1_000);
    expect(admission.shed.load).toBe(refused.length);
    // Of those who waited then the first to come is the first to be told.
    const late = refused.filter((name) => name < 2_400);
    expect(late.length).toBeGreaterThan(1_000);
    expect(late).toEqual(late.toSorted((one, other) => one - other));
    // Whoever comes now is told at once.
    const before = refused.length;
    askMany(100);
    expect(refused.length - before).toBeGreaterThanOrEqual(84);
    await turn(10);
    expect(admission.waiting).toBeLessThanOrEqual(16);
  });

  test("who was told leaves his room to others, however large what he brought", async () => {
    const { state, refused, ask, askMany, turn, admission } = machine(512 * MIB);
    const bytes = 32 * MIB;
    // Of what each brings half a mebibyte is kept, and of all an eighth of the memory.
    while (state.now < 3_000) {
      for (let each = 0; each < 10; each++) ask({ bytes });
      await turn(10);
    }
    for (let turns = 0; turns < 100; turns++) await turn(100);
    expect(admission.waiting).toBe(0);
    const before = refused.length;
    expect(before).toBeGreaterThan(112);
    askMany(16);
    while (admission.waiting < 128 && refused.length === before) ask({ bytes });
    expect([admission.waiting, refused.length]).toEqual([128, before]);
  });

  test("a turn of more than that in which many came is one look, and no reason to turn anybody away", async () => {
    const { inside, refused, askMany, turn, admission } = machine();
    askMany(500);
    await turn();
    askMany(3_000);
    await turn(2_600);
    for (let turns = 0; admission.waiting > 0 && turns < 1_000; turns++) await turn();
    expect([inside.length, refused.length]).toEqual([3_500, 0]);
  });

  test("the last to come is the first to be let in while those who wait become more, else the first", async () => {
    const { inside, askMany, turn, overload } = machine();
    askMany(200);
    await turn(99);
    expect(inside.at(-1)).toBe(27);
    await overload(300);
    const [latest = 0] = inside.slice(-1);
    expect(latest).toBeGreaterThan(400);
    // Nobody comes any more: those who were there first are next.
    for (let turns = 0; turns < 100; turns++) await turn(10);
    expect(inside.at(-1)).toBeLessThan(200);
  });

  test("while they become more nobody is let in who has waited for long: all would have; when nobody comes any more they are", async () => {
    const { state, inside, refused, overload, turn, admission } = machine();
    const askedAt: number[] = [];
    const come = async () => {
      askedAt.push(...Array.from({ length: 10 }, () => state.now));
      await overload(10);
    };
    // Until it is seen that they become more, the first ones are first.
    while (state.now < 300) await come();
    let longest = 0;
    while (state.now < 1_800) {
      const before = inside.length;
      await come();
      // Every now and then there is room for more than have come.
      for (let turns = 0; turns < (state.now % 200 < 13 ? 20 : 0); turns++) await turn(0.1);
      longest = Math.max(longest, ...inside.slice(before).map((name) => state.now - (askedAt[name] ?? 0)));
    }
    expect(longest).toBeLessThanOrEqual(120);
    for (let turns = 0; admission.waiting > 0 && turns < 5_000; turns++) await turn(2);
    expect([refused.length, new Set(inside).size]).toEqual([0, inside.length]);
  });

  test("a turn that takes long is no silence: who came meanwhile is not known yet", async () => {
    const { state, inside, askMany, turn } = machine();
    const askedAt: number[] = [];
    const come = async (count: number, tookMs: number) => {
      askedAt.push(...Array.from({ length: count }, () => state.now));
      askMany(count);
      await turn(tookMs);
    };
    let longest = 0;
    while (state.now < 2_400) {
      for (let turns = 0; turns < 20; turns++) await come(10, 10);
      const before = inside.length;
      // There is room for more than come.
      for (let turns = 0; turns < 20; turns++) await turn(0.5);
      await come(2, 40);
      const waited = inside.slice(before).map((name) => state.now - (askedAt[name] ?? 0));
      if (state.now > 500) longest = Math.max(longest, ...waited);
    }
    expect(longest).toBeLessThanOrEqual(150);
  });

  test.each([
    ["become more and less by turns, and more at last", 500, 300, 2_700],
    // Then it is told with the next time that they do.
    ["become more for a second again and again, and never for longer", 2_400, 1_000, 4_500],
  ])("who is overtaken for two and a half seconds is told, also where they %s", async (_what, each, more, most) => {
    const { state, inside, refused, askMany, overload, turn } = machine();
    const askedAt = new Map<number, number>();
    let asked = 0;
    const note = (count: number) => {
      for (let one = 0; one < count; one++) askedAt.set(asked++, state.now);
    };
    let longest = 0;
    while (state.now < 16_000) {
      const before = refused.length;
      const isMore = state.now % each < more;
      note(isMore ? 10 : 1);
      if (isMore) await overload(10);
      else {
        askMany(1);
        await turn(10);
      }
      const waited = refused.slice(before).map((name) => state.now - (askedAt.get(name) ?? 0));
      longest = Math.max(longest, ...waited);
    }
    expect(refused.length).toBeGreaterThan(500);
    expect(longest).toBeLessThan(most);
    expect(inside.length).toBeGreaterThan(500);
  });

  test("once nobody may wait for long, nobody is let in who has, from the first moment on", async () => {
    const { state, inside, refused, overload } = machine();
    await overload(2_400);
    while (refused.length === 0) await overload(10);
    let longest = 0;
    for (const until = state.now + 1_500; state.now < until; ) {
      const before = inside.length;
      await overload(10);
      // Ten were asking every 10 ms.
      const waited = inside.slice(before).map((name) => state.now - Math.floor(name / 10) * 10);
      longest = Math.max(longest, ...waited);
    }
    expect(longest).toBeLessThan(100);
  });

  test("clients that each ask again as soon as they are answered wait, and are not turned away", async () => {
    const { inside, refused, askMany, turn, admission } = machine();
    askMany(2_000);
    for (let turns = 0; turns < 1_000; turns++) {
      const before = inside.length;
      await turn(turns % 3 === 0 ? 12 : 2);
      askMany(inside.length - before);
    }
    expect(refused).toEqual([]);
    expect(admission.waiting).toBeGreaterThan(1_900);
    // Nobody was passed over for good.
    expect(inside.filter((name) => name < 2_000)).toHaveLength(2_000);
  });

  test("clients that ask for another stream as soon as theirs ends wait, though they come in waves, and nobody is overtaken for long", async () => {
    const { state, inside, refused, ask, turn } = machine();
    const askedAt: number[] = [];
    const askAgain = () => {
      askedAt.push(state.now);
      ask();
    };
    let longest = 0;
    // Of each stream fifty pieces come, one each 20 ms; a piece takes 0.041 ms and a beginning 0.15 ms, so that 450 can be at once.
    let streams: { due: number; left: number }[] = [];
    state.running = 8;
    for (let clients = 0; clients < 800; clients++) askAgain();
    while (state.now < 20_000) {
      for (const name of inside.splice(0)) {
        longest = Math.max(longest, state.now - (askedAt[name] ?? 0));
        streams.push({ due: state.now, left: 50 });
      }
      const { now } = state;
      let tookMs = 0.01;
      for (const stream of streams) {
        if (stream.due > now) continue;
        stream.due += 20;
        stream.left--;
        tookMs += stream.left === 49 ? 0.19 : 0.041;
      }
      const before = streams.length;
      streams = streams.filter(({ left }) => left > 0);
      state.running = streams.length;
      const late = before - streams.length;
      await turn(tookMs);
      for (let ended = 0; ended < late; ended++) askAgain();
    }
    expect(refused).toEqual([]);
    expect(askedAt.length).toBeGreaterThan(8_000);
    expect(longest).toBeLessThan(2_600);
  });

  test("an eighth more than can be done is told within ten seconds, not let to wait for ever longer", async () => {
    const { state, inside, refused, ask, turn } = machine();
    const askedAt: number[] = [];
    let longest = 0;
    for (let turns = 0; turns < 4_000; turns++) {
      // Eight of nine can be let in, one with each turn of 5 ms.
      const count = turns % 8 === 0 ? 2 : 1;
      for (let each = 0; each < count; each++) {
        askedAt.push(state.now);
        ask();
      }
      const before = inside.length;
      await turn(5);
      const waited = inside.slice(before).map((name) => state.now - (askedAt[name] ?? 0));
      if (state.now > 10_000) longest = Math.max(longest, ...waited);
    }
    expect(refused.length).toBeGreaterThan(100);
    expect(longest).toBeLessThanOrEqual(150);
  });

  test("a burst of streams that last comes in while others do: more are here, and ever fewer wait", async () => {
    const { state, inside, refused, admission, askMany, turn } = machine();
    askMany(4_000);
    for (let turns = 0; admission.waiting > 0 && turns < 2_000; turns++) {
      // Nobody's stream ends, and in each turn of 5 ms, in which one is let in, two of three times nobody comes.
      if (turns % 3 === 0) askMany(1);
      await turn(turns % 2 === 0 ? 2 : 4);
      state.running = 1_000 + inside.length;
      if (state.now > 6_000) break;
    }
    expect(refused).toEqual([]);
    expect(inside.length).toBeGreaterThan(4_000);
  });

  test("nobody waits for more than ten seconds, burst or not", async () => {
    const { inside, refused, admission, askMany, turn } = machine();
    askMany(4_000);
    // One comes in with each turn: they become no more, and it would take forty seconds.
    for (let turns = 0; turns < 999; turns++) await turn(10);
    expect(refused).toHaveLength(0);
    const waited = admission.waiting;
    for (let turns = 0; admission.waiting > 0; turns++) {
      if (turns > 100) throw new Error(`${admission.waiting} still wait`);
      await turn(10);
    }
    expect(refused.length).toBeGreaterThan(waited - 100);
    expect(inside.length + refused.length).toBe(4_000);
    expect(new Set([...inside, ...refused]).size).toBe(4_000);
    expect(admission.shed.load).toBe(refused.length);
    // That is no reason to let nobody wait.
    const told = refused.length;
    askMany(100);
    expect(refused).toHaveLength(told);
  });

  test("two seconds after nobody was turned away, a burst passes again", async () => {
    const { state, inside, refused, overload, askMany, turn, admission } = machine();
    await overload(4_000);
    while (admission.waiting > 0) await turn();
    const before = [inside.length, refused.length];
    state.now += 2_000;
    askMany(500);
    while (admission.waiting > 0) await turn();
    expect([inside.length, refused.length]).toEqual([(before[0] ?? 0) + 500, before[1] ?? 0]);
  });

  test.each<[string, (lab: ReturnType<typeof machine>) => void, number]>([
    ["as he comes", ({ askMany }) => askMany(100), 1],
    [
      "as he has waited in vain",
      ({ admission, ask }) => {
        while (admission.waiting < 16) ask();
      },
      120,
    ],
  ])("nor does one pass while in each two seconds somebody is turned away %s", async (_when, come, tookMs) => {
    const lab = machine();
    const { state, refused, overload, askMany, turn, admission } = lab;
    await overload(4_000);
    while (admission.waiting > 0) await turn();
    for (let times = 0; times < 3; times++) {
      state.now += 1_800;
      const before = refused.length;
      come(lab);
      await turn(tookMs);
      expect(refused.length).toBeGreaterThan(before);
      while (admission.waiting > 0) await turn();
    }
    state.now += 1_800;
    const before = refused.length;
    askMany(500);
    expect(refused.length - before).toBeGreaterThan(400);
  });
});

describe("admission by memory and by the store", () => {
  test("takes no new streams beyond 85 %, no new requests beyond 95 %, and all again below", () => {
    const { state, admission } = machine();
    state.running = 0;
    const refuses = (ask: () => void) => {
      try {
        ask();
        return false;
      } catch (thrown) {
        return thrown instanceof Overloaded && thrown.retryAfterSeconds === 1;
      }
    };
    const asking = { left: { aborted: false }, headers: new Headers() };
    const seen = [850, 851, 950, 951, 500].map((used) => {
      state.used = used;
      admission.look(1_000);
      return [refuses(() => admission.enter(asking)), refuses(() => admission.checkStream())];
    });
    expect(seen).toEqual([
      [false, false],
      [false, true],
      [false, true],
      [true, true],
      [false, false],
    ]);
    state.failing = true;
    expect(refuses(() => admission.enter(asking))).toBe(true);
    expect(admission.shed).toEqual({ load: 0, memory: 4, store: 1 });
  });

  test("large bodies have it looked at before its second is over: together they could be all of it", async () => {
    const { state, admission } = machine();
    state.used = 960;
    const sixtyFourth = 128 * MIB;
    await admission.bodies.enter(sixtyFourth - MIB);
    await expect(admission.bodies.enter(MIB)).rejects.toBeInstanceOf(Overloaded);
    state.used = 500;
    await expect(admission.bodies.enter(sixtyFourth - MIB)).rejects.toBeInstanceOf(Overloaded);
    await admission.bodies.enter(MIB);
    expect(admission.shed.memory).toBe(2);
  });

  test("memory is read once a second, however often it is asked to look", () => {
    const { state, admission } = machine();
    for (let looks = 0; looks < 8; looks++) admission.look(250);
    expect(state.reads).toBe(2);
  });

  test.each([
    ["asks", true, 0],
    ["is being served", false, 1],
  ])("old garbage is left while somebody %s, and goes once nobody has for five seconds", (_what, asks, running) => {
    const { state, admission } = machine();
    const second = () => {
      state.now += 1_000;
      admission.look(1_000);
    };
    Object.assign(state, { running: 0, used: 100 });
    second();
    Object.assign(state, { running, garbage: 100 });
    for (let seconds = 0; seconds < 20; seconds++) {
      if (asks) admission.enter({ left: { aborted: false }, headers: new Headers() });
      second();
    }
    expect(state.garbage).toBe(100);
    state.running = 0;
    for (let seconds = 0; seconds < 5; seconds++) second();
    expect(state.garbage).toBe(0);
  });

  test("turns nobody away for what is garbage", () => {
    const { state, admission } = machine();
    const asking = { left: { aborted: false }, headers: new Headers() };
    state.running = 0;
    state.used = 600;
    for (const garbage of [0, 300, 390, 399]) {
      state.now += 1_000;
      state.garbage = garbage;
      admission.look(1_000);
      expect(admission.enter(asking)).toBeUndefined();
      admission.checkStream();
    }
    expect([admission.shed.memory, state.garbage]).toEqual([0, 0]);
  });

  test("a container's bound counts where there is one", () => {
    expect([
      memoryBound(500, 1_000),
      memoryBound(0, 1_000),
      memoryBound(2 ** 63, 1_000),
      memoryBound(undefined, 9),
    ]).toEqual([500, 1_000, 1_000, 9]);
  });
});

describe("at the door", () => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startApp();
  });
  afterAll(() => app.stop());

  const body = { model: "sluice/echo", messages: [{ role: "user", content: "Hi" }], max_tokens: 5 };

  test("503 or 529 with retry-after 1, before the key is looked at; reads, polls and health are let through", async () => {
    const { services } = app.app;
    const open = services.admission;
    const full = machine();
    full.state.used = 1_000;
    full.admission.look(1_000);
    services.admission = full.admission;
    const post = (path: string, key: string) => app.post(path, body, { headers: { authorization: `Bearer ${key}` } });
    const ids = new Set<string | null>();
    for (const key of [app.key, "sk-wrong"]) {
      const chat = await post("/v1/chat/completions", key);
      const messages = await post("/v1/messages", key);
      const counted = await post("/v1/messages/count_tokens", key);
      expect([chat.status, messages.status, counted.status]).toEqual([503, 529, 529]);
      for (const response of [chat, messages, counted]) {
        expect(response.headers.get("retry-after")).toBe("1");
        expect(response.headers.get("x-should-retry")).toBe("true");
        expect(response.headers.get("content-type")).toBe("application/json");
        expect(response.headers.get("x-request-id")).toBe(response.headers.get("request-id"));
        ids.add(response.headers.get("request-id"));
      }
      expect(await chat.json()).toMatchObject({ error: { type: "server_error", code: "upstream_overloaded" } });
      expect(await messages.json()).toMatchObject({
        error: { type: "overloaded_error", code: "upstream_overloaded" },
        request_id: messages.headers.get("request-id"),
      });
    }
    expect(ids.size).toBe(6);
    const headers = { authorization: `Bearer ${app.key}` };
    for (const path of ["/healthz", "/readyz", "/v1/models", "/v1/account", "/v1/usage", "/v1/images/generations"]) {
      expect([path, (await app.call(path, { headers })).status]).toEqual([path, 200]);
    }
    expect(full.admission.shed.memory).toBe(6);
    services.admission = open;
    expect((await post("/v1/chat/completions", app.key)).status).toBe(200);
    expect(app.rows()).toHaveLength(1);
    expect(await (await app.call("/metrics")).text()).toContain('sluice_shed_total{reason="load"} 0\n');
  });

  test("where memory is short a stream is refused, and a reply that comes whole is not", async () => {
    const { services } = app.app;
    const tight = machine();
    tight.state.used = 900;
    tight.admission.look(1_000);
    services.admission = tight.admission;
    const statuses = [];
    for (const path of ["/v1/chat/completions", "/v1/messages"])
      for (const stream of [true, false]) statuses.push((await app.post(path, { ...body, stream })).status);
    expect([statuses, tight.admission.shed.memory]).toEqual([[503, 200, 529, 200], 2]);
  });

  test("who waits is answered as if he had not", async () => {
    const { services } = app.app;
    const busy = machine();
    services.admission = busy.admission;
    busy.askMany(16);
    const answers = [app.post("/v1/chat/completions", body), app.post("/v1/messages/count_tokens", body)];
    await Bun.sleep(0);
    expect(busy.admission.waiting).toBe(2);
    await busy.turn();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200]);
  });
});
