import type { TSchema } from "@sinclair/typebox";
import { type ErrorCode, statusOf } from "../canon/errors.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { ChatErrorReply, MessagesErrorReply } from "../wire/errors.ts";
import { DROPPED_HEADER, STRICT_HEADER } from "../wire/header-names.ts";

type JsonContent = { "application/json": { schema: Record<string, unknown> } };

/** For routes that the document does not name. */
export const HIDDEN = { detail: { hide: true } };

/** A request body as a route's `detail.requestBody`. Routes parse their bodies themselves, so their schemas are named here. */
export type JsonBody = { required: true; content: JsonContent };

/** One answer as an entry of a route's `detail.responses`. */
export type JsonReply = { description: string; content: JsonContent };

/** A schema as `wire/` keeps them: made when it is first asked for, which is when the document is. */
export type LateSchema = () => TSchema;

/** JSON Schema is a plain object; TypeBox's own marks are symbols, which JSON leaves out. */
const contentOf = (schemaOf: LateSchema): JsonContent => ({
  "application/json": {
    get schema() {
      return { ...schemaOf() };
    },
  },
});

/** `detail.requestBody` of a route that takes this JSON. */
export function jsonBody(schemaOf: LateSchema): JsonBody {
  return { required: true, content: contentOf(schemaOf) };
}

/** An answer that gives this JSON, and what it means in a sentence. */
export function jsonReply(schemaOf: LateSchema, description: string): JsonReply {
  return { description, content: contentOf(schemaOf) };
}

/** An answer that is this JSON, or with `stream: true` server-sent events. */
export function jsonOrStream(schemaOf: LateSchema, description: string) {
  return {
    description,
    content: { ...contentOf(schemaOf), "text/event-stream": { schema: { type: "string" as const } } },
  };
}

/** `detail.parameters` of the routes that translate: the header by which a client refuses every loss. */
export const STRICT_PARAMETER = {
  name: STRICT_HEADER,
  in: "header" as const,
  required: false,
  description: `\`1\`: a request goes to no vendor that could not be told everything; where the model has no other, it is refused (400, \`param\` is the first field) instead of being sent without it. Without this header the answer names what was left out in \`${DROPPED_HEADER}\`.`,
  schema: { type: "string" as const, enum: ["1"] },
};

/** Schemas that routes refer to by name: `components.schemas` of the document. */
export const sharedSchemas = () => ({ ChatError: { ...ChatErrorReply() }, MessagesError: { ...MessagesErrorReply() } });

/** What a route that needs no key may answer. */
export const PUBLIC_ERRORS: readonly ErrorCode[] = [
  "invalid_request",
  "permission_denied",
  "rate_limit_exceeded",
  "internal_error",
];

/** What generation may answer beside the usual ones (contract 6). */
export const GENERATION_ERRORS: readonly ErrorCode[] = [
  "context_length_exceeded",
  "insufficient_quota",
  "deposit_required",
  "model_not_found",
  "idempotency_in_progress",
  "idempotency_key_reused",
  "concurrency_exceeded",
  "upstream_error",
  "upstream_auth",
  "upstream_unreachable",
  "upstream_overloaded",
  "model_unpriced",
  "vendor_not_configured",
  "request_timeout",
];

/** What every route that reads a body and asks for a key may answer. */
const USUAL_ERRORS: readonly ErrorCode[] = [
  "invalid_request",
  "invalid_api_key",
  "permission_denied",
  "request_too_large",
  "unsupported_media_type",
  "rate_limit_exceeded",
  "internal_error",
  // Its books cannot be written at the moment.
  "upstream_overloaded",
];

const CHAT_ERROR = { $ref: "#/components/schemas/ChatError" };
const MESSAGES_ERROR = { $ref: "#/components/schemas/MessagesError" };

/**
 * Error answers of a route as entries of `detail.responses`, one a status, each naming its codes (contract 6). `codes` are those the
 * route adds to the `usual` ones. `either`: the request's headers choose between the chat and the messages dialect (interface 4.4 rule 3).
 */
export function errorReplies(
  dialect: DialectName | "either",
  codes: readonly ErrorCode[] = [],
  usual: readonly ErrorCode[] = USUAL_ERRORS,
): Record<string, JsonReply> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set([...usual, ...codes])) {
    const status = statusOf(code, dialect);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const either = { anyOf: [CHAT_ERROR, MESSAGES_ERROR] };
  const schema = dialect === "either" ? either : dialect === "messages" ? MESSAGES_ERROR : CHAT_ERROR;
  const replies: Record<string, JsonReply> = {};
  for (const [status, named] of [...byStatus].sort(([a], [b]) => a - b)) {
    replies[String(status)] = {
      description: `Error: ${named.join(", ")}`,
      content: { "application/json": { schema } },
    };
  }
  return replies;
}
