/** Runs before the first test file and after the last one: what is looked at over the whole suite. */
import { afterAll, afterEach } from "bun:test";
import { openStore } from "../../src/db/open.ts";
import { leakNet } from "./leaks.ts";
import { slowStatements } from "./query-plans.ts";
import { statementsSeen, watchStatements } from "./statements.ts";

watchStatements();

// Elysia asks for a collection with every app that it puts together, one in a program's life. Here there are thousands, each of a heap in which a whole suite
// lives: on a busy machine a test stood still for ten seconds meanwhile. Collections that a test or the product asks for are done as ever.
const { gc } = Bun;
Object.assign(Bun, { gc: (force?: boolean) => (force ? gc(true) : 0) });

// The test during which a secret came to light fails; what an end of a whole file brings to light fails the run.
afterEach(() => leakNet.check());

afterAll(() => {
  leakNet.check();
  const store = openStore(":memory:");
  const slow = slowStatements(store.database, statementsSeen());
  store.close();
  if (slow.length > 0) throw new Error(`Statements that walk through a table or sort it:\n${slow.join("\n")}`);
});
