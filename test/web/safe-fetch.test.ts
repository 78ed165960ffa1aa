import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { createServer } from "node:tls";
import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { Socket } from "bun";
import { MAX_URL } from "../../src/web/safe-fetch/rules.ts";
import { MAX_REDIRECTS, MOST_AT_ONCE } from "../../src/web/safe-fetch/safe-fetch.ts";
import { manualClock } from "../support/clock.ts";
import { type Answer, neverAnswer, redirect, reset, startUpstream, type Upstream } from "../support/upstream.ts";
import { until, within } from "../support/wait.ts";
import { faultOf, guarded, PLAIN } from "./fetch-lab.ts";

let upstream: Upstream;
let allowHosts: string[];
beforeAll(() => {
  upstream = startUpstream();
  allowHosts = [new URL(upstream.url).host];
});
afterEach(() => upstream.reset());
afterAll(() => upstream.close());

const page = (text: string | Uint8Array, headers: Record<string, string> = {}, status = 200): Answer => ({
  status,
  headers: { "content-type": "text/plain", ...headers },
  parts: [text],
  framing: "length",
  finish: "end",
});
const textOf = (got: { body: Uint8Array }) => Buffer.from(got.body).toString();

describe("what goes out", () => {
  test("a plain GET: our name, what is wanted, and nothing of anybody's identity", async () => {
    upstream.always("/a", page("fine"));
    const got = await guarded({ allowHosts })(`${upstream.url}/a?b=c%20d#e`, { ...PLAIN, accept: "text/markdown" });
    expect(textOf(got)).toBe("fine");
    const call = upstream.calls[0]!;
    expect([call.method, call.path, call.query, call.text]).toEqual(["GET", "/a", "b=c%20d", ""]);
    const { accept, host, "user-agent": agent, ...rest } = call.headers;
    expect([accept, host, agent]).toEqual(["text/markdown", new URL(upstream.url).host, "sluice/test"]);
    expect(Object.keys(rest).sort()).toEqual(["accept-encoding", "accept-language"]);
  });

  test("a name stands in the Host header, without the dot at its end", async () => {
    upstream.always("/", page("fine"));
    const { port } = new URL(upstream.url);
    const safeFetch = guarded({ allowHosts: [`name.example:${port}`], resolve: async () => ["127.0.0.1"] });
    await safeFetch(`http://Name.Example.:${port}/`, PLAIN);
    expect(upstream.calls[0]?.headers["host"]).toBe(`name.example:${port}`);
  });

  test("never through a proxy of the environment", async () => {
    upstream.always("/", page("fine"));
    const proxy = startUpstream();
    const before = { ...process.env };
    for (const name of ["HTTP_PROXY", "http_proxy", "ALL_PROXY"]) process.env[name] = proxy.url;
    try {
      expect(textOf(await guarded({ allowHosts })(upstream.url, PLAIN))).toBe("fine");
    } finally {
      for (const name of ["HTTP_PROXY", "http_proxy", "ALL_PROXY"]) {
        if (before[name] === undefined) delete process.env[name];
        else process.env[name] = before[name];
      }
      proxy.close();
    }
    expect(proxy.calls).toEqual([]);
  });

  test("cookies are not kept", async () => {
    upstream.always("/", page("fine", { "set-cookie": "session=1; path=/" }));
    const safeFetch = guarded({ allowHosts });
    await safeFetch(upstream.url, PLAIN);
    await safeFetch(upstream.url, PLAIN);
    expect(upstream.calls.map(({ headers }) => headers["cookie"])).toStrictEqual([undefined, undefined]);
  });
});

