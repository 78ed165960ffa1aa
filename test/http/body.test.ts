import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import fc from "fast-check";
import { GatewayError } from "../../src/canon/errors.ts";
import { readJson } from "../../src/http/body/body.ts";
import { MAX_DEPTH, MAX_TOKENS } from "../../src/http/body/json-scan.ts";
import {
  HURRIED_RATE,
  HURRY_GRACE_MS,
  UPLOAD_GRACE_MS,
  UPLOAD_RATE,
  UPLOAD_STALL_MS,
  UPLOAD_TOTAL_MS,
} from "../../src/http/body/upload.ts";
import { type Clock, systemClock } from "../../src/lib/clock.ts";
import type { JsonText } from "../../src/lib/json-text.ts";
import { BodyRoom, type Place } from "../../src/limits/body-room.ts";
import { Overloaded } from "../../src/limits/overloaded.ts";
import { manualClock, settle } from "../support/clock.ts";
import { rejectionOf } from "../support/fault.ts";
import { countWork, until, within } from "../support/wait.ts";
import { sendRaw } from "./raw-request.ts";

const MIB = 1024 * 1024;

type Body = string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;

function read(
  body: Body | undefined,
  options: { headers?: Record<string, string>; maxBytes?: number; clock?: Clock; room?: BodyRoom } = {},
): Promise<JsonText> {
  const { headers = {}, maxBytes = 32 * MIB, clock = systemClock, room } = options;
  const request = new Request("http://localhost/v1/messages", {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    ...(body !== undefined && { body }),
  });
  return readJson(request, { maxBytes, clock, room });
}

