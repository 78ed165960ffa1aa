import type { ReasoningForm } from "../canon/intent.ts";

/** Kinds of models (interface 4.4). */
export const MODALITIES = ["chat", "image", "tts", "stt", "embedding", "ocr", "moderation", "video", "music"] as const;
export type Modality = (typeof MODALITIES)[number];

export type AccessTier = "free" | "paid" | "premium";

/** Where a model can be had: a vendor's id, and the name the vendor knows it by. Tried in order. */
export type Route = { vendor: string; model: string };

/** USD per `unit` as the catalog shows it (interface 2.3); extra keys of a row, such as price tiers, are served as they are. */
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
  /** What an absent field sends: nothing, the off position (Anthropic's own models), the default level or the lowest (models that always reason). */
  omitted: "nothing" | "off" | "default" | "lowest";
  /** The model cannot be kept from reasoning: `none` lands on its lowest level (interface 4.8 rule 2). */
  alwaysReasons?: boolean;
  /** It reasons by its own default when nothing is sent, so sampling fields are dropped then too. */
  reasonsByDefault?: boolean;
};

/** A model of the catalog, as the gateway uses it. Public shapes are made by `toChatEntry` and `toMessagesEntry`. */
export type Entry = {
  id: string;
  displayName: string;
  ownedBy: string;
  modality: Modality;
  accessTier: AccessTier;
  contextLength?: number;
  maxOutputTokens?: number;
  pricing?: Pricing;
  capabilities: { vision: boolean; tools: boolean; reasoning: boolean };
  reasoning?: ReasoningControl;
  /** The model's reasoning control is unknown (discovered or free-named): the client's own fields pass on the diagonal. */
  uncharted?: boolean;
  /** Top-level wire fields this model's upstream refuses. */
  refuses?: readonly string[];
  routes: readonly Route[];
};
