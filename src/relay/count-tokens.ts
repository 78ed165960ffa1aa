import { requireModel } from "../accounts/scopes.ts";
import { GatewayError, toGatewayError } from "../canon/errors.ts";
import type { Intent, ReasoningIntent } from "../canon/intent.ts";
import type { Entry, Route } from "../catalog/entry.ts";
import { tokenFamilyOf } from "../catalog/token-families.ts";
import type { Decoded, TokenCounter, UpstreamDialect } from "../dialects/dialect.ts";
import { upstreamFor } from "../dialects/index.ts";
import { isSame, passedHeaders, translateRequest } from "../dialects/translate.ts";
import { Abort } from "../lib/abort.ts";
import { listOf } from "../lib/json.ts";
import { wholeText } from "../lib/text-pieces.ts";
import { errorFields } from "../observe/log.ts";
import type { EndCall } from "../observe/work-book.ts";
import { isOk } from "../vendors/answer.ts";
import { isKeysFault } from "../vendors/health.ts";
import { keysOf } from "../vendors/keys.ts";
import { MAX_ERROR_BYTES, readCapped, readRefusal } from "../vendors/read-answer.ts";
import { send } from "../vendors/send.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { findEntry } from "./find-entry.ts";
import type { GenerateRequest, Services } from "./job.ts";
import { planOrders } from "./orders.ts";
import { namesAt } from "./prepare.ts";
import { showTools } from "./server-tools/server-tools.ts";
import type { Tokenizer } from "./tokenizer/tokenizer.ts";
import { estimateInputTokens } from "./tokens/estimate.ts";
import { measurePrompt, sumTokens } from "./tokens/measure.ts";
import { settleTools, type Tooled } from "./vendor-tools.ts";

/** Vendors' own counters have this long together, milliseconds; then the gateway counts. */
export const VENDOR_COUNT_MS = 3_000;
/** So many ways are asked for one count at the most. */
const MOST_ASKED = 2;
/** A count beyond this is no count, tokens. */
const MOST_TOKENS = 1_000_000_000;
/**
 * A vendor's count of which the gateway's own rough one is more than so many times as large is not believed: something in between
 * answers with a number of its own, and an agent that believes it overruns its window (field.md 22).
 */
const MOST_DOUBTED = 20;

/** A client's request for a count, its body not yet read. */
export type CountRequest = Omit<GenerateRequest, "onExchange" | "left"> & {
  /** Aborts when the client goes away. */
  signal: AbortSignal;
  /** Throws GatewayError (invalid_request, with param) when the body is no conversation of the client's dialect. */
  check(body: unknown): void;
  /** A vendor is called; what is returned is told how that ended. Absent where nobody wants to know. */
  onCall?: ((vendor: string, model: string) => EndCall) | undefined;
};

/** Input tokens, and what their vendor left out before it counted, where it tells of that. */
type Counted = { inputTokens: number; contextManagement?: unknown };
/** Input tokens, and who counted them: `vendor` is the one that did. */
export type Count = Counted & { by: "vendor" | "local"; vendor?: string; upstreamModel?: string };

/**
 * Input tokens of a conversation (interface 4.6): by the vendor's own counter where its row says that it has one, else, and when that
 * fails or is slow, by the gateway. Nothing is charged and no usage row is written. Throws GatewayError for what a generation would be
 * refused for, and when the length cannot be known.
 */
export async function countTokens(request: CountRequest, services: Services, tokenizer: Tokenizer): Promise<Count> {
  const permit = services.limiter.take(request.caller, "count-tokens");
  request.rate = permit.state;
  const startedAt = services.clock.monotonic();
  try {
    const body = await request.readBody();
    const intent = request.client.intent(body.value);
    request.model = intent.model;
    const entry = findEntry(services.catalog, intent.model);
    if (request.caller.narrow) requireModel(request.caller, entry.id);
    request.check(body.value);
    const server = findServer({ request, services, entry });
    const tooled = settleTools(request, { body, lost: [] }, entry, services);
    const asked: CountJob = { request, services, intent, entry, server, ...tooled };
    // As it would be told there: with functions in the place of web tools that the gateway serves.
    const job = server ? showTools(asked, { client: request.client, ...server }) : asked;
    const byVendor = await countByVendor(job);
    const count: Count = byVendor ?? { inputTokens: await countLocally(job, tokenizer), by: "local" };
    services.log.info("count-tokens", {
      request_id: request.requestId,
      account: request.caller.accountId,
      model: intent.model,
      by: count.by,
      input_tokens: count.inputTokens,
      duration_ms: Math.round(services.clock.monotonic() - startedAt),
    });
    return count;
  } finally {
    permit.release();
  }
}

