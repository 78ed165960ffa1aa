import { GatewayError } from "../canon/errors.ts";
import type { Event } from "../canon/events.ts";
import type { Orders } from "../canon/intent.ts";
import type { Memories } from "../canon/memory.ts";
import type { Usage } from "../canon/usage.ts";
import type { Fields } from "../lib/http1/fields.ts";
import { isObject } from "../lib/json.ts";
import { parseExactly } from "../lib/json-numbers.ts";
import { type Edits, editObject, type JsonText, type ObjectText } from "../lib/json-text.ts";
import { type Text, wholeText } from "../lib/text-pieces.ts";
import type { ClientDialect, Decoded, Quirks, ReplyChanges, ReplyContext, UpstreamDialect } from "./dialect.ts";
import { watchRefusedStops } from "./encoded.ts";
import type { Frame } from "./frames.ts";
import { goingFields, isLeftOut } from "./going-fields.ts";
import { calledInexactly, callsInexactly } from "./long-numbers.ts";
import { refuseLostTurns } from "./loss/lost-turns.ts";
import { isSaid, tellLost } from "./loss/told-names.ts";
import { MAX_TOLD } from "./loss/unknown-fields.ts";
import { refuseOddSampling } from "./odd-sampling.ts";
import { markNeeded } from "./reasoning/lost-reasoning.ts";
import { restorePrompt } from "./reasoning/replay.ts";
import { changeEvents, ReplyChanger } from "./reply/changer.ts";
import { nameReply, nameStream, namesAlone } from "./reply/names.ts";
import { lostInWriting } from "./server-tools.ts";
import { soundText } from "./sound-text.ts";

/** An upstream body, ready to send, what could not cross from the client's dialect, and what the reply must be changed back in. */
type UpstreamBody = { text: Text; dropped: readonly string[]; changes?: ReplyChanges | undefined };

/** The diagonal: client and upstream speak one dialect, and nothing is touched that need not change. */
export const isSame = (client: ClientDialect, upstream: UpstreamDialect) => client.name === upstream.name;

const NOTHING_DROPPED: readonly string[] = [];

/** What a body is translated by, beside the two dialects. */
type Terms = {
  orders: Orders;
  quirks: Quirks;
  /** The client's. */
  headers?: Fields;
  /** Reasoning that the client did not send back: it is put in first. */
  memories?: Memories | undefined;
};

/**
 * The client's body as the upstream takes it. On the diagonal it is the client's own text with only the ordered fields edited in;
 * across, it is decoded to its meaning and encoded again. Throws GatewayError (invalid_request) for what cannot be said across at all.
 *
 * The steps for one dialect, for the other and for both are functions of their own, on purpose. The runtime compiles a function for the dialects it has
 * seen in it. One that sees every pair is compiled anew for each, and each time only after twice as many slow calls as before: up to 12,000.
 */
export function translateRequest(
  body: ObjectText,
  client: ClientDialect,
  upstream: UpstreamDialect,
  terms: Terms,
): UpstreamBody {
  if (isSame(client, upstream)) return editSame(body, client, upstream, terms);
  const decoded = decodeAcross(body, client, terms);
  const across = encodeAcross(decoded, upstream, terms);
  refuseLostTurns(decoded.prompt.turns, [...decoded.dropped, ...across.dropped]);
  if (decoded.dropped.length + across.dropped.length === 0) return across;
  const lost = tellLost(across.dropped, body.value, client.ownNames);
  return { ...across, dropped: showPaths([...decoded.dropped, ...lost]) };
}

