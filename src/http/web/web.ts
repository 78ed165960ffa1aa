import { Elysia } from "elysia";
import type { Caller } from "../../accounts/caller.ts";
import { fieldFault } from "../../canon/errors.ts";
import { isObject } from "../../lib/json.ts";
import type { Limiter } from "../../limits/limiter.ts";
import type { WebCall } from "../../web/tools/meter.ts";
import { describePage } from "../../web/tools/text.ts";
import { isFault, readFetchArguments, readSearchArguments, type WebTools } from "../../web/tools/tools.ts";
import {
  FetchArguments,
  FetchReply,
  FetchRequest,
  SearchArguments,
  SearchReply,
  SearchRequest,
} from "../../wire/web.ts";
import { toResponse } from "../answered.ts";
import { MAX_WEB_BYTES, readJson } from "../body/body.ts";
import { authenticate } from "../caller/credentials.ts";
import { methodNotAllowed } from "../errors.ts";
import { answerOnce, IDEMPOTENCY_PARAMETER } from "../idempotency.ts";
import { errorReplies, HIDDEN, jsonBody, jsonReply } from "../openapi-detail.ts";
import { ownJson } from "../own-json.ts";
import { setRate } from "../rate-headers.ts";
import { requestIdOf } from "../request.ts";
import { Work } from "../work.ts";
import { answerFault, noteWorked, runCall, type WebCallDependencies } from "./web-call.ts";

const SEARCH_PATH = "/v1/web/search";
const FETCH_PATH = "/v1/web/fetch";

/** What the standalone web tools need. */
export type WebDependencies = WebCallDependencies & { tools: WebTools; limiter: Limiter };

const metered = ["insufficient_quota", "concurrency_exceeded", "allowance_exhausted"] as const;
const idempotent = ["idempotency_in_progress", "idempotency_key_reused"] as const;

/** `POST /v1/web/search` and `POST /v1/web/fetch` (contract 3): the tools of the MCP server in REST form, on the same allowance. */
export function webRoutes(dependencies: WebDependencies) {
  return new Elysia({ name: "sluice-web" })
    .post(SEARCH_PATH, ({ request }) => answerWeb(request, dependencies, "web_search", search), {
      parse: "none",
      detail: {
        tags: ["Web tools"],
        summary: "Search the web",
        description: "Ranked results. One call of the day's allowance.",
        parameters: [IDEMPOTENCY_PARAMETER],
        requestBody: jsonBody(SearchRequest),
        responses: {
          200: jsonReply(SearchReply, "The results."),
          ...errorReplies("chat", [
            ...metered,
            ...idempotent,
            ...(["vendor_not_configured", "upstream_error", "upstream_overloaded"] as const),
          ]),
        },
      },
    })
    .post(FETCH_PATH, ({ request }) => answerWeb(request, dependencies, "web_fetch", fetch), {
      parse: "none",
      detail: {
        tags: ["Web tools"],
        summary: "Read web pages",
        description:
          "Up to 10 pages as Markdown, one result for each URL in order. Each page that was read is one call of the day's allowance; what could not be read costs nothing.",
        parameters: [IDEMPOTENCY_PARAMETER],
        requestBody: jsonBody(FetchRequest),
        responses: { 200: jsonReply(FetchReply, "The pages."), ...errorReplies("chat", [...metered, ...idempotent]) },
      },
    })
    .all(SEARCH_PATH, methodNotAllowed("POST"), HIDDEN)
    .all(FETCH_PATH, methodNotAllowed("POST"), HIDDEN);
}

/** What a tool gave. `isFree`: it cost nothing. */
type Told = { body: Record<string, unknown>; isFree: boolean };
type Tool = (body: unknown, tools: WebTools) => (call: WebCall) => Promise<Told>;

/** A body without the fields that are no arguments of the tool: here they are ignored (interface 9.4), while MCP refuses them. */
function argumentsIn(body: unknown, properties: object): unknown {
  if (!isObject(body)) return body;
  return Object.fromEntries(Object.entries(body).filter(([name]) => Object.hasOwn(properties, name)));
}

const search: Tool = (body, tools) => {
  const query = readSearchArguments(argumentsIn(body, SearchArguments().properties));
  if (isFault(query)) throw fieldFault(query);
  return async (call) => {
    const { query: asked, results, notes, cached } = await tools.search(query, call);
    const usage = tools.usage(call.caller);
    return { body: { object: "web.search", query: asked, results, notes, cached, usage }, isFree: false };
  };
};

const fetch: Tool = (body, tools) => {
  const asked = readFetchArguments(argumentsIn(body, FetchArguments().properties));
  if (isFault(asked)) throw fieldFault(asked);
  return async (call) => {
    const pages = await tools.fetch(asked.urls, asked.max_content_tokens, call);
    const results = pages.map((page) =>
      page.status === "ok" ? { ...describePage(page), content: page.markdown.toWellFormed() } : describePage(page),
    );
    const isFree = pages.every(({ status }) => status === "error");
    return { body: { object: "web.fetch", results, usage: tools.usage(call.caller) }, isFree };
  };
};

/** Credentials, body, arguments, then the tool under its Idempotency-Key. */
async function answerWeb(request: Request, dependencies: WebDependencies, name: string, tool: Tool): Promise<Response> {
  const { tools, limiter, keys, kept, running, clock, room, server } = dependencies;
  const requestId = requestIdOf(request);
  let caller: Caller | undefined;
  let response: Response;
  const work = Work.begin(request, { operation: "execute_tool", dialect: "web", subject: name }, dependencies);
  try {
    const known = authenticate(request, keys);
    caller = known;
    work?.by(known);
    // The body reader and the tools have bounds of their own.
    server()?.timeout(request, 0);
    const body = await readJson(request, { maxBytes: MAX_WEB_BYTES, clock, room });
    const run = tool(body.value, tools);
    response = await answerOnce({ request, accountId: known.accountId, body: body.text }, kept, async () => {
      const told = await runCall(request, known, running, (signal) =>
        run({ caller: known, requestId, dialect: "web", signal, onWorked: noteWorked(work) }),
      );
      work?.done();
      const answer = toResponse(ownJson(told.body, requestId));
      return told.isFree ? { free: answer } : answer;
    });
  } catch (thrown) {
    response = answerFault(thrown, request, work, dependencies.log);
  }
  // As it stands when the answer goes out, also where that is given again (contract 6).
  if (caller) setRate(response, limiter.peek?.(caller.accountId, caller.plan, "web"));
  return response;
}
