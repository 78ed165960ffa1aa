import { expect, test } from "bun:test";
import { secretsOf } from "../../src/cli/secrets.ts";
import type { Config } from "../../src/config/load.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
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

test("each of a vendor's keys is one, a password by itself and as it is sent, what it signs with, and its proxy's password", () => {
  const { apiKey: _key, ...keyless } = vendor;
  const rows = [
    { ...keyless, apiKeys: ["first-key", "second-key"] },
    { ...keyless, auth: "basic", apiKey: "user:pass:word" },
    { ...keyless, credentials: { secretAccessKey: "signing-key" } },
    { ...keyless, proxy: "http://me:p%40ss@127.0.0.1:1" },
    { ...keyless, proxy: "http://127.0.0.1:1" },
  ] as Vendor[];
  expect(rows.map((row) => secretsOf(PLAIN_CONFIG, [row]))).toEqual([
    ["first-key", "second-key"],
    ["user:pass:word", "pass:word", btoa("user:pass:word").replace(/=+$/, "")],
    ["signing-key"],
    ["p%40ss", "p@ss", btoa("me:p@ss").replace(/=+$/, "")],
    [],
  ]);
});

test("so are the keys of search engines, of the collector of traces and of the images' bucket", () => {
  const config = {
    ...PLAIN_CONFIG,
    search: [{ engine: "brave", apiKey: "search-key" }, { engine: "tavily" }],
    traces: { headers: { "x-token": "trace-token" }, tls: { key: "tls-key" } },
    images: { ...PLAIN_CONFIG.images, bucket: { secretAccessKey: "bucket-key" } },
  } as unknown as Config;
  expect(secretsOf(config, [])).toEqual(["search-key", "trace-token", "tls-key", "bucket-key"]);
});
