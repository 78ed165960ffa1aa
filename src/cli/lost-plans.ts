import { Accounts } from "../accounts/accounts.ts";
import { createPlans, type PlanFigures } from "../accounts/plans.ts";
import type { Store } from "../db/open.ts";

/** The advice for what {@link findLostPlans} finds. */
export const LOST_PLAN_ADVICE =
  "add the plan to `plans` of the configuration file, or `sluice accounts plan <account> <plan>`";

/**
 * A sentence for each plan that accounts of `store` are on and that is not configured any more: these accounts are bounded and charged as on `free`, and
 * nothing else says so.
 */
export function findLostPlans(store: Store, figures: Readonly<Record<string, PlanFigures>>): string[] {
  const plans = createPlans(figures);
  return [...Accounts.countByPlan(store)]
    .filter(([plan]) => !plans.has(plan))
    .map(([plan, many]) => {
      const who = many === 1 ? "the account on it is" : `the ${many} accounts on it are`;
      return `Plan ${JSON.stringify(plan)} is not configured: ${who} treated as on plan free.`;
    });
}
