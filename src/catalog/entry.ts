import type { ReasoningForm } from "../canon/intent.ts";
import type { UpstreamDialectName } from "../dialects/dialect.ts";

/** Kinds of models (interface 4.4). */
export const MODALITIES = ["chat", "image", "tts", "stt", "embedding", "ocr", "moderation", "video", "music"] as const;
export type Modality = (typeof MODALITIES)[number];

export type AccessTier = "free" | "paid" | "premium";

/** Where a model can be had: a vendor's id, and the name the vendor knows it by. Tried in order, or by weight. */
export type Route = {
  vendor: string;
  model: string;
  /** Its part of the conversations, beside the weights of the model's other routes. One route with a weight: all have one, 1 by default. */
  weight?: number;
  /** How this vendor takes the model's reasoning control, where it is another way than the model's own (an aggregator's, say). */
  form?: ReasoningForm;
  /** The dialect in which this vendor serves the model best to clients that do not speak its own, where it speaks more than one. */
  dialect?: UpstreamDialectName;
};

/** When a model came out is in no source: an epoch value says unknown (dialects.md 2.7). */
export const CREATED_AT = "1970-01-01T00:00:00Z";
const CREATED = Date.parse(CREATED_AT) / 1000;

/**
 * USD per `unit`, which is `per_1m_tokens`, `per_image` or the vendor's own; {@link shownPricing} is how the catalog shows it. Extra keys of
 * a row, such as price tiers, are served as they are.
 */
export type Pricing = {
  currency: "USD";
  unit: string;
  input?: number;
  output?: number;
  cache_read?: number;
  cache_write?: number;
  [extra: string]: unknown;
};

/** How a model's reasoning is steered (interface 4.8, dialects.md 5.2). Only on models with a selectable control. */
export type ReasoningControl = {
  /** What the catalog shows and the code uses: the levels from least to most, and the model's own default. */
  levels: readonly string[];
  default: string;
  form: ReasoningForm;
  /**
   * What an absent field sends: nothing, the off position (Anthropic's own models), the default level or the lowest (models that always reason).
   * Not said: `minimal` where that is the off position (interface 4.8, "Minimal is off"), else nothing.
   */
  omitted?: "nothing" | "off" | "default" | "lowest";
  /** The model cannot be kept from reasoning: `none` lands on its lowest level (interface 4.8 rule 2). */
  alwaysReasons?: boolean;
  /** It reasons by its own default when nothing is sent, so sampling fields are dropped then too. */
  reasonsByDefault?: boolean;
  /** Off cannot be said to it at all: a request for it sends nothing (interface 4.8 rule 2). */
  noOff?: boolean;
  /** The word for off in the model's own form, where it is not the form's usual one (dialects.md 2.9: `between_tools`). */
  offValue?: string;
  /** Top-level wire fields refused only while the model reasons; kept where it is switched off. */
  refuses?: readonly string[];
};

/** A model of the catalog, as the gateway uses it. Public shapes are made by `toChatEntry` and `toMessagesEntry`. */
export type Entry = {
  id: string;
  displayName: string;
  ownedBy: string;
  modality: Modality;
  /** Nobody has said the modality: chat is assumed, and the model may draw images all the same. */
  modalityAssumed?: true;
  accessTier: AccessTier;
  contextLength?: number;
  maxOutputTokens?: number;
  /** `maxOutputTokens` is from the vendor's own list, and not enforced here: a wrong figure there must cut no reply short, and the vendor keeps to its bound by itself. */
  isListed?: true;
  pricing?: Pricing;
  /** `pdf`: the model is known to read PDF files. Shown in the messages dialect alone: interface 2.3 has no place for it. */
  capabilities: { vision: boolean; tools: boolean; reasoning: boolean; pdf?: true };
  /** The model is known to see nothing: images and sound are refused. Of a model whose row does not say, nobody knows. */
  textOnly?: boolean;
  reasoning?: ReasoningControl;
  /** The model's reasoning control is unknown (discovered or free-named), or its vendor's own affair: the client's own fields pass on the diagonal. */
  uncharted?: boolean;
  /** Top-level wire fields this model's upstream refuses. */
  refuses?: readonly string[];
  /** The day (YYYY-MM-DD) on which its vendor stops serving it, where it has said so. */
  retiresAt?: string;
  routes: readonly Route[];
};

