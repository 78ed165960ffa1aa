import { expect, test } from "bun:test";
import { secretsOf } from "../../src/cli/secrets.ts";
import { PLAIN_CONFIG, vendorAt } from "../support/app.ts";

const vendor = vendorAt({ url: "http://127.0.0.1:1" }, "chat", "lab");
const secretsWith = (query: string) => secretsOf(PLAIN_CONFIG, [{ ...vendor, query }]);

test("a key in a vendor's query is a secret, as it stands there and as it reads", () => {
  const query = "api-version=2026-01-01-preview&key=key-of-the-query%2F1&tier=fast";
  expect(secretsWith(query)).toEqual(["vendor-key-of-lab", "key-of-the-query%2F1", "key-of-the-query/1"]);
});

test("a query without any adds none", () => {
  expect(secretsWith("alt=sse&api-version=2026-01-01-preview&a-word-without-a-value")).toEqual(["vendor-key-of-lab"]);
});

test("a header's value is a secret, and by itself the key that stands behind a word in it; short ones are versions and names", () => {
  const headers = {
    authorization: "Key id:of-the-header",
    "x-plain": "plain-secret-1",
    "x-team": "blue",
    "x-version": "v 2026-01-01",
    "x-words": "what it is called",
  };
  expect(secretsOf(PLAIN_CONFIG, [{ ...vendor, headers }])).toEqual([
    "vendor-key-of-lab",
    "Key id:of-the-header",
    "id:of-the-header",
    "plain-secret-1",
    "v 2026-01-01",
    "what it is called",
  ]);
});
