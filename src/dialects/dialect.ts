import type { GatewayError } from "../canon/errors.ts";
import type { Event } from "../canon/events.ts";
import type { Intent, Orders, ReasoningForm } from "../canon/intent.ts";
import type { Prompt } from "../canon/prompt.ts";
import type { Usage } from "../canon/usage.ts";
import type { Fields } from "../lib/http1/fields.ts";
import type { Edits, ObjectText } from "../lib/json-text.ts";
import type { Frame, TextPattern } from "./frames.ts";
import type { OwnNames } from "./loss/told-names.ts";
import type { ReplayHalf } from "./reasoning/replay.ts";
import type { ServerToolHalf } from "./server-tools.ts";

export const DIALECTS = ["chat", "messages", "responses"] as const;
/** A wire protocol that clients can speak. */
export type DialectName = (typeof DIALECTS)[number];
export const UPSTREAM_DIALECTS = [...DIALECTS, "gemini"] as const;
/** A wire protocol that vendors can speak. */
export type UpstreamDialectName = (typeof UPSTREAM_DIALECTS)[number];

/** What a vendor fetches from the web: nothing, images, everything at https addresses, or everything. */
export const REMOTE_MEDIA = ["none", "images", "https", "all"] as const;
export type RemoteMedia = (typeof REMOTE_MEDIA)[number];

/**
 * Named oddities of an upstream on a known dialect: facts of a vendor's row, read by the dialect's upstream half.
 * Every flag absent means: as the dialect's own vendor does it.
 */
