import { afterEach, beforeEach, expect, test } from "bun:test";
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeTar } from "../../.release/archive.ts";
import manifest from "../../package.json" with { type: "json" };
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

/** A package in Bun's place, which as Bun's own is of use only when its script has run behind the installation. It says what it was called with. */
const STAND_IN = {
  "package.json": JSON.stringify({
    ...{ name: "bun", version: "1.4.5", bin: { bun: "bun.js" } },
    scripts: { postinstall: "node postinstall.js" },
  }),
  "postinstall.js": 'require("fs").writeFileSync("done", "")',
  "bun.js": `#!/usr/bin/env node
    if (!require("fs").existsSync(__dirname + "/done")) throw new Error("its script was not run");
    console.log("bun", ...process.argv.slice(2));`,
};

/** A registry that has the stand-in and nothing else. */
function serveStandIn() {
  const files = Object.entries(STAND_IN).map(([name, text]) => ({
    ...{ name: `package/${name}`, mode: 0o755 },
    bytes: Buffer.from(text),
  }));
  const tarball = Bun.gzipSync(new Uint8Array(writeTar(files, 1_790_000_000)));
  return Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1" },
    fetch(request) {
      const { pathname } = new URL(request.url);
      if (pathname.endsWith(".tgz")) return new Response(tarball);
      if (pathname !== "/bun") return new Response("{}", { status: 404 });
      const { scripts: _, ...facts } = JSON.parse(STAND_IN["package.json"]);
      const dist = {
        tarball: new URL("/bun/-/bun-1.4.5.tgz", request.url).href,
        integrity: `sha512-${new Bun.CryptoHasher("sha512").update(tarball).digest("base64")}`,
      };
      return Response.json({
        ...{ name: "bun", "dist-tags": { latest: "1.4.5" } },
        versions: { "1.4.5": { ...facts, hasInstallScript: true, dist } },
      });
    },
  });
}

// npm 12 runs no script of a package that it was not told to, and many tell older ones the same; Bun's package is a text without its script.
test.skipIf(!Bun.which("npm"))(
  "npm fetches the pinned Bun also where it runs no scripts of packages by itself",
  async () => {
    const registry = serveStandIn();
    for (const name of ["package.json", ".npmrc"]) copyFileSync(join(ROOT, name), join(folder, name));
    writeFileSync(join(folder, "userconfig"), "ignore-scripts=true\n");
    const npm = Bun.spawn(["npm", "start"], {
      cwd: folder,
      env: {
        ...{ PATH: process.env["PATH"] ?? "", HOME: folder, npm_config_cache: join(folder, "cache") },
        ...{ npm_config_registry: registry.url.href, npm_config_userconfig: join(folder, "userconfig") },
        ...{ npm_config_audit: "false", npm_config_update_notifier: "false" },
      },
      ...{ stdin: "ignore", stdout: "pipe", stderr: "pipe", timeout: PATIENCE_MS },
    });
    const [stdout, stderr] = await Promise.all([npm.stdout.text(), npm.stderr.text()]);
    await registry.stop(true);
    expect({ code: await npm.exited, stderr }).toMatchObject({ code: 0 });
    expect(stdout.split("\n").filter((line) => line.startsWith("bun "))).toEqual([
      "bun install --frozen-lockfile --ignore-scripts --silent --production",
      "bun --no-env-file src/main.ts",
    ]);
  },
  2 * PATIENCE_MS,
);

test("every script tells npm so before it runs Bun for the first time", () => {
  const fetching = Object.entries(manifest.scripts).filter(([, script]) => script.includes("npx"));
  expect(fetching.map(([name]) => name)).toContain("start");
  for (const [, script] of fetching)
    expect(script).toStartWith("npx --yes --ignore-scripts=false --allow-scripts=bun bun@1.4.5 install ");
});
