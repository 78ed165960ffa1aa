import { type Static, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import { REASONING_FORMS, REASONING_FORMS_OF } from "../canon/intent.ts";
import { MODALITIES } from "../catalog/entry.ts";
import { type Quirks, REMOTE_MEDIA, UPSTREAM_DIALECTS } from "../dialects/dialect.ts";
import { IMAGE_ROW_NAMES } from "../vendors/images/rows.ts";
import type { AuthForm } from "../vendors/vendor.ts";
import { SEARCH_ENGINES, type SearchEngineId } from "../web/search/engine.ts";
import { late } from "../wire/open.ts";
import { readFlag, readHost, readHostRule, readOrigin, readPort, readProxy, readUrl } from "./values.ts";

/** An object that refuses keys it does not know: a mistyped setting must not be a setting ignored (contract 2). */
const Closed = <T extends TProperties>(properties: T) =>
  Type.Object(properties, { additionalProperties: false, description: "a mapping" });

const quoted = (values: readonly string[]) => values.map((value) => `"${value}"`).join(", ");

/** One of a few words. The description is what an error says was expected. */
const Words = <const T extends readonly string[]>(values: T) =>
  Type.Unsafe<T[number]>(Type.String({ pattern: alternatives(values), description: oneOf(values) }));

const alternatives = (values: readonly string[]) =>
  `^(?:${values.map((value) => value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})$`;
const oneOf = (values: readonly string[]) => (values.length === 1 ? `"${values[0]}"` : `one of ${quoted(values)}`);

const text = (description: string, maxLength = 1000) => Type.String({ minLength: 1, maxLength, description });
const list = <T extends TSchema>(items: T, description: string, maxItems = 10_000) =>
  Type.Array(items, { maxItems, description });
const count = (description: string, minimum = 1, maximum = 1_000_000_000) =>
  Type.Integer({ minimum, maximum, description });
const amount = (description: string) => Type.Number({ minimum: 0, maximum: 1_000_000, description });
const flag = () => Type.Boolean({ description: readFlag.what });

const secret = () => text(`a key, \${NAME} or file:PATH`, 10_000);
const headers = () =>
  Type.Record(Type.String(), Type.String({ maxLength: 10_000, description: "text" }), {
    maxProperties: 50,
    description: "a mapping of header names to text",
  });
const httpUrl = late(() => text(readUrl.what, 2000));

const AUTH_FORMS = [
  "bearer",
  "x-api-key",
  "api-key",
  "x-goog-api-key",
  "x-key",
  "key",
  "basic",
  "service-account",
  "none",
] as const satisfies readonly AuthForm[];

type SnakeCase<T extends string> = T extends `${infer Head}${infer Tail}`
  ? `${Head extends Lowercase<Head> ? Head : `_${Lowercase<Head>}`}${SnakeCase<Tail>}`
  : T;

/** Every quirk of the dialects under its name in the file. A quirk that is missing here does not compile. */
const quirkProperties = late(
  () =>
    ({
      max_tokens_field: Type.Optional(Words(["max_tokens", "max_completion_tokens"])),
      max_output_tokens: Type.Optional(count("a whole number of tokens")),
      max_whole_tokens: Type.Optional(count("a whole number of tokens")),
      streams_reasoning: Type.Optional(flag()),
      reasoning_replay: Type.Optional(Words(["reasoning_content", "reasoning"])),
      reasoning_replay_always: Type.Optional(flag()),
      reasoning_replay_calls: Type.Optional(flag()),
      thought_parts: Type.Optional(flag()),
      refuses_reasoning: Type.Optional(flag()),
      unknown_fields: Type.Optional(list(text("a field name", 100), "a list of field names", 100)),
      message_fields: Type.Optional(list(text("a field name", 100), "a list of field names", 100)),
      no_json_schema: Type.Optional(flag()),
      no_json_object: Type.Optional(flag()),
      no_format_beside_tools: Type.Optional(flag()),
      loose_schemas: Type.Optional(Words(["patterns", "bounds"])),
      whole_schemas: Type.Optional(flag()),
      named_properties: Type.Optional(flag()),
      even_strict_tools: Type.Optional(flag()),
      no_strict_tools: Type.Optional(flag()),
      plain_schemas: Type.Optional(flag()),
      letter_first_names: Type.Optional(flag()),
      word_names: Type.Optional(flag()),
      no_streams: Type.Optional(flag()),
      no_stream_options: Type.Optional(flag()),
      tool_stream: Type.Optional(flag()),
      no_developer_role: Type.Optional(flag()),
      tool_choice_required: Type.Optional(
        Words(["any", "auto", "auto-alone", "auto-while-reasoning", "auto-unless-off", "unnamed"]),
      ),
      custom_tools: Type.Optional(flag()),
      legacy_functions: Type.Optional(flag()),
      prefill: Type.Optional(Words(["prefix", "partial", "continue", "none"])),
      empty_content: Type.Optional(flag()),
      blank_content: Type.Optional(flag()),
      no_empty_turns: Type.Optional(flag()),
      no_nulls: Type.Optional(flag()),
      joined_content: Type.Optional(flag()),
      nine_character_tool_ids: Type.Optional(flag()),
      forty_character_tool_ids: Type.Optional(flag()),
      text_results: Type.Optional(flag()),
      document_urls: Type.Optional(flag()),
      no_pdf: Type.Optional(flag()),
      no_images: Type.Optional(flag()),
      no_webp: Type.Optional(flag()),
      user_first: Type.Optional(flag()),
      alternating_roles: Type.Optional(flag()),
      strict_role_order: Type.Optional(flag()),
      no_system_role: Type.Optional(flag()),
      one_system_message: Type.Optional(flag()),
      max_stop_sequences: Type.Optional(count("a whole number from 0 to 100", 0, 100)),
      max_temperature: Type.Optional(amount("a temperature, 0 or more")),
      seed_field: Type.Optional(Words(["seed", "random_seed"])),
      accepts_top_k: Type.Optional(flag()),
      accepts_cache_control: Type.Optional(flag()),
      refuses_breakpoints: Type.Optional(flag()),
      reasoning_off: Type.Optional(Words(REASONING_FORMS_OF.chat)),
      exclusive_reasoning_tokens: Type.Optional(flag()),
      inline_think_tags: Type.Optional(flag()),
      unsigned_thinking: Type.Optional(flag()),
      no_reasoning_summary: Type.Optional(flag()),
      agent_terms: Type.Optional(flag()),
      plain_blocks: Type.Optional(flag()),
      own_billing_line: Type.Optional(flag()),
      no_added_cache_marks: Type.Optional(flag()),
      known_cache_marks: Type.Optional(flag()),
      unclamped_temperature: Type.Optional(flag()),
      refuses_extras: Type.Optional(flag()),
      version_in_body: Type.Optional(text("a version, such as bedrock-2023-05-31", 100)),
      publisher_models: Type.Optional(flag()),
      silent_off: Type.Optional(flag()),
      session_header: Type.Optional(Type.String({ pattern: "^[A-Za-z0-9-]{1,100}$", description: "a header name" })),
      session_field: Type.Optional(text("a field name", 100)),
      needs_session: Type.Optional(flag()),
      count_tokens: Type.Optional(flag()),
      bare_count_body: Type.Optional(flag()),
      remote_media: Type.Optional(Words(REMOTE_MEDIA)),
      web_tools: Type.Optional(flag()),
    }) satisfies Record<SnakeCase<keyof Quirks>, TSchema>,
);

const Server = late(() =>
  Closed({
    host: Type.Optional(text(readHost.what, 253)),
    port: Type.Optional(count(readPort.what, 0, 65_535)),
    public_url: Type.Optional(httpUrl()),
    cdn_url: Type.Optional(httpUrl()),
    cors_origins: Type.Optional(list(text(readOrigin.what), "a list of origins", 100)),
    trusted_proxies: Type.Optional(list(text(readProxy.what, 80), "a list of IP addresses and ranges", 100)),
  }),
);

/** How a vendor draws, where it is not as its image row says (dialects.md 7). */
const Drawing = late(() =>
  Closed({
    wire: Type.Optional(Words(IMAGE_ROW_NAMES)),
    ratios: Type.Optional(
      Type.Array(Type.String({ pattern: "^[1-9]\\d{0,3}:[1-9]\\d{0,3}$", description: "a ratio such as 16:9" }), {
        minItems: 1,
        maxItems: 50,
        uniqueItems: true,
        description: "a list of ratios, none twice",
      }),
    ),
    takes_source: Type.Optional(flag()),
    workflow: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        maxProperties: 500,
        description: "a ComfyUI graph in its API form",
      }),
    ),
  }),
);

