import { isEmpty, isObject } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import { knowsLess } from "../knows-all.ts";
import { idRule } from "./call-ids.ts";
import { amendFields, joinContent, removeBreakpoints, removeMarks } from "./message-fields.ts";
import { PICTURES, refusesPictures } from "./pictures.ts";
import { addThoughtPart, isLoneThought, LOST_REASONING, lacksReasoning, REPLAYED, renameReasoning } from "./replay.ts";

type Wire = Record<string, unknown>;

/** A call that carries another vendor's proof of reasoning (dialects.md 3.3). */
const isSigned = (call: unknown): call is Wire => isObject(call) && Object.hasOwn(call, "extra_content");
const withoutProof = (call: unknown) => (isSigned(call) ? { ...call, extra_content: undefined } : call);

const isRefusal = ({ content, refusal }: Wire): boolean => !content && typeof refusal === "string" && refusal !== "";

/**
 * Whether an answer that is nothing but a refusal goes on as its text: OpenAI's own servers read the field it stands in, others see a turn that says
 * nothing, which DeepSeek's refuses ("Invalid assistant message: content or tool_calls must be set", carlrobertoh/ProxyAI #834).
 */
const knowsNoRefusal = (quirks: Quirks): boolean =>
  knowsLess(quirks) || quirks.emptyContent === true || quirks.messageFields !== undefined;

/** What this upstream takes otherwise of a turn of the model's. */
function amendAssistant(message: Wire, quirks: Quirks, changes: Wire): void {
  if (isRefusal(message) && knowsNoRefusal(quirks)) {
    changes["content"] = message["refusal"];
    changes["refusal"] = undefined;
  } else if (quirks.emptyContent && message["content"] == null) changes["content"] = "";
  if (quirks.blankContent && message["tool_calls"] && !message["content"]) changes["content"] = " ";
  if (quirks.reasoningReplayAlways && typeof message["reasoning_content"] !== "string") {
    const known = message["reasoning"];
    changes["reasoning_content"] = typeof known === "string" ? known : "";
  }
  if (quirks.thoughtParts) addThoughtPart(message, changes);
  if (quirks.refusesReasoning || (quirks.noEmptyTurns && isLoneThought(message))) {
    for (const field of REPLAYED) if (Object.hasOwn(message, field)) changes[field] = undefined;
  }
  if (quirks.refusesReasoning || quirks.unknownFields?.length) removeProofs(message, changes);
  if (refusesPictures(quirks) && Object.hasOwn(message, PICTURES)) changes[PICTURES] = undefined;
}

/** One message as this upstream takes it: the same object where nothing is in its way. */
export function amendMessage(message: Wire, quirks: Quirks): Wire {
  const changes: Wire = {};
  const isAssistant = message["role"] === "assistant";
  if (quirks.noDeveloperRole && message["role"] === "developer") changes["role"] = "system";
  if (isAssistant) amendAssistant(message, quirks, changes);
  if (quirks.reasoningReplayCalls && lacksReasoning(message)) changes["reasoning_content"] = LOST_REASONING;
  const idFor = idRule(quirks);
  if (idFor) amendCallIds(message, idFor, changes);
  if (quirks.acceptsCacheControl === false) removeMarks(message, changes);
  if (quirks.refusesBreakpoints) removeBreakpoints(message, changes);
  if (quirks.joinedContent) joinContent(message, changes);
  if (quirks.messageFields) {
    const field = quirks.reasoningReplay;
    if (isAssistant && field && quirks.messageFields.includes(field)) renameReasoning(message, field, changes);
    amendFields(message, quirks.messageFields, changes);
  }
  if (quirks.documentUrls)
    amendDocuments(changes["content"] === undefined ? message : { ...message, ...changes }, changes);
  return isEmpty(changes) ? message : { ...message, ...changes };
}

/** A file part with its bytes in it. */
const isFilled = (part: unknown): part is Wire & { file: { file_data: string; filename?: unknown } } =>
  isObject(part) && part["type"] === "file" && isObject(part["file"]) && typeof part["file"]["file_data"] === "string";

function toDocumentUrl(part: unknown): unknown {
  if (!isFilled(part)) return part;
  const { file_data: url, filename } = part.file;
  return { type: "document_url", document_url: url, ...(typeof filename === "string" && { document_name: filename }) };
}

function amendDocuments({ content }: Wire, changes: Wire): void {
  if (Array.isArray(content) && content.some(isFilled)) changes["content"] = content.map(toDocumentUrl);
}

function removeProofs(message: Wire, changes: Wire): void {
  const calls = message["tool_calls"];
  if (Array.isArray(calls) && calls.some(isSigned)) changes["tool_calls"] = calls.map(withoutProof);
}

function amendCallIds(message: Wire, idFor: (id: string) => string, changes: Wire): void {
  const resultOf = message["tool_call_id"];
  if (typeof resultOf === "string" && idFor(resultOf) !== resultOf) changes["tool_call_id"] = idFor(resultOf);
  const calls = changes["tool_calls"] ?? message["tool_calls"];
  if (!Array.isArray(calls)) return;
  const isStrange = (call: unknown): call is Wire & { id: string } =>
    isObject(call) && typeof call["id"] === "string" && idFor(call["id"]) !== call["id"];
  if (!calls.some(isStrange)) return;
  changes["tool_calls"] = calls.map((call) => (isStrange(call) ? { ...call, id: idFor(call.id) } : call));
}
