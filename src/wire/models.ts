import { Type } from "@sinclair/typebox";
import { late, Nullable, Open } from "./open.ts";

const price = (description: string) => Type.Optional(Type.Number({ minimum: 0, description }));

const prices = late(() => ({
  input: price("Fresh input."),
  output: price("Output; reasoning tokens are output."),
  cache_read: price("Input read from the cache, where it is priced apart."),
  cache_write: price("Input written to the cache, where it is priced apart."),
  cache_write_1h: price("Input written to the cache for an hour, where that is priced apart."),
  cache_write_12h: price("Input written to the cache for twelve hours, where that is priced apart."),
}));

const Pricing = late(() =>
  Open(
    {
      currency: Type.Literal("USD"),
      unit: Type.Literal("per_1m_tokens", { description: "What `input`, `output` and the cache prices are for." }),
      ...prices(),
      tiers: Type.Optional(
        Type.Array(Open({ input_tokens_above: Type.Integer(), ...prices() }), {
          description: "What a request costs whose prompt is longer, where that is another price.",
        }),
      ),
      per_image: price("One image, where images are what is priced; other units stand beside it likewise."),
    },
    { description: "Absent: not known." },
  ),
);

const ReasoningEfforts = late(() =>
  Open(
    {
      levels: Type.Array(Type.String(), { description: "Levels the model accepts, least first." }),
      default: Type.String({ description: "The level that `adaptive` means." }),
    },
    { description: "Present only on models with a selectable reasoning control." },
  ),
);

/** What the catalog says of a model in either shape (interface 2.3). */
const metadata = late(() => ({
  id: Type.String({ description: "Full model ID, `<vendor>/<model_name>`: pass it as `model`." }),
  object: Type.Literal("model"),
  created: Type.Integer({ description: "Unix seconds; 0 where it is not known." }),
  display_name: Type.String(),
  owned_by: Type.String({ description: "Vendor of record." }),
  modality: Type.String({ examples: ["chat", "image"] }),
  access_tier: Type.Union([Type.Literal("free"), Type.Literal("paid"), Type.Literal("premium")]),
  context_length: Type.Optional(Type.Integer({ description: "Total window in tokens. Absent: not known." })),
  max_output_tokens: Type.Optional(Type.Integer({ description: "Largest output of a turn. Absent: not known." })),
  pricing: Type.Optional(Pricing()),
  reasoning_efforts: Type.Optional(ReasoningEfforts()),
}));

const flags = late(() => ({ vision: Type.Boolean(), tools: Type.Boolean(), reasoning: Type.Boolean() }));

/** A model in the chat shape (interface 2.3). */
const ChatModel = late(() => Open({ ...metadata(), capabilities: Open(flags()) }, { title: "Model" }));

/** The catalog in the chat shape (interface 4.4). */
export const ChatModelList = late(() =>
  Open({ object: Type.Literal("list"), data: Type.Array(ChatModel()) }, { title: "ModelList" }),
);

/** Whether a model can do something; below it, by name, what of it. */
const support = (...parts: readonly string[]) =>
  Open({
    supported: Type.Boolean(),
    ...Object.fromEntries(parts.map((part) => [part, Open({ supported: Type.Boolean() })])),
  });

/** The messages dialect's tree of capabilities. */
const capabilityTree = late(() => ({
  batch: support(),
  citations: support(),
  code_execution: support(),
  context_management: support("clear_thinking_20251015", "clear_tool_uses_20250919", "compact_20260112"),
  effort: support("low", "medium", "high", "xhigh", "max"),
  image_input: support(),
  pdf_input: support(),
  server_tools: support("code_execution", "web_search"),
  structured_outputs: support(),
  thinking: Open({
    supported: Type.Boolean(),
    types: Open({ enabled: support(), adaptive: support(), disabled: support(), between_tools: support() }),
  }),
}));

/** A model in the messages shape (dialects.md 2.7), with the chat shape's fields beside it. */
const MessagesModel = late(() =>
  Open(
    {
      ...metadata(),
      type: Type.Literal("model"),
      created_at: Type.String({ description: "RFC 3339; the epoch where it is not known." }),
      max_input_tokens: Nullable(Type.Integer()),
      max_tokens: Nullable(Type.Integer()),
      capabilities: Open({ ...flags(), ...capabilityTree() }),
      lifecycle: Type.Union([Type.Literal("active"), Type.Literal("deprecated")]),
      deprecated_at: Nullable(Type.String(), "RFC 3339; null where it is not known."),
      retires_at: Nullable(Type.String(), "RFC 3339: when its vendor stops serving it, once that is announced."),
      line: Nullable(Type.String(), "The family of the model; null where it is not known."),
    },
    { title: "MessagesModel" },
  ),
);

/** A page of the catalog in the messages shape (dialects.md 2.7). */
export const MessagesModelList = late(() =>
  Open(
    {
      data: Type.Array(MessagesModel()),
      has_more: Type.Boolean(),
      first_id: Nullable(Type.String(), "Pass it as `before_id` for the page before."),
      last_id: Nullable(Type.String(), "Pass it as `after_id` for the page after."),
    },
    { title: "MessagesModelList" },
  ),
);

/** `GET /v1/models`, in the shape that the request's headers ask for. */
export const ModelListReply = late(() => Type.Union([ChatModelList(), MessagesModelList()]));

/** `GET /v1/models/{id}`, in the shape that the request's headers ask for. */
export const ModelReply = late(() => Type.Union([ChatModel(), MessagesModel()]));
