import { OptionalKind, type Static, type TProperties, Type } from "@sinclair/typebox";
import { DEFAULT_CONTENT_TOKENS, MAX_CONTENT_TOKENS, MAX_DOMAINS, MAX_QUERY, MAX_URLS } from "./bounds.ts";
import { Closed, late, Maybe, Nullable, Open } from "./open.ts";

/** Results of one search (web-and-mcp.md A3). */
const MAX_RESULTS = 20;
export const DEFAULT_RESULTS = 10;

/** How new results have to be, longest last (interface 2.7). */
export const RECENCIES = ["hour", "day", "week", "month", "year"] as const;

const searchProperties = late(() => ({
  query: Type.String({ minLength: 1, maxLength: MAX_QUERY, description: "What to search for." }),
  max_results: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_RESULTS,
      default: DEFAULT_RESULTS,
      description: "How many results at the most.",
    }),
  ),
  search_domain_filter: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: MAX_DOMAINS,
      description:
        'Hosts to keep to (["example.com"]) or, each with a dash before it, to leave out (["-example.com"]); not both.',
    }),
  ),
  search_recency_filter: Type.Optional(
    Type.Unsafe<(typeof RECENCIES)[number]>({
      ...Type.String({ pattern: `^(?:${RECENCIES.join("|")})$` }),
      enum: RECENCIES,
      description: "Only what is no older than this.",
    }),
  ),
  country: Type.Optional(
    Type.String({
      pattern: "^[A-Za-z]{2}$",
      description: "Country the results should suit, ISO 3166 code such as US.",
    }),
  ),
}));

const fetchProperties = late(() => ({
  urls: Type.Array(Type.String(), {
    minItems: 1,
    maxItems: MAX_URLS,
    description: `Pages to read, 1 to ${MAX_URLS} http or https URLs.`,
  }),
  max_content_tokens: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_CONTENT_TOKENS,
      default: DEFAULT_CONTENT_TOKENS,
      description: "Where to cut each page, in tokens.",
    }),
  ),
}));

/** Arguments of the MCP tools (interface 2.7): what is not known is refused, so that a model that mistypes one learns of it. */
export const SearchArguments = late(() => Closed(searchProperties()));
export const FetchArguments = late(() => Closed(fetchProperties()));
export type SearchArguments = Static<ReturnType<typeof SearchArguments>>;
export type FetchArguments = Static<ReturnType<typeof FetchArguments>>;

/** What may be left out may be null as well. Tools do not say so, though they take it: a model is better told of one way. */
const orNull = (properties: TProperties): TProperties =>
  Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [
      name,
      OptionalKind in schema ? Maybe(Type.Optional(schema, false)) : schema,
    ]),
  );

/** The same as bodies of the standalone endpoints (contract 3). */
export const SearchRequest = late(() =>
  Open(orNull(searchProperties()), { title: "WebSearchRequest", examples: [{ query: "tide tables", max_results: 5 }] }),
);
export const FetchRequest = late(() =>
  Open(orNull(fetchProperties()), { title: "WebFetchRequest", examples: [{ urls: ["https://example.com/"] }] }),
);

const NullableInteger = (description: string) => Nullable(Type.Integer(), description);

/** How an account's web tools stand after a call. */
const WebUsage = late(() =>
  Open(
    {
      plan: Type.String(),
      day: Open(
        {
          limit: NullableInteger("Calls that the plan includes a UTC day; null: no limit."),
          used: Type.Integer(),
          remaining: NullableInteger("null: no limit."),
          resets_at: Type.String({ description: "ISO 8601, UTC." }),
        },
        { description: "Search calls and pages together." },
      ),
      minute: Open({ limit: NullableInteger("null: no limit."), remaining: NullableInteger("null: no limit.") }),
      concurrent: Open({ limit: NullableInteger("null: no limit.") }),
      overage: Open({
        usd_per_call: Nullable(
          Type.Number(),
          "What a call beyond the day's costs the wallet; null: there are no more.",
        ),
      }),
    },
    { title: "WebUsage" },
  ),
);

const SearchResult = late(() =>
  Open({
    rank: Type.Integer(),
    title: Type.String(),
    url: Type.String(),
    snippet: Type.String(),
    source: Type.String({ description: "The publisher, or the host." }),
    date: Nullable(Type.String(), "Of publication, ISO 8601; null: not known."),
  }),
);

