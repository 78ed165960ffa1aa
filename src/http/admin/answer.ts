import { AccountError } from "../../accounts/account-error.ts";
import type { Accounts } from "../../accounts/accounts.ts";
import type { Keys } from "../../accounts/keys.ts";
import type { Plans } from "../../accounts/plans.ts";
import { fieldFault, GatewayError, invalidField } from "../../canon/errors.ts";
import type { Store } from "../../db/open.ts";
import { type Book, LedgerError } from "../../ledger/book.ts";
import type { Clock } from "../../lib/clock.ts";
import { parseUsd } from "../../lib/usd.ts";
import type { Limiter } from "../../limits/limiter.ts";
import type { VendorHealth } from "../../vendors/health.ts";
import type { Vendor } from "../../vendors/vendor.ts";
import type { Fault } from "../../wire/open.ts";
import { toResponse } from "../answered.ts";
import { MAX_ADMIN_BYTES, readJson } from "../body/body.ts";
import { authenticateAdmin } from "../caller/credentials.ts";
import { ownJson } from "../own-json.ts";
import { requestIdOf } from "../request.ts";

/** What the operator's endpoints need. */
export type AdminDependencies = {
  store: Store;
  clock: Clock;
  keys: Keys;
  accounts: Accounts;
  plans: Plans;
  book: Book;
  limiter: Limiter;
  health: VendorHealth;
  /** The vendors that are switched on. */
  vendors(): Iterable<Vendor>;
  userAgent: string;
};

/** Under what the document names these endpoints. */
export const ADMIN_TAGS = ["Administration"];

/** What a handler gives: a value and its status, or a whole answer. */
export type AdminReply = { status?: number; value: unknown } | Response;

const LEDGER_PARAMS: Partial<Record<LedgerError["code"], string>> = {
  bad_amount: "amount_usd",
  bad_reference: "reference",
  reference_reused: "reference",
};

/** What the stores throw, as the operator is told it (contract 6). Their sentences are written for operators. */
function explain(thrown: unknown): unknown {
  if (thrown instanceof AccountError) return invalidField(thrown.param ?? "", thrown.message);
  if (!(thrown instanceof LedgerError)) return thrown;
  if (thrown.code === "no_account") return new GatewayError("not_found", thrown.message);
  if (thrown.code === "insufficient") return new GatewayError("insufficient_quota", thrown.message);
  return invalidField(LEDGER_PARAMS[thrown.code] ?? "", thrown.message);
}

/** Answers a request of an admin key, and no other (contract 4): 401 without a key, 403 with one of another kind. Throws what is wrong with it. */
export async function answerAdmin(
  request: Request,
  { keys, limiter }: AdminDependencies,
  work: () => AdminReply | Promise<AdminReply>,
): Promise<Response> {
  try {
    limiter.take(authenticateAdmin(request, keys), "admin").release();
    const reply = await work();
    if (reply instanceof Response) return reply;
    return toResponse(ownJson(reply.value, requestIdOf(request), reply.status));
  } catch (thrown) {
    throw explain(thrown);
  }
}

/** The request's body, checked. Throws GatewayError: invalid_request with the field at fault, and what the body reader throws. */
export async function readBody<T>(
  request: Request,
  clock: Clock,
  check: (value: unknown) => Fault | undefined,
): Promise<T> {
  const { value } = await readJson(request, { maxBytes: MAX_ADMIN_BYTES, clock });
  const fault = check(value);
  if (fault) throw fieldFault(fault);
  return value as T;
}

/** A number is taken as it is shortest written: 0.1 means a tenth. Below a millionth that has an exponent, which is written out where nine decimals hold it. */
function writeOut(amount: string | number): string {
  const text = String(amount);
  if (typeof amount === "string" || !text.includes("e-")) return text;
  const decimals = amount.toFixed(9);
  return Number(decimals) === amount ? decimals : text;
}

/** An amount as it was written, in nano-USD, exact. Throws GatewayError (invalid_request) for a fraction of a nano-dollar, or no amount. */
export function readAmount(amount: string | number, param: string): bigint {
  const nano = parseUsd(writeOut(amount));
  if (nano !== undefined) return nano;
  throw invalidField(param, `${param} must be an amount in USD with at most nine decimals, such as 25 or "0.5".`);
}
