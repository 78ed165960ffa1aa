import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder, removeFolder, startBinary } from "../support/binary.ts";
import { insideOnly } from "../support/black-box-config.ts";
import { until } from "../support/wait.ts";

setDefaultTimeout(60_000);

let folder: string;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => removeFolder(folder));

const MAIN = join(import.meta.dir, "../../src/main.ts");
/** Workers are had on Linux alone. */
const PROCESSES = process.platform === "linux" ? 2 : 1;
const SPY = `
  const own = Bun.unsafe.setJITPolicy;
  Bun.unsafe.setJITPolicy = (scale) => {
    console.error("JIT " + scale);
    own(scale);
  };
`;

test("code is compiled late while a server starts, and as usual once it stands, in each of its processes", async () => {
  insideOnly("what the runtime is told");
  const spy = join(folder, "spy.ts");
  writeFileSync(spy, SPY);
  const command = [process.execPath, "--preload", spy, MAIN];
  const env = { SLUICE_LOCAL_DISCOVERY: "false" };
  const server = await startBinary(PROCESSES > 1 ? ["--workers", "1"] : [], { folder, env, command });
  try {
    const told = () => server.stderr.match(/^JIT \d+$/gm) ?? [];
    await until(() => told().length === 2 * PROCESSES, "the usual measure");
    expect(told()[0]).toBe("JIT 20");
    expect(told().filter((line) => line === "JIT 1")).toHaveLength(PROCESSES);
  } finally {
    server.child.kill("SIGTERM");
    await server.child.exited;
  }
});
