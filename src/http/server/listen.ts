import type { Socket } from "bun";
import type { Clock } from "../../lib/clock.ts";
import { readOpenFiles } from "../../lib/open-files.ts";
import { ClientConnection, type Door, type ServerRules } from "./connection.ts";
import { incomingOf } from "./incoming.ts";

/** Up to so many connections nobody asks how many there may be: to ask takes a start's time. */
const FEW_CONNECTIONS = 100;
/** Of the files that may be open, this part is left to vendors' connections and the store, and as many at the least. */
const KEPT_PART = 1 / 8;
const LEAST_KEPT = 64;
/** Behind one that rests so many are looked at for a better one. */
const MOST_LOOKED_AT = 1_000;
/** Of what is kept for the rest of the gateway, those who have only just come may have this part. */
const CROWD_PART = 1 / 2;

/** How many clients may be connected at a time; `withCrowd`: with those who have only just come. */
export type ConnectionBound = { most: number; withCrowd: number };

/** Where a process has no file left it can neither call a vendor nor take up anybody. */
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
  /** Asked once there are some connections. Default: as the system's limit of open files has it. */
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
  /** Settled once nothing is open any more, where somebody waits for that. */
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
   * Ends a connection on which nothing is asked where with `coming` new ones there are more than may be, and one more where a crowd has left more than that.
   * Those to vendors count: what is under way has one of each kind, and the files would be used up while all clients were within the bound.
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
   * The oldest connection on which nothing ever was asked, which is what somebody has who only wants to keep others out; else one that rests; else, `orNew`,
   * one that has only just come. Where all are at work, the next ones wait at the system's door.
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

  /** As Bun's server does; null for a request that came otherwise. */
  requestIP(request: Request): { address: string } | null {
    const address = incomingOf(request)?.peer;
    return address === undefined ? null : { address };
  }

  /** As Bun's server does. A connection on which something is done may be quiet here in any case. */
  timeout(request: Request, seconds: number): void {
    if (seconds > 0) incomingOf(request)?.close();
  }

  /** Takes no new connections, and ends those on which nothing is under way, the others behind that; `force`: all of them at once. */
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
