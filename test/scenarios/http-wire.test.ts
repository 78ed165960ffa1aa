import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { UPLOAD_STALL_MS } from "../../src/http/body/upload.ts";
import { IDLE_SECONDS } from "../../src/server.ts";
import { oneProcessOnly } from "../support/black-box-config.ts";
import { type ManualClock, manualClock, settle } from "../support/clock.ts";
import { json, neverAnswer, type Part, sse } from "../support/upstream.ts";
import { type Gate, gate, until, within } from "../support/wait.ts";
import type { Ending, RawClient, WireAnswer } from "./http-wire-client.ts";
import { startWireLab, type WireLab } from "./http-wire-lab.ts";
import { MALFORMED } from "./http-wire-malformed.ts";
import {
  bodyOf,
  CHAT,
  CHUNKED,
  chat,
  chunk,
  HOST,
  JSON_TYPE,
  KEY,
  LAST,
  lengthOf,
  lines,
  PROBE,
  sound,
} from "./http-wire-requests.ts";
import { PIECES, readRecords, SAID, type Side, WIRES } from "./wires.ts";

setDefaultTimeout(30_000);

const VENDOR_PATH = "/v1/chat/completions";
const MIB = 1024 * 1024;
/** The largest body of a generation (reliability 7.5), bytes. */
const MAX_BODY = 32 * MIB;
/** By when a client that left is noticed, ms. */
const NOTICED_MS = 1_000;
/** What a request must never be served for: it stands behind one that was refused. */
const HIDDEN = "hidden-behind";

let lab: WireLab;
beforeAll(async () => {
  lab = await startWireLab();
});
afterAll(() => lab.end());
beforeEach(() => {
  lab.vendor.reset();
  lab.vendor.always(VENDOR_PATH, (call) => json(replyTo(lastText(call.json))));
});

afterEach(() => {
  const { calls, unexpected } = lab.vendor;
  expect(unexpected).toEqual([]);
  expect(calls.filter(({ text }) => text.includes(HIDDEN))).toEqual([]);
});

const lastText = (body: unknown) => (body as { messages: { content: string }[] }).messages.at(-1)?.content ?? "";

/** A reply that says again what it was asked. */
function replyTo(text: string) {
  const message = { role: "assistant", content: text };
  return { ...WIRES.chat.reply(), choices: [{ index: 0, message, finish_reason: "stop" }] };
}

/** What the vendor's model said, of an answer to a chat request. */
const saidBy = ({ status, body }: WireAnswer): string => {
  if (status !== 200) return `${status}: ${body.slice(0, 300)}`;
  return (JSON.parse(body) as { choices: { message: { content: string } }[] }).choices[0]?.message.content ?? "";
};

/** What the gateway's error says of itself, in the dialect of its shape. */
function codeOf({ body }: WireAnswer): [dialect: Side, code: string] {
  const told = JSON.parse(body) as { type?: string; error: { code: string } };
  return [told.type === "error" ? "messages" : "chat", told.error.code];
}

/** What becomes of a connection: it serves another request as it should, or it ended. Throws for anything else. */
async function askOn(client: RawClient): Promise<"serves" | Ending> {
  await client.send(PROBE);
  try {
    const { status, body } = await client.answer();
    expect([status, JSON.parse(body)]).toEqual([200, { status: "ok" }]);
    return "serves";
  } catch (thrown) {
    if (client.ending === undefined || client.rest !== "") throw thrown;
    return client.ending;
  }
}

/** Sends `text` on a connection of its own; gives the one answer, what became of the connection, and how many calls the vendor got. */
async function exchange(text: string, to: { head?: boolean } = {}) {
  const before = lab.vendor.calls.length;
  const client = await lab.connect();
  await client.send(text);
  const answer = await client.answer(to);
  const after = await askOn(client);
  client.leave();
  return { answer, after, calls: lab.vendor.calls.length - before };
}

