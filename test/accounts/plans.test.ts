import { expect, test } from "bun:test";
import { builtInPlans, createPlans, planOf } from "../../src/accounts/plans.ts";

test("the table of contract 4, with the web rows of interface 8", () => {
  const shown = builtInPlans.map((plan) => [
    ...[plan.id, plan.requestsPerMinute, plan.concurrentGenerations, plan.windowNano, plan.imagesPerDay],
    ...[plan.imageJobsInFlight, plan.webCallsPerDay, plan.webCallsPerMinute, plan.webCallsConcurrent, plan.webCallNano],
  ]);
  const none = undefined;
  expect(shown).toEqual([
    ["local", none, none, 0n, none, none, none, none, none, none],
    ["free", 20, 3, 0n, 5, 1, 20, 5, 2, 10_000_000n],
    ["pro", 60, 10, 2_000_000_000n, 20, 2, 100, 10, 3, none],
    ["pro_plus", 120, 15, 5_000_000_000n, 40, 3, 200, 15, 3, none],
    ["max", 240, 20, 10_000_000_000n, 80, 4, 300, 20, 4, none],
    ["ultra", 600, 40, 20_000_000_000n, 200, 6, 1_500, 30, 6, none],
    ["power", 1_200, 80, 50_000_000_000n, 400, 8, 3_000, 60, 8, none],
  ]);
  expect(builtInPlans.filter(({ metered }) => !metered).map(({ id }) => id)).toEqual(["local"]);
});

test("the configuration changes figures and adds plans; what a new one leaves out is bounded", () => {
  const plans = createPlans({
    pro: { spending_window_usd: 2.5, web_call_usd: 0.005 },
    team: { requests_per_minute: 7, metered: false },
  });
  const builtIn = (id: string) => builtInPlans.find((plan) => plan.id === id)!;
  const window = { windowNano: 2_500_000_000n, webCallNano: 5_000_000n };
  expect(planOf(plans, "pro")).toEqual({ ...builtIn("pro"), ...window });
  const free = { metered: false, webCallNano: undefined };
  expect(planOf(plans, "team")).toEqual({ ...builtIn("free"), id: "team", ...free, requestsPerMinute: 7 });
  expect(planOf(plans, "ultra")).toEqual(builtIn("ultra"));
});

test("an account on a plan that is gone is bounded and pays", () => {
  expect(planOf(createPlans(), "gone").id).toBe("free");
});
