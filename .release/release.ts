/**
 * What a release has beside its executables: for each an archive in two compressions, and for all the bill of materials, the install script,
 * the unit files, the Dockerfile and SHA256SUMS. All of it follows from the commit and the pinned Bun alone, byte by byte.
 */
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import manifest from "../package.json" with { type: "json" };
import { type ArchivedFile, writeTar } from "./archive.ts";
import { heldLibraries, linkedLibraries, writeRuntimeNotice } from "./linked.ts";
import { folderOf, type LockedPackage, readLockedPackages } from "./lockfile.ts";
import { writeSbom } from "./sbom.ts";

export type ReleaseFacts = {
  /** The top of the repository. */
  root: string;
  /** Where the executables lie and the rest goes. */
  folder: string;
  /** The whole commit, or "". */
  commit: string;
  /** When it was made, Unix s. */
  madeAt: number;
  /** Whether the tree was not as in it; null when nobody knows. */
  modified: boolean | null;
  /** Where the files of this release will lie; the install script's default. */
  releaseUrl?: string | undefined;
};

/** Higher levels take ten times as long for two percent less. */
const ZSTD_LEVEL = 9;
const GZIP_LEVEL = 6;

/** Files of this folder that are copied into a release unchanged. The Dockerfile builds from the sources of the same commit. */
const PLAIN_FILES = ["sluice.service", "sluice.plist", "Dockerfile"];

/** The licence a package's manifest names. */
function readLicence(root: string, place: string): string | undefined {
  const file = join(root, folderOf(place), "package.json");
  if (!existsSync(file)) return undefined;
  const { license } = JSON.parse(readFileSync(file, "utf8")) as { license?: unknown };
  return typeof license === "string" ? license : undefined;
}

/** The licences of all packages in the executable, in their own words: most of them ask to be handed on. First what Bun itself brings along. */
export function collectNotices(root: string, packages: readonly LockedPackage[]): string {
  const held = heldLibraries(join(root, "node_modules"));
  const sections = packages.map(({ place, name, version }) => {
    const folder = join(root, folderOf(place));
    const files = existsSync(folder) ? readdirSync(folder) : [];
    const texts = files
      // Some licences are of a single file of the package, and are named after that: `*.LICENSE.txt`.
      .filter((file) => /^(?:licen[cs]e|notice|copying)(?:[.-]|$)|\.licen[cs]e\.txt$/i.test(file))
      .sort()
      .map((file) => readFileSync(join(folder, file), "utf8").replaceAll("\r\n", "\n").trim());
    if (texts.length === 0) texts.push(`Licence: ${readLicence(root, place) ?? "not stated"}`);
    const others = held.filter(({ holder }) => holder === place);
    texts.push(...others.map((other) => `It holds ${other.name} ${other.version}. Licence: ${other.licence}`));
    return `${name} ${version}\n\n${[...new Set(texts)].join("\n\n")}\n`;
  });
  sections.unshift(writeRuntimeNotice(Bun.version, linkedLibraries(process.versions)));
  return sections.join(`\n${"-".repeat(80)}\n\n`);
}

/** The bill of materials of this tree (see {@link writeSbom}). */
export function makeSbom(origin: Pick<ReleaseFacts, "root" | "commit" | "madeAt" | "modified">): string {
  const { root, commit, madeAt, modified } = origin;
  const packages = readLockedPackages(readFileSync(join(root, "bun.lock"), "utf8"));
  const facts = { version: manifest.version, commit, madeAt, modified, packages, bun: Bun.version };
  const linked = linkedLibraries(process.versions);
  const held = heldLibraries(join(root, "node_modules"));
  const licenceOf = (place: string) => readLicence(root, place);
  return writeSbom({ ...facts, linked, held, licenceOf }, Object.keys(manifest.dependencies));
}

/** The install script, with the release's address as its default. Throws Error for an address that a shell would not take as one word. */
export function makeInstaller(script: string, releaseUrl = ""): string {
  if (!/^(?:https:\/\/[\w.~:/%@+-]+)?$/.test(releaseUrl)) throw new Error(`not a plain https address: ${releaseUrl}`);
  const marked = 'RELEASE_URL=""\n';
  if (!script.includes(marked)) throw new Error("the install script has no place for the address");
  return script.replace(marked, () => `RELEASE_URL="${releaseUrl}"\n`);
}

/** The lines that `sha256sum -c` reads, by name. */
function writeSums(folder: string, names: readonly string[]): string {
  const line = (name: string) => {
    const hash = new Bun.CryptoHasher("sha256").update(readFileSync(join(folder, name))).digest("hex");
    return `${hash}  ${name}\n`;
  };
  return [...names].sort().map(line).join("");
}

/** What lies beside the executable in its archive. */
function companions(root: string, target: string, notices: string): { name: string; bytes: Uint8Array }[] {
  const system = target.split("-")[0] ?? "";
  const service = { linux: "sluice.service", darwin: "sluice.plist" }[system];
  const files = ["LICENSE", "README.md", ...(service ? [join(".release", service)] : [])];
  return [
    ...files.map((file) => ({ name: basename(file), bytes: readFileSync(join(root, file)) })),
    { name: "THIRD-PARTY-NOTICES.txt", bytes: Buffer.from(notices) },
  ];
}

/** Writes both archives of one executable and returns their names. */
function writeArchives(facts: ReleaseFacts, target: string, executable: string, notices: string): string[] {
  const folder = `sluice-${manifest.version}-${target}`;
  const name = target.startsWith("windows") ? "sluice.exe" : "sluice";
  const files: ArchivedFile[] = [
    { name: `${folder}/${name}`, mode: 0o755, bytes: readFileSync(join(facts.folder, executable)) },
    ...companions(facts.root, target, notices).map((file) => ({
      ...file,
      name: `${folder}/${file.name}`,
      mode: 0o644,
    })),
  ];
  const tar = writeTar(files, facts.madeAt);
  writeFileSync(join(facts.folder, `${folder}.tar.zst`), Bun.zstdCompressSync(tar, { level: ZSTD_LEVEL }));
  writeFileSync(join(facts.folder, `${folder}.tar.gz`), Bun.gzipSync(new Uint8Array(tar), { level: GZIP_LEVEL }));
  return [`${folder}.tar.zst`, `${folder}.tar.gz`];
}

/**
 * Writes the rest of a release beside the executables, which are file names by target, and returns the names of all its files. `say` hears
 * each as it is done.
 */
export function writeRelease(
  facts: ReleaseFacts,
  executables: ReadonlyMap<string, string>,
  say: (name: string) => void,
): string[] {
  const { root, folder } = facts;
  const notices = collectNotices(root, readLockedPackages(readFileSync(join(root, "bun.lock"), "utf8")));
  const names = [...executables.values()];
  const keep = (written: string[]) => {
    names.push(...written);
    written.forEach(say);
  };
  for (const [target, executable] of executables) keep(writeArchives(facts, target, executable, notices));
  const sbom = `sluice-${manifest.version}.cdx.json`;
  writeFileSync(join(folder, sbom), makeSbom(facts));
  const script = readFileSync(join(root, ".release/install.sh"), "utf8");
  writeFileSync(join(folder, "install.sh"), makeInstaller(script, facts.releaseUrl));
  chmodSync(join(folder, "install.sh"), 0o755);
  for (const name of PLAIN_FILES) writeFileSync(join(folder, name), readFileSync(join(root, ".release", name)));
  keep([sbom, "install.sh", ...PLAIN_FILES]);
  writeFileSync(join(folder, "SHA256SUMS"), writeSums(folder, names));
  keep(["SHA256SUMS"]);
  return names;
}
