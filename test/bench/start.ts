import { cleanEnvironment, makeFolder, removeFolder, startBinary } from "../support/binary.ts";

const STARTS = 20;
/** A gateway that has not answered by then never will, milliseconds. */
const PATIENCE_MS = 10_000;

export type StartTimes = { name: string; median: number; best: number; worst: number };

/** A port that was free a moment ago. */
function findPort(): number {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = server;
  server.stop(true);
  return port;
}

/** Asks over one fresh connection; undefined while nobody listens. */
async function askOnce(url: string, key: string): Promise<number | undefined> {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", connection: "close" },
      body: '{"model":"sluice/echo","messages":[{"role":"user","content":"There?"}]}',
    });
    await response.text();
    return response.status;
  } catch {
    // Refused: it does not listen yet.
    return undefined;
  }
}

/** Milliseconds from the spawn to the first right answer of a gateway whose data folder exists. */
async function timeStart(command: readonly string[], folder: string, key: string): Promise<number> {
  const port = findPort();
  const startedAt = performance.now();
  const child = Bun.spawn([...command, "serve", "--port", String(port)], {
    cwd: folder,
    env: cleanEnvironment({ folder }),
    stdout: "ignore",
    stderr: "ignore",
    stdin: "ignore",
  });
  try {
    for (;;) {
      const status = await askOnce(`http://127.0.0.1:${port}`, key);
      const took = performance.now() - startedAt;
      if (status === 200) return took;
      if (status !== undefined || took > PATIENCE_MS)
        throw new Error(`the first answer was ${status} after ${took} ms`);
    }
  } finally {
    child.kill("SIGKILL");
    await child.exited;
  }
}

/** Starts again and again: on the folder of an earlier run, which is what a start is nearly always. */
export async function measureStart(command: readonly string[]): Promise<StartTimes[]> {
  const folder = makeFolder();
  try {
    const first = await startBinary(["serve", "--port", "0"], { folder, command });
    const { key } = first;
    await first.stop();
    const times: number[] = [];
    for (let start = 0; start < STARTS; start++) times.push(await timeStart(command, folder, key));
    times.sort((a, b) => a - b);
    const middle = ((times[STARTS / 2 - 1] ?? 0) + (times[STARTS / 2] ?? 0)) / 2;
    return [{ name: `${STARTS} starts`, median: middle, best: times[0] ?? 0, worst: times.at(-1) ?? 0 }];
  } finally {
    removeFolder(folder);
  }
}
