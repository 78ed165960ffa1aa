import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { FairQueue } from "../../src/jobs/fair-queue.ts";

const anywhere = () => true;

function fill(queue: FairQueue, accountId: string, jobs: number, vendor = "v"): void {
  for (let at = 0; at < jobs; at++) queue.push({ id: `${accountId}-${at}`, accountId, vendor });
}

describe("work of many accounts is taken in turns", () => {
  test("an account with ten thousand jobs delays another's first by one at the most", () => {
    const queue = new FairQueue();
    fill(queue, "a", 10_000);
    for (let at = 0; at < 500; at++) expect(queue.take(anywhere)?.accountId).toBe("a");
    fill(queue, "b", 1);
    const next = [queue.take(anywhere), queue.take(anywhere)].map((taken) => taken?.accountId);
    expect(next).toContain("b");
    expect(queue.size).toBe(10_000 - 501);
    const rest = Array.from({ length: queue.size }, () => queue.take(anywhere)?.id);
    expect(rest.filter((id) => id !== "b-0")).toEqual(
      Array.from({ length: rest.length }, (_, at) => `a-${10_000 - rest.length + at}`),
    );
  });

  test("a pause saves no turns up", () => {
    const queue = new FairQueue();
    fill(queue, "a", 300);
    fill(queue, "b", 1);
    for (let at = 0; at < 200; at++) queue.take(anywhere);
    fill(queue, "b", 100);
    const turns = Array.from({ length: 20 }, () => queue.take(anywhere)?.accountId);
    expect(turns.filter((account) => account === "b").length).toBeLessThanOrEqual(11);
  });

  test("with k accounts busy none has fewer than n/k - 1 of n starts, each in its own order", () => {
    const busy = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(busy, fc.integer({ min: 0, max: 200 }), (jobs, starts) => {
        const queue = new FairQueue();
        jobs.forEach((each, at) => {
          fill(queue, `a${at}`, each);
        });
        const taken = new Map<string, string[]>();
        const least = Math.min(...jobs);
        const rounds = Math.min(starts, least * jobs.length);
        for (let at = 0; at < rounds; at++) {
          const { accountId, id } = queue.take(anywhere)!;
          taken.set(accountId, [...(taken.get(accountId) ?? []), id]);
        }
        for (let at = 0; at < jobs.length; at++) {
          const own = taken.get(`a${at}`) ?? [];
          expect(own.length).toBeGreaterThanOrEqual(Math.floor(rounds / jobs.length) - 1);
          expect(own).toEqual(own.map((_, index) => `a${at}-${index}`));
        }
      }),
    );
  });

  test("every job comes once or was removed, whatever happens in between", () => {
    const step = fc.record({
      kind: fc.constantFrom("push", "push", "take", "remove"),
      account: fc.integer({ min: 0, max: 4 }),
      vendor: fc.constantFrom("v", "w"),
      pick: fc.nat(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const queue = new FairQueue();
        const waiting = new Set<string>();
        const gone = new Set<string>();
        steps.forEach(({ kind, account, vendor, pick }, at) => {
          if (kind === "push") {
            waiting.add(`j${at}`);
            queue.push({ id: `j${at}`, accountId: `a${account}`, vendor });
          } else if (kind === "remove" && waiting.size > 0) {
            const id = [...waiting][pick % waiting.size]!;
            waiting.delete(id);
            gone.add(id);
            queue.remove(id);
          } else {
            const taken = queue.take((each) => each === vendor);
            if (!taken) return;
            expect(taken.vendor).toBe(vendor);
            expect(waiting.delete(taken.id)).toBe(true);
            gone.add(taken.id);
          }
          expect(queue.size).toBe(waiting.size);
        });
        for (let left = waiting.size; left > 0; left--) expect(waiting.delete(queue.take(anywhere)!.id)).toBe(true);
        expect(queue.take(anywhere)).toBeUndefined();
      }),
    );
  });

  test("an account's own work is taken in its order, whichever vendors it is for", () => {
    const queue = new FairQueue();
    const vendors = ["v", "w", "w", "v", "u", "v", "w", "u"];
    vendors.forEach((vendor, at) => {
      queue.push({ id: `${at}`, accountId: "a", vendor });
    });
    expect(vendors.map(() => queue.take(anywhere)?.id)).toEqual(vendors.map((_, at) => `${at}`));
  });

  test("a vendor without room holds nobody else up", () => {
    const queue = new FairQueue();
    fill(queue, "a", 50, "full");
    fill(queue, "a2", 1, "full");
    queue.push({ id: "free", accountId: "a", vendor: "open" });
    expect(queue.take((vendor) => vendor === "open")?.id).toBe("free");
    expect(queue.take((vendor) => vendor === "open")).toBeUndefined();
    expect(queue.size).toBe(51);
  });

  test("who waits for a vendor without room has its turns once there is some, also where it asks for more meanwhile", () => {
    const queue = new FairQueue();
    fill(queue, "a", 3, "full");
    fill(queue, "b", 30, "open");
    for (let at = 0; at < 20; at++) expect(queue.take((vendor) => vendor === "open")?.accountId).toBe("b");
    queue.push({ id: "more", accountId: "a", vendor: "full" });
    expect(Array.from({ length: 4 }, () => queue.take(anywhere)?.accountId)).toEqual(["a", "a", "a", "a"]);
  });
});
