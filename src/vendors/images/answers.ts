import { isObject } from "../../lib/json.ts";
import { type Answer, type Reading, RequestFault } from "./wire.ts";

/** The object at a field; an empty one where there is none. */
export function objectAt(value: unknown, field: string): Record<string, unknown> {
  const found = isObject(value) ? value[field] : undefined;
  return isObject(found) ? found : {};
}

/** The list at a field; an empty one where there is none. */
export function listAt(value: unknown, field: string): readonly unknown[] {
  const found = isObject(value) ? value[field] : undefined;
  return Array.isArray(found) ? found : [];
}

/** The text at a field; "" where there is none. */
export function textAt(value: unknown, field: string): string {
  const found = isObject(value) ? value[field] : undefined;
  return typeof found === "string" ? found : "";
}

/** There is no image, for this reason in the vendor's words; "" where it gives none. */
export const failedWith = (words: string): Reading => (words ? { kind: "failed", words } : { kind: "failed" });

/** How any answer to a call that stops some work is read: nobody waits for what comes of it. */
export const STOPPED: Reading = { kind: "pending", resumeId: "stopped", pollAfterMs: 0 };

const NAME = /^[A-Za-z0-9_-]{1,100}$/;

/** The name that a vendor gave to some work, where it can stand in a path. Throws RequestFault for any other. */
export function checkName(resumeId: string): string {
  if (!NAME.test(resumeId)) throw new RequestFault(BAD_NAME);
  return resumeId;
}

export const BAD_NAME = "The vendor gave the work a name that is none.";

/** An image as text: a URL of any kind, or its bare base64. */
export function readImageText(text: string): Reading {
  return /^(?:https?:|data:|\/)/i.test(text) && !isBareBase64(text)
    ? { kind: "url", url: text }
    : { kind: "base64", data: text };
}

/** JPEG in base64 begins with a slash, as a path does; no path is as long as an image. */
const isBareBase64 = (text: string) => text.startsWith("/9j/") && text.length > 1_000;

/** The image in an answer of the kind most vendors give: `b64_json` or `url` (dialects.md 7). */
export function readImageObject(image: unknown): Reading {
  const data = textAt(image, "b64_json") || textAt(image, "image_base64");
  if (data) return readImageText(data);
  const url = textAt(image, "url");
  return url ? readImageText(url) : { kind: "failed" };
}

/** For vendors that answer with the image itself, and say in a header whether it was filtered. */
export function readImageBody({ headers, bytes }: Answer): Reading {
  const reason = headers.get("finish-reason");
  return reason !== null && /FILTER/i.test(reason) ? { kind: "blocked" } : { kind: "bytes", bytes };
}

/** Words by which a model says that it will not draw something. */
const DECLINES =
  /\b(?:can(?:['’]?t|not)|unable to|not able to|won['’]?t|will not|must decline|against (?:my|our|the) (?:policy|policies|guidelines|rules)|violat\w+|inappropriate|not (?:appropriate|allowed|permitted))\b/i;

/** Whether a model that draws while it talks says in its own words, in the place of an image, that it will not. */
export const declines = (prose: string): boolean => DECLINES.test(prose);
