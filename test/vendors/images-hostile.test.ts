import { afterEach, describe, expect, spyOn, test } from "bun:test";
import type { ImageStep } from "../../src/vendors/image-upstream.ts";
import { MAX_IMAGE_BYTES } from "../../src/vendors/image-upstream.ts";
import { type GuardedFetch, RESULT_MS } from "../../src/vendors/images/result.ts";
import { FetchFault, type FetchFaultCode } from "../../src/web/safe-fetch/fault.ts";
import { type Answer, html, json, neverAnswer, redirect } from "../support/upstream.ts";
import { guarded, startCanary } from "../web/fetch-lab.ts";
import {
  follow,
  type Lab,
  type LabOptions,
  linesOf,
  openLab,
  PNG,
  PNG_BASE64,
  RESULT,
  request,
  VENDOR_KEY,
} from "./image-lab.ts";

let open: Lab[] = [];
afterEach(() => {
  for (const lab of open) lab.close();
  open = [];
});

function start(id: string, options?: LabOptions): Lab {
  const lab = openLab(id, options);
  open.push(lab);
  return lab;
}

const GENERATIONS = "/v1/images/generations";
const bytes = (body: Uint8Array, type = "image/png"): Answer => ({
  headers: { "content-type": type },
  parts: [body],
  framing: "length",
  finish: "end",
});
const text = (body: string) => new TextEncoder().encode(body);
const SVG = text(`<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`);
const PAGE = text("<!doctype html><html><body>Sign in</body></html>");
const GIF = text("GIF89a..................");

/** What becomes of an image that a vendor says lies at `url`. */
async function drawAt(lab: Lab, url: string): Promise<ImageStep> {
  lab.upstream.answer(GENERATIONS, json({ data: [{ url }] }));
  return follow(lab.draw, request());
}

function expectFailed(step: ImageStep, words: RegExp): void {
  expect(step).toMatchObject({ kind: "failed", ran: "maybe" });
  expect((step as { message: string }).message).toMatch(words);
}

const MEGABYTE = new Uint8Array(1024 * 1024).fill(0x41);

/** 200 MB without a word of its length, beginning as `head`. */
const flood = (head: Uint8Array, type: string): Answer => ({
  headers: { "content-type": type },
  parts: [head, ...Array.from({ length: 200 }, () => MEGABYTE)],
  framing: "chunked",
  finish: "end",
});

describe("what is no image is no result, whatever its type says", () => {
  for (const [name, body] of [
    ["SVG", SVG],
    ["a page", PAGE],
    ["a GIF", GIF],
    ["nothing", new Uint8Array()],
    ["half a signature", PNG.slice(0, 6)],
  ] as const) {
    test(name, async () => {
      const lab = start("lab");
      const words = /no PNG, JPEG or WebP|empty/;
      lab.files.set(RESULT, { status: 200, body });
      expectFailed(await drawAt(lab, RESULT), words);
      lab.upstream.answer("/own", bytes(body));
      expectFailed(await drawAt(lab, "/own"), words);
      if (body.length > 0) {
        const data = Buffer.from(body).toString("base64");
        expectFailed(await drawAt(lab, `data:image/png;base64,${data}`), words);
        lab.upstream.answer(GENERATIONS, json({ data: [{ b64_json: data }] }));
        expectFailed(await follow(lab.draw, request()), words);
      }
      const fireworks = start("fireworks");
      const path = "/inference/v1/workflows/accounts/fireworks/models/m/text_to_image";
      fireworks.upstream.answer(path, bytes(body));
      expectFailed(await follow(fireworks.draw, request({ model: "m" })), words);
    });
  }

  test("JPEG and WebP are, under any type", async () => {
    const lab = start("lab");
    const jpeg = Uint8Array.from([0xff, 0xd8, 0xff, 0xe0, ...new Array(40).fill(1)]);
    const webp = Buffer.concat([text("RIFF"), Buffer.alloc(4, 9), text("WEBPVP8 "), Buffer.alloc(30)]);
    for (const body of [jpeg, webp]) {
      lab.upstream.answer("/own", bytes(body, "text/html"));
      expect((await drawAt(lab, "/own")).kind).toBe("image");
    }
  });
});

