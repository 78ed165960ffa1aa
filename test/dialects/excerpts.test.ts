import { expect, test } from "bun:test";
import { hideFromExcerpts, readUpstreamError } from "../../src/dialects/upstream-error.ts";

const shown = (message: string) => readUpstreamError(400, JSON.stringify({ error: { message } })).message;

test("a vendor that repeats its key shows it to nobody, whatever it looks like and wherever it stands", () => {
  const key = "lab.4711:PLAIN/key";
  expect(shown(`You sent ${key}.`)).toContain(key);
  hideFromExcerpts(key);
  expect(shown(`You sent ${key}, and again ${key}.`)).toBe(
    "The vendor refused the request. It says: You sent [removed], and again [removed].",
  );
  // As it was encoded on its way.
  const encoded = [encodeURIComponent(key), Buffer.from(key).toString("base64").replace(/=+$/, "")];
  for (const form of encoded) expect(shown(`You sent ${form}.`)).toEndWith("It says: You sent [removed].");
  // Across the place where long texts are cut.
  for (let before = 1_180; before < 1_210; before++) {
    expect(shown("x".repeat(before) + key)).not.toContain("lab.");
  }
  // What is too short to be a key stays.
  hideFromExcerpts("the");
  expect(shown("What the vendor says.")).toContain("What the vendor says.");
});
