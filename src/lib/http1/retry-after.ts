import type { Fields } from "./fields.ts";

/** Prefix with which a LiteLLM gateway passes on the headers of the vendor behind it, where it has no such header of its own. */
const RELAYED = "llm_provider-";

/**
 * Whole seconds, rounded up and never below 0, until whoever answered wants to be asked again: `retry-after-ms`, else `retry-after` as
 * seconds or as an HTTP date against `now` (Unix ms). Undefined when neither can be read (dialects.md 1.5).
 */
export function retryAfterSeconds(headers: Pick<Fields, "get">, now: number): number | undefined {
  const told = (name: string) => headers.get(name) ?? headers.get(RELAYED + name);
  const milliseconds = number(told("retry-after-ms"));
  if (milliseconds !== undefined) return Math.ceil(milliseconds / 1000);
  const text = told("retry-after");
  const seconds = number(text);
  if (seconds !== undefined) return Math.ceil(seconds);
  // Date.parse reads nearly anything; an HTTP date begins with the name of its day.
  const date = text && /^\s*[A-Z][a-z]{2,8},? /.test(text) ? Date.parse(inGmt(text)) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - now) / 1000));
}

/** Adds GMT to a date in asctime's form, which is in GMT but does not say so (RFC 9110, 5.6.7): the runtime would read it in the machine's own zone. */
const inGmt = (date: string): string => (/:\d{2}(?: \d{4})?\s*$/.test(date) ? `${date} GMT` : date);

/** A plain decimal number that is not negative; undefined for all else. */
function number(text: string | null): number | undefined {
  return text !== null && /^\s*\d{1,12}(?:\.\d+)?\s*$/.test(text) ? Number(text) : undefined;
}
