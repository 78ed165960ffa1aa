/**
 * A vendor whose answers come after a while, as a process of its own: raw sockets, and bytes serialised beforehand. `bun test/prove/late-vendor.ts KIND:MS...`
 * listens once for each of the benchmark's kinds of answer, as they are paced, and its delay, and says on which ports, as JSON; GET tells how often it was asked.
 */
import type { Socket } from "bun";
import { drain, write } from "../bench/unsent.ts";
import { VENDOR_ANSWERS, type VendorKind } from "../bench/wire.ts";

type State = { rest: Buffer; unsent: Uint8Array | undefined };

const HEAD_END = Buffer.from("\r\n\r\n");

/** Takes whole requests off what has arrived; how many of them were posts, and how many asked for the count. */
function takeRequests(state: State, arrived: Buffer): { posts: number; gets: number } {
  let bytes = state.rest.length > 0 ? Buffer.concat([state.rest, arrived]) : Buffer.from(arrived);
  const taken = { posts: 0, gets: 0 };
  for (;;) {
    const headEnd = bytes.indexOf(HEAD_END);
    if (headEnd < 0) break;
    const head = bytes.toString("latin1", 0, headEnd);
    const end = headEnd + HEAD_END.length + Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (bytes.length < end) break;
    taken[head.startsWith("GET ") ? "gets" : "posts"]++;
    bytes = bytes.subarray(end);
  }
  state.rest = bytes;
  return taken;
}

function listen(kind: VendorKind, delayMs: number): number {
  const { pieces, paceMs } = VENDOR_ANSWERS[kind];
  const parts = paceMs > 0 ? pieces : [Buffer.concat([...pieces])];
  let calls = 0;
  const answer = (socket: Socket<State>, next = 0) => {
    if (socket.readyState !== 1) return;
    write(socket, parts[next] as Uint8Array);
    if (next + 1 < parts.length) setTimeout(answer, paceMs, socket, next + 1);
  };
  return Bun.listen<State>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.setNoDelay(true);
        socket.data = { rest: Buffer.alloc(0), unsent: undefined };
      },
      data(socket, bytes) {
        const { posts, gets } = takeRequests(socket.data, bytes);
        calls += posts;
        for (let count = 0; count < posts; count++) {
          if (delayMs === 0) answer(socket);
          else setTimeout(answer, delayMs, socket);
        }
        const text = String(calls);
        if (gets > 0) socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\n\r\n${text}`);
      },
      drain,
    },
  }).port;
}

const wanted = process.argv.slice(2).map((word) => word.split(":"));
console.log(JSON.stringify(wanted.map(([kind, delayMs]) => listen(kind as VendorKind, Number(delayMs)))));
