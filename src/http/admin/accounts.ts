import { Elysia } from "elysia";
import type { Account, Accounts } from "../../accounts/accounts.ts";
import { type Plans, planOf } from "../../accounts/plans.ts";
import { GatewayError, invalidField } from "../../canon/errors.ts";
import { AccountView, PlanView } from "../../wire/account.ts";
import { AccountEntry, CreateAccount, PageOf, SetPlan } from "../../wire/admin.ts";
import { checker } from "../../wire/open.ts";
import { toAccountView, toPlanView } from "../account/shape.ts";
import { methodNotAllowed } from "../errors.ts";
import { errorReplies, HIDDEN, jsonBody, jsonReply } from "../openapi-detail.ts";
import { queryOf, readValue } from "../query.ts";
import { PAGE_PARAMETERS, textParameter } from "../usage/detail.ts";
import { ADMIN_TAGS, type AdminDependencies, answerAdmin, readBody } from "./answer.ts";
import { cutList } from "./page.ts";
import { toAccountEntry } from "./shape.ts";

const checkCreate = checker(CreateAccount);
const checkPlan = checker(SetPlan);

/** The account of this id or name. Throws GatewayError (not_found). */
export function findAccount(accounts: Accounts, idOrName: string): Account {
  const found = accounts.find(idOrName);
  if (found) return found;
  throw new GatewayError("not_found", "There is no account of this id or name.");
}

export const ACCOUNT_PARAMETER = textParameter("account", "Only this account's, by id or name.");

/** The id of the account that a list is narrowed to by `?account=`; undefined for all. Throws GatewayError (not_found). */
export function readOwner(request: Request, accounts: Accounts): string | undefined {
  const named = readValue(queryOf(request), "account");
  return named === undefined ? undefined : findAccount(accounts, named).id;
}

/** Throws GatewayError (invalid_request) for a plan that is not configured. */
function requirePlan(plans: Plans, id: string): string {
  if (plans.has(id)) return id;
  const known = [...plans.keys()].join(", ");
  throw invalidField("plan", `There is no such plan; there are: ${known}.`);
}

async function createAccount(request: Request, { accounts, plans, clock, book }: AdminDependencies) {
  const { name, plan } = await readBody<{ name: string; plan: string }>(request, clock, checkCreate);
  const account = await accounts.create({ name, plan: requirePlan(plans, plan) });
  return { status: 201, value: toAccountView(account, planOf(plans, account.plan), book) };
}

async function setPlan(request: Request, idOrName: string, { accounts, plans, clock, book }: AdminDependencies) {
  const found = findAccount(accounts, idOrName);
  const { plan } = await readBody<{ plan: string }>(request, clock, checkPlan);
  const account = await accounts.setPlan(found.id, requirePlan(plans, plan));
  return { value: toAccountView(account, planOf(plans, account.plan), book) };
}

/** Accounts and their plans: `/admin/v1/accounts…` and `/admin/v1/plans` (contract 3). */
export function adminAccountRoutes(dependencies: AdminDependencies) {
  const { accounts, plans, book } = dependencies;
  const errors = errorReplies("chat", ["not_found"]);
  return new Elysia()
    .get(
      "/admin/v1/accounts",
      ({ request }) =>
        answerAdmin(request, dependencies, () => ({ value: cutList(request, accounts.list(), toAccountEntry) })),
      {
        detail: {
          tags: ADMIN_TAGS,
          summary: "List accounts, oldest first",
          parameters: PAGE_PARAMETERS,
          responses: { 200: jsonReply(PageOf(AccountEntry, "AccountList"), "The accounts."), ...errors },
        },
      },
    )
    .post(
      "/admin/v1/accounts",
      ({ request }) => answerAdmin(request, dependencies, () => createAccount(request, dependencies)),
      {
        parse: "none",
        detail: {
          tags: ADMIN_TAGS,
          summary: "Make an account",
          requestBody: jsonBody(CreateAccount),
          responses: { 201: jsonReply(AccountView, "The account."), ...errors },
        },
      },
    )
    .get(
      "/admin/v1/accounts/:account",
      ({ request, params }) =>
        answerAdmin(request, dependencies, () => {
          const account = findAccount(accounts, params.account);
          return { value: toAccountView(account, planOf(plans, account.plan), book) };
        }),
      {
        detail: {
          tags: ADMIN_TAGS,
          summary: "One account, by id or name",
          responses: { 200: jsonReply(AccountView, "The account."), ...errors },
        },
      },
    )
    .post(
      "/admin/v1/accounts/:account/plan",
      ({ request, params }) => answerAdmin(request, dependencies, () => setPlan(request, params.account, dependencies)),
      {
        parse: "none",
        detail: {
          tags: ADMIN_TAGS,
          summary: "Put an account on another plan",
          description: "Counts on the next request of its keys.",
          requestBody: jsonBody(SetPlan),
          responses: { 200: jsonReply(AccountView, "The account."), ...errors },
        },
      },
    )
    .get(
      "/admin/v1/plans",
      ({ request }) =>
        answerAdmin(request, dependencies, () => ({ value: cutList(request, [...plans.values()], toPlanView) })),
      {
        detail: {
          tags: ADMIN_TAGS,
          summary: "The plans",
          parameters: PAGE_PARAMETERS,
          responses: { 200: jsonReply(PageOf(PlanView, "PlanList"), "The plans."), ...errors },
        },
      },
    )
    .all("/admin/v1/accounts", methodNotAllowed("GET, HEAD, POST"), HIDDEN)
    .all("/admin/v1/accounts/:account", methodNotAllowed("GET, HEAD"), HIDDEN)
    .all("/admin/v1/accounts/:account/plan", methodNotAllowed("POST"), HIDDEN)
    .all("/admin/v1/plans", methodNotAllowed("GET, HEAD"), HIDDEN);
}
