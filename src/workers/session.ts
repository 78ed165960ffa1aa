import type { Caller } from "../accounts/caller.ts";
import type { Keys } from "../accounts/keys.ts";
import { authenticate } from "../http/caller/credentials.ts";
import type { Hold, Ledger, Settlement } from "../ledger/ledger.ts";
import { type Permit, RateLimited } from "../limits/limiter.ts";
import { errorFields, type Fields, type Log, silentLog } from "../observe/log.ts";
import { type RequestLog, withRequestLog } from "../observe/request-log.ts";
import type { Services } from "../relay/job.ts";
import { Channel, type Message } from "./channel.ts";
import { PriceReader, readOrder, Unestimated, writeCharge, writeGrowAt, writeHold } from "./hold-forms.ts";
import {
  type AuthorityCalls,
  type AuthorityNotes,
  type ChargeForm,
  type Entrance,
  type HoldForm,
  type HoldOrder,
  type Knock,
  type ToolOrder,
  type WorkerCalls,
  type WorkerNotes,
  writeError,
} from "./messages.ts";

/** The parts of the authority's gateway that answer its workers. */
export type Desk = {
  keys: Keys;
  services: Services;
  requests: RequestLog | undefined;
  log: Log;
  /** Notes the client's address of a request that a worker keeps and only asks about. */
  tellPeer(request: Request, peer: string): void;
};

/** What a worker's request is to the admission: one without a body, since its body is held by the worker. */
const KNOCKING = { left: { aborted: false }, headers: new Headers({ "content-length": "0" }) };

export type SessionEvents = {
  listening(): void;
  /** The worker has learnt which family of models made a proof of reasoning: the others are to be told. */
  proof(told: { proof: string; maker: string }): void;
};

/** A hold of the worker's, and what the log says of its request. */
type Held = { hold: Hold; fields: Fields };

const fieldsOf = ({ requestId, accountId, keyId, dialect, stream, model }: HoldOrder): Fields => ({
  ...{ request_id: requestId, account: accountId, key: keyId, dialect, stream, model },
});

type AuthorityChannel = Channel<WorkerCalls, WorkerNotes, AuthorityCalls, AuthorityNotes>;

/**
 * The authority's side of one worker: it decides what the worker asks, and keeps the places, holds and tool calls that the worker has open. When the worker
 * is gone, these are ended as after a crash: a request is charged for what is known to have been delivered, and its hold is released otherwise.
 */
export class Session {
  readonly channel: AuthorityChannel;
  readonly #permits = new Map<number, Permit>();
  readonly #holds = new Map<number, Held>();
  readonly #tools = new Map<number, AbortController>();
  readonly #prices = new PriceReader();
  /** How many requests the worker has asked to let in. */
  knocks = 0;
  /** How many charges are being written to the store. */
  #settling = 0;
  #nextId = 1;
  #over = false;

  constructor(
    private readonly desk: Desk,
    private readonly events: SessionEvents,
    post: (batch: readonly Message[]) => void,
  ) {
    const { log } = desk;
    const noted = desk.requests && withRequestLog(silentLog, desk.requests);
    this.channel = new Channel<WorkerCalls, WorkerNotes, AuthorityCalls, AuthorityNotes>({
      post,
      onFault: (thrown) => log.error("worker-note", errorFields(thrown)),
      answers: {
        enter: (knock) => this.#enter(knock),
        hold: (order) => this.#hold(order),
        extend: ({ hold, reading }) => this.#extend(hold, reading),
        absorb: ({ hold, beside }) => this.#absorb(hold, this.#end(beside)),
        settle: ({ hold, settlement }) => this.#settle(this.#end(hold), settlement),
        release: (hold) =>
          this.#end(hold)
            .release()
            .then(() => null),
        keepReasoning: ({ accountId, keys, memory }) =>
          desk.services.reasoning.shelf.put(accountId, keys, memory).then(() => null),
        runTool: (order) => this.#runTool(order),
      },
      heard: {
        listening: () => events.listening(),
        leave: (permit) => this.#leave(permit),
        endTool: (call) => this.#tools.get(call)?.abort(new Error("The request is over.")),
        settling: ({ requestId, attempts }) => desk.services.observer?.settling(requestId, attempts),
        proof: (told) => this.events.proof(told),
        logged: ({ level, event, fields }) => noted?.[level](event, fields),
        bodies: ({ requestId, request, reply }) => desk.requests?.addBodies(requestId, request, reply),
      },
    });
  }

