import { isObject } from "../../lib/json.ts";

/** Bounds of a place that a fragment may name: its steps, and the index in an array. */
const MAX_DEPTH = 64;
const MAX_ITEMS = 10_000;

type Step = string | number;
type Container = Record<Step, unknown>;

/** One step. A backslash matches only together with the character that it escapes: with two ways to match one, many of them would take exponential time. */
const STEP = /\.([^.[\]]+)|\[(\d+)\]|\[(["'])((?:\\.|(?!\3|\\).)*)\3\]/y;

/** `$.a.b[0]['c d']` as its steps; undefined when it is no such path or beyond {@link MAX_DEPTH} or {@link MAX_ITEMS}. */
function parsePath(path: string): Step[] | undefined {
  if (!path.startsWith("$")) return undefined;
  const steps: Step[] = [];
  STEP.lastIndex = 1;
  while (STEP.lastIndex < path.length) {
    const found = STEP.exec(path);
    if (!found || steps.length >= MAX_DEPTH) return undefined;
    const [, name, index, , quoted] = found;
    if (index !== undefined && Number(index) >= MAX_ITEMS) return undefined;
    steps.push(name ?? (index === undefined ? (quoted ?? "").replace(/\\(.)/g, "$1") : Number(index)));
  }
  return steps.length === 0 ? undefined : steps;
}

/** An empty array or object for the step behind it. The model chooses the keys: without a prototype none of them, such as `__proto__`, is special. */
const makeContainer = (next: Step): Container =>
  typeof next === "number" ? ([] as unknown as Container) : (Object.create(null) as Container);

const fits = (container: unknown, step: Step): container is Container =>
  Array.isArray(container) ? typeof step === "number" : typeof container === "object" && container !== null;

function readValue(fragment: Record<string, unknown>): unknown {
  for (const field of ["stringValue", "numberValue", "boolValue"]) if (field in fragment) return fragment[field];
  return null;
}

/**
 * A function call's arguments put together from `partialArgs`: each fragment names a place by a JSON path and gives its value, strings
 * piece by piece (dialects.md 3.3). Their order is not that of JSON text, so they cannot be passed on as they come and are collected.
 */
export class PartialArguments {
  readonly #root: Container = Object.create(null) as Container;
  /** Paths of strings that the next fragment continues. */
  readonly #open = new Set<string>();

  /** Takes the fragments of one record; false when one of them has no path that fits the arguments so far. */
  add(fragments: unknown): boolean {
    if (!Array.isArray(fragments)) return true;
    return fragments.every((fragment) => isObject(fragment) && this.#place(fragment));
  }

  /** The arguments as JSON text; "" when there are none. */
  get json(): string {
    return Object.keys(this.#root).length === 0 ? "" : JSON.stringify(this.#root);
  }

  #place(fragment: Record<string, unknown>): boolean {
    const path = fragment["jsonPath"];
    const steps = typeof path === "string" ? parsePath(path) : undefined;
    if (typeof path !== "string" || !steps) return false;
    let container = this.#root;
    for (const [at, step] of steps.slice(0, -1).entries()) {
      if (!fits(container, step)) return false;
      container[step] ??= makeContainer(steps[at + 1] as Step);
      container = container[step] as Container;
    }
    const last = steps.at(-1) as Step;
    if (!fits(container, last)) return false;
    const value = readValue(fragment);
    const before = container[last];
    const continues = this.#open.has(path) && typeof before === "string" && typeof value === "string";
    container[last] = continues ? before + value : value;
    if (fragment["willContinue"] === true) this.#open.add(path);
    else this.#open.delete(path);
    return true;
  }
}
