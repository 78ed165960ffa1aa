/** The bill of materials: CycloneDX 1.6 as JSON, the same bytes whenever it is made of the same commit. */
import type { HeldLibrary, LinkedLibrary } from "./linked.ts";
import type { LockedPackage } from "./lockfile.ts";

export type SbomFacts = {
  version: string;
  /** The whole commit, or "". */
  commit: string;
  /** When the commit was made, Unix s: the only time in it. */
  madeAt: number;
  /** Whether the tree was not as in it; null when nobody knows. */
  modified: boolean | null;
  packages: readonly LockedPackage[];
  /** Bun's version, and the libraries that Bun links. */
  bun: string;
  linked: readonly LinkedLibrary[];
  /** What packages hold without naming it. */
  held: readonly HeldLibrary[];
  /** The licence that a package names, or undefined. */
  licenceOf(place: string): string | undefined;
};

/** `pkg:npm/%40scope/name@1.0.0`: the scope is a namespace, percent-encoded (package URL specification). */
export function packageUrl({ name, version }: Pick<LockedPackage, "name" | "version">): string {
  return `pkg:npm/${name.split("/").map(encodeURIComponent).join("/")}@${encodeURIComponent(version)}`;
}

/** An SPDX expression, such as `MIT` or `(MIT OR Apache-2.0)`; other words are a licence's name. */
function describeLicence(licence: string): object {
  return /^[\w.+() -]+$/.test(licence) && !/^see /i.test(licence)
    ? { expression: licence }
    : { license: { name: licence } };
}

function describePackage(found: LockedPackage, licence: string | undefined): object {
  const [group, name] = found.name.startsWith("@") ? found.name.split("/") : [undefined, found.name];
  const sha512 = found.integrity && Buffer.from(found.integrity.slice("sha512-".length), "base64").toString("hex");
  return {
    type: "library",
    "bom-ref": `npm:${found.place}`,
    ...(group && { group }),
    name,
    version: found.version,
    scope: "required",
    ...(sha512 && { hashes: [{ alg: "SHA-512", content: sha512 }] }),
    ...(licence && { licenses: [describeLicence(licence)] }),
    purl: packageUrl(found),
  };
}

const RUNTIME = "runtime:bun";
const refOf = ({ name }: LinkedLibrary) => `runtime:${name}`;
const heldRefOf = ({ name }: HeldLibrary) => `held:${name}`;

function describePart(type: string, ref: string, version: string, purl: string, licence: string): object {
  return {
    ...{ type, "bom-ref": ref, name: ref.slice(ref.indexOf(":") + 1), version, scope: "required" },
    ...{ licenses: [describeLicence(licence)], purl },
  };
}

function describeRuntime({ bun, linked }: SbomFacts): object[] {
  return [
    describePart("platform", RUNTIME, bun, `pkg:npm/bun@${bun}`, "MIT"),
    ...linked.map((library) => {
      const { name, version, licence } = library;
      return describePart("library", refOf(library), version, `pkg:generic/${name}@${version}`, licence);
    }),
  ];
}

function describeHeld(library: HeldLibrary): object {
  return describePart("library", heldRefOf(library), library.version, packageUrl(library), library.licence);
}

/** A serial number made of a hash of the content (RFC 9562, version 8): with a random one no two builds would be the same. */
function serialNumber(content: string): string {
  const hash = new Bun.CryptoHasher("sha256").update(content).digest("hex");
  return `urn:uuid:${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-a${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
}

/** The document as text, with a line break at its end. `direct` are the places of the packages that package.json names. */
export function writeSbom(facts: SbomFacts, direct: readonly string[]): string {
  const { version, commit, madeAt, modified, packages, linked, held } = facts;
  const refs = (places: readonly string[]) => places.map((place) => `npm:${place}`).sort();
  const heldBy = (place: string) => held.filter(({ holder }) => holder === place).map(heldRefOf);
  const properties = [
    ...(commit ? [{ name: "sluice:commit", value: commit }] : []),
    ...(modified ? [{ name: "sluice:modified", value: "true" }] : []),
  ];
  const body = {
    version: 1,
    metadata: {
      timestamp: new Date(madeAt * 1000).toISOString(),
      component: {
        ...{ type: "application", "bom-ref": "sluice", name: "sluice", version },
        licenses: [{ expression: "MIT" }],
        ...(properties.length > 0 && { properties }),
      },
    },
    components: [
      ...describeRuntime(facts),
      ...packages.map((found) => describePackage(found, facts.licenceOf(found.place))),
      ...held.map(describeHeld),
    ],
    dependencies: [
      { ref: "sluice", dependsOn: [RUNTIME, ...refs(direct)] },
      { ref: RUNTIME, dependsOn: linked.map(refOf) },
      ...linked.map((library) => ({ ref: refOf(library), dependsOn: [] })),
      ...packages.map(({ place, needs }) => ({ ref: `npm:${place}`, dependsOn: [...heldBy(place), ...refs(needs)] })),
      ...held.map((library) => ({ ref: heldRefOf(library), dependsOn: [] })),
    ],
  };
  const format = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: serialNumber(JSON.stringify(body)),
  };
  return `${JSON.stringify({ ...format, ...body }, null, 2)}\n`;
}