describe("more than is taken is not taken", () => {
  test("200 MB of JSON: hung up on early", async () => {
    const lab = start("openai");
    lab.upstream.answer(GENERATIONS, flood(text('{"data":[{"b64_json":"'), "application/json"));
    expectFailed(await follow(lab.draw, request()), /larger than 48 MiB/);
    await lab.upstream.calls[0]!.whenAborted;
    expect(lab.upstream.calls[0]!.finished).toBe(false);
  });

  test("200 MB at the vendor's own address, and as the answer itself", async () => {
    const lab = start("lab");
    lab.upstream.answer("/own", flood(PNG, "image/png"));
    expectFailed(await drawAt(lab, "/own"), /larger than 32 MiB/);
    await lab.upstream.calls[1]!.whenAborted;
    const stability = start("fireworks");
    const path = "/inference/v1/workflows/accounts/fireworks/models/m/text_to_image";
    stability.upstream.answer(path, flood(PNG, "image/png"));
    expectFailed(await follow(stability.draw, request({ model: "m" })), /larger than 48 MiB/);
  });

  test("an image just above the bound, in base64 and in a data URL", async () => {
    const lab = start("lab");
    const data = Buffer.concat([PNG, Buffer.alloc(MAX_IMAGE_BYTES - PNG.length + 16)]).toString("base64");
    lab.upstream.answer(GENERATIONS, json({ data: [{ b64_json: data }] }));
    expectFailed(await follow(lab.draw, request()), /larger than 32 MiB/);
    expectFailed(await drawAt(lab, `data:image/png;base64,${data}`), /larger than 32 MiB/);
  });

  test("an error page of 200 MB is the error that its status says", async () => {
    const lab = start("openai");
    lab.upstream.answer(GENERATIONS, { ...flood(text("<html>"), "text/html"), status: 503 });
    expect(await follow(lab.draw, request())).toMatchObject({ kind: "failed", ran: "no", retryAfterSeconds: 2 });
    await lab.upstream.calls[0]!.whenAborted;
    expect(lab.upstream.calls[0]!.finished).toBe(false);
  });
});