export type Quirks = {
  /** chat: the field that carries the output ceiling. Default `max_completion_tokens`. */
  maxTokensField?: "max_tokens" | "max_completion_tokens";
  /** A higher output ceiling is refused; it is brought down to this, tokens. Default: as it is. */
  maxOutputTokens?: number;
  /** chat: the highest ceiling of a reply that comes whole; one with a higher is asked for as a stream, and put together (Fireworks). */
  maxWholeTokens?: number;
  /** chat: a model that may think gives no whole reply: unless it is told not to, a stream is asked for, and put together (Qwen). */
  streamsReasoning?: boolean;
  /**
   * chat: the field in which the vendor wants its reasoning text back on assistant turns. Default: reasoning is not sent back. Beside `reasoning`
   * stands `reasoning_details`: what a reply had of them is wanted back whole, in place of the text.
   */
  reasoningReplay?: "reasoning_content" | "reasoning";
  /** chat: an assistant turn without any reasoning_content is refused, so an empty one is written (DeepSeek V4). */
  reasoningReplayAlways?: boolean;
  /** chat: while it reasons, an assistant turn with tool calls is refused without its reasoning text; a blank stands for a lost one (Kimi). */
  reasoningReplayCalls?: boolean;
  /** chat: that text goes back as a part of the turn's content, before what was said, to models that think (Mistral). */
  thoughtParts?: boolean;
  /** chat: reasoning text on an assistant turn is refused: what clients send back of an earlier reply is taken out. */
  refusesReasoning?: boolean;
  /** chat: fields of the dialect's own vendor that this one refuses or knows nothing of; they are left out and named (dialects.md 1.1). */
  unknownFields?: readonly string[];
  /** chat: a message that holds another field than these is refused, even an empty one: the others are left out. */
  messageFields?: readonly string[];
  /** chat: no JSON Schema as `response_format`: any JSON is asked for, and the schema stands in the system prompt. */
  noJsonSchema?: boolean;
  /** chat: no `json_object` as `response_format`: it is asked for in words. */
  noJsonObject?: boolean;
  /** chat: no `response_format` beside tools: JSON and its schema are asked for in words (Groq, Cerebras). */
  noFormatBesideTools?: boolean;
  /** chat: the schemas of tools and formats are brought to a subset of JSON Schema, with a type everywhere (Moonshot). */
  plainSchemas?: boolean;
  /**
   * chat, messages, responses: what tools' schemas may not say of texts and lists, and is left out: `patterns` (OpenAI and others, of those that their regular
   * expressions do not know), or all `bounds`, lengths too (llama.cpp, whose grammars grow too large).
   */
  looseSchemas?: "patterns" | "bounds";
  /**
   * chat, messages, responses: a tool's schema must be an object at its root, with nothing to choose there, and its lists must say what they hold: the properties of
   * all choices are put together, and such a list holds anything.
   */
  wholeSchemas?: boolean;
  /** chat: a function's schema must have `properties`, even empty ones (LM Studio). */
  namedProperties?: boolean;
  /** chat: `strict` must be the same for all tools; where it is not, it is taken from all of them (Cerebras). */
  evenStrictTools?: boolean;
  /** chat: `strict` on a tool is refused (Cohere). */
  noStrictTools?: boolean;
  /** chat: a tool's name must begin with a letter (Moonshot). */
  letterFirstNames?: boolean;
  /** chat: a tool's name is made of letters, digits and `_`, and no digit begins it (Cohere). */
  wordNames?: boolean;
  /** chat, responses: a stream is refused: the reply is asked for whole, and written for the client as a stream. */
  noStreams?: boolean;
  /** chat: `stream_options` is refused. */
  noStreamOptions?: boolean;
  /** chat: a stream tells a call's arguments as they come only where `tool_stream` asks for it, and is silent until they are whole else (Z.ai). */
  toolStream?: boolean;
  /** chat, responses: the role `developer` is unknown and becomes `system`. */
  noDeveloperRole?: boolean;
  /**
   * chat, and messages for `auto`: how the vendor takes a tool_choice that forces a call. Default: as OpenAI does.
   * - `any`: it is spelled so (Mistral).
   * - `auto`, `auto-while-reasoning`, `auto-unless-off`: it is refused, always, or while the model reasons, or unless reasoning is switched off. `auto` is sent in
   *   its place, and the system prompt asks for the call.
   * - `auto-alone`: as `auto`; `none` is not known either, so that no tools are sent for it (Z.ai, Ollama).
   * - `unnamed`: a choice that names its tool is ignored or refused, so that this tool alone is sent, with `required` (llama.cpp, LM Studio, Moonshot).
   */
  toolChoiceRequired?: "any" | "auto" | "auto-alone" | "auto-while-reasoning" | "auto-unless-off" | "unnamed";
  /**
   * chat, responses: the vendor knows custom tools (dialects.md 1.1), and with them all else of its dialect: see {@link knowsAll}.
   * False: all are sent as functions; in the responses dialect so are the other tools that a client runs itself, and no item that only OpenAI knows is sent.
   * Absent: in the chat dialect those of chat clients are sent as they are, and those of others as functions; in the responses dialect all are sent as they are
   * until the vendor refuses them (see {@link UpstreamDialect.plainer}).
   */
  customTools?: boolean;
  /** chat: the vendor still knows `functions` and `function_call`; elsewhere they become tools. */
  legacyFunctions?: boolean;
  /**
   * chat: how a last assistant turn is marked that the model is to continue: `prefix` (Mistral) or `partial` (Kimi) on it, or vLLM's two fields. `none`: it
   * is answered and not continued, or only under conditions (Qwen while it does not think, DeepSeek at another address). `refused`: the user has to answer it.
   */
  prefill?: "prefix" | "partial" | "continue" | "none" | "refused";
  /** chat: a null assistant content is refused, `""` is sent. */
  emptyContent?: boolean;
  /** chat: a turn of calls alone is refused with null or `""` as its content: a blank is sent (Databricks' Claude). */
  blankContent?: boolean;
  /** chat: a turn of the model's in which nothing is said or called is refused, whatever was thought in it: it is left out (Moonshot). */
  noEmptyTurns?: boolean;
  /**
   * chat: fields that are null are refused; left out they mean the same. mlx-lm (containers/ramalama #2465) and KoboldCpp (LostRuins/koboldcpp #1503) break the
   * connection off at one, from which nothing can be learnt: their rows say so.
   */
  noNulls?: boolean;
  /** chat: content must be a string, the user's too where the model sees no pictures: parts of text are joined. */
  joinedContent?: boolean;
  /** chat: tool-call ids must be exactly nine alphanumeric characters (Mistral). */
  nineCharacterToolIds?: boolean;
  /** chat: tool-call ids may have no more than forty characters, as at OpenAI, whose own servers need not say so. */
  fortyCharacterToolIds?: boolean;
  /** chat, messages: a tool's result holds text alone, as at OpenAI, whose own servers need not say so, and LM Studio: its images go behind it, as the user's. */
  textResults?: boolean;
  /** chat: no user's turn may stand right behind a tool's result, and no system message behind that or an assistant's turn (Mistral). */
  strictRoleOrder?: boolean;
  /** chat: the first turn behind the system messages must be the user's: a word is put there where it is not (Z.ai). */
  userFirst?: boolean;
  /** chat: behind the system messages, which all stand first, user and assistant take turns: neighbours of one role become one message (Perplexity). */
  alternatingRoles?: boolean;
  /** chat: there is no system role (Gemma's first templates): its words are put before the user's first ones. */
  noSystemRole?: boolean;
  /** chat: one system message at the beginning is taken, and no other: later ones are joined to it (Qwen's template). */
  oneSystemMessage?: boolean;
  /** chat: at most this many stop sequences; the gateway drops and names the rest. Default 4. */
  maxStopSequences?: number;
  /** chat: a higher temperature is refused; it is brought down to this. Default: as it is. */
  maxTemperature?: number;
  /** chat: a document's bytes stand in a part of type `document_url`, not in a `file` (Mistral). */
  documentUrls?: boolean;
  /** chat: no part takes a PDF (DeepSeek: a `file` is an image). Default: a `file` does. */
  noPdf?: boolean;
  /** No image is taken, since the vendor's models take text alone. Of a model with a row of its own this is said there (`vision: false`). */
  noImages?: boolean;
  /** No WebP is read (llama.cpp, and what runs its engine): such an image is sent as PNG. */
  noWebp?: boolean;
  /** chat: seed is spelled `random_seed` (Mistral). */
  seedField?: "seed" | "random_seed";
  /** chat: the vendor knows top_k beside the dialect's own fields. */
  acceptsTopK?: boolean;
  /** chat: the vendor takes `cache_control` marks inside content parts (OpenRouter). False: it refuses them, and they are left out. */
  acceptsCacheControl?: boolean;
  /** chat: OpenAI's `prompt_cache_breakpoint` on a part is refused, and left out: the vendor checks its fields, and its caches know no such marks. */
  refusesBreakpoints?: boolean;
  /** chat: the form in which a model of unknown control is told not to think, for clients of other dialects. Absent: it is not told. */
  reasoningOff?: ReasoningForm;
  /** chat: completion_tokens leave reasoning out (xAI). Also recognised by arithmetic where the totals show it. */
  exclusiveReasoningTokens?: boolean;
  /** chat: reasoning arrives inside the text between `<think>` tags, at its very start. */
  inlineThinkTags?: boolean;
  /** messages: the vendor rejects temperature above 1; larger values are clamped. Default true. */
  unclampedTemperature?: boolean;
  /** messages: the vendor signs no thinking, and takes it back without a signature. To other vendors unsigned thinking is not sent (dialects.md 4.8 #6). */
  unsignedThinking?: boolean;
  /** responses: a summary of the reasoning is refused, so that none is asked for of the gateway's own accord (OpenAI, to who is not verified). */
  noReasoningSummary?: boolean;
  /**
   * responses: an answer's form is asked for in `response_format`, as in the chat dialect, and `text` is refused; a search of the web has its hosts in a
   * list of another name; and a function may not have the name of a tool that the vendor runs (Perplexity's Agent API).
   */
  agentTerms?: boolean;
  /** messages: the vendor reads Claude Code's billing line in the system prompt. To other vendors the line is not sent (field.md 12). */
  ownBillingLine?: boolean;
  /** messages: the vendor's models do not all take cache marks, so none are added to what clients of other dialects send. */
  noAddedCacheMarks?: boolean;
  /** messages: they are added for those of its models alone that are known by their names to take them: it refuses the whole request of another (Bedrock). */
  knownCacheMarks?: boolean;
  /**
   * messages: the vendor knows nothing but text, images, thinking, functions and their calls: everything else is written as one of these. Absent: everything is
   * sent as it is until the vendor refuses it (see {@link UpstreamDialect.plainer}).
   */
  plainBlocks?: boolean;
  /** messages: the dialect's version of this name stands in the body, and neither model nor stream does (Bedrock). */
  versionInBody?: string;
  /**
   * messages: `stream` stands in the body and betas in the header all the same, and what counts tokens is a model of its own, which takes no betas (models
   * of publishers at Vertex).
   */
  publisherModels?: boolean;
  /**
   * messages: betas and newer fields that this vendor refuses are left out from then on, and named: which ones it knows changes in time, and from model to
   * model (Bedrock).
   */
  refusesExtras?: boolean;
  /**
   * messages: a model that does not reason unasked is not told not to, for clients of other dialects: the vendor refuses that of some models, though off is what
   * they are (Opus 4.7 at Bedrock; docs.aws.amazon.com/bedrock, "Adaptive thinking").
   */
  silentOff?: boolean;
  /** The header, or else the top-level field, by which the vendor brings the requests of a session to where its prompt cache is. Absent: it knows none. */
  sessionHeader?: string;
  sessionField?: string;
  /** The vendor refuses a request that names no session: where the client names none, its conversation counts as one. */
  needsSession?: boolean;
  /** The vendor counts the tokens of a request itself, in the dialect's own way. */
  countTokens?: boolean;
  /** gemini: the counter takes the request's own fields, not a request inside a field (Vertex). */
  bareCountBody?: boolean;
  /**
   * The vendor itself runs the web tools that its dialect knows; for all others the gateway does. Absent for servers of which nothing is known: nearly
   * all that speak Anthropic's or OpenAI's dialect leave such a tool out without a word, or refuse it.
   */
  webTools?: boolean;
  /** Images and documents at URLs that the vendor fetches by itself; the gateway fetches the others. Default: as its dialect's own vendor does. */
  remoteMedia?: RemoteMedia;
};

