import type { Socket } from "bun";
import type { Clock } from "../../lib/clock.ts";
import { ClientConnection, type Door, type ServerRules } from "./connection.ts";
import { incomingOf } from "./incoming.ts";

export type ListenSettings = Pick<ServerRules, "clock" | "door"> & {
  hostname: string;
  port: number;
  /** Other processes listen on the same port. */
  sharesPort: boolean;
};

/** A server of HTTP/1.1 on the runtime's sockets. */
export class HttpServer implements ServerRules {
  readonly clock: Clock;
  readonly door: Door;
  readonly port: number;
  isStopping = false;
  readonly #connections = new Set<ClientConnection>();
  readonly #listener;
  /** Settled once nothing is open any more, where somebody waits for that. */
  #emptied: PromiseWithResolvers<void> | undefined;

  /** Listens. Throws the system's error (`EADDRINUSE`) when the port is taken. */
  constructor({ hostname, port, sharesPort, clock, door }: ListenSettings) {
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
