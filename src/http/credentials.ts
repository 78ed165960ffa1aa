import type { Caller } from "../accounts/caller.ts";
import { GatewayError } from "../canon/errors.ts";

/** Where keys are known. `find` judges form, checksum, existence and revocation of what was presented, and tells only yes or no. */
export type KeyFinder = { find(presented: string): Caller | undefined };

/** What may be a key at all: anything else never reaches the key store (reliability 7.1, 7.2). Longest key of contract 4: 53 characters. */
const KEY_SHAPE = /^[A-Za-z0-9_.-]{8,128}$/;

const MISSING =
  "No API key was given. Send one as the header 'Authorization: Bearer <key>' or 'x-api-key: <key>'; keys in the query string are not read.";
const REFUSED =
  "The API key was not accepted. Send exactly one valid key as the header 'Authorization: Bearer <key>' or 'x-api-key: <key>'. Create keys with 'sluice keys create'.";

/** The key of an `Authorization` header: null when none was sent, "" when the header is of another form. */
function readBearer(header: string | null): string | null {
  if (header === null || /^bearer *$/i.test(header)) return null;
  return /^bearer +(\S+)$/i.exec(header)?.[1] ?? "";
}

/**
 * Who is calling, by either header form, on every endpoint (interface 5, contract 4). The same key in both headers counts as one.
 * The query string is never read. Throws GatewayError `invalid_api_key`: its text neither echoes the key nor says what was wrong with it.
 */
export function authenticate(request: Request, keys: KeyFinder): Caller {
  const bearer = readBearer(request.headers.get("authorization"));
  // Clients switch one form off by setting its key to the empty string, and send the header all the same.
  const apiKey = request.headers.get("x-api-key") || null;
  // Two headers of one name arrive joined by a comma, which no key contains: they fail the shape.
  const presented = bearer ?? apiKey;
  if (presented === null) throw new GatewayError("invalid_api_key", MISSING);
  const differ = bearer !== null && apiKey !== null && bearer !== apiKey;
  const caller = !differ && KEY_SHAPE.test(presented) ? keys.find(presented) : undefined;
  if (!caller) throw new GatewayError("invalid_api_key", REFUSED);
  return caller;
}