/** In what terms a request is written for a vendor: its row's quirks, and what it has taught by refusing. */
export type VendorTerms = {
  quirks: Quirks;
  /** Top-level fields that it has refused. */
  refuses?: readonly string[] | undefined;
  /** See {@link Orders.missesThought}. */
  missesThought?: boolean | undefined;
  /** messages: its model takes an effort where a client says a budget. */
  thinksByEffort?: boolean | undefined;
  /** See {@link Orders.thinksByBudget}. */
  thinksByBudget?: boolean | undefined;
};

/** Terms that a refusal teaches. `isOnce`: they are for this request alone, since a value was refused, or two things beside each other. */
export type Lesson = VendorTerms & { isOnce?: boolean };

/** What was changed in a request on its way to the vendor that its reply must be changed back for. */
export type ReplyChanges = {
  /** Tool names: the upstream's → the client's. */
  toolNames?: ReadonlyMap<string, string>;
  /** The client's names of its custom tools: their calls go out as free text. */
  customTools?: ReadonlySet<string>;
  /** responses: the client's names of the tools that have items of their own for their calls, and which those are. */
  toolForms?: ReadonlyMap<string, string>;
  /** chat: the client offered `functions`, so it is answered with a `function_call`. */
  legacyFunctions?: boolean;
  /** Stop sequences that the upstream was not told: the gateway ends the text at them itself (dialects.md 4.1). */
  stops?: readonly string[];
  /** responses: fields of the request that the response object repeats. */
  request?: Readonly<Record<string, unknown>>;
};

