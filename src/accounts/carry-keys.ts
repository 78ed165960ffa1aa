import type { Store } from "../db/open.ts";

/** What became of the keys between two states of a store. */
export type Carried = {
  /** Keys that were not revoked in the older state, and now are, as in the newer one. */
  revoked: number;
  /** Keys revoked in neither whose limits differed; they now have those of the newer one. */
  limited: number;
  /** Keys in force in the newer state that the older one does not know. */
  missing: number;
};

/** The columns of a key's limits. */
const LIMITS = ["expires_at", "models", "endpoints", "cap_day_nano", "cap_total_nano", "cap_requests_day"] as const;

type Row = { hash: Uint8Array; revoked_at: bigint | null; expires_at: bigint | null } & Record<
  (typeof LIMITS)[number],
  bigint | string | null
>;

const columns = LIMITS.join(", ");
const places = LIMITS.map(() => "?").join(", ");

/**
 * Writes into `older`, a backup that is about to take the place of `newer`, which keys and tokens have been revoked since and how they are limited now: one
 * that was revoked or narrowed, say because it leaked, must not work as before again through a restore (contract 4). They are matched by their hashes.
 * `now` is Unix ms. Throws as SQLite does when one of the two cannot be read, or `older` not written.
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
  // A statement left open would keep its store's connection open, and so the files whose names the other store is about to take.
  for (const statement of [find, revoke, limit, all]) statement.finalize();
  return carried;
}
