import { invalidField } from "../canon/errors.ts";
import type { Orders } from "../canon/intent.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { marksForHour } from "../dialects/cache-marks.ts";
import type { ClientDialect, Quirks, VendorTerms } from "../dialects/dialect.ts";
import { dropMismatched } from "../dialects/messages/block-binding.ts";
import { isSame, passedHeaders, showPaths, translateRequest } from "../dialects/translate.ts";
import type { Fields } from "../lib/http1/fields.ts";
import { JsonText } from "../lib/json-text.ts";
import { wholeText } from "../lib/text-pieces.ts";
import { generationPath } from "../vendors/outgoing.ts";
import type { Sending } from "../vendors/send.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { DROPPED_HEADER, STRICT_HEADER } from "../wire/header-names.ts";
import type { Job } from "./job.ts";
import { termsFor } from "./lessons/plain-servers.ts";
import { leaveOutRefused } from "./lessons/refused-extras.ts";
import { isCollectable, onlyStreams, planOrders, tellByEffort } from "./orders.ts";
import type { ReasoningCollector } from "./reasoning/collector.ts";
import { sessionKey } from "./routes/session.ts";
import type { Target } from "./target.ts";

/** Values of {@link STRICT_HEADER} that ask for nothing. */
const NOT_STRICT: ReadonlySet<string> = new Set(["", "0", "false"]);
/** Most characters of {@link DROPPED_HEADER}. */
const MAX_TOLD_LOSS = 2_000;

/** What decides what is sent: a job, or one that is only shown. */
export type Asked = Pick<
  Job,
  "request" | "services" | "body" | "intent" | "entry" | "abort" | "money" | "proofs" | "plainly" | "lost"
>;

/** A request made ready for one route. Nothing has left the process yet. */
export type Prepared = {
  orders: Orders;
  dropped: readonly string[];
  sending: Sending;
  /** Remembers the reply's reasoning, where its vendor will want it back. */
  collector: ReasoningCollector | undefined;
};

const isAnyProof = (): boolean => true;

const NO_IDS: readonly string[] = [];

/** Whether money is set aside while the reply is made: of one that comes at once it would be known too late that there is not enough. */
const growsPaid = ({ money }: Asked): boolean => money !== undefined && money.growAt < Number.POSITIVE_INFINITY;

/** Gives the name by which a vendor knows the model of an ID, as its route says; a name that is the ID of no model of this vendor's, as it is. */
export const namesAt =
  (vendor: Vendor, catalog: Catalog) =>
  (model: string): string =>
    catalog.find(model)?.routes.find((route) => route.vendor === vendor.id)?.model ?? model;

/** The ids of the calls in the client's conversation. */
const callIdsIn = ({ body }: Asked, { replay }: ClientDialect): readonly string[] =>
  replay.read(body.value, false).turns.flatMap(({ callIds }) => callIds);

/** What a vendor wants that takes what its models thought in a form which those that do not think cannot read. */
function withoutThoughtParts(quirks: Quirks): Quirks {
  if (!quirks.thoughtParts) return quirks;
  const { thoughtParts: _parts, reasoningReplay: _replay, ...others } = quirks;
  return others;
}

/** What is decided about a request for one route: its orders, the vendor's quirks with what it has taught by refusing, and the session that it is told of. */
type Decided = { orders: Orders; quirks: Quirks; session: ReturnType<typeof sessionKey> };

function decide(asked: Asked, target: Target, terms: VendorTerms): Decided {
  const { intent, entry, body, services } = asked;
  const quirks = entry.capabilities.reasoning ? terms.quirks : withoutThoughtParts(terms.quirks);
  const orders = planOrders(asked, target, quirks);
  orders.vendorName = namesAt(target.vendor, services.catalog);
  if (terms.refuses) orders.remove = [...orders.remove, ...terms.refuses];
  if (terms.missesThought) orders.missesThought = true;
  if (terms.thinksByBudget) orders.thinksByBudget = true;
  if (terms.thinksByEffort) tellByEffort(orders, intent.reasoning);
  if (!orders.stream && onlyStreams(orders, intent, quirks)) orders.stream = isCollectable(body.value);
  else if (orders.stream && quirks.noStreams && !growsPaid(asked)) orders.stream = !isCollectable(body.value);
  const { sessionField } = quirks;
  const isRefused = sessionField !== undefined && orders.remove.includes(sessionField);
  const session = isRefused ? undefined : sessionKey(asked, quirks);
  if (session && sessionField) orders.session = { field: sessionField, key: session.key };
  return { orders, quirks, session };
}