describe("redirects", () => {
  test("are followed, relative ones too, up to the bound", async () => {
    for (let hop = 0; hop < MAX_REDIRECTS; hop++) upstream.answer(`/${hop}`, redirect(`./${hop + 1}`));
    upstream.answer(`/${MAX_REDIRECTS}`, page("there"));
    const got = await guarded({ allowHosts })(`${upstream.url}/0`, PLAIN);
    expect([textOf(got), got.url]).toEqual(["there", `${upstream.url}/${MAX_REDIRECTS}`]);
    expect(upstream.calls.length).toBe(MAX_REDIRECTS + 1);
  });

  test("one more is refused, and not asked", async () => {
    upstream.always("/", redirect("/"));
    expect((await faultOf(guarded({ allowHosts })(upstream.url, PLAIN))).code).toBe("too_many_redirects");
    expect(upstream.calls.length).toBe(MAX_REDIRECTS + 1);
  });

  test("an address in UTF-8, as many servers write it, is that address", async () => {
    upstream.answer("/", redirect("/größe?q=über#straße"));
    upstream.answer("/gr%C3%B6%C3%9Fe", page("there"));
    const got = await guarded({ allowHosts })(upstream.url, PLAIN);
    expect(got.url).toBe(`${upstream.url}/gr%C3%B6%C3%9Fe?q=%C3%BCber#stra%C3%9Fe`);
  });

  test("an address in another charset is followed as it is written", async () => {
    upstream.answer("/caf%C3%A9", page("there"));
    const socket = {
      open: (each: Socket) =>
        void each.end(Buffer.from(`HTTP/1.1 302 Found\r\nlocation: ${upstream.url}/caf\xe9\r\n\r\n`, "latin1")),
      data() {},
    };
    const older = Bun.listen({ hostname: "127.0.0.1", port: 0, socket });
    const got = await guarded({ allowHosts: ["127.0.0.1"] })(`http://127.0.0.1:${older.port}/`, PLAIN);
    older.stop(true);
    expect(textOf(got)).toBe("there");
  });

  test("a 304 or a 300 is an answer like any other", async () => {
    upstream.answer("/", page("", { location: "/x" }, 304), page("", { location: "/x" }, 300));
    const safeFetch = guarded({ allowHosts });
    expect([(await safeFetch(upstream.url, PLAIN)).status, (await safeFetch(upstream.url, PLAIN)).status]).toEqual([
      304, 300,
    ]);
    expect(upstream.calls.length).toBe(2);
  });
});

