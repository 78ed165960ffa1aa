import { basename, dirname, join, normalize } from "node:path";

/** Source texts by their path below `src`, such as `dialects/frames.ts`. */
export type Sources = ReadonlyMap<string, string>;

/** One import statement: who imports what, and whether it is of types only. */
export type Import = { from: string; to: string; typeOnly: boolean };

/** Rows of design 2: a file imports only from lower rows, and inside its own folder. */
const ROWS: Readonly<Record<string, number>> = {
  "main.ts": 6,
  "boot.ts": 6,
  "app.ts": 6,
  "server.ts": 6,
  cli: 6,
  config: 6,
  workers: 6,
  http: 5,
  relay: 4,
  jobs: 4,
  web: 4,
  limits: 3,
  catalog: 2,
  vendors: 2,
  accounts: 2,
  ledger: 2,
  db: 1,
  dialects: 1,
  canon: 0,
  wire: 0,
  observe: 0,
  lib: 0,
};

/** The only ways inside row 6. `types`: values are passed down, never imported. */
const TOP_ROW: Readonly<Record<string, "values" | "types">> = {
  "main.ts > boot.ts": "values",
  "main.ts > cli": "values",
  "cli > app.ts": "values",
  "cli > server.ts": "values",
  "server.ts > app.ts": "values",
  "cli > config": "values",
  "cli > workers": "values",
  "workers > app.ts": "types",
  "workers > config": "types",
  "app.ts > config": "types",
};

/** Packages that only some places may import. */
const CONFINED: readonly { package: RegExp; allowed: RegExp }[] = [
  { package: /^bun:sqlite$/, allowed: /^db\// },
  { package: /^(elysia$|elysia\/|@elysiajs\/)/, allowed: /^(http\/|app\.ts$)/ },
  { package: /^commander$/, allowed: /^(cli\/|main\.ts$)/ },
];

const STATEMENT = /(?:^|;)[ \t]*(import|export)\s+(type\s+)?((?:[\w*$\s,]|\{[^}]*\})*?)\s*from\s*["']([^"']+)["']/gm;
const BARE = /(?:^|;)[ \t]*import\s+["']([^"']+)["']/gm;
const DYNAMIC = /\bimport\(\s*["']([^"']+)["']/g;

const EXPORTED = /^export (?:async )?(?:function\*?|const|let|class) ([\w$]+)/gm;
/** Tables are read by drizzle-kit, file by file. */
const TABLES = /^db\/schema/;

const TAKEN = /\b(?:import|export)\s+(?:type\s+)?(?:\w+,\s*)?\{([^}]*)\}\s*from\b/g;

/** The names that a file takes from others, under which those export them. */
function takenNames(text: string): string[] {
  const lists = [...text.matchAll(TAKEN)].flatMap(([, names = ""]) => names.split(","));
  return lists.map((name) =>
    name
      .trim()
      .replace(/^type /, "")
      .replace(/ as .*$/, ""),
  );
}

/**
 * Values that are exported, and that no file imports, of `sources` or of the `others`, which are texts of tests and of the build. A file that is
 * imported as a whole when it is needed may be asked for anything.
 */
export function findUnusedExports(sources: Sources, others: readonly string[]): string[] {
  const texts = [...sources.values(), ...others];
  const taken = new Set(texts.flatMap(takenNames));
  const whole = new Set(texts.flatMap((text) => [...text.matchAll(DYNAMIC)].map(([, path = ""]) => basename(path))));
  return [...sources].flatMap(([path, text]) => {
    const isExempt = TABLES.test(path) || whole.has(basename(path));
    const names = isExempt ? [] : [...text.matchAll(EXPORTED)].map(([, name = ""]) => name);
    return names.filter((name) => !taken.has(name)).map((name) => `${path}: ${name}`);
  });
}

/** `{ type A, type B }` imports nothing at run time, whatever stands before it. */
function namesTypesOnly(clause: string): boolean {
  const braces = clause.match(/^\{([^}]*)\}$/);
  const names = (braces?.[1] ?? "").split(",").map((name) => name.trim());
  return names.some((name) => name !== "") && names.every((name) => name === "" || name.startsWith("type "));
}

function withoutComments(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}

/** Every import of a file: static, re-exporting, bare and dynamic, types included. */
export function readImports(from: string, source: string): Import[] {
  const text = withoutComments(source);
  const found: Import[] = [];
  for (const [, , typeWord, clause = "", to = ""] of text.matchAll(STATEMENT)) {
    found.push({ from, to, typeOnly: typeWord !== undefined || namesTypesOnly(clause.trim()) });
  }
  for (const [, to = ""] of text.matchAll(BARE)) found.push({ from, to, typeOnly: false });
  for (const [, to = ""] of text.matchAll(DYNAMIC)) found.push({ from, to, typeOnly: false });
  return found;
}

