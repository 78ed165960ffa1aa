import { GatewayError } from "../../canon/errors.ts";
import type { Event } from "../../canon/events.ts";
import { isObject } from "../../lib/json.ts";
import { errorOf } from "../translate.ts";
import { GeminiDecoder } from "./decode-stream.ts";
import { errorInside } from "./errors.ts";

/**
 * A whole reply as events, `finish` last (dialects.md 3.2). Throws GatewayError: upstream_error when it is no reply or its finish reason is a
 * failure, and for an error object inside a 200 the error that it means.
 */
export function decodeReply(body: unknown): Event[] {
  const error = errorInside(body);
  if (error) throw error;
  const first: unknown = Array.isArray(body) ? body[0] : body;
  if (!isObject(first) || !(Array.isArray(first["candidates"]) || isObject(first["promptFeedback"]))) {
    throw new GatewayError("upstream_error", "The vendor's answer is no reply of its dialect.");
  }
  const decoder = new GeminiDecoder();
  const events = decoder.read(body);
  events.push(...decoder.end());
  const failure = errorOf(events);
  if (failure?.code === "stream_truncated") {
    throw new GatewayError("upstream_error", "The vendor's answer does not say why it ended.");
  }
  if (failure) throw failure;
  return events;
}
