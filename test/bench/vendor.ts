/** The mock vendor, a process of its own: raw sockets and bytes serialised beforehand, so that it is never what is measured. */
import type { Socket } from "bun";
import { drain, write } from "./unsent.ts";
import { VENDOR_ANSWERS, VENDOR_KINDS, type VendorKind } from "./wire.ts";

type State = { rest: Uint8Array | undefined; unsent: Uint8Array | undefined; timer: Timer | undefined };

const HEAD_END = Buffer.from("\r\n\r\n");

/** Cuts whole requests off what has arrived; returns how many, and keeps the rest. */
function takeRequests(state: State, arrived: Uint8Array): number {
  let bytes = state.rest
    ? Buffer.concat([state.rest, arrived])
    : Buffer.from(arrived.buffer, arrived.byteOffset, arrived.length);
  let count = 0;
  for (;;) {
    const headEnd = bytes.indexOf(HEAD_END);
    if (headEnd < 0) break;
    const head = bytes.toString("latin1", 0, headEnd);
    const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    const end = headEnd + HEAD_END.length + length;
    if (bytes.length < end) break;
    bytes = bytes.subarray(end);
    count++;
  }
  state.rest = bytes.length > 0 ? Buffer.from(bytes) : undefined;
  return count;
}

function answer(socket: Socket<State>, kind: VendorKind): void {
  const { pieces, paceMs } = VENDOR_ANSWERS[kind];
  let next = 0;
  if (paceMs === 0) {
    for (const piece of pieces) write(socket, piece);
    return;
  }
  const step = () => {
    write(socket, pieces[next++] as Uint8Array);
    if (next === pieces.length) clearInterval(socket.data.timer);
  };
  step();
  socket.data.timer = setInterval(step, paceMs);
}

function listen(kind: VendorKind): number {
  return Bun.listen<State>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.setNoDelay(true);
        socket.data = { rest: undefined, unsent: undefined, timer: undefined };
      },
      data(socket, bytes) {
        for (let count = takeRequests(socket.data, bytes); count > 0; count--) answer(socket, kind);
      },
      drain,
      close(socket) {
        clearInterval(socket.data.timer);
      },
    },
  }).port;
}

console.log(JSON.stringify(Object.fromEntries(VENDOR_KINDS.map((kind) => [kind, listen(kind)]))));
