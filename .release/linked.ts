/** The libraries in every executable that are not in the lockfile: those that Bun itself is made of, and those that a package was built with. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

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

/** Code of another project that a package holds without naming it as a dependency. */
export type HeldLibrary = LinkedLibrary & {
  /** The package that it lies in. */
  holder: string;
};

/** Libraries that packages hold. `version`: finds the library's version in `file` of its holder. */
const HELD = [
  {
    holder: "unpdf",
    name: "pdfjs-dist",
    licence: "Apache-2.0",
    file: "dist/pdfjs.mjs",
    version: /apiVersion:`([\d.]+)`/,
  },
];

/** The libraries held by the packages that are installed in `modules`. Throws Error for one whose version is not found any more. */
export function heldLibraries(modules: string): HeldLibrary[] {
  return HELD.map(({ holder, name, licence, file, version: pattern }) => {
    const path = join(modules, holder, file);
    const version = existsSync(path) ? pattern.exec(readFileSync(path, "utf8"))?.[1] : undefined;
    if (version === undefined) throw new Error(`${holder} does not say which ${name} it holds`);
    return { holder, name, version, licence };
  });
}

/** The notice about Bun and its libraries, for whoever gets the executable. */
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
