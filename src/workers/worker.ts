import { createPlans, type Plans, replacePlans } from "../accounts/plans.ts";
import { type Catalog, createCatalog } from "../catalog/catalog.ts";
import { builtInRows } from "../catalog/rows.ts";
import { collectConnections, collectGenerations, collectVendors } from "../http/metrics/figures.ts";
import { createTraces, traceFigures } from "../http/observation.ts";
import type { Clock } from "../lib/clock.ts";
import { userAgentOf } from "../lib/user-agent.ts";
import { Admission } from "../limits/admission.ts";
import { memoryShare } from "../limits/memory-share.ts";
import type { Figure } from "../observe/figures.ts";
import { errorFields, type Fields, type Log } from "../observe/log.ts";
import { LOOK_EVERY_MS, LoopLag } from "../observe/loop-lag.ts";
import { createObserver, type Listener } from "../observe/observer.ts";
import { collectProcess } from "../observe/process-figures.ts";
import { RequestFigures } from "../observe/request-figures.ts";
import { MAX_LOOKED_THROUGH } from "../observe/request-log.ts";
import type { TraceExporter } from "../observe/traces.ts";
import { BodyLog } from "../relay/body-log.ts";
import type { Services } from "../relay/job.ts";
import { ProofMakers } from "../relay/reasoning/makers.ts";
import { ReasoningState } from "../relay/reasoning/state.ts";
import { drain } from "../relay/running/drain.ts";
import { keyRevoked, shuttingDown } from "../relay/running/ended.ts";
import { Running } from "../relay/running/running.ts";
import { builtinVendor } from "../vendors/builtin/vendor.ts";
import { VendorHealth } from "../vendors/health.ts";
import { keepSame, replaceVendors } from "../vendors/roster.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { createMediaFetch } from "../web/safe-fetch/media.ts";
import { createSafeFetch } from "../web/safe-fetch/safe-fetch.ts";
import { EntryHall } from "./entry-hall.ts";
import { Front } from "./front.ts";
import type { Link } from "./link.ts";
import { RemoteLedger } from "./remote-ledger.ts";
import { RemoteReasoning } from "./remote-reasoning.ts";
import { createRemoteTools } from "./remote-tools.ts";
import type { View } from "./view.ts";

/** What a worker is made of. `log` already removes the view's secrets. */
export type WorkerParts = { view: View; link: Link; clock: Clock; log: Log };

/**
 * A worker: everything on a request's way but the books. It reads, checks and translates requests, calls vendors and streams; the authority decides who is
 * let in, keeps the money, and writes the store.
 */
export class Worker {
  readonly front: Front;
  readonly running = new Running();
  #reloads = 0;
  readonly #builtin: Vendor;
  readonly #vendors = new Map<string, Vendor>();
  readonly #catalog: Catalog;
  readonly #plans: Plans;
  readonly #health: VendorHealth;
  readonly #services: Services;
  readonly #requests: RequestFigures;
  readonly #admission: Admission;
  readonly #lag: LoopLag;
  readonly #traces: TraceExporter | undefined;
  readonly #makers: ProofMakers;
  readonly #reasoning: RemoteReasoning;

