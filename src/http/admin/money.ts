import type { TSchema } from "@sinclair/typebox";
import { Elysia } from "elysia";
import type { Book, MoneyOrder, Posted } from "../../ledger/book.ts";
import { CorrectionRequest, EntryView, MoneyRequest, PageOf } from "../../wire/admin.ts";
import { checker } from "../../wire/open.ts";
import { methodNotAllowed } from "../errors.ts";
import { errorReplies, HIDDEN, jsonBody, jsonReply } from "../openapi-detail.ts";
import { badCursor, pageEnd, queryOf, readCursor, readLimit, writeCursor } from "../query.ts";
import { PAGE_PARAMETERS } from "../usage/detail.ts";
import { findAccount } from "./accounts.ts";
import { ADMIN_TAGS, type AdminDependencies, answerAdmin, readAmount, readBody } from "./answer.ts";
import { toEntryView, toPostedView } from "./shape.ts";

const checkMoney = checker(MoneyRequest);
const checkCorrection = checker(CorrectionRequest);

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

/** An account's money: `/admin/v1/accounts/:account/entries`, and a path for each thing that money can be for (contract 3). */
export function adminMoneyRoutes(dependencies: AdminDependencies) {
  const routes = new Elysia()
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
          responses: {
            200: jsonReply(PageOf(EntryView, "EntryList"), "The entries."),
            ...errorReplies("chat", ["not_found"]),
          },
        },
      },
    )
    .all("/admin/v1/accounts/:account/entries", methodNotAllowed("GET, HEAD"), HIDDEN);
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
