import { describe, expect, test } from "bun:test";
import { ERRORS, type ErrorCode, GatewayError } from "../../src/canon/errors.ts";
import { upstreamError } from "../../src/dialects/refusals/upstream-error.ts";
import { ConnectionLost } from "../../src/vendors/http/faults.ts";
import { decideRetry, isUntold, pauseBeforeRepeat, type Ran, ranOf } from "../../src/vendors/retry-policy.ts";

const fresh = { elapsedMs: 100, routesLeft: 1 };
const answer = (status: number, message = "no") => upstreamError(status, { message, type: "", code: "" });
/** As a vendor may name a fault of its own filter. */
const moderation = { message: "no", type: "", code: "content_filter_unavailable" };
const lost = () => new GatewayError("upstream_error", "lost", { retry: false, cause: new ConnectionLost("reset") });

/** Reliability 6.2, row by row: what happened, whether it ran, what a fresh attempt with one route left does. */
const TABLE: [string, GatewayError, Ran, "next-route" | "stop"][] = [
  ["no connection", new GatewayError("upstream_unreachable", "x"), "no", "next-route"],
  ["401", answer(401), "no", "next-route"],
  ["403", answer(403), "no", "next-route"],
  ["403 of a key", answer(403, "This key may not use this model; your account was flagged."), "no", "next-route"],
  ["403 of what was said", answer(403, "The prompt violates our content policy."), "no", "stop"],
  ["402", answer(402), "no", "next-route"],
  ["404", answer(404), "no", "next-route"],
  ["400 of a model that is gone", answer(400, "Model Not Exist"), "no", "next-route"],
  ["400 of a wrong key", answer(400, "Incorrect API key provided: xa***Yz."), "no", "next-route"],
  ["400 of an empty account", answer(400, "Your credit balance is too low to access the API."), "no", "next-route"],
  ["302", new GatewayError("upstream_error", "x", { cause: { status: 302 } }), "no", "next-route"],
  ["300", new GatewayError("upstream_error", "x", { cause: { status: 300 } }), "no", "next-route"],
  ["200 that is an error", new GatewayError("upstream_error", "x", { cause: { status: 200 } }), "maybe", "next-route"],
  ["400", answer(400), "no", "stop"],
  ["413", answer(413), "no", "stop"],
  ["422", answer(422), "no", "stop"],
  ["context overflow", answer(400, "prompt is too long: 9000 tokens > 8000 maximum"), "no", "stop"],
  ["429", answer(429), "no", "next-route"],
  ["429 of its moderation", answer(429, "Too many moderation requests."), "no", "next-route"],
  ["408", answer(408), "maybe", "next-route"],
  ["500", answer(500), "maybe", "next-route"],
  ["500 of its content filter", answer(500, "The content filter could not be asked."), "maybe", "next-route"],
  ["502", answer(502), "no", "next-route"],
  ["503", answer(503), "no", "next-route"],
  ["503 of its moderation", answer(503, "Moderation is overloaded."), "no", "next-route"],
  ["429 under its filter's name", upstreamError(429, moderation), "no", "next-route"],
  ["503 under its filter's name", upstreamError(503, moderation), "no", "next-route"],
  ["529", answer(529), "no", "next-route"],
  ["HTML or half a body", new GatewayError("upstream_error", "x"), "maybe", "next-route"],
  ["a stream without an end", new GatewayError("stream_truncated", "x"), "maybe", "next-route"],
  ["a reset", lost(), "unknown", "next-route"],
];

describe("decideRetry", () => {
  test.each(TABLE)("%s", (_name, error, ran, decision) => {
    expect(ranOf(error)).toBe(ran);
    expect(decideRetry(error, fresh)).toBe(decision);
    expect(decideRetry(error, { ...fresh, routesLeft: 0 })).toBe("stop");
  });

  test("what may have run is repeated only early, and only once", () => {
    for (const [name, error, ran, decision] of TABLE) {
      const doubtful = ran !== "no" && decision === "next-route";
      const expected = doubtful ? "stop" : decision;
      expect([name, decideRetry(error, { ...fresh, elapsedMs: 15_000 })]).toEqual([name, expected]);
      expect([name, decideRetry(error, { ...fresh, doubtfulBefore: 1 })]).toEqual([name, expected]);
      expect([name, decideRetry(error, { ...fresh, elapsedMs: 14_999 })]).toEqual([name, decision]);
    }
  });

  test("every code that is not an upstream's fault stops", () => {
    const goesOn = (Object.keys(ERRORS) as ErrorCode[]).filter(
      (code) => decideRetry(new GatewayError(code, "x"), fresh) === "next-route",
    );
    expect(goesOn.toSorted()).toEqual([
      "rate_limit_exceeded",
      "stream_truncated",
      "upstream_auth",
      "upstream_error",
      "upstream_overloaded",
      "upstream_unreachable",
      "vendor_not_configured",
    ]);
  });
});

describe("what could not be told to a vendor", () => {
  test.each([
    ["refused before anybody was asked", new GatewayError("invalid_request", "x"), true],
    [
      "with a cause of the gateway's own",
      new GatewayError("invalid_request", "x", { cause: { field: "top_k" } }),
      true,
    ],
    ["refused by the vendor", answer(400), false],
    ["another fault before anybody was asked", new GatewayError("upstream_unreachable", "x"), false],
  ])("%s", (_what, error, untold) => {
    expect(isUntold(error)).toBe(untold);
  });
});

/** Reliability 6.2, column three: what happened, the wait that the vendor named (s), what of the jitter is drawn, and the pause (ms). */
const PAUSES: [string, ErrorCode, number | undefined, number, number | undefined][] = [
  ["no connection", "upstream_unreachable", undefined, 0, 50],
  ["no connection, at the most", "upstream_unreachable", undefined, 1, 250],
  ["no connection, whatever wait was named", "upstream_unreachable", 3, 0, 50],
  ["busy", "upstream_overloaded", undefined, 0, 250],
  ["busy, in the middle", "upstream_overloaded", undefined, 0.5, 1_125],
  ["busy, at the most", "upstream_overloaded", undefined, 1, 2_000],
  ["busy for a while that is named", "upstream_overloaded", 5, 1, 5_000],
  ["busy for less than the jitter", "upstream_overloaded", 1, 1, 2_000],
  ["busy for long", "upstream_overloaded", 5.001, 0, 250],
  ["limited", "rate_limit_exceeded", 5, 0, 5_000],
  ["limited for long", "rate_limit_exceeded", 5.001, 0, undefined],
  ["limited for no time at all", "rate_limit_exceeded", 0, 0, undefined],
  ["limited for nobody knows how long", "rate_limit_exceeded", undefined, 0, undefined],
  ["anything else", "upstream_error", 1, 0, undefined],
];

describe("the pause before the only way is asked once more", () => {
  test.each(PAUSES)("%s", (_what, code, retryAfterSeconds, drawn, pause) => {
    const error = new GatewayError(code, "x", { ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) });
    expect(pauseBeforeRepeat(error, Number.POSITIVE_INFINITY, () => drawn)).toBe(pause as number);
    if (pause === undefined) return;
    expect(pauseBeforeRepeat(error, pause + 1, () => drawn)).toBe(pause);
    expect(pauseBeforeRepeat(error, pause, () => drawn)).toBeUndefined();
  });
});
