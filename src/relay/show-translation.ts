import type { Caller } from "../accounts/caller.ts";
import { requireModel } from "../accounts/scopes.ts";
import { GatewayError, toGatewayError } from "../canon/errors.ts";
import type { ReasoningIntent, ReasoningOrder } from "../canon/intent.ts";
import type { Route } from "../catalog/entry.ts";
import type { ClientDialect } from "../dialects/dialect.ts";
import { inOwnForms } from "../dialects/own-forms.ts";
import { Abort } from "../lib/abort.ts";
import type { Fields } from "../lib/http1/fields.ts";
import type { JsonText } from "../lib/json-text.ts";
import { isSigned } from "../vendors/auth/authorize.ts";
import { PLAIN_PARAMETER, REQUEST_ID } from "../vendors/outgoing.ts";
import { toUpstreamRequest } from "../vendors/send.ts";
import type { Vendor } from "../vendors/vendor.ts";
import { STRICT_HEADER } from "../wire/header-names.ts";
import { findEntry } from "./find-entry.ts";
import type { Job, Services } from "./job.ts";
import { makeTarget, type Targeted } from "./make-target.ts";
import { showMedia } from "./media/remote-media.ts";
import { mendHistory } from "./mend-history.ts";
import { type Asked, prepare } from "./prepare.ts";
import { showTools } from "./server-tools/server-tools.ts";
import { withoutStrays } from "./stray-fields.ts";
import { settleTools } from "./vendor-tools.ts";

/** A body to be shown as the model's vendors would be sent it. */
export type ShowRequest = {
  client: ClientDialect;
  caller: Caller;
  requestId: string;
  /** Of those that may cross, the ones sent with this request are shown. */
  headers: Fields;
  body: JsonText;
};

/** One route: the upstream request, or why there is none. `body` is the very text that would be sent. */
export type ShownRoute = {
  vendor: string;
  model: string;
  error?: GatewayError;
  request?: {
    dialect: string;
    url: string;
    headers: Record<string, string>;
    body: string;
    reasoning: ReasoningOrder;
    dropped: readonly string[];
  };
};

export type ShownTranslation = { model: string; stream: boolean; reasoning: ReasoningIntent; routes: ShownRoute[] };

const SECRET = "[secret]";
/** Headers whose values are no secret, whoever wrote the vendor's row. */
const PLAIN_HEADERS: ReadonlySet<string> = new Set([
  "content-type",
  "accept",
  "user-agent",
  REQUEST_ID,
  "anthropic-version",
  "anthropic-beta",
  "openai-beta",
  STRICT_HEADER,
]);

/** An address without the user and the values that an operator may have written into it. */
function maskUrl(url: string): string {
  const [address = "", query] = url.split("?", 2);
  const plain = address.replace(/^(https?:\/\/)[^/@]*@/i, `$1${SECRET}@`);
  if (query === undefined) return plain;
  const parameters = query
    .split("&")
    .map((one) => (PLAIN_PARAMETER.test(one) ? one : one.replace(/=.*/, `=${SECRET}`)));
  return `${plain}?${parameters.join("&")}`;
}

function maskHeaders(vendor: Vendor, headers: Record<string, string>): Record<string, string> {
  const shown: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) shown[name] = PLAIN_HEADERS.has(name) ? value : SECRET;
  if (isSigned(vendor)) shown["authorization"] = SECRET;
  return shown;
}

function showRoute(asked: Asked & Targeted & Pick<Job, "served">, route: Route): ShownRoute {
  const named = { vendor: route.vendor, model: route.model };
  try {
    const vendor = asked.services.vendor(route.vendor);
    if (!vendor) throw new GatewayError("vendor_not_configured", "This route's vendor is switched off.");
    const target = makeTarget(asked, route, vendor);
    const { orders, dropped, sending } = prepare(
      showMedia(mendHistory(showTools(asked, target), target), target),
      target,
    );
    const { url, headers, body } = toUpstreamRequest(vendor, sending);
    const shown = { url: maskUrl(url), headers: maskHeaders(vendor, headers), body };
    return { ...named, request: { dialect: target.upstream.name, ...shown, reasoning: orders.reasoning, dropped } };
  } catch (thrown) {
    return { ...named, error: toGatewayError(thrown) };
  }
}

/**
 * What each of the model's routes would be sent for a body, by the functions that send it; secrets masked. Nothing is sent or fetched,
 * nothing is charged, no usage row is written. Throws GatewayError for what a generation would be refused for
 * before it is translated; what one route cannot be told is that route's own error.
 */
export function showTranslation(request: ShowRequest, services: Services): ShownTranslation {
  const { client } = request;
  const told = inOwnForms(client, request.body);
  const { body } = told;
  const intent = withoutStrays(client.intent(body.value), body.value, request, services);
  const entry = findEntry(services.catalog, intent.model);
  if (request.caller.narrow) requireModel(request.caller, entry.id);
  client.check(body.value);
  const abort = new Abort();
  const asked = {
    request: { ...request, left: abort, readBody: () => Promise.resolve(body) },
    services,
    ...settleTools(request, told, entry, services),
    intent,
    entry,
    abort,
    exchange: { estimatedInput: 0 },
  };
  const routes = entry.routes.map((route) => showRoute(asked, route));
  return { model: intent.model, stream: intent.stream, reasoning: intent.reasoning, routes };
}
