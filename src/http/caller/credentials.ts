import type { Caller } from "../../accounts/caller.ts";
import type { Doorman } from "../../accounts/keys.ts";
import { requireEndpoint } from "../../accounts/scopes.ts";
import { GatewayError } from "../../canon/errors.ts";
import type { KeyKind } from "../../db/schema.ts";
import type { AskedHead } from "../asked.ts";
import { pathOf } from "../request.ts";

/** Where keys are known. `find` judges form, checksum, existence and revocation of what was presented, and tells only yes or no. */
export type KeyFinder = {
  find(presented: string, kind?: KeyKind): Caller | undefined;
  doorman?: Doorman | undefined;
};

/** What may be a key at all: anything else never reaches the key store (reliability 7.1, 7.2). Longest key of contract 4: 54 characters. */
const KEY_SHAPE = /^[A-Za-z0-9_.-]{8,128}$/;
/** How narrow tokens begin (contract 4). */
const TOKEN_PREFIX = "slt-";

const MISSING =
  "No API key was given. Send one as the header 'Authorization: Bearer <key>' or 'x-api-key: <key>'; keys in the query string are not read.";
/** Its first words are those of the chat dialect's own vendor: LiteLLM takes a 401 without them for a fault of the request. */
const REFUSED =
  "Incorrect API key provided. Send exactly one valid key as the header 'Authorization: Bearer <key>' or 'x-api-key: <key>'. Create keys with 'sluice keys create'; an admin key is for /admin/v1 alone.";
const NOT_ADMIN = "This endpoint takes an admin key only. Create one with 'sluice keys create --admin'.";
const TOKEN_REFUSED = "The token in the path was not accepted. Create one with 'sluice tokens create'.";

/** The key of an `Authorization` header: null when none was sent, or an empty one, "" when the header is of another form. */
function readBearer(header: string | null): string | null {
  if (!header) return null;
  // As nearly everybody writes it.
  if (header.startsWith("Bearer ") && !/\s/.test(header.slice(7)) && header.length > 7) return header.slice(7);
  if (/^bearer *$/i.test(header)) return null;
  return /^bearer +(\S+)$/i.exec(header)?.[1] ?? "";
}

/** What the headers present as a key; undefined for nothing, "" when it can be none: two different keys, odd characters. */
function readPresented(request: AskedHead): string | undefined {
  const bearer = readBearer(request.headers.get("authorization"));
  // Clients switch one form off by setting its key to the empty string, and send the header all the same.
  const apiKey = request.headers.get("x-api-key") || null;
  // Two headers of one name arrive joined by a comma, which no key contains: they fail the shape.
  const presented = bearer ?? apiKey;
  if (presented === null) return undefined;
  const differ = bearer !== null && apiKey !== null && bearer !== apiKey;
  return !differ && KEY_SHAPE.test(presented) ? presented : "";
}

/**
 * Who is calling, by either header form, on every endpoint (interface 5, contract 4): an API key, or a narrow token where its scopes
 * reach. The same key in both headers counts as one. The query string is never read. Throws GatewayError:
 * - `invalid_api_key`, whose text neither echoes the key nor says what was wrong with it;
 * - `rate_limit_exceeded` in its place, for an address that has presented too many wrong keys. A key in force passes all the same: nobody is locked
 *   out by the mistake of another behind the same proxy, and no guessing finds a key of 190 bits;
 * - `permission_denied` for a key that is not for this endpoint.
 */
export function authenticate(request: AskedHead, keys: KeyFinder): Caller {
  const presented = readPresented(request);
  if (presented === undefined) throw new GatewayError("invalid_api_key", MISSING);
  const caller = presented === "" ? undefined : findCaller(presented, keys);
  if (!caller) {
    keys.doorman?.refuse(request, "keys");
    throw new GatewayError("invalid_api_key", REFUSED);
  }
  if (caller.narrow) requireEndpoint(caller, request.method, pathOf(request.url));
  return caller;
}

/** Whoever shows a key on a page that needs none; undefined for nobody. A wrong key is nobody's, and is not held against anyone. */
export function findAnyone(request: AskedHead, keys: KeyFinder): Caller | undefined {
  const presented = readPresented(request);
  return presented ? findCaller(presented, keys) : undefined;
}

function findCaller(presented: string, keys: KeyFinder): Caller | undefined {
  return presented.startsWith(TOKEN_PREFIX) ? keys.find(presented, "token") : keys.find(presented);
}

/**
 * Who administers: an admin key in either header form, on `/admin/v1` alone (contract 4). Throws GatewayError as {@link authenticate};
 * `permission_denied` for a key in force that is no admin key.
 */
export function authenticateAdmin(request: AskedHead, keys: KeyFinder): Caller {
  const presented = readPresented(request);
  if (presented === undefined) throw new GatewayError("invalid_api_key", MISSING);
  const caller = presented === "" ? undefined : keys.find(presented, "admin");
  if (caller) return caller;
  keys.doorman?.refuse(request, "admin");
  if (presented !== "" && findCaller(presented, keys)) throw new GatewayError("permission_denied", NOT_ADMIN);
  throw new GatewayError("invalid_api_key", REFUSED);
}

/**
 * Who is calling by a narrow token in the path, for clients that cannot send headers (interface 5 rule 7): `token` is the path's last
 * part. A header need not say it again, and may not name another key. Throws GatewayError as {@link authenticate}. The path must not be logged.
 */
export function authenticateToken(request: AskedHead, token: string, keys: KeyFinder): Caller {
  const isAlone = (readPresented(request) ?? token) === token;
  const isToken = token.startsWith(TOKEN_PREFIX) && KEY_SHAPE.test(token);
  const caller = isAlone && isToken ? keys.find(token, "token") : undefined;
  if (!caller) {
    keys.doorman?.refuse(request, "keys");
    throw new GatewayError("invalid_api_key", TOKEN_REFUSED);
  }
  requireEndpoint(caller, request.method, pathOf(request.url));
  return caller;
}
