/** What Bun itself is made of: it is in every executable, beside the packages of the lockfile. */

/** A library that Bun links, by Bun's own name for it. */
export type LinkedLibrary = { name: string; version: string; licence: string };

/** Licences of what Bun links (its page on licensing), as SPDX expressions. Names are those of `process.versions`. */
const LICENCES: Readonly<Record<string, string>> = {
  ares: "MIT",
  boringssl: "Apache-2.0 AND ISC",
  icu: "Unicode-3.0",
  libarchive: "BSD-2-Clause",
  libdeflate: "MIT",
  llhttp: "MIT",
  lolhtml: "BSD-3-Clause",
  lshpack: "MIT",
  mimalloc: "MIT",
  picohttpparser: "MIT",
  sqlite: "blessing",
  tinycc: "LGPL-2.1-or-later",
  usockets: "Apache-2.0",
  uwebsockets: "Apache-2.0",
  webkit: "LGPL-2.0-or-later AND BSD-2-Clause",
  zlib: "Zlib",
  zstd: "BSD-3-Clause",
};

/** The libraries in the Bun that runs this, which is the one that builds. Throws Error for one that this Bun does not name any more. */
export function linkedLibraries(versions: Readonly<Record<string, string | undefined>>): LinkedLibrary[] {
  return Object.entries(LICENCES).map(([name, licence]) => {
    const version = versions[name];
    if (version === undefined) throw new Error(`Bun names no version of ${name}`);
    return { name, version, licence };
  });
}

/** Their notice, for whoever gets the executable. */
export function writeRuntimeNotice(bun: string, libraries: readonly LinkedLibrary[]): string {
  const lines = libraries.map(({ name, version, licence }) => `  ${name} ${version}: ${licence}`);
  return [
    `Bun ${bun}`,
    "",
    "The executable holds the Bun runtime (MIT). Bun in its turn holds these libraries, under licences of their own; their texts, their sources and",
    "how Bun is linked anew with another version of them are at https://bun.com/docs/project/licensing and https://github.com/oven-sh/bun.",
    "",
    ...lines,
    "",
  ].join("\n");
}
