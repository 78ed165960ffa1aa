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

test.each([
  "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
  "AKIAIOSFODNN7EXAMPLE",
  "ya29.a0AfH6SMBx-abc_def",
  "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
  "github_pat_11ABCDEFG0abcdefghij",
  "xoxb-123456789012-abcdef",
  "ops@corp.example",
  "[::1]:8000",
  "fe80::1ff:fe23:4567:890a",
  "file:///home/bob/models/x.gguf",
  "ws://lab.internal:9000/x",
  "/home/bob/models/x.gguf",
  "~/models/x.gguf",
  String.raw`\\nas\models\x.gguf`,
])("a vendor's words are shown without %s", (secret) => {
  for (const [before, after] of [
    ["", ""],
    ["`", "`"],
    ["error:", ", sorry"],
    ["(", ")"],
    ["<", ">"],
  ]) {
    const told = shown(`It failed ${before}${secret}${after} here.`);
    expect(told).toStartWith("The vendor refused the request. It says: It failed ");
    expect(told).toEndWith(" here.");
    for (const word of ["bob", "corp", "lab.", "890a", "::1", "models", "abc", "EXAMPLE", "eyJ"]) {
      expect(told).not.toContain(word);
    }
  }
});

test.each([
  "#/messages/0: extraneous key [x] is not permitted",
  "Use and/or/not in std::string at 12:30:45, 1.5/2.5/3, or lab/model/x.",
  "tools[0].function.parameters: object schema missing properties",
])("what points into the request stays: %s", (words) => {
  expect(shown(words)).toBe(`The vendor refused the request. It says: ${words}`);
});

test("a vendor's words are one line of whole characters, wherever they are cut", () => {
  expect(shown("a\u0000b\u202ec\u2028d\ud800e")).toEndWith("It says: a b c d\ufffde");
  for (const before of [297, 298, 299]) expect(shown("x".repeat(before) + "😀".repeat(9)).isWellFormed()).toBe(true);
});
