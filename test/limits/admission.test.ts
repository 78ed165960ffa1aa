import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import { Admission, memoryBound } from "../../src/limits/admission.ts";
import { startApp, type TestApp } from "../support/app.ts";

/** A machine of two processors with 1,000 bytes. */
function machine() {
  const state = { used: 0, running: 0 };
  const admission = new Admission({
    ...{ cores: 2, memoryBytes: 1_000, readMemory: () => state.used, running: () => state.running },
  });
  /** About a second of looks, the first `late` of them late, the others at `otherwise` ms. */
  const second = (late: number, otherwise = 1) => {
    let elapsed = 0;
    for (let look = 0; elapsed < 1_000; look++) {
      const lag = look < late ? 60 : otherwise;
      elapsed += 50 + lag;
      admission.look(lag, 50);
    }
  };
  const overload = () => {
    for (let count = 0; count < 5; count++) second(20);
  };
  const codeOf = (check: () => void) => {
    try {
      check();
      return undefined;
    } catch (thrown) {
      return thrown instanceof GatewayError ? [thrown.code, thrown.retryAfterSeconds] : thrown;
    }
  };
  return {
    state,
    admission,
    second,
    overload,
    ask: () => codeOf(() => admission.check()),
    askStream: () => codeOf(() => admission.checkStream()),
  };
}
const REFUSED = ["upstream_overloaded", 1];

describe("admission by the loop's lag (reliability 4)", () => {
  test("has no bound while the loop keeps up, however much is under way", () => {
    const { state, admission, second, ask } = machine();
    state.running = 10_000;
    // A hiccup each second is none of the loop's fault.
    for (let count = 0; count < 20; count++) second(0, 9);
    for (let count = 0; count < 20; count++) second(1, 1);
    expect([admission.limit, ask()]).toEqual([Number.POSITIVE_INFINITY, undefined]);
  });

  test("what is over in four seconds turns nobody away", () => {
    const { admission, second } = machine();
    for (let round = 0; round < 5; round++) {
      for (let count = 0; count < 4; count++) second(20);
      second(0);
    }
    expect(admission.limit).toBe(Number.POSITIVE_INFINITY);
  });

  test("begins at 64 a processor, cuts a tenth each second, and never below eight", () => {
    const { state, admission, second, overload, ask } = machine();
    overload();
    expect(admission.limit).toBe(115);
    second(20);
    expect(admission.limit).toBe(103);
    state.running = 102;
    expect(ask()).toBeUndefined();
    state.running = 103;
    expect(ask()).toEqual(REFUSED);
    for (let count = 0; count < 60; count++) second(20);
    expect(admission.limit).toBe(8);
  });

  test("begins at what is under way, where that is more", () => {
    const { state, admission, overload } = machine();
    state.running = 5_000;
    overload();
    expect(admission.limit).toBe(4_500);
  });

  test("grows by one each calm second while it turns anybody away, and is gone when it does not", () => {
    const { state, admission, second, overload, ask } = machine();
    overload();
    state.running = 200;
    expect(ask()).toEqual(REFUSED);
    second(0);
    expect(admission.limit).toBe(116);
    // Neither calm nor late: nothing changes.
    second(0, 30);
    expect(admission.limit).toBe(116);
    second(0);
    expect(admission.limit).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("admission by memory", () => {
  test("takes no new streams beyond 85 %, no new requests beyond 95 %, and all again below", () => {
    const { state, second, ask, askStream } = machine();
    const seen = [850, 851, 950, 951, 500].map((used) => {
      state.used = used;
      second(0);
      return [ask() !== undefined, askStream() !== undefined];
    });
    expect(seen).toEqual([
      [false, false],
      [false, true],
      [false, true],
      [true, true],
      [false, false],
    ]);
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

  test("503 or 529 with retry-after 1, before the key is looked at; reads, polls and health are let through", async () => {
    const { admission } = app.app.services;
    if (!admission) throw new Error("there is no admission");
    admission.limit = 0;
    const body = { model: "sluice/echo", messages: [{ role: "user", content: "Hi" }], max_tokens: 5 };
    const post = (path: string, key: string) => app.post(path, body, { headers: { authorization: `Bearer ${key}` } });
    for (const key of [app.key, "sk-wrong"]) {
      const chat = await post("/v1/chat/completions", key);
      const messages = await post("/v1/messages", key);
      expect([chat.status, messages.status]).toEqual([503, 529]);
      expect(chat.headers.get("retry-after")).toBe("1");
      expect(chat.headers.get("x-should-retry")).toBe("true");
      expect(await messages.json()).toMatchObject({ error: { type: "overloaded_error", code: "upstream_overloaded" } });
    }
    const headers = { authorization: `Bearer ${app.key}` };
    for (const path of ["/healthz", "/readyz", "/v1/models", "/v1/account", "/v1/usage", "/v1/images/generations"]) {
      expect([path, (await app.call(path, { headers })).status]).toEqual([path, 200]);
    }
    const figures = await (await app.call("/metrics")).text();
    expect(figures).toContain('sluice_shed_total{reason="load"} 4\n');
    admission.limit = Number.POSITIVE_INFINITY;
    expect((await post("/v1/chat/completions", app.key)).status).toBe(200);
    expect(app.rows()).toHaveLength(1);
  });
});