describe("nothing inside is ever fetched", () => {
  test("by address, by name, by another spelling, by scheme, by what a name resolves to", async () => {
    const canary = startCanary();
    const here = canary.port;
    const guard = guarded({ ports: new Set([here, 443]), resolve: async () => ["127.0.0.1"] });
    const asked: string[] = [];
    const fetchResult: GuardedFetch = (url, options) => {
      asked.push(url);
      return guard(url, options);
    };
    const lab = start("lab", { fetchResult });
    const inside = [
      `https://127.0.0.1:${here}/x.png`,
      `https://localhost:${here}/x.png`,
      `https://[::1]:${here}/x.png`,
      `https://[::ffff:127.0.0.1]:${here}/x.png`,
      `https://2130706433:${here}/x.png`,
      `https://0x7f.1:${here}/x.png`,
      "https://10.0.0.1/x.png",
      "https://169.254.169.254/latest/meta-data",
      "https://metadata.google.internal/x.png",
      `https://harmless.example:${here}/x.png`,
      `https://user:secret@harmless.example:${here}/x.png`,
    ];
    const outside = [
      `http://127.0.0.1:${here}/x.png`,
      `http://localhost:${here}/x.png`,
      `//127.0.0.1:${here}/x.png`,
      "http://harmless.example/x.png",
      "file:///etc/passwd",
      "ftp://harmless.example/x.png",
      "gopher://127.0.0.1/x",
      "blob:https://harmless.example/1",
      "javascript:alert(1)",
    ];
    for (const url of [...inside, ...outside]) {
      const step = await drawAt(lab, url);
      expect([url, step.kind]).toEqual([url, "failed"]);
      const { message } = step as { message: string };
      expect(message).toMatch(/^The vendor's image could not be fetched\. |no PNG, JPEG or WebP/);
      // Nothing is told of what was found there.
      expect(message).not.toMatch(/127\.|10\.0|169\.254|localhost|secret/);
    }
    // What is not https does not get as far as the guard.
    expect(asked).toHaveLength(inside.length);
    expect(canary.connections).toBe(0);
    expect(lab.upstream.calls.every(({ path }) => path === GENERATIONS)).toBe(true);
    canary.close();
  });

  test("a link at the vendor's own server that redirects inside is not followed", async () => {
    const canary = startCanary();
    const lab = start("lab");
    lab.upstream.answer("/own", redirect(`http://127.0.0.1:${canary.port}/secret.png`));
    expectFailed(await drawAt(lab, "/own"), /could not be fetched/);
    expect(canary.connections).toBe(0);
    canary.close();
  });

  test("one that redirects outside is followed through the guard, without the key, and no further than it goes", async () => {
    const seen: Parameters<GuardedFetch>[] = [];
    const fetchResult: GuardedFetch = async (...asked) => {
      seen.push(asked);
      return { status: 200, body: PNG };
    };
    const lab = start("lab", { fetchResult });
    lab.upstream.answer("/own", redirect(RESULT));
    expect((await drawAt(lab, "/own")).kind).toBe("image");
    expect(JSON.stringify(seen)).not.toContain(VENDOR_KEY);
    // What stands behind its head is of no use, also where it cannot be unpacked.
    const packed = redirect(RESULT);
    lab.upstream.answer("/own", {
      ...packed,
      headers: { ...packed.headers, "content-encoding": "gzip" },
      parts: ["x"],
    });
    expect((await drawAt(lab, "/own")).kind).toBe("image");
    for (const inside of ["/elsewhere", "http://harmless.example/x.png", "file:///etc/passwd"]) {
      lab.upstream.answer("/own", redirect(inside));
      expectFailed(await drawAt(lab, "/own"), /Only https/);
    }
    lab.upstream.answer("/own", { ...html(302), headers: {} });
    expectFailed(await drawAt(lab, "/own"), /Its server answered 302/);
    expect(seen.map(([url]) => url)).toEqual([RESULT, RESULT]);
    expect(lab.upstream.calls.map(({ path }) => path)).not.toContain("/elsewhere");
  });

  test("another port of this machine is another server, its names are one", async () => {
    const canary = startCanary();
    const lab = start("lab");
    expectFailed(await drawAt(lab, `http://127.0.0.1:${canary.port}/x.png`), /Only https/);
    expect(canary.connections).toBe(0);
    lab.upstream.answer("/own", bytes(PNG));
    expect((await drawAt(lab, `http://localhost:${new URL(lab.upstream.url).port}/own`)).kind).toBe("image");
    const path = `/127.0.0.1:${canary.port}/x.png`;
    lab.upstream.answer(path, bytes(PNG));
    expect((await drawAt(lab, `http://localhost:${new URL(lab.upstream.url).port}/${path}`)).kind).toBe("image");
    expect(canary.connections).toBe(0);
    expect(lab.fetched).toEqual([]);
    canary.close();
  });
});

describe("links", () => {
  test("that have expired, everywhere", async () => {
    const lab = start("lab");
    for (const status of [403, 404, 410]) {
      lab.files.set(RESULT, { status, body: PAGE });
      expectFailed(await drawAt(lab, RESULT), /link to it has expired/);
      lab.upstream.answer("/own", html(status));
      expectFailed(await drawAt(lab, "/own"), /link to it has expired/);
    }
  });

  test("are fetched within bounds, without a key", async () => {
    const seen: Parameters<GuardedFetch>[] = [];
    const fetchResult: GuardedFetch = async (...asked) => {
      seen.push(asked);
      return { status: 200, body: PNG };
    };
    const lab = start("lab", { fetchResult });
    expect((await drawAt(lab, RESULT)).kind).toBe("image");
    const [url, { signal, ...bounds }] = seen[0]!;
    expect(url).toBe(RESULT);
    expect(bounds).toEqual({
      accept: "image/png, image/jpeg, image/webp",
      maxBytes: MAX_IMAGE_BYTES,
      whenLonger: "refuse",
      deadlineMs: RESULT_MS,
    });
    expect(signal.aborted).toBe(false);
    expect(JSON.stringify(seen)).not.toContain(VENDOR_KEY);
  });

  test("whose server fails: the work is asked for again where it has a name, and is over where not", async () => {
    const passing: FetchFaultCode[] = ["timeout", "unreachable", "unresolved"];
    const lasting: FetchFaultCode[] = ["blocked", "too_large", "too_many_redirects", "invalid_url"];
    for (const code of [...passing, ...lasting]) {
      const fault = new FetchFault(code, "A sentence of the guard's.");
      const lab = start("lab");
      lab.files.set(RESULT, fault);
      expectFailed(await drawAt(lab, RESULT), /A sentence of the guard's\./);

      const replicate = start("replicate");
      replicate.files.set(RESULT, fault);
      replicate.upstream.always("/v1/predictions/p1", json({ id: "p1", status: "succeeded", output: RESULT }));
      const { source: _source, ...rest } = request();
      const poll = () => replicate.draw.resume!("p1", rest, new AbortController().signal);
      expect(await poll()).toMatchObject({ kind: "failed", ran: passing.includes(code) ? "no" : "maybe" });
      replicate.files.set(RESULT, { status: 200, body: PNG });
      expect((await poll()).kind).toBe("image");
    }
    const lab = start("replicate");
    lab.upstream.always("/v1/predictions/p1", json({ id: "p1", status: "succeeded", output: [RESULT] }));
    lab.files.set(RESULT, { status: 503, body: PAGE });
    const step = await lab.draw.resume!("p1", request(), new AbortController().signal);
    expect(step).toMatchObject({ kind: "failed", ran: "no" });
  });

  test("a fault in here is not taken for one of theirs", async () => {
    const lab = start("lab");
    lab.files.set(RESULT, new TypeError("ours"));
    await expect(drawAt(lab, RESULT)).rejects.toThrow("ours");
  });

  test("given up while a result is fetched", async () => {
    const lab = start("lab");
    lab.upstream.answer(GENERATIONS, json({ data: [{ url: "/own" }] }));
    lab.upstream.answer("/own", neverAnswer());
    const giveUp = new AbortController();
    const work = lab.draw.create(request(), giveUp.signal).catch((thrown: unknown) => thrown);
    const call = await lab.upstream.called(1);
    giveUp.abort(new Error("enough"));
    expect(await work).toEqual(new Error("enough"));
    await call.whenAborted;
  });
});

describe("the vendor's key", () => {
  test("never goes to another host, whoever names it", async () => {
    const canary = startCanary();
    const other = `http://127.0.0.1:${canary.port}`;
    const bfl = start("bfl");
    for (const address of [
      `${other}/get?id=1`,
      "https://evil.example/get",
      "https://api.bfl.ai/v1/get_result?id=1",
      "https://api.bfl.ai:8443/x",
      "file:///x",
    ]) {
      bfl.upstream.answer("/v1/flux-dev", json({ id: "t", polling_url: address }));
      const step = await follow(bfl.draw, request({ model: "flux-dev" }));
      expect([address, step]).toEqual([
        address,
        { kind: "failed", message: "The vendor names an address that is not its own.", ran: "no", fault: true },
      ]);
    }
    const fal = start("fal");
    fal.upstream.answer("/fal-ai/x", json({ request_id: "r", response_url: `${other}/fal-ai/x/requests/r` }));
    fal.upstream.answer("/fal-ai/x/requests/r/status", json({ status: "COMPLETED" }));
    fal.upstream.answer("/fal-ai/x/requests/r", json({ images: [{ url: `data:image/png;base64,${PNG_BASE64}` }] }));
    expect((await follow(fal.draw, request({ model: "fal-ai/x" }))).kind).toBe("image");
    expect(linesOf(fal.upstream.calls)).toHaveLength(3);
    expect(canary.connections).toBe(0);
    canary.close();
  });

  test("goes to the clusters of the API's own domain, over https alone", async () => {
    const asked: [string, string | null][] = [];
    const fetching = spyOn(globalThis, "fetch").mockImplementation((async (url: string, init: RequestInit) => {
      asked.push([url, new Headers(init.headers).get("x-key")]);
      return Response.json({ id: "t", status: "Pending" });
    }) as unknown as typeof fetch);
    const lab = openLab("bfl", { vendor: { baseUrl: "https://api.bfl.ai/v1" } });
    open.push(lab);
    const { source: _source, ...rest } = request({ model: "flux-dev" });
    const own = ["https://api.us1.bfl.ai/v1/get_result?id=t", "https://api.bfl.ai/v1/get_result?id=t"];
    const others = [
      "http://api.us1.bfl.ai/v1/get_result?id=t",
      "https://api.us1.bfl.ai:8443/v1/get_result?id=t",
      "https://api.us1.bfl.ai.evil.example/get_result?id=t",
      "https://evilbfl.ai/get_result?id=t",
      "https://a@api.us1.bfl.ai/get_result?id=t",
    ];
    try {
      for (const name of [...own, ...others]) {
        const step = await lab.draw.resume!(name, rest, new AbortController().signal);
        expect([name, step.kind]).toEqual([name, own.includes(name) ? "pending" : "failed"]);
      }
    } finally {
      fetching.mockRestore();
    }
    expect(asked).toEqual(own.map((url) => [url, VENDOR_KEY]));
  });

  test("no model's name leads out of the API", async () => {
    for (const id of ["replicate", "fal", "bfl", "fireworks"]) {
      const lab = start(id);
      for (const model of ["../account", "a/../../b", "a//b", "", "."]) {
        const step = await lab.draw.create(request({ model }), new AbortController().signal);
        expect(step).toMatchObject({ kind: "failed" });
      }
      expect(linesOf(lab.upstream.calls)).toEqual([]);
      lab.upstream.always("/v1/models/a%3Fb/c%23d/predictions", json({}));
    }
  });
});
