import { isObject } from "../../lib/json.ts";
import {
  ATTEMPTS_HEADER,
  COST_HEADER,
  COUNTED_BY_HEADER,
  DROPPED_HEADER,
  REPLAYED_HEADER,
  SHOULD_RETRY_HEADER,
  STOP_HEADER,
  STRICT_HEADER,
} from "../../wire/header-names.ts";
import { COUNT_PATHS } from "../generation/count-tokens.ts";
import { GENERATION_PATHS } from "../generation/generation.ts";
import { IMAGES_PATH } from "../images/poll.ts";
import { RATE_HEADERS } from "../rate-headers.ts";

type Described = { description: string; schema: { type: "string" | "integer" } };

const text = (description: string): Described => ({ description, schema: { type: "string" } });
const count = (description: string): Described => ({ description, schema: { type: "integer" } });

function describeRate(name: string): Described {
  if (/-limit(?:-|$)/.test(name)) return count("The limit of the account's plan.");
  if (name.includes("-remaining")) return count("What is left of the limit.");
  return text(
    "When all of it is there again: in so long (`1.5s`, `6m0s`), in the messages dialect at that time (RFC 3339).",
  );
}

/** What an answer may say beside the headers of HTTP itself (contract 6). */
const HEADERS: Readonly<Record<string, Described>> = {
  "x-request-id": text("The request's id, which its receipt and the logs have too. `request-id` is the same."),
  "request-id": text("The same as `x-request-id`."),
  "retry-after": count("Seconds after which it is worth asking again, 60 at the most."),
  "retry-after-ms": count("The same in milliseconds."),
  [SHOULD_RETRY_HEADER]: text("`true` or `false`: whether the same request may succeed later."),
  "www-authenticate": text("The form in which a key is wanted: `Bearer`."),
  [REPLAYED_HEADER]: text("`true`: this is the stored answer of an earlier request with the same Idempotency-Key."),
  "preference-applied": text("`wait=N`: how many seconds the server waited for the job."),
  [DROPPED_HEADER]: text("Fields that the model's vendor could not be told, separated by commas."),
  [ATTEMPTS_HEADER]: count("How many calls to vendors it took, where it was more than one."),
  [COST_HEADER]: text("What it cost, a failure too, USD with nine decimals; of a stream only its receipt says so."),
  [STOP_HEADER]: text("`balance`: the reply was ended because the money for it was used up."),
  [COUNTED_BY_HEADER]: text("`vendor` or `local`: who has counted."),
  ...Object.fromEntries([...RATE_HEADERS.chat, ...RATE_HEADERS.messages].map((name) => [name, describeRate(name)])),
};

/** Generation; in it replies name what was lost, tried and paid. */
const GENERATION = new Set(Object.values(GENERATION_PATHS));
/** Counts of tokens; in it replies name who has counted. */
const COUNTS = new Set(Object.values(COUNT_PATHS));
/** Paths whose callers have a limit of requests on their plan, beside those of generation and of image jobs. */
const LIMITED = new Set([...COUNTS, "/v1/web/search", "/v1/web/fetch"]);
/** Statuses that may be told with a wait. */
const WAITS = new Set([409, 429, 503, 529]);

const isLimited = (path: string) => GENERATION.has(path) || LIMITED.has(path) || path.startsWith(IMAGES_PATH);

/** The catalog answers in either dialect, as its asker has it (interface 4.4). */
function rateHeadersOf(path: string): readonly string[] {
  if (path.startsWith("/v1/models")) return [...RATE_HEADERS.chat, ...RATE_HEADERS.messages];
  return RATE_HEADERS[path.startsWith("/v1/messages") ? "messages" : "chat"];
}

function namesOf(path: string, method: string, operation: Record<string, unknown>, status: number): string[] {
  const names = ["x-request-id", "request-id"];
  const fine = status < 300;
  if (status === 401) names.push("www-authenticate");
  if (status >= 400) names.push(SHOULD_RETRY_HEADER);
  if (WAITS.has(status)) names.push("retry-after", "retry-after-ms");
  if (fine && path.startsWith(IMAGES_PATH) && (method === "post" || path !== IMAGES_PATH)) names.push("retry-after");
  if (fine && takes(operation, "Idempotency-Key")) names.push(REPLAYED_HEADER);
  if (fine && takes(operation, "Prefer")) names.push("preference-applied");
  if (GENERATION.has(path)) names.push(ATTEMPTS_HEADER, COST_HEADER);
  if (fine && takes(operation, STRICT_HEADER)) names.push(DROPPED_HEADER);
  if (fine && GENERATION.has(path)) names.push(STOP_HEADER);
  if (fine && COUNTS.has(path)) names.push(COUNTED_BY_HEADER);
  // Who was not let in has no account whose limit could be told. Of an address that comes with too many wrong keys it is told everywhere.
  if (status === 429 || (status !== 401 && isLimited(path))) names.push(...rateHeadersOf(path));
  return names;
}

function takes({ parameters }: Record<string, unknown>, name: string): boolean {
  const list: unknown[] = Array.isArray(parameters) ? parameters : [];
  return list.some((parameter) => isObject(parameter) && parameter["name"] === name);
}

/** The names of all of these. */
export const ANSWER_HEADERS: readonly string[] = Object.keys(HEADERS);

/** The headers that the document's responses refer to: `components.headers`. */
export const sharedHeaders = (): Record<string, Described> => ({ ...HEADERS });

/**
 * The headers a response may carry, as entries of its `headers`, beside those of HTTP itself (contract 6). `method` in small letters; of an
 * operation only its parameters are read.
 */
export function headersOf(path: string, method: string, operation: Record<string, unknown>, status: number) {
  const names = namesOf(path, method, operation, status);
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
