import type { Clock } from "../../lib/clock.ts";
import { errorCode } from "../../lib/error-code.ts";
import { follow, until } from "../../lib/signals.ts";
import { isOwnAddress, isPublicAddress } from "./address.ts";
import { type BodyLimits, letGo, readBody } from "./body.ts";
import { FetchFault } from "./fault.ts";
import { type Resolve, resolveBySystem, resolvePublic } from "./names.ts";
import { Places } from "./places.ts";
import { createRules, type Target, WEB_PORTS } from "./rules.ts";
import { limit } from "./time.ts";
import { ENCODINGS } from "./unpack.ts";

/** Redirects that are followed, each checked as the first URL was. */
export const MAX_REDIRECTS = 5;
/** How long one server may take from the request to its headers, milliseconds. */
const FIRST_BYTE_MS = 10_000;
/** The same where another address of the name is left to try: one that does not answer must not use up all the time. If the others fail it is tried once more. */
const FIRST_BYTE_WITH_MORE_MS = 4_000;
/** Addresses of a name that are tried, in the resolver's order. */
const MAX_TRIED = 3;
/**
 * How many are fetched at a time. Bun's client has at most 256 requests under way in a process, and lets others wait (runtime.md 0.2): without this bound,
 * search engines and image vendors would wait for pages whose servers do not answer.
 */
export const MOST_AT_ONCE = 128;
/** Most addresses a name may have; all of them are checked. */
const MAX_ADDRESSES = 100;

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

export type SafeFetchSettings = {
  clock: Clock;
  userAgent: string;
  /** Hosts the operator opened (`web.fetch.allow_hosts`, contract 9). */
  allowHosts: readonly string[];
  /** The address that clients of this gateway use: its host is not fetched from. */
  publicUrl: string | undefined;
  /** The port this gateway listens at, once it does: unreachable on every own address, whatever is allowed. */
  ownPort(): number | undefined;
  /** Default: DNS, and the system's resolver for hosts that the operator opened. */
  resolve?: Resolve;
  /** Ports of hosts that nobody opened. Default: {@link WEB_PORTS}. */
  ports?: ReadonlySet<number>;
};

export type SafeFetchOptions = BodyLimits & {
  accept: string;
  /** How long everything together may take, redirects and body included, milliseconds. */
  deadlineMs: number;
  /** Aborted when the answer is not wanted any more. */
  signal?: AbortSignal;
};

export type Fetched = {
  /** The address that the answer came from, after redirects. */
  url: string;
  status: number;
  headers: Headers;
  body: Uint8Array;
  /** Whether the body was longer than what was read. */
  cut: boolean;
};

export type SafeFetch = (url: string, options: SafeFetchOptions) => Promise<Fetched>;

/** A `location` header as its server meant it: many write plain UTF-8, and a header's value holds each of its bytes as one character. */
function readLocation(written: string | null): string | null {
  if (written === null) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(written, "latin1"));
  } catch {
    // It is in another charset, and it is not known in which.
    return written;
  }
}

/** A failed connection's cause as a sentence that reveals nothing of the private network. */
function explain(thrown: unknown): FetchFault {
  if (thrown instanceof FetchFault) return thrown;
  const code = errorCode(thrown);
  const sentence = /CERT|VERIFY|SELF_SIGNED|TLS/i.test(code)
    ? "The server's certificate is not valid for this name."
    : "The server could not be reached, or broke off.";
  return new FetchFault("unreachable", sentence, thrown);
}

/** The guarded fetch: everything it needs beside a URL. */
class Guard {
  readonly #check: (url: string | URL) => Target;
  readonly #places = new Places(MOST_AT_ONCE);

  constructor(private readonly settings: SafeFetchSettings) {
    const { allowHosts, publicUrl, ports = WEB_PORTS } = settings;
    const ownHost = publicUrl === undefined ? undefined : new URL(publicUrl).hostname;
    this.#check = createRules({ allowHosts, ownHost, ports });
  }

  async fetch(text: string, options: SafeFetchOptions): Promise<Fetched> {
    const deadline = limit(this.settings.clock, options.deadlineMs, "It took too long.", options.signal);
    try {
      const target = this.#check(text);
      return await this.#places.hold(deadline.signal, () => this.#follow(target, options, deadline.signal));
    } catch (thrown) {
      if (deadline.signal.aborted) throw deadline.signal.reason;
      throw explain(thrown);
    } finally {
      deadline.end();
    }
  }

