import { importPKCS8, SignJWT } from "jose";
import { GatewayError } from "../../canon/errors.ts";
import { isObject, stringOf } from "../../lib/json.ts";
import { until } from "../../lib/signals.ts";
import { isOk, ResponseAnswer, readText } from "../answer.ts";

/** What a token may do, and how long one is asked for: the longest that is given. */
const SCOPE = "https://www.googleapis.com/auth/cloud-platform";
const LIFETIME_S = 3_600;
/** A token is not used any more in its last minute: a request must not outlive it on its way. */
const MARGIN_MS = 60_000;
/** From so long before its end the next one is asked for while it is still used: where its endpoint fails for a while, no request does. */
const AHEAD_MS = 5 * 60_000;
/** Between two such askings. */
const PAUSE_MS = 10_000;
/** The token's endpoint has to answer in this time, milliseconds. */
const ANSWER_MS = 10_000;
const MAX_FILE_BYTES = 64 * 1024;
const MAX_ANSWER_BYTES = 64 * 1024;
const GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/** A service account, as its JSON file describes it. */
type Account = { email: string; privateKey: string; keyId: string; tokenUri: string };
type Token = { value: string; expiresAt: number };
/** `asksAt`: when the next token may be asked for ahead. */
type Entry = { token?: Token; pending?: Promise<Token>; asksAt?: number };

const unconfigured = (message: string, cause?: unknown) =>
  new GatewayError("vendor_not_configured", message, { cause });

/** The JSON itself: the key is that, or the path of the file that holds it. */
async function readKey(key: string): Promise<string> {
  if (key.trimStart().startsWith("{")) return key;
  try {
    const file = Bun.file(key);
    return await file.slice(0, MAX_FILE_BYTES).text();
  } catch (cause) {
    throw unconfigured("The service account's file cannot be read.", cause);
  }
}

/** Keys are sent to this address, so it must be an encrypted one, unless it is this machine's own. */
const isSafeAddress = (url: string): boolean => /^https:\/\/[^/]|^http:\/\/(?:127\.0\.0\.1|localhost)[:/]/.test(url);

function parseAccount(text: string): Account {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The cause would hold a piece of the private key.
    throw unconfigured("The service account's file is not JSON.");
  }
  const fields = isObject(value) ? value : {};
  const account = {
    email: stringOf(fields["client_email"]),
    privateKey: stringOf(fields["private_key"]),
    keyId: stringOf(fields["private_key_id"]),
    tokenUri: stringOf(fields["token_uri"]),
  };
  if (
    fields["type"] !== "service_account" ||
    !account.email ||
    !account.privateKey ||
    !isSafeAddress(account.tokenUri)
  ) {
    throw unconfigured(
      "The credentials are not those of a service account: type, client_email, private_key, token_uri.",
    );
  }
  return account;
}

async function signAssertion(account: Account, nowMs: number): Promise<string> {
  const now = Math.floor(nowMs / 1000);
  let key: CryptoKey;
  try {
    key = (await importPKCS8(account.privateKey, "RS256")) as CryptoKey;
  } catch {
    throw unconfigured("The service account's private key cannot be used.");
  }
  return new SignJWT({ scope: SCOPE })
    .setProtectedHeader({ alg: "RS256", typ: "JWT", ...(account.keyId && { kid: account.keyId }) })
    .setIssuer(account.email)
    .setSubject(account.email)
    .setAudience(account.tokenUri)
    .setIssuedAt(now)
    .setExpirationTime(now + LIFETIME_S)
    .sign(key);
}

/** What the token's endpoint answers, as far as it is read. */
type TokenAnswer = { status: number; text: string };

async function askToken(account: Account, assertion: string, proxy: string | undefined): Promise<TokenAnswer> {
  try {
    const response = await fetch(account.tokenUri, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
      body: new URLSearchParams({ grant_type: GRANT, assertion }).toString(),
      redirect: "manual",
      signal: AbortSignal.timeout(ANSWER_MS),
      proxy: proxy ?? false,
    });
    return { status: response.status, text: await readText(new ResponseAnswer(response), MAX_ANSWER_BYTES) };
  } catch (cause) {
    const message = "The server that gives tokens for the vendor's service account cannot be reached.";
    throw new GatewayError("upstream_unreachable", message, { cause });
  }
}

function parseToken(text: string, nowMs: number): Token | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) return undefined;
    const token = stringOf(value["access_token"]);
    const seconds = typeof value["expires_in"] === "number" ? value["expires_in"] : LIFETIME_S;
    return token === "" ? undefined : { value: token, expiresAt: nowMs + seconds * 1000 };
  } catch {
    // A page of a proxy in between, or half an answer: no token either way.
    return undefined;
  }
}

/**
 * Access tokens for Google service accounts: one per account, got by a signed assertion (RFC 7523), kept until a minute before its end at the most,
 * renewed ahead of that, and asked for once however many requests wait for it.
 */
export class ServiceAccounts {
  readonly #entries = new Map<string, Entry>();

  /** `now`: Unix milliseconds. */
  constructor(private readonly now: () => number = Date.now) {}

  /**
   * The token of an account whose JSON, or whose file's path, is `key`. Throws the signal's reason, and GatewayError:
   * vendor_not_configured when the key is no such thing, upstream_auth when the account is refused, upstream_unreachable.
   */
  async token(key: string, signal: AbortSignal, proxy?: string): Promise<string> {
    signal.throwIfAborted();
    const entry = this.#entries.get(key) ?? {};
    this.#entries.set(key, entry);
    const { token } = entry;
    const leftMs = token ? token.expiresAt - this.now() : 0;
    if (token && leftMs > MARGIN_MS) {
      if (leftMs <= AHEAD_MS) this.#askAhead(entry, key, proxy);
      return token.value;
    }
    // The others who wait for it go on waiting when this one leaves.
    const pending = this.#ask(entry, key, proxy);
    const { value } = await until(signal, () => pending);
    return value;
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
    // Whoever has to wait for the next token asks again, and is told what it fails of.
    this.#ask(entry, key, proxy).catch(() => {});
  }

  async #refresh(key: string, proxy: string | undefined): Promise<Token> {
    const account = parseAccount(await readKey(key));
    const askedAt = this.now();
    const answer = await askToken(account, await signAssertion(account, askedAt), proxy);
    const token = isOk(answer) ? parseToken(answer.text, askedAt) : undefined;
    if (token) return token;
    const cause = { status: answer.status };
    if (answer.status >= 500) {
      throw new GatewayError("upstream_unreachable", "The server that gives tokens for the vendor has failed.", {
        cause,
      });
    }
    const message = "The vendor gave this gateway's service account no token. The operator has to check it.";
    throw new GatewayError("upstream_auth", message, { cause });
  }
}