const VendorRow = late(() =>
  Closed({
    id: Type.String({
      pattern: "^[a-z0-9][a-z0-9._-]{0,63}$",
      description: "a name of small letters, digits, dots, dashes and underscores (it is the prefix of the model IDs)",
    }),
    name: Type.Optional(text("a name", 200)),
    dialect: Type.Optional(Words(UPSTREAM_DIALECTS)),
    base_url: Type.Optional(httpUrl()),
    api_key: Type.Optional(secret()),
    api_keys: Type.Optional(
      Type.Array(secret(), {
        minItems: 1,
        maxItems: 100,
        description: "a list of keys that are used in turn",
      }),
    ),
    auth: Type.Optional(Words(AUTH_FORMS)),
    headers: Type.Optional(headers()),
    query: Type.Optional(text("a query string such as api-version=2026-01-01")),
    models: Type.Optional(
      Type.Union([Words(["discover", "any", "catalog"]), list(text("a model name", 200), "a list of model names")], {
        description: '"discover", "any", "catalog" or a list of model names',
      }),
    ),
    quirks: Type.Optional(Closed(quirkProperties())),
    images: Type.Optional(Drawing()),
  }),
);

/** What is expected, wherever it is checked. */
export const PRICE = "a price in USD, 0 or more";
export const VENDOR_ID = "the id of a vendor";

