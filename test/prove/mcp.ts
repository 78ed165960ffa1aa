/**
 * How fast the MCP endpoint answers `tools/list` (issue 6: 10,000 a second at the least): the compiled executable with 32 connections that each ask
 * again as soon as they are answered, from processes of their own. `bun test/prove/mcp.ts [seconds]`. Exits 1 below the aim.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder, removeFolder, startBinary } from "../support/binary.ts";

const AIM = 10_000;
const CONNECTIONS = 32;
const BODY = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';

type Count = { answered: number; seconds: number; fault?: string };

/** One keep-alive connection: raw, so that the asking costs less than the answering. */
async function askOften(url: URL, key: string, until: number): Promise<number> {
  const request =
    `POST /mcp/web HTTP/1.1\r\nhost: ${url.host}\r\nauthorization: Bearer ${key}\r\n` +
    `content-type: application/json\r\naccept: application/json, text/event-stream\r\n` +
    `mcp-protocol-version: 2025-06-18\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`;
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let answered = 0;
  let left = 0;
  const socket = await Bun.connect({
    hostname: url.hostname,
    port: Number(url.port),
    socket: {
      data(own, bytes) {
        if (left === 0) {
          const head = bytes.toString("latin1", 0, bytes.indexOf("\r\n\r\n"));
          if (!head.startsWith("HTTP/1.1 200")) return void reject(new Error(head.slice(0, 200)));
          left = Number(/content-length: (\d+)/i.exec(head)?.[1]) + head.length + 4;
        }
        left -= bytes.length;
        if (left > 0) return;
        answered++;
        if (performance.now() < until) own.write(request);
        else resolve(answered);
      },
      close: () => reject(new Error("the connection was closed")),
      error: (_own, error) => reject(error),
    },
  });
  socket.write(request);
  const count = await promise;
  socket.end();
  return count;
}

/** The asking process: prints how many answers it got. */
async function ask(url: string, key: string, seconds: number): Promise<void> {
  const startedAt = performance.now();
  const until = startedAt + seconds * 1000;
  const work = Array.from({ length: CONNECTIONS }, () => askOften(new URL(url), key, until));
  const answered = (await Promise.all(work)).reduce((sum, count) => sum + count, 0);
  console.log(JSON.stringify({ answered, seconds: (performance.now() - startedAt) / 1000 } satisfies Count));
}

async function measure(seconds: number): Promise<number> {
  const folder = makeFolder();
  mkdirSync(join(folder, "data"), { recursive: true, mode: 0o700 });
  const config = { web: { search: { engine: "none" } }, local_discovery: false };
  writeFileSync(join(folder, "data/sluice.json"), JSON.stringify(config), { mode: 0o600 });
  const gateway = await startBinary(["--port", "0"], { folder });
  try {
    let best = 0;
    for (let round = 0; round < 3; round++) {
      const asking = Bun.spawn(
        [process.execPath, import.meta.path, "--ask", gateway.url, gateway.key, String(seconds)],
        {
          stdout: "pipe",
          stderr: "inherit",
        },
      );
      const { answered, seconds: took } = JSON.parse(await asking.stdout.text()) as Count;
      const rate = answered / took;
      best = Math.max(best, rate);
      console.log(`round ${round + 1}: ${Math.round(rate)} tools/list a second`);
    }
    return best;
  } finally {
    await gateway.stop();
    removeFolder(folder);
  }
}

if (import.meta.main) {
  const [first = "", url = "", key = "", last = "3"] = process.argv.slice(2);
  if (first === "--ask") await ask(url, key, Number(last));
  else {
    const best = await measure(Number(first || 3));
    console.log(`best ${Math.round(best)}, aim ${AIM}`);
    process.exit(best >= AIM ? 0 : 1);
  }
}