/** Tells the orders which proofs of earlier reasoning are known to be of another maker than the route's model, and which to be its own. */
function judgeProofs(orders: Orders, { proofs, services }: Asked, target: Target): void {
  const isForeignProof = proofs === "none" ? isAnyProof : services.reasoning.foreignTo(target);
  if (isForeignProof) orders.isForeignProof = isForeignProof;
  const isOwnProof = proofs === "none" ? undefined : services.reasoning.ownTo(target);
  if (isOwnProof) orders.isOwnProof = isOwnProof;
}

/**
 * The request as this route's vendor is asked: orders, translated body, path and headers, without the key. Sends nothing. Whatever
 * changes a request on its way belongs in here, so that a client who asks for the translation is shown it.
 * Throws GatewayError (invalid_request) where the request cannot be told to this vendor at all.
 */
export function prepare(asked: Asked, target: Target): Prepared {
  const { route, vendor, upstream, client, context } = target;
  const { request, services, abort, proofs } = asked;
  const { orders, quirks, session } = decide(asked, target, termsFor(asked, target));
  const recall = services.reasoning.recall(asked, target, orders, quirks);
  judgeProofs(orders, asked, target);
  const memories = proofs === "none" ? undefined : recall?.memories;
  const { headers: sent } = request;
  const terms = { orders, quirks, headers: sent, memories };
  const { text, dropped, changes } = translateRequest(asked.body, client, upstream, terms);
  if (changes) context.changes = changes;
  const usedCallIds = upstream.repeatsCallIds ? callIdsIn(asked, client) : NO_IDS;
  if (usedCallIds.length > 0) context.usedCallIds = new Set(usedCallIds);
  if (quirks.acceptsCacheControl) context.cachesForHour = marksForHour(wholeText(text));
  if (!isSame(client, upstream)) context.upstreamModel = route.model;
  const passed = passedHeaders(sent, asked.body, client, upstream, vendor.quirks);
  const headers = session && quirks.sessionHeader ? { ...passed, [quirks.sessionHeader]: session.key } : passed;
  const matching = proofs === "matching" ? dropMismatched(new JsonText(wholeText(text)), headers) : undefined;
  if (proofs === "matching" && !matching) return prepare({ ...asked, proofs: "none" }, target);
  const whole: Sending = {
    path: generationPath(vendor, upstream.pathFor, route.model, orders.stream),
    body: matching?.body ?? text,
    headers: matching?.headers ?? headers,
    abort,
    userAgent: services.userAgent,
    requestId: request.requestId,
    stream: orders.stream,
  };
  // A vendor may be another gateway of this kind, which loses what this one can tell it; to others the header says nothing.
  if (isStrict(sent)) whole.headers = { ...whole.headers, [STRICT_HEADER]: "1" };
  const { sending, lost } = leaveOutRefused(whole, asked, target);
  // The session that it names is told otherwise.
  const named = session?.field ? dropped.filter((path) => path !== session.field) : dropped;
  const left = asked.lost ? [...asked.lost, ...named] : named;
  return {
    orders,
    dropped: lost.length > 0 ? [...left, ...lost] : left,
    sending,
    collector: recall?.collector,
  };
}

/** Adds to an answer's headers what its request lost on its way, where it lost anything. */
export function tellLoss(headers: Record<string, string>, dropped: readonly string[]): void {
  if (dropped.length > 0) headers[DROPPED_HEADER] = dropped.join(", ").slice(0, MAX_TOLD_LOSS);
}

/** What a request lost behind its vendor, which is another gateway of this kind and says so in its answer: beside what it lost before. */
export function withFartherLoss(dropped: readonly string[], answer: { headers: Fields }): readonly string[] {
  const told = answer.headers.get(DROPPED_HEADER);
  return told === null ? dropped : showPaths([...dropped, ...told.slice(0, MAX_TOLD_LOSS).split(/, ?/)]);
}

/** Whether the client would rather have a 400 than lose something. Whatever else the header holds, who sends it does not want to lose anything. */
const isStrict = (headers: Fields): boolean => !NOT_STRICT.has(headers.get(STRICT_HEADER)?.trim().toLowerCase() ?? "");

/**
 * Throws GatewayError (invalid_request) when the client asked for strictness: `param` is the first path that this vendor cannot be told,
 * the message names them all. `dropped` is not empty.
 */
export function refuseLoss(headers: Fields, dropped: readonly string[]): void {
  if (!isStrict(headers)) return;
  const [first = ""] = dropped;
  const text = `This model's vendor cannot be told all of the request, and ${STRICT_HEADER} forbids to leave out: ${dropped.join(", ")}.`;
  throw invalidField(first, text);
}
