import type { Subprocess } from "bun";
import type { App } from "../app.ts";
import type { Config } from "../config/load.ts";
import type { Listener } from "../http/asked.ts";
import type { Clock } from "../lib/clock.ts";
import { type Figure, single } from "../observe/figures.ts";
import { errorFields, type Log } from "../observe/log.ts";
import { lastingFigures, mergeFigures } from "../observe/merge-figures.ts";
import type { RequestLog } from "../observe/request-log.ts";
import { longestDrainMs } from "../relay/running/drain.ts";
import type { Vendor } from "../vendors/vendor.ts";
import type { Message } from "./channel.ts";
import { readFigures } from "./messages.ts";
import { Passage } from "./passage.ts";
import { postTo } from "./post.ts";
import { Session } from "./session.ts";
import type { View } from "./view.ts";

/** Pause before a worker that died is started again, ms; doubled each time that it dies soon again, up to the longest. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** After a life of at least this long a death counts as an accident, and the pause is the first again, ms. */
const LONG_LIFE_MS = 30_000;
/** How long the start waits until all workers listen, ms. The gateway serves also without them. */
const START_MS = 10_000;
/** A worker that has not ended this long after the last of its answers should have is killed, ms. */
const STOP_MS = 5_000;
/** How long to wait for the last messages of a dead worker, ms: they are in the pipe already. */
const LAST_WORDS_MS = 500;
/** How long a worker's figures are waited for, ms; after that the last ones that it told are used. */
const FIGURES_MS = 1_000;
/** How often workers are asked for their figures, ms, so that hardly any are lost when one dies. */
const FIGURES_EVERY_MS = 5_000;
/** A worker that has not answered so many times in a row hangs, and so does every request that comes to it: it is killed, and another one started. */
const MAX_UNHEARD = 6;
/** Where a worker finds the socket of the passage: its file descriptor 3, after the usual three. */
const PASSAGE = "/proc/self/fd/3";

export type PoolParts = {
  app: App;
  count: number;
  clock: Clock;
  log: Log;
  requests: RequestLog | undefined;
  /** The command that starts a worker, and its environment. */
  command: readonly string[];
  /** The program's name, for lists of processes. */
  shownAs: string;
  environment: Record<string, string | undefined>;
  /** The part of a worker's view that neither the app nor the passage knows. */
  place: Pick<View, "version" | "host" | "port" | "store">;
  /** The secret values in a configuration and in vendors. */
  secretsOf(config: Config, vendors: readonly Vendor[]): readonly string[];
  folder: string;
};

type Worker = {
  number: number;
  child: Subprocess;
  session: Session;
  startedAt: number;
  /** The last figures it told. */
  figures: readonly Figure[];
  listening: PromiseWithResolvers<void>;
  /** How many times in a row it was asked for its figures without an answer. */
  unheard: number;
  isConnected: boolean;
  /** Resolves when its pipe is closed and no more messages can come. */
  silent: PromiseWithResolvers<void>;
};

/**
 * The processes that work for this gateway on its port. When one of them dies, what it held is ended, and another one is started. Each has a
 * {@link Session}, which answers what it asks.
 */
export class WorkerPool {
  readonly #workers = new Map<number, Worker>();
  readonly #pauses = new Map<number, number>();
  readonly #passage: Passage;
  /** The configuration of the gateway's start. Some of its settings cannot be reloaded, so they count for a worker that is started later as well. */
  readonly #begunWith: Config;
  /** For each worker, the promise that it is gone and all it held is ended; it leaves {@link #workers} before that. */
  readonly #burials = new Set<Promise<void>>();
  /** The figures of workers that are gone, added up. */
  #departed: readonly Figure[] = [];
  #departedKnocks = 0;
  #deaths = 0;
  #stopping = false;
  #cancelLook = () => {};
  readonly #cancelStarts = new Set<() => void>();