/** What an encoder must know about the reply it writes. */
export type ReplyContext = {
  /** The model ID the client asked for: every reply carries it (dialects.md 4.8 #39). */
  model: string;
  /** Random part of the reply's id; the dialect puts its own prefix before it. */
  replyId: string;
  /** Unix seconds. */
  created: number;
  wantsUsage: boolean;
  /** Estimate of the input tokens, shown before the vendor's count is known. */
  estimatedInputTokens: number;
  /** What the gateway's own tools were used for so far; absent where they are not offered. */
  webCalls?: { searches: number; pages: number };
  /** responses: what the client wrote of what the response object repeats, where its vendor is told otherwise (web tools that the gateway runs). */
  repeated?: Readonly<Record<string, unknown>>;
  /** Set once the request is translated, where its reply cannot go back as it comes. */
  changes?: ReplyChanges;
  /** See {@link DecodeContext.cachesForHour}; set once the request is translated. */
  cachesForHour?: boolean;
  /** See {@link DecodeContext.usedCallIds}; set once the request is translated. */
  usedCallIds?: ReadonlySet<string>;
  /** What the model thought is left out of a reply that crosses dialects. */
  hidesReasoning?: boolean;
  /** The model that answers, as its vendor calls it; set where the reply crosses dialects, so that its proofs can say whose they are. */
  upstreamModel?: string;
};