describe("bounds", () => {
  test("a body that is too long is refused, or cut, and its sender hung up on", async () => {
    const endless: Answer = { parts: ["x".repeat(1000), new Promise(() => {})], framing: "chunked", finish: "silence" };
    upstream.answer("/", endless, endless);
    const safeFetch = guarded({ allowHosts });
    const fault = await faultOf(safeFetch(upstream.url, { ...PLAIN, maxBytes: 999 }));
    expect(fault.code).toBe("too_large");
    await within(upstream.calls[0]!.whenAborted, "the sender was hung up on");
    const cut = await safeFetch(upstream.url, { ...PLAIN, maxBytes: 999, whenLonger: "cut" });
    expect([cut.body.length, cut.cut]).toEqual([999, true]);
    await within(upstream.calls[1]!.whenAborted, "the sender was hung up on");
  });

  test("a body of exactly the bound is whole", async () => {
    upstream.always("/", page("x".repeat(1000)));
    const got = await guarded({ allowHosts })(upstream.url, { ...PLAIN, maxBytes: 1000, whenLonger: "cut" });
    expect([got.body.length, got.cut]).toEqual([1000, false]);
  });

  test.each([
    ["gzip", (bytes: Buffer) => gzipSync(bytes)],
    ["deflate", (bytes: Buffer) => deflateSync(bytes)],
    ["zstd", (bytes: Buffer) => zstdCompressSync(bytes)],
    ["br", (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })],
  ])("a %s bomb of 300 MB is never unpacked", async (encoding, pack) => {
    const bomb = pack(Buffer.alloc(300 * 1024 * 1024));
    upstream.always("/", page(bomb, { "content-encoding": encoding }));
    Bun.gc(true);
    const before = process.memoryUsage().rss;
    const fault = await faultOf(guarded({ allowHosts })(upstream.url, { ...PLAIN, maxBytes: 2 * 1024 * 1024 }));
    expect(fault.code).toBe("too_large");
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
  });

  test.each([
    ["gzip", gzipSync("hello")],
    ["X-GZIP", gzipSync("hello")],
    ["deflate", deflateSync("hello")],
    ["deflate", deflateRawSync("hello")],
    ["br", brotliCompressSync("hello")],
    ["zstd", zstdCompressSync("hello")],
    ["identity", Buffer.from("hello")],
    ["none", Buffer.from("hello")],
    ["UTF-8", Buffer.from("hello")],
  ])("a body packed as %s comes out unpacked", async (encoding, packed) => {
    upstream.always("/", page(packed, { "content-encoding": encoding }));
    expect(textOf(await guarded({ allowHosts })(upstream.url, PLAIN))).toBe("hello");
  });

  test("a packed body of no bytes is empty; one that is torn, packed twice, or in no known way is a fault", async () => {
    upstream.always("/", page(Buffer.alloc(0), { "content-encoding": "gzip" }));
    expect(textOf(await guarded({ allowHosts })(upstream.url, PLAIN))).toBe("");
    const bad = [
      ["gzip", gzipSync("hello").subarray(0, 12)],
      ["gzip", Buffer.from("hello")],
      ["gzip, gzip", gzipSync(gzipSync("hello"))],
      ["compress", Buffer.from("hello")],
    ] as const;
    for (const [encoding, packed] of bad) {
      upstream.reset();
      upstream.always("/", page(packed, { "content-encoding": encoding }));
      expect((await faultOf(guarded({ allowHosts })(upstream.url, PLAIN))).code).toBe("unreachable");
    }
  });

  test("a body that is torn off is a fault in every encoding that was asked for", async () => {
    const pack = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync, zstd: zstdCompressSync };
    upstream.answer("/", page("hello"));
    const safeFetch = guarded({ allowHosts });
    await safeFetch(upstream.url, PLAIN);
    const asked = upstream.calls[0]!.headers["accept-encoding"]!.split(", ") as (keyof typeof pack)[];
    expect(asked).toContain("gzip");
    for (const encoding of asked) {
      upstream.answer(
        "/",
        page(pack[encoding]("hello ".repeat(1_000)).subarray(0, -1), { "content-encoding": encoding }),
      );
      expect((await faultOf(safeFetch(upstream.url, PLAIN))).code).toBe("unreachable");
    }
  });

  test("the whole has a deadline, be the body on its way or the headers not there", async () => {
    for (const answer of [
      neverAnswer(),
      { parts: ["begin", new Promise(() => {})], framing: "chunked", finish: "end" },
    ]) {
      upstream.reset();
      upstream.always("/", answer as Answer);
      const clock = manualClock();
      const work = faultOf(guarded({ allowHosts, clock })(upstream.url, { ...PLAIN, deadlineMs: 7_000 }));
      await upstream.called();
      await clock.advance(6_999);
      expect(upstream.calls[0]!.aborted).toBe(false);
      await clock.advance(1);
      expect((await work).code).toBe("timeout");
      await within(upstream.calls[0]!.whenAborted, "the server was hung up on");
      expect(clock.pending).toBe(0);
    }
  });

  test("a server without a word is left after ten seconds", async () => {
    upstream.always("/", neverAnswer());
    const clock = manualClock();
    const work = faultOf(guarded({ allowHosts, clock })(upstream.url, { ...PLAIN, deadlineMs: 60_000 }));
    await upstream.called();
    await clock.advance(10_000);
    expect((await work).code).toBe("timeout");
    expect(clock.pending).toBe(0);
  });

  test("a resolver that never answers", async () => {
    const clock = manualClock();
    const safeFetch = guarded({ clock, resolve: () => new Promise(() => {}) });
    const work = faultOf(safeFetch("http://slow.example/", { ...PLAIN, deadlineMs: 5_000 }));
    await clock.advance(5_000);
    expect((await work).code).toBe("timeout");
  });

  test("what is fetched at a time: pages whose servers are silent leave room to others; who waits is next, or out of time", async () => {
    upstream.always("/", neverAnswer());
    const clock = manualClock();
    const safeFetch = guarded({ allowHosts, clock });
    const controller = new AbortController();
    const patient = { ...PLAIN, deadlineMs: 60_000 };
    const first = faultOf(safeFetch(upstream.url, { ...patient, signal: controller.signal }));
    const silent = Array.from({ length: MOST_AT_ONCE - 1 }, () => faultOf(safeFetch(upstream.url, patient)));
    const late = faultOf(safeFetch(upstream.url, { ...patient, deadlineMs: 5_000 }));
    upstream.always("/next", page("fine"));
    const next = safeFetch(`${upstream.url}/next`, patient);
    await until(() => upstream.calls.length >= MOST_AT_ONCE, "as many as may be are fetched");
    await clock.advance(5_000);
    expect([(await late).code, upstream.calls.length]).toEqual(["timeout", MOST_AT_ONCE]);
    controller.abort(new Error("gone"));
    await first;
    expect(textOf(await within(next, "the next one is fetched"))).toBe("fine");
    await clock.advance(10_000);
    expect(new Set((await Promise.all(silent)).map(({ code }) => code))).toEqual(new Set(["timeout"]));
  });

  test("headers without end", async () => {
    upstream.always("/", {
      parts: [`HTTP/1.1 200 OK\r\n${"x-h: y\r\n".repeat(200_000)}`],
      framing: "close",
      finish: "silence",
      mute: true,
    });
    expect((await faultOf(guarded({ allowHosts })(upstream.url, PLAIN))).code).toBe("unreachable");
  });

  test("the length of a URL", async () => {
    const safeFetch = guarded({ allowHosts });
    upstream.always(`/${"a".repeat(MAX_URL - upstream.url.length - 1)}`, page("fine"));
    const longest = `${upstream.url}/${"a".repeat(MAX_URL - upstream.url.length - 1)}`;
    expect((await safeFetch(longest, PLAIN)).status).toBe(200);
    expect((await faultOf(safeFetch(`${longest}a`, PLAIN))).code).toBe("invalid_url");
    expect(upstream.calls.length).toBe(1);
  });

  test("a caller that leaves: its own reason comes back, and the server is hung up on", async () => {
    upstream.always("/", neverAnswer());
    const controller = new AbortController();
    const work = guarded({ allowHosts })(upstream.url, { ...PLAIN, signal: controller.signal });
    await upstream.called();
    const reason = new Error("gone");
    controller.abort(reason);
    await expect(work).rejects.toBe(reason);
    await within(upstream.calls[0]!.whenAborted, "the server was hung up on");
    await expect(guarded({ allowHosts })(upstream.url, { ...PLAIN, signal: controller.signal })).rejects.toBe(reason);
    expect(upstream.calls.length).toBe(1);
  });
});

