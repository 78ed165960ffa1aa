import { chmodSync, closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Server } from "bun";
import { GatewayError } from "../canon/errors.ts";
import { pathOf } from "../http/request.ts";
import { incomingOf } from "../http/server/incoming.ts";
import { MAX_HEAD_BYTES } from "../http/server/request-head.ts";
import { errorCode } from "../lib/error-code.ts";
import { OVERLOADED } from "../limits/overloaded.ts";

/** Header in which a worker tells where a request came from that it passes on. Nobody else reaches the passage. */
const PEER = "x-sluice-peer";
const SOCKET = "workers.sock";
/** Longest path of a Unix socket, bytes, with room for what the system adds (Linux: 108). */
const MAX_PATH = 100;
/** A head that a worker has taken fits here with what the way adds to it: Bun refuses one above 16 KiB by itself, with no word about why. */
const PASSED_HEAD_BYTES = 2 * MAX_HEAD_BYTES;
/** Methods that no fetch sends; nothing answers to them here either. */
const UNSENDABLE: ReadonlySet<string> = new Set(["CONNECT", "TRACE", "TRACK"]);

/** Opens a file by what it is and not by its name, for nothing but to be found by (Linux: O_PATH, open(2)). */
const BY_ITSELF = 0o10000000;

/** A socket's queue of those who knock holds some hundreds, and a burst may be more: how often one knocks again, and for how long at the most, ms. */
const KNOCK_EVERY_MS = 10;
const KNOCK_FOR_MS = 10_000;

/** Methods that may be asked anew whatever became of them. */
const REPEATABLE: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);

/** Fields of an answer that belong to the connection on which it came, and are told anew on the next one. */
const OWN_TO_CONNECTION = ["connection", "keep-alive", "transfer-encoding", "date"] as const;

/** What a server is asked about a request of its. */
export type Listening = Pick<Server<unknown>, "requestIP" | "timeout" | "port">;

export type PassageSettings = {
  /** The data folder: the socket is made in it, or in a private folder of its own where that path would be too long. */
  folder: string;
  answer(request: Request): Response | Promise<Response>;
};

/**
 * The authority's second door, for requests that workers pass on whole: a Unix socket that only this user can open. It also knows where those came from,
 * and where what workers only tell of did.
 */
export class Passage {
  readonly path: string;
  /** The socket itself, for processes that are given it: they find it whatever becomes of its name, and of the folder. */
  readonly handle: number;
  readonly #peers = new WeakMap<Request, string>();
  readonly #server: Server<undefined>;
  readonly #own: string | undefined;
  #closed = false;

  constructor({ folder, answer }: PassageSettings) {
    const path = join(folder, SOCKET);
    this.#own = Buffer.byteLength(path) > MAX_PATH ? mkdtempSync(join(tmpdir(), "sluice-")) : undefined;
    this.path = this.#own ? join(this.#own, SOCKET) : path;
    // Left by a server that was killed: the folder's lock says that it is nobody's any more.
    rmSync(this.path, { force: true });
    const settings = {
      unix: this.path,
      // The endpoints bound their bodies, and say so; Bun would refuse a larger one with an empty answer.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      // How long a connection may be quiet is the worker's to say. The types do not know that it counts here too (10 s by default).
      idleTimeout: 0,
      development: false,
      fetch: (request: Request) => {
        this.#peers.set(request, request.headers.get(PEER) ?? "");
        request.headers.delete(PEER);
        return answer(request);
      },
    };
    // It is of the whole process, in which the port has a server with a bound of its own. The types do not know that it can be set.
    (http as { maxHeaderSize: number }).maxHeaderSize = PASSED_HEAD_BYTES;
    this.#server = Bun.serve(settings as object as Bun.Serve.Options<undefined>);
    chmodSync(this.path, 0o600);
    this.handle = openSync(this.path, BY_ITSELF);
  }

  /** Has the address of a request that never came by itself answered as `peer`. */
  tellPeer(request: Request, peer: string): void {
    this.#peers.set(request, peer);
  }

  /** A server that speaks for both doors; `front` listens on the port. */
  besides(front: Listening): Listening {
    const port = front.port as number;
    const peers = this.#peers;
    const back = this.#server;
    return {
      port,
      requestIP(request) {
        const peer = peers.get(request);
        if (peer === undefined) return front.requestIP(request);
        return peer === "" ? null : { address: peer, port: 0, family: peer.includes(":") ? "IPv6" : "IPv4" };
      },
      timeout(request, seconds) {
        if (peers.has(request)) back.timeout(request, seconds);
        else front.timeout(request, seconds);
      },
    };
  }

  /** Ends what is still under way, and takes the socket away. Never rejects: what is closed after it must not be left open. Safe to call twice. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#server.stop(true);
    closeSync(this.handle);
    try {
      rmSync(this.#own ? dirname(this.path) : this.path, { force: true, recursive: true });
    } catch {
      // Nobody may write in the folder any more. The next start takes it away.
    }
  }
}

/**
 * Passes a request on to the authority, whole, and its answer back, both as they come. Undefined for what cannot be passed on and is nowhere: some
 * methods, and a path whose two slashes would become one on the way. Rejects with GatewayError: internal_error when the authority is gone before it has
 * answered, Overloaded when it is not to be reached for all those who want to.
 */
export async function passOn(request: Request, peer: string, path: string): Promise<Response | undefined> {
  if (UNSENDABLE.has(request.method) || pathOf(request.url).startsWith("//")) return undefined;
  const headers = new Headers(request.headers);
  headers.set(PEER, peer);
  const answer = await knock(request, {
    method: request.method,
    headers,
    // What has come whole is sent as bytes: a stream of them could be sent once only.
    body: request.body && incomingOf(request)?.isWhole ? await request.bytes() : request.body,
    unix: path,
    redirect: "manual",
    decompress: false,
    signal: request.signal,
    timeout: false,
  } as BunFetchRequestInit);
  const told = new Headers(answer.headers);
  for (const name of OWN_TO_CONNECTION) told.delete(name);
  return new Response(answer.body, { status: answer.status, headers: told });
}

/** Fetches, again while there is no room in the queue of the socket: nothing was sent then, and nothing of the body was read. */
async function knock(request: Request, wish: BunFetchRequestInit): Promise<Response> {
  for (let waitedMs = 0; ; waitedMs += KNOCK_EVERY_MS) {
    try {
      return await fetch(request.url, wish);
    } catch (thrown) {
      if (errorCode(thrown) !== "EAGAIN") throw unanswered(request, thrown);
      if (waitedMs >= KNOCK_FOR_MS) throw OVERLOADED;
      await Bun.sleep(KNOCK_EVERY_MS);
    }
  }
}

/** Of what the authority had done by then nothing is known here: it may have been taken on, and charged. */
function unanswered({ method, headers }: Request, cause: unknown): GatewayError {
  const text =
    "The gateway's serving process did not answer. What became of this request, and whether it was charged, is not known.";
  return new GatewayError("internal_error", text, {
    retry: REPEATABLE.has(method) || headers.has("idempotency-key"),
    cause,
  });
}
