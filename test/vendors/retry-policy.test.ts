import { describe, expect, test } from "bun:test";
import { ERRORS, type ErrorCode, GatewayError } from "../../src/canon/errors.ts";
import { upstreamError } from "../../src/dialects/upstream-error.ts";
import { ConnectionLost } from "../../src/vendors/http/faults.ts";
import { DOUBTFUL_WITHIN_MS, decideRetry, type Ran, ranOf } from "../../src/vendors/retry-policy.ts";

const fresh = { elapsedMs: 100, routesLeft: 1 };
const answer = (status: number, message = "no") => upstreamError(status, { message, type: "", code: "" });
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
  ["400", answer(400), "no", "stop"],
  ["413", answer(413), "no", "stop"],
  ["422", answer(422), "no", "stop"],
  ["context overflow", answer(400, "prompt is too long: 9000 tokens > 8000 maximum"), "no", "stop"],
  ["429", answer(429), "no", "next-route"],
  ["408", answer(408), "maybe", "next-route"],
  ["500", answer(500), "maybe", "next-route"],
  ["502", answer(502), "no", "next-route"],
  ["503", answer(503), "no", "next-route"],
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
      expect([name, decideRetry(error, { ...fresh, elapsedMs: DOUBTFUL_WITHIN_MS })]).toEqual([name, expected]);
      expect([name, decideRetry(error, { ...fresh, doubtfulBefore: 1 })]).toEqual([name, expected]);
      expect([name, decideRetry(error, { ...fresh, elapsedMs: DOUBTFUL_WITHIN_MS - 1 })]).toEqual([name, decision]);
    }
  });

  test("the caller's own knowledge of what ran wins", () => {
    expect(decideRetry(answer(500), { ...fresh, ran: "no", doubtfulBefore: 1 })).toBe("next-route");
    expect(decideRetry(answer(404), { ...fresh, ran: "unknown", doubtfulBefore: 1 })).toBe("stop");
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
