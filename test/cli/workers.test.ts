import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readWorkers } from "../../src/cli/workers.ts";
import { makeFolder, removeFolder, startBinary } from "../support/binary.ts";
import { sluice } from "./support.ts";

// Every command is a process of its own, on a machine that may be busy.
setDefaultTimeout(60_000);

let folder: string;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => removeFolder(folder));

describe("--workers", () => {
  test("takes a number, and says what it wants instead of anything else", async () => {
    expect(["0", "1", "16", "256"].map((given) => readWorkers(given, "linux"))).toEqual([0, 1, 16, 256]);
    for (const given of ["", "x", "-1", "1.5", "1e2", "257", "999999999999"]) {
      expect(() => readWorkers(given, "linux")).toThrow(`not ${JSON.stringify(given)}`);
    }
    const { code, stderr } = await sluice(folder, ["serve", "--workers", "many"]);
    expect(code).toBe(2);
    expect(stderr).toContain('--workers takes a number from 0 to 256, not "many".');
  });

  test("is told where the system cannot have it, and one process serves", () => {
    const said: string[] = [];
    const { write } = process.stderr;
    process.stderr.write = ((text: string) => said.push(text) > 0) as typeof process.stderr.write;
    try {
      expect(readWorkers("4", "darwin")).toBe(0);
      expect(readWorkers("4", "win32")).toBe(0);
      expect(readWorkers("0", "darwin")).toBe(0);
    } finally {
      process.stderr.write = write;
    }
    expect(said.length).toBe(2);
    expect(said[0]).toContain("only Linux");
  });

  test("a worker is started by a serving process, not by hand", async () => {
    const { code, stdout, stderr } = await sluice(folder, ["serve", "--as-worker"]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain("use --workers <count>");
  });

  test.skipIf(process.platform !== "linux")(
    "of two servers that start at once on one port one has it",
    async () => {
      const folders = [makeFolder(), makeFolder()];
      const free = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
      const port = String(free.port);
      free.stop(true);
      try {
        for (let round = 0; round < 4; round++) {
          const args = ["serve", "--workers", "1", "--port", port];
          const starts = await Promise.allSettled(folders.map((each) => startBinary(args, { folder: each })));
          const running = starts.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
          await Promise.all(running.map((one) => one.stop()));
          expect(running.length).toBe(1);
        }
      } finally {
        for (const each of folders) removeFolder(each);
      }
    },
    60_000,
  );

  test.skipIf(process.platform !== "linux")("a port that somebody has is not shared with them", async () => {
    const other = await startBinary(["serve", "--port", "0"], { folder });
    const mine = makeFolder();
    try {
      const { port } = new URL(other.url);
      const { code, stderr } = await sluice(mine, ["serve", "--workers", "1", "--port", port]);
      expect(code).toBe(1);
      expect(stderr).toContain(`port ${port} of 127.0.0.1 is taken`);
      expect((await fetch(`${other.url}/healthz`)).status).toBe(200);
    } finally {
      await other.stop();
      removeFolder(mine);
    }
  });
});
