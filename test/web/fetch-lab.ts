import type { Socket } from "bun";
import { systemClock } from "../../src/lib/clock.ts";
import type { FetchFault } from "../../src/web/safe-fetch/fault.ts";
import { createSafeFetch, type SafeFetchOptions, type SafeFetchSettings } from "../../src/web/safe-fetch/safe-fetch.ts";

/** Something inside that must never be reached: it counts who knocks, on both loopback addresses. */
export type Canary = { port: number; readonly connections: number; close(): void };

/** Listens on 127.0.0.1 and, where the machine has it, on ::1, at one and the same port. */
export function startCanary(): Canary {
  let connections = 0;
  const socket = {
    open(each: Socket) {
      connections++;
      each.end("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret");
    },
    data() {},
  };
  const four = Bun.listen({ hostname: "127.0.0.1", port: 0, socket });
  const listeners = [four];
  try {
    listeners.push(Bun.listen({ hostname: "::1", port: four.port, socket }));
  } catch {
    // A machine without IPv6 loopback cannot be reached there either.
  }
  return {
    port: four.port,
    get connections() {
      return connections;
    },
    close: () => {
      for (const listener of listeners) listener.stop(true);
    },
  };
}

/** A guarded fetch as the gateway has it, but for what `settings` say. */
export function guarded(settings: Partial<SafeFetchSettings> = {}) {
  return createSafeFetch({
    clock: systemClock,
    userAgent: "sluice/test",
    allowHosts: [],
    publicUrl: undefined,
    ownPort: () => undefined,
    ...settings,
  });
}

export const PLAIN: SafeFetchOptions = { accept: "*/*", maxBytes: 1_000_000, whenLonger: "refuse", deadlineMs: 5_000 };

/** What a fetch threw. Fails when it threw nothing. */
export async function faultOf(work: Promise<unknown>): Promise<FetchFault> {
  try {
    await work;
  } catch (thrown) {
    return thrown as FetchFault;
  }
  throw new Error("the fetch was let through");
}
