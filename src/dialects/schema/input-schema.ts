import { isObject, listOf, objectsOf } from "../../lib/json.ts";
import { findReferred } from "./references.ts";

type Schema = Record<string, unknown>;

/** Most references that lead into one another which are followed, from a root or from one of its branches. */
const MAX_CHAIN = 8;

/** Looks up what the branches at the root of a schema refer to, each reference once: thousands may lead to one place. */
class Referred {
  readonly #found = new Map<string, Schema | undefined>();

  constructor(private readonly root: Schema) {}

  /** A branch, the schema that it refers to, the one that that refers to, and so on. */
  chainOf(branch: Schema): readonly Schema[] {
    const chain = [branch];
    for (let last = this.#next(branch); last && chain.length <= MAX_CHAIN; last = this.#next(last)) chain.push(last);
    return chain;
  }

  #next({ $ref: reference }: Schema): Schema | undefined {
    if (typeof reference !== "string") return undefined;
    if (!this.#found.has(reference)) this.#found.set(reference, findReferred(this.root, reference));
    return this.#found.get(reference);
  }
}

/** The values of a field in these branches, each once, at the place of its last occurrence: many branches may refer to the same definition. */
const distinct = (branches: readonly Schema[], field: string): unknown[] =>
  [...new Set(branches.map((branch) => branch[field]).reverse())].reverse();

/** The properties of all these branches. Where several define one differently, such as the field that tells them apart, it becomes an `anyOf` of these. */
function eitherOf(branches: readonly Schema[]): Schema {
  const found = new Map<string, Map<string, unknown>>();
  for (const properties of distinct(branches, "properties")) {
    if (!isObject(properties)) continue;
    for (const [name, property] of Object.entries(properties)) {
      const said = found.get(name) ?? new Map<string, unknown>();
      found.set(name, said.set(JSON.stringify(property), property));
    }
  }
  const written = [...found].map(([name, said]) => {
    const all = [...said.values()];
    return [name, all.length === 1 ? all[0] : { anyOf: all }] as const;
  });
  return Object.fromEntries(written);
}

/** A schema whose root is a reference, as some generators write it, with what that refers to in its place. */
export function openRoot(root: Schema): Schema {
  const followed = new Set<unknown>();
  let { $ref: reference, ...open } = root;
  while (typeof reference === "string" && !followed.has(reference) && followed.size < MAX_CHAIN) {
    followed.add(reference);
    const { $ref: next, ...referred } = findReferred(root, reference) ?? {};
    open = { ...referred, ...open };
    reference = next;
  }
  return open;
}

/**
 * A tool's JSON Schema with the root that Anthropic, OpenAI and Moonshot demand: type object, without anyOf, oneOf, allOf or a reference beside it. The
 * properties of all branches, also of those that are references, are put together; only those of the root and of allOf stay required (dialects.md 4.9).
 */
export function toInputSchema(given: Schema): Schema {
  const schema = "$ref" in given ? openRoot(given) : given;
  const { anyOf, oneOf, allOf, ...rest } = schema;
  const root: Schema = "type" in rest ? { ...rest, type: "object" } : { type: "object", ...rest };
  const referred = new Referred(schema);
  const listed = (value: unknown): Schema[] => objectsOf(value).flatMap((branch) => referred.chainOf(branch));
  const all = listed(allOf);
  const choices = [...listed(anyOf), ...listed(oneOf)];
  if (all.length + choices.length === 0) {
    return schema["type"] === "object" || isObject(root["properties"]) ? root : { ...root, properties: {} };
  }
  const properties = eitherOf(choices);
  for (const said of distinct([...all, root], "properties")) if (isObject(said)) Object.assign(properties, said);
  const required = distinct([root, ...all], "required").flatMap(listOf);
  return { ...root, properties, ...(required.length > 0 && { required: [...new Set(required)] }) };
}
