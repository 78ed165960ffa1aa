import { GatewayError } from "../../canon/errors.ts";
import { localCandidates } from "../../config/discover.ts";
import type { Config } from "../../config/load.ts";
import { vendorSaid } from "../../dialects/refusals/vendor-said.ts";
import { stringOf } from "../../lib/json.ts";
import { messageOf } from "../../lib/message-of.ts";
import { userAgentOf } from "../../lib/user-agent.ts";
import { isKeysFault } from "../../vendors/health.ts";
import { keysOf } from "../../vendors/keys.ts";
import { listModels } from "../../vendors/models-list.ts";
import { probeLocal } from "../../vendors/probe-local.ts";
import { registry } from "../../vendors/registry.ts";
import type { Vendor } from "../../vendors/vendor.ts";
import { readVendors } from "../context.ts";
import { type Finding, fault, note, ok } from "../findings.ts";
import { Failure } from "../output.ts";
import { VERSION } from "../version.ts";

/** How long a vendor, or a search engine, may take to answer, ms. */
export const ANSWER_MS = 5_000;

type Unreached = { codes: RegExp; meaning: string; advice: string; ofServer?: true };

/** Codes of a connection that did not come about, what they mean, and what to do. First match wins. `ofServer`: of its certificate, also behind a proxy. */
const UNREACHED: readonly Unreached[] = [
  {
    codes: /ENOTFOUND|EAI_|DNS/,
    meaning: "its name is not known",
    advice: "check the host in base_url, and this machine's name server",
  },
  {
    codes: /ECONNREFUSED|ConnectionRefused/,
    meaning: "nothing listens there",
    advice: "start it, or check the host and the port in base_url",
  },
  {
    // To a machine whose clock is wrong all certificates are over, or still to come.
    codes: /CERT_(?:HAS_EXPIRED|NOT_YET_VALID)/,
    meaning: "its certificate is not for this machine's time",
    advice: "set this machine's clock if it is wrong; else the server's certificate has to be renewed",
    ofServer: true,
  },
  {
    codes: /CERT|TLS|SSL|EPROTO|HOSTNAME|UNABLE_TO|INVALID_CA/,
    meaning: "no TLS connection came about",
    advice:
      "check http or https in base_url, and the server's certificate (of an authority of your own: NODE_EXTRA_CA_CERTS)",
    ofServer: true,
  },
];

const PROXY_ADVICE =
  "check HTTPS_PROXY and HTTP_PROXY, and the name and password that the proxy wants; NO_PROXY names who is called without it";

/**
 * A vendor that is not reached since its proxy is not, or lets nobody through, told without the name and password that the proxy's address may hold.
 * Undefined where it is something else: a certificate is the vendor's, or that of who reads along, also behind a proxy.
 */
function diagnoseProxy(check: string, host: string, proxy: string, error: GatewayError): Finding | undefined {
  const { code, status } = vendorSaid(error);
  const word = stringOf(code);
  const known = UNREACHED.find(({ codes }) => codes.test(word));
  if (status !== 407 && (error.code !== "upstream_unreachable" || known?.ofServer)) return undefined;
  const why =
    word === "ERR_PROXY_TUNNEL" || status === 407 ? "it lets nobody through" : (known?.meaning ?? error.message);
  const detail = `${host} cannot be reached through the proxy ${new URL(proxy).host}: ${why}${word ? ` (${word})` : ""}`;
  return fault(check, detail, PROXY_ADVICE);
}

/** What is not reached, a vendor or a search engine: why, where the system says it. */
export function diagnoseUnreached(check: string, host: string, error: GatewayError): Finding {
  const code = stringOf(vendorSaid(error).code);
  const known = UNREACHED.find(({ codes }) => codes.test(code));
  const why = known?.meaning ?? error.message;
  const detail = `${host} cannot be reached: ${why}${code ? ` (${code})` : ""}`;
  return fault(check, detail, known?.advice ?? "check base_url, the network, and a firewall in between");
}

/** Whether the address, which no row of the registry has, lacks what nearly all servers of its dialect have at its end, or in it (contract 2). */
const lacksVersion = ({ dialect, modality, baseUrl }: Vendor) =>
  (dialect === "chat" || dialect === "responses") &&
  modality !== "image" &&
  !/\/v\d\w*(?:\/|$)/.test(baseUrl) &&
  !registry.some((row) => row.baseUrl === baseUrl);