const price = () => Type.Optional(amount(PRICE));

/** What a request costs whose prompt is longer, cached tokens included. */
const Tier = late(() =>
  Closed({
    input_tokens_above: count("a whole number of tokens", 0),
    input: amount(PRICE),
    output: amount(PRICE),
    cache_read: price(),
    cache_write: price(),
    cache_write_1h: price(),
    cache_write_12h: price(),
  }),
);

const Pricing = late(() =>
  Closed({
    currency: Type.Optional(Words(["USD"])),
    unit: Type.Optional(Words(["per_1m_tokens"])),
    input: price(),
    output: price(),
    cache_read: price(),
    cache_write: price(),
    cache_write_1h: price(),
    cache_write_12h: price(),
    tiers: Type.Optional(list(Tier(), "a list of prices of longer prompts", 20)),
    /** USD for one image. */
    per_image: price(),
  }),
);

const Capabilities = late(() =>
  Closed({
    vision: Type.Optional(flag()),
    tools: Type.Optional(flag()),
    reasoning: Type.Optional(flag()),
    pdf: Type.Optional(flag()),
  }),
);

const ReasoningEfforts = late(() =>
  Closed({
    levels: Type.Array(text("a level", 40), {
      minItems: 1,
      maxItems: 20,
      description: "a list of levels, least first",
    }),
    default: text("one of the levels", 40),
  }),
);

const Reasoning = late(() =>
  Closed({
    form: Type.Optional(Words(REASONING_FORMS)),
    omitted: Type.Optional(Words(["nothing", "off", "default", "lowest"])),
    always_reasons: Type.Optional(flag()),
    reasons_by_default: Type.Optional(flag()),
    no_off: Type.Optional(flag()),
    off_value: Type.Optional(text("one of the levels", 40)),
    refuses: Type.Optional(list(text("a field name", 100), "a list of field names", 100)),
  }),
);

const Route = late(() =>
  Closed({
    vendor: text(VENDOR_ID, 64),
    model: text("a model name", 200),
    weight: Type.Optional(count("a whole number from 1 to 1000", 1, 1_000)),
  }),
);

const ModelRow = late(() =>
  Closed({
    id: Type.String({
      pattern: "^[^\\s/]+/\\S(?:[\\S ]*\\S)?$",
      maxLength: 200,
      description: "a model ID of the form <vendor>/<model_name>",
    }),
    display_name: Type.Optional(text("a name", 200)),
    owned_by: Type.Optional(text("a name", 200)),
    modality: Type.Optional(Words(MODALITIES)),
    access_tier: Type.Optional(Words(["free", "paid", "premium"])),
    context_length: Type.Optional(count("a whole number of tokens")),
    max_output_tokens: Type.Optional(count("a whole number of tokens")),
    pricing: Type.Optional(
      Type.Union([Words(["free"]), Pricing()], { description: '"free" or a mapping of prices in USD per 1M tokens' }),
    ),
    capabilities: Type.Optional(Capabilities()),
    reasoning_efforts: Type.Optional(ReasoningEfforts()),
    reasoning: Type.Optional(Reasoning()),
    refuses: Type.Optional(list(text("a field name", 100), "a list of field names", 100)),
    routes: Type.Optional(
      Type.Array(Route(), {
        minItems: 1,
        maxItems: 20,
        description: "a list of {vendor, model}, tried in order, or by weight",
      }),
    ),
  }),
);

const Plan = late(() =>
  Closed({
    metered: Type.Optional(flag()),
    requests_per_minute: Type.Optional(count("a whole number, 1 or more")),
    concurrent_generations: Type.Optional(count("a whole number, 1 or more")),
    spending_window_usd: Type.Optional(amount("an amount in USD, 0 or more")),
    images_per_day: Type.Optional(count("a whole number, 0 or more", 0)),
    image_jobs_in_flight: Type.Optional(count("a whole number, 1 or more")),
    web_calls_per_day: Type.Optional(count("a whole number, 0 or more", 0)),
    web_calls_per_minute: Type.Optional(count("a whole number, 1 or more")),
    web_calls_concurrent: Type.Optional(count("a whole number, 1 or more")),
    web_call_usd: Type.Optional(amount(PRICE)),
  }),
);

