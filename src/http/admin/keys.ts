import { Elysia } from "elysia";
import { capRule, type KeyLimits } from "../../accounts/key-wish.ts";
import type { KeyList } from "../../accounts/keys.ts";
import { toKey } from "../../accounts/tokens.ts";
import { GatewayError, invalidField } from "../../canon/errors.ts";
import { readInstant } from "../../lib/instant.ts";
import { ChangeKey, CreatedKeyView, CreateKey, CreateToken, KeyView, PageOf } from "../../wire/admin.ts";
import { isAmount } from "../../wire/bounds.ts";
import { checker } from "../../wire/open.ts";
import type { TokenScope } from "../../wire/scopes.ts";
import { methodNotAllowed } from "../errors.ts";
import { errorReplies, HIDDEN, jsonBody, jsonReply } from "../openapi-detail.ts";
import { PAGE_PARAMETERS } from "../usage/detail.ts";
import { ACCOUNT_PARAMETER, findAccount, readOwner } from "./accounts.ts";
import { ADMIN_TAGS, type AdminDependencies, answerAdmin, readAmount, readBody } from "./answer.ts";
import { readList } from "./page.ts";
import { toCreatedKey, toKeyView } from "./shape.ts";

const checkCreate = checker(CreateKey);
const checkChange = checker(ChangeKey);
const checkToken = checker(CreateToken);

/** How a key is narrowed, as a body says it: absent stays, null takes a limit away. */
type WrittenLimits = {
  expires_at?: string | null;
  models?: string[] | null;
  endpoints?: string[] | null;
  cap_day_usd?: string | number | null;
  cap_total_usd?: string | number | null;
  cap_requests_day?: number | null;
};

function readExpiry(text: string): number {
  const at = readInstant(text);
  if (at !== undefined) return at;
  throw invalidField("expires_at", "expires_at must be a time such as 2027-01-31T00:00:00Z.");
}

function readCap(amount: string | number | null, param: string): bigint | null {
  if (amount === null) return null;
  const nano = readAmount(amount, param);
  if (isAmount(nano)) return nano;
  throw invalidField(param, capRule());
}

/** The limits that a body names. The store judges whether they can be. */
function readLimits(written: WrittenLimits): Partial<KeyLimits> {
  const { expires_at, models, endpoints, cap_day_usd, cap_total_usd, cap_requests_day } = written;
  return {
    ...(expires_at !== undefined && { expiresAt: expires_at === null ? null : readExpiry(expires_at) }),
    ...(models !== undefined && { models }),
    ...(endpoints !== undefined && { endpoints: endpoints as KeyLimits["endpoints"] }),
    ...(cap_day_usd !== undefined && { capDayNano: readCap(cap_day_usd, "cap_day_usd") }),
    ...(cap_total_usd !== undefined && { capTotalNano: readCap(cap_total_usd, "cap_total_usd") }),
    ...(cap_requests_day !== undefined && { capRequestsDay: cap_requests_day }),
  };
}

type NewKeyBody = WrittenLimits & { account: string; name: string; kind?: "api" | "admin" };

async function createKey(request: Request, { accounts, keys, clock }: AdminDependencies) {
  const body = await readBody<NewKeyBody>(request, clock, checkCreate);
  const { id: accountId } = findAccount(accounts, body.account);
  const created = await keys.create({ accountId, name: body.name, kind: body.kind ?? "api", ...readLimits(body) });
  return { status: 201, value: toCreatedKey(created) };
}

async function changeKey(request: Request, id: string, { keys, clock }: AdminDependencies) {
  const { name, ...limits } = await readBody<WrittenLimits & { name?: string }>(request, clock, checkChange);
  requireListed(keys, "keys", id);
  return { value: toKeyView(await keys.change(id, { ...(name !== undefined && { name }), ...readLimits(limits) })) };
}

type NewTokenBody = {
  account: string;
  name: string;
  scopes?: TokenScope[] | null;
  days?: number | null;
  calls_per_day?: number | null;
};

async function createToken(request: Request, { accounts, keys, clock }: AdminDependencies) {
  const body = await readBody<NewTokenBody>(request, clock, checkToken);
  const { id: accountId } = findAccount(accounts, body.account);
  const { name, scopes, days, calls_per_day: callsPerDay } = body;
  const wish = {
    name,
    ...(scopes && { scopes }),
    ...(days != null && { days }),
    ...(callsPerDay !== undefined && { callsPerDay }),
  };
  const created = await keys.create({ accountId, ...toKey(wish, clock.now()) });
  return { status: 201, value: toCreatedKey(created) };
}

