import { statSync } from "node:fs";
import { isObject } from "../lib/json.ts";
import { isLoopback } from "../lib/loopback.ts";
import { toShellWord } from "../lib/shell-word.ts";
import { readCertificate } from "./pem.ts";
import { isWildcard, type ServerSettings } from "./server.ts";

/** Warnings for a server that listens beyond this machine (reliability 7.3). */
export function listeningWarnings({ host, publicUrl }: Pick<ServerSettings, "host" | "publicUrl">): string[] {
  if (isLoopback(host)) return [];
  const warnings: string[] = [];
  if (!publicUrl?.startsWith("https:")) {
    warnings.push(
      `Listening on ${host} without TLS: keys and prompts cross the network readable. Put a TLS proxy in front.`,
    );
  }
  if (isWildcard(host) && publicUrl === undefined) {
    warnings.push(
      `Listening on ${host}, but only requests to localhost are answered: set --public-url to clients' address.`,
    );
  }
  return warnings;
}

/** A warning when the file of the operator's own certificate authority cannot be read or holds no certificate: the runtime then goes on without it. */
export function authorityWarnings(path: string | undefined): string[] {
  if (!path || readCertificate.from(path) !== undefined) return [];
  return [`NODE_EXTRA_CA_CERTS is left aside: expected ${readCertificate.what}, found "${path}".`];
}

const isPlainKey = (value: unknown) => typeof value === "string" && !/\$\{|^file:/.test(value);

/** Names of headers, and of parameters in an address, whose values are secrets as far as names tell. */
const SECRET_NAME = /auth|key|token|secret|cookie/i;

const holdsPlainHeader = (row: Record<string, unknown>) =>
  isObject(row["headers"]) &&
  Object.entries(row["headers"]).some(([name, value]) => SECRET_NAME.test(name) && isPlainKey(value));

const holdsPlainParameter = ({ query }: Record<string, unknown>) =>
  typeof query === "string" &&
  query.split("&").some((one) => isPlainKey(one) && SECRET_NAME.test(one.slice(0, Math.max(0, one.indexOf("=")))));

const holdsPlainKey = (row: unknown) =>
  isObject(row) &&
  (isPlainKey(row["api_key"]) ||
    holdsPlainHeader(row) ||
    holdsPlainParameter(row) ||
    isPlainKey(row["secret_access_key"]) ||
    (Array.isArray(row["api_keys"]) && row["api_keys"].some(isPlainKey)));

/** A warning when a file that holds a key itself can be read by other users. `raw` is the document before `${NAME}` was filled in. */
export function exposureWarnings(path: string, raw: Record<string, unknown>, platform: NodeJS.Platform): string[] {
  const vendors = Array.isArray(raw["vendors"]) ? raw["vendors"] : [];
  const web = isObject(raw["web"]) && isObject(raw["web"]["search"]) ? raw["web"]["search"]["engines"] : undefined;
  const storage = isObject(raw["images"]) ? raw["images"]["storage"] : undefined;
  const rows = [...vendors, ...Object.values(isObject(web) ? web : {}), storage, raw["telemetry"]];
  if (platform === "win32" || !rows.some(holdsPlainKey) || (statSync(path).mode & 0o077) === 0) return [];
  return [`${path} holds a key and can be read by other users: chmod 600 ${toShellWord(path)}`];
}
