import { chmodSync, closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Server } from "bun";
import { GatewayError } from "../canon/errors.ts";
import type { Listener } from "../http/asked.ts";
import { pathOf } from "../http/request.ts";
import { incomingOf } from "../http/server/incoming.ts";
import { MAX_HEAD_BYTES } from "../http/server/request-head.ts";
import { errorCode } from "../lib/error-code.ts";
import { OVERLOADED } from "../limits/overloaded.ts";

/** Header in which a worker tells the client's address of a request that it passes on. It can be believed: nobody but workers reaches the passage. */
const PEER = "x-sluice-peer";
const SOCKET = "workers.sock";
/** Longest path of a Unix socket, bytes, with room for what the system adds (Linux: 108). */
const MAX_PATH = 100;
/** Largest head that is taken here, bytes: one that a worker has taken, and what passing on adds. Without it Bun refuses heads above 16 KiB without a reason. */
const PASSED_HEAD_BYTES = 2 * MAX_HEAD_BYTES;

/** Flag that opens a file only to refer to it, whatever becomes of its name (Linux: O_PATH, open(2)). */
const BY_ITSELF = 0o10000000;

/** The queue of connections to a socket holds some hundreds, and a burst may be more: pause between two tries to connect, and how long to try, ms. */
const KNOCK_EVERY_MS = 10;
const KNOCK_FOR_MS = 10_000;

/** Methods whose request may be sent again, whatever became of the first. */
const REPEATABLE: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);

/** Header fields of an answer that belong to the connection on which it came; the next server writes its own. */
const OWN_TO_CONNECTION = ["connection", "keep-alive", "transfer-encoding", "date"] as const;

export type PassageSettings = {
  /** The data folder: the socket is made in it, or in a private folder of its own where that path would be too long. */
  folder: string;
  answer(request: Request): Response | Promise<Response>;
};

/**
 * The authority's second listener, for requests that workers pass on whole: a Unix socket that only this user can open. It also knows the clients'
 * addresses of these requests, and of those that workers keep and only ask about.
 */
export class Passage {
  readonly path: string;
  /** File descriptor of the socket, which is handed to workers: with it they reach the socket whatever becomes of its name or its folder. */
  readonly handle: number;
  readonly #peers = new WeakMap<Request, string>();
  readonly #server: Server<undefined>;
  readonly #own: string | undefined;
  #closed = false;

  constructor({ folder, answer }: PassageSettings) {
    const path = join(folder, SOCKET);
    this.#own = Buffer.byteLength(path) > MAX_PATH ? mkdtempSync(join(tmpdir(), "sluice-")) : undefined;
    this.path = this.#own ? join(this.#own, SOCKET) : path;
    // A socket that is there was left by a server that was killed: this process holds the lock of the folder.
    rmSync(this.path, { force: true });
    const settings = {
      unix: this.path,
      // The endpoints have bounds of their own, and say so when they refuse; Bun would refuse with an empty answer.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      // How long a connection may be quiet is decided at the worker. The types do not know that the option (default: 10 s) counts for Unix sockets too.
      idleTimeout: 0,
      development: false,
      fetch: (request: Request) => {
        this.#peers.set(request, request.headers.get(PEER) ?? "");
        request.headers.delete(PEER);
        return answer(request);
      },
    };
    // This counts for the whole process; the server on the port has a bound of its own. The types do not know that it can be set.
    (http as { maxHeaderSize: number }).maxHeaderSize = PASSED_HEAD_BYTES;
    this.#server = Bun.serve(settings as object as Bun.Serve.Options<undefined>);
    chmodSync(this.path, 0o600);
    this.handle = openSync(this.path, BY_ITSELF);
  }

  /** Notes the client's address of a request that a worker keeps and that is only asked about here. */
  tellPeer(request: Request, peer: string): void {
    this.#peers.set(request, peer);
  }

  /** Answers for the requests of both listeners. `front`: the one on the port. */
  besides(front: Listener): Listener {
    const peers = this.#peers;
    const back = this.#server;
    return {
      port: front.port,
      requestIP(request) {
        const peer = peers.get(request);
        if (peer === undefined) return front.requestIP(request);
        return peer === "" ? null : { address: peer };
      },
      timeout(request, seconds) {
        if (peers.has(request)) back.timeout(request, seconds);
        else front.timeout(request, seconds);
      },
    };
  }

  /** Ends what is under way, and removes the socket. Never rejects, since other parts are closed after it. Safe to call twice. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#server.stop(true);
    closeSync(this.handle);
    try {
      rmSync(this.#own ? dirname(this.path) : this.path, { force: true, recursive: true });
    } catch {
      // The folder may not be written to any more. The next start removes the socket.
    }
  }
}

/**
 * Passes a request on to the authority whole, and its answer back; both are streamed. `path`: that of the authority's socket. Undefined for paths
 * that begin with two slashes, which would become one on the way: no endpoint answers them. Methods that cannot be sent do not come here (http/entrance.ts).
 * Rejects with GatewayError: internal_error when the authority was gone before it answered, {@link OVERLOADED} when its queue of connections stays full.
 */
export async function passOn(request: Request, peer: string, path: string): Promise<Response | undefined> {
  if (pathOf(request.url).startsWith("//")) return undefined;
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

/** Fetches. Tries again while the socket's queue is full: then nothing was sent, and nothing of the body was read. */
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

/** The error for a request that the authority did not answer. It is not known what was done by then: the request may have been carried out, and charged. */
function unanswered({ method, headers }: Request, cause: unknown): GatewayError {
  const text =
    "The gateway's serving process did not answer. What became of this request, and whether it was charged, is not known.";
  return new GatewayError("internal_error", text, {
    retry: REPEATABLE.has(method) || headers.has("idempotency-key"),
    cause,
  });
}