/** By its whole id alone: in a path neither a key itself nor an abbreviation has a place. Throws GatewayError (not_found). */
function requireListed(keys: AdminDependencies["keys"], list: KeyList, id: string): void {
  const word = list === "keys" ? "key" : "token";
  if (!keys.listed(list, id)) throw new GatewayError("not_found", `There is no ${word} of this id.`);
}

const LIST_PARAMETERS = [ACCOUNT_PARAMETER, ...PAGE_PARAMETERS];
const ERRORS = errorReplies("chat", ["not_found"]);
const listDetail = (summary: string, title: string) => ({
  tags: ADMIN_TAGS,
  summary,
  parameters: LIST_PARAMETERS,
  responses: { 200: jsonReply(PageOf(KeyView, title), "Revoked ones included, oldest first."), ...ERRORS },
});
const createDetail = (summary: string, body: typeof CreateKey | typeof CreateToken) => ({
  tags: ADMIN_TAGS,
  summary,
  requestBody: jsonBody(body),
  responses: { 201: jsonReply(CreatedKeyView, "It is shown this once."), ...ERRORS },
});
const revokeDetail = (summary: string) => ({
  tags: ADMIN_TAGS,
  summary,
  description: "Counts on the next request; its running streams end within a second.",
  responses: { 200: jsonReply(KeyView, "The key."), ...ERRORS },
});

/** API keys, admin keys and narrow tokens: `/admin/v1/keys…`, `/admin/v1/tokens…` (contract 3, 4). */
export function adminKeyRoutes(dependencies: AdminDependencies) {
  const { keys } = dependencies;
  const answerList = (request: Request, list: KeyList) =>
    answerAdmin(request, dependencies, () => {
      const accountId = readOwner(request, dependencies.accounts);
      return { value: readList(request, (wanted) => keys.page(list, { ...wanted, accountId }), toKeyView) };
    });
  const answerRevoke = (request: Request, list: KeyList, id: string) =>
    answerAdmin(request, dependencies, async () => {
      requireListed(keys, list, id);
      return { value: toKeyView(await keys.revoke(id)) };
    });
  return new Elysia()
    .get("/admin/v1/keys", ({ request }) => answerList(request, "keys"), {
      detail: listDetail("List keys", "KeyList"),
    })
    .post(
      "/admin/v1/keys",
      ({ request }) => answerAdmin(request, dependencies, () => createKey(request, dependencies)),
      {
        parse: "none",
        detail: createDetail("Make a key", CreateKey),
      },
    )
    .post(
      "/admin/v1/keys/:key",
      ({ request, params }) => answerAdmin(request, dependencies, () => changeKey(request, params.key, dependencies)),
      {
        parse: "none",
        detail: {
          tags: ADMIN_TAGS,
          summary: "Rename a key, or change what it may do",
          requestBody: jsonBody(ChangeKey),
          responses: { 200: jsonReply(KeyView, "The key."), ...ERRORS },
        },
      },
    )
    .delete("/admin/v1/keys/:key", ({ request, params }) => answerRevoke(request, "keys", params.key), {
      detail: revokeDetail("Revoke a key"),
    })
    .get("/admin/v1/tokens", ({ request }) => answerList(request, "tokens"), {
      detail: listDetail("List narrow tokens", "TokenList"),
    })
    .post(
      "/admin/v1/tokens",
      ({ request }) => answerAdmin(request, dependencies, () => createToken(request, dependencies)),
      { parse: "none", detail: createDetail("Make a narrow token", CreateToken) },
    )
    .delete("/admin/v1/tokens/:token", ({ request, params }) => answerRevoke(request, "tokens", params.token), {
      detail: revokeDetail("Revoke a narrow token"),
    })
    .all("/admin/v1/keys", methodNotAllowed("GET, HEAD, POST"), HIDDEN)
    .all("/admin/v1/keys/:key", methodNotAllowed("POST, DELETE"), HIDDEN)
    .all("/admin/v1/tokens", methodNotAllowed("GET, HEAD, POST"), HIDDEN)
    .all("/admin/v1/tokens/:token", methodNotAllowed("DELETE"), HIDDEN);
}
