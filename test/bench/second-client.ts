import type { Socket } from "bun";

/** The smallest question there is; both the gateway and the passthrough answer it at once. */
const ASK = new TextEncoder().encode("GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
/** Time between an answer and the next question, milliseconds. */
const PAUSE_MS = 1;

export type Waits = { questions: number; medianMs: number; longestMs: number };

/**
 * A second client that asks the smallest question again and again while `work` runs. Its longest wait tells for how long the event loop of the server was
 * blocked, and a little more (pauses of its own process).
 */
export async function waitBeside(port: number, work: () => Promise<unknown>): Promise<Waits> {
  const waits: number[] = [];
  let startedAt = 0;
  let over = false;
  const ask = (socket: Socket<undefined>) => {
    startedAt = performance.now();
    socket.write(ASK);
  };
  const socket = await Bun.connect<undefined>({
    hostname: "127.0.0.1",
    port,
    socket: {
      open: (opened) => {
        opened.setNoDelay(true);
        ask(opened);
      },
      data: (opened) => {
        waits.push(performance.now() - startedAt);
        if (!over) setTimeout(() => ask(opened), PAUSE_MS);
      },
    },
  });
  try {
    await work();
  } finally {
    over = true;
    socket.end();
  }
  waits.sort((one, other) => one - other);
  return {
    questions: waits.length,
    medianMs: waits[Math.floor(waits.length / 2)] ?? Number.NaN,
    longestMs: waits.at(-1) ?? Number.NaN,
  };
}
