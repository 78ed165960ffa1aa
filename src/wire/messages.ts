import { type TSchema, Type } from "@sinclair/typebox";
import { late, Maybe, Nullable, Open } from "./open.ts";

/** {@link Maybe} for one of several shapes: a flat union, so that a fault deep inside is named by its own path. */
const MaybeOneOf = <T extends TSchema[]>(schemas: [...T], description: string) =>
  Type.Optional(Type.Union([...schemas, Type.Null()], { description }));

const CacheControl = late(() =>
  Type.Optional(
    Type.Unknown({
      description: "Cache breakpoint: `{type: ephemeral, ttl?: 5m | 1h}`. Kept for vendors that know it.",
    }),
  ),
);

const TextBlock = late(() =>
  Open(
    {
      type: Type.Literal("text"),
      text: Type.String({ description: "a string of text" }),
      cache_control: CacheControl(),
    },
    { description: "a text block" },
  ),
);

const ToolUseBlock = late(() =>
  Open(
    {
      type: Type.Literal("tool_use"),
      id: Type.String({ description: "a string that names the call" }),
      name: Type.String({ minLength: 1, description: "a tool name" }),
      input: Type.Object({}, { additionalProperties: true, description: "an object of arguments" }),
      cache_control: CacheControl(),
    },
    { description: "a tool_use block" },
  ),
);

/** Reasoning as it is sent back: what proves it is a string, or is not there. */
const ThinkingBlock = late(() =>
  Open(
    {
      type: Type.Literal("thinking"),
      thinking: Maybe(Type.String({ description: "the model's reasoning" })),
      signature: Maybe(Type.String({ description: "the vendor's proof of it" })),
    },
    { description: "a thinking block" },
  ),
);

const RedactedThinkingBlock = late(() =>
  Open(
    { type: Type.Literal("redacted_thinking"), data: Maybe(Type.String({ description: "the reasoning, encrypted" })) },
    { description: "a redacted_thinking block" },
  ),
);

/** Its text is all there is of it: without any, nothing would be said. */
const SearchResultBlock = late(() =>
  Open(
    {
      type: Type.Literal("search_result"),
      source: Type.String({ description: "where it was found" }),
      title: Type.String({ description: "its title" }),
      content: Type.Array(TextBlock(), { description: "an array of text blocks" }),
      cache_control: CacheControl(),
    },
    { description: "a search_result block" },
  ),
);

/** Blocks without a shape of their own here (image, document, server tools, those to come): only the type is asked for. */
const OtherBlock = late(() =>
  Open(
    {
      type: Type.String({
        pattern: "^(?!(?:text|tool_use|tool_result|search_result|thinking|redacted_thinking)$)",
        description: "a block type such as text, image, document, tool_use, tool_result or thinking",
      }),
    },
    { description: "a content block of another type" },
  ),
);

const ToolResultBlock = late(() =>
  Open(
    {
      type: Type.Literal("tool_result"),
      tool_use_id: Type.String({ description: "the id of the tool_use block it answers" }),
      content: MaybeOneOf(
        [Type.String(), Type.Array(Type.Union([TextBlock(), SearchResultBlock(), OtherBlock()]))],
        "a string or an array of text, image, document and search_result blocks",
      ),
      is_error: Maybe(Type.Boolean({ description: "true or false; true when the tool failed" })),
      cache_control: CacheControl(),
    },
    { description: "a tool_result block" },
  ),
);

const ContentBlock = late(() =>
  Type.Union(
    [
      TextBlock(),
      ToolUseBlock(),
      ToolResultBlock(),
      SearchResultBlock(),
      ThinkingBlock(),
      RedactedThinkingBlock(),
      OtherBlock(),
    ],
    {
      description: "a content block with a string `type`",
    },
  ),
);

export const Message = late(() =>
  Open(
    {
      role: Type.Union([Type.Literal("user"), Type.Literal("assistant"), Type.Literal("system")], {
        description: '"user", "assistant" or "system"',
      }),
      content: Type.Optional(
        Type.Union([Type.String(), Type.Array(ContentBlock())], {
          description: "a string or an array of content blocks",
        }),
      ),
    },
    { description: "one turn of the conversation" },
  ),
);

const ToolDefinition = late(() =>
  Type.Union(
    [
      Open({
        name: Type.String({ minLength: 1, description: "a tool name" }),
        description: Maybe(Type.String()),
        input_schema: Maybe(Type.Object({}, { additionalProperties: true, description: "a JSON Schema object" })),
        cache_control: CacheControl(),
      }),
      Open({ type: Type.String({ pattern: "^(?!custom$)", description: "the vendor's type of a built-in tool" }) }),
    ],
    { description: "a tool with a name, or a vendor's tool with a type" },
  ),
);

/** What the page on the interface tries first: it needs no vendor. */
const EXAMPLE = { model: "sluice/echo", messages: [{ role: "user", content: "Hello" }] };

/** All there are (interface 4.5). One that is not understood would leave the model free where the caller meant to bind it. */
const ToolChoiceType = late(() =>
  Type.Union([Type.Literal("auto"), Type.Literal("any"), Type.Literal("tool"), Type.Literal("none")], {
    description: '"auto", "any", "tool" or "none"',
  }),
);

