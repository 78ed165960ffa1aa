import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  findCircles,
  findDialectIdentity,
  findLayerFaults,
  findPackageFaults,
  findUnusedExports,
  findVendorQuestions,
  readImports,
  type Sources,
} from "./support/imports.ts";

const SRC = join(import.meta.dir, "../src");

async function readSources(folder: string): Promise<Sources> {
  const sources = new Map<string, string>();
  for (const path of new Bun.Glob("**/*.ts").scanSync(folder))
    sources.set(path, await Bun.file(join(folder, path)).text());
  return sources;
}

/** Vendor ids of contract 2, beside whatever the registry holds. */
const VENDOR_IDS =
  "openai anthropic google openrouter mistral groq deepseek xai together fireworks cerebras moonshotai zai qwen perplexity nvidia azure bedrock ollama lmstudio llamacpp vllm sluice".split(
    " ",
  );

async function registryIds(): Promise<string[]> {
  const { registry } = (await import("../src/vendors/registry.ts")) as { registry: readonly { id: string }[] };
  return registry.map((row) => row.id);
}

const sources = await readSources(SRC);

describe("the house is built as design 2 says", () => {
  test("there is something to read", () => {
    expect(sources.size).toBeGreaterThan(50);
    const imports = [...sources].flatMap(([path, source]) => readImports(path, source));
    expect(imports.length).toBeGreaterThan(150);
    // Every relative import that was read leads to a file: the reader reads paths, not words.
    const lost = imports.filter((each) => each.to.startsWith(".") && !existsSync(join(SRC, each.from, "..", each.to)));
    expect(lost).toEqual([]);
  });

  test("a file imports only from lower rows, and inside its own folder", () => {
    expect(findLayerFaults(sources)).toEqual([]);
  });

  test("no import goes in a circle", () => {
    expect(findCircles(sources)).toEqual([]);
  });

  test("SQLite stays in db, Elysia at the edge, commander in the command line", () => {
    expect(findPackageFaults(sources)).toEqual([]);
  });

  test("only dialects/translate.ts asks whether two dialects are one", () => {
    expect(findDialectIdentity(sources)).toEqual([]);
    const alone = new Map([["relay/x.ts", sources.get("dialects/translate.ts") ?? ""]]);
    expect(findDialectIdentity(alone).length).toBeGreaterThan(0);
  });

  test("what a file exports another one imports", async () => {
    const tests = await readSources(import.meta.dir);
    const build = await Bun.file(join(SRC, "../build.ts")).text();
    expect(findUnusedExports(sources, [...tests.values(), build])).toEqual([]);
  });

  test("no code outside vendors asks which vendor it is", async () => {
    expect(findVendorQuestions(sources, [...new Set([...VENDOR_IDS, ...(await registryIds())])])).toEqual([]);
  });
});

describe("the rules find what they are for", () => {
  const tree = (files: Record<string, string>): Sources => new Map(Object.entries(files));

  test.each([
    ["dialects/a.ts", 'import { x } from "../relay/b.ts";'],
    ["dialects/a.ts", 'import type { X } from "../relay/b.ts";'],
    ["dialects/a.ts", 'export { x } from "../relay/b.ts";'],
    ["dialects/a.ts", 'export * from "../relay/b.ts";'],
    ["dialects/a.ts", 'import "../relay/b.ts";'],
    ["dialects/a.ts", 'const x = await import("../relay/b.ts");'],
    ["dialects/a.ts", 'import {\n  x,\n  type Y,\n} from "../relay/b.ts";'],
    ["ledger/a.ts", 'import { x } from "../accounts/b.ts";'],
    ["canon/a.ts", 'import { x } from "../lib/b.ts";'],
    ["app.ts", 'import { load } from "./config/load.ts";'],
    ["app.ts", 'import type { Flags } from "./cli/serve.ts";'],
    ["config/a.ts", 'import { startServer } from "../server.ts";'],
    ["main.ts", 'import { startServer } from "./server.ts";'],
    ["unknown/a.ts", 'import { x } from "../lib/b.ts";'],
    ["lib/a.ts", 'import { x } from "../../test/support/clock.ts";'],
  ])("a layer fault in %s: %s", (path, source) => {
    expect(findLayerFaults(tree({ [path]: source })).length).toBe(1);
  });

  test.each([
    ["relay/a.ts", 'import { x } from "../dialects/b.ts";'],
    ["dialects/chat/a.ts", 'import { x } from "../frames.ts";'],
    ["cli/a.ts", 'import { startServer } from "../server.ts";'],
    ["main.ts", 'import "./boot.ts";\nawait import("./cli/program.ts");'],
    ["app.ts", 'import { type Config, type Limits } from "./config/schema.ts";'],
    ["cli/a.ts", 'import { version } from "../../package.json";'],
    ["lib/a.ts", '// import { x } from "../relay/b.ts";'],
  ])("no layer fault in %s: %s", (path, source) => {
    expect(findLayerFaults(tree({ [path]: source }))).toEqual([]);
  });

  test("circles, of types too", () => {
    const circle = tree({
      "lib/a.ts": 'import { b } from "./b.ts";',
      "lib/b.ts": 'import type { C } from "./c.ts";',
      "lib/c.ts": 'import { a } from "./a.ts";\nimport { d } from "./d.ts";',
      "lib/d.ts": "",
    });
    expect(findCircles(circle)).toEqual(["lib/a.ts > lib/b.ts > lib/c.ts > lib/a.ts"]);
  });

  test("packages in the wrong place", () => {
    const wrong = tree({
      "ledger/a.ts": 'import { Database } from "bun:sqlite";',
      "relay/a.ts": 'import { Elysia } from "elysia";',
      "limits/a.ts": 'import { helper } from "../lib/helper";',
      "canon/a.ts": 'import { Type } from "@sinclair/typebox";',
    });
    expect(findPackageFaults(wrong).length).toBe(4);
    const right = tree({
      "db/a.ts": 'import { Database } from "bun:sqlite";',
      "app.ts": 'import { Elysia } from "elysia";',
    });
    expect(findPackageFaults(right)).toEqual([]);
  });

  test("exports for nobody", () => {
    const files = tree({
      "lib/a.ts": "export const used = 1;\nexport function unused() {}\nexport class Tested {}\nconst own = 2;",
      "lib/b.ts":
        'import { used, type Other as own } from "./a.ts";\nconst unused = "another one of its own";\nawait import("./c.ts");',
      "lib/c.ts": "export function later() {}",
      "db/schema.ts": "export const table = 3;",
    });
    expect(findUnusedExports(files, ['import { Tested } from "../src/lib/a.ts";'])).toEqual(["lib/a.ts: unused"]);
  });

  test.each([
    "if (client === upstream) {}",
    "if (target.client !== target.upstream) {}",
    "const same = from.name === to.name;",
    "if (vendor.dialect === client.name) {}",
  ])("a question of identity: %s", (source) => {
    expect(findDialectIdentity(tree({ "relay/a.ts": source })).length).toBe(1);
  });

  test.each([
    'if (vendor.id === "openai") {}',
    'switch (v) { case "groq": }',
    'if (model.startsWith("openai/gpt")) {}',
  ])("a question of vendor: %s", (source) => {
    expect(findVendorQuestions(tree({ "relay/a.ts": source }), VENDOR_IDS).length).toBe(1);
    expect(findVendorQuestions(tree({ "vendors/a.ts": source }), VENDOR_IDS)).toEqual([]);
  });
});