  /** How many places and holds the worker has open. */
  get open(): { permits: number; holds: number } {
    return { permits: this.#permits.size, holds: this.#holds.size };
  }

  /** Requests of the worker whose charge has not been written down yet. */
  get atWork(): number {
    return this.#holds.size + this.#settling;
  }

  /** To be called when the worker is gone. Resolves when all that it held is ended; a hold that cannot be ended is logged. */
  async close(): Promise<void> {
    this.#over = true;
    this.channel.close(new Error("The worker is gone."));
    for (const permit of this.#permits.values()) permit.release();
    this.#permits.clear();
    for (const abort of this.#tools.values()) abort.abort(new Error("The worker is gone."));
    const held = [...this.#holds.values()];
    this.#holds.clear();
    await Promise.all(held.map((one) => this.#abandon(one)));
  }

  /** Ends the hold of a request that was cut off with its worker, and writes the request's line of the log, which the worker cannot write any more. */
  async #abandon({ hold, fields }: Held): Promise<void> {
    this.desk.services.log.warn("generate", { ...fields, outcome: "interrupted", cause: "the worker died" });
    try {
      await (hold.abandon ? hold.abandon() : hold.release());
    } catch (thrown) {
      this.desk.log.error("worker-hold", errorFields(thrown));
    }
  }

  /** Lets a request in as the authority does its own: it checks for overload, then the credentials, then the caller's limits. */
  #enter(knock: Knock): Entrance | Promise<Entrance> {
    this.knocks++;
    const turn = this.desk.services.admission?.enter(KNOCKING);
    return turn ? turn.then(() => this.#letIn(knock)) : this.#letIn(knock);
  }

  #letIn(knock: Knock): Entrance {
    // The worker may have died while this waited, and nobody would give the place back.
    if (this.#over) throw new Error("The worker is gone.");
    const { keys, tellPeer } = this.desk;
    const request = toRequest(knock);
    tellPeer(request, knock.peer);
    const caller = authenticate(request, keys);
    return this.#takePlace(caller);
  }

  #takePlace(caller: Caller): Entrance {
    try {
      const permit = this.desk.services.limiter.take(caller, "generate");
      const id = this.#nextId++;
      this.#permits.set(id, permit);
      return { caller, permit: id, rate: permit.state ?? null, refused: null };
    } catch (thrown) {
      if (!(thrown instanceof RateLimited)) throw thrown;
      return { caller, permit: 0, rate: null, refused: writeError(thrown) };
    }
  }

  #leave(id: number): void {
    this.#permits.get(id)?.release();
    this.#permits.delete(id);
  }

  async #hold(order: HoldOrder): Promise<HoldForm | null> {
    const { ledger }: { ledger: Ledger } = this.desk.services;
    let hold: Hold;
    try {
      hold = await ledger.hold(readOrder(order, this.#prices));
    } catch (thrown) {
      if (thrown instanceof Unestimated) return null;
      throw thrown;
    }
    const held = { hold, fields: fieldsOf(order) };
    if (this.#over) {
      await this.#abandon(held);
      throw new Error("The worker is gone.");
    }
    const id = this.#nextId++;
    this.#holds.set(id, held);
    return writeHold(id, hold);
  }

  async #extend(
    id: number,
    reading: Parameters<Hold["extend"]>[0],
  ): Promise<{ granted: boolean; growAt: number | null }> {
    const hold = this.#holds.get(id)?.hold;
    if (!hold) return { granted: false, growAt: null };
    const granted = await hold.extend(reading);
    return { granted, growAt: writeGrowAt(hold.growAt) };
  }

  async #absorb(id: number, beside: Hold): Promise<number | null> {
    const hold = this.#holds.get(id)?.hold;
    await (hold?.absorb ? hold.absorb(beside) : beside.release());
    return hold ? writeGrowAt(hold.growAt) : null;
  }

  /** Takes a hold out of the open ones, to be closed. Throws where there is none of this number: it was closed before, or is another worker's. */
  #end(id: number): Hold {
    const held = this.#holds.get(id);
    if (!held) throw new Error("There is no such hold.");
    this.#holds.delete(id);
    return held.hold;
  }

  async #settle(hold: Hold, settlement: Settlement): Promise<ChargeForm> {
    this.#settling++;
    try {
      return writeCharge(await hold.settle(settlement));
    } finally {
      this.#settling--;
    }
  }

  async #runTool({ call, ...order }: ToolOrder) {
    const { runWebTool } = this.desk.services;
    if (!runWebTool) throw new Error("No web tools are served.");
    const abort = new AbortController();
    this.#tools.set(call, abort);
    try {
      return await runWebTool({ ...order, signal: abort.signal });
    } finally {
      this.#tools.delete(call);
    }
  }
}

/** A request made of what a worker has told, from which credentials and the client's address can be read. */
function toRequest({ path, authorization, apiKey, forwardedFor, isFromHere }: Knock): Request {
  const headers: Record<string, string> = {};
  if (authorization !== null) headers["authorization"] = authorization;
  if (apiKey !== null) headers["x-api-key"] = apiKey;
  if (forwardedFor !== null) headers["x-forwarded-for"] = forwardedFor;
  // Stands for whichever header of a proxy it had: it makes no difference which.
  else if (!isFromHere) headers["via"] = "1.1 somebody";
  return new Request(`http://localhost${path}`, { method: "POST", headers });
}