/** The body on the diagonal. */
function editSame(
  body: ObjectText,
  client: ClientDialect,
  upstream: UpstreamDialect,
  { orders, quirks, headers, memories }: Terms,
): UpstreamBody {
  const sent = body.value;
  const restored = memories && client.replay.restore(sent, memories, quirks.reasoningReplay);
  const value = restored ? { ...sent, ...restored } : sent;
  const edits = { ...restored, ...upstream.amend(value, orders, quirks) };
  if (headers && upstream.headerEdits) Object.assign(edits, upstream.headerEdits(value, headers, quirks));
  const changes = upstream.replyChanges?.(value, quirks);
  let lost = tellLost(
    refused(value, edits, orders, upstream.repairs?.(value, edits, orders, quirks)),
    sent,
    client.ownNames,
  );
  if (orders.isReasoningIgnored) {
    const told = { ...value, ...edits };
    // An effort beside thinking that cannot be switched off may stay.
    const gone = saidOfReasoning(sent, client).filter((path) => !isSaid(told, path));
    lost = [...new Set([...gone, ...lost])];
  }
  if (changes) lost = [...lost, ...lostByChanges(sent, client, changes)];
  if (orders.session && value[orders.session.field] == null) edits[orders.session.field] = orders.session.key;
  const edited = body.editInPieces(edits);
  // What the client spelled out, and nobody put anything in, holds no half characters: it was read as UTF-8.
  const text = restored || body.mayHoldHalves ? soundText(wholeText(edited)) : edited;
  if (lost.length === 0) return { text, dropped: NOTHING_DROPPED, changes };
  const unwatched: string[] = [];
  const watched = watchRefusedStops({ body: value, dropped: unwatched, changes }, edits);
  if (!watched) return { text, dropped: showPaths(lost), changes };
  if (watched.changes && !namesAlone(watched.changes)) upstream.refuseWriting?.(value);
  const untold = tellLost(unwatched, sent, client.ownNames);
  const unseen = watched.changes ? lostByChanges(sent, client, watched.changes) : [];
  const dropped = showPaths([...lost.filter((field) => field !== watched.field), ...untold, ...unseen]);
  return { text, dropped, changes: watched.changes };
}

/** What is lost where a reply must be changed back, and is written anew for that. */
const lostByChanges = (
  sent: Record<string, unknown>,
  { serverTools }: ClientDialect,
  changes: ReplyChanges,
): string[] => (namesAlone(changes) ? [] : lostInWriting(sent, serverTools));

/** What the client means; what its dialect cannot say across is among `dropped`. */
function decodeAcross(body: ObjectText, client: ClientDialect, { orders, memories }: Terms): Decoded {
  const sent = body.value;
  const read = client.decodeRequest(sent);
  const isExact = !client.hasObjectArguments || !calledInexactly(read.prompt.turns);
  const decoded = isExact ? read : client.decodeRequest(parseExactly(body.text) as Record<string, unknown>);
  // While the model reasons, they are left out.
  if (!orders.dropSampling) refuseOddSampling(decoded.prompt);
  if (memories) restorePrompt(decoded.prompt, memories);
  // Who switches it off wants none; clients that forget reasoning send no more of it back than its text (dialects.md 4.3).
  if (orders.reasoning.kind !== "off") markNeeded(decoded.prompt.turns, orders.upstreamModel, !client.replay.forgets);
  // A model of which nobody knows how it is steered: its vendor might refuse the whole request for a guess.
  if (orders.reasoning.kind === "keep" || orders.isReasoningIgnored)
    decoded.dropped.push(...saidOfReasoning(sent, client));
  return decoded;
}

/** The upstream's body of what a client means; what is lost of that is named as the encoder does. */
function encodeAcross(decoded: Decoded, upstream: UpstreamDialect, { orders, quirks }: Terms): UpstreamBody {
  const encoded = upstream.encodeRequest(decoded.prompt, quirks, orders.upstreamModel);
  upstream.markCache?.(encoded.body, orders.upstreamModel, quirks);
  const edits = upstream.amend(encoded.body, orders, quirks);
  const watched = watchRefusedStops(encoded, edits);
  const lost = encoded.dropped;
  for (const field of refused(encoded.body, edits, orders)) if (field !== watched?.field) lost.push(field);
  if (upstream.repairs) lost.push(...upstream.repairs(encoded.body, edits, orders, quirks));
  applyEdits(encoded.body, edits);
  if (orders.session) encoded.body[orders.session.field] ??= orders.session.key;
  const added = watched?.changes ?? encoded.changes;
  const changes = decoded.changes || added ? { ...decoded.changes, ...added } : undefined;
  return { text: soundText(JSON.stringify(encoded.body)), dropped: lost, changes };
}

