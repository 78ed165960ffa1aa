import { expect, test } from "bun:test";
import { readInstant } from "../../src/lib/instant.ts";

test.each([
  ["2026-01-31", Date.UTC(2026, 0, 31)],
  ["2024-02-29", Date.UTC(2024, 1, 29)],
  ["2026-01-31T10:00Z", Date.UTC(2026, 0, 31, 10)],
  ["2026-01-31T10:00:00.5Z", Date.UTC(2026, 0, 31, 10, 0, 0, 500)],
  ["2026-01-31T10:00:00.123456789Z", Date.UTC(2026, 0, 31, 10, 0, 0, 123)],
  ["2026-01-31T10:00:00+02:00", Date.UTC(2026, 0, 31, 8)],
  ["2026-01-31T10:00:00-0130", Date.UTC(2026, 0, 31, 11, 30)],
])("%s", (text, at) => {
  expect(readInstant(text)).toBe(at);
});

test.each([
  ...[
    "",
    "2026",
    "2026-01",
    "2026-1-31",
    "2026-02-29",
    "2026-02-30T00:00:00Z",
    "2026-13-01",
    "2026-00-10",
    "2026-01-00",
  ],
  ...[
    "2026-01-31T",
    "2026-01-31T10",
    "2026-01-31T25:00Z",
    "2026-01-31T10:61Z",
    "9999-12-31T23:30-01:00",
    "0000-01-01T00:30+01:00",
    "2026-01-31 10:00Z",
    "2026-01-31Z",
  ],
])("not %j", (text) => {
  expect(readInstant(text)).toBeUndefined();
});

test("a time without a zone is UTC wherever this runs", () => {
  const file = Bun.fileURLToPath(new URL("../../src/lib/instant.ts", import.meta.url));
  const script = `console.log((await import(${JSON.stringify(file)})).readInstant("2026-06-30T10:00:00"))`;
  const { stdout } = Bun.spawnSync([process.execPath, "-e", script], {
    env: { ...process.env, TZ: "America/New_York" },
  });
  expect(Number(stdout.toString())).toBe(Date.UTC(2026, 5, 30, 10));
});
