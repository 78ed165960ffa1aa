import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ArchivedFile, writeTar } from "../../.release/archive.ts";
import { makeInstaller, writeRelease } from "../../.release/release.ts";
import manifest from "../../package.json";
import { makeFolder, removeFolder } from "../support/binary.ts";

const ROOT = join(import.meta.dir, "../..");
const MADE_AT = 1_790_000_000;

let folder: string;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => removeFolder(folder));

function run(...command: string[]): { code: number; output: string } {
  const result = Bun.spawnSync(command, { cwd: folder, stdout: "pipe", stderr: "pipe" });
  return { code: result.exitCode, output: result.stdout.toString() + result.stderr.toString() };
}

describe("an archive", () => {
  const files: ArchivedFile[] = [
    { name: "top/program", mode: 0o755, bytes: new Uint8Array(513).fill(7) },
    { name: "top/empty", mode: 0o644, bytes: new Uint8Array() },
    { name: "top/block", mode: 0o644, bytes: new Uint8Array(512).fill(9) },
    { name: "top/größe.txt", mode: 0o600, bytes: Buffer.from("text") },
  ];

  test("is unpacked by the system's tar, with modes and times", () => {
    writeFileSync(join(folder, "a.tar"), writeTar(files, MADE_AT));
    expect(run("tar", "-x", "-f", "a.tar")).toEqual({ code: 0, output: "" });
    expect(readdirSync(join(folder, "top")).length).toBe(files.length);
    for (const { name, mode, bytes } of files.slice(0, 3)) {
      const path = join(folder, name);
      expect([name, new Uint8Array(readFileSync(path))]).toEqual([name, new Uint8Array(bytes)]);
      expect([name, statSync(path).mode & 0o700]).toEqual([name, mode & 0o700]);
      expect(statSync(path).mtimeMs).toBe(MADE_AT * 1000);
    }
  });

  test("is the same bytes each time, and holds nobody's name", () => {
    const one = writeTar(files, MADE_AT);
    expect(one.equals(writeTar(files, MADE_AT))).toBe(true);
    expect(one.length % 512).toBe(0);
    expect(one.equals(writeTar(files, MADE_AT + 1))).toBe(false);
    // Owner and group, by number and by name.
    expect(one.subarray(108, 124).toString()).toBe("0000000\x000000000\0");
    expect(one.subarray(265, 329).every((byte) => byte === 0)).toBe(true);
  });

  test("refuses a name that would be cut", () => {
    expect(() => writeTar([{ name: "x".repeat(101), mode: 0o644, bytes: new Uint8Array() }], 0)).toThrow("too long");
    expect(() => writeTar([{ name: "x".repeat(100), mode: 0o644, bytes: new Uint8Array() }], 0)).not.toThrow();
  });
});

/** Releases two targets whose executables are a few bytes. */
function release(into: string): string[] {
  mkdirSync(into);
  const executables = new Map([
    ["linux-x64", "sluice-linux-x64"],
    ["darwin-arm64", "sluice-darwin-arm64"],
    ["windows-x64", "sluice-windows-x64.exe"],
  ]);
  for (const name of executables.values()) writeFileSync(join(into, name), `executable of ${name}`);
  const origin = { commit: "a".repeat(40), madeAt: MADE_AT, modified: false };
  return writeRelease({ root: ROOT, folder: into, ...origin }, executables, () => {});
}

