import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { MalformedMessage, writeFields } from "../../src/lib/http1/fields.ts";
import { type BodyReader, createBodyReader, viewOf } from "../../src/lib/http1/framing.ts";
import { parseHead } from "../../src/vendors/http/head.ts";
import { addressOf, writeBytes, writeHead } from "../../src/vendors/http/request.ts";

const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "latin1"));
const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");

/** What a reader takes of bytes, behind others that are none of its own. */
function take(reader: BodyReader, wire: string): string {
  const before = wire.length % 3;
  const bytes = bytesOf("#".repeat(before) + wire);
  reader.take(bytes, before);
  return textOf(viewOf(reader, bytes));
}

/** What a reader makes of bytes that arrive in pieces, cut at `cuts`. */
function readInPieces(wire: string, cuts: readonly number[]) {
  const reader = createBodyReader({ kind: "chunked" });
  const places = [0, ...cuts.map((cut) => cut % (wire.length + 1)).sort((a, b) => a - b), wire.length];
  let body = "";
  for (let at = 1; at < places.length; at++) {
    body += take(reader, wire.slice(places[at - 1], places[at]));
  }
  return { body, complete: reader.complete, surplus: reader.surplus !== undefined };
}

const chunk = fc.record({
  data: fc.string({ unit: "binary-ascii", minLength: 1, maxLength: 40 }),
  extension: fc.constantFrom("", ";a=b", ' ; name="x;y"', " "),
  zeros: fc.constantFrom("", "0", "000"),
});

describe("chunked bodies", () => {
  test("are the same wherever they are cut, with extensions, leading zeros and fields behind them", () => {
    const trailer = fc.constantFrom("", "x-end: 1\r\n", "a: 1\r\nb: 2\r\n");
    fc.assert(
      fc.property(
        fc.array(chunk, { maxLength: 8 }),
        trailer,
        fc.array(fc.nat(), { maxLength: 12 }),
        (all, end, cuts) => {
          const written = all.map(({ data, extension, zeros }) => {
            return `${zeros}${data.length.toString(16)}${extension}\r\n${data}\r\n`;
          });
          const wire = `${written.join("")}0\r\n${end}\r\n`;
          const body = all.map(({ data }) => data).join("");
          expect(readInPieces(wire, cuts)).toEqual({ body, complete: true, surplus: false });
          expect(readInPieces(`${wire}X`, cuts)).toEqual({ body, complete: true, surplus: true });
          for (let length = 0; length < wire.length; length += 7) {
            expect(readInPieces(wire.slice(0, length), cuts).complete).toBe(false);
          }
        },
      ),
    );
  });

  test("may have as many lines as they like, each as long as it may be", () => {
    const wire = `${`1;${"x".repeat(15_000)}\r\na\r\n`.repeat(4)}0\r\n\r\n`;
    expect(readInPieces(wire, [9])).toEqual({ body: "aaaa", complete: true, surplus: false });
  });

  test.each([
    // What stands beside digits and letters.
    "g\r\n",
    ":\r\n",
    "/\r\n",
    "@\r\n",
    "`\r\n",
    "1:\r\n",
    "\r\n",
    ";x\r\n",
    "1\n",
    "1\r\rx",
    "1\r\nab",
    "1\r\na\rb",
    "ffffffffffffff\r\n",
    `1;${"x".repeat(20_000)}`,
    // To some a bare line feed or an odd character ends a line, to others it does not.
    "1;x\ny\r\na\r\n",
    "1;\0\r\na\r\n",
    "1;\x7f\r\na\r\n",
    "0\r\na: b\nc: d\r\n\r\n",
    "0\r\na: \x7f\r\n\r\n",
    "0\r\na: b\rc\r\n\r\n",
    `0\r\n${"a: b\r\n".repeat(4_000)}`,
    "-1\r\n",
    "0x1\r\n",
    "1\r\na\r\n0\r\n\rx",
  ])("that are none: %p", (wire) => {
    expect(() => readInPieces(wire, [])).toThrow(MalformedMessage);
  });
});

describe("bodies of a length", () => {
  test("end where they say; what comes behind is told", () => {
    const reader = createBodyReader({ kind: "length", bytes: 5 });
    expect([take(reader, "ab"), reader.complete]).toEqual(["ab", false]);
    expect([take(reader, "cde"), reader.complete, reader.surplus !== undefined]).toEqual(["cde", true, false]);
    expect([take(reader, "f"), reader.surplus !== undefined]).toEqual(["", true]);
    expect(createBodyReader({ kind: "none" }).complete).toBe(true);
    expect(createBodyReader({ kind: "length", bytes: 0 }).complete).toBe(true);
  });
});

