import type { TSchema } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Account, Accounts } from "../accounts/accounts.ts";
import { type Plans, planOf } from "../accounts/plans.ts";
import { GatewayError } from "../canon/errors.ts";
import type { Book, MoneyOrder, Posted } from "../ledger/book.ts";
import { AccountView, PlanView } from "../wire/account.ts";
import {
  AccountEntry,
  CorrectionRequest,
  CreateAccount,
  EntryView,
  MoneyRequest,
  PageOf,
  SetPlan,
} from "../wire/admin.ts";
import { checker } from "../wire/open.ts";
import { toAccountView, toPlanView } from "./account-shape.ts";
import { ADMIN_TAGS, type AdminDependencies, answerAdmin, readAmount, readBody } from "./admin-answer.ts";
import { cutList } from "./admin-page.ts";
import { toAccountEntry, toEntryView, toPostedView } from "./admin-shape.ts";
import { methodNotAllowed } from "./errors.ts";
import { errorReplies, HIDDEN, jsonBody, jsonReply } from "./openapi-detail.ts";
import { badCursor, pageEnd, queryOf, readCursor, readLimit, readValue, writeCursor } from "./query.ts";
import { PAGE_PARAMETERS, textParameter } from "./usage-detail.ts";

const checkCreate = checker(CreateAccount);
const checkPlan = checker(SetPlan);
const checkMoney = checker(MoneyRequest);
const checkCorrection = checker(CorrectionRequest);

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
  throw new GatewayError("invalid_request", `There is no such plan; there are: ${known}.`, { param: "plan" });
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

type Money = { amount_usd: string | number; reference: string; detail?: string | null };

type Booking = {
  summary: string;
  body: () => TSchema;
  check: typeof checkMoney;
  post(book: Book, order: MoneyOrder): Promise<Posted>;
};

const given = { body: MoneyRequest, check: checkMoney };

/** What money can be for, by the last step of the path. */
const BOOKINGS: Readonly<Record<string, Booking>> = {
  deposits: { ...given, summary: "Deposit real money", post: (book, order) => book.deposit(order) },
  promotions: { ...given, summary: "Give money away", post: (book, order) => book.promote(order) },
  corrections: {
    summary: "Right a wrong",
    body: CorrectionRequest,
    check: checkCorrection,
    post: (book, order) => book.correct(order),
  },
};

async function postMoney(
  request: Request,
  idOrName: string,
  { accounts, clock, book }: AdminDependencies,
  { check, post }: Booking,
) {
  const { id } = findAccount(accounts, idOrName);
  const { amount_usd, reference, detail } = await readBody<Money>(request, clock, check);
  const amountNano = readAmount(amount_usd, "amount_usd");
  const posted = await post(book, { accountId: id, amountNano, reference, ...(detail && { detail }) });
  return { status: posted.repeated ? 200 : 201, value: toPostedView(posted) };
}

function listEntries(request: Request, idOrName: string, { accounts, book }: AdminDependencies) {
  const { id } = findAccount(accounts, idOrName);
  const query = queryOf(request);
  const limit = readLimit(query);
  const cursor = readCursor(query);
  if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) throw badCursor();
  const page = { limit, ...(cursor !== undefined && { before: Number(cursor) }) };
  const rows = book.entries(id, page);
  const last = rows.at(-1);
  const hasMore =
    rows.length === limit && last !== undefined && book.entries(id, { limit: 1, before: last.seq }).length > 0;
  const next = hasMore ? writeCursor(String(last.seq)) : null;
  return { value: { object: "list", data: rows.map(toEntryView), ...pageEnd(next) } };
}

/** Accounts, their plans and their money: `/admin/v1/accounts…` and `/admin/v1/plans` (contract 3). */
export function adminAccountRoutes(dependencies: AdminDependencies) {
  const { accounts, plans, book } = dependencies;
  const errors = errorReplies("chat", ["not_found"]);
  const routes = new Elysia()
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
      "/admin/v1/accounts/:account/entries",
      ({ request, params }) =>
        answerAdmin(request, dependencies, () => listEntries(request, params.account, dependencies)),
      {
        detail: {
          tags: ADMIN_TAGS,
          summary: "An account's money, newest first",
          description: "Deposits, promotions, corrections, grants and units. What requests cost is in the usage.",
          parameters: PAGE_PARAMETERS,
          responses: { 200: jsonReply(PageOf(EntryView, "EntryList"), "The entries."), ...errors },
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
    .all("/admin/v1/accounts/:account/entries", methodNotAllowed("GET, HEAD"), HIDDEN)
    .all("/admin/v1/plans", methodNotAllowed("GET, HEAD"), HIDDEN);
  for (const [step, booking] of Object.entries(BOOKINGS)) {
    const path = `/admin/v1/accounts/:account/${step}`;
    routes
      .post(
        path,
        ({ request, params }) =>
          answerAdmin(request, dependencies, () =>
            postMoney(request, (params as { account: string }).account, dependencies, booking),
          ),
        {
          parse: "none",
          detail: {
            tags: ADMIN_TAGS,
            summary: booking.summary,
            description:
              "Booked once, however often the same `reference` is sent: 201 the first time, 200 with `repeated` afterwards.",
            requestBody: jsonBody(booking.body),
            responses: {
              200: jsonReply(EntryView, "Booked before."),
              201: jsonReply(EntryView, "Booked."),
              ...errorReplies("chat", ["not_found", "insufficient_quota"]),
            },
          },
        },
      )
      .all(path, methodNotAllowed("POST"), HIDDEN);
  }
  return routes;
}
