import { requireModel } from "../accounts/scopes.ts";
import { type ErrorCode, GatewayError, invalidField } from "../canon/errors.ts";
import { COST_HEADER, REPLAYED_HEADER, SHOULD_RETRY_HEADER } from "../wire/header-names.ts";
import { type Exchange, tollHeaders } from "./exchange.ts";
import { generate } from "./generate.ts";
import {
  type Answer,
  type Claim,
  type IdempotencyStore,
  type Kept,
  readBody,
  readRecords,
  type Wish,
} from "./idempotency-store.ts";
import type { GenerateRequest, Reply, Services } from "./job.ts";
import { Visit } from "./running/running.ts";

/** Characters of a stream that are collected to be kept; a longer one is not kept. */
const MAX_COLLECTED = 16 * 1024 * 1024;

/** 1 to 255 printable ASCII characters (contract 5). */
const KEY = /^[\x20-\x7e]{1,255}$/;

/** Throws GatewayError (invalid_request) for what is no Idempotency-Key. */
export function checkIdempotencyKey(key: string): void {
  if (KEY.test(key)) return;
  throw invalidField("Idempotency-Key", "An Idempotency-Key has 1 to 255 printable ASCII characters.");
}

/** What two requests under one key must share: method, path and every byte of the body (reliability 3.8). */
export function fingerprint(route: string, body: string): Buffer {
  return new Bun.CryptoHasher("sha256").update(`POST\n${route}\n`).update(body).digest();
}

/** Where answers are kept. */
export type KeptAnswers = Pick<IdempotencyStore, "claim">;

/** A request under an Idempotency-Key: where the answers are, the key as it came, and the path without query. */
export type Keyed = { kept: KeptAnswers; key: string; route: string };

/**
 * {@link generate} under an Idempotency-Key (contract 5): runs once, and gives the same answer again for 24 hours, a stream as one stream
 * of the same bytes. An answer is kept when it was charged; one that cost nothing leaves the key free. Throws what `generate` throws,
 * and GatewayError: invalid_request, idempotency_in_progress, idempotency_key_reused; permission_denied for an answer of a model that the caller's key is
 * not for.
 */
export async function generateOnce(request: GenerateRequest, services: Services, keyed: Keyed): Promise<Reply> {
  checkIdempotencyKey(keyed.key);
  // Before anything is waited for: a key that is revoked while the body comes in, or the claim is written, ends this request too (contract 4).
  const visit = new Visit(services.running, request.caller.keyId, request.left);
  request.visit = visit;
  try {
    return await claimAndRun(request, services, keyed, visit);
  } catch (thrown) {
    visit.end();
    throw thrown;
  }
}

async function claimAndRun(
  request: GenerateRequest,
  services: Services,
  { kept, key, route }: Keyed,
  visit: Visit,
): Promise<Reply> {
  const body = await request.readBody();
  const { requestId, caller } = request;
  // An answer that is given again takes no place, and neither does a refusal of its key: what is left is told beside them all the same (contract 6).
  request.rate = services.limiter.peek?.(caller.accountId, caller.plan, "generate");
  const wish: Wish = { accountId: caller.accountId, route, key, requestId, fingerprint: fingerprint(route, body.text) };
  const claimed = await kept.claim(wish);
  if (claimed.kind === "kept") {
    // Another key of the account may have asked, which is for other models.
    if (caller.narrow) requireModel(caller, request.client.intent(body.value).model);
    visit.end();
    return replay(claimed.answer);
  }
  const { claim } = claimed;
  let exchange: Exchange | undefined;
  request.readBody = () => Promise.resolve(body);
  request.onExchange = (made) => {
    exchange = made;
  };
  try {
    const reply = await generate(request, services);
    if (reply.kind === "stream" && exchange)
      return { ...reply, chunks: new KeptStream(reply, exchange, claim, request) };
    if (reply.kind === "whole") await claim.keep(keptWhole(reply));
    return reply;
  } catch (thrown) {
    if (!exchange?.settledAs) claim.drop();
    else await claim.keep(exchange.settledAs === "client-left" ? null : keptError(thrown, request));
    throw thrown;
  }
}

