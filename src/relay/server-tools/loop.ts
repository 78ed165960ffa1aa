import type { BlockStart, Citation, Event, Finish } from "../../canon/events.ts";
import { ReplyChanger } from "../../dialects/reply/changer.ts";
import {
  lostInWriting,
  type ServedCall,
  type ServedFunction,
  type ServedOutcome,
} from "../../dialects/server-tools.ts";
import { isSame } from "../../dialects/translate.ts";
import { editObject, JsonText } from "../../lib/json-text.ts";
import type { Way } from "../../vendors/health.ts";
import { open, type ReadableAnswer } from "../dispatch.ts";
import { failureOf } from "../failure.ts";
import type { Job } from "../job.ts";
import { keepLessons, learnFromRefusal } from "../learn-from-refusal.ts";
import { turnTo } from "../make-target.ts";
import { Tries } from "../routes/tries.ts";
import type { Target } from "../target.ts";
import { estimateInputTokens } from "../tokens/estimate.ts";
import { countMedia } from "../tokens/media-tokens.ts";
import { boundOutput, reserveInput, watchSpending } from "./bounds.ts";
import { faultOf, runCall } from "./call.ts";
import { Sources } from "./cite.ts";

/** Requests to the vendor that one reply may take; the last one must answer. */
export const MAX_ROUNDS = 10;
/** Calls of tools that one reply may make, and how many of them run at the same time. */
export const MAX_CALLS = 20;
const PARALLEL = 2;

/** A block of text, and the citations that its vendor gave itself, where that searches by itself as well. */
type Text = { text: string; cited: Citation[] };

/** What the open block is to the client: shown as it comes, a call that the gateway answers, or a call of the client's own that waits. */
type Open = { kind: "shown" } | ({ kind: "text" } & Text) | { kind: "served"; call: ServedCall } | { kind: "held" };

/**
 * What one round has brought so far. `said`: what its model is told again; `calls`: those that the gateway answers behind it; `held`: calls of the
 * client's own that wait for the end of the reply.
 */
type Round = {
  changer: ReplyChanger | undefined;
  said: Event[];
  calls: ServedCall[];
  held: Event[];
  finish: Finish | undefined;
};

const newRound = (): Round => ({ changer: undefined, said: [], calls: [], held: [], finish: undefined });

/**
 * What the client is told was left out: what was lost before, and fields that a vendor answers in one reply and not in one of several rounds. Where the request
 * is translated, the translation names those. Undefined: nothing.
 */
export function lostInRounds(
  { lost, body }: Pick<Job, "lost" | "body">,
  { client, upstream }: Pick<Target, "client" | "upstream">,
): readonly string[] | undefined {
  if (!isSame(client, upstream)) return lost;
  const more = lostInWriting(body.value, client.serverTools);
  return more.length > 0 ? [...(lost ?? []), ...more] : lost;
}

/**
 * One reply in which the gateway answers the model's calls of web tools itself. The model's rounds are one reply to the
 * client: one start, blocks in a row, usage summed, one finish. Between the rounds the gateway is a client of its own dialect.
 */
export class ServedLoop {
  /** The request as it stands, for the vendor. */
  job: Job;
  /** Where the round under way goes: a later one may go along another way. */
  target: Target;
  way: Way;
  readonly #functions: ReadonlyMap<string, ServedFunction>;
  readonly #sources = new Sources();
  readonly #shownIds = new Set<string>();
  readonly #uses = new Map<ServedFunction, number>();
  #rounds = 1;
  #calls = 0;
  #started = false;
  /** The one under way. */
  #round = newRound();
  #open: Open | undefined;
  /** A text block whose end waits for what follows it. */
  #ended: Text | undefined;
  /** Characters of text in earlier blocks, and citations so far. */
  #before = 0;
  #cited = 0;
  /** When the last round ended, monotonic ms. */
  #endedAt = 0;
  /** The container in which the vendor has run code in any round: the next round finds its files there, and so does the client's next request. */
  #ran: Pick<Finish, "container"> = {};

  constructor(job: Job, target: Target, way: Way, functions: readonly ServedFunction[]) {
    const body = job.body.value;
    const half = target.client.serverTools;
    this.target = target;
    this.way = way;
    this.#functions = new Map(functions.map((served) => [served.name, served]));
    const opened = new JsonText<Record<string, unknown>>(editObject(job.body.text, half.open(body, functions)));
    target.opened = opened;
    this.job = { ...job, body: opened };
    target.context.webCalls = { searches: 0, pages: 0 };
    const said = half.repeats.map((field) => [field, body[field]]);
    target.context.repeated = Object.fromEntries(said.filter(([, value]) => value !== undefined && value !== null));
  }

