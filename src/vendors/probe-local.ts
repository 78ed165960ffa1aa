import type { ListedModel } from "../canon/listed-model.ts";
import { listModels } from "./models-list.ts";
import type { Vendor, VendorRow } from "./vendor.ts";

/** How long a port of this machine has to open, and its server to list its models, ms: it does both at once, unless it is at work. */
const PROBE_MS = { toOpen: 300, toList: 1_500 };

/** A model server found on this machine, and the models it has now. */
export type LocalServer = { vendor: Vendor; models: ListedModel[] };

/** Resolves where somebody listens, else rejects. Nearly always nobody does, and to find that out by the connection alone starts no HTTP client. */
async function knock(baseUrl: string, timeoutMs: number): Promise<void> {
  const { hostname, port } = new URL(baseUrl);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error("nobody opens")), timeoutMs);
  // A connection that opens too late is closed as well.
  const opening = Bun.connect({ hostname, port: Number(port), socket: { data() {} } }).then((socket) => socket.end());
  try {
    await Promise.race([opening, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Asks the local rows' ports once, all at the same time, and gives those that opened and then answered with a model list, each within its time, in the
 * order of the rows (contract 2); of several rows with one ID the first that did. Never throws: a silent port, or one where something else lives, is
 * simply not a model server.
 */
export async function probeLocal(
  rows: readonly VendorRow[],
  { timeoutMs }: { timeoutMs?: number } = {},
): Promise<LocalServer[]> {
  const asked = rows
    .filter((row) => row.local)
    .map(async ({ local: _local, ...vendor }): Promise<LocalServer> => {
      await knock(vendor.baseUrl, timeoutMs ?? PROBE_MS.toOpen);
      const options = { timeoutMs: timeoutMs ?? PROBE_MS.toList };
      return { vendor, models: await listModels(vendor, new AbortController().signal, options) };
    });
  const answers = await Promise.allSettled(asked);
  const found = new Map<string, LocalServer>();
  for (const answer of answers) {
    if (answer.status === "fulfilled" && !found.has(answer.value.vendor.id))
      found.set(answer.value.vendor.id, answer.value);
  }
  return [...found.values()];
}