  constructor(private readonly parts: PoolParts) {
    const { app, folder } = parts;
    const { gateway } = app;
    const front = gateway.server() as Listener;
    this.#begunWith = app.standing().config;
    this.#passage = new Passage({ folder, answer: gateway.answerRequest });
    // From now on the app's server answers for the requests of both listeners.
    gateway.setServer(this.#passage.besides(front));
    const { makers } = app.services.reasoning;
    makers.onNote = (proof, maker) => this.#tellAll((worker) => worker.session.channel.note("proof", { proof, maker }));
    app.keys.onRevoked((keyId) => this.#tellAll((worker) => worker.session.channel.note("revoked", keyId)));
    app.onChange(() => this.#tellAll((worker) => worker.session.channel.note("view", this.#view())));
    app.onStop(() => this.stop());
    app.onHurry(() => this.#tellAll(({ session }) => session.channel.note("hurry", null)));
    app.onWork(() => this.#atWork);
    app.observation.workers = () => this.collect();
  }

  /** Starts the workers. Resolves when all of them listen, after {@link START_MS} at the latest. Never rejects: one that fails is started again later. */
  async start(): Promise<void> {
    for (let number = 1; number <= this.parts.count; number++) this.#tryStart(number);
    this.#look();
    const late = Promise.withResolvers<void>();
    const cancel = this.parts.clock.after(START_MS, late.resolve);
    await Promise.race([
      Promise.all([...this.#workers.values()].map(({ listening }) => listening.promise)),
      late.promise,
    ]);
    cancel();
  }

  /** The process ids of the workers there are now. */
  get processIds(): number[] {
    return [...this.#workers.values()].map(({ child }) => child.pid);
  }

  /** The figures of each worker, those of workers that are gone, and the pool's own. Never rejects. */
  async collect(): Promise<(readonly Figure[])[]> {
    await Promise.all([...this.#workers.values()].map((worker) => this.#ask(worker)));
    const own = [
      single("sluice_workers", "gauge", "Processes that work for this gateway beside it.", this.#workers.size),
      single("sluice_worker_requests_total", "counter", "Generations that they were asked for.", this.#knocks),
      single("sluice_worker_deaths_total", "counter", "Of these, how many died and were started anew.", this.#deaths),
    ];
    return [...[...this.#workers.values()].map(({ figures }) => figures), this.#departed, own];
  }

  /** Has every worker end, after its running answers. Resolves when all are gone and what they held is ended. */
  async stop(): Promise<void> {
    this.#stopping = true;
    for (const cancel of this.#cancelStarts) cancel();
    const { app, clock } = this.parts;
    const mostMs = longestDrainMs(app.services.blockingMs) + STOP_MS;
    const cancel = clock.after(mostMs, () => this.#tellAll(({ child }) => child.kill("SIGKILL")));
    this.#tellAll(({ session }) => session.channel.note("stop", null));
    // They are still looked at until then: one that hangs would never end by itself.
    await Promise.all(this.#burials);
    this.#cancelLook();
    cancel();
    await this.#passage.close();
  }

  get #knocks(): number {
    return [...this.#workers.values()].reduce((sum, { session }) => sum + session.knocks, this.#departedKnocks);
  }

  get #atWork(): number {
    let count = 0;
    for (const { session } of this.#workers.values()) count += session.atWork;
    return count;
  }

  #tellAll(tell: (worker: Worker) => void): void {
    for (const worker of this.#workers.values()) tell(worker);
  }

  #view(): View {
    const { app, place, count, requests, secretsOf } = this.parts;
    const { config, vendors, discovered, reloads } = app.standing();
    const { models, plans } = config;
    const { server, web, traces, logLevel } = this.#begunWith;
    return {
      ...place,
      passage: PASSAGE,
      processes: count + 1,
      allowedHosts: server.allowedHosts,
      corsOrigins: server.corsOrigins,
      publicUrl: server.publicUrl ?? null,
      fetchHosts: web.fetch?.allow_hosts ?? [],
      vendors,
      discovered: [...discovered],
      models,
      plans,
      reloads,
      blockingMs: app.services.blockingMs,
      secrets: secretsOf(this.#begunWith, vendors),
      logLevel,
      notesRequests: requests !== undefined,
      notesBodies: requests?.bodies === true,
      traces: traces ?? null,
      proofSeed: String(app.services.reasoning.makers.seed),
    };
  }

  /** Starts a worker, or tries again later where that fails, as when the system has no room for another process. */
  #tryStart(number: number): void {
    try {
      this.#start(number);
    } catch (thrown) {
      this.parts.log.error("worker-start", { worker: number, ...errorFields(thrown) });
      this.#startAfter(number, this.#pauseAfter(number, 0));
    }
  }

  #startAfter(number: number, pauseMs: number): void {
    const cancel = this.parts.clock.after(pauseMs, () => {
      this.#cancelStarts.delete(cancel);
      this.#tryStart(number);
    });
    this.#cancelStarts.add(cancel);
  }

  #start(number: number): void {
    const { app, log, requests, command, shownAs, environment, clock } = this.parts;
    const listening = Promise.withResolvers<void>();
    const silent = Promise.withResolvers<void>();
    const exited = Promise.withResolvers<void>();
    const session = new Session(
      { keys: app.keys, services: app.services, requests, log, tellPeer: (...told) => this.#passage.tellPeer(...told) },
      { listening: () => listening.resolve(), proof: (told) => this.#learn(number, told) },
      (batch) => {
        if (worker.isConnected) postTo(child, batch);
      },
    );
    const child = Bun.spawn([...command], {
      argv0: shownAs,
      env: environment,
      stdio: ["ignore", "inherit", "inherit", this.#passage.handle],
      serialization: "json",
      ipc: (batch: readonly Message[]) => session.channel.receive(batch),
      onDisconnect: () => {
        worker.isConnected = false;
        silent.resolve();
      },
      onExit: () => exited.resolve(),
    });
    const startedAt = clock.monotonic();
    const worker: Worker = {
      ...{ number, child, session, startedAt, figures: [], unheard: 0, isConnected: true, listening, silent },
    };
    const gone = exited.promise.then(() => this.#bury(worker)).finally(() => this.#burials.delete(gone));
    this.#burials.add(gone);
    this.#workers.set(number, worker);
    session.channel.note("view", this.#view());
  }

  /** Tells all other workers what one has learnt. They know it before the reply it was learnt from ends, since the settle of that is answered after this. */
  #learn(from: number, told: { proof: string; maker: string }): void {
    this.parts.app.services.reasoning.makers.learn(told.proof, told.maker);
    this.#tellAll(({ number, session }) => number !== from && session.channel.note("proof", told));
  }

  async #bury(worker: Worker): Promise<void> {
    const { clock, log } = this.parts;
    const { number, child, session, silent, startedAt } = worker;
    const cancel = clock.after(LAST_WORDS_MS, () => silent.resolve());
    await silent.promise;
    cancel();
    const { permits, holds } = session.open;
    // All at once and before anything is awaited: otherwise a reader of figures could see counters fall meanwhile.
    this.#workers.delete(number);
    this.#departedKnocks += session.knocks;
    this.#departed = mergeFigures([this.#departed, lastingFigures(worker.figures)]);
    await session.close();
    if (this.#stopping) return;
    this.#deaths++;
    const status = child.signalCode ?? child.exitCode ?? "";
    const pauseMs = this.#pauseAfter(number, clock.monotonic() - startedAt);
    log.error("worker-died", { worker: number, status, permits, holds, restart_ms: pauseMs });
    this.#startAfter(number, pauseMs);
  }

  #pauseAfter(number: number, livedMs: number): number {
    const before = livedMs >= LONG_LIFE_MS ? 0 : (this.#pauses.get(number) ?? 0);
    const pause = Math.min(LONGEST_PAUSE_MS, before === 0 ? FIRST_PAUSE_MS : before * 2);
    this.#pauses.set(number, pause);
    return pause;
  }

  /** Asks a worker for its figures. Resolves when they have come, after {@link FIGURES_MS} at the latest. Never rejects. */
  async #ask(worker: Worker): Promise<void> {
    const late = Promise.withResolvers<void>();
    const cancel = this.parts.clock.after(FIGURES_MS, late.resolve);
    await Promise.race([this.#hear(worker), late.promise]);
    cancel();
  }

  /** Waits for a worker's figures, however late. One that answers late, or with an error, is busy but does not hang. Never rejects. */
  async #hear(worker: Worker): Promise<void> {
    try {
      worker.figures = readFigures(await worker.session.channel.call("figures", null));
      worker.unheard = 0;
    } catch (thrown) {
      // It died meanwhile, or cannot tell them: the figures that it told last are kept.
      if (this.#workers.get(worker.number) !== worker) return;
      if (worker.isConnected) worker.unheard = 0;
      this.parts.log.warn("worker-figures", errorFields(thrown));
    }
  }

  #look(): void {
    this.#cancelLook = this.parts.clock.after(FIGURES_EVERY_MS, () => {
      this.#tellAll((worker) => {
        if (++worker.unheard > MAX_UNHEARD) worker.child.kill("SIGKILL");
        else void this.#ask(worker);
      });
      this.#look();
    });
  }
}
