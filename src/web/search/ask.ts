import { GatewayError } from "../../canon/errors.ts";
import type { Clock } from "../../lib/clock.ts";
import { retryAfterSeconds } from "../../lib/http1/retry-after.ts";
import { isObject } from "../../lib/json.ts";
import { HOUR_MS } from "../../lib/spans.ts";
import { ResponseAnswer } from "../../vendors/answer.ts";
import { fetchUpstream } from "../../vendors/fetch-upstream.ts";
import { readCapped, readRefusal } from "../../vendors/read-answer.ts";
import { limit } from "../safe-fetch/time.ts";
import type { EngineAnswer, EngineCall, Refusal, SearchEngine } from "./engine.ts";

/** How long one engine may take to answer, milliseconds (web-and-mcp.md B3). */
export const ENGINE_DEADLINE_MS = 10_000;
/** The largest answer that is read, bytes. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
/** The longest pause that an engine is given when it asks for one, milliseconds. */
const MAX_PAUSE_MS = HOUR_MS;

/** Why a call to an engine brought no results. Its text is for the log alone. */
export class EngineFault extends Error {
  override readonly name = "EngineFault";
  constructor(
    readonly kind: Refusal,
    message: string,
    /** How long the engine asks not to be called, milliseconds. */
    readonly pauseMs?: number,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** Numbers of a header that holds one for each window, such as `1, 15000`; an empty list where there is no such header. */
const numbersOf = (header: string | null): number[] => header?.split(",").map(Number) ?? [];

/**
 * Seconds until every window that is used up begins anew, by `x-ratelimit-remaining` and `x-ratelimit-reset` (Brave's, "response headers": a
 * number for each window). Undefined where none is used up.
 */
function readReset(headers: Headers): number | undefined {
  const resets = numbersOf(headers.get("x-ratelimit-reset"));
  const used = numbersOf(headers.get("x-ratelimit-remaining")).flatMap((left, at) => (left === 0 ? [resets[at]] : []));
  const waits = used.filter((seconds): seconds is number => seconds !== undefined && seconds >= 0);
  return waits.length > 0 ? Math.max(...waits) : undefined;
}

/** How deep in an answer the time to wait is looked for. */
const MAX_LEVELS = 3;

/** Seconds to wait by Tavily's field (web-and-mcp.md B4), at whatever level of the answer it is. */
function readOwnPause(answer: EngineAnswer, depth = 0): number | undefined {
  if (depth > MAX_LEVELS) return undefined;
  const own = answer["retry_after_seconds"];
  if (typeof own === "number" && own >= 0) return own;
  for (const inner of Object.values(answer)) {
    const found = isObject(inner) ? readOwnPause(inner, depth + 1) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Milliseconds that an answer asks to wait, in its headers or its body. `now`: Unix ms. */
function readPause(headers: Headers, answer: EngineAnswer, now: number): number | undefined {
  const seconds = retryAfterSeconds(headers, now) ?? readReset(headers) ?? readOwnPause(answer);
  return seconds === undefined ? undefined : Math.min(MAX_PAUSE_MS, seconds * 1_000);
}

function parse(text: string): EngineAnswer | undefined {
  try {
    const answer: unknown = JSON.parse(text);
    return isObject(answer) ? answer : undefined;
  } catch {
    // A refusal's body may be anything.
    return undefined;
  }
}

const KINDS: Readonly<Record<number, Refusal>> = {
  ...{ 400: "refused", 404: "broken", 422: "refused", 401: "auth", 403: "auth", 402: "busy", 429: "busy", 432: "busy" },
  433: "busy",
};

async function toFault(
  response: Response,
  { kindOf }: Pick<SearchEngine, "kindOf">,
  clock: Clock,
): Promise<EngineFault> {
  const { status, headers } = response;
  const answer = parse(await readRefusal(new ResponseAnswer(response))) ?? {};
  const kind = kindOf?.(answer) ?? KINDS[status] ?? "broken";
  return new EngineFault(kind, `it answered ${status}`, readPause(headers, answer, clock.now()));
}

/**
 * Calls `engine` and returns its answer's JSON. Throws EngineFault, and the signal's reason once that is aborted. No redirect is followed and no proxy of
 * the environment used, since the request carries a key.
 */
export async function askEngine(
  { method, url, headers, body }: EngineCall,
  engine: Pick<SearchEngine, "kindOf">,
  { clock, userAgent }: { clock: Clock; userAgent: string },
  signal: AbortSignal,
): Promise<EngineAnswer> {
  const patience = limit(clock, ENGINE_DEADLINE_MS, "it took too long", signal);
  const sent = {
    "user-agent": userAgent,
    accept: "application/json",
    ...(body !== undefined && { "content-type": "application/json" }),
    ...headers,
  };
  try {
    const request = { url, headers: sent, body: JSON.stringify(body) ?? "", signal: patience.signal };
    const response = await fetchUpstream(method, request);
    if (!response.ok) throw await toFault(response, engine, clock);
    const answer = parse(await readCapped(new ResponseAnswer(response), MAX_ANSWER_BYTES));
    if (!answer) throw new EngineFault("broken", "its answer is no JSON object");
    return answer;
  } catch (thrown) {
    signal.throwIfAborted();
    if (thrown instanceof EngineFault) throw thrown;
    const text = thrown instanceof GatewayError ? thrown.code : thrown instanceof Error ? thrown.message : "unknown";
    throw new EngineFault("broken", text, undefined, thrown);
  } finally {
    patience.end();
  }
}