  /** The model has made calls that the gateway is to answer, and the round has ended. */
  get hasCalls(): boolean {
    return this.#round.finish !== undefined && this.#round.calls.length > 0;
  }

  /** Takes the next events of the vendor's reply and gives those for the client: all but its end. */
  take(events: readonly Event[]): Event[] {
    const { changes } = this.target.context;
    const round = this.#round;
    if (changes) round.changer ??= new ReplyChanger(changes);
    const out: Event[] = [];
    for (const event of events) {
      if (round.changer) for (const changed of round.changer.push(event)) this.#take(changed, out);
      else this.#take(event, out);
    }
    return out;
  }

  #take(event: Event, out: Event[]): void {
    switch (event.type) {
      case "start":
        if (!this.#started) out.push(event);
        this.#started = true;
        return;
      case "block-start":
        this.#begin(event.block, event, out);
        return;
      case "block-delta":
      case "block-signature":
        this.#add(event, out);
        return;
      case "block-citation":
        if (this.#open?.kind === "text") this.#open.cited.push(event.citation);
        return;
      case "block-end":
        this.#end(event, out);
        return;
      case "finish":
        this.#round.finish = event.finish;
        if (event.finish.container) this.#ran = { container: event.finish.container };
        return;
      case "error":
        out.push(event);
        return;
      default:
        // Usage is told once, when all rounds are known.
        return;
    }
  }

  #begin(block: BlockStart, event: Event, out: Event[]): void {
    this.#endText(out, false);
    const served = block.kind === "tool-call" ? this.#functions.get(block.name) : undefined;
    if (served && block.kind === "tool-call") {
      const call = this.#newCall(block.id, served);
      this.#open = { kind: "served", call };
      this.#round.said.push(event);
      const shown = this.#half.callBlock(call);
      if (shown) out.push(this.#opaque(shown));
    } else if (block.kind === "tool-call") {
      this.#open = this.#half.keepsResults ? { kind: "shown" } : { kind: "held" };
      this.#say(this.#open, event, out);
    } else {
      this.#open = block.kind === "text" ? { kind: "text", text: "", cited: [] } : { kind: "shown" };
      // What the vendor has run itself goes back to it too: without that its model would not know of it, and run it once more.
      this.#round.said.push(event);
      out.push(event);
    }
  }

  #newCall(id: string, { offered }: ServedFunction): ServedCall {
    const wanted = this.#half.shownId(id);
    let shownId = wanted;
    // Some vendors count their calls anew in each round.
    for (let count = 2; this.#shownIds.has(shownId); count++) shownId = `${wanted}_${count}`;
    this.#shownIds.add(shownId);
    return { id, shownId, offered, arguments: "" };
  }

  #add(event: Extract<Event, { type: "block-delta" | "block-signature" }>, out: Event[]): void {
    const open = this.#open;
    if (!open) return;
    if (open.kind === "served") {
      this.#round.said.push(event);
      if (event.type === "block-delta") open.call.arguments += event.text;
      return;
    }
    if (open.kind === "text" && event.type === "block-delta") open.text += event.text;
    this.#say(open, event, out);
  }

