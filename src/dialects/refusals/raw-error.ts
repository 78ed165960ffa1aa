import { STATUS_CODES } from "node:http";
import { isObject, listOf, objectsOf } from "../../lib/json.ts";
import type { OverflowFigures } from "./overflow.ts";
import { readRecord, relayedError } from "./relayed-error.ts";

/** What can be read of an error in any of the shapes vendors use (dialects.md 1.5). */
export type RawError = {
  message: string;
  type: string;
  code: string;
  param?: string;
  /**
   * What went wrong, in one word (`error_code`) by which Anthropic's SDKs choose the class of the error they throw, with the figures and the places in the
   * request that belong to it (dialects.md 2.6).
   */
  details?: Record<string, unknown>;
  figures?: OverflowFigures;
  /** How long the vendor wants to be left alone, whole seconds rounded up, where its body says so. */
  retryAfterSeconds?: number;
  /** It is of a vendor behind the one that was asked. */
  isRelayed?: true;
};

/** Of a text as much is read as of an error's HTTP body: one that stands in a stream or in a 200 may be of many megabytes, and it is looked through dozens of times. */
const MAX_TEXT = 64 * 1024;

const text = (value: unknown): string =>
  typeof value === "string" ? value.slice(0, MAX_TEXT) : typeof value === "number" ? String(value) : "";

function writeDetail(detail: unknown): string {
  try {
    return text(JSON.stringify(detail));
  } catch {
    // Nested deeper than the stack: nobody could read it either.
    return "";
  }
}

/** Wrappings around an error that are opened: a vendor in trouble must not take our stack along. */
const MAX_WRAPPINGS = 8;

/** One fault of a list as FastAPI tells it: what is wrong, and where. What was sent stands beside it, and is left out. */
const writeFault = (fault: unknown): string => {
  if (!isObject(fault) || typeof fault["msg"] !== "string") return writeDetail(fault);
  const { loc, msg } = fault;
  return text(Array.isArray(loc) ? `${loc.join(".")}: ${msg}` : msg);
};

/** Faults of a list that are told. */
const MAX_FAULTS = 5;

function writeFaults(detail: unknown): string {
  if (typeof detail === "string") return text(detail);
  if (Array.isArray(detail)) return detail.slice(0, MAX_FAULTS).map(writeFault).join("; ");
  return detail ? writeDetail(detail) : "";
}

/** One fault of a list as Zod tells it. */
const writeIssue = (issue: unknown): string => {
  if (!isObject(issue)) return "";
  const path = text(listOf(issue["path"]).join("."));
  return path === "" ? text(issue["message"]) : `${path}: ${text(issue["message"])}`;
};

/** What is wrong of a request, where the sentence itself says only that something is (Venice). */
const writeIssues = (issues: unknown): string => listOf(issues).slice(0, MAX_FAULTS).map(writeIssue).join("; ");

/** A sentence, or a list of them (NestJS). */
const writeSentences = (message: unknown): string =>
  Array.isArray(message) ? message.slice(0, MAX_FAULTS).map(text).join("; ") : text(message);

/** What Fastify (its `error-handler.js`), NestJS and Spring say of a status beside the sentence that tells what is wrong. */
const STATUS_WORDS: ReadonlySet<unknown> = new Set(Object.values(STATUS_CODES));

/** An error told as a text, which may be no more than its name, or its status's: then what is wrong stands beside it. */
function besideStatus(error: string, value: Record<string, unknown>): RawError {
  const sentence = writeSentences(value["message"]);
  const isName = sentence !== "" && /^\w+$/.test(error);
  const saysAll = sentence !== "" && (isName || error === sentence || STATUS_WORDS.has(error));
  const parts = [saysAll ? "" : error, sentence, writeIssues(value["issues"])];
  return {
    message: parts.filter((words) => words !== "").join(": "),
    type: text(value["type"]) || (isName ? error : ""),
    code: text(value["code"]),
  };
}

/** What is no name of a field: MiMo says "Param Incorrect", and why in the place where others name the field (XiaomiMiMo/MiMo #44). */
const SENTENCE = /^\S+ \S+ \S/;

/** Zod's sentences, which name no place. */
const PLACELESS = /^(?:Invalid (?:input|option|enum value|discriminator value)\b|Expected \w+, received\b|Required$)/;

/** A sentence of Zod's with the place that stands beside it (Vercel's gateway: cline/cline #8295), or with all that is wrong (vercel/ai #8815). */
function withPlace(words: string, place: unknown): string {
  if (!PLACELESS.test(words)) return words;
  const [before, behind] = Array.isArray(place) ? ["", writeIssues(place)] : [text(place), ""];
  return [before, words, behind].filter((part) => part !== "").join(": ");
}