/** What a vendor's refusal to list its models says about it. `key`: which of several keys it was asked with, in words. */
function diagnose(vendor: Vendor, error: GatewayError, key: string | undefined): Finding {
  const { id, env, baseUrl, proxy } = vendor;
  const check = `vendor ${id}`;
  const { host } = new URL(baseUrl);
  const { status } = vendorSaid(error);
  const atProxy = proxy === undefined ? undefined : diagnoseProxy(check, host, proxy, error);
  if (atProxy) return atProxy;
  const inFile = `${key === undefined ? "api_key" : "api_keys"} of vendor ${id} in the configuration file`;
  const checkKey = `check ${key === undefined ? (env ?? inFile) : inFile}`;
  if (error.code === "upstream_auth" && status === 403) {
    return fault(check, `${host} answers 403 to ${key ?? "the key"}`, `${checkKey}, what it may do, and base_url`);
  }
  if (error.code === "upstream_auth") return fault(check, `${host} refuses ${key ?? "the key"}`, checkKey);
  if (error.code === "vendor_not_configured") return fault(check, `${host}: ${error.message}`, checkKey);
  if (isKeysFault(error)) {
    const detail = `${host}: the account behind ${key ?? "the key"} has no credit left`;
    return fault(check, detail, "pay in there, or use another account's key");
  }
  if (status === 404 || status === 405) {
    const advice = lacksVersion(vendor)
      ? `check base_url: most servers want /v1 at its end, and ${baseUrl} has none`
      : undefined;
    return note(check, `${host} answers, but has no model list: its key is not proven`, advice);
  }
  if (error.code === "upstream_unreachable") return diagnoseUnreached(check, host, error);
  const busy = status === 429 || (typeof status === "number" && status >= 500);
  const advice = busy ? "try again later, and see what the vendor says of its state" : `check base_url: ${baseUrl}`;
  return fault(check, `${host}: ${error.message}`, advice);
}

async function examineKey(vendor: Vendor, key: string | undefined): Promise<Finding> {
  try {
    const options = { userAgent: userAgentOf(VERSION), timeoutMs: ANSWER_MS };
    const models = await listModels(vendor, new AbortController().signal, options);
    return ok(`vendor ${vendor.id}`, `${new URL(vendor.baseUrl).host} answers; its models: ${models.length}`);
  } catch (error) {
    if (error instanceof GatewayError) return diagnose(vendor, error, key);
    return fault(`vendor ${vendor.id}`, messageOf(error));
  }
}

/** Each of a vendor's keys: a dead one among good ones is found out by every conversation that would have it. */
async function examineVendor(vendor: Vendor): Promise<Finding[]> {
  const each = keysOf(vendor);
  const nameOf = (at: number) => (each.length > 1 ? `key ${at + 1} of ${each.length}` : undefined);
  const found = await Promise.all(each.map((keyed, at) => examineKey(keyed, nameOf(at))));
  // What is not a single key's doing is told alike by all of them.
  return found.filter(({ detail }, at) => found.findIndex((other) => other.detail === detail) === at);
}

/**
 * Asks every vendor that is on for its models, all at the same time: is it there, and does it take its keys. `running`: a server runs on the
 * data folder, which may have been started with other variables.
 */
export async function examineVendors(config: Config, running: boolean): Promise<Finding[]> {
  try {
    return await examineFound(config, readVendors(config), running);
  } catch (thrown) {
    // Without the proxy that is meant, nobody is asked.
    if (!(thrown instanceof Failure)) throw thrown;
    return [fault("vendors", thrown.message, "name an http or https proxy there, or unset SLUICE_USE_ENV_PROXY")];
  }
}

const SET_A_KEY = "set a key, such as OPENAI_API_KEY, or list vendors in the configuration file";
const OTHER_VARIABLES = note(
  "vendors",
  "this is what this command's variables switch on; the server that runs here may have others",
  "give this command the server's variables too (a service has them from its EnvironmentFile)",
);

async function examineFound(
  { localDiscovery }: Config,
  { vendors, warnings }: ReturnType<typeof readVendors>,
  running: boolean,
): Promise<Finding[]> {
  const servers = localDiscovery ? await probeLocal(localCandidates(registry, vendors)) : [];
  const asked = (await Promise.all(vendors.map(examineVendor))).flat();
  const found = servers.map(({ vendor, models }) =>
    ok(`vendor ${vendor.id}`, `found at ${new URL(vendor.baseUrl).host}; its models: ${models.length}`),
  );
  const findings = [...warnings.map((sentence) => fault("vendors", sentence)), ...asked, ...found];
  if (findings.length === 0) findings.push(note("vendors", "only the built-in one is on", SET_A_KEY));
  // A service has its keys from a file of its own, which a shell beside it has not read.
  if (running && (warnings.length > 0 || vendors.length === 0)) findings.push(OTHER_VARIABLES);
  return findings;
}