describe("a connection is kept", () => {
  test("for two requests, one after the other", async () => {
    const client = await lab.connect();
    for (const text of ["one", "two"]) {
      await client.send(sound(text));
      expect(saidBy(await client.answer())).toBe(text);
    }
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test("for 100 requests", async () => {
    const client = await lab.connect();
    for (let count = 0; count < 100; count++) {
      await client.send(count % 2 === 0 ? PROBE : sound(`number ${count}`));
      const answer = await client.answer();
      expect(answer.status).toBe(200);
      if (count % 2 === 1) expect(saidBy(answer)).toBe(`number ${count}`);
    }
    expect(lab.vendor.calls.length).toBe(50);
    client.leave();
  });

  test.each([["close"], ["Close"], ["keep-alive, close"], ["x, close , y"]])(
    "not after connection: %s",
    async (word) => {
      for (const request of [
        sound("bye", {}, `Connection: ${word}`),
        lines("GET /healthz HTTP/1.1", HOST, KEY, `Connection: ${word}`),
      ]) {
        const client = await lab.connect();
        await client.send(request + PROBE);
        const { status, headers } = await client.answer();
        expect({ status, connection: headers["connection"]?.toLowerCase() }).toEqual({
          status: 200,
          connection: "close",
        });
        expect([await client.over(), client.rest]).toEqual(["closed", ""]);
      }
    },
  );

  test("not for HTTP/1.0", async () => {
    const client = await lab.connect();
    const body = bodyOf("old");
    await client.send(chat([lengthOf(body)], body, "POST /v1/chat/completions HTTP/1.0") + PROBE);
    const answer = await client.answer();
    expect(saidBy(answer)).toBe("old");
    expect(["length", "close"]).toContain(answer.framing);
    expect([await client.over(), client.rest]).toEqual(["closed", ""]);
  });

  test.each(["keep-alive", "Keep-Alive", "x, keep-alive"])(
    "for HTTP/1.0 with connection: %s, which is told",
    async (word) => {
      const client = await lab.connect();
      const body = bodyOf("old");
      const asked = chat([lengthOf(body), `Connection: ${word}`], body, "POST /v1/chat/completions HTTP/1.0");
      for (const request of [asked, lines("GET /healthz HTTP/1.0", HOST, KEY, `Connection: ${word}`), asked]) {
        await client.send(request);
        const { status, headers, framing } = await client.answer();
        expect({ status, framing, connection: headers["connection"] }).toEqual({
          ...{ status: 200, framing: "length", connection: "keep-alive" },
        });
      }
      client.leave();
    },
  );

  test("not for HTTP/1.0 with connection: keep-alive, close", async () => {
    const client = await lab.connect();
    await client.send(lines("GET /healthz HTTP/1.0", HOST, KEY, "Connection: keep-alive, close") + PROBE);
    expect((await client.answer()).headers["connection"]).toBe("close");
    expect([await client.over(), client.rest]).toEqual(["closed", ""]);
  });

  test("not behind an answer to HTTP/1.0 that ends with its connection", async () => {
    const client = await lab.connect();
    const body = bodyOf("old", { stream: true });
    lab.vendor.answer(VENDOR_PATH, stream([begun(), rest()]));
    const request = chat([lengthOf(body), "Connection: keep-alive"], body, "POST /v1/chat/completions HTTP/1.0");
    await client.send(request + PROBE);
    const { status, headers, framing, body: said } = await client.answer();
    expect({ status, framing, connection: headers["connection"] }).toEqual({
      ...{ status: 200, framing: "close", connection: "close" },
    });
    expect(said.trimEnd().endsWith("data: [DONE]")).toBe(true);
    expect([await client.over(), client.rest]).toEqual(["closed", ""]);
  });

  test.each([2, 10])("for %d requests in one write, answered in order", async (count) => {
    const client = await lab.connect();
    const texts = Array.from({ length: count }, (_, at) => `in order ${at}`);
    // The later ones would be done first.
    lab.vendor.always(VENDOR_PATH, (call) => {
      const text = lastText(call.json);
      const more = texts.length - texts.indexOf(text);
      return { ...json(replyTo(text)), headersAfter: settle(more * 4) };
    });
    await client.send(texts.map((text) => sound(text)).join(""));
    for (const text of texts) expect(saidBy(await client.answer())).toBe(text);
    expect(lab.vendor.calls.length).toBe(count);
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test("for ten large requests in one write, answered in order", async () => {
    const client = await lab.connect();
    const texts = Array.from({ length: 10 }, (_, at) => `${at} ${"x".repeat(100_000)}`);
    lab.vendor.always(VENDOR_PATH, (call) => json(replyTo(lastText(call.json).slice(0, 1))));
    const sent = client.send(texts.map((text) => sound(text)).join(""));
    for (const at of texts.keys()) expect(saidBy(await client.answer())).toBe(String(at));
    expect(await sent).toBe(true);
    expect(lab.vendor.calls.map(({ json: asked }) => lastText(asked).length)).toEqual(
      texts.map(({ length }) => length),
    );
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test("for a quick request behind a slow one, in one write", async () => {
    const client = await lab.connect();
    const answers = gate();
    lab.vendor.answer(VENDOR_PATH, { ...json(replyTo("slow")), headersAfter: answers.opened });
    await client.send(sound("slow") + PROBE);
    await lab.vendor.called();
    await settle();
    expect(client.rest).toBe("");
    answers.open();
    expect(saidBy(await client.answer())).toBe("slow");
    expect((await client.answer()).status).toBe(200);
    client.leave();
  });

  test("for a large request behind a slow one, of which more comes than is kept meanwhile", async () => {
    const client = await lab.connect();
    const answers = gate();
    lab.vendor.answer(VENDOR_PATH, { ...json(replyTo("slow")), headersAfter: answers.opened });
    lab.vendor.answer(VENDOR_PATH, json(replyTo("large")));
    const sent = client.send(sound("slow") + sound("x".repeat(8_000_000)));
    await lab.vendor.called();
    await Bun.sleep(50);
    answers.open();
    expect(saidBy(await client.answer())).toBe("slow");
    expect(saidBy(await client.answer())).toBe("large");
    expect(await sent).toBe(true);
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test("for a request behind a stream, in one write", async () => {
    const client = await lab.connect();
    lab.vendor.answer(VENDOR_PATH, stream([begun(), rest()]));
    await client.send(sound("Hi", { stream: true }) + sound("after it"));
    const streamed = await client.answer();
    expect(streamed.framing).toBe("chunked");
    expect(streamed.body).toEndWith("data: [DONE]\n\n");
    expect(saidBy(await client.answer())).toBe("after it");
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test("for what comes after a refusal", async () => {
    const body = bodyOf(HIDDEN);
    const { answer, after, calls } = await exchange(lines(CHAT, HOST, JSON_TYPE, lengthOf(body)) + body);
    expect([answer.status, codeOf(answer), after, calls]).toEqual([401, ["chat", "invalid_api_key"], "serves", 0]);
  });

  test("for a request of which half has come with the one before", async () => {
    const client = await lab.connect();
    const [first, second] = [sound("first"), lab.fill(sound("second"))];
    await client.send(first + second.slice(0, 30));
    expect(saidBy(await client.answer())).toBe("first");
    await client.send(second.slice(30));
    expect(saidBy(await client.answer())).toBe("second");
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test("no longer than up to what is no request", async () => {
    const client = await lab.connect();
    await client.send(`${sound("first")}nonsense\r\n\r\n${sound(HIDDEN)}`);
    expect(saidBy(await client.answer())).toBe("first");
    expect((await client.answer()).status).toBe(400);
    await client.over();
    expect([client.rest, lab.vendor.calls.length]).toEqual(["", 1]);
  });

  test("for any requests, wherever their bytes are cut (random)", async () => {
    const framings: ((body: string) => string)[] = [
      (body) => chat([lengthOf(body)], body),
      (body) => chat([CHUNKED], chunk(body.slice(0, 9)) + chunk(body.slice(9)) + LAST),
      (body) => chat([CHUNKED], `${chunk(body, ";a=b")}0\r\nX-Sum: 1\r\n\r\n`),
    ];
    const requests = fc.array(fc.integer({ min: -1, max: framings.length - 1 }), { minLength: 1, maxLength: 5 });
    const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(requests, cuts, async (kinds, places) => {
        const client = await lab.connect();
        const text = kinds.map((kind, at) => framings[kind]?.(bodyOf(`number ${at}`)) ?? PROBE).join("");
        const bytes = lab.fill(text);
        let sent = 0;
        for (const cut of [
          ...places.map((place) => Math.floor(place * bytes.length)).sort((a, b) => a - b),
          bytes.length,
        ]) {
          await client.send(bytes.slice(sent, cut));
          await settle(2);
          sent = cut;
        }
        for (const [at, kind] of kinds.entries()) {
          const answer = await client.answer();
          if (kind < 0) expect(answer.status).toBe(200);
          else expect(saidBy(answer)).toBe(`number ${at}`);
        }
        expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
        client.leave();
      }),
      { numRuns: 40 },
    );
  });

  test("for a request behind empty lines", async () => {
    const { answer, after } = await exchange(`\r\n${sound("after an empty line")}`);
    expect([saidBy(answer), after]).toEqual(["after an empty line", "serves"]);
  });
});

describe("a head", () => {
  const body = bodyOf("odd but right");
  const ODD: [name: string, extra: string[]][] = [
    [
      "with a wish for another protocol",
      ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"],
    ],
    ["with a wish for a web socket", ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]],
    [
      "with what old proxies send",
      [
        "Connection: keep-alive, TE",
        "TE: trailers, deflate;q=0.5",
        "Keep-Alive: timeout=5",
        "Proxy-Connection: keep-alive",
      ],
    ],
    ["with empty values", ["X-A:", "X-B: ", "X-C:\t"]],
    ["with bytes above ASCII in a value", ["X-A: \xe4\xff\x80"]],
    ["with tabs in a value", ["X-A: a\tb", "X-B:\tc\t"]],
    ["with every character that a name may have", ["!#$%&'*+-.^_`|~09azAZ: b"]],
    ["with the same name many times", Array.from({ length: 20 }, () => "X-A: b")],
    ["of 60 lines", Array.from({ length: 60 }, (_, at) => `X-H${at}: ${"v".repeat(60)}`)],
    ["with a line of 8 KB", [`Cookie: ${"c".repeat(8 * 1024 - 10)}`]],
    ["with names of the object's own", ["__proto__: a", "constructor: b", "toString: c", "hasOwnProperty: d"]],
  ];
  test.each(ODD)("%s is taken", async (_name, extra) => {
    const { answer, after, calls } = await exchange(chat([lengthOf(body), ...extra], body));
    expect([saidBy(answer), after, calls]).toEqual(["odd but right", "serves", 1]);
  });

  test("in any letters is taken", async () => {
    const head = [CHAT, "hOsT: 127.0.0.1:PORT", "AUTHORIZATION: bearer KEY", "content-TYPE: application/json"];
    for (const [framing, sent] of [
      [`CONTENT-length: ${body.length}`, body],
      ["transfer-ENCODING: CHUNKED", chunk(body) + LAST],
    ] as const) {
      const { answer, after, calls } = await exchange(lines(...head, framing) + sent);
      expect([saidBy(answer), after, calls]).toEqual(["odd but right", "serves", 1]);
    }
  });

  test("of every answer says when it was made, and nothing twice", async () => {
    const held = bodyOf("Hi", { stream: true });
    for (const request of [
      PROBE,
      chat([lengthOf(body)], body),
      chat([lengthOf(held)], held),
      lines(CHAT, HOST),
      lines("GET /nothing HTTP/1.1", HOST),
    ]) {
      if (request.endsWith(held)) lab.vendor.answer(VENDOR_PATH, stream([begun(), rest()]));
      const { answer } = await exchange(request);
      const { date = "", ...others } = answer.headers;
      expect(date).toMatch(/^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/);
      expect(Math.abs(Date.parse(date) - Date.now())).toBeLessThan(10_000);
      expect(others["x-request-id"]).toMatch(/^req_\w+$/);
      expect(others["request-id"]).toBe(others["x-request-id"] ?? "");
      for (const name of ["content-type", "content-length", "transfer-encoding", "connection"]) {
        expect(others[name] ?? "").not.toContain(",");
      }
    }
  });
});

describe("an answer to a client that reads late", () => {
  test("is whole, however large", async () => {
    const text = "0123456789".repeat(600 * 1024);
    lab.vendor.answer(VENDOR_PATH, json(replyTo(text)));
    const client = await lab.connect();
    client.holdReading();
    const rows = lab.rows().length;
    await client.send(sound("much"));
    await newRow(rows);
    await settle();
    client.readOn();
    expect(saidBy(await client.answer()) === text).toBe(true);
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test("is whole, as a stream", async () => {
    const COUNT = 300;
    const pieces = Array.from({ length: COUNT }, (_, at) => wire.text(`<${at}>${"x".repeat(10_000)}`));
    lab.vendor.answer(VENDOR_PATH, stream([wire.head(), ...pieces, wire.finish() + wire.usage() + wire.terminator]));
    const client = await lab.connect();
    client.holdReading();
    await client.send(sound("much", { stream: true }) + PROBE);
    await lab.vendor.called();
    await settle(100);
    client.readOn();
    const answer = await client.answer();
    const said = saidIn(answer);
    expect([...said.matchAll(/<(\d+)>/g)].map(([, at]) => Number(at))).toEqual(
      Array.from({ length: COUNT }, (_, at) => at),
    );
    expect(answer.body).toEndWith("data: [DONE]\n\n");
    expect((await client.answer()).status).toBe(200);
    client.leave();
  });
});

const wire = WIRES.chat;
const begun = () => wire.head() + wire.text(PIECES[0]);
const rest = () => wire.text(PIECES[1]) + wire.finish() + wire.usage() + wire.terminator;
const stream = (parts: readonly Part[], finish: "end" | "silence" | "cut" | "reset" = "end") => sse(parts, { finish });

describe("an answer that is no generation", () => {
  const LARGE = lines("GET /openapi/json HTTP/1.1", HOST, KEY);
  const COUNT = 20;

  test("is whole too for a client that reads late, however many there are", async () => {
    const client = await lab.connect();
    client.holdReading();
    await client.send(LARGE.repeat(COUNT) + PROBE);
    await open();
    client.readOn();
    const first = await client.answer();
    expect(JSON.parse(first.body).openapi).toBeString();
    for (let at = 1; at < COUNT; at++) expect((await client.answer()).body === first.body).toBe(true);
    expect((await client.answer()).status).toBe(200);
    expect(client.rest).toBe("");
    client.leave();
  });

  test("is not chunked to an old client, and whole", async () => {
    const whole = await exchange(LARGE);
    const client = await lab.connect();
    await client.send(LARGE.replace("HTTP/1.1", "HTTP/1.0"));
    const answer = await client.answer();
    expect(["close", "length"]).toContain(answer.framing);
    expect(answer.body === whole.answer.body).toBe(true);
    expect([await client.over(), client.rest]).toEqual(["closed", ""]);
  });

  test("is whole before the close that was asked for", async () => {
    const whole = await exchange(LARGE);
    const client = await lab.connect();
    client.holdReading();
    await client.send(lines("GET /openapi/json HTTP/1.1", HOST, KEY, "Connection: close") + PROBE);
    await open();
    client.readOn();
    expect((await client.answer()).body === whole.answer.body).toBe(true);
    await client.over();
    expect(client.rest).toBe("");
  });
});

describe("a body", () => {
  const said = "words, and Wörter";
  const body = bodyOf(said).replace("ö", "\\u00f6");
  const third = Math.floor(body.length / 3);
  const parts = [body.slice(0, 1), body.slice(1, third), body.slice(third)];
  const FORMS: [name: string, framing: string[], sent: string][] = [
    ["of a declared length", [lengthOf(body)], body],
    ["in one chunk", [CHUNKED], chunk(body) + LAST],
    ["in chunks of one byte", [CHUNKED], [...body].map((one) => chunk(one)).join("") + LAST],
    ["in odd chunks", [CHUNKED], parts.map((part) => chunk(part)).join("") + LAST],
    ["in a chunk whose size begins with zeros", [CHUNKED], `000${chunk(body)}000\r\n\r\n`],
    ["in a chunk with a size in capitals", [CHUNKED], chunk(body).replace(/^\w+/, (size) => size.toUpperCase()) + LAST],
    ["in chunks with extensions", [CHUNKED], `${chunk(body, ';a=b;c;d="e;\\"f"')}0;last\r\n\r\n`],
    ["in chunks with trailers", [CHUNKED, "Trailer: X-Sum"], `${chunk(body)}0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n`],
    ["in chunks, spelled otherwise", ["transfer-encoding:\t Chunked \t"], chunk(body) + LAST],
    ["with blanks around its length", [`Content-Length: \t ${body.length} \t`], body],
    ["with a length that begins with zeros", [`Content-Length: 000${body.length}`], body],
  ];

  test.each(FORMS)("%s", async (_name, framing, sent) => {
    const { answer, after, calls } = await exchange(chat(framing, sent));
    expect([saidBy(answer), after, calls]).toEqual([said, "serves", 1]);
  });

  const CUT: [name: string, framing: string[], sent: string][] = [
    ["of a declared length", [lengthOf(body)], body],
    [
      "in chunks",
      [CHUNKED],
      `${chunk(parts[0] + (parts[1] ?? ""), ";x=y")}${chunk(parts[2] ?? "")}0\r\nX-Sum: 1\r\n\r\n`,
    ],
  ];
  test.each(CUT)("cut anywhere into two writes, %s", async (_name, framing, sent) => {
    const client = await lab.connect();
    const request = lab.fill(chat(framing, sent));
    const bodyAt = request.indexOf("\r\n\r\n") + 4;
    for (let cut = bodyAt - 2; cut < request.length; cut++) {
      await client.send(request.slice(0, cut));
      await settle(2);
      await client.send(request.slice(cut));
      expect([cut, saidBy(await client.answer())]).toEqual([cut, said]);
    }
    expect(new Set(lab.vendor.calls.map(({ json: asked }) => lastText(asked)))).toEqual(new Set([said]));
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test.each(CUT)("one byte a write, head and all, %s", async (_name, framing, sent) => {
    const client = await lab.connect();
    for (const byte of lab.fill(chat(framing, sent))) {
      await client.send(byte);
      await settle(1);
    }
    expect(saidBy(await client.answer())).toBe(said);
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test("a head cut anywhere into two writes", async () => {
    const client = await lab.connect();
    const request = lab.fill(lines("GET /v1/models/sluice%2Fecho?a=b HTTP/1.1", HOST, "X-Api-Key:KEY"));
    for (let cut = 1; cut < request.length; cut++) {
      await client.send(request.slice(0, cut));
      await settle(2);
      await client.send(request.slice(cut));
      const { status, body: told } = await client.answer();
      expect([cut, status, JSON.parse(told).id]).toEqual([cut, 200, "sluice/echo"]);
    }
    client.leave();
  });

  test.each([300 * 1024, 5 * MIB])("of %d bytes, declared and in chunks", async (size) => {
    const client = await lab.connect();
    const large = bodyOf("x".repeat(size));
    const sizes = [1, 17, 4_093, 65_537];
    let chunked = "";
    for (let at = 0, turn = 0; at < large.length; turn++) {
      const length = turn < 40 ? (sizes[turn % sizes.length] ?? 1) : 300_007;
      chunked += chunk(large.slice(at, at + length));
      at += length;
    }
    for (const [framing, sent] of [
      [lengthOf(large), large],
      [CHUNKED, chunked + LAST],
    ] as const) {
      lab.vendor.answer(VENDOR_PATH, json(replyTo("taken")));
      await client.send(chat([framing], sent));
      expect(saidBy(await client.answer())).toBe("taken");
      expect(lastText(lab.vendor.calls.at(-1)?.json).length).toBe(size);
    }
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  const EMPTY: [name: string, framing: string[], sent: string][] = [
    ["content-length 0", ["Content-Length: 0"], ""],
    ["no framing at all", [], ""],
    ["no chunk but the last", [CHUNKED], LAST],
  ];
  test.each(EMPTY)("that is empty, by %s", async (_name, framing, sent) => {
    const { answer, after, calls } = await exchange(chat(framing, sent));
    expect([answer.status, codeOf(answer), after, calls]).toEqual([400, ["chat", "invalid_request"], "serves", 0]);
  });

  test("of a GET is not taken as a request", async () => {
    const inside = sound(HIDDEN);
    for (const [framing, sent] of [
      [lengthOf(lab.fill(inside)), inside],
      [CHUNKED, chunk(lab.fill(inside)) + LAST],
    ] as const) {
      const { answer, after, calls } = await exchange(lines("GET /healthz HTTP/1.1", HOST, KEY, framing) + sent);
      expect([answer.status, calls]).toEqual([200, 0]);
      expect(["serves", "closed"]).toContain(after);
    }
  });
});

describe("a body that is not wanted", () => {
  /** A body that is nothing but sound requests, which cost if they are served. */
  const requests = (bytes: number) => lab.fill(sound(HIDDEN)).repeat(Math.ceil(bytes / lab.fill(sound(HIDDEN)).length));
  const PATHS: [Side, string][] = [
    ["chat", "/v1/chat/completions"],
    ["messages", "/v1/messages"],
  ];

  /** What a client reads that has sent all of it. */
  const expectTooLarge = async (client: RawClient, side: Side) => {
    client.readOn();
    const answer = await client.answer();
    expect([answer.status, codeOf(answer)]).toEqual([413, [side, "request_too_large"]]);
    expect(["serves", "closed"]).toContain(await askOn(client));
    expect(lab.vendor.calls).toEqual([]);
    client.leave();
  };

  test.each(PATHS)(
    "above 32 MB is answered in the %s dialect, declared, to a client that sends all of it first",
    async (side, path) => {
      const client = await lab.connect();
      client.holdReading();
      await client.send(lines(`POST ${path} HTTP/1.1`, HOST, KEY, JSON_TYPE, `Content-Length: ${MAX_BODY + 1}`));
      expect(await client.send(Buffer.alloc(MAX_BODY + 1, 32))).toBe(true);
      await expectTooLarge(client, side);
    },
  );

  test.each(PATHS)(
    "above 32 MB is answered in the %s dialect, in chunks, to a client that sends all of it first",
    async (side, path) => {
      const client = await lab.connect();
      client.holdReading();
      await client.send(lines(`POST ${path} HTTP/1.1`, HOST, KEY, JSON_TYPE, CHUNKED));
      const piece = Buffer.from(chunk(" ".repeat(MIB)));
      for (let sent = 0; sent <= MAX_BODY; sent += MIB) expect(await client.send(piece)).toBe(true);
      expect(await client.send(LAST)).toBe(true);
      await expectTooLarge(client, side);
    },
  );

  test("declared too large is told before a byte of it has come", async () => {
    const client = await lab.connect();
    await client.send(lines(CHAT, HOST, KEY, JSON_TYPE, `Content-Length: ${MAX_BODY + 1}`));
    expect((await client.answer()).status).toBe(413);
    client.leave();
  });

  test("declared larger than anything is taken is told so too", async () => {
    const client = await lab.connect();
    await client.send(lines(CHAT, HOST, KEY, JSON_TYPE, `Content-Length: ${1024 * MIB}`));
    const answer = await client.answer();
    expect([answer.status, codeOf(answer)]).toEqual([413, ["chat", "request_too_large"]]);
    client.leave();
  });

  test.each(["declared", "in chunks"])("is refused for its key while it comes, %s", async (form) => {
    const client = await lab.connect();
    const inside = requests(MIB);
    const framing = form === "declared" ? lengthOf(inside) : CHUNKED;
    const sent = form === "declared" ? inside : chunk(inside) + LAST;
    await client.send(lines(CHAT, HOST, JSON_TYPE, framing));
    await client.send(sent.slice(0, MIB / 2));
    const answer = await client.answer();
    expect([answer.status, codeOf(answer)]).toEqual([401, ["chat", "invalid_api_key"]]);
    // Sent on by a client that does not look: nothing of it is a request.
    await client.send(sent.slice(MIB / 2));
    const after = await askOn(client);
    expect(["serves", "closed", "reset"]).toContain(after);
    expect([client.rest, lab.vendor.calls.length]).toEqual(["", 0]);
    client.leave();
  });

  test("is refused for its key, and the answer can be read by a client that sends all of it first", async () => {
    const client = await lab.connect();
    const inside = requests(MIB);
    client.holdReading();
    await client.send(lines(CHAT, HOST, JSON_TYPE, lengthOf(inside)));
    expect(await client.send(inside)).toBe(true);
    client.readOn();
    const answer = await client.answer();
    expect([answer.status, codeOf(answer)]).toEqual([401, ["chat", "invalid_api_key"]]);
    expect(["serves", "closed"]).toContain(await askOn(client));
    expect([client.rest, lab.vendor.calls.length]).toEqual(["", 0]);
    client.leave();
  });

  test("at a path where nothing is, the same", async () => {
    const inside = requests(64 * 1024);
    const { answer, after, calls } = await exchange(
      lines("POST /nothing HTTP/1.1", HOST, KEY, lengthOf(inside)) + inside,
    );
    expect([answer.status, codeOf(answer), calls]).toEqual([404, ["chat", "not_found"], 0]);
    expect(["serves", "closed"]).toContain(after);
  });
});

test("who is refused between its head and its body is served on behind that", async () => {
  const client = await lab.connect();
  const body = bodyOf(HIDDEN);
  await client.send(lines(CHAT, HOST, JSON_TYPE, lengthOf(body)));
  const answer = await client.answer();
  expect([answer.status, codeOf(answer)]).toEqual([401, ["chat", "invalid_api_key"]]);
  await client.send(body);
  expect([await askOn(client), client.rest, lab.vendor.calls.length]).toEqual(["serves", "", 0]);
  client.leave();
});

describe("expect: 100-continue", () => {
  const EXPECT = "Expect: 100-continue";

  test("the body is asked for, then the answer comes", async () => {
    const client = await lab.connect();
    const body = bodyOf("asked for");
    await client.send(chat([lengthOf(body), EXPECT], ""));
    const { status, framing } = await client.answer();
    expect([status, framing, client.rest, lab.vendor.calls.length]).toEqual([100, "none", "", 0]);
    await client.send(body);
    expect(saidBy(await client.answer())).toBe("asked for");
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test("a client that does not wait for it gets one answer", async () => {
    const client = await lab.connect();
    await client.send(sound("at once", {}, EXPECT));
    let answer = await client.answer();
    if (answer.status === 100) answer = await client.answer();
    expect(saidBy(answer)).toBe("at once");
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    client.leave();
  });

  test("a refusal comes without it", async () => {
    const client = await lab.connect();
    const body = bodyOf(HIDDEN);
    await client.send(lines(CHAT, HOST, JSON_TYPE, lengthOf(body), EXPECT));
    const answer = await client.answer();
    expect([answer.status, codeOf(answer)]).toEqual([401, ["chat", "invalid_api_key"]]);
    // Whether the body still comes nobody can know; so it is either awaited or the connection is closed.
    await client.send(body);
    expect(["serves", "closed", "reset"]).toContain(await askOn(client));
    expect([client.rest, lab.vendor.calls.length]).toEqual(["", 0]);
    client.leave();
  });

  test("a client that is refused may send its next request in the body's place: it is not taken for the body", async () => {
    const client = await lab.connect();
    await client.send(lines(CHAT, HOST, JSON_TYPE, lengthOf(bodyOf(HIDDEN)), EXPECT));
    const answer = await client.answer();
    expect([answer.status, answer.headers["connection"]]).toEqual([401, "close"]);
    await client.over();
    expect(client.rest).toBe("");
  });

  test("a body that is too large is refused without it", async () => {
    const client = await lab.connect();
    await client.send(chat([`Content-Length: ${MAX_BODY + 1}`, EXPECT], ""));
    const answer = await client.answer();
    expect([answer.status, codeOf(answer)]).toEqual([413, ["chat", "request_too_large"]]);
    client.leave();
  });

  test.each([
    ["/v1/images/generations", 4 * MIB],
    ["/v1/web/search", 4 * MIB],
    ["/v1/web/fetch", 4 * MIB],
    ["/mcp/web", MIB],
  ])("%s asks for a body of %d bytes and refuses one of a byte more", async (path, most) => {
    oneProcessOnly("bodies that are judged before they are asked for: a worker passes them on");
    for (const [length, status] of [
      [most, 100],
      [most + 1, 413],
    ] as const) {
      const client = await lab.connect();
      const head = [`POST ${path} HTTP/1.1`, HOST, KEY, JSON_TYPE, "Accept: application/json, text/event-stream"];
      await client.send(lines(...head, `Content-Length: ${length}`, EXPECT));
      expect((await client.answer()).status).toBe(status);
      client.leave();
    }
  });

  test("an old client, who knows of no such thing, gets none", async () => {
    const client = await lab.connect();
    const body = bodyOf("old");
    await client.send(chat([lengthOf(body), EXPECT], body, "POST /v1/chat/completions HTTP/1.0"));
    expect(saidBy(await client.answer())).toBe("old");
    client.leave();
  });
});

describe("what is no request is refused, the connection is closed, and nothing behind it is served", () => {
  const body = bodyOf("malformed");

  test.each([...MALFORMED])("%s", async (_name, request, statuses) => {
    const client = await lab.connect();
    await client.send(request + sound(HIDDEN));
    const answer = await client.answer();
    expect(statuses).toContain(answer.status);
    expect(answer.headers["connection"]?.toLowerCase()).toBe("close");
    if (answer.body !== "") expect(codeOf(answer)[0]).toBe("chat");
    // Nothing comes behind it: no second answer, to whatever.
    await client.over();
    expect([client.rest, lab.vendor.calls.length]).toEqual(["", 0]);
  });

  test.each([
    ["the start of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
    ["behind a request, in the same write", `${lines("GET /healthz HTTP/1.1", HOST)}\x00`],
    ["behind empty lines", "\r\n\r\n\x80"],
  ])("at once where no head can begin so: %s", async (_name, bytes) => {
    const client = await lab.connect();
    await client.send(bytes);
    if (bytes.startsWith("GET")) expect((await client.answer()).status).toBe(200);
    expect((await client.answer()).status).toBe(400);
    expect([await client.over(), client.rest]).toEqual(["closed", ""]);
  });

  const { length } = body;
  const messagesHead = (path: string, ...extra: string[]) =>
    lines(`POST ${path} HTTP/1.1`, HOST, KEY, JSON_TYPE, `Content-Length: ${length}`, ...extra) + body;
  const NAMED = "This is not a request of HTTP/1.1: the header X-A holds what no header can carry.";
  const UNNAMED = "This is not a request of HTTP/1.1: a header field that is none.";
  test.each<[name: string, request: string, side: Side, words: string]>([
    ["on messages", messagesHead("/v1/messages", "X-A: hush\x01hush"), "messages", NAMED],
    ["on messages with a query", messagesHead("/v1/messages?beta=true", "X-A: hush\x00"), "messages", NAMED],
    ["on count_tokens", messagesHead("/v1/messages/count_tokens", "X-A: hush\x7f"), "messages", NAMED],
    ["on messages of a named host", messagesHead("http://127.0.0.1:PORT/v1/messages", "X-A: \x01"), "messages", NAMED],
    ["on messages, behind empty lines", `\r\n\r\n${messagesHead("/v1/messages", "X-A: \x01")}`, "messages", NAMED],
    ["on messages, in a name", messagesHead("/v1/messages", "X\x01-A: hush"), "messages", UNNAMED],
    ["on messages, a folded line", messagesHead("/v1/messages", "X-A: b", " hush: c"), "messages", UNNAMED],
    [
      "on messages, too many fields",
      messagesHead("/v1/messages", ...Array.from({ length: 130 }, (_, at) => `X-${at}: hush`)),
      "messages",
      "too many header fields",
    ],
    ["on messages, too long", messagesHead("/v1/messages", `X-A: ${"hush".repeat(16_384)}`), "messages", "too long"],
    ["on messages, two lengths", messagesHead("/v1/messages", "Content-Length: 6"), "messages", "content-length"],
    [
      "on messages, in the body",
      `${lines("POST /v1/messages HTTP/1.1", HOST, KEY, JSON_TYPE, CHUNKED)}hush\r\n`,
      "messages",
      "This is not a request of HTTP/1.1",
    ],
    ["on chat", messagesHead("/v1/chat/completions", "X-A: hush\x01"), "chat", NAMED],
    ["on responses", messagesHead("/v1/responses", "X-A: hush\x01"), "chat", NAMED],
    ["in the request line", messagesHead("/v1/messages\x01", "X-A: hush"), "chat", "no request line"],
  ])("is told in the shape of the path: %s", async (_name, request, side, words) => {
    const client = await lab.connect();
    await client.send(request);
    const answer = await client.answer();
    expect([answer.status, codeOf(answer)]).toEqual([400, [side, "invalid_request"]]);
    const told = JSON.parse(answer.body) as { request_id?: string; error: { message: string } };
    expect(told.request_id).toBe(side === "messages" ? answer.headers["x-request-id"] : undefined);
    expect(told.error.message).toContain(words);
    expect(answer.body).not.toContain("hush");
    await client.over();
    expect([client.rest, lab.vendor.calls.length]).toEqual(["", 0]);
  });

  test("an old client that sends chunks gets an answer or a refusal, and the connection is closed", async () => {
    const client = await lab.connect();
    await client.send(chat([CHUNKED], chunk(body) + LAST, "POST /v1/chat/completions HTTP/1.0") + sound(HIDDEN));
    expect([200, 400]).toContain((await client.answer()).status);
    expect([await client.over(), client.rest]).toEqual(["closed", ""]);
    expect(lab.vendor.calls.filter(({ json: asked }) => lastText(asked) === HIDDEN)).toEqual([]);
  });
});

test("whatever bytes come, nothing follows an answer that closes, and there is an end (random)", async () => {
  const request = lab.fill(sound("mutated", {}, "X-A: b")) + lab.fill(chat([CHUNKED], chunk(bodyOf("mutated")) + LAST));
  const piece = fc.constantFrom(
    "\r",
    "\n",
    "\r\n",
    "\0",
    " ",
    "\t",
    ":",
    ",",
    ";",
    "0",
    "9",
    "f",
    "-",
    "\xff",
    "Host: a\r\n",
  );
  const change = fc.record({ at: fc.nat(request.length - 1), drop: fc.integer({ min: 0, max: 3 }), piece });
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
      let text = request;
      for (const { at, drop, piece: added } of changes) text = text.slice(0, at) + added + text.slice(at + drop);
      // Wrong keys are counted, and at last the address is turned away.
      fc.pre(text.split(`${lab.fill(KEY)}\r\n`).length === 3);
      lab.vendor.calls.length = 0;
      const client = await lab.connect();
      await client.send(text);
      client.endSending();
      await client.over();
      while (client.rest !== "") {
        const { status, headers } = await client.answer();
        expect([500, 502, 503, 504]).not.toContain(status);
        if (headers["connection"] === "close") expect(client.rest).toBe("");
      }
      expect(lab.vendor.calls.length).toBeLessThanOrEqual(2);
    }),
    { numRuns: 100 },
  );
  expect(await open()).toBe("serves");
});

describe("a head", () => {
  const START = ["GET /healthz HTTP/1.1", "Host: localhost"];
  const padded = (bytes: number) => {
    const before = [...START, "X-Pad: "].join("\r\n");
    return lines(before + "x".repeat(bytes - before.length));
  };
  const fields = (count: number) => lines(...START, ...Array.from({ length: count - 1 }, (_, at) => `X-${at}: y`));

  test.each([
    ["of 32 KiB", padded(32 * 1024), 200, "serves"],
    ["of a byte more", padded(32 * 1024 + 1), 400, "closed"],
    ["of 128 fields", fields(128), 200, "serves"],
    ["of 129 fields", fields(129), 400, "closed"],
    // Told at once: such a client would wait until its head is given up.
    ["of lines without carriage returns", `${START.join("\n")}\n\n`, 400, "closed"],
  ])("%s", async (_name, head, status, after) => {
    const told = await exchange(head);
    expect([told.answer.status, told.after]).toEqual([status, after as "serves"]);
  });
});

describe("a target", () => {
  const body = bodyOf("found");
  const at = (target: string, host = HOST) =>
    lines(`POST ${target} HTTP/1.1`, host, KEY, JSON_TYPE, lengthOf(body)) + body;
  const get = (target: string) => lines(`GET ${target} HTTP/1.1`, HOST, KEY);

  test.each([
    "http://127.0.0.1:PORT/v1/chat/completions",
    "http://localhost:PORT/v1/chat/completions",
    "HTTP://LOCALHOST:PORT/v1/chat/completions?a=b",
    "/v1/chat/completions?a=b",
    "/v1/chat/completions?",
    "/v1/chat/completions?url=http://evil.example/",
  ])("%s is served", async (target) => {
    const { answer, after, calls } = await exchange(at(target));
    expect([saidBy(answer), after, calls]).toEqual(["found", "serves", 1]);
  });

  test.each([
    "http://evil.example/v1/chat/completions",
    "http://evil.example:PORT/v1/chat/completions",
    "http://evil.example:80/v1/chat/completions?host=127.0.0.1:PORT",
    "https://evil.example/v1/chat/completions",
  ])("%s is somebody else's, whatever the Host", async (target) => {
    const { answer, calls } = await exchange(at(target));
    expect([answer.status, codeOf(answer), calls]).toEqual([403, ["chat", "permission_denied"], 0]);
  });

  test.each([
    "http://127.0.0.1:PORT@evil.example/v1/chat/completions",
    "http://evil.example@127.0.0.1:PORT/v1/chat/completions",
    "http://evil.example/v1/chat/completions#x",
    "http://evil.example#/v1/chat/completions",
    "http://evil.example?/v1/chat/completions",
    "http://evil.example\\@127.0.0.1:PORT/v1/chat/completions",
    "http://127.0.0.1:PORT\\evil.example/v1/chat/completions",
    "http:///v1/chat/completions",
    "http:/v1/chat/completions",
    "http:v1/chat/completions",
    "ftp://127.0.0.1:PORT/v1/chat/completions",
    "127.0.0.1:PORT/v1/chat/completions",
    "*/v1/chat/completions",
  ])("%s is none", async (target) => {
    const { answer, calls } = await exchange(at(target));
    expect([400, 403, 404]).toContain(answer.status);
    expect(calls).toBe(0);
  });

  test.each([
    "/v1/../metrics",
    "/v1/%2e%2E/metrics",
    "/v1/.%2e/metrics",
    "/./metrics",
    "/%2e/metrics",
    "/metrics/.",
    "/metrics/x/..",
    "/metrics/x/..?a=b",
    "/openapi\\..\\metrics",
    "/\\metrics",
    "http://127.0.0.1:PORT/v1/../metrics",
  ])("%s is refused, which another server may read otherwise", async (target) => {
    const { answer } = await exchange(get(target));
    expect([answer.status, codeOf(answer)]).toEqual([400, ["chat", "invalid_request"]]);
  });

  test.each([
    ["/healthz?path=/../x\\y/./z", 200],
    ["/.well-known/x", 404],
    ["/v1/models/a/..b", 404],
    ["/v1/models/a/...", 404],
    ["/v1/models/a/b..", 404],
  ])("dots that nobody resolves are no fault: %s", async (target, status) => {
    const { answer, after } = await exchange(get(target));
    expect([answer.status, after]).toEqual([status, "serves"]);
  });

  test("a Host of somebody else is refused", async () => {
    const { answer, after, calls } = await exchange(at("/v1/chat/completions", "Host: evil.example"));
    expect([answer.status, codeOf(answer), calls]).toEqual([403, ["chat", "permission_denied"], 0]);
    expect(["serves", "closed"]).toContain(after);
  });

  test.each([
    ["//v1/models", 404],
    ["/v1//models", 404],
    ["/v1/models/", 404],
    ["/v1/v1/models", 404],
    ["/V1/models", 404],
    ["/v1%2Fmodels", 404],
    ["/v1/models?a=%zz", 200],
    ["/v1/models/sluice%2Fecho", 200],
    ["/v1/models/sluice%2fecho", 200],
    ["/v1/models/sluice/echo", 200],
    ["/v1/models/sluice%zzecho", 404],
    ["/v1/models/sluice%00echo", 404],
    ["/v1/models/%ff", 404],
    ["/v1/models?key=KEY", 200],
    ["/nothing/here", 404],
  ])("%s is %d, and the connection goes on", async (target, status) => {
    const { answer, after } = await exchange(get(target));
    expect([answer.status, answer.headers["content-type"], after]).toEqual([status, "application/json", "serves"]);
    expect(JSON.parse(answer.body)).toBeObject();
  });

  test("a key in it is not read", async () => {
    const request =
      lines("POST /v1/chat/completions?key=KEY&api_key=KEY HTTP/1.1", HOST, JSON_TYPE, lengthOf(body)) + body;
    const { answer, calls } = await exchange(request);
    expect([answer.status, answer.body.includes(lab.key), calls]).toEqual([401, false, 0]);
  });

  test.each(["/v1/models#x", "/v1/models?a#x", "/v1/mod\xc3\xa9ls", "v1/models", "?a=b"])(
    "%j is none",
    async (target) => {
      const { answer, after } = await exchange(get(target));
      expect([400, 403, 404]).toContain(answer.status);
      if (answer.status !== 400) expect(codeOf(answer)[0]).toBe("chat");
      expect(["serves", "closed"]).toContain(after);
    },
  );

  test("bytes above ASCII in a query are no reason to fail", async () => {
    const { answer, after } = await exchange(get("/v1/models?a=\xc3\xa9&b=\xff"));
    expect([200, 400]).toContain(answer.status);
    expect(["serves", "closed"]).toContain(after);
  });

  test("* is that of OPTIONS", async () => {
    const { answer, after } = await exchange(lines("OPTIONS * HTTP/1.1", HOST, KEY));
    expect([200, 204, 403, 404, 405]).toContain(answer.status);
    expect(["serves", "closed"]).toContain(after);
  });

  test("* is no path of anything else", async () => {
    const { answer, after } = await exchange(lines("GET * HTTP/1.1", HOST, KEY));
    expect([400, 403, 404]).toContain(answer.status);
    expect(["serves", "closed"]).toContain(after);
  });

  test.each(["127.0.0.1:PORT", "evil.example:443"])("CONNECT %s opens no tunnel", async (target) => {
    const { answer, after } = await exchange(lines(`CONNECT ${target} HTTP/1.1`, `Host: ${target}`, KEY));
    expect([400, 403, 404, 405, 501]).toContain(answer.status);
    expect(["serves", "closed"]).toContain(after);
  });
});

describe("a method", () => {
  /** What is the same from one answer to the next, however its body is framed. */
  function lastingOf({ headers }: WireAnswer): Record<string, string> {
    const { date, "x-request-id": id, "request-id": same, "content-length": length, ...rest } = headers;
    const { "transfer-encoding": coding, ...lasting } = rest;
    return lasting;
  }
  const bodyLength = ({ body }: WireAnswer) => String(Buffer.byteLength(body));

  test.each(["/", "/healthz", "/v1/models", "/v1/models/sluice/echo", "/openapi/json", "/v1/usage"])(
    "HEAD %s has the head of GET and no body",
    async (path) => {
      const get = await exchange(lines(`GET ${path} HTTP/1.1`, HOST, KEY));
      const head = await exchange(lines(`HEAD ${path} HTTP/1.1`, HOST, KEY), { head: true });
      expect([get.answer.status, get.after, head.after]).toEqual([200, "serves", "serves"]);
      expect(head.answer.status).toBe(200);
      expect(lastingOf(head.answer)).toEqual(lastingOf(get.answer));
      expect([undefined, bodyLength(get.answer)]).toContain(head.answer.headers["content-length"]);
      expect(get.answer.body.length).toBeGreaterThan(0);
    },
  );

  const REFUSED: [path: string, host: string, status: number][] = [
    ["/nothing", HOST, 404],
    ["/v1/models/no-prefix", HOST, 404],
    ["/v1/models?modality=smell", HOST, 400],
    ["/v1/models", "Host: evil.example", 403],
  ];
  test.each(REFUSED)("HEAD %s (%s) is refused with %d and without a body", async (path, host, status) => {
    const get = await exchange(lines(`GET ${path} HTTP/1.1`, host, KEY));
    const head = await exchange(lines(`HEAD ${path} HTTP/1.1`, host, KEY), { head: true });
    expect([get.answer.status, head.answer.status, head.after]).toEqual([status, status, "serves"]);
    expect([undefined, bodyLength(get.answer)]).toContain(head.answer.headers["content-length"]);
  });

  test("HEAD twice and GET in one write", async () => {
    const client = await lab.connect();
    const head = lines("HEAD /v1/models HTTP/1.1", HOST, KEY);
    await client.send(head + head + PROBE);
    expect((await client.answer({ head: true })).status).toBe(200);
    expect((await client.answer({ head: true })).status).toBe(200);
    expect((await client.answer()).status).toBe(200);
    expect(client.rest).toBe("");
    client.leave();
  });

  const WRONG: [method: string, path: string][] = [
    ["GET", "/v1/chat/completions"],
    ["HEAD", "/v1/messages"],
    ["DELETE", "/v1/messages"],
    ["PUT", "/v1/responses"],
    ["PATCH", "/v1/models"],
    ["OPTIONS", "/v1/models"],
    ["BREW", "/v1/models"],
    ["BREW", "/v1/chat/completions"],
    ["M-SEARCH", "/v1/models"],
    ["TRACE", "/v1/models"],
    ["TRACE", "/"],
    ["GET", "/mcp/web"],
  ];
  test.each(WRONG)("%s %s is refused in JSON, and the connection goes on", async (method, path) => {
    const head = method === "HEAD";
    const { answer, after, calls } = await exchange(lines(`${method} ${path} HTTP/1.1`, HOST, KEY), { head });
    expect([404, 405]).toContain(answer.status);
    expect([answer.headers["content-type"], after, calls]).toEqual(["application/json", "serves", 0]);
    if (!head) expect(JSON.parse(answer.body).error).toBeDefined();
    expect(answer.body).not.toContain(lab.key);
    // What the path answers to is told with each 405, whatever the method is called (RFC 9110, 15.5.6).
    if (answer.status === 405) expect(answer.headers["allow"]).toMatch(/^[A-Z]+(, [A-Z]+)*$/);
  });

  test.each([
    ["QUERY", "/nowhere", 404, undefined],
    ["QUERY", "/v1/models", 405, "GET, HEAD"],
    ["PROPFIND", "/v1/messages", 405, "POST"],
  ])("%s %s is answered as any other that the path does not have", async (method, path, status, allow) => {
    const { answer, after } = await exchange(lines(`${method} ${path} HTTP/1.1`, HOST, KEY));
    expect([answer.status, answer.headers["allow"], after]).toEqual([status, allow, "serves"]);
  });

  test("is another one in small letters", async () => {
    const { answer, after } = await exchange(lines("get /v1/models HTTP/1.1", HOST, KEY));
    expect([400, 404, 405]).toContain(answer.status);
    expect(["serves", "closed"]).toContain(after);
  });
});

/** A stream that the vendor holds back until its gate is opened, on a connection of its own. */
async function beginStream(holds: Gate, end: Part[] = [rest()], finish: Parameters<typeof stream>[1] = "end") {
  lab.vendor.answer(VENDOR_PATH, stream([begun(), holds.opened, ...end], finish));
  const client = await lab.connect();
  const before = lab.vendor.calls.length;
  const rows = lab.rows().length;
  await client.send(sound("Hi", { stream: true }));
  await client.has(PIECES[0]);
  return { client, rows, call: await lab.vendor.called(before) };
}

/** The one row that a request leaves behind. */
async function newRow(before: number) {
  await until(() => lab.rows().length > before, "the row of the ledger");
  const added = lab.rows().slice(before);
  expect(added.length).toBe(1);
  return added[0]!;
}

describe("a stream", () => {
  test("comes piece by piece, and ends as its coding wants", async () => {
    const [first, second] = [gate(), gate()];
    const { client, rows } = await beginStream(first, [wire.text("middle "), second.opened, rest()]);
    expect(client.rest).toMatch(/^HTTP\/1\.1 200 [^\r]*\r\n/);
    expect(client.rest).not.toContain("middle");
    first.open();
    await client.has("middle ");
    expect(client.rest).not.toContain(PIECES[1]);
    second.open();
    const { status, headers, framing, chunks, body } = await client.answer();
    expect([status, framing, headers["content-type"]]).toEqual([200, "chunked", "text/event-stream; charset=utf-8"]);
    expect(chunks.length).toBeGreaterThanOrEqual(3);
    expect(readRecords(body).at(-1)?.data).toBe("[DONE]");
    expect([await askOn(client), client.rest]).toEqual(["serves", ""]);
    expect((await newRow(rows)).outcome).toBe("completed");
    client.leave();
  });

  test("of the messages dialect as well", async () => {
    lab.vendor.answer(VENDOR_PATH, stream([begun(), rest()]));
    const body = bodyOf("Hi", { stream: true, max_tokens: 64 });
    const request = lines("POST /v1/messages HTTP/1.1", HOST, "x-api-key: KEY", JSON_TYPE, lengthOf(body)) + body;
    const { answer, after } = await exchange(request);
    expect([answer.status, answer.framing, after]).toEqual([200, "chunked", "serves"]);
    expect(readRecords(answer.body).at(-1)?.value).toEqual({ type: "message_stop" });
  });

  test("to an old client is not chunked, and ends with the connection", async () => {
    const holds = gate();
    lab.vendor.answer(VENDOR_PATH, stream([begun(), holds.opened, rest()]));
    const client = await lab.connect();
    const body = bodyOf("Hi", { stream: true });
    await client.send(chat([lengthOf(body)], body, "POST /v1/chat/completions HTTP/1.0"));
    await client.has(PIECES[0]);
    expect(client.rest.toLowerCase()).not.toContain("transfer-encoding");
    holds.open();
    const answer = await client.answer();
    expect([answer.status, answer.framing, await client.over()]).toEqual([200, "close", "closed"]);
    expect(readRecords(answer.body).at(-1)?.data).toBe("[DONE]");
  });

  test("to a client that asks for the close is chunked all the same, then closed", async () => {
    lab.vendor.answer(VENDOR_PATH, stream([begun(), rest()]));
    const client = await lab.connect();
    await client.send(sound("Hi", { stream: true }, "Connection: close") + sound(HIDDEN));
    const answer = await client.answer();
    expect([answer.framing, answer.headers["connection"]?.toLowerCase()]).toEqual(["chunked", "close"]);
    expect(answer.body).toEndWith("data: [DONE]\n\n");
    expect([await client.over(), client.rest, lab.vendor.calls.length]).toEqual(["closed", "", 1]);
  });

  const SIDES: Side[] = ["chat", "messages"];
  const FAILURES = ["cut", "reset"] as const;
  test.each(SIDES.flatMap((side) => FAILURES.map((how) => ({ side, how }))))(
    "whose vendor fails ($how) tells so in its dialect ($side), and the coding ends right",
    async ({ side, how }) => {
      const rows = lab.rows().length;
      lab.vendor.answer(VENDOR_PATH, stream([begun()], how));
      const client = await lab.connect();
      const body = bodyOf("Hi", { stream: true, max_tokens: 64 });
      const path = side === "chat" ? "/v1/chat/completions" : "/v1/messages";
      await client.send(lines(`POST ${path} HTTP/1.1`, HOST, KEY, JSON_TYPE, lengthOf(body)) + body);
      const answer = await client.answer();
      const last = readRecords(answer.body).at(-1);
      expect([answer.status, answer.framing]).toEqual([200, "chunked"]);
      expect(last?.event).toBe(side === "chat" ? undefined : "error");
      expect(last?.value?.["error"]).toMatchObject({ code: expect.any(String) });
      expect(answer.body).not.toContain(side === "chat" ? "[DONE]" : "message_stop");
      expect(["serves", "closed"]).toContain(await askOn(client));
      expect((await newRow(rows)).outcome).toBe("upstream-failed");
      client.leave();
    },
  );

  const WAYS = ["FIN", "RST"] as const;
  const leave = (client: RawClient, how: (typeof WAYS)[number]) => (how === "FIN" ? client.leave() : client.reset());

  test.each(WAYS)("whose client leaves (%s) ends at the vendor too, and is settled once", async (how) => {
    const { client, rows, call } = await beginStream(gate());
    leave(client, how);
    await within(call.whenAborted, "the call to end", NOTICED_MS);
    expect((await newRow(rows)).outcome).toBe("client-left");
  });

  test.each(WAYS)("whose client leaves (%s) while it comes in floods ends too", async (how) => {
    const flood = Array.from({ length: 400 }, () => wire.text("words ".repeat(2_000)));
    const { client, rows, call } = await beginStream({ opened: Promise.resolve(), open() {} }, flood, "silence");
    leave(client, how);
    await within(call.whenAborted, "the call to end", NOTICED_MS);
    expect((await newRow(rows)).outcome).toBe("client-left");
  });

  test.each(WAYS)("a blocking answer whose client leaves (%s) ends at the vendor too", async (how) => {
    lab.vendor.answer(VENDOR_PATH, neverAnswer());
    const client = await lab.connect();
    const rows = lab.rows().length;
    await client.send(sound("Hi"));
    const call = await lab.vendor.called();
    leave(client, how);
    await within(call.whenAborted, "the call to end", NOTICED_MS);
    expect((await newRow(rows)).outcome).toBe("client-left");
  });

  test("with a request behind it whose client leaves: that request is not run", async () => {
    const { client, rows, call } = await beginStream(gate());
    await client.send(sound(HIDDEN));
    client.reset();
    await within(call.whenAborted, "the call to end", NOTICED_MS);
    expect((await newRow(rows)).outcome).toBe("client-left");
    expect([await open(), lab.vendor.calls.length, lab.rows().length]).toEqual(["serves", 1, rows + 1]);
  });
});

/** Another connection is served: whatever was under way before has had its turn. */
async function open() {
  const client = await lab.connect();
  const after = await askOn(client);
  client.leave();
  return after;
}

describe("a client that has nothing more to send", () => {
  test("gets what can be told at once", async () => {
    const client = await lab.connect();
    await client.send(PROBE);
    client.endSending();
    expect((await client.answer()).status).toBe(200);
    expect([await client.over(), client.rest]).toEqual(["closed", ""]);
  });

  test("gets its whole answer, or is taken for one that has left", async () => {
    const rows = lab.rows().length;
    const client = await lab.connect();
    await client.send(sound("the last one"));
    client.endSending();
    const answer = await client.answer().catch(() => undefined);
    const whole = answer?.status === 200;
    if (whole) expect(saidBy(answer)).toBe("the last one");
    else expect([undefined, 400]).toContain(answer?.status);
    await client.over();
    expect(client.rest).toBe("");
    await untilIdle();
    if (lab.vendor.calls.length > 0) expect((await newRow(rows)).outcome).toBe(whole ? "completed" : "client-left");
  });

  test("in the middle of a head or a body gets no call made", async () => {
    const body = bodyOf(HIDDEN);
    const whole = lab.fill(chat([lengthOf(body)], body));
    const coded = lab.fill(chat([CHUNKED], chunk(body)));
    // A size that has the body's own in its lower half must not be taken for that.
    const huge = coded.replace(/\r\n(\w+)(\r\n\{)/, (_, size, rest) => `\r\n1${size.padStart(8, "0")}${rest}`) + LAST;
    expect(huge).toContain(`1${body.length.toString(16).padStart(8, "0")}`);
    for (const part of [whole.slice(0, 40), whole.slice(0, -1), coded, coded.slice(0, -10), huge]) {
      const client = await lab.connect();
      await client.send(part);
      client.endSending();
      await client.over();
      if (client.rest !== "") expect([400, 408, 413]).toContain((await client.answer()).status);
      expect([client.rest, lab.vendor.calls.length]).toEqual(["", 0]);
    }
  });

  test.each(["FIN", "RST"])("and leaves in the middle of a body (%s) gets no call made", async (how) => {
    const body = bodyOf(HIDDEN);
    const client = await lab.connect();
    await client.send(chat([lengthOf(body)], body.slice(0, -1)));
    await settle();
    if (how === "FIN") client.leave();
    else client.reset();
    expect([await open(), lab.vendor.calls.length]).toEqual(["serves", 0]);
  });
});

describe("many at once", () => {
  test("2,000 connections, each with a request", async () => {
    const COUNT = 2_000;
    const clients = await Promise.all(Array.from({ length: COUNT }, () => lab.connect()));
    const statuses = await Promise.all(
      clients.map(async (client, at) => {
        await client.send(at % 4 === 0 ? sound(`number ${at}`) : PROBE);
        const answer = await client.answer();
        return at % 4 === 0 ? saidBy(answer) : String(answer.status);
      }),
    );
    expect(statuses).toEqual(Array.from({ length: COUNT }, (_, at) => (at % 4 === 0 ? `number ${at}` : "200")));
    expect(clients.filter(({ ending, rest: left }) => ending !== undefined || left !== "").length).toBe(0);
    for (const client of clients) client.leave();
    expect(await open()).toBe("serves");
  });
});

/** Waits until the gateway says that no request is under way. */
async function untilIdle(): Promise<void> {
  const client = await lab.connect();
  for (let looks = 0; ; looks++) {
    await client.send(lines("GET /metrics HTTP/1.1", HOST));
    const { body } = await client.answer();
    if (/^sluice_requests_running 0$/m.test(body)) break;
    if (looks > 1_000) throw new Error(`requests are under way: ${/^sluice_requests_running .*$/m.exec(body)?.[0]}`);
    await settle(4);
  }
  client.leave();
}

describe("whatever clients do at once", () => {
  const HOW = ["whole", "stream", "pipelined", "malformed", "half a head", "half a body"] as const;
  const END = ["stays", "FIN", "RST"] as const;

  /** Asks in one of the ways, and goes away in the middle of it or reads what comes. */
  async function act(how: (typeof HOW)[number], end: (typeof END)[number]): Promise<void> {
    const request = lab.fill(how === "stream" ? sound("Hi", { stream: true }) : sound(how));
    const sent = {
      whole: request,
      stream: request,
      pipelined: request.repeat(3),
      malformed: `${request}nonsense\r\n\r\n`,
      "half a head": request.slice(0, 60),
      "half a body": request.slice(0, -5),
    }[how];
    const client = await lab.connect();
    await client.send(sent);
    const unfinished = how.startsWith("half");
    if (end === "stays" && !unfinished) {
      for (let count = how === "pipelined" ? 3 : 1; count > 0; count--)
        expect((await client.answer()).status).toBe(200);
      client.leave();
      return;
    }
    await settle(how.length % 5);
    if (end === "RST") client.reset();
    else client.leave();
  }

  test("every call to the vendor comes to an end and is settled once (random)", async () => {
    lab.vendor.always(VENDOR_PATH, ({ json: body }) =>
      (body as { stream?: boolean }).stream
        ? stream([begun(), settle(20), rest()])
        : { ...json(replyTo("said")), headersAfter: settle(5) },
    );
    const actions = fc.array(fc.tuple(fc.constantFrom(...HOW), fc.constantFrom(...END)), {
      minLength: 30,
      maxLength: 60,
    });
    await fc.assert(
      fc.asyncProperty(actions, async (chosen) => {
        const rows = lab.rows().length;
        lab.vendor.calls.length = 0;
        await Promise.all(chosen.map(([how, end]) => act(how, end)));
        await untilIdle();
        const { calls } = lab.vendor;
        await until(() => calls.every(({ finished, aborted }) => finished || aborted), "every call to end");
        // Who leaves while his request is on its way to the vendor may be settled for a call that the vendor never saw whole.
        const asked = chosen.reduce(
          (sum, [how]) => sum + (how === "pipelined" ? 3 : how.startsWith("half") ? 0 : 1),
          0,
        );
        const settled = lab.rows().length - rows;
        expect(settled).toBeGreaterThanOrEqual(calls.length);
        expect(settled).toBeLessThanOrEqual(asked);
        expect(settled - calls.length).toBeLessThanOrEqual(chosen.filter(([, end]) => end !== "stays").length);
      }),
      { numRuns: 10 },
    );
  });
});

describe("waiting", () => {
  let clock: ManualClock;
  let patient: WireLab;
  beforeAll(async () => {
    clock = manualClock();
    patient = await startWireLab(clock);
    patient.vendor.always(VENDOR_PATH, (call) => json(replyTo(lastText(call.json))));
  });
  afterAll(() => patient.end());

  const IDLE_MS = IDLE_SECONDS * 1_000;
  /** The longest of the usual ones, Caddy. */
  const PROXIES_KEEP_MS = 120_000;

  test("a body that stands still is told so, and the connection is closed", async () => {
    const body = bodyOf(HIDDEN);
    const asked = patient.vendor.calls.length;
    for (const [framing, sent] of [
      [lengthOf(body), body.slice(0, -1)],
      [CHUNKED, chunk(body)],
    ] as const) {
      const client = await patient.connect();
      await client.send(chat([framing], sent));
      await settle();
      await clock.advance(UPLOAD_STALL_MS * 2);
      const answer = await client.answer();
      expect([answer.status, codeOf(answer), answer.headers["connection"]]).toEqual([
        400,
        ["chat", "invalid_request"],
        "close",
      ]);
      expect([await client.over(), client.rest, patient.vendor.calls.length]).toEqual(["closed", "", asked]);
    }
  });

  test("an answer may take longer than a connection may rest", async () => {
    const gates = [gate(), gate(), gate()] as const;
    const words = ["one ", "two ", "three "] as const;
    const parts = words.flatMap((word, at) => [wire.text(word), gates[at]?.opened as Promise<void>]);
    patient.vendor.answer(VENDOR_PATH, stream([wire.head(), ...parts, rest()]));
    const client = await patient.connect();
    await client.send(sound("slow", { stream: true }));
    // No vendor may be silent for as long as that.
    for (const [at, word] of words.entries()) {
      await client.has(word);
      await clock.advance(IDLE_MS / 2);
      expect(client.ending).toBeUndefined();
      gates[at]?.open();
    }
    expect(readRecords((await client.answer()).body).at(-1)?.data).toBe("[DONE]");
    client.leave();
  });

  test("a connection that rests is closed after its time, and not before", async () => {
    const [fresh, used] = [await patient.connect(), await patient.connect()];
    await used.send(PROBE);
    expect((await used.answer()).status).toBe(200);
    await clock.advance(IDLE_MS / 2);
    expect([fresh.ending, used.ending]).toEqual([undefined, undefined]);
    await clock.advance(IDLE_MS);
    expect([await used.over(NOTICED_MS), used.rest]).toEqual(["closed", ""]);
    expect([await fresh.over(NOTICED_MS), fresh.rest]).toEqual(["closed", ""]);
  });

  // Some clients send an empty line behind a body (RFC 9112, 2.2): no head has begun with that, which would have to come soon.
  test.each([
    ["", ""],
    [", also behind an empty line", "\r\n"],
  ])("a connection rests for longer than a proxy keeps it%s", async (_name, line) => {
    const client = await patient.connect();
    for (let asked = 0; asked < 2; asked++) {
      await client.send(PROBE + line);
      expect((await client.answer()).status).toBe(200);
      await clock.advance(PROXIES_KEEP_MS);
    }
    expect(client.ending).toBeUndefined();
    client.leave();
  });

  test("a head that never ends is cut, however it drips", async () => {
    const client = await patient.connect();
    const head = patient.fill(lines(CHAT, HOST, KEY, `X-Long: ${"x".repeat(200)}`));
    await client.send(head.slice(0, 20));
    for (let at = 20; at < 20 + (2 * IDLE_SECONDS) / 5 && client.ending === undefined; at++) {
      await clock.advance(5_000);
      await client.send(head.slice(at, at + 1));
      await settle();
    }
    await client.over(NOTICED_MS);
    if (client.rest !== "") expect((await client.answer()).status).toBe(408);
    expect(client.rest).toBe("");
  });
});

describe("a stop", () => {
  test("closes what rests at once, lets a stream end whole, and takes nobody new", async () => {
    const ending = await startWireLab();
    const holds = gate();
    ending.vendor.answer(VENDOR_PATH, stream([begun(), holds.opened, rest()]));
    const [resting, used, streaming] = [await ending.connect(), await ending.connect(), await ending.connect()];
    await used.send(PROBE);
    expect((await used.answer()).status).toBe(200);
    await streaming.send(sound("Hi", { stream: true }));
    await streaming.has(PIECES[0]);
    const stopped = ending.stop();
    expect(await resting.over(NOTICED_MS)).toBe("closed");
    expect([await used.over(NOTICED_MS), used.rest]).toEqual(["closed", ""]);
    // Several processes hear of a stop one after the other: whom one that has not yet, or its system, still takes is closed with the others.
    const newcomer = await ending.connect().catch(() => undefined);
    if (newcomer) {
      expect(["closed", "reset"]).toContain((await newcomer.over(NOTICED_MS)) ?? "open");
      expect(newcomer.rest).toBe("");
    }
    expect(streaming.ending).toBeUndefined();
    holds.open();
    const answer = await streaming.answer();
    expect([answer.framing, readRecords(answer.body).at(-1)?.data]).toEqual(["chunked", "[DONE]"]);
    expect(saidIn(answer)).toBe(SAID);
    await within(stopped, "the stop");
    expect(await streaming.over()).toBe("closed");
  });
});

function saidIn({ body }: WireAnswer): string {
  return readRecords(body)
    .map(({ value }) => (value?.["choices"] as { delta: { content?: string } }[] | undefined)?.[0]?.delta.content ?? "")
    .join("");
}
