// What the OpenAPI document says of these fields, and what is held to wherever they come from: the admin API or the command line.

/** The longest name of an account, key or token, characters. */
export const MAX_NAME = 100;
/** The longest id of a plan, characters. */
export const MAX_PLAN_ID = 100;

/** Largest amount of an entry or a cap, USD (reliability 3.2). */
export const MAX_USD = 1_000_000;
const MAX_NANO = BigInt(MAX_USD) * 1_000_000_000n;
/** Whether an entry or a cap may be so much, nano-USD. */
export const isAmount = (nano: bigint): boolean => nano > 0n && nano <= MAX_NANO;

/** A payment's own name, by which it is booked once: 1 to 200 printable ASCII characters. */
export const REFERENCE_PATTERN = "^[ -~]{1,200}$";
/** The longest remark on an entry, characters. */
export const MAX_DETAIL = 1_000;

/** Patterns of models that one key may have, and the longest of them, characters. */
export const MAX_PATTERNS = 100;
export const MAX_PATTERN = 200;
/**
 * The ID of a model, or a pattern of some. Every ID has a slash: what has neither slash nor star, such as a vendor's name alone, would fit none.
 */
export const MODEL_PATTERN = "^[!-~]*[/*][!-~]*$";

/** Largest cap in requests of a day. */
export const MAX_CAP_REQUESTS = 1_000_000_000;

/** The longest life of a narrow token, days (contract 4). */
export const MAX_TOKEN_DAYS = 90;

/** The longest prompt of an image, characters (reliability 7.5). */
export const MAX_PROMPT = 32_000;

// Of the web tools, whoever runs them: the endpoints, the MCP server or a model's call (web-and-mcp.md A3).

/** The longest query, characters. */
export const MAX_QUERY = 400;
/** Hosts of one search's filter. */
export const MAX_DOMAINS = 20;
/** Pages of one call. */
export const MAX_URLS = 10;
/** Tokens of one page: the most that can be asked for, and where nothing is said. */
export const MAX_CONTENT_TOKENS = 100_000;
export const DEFAULT_CONTENT_TOKENS = 10_000;
