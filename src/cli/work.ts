import { hideFromExcerpts } from "../dialects/scrub.ts";
import { HttpServer } from "../http/server/listen.ts";
import { stopListening } from "../http/server/stop-listening.ts";
import { systemClock } from "../lib/clock.ts";
import { messageOf } from "../lib/message-of.ts";
import { createLog, errorFields, type Log } from "../observe/log.ts";
import { outliveFaults } from "../observe/unhandled.ts";
import { openToVendors } from "../vendors/send.ts";
import type { Message } from "../workers/channel.ts";
import { type Link, openLink } from "../workers/link.ts";
import type { View } from "../workers/view.ts";
import { Worker } from "../workers/worker.ts";
import { Failure, warn } from "./output.ts";

/** Signals that a terminal or a service manager sends to all processes of the gateway. A worker ignores them: the process that started it says what to do. */
const LEFT_TO_AUTHORITY = ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"] as const;

/** A worker that listens. */
class Working {
  readonly worker: Worker;
  readonly #server: HttpServer;
  readonly #log: Log;

  constructor(view: View, link: Link) {
    this.#log = createLog({ level: view.logLevel });
    outliveFaults(this.#log);
    this.#hide(view);
    this.worker = new Worker({ view, link, clock: systemClock, log: this.#log });
    const { host: hostname, port } = view;
    const { entrance: door } = this.worker.front;
    this.#server = new HttpServer({
      ...{ hostname, port, sharesPort: true, clock: systemClock, door },
      elsewhere: openToVendors,
    });
  }

  take(view: View): void {
    this.#hide(view);
    this.worker.take(view);
  }

  /** Refuses new connections, lets running answers end, and sends the last messages. */
  async stop(link: Link): Promise<void> {
    const { worker } = this;
    await stopListening(this.#server, {
      ...{ clock: systemClock, end: () => worker.drain(), hasWhole: () => worker.hasWhole },
    });
    await worker.close();
    link.flush();
  }

  fault(thrown: unknown): void {
    this.#log.error("worker-note", errorFields(thrown));
  }

  #hide({ secrets }: View): void {
    for (const secret of secrets) {
      this.#log.addSecret(secret);
      hideFromExcerpts(secret);
    }
  }
}

/** Listens, or ends the process with a sentence: the process that started it starts another one after a while. */
function begin(view: View, link: Link): Working {
  try {
    return new Working(view, link);
  } catch (thrown) {
    warn(`error: a worker could not start: ${messageOf(thrown)}`);
    process.exit(1);
  }
}

/**
 * What `serve --as-worker` does: it works for the process that started it, until that tells it to stop or ends. Without that process no request may go on,
 * since nothing would be booked. Throws Failure when it was started by hand.
 */
export async function work(): Promise<undefined> {
  if (!process.send) throw new Failure("--as-worker is for processes that a serving one starts; use --workers <count>");
  for (const signal of LEFT_TO_AUTHORITY) process.on(signal, () => {});
  process.on("disconnect", () => process.exit(1));
  let working: Working | undefined;
  const stop = async () => {
    await working?.stop(link);
    process.exit(0);
  };
  const link = openLink({
    post: (batch) => void process.send?.(batch),
    onFault: (thrown) => (working ? working.fault(thrown) : warn(`error: ${String(thrown)}`)),
    answers: { figures: () => working?.worker.figures() ?? [] },
    heard: {
      view(view) {
        if (working) return working.take(view);
        working = begin(view, link);
        link.note("listening", null);
      },
      revoked: (keyId) => working?.worker.endKey(keyId),
      proof: (told) => working?.worker.learn(told),
      stop: () => void stop(),
      hurry: () => working?.worker.hurry(),
    },
  });
  process.on("message", (batch: readonly Message[]) => link.receive(batch));
  return undefined;
}
