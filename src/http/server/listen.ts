import type { Socket } from "bun";
import type { Clock } from "../../lib/clock.ts";
import { readOpenFiles } from "../../lib/open-files.ts";
import { ClientConnection, type Door, type ServerRules } from "./connection.ts";
import { incomingOf } from "./incoming.ts";

/** With fewer connections than this the system's limit of open files is not read: to read it takes time, of which a start has none to spare. */
const FEW_CONNECTIONS = 100;
/** The part of the files that this process may open which is kept for connections to vendors and for the store; and the least that is kept, in files. */
const KEPT_PART = 1 / 8;
const LEAST_KEPT = 64;
/** Once a connection was found that rests, at most so many further ones are looked at for one that is better ended. */
const MOST_LOOKED_AT = 1_000;
/** The part of the files kept for the rest of the gateway that connections which have only just come may take. */
const CROWD_PART = 1 / 2;

/** How many connections there may be at a time; `withCrowd`: with those that have only just come ({@link ClientConnection.isNew}). */
export type ConnectionBound = { most: number; withCrowd: number };

/** How many connections a process may have that may open so many files. Some files are left over: without any it could neither call a vendor nor accept a client. */
export function connectionBound(openFiles: number): ConnectionBound {
  if (!Number.isFinite(openFiles)) return { most: openFiles, withCrowd: openFiles };
  const kept = Math.max(LEAST_KEPT, openFiles * KEPT_PART);
  return { most: openFiles - kept, withCrowd: openFiles - kept * CROWD_PART };
}

export type ListenSettings = Pick<ServerRules, "clock" | "door"> & {
  hostname: string;
  port: number;
  /** Other processes listen on the same port. */
  sharesPort: boolean;
  /** Asked once, when there are {@link FEW_CONNECTIONS}. Default: by the system's limit of open files. */
  bound?(): ConnectionBound;
  /** How many connections to others than its clients this process has open. Default: none. */
  elsewhere?(): number;
};

/** A server of HTTP/1.1 on the runtime's sockets. */
export class HttpServer implements ServerRules {
  readonly clock: Clock;
  readonly door: Door;
  readonly port: number;
  isStopping = false;
  readonly #connections = new Set<ClientConnection>();
  readonly #listener;
  readonly #readBound: () => ConnectionBound;
  readonly #elsewhere: () => number;
  #bound: ConnectionBound | undefined;
  /** Resolves once no connection is open any more. Made when somebody waits for that. */
  #emptied: PromiseWithResolvers<void> | undefined;

  /** Listens. Throws the system's error (`EADDRINUSE`) when the port is taken. */
  constructor({ hostname, port, sharesPort, clock, door, bound, elsewhere }: ListenSettings) {
    this.#elsewhere = elsewhere ?? (() => 0);
    this.#readBound = bound ?? (() => connectionBound(readOpenFiles() ?? Number.POSITIVE_INFINITY));
    this.clock = clock;
    this.door = door;
    const options = {
      hostname,
      port,
      allowHalfOpen: true,
      reusePort: sharesPort,
      exclusive: !sharesPort,
      socket: {
        binaryType: "buffer" as const,
        open: (socket: Socket<ClientConnection>) => {
          socket.data = new ClientConnection(this);
          this.#makeRoom(1);
          this.#connections.add(socket.data);
          socket.data.onOpen(socket);
        },
        data: (socket: Socket<ClientConnection>, bytes: Buffer) => socket.data.onData(bytes),
        drain: (socket: Socket<ClientConnection>) => socket.data.onDrain(),
        end: (socket: Socket<ClientConnection>) => socket.data.onEnd(),
        close: (socket: Socket<ClientConnection>, error?: unknown) => socket.data.onClose(error),
        error: (socket: Socket<ClientConnection>, error: Error) => socket.data.onFault(error),
      },
    };
    this.#listener = Bun.listen<ClientConnection>(options);
    this.port = this.#listener.port;
  }

  /** How many connections are open. */
  get connections(): number {
    return this.#connections.size;
  }

  asked(): void {
    this.#makeRoom(0);
  }

  /**
   * Where there are more connections than may be, `coming` new ones included, ends one on which no request is under way, and a second one where there are still
   * too many, as after a crowd. Connections to vendors count as well: a request under way has one of each kind, so that the files would be used up while the
   * clients alone were within the bound.
   */
  #makeRoom(coming: number): void {
    if (this.#connections.size < FEW_CONNECTIONS) return;
    this.#bound ??= this.#readBound();
    const { most, withCrowd } = this.#bound;
    const besides = coming + this.#elsewhere();
    for (let ended = 0; ended < 2 && this.#connections.size + besides > most; ended++) {
      const resting = this.#findResting(this.#connections.size + besides > withCrowd);
      if (!resting) return;
      resting.giveWay();
    }
  }

  /**
   * The connection that is best ended: the oldest on which nothing was ever asked, since whoever only wants to keep others out opens such ones; else the oldest
   * that rests; else, with `orNew`, one that has only just come. Undefined where all are at work: further clients then wait in the system's queue.
   */
  #findResting(orNew: boolean): ClientConnection | undefined {
    let rested: ClientConnection | undefined;
    let fresh: ClientConnection | undefined;
    let looked = 0;
    for (const connection of this.#connections) {
      if (connection.isResting) {
        if (!connection.isSilent) rested ??= connection;
        else if (!connection.isNew) return connection;
        else fresh ??= connection;
      }
      if (rested && ++looked >= MOST_LOOKED_AT) break;
    }
    return rested ?? (orNew ? fresh : undefined);
  }

  gone(connection: ClientConnection): void {
    this.#connections.delete(connection);
    if (this.#connections.size === 0) this.#emptied?.resolve();
  }

  /** The client's address, as Bun's server tells it; null for a request that did not come here. */
  requestIP(request: Request): { address: string } | null {
    const address = incomingOf(request)?.peer;
    return address === undefined ? null : { address };
  }

  /**
   * What is asked of Bun's server by the same name. 0: the connection may be quiet, which it may be here in any case while a request is under way. Any more
   * seconds mean that it is to end soon: here it ends at once.
   */
  timeout(request: Request, seconds: number): void {
    if (seconds > 0) incomingOf(request)?.close();
  }

  /**
   * Accepts no new connections, and ends those there are: what rests now, the others after the answer that is under way; `force`: all of them now. Resolves
   * when none is open any more.
   */
  stop(force = false): Promise<void> {
    this.isStopping = true;
    this.#listener.stop(false);
    for (const connection of this.#connections) {
      if (force) connection.close();
      else connection.stop();
    }
    if (this.#connections.size === 0) return Promise.resolve();
    this.#emptied ??= Promise.withResolvers<void>();
    return this.#emptied.promise;
  }

  /** Whether somebody still waits for an answer, or for the rest of one. */
  get isBusy(): boolean {
    for (const connection of this.#connections) if (connection.isBusy) return true;
    return false;
  }
}