/** What an upstream half must know to read a reply. */
export type DecodeContext = {
  quirks: Quirks;
  /** All that the request has the vendor write to its cache is to be kept for an hour. */
  cachesForHour?: boolean | undefined;
  /** Ids of the calls that the client's conversation holds: no call of the reply may have one of them. Absent: it holds none. */
  usedCallIds?: ReadonlySet<string> | undefined;
};

/** Reads one upstream stream. Tolerant: it accepts every deviation of dialects.md 4.8 and says what was meant. */
export interface Decoder {
  /** Events that this frame completes. Nothing is returned after `done`. Never throws: what cannot be read becomes an `error` event. */
  push(frame: Frame): Event[];
  /** The upstream has ended. Closes what is open: `finish` where the dialect's rule for a terminator is met, else `error` (stream_truncated). Idempotent. */
  end(): Event[];
  /** The terminator was seen, or an error: what follows is to be dropped. */
  readonly done: boolean;
  /** The reply is complete but for its terminator, and perhaps its usage: the upstream is given a short while for these. */
  readonly finishing: boolean;
  /** The vendor's counts so far that no event has told yet, since usage is told between blocks only: for a reply that is ended inside a block. */
  readonly untold?: Usage | undefined;
  /** Records that would each add text to the block that is open, and do nothing else: they may come as one frame with a `run`. */
  readonly pattern?: TextPattern | undefined;
}

/** Writes one client stream from events. Returned text is whole SSE records, or "" when nothing is to be sent. */
export interface Encoder {
  push(event: Event): string;
  /** The closing records, terminator last (after the settle). Called only after a `finish` event. */
  end(): string;
  /** An error as the last records, where they go on from those before them. Absent: {@link ClientDialect.encodeErrorFrame}, which knows of none. */
  fail?(error: GatewayError): string;
}

/** Forwards frames of one and the same dialect, changed only where the model ID or a broken frame demands it. */
export interface Relabeler {
  /** SSE text to send for this frame and the events the decoder read from it; the terminator and a usage record the client did not ask for are held back. */
  push(frame: Frame, events: readonly Event[]): string;
  /** What was held back and what was missing, terminator last. Called only after a `finish` event. */
  end(events: readonly Event[]): string;
  /** See {@link Encoder.fail}. */
  fail?(error: GatewayError): string;
}

/** A client's or an upstream's request, and what could not cross: field paths such as `logit_bias` or `messages[1].content[0]`. */
export type Decoded = { prompt: Prompt; dropped: string[]; changes?: ReplyChanges };
export type Encoded = { body: Record<string, unknown>; dropped: string[]; changes?: ReplyChanges };

/** The half of a wire protocol that faces clients. */
export interface ClientDialect {
  readonly name: UpstreamDialectName;
  /** Lower-case names of request headers that may cross, on the diagonal only. */
  readonly passHeaders: readonly string[];
  /** Whether one of them may cross beside this body, where its vendor might refuse the two together; absent: all may. */
  passesHeader?(name: string, value: string, body: Record<string, unknown>, quirks: Quirks): boolean;

