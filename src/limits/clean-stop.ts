import type { Store } from "../db/open.ts";
import type { Writer } from "../db/writer.ts";

const READ = "select clean from server_stop";
const WRITE = "INSERT INTO server_stop (id, clean) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET clean = excluded.clean";

/** Whether the last server on this store ended as it should; true for a store that had none. */
export function endedCleanly(store: Store): boolean {
  const row = store.database.query<{ clean: bigint }, []>(READ).get();
  return row === null || row.clean === 1n;
}

/** Writes down that a server runs on this store (`false`) or has ended as it should (`true`). Rejects as the writer does. */
export function noteStop(store: Store, writer: Writer, clean: boolean): Promise<void> {
  return writer.run(() => {
    store.database.query(WRITE).run(clean ? 1 : 0);
  });
}
