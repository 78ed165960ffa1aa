import { isObject, listOf, objectsOf } from "../../lib/json.ts";
import { findReferred } from "./references.ts";

type Schema = Record<string, unknown>;

/** Most references that lead into one another from a root, or from one of its branches. */
const MAX_CHAIN = 8;

/** What the branches at the root of a schema refer to, each reference followed once: thousands may lead to one place. */
class Referred {
  readonly #found = new Map<string, Schema | undefined>();

  constructor(private readonly root: Schema) {}

  /** A branch, and what it refers to, and so on. */
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

/** The fields of that name in these, each value once, in the place of its last one: many branches may refer to the same definition. */
const distinct = (branches: readonly Schema[], field: string): unknown[] =>
  [...new Set(branches.map((branch) => branch[field]).reverse())].reverse();

/** The properties of all of these; one that several have is a choice of what each says of it, such as the word by which they are told apart. */
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

/** A schema whose root is a reference, as some generators write it, as what that leads to. */
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
 * A tool's JSON Schema with the root that Anthropic, OpenAI and Moonshot demand: type object, and no anyOf, oneOf or allOf beside it, nor a reference. The
 * branches' properties are laid together, also where a branch is a reference, required only where all of them must hold (dialects.md 4.9).
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