  /**
   * Edits of a body that its client wrote in part in the form of another dialect, after which all of it is in this one; undefined where it is. `lost`:
   * what of it this dialect has no word for, by its place. Absent: no client is known to do so.
   */
  ownForms?(body: Record<string, unknown>): { edits: Edits; lost: readonly string[] } | undefined;
  /** What the gateway reads of a client's body. Throws GatewayError (invalid_request) when `model` is missing or no string. */
  intent(body: unknown): Intent;
  /** The fields of a body that say how long its replies may be, and how many it wants. */
  readonly amountFields: readonly string[];
  /** The fields by which a body asks for reasoning, or for none: at the top, or inside one that is there. */
  readonly reasoningFields: readonly string[];
  /** What its clients call what encoders name otherwise. */
  readonly ownNames: OwnNames;
  /** Throws GatewayError (invalid_request, with param) when the body is not a request of this dialect. Unknown fields pass. */
  check(body: unknown): void;
  /** See {@link UpstreamDialect.hasObjectArguments}. */
  readonly hasObjectArguments?: boolean;
  /** A checked client body as its meaning. Throws GatewayError where the meaning cannot be carried at all. */
  decodeRequest(body: Record<string, unknown>): Decoded;

  /** Events of a finished reply as a whole reply body. */
  encodeReply(events: readonly Event[], context: ReplyContext): Record<string, unknown>;
  /** A same-dialect reply with the client's model ID, every other byte as it was. */
  relabel(body: ObjectText, context: ReplyContext): string;
  /** Why a model declined stands apart from a reply's text, in its end. Absent: it is text by which the model declines. */
  readonly explainsApart?: boolean;
  /** Edits of a same-dialect reply, or of the data of a stream's record, by which the tools that it says are called otherwise. */
  renameReply(value: Record<string, unknown>, rename: (name: string) => string): Edits;
  encoder(context: ReplyContext): Encoder;
  relabeler(context: ReplyContext): Relabeler;
  /** Whether clients can follow a vendor's own stream that begins so, with this record; undefined while nothing tells. Absent: they always can. */
  canFollow?(frame: Frame): boolean | undefined;

  /** An error as this dialect's HTTP answer. */
  encodeError(error: GatewayError, requestId: string): { status: number; body: Record<string, unknown> };
  /** An error as this dialect's last record in a stream. */
  encodeErrorFrame(error: GatewayError, requestId: string): string;
  /** A record that keeps a silent connection open. */
  readonly ping: string;
  /** Looks up and puts back reasoning that clients did not send back. */
  readonly replay: ReplayHalf;
  /** How its clients ask for tools that a vendor's servers run, and are shown what came of them. */
  readonly serverTools: ServerToolHalf;
}

/** How vendors of a dialect count the tokens of a request themselves. */
export type TokenCounter = {
  /** Path below the vendor's base URL. */
  path(upstreamModel: string, quirks: Quirks): string;
  /** Whether one of the client's headers that may cross may do so to the counter as well; absent: all may. */
  passesHeader?(name: string, quirks: Quirks): boolean;
  /** The body to ask with, from that of a generation. Both are JSON text. */
  body(text: string, upstreamModel: string, quirks: Quirks): string;
  /** The count in its answer, as it stands there. */
  read(answer: unknown): unknown;
  /** What it left out of the conversation before it counted, as it tells its own clients; `original` is the count of all. Absent: it does no such thing. */
  edited?(answer: unknown): { context_management: unknown; original: unknown } | undefined;
};

