import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { heldLibraries, linkedLibraries } from "../../.release/linked.ts";
import { folderOf, readLockedPackages } from "../../.release/lockfile.ts";
import { collectNotices, makeSbom } from "../../.release/release.ts";
import { packageUrl } from "../../.release/sbom.ts";
import manifest from "../../package.json";

const ROOT = join(import.meta.dir, "../..");
const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const ORIGIN = { root: ROOT, commit: COMMIT, madeAt: 1_790_000_000, modified: false };

type Component = {
  type: string;
  "bom-ref": string;
  group?: string;
  name: string;
  version: string;
  purl: string;
  hashes?: { alg: string; content: string }[];
  licenses?: object[];
};
type Bom = {
  bomFormat: string;
  specVersion: string;
  serialNumber: string;
  version: number;
  metadata: { timestamp: string; component: Component & { properties: object[] } };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
};

const bom = JSON.parse(makeSbom(ORIGIN)) as Bom;
const fullName = ({ group, name }: Component) => (group ? `${group}/${name}` : name);

describe("the bill of materials", () => {
  test("has every dependency at its pinned version, and what the executable brings along", () => {
    const versions = new Map(bom.components.map((component) => [fullName(component), component.version]));
    for (const [name, version] of Object.entries(manifest.dependencies))
      expect([name, versions.get(name)]).toEqual([name, version]);
    expect(versions.get("bun")).toBe(Bun.version);
    expect(versions.get("sqlite")).toMatch(/^3\.\d+\.\d+$/);
    // What they need in turn, and only that: nothing of the tests' and the tools' packages.
    expect(versions.has("memoirist")).toBe(true);
    for (const name of Object.keys(manifest.devDependencies)) expect([name, versions.has(name)]).toEqual([name, false]);
  });

  test("names each package in the ways that scanners look for", () => {
    const libraries = bom.components.filter((component) => component["bom-ref"].startsWith("npm:"));
    expect(libraries.length).toBeGreaterThanOrEqual(Object.keys(manifest.dependencies).length);
    const lock = readFileSync(join(ROOT, "bun.lock"), "utf8");
    for (const library of libraries) {
      const [hash] = library.hashes ?? [];
      expect(hash?.alg).toBe("SHA-512");
      expect(hash?.content).toMatch(/^[0-9a-f]{128}$/);
      expect(lock).toContain(Buffer.from(hash?.content ?? "", "hex").toString("base64"));
      expect(library.licenses?.length).toBe(1);
      // The name as it is installed.
      const installed = JSON.parse(
        readFileSync(join(ROOT, folderOf(library["bom-ref"].slice("npm:".length)), "package.json"), "utf8"),
      ) as { name: string; version: string };
      expect(installed).toMatchObject({ name: fullName(library), version: library.version });
    }
    expect(packageUrl({ name: "@elysiajs/swagger", version: "1.3.1" })).toBe("pkg:npm/%40elysiajs/swagger@1.3.1");
    expect(packageUrl({ name: "x", version: "1.0.0+a" })).toBe("pkg:npm/x@1.0.0%2Ba");
  });

  test("is one graph: every reference once, and everything reached from the program", () => {
    expect(bom).toMatchObject({ bomFormat: "CycloneDX", specVersion: "1.6", version: 1 });
    const refs = [bom.metadata.component["bom-ref"], ...bom.components.map((component) => component["bom-ref"])];
    expect(new Set(refs).size).toBe(refs.length);
    expect(bom.dependencies.map(({ ref }) => ref).sort()).toEqual([...refs].sort());
    const edges = new Map(bom.dependencies.map(({ ref, dependsOn }) => [ref, dependsOn]));
    const reached = new Set<string>();
    const visit = (ref: string) => {
      if (reached.has(ref)) return;
      reached.add(ref);
      for (const next of edges.get(ref) ?? [`nowhere: ${ref}`]) visit(next);
    };
    visit("sluice");
    expect([...reached].sort()).toEqual([...refs].sort());
  });

  test("is the same text for the same commit, and another for another", () => {
    expect(makeSbom(ORIGIN)).toBe(makeSbom(ORIGIN));
    const other = JSON.parse(makeSbom({ ...ORIGIN, commit: "f".repeat(40) })) as Bom;
    expect(bom.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(other.serialNumber).not.toBe(bom.serialNumber);
    expect(bom.metadata.timestamp).toBe(new Date(ORIGIN.madeAt * 1000).toISOString());
    expect(bom.metadata.component.properties).toEqual([{ name: "sluice:commit", value: COMMIT }]);
    expect(makeSbom(ORIGIN)).not.toContain(ROOT);
    const changed = JSON.parse(makeSbom({ ...ORIGIN, modified: true })) as Bom;
    expect(changed.metadata.component.properties).toContainEqual({ name: "sluice:modified", value: "true" });
  });
});

test("what Bun links is named with version and licence; a Bun that does not say is refused", () => {
  const runtime = bom.components.filter((component) => component["bom-ref"].startsWith("runtime:"));
  for (const name of ["bun", "sqlite", "webkit", "boringssl", "zstd"]) {
    const found = runtime.find((component) => component.name === name);
    expect(found?.version).toBe(name === "bun" ? Bun.version : String(process.versions[name]));
    expect(JSON.stringify(found)).toContain('"expression"');
  }
  expect(() => linkedLibraries({ ...process.versions, webkit: undefined })).toThrow("webkit");
});

test("what a package was built with is named, in the bill and in the notices; one that does not say is refused", () => {
  const held = bom.components.find(({ name }) => name === "pdfjs-dist");
  expect(held).toMatchObject({ licenses: [{ expression: "Apache-2.0" }] });
  const version = held?.version ?? "";
  const code = readFileSync(join(ROOT, "node_modules/unpdf/dist/pdfjs.mjs"), "utf8");
  expect(/^\d+\.\d+\.\d+$/.test(version) && code.includes(version)).toBe(true);
  expect(bom.dependencies.find(({ ref }) => ref === "npm:unpdf")?.dependsOn).toEqual(["held:pdfjs-dist"]);
  const notices = collectNotices(ROOT, readLockedPackages(readFileSync(join(ROOT, "bun.lock"), "utf8")));
  expect(notices).toContain(`It holds pdfjs-dist ${version}. Licence: Apache-2.0`);
  // What stands beside the file that it is about.
  const beside = readFileSync(join(ROOT, "node_modules/swagger-ui-dist/swagger-ui-bundle.js.LICENSE.txt"), "utf8");
  expect(notices.split(beside.trim()).length).toBe(2);
  expect(() => heldLibraries("/nowhere")).toThrow("unpdf does not say which pdfjs-dist it holds");
});

describe("the lockfile", () => {
  const packages = {
    a: ["a@1.0.0", "", { dependencies: { b: "^2.0.0", "@s/c": "1" } }, "sha512-YQ=="],
    "a/b": ["b@2.0.0", "", { dependencies: { "@s/c": "1" } }, "sha512-Yg=="],
    "a/b/@s/c": ["@s/c@1.5.0", "", {}, "sha512-Yw=="],
    "@s/c": ["@s/c@1.0.0", "", { peerDependencies: { d: "*", e: "*" }, optionalPeers: ["e"] }, "sha512-ZA=="],
    b: ["b@1.0.0", "", {}, "sha512-ZQ=="],
    d: ["d@1.0.0", "", { optionalDependencies: { "only-elsewhere": "1" } }, "sha512-Zg=="],
    e: ["e@1.0.0", "", {}, "sha512-Zw=="],
  };
  const text = JSON.stringify({ lockfileVersion: 2, workspaces: { "": { dependencies: { a: "1.0.0" } } }, packages });

  test("is resolved from the inside out, without optional peers and without what nobody needs", () => {
    const found = readLockedPackages(text.replace('"packages"', '\n// a comment\n"packages"').replace(/\}$/, ",}"));
    const rows = found.map(({ place, version, needs }) => [place, version, needs]);
    expect(rows).toEqual([
      ["@s/c", "1.0.0", ["d"]],
      ["a", "1.0.0", ["@s/c", "a/b"]],
      ["a/b", "2.0.0", ["a/b/@s/c"]],
      ["a/b/@s/c", "1.5.0", []],
      ["d", "1.0.0", []],
    ]);
    expect(folderOf("a/b/@s/c")).toBe("node_modules/a/node_modules/b/node_modules/@s/c");
  });

  test("of another version, or with a hole, is refused", () => {
    expect(() => readLockedPackages(text.replace('"lockfileVersion":2', '"lockfileVersion":3'))).toThrow("version 3");
    expect(() => readLockedPackages(text.replace('{"a":"1.0.0"}', '{"z":"1.0.0"}'))).toThrow("z");
  });
});

test("the licences of all packages are handed on, in their own words", () => {
  const packages = readLockedPackages(readFileSync(join(ROOT, "bun.lock"), "utf8"));
  const notices = collectNotices(ROOT, packages);
  for (const { name, version } of packages) expect(notices).toContain(`${name} ${version}\n\n`);
  const words = readFileSync(join(ROOT, "node_modules/elysia/LICENSE"), "utf8").trim();
  expect(notices).toContain(words);
  expect(notices).not.toContain("not stated");
  expect(notices).toStartWith(`Bun ${Bun.version}\n\n`);
  expect(notices).toContain(`\n  webkit ${process.versions["webkit"]}: LGPL-2.0-or-later AND BSD-2-Clause\n`);
  expect(notices).not.toContain(ROOT);
});
