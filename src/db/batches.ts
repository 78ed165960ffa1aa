import type { Writer } from "./writer.ts";

/**
 * Runs `removeSome` in transactions of its own until it removed fewer than `batch`: others write in between. Resolves with how many were removed; rejects
 * as the writer does.
 */
export async function removeInBatches(
  writer: Pick<Writer, "run">,
  batch: number,
  removeSome: () => number,
): Promise<number> {
  for (let removed = 0; ; ) {
    const some = await writer.run(removeSome);
    removed += some;
    if (some < batch) return removed;
  }
}