describe("failures", () => {
  test("a torn connection, a closed port, an unknown name: a sentence without an address", async () => {
    upstream.always("/", reset());
    const gone = startUpstream();
    gone.close();
    const lab = guarded({ allowHosts: ["127.0.0.1"] });
    const faults = [
      await faultOf(lab(upstream.url, PLAIN)),
      await faultOf(lab(gone.url, PLAIN)),
      await faultOf(guarded({ resolve: () => Promise.reject(new Error("ENOTFOUND")) })("http://no.example/", PLAIN)),
      await faultOf(guarded({ resolve: async () => [] })("http://no.example/", PLAIN)),
      await faultOf(guarded({ resolve: async () => Array(101).fill("8.8.8.8") })("http://no.example/", PLAIN)),
    ];
    expect(faults.map(({ code }) => code)).toEqual([
      "unreachable",
      "unreachable",
      "unresolved",
      "unresolved",
      "unresolved",
    ]);
    for (const { message } of faults) expect(message).not.toMatch(/\d+\.\d+\.\d+\.\d+/);
    for (const { message } of faults.slice(0, 2)) expect(message).toStartWith("The server could not be reached");
  });

  test("the next address of a name is tried when the first does not answer", async () => {
    upstream.always("/", page("fine"));
    const { port } = new URL(upstream.url);
    const safeFetch = guarded({ allowHosts: ["two.example"], resolve: async () => ["127.0.0.77", "127.0.0.1"] });
    expect(textOf(await safeFetch(`http://two.example:${port}/`, PLAIN))).toBe("fine");
  });

  test("one that is slow is asked once more where no other address of its name can be reached", async () => {
    upstream.answer("/", neverAnswer(), page("fine"));
    const { port } = new URL(upstream.url);
    const clock = manualClock();
    const resolve = async () => ["127.0.0.1", "127.0.0.77"];
    const work = guarded({ clock, allowHosts: ["two.example"], resolve })(`http://two.example:${port}/`, {
      ...PLAIN,
      deadlineMs: 20_000,
    });
    await upstream.called();
    await clock.advance(4_000);
    expect(textOf(await within(work, "the page"))).toBe("fine");
    expect(upstream.calls.length).toBe(2);
  });

  test("an error page comes back as it is", async () => {
    upstream.always("/", page("not here", {}, 404));
    const got = await guarded({ allowHosts })(upstream.url, PLAIN);
    expect([got.status, textOf(got)]).toEqual([404, "not here"]);
  });
});