describe("heads", () => {
  test("fields by name, whatever their case; those that came more than once are joined", () => {
    const head = parseHead("HTTP/1.1 200 OK\r\nContent-Type:  text/x \r\nX-A: 1\r\nx-a:2\r\nEmpty:\r\nX: \xe9");
    expect([head.status, head.get("content-type"), head.get("x-a"), head.get("empty")]).toEqual([
      200,
      "text/x",
      "1, 2",
      "",
    ]);
    expect([head.get("x"), head.get("type"), head.get("content"), head.has("x-a"), head.has("a")]).toEqual([
      "\xe9",
      null,
      null,
      true,
      false,
    ]);
  });

  test.each([
    ["HTTP/1.1 200", {}, true],
    ["HTTP/1.1 200 \r\na: b", {}, true],
    ["HTTP/1.0 200 OK", {}, false],
    ["HTTP/1.1 200 OK\r\nconnection: keep-alive, Close", {}, false],
    ["HTTP/1.1 200 OK\r\nconnection: closed", {}, true],
    ["HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked", { kind: "chunked" }, false],
    ["HTTP/1.1 200 OK\r\ncontent-length: 7", { kind: "length", bytes: 7 }, true],
    ["HTTP/1.1 200 OK\r\ncontent-length: 7, 7\r\ncontent-length: 7", { kind: "length", bytes: 7 }, true],
    ["HTTP/1.1 204 No Content\r\ncontent-length: 7", { kind: "none" }, true],
    ["HTTP/1.1 200 OK\na: b\ntransfer-encoding: Chunked", { kind: "chunked" }, true],
  ])("%p", (text, framing, open) => {
    const head = parseHead(text);
    expect(head.framing).toMatchObject(framing);
    expect(head.staysOpen).toBe(open);
  });

  test.each([
    "",
    "HTTP/2 200",
    "HTTP/1.1 20",
    "HTTP/1.1 2000 OK",
    "http/1.1 200 OK",
    "HTTP/1.1 200 OK\r\nno colon",
    "HTTP/1.1 200 OK\r\n folded: a",
    "HTTP/1.1 200 OK\r\na: b\r\n c",
    "HTTP/1.1 200 OK\r\na : b",
    "HTTP/1.1 200 OK\r\n: b",
    "HTTP/1.1 200 OK\r\na: b\rc",
    "HTTP/1.1 200 OK\r\na: \0",
    `HTTP/1.1 200 OK${"\r\na: b".repeat(257)}`,
  ])("that are none: %p", (text) => {
    expect(() => parseHead(text)).toThrow(MalformedMessage);
  });

  test.each(["content-length: x", "content-length: 1, 2", "content-length: -1", "transfer-encoding: gzip, chunked"])(
    "whose framing can be read in two ways: %p",
    (field) => {
      expect(() => parseHead(`HTTP/1.1 200 OK\r\n${field}`).framing).toThrow(MalformedMessage);
    },
  );
});

describe("requests", () => {
  test("the length is that of the bytes, whatever the characters and however long the body", () => {
    const address = addressOf("https://[::1]:8443/v1/x?q=1");
    expect(address?.origin).toMatchObject({ hostname: "::1", port: 8443, secure: true });
    if (!address) throw new Error("no address");
    const head = writeHead(address, writeFields({ accept: "x" }));
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 200 }), fc.constantFrom(1, 3_000), (text, times) => {
        const body = text.repeat(times);
        const [said = "", sent = ""] = Buffer.from(writeBytes({ head, body })).toString().split("\r\n\r\n");
        expect(said.startsWith("POST /v1/x?q=1 HTTP/1.1\r\nhost: [::1]:8443\r\n")).toBe(true);
        expect(said).toContain(`content-length: ${Buffer.byteLength(body)}`);
        if (!body.includes("\r\n\r\n")) expect(sent).toBe(body.toWellFormed());
      }),
    );
  });

  test("a value that would begin another field is refused, and not repeated", () => {
    for (const value of ["a\r\nb: c", "a\nb", "a\0", "€"]) {
      expect(() => writeFields({ name: value })).toThrow("The header name holds characters");
    }
    expect(writeFields({ a: "\xe9\tx", b: "" })).toBe("a: \xe9\tx\r\nb: \r\n");
  });

  test("an address with a name and a password in it is left to another client", () => {
    expect(addressOf("https://user:word@example.com/")).toBeUndefined();
  });
});