const isInside = (to: string) => to.startsWith(".");
const resolve = (each: Import) => normalize(join(dirname(each.from), each.to));
const folderOf = (path: string) => path.split("/")[0] as string;

function explainLayer(each: Import): string | undefined {
  const target = resolve(each);
  // Assets beside the source, such as migrations and the package's own version, are no layer.
  if (target.startsWith("..")) return /\.tsx?$/.test(target) ? "leaves src" : undefined;
  const [own, other] = [folderOf(each.from), folderOf(target)];
  const [ownRow, otherRow] = [ROWS[own], ROWS[other]];
  if (ownRow === undefined || otherRow === undefined)
    return `folder without a row: ${ownRow === undefined ? own : other}`;
  if (own === other || otherRow < ownRow) return undefined;
  const way = TOP_ROW[`${own} > ${other}`];
  if (way === "values" || (way === "types" && each.typeOnly)) return undefined;
  return `row ${ownRow} imports from row ${otherRow}`;
}

/** Faults against the rows of design 2. */
export function findLayerFaults(sources: Sources): string[] {
  const faults: string[] = [];
  for (const [path, source] of sources) {
    for (const each of readImports(path, source)) {
      const fault = isInside(each.to) ? explainLayer(each) : undefined;
      if (fault) faults.push(`${path} imports ${each.to}: ${fault}`);
    }
  }
  return faults;
}

/** Packages imported where they may not be, and relative imports that leave out their ending. */
export function findPackageFaults(sources: Sources): string[] {
  const faults: string[] = [];
  for (const [path, source] of sources) {
    for (const { to } of readImports(path, source)) {
      const rule = CONFINED.find((each) => each.package.test(to));
      if (rule && !rule.allowed.test(path)) faults.push(`${path} imports ${to}`);
      if (isInside(to) && !/\.\w+$/.test(to)) faults.push(`${path} imports ${to} without its ending`);
      if (path.startsWith("canon/") && !isInside(to)) faults.push(`${path} imports ${to}: the meaning imports nothing`);
    }
  }
  return faults;
}

/** Circles of imports, types included, each as `a > b > a`. */
export function findCircles(sources: Sources): string[] {
  const edges = new Map<string, string[]>();
  for (const [path, source] of sources) {
    const targets = readImports(path, source).filter((each) => isInside(each.to));
    edges.set(path, [...new Set(targets.map(resolve))]);
  }
  const circles = new Map<string, string>();
  const done = new Set<string>();
  const visit = (path: string, trail: string[]): void => {
    const at = trail.indexOf(path);
    if (at >= 0) {
      const circle = trail.slice(at);
      circles.set([...circle].sort().join(), [...circle, path].join(" > "));
      return;
    }
    if (done.has(path)) return;
    for (const next of edges.get(path) ?? []) visit(next, [...trail, path]);
    done.add(path);
  };
  for (const path of edges.keys()) visit(path, []);
  return [...circles.values()];
}

const DIALECT = String.raw`(?:[\w.]*\.)?(?:client|upstream|from|to|source|target|dialect|(?:client|upstream|from|to)Dialect)(?:\.name)?`;
const IDENTITY = new RegExp(String.raw`(?<![\w.])${DIALECT}\s*[!=]==?\s*${DIALECT}(?![\w.(])`, "g");

/** Places beside `dialects/translate.ts` that ask whether client and upstream speak the same dialect (design 1). */
export function findDialectIdentity(sources: Sources): string[] {
  const faults: string[] = [];
  for (const [path, source] of sources) {
    if (path === "dialects/translate.ts") continue;
    for (const [text] of withoutComments(source).matchAll(IDENTITY)) faults.push(`${path} asks ${text}`);
  }
  return faults;
}

/** Places outside `vendors/` that compare something with a vendor's id: a vendor is a row of data (design 1). */
export function findVendorQuestions(sources: Sources, vendorIds: readonly string[]): string[] {
  const ids = vendorIds.map((id) => id.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  const literal = `["'\`](?:${ids})(?:/[^"'\`]*)?["'\`]`;
  const question = new RegExp(
    `[!=]==?\\s*${literal}|${literal}\\s*[!=]==?|\\bcase\\s+${literal}|\\b(?:startsWith|includes)\\(${literal}`,
    "g",
  );
  const faults: string[] = [];
  for (const [path, source] of sources) {
    if (path.startsWith("vendors/")) continue;
    for (const [text] of withoutComments(source).matchAll(question)) faults.push(`${path} asks ${text}`);
  }
  return faults;
}
