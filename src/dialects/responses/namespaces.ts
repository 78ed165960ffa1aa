import { isObject, listOf, stringOf } from "../../lib/json.ts";

/**
 * Between a namespace and a tool's name: a character that no vendor's names hold, so that both together are written as a legal name for every
 * upstream and found again in its reply (dialects.md 4.3 "Tool names").
 */
const BETWEEN = "\u001f";

/** A tool's name inside the namespace, if any, that a tool or a call of this dialect says (openai/codex, `ResponsesApiNamespace`). */
export const joinName = (namespace: unknown, name: string): string =>
  typeof namespace === "string" && namespace !== "" ? `${namespace}${BETWEEN}${name}` : name;

/** A name that {@link joinName} gave, as it is most often written for a model: in words about it. */
export const spokenName = (joined: string): string => joined.replaceAll(BETWEEN, "_");

/** The fields of a call that say what {@link joinName} joined. */
export function splitName(joined: string): { name: string; namespace?: string } {
  const at = joined.indexOf(BETWEEN);
  return at < 0 ? { name: joined } : { name: joined.slice(at + BETWEEN.length), namespace: joined.slice(0, at) };
}

/** Whether an entry is a tool that is called by its name. */
export const isCallable = ({ type, name }: Record<string, unknown>): boolean =>
  (type === "custom" || type === "function") && stringOf(name) !== "";

/** The names of the functions and custom tools in a list, those of its namespaces among them. */
export const namesIn = (tools: unknown, space?: unknown): string[] =>
  listOf(tools).flatMap((entry) => {
    if (!isObject(entry)) return [];
    if (entry["type"] === "namespace")
      return space === undefined ? namesIn(entry["tools"], stringOf(entry["name"])) : [];
    return isCallable(entry) ? [joinName(space, stringOf(entry["name"]))] : [];
  });
