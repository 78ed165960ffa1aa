import { Elysia } from "elysia";
import { GatewayError, invalidField } from "../canon/errors.ts";
import { type Catalog, requirePrefix } from "../catalog/catalog.ts";
import { type Entry, lifecycleOf, MODALITIES, type Modality, toChatEntry, toMessagesEntry } from "../catalog/entry.ts";
import { ModelListReply, ModelReply } from "../wire/models.ts";
import { wholeResponse } from "./answered.ts";
import { asksForMessages, commonHeaders, methodNotAllowed } from "./errors.ts";
import { errorReplies, HIDDEN, jsonReply, PUBLIC_ERRORS } from "./openapi-detail.ts";
import { readLimit } from "./query.ts";
import { pathOf, requestIdOf } from "./request.ts";
import { textParameter } from "./usage/detail.ts";

/** Most models of one page in the messages shape (dialects.md 2.7). */
const MAX_PAGE = 1_000;
/**
 * Models of a page when no limit is asked for. The dialect's own vendor gives 20. Here everything fits on one page: its SDK pages on
 * `has_more`, so any size suits it, while many clients read the first page only and would show 20 of 150 models.
 */
const DEFAULT_PAGE = MAX_PAGE;

const PREFIX = "/v1/models/";

type Shape = "chat" | "messages";
type Selection = Modality | "all";

const shapeOf = ({ headers }: Request): Shape => (asksForMessages(headers) ? "messages" : "chat");

const isSelection = (word: string): word is Selection =>
  word === "all" || MODALITIES.some((modality) => modality === word);

/** Throws GatewayError (invalid_request, `modality`) for anything but one known value: never a silent fallback (interface 4.4 rule 2). */
function readModality(query: URLSearchParams): Selection {
  const [word = "chat", ...more] = query.getAll("modality");
  if (isSelection(word) && more.length === 0) return word;
  throw invalidField("modality", `modality must be one of ${MODALITIES.join(", ")} or all.`);
}

/** Place of a cursor's model in the list. Throws GatewayError (invalid_request) when it is not there. */
function findCursor(entries: readonly Entry[], param: string, id: string): number {
  const at = entries.findIndex((entry) => entry.id === id);
  if (at < 0) throw invalidField(param, `${param} names no model of this list.`);
  return at;
}

type Page = { entries: readonly Entry[]; hasMore: boolean };

/** The page that `limit`, `after_id` and `before_id` ask for, in the list's order; `hasMore` looks on in the direction of reading. */
function cutPage(entries: readonly Entry[], query: URLSearchParams): Page {
  const limit = readLimit(query, DEFAULT_PAGE, MAX_PAGE);
  const after = query.get("after_id");
  const before = query.get("before_id");
  if (after !== null && before !== null)
    throw invalidField("before_id", "after_id and before_id cannot be used together.");
  if (before !== null) {
    const end = findCursor(entries, "before_id", before);
    const start = Math.max(0, end - limit);
    return { entries: entries.slice(start, end), hasMore: start > 0 };
  }
  const start = after === null ? 0 : findCursor(entries, "after_id", after) + 1;
  return { entries: entries.slice(start, start + limit), hasMore: start + limit < entries.length };
}

/** The models in the stages that `lifecycle` asks for, all when it does not (dialects.md 2.7). */
function inStages(entries: readonly Entry[], query: URLSearchParams): readonly Entry[] {
  const stages = [...query.getAll("lifecycle"), ...query.getAll("lifecycle[]")];
  return stages.length === 0 ? entries : entries.filter((entry) => stages.includes(lifecycleOf(entry)));
}

function writeMessagesList(entries: readonly Entry[], query: URLSearchParams): string {
  const page = cutPage(inStages(entries, query), query);
  return JSON.stringify({
    data: page.entries.map(toMessagesEntry),
    has_more: page.hasMore,
    first_id: page.entries.at(0)?.id ?? null,
    last_id: page.entries.at(-1)?.id ?? null,
  });
}

const writeChatList = (entries: readonly Entry[]) => JSON.stringify({ object: "list", data: entries.map(toChatEntry) });

const NO_QUERY = new URLSearchParams();
const PAGING = ["limit", "after_id", "before_id", "lifecycle", "lifecycle[]"];

/** List answers as bytes, kept until the catalog changes: making one costs six times as much as sending it. At most one a shape and modality. */
function createReadyLists(catalog: Catalog): (shape: Shape, selection: Selection) => Uint8Array<ArrayBuffer> {
  const encoder = new TextEncoder();
  const ready = new Map<string, Uint8Array<ArrayBuffer>>();
  let version = catalog.version;
  return (shape, selection) => {
    if (version !== catalog.version) {
      ready.clear();
      version = catalog.version;
    }
    const key = `${shape} ${selection}`;
    let bytes = ready.get(key);
    if (!bytes) {
      const entries = catalog.list(selection);
      bytes = encoder.encode(shape === "chat" ? writeChatList(entries) : writeMessagesList(entries, NO_QUERY));
      ready.set(key, bytes);
    }
    return bytes;
  };
}

