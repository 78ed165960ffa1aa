import { toShellWord } from "../lib/shell-word.ts";
import type { Vendor } from "../vendors/vendor.ts";

/** A model server found on this machine. */
export type FoundServer = { vendor: Vendor; models: readonly unknown[] };

export type Start = {
  version: string;
  /** The address that the server listens on, and the one for requests from this machine; without a slash at the end. */
  url: string;
  askUrl: string;
  /** The key, at the first start only. */
  key: string | undefined;
  vendors: readonly Vendor[];
  servers: readonly FoundServer[];
  /** The configuration file; where there is none, the one that would be read. */
  configFile: string;
  /** The data folder, where `--data` names it: a command without that would use another one. */
  dataFlag: string | undefined;
  /** Whether the program is an executable. Run from its source, by npm, there is no command `sluice`. */
  isExecutable: boolean;
  platform: NodeJS.Platform;
};

/** Most vendors that the line names; of the others it says only how many there are. */
const NAMED_VENDORS = 12;

function describeVendors(vendors: readonly Vendor[]): string[] {
  const named = vendors.slice(0, NAMED_VENDORS).map(({ name, env }) => (env ? `${name} (${env})` : name));
  const more = vendors.length - named.length;
  return more > 0 ? [...named, `${more} more`] : named;
}

function describeServer({ vendor, models }: FoundServer): string {
  const count = models.length === 1 ? "1 model" : `${models.length} models`;
  return `${vendor.name} at ${new URL(vendor.baseUrl).host} (${count})`;
}

function describeFound({ vendors, servers, configFile }: Start): string {
  const found = [...describeVendors(vendors), ...servers.map(describeServer)];
  if (found.length > 0) return found.join(", ");
  return `no vendor keys and no local model servers. Set a key, such as OPENAI_API_KEY, and start again; or list vendors in ${configFile}`;
}

/**
 * A curl that streams from the built-in echo model and succeeds as it stands, for the platform's own shell (on Windows both of them); at later starts the key is
 * no longer known, so it stands there as a variable.
 */
function makeCurl({ askUrl, key, platform }: Start): string {
  const body = '{"model":"sluice/echo","stream":true,"messages":[{"role":"user","content":"Hello from Sluice"}]}';
  const path = `${askUrl}/v1/chat/completions`;
  if (platform === "win32") {
    const escaped = body.replaceAll('"', '\\"');
    const bearer = key ?? "%SLUICE_API_KEY%";
    // PowerShell passes what follows `--%` on unchanged, as cmd does, and takes that word away: `-A`, the agent's name, then gets the second `-N`. In cmd it
    // gets `--%`, and the second `-N` only says again what the first one does.
    return `curl.exe -N -A --% -N ${path} -H "Authorization: Bearer ${bearer}" -H "Content-Type: application/json" -d "${escaped}"`;
  }
  const header = key === undefined ? '"Authorization: Bearer $SLUICE_API_KEY"' : `'Authorization: Bearer ${key}'`;
  return `curl -N ${toShellWord(path)} -H ${header} -H 'Content-Type: application/json' -d '${body}'`;
}

/** The command that makes another key of this server's, for the platform's own shell. */
function describeKeysCommand({ dataFlag, isExecutable, platform }: Start): string {
  const command = `${isExecutable ? "sluice" : "npm start --"} keys create`;
  if (dataFlag === undefined) return command;
  if (platform !== "win32") return `${command} --data ${toShellWord(dataFlag)}`;
  return `${command} --data ${/^[\w./:\\-]+$/.test(dataFlag) ? dataFlag : `"${dataFlag}"`}`;
}

/** The four lines that a start prints (contract 1): address, key, what was found, and a request to try. */
export function formatFirstLines(start: Start): string[] {
  const { version, url, key } = start;
  return [
    `Sluice ${version} listening on ${url}`,
    key === undefined
      ? `API key: shown once, when it was made; \`${describeKeysCommand(start)}\` makes another`
      : `API key (shown once): ${key}`,
    `Found: ${describeFound(start)}`,
    `Try: ${makeCurl(start)}`,
  ];
}
