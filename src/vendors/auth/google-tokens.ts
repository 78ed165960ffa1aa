import { GatewayError } from "../../canon/errors.ts";
import { isObject, stringOf } from "../../lib/json.ts";
import { until } from "../../lib/signals.ts";
import { isOk, ResponseAnswer, readText } from "../answer.ts";
import { LIFETIME_S, readCredentials } from "./google-credentials.ts";

/** In this last part of its life, ms, a token is not used any more: it must not end while a request is on its way. */
const MARGIN_MS = 60_000;
/** So long before a token's end, ms, the next one is asked for, while the old one is still used: where the endpoint fails for a while, no request does. */
const AHEAD_MS = 5 * 60_000;
/** The least time between two such attempts, ms. */
const PAUSE_MS = 10_000;
/** The token's endpoint has to answer in this time, milliseconds. */
const ANSWER_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1024;
/**
 * Where this machine's clock differs from the endpoint's by more than this, ms, it is taken for wrong: Google refuses what was signed for a time that has not
 * come, or is over.
 */
const CLOCK_OFF_MS = 60_000;

type Token = { headers: Readonly<Record<string, string>>; expiresAt: number };
/** `asksAt`: before this, Unix ms, no further token is asked for ahead. */
type Entry = { token?: Token; pending?: Promise<Token>; asksAt?: number };

/** What the token's endpoint answers, as far as it is read. `dateMs`: its own time, Unix milliseconds; NaN where it tells none. */
type TokenAnswer = { status: number; dateMs: number; text: string };

async function askToken(tokenUri: string, grant: URLSearchParams, proxy: string | undefined): Promise<TokenAnswer> {
  try {
    const response = await fetch(tokenUri, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
      body: grant.toString(),
      redirect: "manual",
      signal: AbortSignal.timeout(ANSWER_MS),
      proxy: proxy ?? false,
    });
    const dateMs = Date.parse(response.headers.get("date") ?? "");
    return { status: response.status, dateMs, text: await readText(new ResponseAnswer(response), MAX_ANSWER_BYTES) };
  } catch (cause) {
    const message = "The server that gives tokens for the Google credentials cannot be reached.";
    throw new GatewayError("upstream_unreachable", message, { cause });
  }
}

/** What the answer holds; `expiresAt`: Unix milliseconds. */
function parseToken(text: string, nowMs: number): { token: string; expiresAt: number } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) return undefined;
    const token = stringOf(value["access_token"]);
    const seconds = typeof value["expires_in"] === "number" ? value["expires_in"] : LIFETIME_S;
    return token === "" ? undefined : { token, expiresAt: nowMs + seconds * 1000 };
  } catch {
    // A page of a proxy in between, or half an answer: no token either way.
    return undefined;
  }
}

/**
 * Access tokens for Google credentials: one for each, used until a minute before its end, renewed ahead of that, and asked for once however many requests wait
 * for it.
 */
export class GoogleTokens {
  readonly #entries = new Map<string, Entry>();

  /** `now`: Unix milliseconds. */
  constructor(private readonly now: () => number = Date.now) {}

  /**
   * The headers that prove who calls, by the token of the credentials whose JSON, or whose file's path, is `key`. Throws the signal's reason, and
   * GatewayError: vendor_not_configured when the key is no such thing, upstream_auth when they are refused, upstream_unreachable.
   */
  async headers(key: string, signal: AbortSignal, proxy?: string): Promise<Readonly<Record<string, string>>> {
    signal.throwIfAborted();
    const entry = this.#entries.get(key) ?? {};
    this.#entries.set(key, entry);
    const { token } = entry;
    const leftMs = token ? token.expiresAt - this.now() : 0;
    if (token && leftMs > MARGIN_MS) {
      if (leftMs <= AHEAD_MS) this.#askAhead(entry, key, proxy);
      return token.headers;
    }
    // Other requests that wait for the same token go on waiting when this one is aborted.
    const pending = this.#ask(entry, key, proxy);
    const { headers } = await until(signal, () => pending);
    return headers;
  }

  /** To be told of a token that was refused: it is not used again, and the next request asks for another one. `authorization`: the header that it stood in. */
  forget(key: string, authorization: string): void {
    const entry = this.#entries.get(key);
    if (entry?.token?.headers["authorization"] === authorization) delete entry.token;
  }

  #ask(entry: Entry, key: string, proxy: string | undefined): Promise<Token> {
    entry.pending ??= this.#refresh(key, proxy)
      .then((token) => {
        entry.token = token;
        return token;
      })
      .finally(() => delete entry.pending);
    return entry.pending;
  }

  #askAhead(entry: Entry, key: string, proxy: string | undefined): void {
    const now = this.now();
    if (now < (entry.asksAt ?? 0)) return;
    entry.asksAt = now + PAUSE_MS;
    // A request that needs the next token asks again, and is told why it fails.
    this.#ask(entry, key, proxy).catch(() => {});
  }

  async #refresh(key: string, proxy: string | undefined): Promise<Token> {
    const { tokenUri, quotaProject, grant } = await readCredentials(key);
    const askedAt = this.now();
    let answer = await askToken(tokenUri, await grant(askedAt), proxy);
    if (answer.status === 400 && Math.abs(answer.dateMs - askedAt) > CLOCK_OFF_MS)
      answer = await askToken(tokenUri, await grant(answer.dateMs), proxy);
    const got = isOk(answer) ? parseToken(answer.text, askedAt) : undefined;
    if (got) {
      const { token, expiresAt } = got;
      const headers = {
        authorization: `Bearer ${token}`,
        ...(quotaProject && { "x-goog-user-project": quotaProject }),
      };
      return { headers, expiresAt };
    }
    const cause = { status: answer.status };
    if (answer.status >= 500) {
      throw new GatewayError("upstream_unreachable", "The server that gives tokens for the vendor has failed.", {
        cause,
      });
    }
    const message = "Google gave this gateway's credentials no token. The operator has to check it.";
    throw new GatewayError("upstream_auth", message, { cause });
  }
}
