import type { Hold, Settlement } from "../../src/ledger/ledger.ts";
import { gate } from "../support/wait.ts";
import type { ScenarioLab } from "./lab.ts";

/** The money of a hold that sets nothing aside. */
export const UNPAID = {
  ceiling: undefined,
  short: false,
  asStream: false,
  growAt: Number.POSITIVE_INFINITY,
  extend: () => true,
};

/**
 * Replaces the lab's ledger by one that notes what it is told, and settles once `written` is open; with `fault`, which then cannot be written for that. A hold
 * grows at what `terms` say when it is asked.
 */
export function slowLedger(lab: ScenarioLab, terms: Partial<Hold> = {}, fault?: Error) {
  const written = gate();
  const settlements: Settlement[] = [];
  const released: string[] = [];
  lab.gateway.app.services.ledger = {
    hold: async ({ requestId }) => ({
      ...UNPAID,
      ...terms,
      get growAt() {
        return terms.growAt ?? UNPAID.growAt;
      },
      async settle(settlement) {
        settlements.push(settlement);
        await written.opened;
        if (fault) throw fault;
        return { costNano: undefined, chargedNano: 0n, metered: false };
      },
      async release() {
        released.push(requestId);
      },
    }),
  };
  return { written, settlements, released };
}