describe("a release", () => {
  test("has for each target two archives with what belongs to it, and sums that hold for every file", () => {
    const into = join(folder, "dist");
    const names = release(into);
    expect(readdirSync(into).sort()).toEqual([...names].sort());
    const inside = (target: string, form: string) => {
      const name = `sluice-${manifest.version}-${target}.tar.${form}`;
      expect(names).toContain(name);
      const bytes = readFileSync(join(into, name));
      writeFileSync(join(folder, "a.tar"), form === "gz" ? Bun.gunzipSync(bytes) : Bun.zstdDecompressSync(bytes));
      const { code, output } = run("tar", "-t", "-f", "a.tar");
      expect(code).toBe(0);
      return output
        .trim()
        .split("\n")
        .map((path) => path.replace(`sluice-${manifest.version}-${target}/`, ""));
    };
    const always = ["LICENSE", "README.md"];
    for (const form of ["gz", "zst"]) {
      expect(inside("linux-x64", form)).toEqual(["sluice", ...always, "sluice.service", "THIRD-PARTY-NOTICES.txt"]);
      expect(inside("darwin-arm64", form)).toEqual(["sluice", ...always, "sluice.plist", "THIRD-PARTY-NOTICES.txt"]);
      expect(inside("windows-x64", form)).toEqual(["sluice.exe", ...always, "THIRD-PARTY-NOTICES.txt"]);
    }
    for (const name of ["sluice.service", "sluice.plist", "Dockerfile"]) {
      expect(readFileSync(join(into, name), "utf8")).toBe(readFileSync(join(ROOT, ".release", name), "utf8"));
    }
    const sums = readFileSync(join(into, "SHA256SUMS"), "utf8").trimEnd().split("\n");
    const summed = sums.map((line) => {
      const [, hash, name] = /^([0-9a-f]{64}) {2}(\S+)$/.exec(line) ?? [];
      const real = new Bun.CryptoHasher("sha256").update(readFileSync(join(into, name ?? "")));
      expect(hash).toBe(real.digest("hex"));
      return name;
    });
    expect(summed).toEqual(names.filter((name) => name !== "SHA256SUMS").sort());
  });

  test("is the same bytes twice", () => {
    const [one, other] = [join(folder, "one"), join(folder, "other")];
    expect(release(one)).toEqual(release(other));
    // It has the sums of all the rest.
    expect(readFileSync(join(one, "SHA256SUMS"), "utf8")).toBe(readFileSync(join(other, "SHA256SUMS"), "utf8"));
  });
});

describe("the address in the install script", () => {
  const script = readFileSync(join(ROOT, ".release/install.sh"), "utf8");
  const read = (text: string) => /^RELEASE_URL="(.*)"$/m.exec(text)?.[1];

  test("is none unless one is given, and then that one", () => {
    expect(read(makeInstaller(script))).toBe("");
    const address = "https://example.com/sluice/releases/download/v1.0.0";
    expect(read(makeInstaller(script, address))).toBe(address);
  });

  test.each(["http://example.com/", "https://example.com/$(id)", 'https://example.com/"; id', "https://a b", "$&"])(
    "is refused when a shell could take it for more than an address: %s",
    (address) => {
      expect(() => makeInstaller(script, address)).toThrow("not a plain https address");
    },
  );
});

describe("the build refuses before it makes anything", () => {
  const cases: [args: string[], code: number, words: string][] = [
    [["--target", "linux-x86"], 2, "unknown target linux-x86; there are: linux-x64, "],
    [["--release"], 2, "--release needs a --target"],
    [["--all", "--outfile", "sluice"], 2, "--outfile names one file"],
    [["--target", "linux-x64", "--target", "linux-arm64", "--outfile", "sluice"], 2, "--outfile names one file"],
    [["--commit", "HEAD; id"], 1, "not a commit"],
    [["--al"], 2, "Unknown option '--al'"],
  ];
  test.each(cases)("%j", (args, code, words) => {
    const result = run(process.execPath, join(ROOT, "build.ts"), ...args);
    expect(result.output).toContain(words);
    expect(result.code).toBe(code);
    expect(readdirSync(folder)).toEqual([]);
  });
});

test.each(["build.ts", "test/prove/main.ts", "test/bench/main.ts", "test/prove/black-box.ts"])(
  "%s says what it takes when asked, and when it is not understood, and does nothing",
  (program) => {
    const help = run(process.execPath, join(ROOT, program), "--help");
    expect(help).toEqual({ code: 0, output: expect.stringMatching(/^[\w:]+: \[--/) });
    const { code, output } = run(process.execPath, join(ROOT, program), "--no-such-flag");
    expect([code, output]).toEqual([2, expect.stringContaining(help.output.trim())]);
    expect(output).not.toContain("    at ");
  },
);