  #end(event: Event, out: Event[]): void {
    const open = this.#open;
    this.#open = undefined;
    if (!open) return;
    if (open.kind === "served") {
      this.#round.said.push(event);
      this.#round.calls.push(open.call);
      // Shown when it is whole: clients break off a stream whose input is no object, and here it is only the model that has to be told.
      if (this.#half.callBlock(open.call))
        out.push({ type: "block-delta", text: this.#half.callInput(open.call) }, event);
    } else if (open.kind === "text") {
      this.#round.said.push(event);
      this.#ended = open;
    } else this.#say(open, event, out);
  }

  /** Passes an event to the client and keeps it for the next round. Calls of the client's own are held for the reply's end where it could send no results with them now. */
  #say(open: Open, event: Event, out: Event[]): void {
    if (open.kind === "held") {
      this.#round.held.push(event);
      return;
    }
    this.#round.said.push(event);
    out.push(event);
  }

  /** The end of a text block with the pages that it names; `all`: those that it does not name too, where no text has named one. */
  #endText(out: Event[], all: boolean): void {
    if (this.#ended === undefined) return;
    const { text, cited } = this.#ended;
    this.#ended = undefined;
    // A vendor knows of no round but its own.
    const told = cited.map((citation) => ({ ...citation, before: this.#before }));
    let citations = [...told, ...this.#sources.cited(text, this.#before)];
    if (all && this.#cited + citations.length === 0) citations = this.#sources.unnamed(text, this.#before);
    this.#cited += citations.length;
    this.#before += text.length;
    for (const citation of citations) out.push({ type: "block-citation", citation });
    out.push({ type: "block-end" });
  }

  /**
   * Answers the calls of the round that has ended. `shown`: what the client sees of it; `goesOn`: the vendor is to be asked again. `onAnswered` is told of
   * each call that has run. Throws the reason of the request's signal.
   */
  async answerCalls(onAnswered?: () => void): Promise<{ shown: Event[]; goesOn: boolean }> {
    this.#endedAt = this.job.services.clock.monotonic();
    const round = this.#round;
    const shown: Event[] = [];
    this.#endText(shown, false);
    // A call that was cut off may not be what the model meant.
    const sound = round.finish?.reason === "tool-calls";
    const { calls } = round;
    round.calls = [];
    const outcomes = sound ? await this.#run(calls, onAnswered) : calls.map((call) => faultOf(call, "unavailable"));
    for (const outcome of outcomes) {
      this.#note(outcome);
      const block = this.#half.resultBlock(outcome);
      if (block) shown.push(this.#opaque(block), { type: "block-end" });
    }
    const ownCalls = this.#half.keepsResults && round.said.some((event) => this.#isOwnCall(event));
    const goesOn = sound && !ownCalls && this.#rounds < MAX_ROUNDS;
    if (goesOn) this.#extend(outcomes);
    else if (sound && !ownCalls) round.finish = { reason: "stop", raw: "pause_turn" };
    return { shown, goesOn };
  }

  #isOwnCall(event: Event): boolean {
    if (event.type !== "block-start") return false;
    const { block } = event;
    if (block.kind === "tool-call") return !this.#functions.has(block.name);
    return block.kind === "opaque" && this.#half.isClients?.(block.value) === true;
  }

  async #run(calls: readonly ServedCall[], onAnswered: (() => void) | undefined): Promise<ServedOutcome[]> {
    const outcomes: ServedOutcome[] = new Array(calls.length);
    const left = calls.entries();
    const runInTurn = async () => {
      for (const [at, call] of left) {
        outcomes[at] = this.#mayRun(call) ? await runCall(call, this.job) : faultOf(call, "used_up");
        onAnswered?.();
      }
    };
    await Promise.all(Array.from({ length: PARALLEL }, runInTurn));
    return outcomes;
  }

  /** Counts a call against the client's bound and the gateway's own. */
  #mayRun({ offered }: ServedCall): boolean {
    for (const served of this.#functions.values()) {
      if (served.offered !== offered) continue;
      const uses = (this.#uses.get(served) ?? 0) + 1;
      if (this.#calls >= MAX_CALLS || uses > (offered.maxUses ?? MAX_CALLS)) return false;
      this.#uses.set(served, uses);
      this.#calls++;
    }
    return true;
  }

  #note(outcome: ServedOutcome): void {
    this.#sources.add(outcome);
    const { webCalls } = this.target.context;
    if (!webCalls || outcome.kind === "fault") return;
    if (outcome.kind === "results") webCalls.searches++;
    else webCalls.pages++;
  }

  /** The request goes on with what the model said and what came of it. */
  #extend(outcomes: readonly ServedOutcome[]): void {
    const { client, context } = this.target;
    const { job } = this;
    this.#rounds++;
    const told = { ...context, replyId: `${context.replyId}${this.#rounds}` };
    delete told.changes;
    // Its vendor is told what it thought.
    delete told.hidesReasoning;
    const said: Event[] = [...this.#round.said, { type: "finish", finish: { reason: "tool-calls", ...this.#ran } }];
    const reply = client.encodeReply(said, told);
    const last = this.#rounds === MAX_ROUNDS;
    const edits = this.#half.extend(job.body.value, reply, outcomes, last);
    this.job = { ...job, body: new JsonText(editObject(job.body.text, edits)) };
    this.#round = newRound();
  }

  /**
   * Sends the request of the next round, and gives what `receive` makes of its answer; undefined when there are no tokens or no money left for it, and the
   * reply is to end. What `receive` throws is a failure of the call; `onAsk` is told of each call. Throws GatewayError when no usable answer comes.
   */
  async openRound<T>(receive: (opened: ReadableAnswer) => T | Promise<T>, onAsk?: () => void): Promise<T | undefined> {
    const { job } = this;
    const { exchange, intent } = job;
    await exchange.collector?.kept;
    const beside = countMedia(job.body.value);
    const estimate = () => estimateInputTokens(job.body, intent.model, beside);
    const bounded = boundOutput(job);
    if (!bounded || !(await reserveInput(job, estimate))) {
      this.#round.finish = { reason: "length" };
      exchange.meter.finish = this.#round.finish;
      return undefined;
    }
    watchSpending(job);
    exchange.meter.nextRound(exchange.estimateInput, estimate);
    exchange.spending?.nextRound();
    this.job = bounded;
    const askedAt = job.services.clock.monotonic();
    exchange.attempts.nextRound(this.#endedAt, askedAt);
    try {
      return await this.#ask(receive, onAsk);
    } catch (thrown) {
      return this.#sendAgain(thrown, askedAt, receive, onAsk);
    }
  }

  async #ask<T>(receive: (opened: ReadableAnswer) => T | Promise<T>, onAsk: (() => void) | undefined): Promise<T> {
    onAsk?.();
    return receive(await this.send());
  }

  /**
   * A round that failed before anything came of it, once more along its way or along another one, as a first request is (reliability 6.2): what was said
   * and searched before is paid, and would be lost. Throws GatewayError of the last call where none is left.
   */
  async #sendAgain<T>(
    thrown: unknown,
    askedAt: number,
    receive: (opened: ReadableAnswer) => T | Promise<T>,
    onAsk: (() => void) | undefined,
  ): Promise<T> {
    const { job } = this;
    const { exchange, abort } = job;
    const tries = new Tries(job);
    let from = tries.goOn(this.way);
    let calledAt = askedAt;
    for (let failure = thrown; ; ) {
      const error = failureOf(failure, job, this.target);
      abort.throwIfAborted();
      const hasBegun = exchange.meter.hasRoundBegun;
      if (!hasBegun) exchange.forgetRound();
      if (!from || hasBegun) {
        tries.end();
        throw error;
      }
      exchange.attempts.failRound(error.code, calledAt);
      const next = learnFromRefusal(error, job, this.target) ? from : await tries.next(from, error);
      exchange.attempts.repeat(next.way);
      // Also along the same way: what was learnt may be that its vendor is to be asked in another dialect.
      this.target = turnTo(this.target, next, job);
      this.way = next.way;
      from = next;
      calledAt = exchange.attempts.begunAt;
      try {
        const received = await this.#ask(receive, onAsk);
        tries.wentWell(next);
        keepLessons(job, this.target);
        return received;
      } catch (again) {
        if (abort.aborted) tries.left(next);
        failure = again;
      }
    }
  }

  /** Sends the request of this round; see {@link open}. */
  send(): Promise<ReadableAnswer> {
    const { job, target } = this;
    return open({ ...job, lost: lostInRounds(job, target) }, target);
  }

  /** The reply's last events. `cut`: it is ended from outside, perhaps inside a block. */
  finish(cut?: Finish): Event[] {
    const { exchange } = this.job;
    const out: Event[] = [];
    const finish = cut ?? this.#round.finish ?? { reason: "stop" };
    if (this.#open?.kind === "text") this.#ended = this.#open;
    else if (this.#open && this.#isShown(this.#open)) out.push({ type: "block-end" });
    this.#endText(out, this.#half.citesAll && finish.reason === "stop");
    if (!cut) out.push(...this.#round.held);
    const { usage } = exchange.counted;
    out.push({ type: "usage", usage }, { type: "finish", finish: { ...finish, ...this.#ran } });
    return out;
  }

  #isShown(open: Open): boolean {
    return open.kind === "served" ? this.#half.callBlock(open.call) !== undefined : open.kind !== "held";
  }

  #opaque(value: Record<string, unknown>): Event {
    return { type: "block-start", block: { kind: "opaque", dialect: this.target.client.name, value } };
  }

  get #half() {
    return this.target.client.serverTools;
  }
}
