import type { Store } from "../../src/db/open.ts";
import { usage } from "../../src/db/schema.ts";
import type { Writer } from "../../src/db/writer.ts";
import { type Counted, Rollup } from "../../src/ledger/rollup.ts";

/** A usage row as tests write it, with what they do not care for filled in. */
export type TestRow = Pick<Counted, "atMs" | "accountId" | "keyId" | "model"> & {
  requestId: string;
  input?: number;
  output?: number;
  estimated?: boolean;
  costNano?: bigint | null;
  chargedNano?: bigint;
};

/** Writes usage rows and their sums as a ledger does: through the writer, summed up once a batch. */
export function usageWriter(store: Store, writer: Writer): (row: TestRow) => Promise<void> {
  const rollup = new Rollup(store);
  writer.join(rollup);
  return ({ input = 1, output = 0, estimated = false, costNano = null, chargedNano = 0n, ...rest }) => {
    const counts = { input, cacheRead: 2, cacheWrite: 3, output, reasoning: Math.min(1, output), units: 0, estimated };
    const facts = { dialect: "chat", stream: false, vendor: "v", upstreamModel: "m", outcome: "completed" };
    const row = { ...rest, ...counts, ...facts, durationMs: 5, attempts: 1, costNano, chargedNano };
    return writer.run(() => {
      store.query.insert(usage).values(row).run();
      rollup.add({ ...row, costNano: costNano ?? undefined });
    });
  };
}
