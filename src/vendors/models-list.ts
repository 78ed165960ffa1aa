import { GatewayError } from "../canon/errors.ts";
import type { ListedModel } from "../canon/listed-model.ts";
import type { UpstreamDialectName } from "../dialects/dialect.ts";
import { upstreamDialects } from "../dialects/index.ts";
import { isObject } from "../lib/json.ts";
import { ResponseAnswer } from "./answer.ts";
import { authorize } from "./auth/authorize.ts";
import { fetchUpstream } from "./fetch-upstream.ts";
import { isKeysFault } from "./health.ts";
import { rowOf } from "./images/rows.ts";
import { keysOf } from "./keys.ts";
import { isPlausible, readListed } from "./listed-facts.ts";
import { upstreamHeaders, upstreamUrl } from "./outgoing.ts";
import { readCapped, readRefusal } from "./read-answer.ts";
import type { Vendor } from "./vendor.ts";

/** The largest page of a model list that is read, bytes. Featherless' has 22,000 names in 7.8 MB (PipedreamHQ/pipedream #21840), and more to come. */
const MAX_PAGE_BYTES = 16 * 1024 * 1024;
/** Most names that are taken of one list; further ones are left out. */
const MAX_NAMES = 50_000;
/** Most pages that are asked for. Vendors whose lists have pages put up to a thousand names on each, and have far fewer than 20,000. */
const MAX_PAGES = 20;
/** The whole list has to be there in this time, milliseconds. */
const LIST_TIMEOUT_MS = 10_000;

export type ListOptions = {
  /** `sluice/<version>`. */
  userAgent?: string;
  /** Milliseconds for the whole list. Default 10 s. */
  timeoutMs?: number;
};

/** Where a vendor of a dialect lists its models, below its base URL. */
const LIST_PATH: Record<UpstreamDialectName, string> = {
  chat: "/models",
  messages: "/v1/models?limit=1000",
  responses: "/models",
  gemini: "/models?pageSize=1000",
};

/**
 * A vendor's models with what its list says of them, in its own order, each name once: all pages, any of the shapes vendors use, at most 50,000 names, 16 MiB a
 * page and 10 s. Models that say of themselves that they neither chat nor draw are left out, and those that only draw where the vendor's protocol
 * of images is not known. Of several keys the first that is taken asks.
 * Throws what aborted it, and GatewayError as a generation would: unreachable, refused key, an answer that is no model list.
 */
export async function listModels(
  vendor: Vendor,
  signal: AbortSignal,
  options: ListOptions = {},
): Promise<ListedModel[]> {
  const timeout = AbortSignal.timeout(options.timeoutMs ?? LIST_TIMEOUT_MS);
  try {
    return await listByAnyKey(vendor, AbortSignal.any([signal, timeout]), options);
  } catch (thrown) {
    if (signal.aborted || !timeout.aborted) throw thrown;
    const message = "The vendor did not send its model list in time.";
    throw new GatewayError("upstream_unreachable", message, { cause: thrown });
  }
}

/** Whether a failure is this key's own, so that another one may well be taken: it was refused, has no credit, or is limited. */
const isKeysOwn = (thrown: unknown): boolean =>
  thrown instanceof GatewayError &&
  (thrown.code === "upstream_auth" || thrown.code === "rate_limit_exceeded" || isKeysFault(thrown));

async function listByAnyKey(vendor: Vendor, signal: AbortSignal, options: ListOptions): Promise<ListedModel[]> {
  let refusal: unknown;
  for (const keyed of keysOf(vendor)) {
    try {
      return await listByKey(keyed, signal, options);
    } catch (thrown) {
      if (!isKeysOwn(thrown)) throw thrown;
      refusal ??= thrown;
    }
  }
  throw refusal;
}