/** The fields by which a body asks for reasoning. */
const saidOfReasoning = (body: Record<string, unknown>, { reasoningFields }: ClientDialect): string[] =>
  reasoningFields.filter((path) => isSaid(body, path));

/** Fields that were there and are taken out because this model refuses them: a loss like any other, so it is named. */
function refused(
  body: Record<string, unknown>,
  edits: Edits,
  orders: Orders,
  repairs: readonly string[] = NOTHING_DROPPED,
): readonly string[] {
  const going = goingFields(orders);
  if (going.length === 0) return repairs;
  return [...[...new Set(going)].filter((field) => isLeftOut(body, edits, field)), ...repairs];
}

/** Most characters of a path that are shown. */
const MAX_PATH = 200;

/**
 * Paths that may stand in a header and a log line, each once: a client may call a field anything, and a header that cannot be written would turn
 * a paid answer into an error.
 */
export function showPaths(paths: readonly string[]): string[] {
  if (paths.length === 0) return [];
  return [...new Set(paths)].slice(0, MAX_TOLD).map((path) => path.slice(0, MAX_PATH).replace(/[^\x21-\x7e]/g, "?"));
}

function applyEdits(body: Record<string, unknown>, edits: Edits): void {
  for (const field in edits) {
    const value = edits[field];
    if (value === undefined) delete body[field];
    else body[field] = value;
  }
}

/** From which dialect to which a reply goes, and what its writer knows of the request. */
type Crossing = { upstream: UpstreamDialect; client: ClientDialect; context: ReplyContext };

/**
 * A whole upstream reply as the client's, and the events in it for the meter. `ownCounts` gives the counts to tell the client where the
 * vendor sent none: they are not among the events. Throws GatewayError when it is no reply.
 */
export function translateReply(
  body: JsonText,
  { upstream, client, context }: Crossing,
  quirks: Quirks,
  ownCounts?: (events: readonly Event[]) => Usage | undefined,
): { text: string; events: Event[] } {
  try {
    const reading = { quirks, cachesForHour: context.cachesForHour, usedCallIds: context.usedCallIds };
    let events = upstream.decodeReply(body.value, reading);
    if (upstream.hasObjectArguments && callsInexactly(events))
      events = upstream.decodeReply(parseExactly(body.text), reading);
    const own = ownCounts?.(events);
    const told = own ? insertUsage(events, own) : events;
    const { changes } = context;
    const names = changes && namesAlone(changes);
    if (!isSame(client, upstream) || (changes && !names)) return { text: writeWhole(told, client, context), events };
    // Anything else was refused when it was decoded.
    const reply = body as ObjectText;
    const text = client.relabel(names ? nameReply(reply, client, names) : reply, context);
    return { text: own ? editObject(text, countEdits(body.value, told, client, context)) : text, events };
  } catch (thrown) {
    // JSON nested beyond the stack can be read, but not written again.
    if (!(thrown instanceof RangeError)) throw thrown;
    throw new GatewayError("upstream_error", "The vendor's answer is nested too deep to be read.", { cause: thrown });
  }
}

/** Events with these counts, the last word on them, before the finish. */
export function insertUsage(events: readonly Event[], usage: Usage): Event[] {
  const at = events.findIndex((event) => event.type === "finish");
  return at < 0 ? [...events] : [...events.slice(0, at), { type: "usage", usage }, ...events.slice(at)];
}

/** The counts of `told` as the client's dialect writes them, over what the vendor's reply has in their place. */
function countEdits(body: unknown, told: readonly Event[], client: ClientDialect, context: ReplyContext): Edits {
  const { usage } = client.encodeReply(told, context);
  const sent = isObject(body) ? body["usage"] : undefined;
  return { usage: isObject(usage) && isObject(sent) ? { ...sent, ...usage } : usage };
}

/** The last event of a reply, behind the words by which its model declined, where the client's dialect has those as text. */
function withExplanation(event: Event, { explainsApart }: ClientDialect): readonly Event[] {
  const text = event.type === "finish" && !explainsApart ? event.finish.explanation : undefined;
  if (text === undefined) return [event];
  const block = { kind: "text", refusal: true } as const;
  return [{ type: "block-start", block }, { type: "block-delta", text }, { type: "block-end" }, event];
}

