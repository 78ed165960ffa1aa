import { type ErrorCode, GatewayError } from "../../canon/errors.ts";
import { scrub } from "../scrub.ts";
import {
  codeOf,
  meantStatus,
  NEVER_TAKEN,
  NOT_LOADED,
  statusOfRawError,
  TEMPLATE_REFUSED,
  UNLOADABLE,
  type UpstreamCode,
} from "./meant-status.ts";
import { ContextOverflow, readOverflow } from "./overflow.ts";
import { plainFaults } from "./python-faults.ts";
import { type RawError, readRawError } from "./raw-error.ts";
import { exceedsCredit, meansNoCredit, meansUsedUp } from "./vendor-account.ts";
import { refusalWords, type VendorSaid } from "./vendor-said.ts";

/** Longest `retry-after` handed on, seconds (contract 6). */
const MAX_RETRY_AFTER = 60;
/** How long a limit lasts that says no time, or less than this, seconds: whoever is limited for no longer is asked all the same. */
export const SHORTEST_LIMIT_SECONDS = 1;

/** Not a page of a proxy in between, and no JSON that is torn. */
const PLAIN = /^\s*[^\s<{[]/;

/** {@link upstreamError} of what a vendor sent inside a 200. */
export function innerError(value: unknown): GatewayError {
  const raw = readRawError(value);
  return upstreamError(statusOfRawError(raw), raw);
}

/**
 * The error for a record of a stream that cannot be read. One that is plain text is what the vendor says of its error: mistral.rs tells them so
 * (EricLBuehler/mistral.rs #1874).
 */
export const unreadableRecord = (cause: unknown, record = ""): GatewayError =>
  PLAIN.test(record)
    ? innerError(record)
    : new GatewayError("upstream_error", "The vendor sent a record that is not JSON.", { cause });

/**
 * Groq's code for a call that its model wrote so that nobody can read it. It tells that as a fault of the request (a 400), which may well succeed when it is
 * asked again (pydantic/pydantic-ai #4354, tashfeenahmed/freellmapi #291), as other vendors' replies that end so.
 */
const SPOILED = "tool_use_failed";

/** How long the vendor wants to be left alone: a limit for a second at the least, an overload where it says so (RFC 9110, 10.2.3). */
function waitOf(code: UpstreamCode, toldSeconds: number | undefined): number | undefined {
  if (code !== "rate_limit_exceeded" && (code !== "upstream_overloaded" || toldSeconds === undefined)) return undefined;
  return Math.min(Math.max(SHORTEST_LIMIT_SECONDS, toldSeconds ?? 0), MAX_RETRY_AFTER);
}

/** In the midst of a stream these words are all that some agents go by: "rate limit", "overloaded" and "server error" have them ask again. */
const WORDS: Readonly<Record<UpstreamCode, string>> = {
  upstream_auth: "The vendor refused this gateway's credentials. The operator has to check the vendor's key.",
  rate_limit_exceeded: "The vendor's rate limit for this gateway's requests is reached.",
  upstream_overloaded: "The vendor is overloaded or down. Try again later.",
  upstream_error: "The vendor answered with a server error.",
  invalid_request: "The vendor refused the request.",
  request_too_large: "The request is larger than its vendor takes.",
};

/**
 * How vendors say that they cannot read an image: Anthropic; OpenAI; Google (browser-use/browser-use #3740, AmberSahdev/Open-Interface #64); vLLM and
 * others that decode with Pillow; llama.cpp.
 */
const UNREAD_IMAGE =
  /could not process image|image data you provided does not represent a valid image|unable to process input image|provided image is not valid|cannot identify image file|failed to load image\b/i;

/**
 * Such an image comes with each later request of an agent's session, and each is refused. Claude Code and Codex take it out of the conversation, each by the
 * words of its own vendor, so both are told whoever says it.
 */
const BAD_IMAGE =
  "Could not process image. The image data you provided does not represent a valid image. The vendor refused the request.";

/** Whether a vendor found the request itself at fault: why, it tells best. */
export const isOfRequest = (code: ErrorCode): boolean => code === "invalid_request" || code === "request_too_large";

/** A 403 is no word about the key itself: a model or an endpoint that it is not for, a region, a host name that the vendor does not go by. */
const FORBIDDEN =
  "The vendor does not allow this gateway what was asked. The operator has to check the vendor's key, what it may do, and the vendor's address.";

const NO_CREDIT = "The vendor refused: this gateway's account there has no credit left.";
const USED_UP =
  "The vendor refused: this gateway's account there has used up what its plan allows for now. Asking again at once does not help.";
const UNKNOWN = "The vendor does not know this model or path.";
const UNLOADED = "The vendor has not loaded this model.";
/** How much there is left is the operator's to know. */
const TOO_DEAR =
  "The vendor refused: this gateway's account there has too little credit for a request of this size. Ask for fewer output tokens, or shorten the prompt; the operator can add credit.";

/** Our words, and the vendor's reason behind them unless it is "". Another gateway of this kind has said ours already: they are not said twice. */
function withReason(words: string, reason: string): string {
  if (reason.startsWith(words)) return reason;
  return reason === "" ? words : `${words} It says: ${reason}`;
}

const isUnloaded = (words: string): boolean => NOT_LOADED.test(words) || UNLOADABLE.test(words);

/** Why it does not help to ask this vendor again, where its answer means that: what it does not have, or what is amiss with the account there. */
function finalWords(meant: number, raw: RawError, told: string): string | undefined {
  if (meant === 404) return isUnloaded(told) ? withReason(UNLOADED, told) : UNKNOWN;
  if (exceedsCredit(raw)) return TOO_DEAR;
  if (meansUsedUp(raw)) return USED_UP;
  return meansNoCredit(meant, raw) ? NO_CREDIT : undefined;
}

/** {@link VendorSaid} of an error answer. `told`: its words, scrubbed. */
function saidBy(status: number, meant: number, raw: RawError, told: string): VendorSaid {
  return {
    // None where a way cannot carry the request, as there may be another one. A 403 that is meant stays: by it the key is known to be in force.
    ...(!NEVER_TAKEN.test(told) && { status: meant === 403 ? meant : status }),
    ...{ type: raw.type, code: raw.code, message: told },
    ...(raw.details && { details: raw.details }),
    ...(raw.isRelayed && { isRelayed: raw.isRelayed }),
  };
}

/** What of a refusal helps to mend the request: the field at fault, scrubbed, and what the vendor tells beside its words. */
const helpOf = ({ param, details }: RawError) => ({
  ...(param && { param: scrub(param).slice(0, 100) }),
  ...(details && { extra: { details } }),
});

/**
 * What a client may know of an upstream's error answer: contract 6's code for it, our words, and for faults of the request, or what is told as one, the
 * vendor's own reason, scrubbed. Context overflow is recognised whatever the vendor calls it, and re-worded so that agents compact.
 */
export function upstreamError(status: number, raw: RawError, retryAfterSeconds?: number): GatewayError {
  const told = scrub(plainFaults(raw.message.replace(TEMPLATE_REFUSED, "")));
  const meant = meantStatus(status, raw);
  const cause = saidBy(status, meant, raw, told);
  if (raw.code === SPOILED) {
    const words = withReason("The vendor's model wrote a call that it could not read.", told);
    return new GatewayError("upstream_error", words, { cause: { ...cause, finish: SPOILED } });
  }
  const overflow = readOverflow(meant, `${raw.code} ${raw.type} ${raw.message}`);
  if (overflow) return new ContextOverflow({ ...overflow, ...raw.figures }, cause);
  const final = finalWords(meant, raw, told);
  if (final !== undefined) return new GatewayError("upstream_error", final, { cause, retry: false });
  const code = codeOf(meant);
  const isRefused = isOfRequest(code);
  // A model that is down, told as a bad request: its server says why, and who asks is often who can do something about it.
  const isDown = meant === 503 && codeOf(status) === "invalid_request";
  const isUnread = code === "invalid_request" && UNREAD_IMAGE.test(told);
  const words = meant === 403 ? FORBIDDEN : isUnread ? BAD_IMAGE : WORDS[code];
  return new GatewayError(code, isRefused || isDown ? withReason(words, told) : words, {
    cause,
    ...(isRefused && helpOf(raw)),
    retryAfterSeconds: waitOf(code, retryAfterSeconds ?? raw.retryAfterSeconds),
  });
}

/**
 * A vendor's failure of which the vendor itself says that asking again does not help: no overload, whatever its status (another gateway's 502 for a
 * refused key, its 503 for a model without a price), told with its reason. What is final anyway stays, and so does a limit, which ends.
 */
export function asFinal(error: GatewayError): GatewayError {
  const { code, retry, cause } = error;
  if (!retry || (code !== "upstream_overloaded" && code !== "upstream_error")) return error;
  const words = withReason("The vendor failed, and says that asking again does not help.", refusalWords(error));
  return new GatewayError("upstream_error", words, { retry: false, cause });
}

/** How JSON begins whose end was not read, as far as its sentence: a vendor that repeats what it was sent makes it as long as that. */
const CUT_WORDS =
  /^\s*\{\s*(?:"object"\s*:\s*"error"\s*,\s*)?(?:"error"\s*:\s*\{\s*)?"(?:message|detail)"\s*:\s*"((?:[^"\\]|\\.){1,1200})/;
const CUT_FAULT =
  /^\s*\{\s*(?:"object"\s*:\s*"error"\s*,\s*"message"\s*:\s*\{\s*)?"detail"\s*:\s*\[\s*\{\s*"type"\s*:\s*"[^"]*"\s*,\s*"loc"\s*:\s*\[([^\]]*)\]\s*,\s*"msg"\s*:\s*"((?:[^"\\]|\\.){1,600})/;

function readCut(cut: string): string {
  try {
    return String(JSON.parse(`"${cut}"`));
  } catch {
    // Cut inside an escape.
    return cut;
  }
}

/** What a body says that is no whole JSON, where it begins as vendors' errors do. */
function cutWords(body: string): string {
  const [, words] = CUT_WORDS.exec(body) ?? [];
  if (words !== undefined) return readCut(words);
  const [, place = "", fault] = CUT_FAULT.exec(body) ?? [];
  return fault === undefined ? "" : `${place.replaceAll(/["\s]/g, "").replaceAll(",", ".")}: ${readCut(fault)}`;
}

/** How a vendor begins that tells an error as a record of the stream that it was asked for, with the error's own status (MiMo: Tencent/WeKnora #1302; Alibaba). */
const RECORD = /^\s*(?:(?:event|id)?:.*\r?\n)*data:(.*)/;

/**
 * {@link upstreamError} for an HTTP answer whose body may be JSON in any shape, a record of a stream with that in it, plain text (axum's refusals, and so
 * TGI's and DeepSeek's, huggingface/smolagents #1158; Docker Model Runner's), HTML, or nothing.
 */
export function readUpstreamError(status: number, body: string, retryAfterSeconds?: number): GatewayError {
  let value: unknown;
  try {
    value = JSON.parse(RECORD.exec(body)?.[1] ?? body);
  } catch {
    value = PLAIN.test(body) ? body : cutWords(body);
    // Words may stand elsewhere in what is not read: some servers say so what is too long.
    const overflow = readOverflow(status, body);
    if (overflow) return new ContextOverflow(overflow, { status, message: scrub(body) });
  }
  return upstreamError(status, readRawError(value), retryAfterSeconds);
}
