import { openStore, type Store } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import type { Book } from "../../src/ledger/book.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";

/** The books of a store, read and written by this process beside a gateway that has them too, or after it. */
export type Books = { store: Store; writer: Writer; book: Book };

/** How long this process waits while the gateway writes to the same store, ms. */
const WAIT_MS = 5_000;

/** Opens the books of the store at `path` for as long as `work` takes. `check`: whether the store is looked through for damage first. */
export async function withBooks<T>(path: string, work: (books: Books) => Promise<T> | T, check = true): Promise<T> {
  const store = openStore(path, { waitMs: WAIT_MS, check });
  const writer = new Writer(store);
  const { book, stop } = openLedger(store, writer);
  try {
    return await work({ store, writer, book });
  } finally {
    stop();
    await writer.close();
    store.close();
  }
}