type CountJob = Tooled & {
  request: CountRequest;
  services: Services;
  intent: Intent;
  entry: Entry;
  server: Pick<Counter, "vendor" | "upstream"> | undefined;
};
type Counter = { route: Route; vendor: Vendor; upstream: UpstreamDialect; counter: TokenCounter };

/** Whom a generation would go to first, as far as that is known: the first route whose vendor is switched on. */
function findServer({
  request,
  entry,
  services,
}: Pick<CountJob, "request" | "entry" | "services">): CountJob["server"] {
  for (const route of entry.routes) {
    const vendor = services.vendor(route.vendor);
    if (vendor) return { vendor, upstream: upstreamFor(request.client, vendor.dialect, route.dialect) };
  }
  return undefined;
}

/**
 * The ways whose vendors count by themselves, in the routes' order, with each of a vendor's keys. Where one was refused or fails, as generations have
 * found out, a count would only wait for it: the gateway has its own.
 */
function findCounters({ request, entry, services }: CountJob): Counter[] {
  const counters: Counter[] = [];
  for (const route of entry.routes) {
    const vendor = services.vendor(route.vendor);
    if (!vendor?.quirks.countTokens || (vendor.auth !== "none" && !vendor.apiKey)) continue;
    const upstream = upstreamFor(request.client, vendor.dialect, route.dialect);
    const { counter } = upstream;
    if (!counter) continue;
    const each = keysOf(vendor);
    for (const [key, keyed] of each.entries()) {
      const way = { vendor: vendor.id, key, keys: each.length, model: route.model };
      if (services.health.isOfUse(way)) counters.push({ route, vendor: keyed, upstream, counter });
    }
  }
  return counters;
}

/** Whether a count may go well along this way where it failed along another one: what is wrong with a vendor's counter is so for all of its keys. */
function isElsewhere({ vendor }: Counter, failed: Counter, error: GatewayError): boolean {
  return vendor.id !== failed.vendor.id || isKeysFault(error) || error.code === "rate_limit_exceeded";
}

/** A vendor's count; undefined when none counts, or when those that do failed or took too long, which is logged. */
async function countByVendor(job: CountJob): Promise<Count | undefined> {
  const { request, services } = job;
  let left = findCounters(job);
  if (left.length === 0) return undefined;
  const abort = Abort.of(request.signal);
  const cancel = services.clock.after(VENDOR_COUNT_MS, () =>
    abort.abort(new GatewayError("request_timeout", "The vendor did not count in time.")),
  );
  try {
    for (let asked = 0; asked < MOST_ASKED; asked++) {
      const [counter] = left;
      if (!counter || abort.aborted) return undefined;
      const count = await askCounter(job, counter, abort);
      if (!(count instanceof GatewayError)) return count;
      left = left.slice(1).filter((other) => isElsewhere(other, counter, count));
    }
    return undefined;
  } finally {
    cancel();
  }
}

/** One vendor's count, or why it gave none. Throws GatewayError when the client has left. */
async function askCounter(job: CountJob, counter: Counter, abort: Abort): Promise<Count | GatewayError> {
  const { request, services } = job;
  const { vendor, route } = counter;
  const end = request.onCall?.(vendor.id, route.model);
  try {
    const counted = await askVendor(job, counter, abort);
    end?.("served");
    return { ...counted, by: "vendor", vendor: vendor.id, upstreamModel: route.model };
  } catch (thrown) {
    if (request.signal.aborted) throw new GatewayError("invalid_request", "The client left.");
    const reason = abort.aborted ? abort.reason : thrown;
    const error = toGatewayError(reason);
    end?.(error.code);
    services.log.warn("count-fallback", {
      request_id: request.requestId,
      vendor: vendor.id,
      ...errorFields(reason),
    });
    return error;
  }
}

