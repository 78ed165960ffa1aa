import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createLog, errorFields, type Fields, type LogLevel, silentLog } from "../../src/observe/log.ts";

function capture(level: LogLevel = "info") {
  const lines: string[] = [];
  const log = createLog({
    level,
    write: (line) => lines.push(line),
    now: () => Date.UTC(2026, 0, 2, 3, 4, 5),
  });
  const line = (fields: Fields) => {
    log.info("thing-happened", fields);
    return lines.at(-1) ?? "";
  };
  return { lines, log, line };
}

const goQuoted = (secret: string) =>
  JSON.stringify(secret).replaceAll("&", "\\u0026").replaceAll("<", "\\u003c").replaceAll(">", "\\u003e");

const netQuoted = (secret: string) =>
  secret
    .replaceAll("\\", "\\\\")
    .replaceAll('"', "\\u0022")
    .replaceAll("+", "\\u002B")
    .replaceAll("&", "\\u0026")
    .replaceAll("<", "\\u003C");

describe("log", () => {
  test("one JSON line an event: level, time, event, fields", () => {
    const { line } = capture();
    expect(line({ status: 200, model: "a/b", cached: true, left: undefined, none: null })).toBe(
      '{"level":"info","time":"2026-01-02T03:04:05.000Z","event":"thing-happened","status":200,"model":"a/b","cached":true,"none":null}\n',
    );
  });

  test("levels below the set one are silent", () => {
    const { lines, log } = capture("warn");
    log.info("a-b");
    log.warn("c-d");
    log.error("e-f");
    expect(lines.map((line) => (JSON.parse(line) as { level: string }).level)).toEqual(["warn", "error"]);
    const silent = capture("silent");
    silent.log.error("a-b");
    silentLog.error("a-b");
    expect(silent.lines).toEqual([]);
  });

  test("line ends, escapes and terminal codes stay inside the line", () => {
    const { line } = capture();
    const text = line({ value: "a\r\nb\u001b[31mc\u009b31md\u2028e\u2029f\u007fg\u0000h\u202ei\u2066j\u200bk\ufeffl" });
    expect(text.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
    expect((JSON.parse(text) as { value: string }).value).toBe(
      "a\r\nb\u001b[31mc\u009b31md\u2028e\u2029f\u007fg\u0000h\u202ei\u2066j\u200bk\ufeffl",
    );
  });

  test.each([
    "sk-sluice-0123456789abcdef",
    "sk-ant-api03-abc_def-123456",
    "slt-0123456789abcdef",
    "AIzaSyA0123456789abcdef",
    "Bearer abcdef.ghijkl",
    "bearer   abcdef",
    "Bearer Bearer abcdef.ghijkl",
    "Basic dXNlcjpwYXNz",
    "gsk_0123456789abcdef",
    "xai-0123456789abcdef",
  ])("removes %s though nobody registered it", (secret) => {
    const { line } = capture();
    const text = line({ value: `before ${secret} after`, path: `/mcp/web/t/${secret}` });
    expect(text).toContain("before [removed] after");
    expect(text).not.toContain(secret);
  });

  test.each(["task-list", "ask-somebody-nicely", "risk", "disk-usage-report"])("keeps the word %s", (word) => {
    expect(capture().line({ value: word })).toContain(word);
  });

  test("a registered secret never shows, plain, base64 or URL-encoded, at any place", () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 8, maxLength: 40, unit: "grapheme-ascii" }),
        fc.string({ maxLength: 3000 }),
        (secret, around) => {
          fc.pre(secret.trim() === secret && !"[removed]".includes(secret));
          const { log, line } = capture();
          log.addSecret(secret);
          const base64 = Buffer.from(secret).toString("base64");
          const url = encodeURIComponent(secret);
          const record = JSON.parse(line({ plain: around + secret + around, base64, url })) as Record<string, string>;
          expect(record["plain"] ?? "").not.toContain(secret);
          expect(record["base64"] ?? "").not.toContain(base64.replace(/=+$/, ""));
          expect(record["url"] ?? "").not.toContain(url);
        },
      ),
    );
  });

  test("a registered secret does not show where an upstream's words are quoted in JSON", () => {
    const { log, line } = capture();
    const secret = 'user:pass"word\\1';
    log.addSecret(secret);
    expect(line({ cause: JSON.stringify({ type: secret }) })).toContain('"cause":"{\\"type\\":\\"[removed]\\"}"');
  });

  test.each([
    ["quoted twice", (secret: string) => JSON.stringify({ type: JSON.stringify({ key: secret }) })],
    ["with its slashes escaped, as PHP writes it", (secret: string) => JSON.stringify(secret).replaceAll("/", "\\/")],
    ["with & and < escaped, as Go writes it", goQuoted],
    ["with + and quotes escaped, as .NET writes it", (secret: string) => `{"key":"${netQuoted(secret)}"}`],
    ["in either way, and quoted again", (secret: string) => JSON.stringify([goQuoted(secret)])],
    ["in a Basic header that PHP quotes", (secret: string) => `{"h":"${btoa(secret).replaceAll("/", "\\/")}"}`],
  ])("a registered secret does not show %s", (_way, write) => {
    const { log, line } = capture();
    const secret = 'us??er:pa~~ss/w"o\\rd+&1<2';
    expect(btoa(secret)).toContain("/");
    log.addSecret(secret);
    const { cause = "" } = JSON.parse(line({ cause: write(secret) })) as { cause?: string };
    expect(cause).toContain("[removed]");
    expect(cause.replace("[removed]", "")).toMatch(/^[^a-z]*(?:type|key|h)?[^a-z]*(?:key)?[^a-z]*$/);
  });

  test("of a secret that begins as another does nothing is left", () => {
    const secrets = ["kQ7w9Zt4", "kQ7w9Zt4-north-Lm4x", "kQ7w9Zt4-north"];
    for (const order of [secrets, secrets.toReversed()]) {
      const { log, line } = capture();
      for (const secret of order) log.addSecret(secret);
      expect(line({ value: `a ${secrets.join(" b ")} c` })).toContain("a [removed] b [removed] b [removed] c");
    }
  });

  test.each([
    ["a URL, its escapes in small letters", "kQ7%2fw9%2bZt%3d%3dLm~4x"],
    ["a form", "kQ7%2Fw9%2BZt%3D%3DLm%7E4x"],
    ["a form, its escapes in small letters", "kQ7%2fw9%2bZt%3d%3dLm%7e4x"],
  ])("a registered secret does not show as it stands in %s", (_what, shown) => {
    const { log, line } = capture();
    log.addSecret("kQ7/w9+Zt==Lm~4x");
    expect(line({ value: `before ${shown} after` })).toContain("before [removed] after");
  });

  test("a secret is not cut in half by the length bound", () => {
    const secret = "Zq7Zq7Zq7Zq7Zq7Zq7";
    for (let before = 2020; before < 2060; before++) {
      const { log, line } = capture();
      log.addSecret(secret);
      expect(line({ value: "x".repeat(before) + secret })).not.toContain("Zq7");
    }
  });

  test("nor is a character, at half of which strict readers of JSON stop", () => {
    const { line } = capture();
    for (let before = 2040; before < 2050; before++) {
      const read = JSON.parse(line({ value: `${"x".repeat(before)}🚀 and on` })) as { value: string };
      expect(read.value.isWellFormed()).toBe(true);
    }
  });

  test("short values are no secrets", () => {
    const { log, line } = capture();
    log.addSecret("");
    log.addSecret("a");
    expect(line({ value: "banana" })).toContain("banana");
  });

  test("no line is longer than 8 KiB, and what is left out is said", () => {
    const { line } = capture();
    const fields = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`field${index}`, "é".repeat(1500)]));
    const text = line(fields);
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(8 * 1024 + 1);
    expect(JSON.parse(text)).toMatchObject({ event: "thing-happened", truncated: true });
    expect(line({ value: "x".repeat(100_000) }).length).toBeLessThan(3000);
    expect(line({ value: "x" })).not.toContain("truncated");
  });

  test("an error as fields: what, where and why", () => {
    const fields = errorFields(new TypeError("outer", { cause: new Error("inner") }));
    expect(fields).toMatchObject({ error: "TypeError: outer", cause: "Error: inner" });
    expect(String(fields["stack"])).toContain("log.test.ts");
    expect(errorFields("words")).toEqual({ error: "words" });
    expect(errorFields({ a: 1 })["error"]).toContain("a: 1");
  });
});