/**
 * The sentence of an error object, by whatever name: Mistral has an object in its place, Cloudflare a list of errors, Amazon a capital letter,
 * DeepInfra a longer name, IONOS a list of messages, MiniMax words beside a status; Foundry says what is wrong in a list beside a sentence that says
 * only that something is.
 */
function wordsIn(value: Record<string, unknown>, wrappings: number): string {
  const { message, detail, details, errors, base_resp: response } = value;
  if (isObject(message)) return readRawError(message, wrappings - 1).message;
  const faults = objectsOf(details).filter(({ msg }) => typeof msg === "string");
  return (
    (faults.length > 0 && `${text(message)}: ${writeFaults(faults)}`) ||
    text(message) ||
    writeFaults(detail) ||
    text(value["msg"]) ||
    text(value["Message"]) ||
    text(value["error_message"]) ||
    readRawError(errors, wrappings - 1).message ||
    readRawError(value["messages"], wrappings - 1).message ||
    (isObject(response) ? text(response["status_msg"]) : "")
  );
}

/** Whether what a vendor sent inside a 200 is an error, in any of OpenAI's servers' shapes (dialects.md 1.5): an object, a text, or its fields flat. */
export const isErrorBody = (value: Record<string, unknown>): boolean =>
  Boolean(value["error"]) || value["object"] === "error" || value["type"] === "error";

/**
 * MiniMax's numbers, which stand inside a 200 of its own, as the HTTP status that each means (platform.minimax.io, "Error Codes"); any other is a fault of
 * its server's. Without it a limit of one minute, or one user's refused prompt, would be a broken vendor to everybody.
 */
const MINIMAX_STATUS: Readonly<Record<string, number>> = {
  ...{ 1002: 429, 1039: 429, 1041: 429, 2045: 429, 2056: 429 },
  ...{ 1004: 401, 2049: 401, 1008: 402 },
  ...{ 1026: 400, 1027: 400, 1042: 400, 2013: 400 },
};

const codeIn = ({ code, base_resp: response }: Record<string, unknown>): string =>
  text(code) ||
  (isObject(response) ? text(MINIMAX_STATUS[text(response["status_code"])] ?? response["status_code"]) : "");

