import type { Config } from "../config/load.ts";
import { percentDecode } from "../lib/percent-decode.ts";
import { PLAIN_PARAMETER } from "../vendors/outgoing.ts";
import type { Vendor } from "../vendors/vendor.ts";

/** Fewest characters of a secret in a vendor's headers or query: shorter values are versions and names. */
const LEAST_VALUE = 12;

/** A user name and password in base64, as `Authorization: Basic …` has them; without the padding, which depends on what follows. */
const asBasic = (login: string) => Buffer.from(login).toString("base64").replace(/=+$/, "");

function* secretsOfProxy(address: string | undefined): Generator<string> {
  const { username = "", password = "" } = (address === undefined ? null : URL.parse(address)) ?? {};
  if (password === "") return;
  yield password;
  yield percentDecode(password);
  yield asBasic(`${percentDecode(username)}:${percentDecode(password)}`);
}

/** A header's value, and by itself the key in it that stands behind a word, as in `Bearer …`, `Key …` and `Token …`: whoever refuses it may name the key alone. */
function* secretsOfHeader(value: string): Generator<string> {
  const key = /^[\w-]+\s+(\S+)$/.exec(value)?.[1] ?? "";
  for (const secret of [value, key]) if (secret.length >= LEAST_VALUE) yield secret;
}

/** Some vendors take a key in the address: as it stands there, and as it reads. */
function* secretsOfQuery(query = ""): Generator<string> {
  for (const parameter of query.split("&")) {
    const at = parameter.indexOf("=");
    const value = parameter.slice(at + 1);
    if (at < 0 || value.length < LEAST_VALUE || PLAIN_PARAMETER.test(parameter)) continue;
    yield value;
    yield percentDecode(value);
  }
}

function* secretsOfVendor({ apiKey, apiKeys, auth, headers, query, credentials, proxy }: Vendor): Generator<string> {
  for (const key of apiKeys ?? [apiKey]) {
    if (!key) continue;
    yield key;
    // `user:password`: the password is a secret by itself.
    if (auth !== "basic") continue;
    yield key.slice(key.indexOf(":") + 1);
    yield asBasic(key);
  }
  for (const value of Object.values(headers ?? {})) yield* secretsOfHeader(value);
  yield* secretsOfQuery(query);
  for (const value of Object.values(credentials ?? {})) if (value) yield value;
  yield* secretsOfProxy(proxy);
}

/** Every secret in a gateway's configuration and environment: none may stand in a log or in what is shown of an upstream's words (reliability 7.4). */
export function secretsOf({ search, traces, images }: Config, vendors: readonly Vendor[]): string[] {
  const ofTraces = [...Object.values(traces?.headers ?? {}), traces?.tls?.key];
  const others = [...search.map(({ apiKey }) => apiKey), ...ofTraces];
  const all = [...vendors.flatMap((vendor) => [...secretsOfVendor(vendor)]), ...others, images.bucket?.secretAccessKey];
  return [...new Set(all.filter((secret) => secret !== undefined && secret !== ""))] as string[];
}