const bytes = (...values: number[]) => new Uint8Array(values);
const nested = (depth: number) => `{"a":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;

describe("what is accepted", () => {
  const good: [string, string | Uint8Array<ArrayBuffer>, unknown][] = [
    ["an empty object", "{}", {}],
    ["white space around", " \r\n\t{ } \n", {}],
    ["a BOM at the start", bytes(0xef, 0xbb, 0xbf, 0x7b, 0x7d), {}],
    ["duplicate keys: the last one counts", '{"a":1,"a":2}', { a: 2 }],
    ["a lone surrogate as an escape", '{"a":"\\ud800"}', { a: "\ud800" }],
    ["the deepest allowed", nested(MAX_DEPTH), undefined],
    ["brackets inside strings", `{"a":${JSON.stringify("[{".repeat(1000))}}`, { a: "[{".repeat(1000) }],
    ["brackets behind an escaped quote", `{"a":"\\"${"[".repeat(100)}"}`, { a: `"${"[".repeat(100)}` }],
    ["strings that end in backslashes", '{"a":"\\\\","b":"\\\\\\"","c":"["}', { a: "\\", b: '\\"', c: "[" }],
    ["the greatest double", '{"a":1.7976931348623157e308}', { a: Number.MAX_VALUE }],
    ["a number that becomes 0", '{"a":1e-400}', { a: 0 }],
    ["1e400 inside a string", '{"a":"1e400"}', { a: "1e400" }],
    ["__proto__ as a value", '{"a":"__proto__","b":["__proto__"]}', { a: "__proto__", b: ["__proto__"] }],
    ["__proto__ inside a longer key", '{"a__proto__":1}', { a__proto__: 1 }],
    ["constructor as a key", '{"constructor":{"prototype":1}}', { constructor: { prototype: 1 } }],
  ];
  test.each(good)("%s", async (_name, body, value) => {
    const json = await read(body);
    if (value !== undefined) expect(json.value as unknown).toEqual(value);
  });

  test("the text stays as it was sent, big integers and spelling included", async () => {
    const text = '{ "id": 12345678901234567890, "x":1.0e2, "y":"\\u00e9é" }';
    expect((await read(text)).text).toBe(text);
  });

  test.each([
    "application/json",
    "Application/JSON; charset=utf-8",
    "application/vnd.api+json",
    "application/json;x=y",
  ])("content type %s", async (type) => {
    expect((await read("{}", { headers: { "content-type": type } })).value).toEqual({});
  });

  test("no __proto__ ever reaches a prototype", async () => {
    await rejectionOf(read('{"__proto__":{"polluted":true}}'));
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
});

describe("what is refused, and how", () => {
  const bad: [string, string | Uint8Array<ArrayBuffer>][] = [
    ["an empty body", ""],
    ["white space alone", "  \n"],
    ["a BOM alone", bytes(0xef, 0xbb, 0xbf)],
    ["an array at the top", '[{"model":"secret-word"}]'],
    ["a string at the top", '"secret-word"'],
    ["a number at the top", "42"],
    ["null at the top", "null"],
    ["cut off in a string", '{"a":"secret-word'],
    ["cut off in an object", '{"a":{"b":1}'],
    ["cut off after an escape", '{"a":"\\'],
    ["two documents", '{"a":1}{"b":2}'],
    ["a comma too many", '{"a":1,}'],
    ["single quotes", "{'secret-word':1}"],
    ["bare words", "{secret-word:1}"],
    ["NaN", '{"a":NaN}'],
    ["Infinity", '{"a":Infinity}'],
    ["-Infinity", '{"a":-Infinity}'],
    ["1e400", '{"a":1e400}'],
    ["-1E+400", '{"a":[-1E+400]}'],
    ["an integer of 400 digits", `{"a":${"9".repeat(400)}}`],
    ["a leading zero", '{"a":01}'],
    ["hexadecimal", '{"a":0x10}'],
    ["a comment", '{"a":1}// secret-word'],
    ["a line feed inside a string", '{"a":"\n"}'],
    ["a NUL inside a string", '{"a":"\u0000"}'],
    ["a lone continuation byte", bytes(0x7b, 0x22, 0x80, 0x22, 0x3a, 0x31, 0x7d)],
    ["an overlong slash", bytes(0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d)],
    ["a surrogate as bytes", bytes(0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d)],
    ["a character cut in two", bytes(0x7b, 0x22, 0xc3)],
    ["UTF-16", bytes(0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00)],
    ["one level too deep", nested(MAX_DEPTH + 1)],
    ["closing what was never opened", "}}}}"],
    ["mixed brackets", '{"a":[1}'],
  ];
  test.each(bad)("%s", async (_name, body) => {
    const error = await rejectionOf(read(body));
    expect(error.code).toBe("invalid_request");
    expect(error.message).not.toContain("secret-word");
  });

  test.each([
    ['{"__proto__":1}', "__proto__"],
    ['{"messages":[{"a":1},{"__proto__":{}}]}', "messages[1].__proto__"],
    ['{"a":{"\\u005f_proto\\u005F_":1}}', "a.__proto__"],
    ['{"a":{"\\u005F\\u005Fproto__":1}}', "a.__proto__"],
    ['{"__pr\\u006Fto__":1}', "__proto__"],
    ['{"a":{"__\\u0070roto__":1}}', "a.__proto__"],
    ['{"\\u005f\\u005f\\u0070\\u0072\\u006f\\u0074\\u006f\\u005f\\u005f":1}', "__proto__"],
    ['{"a":{"b":[[{"__pro\\u0074o__":null}]]}}', "a.b[0][0].__proto__"],
  ])("the key __proto__ however it is spelled: %s", async (body, param) => {
    expect(await rejectionOf(read(body))).toMatchObject({ code: "invalid_request", param });
  });

  test.each([
    ["", "The request body is empty; a JSON object was expected."],
    [bytes(0x7b, 0x22, 0x80, 0x22, 0x3a, 0x31, 0x7d), "The request body is not valid UTF-8."],
    ['{"a":', "The request body is not valid JSON: it is cut off."],
    ['{"a":}', "The request body is not valid JSON."],
    ["[]", "The request body must be a JSON object."],
  ])("%j: what is wrong is said", async (body, message) => {
    expect((await rejectionOf(read(body))).message).toBe(message);
  });

  test("no body at all", async () => {
    expect((await rejectionOf(read(undefined))).code).toBe("invalid_request");
  });

  test.each([
    ["an empty content type", { "content-type": "" }],
    ["a form", { "content-type": "application/x-www-form-urlencoded" }],
    ["plain text", { "content-type": "text/plain" }],
    ["a type that begins alike", { "content-type": "application/jsonp" }],
    ["JSON as a parameter", { "content-type": "text/plain; application/json" }],
    ["two types", { "content-type": "text/plain, application/json" }],
    ["gzip", { "content-encoding": "gzip" }],
    ["two encodings", { "content-encoding": "identity, br" }],
  ])("%s is 415", async (_name, headers) => {
    expect((await rejectionOf(read("{}", { headers }))).code).toBe("unsupported_media_type");
  });

  test("no content type is 415", async () => {
    const request = new Request("http://localhost/v1/messages", { method: "POST", body: bytes(0x7b, 0x7d) });
    expect(request.headers.has("content-type")).toBe(false);
    const error = await rejectionOf(readJson(request, { maxBytes: MIB, clock: systemClock }));
    expect(error.code).toBe("unsupported_media_type");
  });

  test("identity is no encoding", async () => {
    expect((await read("{}", { headers: { "content-encoding": "Identity" } })).text).toBe("{}");
  });
});

describe("bombs cost nothing", () => {
  const bombs: [string, () => string][] = [
    ["ten million brackets", () => `{"a":${"[".repeat(10_000_000)}`],
    ["ten million objects in each other", () => '{"a":'.repeat(2_000_000)],
    ["six million empty objects", () => `{"a":[${"{},".repeat(6_000_000)}{}]}`],
    ["five million commas", () => `{"a":[${"1,".repeat(5_000_000)}1]}`],
    ["five million keys", () => `{${'"a":1,'.repeat(5_000_000)}"a":1}`],
  ];
  test.each(bombs)("%s", async (_name, make) => {
    const body = new TextEncoder().encode(make());
    const work = countWork();
    const error = await rejectionOf(read(body, { maxBytes: 64 * MIB }));
    expect(error.code).toBe("invalid_request");
    // Decoding 20 MB included; parsing any of these would take seconds.
    expect(work()).toBeLessThan(1_000);
  });

  test("a body just below the token bound passes", async () => {
    const fit = `{"a":[${"1,".repeat(MAX_TOKENS - 6)}1]}`;
    expect(((await read(fit)).value as { a: number[] }).a).toHaveLength(MAX_TOKENS - 5);
    const over = `{"a":[${"1,".repeat(MAX_TOKENS - 3)}1]}`;
    expect((await rejectionOf(read(over))).code).toBe("invalid_request");
  });

  test("a large honest body costs little more than its parse", async () => {
    const text = JSON.stringify({
      messages: Array.from({ length: 400 }, () => ({ content: 'a "quoted" word\n'.repeat(500) })),
    });
    const json = await read(text);
    expect(json.text.length).toBe(text.length);
  });
});

describe("size", () => {
  const text = JSON.stringify({ a: "x".repeat(1000) });

  test("exactly the cap passes, one byte more does not", async () => {
    expect((await read(text, { maxBytes: text.length })).text).toBe(text);
    const headers = { "content-length": String(text.length) };
    expect((await read(text, { maxBytes: text.length, headers })).text).toBe(text);
    expect((await rejectionOf(read(text, { maxBytes: text.length - 1 }))).code).toBe("request_too_large");
  });

  test("a declared length over the cap is refused without reading a byte", async () => {
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>(
      {
        pull() {
          pulled++;
        },
      },
      { highWaterMark: 0 },
    );
    const error = await rejectionOf(read(body, { headers: { "content-length": "1001" }, maxBytes: 1000 }));
    expect(error.code).toBe("request_too_large");
    expect(pulled).toBe(0);
  });

  test("an undeclared body is counted while it comes, and the rest is cancelled", async () => {
    let sent = 0;
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          sent++;
          controller.enqueue(new Uint8Array(1024).fill(32));
        },
        cancel() {
          cancelled = true;
        },
      },
      { highWaterMark: 0 },
    );
    const error = await rejectionOf(read(body, { maxBytes: 10 * 1024 }));
    expect(error.code).toBe("request_too_large");
    expect(cancelled).toBe(true);
    expect(sent).toBeLessThan(15);
  });

  test("a large body that does not say how long it is holds no more room than it takes, once it is here", async () => {
    const room = new BodyRoom({ clock: systemClock, memoryBytes: 256 * MIB, check: () => {}, onRefused: () => {} });
    const large = JSON.stringify({ a: "x".repeat(400_000) });
    const keeper: { place?: Place } = {};
    const body = new Blob([large]).stream();
    const headers = { "content-type": "application/json" };
    const request = new Request("http://localhost/v1/messages", { method: "POST", headers, body });
    await readJson(request, { maxBytes: 32 * MIB, clock: systemClock, room, keeper });
    expect(room.used).toBe(large.length);
    keeper.place?.leave();
    expect(room.used).toBe(0);
  });

  test("a large body that says how long it is takes no more room than that while it comes", async () => {
    const room = new BodyRoom({ clock: systemClock, memoryBytes: 256 * MIB, check: () => {}, onRefused: () => {} });
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({
      start(given) {
        controller = given;
      },
    });
    const reading = read(body, { headers: { "content-length": "400000" }, room });
    controller?.enqueue(new Uint8Array(300_000).fill(32));
    await until(() => room.used > 0, "the place");
    expect(room.used).toBe(400_000);
    controller?.enqueue(new TextEncoder().encode("{}".padStart(100_000)));
    controller?.close();
    await reading;
    expect(room.used).toBe(0);
  });

  test("a lying small length does not let more through", async () => {
    const error = await rejectionOf(read(text, { headers: { "content-length": "5" }, maxBytes: 100 }));
    expect(error.code).toBe("request_too_large");
  });
});

describe("time", () => {
  test.each([
    ["that stands still", ['{"a":']],
    ["of which nothing comes at all", []],
  ])("a body %s is cut, and the rest is cancelled", async (_what, pieces) => {
    const clock = manualClock();
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece));
      },
      cancel() {
        cancelled = true;
      },
    });
    const refusal = rejectionOf(read(body, { clock }));
    await clock.armed(UPLOAD_GRACE_MS);
    let over = false;
    void refusal.finally(() => {
      over = true;
    });
    await clock.advance(UPLOAD_GRACE_MS - 1);
    expect(over).toBe(false);
    await clock.advance(2);
    expect(await within(refusal, "the cut")).toMatchObject({ code: "invalid_request" });
    expect(cancelled).toBe(true);
    expect(clock.pending).toBe(0);
  });

  test.each([
    ["only drips is cut after its grace", 1, UPLOAD_GRACE_MS + 1],
    ["is a little slower than it may be is cut soon after it", (UPLOAD_RATE * 10) / 2, 2 * UPLOAD_GRACE_MS],
    ["is as fast as it must be is cut at the total alone", UPLOAD_RATE * 10, UPLOAD_TOTAL_MS],
  ])("a body that %s", async (_name, bytesEveryTenSeconds, cutAtMs) => {
    const clock = manualClock();
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({
      start(given) {
        controller = given;
      },
    });
    const refusal = rejectionOf(read(body, { clock }));
    let over = false;
    void refusal.finally(() => {
      over = true;
    });
    await clock.armed(UPLOAD_GRACE_MS);
    for (let elapsed = 0; elapsed + 10_000 < cutAtMs; elapsed += 10_000) {
      controller?.enqueue(new Uint8Array(bytesEveryTenSeconds).fill(32));
      await clock.advance(10_000);
    }
    expect(over).toBe(false);
    await clock.advance(10_000);
    expect(await within(refusal, "the cut")).toMatchObject({ code: "invalid_request" });
  });

  test.each([
    // Ten seconds, and what 300,000 bytes have paid for.
    ["while nobody waits for his place, for as long as what he brought has paid for", false, 28_310, 28_311],
    ["while others do, for his five seconds", true, 4_999, 5_000],
  ])(
    "who has waited for room himself may send nothing since then %s",
    async (_what, isWanted, allowedMs, cutAfterMs) => {
      const clock = manualClock();
      const room = new BodyRoom({ clock, memoryBytes: 256 * MIB, check: () => {}, onRefused: () => {} });
      await clock.advance(60_000);
      const taken = await room.enter(32 * MIB);
      const piece = new Uint8Array(300_000).fill(32);
      const body = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(piece) });
      let over = false;
      const outcome = rejectionOf(read(body, { clock, room })).finally(() => {
        over = true;
      });
      while (room.waiting === 0) await settle(1);
      await clock.advance(9_000);
      taken.leave();
      await settle();
      const next = isWanted ? room.enter(32 * MIB) : undefined;
      await clock.advance(allowedMs);
      expect(over).toBe(false);
      await clock.advance(cutAfterMs - allowedMs);
      expect((await within(outcome, "the cut")) instanceof Overloaded).toBe(isWanted);
      (await next)?.leave();
      expect([room.used, clock.pending]).toEqual([0, 0]);
    },
  );

  test("who holds the place that others wait for is to hurry, and is told to come back where he does not", async () => {
    for (const bytesASecond of [HURRIED_RATE, HURRIED_RATE / 4]) {
      const clock = manualClock();
      const room = new BodyRoom({ clock, memoryBytes: 64 * MIB, check: () => {}, onRefused: () => {} });
      let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
      const body = new ReadableStream<Uint8Array>({
        start(given) {
          controller = given;
        },
      });
      const send = (size: number) => controller?.enqueue(new Uint8Array(size).fill(32));
      const outcome = read(body, { clock, room }).catch((error: unknown) => error);
      let over = false;
      void outcome.finally(() => {
        over = true;
      });
      send(300 * 1024);
      await settle();
      expect(room.used).toBe(32 * MIB);
      // While nobody waits for it he may take his time.
      for (let second = 0; second < 3; second++) await clock.advance(1_000);
      const waiting = room.enter(MIB);
      for (let second = 0; second < (2 * HURRY_GRACE_MS) / 1_000 - 2; second++) {
        if (!over) send(bytesASecond);
        await clock.advance(1_000);
      }
      expect(over).toBe(bytesASecond < HURRIED_RATE);
      if (over) {
        expect(await outcome).toBeInstanceOf(Overloaded);
        (await waiting).leave();
        expect(room.used).toBe(0);
      }
    }
  });

  test("bodies that arrive leave nothing behind but the one timer that all share, and that once", async () => {
    const clock = manualClock();
    await read("{}", { clock });
    for (let count = 0; count < 3; count++) await read("{}", { clock, headers: { "content-length": "2" } });
    expect(clock.pending).toBeLessThanOrEqual(1);
    await clock.advance(UPLOAD_STALL_MS);
    expect(clock.pending).toBe(0);
  });
});

describe("over a socket", () => {
  let server: ReturnType<typeof Bun.serve>;
  const clock = manualClock();
  const ended: string[] = [];

  beforeAll(() => {
    server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      async fetch(request) {
        try {
          const json = await readJson(request, { maxBytes: 2 * MIB, clock });
          return new Response(String(json.text.length));
        } catch (error) {
          const code = error instanceof GatewayError ? error.code : "not a GatewayError";
          ended.push(code);
          return new Response(code, { status: 400 });
        }
      },
    });
  });
  afterAll(() => server.stop(true));

  const HEAD = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n";
  const send = (text: string) => sendRaw(server.port ?? 0, text);

  test("declared, chunked and large bodies arrive whole", async () => {
    expect((await send(`${HEAD}Content-Length: 7\r\n\r\n{"a":1}`)).body).toBe("7");
    expect((await send(`${HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n`)).body).toBe("7");
    const large = JSON.stringify({ a: "x".repeat(MIB) });
    expect((await send(`${HEAD}Content-Length: ${large.length}\r\n\r\n${large}`)).body).toBe(String(large.length));
  });

  test("too large is told at once, declared or chunked", async () => {
    expect((await send(`${HEAD}Content-Length: 99999999\r\n\r\n{`)).body).toBe("request_too_large");
    const chunk = `10000\r\n${" ".repeat(0x10000)}\r\n`;
    expect((await send(`${HEAD}Transfer-Encoding: chunked\r\n\r\n${chunk.repeat(40)}`)).body).toBe("request_too_large");
  });

  test.each(["Content-Length: 100", "Content-Length: 1000000", "Transfer-Encoding: chunked"])(
    "a client that stalls is told so (%s)",
    async (framing) => {
      const start = framing.startsWith("T") ? '5\r\n{"a":\r\n' : '{"a":';
      const answer = send(`${HEAD}${framing}\r\n\r\n${start}`);
      // What is small is awaited in one piece.
      const first = framing === "Content-Length: 100" ? UPLOAD_STALL_MS : UPLOAD_GRACE_MS;
      await within(clock.armed(first), "the upload to begin");
      await clock.advance(UPLOAD_STALL_MS * 2);
      expect((await within(answer, "the answer")).body).toBe("invalid_request");
    },
  );

  test("a client that leaves in the middle ends the read", async () => {
    ended.length = 0;
    const socket = connect(server.port ?? 0, "127.0.0.1", () =>
      socket.write(`${HEAD}Content-Length: 1000000\r\n\r\n{"a":`),
    );
    await within(clock.armed(UPLOAD_GRACE_MS), "the upload to begin");
    socket.destroy();
    await until(() => ended.length > 0, "the read to end");
    expect(ended).toEqual(["invalid_request"]);
    expect(clock.pending).toBe(0);
  });
});

describe("random", () => {
  test("whatever JSON.stringify writes is read back equal, or refused for its top level", async () => {
    await fc.assert(
      fc.asyncProperty(fc.json({ maxDepth: 6 }), async (text) => {
        let holdsProto = false;
        const value = JSON.parse(text, (key, inner: unknown) => {
          if (key === "__proto__") holdsProto = true;
          return inner;
        }) as unknown;
        const isTopObject = typeof value === "object" && value !== null && !Array.isArray(value);
        if (!isTopObject || holdsProto) expect((await rejectionOf(read(text))).code).toBe("invalid_request");
        else expect((await read(text)).value).toEqual(value);
      }),
      { numRuns: 500 },
    );
  });

  test("any bytes end in an object or a GatewayError, never in anything else", async () => {
    const soup = fc.array(
      fc.constantFrom(
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
        ",",
        ":",
        "1",
        "e",
        "-",
        "a",
        "\\u00",
        "5f",
        " ",
        "__proto__",
        "é",
      ),
      { maxLength: 40 },
    );
    await fc.assert(
      fc.asyncProperty(soup, async (parts) => {
        const text = parts.join("");
        let parsed: unknown;
        try {
          parsed = JSON.parse(text);
        } catch {
          parsed = undefined;
        }
        const outcome = await read(text).catch((error: unknown) => error);
        if (outcome instanceof GatewayError) expect(outcome.code).toBe("invalid_request");
        else expect((outcome as JsonText).value).toEqual(parsed);
      }),
      { numRuns: 2000 },
    );
  });

  test("bytes that are no text", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 64 }), async (raw) => {
        const outcome = await read(new Uint8Array(raw)).catch((error: unknown) => error);
        expect(outcome instanceof GatewayError || typeof (outcome as JsonText).text === "string").toBe(true);
      }),
    );
  });
});
