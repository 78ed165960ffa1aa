import { afterEach, describe, expect, test } from "bun:test";
import { manualClock } from "./clock.ts";
import {
  html,
  json,
  neverAnswer,
  redirect,
  reset,
  sse,
  startUpstream,
  truncatedJson,
  type Upstream,
} from "./upstream.ts";
import { gate, until, within } from "./wait.ts";

describe("the manual clock", () => {
  test("runs timers in the order of their time, and those they set", async () => {
    const clock = manualClock();
    const seen: string[] = [];
    clock.after(30, () => seen.push(`c${clock.monotonic()}`));
    clock.after(10, () => {
      seen.push(`a${clock.monotonic()}`);
      clock.after(10, () => seen.push(`b${clock.monotonic()}`));
    });
    const stop = clock.after(20, () => seen.push("never"));
    clock.after(31, () => seen.push("too early"));
    stop();
    await clock.advance(30);
    expect(seen).toEqual(["a10", "b20", "c30"]);
    expect(clock.pending).toBe(1);
  });

  test("lets awaiting code run between two timers", async () => {
    const clock = manualClock();
    const seen: string[] = [];
    const wait = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
    const work = async () => {
      await wait(10);
      seen.push("first");
      await wait(10);
      seen.push("second");
    };
    const done = work();
    await clock.advance(20);
    expect(seen).toEqual(["first", "second"]);
    await done;
  });

  test("keeps wall and monotonic apart, and tells when a timer is set", async () => {
    const clock = manualClock(1_000);
    const armed = clock.armed(95_000);
    clock.setWall(-5);
    clock.after(95_000, () => {});
    await within(armed, "the timer");
    expect([clock.now(), clock.monotonic()]).toEqual([-5, 0]);
  });
});

describe("the scripted vendor", () => {
  let upstream: Upstream;
  afterEach(() => upstream.close());
  const post = (path: string, init: RequestInit = {}) =>
    fetch(`${upstream.url}${path}`, { method: "POST", body: '{"a":"ä"}', redirect: "manual", ...init });

  test("answers in order, then the standing answer, and records what came", async () => {
    upstream = startUpstream();
    upstream.answer("/v1/x", json({ first: 1 }), json({ second: 2 }, { status: 429, headers: { "retry-after": "7" } }));
    upstream.always("/v1/x", (call) => json({ got: call.json }));
    expect(await (await post("/v1/x?beta=true", { headers: { "X-Some": "thing" } })).json()).toEqual({ first: 1 });
    const second = await post("/v1/x");
    expect([second.status, second.headers.get("retry-after")]).toEqual([429, "7"]);
    await second.body?.cancel();
    expect(await (await post("/v1/x")).json()).toEqual({ got: { a: "ä" } });
    const [call] = upstream.calls;
    expect([call?.method, call?.path, call?.query, call?.headers["x-some"]]).toEqual([
      "POST",
      "/v1/x",
      "beta=true",
      "thing",
    ]);
    expect(upstream.calls.map((each) => each.aborted)).toEqual([false, false, false]);
    expect(upstream.unexpected).toEqual([]);
    expect((await post("/other")).status).toBe(418);
    expect(upstream.unexpected.length).toBe(1);
  });

  test.each([1, 7, "whole"] as const)("cuts a stream into pieces of %p", async (chunk) => {
    upstream = startUpstream();
    const text = 'data: {"text":"grüße 🙂"}\n\ndata: [DONE]\n\n';
    const answer = sse(text, { chunk });
    const bytes = new TextEncoder().encode(text).length;
    expect(answer.parts.length).toBe(chunk === "whole" ? 1 : Math.ceil(bytes / chunk));
    upstream.always("/s", answer);
    const response = await post("/s");
    let whole = "";
    const decoder = new TextDecoder();
    for await (const piece of response.body as ReadableStream<Uint8Array>) {
      whole += decoder.decode(piece, { stream: true });
    }
    expect(whole).toBe(text);
  });

  test("holds a stream at a gate, and notices the reader leaving", async () => {
    upstream = startUpstream();
    const held = gate();
    upstream.always("/s", sse(["data: 1\n\n", held.opened, "data: 2\n\n"]));
    const abort = new AbortController();
    const response = await post("/s", { signal: abort.signal });
    const reader = response.body!.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe("data: 1\n\n");
    const call = await upstream.called();
    expect(call.aborted).toBe(false);
    abort.abort();
    await within(call.whenAborted, "the abort");
    expect([call.aborted, call.finished]).toEqual([true, false]);
    held.open();
  });

  test("misbehaves as told", async () => {
    upstream = startUpstream();
    upstream.answer("/x", reset(), sse("data: 1\n\n", { finish: "reset" }), sse("data: 1\n\n", { finish: "cut" }));
    upstream.answer("/x", truncatedJson({ long: "enough" }), html(502), redirect("http://elsewhere.test/"));
    await expect(post("/x")).rejects.toThrow();
    for (let fault = 0; fault < 2; fault++) await expect((await post("/x")).text()).rejects.toThrow();
    await expect((await post("/x")).json()).rejects.toThrow();
    const page = await post("/x");
    expect([page.status, page.headers.get("content-type")]).toEqual([502, "text/html"]);
    const away = await post("/x");
    expect([away.status, away.headers.get("location")]).toEqual([302, "http://elsewhere.test/"]);
    upstream.always("/never", neverAnswer());
    const abort = new AbortController();
    const never = post("/never", { signal: abort.signal });
    await until(() => upstream.calls.some((call) => call.path === "/never"), "the unanswered call");
    abort.abort();
    await expect(never).rejects.toThrow();
    await within(upstream.calls.at(-1)!.whenAborted, "the abort");
  });
});
