import { planOf } from "../../accounts/plans.ts";
import { GatewayError } from "../../canon/errors.ts";
import { newId } from "../../lib/id.ts";
import type { Job } from "../job.ts";
import { paymentOf, pricesOf, termsOf } from "../payment.ts";
import { Spending } from "../spending.ts";

/**
 * The job of a further round with what is left of its ceiling on output tokens, which is for all rounds together: the client's, or what the
 * account's money pays for. The job itself where there is none; undefined when nothing is left.
 */
export function boundOutput(job: Job): Job | undefined {
  const { exchange, intent } = job;
  const ceiling = Math.min(intent.maxOutputTokens ?? Infinity, exchange.hold?.ceiling ?? Infinity);
  if (ceiling === Infinity) return job;
  const left = ceiling - exchange.counted.usage.output;
  if (left < 1) return undefined;
  const { asStream = false, growAt = Number.POSITIVE_INFINITY } = exchange.hold ?? {};
  return { ...job, money: { ceiling: left, asStream, growAt } };
}

/**
 * Sets money aside for the input of a further round, of which the request's own hold knew nothing, and adds it to that hold. False when there is no money for
 * it: the reply is to end. Throws GatewayError for whatever else the ledger refuses.
 */
export async function reserveInput(job: Job, estimateInput: () => number): Promise<boolean> {
  const { exchange, request, services, entry, intent, body } = job;
  const { caller, client } = request;
  const plan = planOf(services.plans, caller.plan);
  const isCapped = caller.narrow?.capped === true;
  const payment = paymentOf(plan, entry, intent, body);
  if (!payment && !isCapped) return true;
  const alone = { sliced: true, unseenOutput: 0 };
  try {
    const held = await services.ledger.hold({
      requestId: newId("req"),
      accountId: caller.accountId,
      keyId: caller.keyId,
      model: intent.model,
      dialect: client.name,
      stream: intent.stream,
      estimateInput,
      maxOutputTokens: 1,
      // A round is no further request: a key that has made its last one of the day may end it.
      requests: 0,
      prices: pricesOf(entry),
      payment: payment && { ...payment, ...alone },
      terms: isCapped ? { ...termsOf(plan, entry, intent, body), ...alone } : undefined,
    });
    await (exchange.hold?.absorb ? exchange.hold.absorb(held) : held.release());
    return true;
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown;
    if (thrown.code !== "insufficient_quota" && thrown.code !== "allowance_exhausted") throw thrown;
    exchange.stopped = true;
    return false;
  }
}

/** Begins to watch what the reply costs where the first round was not watched, since it could not cost more than is paid for: with a further round it may. */
export function watchSpending({ exchange, intent }: Job): void {
  const { hold } = exchange;
  if (exchange.spending || !hold || hold.growAt === Number.POSITIVE_INFINITY) return;
  exchange.spending = new Spending(hold, intent.model, exchange.attempts, exchange.counted.usage.output);
}