/** A whole reply for the client from events, as JSON text. */
export function writeWhole(events: readonly Event[], client: ClientDialect, context: ReplyContext): string {
  const changed = changeEvents(events, context.changes);
  const last = changed.at(-1);
  const ending = last ? withExplanation(last, client) : [];
  const told = ending.length > 1 ? [...changed.slice(0, -1), ...ending] : changed;
  return JSON.stringify(client.encodeReply(told, context));
}

/** Writes a client's stream from what is read of the upstream's: SSE text, or "" when there is nothing to send. */
export type StreamWriter = {
  push(frame: Frame, events: readonly Event[]): string;
  /** The closing records, terminator last, given the events of the decoder's `end()`. */
  end(events: readonly Event[]): string;
  /** An error as the last records, where the dialect has them go on from those before. */
  fail?: ((error: GatewayError) => string) | undefined;
};

/** The writer for a stream: forwards the frames themselves on the diagonal, encodes their events across. */
export function streamWriter({ upstream, client, context }: Crossing): StreamWriter {
  const { changes } = context;
  const names = changes && namesAlone(changes);
  if (!isSame(client, upstream) || (changes && !names)) return eventWriter(client, context);
  const forward = names ? nameStream(client.relabeler(context), client, names) : client.relabeler(context);
  return client.canFollow ? followableWriter(forward, client, context) : forward;
}

/** Forwards a stream that its client can follow, and writes every other one anew from its events. What tells nothing of that yet is held back. */
function followableWriter(forward: StreamWriter, client: ClientDialect, context: ReplyContext): StreamWriter {
  const held: [Frame, readonly Event[]][] = [];
  let decided: StreamWriter | undefined;
  const decide = (writer: StreamWriter): string => {
    decided = writer;
    return held.map(([frame, events]) => writer.push(frame, events)).join("");
  };
  return {
    push(frame, events) {
      if (decided) return decided.push(frame, events);
      held.push([frame, events]);
      if (errorOf(events)) return decide(forward);
      const follows = client.canFollow?.(frame);
      return follows === undefined ? "" : decide(follows ? forward : eventWriter(client, context));
    },
    end(events) {
      const text = decided ? "" : decide(forward);
      return text + (decided ?? forward).end(events);
    },
    get fail() {
      const writer = decided ?? forward;
      return writer.fail?.bind(writer);
    },
  };
}

/** A writer from events alone: for another dialect, and for an upstream that answered a stream with one whole body. */
export function eventWriter(client: ClientDialect, context: ReplyContext): StreamWriter {
  const encoder = client.encoder(context);
  const changer = context.changes && new ReplyChanger(context.changes);
  const write = (events: readonly Event[]) => {
    let text = "";
    for (const event of changer ? events.flatMap((one) => changer.push(one)) : events) {
      if (event.type !== "finish") text += encoder.push(event);
      else for (const one of withExplanation(event, client)) text += encoder.push(one);
    }
    return text;
  };
  return {
    push: (_frame, events) => write(events),
    end: (events) => write(events) + encoder.end(),
    fail: encoder.fail?.bind(encoder),
  };
}

/**
 * Client headers that may cross beside its body: those the dialect names, on the diagonal only. One without a value is none: async-anthropic's client for
 * Rust sends its version so wherever a base URL is set, which Anthropic refuses.
 */
export function passedHeaders(
  headers: Fields,
  body: ObjectText,
  client: ClientDialect,
  upstream: UpstreamDialect,
  quirks: Quirks,
): Record<string, string> {
  const passed: Record<string, string> = {};
  if (!isSame(client, upstream)) return passed;
  for (const name of client.passHeaders) {
    const value = headers.get(name);
    if (!value) continue;
    if (client.passesHeader?.(name, value, body.value, quirks) ?? true) passed[name] = value;
  }
  return passed;
}

/** The first error among events, if any. */
export function errorOf(events: readonly Event[]): GatewayError | undefined {
  for (const event of events) if (event.type === "error") return event.error;
  return undefined;
}