  constructor(private readonly parts: WorkerParts) {
    const { view, link, clock } = parts;
    const log = view.notesRequests ? notedBy(parts) : parts.log;
    this.#builtin = builtinVendor(clock);
    this.#catalog = createCatalog({ rows: builtInRows, overrides: view.models, vendors: [] }, () => clock.now());
    this.#plans = createPlans(view.plans);
    this.#health = new VendorHealth(clock);
    this.#admission = new Admission({
      clock,
      ...memoryShare(view.processes),
      running: () => this.running.count,
    });
    this.#requests = new RequestFigures(log.scrub);
    this.#lag = new LoopLag(
      () => clock.monotonic(),
      (lagMs) => this.#admission.look(lagMs + LOOK_EVERY_MS),
    );
    this.#reasoning = new RemoteReasoning(view.store, link, clock, log);
    const makers = (most: number) => this.#reasoning.makers(most);
    this.#makers = new ProofMakers({ proofSeed: BigInt(view.proofSeed), makers });
    this.#makers.onNote = (proof, maker) => link.note("proof", { proof, maker });
    const failed = (thrown: unknown) => log.error("observe", errorFields(thrown));
    const { traces, version } = view;
    this.#traces = createTraces(traces, { version, log, clock, onFault: failed }, (id) => this.#vendors.get(id));
    const attempts: Listener = {
      settling: (requestId, made) => link.note("settling", { requestId, attempts: made }),
    };
    const hall = new EntryHall(link);
    const userAgent = userAgentOf(version);
    const safeFetch = createSafeFetch({
      ...{ clock, userAgent, allowHosts: view.fetchHosts, publicUrl: view.publicUrl ?? undefined },
      ownPort: () => view.port,
    });
    this.#services = {
      clock,
      log,
      limiter: hall,
      catalog: this.#catalog,
      vendor: (id) => this.#vendors.get(id),
      health: this.#health,
      ledger: new RemoteLedger(link),
      plans: this.#plans,
      running: this.running,
      reasoning: new ReasoningState(this.#reasoning, this.#makers),
      blockingMs: view.blockingMs,
      userAgent,
      fetchMedia: createMediaFetch(safeFetch, clock),
      observer: createObserver([this.#requests, attempts, ...(this.#traces ? [this.#traces] : [])], failed),
      admission: this.#admission,
      runWebTool: createRemoteTools(link),
    };
    const { allowedHosts, corsOrigins, passage } = view;
    const services = this.#services;
    const bodies = view.notesBodies ? new BodyLog({ addBodies: (...given) => noteBodies(parts, ...given) }) : undefined;
    this.front = new Front({ services, hall, bodies, allowedHosts, corsOrigins, passage });
    this.take(view);
    this.#lag.start();
  }

  /** Takes over what is configured and found; requests that are under way keep what they have. */
  take(view: View): void {
    const rows = keepSame([this.#builtin, ...view.vendors], this.#vendors);
    this.#catalog.replace({ rows: builtInRows, overrides: view.models, vendors: rows });
    for (const [vendor, models] of view.discovered) this.#catalog.setDiscovered(vendor, models);
    const changed = replaceVendors(this.#vendors, rows);
    replacePlans(this.#plans, createPlans(view.plans));
    this.#services.blockingMs = view.blockingMs;
    // A vendor may have refused, or have been in trouble, because of what was changed.
    if (view.reloads !== this.#reloads) this.#health.forgetTrouble(changed);
    this.#reloads = view.reloads;
  }

  /**
   * A key was revoked: its running requests end (contract 4). Not before the end of this turn of the event loop: a request begins to run only after the
   * batch that let it in was taken whole, and this note may be in the same batch.
   */
  endKey(keyId: string): void {
    setImmediate(() => this.running.endKey(keyId, keyRevoked()));
  }

  /** Another process has learnt which family of models made a proof of reasoning. */
  learn({ proof, maker }: { proof: string; maker: string }): void {
    this.#makers.learn(proof, maker);
  }

  /** The figures of this process. */
  figures(): Figure[] {
    return [
      ...collectProcess(this.parts.view.version, this.#lag),
      ...collectGenerations(this.#requests, this.running.count),
      ...collectConnections(),
      ...collectVendors({
        health: this.#health,
        vendors: () => this.#vendors.values(),
        scrub: this.parts.log.scrub,
      }),
      ...this.#admission.collect(),
      ...(this.#traces ? traceFigures(this.#traces.counts) : []),
    ];
  }

  /** Waits for running answers, also those of the authority that are passed on, which it ends by the same rule. Nothing new may come in any more. */
  async drain(): Promise<void> {
    const { clock } = this.parts;
    await drain(this.running, clock, this.#services.blockingMs, this.front.idle());
  }

  /** Ends running answers at the end of this turn of the event loop, as {@link endKey} does. */
  hurry(): void {
    setImmediate(() => this.running.endAll(shuttingDown()));
  }

  /** Whether a client waits for an answer that comes whole, or for one of the authority. */
  get hasWhole(): boolean {
    return this.running.hasWhole || this.front.awaitsAnswer;
  }

  async close(): Promise<void> {
    this.#lag.stop();
    this.#reasoning.close();
    await this.#traces?.close();
  }
}

/** A log that also tells the authority each line, for its log of requests. */
function notedBy({ log, link }: WorkerParts): Log {
  const noted =
    (level: "info" | "warn" | "error") =>
    (event: string, fields: Fields = {}): void => {
      link.note("logged", { level, event, fields });
      log[level](event, fields);
    };
  return { ...log, info: noted("info"), warn: noted("warn"), error: noted("error") };
}

function noteBodies({ link }: WorkerParts, requestId: string, request: string, reply: string): void {
  const cut = (text: string) => text.slice(0, MAX_LOOKED_THROUGH);
  link.note("bodies", { requestId, request: cut(request), reply: cut(reply) });
}
