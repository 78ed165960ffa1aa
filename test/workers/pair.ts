import type { App } from "../../src/app.ts";
import { toResponse } from "../../src/http/answered.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { silentLog } from "../../src/observe/log.ts";
import type { Message } from "../../src/workers/channel.ts";
import { type Link, openLink } from "../../src/workers/link.ts";
import { Session } from "../../src/workers/session.ts";
import type { View } from "../../src/workers/view.ts";
import { Worker } from "../../src/workers/worker.ts";
import { toIncoming } from "../support/incoming.ts";

/** A worker in the test's own process, and its session at the gateway it works for. What crosses between them is JSON, as between two processes. */
export type Pair = {
  worker: Worker;
  session: Session;
  link: Link;
  /** Calls a path through the worker. Only generations: it has nobody to pass anything on to. */
  call(path: string, init?: RequestInit): Promise<Response>;
  /** The worker dies: nothing crosses any more, and the gateway ends what it held. */
  die(): Promise<void>;
};

/** What a gateway tells its workers. */
export function viewOf(app: App, store: string): View {
  const { config, vendors, discovered, reloads } = app.standing();
  return {
    ...{ version: "0.0.0-test", host: "127.0.0.1", port: 1, passage: "", store, processes: 2 },
    ...{ allowedHosts: [], corsOrigins: [], publicUrl: null, fetchHosts: [] },
    ...{ vendors, discovered: [...discovered], models: config.models, plans: config.plans, reloads },
    ...{
      blockingMs: app.services.blockingMs,
      logLevel: "silent",
      secrets: [],
      notesRequests: false,
      notesBodies: false,
      traces: null,
    },
    proofSeed: String(app.services.reasoning.makers.seed),
  };
}

/**
 * Puts a worker beside a gateway. `store`: the path of the gateway's store. `others`: workers that learn what this one learns. `told`: what the worker is told
 * otherwise.
 */
export function startPair(
  app: App,
  store: string,
  clock: Clock,
  others: readonly Pair[] = [],
  told: Partial<View> = {},
): Pair {
  let alive = true;
  const cross = (take: (batch: readonly Message[]) => void) => (batch: readonly Message[]) => {
    if (alive) take(JSON.parse(JSON.stringify(batch)) as Message[]);
  };
  const desk = { keys: app.keys, services: app.services, requests: undefined, log: silentLog, tellPeer() {} };
  const session: Session = new Session(
    desk,
    {
      listening() {},
      proof(learnt) {
        app.services.reasoning.makers.learn(learnt.proof, learnt.maker);
        for (const other of others) other.worker.learn(learnt);
      },
    },
    cross((batch) => link.receive(batch)),
  );
  const link: Link = openLink({
    post: cross((batch) => session.channel.receive(batch)),
    onFault(thrown) {
      throw thrown;
    },
    answers: { figures: () => worker.figures() },
    heard: { view() {}, revoked: (keyId) => worker.endKey(keyId), proof() {}, stop() {}, hurry() {} },
  });
  const worker = new Worker({ view: { ...viewOf(app, store), ...told }, link, clock, log: silentLog });
  return {
    ...{ worker, session, link },
    async call(path, init) {
      const incoming = await toIncoming(new Request(`http://localhost${path}`, init));
      const answered = await worker.front.entrance.answer(incoming);
      return answered instanceof Response ? answered : toResponse(answered);
    },
    async die() {
      alive = false;
      await session.close();
    },
  };
}