/** The half of a wire protocol that faces vendors. */
export interface UpstreamDialect {
  readonly name: UpstreamDialectName;
  /** How its vendors count tokens themselves, where the dialect knows a way. */
  readonly counter?: TokenCounter;
  /** The forms of a reasoning control that it can write, its usual one first. */
  readonly reasoningForms: readonly [ReasoningForm, ...ReasoningForm[]];
  /** Its requests must name an output ceiling (messages: max_tokens). */
  readonly demandsOutputCeiling?: boolean;
  /** Its vendors prove their reasoning, and want the proof back for the same model. */
  readonly provesReasoning?: boolean;
  /** Its proofs count only for the model that gave them, and do not say which that was (dialects.md 2.9). */
  readonly bindsReasoning?: boolean;
  /** Some of its vendors give calls the ids of earlier ones, which no other call of a conversation may have (see {@link DecodeContext.usedCallIds}). */
  readonly repeatsCallIds?: boolean;
  /** Its vendors mark each text with its part in the turn, and want the mark back with the text (OpenAI's `phase`). */
  readonly marksTexts?: boolean;
  /** Arguments of calls are objects in it, not texts: long numbers keep their digits only when it is read for that (dialects.md 4.8 #43). */
  readonly hasObjectArguments?: boolean;
  /** Path of generation below a vendor's base URL, with its query string where the dialect has one. */
  pathFor(upstreamModel: string, stream: boolean): string;

  /**
   * A prompt as this upstream's body: model, reasoning and stream come with `amend`. `upstreamModel` tells what only some models take.
   * Throws GatewayError (invalid_request, with the part's place as param) for what this upstream cannot be told.
   */
  encodeRequest(prompt: Prompt, quirks: Quirks, upstreamModel?: string): Encoded;
  /** Sees to the cache marks of a body that `encodeRequest` wrote; changes it in place. Absent: this dialect has none. */
  markCache?(body: Record<string, unknown>, upstreamModel: string, quirks: Quirks): void;
  /** Orders as edits of an upstream body's top-level fields, whether the client wrote that body or `encodeRequest`. */
  amend(body: Record<string, unknown>, orders: Orders, quirks: Quirks): Edits;
  /** What is lost by these edits of `amend`, such as earlier reasoning, by the names under which it is told to the client. */
  repairs?(body: Record<string, unknown>, edits: Edits, orders: Orders, quirks: Quirks): string[];
  /** On the diagonal: what `amend` changes of a client's body so that its reply must be changed back; usually nothing. */
  replyChanges?(body: Record<string, unknown>, quirks: Quirks): ReplyChanges | undefined;
  /** On the diagonal: throws GatewayError (invalid_request, with param) for a body whose reply cannot be written anew from its events. Absent: every one can. */
  refuseWriting?(body: Record<string, unknown>): void;
  /**
   * The quirks by which a body of a client of this dialect is written in terms that every server of the dialect knows; undefined where it already is, or where
   * `quirks` say what the vendor knows. Absent: no server of the dialect knows less than others.
   */
  plainer?(body: Record<string, unknown>, quirks: Quirks): Quirks | undefined;
  /**
   * What a refusal in these words may teach beyond `terms`, the likeliest first. Asked before {@link plainer}, which looks at the request and not at the words.
   * Absent: the words of its servers' refusals teach nothing.
   */
  lessons?(words: string, terms: VendorTerms): Lesson[];
  /**
   * Paths of the fields that the vendor does not know, where a refusal in these words names them and nothing else (`input.0.status`; a number stands for every
   * entry): they are left out from then on, and named. Absent: no refusal is read so.
   */
  refusedFields?(words: string, quirks: Quirks): string[];
  /** On the diagonal: client headers that this vendor wants in the body, as edits of it. */
  headerEdits?(body: Record<string, unknown>, headers: Fields, quirks: Quirks): Edits;

  /** A whole reply as events, `finish` last. Throws GatewayError (upstream_error) when it is no reply, or what an error object inside a 200 means. */
  decodeReply(body: unknown, context: DecodeContext): Event[];
  decoder(context: DecodeContext): Decoder;
  /** An upstream's error answer as what the client may know of it (contract 6). `retryAfterSeconds` is already read from its headers. */
  decodeError(status: number, body: string, retryAfterSeconds: number | undefined): GatewayError;
}

/** One wire protocol, both halves. */
export interface Dialect extends ClientDialect, UpstreamDialect {
  readonly name: DialectName;
}
