import { heapStats } from "bun:jsc";
import { describe, expect, test } from "bun:test";
import { Abort } from "../../src/lib/abort.ts";
import { Call } from "../../src/vendors/http/call.ts";
import { nextTurn } from "../support/wait.ts";

/** What a connection is told when these bytes come on it for one call: whether another request may follow. */
function endOf(wire: string): boolean[] {
  const ends: boolean[] = [];
  const call = new Call("", "", new Abort(), { accept: (answer) => answer, explain: (thrown) => thrown });
  void call.answered();
  call.attach({ pause() {}, resume() {}, abandon() {}, missed: () => false, ended: (clean) => ends.push(clean) });
  call.take(Buffer.from(wire));
  return ends;
}

test.each([
  ["HTTP/1.1 204 No Content\r\n\r\n", [true]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", [true]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab", [true]],
  ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", [true]],
  // What comes behind an answer was not asked for: the next request's answer must not be read from there.
  ["HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n", [false]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nx", [false]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabc", [false]],
  ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nx", [false]],
  ["HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", [false]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na", []],
  ["HTTP/1.1 200 OK\ncontent-length: 2\n\nab", [true]],
  ["HTTP/1.1 204 No Content\n\n", [true]],
  // What ends a head in other answers stands in the body of this one.
  ["HTTP/1.1 200 OK\ncontent-length: 8\n\na: b\r\n\r\n", [true]],
  ["HTTP/1.1 200 OK\ntransfer-encoding: chunked\n\n2\r\nab\r\n0\r\n\r\n", [true]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\n\n", [true]],
] as [string, boolean[]][])("%p is told once, and clean only without a byte too many", (wire, told) => {
  expect(endOf(wire)).toEqual(told);
});

test.each([
  ["", true],
  ["H", true],
  ["HTTP/1.", true],
  ["HTTP/1.1 200 OK\r\ncontent-", true],
  ["HTTP/1.1 100 Continue\r\n\r\n", true],
  ["HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 2", true],
  ["SSH-2.0-OpenSSH_9.2\r\n", false],
  ["\0\0\x12\x04\0\0\0\0\0", false],
  ["+", false],
  ["HTTP/2 200\r\n", false],
  ["HTTP/1.1 100 Continue\r\n\r\nhello", false],
])("%p may be the beginning of an answer: %p; what is none is told at once", async (wire, waits) => {
  const call = new Call("", "", new Abort(), { accept: (answer) => answer, explain: (thrown) => thrown });
  const told = call.answered().catch(String);
  let isGivenUp = false;
  call.attach({
    ...{ pause() {}, resume() {}, ended() {}, missed: () => false },
    abandon: () => {
      isGivenUp = true;
    },
  });
  call.take(Buffer.from(wire, "latin1"));
  expect([isGivenUp, call.over]).toEqual([!waits, !waits]);
  if (!waits) expect(await told).toContain("The answer is no HTTP: no status line.");
});

test.each(["\r\n", "\n"])(
  "a head that comes in pieces, behind one of an interim answer, is read wherever it is cut: %j",
  async (end) => {
    const wire = ["HTTP/1.1 103 Early Hints", "link: <a>", "", "HTTP/1.1 201 Made", "content-length: 2", "", "ab"].join(
      end,
    );
    const cuts = Array.from({ length: wire.length - 1 }, (_, at) => [wire.slice(0, at + 1), wire.slice(at + 1)]);
    for (const pieces of [...cuts, [...wire]]) {
      const call = new Call("", "", new Abort(), { accept: (answer) => answer, explain: (thrown) => thrown });
      const answered = call.answered();
      for (const piece of pieces) call.take(Buffer.from(piece));
      expect([(await answered).status, await call.text(10)]).toEqual([201, "ab"]);
    }
  },
);

test.each([
  [64 * 1024, "is read"],
  [64 * 1024 + 1, "is none"],
])("a head of %i bytes %s, also where its end has yet to come", async (length, what) => {
  for (const [behind, before] of [
    ["\r\n\r\n", ""],
    ["", ""],
    ["\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n"],
  ]) {
    const call = new Call("", "", new Abort(), { accept: (answer) => answer, explain: (thrown) => thrown });
    const told = call.answered().then(() => "answered", String);
    call.take(Buffer.from(`${before}${"HTTP/1.1 204 No Content\r\nx: ".padEnd(length, "a")}${behind}`));
    expect(call.over).toBe(what === "is none" || behind !== "");
    if (what === "is none") expect(await told).toContain("a head that is too long");
    else if (behind !== "") expect(await told).toBe("answered");
  }
});

describe("an answer of which much comes at once", () => {
  /** Bytes in which every place is known by its neighbours. */
  const body = (length: number) => Buffer.from(Uint8Array.from({ length }, (_, at) => (at * 31 + (at >> 8)) & 255));
  /** A call whose head says so many bytes, and what its connection is told. */
  function callOf(length: number) {
    const told: string[] = [];
    const abort = new Abort();
    const call = new Call("", "", abort, { accept: (answer) => answer, explain: (thrown) => thrown });
    call.answered().catch(() => {});
    call.attach({
      pause: () => void told.push("pause"),
      resume: () => void told.push("resume"),
      abandon: () => void told.push("abandon"),
      ended: () => void told.push("ended"),
      missed: () => false,
    });
    call.take(Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n`));
    return { call, told, abort };
  }

  async function readAll(call: Call): Promise<Buffer[]> {
    const pieces: Buffer[] = [];
    for (let read = await call.read(); !read.done; read = await call.read()) {
      pieces.push(Buffer.from(read.value as Uint8Array));
      call.release(read.value as Uint8Array);
    }
    return pieces;
  }

  test.each([64 * 1024 + 1, 300_000, 512 * 1024])("%d bytes are read whole, a part with each turn", async (length) => {
    const sent = body(length);
    const { call } = callOf(length);
    let turns = 0;
    let counts = true;
    const count = () => {
      turns++;
      if (counts) setImmediate(count);
    };
    setImmediate(count);
    const reading = readAll(call);
    call.take(Buffer.from(sent));
    const pieces = await reading;
    counts = false;
    expect(Buffer.concat(pieces).equals(sent)).toBe(true);
    expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThanOrEqual(64 * 1024);
    expect(turns).toBeGreaterThanOrEqual(pieces.length - 1);
  });

  test("two of them are fetched one after the other, each when nothing of it is left and more is asked for", async () => {
    const calls = [callOf(1_000_000), callOf(1_000_000)];
    for (const { call } of calls) call.take(body(200_000));
    const told = () => calls.map((one) => one.told.join(" "));
    expect(told()).toEqual(["pause", "pause"]);
    for (const { call } of calls) for (let left = 200_000; left > 0; ) left -= (await call.read()).value?.length ?? 0;
    for (let turn = 0; turn < 10; turn++) await nextTurn();
    // Whoever hands it to a client that takes nothing more does not ask.
    expect(told()).toEqual(["pause", "pause"]);
    for (const { call } of calls) void call.read();
    const seen: string[] = [];
    while (told().join() !== "pause resume,pause resume") {
      await nextTurn();
      if (seen.at(-1) !== told().join()) seen.push(told().join());
    }
    expect(seen.slice(-2)).toEqual(["pause resume,pause", "pause resume,pause resume"]);
  });

  test("what is read as it comes makes nobody wait, however much it is in all", async () => {
    const { call, told } = callOf(1_000_000);
    for (let count = 0; count < 20; count++) {
      call.take(body(10_000));
      await call.read();
    }
    expect(told).toEqual([]);
  });

  test("one that is given up ends its connection; one of which nobody wants the rest goes on to its end, but not for long", async () => {
    const given = callOf(1_000_000);
    given.call.cancel();
    await expect(given.call.read()).rejects.toThrow("given up");
    const ending = callOf(300_000);
    ending.call.take(body(200_000));
    ending.call.finish(60_000);
    // It had been made to wait.
    expect(ending.told).toEqual(["pause", "resume"]);
    ending.call.take(body(100_000));
    const late = callOf(1_000_000);
    late.call.finish(1);
    while (!late.call.over) await nextTurn();
    expect([given.told, ending.told, late.told]).toEqual([["abandon"], ["pause", "resume", "ended"], ["abandon"]]);
  });

  test("what nobody asks for comes whole and in its order when it is asked for, and takes little room until then", async () => {
    const record = body(1_000);
    const sent = Buffer.concat(Array.from({ length: 500 }, () => record));
    const calls = Array.from({ length: 40 }, () => callOf(sent.length).call);
    Bun.gc(true);
    const before = heapStats().extraMemorySize;
    const pieces = calls.map((): Buffer[] => []);
    const readOne = async (call: Call, at: number) => {
      const { value } = await call.read();
      if (value) pieces[at]?.push(Buffer.from(value));
      return value !== undefined;
    };
    for (const call of calls) call.take(Buffer.from(sent));
    await Promise.all(calls.map(readOne));
    for (let turn = 0; turn < 100; turn++) await nextTurn();
    Bun.gc(true);
    const held = heapStats().extraMemorySize - before - 40 * 64 * 1024;
    expect(held / calls.length).toBeLessThan(sent.length / 4);
    for (const [at, call] of calls.entries()) while (await readOne(call, at));
    for (const read of pieces) expect(Buffer.concat(read).equals(sent)).toBe(true);
  });

  test("one that is ended while it waits for its turn says why, and gives nothing more", async () => {
    const { call, abort, told } = callOf(1_000_000);
    call.take(body(200_000));
    await call.read();
    const reading = call.read();
    abort.abort(new Error("enough"));
    await expect(reading).rejects.toThrow("enough");
    await nextTurn();
    await expect(call.read()).rejects.toThrow("enough");
    expect(told).toEqual(["pause", "abandon"]);
  });

  test("its end does not hide what still waits for its turn", async () => {
    const sent = body(150_000);
    const { call, told } = callOf(sent.length);
    const reading = readAll(call);
    call.take(Buffer.from(sent));
    expect(told).toContain("ended");
    expect(Buffer.concat(await reading).equals(sent)).toBe(true);
  });

  test("its end lets the connection go on before it is read: another answer comes there next", () => {
    const { call, told } = callOf(150_000);
    call.take(body(150_000));
    expect(told).toEqual(["pause", "resume", "ended"]);
    // Whatever becomes of what waits, the connection is another's.
    expect(call.text(1_000_000)).toHaveLength(new TextDecoder().decode(body(150_000)).length);
    call.finish(1_000);
    expect(told).toEqual(["pause", "resume", "ended"]);
  });

  test.each([
    ["at once", [20]],
    ["in pieces", [1, 1, 5, 13]],
  ])("a mark at the beginning of its text is none of it, be it read %s", async (_how, sizes) => {
    const sent = Buffer.from(`\ufeff{"a":"\u00e9 and b"}`);
    const { call } = callOf(sent.length);
    let at = 0;
    const next = (size: number) => {
      call.take(Buffer.from(sent.subarray(at, at + size)));
      at += size;
    };
    next(sizes[0] ?? 0);
    const text = call.text(1_000);
    for (const size of sizes.slice(1)) {
      await nextTurn();
      next(size);
    }
    expect(JSON.parse(await text)).toEqual({ a: "\u00e9 and b" });
  });

  test("one that has come whole, and of which nobody wants the rest, leaves no read unanswered", async () => {
    const { call } = callOf(150_000);
    call.take(body(150_000));
    const reading = call.read();
    call.finish(1_000);
    expect(await reading).toEqual({ done: true });
  });
});
