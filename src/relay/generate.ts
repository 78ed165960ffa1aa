import { planOf } from "../accounts/plans.ts";
import { requireModel } from "../accounts/scopes.ts";
import { GatewayError, toGatewayError } from "../canon/errors.ts";
import type { Event } from "../canon/events.ts";
import type { Intent } from "../canon/intent.ts";
import type { Entry } from "../catalog/entry.ts";
import { inOwnForms } from "../dialects/own-forms.ts";
import type { Hold, HoldRequest } from "../ledger/ledger.ts";
import { isObject } from "../lib/json.ts";
import type { JsonText } from "../lib/json-text.ts";
import { timeoutsOf } from "../lib/timeouts.ts";
import type { Way } from "../vendors/health.ts";
import { breathe } from "./breathe.ts";
import { dispatch, lookInto, open, tryRoutes, typeOf } from "./dispatch.ts";
import { Exchange, tollHeaders } from "./exchange.ts";
import { findEntry } from "./find-entry.ts";
import type { GenerateRequest, Job, Reply, Services } from "./job.ts";
import { paymentOf, pricesOf, termsOf } from "./payment.ts";
import { tellLoss } from "./prepare.ts";
import { type Chunks, type PieceTaker, tellLater } from "./reply/chunks.ts";
import { Follower } from "./reply/follower.ts";
import { EVENT_STREAM, JSON_TYPE, type Reading, readWhole, type Whole } from "./reply/read-reply.ts";
import { settingsOf } from "./request-settings.ts";
import { noteFailure } from "./routes/note-failure.ts";
import { Ended } from "./running/ended.ts";
import { Visit } from "./running/running.ts";
import type { ServedLoop } from "./server-tools/loop.ts";
import { serveTools } from "./server-tools/server-tools.ts";
import { finishWhole } from "./server-tools/stream.ts";
import { Spending } from "./spending.ts";
import { withoutStrays } from "./stray-fields.ts";
import { RelayedStream } from "./stream.ts";
import { countMedia } from "./tokens/media-tokens.ts";
import { settleTools } from "./vendor-tools.ts";

/** Headers of a stream are sent at the latest after this, so that a client hears something while its model thinks. */
const COMMIT_MS = 5_000;

/**
 * The way of a request: limit, route, hold, orders, translate, send, events, settle. Throws GatewayError for whatever goes wrong
 * before the first byte of the answer; afterwards errors are records of the stream. Closes its exchange exactly once on every exit.
 */
export async function generate(request: GenerateRequest, services: Services): Promise<Reply> {
  const permit = services.limiter.take(request.caller, "generate");
  request.rate = permit.state;
  const exchange = new Exchange(services.clock, services.log, permit, services.observer);
  request.onExchange?.(exchange);
  const visit = request.visit ?? new Visit(services.running, request.caller.keyId, request.left);
  const { abort } = visit;
  try {
    const reading = request.readBody();
    // Nearly always it is there already.
    const read = reading instanceof Promise ? await reading : reading;
    const told = inOwnForms(request.client, read);
    const { body } = told;
    const afterParse = breathe(body);
    if (afterParse) await afterParse;
    abort.throwIfAborted();
    const intent = withoutStrays(request.client.intent(body.value), body.value, request, services);
    visit.isWhole = !intent.stream;
    request.model = intent.model;
    if (intent.stream) services.admission?.checkStream();
    const entry = findEntry(services.catalog, intent.model);
    if (request.caller.narrow) requireModel(request.caller, entry.id);
    const held = hold(request, services, exchange, body, intent, entry);
    keepHold(exchange, held instanceof Promise ? await held : held, intent.model);
    request.client.check(body.value);
    const afterCheck = breathe(body);
    if (afterCheck) await afterCheck;
    abort.throwIfAborted();
    const tooled = settleTools(request, told, entry, services);
    const job: Job = { request, services, exchange, abort, intent, entry, money: exchange.hold, ...tooled };
    if (intent.stream) return await answerStream(job, visit);
    const reply = await answerWhole(job);
    visit.end();
    body.forget();
    return reply;
  } catch (thrown) {
    const ended = abort.reason instanceof Ended ? abort.reason : undefined;
    const error = toGatewayError(ended ?? thrown);
    request.failed = exchange;
    await exchange.fail(ended?.outcome ?? "upstream-failed", ended ? ended.error : error);
    visit.end();
    throw error;
  }
}

function hold(
  request: GenerateRequest,
  services: Services,
  exchange: Exchange,
  body: JsonText,
  intent: Intent,
  entry: Entry,
): Hold | Promise<Hold> {
  const { requestId, caller, client } = request;
  exchange.identity = { requestId, caller, dialect: client.name, stream: intent.stream, model: intent.model };
  request.recorded = true;
  if (services.observer?.traces) {
    exchange.identity.traceparent = request.headers.get("traceparent") ?? undefined;
    exchange.identity.settings = settingsOf(intent, body.value);
  }
  const webTools = isObject(body.value) ? client.serverTools.find(body.value).length : 0;
  exchange.asked = { body, model: intent.model, beside: { webTools, ...countMedia(body.value) } };
  const wanted: HoldRequest = {
    requestId,
    accountId: caller.accountId,
    keyId: caller.keyId,
    model: intent.model,
    dialect: client.name,
    stream: intent.stream,
    estimateInput: exchange.estimateInput,
    prices: pricesOf(entry),
    payment: paymentOf(planOf(services.plans, caller.plan), entry, intent, body),
  };
  if (intent.maxOutputTokens !== undefined) wanted.maxOutputTokens = intent.maxOutputTokens;
  if (intent.choices !== undefined) exchange.meter.choices = wanted.choices = intent.choices;
  if (entry.contextLength !== undefined) wanted.contextLength = entry.contextLength;
  if (caller.narrow?.capped) wanted.terms = termsOf(planOf(services.plans, caller.plan), entry, intent, body);
  return services.ledger.hold(wanted);
}