/** Finds message, type, code and param in an error value: an object, a string, a FastAPI `detail`, or an array around one. */
export function readRawError(value: unknown, wrappings = MAX_WRAPPINGS): RawError {
  if (Array.isArray(value) && wrappings > 0) return readRawError(value[0], wrappings - 1);
  if (typeof value === "string") return readRelayed({ message: text(value), type: "", code: "" }, wrappings);
  if (!isObject(value) || wrappings === 0) return { message: "", type: "", code: "" };
  // Cloudflare's gateway has a list there.
  const [inner] = [value["error"]].flat();
  if (isObject(inner)) {
    const found = readRawError(inner, wrappings - 1);
    return { ...found, type: found.type || (value["type"] === "error" ? "" : text(value["type"])) };
  }
  if (typeof inner === "string") {
    return readRelayed(besideStatus(text(inner), value), wrappings);
  }
  // What FastAPI wraps a server's own error in (DeepInfra's): nobody has relayed that.
  const { detail } = value;
  if (isObject(detail) && text(value["message"]) === "") {
    const own = readRawError(detail, wrappings - 1);
    if (own.message !== "") return own;
  }
  // Beside words that say no more than that a model's server refused GMI's edge has it as JSON (vercel/ai, `gmicloud-error.ts`), and Lemonade as it came
  // (lemonade-sdk/lemonade, `cloud_server.cpp`; its older ones of every engine).
  const { details: beside } = value;
  const record = isObject(beside) ? beside["response"] : readRecord(text(beside));
  const behind = readBehind(value["value"], wrappings) ?? readBehind(record, wrappings);
  if (behind) return behind;
  const words = withPlace(wordsIn(value, wrappings), value["param"]);
  const place = text(value["param"]);
  const isReason = SENTENCE.test(place);
  const message = isReason ? `${words}: ${place}` : words;
  const param = isReason ? "" : place;
  const details = detailsOf(value);
  const figures = figuresOf(value);
  const retryAfterSeconds = retryDelay(value);
  const found: RawError = {
    message: innerMessage(value["metadata"], wrappings) || message,
    type:
      text(value["type"]) ||
      text(value["error_type"]) ||
      text(value["reason"]) ||
      text(value["status"]) ||
      limitIn(value["metadata"]),
    code: codeIn(value),
    ...(param && { param }),
    ...(details && { details }),
    ...(figures && { figures }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  };
  return readRelayed(found, wrappings);
}

/** What Vercel's gateway could not read of a vendor's stream, where that is an error (vercel/ai #18303): its own words say only that something was wrong. */
function readBehind(record: unknown, wrappings: number): RawError | undefined {
  const found = isObject(record) ? readRawError(record, wrappings - 1) : undefined;
  return found && found.message !== "" ? { ...found, isRelayed: true } : undefined;
}

/** How Z.ai tells an error in the messages dialect: its number, what is wrong, and the request's id, each in brackets. */
const BRACKETED = /^\[(\d{3,5})\]\[(.+?)\](?:\[[\w-]*\])?$/s;

function withoutBrackets(error: RawError): RawError {
  const [, code = "", message] = BRACKETED.exec(error.message) ?? [];
  return message === undefined ? error : { ...error, message, code: error.code || code };
}

/** An error as the vendor behind a gateway told it, where that gateway's words are no more than a wrapping of its. */
function readRelayed(given: RawError, wrappings: number): RawError {
  const error = withoutBrackets(given);
  const relayed = wrappings > 0 ? relayedError(error.message) : undefined;
  if (relayed === undefined) return error;
  const { message, type, code, ...more } = readRawError(relayed, wrappings - 1);
  if (message === "") return { ...error, isRelayed: true };
  return { ...error, ...more, message, type: type || error.type, code: code || error.code, isRelayed: true };
}

/** A place in a request as Anthropic writes it, and the most of them that are told. */
const PLACE = /^messages(?:\.\w{1,64}){1,16}$/;
const MOST_PLACES = 200;

const isPlaces = (value: unknown): boolean =>
  Array.isArray(value) && value.every((place) => typeof place === "string" && PLACE.test(place));

/** An error's details where they hold a word, which no sentence is: that, and what stands beside it that can tell nothing of the gateway's account. */
function detailsOf({ details }: Record<string, unknown>): Record<string, unknown> | undefined {
  const word = isObject(details) ? text(details["error_code"]) : "";
  if (!isObject(details) || !/^[a-z][a-z\d_]{0,63}$/.test(word)) return undefined;
  const { max_side_length_pixels: pixels, paths } = details;
  return {
    error_code: word,
    // ImageDimensionsTooLargeErrorDetails of @anthropic-ai/sdk 1.12.
    ...(Number.isSafeInteger(pixels) && { max_side_length_pixels: pixels }),
    ...(isPlaces(paths) && { paths: listOf(paths).slice(0, MOST_PLACES) }),
  };
}

/** Google's `RetryInfo.retryDelay`, a text such as "34.4s", in whatever dialect it is asked: no header says it. */
function retryDelay({ details }: Record<string, unknown>): number | undefined {
  for (const { retryDelay: delay } of objectsOf(details)) {
    const seconds = typeof delay === "string" ? /^(\d{1,9}(?:\.\d{1,9})?)s$/.exec(delay)?.[1] : undefined;
    if (seconds !== undefined) return Math.ceil(Number(seconds));
  }
  return undefined;
}

/** An aggregator's own words say only that a vendor failed; what that vendor said stands in `metadata.raw`, often as JSON (OpenRouter). */
function innerMessage(metadata: unknown, wrappings: number): string {
  const raw = isObject(metadata) ? metadata["raw"] : undefined;
  if (typeof raw !== "string") return "";
  try {
    return readRawError(JSON.parse(raw), wrappings - 1).message;
  } catch {
    return raw.trimStart().startsWith("<") ? "" : text(raw);
  }
}

/** Which of an account's limits a request ran against, and why, in OpenRouter's words for programs (openrouter.ai, "Limits"). */
function limitIn(metadata: unknown): string {
  if (!isObject(metadata)) return "";
  const words = [text(metadata["limit_source"]), text(metadata["reason"])];
  return words.filter((word) => word !== "").join(" ");
}

/** What llama.cpp tells as numbers instead of words. */
function figuresOf({ n_prompt_tokens: asked, n_ctx: maximum }: Record<string, unknown>): OverflowFigures | undefined {
  const isCount = (value: unknown): value is number =>
    typeof value === "number" && Number.isSafeInteger(value) && value > 0;
  return isCount(asked) && isCount(maximum) && asked > maximum ? { asked, maximum } : undefined;
}
