import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../src/db/open.ts";
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
  const server = await startBinary(["--port", "0", ...(PROCESSES > 1 ? ["--workers", "1"] : [])], {
    folder,
    env,
    command,
  });
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

test("a start that has thousands to clear up does not wait for that", async () => {
  insideOnly("what the runtime is told");
  const spy = join(folder, "spy.ts");
  writeFileSync(spy, SPY);
  const store = openStore(join(folder, "data", "sluice.db"));
  store.database.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
     INSERT INTO ledger_hold (request_id, boot, account_id, key_id, dialect, stream, model, vendor, upstream_model, window_nano, wallet_nano,
       price_id, estimated_input, seen_output, created_at, deadline_at)
     SELECT 'req_' || i, 'dead', 'a', 'k', 'chat', 1, 'm', 'v', 'm', 0, 1, 1, 1, 0, 1, 1 FROM n`,
  );
  store.close();
  const command = [process.execPath, "--preload", spy, MAIN];
  const server = await startBinary(["--port", "0"], { folder, env: { SLUICE_LOCAL_DISCOVERY: "false" }, command });
  try {
    // Its first lines are there, and the half second behind a start is not over, or just so.
    expect(server.stderr.match(/^JIT \d+$/gm)?.slice(0, 2)).toEqual(["JIT 20", "JIT 1"]);
    expect(server.stderr).toContain('"released":1000');
    expect(server.stderr.indexOf("JIT 1\n")).toBeLessThan(server.stderr.indexOf('"released":1000'));
  } finally {
    server.child.kill("SIGTERM");
    await server.child.exited;
  }
});
