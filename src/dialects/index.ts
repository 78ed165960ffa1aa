import { chat } from "./chat/index.ts";
import type { ClientDialect, Dialect, DialectName, UpstreamDialect, UpstreamDialectName } from "./dialect.ts";
import { gemini } from "./gemini/index.ts";
import { messages } from "./messages/index.ts";
import { responses } from "./responses/index.ts";

/** Every field that a dialect may have. */
const NOTHING: Readonly<Record<keyof Dialect, undefined>> = {
  name: undefined,
  pathFor: undefined,
  passHeaders: undefined,
  passesHeader: undefined,
  ownForms: undefined,
  intent: undefined,
  amountFields: undefined,
  reasoningFields: undefined,
  ownNames: undefined,
  check: undefined,
  counter: undefined,
  reasoningForms: undefined,
  demandsOutputCeiling: undefined,
  hasObjectArguments: undefined,
  provesReasoning: undefined,
  bindsReasoning: undefined,
  repeatsCallIds: undefined,
  marksTexts: undefined,
  decodeRequest: undefined,
  encodeRequest: undefined,
  markCache: undefined,
  amend: undefined,
  repairs: undefined,
  replyChanges: undefined,
  refuseWriting: undefined,
  plainer: undefined,
  lessons: undefined,
  refusedFields: undefined,
  headerEdits: undefined,
  decodeReply: undefined,
  decoder: undefined,
  decodeError: undefined,
  encodeReply: undefined,
  relabel: undefined,
  renameReply: undefined,
  explainsApart: undefined,
  encoder: undefined,
  relabeler: undefined,
  canFollow: undefined,
  encodeError: undefined,
  encodeErrorFrame: undefined,
  ping: undefined,
  replay: undefined,
  serverTools: undefined,
};

/**
 * The same dialect, its fields in one order for all: what handles dialects is compiled for objects of one kind then, where it would be compiled anew
 * for each dialect that comes along.
 */
const alike = <T extends UpstreamDialect>(dialect: T): T => ({ ...NOTHING, ...dialect });

/** Every dialect that clients speak, by name: the one place, beside `DIALECTS`, that a new one is entered. */
export const dialects: Readonly<Record<DialectName, Dialect>> = {
  chat: alike(chat),
  messages: alike(messages),
  responses: alike(responses),
};

/** Every dialect that vendors speak, by name. */
export const upstreamDialects: Readonly<Record<UpstreamDialectName, UpstreamDialect>> = {
  ...dialects,
  gemini: alike(gemini),
};

/**
 * The dialect in which a vendor is asked for a client: the client's, where the vendor's own is the same, so that nothing has to cross; else `best`, the
 * one in which a vendor of several serves the model best.
 */
export const upstreamFor = (
  client: ClientDialect,
  own: UpstreamDialectName,
  best: UpstreamDialectName | undefined,
): UpstreamDialect => upstreamDialects[client.name === own ? own : (best ?? own)];
