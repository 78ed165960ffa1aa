import type { Caller } from "../accounts/caller.ts";
import type { Keys } from "../accounts/keys.ts";
import { authenticate } from "../http/credentials.ts";
import type { Hold, Ledger, Settlement } from "../ledger/ledger.ts";
import { type Permit, RateLimited } from "../limits/limiter.ts";
import { errorFields, type Fields, type Log, silentLog } from "../observe/log.ts";
import { type RequestLog, withRequestLog } from "../observe/request-log.ts";
import type { Services } from "../relay/job.ts";
import { Channel, type Message } from "./channel.ts";
import { PriceReader, readOrder, writeCharge, writeGrowAt, writeHold } from "./hold-forms.ts";
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

/** What the authority decides by: the parts of its own gateway. */
export type Desk = {
  keys: Keys;
  services: Services;
  requests: RequestLog | undefined;
  log: Log;
  /** Notes from where a request comes that is only told of: whoever asks for its address is answered this one. */
  tellPeer(request: Request, peer: string): void;
};

/** What waits to come in with a knock: nothing of its body, which lies at the worker. */
const KNOCKING = { left: { aborted: false }, headers: new Headers({ "content-length": "0" }) };

export type SessionEvents = {
  listening(): void;
  /** The worker has learnt who made a proof of reasoning: the others are to know it. */
  proof(told: { proof: string; maker: string }): void;
};

/** A hold of the worker's, and whose request it is for. */
type Held = { hold: Hold; fields: Fields };

const fieldsOf = ({ requestId, accountId, keyId, dialect, stream, model }: HoldOrder): Fields => ({
  ...{ request_id: requestId, account: accountId, key: keyId, dialect, stream, model },
});

type AuthorityChannel = Channel<WorkerCalls, WorkerNotes, AuthorityCalls, AuthorityNotes>;

/**
 * One worker, as the authority has it: what it asks is decided here, and what it holds is known here. When the worker is gone, whatever it
 * held is ended by the rule of a crash: charged by what is known to have been delivered, and else let go.
 */
export class Session {
  readonly channel: AuthorityChannel;
  readonly #permits = new Map<number, Permit>();
  readonly #holds = new Map<number, Held>();
  readonly #tools = new Map<number, AbortController>();
  readonly #prices = new PriceReader();
  /** Requests that knocked at it. */
  knocks = 0;
  /** Charges that are being written down. */
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

  /** Requests that the worker has under way, as far as they are limited or held. */
  get open(): { permits: number; holds: number } {
    return { permits: this.#permits.size, holds: this.#holds.size };
  }

  /** Requests of the worker whose charge has not been written down yet. */
  get atWork(): number {
    return this.#holds.size + this.#settling;
  }

  /** The worker is gone. Resolves when all that it held is ended; a hold that cannot be is for the log. */
  async close(): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    this.channel.close(new Error("The worker is gone."));
    for (const permit of this.#permits.values()) permit.release();
    this.#permits.clear();
    for (const abort of this.#tools.values()) abort.abort(new Error("The worker is gone."));
    const held = [...this.#holds.values()];
    this.#holds.clear();
    await Promise.all(held.map((one) => this.#abandon(one)));
  }

  /** What became of a request that was cut off with its worker is a line of the log, as of any other: nobody else can write it. */
  async #abandon({ hold, fields }: Held): Promise<void> {
    this.desk.services.log.warn("generate", { ...fields, outcome: "interrupted", cause: "the worker died" });
    try {
      await (hold.abandon ? hold.abandon() : hold.release());
    } catch (thrown) {
      this.desk.log.error("worker-hold", errorFields(thrown));
    }
  }

  /** The way into the gateway, as every request takes it: overload, credentials, the caller's limit. */
  #enter(knock: Knock): Entrance | Promise<Entrance> {
    this.knocks++;
    const turn = this.desk.services.admission?.enter(KNOCKING);
    return turn ? turn.then(() => this.#letIn(knock)) : this.#letIn(knock);
  }

  #letIn(knock: Knock): Entrance {
    // It has waited: of a worker that is gone by now nobody would give the place back.
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

  async #hold(order: HoldOrder): Promise<HoldForm> {
    const { ledger }: { ledger: Ledger } = this.desk.services;
    const hold = await ledger.hold(readOrder(order, this.#prices));
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

  /** The hold that is being closed. Throws for one that is not open: it was closed before, or is another worker's. */
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

/** What is told of a request, as one that credentials can be read from. */
function toRequest({ path, authorization, apiKey, forwardedFor, isFromHere }: Knock): Request {
  const headers: Record<string, string> = {};
  if (authorization !== null) headers["authorization"] = authorization;
  if (apiKey !== null) headers["x-api-key"] = apiKey;
  if (forwardedFor !== null) headers["x-forwarded-for"] = forwardedFor;
  // Which of the headers of somebody in between it was, counts for nothing.
  else if (!isFromHere) headers["via"] = "1.1 somebody";
  return new Request(`http://localhost${path}`, { method: "POST", headers });
}
