import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { GatewayError } from "../../src/canon/errors.ts";
import { authenticate } from "../../src/http/caller/credentials.ts";

const KEY = `sk-sluice-${"A1b2".repeat(8)}0Zz9aB`;
const OTHER = `sk-sluice-${"C3d4".repeat(8)}0Zz9aB`;
const CALLER = { accountId: "acc_1", plan: "local", keyId: "key_1" };

function store() {
  const asked: string[] = [];
  return {
    asked,
    find(presented: string) {
      asked.push(presented);
      return presented === KEY ? CALLER : undefined;
    },
  };
}

const requestWith = (headers: [string, string][], url = "http://localhost/v1/messages") => {
  const list = new Headers();
  for (const [name, value] of headers) list.append(name, value);
  return new Request(url, { headers: list });
};

function refusal(headers: [string, string][], url?: string) {
  const keys = store();
  try {
    authenticate(requestWith(headers, url), keys);
  } catch (error) {
    if (error instanceof GatewayError) return { code: error.code, message: error.message, asked: keys.asked };
    throw error;
  }
  return undefined;
}

describe("authenticate", () => {
  const accepted: [string, [string, string][]][] = [
    ["Bearer", [["authorization", `Bearer ${KEY}`]]],
    ["bearer in lower case", [["authorization", `bearer ${KEY}`]]],
    ["BEARER and two spaces", [["authorization", `BEARER  ${KEY}`]]],
    ["Bearer and two spaces", [["authorization", `Bearer  ${KEY}`]]],
    ["x-api-key", [["x-api-key", KEY]]],
    [
      "both, equal",
      [
        ["authorization", `Bearer ${KEY}`],
        ["x-api-key", KEY],
      ],
    ],
    [
      "a good Bearer beside an empty x-api-key",
      [
        ["authorization", `Bearer ${KEY}`],
        ["x-api-key", ""],
      ],
    ],
    [
      "a good x-api-key beside an empty Bearer",
      [
        ["authorization", "Bearer "],
        ["x-api-key", KEY],
      ],
    ],
    [
      "a good x-api-key beside an empty Authorization",
      [
        ["authorization", ""],
        ["x-api-key", KEY],
      ],
    ],
  ];
  test.each(accepted)("accepts %s", (_name, headers) => {
    const keys = store();
    expect(authenticate(requestWith(headers), keys)).toBe(CALLER);
    expect(keys.asked).toEqual([KEY]);
  });

  const refused: [string, [string, string][], number][] = [
    ["nothing", [], 0],
    ["an unknown key", [["x-api-key", OTHER]], 1],
    [
      "two different keys",
      [
        ["authorization", `Bearer ${KEY}`],
        ["x-api-key", OTHER],
      ],
      0,
    ],
    [
      "a broken Authorization beside a good x-api-key",
      [
        ["authorization", `Basic ${KEY}`],
        ["x-api-key", KEY],
      ],
      0,
    ],
    [
      "two Authorization values",
      [
        ["authorization", `Bearer ${KEY}`],
        ["authorization", `Bearer ${KEY}`],
      ],
      0,
    ],
    [
      "two x-api-key values",
      [
        ["x-api-key", KEY],
        ["x-api-key", KEY],
      ],
      0,
    ],
    ["Bearer without a key", [["authorization", "Bearer"]], 0],
    ["the key without its scheme", [["authorization", KEY]], 0],
    ["Basic", [["authorization", "Basic dXNlcjpwYXNz"]], 0],
    ["words after the key", [["authorization", `Bearer ${KEY} x`]], 0],
    ["a tab for the space", [["authorization", `Bearer\t${KEY}`]], 0],
    ["a quoted key", [["authorization", `Bearer "${KEY}"`]], 0],
    ["SQL", [["x-api-key", "' OR 1=1 --"]], 0],
    ["a path", [["x-api-key", "../../etc/passwd"]], 0],
    ["a very long key", [["x-api-key", "a".repeat(10_000)]], 0],
    ["a key of odd bytes", [["x-api-key", "sk-sluice-\u00e9\u00e9\u00e9\u00e9"]], 0],
    ["an empty x-api-key", [["x-api-key", ""]], 0],
  ];
  test.each(refused)("refuses %s", (_name, headers, asked) => {
    const result = refusal(headers);
    expect(result?.code).toBe("invalid_api_key");
    expect(result?.asked).toHaveLength(asked);
    expect(result?.message).toContain("x-api-key");
    for (const [, value] of headers) if (value.length > 8) expect(result?.message).not.toContain(value.slice(-8));
  });

  test("says the same whatever was wrong with a key", () => {
    const sent = refused.filter(([, headers]) => headers.some(([, value]) => value !== "" && value !== "Bearer"));
    expect(sent.length).toBeGreaterThan(10);
    const texts = sent.map(([, headers]) => refusal(headers)?.message);
    expect(new Set(texts).size).toBe(1);
  });

  test("never reads the query string", () => {
    const result = refusal([], `http://localhost/v1/messages?key=${KEY}&api_key=${KEY}&x-api-key=${KEY}`);
    expect(result).toMatchObject({ code: "invalid_api_key", asked: [] });
  });

  test("only plain key characters reach the key store (random)", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60 }), fc.boolean(), (text, bearer) => {
        const value = text.replace(/[^\x20-\x7e\x80-\xff]/g, "");
        const result = refusal([bearer ? ["authorization", `Bearer ${value}`] : ["x-api-key", value]]);
        expect(result?.code).toBe("invalid_api_key");
        for (const asked of result?.asked ?? []) expect(asked).toMatch(/^[A-Za-z0-9_.-]{8,128}$/);
      }),
    );
  });
});
