import { Elysia } from "elysia";
import { GatewayError } from "../../canon/errors.ts";
import { GROUPINGS } from "../../ledger/usage-report.ts";
import { listModels } from "../../vendors/models-list.ts";
import type { Vendor } from "../../vendors/vendor.ts";
import { PageOf, VendorView } from "../../wire/admin.ts";
import { UsageReceipt } from "../../wire/usage.ts";
import { showReceipt } from "../account/account.ts";
import { methodNotAllowed } from "../errors.ts";
import { errorReplies, HIDDEN, jsonReply } from "../openapi-detail.ts";
import { queryOf, readWord } from "../query.ts";
import { PAGE_PARAMETERS, textParameter, usageParameters, usageReplies } from "../usage/detail.ts";
import { answerUsage } from "../usage/list.ts";
import { ACCOUNT_PARAMETER, adminAccountRoutes, readOwner } from "./accounts.ts";
import { ADMIN_TAGS, type AdminDependencies, answerAdmin } from "./answer.ts";
import { adminKeyRoutes } from "./keys.ts";
import { adminMoneyRoutes } from "./money.ts";
import { cutList } from "./page.ts";
import { toVendorView } from "./shape.ts";

/** Ways in trouble that are named of each vendor, at the most. */
const MAX_TROUBLES = 100;
/** How long a vendor that is asked just now may take, ms. */
const PROBE_MS = 5_000;

/** What a vendor's model list answers just now. */
async function probe(vendor: Vendor, request: Request, userAgent: string) {
  try {
    const models = await listModels(vendor, request.signal, { userAgent, timeoutMs: PROBE_MS });
    return { ok: true, models: models.length };
  } catch (thrown) {
    return { ok: false, error: thrown instanceof GatewayError ? thrown.code : "internal_error" };
  }
}

async function listVendors(request: Request, { health, vendors, userAgent }: AdminDependencies) {
  const asked = readWord(queryOf(request), "probe", ["true", "false"] as const) === "true";
  const page = cutList(request, [...vendors()], (vendor) => vendor);
  const data = await Promise.all(
    page.data.map(async (vendor) => ({
      ...toVendorView(vendor, health.of(vendor.id)),
      in_trouble: health.troubles(vendor.id).slice(0, MAX_TROUBLES),
      // The built-in vendor answers from inside this process: there is nobody to ask.
      ...(asked && !vendor.serve && { probe: await probe(vendor, request, userAgent) }),
    })),
  );
  return { value: { ...page, data } };
}

/** `/admin/v1/*`: what an operator sees and does, with an admin key only (contract 3, 4). */
export function adminRoutes(dependencies: AdminDependencies) {
  const { store, accounts } = dependencies;
  const answer = (request: Request, work: Parameters<typeof answerAdmin>[2]) =>
    answerAdmin(request, dependencies, work);
  return new Elysia({ name: "sluice-admin" })
    .use(adminAccountRoutes(dependencies))
    .use(adminMoneyRoutes(dependencies))
    .use(adminKeyRoutes(dependencies))
    .get(
      "/admin/v1/usage",
      ({ request }) =>
        answer(request, () =>
          answerUsage(request, store, { groupings: GROUPINGS, accountId: readOwner(request, accounts) }),
        ),
      {
        detail: {
          tags: ADMIN_TAGS,
          summary: "Usage of all accounts",
          parameters: [ACCOUNT_PARAMETER, ...usageParameters(GROUPINGS)],
          responses: { ...usageReplies(), ...errorReplies("chat", ["not_found"]) },
        },
      },
    )
    .get(
      "/admin/v1/usage/:request_id",
      ({ request, params }) => answer(request, () => ({ value: showReceipt(params.request_id, dependencies) })),
      {
        detail: {
          tags: ADMIN_TAGS,
          summary: "Any request's receipt",
          responses: { 200: jsonReply(UsageReceipt, "The receipt."), ...errorReplies("chat", ["not_found"]) },
        },
      },
    )
    .get("/admin/v1/vendors", ({ request }) => answer(request, () => listVendors(request, dependencies)), {
      detail: {
        tags: ADMIN_TAGS,
        summary: "The vendors, and how they fared since the start",
        parameters: [
          textParameter("probe", "`true`: each is asked for its models just now, 5 s at most."),
          ...PAGE_PARAMETERS,
        ],
        responses: { 200: jsonReply(PageOf(VendorView, "VendorList"), "The vendors."), ...errorReplies("chat") },
      },
    })
    .all("/admin/v1/usage", methodNotAllowed("GET, HEAD"), HIDDEN)
    .all("/admin/v1/usage/:request_id", methodNotAllowed("GET, HEAD"), HIDDEN)
    .all("/admin/v1/vendors", methodNotAllowed("GET, HEAD"), HIDDEN);
}
