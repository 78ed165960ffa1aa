/** Runs before the first test file and after the last one: what is looked at over the whole suite. */
import { afterAll, afterEach } from "bun:test";
import { openStore } from "../../src/db/open.ts";
import { leakNet } from "./leaks.ts";
import { slowStatements } from "./query-plans.ts";
import { statementsSeen, watchStatements } from "./statements.ts";

watchStatements();

// Elysia asks for a garbage collection with every app that is put together. A program has one app; the suite makes thousands, on a heap that holds all of it:
// on a busy machine a test stood still for ten seconds. Such requests are ignored; full collections, as a test or the product asks for, are still done.
const { gc } = Bun;
Object.assign(Bun, { gc: (force?: boolean) => (force ? gc(true) : 0) });

// A secret that is found during a test fails that test; one that is found after the last test of a file fails the run.
afterEach(() => leakNet.check());

afterAll(() => {
  leakNet.check();
  const store = openStore(":memory:");
  const slow = slowStatements(store.database, statementsSeen());
  store.close();
  if (slow.length > 0) throw new Error(`Statements that walk through a table or sort it:\n${slow.join("\n")}`);
});