const SEARCH_CHOICES = ["auto", ...SEARCH_ENGINES, "none"] as const;

const SearchEngine = late(() =>
  Closed({
    api_key: Type.Optional(secret()),
    base_url: Type.Optional(httpUrl()),
  }),
);

/** Every engine of the network. One that is missing here does not compile. */
const engineProperties = late(
  () =>
    ({
      brave: Type.Optional(SearchEngine()),
      tavily: Type.Optional(SearchEngine()),
      exa: Type.Optional(SearchEngine()),
      perplexity: Type.Optional(SearchEngine()),
      serper: Type.Optional(SearchEngine()),
      searxng: Type.Optional(SearchEngine()),
    }) satisfies Record<Exclude<SearchEngineId, "fixture">, TSchema>,
);

const Web = late(() =>
  Closed({
    search: Type.Optional(
      Closed({
        engine: Type.Optional(
          Type.Union(
            [
              Words(SEARCH_CHOICES),
              Type.Array(Words(SEARCH_ENGINES), { minItems: 1, maxItems: 10, description: "a list of engines" }),
            ],
            { description: `${oneOf(SEARCH_CHOICES)}, or a list of engines that are tried in order` },
          ),
        ),
        engines: Type.Optional(Closed(engineProperties())),
      }),
    ),
    fetch: Type.Optional(
      Closed({
        allow_hosts: Type.Optional(list(text(readHostRule.what, 253), "a list of host names", 1000)),
      }),
    ),
  }),
);

/** A bucket for images, of Amazon S3 or anything that speaks its protocol. */
const ImageStorage = late(() =>
  Closed({
    bucket: text("the name of a bucket", 255),
    endpoint: Type.Optional(httpUrl()),
    region: Type.Optional(text("the name of a region", 100)),
    access_key_id: text("an access key's id", 1_000),
    secret_access_key: text(`an access key's secret, \${NAME} or file:PATH`, 1_000),
    prefix: Type.Optional(text("the beginning of every object's name, such as sluice/", 200)),
    public_url: Type.Optional(httpUrl()),
  }),
);

/** The whole configuration file (contract 2). Every object is closed. */
export const ConfigFile = late(() =>
  Closed({
    server: Type.Optional(Server()),
    vendors: Type.Optional(list(VendorRow(), "a list of vendors", 1000)),
    models: Type.Optional(list(ModelRow(), "a list of models")),
    plans: Type.Optional(
      Type.Record(Type.String(), Plan(), { maxProperties: 100, description: "a mapping of plan ids to figures" }),
    ),
    web: Type.Optional(Web()),
    limits: Type.Optional(
      Closed({ blocking_seconds: Type.Optional(count("a whole number of seconds from 1 to 3600", 1, 3600)) }),
    ),
    retention: Type.Optional(
      Closed({ usage_days: Type.Optional(count("a whole number of days from 1 to 10000", 1, 10_000)) }),
    ),
    images: Type.Optional(
      Closed({
        keep_days: Type.Optional(count("a whole number of days from 1 to 10000", 1, 10_000)),
        storage: Type.Optional(ImageStorage()),
      }),
    ),
    request_log: Type.Optional(
      Closed({
        enabled: Type.Optional(flag()),
        days: Type.Optional(count("a whole number of days from 1 to 3650", 1, 3_650)),
        megabytes: Type.Optional(count("a whole number from 1 to 100000", 1, 100_000)),
        bodies: Type.Optional(flag()),
      }),
    ),
    telemetry: Type.Optional(
      Closed({
        otlp_endpoint: Type.Optional(httpUrl()),
        headers: Type.Optional(headers()),
        service_name: Type.Optional(text("a name", 200)),
      }),
    ),
    local_discovery: Type.Optional(flag()),
  }),
);

export type ConfigFile = Static<ReturnType<typeof ConfigFile>>;
export type VendorSetting = NonNullable<ConfigFile["vendors"]>[number];
export type ModelSetting = NonNullable<ConfigFile["models"]>[number];
export type PlanSetting = NonNullable<ConfigFile["plans"]>[string];
export type WebSetting = NonNullable<ConfigFile["web"]>;

/** A quirk's name in the file (`no_stream_options`) as the dialects know it (`noStreamOptions`). */
export function toCamelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
