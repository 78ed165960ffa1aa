import type { Store } from "../db/open.ts";

/** What became of the keys between two states of a store. */
export type Carried = {
  /** Keys that were in force in the older state and are revoked now, as in the newer one. */
  revoked: number;
  /** Keys in force in the newer state that the older one does not know. */
  missing: number;
};

type Row = { id: string; revoked_at: bigint | null };

/**
 * Revokes in `older`, a backup that is about to take the place of `newer`, what was revoked since: a key that was taken away, because it leaked
 * say, must not work again through a restore (contract 4). Keys and tokens are the same by hash. Throws as SQLite does when one of the two cannot be read.
 */
export function carryRevocations(newer: Store, older: Store, now: number): Carried {
  const carried: Carried = { revoked: 0, missing: 0 };
  const find = older.database.prepare<Row, [Uint8Array]>("SELECT id, revoked_at FROM api_key WHERE hash = ?");
  const revoke = older.database.prepare("UPDATE api_key SET revoked_at = ? WHERE hash = ?");
  const all = newer.database.prepare<{ hash: Uint8Array; revoked_at: bigint | null; expires_at: bigint | null }, []>(
    "SELECT hash, revoked_at, expires_at FROM api_key",
  );
  older.database
    .transaction(() => {
      for (const { hash, revoked_at, expires_at } of all.all()) {
        const known = find.get(hash);
        const inForce = revoked_at === null && (expires_at === null || expires_at > BigInt(now));
        if (!known && inForce) carried.missing++;
        if (!known || revoked_at === null || known.revoked_at !== null) continue;
        revoke.run(revoked_at, hash);
        carried.revoked++;
      }
    })
    .immediate();
  // A statement that is left would keep its connection, and with it the names of files that are about to be another store's.
  for (const statement of [find, revoke, all]) statement.finalize();
  return carried;
}
