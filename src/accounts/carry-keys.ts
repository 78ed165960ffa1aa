import type { Store } from "../db/open.ts";

/** What became of the keys between two states of a store. */
export type Carried = {
  /** Keys that were in force in the older state and are revoked now, as in the newer one. */
  revoked: number;
  /** Keys in force in both that were limited otherwise, and are limited now as in the newer one. */
  limited: number;
  /** Keys in force in the newer state that the older one does not know. */
  missing: number;
};

/** What a key is limited to, as its operator last said. */
const LIMITS = ["expires_at", "models", "endpoints", "cap_day_nano", "cap_total_nano", "cap_requests_day"] as const;

type Row = { hash: Uint8Array; revoked_at: bigint | null; expires_at: bigint | null } & Record<
  (typeof LIMITS)[number],
  bigint | string | null
>;

const columns = LIMITS.join(", ");
const places = LIMITS.map(() => "?").join(", ");

/**
 * Revokes in `older`, a backup that is about to take the place of `newer`, what was revoked since, and limits what was limited: a key that was taken away
 * or made narrower, because it leaked say, must not do again through a restore what it did before (contract 4). Keys and tokens are the same by hash.
 * Throws as SQLite does when one of the two cannot be read.
 */
export function carryKeys(newer: Store, older: Store, now: number): Carried {
  const carried: Carried = { revoked: 0, limited: 0, missing: 0 };
  const find = older.database.prepare<Pick<Row, "revoked_at">, [Uint8Array]>(
    "SELECT revoked_at FROM api_key WHERE hash = ?",
  );
  const revoke = older.database.prepare("UPDATE api_key SET revoked_at = ? WHERE hash = ?");
  const limit = older.database.prepare(
    `UPDATE api_key SET (${columns}) = (${places}) WHERE hash = ? AND (${columns}) IS NOT (${places})`,
  );
  const all = newer.database.prepare<Row, []>(`SELECT hash, revoked_at, ${columns} FROM api_key`);
  older.database
    .transaction(() => {
      for (const row of all.all()) {
        const { hash, revoked_at, expires_at } = row;
        const known = find.get(hash);
        const inForce = revoked_at === null && (expires_at === null || expires_at > BigInt(now));
        if (!known && inForce) carried.missing++;
        if (!known || known.revoked_at !== null) continue;
        if (revoked_at !== null) {
          revoke.run(revoked_at, hash);
          carried.revoked++;
        } else {
          const limits = LIMITS.map((name) => row[name]);
          carried.limited += limit.run(...limits, hash, ...limits).changes;
        }
      }
    })
    .immediate();
  // A statement that is left would keep its connection, and with it the names of files that are about to be another store's.
  for (const statement of [find, revoke, limit, all]) statement.finalize();
  return carried;
}