/**
 * Prices in the catalog's form, which are always those of tokens (interface 2.3). What is priced by something else costs nothing for its
 * tokens and has that price beside them, under the unit's name (`per_image`).
 */
function shownPricing(pricing: Pricing): Pricing {
  if (pricing.unit === "per_1m_tokens") return pricing;
  const { currency, unit, input, output: _output, ...rest } = pricing;
  return { currency, unit: "per_1m_tokens", input: 0, output: 0, [unit]: input, ...rest };
}

/**
 * The catalog entry of interface 2.3: its fields, of which those not known are left out, and `created`, without which the types of the chat
 * dialect's SDKs take no entry.
 */
export function toChatEntry(entry: Entry) {
  const { contextLength, maxOutputTokens, pricing, capabilities, reasoning } = entry;
  return {
    id: entry.id,
    object: "model" as const,
    created: CREATED,
    display_name: entry.displayName,
    owned_by: entry.ownedBy,
    modality: entry.modality,
    access_tier: entry.accessTier,
    ...(contextLength !== undefined && { context_length: contextLength }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    ...(pricing && { pricing: shownPricing(pricing) }),
    capabilities: { vision: capabilities.vision, tools: capabilities.tools, reasoning: capabilities.reasoning },
    ...(reasoning && { reasoning_efforts: { levels: reasoning.levels, default: reasoning.default } }),
  };
}

/** Where a model is in its life, in the messages dialect's words (dialects.md 2.7): one whose vendor has announced its end is deprecated. */
export function lifecycleOf(entry: Entry) {
  return entry.retiresAt === undefined ? ("active" as const) : ("deprecated" as const);
}

const supported = (value: boolean) => ({ supported: value });

/** The messages dialect's tree of capabilities. What the catalog does not know of a model is told as not supported. */
function toCapabilityTree(entry: Entry) {
  const levels = entry.reasoning?.levels ?? [];
  const efforts = ["low", "medium", "high", "xhigh", "max"] as const;
  const steps = Object.fromEntries(efforts.map((effort) => [effort, supported(levels.includes(effort))]));
  const steered = entry.reasoning !== undefined;
  return {
    batch: supported(false),
    citations: supported(false),
    code_execution: supported(false),
    context_management: {
      supported: false,
      clear_thinking_20251015: supported(false),
      clear_tool_uses_20250919: supported(false),
      compact_20260112: supported(false),
    },
    effort: { supported: efforts.some((effort) => levels.includes(effort)), ...steps },
    image_input: supported(entry.capabilities.vision),
    pdf_input: supported(entry.capabilities.pdf === true),
    // Where the vendor runs none, the gateway does: it takes a model that calls tools.
    server_tools: {
      supported: entry.capabilities.tools,
      code_execution: supported(false),
      web_search: supported(entry.capabilities.tools),
    },
    // `output_config.format` reaches every dialect (dialects.md 4.1). A client that is told it does not forces a tool in its place, which Claude refuses
    // while it thinks (llm-anthropic). What a server of one's own makes of it nobody knows.
    structured_outputs: supported(entry.modality === "chat" && entry.uncharted !== true),
    thinking: {
      supported: entry.capabilities.reasoning,
      types: {
        enabled: supported(steered),
        adaptive: supported(steered),
        // Nothing is rejected for its reasoning control (interface 4.8 rule 7), and the field means: is it no 400.
        disabled: supported(true),
        between_tools: supported(false),
      },
    },
  };
}

/**
 * The catalog entry in the messages dialect's shape (dialects.md 2.7), with every field of {@link toChatEntry} beside it
 * (interface 2.3). `capabilities` is both: the three booleans and the tree share the object, their names do not collide.
 */
export function toMessagesEntry(entry: Entry) {
  const chat = toChatEntry(entry);
  return {
    type: "model" as const,
    ...chat,
    created_at: CREATED_AT,
    max_input_tokens: entry.contextLength ?? null,
    max_tokens: entry.maxOutputTokens ?? null,
    capabilities: { ...chat.capabilities, ...toCapabilityTree(entry) },
    lifecycle: lifecycleOf(entry),
    deprecated_at: null,
    retires_at: entry.retiresAt === undefined ? null : `${entry.retiresAt}T00:00:00Z`,
    line: null,
  };
}
