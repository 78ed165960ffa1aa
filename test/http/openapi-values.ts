import fc from "fast-check";
import { isObject } from "../../src/lib/json.ts";
import { resolve, type Schema } from "../support/json-schema.ts";

/** In a made value: what earlier answers gave under that name is put here just before it is sent. */
export type Slot = { slot: string; pick: number };

export const isSlot = (value: unknown): value is Slot => isObject(value) && "slot" in value && "pick" in value;

/** A value that earlier answers gave, whichever there are by then. */
export const slot = (name: string) => fc.nat().map((pick): Slot => ({ slot: name, pick }));

/**
 * How values of fields are made that have a meaning beyond their schema, by their path without numbers: `messages.content.type`. `own` makes those of the
 * schema alone.
 */
export type Hints = (path: string, own: () => fc.Arbitrary<unknown>) => fc.Arbitrary<unknown> | undefined;

/** What may stand in a string besides letters: signs of all planes, controls, half characters, the words of other languages. */
const ODD_TEXT = fc.constantFrom(
  "",
  " ",
  "\u0000",
  "\ud800",
  "\udfff\ud800",
  "\ufeff",
  "\u202e\u2028",
  "\n\r\t\u001b[31m",
  "' OR 1=1 --",
  "<script>alert(1)</script>",
  "../../etc/passwd",
  "{{x}}%s%n",
  "__proto__",
  "constructor",
  "👩‍👩‍👧‍👦",
  "ß".repeat(300),
  "x".repeat(5_000),
);

const EXTREMES = fc.constantFrom(0, -0, -1, 0.5, 1e-320, 1e21, -1e308, 2 ** 31, 2 ** 53, 2 ** 53 + 2, 2 ** 63);

const NOTHING_SPECIAL = fc.jsonValue({ maxDepth: 2, noUnicodeString: false } as object);

/** Any JSON value, extremes and depth among them. */
export const ANYTHING: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: NOTHING_SPECIAL },
  { weight: 2, arbitrary: ODD_TEXT },
  { weight: 2, arbitrary: EXTREMES },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 62 }).map(nest) },
  { weight: 1, arbitrary: fc.constantFrom<unknown>(null, true, false, [], {}, [null], { "": "" }) },
);

function nest(depth: number): unknown {
  let value: unknown = [];
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? { a: value } : [value];
  return value;
}

/** A number that the schema's bounds admit, those at the border more often. */
function numbers(schema: Schema, whole: boolean): fc.Arbitrary<number> {
  const least = Number(schema["minimum"] ?? schema["exclusiveMinimum"] ?? -1_000_000);
  const most = Number(schema["maximum"] ?? Math.max(least, 0) + 1_000_000);
  if (whole) return fc.integer({ min: least, max: most });
  const minExcluded = schema["exclusiveMinimum"] !== undefined;
  return fc.double({ min: least, max: most, minExcluded, noNaN: true });
}

function strings(schema: Schema): fc.Arbitrary<string> {
  const least = Number(schema["minLength"] ?? 0);
  const most = Number(schema["maxLength"] ?? least + 40);
  const { pattern } = schema;
  // In JSON Schema a length counts characters, and so do these: in code points.
  const fits = (text: string) => {
    const length = [...text].length;
    return length >= least && length <= most && (typeof pattern !== "string" || new RegExp(pattern, "u").test(text));
  };
  const free = fc.oneof(
    { weight: 8, arbitrary: fc.string({ minLength: least, maxLength: Math.min(most, least + 40) }) },
    { weight: 2, arbitrary: fc.string({ unit: "grapheme", minLength: least, maxLength: Math.min(most, least + 12) }) },
    { weight: 1, arbitrary: ODD_TEXT.filter(fits) },
    { weight: 1, arbitrary: fc.constantFrom(...[least, Math.min(most, 2_000)].map((length) => "a".repeat(length))) },
  );
  // A class or a few words at the front: what the document's patterns are. Others are looked for by trying.
  return typeof pattern === "string" && !pattern.includes("(?!")
    ? fc.stringMatching(new RegExp(pattern)).filter(fits)
    : free.filter(fits);
}