function keepHold(exchange: Exchange, held: Hold, model: string): void {
  exchange.hold = held;
  if (held.growAt < Number.POSITIVE_INFINITY) exchange.spending = new Spending(held, model, exchange.attempts);
}

/** A blocking answer, cut off at the interface's 95 seconds (interface 8, contract 6: 504, never retried). */
async function answerWhole(job: Job): Promise<Reply> {
  const { services, exchange, abort } = job;
  const seconds = Math.round(services.blockingMs / 1000);
  const cutOff = timeoutsOf(services.clock, services.blockingMs).start(() => {
    const text = `The request was cut off after ${seconds} s. Use "stream": true for long generations.`;
    abort.abort(new Ended("timed-out", new GatewayError("request_timeout", text)));
  });
  try {
    // Also where none was asked for: some vendors stream to everybody.
    const follower = new Follower(exchange);
    const ownCounts = (events: readonly Event[]) => exchange.ownCounts(events);
    const reading: Reading = { abort, clock: services.clock, ownCounts, follower };
    const whole = await tryRoutes(job, async (target, way): Promise<Whole | FirstRound> => {
      try {
        const loop = job.served && serveTools(job, target, way);
        const opened = loop ? await loop.send() : job.money?.asStream ? await open(job, target) : undefined;
        const answer = opened?.answer ?? (await dispatch(job, target));
        const kind = opened?.type ?? typeOf(answer, job, target);
        const type = typeof kind === "string" ? kind : await kind;
        const isSure = opened !== undefined || type === JSON_TYPE || type === EVENT_STREAM;
        const seen = isSure ? { answer, type } : await lookInto(answer, type);
        const reply = readWhole(seen.answer, seen.type, target, reading);
        const read = reply instanceof Promise ? await reply : reply;
        return job.served ? { ...read, loop, way } : read;
      } catch (thrown) {
        if (!abort.aborted) follower.forget();
        throw thrown;
      }
    });
    if (!whole.heard) exchange.meter.take(whole.events);
    exchange.collector?.take(whole.events);
    const text = "way" in whole ? await finishRounds(job, whole, reading) : whole.text;
    await exchange.complete();
    return { kind: "whole", headers: replyHeaders(exchange), body: text };
  } finally {
    cutOff.stop();
  }
}

/** An answer after which more may be asked, and the way along which that is done. `loop`: where the gateway serves the tools, and not the vendor. */
type FirstRound = Whole & { loop: ServedLoop | undefined; way: Way };

/** The rounds that follow; their end tells how their vendor fared. */
async function finishRounds(
  job: Job,
  { events, text: said, loop, way }: FirstRound,
  reading: Reading,
): Promise<string> {
  const { abort, services } = job;
  try {
    const text = loop ? await finishWhole(loop, events, reading) : said;
    services.health.endedWell(loop?.way ?? way);
    return text;
  } catch (thrown) {
    const last = loop?.way ?? way;
    if (abort.aborted) services.health.endedWell(last);
    else noteFailure(job, last, toGatewayError(thrown));
    throw thrown;
  }
}

/**
 * A streamed answer. Its headers wait for the first content, so that a vendor that fails at once is answered with a status or another
 * route; but no longer than {@link COMMIT_MS}.
 */
async function answerStream(job: Job, visit: Visit): Promise<Reply> {
  const state = { committed: false };
  const chunks = new RelayedStream(job, state, visit);
  const first = chunks.next();
  const late = Promise.withResolvers<undefined>();
  const stop = job.services.clock.after(COMMIT_MS, () => {
    state.committed = true;
    late.resolve(undefined);
  });
  const begun: Promise<IteratorResult<string, undefined>>[] = [first];
  try {
    // A ping comes along with early headers: without a byte of body the server holds a part of them back.
    if (!(await Promise.race([first, late.promise]))) {
      begun.unshift(Promise.resolve({ done: false, value: job.request.client.ping }));
      keepPlace(job, first);
    }
  } finally {
    stop();
  }
  state.committed = true;
  return { kind: "stream", headers: replyHeaders(job.exchange), chunks: new Resumed(begun, chunks) };
}

/** Where headers go out before the answer has begun, another route may still be sent the body: its place among large bodies is left only when it begins. */
function keepPlace({ request }: Job, begun: Promise<unknown>): void {
  const { place } = request;
  request.place = undefined;
  const leave = () => place?.leave();
  if (place) begun.then(leave, leave);
}

/** A stream of which the first pieces were asked for already. */
class Resumed implements Chunks {
  constructor(
    private readonly begun: Promise<IteratorResult<string, undefined>>[],
    private readonly chunks: RelayedStream,
  ) {}

  get isLast(): boolean {
    return this.begun.length === 0 && this.chunks.isLast;
  }

  next(): Promise<IteratorResult<string, undefined>> {
    return this.begun.shift() ?? this.chunks.next();
  }

  nextTo(taker: PieceTaker): void {
    const begun = this.begun.shift();
    if (begun) tellLater(begun, taker);
    else this.chunks.nextTo(taker);
  }

  return(): Promise<IteratorResult<string, undefined>> {
    return this.chunks.return();
  }
}

function replyHeaders(exchange: Exchange): Record<string, string> {
  const headers = tollHeaders(exchange);
  tellLoss(headers, exchange.dropped);
  return headers;
}
