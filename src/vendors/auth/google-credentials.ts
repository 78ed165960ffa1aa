import { importPKCS8, SignJWT } from "jose";
import { GatewayError } from "../../canon/errors.ts";
import { isObject, stringOf } from "../../lib/json.ts";

/** What a token is asked for: what it may do, and for how many seconds, which is the longest that is given. */
const SCOPE = "https://www.googleapis.com/auth/cloud-platform";
export const LIFETIME_S = 3_600;
const MAX_FILE_BYTES = 64 * 1024;
const ASSERTION_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/** Where a user's token is got: what `gcloud auth application-default login` writes does not say it. */
const USERS_TOKEN_URI = "https://oauth2.googleapis.com/token";

/** Credentials with which tokens for calls to Google are got. */
export type Credentials = {
  /** Where its tokens are got. */
  tokenUri: string;
  /** The project that a user's calls are counted for (`x-goog-user-project`); a service account's are counted for its own. */
  quotaProject?: string;
  /** The form that is sent there, signed for the time `nowMs`, Unix ms. Rejects with GatewayError (vendor_not_configured) when the key cannot be used. */
  grant(nowMs: number): Promise<URLSearchParams>;
};

const unconfigured = (message: string, cause?: unknown) =>
  new GatewayError("vendor_not_configured", message, { cause });

/** The JSON itself: the key is that, or the path of the file that holds it. */
async function readKey(key: string): Promise<string> {
  if (key.trimStart().startsWith("{")) return key;
  try {
    const file = Bun.file(key);
    return await file.slice(0, MAX_FILE_BYTES).text();
  } catch (cause) {
    throw unconfigured("The file of the Google credentials cannot be read.", cause);
  }
}

/** Keys are sent to this address, so it must be an encrypted one, unless it is this machine's own. */
const isSafeAddress = (url: string): boolean => /^https:\/\/[^/]|^http:\/\/(?:127\.0\.0\.1|localhost)[:/]/.test(url);

type Fields = Readonly<Record<string, unknown>>;

/** A service account's credentials, which signs what it sends (RFC 7523); undefined where a field is missing. */
function serviceAccount(fields: Fields): Credentials | undefined {
  const email = stringOf(fields["client_email"]);
  const privateKey = stringOf(fields["private_key"]);
  const keyId = stringOf(fields["private_key_id"]);
  const tokenUri = stringOf(fields["token_uri"]);
  if (!email || !privateKey) return undefined;
  return {
    tokenUri,
    async grant(nowMs) {
      const now = Math.floor(nowMs / 1000);
      let key: CryptoKey;
      try {
        key = await importPKCS8(privateKey, "RS256");
      } catch {
        throw unconfigured("The service account's private key cannot be used.");
      }
      const assertion = await new SignJWT({ scope: SCOPE })
        .setProtectedHeader({ alg: "RS256", typ: "JWT", ...(keyId && { kid: keyId }) })
        .setIssuer(email)
        .setSubject(email)
        .setAudience(tokenUri)
        .setIssuedAt(now)
        .setExpirationTime(now + LIFETIME_S)
        .sign(key);
      return new URLSearchParams({ grant_type: ASSERTION_GRANT, assertion });
    },
  };
}

/** Those of a user who has logged in on this machine with `gcloud auth application-default login` (RFC 6749, 6); undefined where a field is missing. */
function user(fields: Fields): Credentials | undefined {
  const clientId = stringOf(fields["client_id"]);
  const clientSecret = stringOf(fields["client_secret"]);
  const refreshToken = stringOf(fields["refresh_token"]);
  const quotaProject = stringOf(fields["quota_project_id"]);
  if (!clientId || !clientSecret || !refreshToken) return undefined;
  const form = { client_id: clientId, client_secret: clientSecret, refresh_token: refreshToken };
  return {
    tokenUri: stringOf(fields["token_uri"]) || USERS_TOKEN_URI,
    ...(quotaProject && { quotaProject }),
    grant: () => Promise.resolve(new URLSearchParams({ grant_type: "refresh_token", ...form })),
  };
}

/** How credentials are read, by the `type` in their file. */
const KINDS: Readonly<Record<string, (fields: Fields) => Credentials | undefined>> = {
  service_account: serviceAccount,
  authorized_user: user,
};

/**
 * The credentials whose JSON, or whose file's path, is `key`: a service account's, or those of a user. Throws GatewayError (vendor_not_configured) when
 * it is no such thing; nothing of the secrets is in its message.
 */
export async function readCredentials(key: string): Promise<Credentials> {
  let value: unknown;
  try {
    value = JSON.parse(await readKey(key));
  } catch (thrown) {
    // The cause would hold a piece of the private key.
    throw thrown instanceof GatewayError ? thrown : unconfigured("The file of the Google credentials is not JSON.");
  }
  const fields = isObject(value) ? value : {};
  const type = stringOf(fields["type"]);
  const credentials = Object.hasOwn(KINDS, type) ? KINDS[type]?.(fields) : undefined;
  if (!credentials || !isSafeAddress(credentials.tokenUri)) {
    throw unconfigured(
      "The Google credentials are neither a service account's (type service_account, client_email, private_key, token_uri) nor a user's (type authorized_user, client_id, client_secret, refresh_token).",
    );
  }
  return credentials;
}