const conversation = late(() => ({
  model: Type.String({ minLength: 1, description: "a model ID, `<vendor>/<model_name>`" }),
  messages: Type.Array(Message(), { minItems: 1, description: "a non-empty array of turns" }),
  system: MaybeOneOf([Type.String(), Type.Array(TextBlock())], "a string or an array of text blocks"),
  tools: Maybe(Type.Array(ToolDefinition(), { description: "an array of tools" })),
  tool_choice: Maybe(Open({ type: ToolChoiceType() }, { description: "an object" })),
  thinking: Type.Optional(
    Type.Unknown({
      description:
        "Reasoning: `{type: adaptive}`, `{type: enabled, budget_tokens}` or `{type: disabled}`. Values nobody knows are ignored.",
    }),
  ),
  output_config: Type.Optional(
    Type.Unknown({ description: "`effort` (depth of reasoning) and `format` (`{type: json_schema, schema}`)." }),
  ),
}));

/** Body of `POST /v1/messages` (interface 4.5; dialects.md 2.1). */
export const MessagesRequest = late(() =>
  Open(
    {
      ...conversation(),
      max_tokens: Type.Integer({ minimum: 0, description: "Upper bound on generated tokens." }),
      stream: Maybe(Type.Boolean({ description: "true or false; true gives server-sent events" })),
      temperature: Maybe(
        Type.Number({ minimum: 0, maximum: 1, description: "a number from 0 to 1; dropped while reasoning is active" }),
      ),
      top_p: Maybe(Type.Number({ description: "a number from 0 to 1; dropped while reasoning is active" })),
      top_k: Maybe(Type.Integer({ description: "a whole number: how many of the likeliest tokens to draw from" })),
      stop_sequences: Maybe(Type.Array(Type.String(), { description: "an array of strings that end generation" })),
      metadata: Maybe(
        Open(
          { user_id: Maybe(Type.String({ description: "an opaque name of the end user" })) },
          { description: "an object" },
        ),
      ),
    },
    {
      title: "MessagesRequest",
      description: "A conversation to continue. Unknown fields are kept.",
      examples: [{ ...EXAMPLE, max_tokens: 256, stream: true }],
    },
  ),
);

/** Body of `POST /v1/messages/count_tokens` (interface 4.6): that of a message, of which only the input counts. */
export const CountTokensRequest = late(() =>
  Open(conversation(), {
    title: "CountTokensRequest",
    description: "The conversation to measure. Everything a message takes is accepted; only the input is counted.",
    examples: [EXAMPLE],
  }),
);

/** Answer of `POST /v1/messages/count_tokens` (interface 2.6). */
export const CountTokensReply = late(() =>
  Open(
    {
      input_tokens: Type.Integer({ minimum: 0, description: "Tokens of the input." }),
      context_management: Type.Optional(
        Open(
          {},
          { description: "What the vendor counted before the edits of `context_management`, where it tells of that." },
        ),
      ),
    },
    { title: "CountTokensReply" },
  ),
);

const MessagesUsage = late(() =>
  Open(
    {
      input_tokens: Type.Integer({ description: "Input tokens, without both cache counters." }),
      output_tokens: Type.Integer({ description: "Generated tokens, reasoning included." }),
      cache_read_input_tokens: Type.Optional(
        Type.Integer({ description: "Input tokens read from the vendor's cache." }),
      ),
      cache_creation_input_tokens: Type.Optional(
        Type.Integer({ description: "Input tokens written to the vendor's cache." }),
      ),
      cache_creation: Maybe(
        Open(
          {
            ephemeral_5m_input_tokens: Type.Optional(Type.Integer()),
            ephemeral_1h_input_tokens: Type.Optional(Type.Integer()),
          },
          { description: "For how long the vendor's cache keeps what was written, where it tells." },
        ),
      ),
      output_tokens_details: Type.Optional(
        Open({ thinking_tokens: Type.Integer({ description: "The part of output_tokens spent on reasoning." }) }),
      ),
      server_tool_use: Maybe(
        Open(
          {
            web_search_requests: Type.Optional(Type.Integer()),
            web_fetch_requests: Type.Optional(Type.Integer()),
          },
          { description: "Searches and pages of web tools that were run for the model." },
        ),
      ),
    },
    { title: "MessagesUsage", description: "Token counts. In a stream they are cumulative." },
  ),
);

const ReplyBlock = late(() =>
  Type.Union(
    [
      Open(
        {
          type: Type.Literal("text"),
          text: Type.String(),
          citations: Maybe(Type.Array(Open({ type: Type.String() }), { description: "What the text rests on." })),
        },
        { description: "Visible output." },
      ),
      Open(
        { type: Type.Literal("thinking"), thinking: Type.String(), signature: Type.String() },
        { description: "The model's reasoning; present when thinking is enabled." },
      ),
      Open({ type: Type.Literal("redacted_thinking"), data: Type.String() }, { description: "Reasoning kept secret." }),
      ToolUseBlock(),
      Open({ type: Type.String() }, { description: "A block type to come. Clients ignore what they do not know." }),
    ],
    { description: "One content block of a reply." },
  ),
);

const STOP_REASONS = "`end_turn`, `max_tokens`, `stop_sequence`, `tool_use`, `refusal`, or a vendor's own word";

/** A finished answer (interface 2.4). */
export const MessagesReply = late(() =>
  Open(
    {
      id: Type.String({ description: "Message ID." }),
      type: Type.Literal("message"),
      role: Type.Literal("assistant"),
      model: Type.String({ description: "The model ID that was asked for." }),
      content: Type.Array(ReplyBlock()),
      stop_reason: Nullable(Type.String(), STOP_REASONS),
      stop_sequence: Nullable(Type.String(), "The sequence that matched, else null."),
      stop_details: Maybe(
        Open({ type: Type.String() }, { description: "Why the model declined, where its vendor tells." }),
      ),
      usage: MessagesUsage(),
    },
    { title: "MessagesReply", description: "The answer of the model." },
  ),
);