async function listByKey(vendor: Vendor, signal: AbortSignal, options: ListOptions): Promise<ListedModel[]> {
  const drawing = rowOf(vendor);
  const images = vendor.modality === "image" ? drawing?.list : undefined;
  const models = new Map<string, ListedModel>();
  let after: string | undefined;
  for (let page = 0; page < MAX_PAGES && models.size < MAX_NAMES; page++) {
    const path = images?.path ?? withQuery(LIST_PATH[vendor.dialect], drawing?.listQuery);
    const value = await askPage(vendor, path, after, signal, options);
    const before = models.size;
    if (images) {
      for (const name of images.read(value) ?? refuseList(vendor))
        if (isPlausible(name) && models.size < MAX_NAMES) models.set(name, { name });
      break;
    }
    for (const model of readModels(value, vendor))
      if (models.size < MAX_NAMES && !models.has(model.name)) models.set(model.name, model);
    after = nextPage(value);
    // A server that ignores the cursor would send its first page for ever.
    if (after === undefined || models.size === before) break;
  }
  return [...models.values()];
}

/** What asking one vendor came to: its models, or the reason why there are none. */
export type Listed = { vendor: Vendor; models?: ListedModel[]; reason?: unknown };

/** {@link listModels} of those vendors that say themselves which models they have: one promise for each, all asked at the same time. None rejects. */
export function listDiscovered(vendors: readonly Vendor[], options: ListOptions): Promise<Listed>[] {
  const { signal } = new AbortController();
  return vendors
    .filter((vendor) => vendor.models === "discover")
    .map((vendor) =>
      listModels(vendor, signal, options).then(
        (models): Listed => ({ vendor, models }),
        (reason: unknown): Listed => ({ vendor, reason }),
      ),
    );
}

const withQuery = (path: string, query: string | undefined): string =>
  query === undefined ? path : `${path}${path.includes("?") ? "&" : "?"}${query}`;

async function askPage(
  vendor: Vendor,
  path: string,
  after: string | undefined,
  signal: AbortSignal,
  options: ListOptions,
): Promise<unknown> {
  const cursor = after === undefined ? undefined : `after_id=${encodeURIComponent(after)}`;
  const own = { accept: "application/json", ...(options.userAgent && { "user-agent": options.userAgent }) };
  const asked = {
    url: upstreamUrl(vendor, withQuery(path, cursor)),
    headers: upstreamHeaders(vendor, {}, own),
    body: "",
    signal,
  };
  const request = await authorize(vendor, "GET", asked, vendor.proxy);
  const response = await fetchUpstream("GET", request, vendor.proxy);
  if (!response.ok) {
    const { decodeError } = upstreamDialects[vendor.dialect];
    throw decodeError(response.status, await readRefusal(new ResponseAnswer(response)), undefined);
  }
  const text = await readCapped(new ResponseAnswer(response), MAX_PAGE_BYTES);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new GatewayError("upstream_error", "The vendor's model list could not be read.", { cause });
  }
}

/** The cursor of the page that follows, which is the last name of this one; undefined where this page does not say that another follows. */
function nextPage(value: unknown): string | undefined {
  if (!isObject(value) || value["has_more"] !== true) return undefined;
  return typeof value["last_id"] === "string" ? value["last_id"] : undefined;
}

/** The list inside an answer: `{data: […]}`, `{models: […]}` or a bare array; a null list is an empty one (Ollama without models). */
function findList(value: unknown): unknown[] | undefined {
  if (Array.isArray(value)) return value;
  if (!isObject(value)) return undefined;
  for (const field of ["data", "models"]) {
    if (Array.isArray(value[field])) return value[field];
    if (value[field] === null && value["object"] === "list") return [];
  }
  return undefined;
}

function refuseList(vendor: Vendor): never {
  throw new GatewayError("upstream_error", `Vendor ${vendor.id} answered with something that is no model list.`);
}

function readModels(value: unknown, vendor: Vendor): ListedModel[] {
  const list = findList(value) ?? refuseList(vendor);
  const canDraw = rowOf(vendor) !== undefined;
  return list.flatMap((entry) => readListed(entry, canDraw) ?? []);
}