function objects(schema: Schema, at: Place): fc.Arbitrary<unknown> {
  const named = (schema["properties"] ?? {}) as Record<string, Schema>;
  const required = (schema["required"] ?? []) as string[];
  // Deep down only what must be there.
  const names = Object.keys(named).filter((name) => at.depth < MAX_DEPTH || required.includes(name));
  const fields = Object.fromEntries(
    names.map((name) => [
      name,
      values(named[name] as Schema, { ...at, path: join(at.path, name), depth: at.depth + 1 }),
    ]),
  );
  const closed = schema["additionalProperties"] === false;
  const unknown =
    closed || at.depth > 1 ? fc.constant({}) : fc.dictionary(unknownName(names), NOTHING_SPECIAL, { maxKeys: 2 });
  const kept = fc.record(fields, { requiredKeys: required.filter((name) => names.includes(name)) });
  const few = fc
    .record(fields, { requiredKeys: required.filter((name) => names.includes(name)) })
    .chain((whole) =>
      fc
        .subarray(Object.keys(whole).filter((name) => !required.includes(name)))
        .map((left) => Object.fromEntries(Object.entries(whole).filter(([name]) => !left.includes(name)))),
    );
  // Mostly few fields at once: many together are refused for the first of their meanings.
  const both = fc.oneof({ weight: 1, arbitrary: kept }, { weight: 3, arbitrary: few });
  return fc
    .tuple(both, fc.oneof({ weight: 5, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: unknown }))
    .map(([told, more]) => ({ ...more, ...told }));
}

const unknownName = (names: readonly string[]) =>
  fc.string({ minLength: 1, maxLength: 8 }).filter((name) => !names.includes(name) && name !== "__proto__");

const join = (path: string, name: string) => (path === "" ? name : `${path}.${name}`);

/** Beyond it only what a schema demands is made. */
const MAX_DEPTH = 5;

type Place = { document: Schema; hints: Hints; path: string; depth: number };

function byType(schema: Schema, at: Place): fc.Arbitrary<unknown> {
  switch (schema["type"]) {
    case "string":
      return strings(schema);
    case "integer":
      return numbers(schema, true);
    case "number":
      return numbers(schema, false);
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array": {
      const least = Number(schema["minItems"] ?? 0);
      const most = Math.min(Number(schema["maxItems"] ?? least + 3), least + 3);
      return fc.array(values((schema["items"] ?? {}) as Schema, at), { minLength: least, maxLength: most });
    }
    case "object":
      return objects(schema, at);
    default:
      return NOTHING_SPECIAL;
  }
}

function values(written: Schema, at: Place): fc.Arbitrary<unknown> {
  const hinted = at.hints(at.path, () => values(written, { ...at, hints: deeper(at) }));
  if (hinted) return hinted;
  const schema = resolve(written, at.document);
  if (Array.isArray(schema["anyOf"])) {
    return fc.oneof(...(schema["anyOf"] as Schema[]).map((branch) => values(branch, { ...at, hints: deeper(at) })));
  }
  if ("const" in schema) return fc.constant(schema["const"]);
  if (Array.isArray(schema["enum"])) return fc.constantFrom(...(schema["enum"] as unknown[]));
  return byType(schema, at);
}

/** A branch stands at the place of its union, whose own hint was asked already. */
const deeper =
  ({ hints, path }: Place): Hints =>
  (asked, own) =>
    asked === path ? undefined : hints(asked, own);

/** Values that fit a schema. */
export function validValues(schema: Schema, document: Schema, hints: Hints): fc.Arbitrary<unknown> {
  return values(schema, { document, hints, path: "", depth: 0 });
}

/** Places of a value: the ways to each part of it. */
function placesOf(value: unknown, way: (string | number)[] = []): (string | number)[][] {
  if (isSlot(value) || typeof value !== "object" || value === null) return [way];
  return [way, ...Object.entries(value).flatMap(([key, inner]) => placesOf(inner, [...way, key]))];
}

type Change = { at: number; kind: number; instead: unknown };

function changed(value: unknown, way: readonly (string | number)[], change: (part: unknown) => unknown): unknown {
  const [step, ...rest] = way;
  if (step === undefined) return change(value);
  const copy: Record<string, unknown> | unknown[] = Array.isArray(value) ? [...value] : { ...(value as object) };
  const fields = copy as Record<string, unknown>;
  const inner = changed(fields[step], rest, change);
  if (inner === undefined) delete fields[step];
  else fields[step] = inner;
  return copy;
}

function spoil(value: unknown, { at, kind, instead }: Change): unknown {
  const places = placesOf(value);
  const way = places[at % places.length] as (string | number)[];
  const ways: ((part: unknown) => unknown)[] = [
    () => instead,
    () => (way.length === 0 ? {} : undefined),
    (part) => [part],
    (part) => ({ value: part }),
    (part) => (typeof part === "number" ? String(part) : typeof part === "string" ? `${part}\u0000` : null),
    (part) => (isObject(part) && !isSlot(part) ? { ...part, [`${Object.keys(part)[0]} `]: instead } : part),
  ];
  return changed(value, way, ways[kind % ways.length] as (part: unknown) => unknown);
}

/** Values that fitted until one or two of their parts were changed: another type, missing, wrapped, an extreme, a field too many. */
export function almostValid(valid: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const change = fc.record({ at: fc.nat(), kind: fc.nat(), instead: ANYTHING });
  return fc
    .tuple(valid, fc.array(change, { minLength: 1, maxLength: 2 }))
    .map(([value, changes]) => changes.reduce<unknown>((spoilt, each) => spoil(spoilt, each), value));
}
