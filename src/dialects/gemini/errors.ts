import type { GatewayError } from "../../canon/errors.ts";
import { isObject, objectsOf } from "../../lib/json.ts";
import { statusOfRawError } from "../refusals/meant-status.ts";
import { readRawError } from "../refusals/raw-error.ts";
import { upstreamError } from "../refusals/upstream-error.ts";

/** The error object inside a body, which may be an array around it. */
function errorIn(value: unknown): Record<string, unknown> | undefined {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  const error = isObject(first) ? first["error"] : undefined;
  return isObject(error) ? error : undefined;
}

const detailsOf = (error: Record<string, unknown> | undefined) => objectsOf(error?.["details"]);

/**
 * Whether a refusal is about the key: this vendor answers to a wrong or expired one with 400, not 401 (dialects.md 3). Refusals that say so in words alone are
 * recognised for all dialects in one place.
 */
const isAboutKey = (error: Record<string, unknown> | undefined): boolean =>
  detailsOf(error).some(({ reason }) => typeof reason === "string" && /^API_KEY_/.test(reason));

/** The error that a record or a whole 200 holds, if it holds one (dialects.md 4.8 #22). */
export function errorInside(value: unknown): GatewayError | undefined {
  const error = errorIn(value);
  if (!error) return undefined;
  const raw = readRawError(error);
  return upstreamError(isAboutKey(error) ? 401 : statusOfRawError(raw), raw);
}

/** A vendor's error answer as the error that the client may see (contract 6; dialects.md 3). `retryAfterSeconds`: the wait that its headers ask for. */
export function decodeError(status: number, body: string, retryAfterSeconds: number | undefined): GatewayError {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    // A page of a proxy in between: it tells a client nothing.
    value = undefined;
  }
  const error = errorIn(value);
  return upstreamError(isAboutKey(error) ? 401 : status, readRawError(value), retryAfterSeconds);
}
