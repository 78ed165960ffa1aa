import { Elysia } from "elysia";
import type { Accounts } from "../../accounts/accounts.ts";
import type { Caller } from "../../accounts/caller.ts";
import type { Keys } from "../../accounts/keys.ts";
import { type Plans, planOf } from "../../accounts/plans.ts";
import { GatewayError } from "../../canon/errors.ts";
import type { Store } from "../../db/open.ts";
import { findAttempts } from "../../ledger/attempts.ts";
import type { Book } from "../../ledger/book.ts";
import type { KeySpend } from "../../limits/key-spend.ts";
import type { Limiter } from "../../limits/limiter.ts";
import { OwnAccountView } from "../../wire/account.ts";
import { UsageReceipt } from "../../wire/usage.ts";
import { toResponse } from "../answered.ts";
import { authenticate } from "../caller/credentials.ts";
import { methodNotAllowed } from "../errors.ts";
import { errorReplies, HIDDEN, jsonReply } from "../openapi-detail.ts";
import { ownJson } from "../own-json.ts";
import { requestIdOf } from "../request.ts";
import { usageParameters, usageReplies } from "../usage/detail.ts";
import { answerUsage } from "../usage/list.ts";
import { toReceipt } from "../usage/shape.ts";
import { toAccountView, toOwnKey } from "./shape.ts";

/** What the endpoints about an account's own affairs need. */
export type AccountDependencies = {
  store: Store;
  keys: Keys;
  accounts: Accounts;
  plans: Plans;
  book: Book;
  limiter: Limiter;
  keySpend: KeySpend;
};

/** What an account's own usage can be put together by. */
const OWN_GROUPINGS = ["day", "model", "key"] as const;

const ownAnswer = (request: Request, value: unknown) => toResponse(ownJson(value, requestIdOf(request)));

function showAccount({ accountId, keyId }: Caller, { accounts, plans, book, keySpend }: AccountDependencies) {
  const account = accounts.find(accountId);
  if (!account) throw new GatewayError("not_found", "This account is gone.");
  const key = toOwnKey(keyId, keySpend.of(keyId)?.states);
  return { ...toAccountView(account, planOf(plans, account.plan), book), key };
}

/** The receipt of a request; of one account alone, where it is given. Throws GatewayError (not_found), also for another account's. */
export function showReceipt(
  requestId: string,
  { store, book }: Pick<AccountDependencies, "store" | "book">,
  accountId?: string,
) {
  const receipt = book.receipt(requestId, accountId);
  if (!receipt) {
    throw new GatewayError(
      "not_found",
      "There is no settled request of this id. One that cost nothing has no receipt; an image's is known by its job's id.",
    );
  }
  return toReceipt(receipt, findAttempts(store, requestId));
}

/** `GET /v1/account`, `GET /v1/usage`, `GET /v1/usage/{request_id}`: what a caller has, and what it used (contract 3). */
export function accountRoutes(dependencies: AccountDependencies) {
  const { store, keys, limiter } = dependencies;
  const answer = (request: Request, work: (caller: Caller) => Response | Promise<Response>) => {
    const caller = authenticate(request, keys);
    limiter.take(caller, "catalog").release();
    return work(caller);
  };
  return new Elysia({ name: "sluice-account" })
    .get(
      "/v1/account",
      ({ request }) => answer(request, (caller) => ownAnswer(request, showAccount(caller, dependencies))),
      {
        detail: {
          tags: ["Account"],
          summary: "The caller's account",
          description: "Plan, wallet, spending window, allowances, and what is left of the key's own caps.",
          responses: { 200: jsonReply(OwnAccountView, "The account."), ...errorReplies("chat") },
        },
      },
    )
    .get(
      "/v1/usage",
      ({ request }) =>
        answer(request, ({ accountId }) => answerUsage(request, store, { accountId, groupings: OWN_GROUPINGS })),
      {
        detail: {
          tags: ["Account"],
          summary: "Usage of the caller's account",
          description:
            "Requests newest first, or put together with `group_by`; a page at a time, until `next_cursor` is null. With `format=csv` or `format=json` (or `Accept: text/csv`) all of it as one file, in which amounts are text with nine decimals.",
          parameters: usageParameters(OWN_GROUPINGS),
          responses: usageReplies(),
        },
      },
    )
    .get(
      "/v1/usage/:request_id",
      ({ request, params }) =>
        answer(request, ({ accountId }) => ownAnswer(request, showReceipt(params.request_id, dependencies, accountId))),
      {
        detail: {
          tags: ["Account"],
          summary: "One request's receipt",
          description:
            "Which model served it, after how many attempts, what was counted at which price, and who paid. `request_id` is the answer's header `x-request-id`: this is where the cost of a stream is found, whose headers are sent before it is known.",
          responses: { 200: jsonReply(UsageReceipt, "The receipt."), ...errorReplies("chat", ["not_found"]) },
        },
      },
    )
    .all("/v1/account", methodNotAllowed("GET, HEAD"), HIDDEN)
    .all("/v1/usage", methodNotAllowed("GET, HEAD"), HIDDEN)
    .all("/v1/usage/:request_id", methodNotAllowed("GET, HEAD"), HIDDEN);
}
