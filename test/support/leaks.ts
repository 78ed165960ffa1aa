import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import type { Config } from "../../src/config/load.ts";
import { isObject } from "../../src/lib/json.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";

/** A secret that was found where it must not be. */
export type Leak = { secret: string; where: string; around: string };

/** Shorter values are not taken for secrets: they may be ordinary words. */
const LEAST_CHARACTERS = 8;
/** Characters shown on either side of a leak. */
const AROUND = 80;
/** What every key of a caller looks like (contract 4). Only its hash is kept, and it is shown once, to whoever made it. */
const CALLER_KEY = /(?:sk-sluice-(?:admin-)?|slt-)[0-9A-Za-z]{38}/;
/** Largest file or answer that is looked through, bytes. */
const MOST_BYTES = 64 * 1024 * 1024;

/** Forms in which a secret may be written: plain, quoted in JSON, escaped for a URL, and in base64 for each of the three offsets at which it may begin. */
function formsOf(secret: string): string[] {
  const shifted = ["", "x", "xx"].map((before) => {
    const text = Buffer.from(before + secret).toString("base64");
    // Without the first and the last characters, which hold bits of the text before and after it.
    return text.slice(before === "" ? 0 : 4, -4);
  });
  const encoded = shifted.filter((text) => text.length >= LEAST_CHARACTERS);
  const url = encoded.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"));
  const escaped = JSON.stringify(secret).slice(1, -1);
  return [...new Set([secret, escaped, encodeURIComponent(secret), ...encoded, ...url])];
}

/** Knows secrets, and finds them in what is written. The same secret at the same place is reported once. */
export class LeakNet {
  readonly leaks: Leak[] = [];
  /** How many texts were looked through, and how many characters. */
  readonly seen = { texts: 0, characters: 0 };
  readonly #told = new Set<string>();
  readonly #known = new Map<string, string>();

  /** Adds secrets, by value, with what each is called: any program that is started from now on may be given them. */
  remember(secrets: ReadonlyMap<string, string>): void {
    for (const [secret, name] of secrets) this.#known.set(secret, name);
  }

  /** Every secret that was remembered. */
  get known(): ReadonlyMap<string, string> {
    return this.#known;
  }

  /** Searches a text for `secrets` (names by value), and for callers' keys unless `keys` is false. */
  look(text: string, where: string, secrets: ReadonlyMap<string, string>, keys = true): void {
    this.seen.texts++;
    this.seen.characters += text.length;
    for (const [secret, name] of secrets) {
      for (const form of formsOf(secret)) {
        const at = text.indexOf(form);
        if (at >= 0) this.#tell(name, where, text, at);
      }
    }
    const found = keys ? CALLER_KEY.exec(text) : null;
    if (found) this.#tell("a caller's key", where, text, found.index);
  }

  /** Searches every file of a folder, but for those whose path `except` accepts. */
  lookInFolder(folder: string, secrets: ReadonlyMap<string, string>, except: (path: string) => boolean): void {
    for (const name of readdirSync(folder, { recursive: true })) {
      const path = join(folder, String(name));
      const about = statSync(path, { throwIfNoEntry: false });
      if (!about?.isFile() || about.size > MOST_BYTES || except(relative(folder, path))) continue;
      this.look(readFileSync(path, "latin1"), `file ${relative(folder, path)}`, secrets);
    }
  }

  /** Throws Error with everything found since the last call. */
  check(): void {
    const found = this.leaks.splice(0);
    if (found.length === 0) return;
    const told = found.map(({ secret, where, around }) => `${secret} in ${where}: …${around}…`);
    throw new Error(`secrets where they must not be:\n${told.join("\n")}`);
  }

  #tell(secret: string, where: string, text: string, at: number): void {
    const key = `${secret} ${where}`;
    if (this.#told.has(key)) return;
    this.#told.add(key);
    this.leaks.push({ secret, where, around: text.slice(Math.max(0, at - AROUND), at + AROUND) });
  }
}

/** The net of the whole suite: everything that a test's gateway writes is searched, and what is found fails the test (test/support/preload.ts). */
export const leakNet = new LeakNet();

function add(secrets: Map<string, string>, value: unknown, name: string): void {
  if (typeof value === "string" && value.length >= LEAST_CHARACTERS) secrets.set(value, name);
}

/** The password in a URL, such as a proxy's. */
function passwordOf(url: string | undefined): string | undefined {
  return url !== undefined && URL.canParse(url) ? decodeURIComponent(new URL(url).password) : undefined;
}

/** Everything secret that a gateway is told: of vendors, of search engines, of the bucket, of the collector of traces. */
export function secretsOf(config: Config, vendors: readonly Vendor[]): Map<string, string> {
  const secrets = new Map<string, string>();
  for (const vendor of vendors) {
    for (const key of [vendor.apiKey, ...(vendor.apiKeys ?? [])]) add(secrets, key, `the key of ${vendor.id}`);
    for (const value of Object.values(vendor.credentials ?? {})) add(secrets, value, `credentials of ${vendor.id}`);
    add(secrets, passwordOf(vendor.proxy), `the password of the proxy of ${vendor.id}`);
  }
  for (const { engine, apiKey } of config.search) add(secrets, apiKey, `the key of ${engine}`);
  add(secrets, config.images.bucket?.secretAccessKey, "the secret of the bucket");
  for (const value of Object.values(config.traces?.headers ?? {})) add(secrets, value, "a header for traces");
  return secrets;
}

/** Most prompts of one gateway that are searched for in its log, and the least length, characters, at which a text cannot stand there for another reason. */
export const MOST_PROMPTS = 100;
const LEAST_PROMPT = 24;

/** Texts of a body that are the caller's own: long ones of several words. Not `model`, since a model's name is logged, and may have several words too. */
export function promptsOf(value: unknown, found: string[] = []): string[] {
  if (found.length >= MOST_PROMPTS) return found;
  if (typeof value === "string") {
    if (value.length >= LEAST_PROMPT && /\S \S/.test(value)) found.push(value.slice(0, 200));
  } else if (Array.isArray(value)) for (const entry of value) promptsOf(entry, found);
  else if (isObject(value)) {
    for (const [name, entry] of Object.entries(value)) if (name !== "model") promptsOf(entry, found);
  }
  return found;
}

/** Whether a file may hold secrets: configuration that tests write, files of keys, and the output of a first start, which shows the key. */
export const holdsSecrets = (path: string): boolean => /\.(?:ya?ml|toml|json|key|pem)$|^out\.txt$/.test(path);

/** The variables of an environment whose values are secret, by their names. */
export function secretsOfEnvironment(environment: Readonly<Record<string, string>>): Map<string, string> {
  const secrets = new Map<string, string>();
  for (const [name, value] of Object.entries(environment)) {
    if (/KEY|SECRET|TOKEN|PASSWORD/.test(name) && !/FILE|PATH|_ID$/.test(name)) add(secrets, value, name);
    if (/PROXY/i.test(name)) add(secrets, passwordOf(value), name);
  }
  return secrets;
}