describe("TLS to a pinned address", () => {
  const certificate = join(import.meta.dir, "pinned-certificate.txt");
  const listen = async () => {
    const names: unknown[] = [];
    const server = createServer(
      {
        key: await Bun.file(join(import.meta.dir, "pinned-key.txt")).text(),
        cert: await Bun.file(certificate).text(),
      },
      (socket) => {
        names.push((socket as { servername?: unknown }).servername);
        socket.on("error", () => {});
        socket.once("data", (asked) => {
          const isMoved = asked.toString().startsWith("GET /moved ");
          const head = isMoved ? "302 Found\r\nlocation: /\r\ncontent-length: 0" : "200 OK\r\ncontent-length: 4";
          socket.end(`HTTP/1.1 ${head}\r\n\r\n${isMoved ? "" : "fine"}`);
        });
      },
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return { names, server, port: (server.address() as { port: number }).port };
  };

  test("a certificate that nobody vouches for is refused", async () => {
    const { server, port } = await listen();
    const safeFetch = guarded({ allowHosts: ["pinned.example"], resolve: async () => ["127.0.0.1"] });
    const fault = await faultOf(safeFetch(`https://pinned.example:${port}/`, PLAIN));
    server.close();
    expect(fault.code).toBe("unreachable");
    expect(fault.message).toContain("certificate");
  });

  test("the certificate is checked against the name, though the address is connected to", async () => {
    const { server, port, names } = await listen();
    const script = `
      const { guarded, PLAIN } = await import(${JSON.stringify(join(import.meta.dir, "fetch-lab.ts"))});
      const safeFetch = guarded({ allowHosts: ["*.example", "127.0.0.1"], resolve: async () => ["127.0.0.1"] });
      for (const host of ["pinned.example", "other.example", "127.0.0.1"]) {
        const got = await safeFetch("https://" + host + ":${port}/moved", PLAIN).catch((fault) => fault);
        console.log(host, got.status ?? got.code, got.status ? Buffer.from(got.body).toString() : got.message);
      }`;
    const child = Bun.spawn([process.execPath, "-e", script], {
      env: { PATH: process.env["PATH"] ?? "", NODE_EXTRA_CA_CERTS: certificate },
      stdout: "pipe",
      stderr: "inherit",
    });
    const lines = (await child.stdout.text()).trim().split("\n");
    await child.exited;
    server.close();
    expect(lines[0]).toBe("pinned.example 200 fine");
    expect(lines[1]).toMatch(/^other\.example unreachable .*certificate/);
    expect(lines[2]).toMatch(/^127\.0\.0\.1 unreachable .*certificate/);
    expect(names[0]).toBe("pinned.example");
  });
});
