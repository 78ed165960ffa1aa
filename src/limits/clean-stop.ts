import type { Store } from "../db/open.ts";
import { serverStop } from "../db/schema-keys.ts";
import type { Writer } from "../db/writer.ts";

const ROW = 1;

/** Whether the last server on this store ended as it should; true for a store that had none. */
export function endedCleanly(store: Store): boolean {
  return store.query.select().from(serverStop).get()?.clean ?? true;
}

/** Writes down that a server runs on this store (`false`) or has ended as it should (`true`). Rejects as the writer does. */
export function noteStop(store: Store, writer: Writer, clean: boolean): Promise<void> {
  return writer.run(() => {
    const row = { id: ROW, clean };
    store.query.insert(serverStop).values(row).onConflictDoUpdate({ target: serverStop.id, set: { clean } }).run();
  });
}