async function askVendor(job: CountJob, asked: Counter, abort: Abort): Promise<Counted> {
  const { request, services, body, intent, entry } = job;
  const { route, vendor, upstream, counter } = asked;
  const orders = planOrders({ intent, entry }, { route, client: request.client, upstream }, vendor.quirks);
  orders.vendorName = namesAt(vendor, services.catalog);
  const { text: translated } = translateRequest(body, request.client, upstream, { orders, quirks: vendor.quirks });
  const passed = passedHeaders(request.headers, body, request.client, upstream, vendor.quirks);
  const isTaken = ([name]: [string, string]) => counter.passesHeader?.(name, vendor.quirks) ?? true;
  const answer = await send(vendor, {
    path: counter.path(route.model, vendor.quirks),
    body: counter.body(wholeText(translated), route.model, vendor.quirks),
    headers: Object.fromEntries(Object.entries(passed).filter(isTaken)),
    abort,
    userAgent: services.userAgent,
    requestId: request.requestId,
  });
  if (!isOk(answer)) throw upstream.decodeError(answer.status, await readRefusal(answer), undefined);
  const value = readAnswer(await readCapped(answer, MAX_ERROR_BYTES));
  const inputTokens = readCount(counter.read(value));
  const edited = counter.edited?.(value);
  const whole = readCount(edited?.original ?? inputTokens);
  if (whole * MOST_DOUBTED < estimateInputTokens(body, entry.id)) {
    throw new GatewayError("upstream_error", `The vendor's count of ${whole} is far too small.`);
  }
  return edited ? { inputTokens, contextManagement: edited.context_management } : { inputTokens };
}

/** A counter's answer. Throws GatewayError (upstream_error) when it is no JSON. */
function readAnswer(answer: string): unknown {
  try {
    return JSON.parse(answer);
  } catch (cause) {
    throw new GatewayError("upstream_error", "The vendor's count could not be read.", { cause });
  }
}

/** A number in a counter's answer. Throws GatewayError (upstream_error) when it can be none. */
function readCount(count: unknown): number {
  // A gateway in between that does not know the path may well answer 200 with a zero (field.md 22).
  if (typeof count === "number" && Number.isInteger(count) && count > 0 && count < MOST_TOKENS) return count;
  throw new GatewayError("upstream_error", "The vendor's count is no count.");
}

const isThinking = ({ kind }: ReasoningIntent): boolean => !["omitted", "off", "unrecognised"].includes(kind);

/** The definitions behind the paths `tools[<index>]` among what could not cross: tools that a vendor runs itself. */
function vendorToolsOf(body: Record<string, unknown>, dropped: readonly string[]): unknown[] {
  const places = new Set(dropped);
  return listOf(body["tools"]).filter((_tool, at) => places.has(`tools[${at}]`));
}

/** What the client means; undefined where it can be told to no other dialect, such as a toolset, and need not be. */
function decodeOwn({ request: { client }, body, server }: CountJob): Decoded | undefined {
  try {
    return client.decodeRequest(body.value);
  } catch (thrown) {
    if (thrown instanceof GatewayError && server && isSame(client, server.upstream)) return undefined;
    throw thrown;
  }
}

async function countLocally(job: CountJob, tokenizer: Tokenizer): Promise<number> {
  const { request, body, intent, entry } = job;
  const value = body.value;
  const family = tokenFamilyOf(entry.id);
  const decoded = decodeOwn(job);
  if (!decoded) return estimateInputTokens(body, entry.id);
  const { prompt, dropped } = decoded;
  const vendorTools = vendorToolsOf(value, dropped);
  const thinks = isThinking(intent.reasoning);
  // Where the vendor is sent the reasoning of all earlier turns (dialects.md 4.8).
  const replaysReasoning = job.server?.vendor.quirks.reasoningReplay !== undefined;
  const measure = measurePrompt(prompt, family, { thinks, vendorTools, replaysReasoning });
  return sumTokens(measure, await tokenizer.count(measure.work, request.signal), family);
}
