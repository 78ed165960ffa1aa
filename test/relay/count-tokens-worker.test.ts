import { afterEach, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/lib/clock.ts";
import { startThread, type Thread, type ThreadEvents } from "../../src/relay/tokenizer/thread.ts";
import {
  COUNT_DEADLINE_MS,
  IDLE_MS,
  LEFT_MS,
  MAX_WAITING,
  MAX_WAITING_CHARACTERS,
  Tokenizer,
} from "../../src/relay/tokenizer/tokenizer.ts";
import type { Counts, Work } from "../../src/relay/tokenizer/work.ts";
import { manualClock } from "../support/clock.ts";
import { rejectionOf } from "../support/fault.ts";

const workOf = (text: string): Work => ({ groups: [[text]], pdfs: [] });
const answer = (tokens: number): Counts => ({ groups: [{ tokens, characters: tokens, wide: 0 }], pages: 0 });

/** A thread that a test plays by hand. */
type Puppet = { posted: Work[]; events: ThreadEvents; closed: boolean };

function puppets() {
  const made: Puppet[] = [];
  const start = (events: ThreadEvents): Thread => {
    const puppet: Puppet = { posted: [], events, closed: false };
    made.push(puppet);
    return {
      post: (work) => void puppet.posted.push(work),
      close: () => {
        puppet.closed = true;
      },
    };
  };
  return { made, start, at: (index: number) => made[index] as Puppet };
}

describe("the tokenizer's queue", () => {
  test("no thread before the first work, then one piece at a time, in order", async () => {
    const { made, start, at } = puppets();
    const tokenizer = new Tokenizer(manualClock(), start);
    expect([made.length, tokenizer.awake]).toEqual([0, false]);
    const first = tokenizer.count(workOf("one"));
    const second = tokenizer.count(workOf("two"));
    expect(at(0).posted).toEqual([workOf("one")]);
    at(0).events.done(answer(1));
    expect(await first).toEqual(answer(1));
    expect(at(0).posted).toEqual([workOf("one"), workOf("two")]);
    at(0).events.done(answer(2));
    expect(await second).toEqual(answer(2));
    expect(made.length).toBe(1);
  });

  test("is bounded in pieces and in characters, and takes work again when there is room", async () => {
    const { start, at } = puppets();
    const tokenizer = new Tokenizer(manualClock(), start);
    const taken = Array.from({ length: MAX_WAITING + 1 }, (_, index) => tokenizer.count(workOf(`${index}`)));
    const error = await rejectionOf(tokenizer.count(workOf("late")));
    expect([error.code, error.retryAfterSeconds]).toEqual(["upstream_overloaded", 1]);
    at(0).events.done(answer(1));
    await taken[0];
    const next = tokenizer.count(workOf("late"));
    for (let index = 1; index <= MAX_WAITING + 1; index++) at(0).events.done(answer(1));
    await Promise.all([...taken, next]);

    const big = "x".repeat(MAX_WAITING_CHARACTERS);
    const running = tokenizer.count(workOf(big));
    expect((await rejectionOf(tokenizer.count(workOf("y")))).code).toBe("upstream_overloaded");
    at(0).events.done(answer(1));
    await running;
    const after = tokenizer.count(workOf("y"));
    at(0).events.done(answer(1));
    expect(await after).toEqual(answer(1));
  });

  test("work that takes too long is given up with its thread, and the next is done by a new one", async () => {
    const clock = manualClock();
    const { made, start, at } = puppets();
    const tokenizer = new Tokenizer(clock, start);
    const slow = rejectionOf(tokenizer.count(workOf("slow")));
    await clock.advance(COUNT_DEADLINE_MS - 1);
    const next = tokenizer.count(workOf("next"));
    expect(at(0).closed).toBe(false);
    await clock.advance(1);
    expect((await slow).code).toBe("request_timeout");
    expect([at(0).closed, made.length]).toEqual([true, 2]);
    expect(at(1).posted).toEqual([workOf("next")]);
    at(1).events.done(answer(3));
    expect(await next).toEqual(answer(3));
  });

  test("work whose turn does not come in time is refused and never posted", async () => {
    const clock = manualClock();
    const { start, at } = puppets();
    const tokenizer = new Tokenizer(clock, start);
    const running = rejectionOf(tokenizer.count(workOf("running")));
    const waiting = rejectionOf(tokenizer.count(workOf("waiting")));
    await clock.advance(COUNT_DEADLINE_MS);
    expect((await running).code).toBe("request_timeout");
    const code = (await waiting).code;
    expect(["upstream_overloaded", "request_timeout"]).toContain(code);
    expect(at(0).posted).toEqual([workOf("running")]);
  });

  test("a client that leaves takes its work along: what waits at once, what runs when it takes long", async () => {
    const { made, start, at } = puppets();
    const clock = manualClock();
    const tokenizer = new Tokenizer(clock, start);
    const leaving = [new AbortController(), new AbortController()] as const;
    const gone = new Error("gone");
    const running = tokenizer.count(workOf("running"), leaving[0].signal);
    const waiting = tokenizer.count(workOf("waiting"), leaving[1].signal);
    const staying = tokenizer.count(workOf("staying"));
    leaving[1].abort(gone);
    await expect(waiting).rejects.toBe(gone);
    expect([at(0).closed, made.length]).toEqual([false, 1]);
    leaving[0].abort(gone);
    await expect(running).rejects.toBe(gone);
    await clock.advance(LEFT_MS - 1);
    expect([at(0).closed, made.length]).toEqual([false, 1]);
    await clock.advance(1);
    expect([at(0).closed, made.length]).toEqual([true, 2]);
    expect(at(1).posted).toEqual([workOf("staying")]);
    at(1).events.done(answer(1));
    await staying;
    await expect(tokenizer.count(workOf("never"), leaving[0].signal)).rejects.toBe(gone);
    expect(at(1).posted.length).toBe(1);
  });

  test("clients that leave one after the other end no thread that is soon done: the next one's count is not behind its vocabulary", async () => {
    const { made, start, at } = puppets();
    const clock = manualClock();
    const tokenizer = new Tokenizer(clock, start);
    for (const text of ["a", "ab", "abc"]) {
      const leaving = new AbortController();
      const left = tokenizer.count(workOf(text), leaving.signal);
      leaving.abort(new Error("gone"));
      await expect(left).rejects.toThrow("gone");
      await clock.advance(LEFT_MS - 1);
      at(0).events.done(answer(1));
    }
    const counted = tokenizer.count(workOf("abcd"));
    at(0).events.done(answer(7));
    expect(await counted).toEqual(answer(7));
    await clock.advance(LEFT_MS);
    expect([at(0).closed, made.length, at(0).posted.length]).toEqual([false, 1, 4]);
  });

  test("what a client left is not tried again when its thread dies, and what waits is", async () => {
    const { made, start, at } = puppets();
    const tokenizer = new Tokenizer(manualClock(), start);
    const leaving = new AbortController();
    const left = tokenizer.count(workOf("left"), leaving.signal);
    const staying = tokenizer.count(workOf("staying"));
    leaving.abort(new Error("gone"));
    await expect(left).rejects.toThrow("gone");
    at(0).events.died(new Error("out of memory"));
    expect([made.length, at(1).posted]).toEqual([2, [workOf("staying")]]);
    at(1).events.done(answer(1));
    await staying;
  });

  test("a thread that dies is replaced and its work tried once more, then refused; what waits is not harmed", async () => {
    const { made, start, at } = puppets();
    const tokenizer = new Tokenizer(manualClock(), start);
    const poison = rejectionOf(tokenizer.count(workOf("poison")));
    const good = tokenizer.count(workOf("good"));
    at(0).events.died(new Error("out of memory"));
    expect(at(1).posted).toEqual([workOf("poison")]);
    at(1).events.died(new Error("out of memory"));
    const error = await poison;
    expect([error.code, error.message.includes("memory")]).toEqual(["internal_error", false]);
    expect(at(2).posted).toEqual([workOf("good")]);
    at(2).events.done(answer(1));
    await good;
    expect(made.length).toBe(3);
  });

  test("a thread that cannot be started is an error, not silence", async () => {
    const tokenizer = new Tokenizer(manualClock(), () => {
      throw new Error("no threads left");
    });
    expect((await rejectionOf(tokenizer.count(workOf("x")))).code).toBe("internal_error");
  });

  test("an idle thread is ended, a busy one is not, and the next work starts another", async () => {
    const clock = manualClock();
    const { made, start, at } = puppets();
    const tokenizer = new Tokenizer(clock, start);
    const first = tokenizer.count(workOf("one"));
    at(0).events.done(answer(1));
    await first;
    await clock.advance(IDLE_MS - 1);
    const second = tokenizer.count(workOf("two"));
    await clock.advance(10);
    expect([tokenizer.awake, at(0).closed]).toEqual([true, false]);
    at(0).events.done(answer(1));
    await second;
    await clock.advance(IDLE_MS);
    expect([tokenizer.awake, at(0).closed, clock.pending]).toEqual([false, true, 0]);
    const third = tokenizer.count(workOf("three"));
    expect(at(1).posted).toEqual([workOf("three")]);
    at(1).events.done(answer(1));
    await third;
    expect(made.length).toBe(2);
  });

  test("stopping refuses what is there and what comes", async () => {
    const clock = manualClock();
    const { made, start, at } = puppets();
    const tokenizer = new Tokenizer(clock, start);
    const both = [rejectionOf(tokenizer.count(workOf("one"))), rejectionOf(tokenizer.count(workOf("two")))];
    tokenizer.stop();
    for (const error of await Promise.all(both)) expect(error.code).toBe("upstream_overloaded");
    expect((await rejectionOf(tokenizer.count(workOf("three")))).code).toBe("upstream_overloaded");
    expect([at(0).closed, made.length, clock.pending]).toEqual([true, 1, 0]);
  });
});

describe("the real thread", () => {
  let tokenizer: Tokenizer | undefined;
  afterEach(() => tokenizer?.stop());

  test("counts groups apart, and pages", async () => {
    tokenizer = new Tokenizer(systemClock);
    const pdf = Buffer.from(`%PDF-1.4 << /Type /Pages /Count 3 >>${" ".repeat(400)}`).toString("base64");
    const counts = await tokenizer.count({ groups: [["Hello, world!", "门"], []], pdfs: [pdf] });
    expect(counts).toEqual({
      groups: [
        { tokens: 5, characters: 14, wide: 1 },
        { tokens: 0, characters: 0, wide: 0 },
      ],
      pages: 3,
    });
  });

  test("one that throws is replaced", async () => {
    let started = 0;
    tokenizer = new Tokenizer(systemClock, (events) => {
      started++;
      return startThread(events);
    });
    const poison = { groups: [[{ length: 1 }]], pdfs: [] } as unknown as Work;
    expect((await rejectionOf(tokenizer.count(poison))).code).toBe("internal_error");
    expect((await tokenizer.count(workOf("Hello, world!"))).groups[0]?.tokens).toBe(4);
    expect(started).toBe(3);
    // Three threads read the vocabulary, each for itself.
  }, 30_000);
});
