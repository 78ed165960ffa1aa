import { afterEach, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/lib/clock.ts";
import type { RawPage, ReadPage } from "../../src/web/extract/page.ts";
import {
  growthBound,
  IDLE_MS,
  MAX_GROWTH_BYTES,
  MAX_THREAD_BYTES,
  MAX_THREADS,
  MAX_WAITING,
  READ_DEADLINE_MS,
  ReaderPool,
  WATCH_MS,
} from "../../src/web/extract/pool.ts";
import type { Thread, ThreadEvents } from "../../src/web/extract/thread.ts";
import type { Done, Work } from "../../src/web/extract/work.ts";
import { manualClock } from "../support/clock.ts";
import { within } from "../support/wait.ts";

type FakeThread = { events: ThreadEvents; works: Work[]; closed: boolean };

function lab() {
  const clock = manualClock();
  const threads: FakeThread[] = [];
  const memory = { bytes: 100 };
  const start = (events: ThreadEvents): Thread => {
    const thread: FakeThread = { events, works: [], closed: false };
    threads.push(thread);
    return {
      post: (work) => void thread.works.push(work),
      close: () => {
        thread.closed = true;
      },
    };
  };
  const pool = new ReaderPool(clock, start, () => memory.bytes, MAX_GROWTH_BYTES);
  return { clock, threads, pool, memory };
}

const page = (name: string, bytes = 1): RawPage => ({
  url: `https://x.example/${name}`,
  contentType: "text/plain",
  bytes: new Uint8Array(bytes),
  cut: false,
  maxTokens: 100,
});
const done = (markdown: string): Done => ({
  page: { kind: "text", markdown, tokens: 1, totalTokens: 1, truncated: false } satisfies ReadPage,
});
const nameOf = ({ url }: Work) => url.slice(-1);
const fault = (work: Promise<unknown>) =>
  work.then(
    () => "no fault",
    (thrown: { code?: string }) => thrown.code ?? thrown,
  );

describe("the pool of readers", () => {
  test("starts threads as they are needed, and gives each the next page when it is free", async () => {
    const { threads, pool } = lab();
    expect(pool.awake).toBe(0);
    const reads = ["a", "b", "c"].map((name) => pool.read(page(name)));
    expect(threads.map(({ works }) => works.map(nameOf))).toEqual([["a"], ["b"]]);
    threads[1]?.events.done(done("of b"));
    expect((await reads[1])?.markdown).toBe("of b");
    expect(threads.map(({ works }) => works.map(nameOf))).toEqual([["a"], ["b", "c"]]);
    threads[0]?.events.done(done("of a"));
    threads[1]?.events.done(done("of c"));
    expect(await Promise.all(reads)).toMatchObject([{ markdown: "of a" }, { markdown: "of b" }, { markdown: "of c" }]);
    expect(threads.length).toBe(MAX_THREADS);
  });

  test("one page at a time needs one thread", async () => {
    const { threads, pool } = lab();
    for (const name of ["a", "b", "c"]) {
      const read = pool.read(page(name));
      threads[0]?.events.done(done(name));
      await read;
    }
    expect(threads.length).toBe(1);
  });

  test("a page that takes too long is given up with its thread, and the next one gets another", async () => {
    const { clock, threads, pool } = lab();
    const slow = fault(pool.read(page("a")));
    await clock.advance(READ_DEADLINE_MS - 1);
    expect(threads[0]?.closed).toBe(false);
    await clock.advance(1);
    expect(await slow).toBe("timeout");
    expect(threads[0]?.closed).toBe(true);
    const next = pool.read(page("b"));
    threads[1]?.events.done(done("of b"));
    expect((await next).markdown).toBe("of b");
  });

  test("a page that takes too much memory is given up with its thread soon after", async () => {
    const { clock, threads, pool, memory } = lab();
    memory.bytes += 3 * MAX_GROWTH_BYTES;
    const large = fault(pool.read(page("a")));
    memory.bytes += MAX_GROWTH_BYTES;
    await clock.advance(WATCH_MS);
    expect(threads[0]?.closed).toBe(false);
    memory.bytes++;
    await clock.advance(WATCH_MS);
    expect(await large).toBe("unreadable");
    expect([threads[0]?.closed, pool.awake, clock.pending]).toEqual([true, 0, 0]);
  });

  test("where there is little memory, a page takes a third of it at the most", () => {
    const megabytes = (count: number) => count * 1024 * 1024;
    expect(growthBound(megabytes(300))).toBe(megabytes(100));
    expect(growthBound(megabytes(2_304))).toBe(MAX_GROWTH_BYTES);
    expect(growthBound(megabytes(64_000))).toBe(MAX_GROWTH_BYTES);
  });

  test("a thread that dies takes its own page with it, and no other", async () => {
    const { threads, pool } = lab();
    const reads = ["a", "b", "c"].map((name) => pool.read(page(name)));
    const first = fault(reads[0]!);
    threads[0]?.events.died(new Error("out of memory"));
    expect(await first).toBe("unreadable");
    expect(threads[2]?.works.map(nameOf)).toEqual(["c"]);
    threads[1]?.events.done(done("of b"));
    threads[2]?.events.done(done("of c"));
    expect((await reads[2])?.markdown).toBe("of c");
  });

  test("what a page is not fit for comes back with its code", async () => {
    const { threads, pool } = lab();
    const read = fault(pool.read(page("a")));
    threads[0]?.events.done({ fault: { code: "unsupported_content_type", message: "no" } });
    expect(await read).toBe("unsupported_content_type");
    expect(threads[0]?.closed).toBe(false);
  });

  test("who leaves is let go: from the queue without a trace, from a thread with its end", async () => {
    const { threads, pool } = lab();
    const leaving = { a: new AbortController(), b: new AbortController(), c: new AbortController() };
    const read = (name: keyof typeof leaving) => fault(pool.read(page(name), leaving[name].signal));
    const reads = { a: read("a"), b: read("b"), c: read("c") };
    const reason = new Error("gone");
    leaving.c.abort(reason);
    leaving.a.abort(reason);
    expect([await reads.c, await reads.a] as unknown[]).toEqual([reason, reason]);
    expect(threads.map(({ works, closed }) => [works.map(nameOf), closed])).toEqual([
      [["a"], true],
      [["b"], false],
    ]);
    expect((await read("a")) as unknown).toBe(reason);
  });

  test("threads end when there is nothing to do, and after many bytes", async () => {
    const { clock, threads, pool } = lab();
    const small = pool.read(page("a"));
    threads[0]?.events.done(done("a"));
    await small;
    await clock.advance(IDLE_MS);
    expect([threads[0]?.closed, pool.awake, clock.pending]).toEqual([true, 0, 0]);
    const large = pool.read(page("b", MAX_THREAD_BYTES));
    threads[1]?.events.done(done("b"));
    await large;
    expect([threads[1]?.closed, pool.awake]).toEqual([true, 0]);
  });

  test("too many waiting are refused at once; a stopped pool refuses all", async () => {
    const { pool, threads } = lab();
    const reads = Array.from({ length: MAX_THREADS + MAX_WAITING }, () => fault(pool.read(page("a"))));
    expect(await fault(pool.read(page("z")))).toBe("busy");
    pool.stop();
    expect(new Set(await Promise.all(reads))).toEqual(new Set(["busy"]));
    expect(threads.every(({ closed }) => closed)).toBe(true);
    expect(await fault(pool.read(page("z")))).toBe("busy");
  });

  test("what waits is bounded by its bytes too; a page that is taken up, or that nobody waits for any more, makes room", async () => {
    const { threads, pool } = lab();
    const megabytes = (name: string, many: number, signal?: AbortSignal) =>
      fault(pool.read(page(name, many * 1024 * 1024), signal));
    const leaving = new AbortController();
    const taken = ["a", "b"].map((name) => fault(pool.read(page(name))));
    const left = megabytes("c", 60, leaving.signal);
    const waiting = [megabytes("d", 40)];
    expect(await fault(pool.read(page("e")))).toBe("busy");
    leaving.abort("left");
    expect(await left).toBe("left");
    waiting.push(megabytes("f", 60));
    expect(await fault(pool.read(page("g")))).toBe("busy");
    threads[0]?.events.done(done("a"));
    expect(await taken[0]).toBe("no fault");
    waiting.push(megabytes("h", 40));
    expect(await fault(pool.read(page("i")))).toBe("busy");
    expect(waiting.map((each) => Bun.peek.status(each))).toEqual(["pending", "pending", "pending"]);
    pool.stop();
  });
});

describe("real threads", () => {
  const pool = new ReaderPool(systemClock);
  afterEach(() => pool.stop());

  test("read a page while the event loop goes on; a page they choke on does them no harm", async () => {
    const rows = `<tr>${"<td>cell <b>of</b> a table".repeat(20)}`.repeat(1_500);
    const bytes = new TextEncoder().encode(`<h1>Large</h1><table>${rows}</table>`);
    await pool.read({ ...page("warm"), bytes: new TextEncoder().encode("warm") });
    let turns = 0;
    const ticker = setInterval(() => turns++, 1);
    const large = { url: "https://x.example/", contentType: "text/html", cut: false, maxTokens: 100_000 };
    const work = pool.read({ ...large, bytes });
    expect(bytes.length).toBe(0);
    const read = await within(work, "the page was read", 20_000);
    clearInterval(ticker);
    expect(read.markdown).toStartWith("# Large");
    expect(read.truncated).toBe(true);
    // Reading takes several hundred milliseconds; in the loop's own thread there would be no turn before its end.
    expect(turns).toBeGreaterThan(1);
    const broken = pool.read({ ...large, contentType: "application/pdf", bytes: new TextEncoder().encode("%PDF-x") });
    expect(await fault(broken)).toBe("unreadable");
  });
});
