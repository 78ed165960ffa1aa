import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { hashKey, makeKey, parseKey, shownParts } from "../../src/accounts/key-form.ts";

const kinds = fc.constantFrom("api" as const, "admin" as const);

describe("the form of keys (contract 4)", () => {
  test("every key made is read as what it is", () => {
    fc.assert(
      fc.property(kinds, (kind) => {
        const key = makeKey(kind);
        expect(key).toMatch(kind === "api" ? /^sk-sluice-[0-9A-Za-z]{38}$/ : /^sk-sluice-admin-[0-9A-Za-z]{38}$/);
        expect(parseKey(key)).toBe(kind);
      }),
      { numRuns: 1_000 },
    );
  });

  test("any change of one character is refused: replaced, removed, added, or two neighbours swapped", () => {
    const change = fc.record({
      at: fc.nat(60),
      by: fc.oneof(
        fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
        fc.string({ minLength: 1, maxLength: 1 }),
      ),
    });
    fc.assert(
      fc.property(kinds, change, (kind, { at, by }) => {
        const key = makeKey(kind);
        const place = at % key.length;
        const swapped = key.slice(0, place) + (key[place + 1] ?? "") + key[place] + key.slice(place + 2);
        const changed = [
          key.slice(0, place) + by + key.slice(place + 1),
          key.slice(0, place) + key.slice(place + 1),
          key.slice(0, place) + by + key.slice(place),
          key + by,
          swapped,
        ];
        for (const text of changed) if (text !== key) expect(parseKey(text)).toBeUndefined();
      }),
      { numRuns: 2_000 },
    );
  });

  test("every place and every base62 character: no replacement passes", () => {
    const key = makeKey("api");
    let refused = 0;
    for (let at = 0; at < key.length; at++) {
      for (const by of "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
        if (by !== key[at] && parseKey(key.slice(0, at) + by + key.slice(at + 1)) === undefined) refused++;
      }
    }
    const own = [...key].filter((character) => /[0-9A-Za-z]/.test(character)).length;
    expect(refused).toBe(key.length * 62 - own);
  });

  test("one kind's key never passes as the other's, and junk of any size is nothing", () => {
    const admin = makeKey("admin");
    expect(parseKey(admin.replace("admin-", ""))).toBeUndefined();
    expect(parseKey(makeKey("api").replace("sk-sluice-", "sk-sluice-admin-"))).toBeUndefined();
    const key = makeKey("api");
    for (const junk of [
      "",
      "sk-sluice-",
      ` ${key}`,
      `${key}\n`,
      `${key} `,
      key.toUpperCase(),
      "x".repeat(1_000_000),
      `${key}${key}`,
    ])
      expect(parseKey(junk)).toBeUndefined();
  });

  test("only a hash is kept and a few characters shown", () => {
    const key = makeKey("api");
    const { prefix, last4 } = shownParts(key);
    expect(prefix).toBe(key.slice(0, 14));
    expect(last4).toBe(key.slice(-4));
    expect(hashKey(key)).toBe(new Bun.CryptoHasher("sha256").update(key).digest("hex"));
    expect(parseKey(hashKey(key))).toBeUndefined();
  });
});
