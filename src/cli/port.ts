import { errorCode } from "../lib/error-code.ts";

/** Ports tried after the usual one when it is taken. */
export const PORTS_TRIED = 20;
const HIGHEST_PORT = 65_535;

/** Why listening fails, by the system's code. */
export type PortState = "free" | "taken" | "no-permission" | "no-address";

/** Why listening failed, from what was thrown; undefined when that is something else. */
export function readListenFault(error: unknown): Exclude<PortState, "free"> | undefined {
  const code = errorCode(error);
  if (code === "EADDRINUSE") return "taken";
  if (code === "EACCES" || code === "EPERM") return "no-permission";
  return code === "EADDRNOTAVAIL" || code === "EINVAL" || code === "ENOTFOUND" ? "no-address" : undefined;
}

/** Whether a server could listen there now; to find out, it listens for an instant. */
export function tryPort(host: string, port: number): PortState {
  try {
    Bun.listen({ hostname: host, port, exclusive: true, socket: { data: (socket) => void socket.end() } }).stop(true);
    return "free";
  } catch (error) {
    // A name that does not resolve throws without any code.
    return readListenFault(error) ?? "no-address";
  }
}

/** A sentence for a port that cannot be listened on. */
export function explainPort(state: Exclude<PortState, "free">, host: string, port: number): string {
  if (state === "taken") return `port ${port} of ${host} is taken by another program; choose another with --port`;
  if (state === "no-permission") return `this user may not listen on port ${port}; choose one above 1023 with --port`;
  return `this machine has no address ${host} to listen on; choose another with --host`;
}

/**
 * A port that can be listened on: the wanted one or, unless it was `given` by a person, the next free one of twenty (contract 1).
 * Returns a sentence instead when there is none. Port 0 stands for any free one.
 */
export function choosePort(host: string, wanted: number, given: boolean): { port: number } | { fault: string } {
  const last = given || wanted === 0 ? wanted : Math.min(wanted + PORTS_TRIED, HIGHEST_PORT);
  let first: Exclude<PortState, "free"> | undefined;
  for (let port = wanted; port <= last; port++) {
    const state = tryPort(host, port);
    if (state === "free") return { port };
    first ??= state;
    if (state !== "taken") break;
  }
  if (first === "taken" && !given)
    return { fault: `the ports ${wanted} to ${last} of ${host} are all taken; choose one with --port` };
  return { fault: explainPort(first ?? "taken", host, wanted) };
}