/** Answer of `POST /v1/web/search`. */
export const SearchReply = late(() =>
  Open(
    {
      object: Type.Literal("web.search"),
      query: Type.String(),
      results: Type.Array(SearchResult()),
      notes: Type.Array(Type.String(), { description: "Filters that could not be applied, in sentences." }),
      cached: Type.Boolean({ description: "Found a short while ago. It counts as a call all the same." }),
      usage: WebUsage(),
    },
    { title: "WebSearch" },
  ),
);

const FetchResult = late(() =>
  Open({
    url: Type.String({ description: "As it was asked for." }),
    status: Type.String({ examples: ["ok", "error"] }),
    final_url: Type.Optional(Type.String({ description: "After redirects." })),
    http_status: Type.Optional(Type.Integer()),
    title: Type.Optional(Type.String()),
    content_type: Type.Optional(Type.String()),
    published: Type.Optional(Type.String()),
    tokens: Type.Optional(Type.Integer({ description: "Of the content, estimated." })),
    truncated: Type.Optional(Type.Boolean()),
    note: Type.Optional(Type.String()),
    cached: Type.Optional(Type.Boolean()),
    content: Type.Optional(Type.String({ description: "The page as Markdown." })),
    error: Type.Optional(Open({ code: Type.String(), message: Type.String() })),
  }),
);

/** Answer of `POST /v1/web/fetch`. */
export const FetchReply = late(() =>
  Open(
    {
      object: Type.Literal("web.fetch"),
      results: Type.Array(FetchResult(), { description: "One for each URL, in order." }),
      usage: WebUsage(),
    },
    { title: "WebFetch" },
  ),
);

/** One JSON-RPC 2.0 message, as the MCP endpoint takes it (interface 4.9). */
export const RpcMessage = late(() =>
  Open(
    {
      jsonrpc: Type.Literal("2.0"),
      id: Type.Optional(
        Type.Union([
          Type.String(),
          Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
        ]),
      ),
      method: Type.String({ examples: ["initialize", "ping", "tools/list", "tools/call"] }),
      params: Type.Optional(Open({})),
    },
    { title: "McpMessage", examples: [{ jsonrpc: "2.0", id: 1, method: "tools/list" }] },
  ),
);

/** What the methods answer with, all in one: which fields there are is told by the method, and of `ping` there are none. */
const RpcResult = late(() =>
  Open({
    protocolVersion: Type.Optional(Type.String({ description: "`initialize`: the version that is spoken." })),
    capabilities: Type.Optional(
      Open({ tools: Open({ listChanged: Type.Boolean() }) }, { description: "`initialize`: tools, and nothing else." }),
    ),
    serverInfo: Type.Optional(
      Open({ name: Type.String(), title: Type.String(), version: Type.String() }, { description: "`initialize`." }),
    ),
    instructions: Type.Optional(Type.String({ description: "`initialize`: what the tools are for." })),
    tools: Type.Optional(
      Type.Array(
        Open({
          name: Type.String({ examples: ["web_search", "web_fetch"] }),
          title: Type.String(),
          description: Type.String(),
          inputSchema: Open({}),
          annotations: Open({}),
        }),
        { description: "`tools/list`." },
      ),
    ),
    content: Type.Optional(
      Type.Array(Open({ type: Type.Literal("text"), text: Type.String() }), {
        description: "`tools/call`: the results, or each page, as text.",
      }),
    ),
    structuredContent: Type.Optional(
      Open(
        {
          query: Type.Optional(Type.String()),
          notice: Type.Optional(Type.String({ description: "That the results are data and no instructions." })),
          notes: Type.Optional(Type.Array(Type.String())),
          results: Type.Optional(Type.Array(SearchResult())),
          cached: Type.Optional(Type.Boolean()),
          error: Type.Optional(
            Open({ code: Type.String(), message: Type.String(), reset_at: Type.Optional(Type.String()) }),
          ),
        },
        { description: "`tools/call`: the results of a search, or why a tool failed, for programs." },
      ),
    ),
    isError: Type.Optional(
      Type.Boolean({ description: "`tools/call`: true where the tool ran and failed, as the text says." }),
    ),
    _meta: Type.Optional(
      Open({
        "sluice/usage": WebUsage(),
        "sluice/pages": Type.Optional(Type.Array(FetchResult(), { description: "Of each page, without its content." })),
      }),
    ),
  }),
);

/** Its answer. */
export const RpcReply = late(() =>
  Open(
    {
      jsonrpc: Type.Literal("2.0"),
      id: Type.Union([Type.String(), Type.Integer(), Type.Null()]),
      result: Type.Optional(RpcResult()),
      error: Type.Optional(Open({ code: Type.Integer(), message: Type.String() })),
    },
    { title: "McpReply" },
  ),
);