const WHOLE = { "content-type": "application/json" };
const STREAM = { "content-type": "text/event-stream" };

const keptWhole = ({ headers, body }: Reply & { kind: "whole" }): Answer => ({
  status: 200,
  headers: { ...headers, ...WHOLE },
  body,
});

/** A request that was charged and failed is not run again: the failure is its answer. */
function keptError(thrown: unknown, { client, requestId, failed }: GenerateRequest): Answer | null {
  if (!(thrown instanceof GatewayError)) return null;
  const { status, body } = client.encodeError(thrown, requestId);
  const headers = { ...WHOLE, [SHOULD_RETRY_HEADER]: "false", ...(failed && tollHeaders(failed)) };
  return { status, headers, body: JSON.stringify(body) };
}

/** What an answer that is given again costs. */
const NOTHING = "0.000000000";

/** The headers with which an answer is given again, marked as such. It costs nothing this time. */
export function replayHeaders(headers: Record<string, string>): Record<string, string> {
  return { ...headers, ...(COST_HEADER in headers && { [COST_HEADER]: NOTHING }), [REPLAYED_HEADER]: "true" };
}

const COST_COMMENT = new RegExp(`^: ${COST_HEADER}: .*$`, "m");

/** The last piece of a stream as it is given again: the comment that told its cost says so too. */
const replayEnd = (piece: string) => piece.replace(COST_COMMENT, `: ${COST_HEADER}: ${NOTHING}`);

async function replay(kept: Kept): Promise<Reply> {
  // The edge names the type of what it sends.
  const { "content-type": type, ...headers } = replayHeaders(kept.headers);
  if (type === STREAM["content-type"]) return { kind: "stream", headers, chunks: readRecords(kept) };
  return { kind: "whole", status: kept.status, headers, body: await readBody(kept) };
}

const OVER = { done: true, value: undefined } as const;
const LEFT: ErrorCode = "stream_truncated";

/**
 * A stream on its way to the client, collected as it passes. The piece that carries the terminator is let go once the whole is kept, as it
 * is let go once it is settled: what a client has seen to its end can be replayed.
 */
class KeptStream implements AsyncIterator<string, undefined> {
  readonly #pieces: string[] = [];
  #length = 0;
  #closed = false;

  constructor(
    private readonly reply: Reply & { kind: "stream" },
    private readonly exchange: Exchange,
    private readonly claim: Claim,
    private readonly request: GenerateRequest,
  ) {}

  async next(): Promise<IteratorResult<string, undefined>> {
    try {
      const step = await this.reply.chunks.next();
      if (step.done) await this.#close(false);
      else {
        this.#add(step.value);
        // Not by its books, which may be closed while the ping of early headers is still on its way.
        if (this.reply.chunks.isLast) await this.#close(true);
      }
      return step.done ? OVER : step;
    } catch (thrown) {
      await this.#close(false);
      throw thrown;
    }
  }

  async return(): Promise<IteratorResult<string, undefined>> {
    await this.reply.chunks.return?.();
    await this.#close(false);
    return OVER;
  }

  #add(piece: string): void {
    // Early headers bring a ping along; a replay is not silent and needs none.
    if (piece === this.request.client.ping) return;
    this.#length += piece.length;
    if (this.#length <= MAX_COLLECTED) this.#pieces.push(piece);
    else this.#pieces.length = 0;
  }

  /** `ended`: the last piece says how it ended. A stream that its client left is kept as far as it came, with an error at its end. */
  async #close(ended: boolean): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    if (!this.exchange.settledAs) {
      this.claim.drop();
      return;
    }
    const { client, requestId } = this.request;
    const left = new GatewayError(LEFT, "The stream was cut off here: its first client went away.");
    this.#pieces.push(ended ? replayEnd(this.#pieces.pop() ?? "") : client.encodeErrorFrame(left, requestId));
    const fits = this.#length <= MAX_COLLECTED;
    const headers = { ...this.reply.headers, ...STREAM };
    await this.claim.keep(fits ? { status: 200, headers, body: this.#pieces.join("") } : null);
  }
}
