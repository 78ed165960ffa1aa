import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Accounts } from "../../src/accounts/accounts.ts";
import { Keys } from "../../src/accounts/keys.ts";
import { storePath } from "../../src/config/data-folder.ts";
import { UPSTREAM_MODEL } from "../bench/wire.ts";
import { withBooks } from "../support/books.ts";

/** The one model: it leads to the benchmark's vendor, and is paid for. */
export const MODEL = "lab/paid";
const FUNDED = 900_000_000_000_000n;

/** Makes a data folder for a gateway before the vendor on this port, with an account that can pay for all that is measured; its key. */
export function preparePaidFolder(data: string, vendorPort: number): Promise<string> {
  const base = `http://127.0.0.1:${vendorPort}/v1`;
  const config = {
    local_discovery: false,
    vendors: [{ id: "lab", dialect: "chat", base_url: base, api_key: "bench-key", models: "any" }],
    models: [{ id: MODEL, pricing: { input: 3, output: 15 }, routes: [{ vendor: "lab", model: UPSTREAM_MODEL }] }],
    plans: { paying: { requests_per_minute: 1_000_000_000, concurrent_generations: 100_000, spending_window_usd: 0 } },
  };
  writeFileSync(join(data, "sluice.json"), JSON.stringify(config), { mode: 0o600 });
  return withBooks(storePath(data), async ({ store, writer, book }) => {
    const keys = new Keys(store, writer);
    const { id } = await new Accounts(store, writer, keys).create({ name: "payer", plan: "paying" });
    await book.deposit({ accountId: id, amountNano: FUNDED, reference: "payment" });
    return (await keys.create({ accountId: id, name: "k", kind: "api" })).key;
  });
}

/** Says what is wrong with the books of such a folder in which so many requests should be. */
export function inspectPaidFolder(data: string, requests: number): Promise<string[]> {
  return withBooks(storePath(data), ({ store, book }) => {
    const [count] = store.database.query("SELECT count(*) FROM usage").values()[0] ?? [];
    return [
      ...(count === BigInt(requests) ? [] : [`${count} usage rows`]),
      ...book.verify({ last: 10_000 }).map(({ invariant, detail }) => `${invariant}: ${detail}`),
    ];
  });
}
