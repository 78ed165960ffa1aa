/**
 * Where the bytes of an image or a document are. Base64 data carries no data-URL prefix. A file id means something to one vendor alone;
 * `dialect` is the one the client wrote it in.
 */
export type MediaSource =
  | { kind: "base64"; mediaType: string; data: string }
  | { kind: "url"; url: string }
  | { kind: "text"; text: string }
  | { kind: "file"; id: string; dialect?: string };

/**
 * `cache` is a client's cache breakpoint as it was sent; dialects without one drop it without a word of loss. `breakpoint`: the same as OpenAI's two
 * dialects say it, which goes from one of them to the other as it is.
 */
type Marked = { cache?: unknown; breakpoint?: unknown };
/** `place` is the path at which the client wrote a part, such as `messages[2].content[0]`: for errors about it. */
type Placed = { place?: string };

/**
 * `signature` is the vendor's proof of what it said, where it gives one (Gemini). `isApart`: words about the conversation, such as what a search found,
 * amid the model's own: where texts are joined they stand on lines of their own.
 */
export type TextPart = { type: "text"; text: string; signature?: string; isApart?: true } & Marked;
/** `signature`: of one that the model made, its vendor's proof of that (Gemini). `detailField`: where in the part its client says `detail`, if not there itself. */
export type ImagePart = {
  type: "image";
  source: MediaSource;
  detail?: string;
  detailField?: string;
  signature?: string;
} & Marked &
  Placed;
export type DocumentPart = { type: "document"; source: MediaSource; title?: string; context?: string } & Marked &
  Placed;
export type AudioPart = { type: "audio"; data: string; format: string } & Placed;
/** The family of models that made a proof, where the proof came with a word of it. */
type Made = { maker?: string };
/** It led to calls whose results the request brings: a model that is not shown it goes on without its own plan, so its loss is named. */
type Needed = { isNeeded?: true };
/** Reasoning text of an earlier turn. `signature` is the vendor's proof of it; without one most vendors refuse it back. */
export type ReasoningPart = { type: "reasoning"; text: string; signature?: string } & Made & Needed;
/** Reasoning that only its vendor can read. */
export type RedactedReasoningPart = { type: "redacted-reasoning"; data: string } & Made & Needed;
/**
 * `arguments` is the raw JSON text, so that big integers and spelling survive. `signature` is the vendor's proof of the call.
 * `custom`: a call of a custom tool, whose free text stands as the one argument `input`.
 */
export type ToolCallPart = {
  type: "tool-call";
  id: string;
  name: string;
  arguments: string;
  signature?: string;
  custom?: true;
} & Marked;
export type ToolResultPart = {
  type: "tool-result";
  callId: string;
  parts: Part[];
  isError?: boolean;
} & Marked;
/** A part that only its own dialect understands; encoders of other dialects drop and name it. */
export type OpaquePart = { type: "opaque"; dialect: string; name: string; value: unknown };

export type Part =
  | TextPart
  | ImagePart
  | DocumentPart
  | AudioPart
  | ReasoningPart
  | RedactedReasoningPart
  | ToolCallPart
  | ToolResultPart
  | OpaquePart;

/** Tool results stand in user turns, before the user's own parts. A `system` turn is one in mid-conversation. */
export type Turn = { role: "user" | "assistant" | "system"; parts: Part[] };

export type Tool = {
  name: string;
  description?: string;
  /** JSON Schema of the arguments, root type object. */
  schema: Record<string, unknown>;
  strict?: boolean;
  /**
   * A custom tool takes free text: `schema` then says so as the one argument `input`, for dialects that know functions only. `format`
   * constrains the text.
   */
  custom?: { format?: Record<string, unknown> };
  /** A tool that the client's dialect has given a type, and items of their own for its calls: that type. */
  form?: string;
} & Marked &
  Placed;

export type ToolChoice = { type: "auto" } | { type: "none" } | { type: "required" } | { type: "tool"; name: string };

/**
 * `strict`: the answer must meet the schema. `where-it-fits`: the client's own vendor keeps to every schema, so that none is said to be strict: it is where
 * that changes nothing of it.
 */
export type OutputFormat =
  | { type: "json" }
  | {
      type: "json-schema";
      name?: string;
      description?: string;
      schema: Record<string, unknown>;
      strict?: boolean | "where-it-fits";
    };

/** A request's meaning, decoded only when it crosses from one dialect to another. */
export type Prompt = {
  system: TextPart[];
  turns: Turn[];
  tools: Tool[];
  toolChoice?: ToolChoice;
  /** false: at most one tool call a turn. */
  parallelToolCalls?: boolean;
  stop: string[];
  maxOutputTokens?: number;
  temperature?: number;
  topP?: number;
  topK?: number;
  seed?: number;
  frequencyPenalty?: number;
  presencePenalty?: number;
  output?: OutputFormat;
  /** The last turn is the assistant's, and the model is to go on with it. */
  continues?: true;
  /** The reply may be images too, of this shape and size, by Google's words for them. */
  pictures?: { ratio?: string; size?: string };
  /** The client's name for its end user. */
  userId?: string;
  /** Fields that pass as they are between OpenAI's two dialects, by the chat dialect's names; encoders of others drop and name them. */
  shared?: Record<string, unknown>;
};
