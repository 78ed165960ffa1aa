import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import type { Settlement } from "../../src/ledger/ledger.ts";
import { openLedger } from "../../src/ledger/open-ledger.ts";
import { manualClock } from "../support/clock.ts";

const settlement: Settlement = {
  outcome: "completed",
  vendor: "anthropic",
  upstreamModel: "claude-x",
  usage: { input: 10, cacheRead: 20, cacheWrite: 30, output: 40, reasoning: 5 },
  estimated: false,
  finish: "stop",
  attempts: 2,
  firstTokenMs: 12.4,
  durationMs: 99.6,
};

function ledgerWith() {
  const store = openStore(":memory:");
  const writer = new Writer(store);
  const clock = manualClock();
  const { ledger } = openLedger(store, writer, { clock });
  const hold = (requestId: string) =>
    ledger.hold({
      ...{ requestId, accountId: "acct_1", keyId: "key_1", model: "anthropic/claude-x" },
      ...{ dialect: "messages", stream: true, estimateInput: () => 7 },
    });
  const rows = () => store.query.query.usage.findMany().sync();
  return { store, writer, clock, ledger, hold, rows };
}

describe("the usage ledger", () => {
  test("a hold writes nothing; a settle writes the whole row, durable when it resolves", async () => {
    const { hold, rows, clock } = ledgerWith();
    const held = await hold("req_1");
    expect(rows()).toEqual([]);
    await held.settle(settlement);
    expect(rows()).toEqual([
      {
        ...{
          requestId: "req_1",
          accountId: "acct_1",
          keyId: "key_1",
          atMs: clock.now(),
          durationMs: 100,
          firstTokenMs: 12,
        },
        ...{
          dialect: "messages",
          stream: true,
          model: "anthropic/claude-x",
          vendor: "anthropic",
          upstreamModel: "claude-x",
        },
        ...{ outcome: "completed", finish: "stop", error: null, attempts: 2, estimated: false },
        ...{ input: 10, cacheRead: 20, cacheWrite: 30, cacheWriteLong: 0, output: 40, reasoning: 5 },
        ...{ priceId: null, costNano: null, chargedNano: 0n, units: 0, flags: 0 },
      },
    ]);
  });

  test("what is not known is null", async () => {
    const { hold, rows } = ledgerWith();
    const { finish: _finish, firstTokenMs: _first, ...rest } = settlement;
    await (await hold("req_1")).settle({ ...rest, outcome: "client-left", error: "upstream_error", estimated: true });
    expect(rows()[0]).toMatchObject({ finish: null, firstTokenMs: null, error: "upstream_error", estimated: true });
  });

  test("the law: whatever is called how often in whatever order, the first call alone counts", async () => {
    const calls = fc.array(fc.constantFrom("settle", "release"), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(calls, fc.boolean()), { maxLength: 30 }), async (requests) => {
        const { hold, rows, store } = ledgerWith();
        const expected: string[] = [];
        await Promise.all(
          requests.map(async ([order, together], at) => {
            const held = await hold(`req_${at}`);
            if (order[0] === "settle") expected.push(`req_${at}`);
            const answers: Promise<unknown>[] = [];
            for (const call of order) {
              answers.push(call === "settle" ? held.settle(settlement) : held.release());
              if (!together) await answers.at(-1);
            }
            await Promise.all(answers);
          }),
        );
        expect(
          rows()
            .map(({ requestId }) => requestId)
            .sort(),
        ).toEqual(expected.sort());
        store.close();
      }),
      { numRuns: 40 },
    );
  });

  test("a second settle is as durable as the first when it resolves", async () => {
    const { hold, rows } = ledgerWith();
    const held = await hold("req_1");
    void held.settle(settlement);
    await held.settle({ ...settlement, attempts: 9 });
    expect(rows().map(({ attempts }) => attempts)).toEqual([2]);
  });

  test("one request has one row, whoever settles; the refused one's neighbours are written", async () => {
    const { hold, rows } = ledgerWith();
    const settled = await Promise.allSettled(
      ["req_1", "req_2", "req_1", "req_3"].map(async (id) => (await hold(id)).settle(settlement)),
    );
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
    expect(rows().map(({ requestId }) => requestId)).toEqual(["req_1", "req_2", "req_3"]);
  });
});
