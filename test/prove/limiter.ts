/**
 * What the limiter costs: bytes for each of 100,000 buckets, and nanoseconds for each check (issue aims: 20 MB in all, 0.3 µs). Run it
 * alone: `bun test/prove/limiter.ts`. Exits 1 when an aim is missed. Also what 10,000 keys cost the look-up of one.
 */

import { heapStats } from "bun:jsc";
import { Accounts } from "../../src/accounts/accounts.ts";
import type { Caller } from "../../src/accounts/caller.ts";
import { Keys } from "../../src/accounts/keys.ts";
import { createPlans } from "../../src/accounts/plans.ts";
import { openStore } from "../../src/db/open.ts";
import { Writer } from "../../src/db/writer.ts";
import { newId } from "../../src/lib/id.ts";
import { AddressLimiter } from "../../src/limits/addresses.ts";
import { MAX_BUCKETS } from "../../src/limits/buckets.ts";
import { SpeedLimiter } from "../../src/limits/limiter.ts";

const AIM_BYTES = 20_000_000 / MAX_BUCKETS;
const AIM_NS = 300;
const CHECKS = 2_000_000;
const ROUNDS = 5;
const KEYS = 10_000;

let missed = false;

function report(name: string, value: number, unit: string, aim?: number): void {
  const fits = aim === undefined || value <= aim;
  if (!fits) missed = true;
  const shown = `${name.padEnd(58)} ${value.toFixed(1).padStart(9)} ${unit}`;
  console.log(aim === undefined ? shown : `${shown}   aim ${aim} ${unit}   ${fits ? "met" : "MISSED"}`);
}

/** Memory that is in use after a full garbage collection, bytes. */
async function memory(): Promise<number> {
  for (let pass = 0; pass < 4; pass++) {
    Bun.gc(true);
    await Bun.sleep(5);
  }
  const { heapSize, extraMemorySize } = heapStats();
  return heapSize + extraMemorySize;
}

/** Time of this process alone, ns: what else the machine does is not counted, though its use of the caches is. */
function ownTime(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1_000;
}

/** The best of some rounds, ns for each of `count` calls. */
function time(count: number, work: (index: number) => void): number {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    const start = ownTime();
    for (let index = 0; index < count; index++) work(index);
    best = Math.min(best, (ownTime() - start) / count);
  }
  return best;
}

/** A clock that moves on by itself: no check is denied for want of time, and asking costs next to nothing. */
function fastClock() {
  let at = 0;
  return {
    now: () => at,
    monotonic: () => {
      at += 60;
      return at;
    },
    after: () => () => {},
  };
}

/** Keeps what is measured reachable: otherwise it would be collected before it is measured. */
const kept: unknown[] = [];

const callers: Caller[] = Array.from({ length: MAX_BUCKETS }, () => ({
  // As the store hands it out: one piece of text, not two that are yet to be joined.
  accountId: Buffer.from(newId("acct")).toString("latin1"),
  plan: "power",
  keyId: "key_1",
}));

{
  const before = await memory();
  const limiter = new SpeedLimiter({
    plans: createPlans(),
    clock: { now: () => 0, monotonic: () => 0, after: () => () => {} },
  });
  for (const caller of callers) limiter.take(caller, "generate").release();
  kept.push(limiter);
  const bytes = ((await memory()) - before) / MAX_BUCKETS;
  report("bytes a bucket, 100,000 accounts", bytes, "B", AIM_BYTES);
}
{
  const before = await memory();
  const limiter = new AddressLimiter({ clock: { now: () => 0, monotonic: () => 0, after: () => () => {} } });
  for (let host = 0; host < MAX_BUCKETS; host++) {
    const [a, b, c] = [(host >> 16) & 255, (host >> 8) & 255, host & 255];
    limiter.take({ name: `10.${a}.${b}.${c}`, network: `10.${a}.${b}.0/24` }, "images");
  }
  kept.push(limiter);
  report(
    "bytes a bucket, as many addresses, names included",
    ((await memory()) - before) / MAX_BUCKETS,
    "B",
    AIM_BYTES,
  );
}
{
  const limiter = new SpeedLimiter({ plans: createPlans(), clock: fastClock() });
  const one = callers[0]!;
  const ns = time(CHECKS, () => limiter.take(one, "generate").release());
  report("a check, one account (rate, concurrency, state, release)", ns, "ns", AIM_NS);
}
{
  const limiter = new SpeedLimiter({ plans: createPlans(), clock: fastClock() });
  for (const caller of callers) limiter.take(caller, "generate").release();
  const inTurn = time(CHECKS, (index) => limiter.take(callers[index % MAX_BUCKETS]!, "generate").release());
  report("a check, 100,000 accounts in turn", inTurn, "ns", AIM_NS);
  // Without order every check waits for memory several times: a plain Map of numbers does too, and is shown beside it.
  const plain = new Map(callers.map(({ accountId }) => [accountId, 0]));
  const astray = (index: number) => callers[(index * 7_919) % MAX_BUCKETS] as Caller;
  const bare = time(CHECKS, (index) =>
    plain.set(astray(index).accountId, (plain.get(astray(index).accountId) ?? 0) + 1),
  );
  const random = time(CHECKS, (index) => limiter.take(astray(index), "generate").release());
  report("  without any order", random, "ns");
  report("  without any order, a plain Map of numbers", bare, "ns");
}
{
  const limiter = new SpeedLimiter({ plans: createPlans(), clock: fastClock() });
  const local: Caller = { accountId: "acct_1", plan: "local", keyId: "key_1" };
  report(
    "a check on plan local",
    time(CHECKS, () => limiter.take(local, "generate").release()),
    "ns",
    AIM_NS,
  );
}
{
  const limiter = new AddressLimiter({ clock: fastClock() });
  const address = { name: "192.0.2.7", network: "192.0.2.0/24" };
  const ns = time(CHECKS, () => limiter.take(address, "images"));
  report("a check, one address", ns, "ns", AIM_NS);
}
{
  const store = openStore(":memory:");
  const writer = new Writer(store);
  const keys = new Keys(store, writer);
  const made = await new Accounts(store, writer, keys).ensureLocal();
  const key = made?.key.key ?? "";
  const few = time(200_000, () => keys.find(key));
  const wanted = { accountId: made?.account.id ?? "", name: "many", kind: "api" as const };
  await Promise.all(Array.from({ length: KEYS }, () => keys.create(wanted)));
  const many = time(200_000, () => keys.find(key));
  report("the look-up of a key among 1", few, "ns");
  report(`the look-up of a key among ${KEYS.toLocaleString("en-US")}`, many, "ns");
  report("what the others cost it", Math.max(0, many - few), "ns", AIM_NS);
  const again = time(1, () => keys.reload()) / 1e6;
  report("reading them all again, after another process's change", again, "ms");
  await writer.close();
  store.close();
}
if (kept.length === 0) throw new Error("nothing was measured");
process.exit(missed ? 1 : 0);