/** 200 with a body that any cache may keep for a minute, apart for the two shapes of the one URL (interface 4.4 rule 4). */
function answer(body: string | Uint8Array<ArrayBuffer>, request: Request): Response {
  return wholeResponse(body, {
    headers: {
      "content-type": "application/json",
      "cache-control": "public, max-age=60",
      vary: "anthropic-version, x-api-key",
      ...commonHeaders(requestIdOf(request)),
    },
  });
}

/** The ID behind `/v1/models/`, its slashes raw or encoded. Throws GatewayError (model_not_found) when it cannot be decoded. */
function readId(request: Request): string {
  try {
    return decodeURIComponent(pathOf(request.url).slice(PREFIX.length));
  } catch (cause) {
    throw new GatewayError("model_not_found", "The model ID in the path is not encoded well.", {
      param: "model",
      cause,
    });
  }
}

function retrieve(catalog: Catalog, request: Request): Response {
  const id = readId(request);
  requirePrefix(id);
  const entry = catalog.find(id);
  if (!entry) {
    const message = "This model does not exist here. GET /v1/models lists those that do.";
    throw new GatewayError("model_not_found", message, { param: "model" });
  }
  return answer(JSON.stringify(shapeOf(request) === "chat" ? toChatEntry(entry) : toMessagesEntry(entry)), request);
}

const LIST_ERRORS = errorReplies("either", [], PUBLIC_ERRORS);
const RETRIEVE_ERRORS = errorReplies("either", ["model_not_found"], PUBLIC_ERRORS);

const LIST_DETAIL = {
  tags: ["Catalog"],
  summary: "List models",
  description:
    "Public and the same for everyone. A request with an `anthropic-version` or `x-api-key` header is answered in the messages shape, which can be paged.",
  security: [],
  parameters: [
    {
      name: "modality",
      in: "query" as const,
      description: "Which kind of models. An unknown value is refused.",
      schema: { type: "string" as const, enum: [...MODALITIES, "all"], default: "chat" },
    },
    {
      name: "limit",
      in: "query" as const,
      description: "Messages shape only: models a page.",
      schema: { type: "integer" as const, minimum: 1, maximum: MAX_PAGE, default: DEFAULT_PAGE },
    },
    textParameter("after_id", "Messages shape only: the page after this model."),
    textParameter("before_id", "Messages shape only: the page before this model."),
  ],
  responses: { "200": jsonReply(ModelListReply, "The models."), ...LIST_ERRORS },
};

const RETRIEVE_DETAIL = {
  tags: ["Catalog"],
  summary: "One model",
  description: "The slashes of the ID may be raw or encoded.",
  security: [],
  parameters: [
    {
      name: "id",
      in: "path" as const,
      required: true,
      description: "The whole ID, with its vendor prefix.",
      schema: { type: "string" as const },
    },
  ],
  responses: { "200": jsonReply(ModelReply, "The model."), ...RETRIEVE_ERRORS },
};

/**
 * `GET /v1/models` and `GET /v1/models/{id}` (interface 4.4, contract 3): public, in the chat shape or, by the request's headers, in
 * the messages shape. Throws GatewayError: invalid_request with its param, model_not_found.
 */
export function modelsRoutes(dependencies: { catalog: Catalog }) {
  const { catalog } = dependencies;
  const readyList = createReadyLists(catalog);
  const list = (request: Request): Response => {
    const shape = shapeOf(request);
    const mark = request.url.indexOf("?");
    if (mark < 0) return answer(readyList(shape, "chat"), request);
    const query = new URLSearchParams(request.url.slice(mark + 1));
    const selection = readModality(query);
    const paged = shape === "messages" && PAGING.some((name) => query.has(name));
    if (paged) return answer(writeMessagesList(catalog.list(selection), query), request);
    return answer(readyList(shape, selection), request);
  };
  return (
    new Elysia({ name: "sluice-models" })
      .get("/v1/models", ({ request }) => list(request), { detail: LIST_DETAIL })
      // Two routes for one: a raw slash matches the second only, and the document has no word for a path of any length.
      .get("/v1/models/:id", ({ request }) => retrieve(catalog, request), { detail: RETRIEVE_DETAIL })
      .get("/v1/models/*", ({ request }) => retrieve(catalog, request), HIDDEN)
      .all("/v1/models", methodNotAllowed("GET, HEAD"), HIDDEN)
      .all("/v1/models/*", methodNotAllowed("GET, HEAD"), HIDDEN)
  );
}
