import { afterEach, beforeEach, expect, test } from "bun:test";
import { join } from "node:path";
import { makeFolder, removeFolder } from "../support/binary.ts";

const ROOT = join(import.meta.dir, "../..");
/** Nobody listens there. */
const NO_REGISTRY = "http://127.0.0.1:9/";
const PATIENCE_MS = 25_000;

let folder: string;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => removeFolder(folder));

// What npx has in its cache it takes only when the registry has not answered: with npm's own waits a start without a network takes two minutes.
test.skipIf(!Bun.which("npx"))(
  "npx gives a registry up in seconds",
  async () => {
    const npx = Bun.spawn(["npx", "--yes", "bun@1.4.5", "--version"], {
      cwd: ROOT,
      env: {
        ...{ PATH: process.env["PATH"] ?? "", HOME: folder },
        ...{ npm_config_registry: NO_REGISTRY, npm_config_cache: join(folder, "cache") },
      },
      ...{ stdin: "ignore", stdout: "ignore", stderr: "pipe", timeout: PATIENCE_MS },
    });
    expect(await npx.stderr.text()).toContain("ECONNREFUSED");
    expect(await npx.exited).toBe(1);
  },
  2 * PATIENCE_MS,
);
