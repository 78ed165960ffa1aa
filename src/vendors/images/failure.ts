import { refusesContent } from "../../dialects/refusals/meant-status.ts";
import { readRawError } from "../../dialects/refusals/raw-error.ts";
import { readUpstreamError } from "../../dialects/refusals/upstream-error.ts";
import { scrub } from "../../dialects/scrub.ts";
import { retryAfterSeconds } from "../../lib/http1/retry-after.ts";
import { isObject } from "../../lib/json.ts";
import type { ImageStep } from "../image-upstream.ts";
import { listAt, objectAt, textAt } from "./answers.ts";
import type { Answer, Refusal } from "./wire.ts";

/** Busy vendors that do not say for how long are asked again after this, seconds. */
const BUSY_SECONDS = 2;
/** How deep an error answer is looked through, and most fields or texts that are looked at. */
const MAX_DEPTH = 6;
const MAX_FIELDS = 200;
/** How much of an error answer is searched for words of refusal, characters. */
const MAX_SEARCHED = 16_000;

/** An image that was refused on content grounds. */
export const BLOCKED: ImageStep = {
  kind: "blocked",
  message:
    "The vendor refused the prompt or its result on content grounds. Trying again with the same prompt does not help.",
};
export const UNREADABLE = "The vendor's answer cannot be read.";

/** An image that came to nothing; see `ImageStep`. */
export const failed = (message: string, ran: "no" | "maybe"): ImageStep => ({ kind: "failed", message, ran });

/** Names of fields whose text is a word for programs. */
const CODES: ReadonlySet<string> = new Set([
  "code",
  "type",
  "name",
  "status",
  "finish_reason",
  "reason",
  "blockReason",
]);

/** Names of fields whose text is a sentence. Others, such as `input`, repeat what the caller wrote, which is no word of the vendor's. */
const SENTENCES: ReadonlySet<string> = new Set([
  "message",
  "msg",
  "detail",
  "details",
  "error",
  "errors",
  "title",
  "reason",
]);

/** Every text of an error answer that stands in a field of these names, or in a list in one. */
function collect(value: unknown, fields: ReadonlySet<string>, found: string[] = [], name = "", depth = 0): string[] {
  if (depth > MAX_DEPTH || found.length > MAX_FIELDS) return found;
  if (typeof value === "string" && fields.has(name)) found.push(value);
  if (Array.isArray(value)) {
    for (const item of value.slice(0, MAX_FIELDS)) collect(item, fields, found, name, depth + 1);
  } else if (isObject(value)) {
    for (const [field, inner] of Object.entries(value).slice(0, MAX_FIELDS)) {
      collect(inner, fields, found, field, depth + 1);
    }
  }
  return found;
}

/** Statuses that are no refusal on content grounds, whatever is said beside them: no key, no money, no such path, too slow, too many. */
const PLAIN: ReadonlySet<number> = new Set([401, 402, 404, 405, 408, 429]);

function isRefusal({ status, json }: Answer, text: string, refusal: Refusal): boolean {
  if (status < 400 || status > 499 || PLAIN.has(status)) return false;
  // What the vendor behind an aggregator said is wrapped in that one's error.
  const raw = readRawError(json);
  if (refusesContent(status, raw)) return true;
  const { code } = refusal;
  if (code && collect(json, CODES).some((word) => code.test(word))) return true;
  const sentences = json === undefined ? text : [...collect(json, SENTENCES), raw.message].join("\n");
  return refusal.text?.test(sentences.slice(0, MAX_SEARCHED)) === true;
}

/** Why each node of a ComfyUI graph is refused, one sentence each. The message beside them is the same for all such faults (ComfyUI, execution.py). */
const nodeFaults = (json: unknown): string[] =>
  Object.values(objectAt(json, "node_errors")).flatMap((node) =>
    listAt(node, "errors").map(
      (error) => `${textAt(node, "class_type")}: ${textAt(error, "message")}: ${textAt(error, "details")}`,
    ),
  );

/**
 * The text of an error answer in the form in which most vendors write errors, for those that write what is wrong elsewhere: in a list (`errors`, Stability's),
 * or for each node.
 */
function toReadable({ json }: Answer, text: string): string {
  const nodes = nodeFaults(json);
  if (nodes.length > 0) return JSON.stringify({ error: { message: nodes.join("; ") } });
  const errors = listAt(json, "errors");
  if (errors.length === 0 || textAt(json, "message")) return text;
  const first = errors[0];
  return JSON.stringify({ error: { message: typeof first === "string" ? first : textAt(first, "message") } });
}

/**
 * What an answer of a status other than 2xx means: a refusal on content grounds, a fault of request or account, a vendor that is busy (and ran
 * nothing), or a vendor that failed (reliability 5.4, 6.2). `drewNothing`: the call could not have drawn anything, whatever became of it.
 */
export function readFailure(
  answer: Answer,
  refusal: Refusal,
  { drewNothing, now }: { drewNothing: boolean; now: number },
): ImageStep {
  const { status, headers } = answer;
  const text = new TextDecoder().decode(answer.bytes);
  if (isRefusal(answer, text, refusal)) return BLOCKED;
  const after = retryAfterSeconds(headers, now);
  const error = readUpstreamError(status, toReadable(answer, text), after);
  const { message } = error;
  // The vendor refuses the gateway, and not the request: its key, its account there, the path or the model.
  if (status <= 499 && (error.code === "upstream_auth" || (error.code === "upstream_error" && !error.retry))) {
    return { kind: "failed", message, ran: "no", fault: true, elsewhere: true };
  }
  const isLimit = status === 429 || error.code === "rate_limit_exceeded";
  // Of a 502 nobody knows whether it was reached.
  const isDown = error.code === "upstream_overloaded" && status !== 502;
  if (isLimit || isDown) {
    const limited = isLimit ? { limited: true as const } : {};
    return { kind: "failed", message, ran: "no", ...limited, retryAfterSeconds: after ?? BUSY_SECONDS };
  }
  if (status >= 400 && status <= 499 && status !== 408) return { kind: "failed", message, ran: "no", fault: true };
  return failed(message, drewNothing ? "no" : "maybe");
}

/** What an answer of status 2xx means that has no image. `words`: the vendor's own, if it said any. */
export function readWords(words: string | undefined, { text }: Refusal): ImageStep {
  if (words && text?.test(words.slice(0, MAX_SEARCHED))) return BLOCKED;
  const excerpt = words ? scrub(words) : "";
  const message = excerpt === "" ? "The vendor gave no image." : `The vendor gave no image. It says: ${excerpt}`;
  return failed(message, "maybe");
}