  /** Follows redirects itself, so that each new URL is checked and resolved as the first one was. */
  async #follow(first: Target, options: SafeFetchOptions, signal: AbortSignal): Promise<Fetched> {
    let target = first;
    for (let hops = 0; ; hops++) {
      const response = await this.#ask(target, options.accept, signal);
      const location = REDIRECTS.has(response.status) ? readLocation(response.headers.get("location")) : null;
      if (location === null) {
        const { body, cut } = await readBody(response, options, signal);
        return { url: target.url.href, status: response.status, headers: response.headers, body, cut };
      }
      if (response.body) letGo(response.body);
      if (hops >= MAX_REDIRECTS) throw new FetchFault("too_many_redirects", "It redirects too often.");
      target = this.#redirect(target, location);
    }
  }

  #redirect(from: Target, location: string): Target {
    const url = URL.parse(location, from.url.href);
    if (!url) throw new FetchFault("invalid_url", "It redirects to something that is not a URL.");
    const next = this.#check(url);
    if (from.secure && !next.secure) throw new FetchFault("blocked", "It redirects from https to http.");
    return next;
  }

  /** The addresses that may be connected to: none where even one of the name's addresses is private. */
  async #addresses(target: Target, signal: AbortSignal): Promise<readonly string[]> {
    const found = target.isAddress ? [target.host] : await until(signal, () => this.#lookUp(target));
    const isOpen = (address: string) => {
      const own = isOwnAddress(address);
      if (target.allowed) return !(own && target.port === this.settings.ownPort());
      return !own && isPublicAddress(address);
    };
    if (found.every(isOpen)) return found.slice(0, MAX_TRIED);
    throw new FetchFault("blocked", "It leads to an address that is not public.");
  }

  async #lookUp({ host, allowed }: Target): Promise<readonly string[]> {
    const resolve = this.settings.resolve ?? (allowed ? resolveBySystem : resolvePublic);
    const fault = (cause?: unknown) => new FetchFault("unresolved", "The host's name is not known.", cause);
    const found = await resolve(host).catch((cause: unknown) => {
      throw fault(cause);
    });
    if (found.length === 0 || found.length > MAX_ADDRESSES) throw fault();
    return found;
  }

  /** Asks the first of the target's addresses that answers. */
  async #ask(target: Target, accept: string, signal: AbortSignal): Promise<Response> {
    const left = [...(await this.#addresses(target, signal))];
    const slow: string[] = [];
    let failed: unknown;
    for (let address = left.shift(); address !== undefined; address = left.shift()) {
      const isLast = left.length === 0;
      const ms = isLast ? FIRST_BYTE_MS : FIRST_BYTE_WITH_MORE_MS;
      const patience = limit(this.settings.clock, ms, "The server does not answer.", signal);
      try {
        return await this.#connect(target, address, accept, patience.signal, signal);
      } catch (thrown) {
        signal.throwIfAborted();
        const isSilent = patience.signal.aborted;
        failed = isSilent ? patience.signal.reason : thrown;
        if (isSilent && !isLast) slow.push(address);
        // No other address answers, as where this machine has no IPv6: the first one may only have needed longer for the page.
        if (isLast && !isSilent) left.push(...slow.splice(0, 1));
      } finally {
        patience.end();
      }
    }
    throw failed;
  }

  /**
   * One request to one checked address. The name is used only in the Host header and for the certificate's check, so that a second, other
   * answer of the resolver has no effect (reliability 2 #20).
   */
  async #connect(
    target: Target,
    address: string,
    accept: string,
    patience: AbortSignal,
    signal: AbortSignal,
  ): Promise<Response> {
    const { url, secure, port, host } = target;
    const place = address.includes(":") ? `[${address}]` : address;
    const { controller: abort } = follow(signal);
    const request = () =>
      fetch(`${url.protocol}//${place}:${port}${url.pathname}${url.search}`, {
        headers: {
          host: url.host.replace(/\.(?=:\d+$|$)/, ""),
          accept,
          "accept-encoding": ENCODINGS,
          "accept-language": "en, *;q=0.5",
          "user-agent": this.settings.userAgent,
        },
        redirect: "manual",
        // An option of Bun's: the bytes come as they were sent, and are unpacked here within bounds.
        decompress: false,
        keepalive: false,
        // An option of Bun's: no proxy of the environment is used, which would look the name up again.
        proxy: false,
        ...(secure && !target.isAddress && { tls: { serverName: host } }),
        signal: abort.signal,
      });
    try {
      return await until(patience, request);
    } catch (thrown) {
      abort.abort(thrown);
      throw thrown;
    }
  }
}

/**
 * The one fetch for addresses that come from outside (contract 9; reliability 7.5; web-and-mcp.md C2, C3). http and https only; every
 * address of a name must be public; the connection goes to the checked address; redirects are followed by hand, five at most; no
 * proxy, cookies, credentials or referrer. The returned function gives whatever status the server sent, and throws FetchFault, or the
 * signal's reason once that is aborted.
 */
export function createSafeFetch(settings: SafeFetchSettings): SafeFetch {
  const guard = new Guard(settings);
  return (url, options) => guard.fetch(url, options);
}
