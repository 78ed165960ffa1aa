import type { Environment } from "../lib/environment.ts";
import { isObject } from "../lib/json.ts";
import { messageOf } from "../lib/message-of.ts";
import { type Fault, isSecret, type Steps } from "./faults.ts";

/** Where the values of `${NAME}` and `file:PATH` come from. */
export type Sources = {
  environment: Environment;
  /** The trimmed text of a secret's file. Throws an Error whose message says what is wrong, without the content. */
  readSecret(path: string): string;
};

/** A document nested deeper than this (or one that holds itself, by a YAML alias) is refused. */
export const MAX_DEPTH = 16;

const REFERENCE = /\$\$\{|\$\{([^}]*)(\}?)/g;

function fillIn(text: string, steps: Steps, sources: Sources, faults: Fault[]): string {
  return text.replace(REFERENCE, (match, name: string | undefined, end: string | undefined) => {
    if (match === "$${") return "${";
    if (end === "" || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name ?? "")) {
      faults.push({
        steps,
        problem: `expected \${NAME} with the name of an environment variable (write $\${ for a plain \${)`,
      });
      return "";
    }
    const held: unknown = sources.environment[name!];
    // A name that every object has, such as toString, is no variable.
    const value = typeof held === "string" ? held.trim() : "";
    if (value === "") {
      faults.push({ steps, problem: `expected the environment variable ${name} to be set, found nothing` });
      return "";
    }
    return value;
  });
}

function fillFile(text: string, steps: Steps, sources: Sources, faults: Fault[]): string {
  const path = text.slice("file:".length);
  try {
    return sources.readSecret(path);
  } catch (error) {
    faults.push({ steps, problem: messageOf(error) });
    return "";
  }
}

/**
 * The document with every `${NAME}` in its texts replaced from the environment and, in fields that hold secrets (see {@link isSecret}), a
 * text `file:PATH` replaced by what that file holds (contract 2). Fields that are null are left out. What is missing is added to `faults`.
 */
export function resolveReferences(document: unknown, sources: Sources, faults: Fault[], steps: Steps = []): unknown {
  if (steps.length > MAX_DEPTH) {
    faults.push({ steps: steps.slice(0, 4), problem: `expected at most ${MAX_DEPTH} levels of nesting` });
    return undefined;
  }
  if (typeof document === "string") {
    if (document.startsWith("file:") && isSecret(steps)) return fillFile(document, steps, sources, faults);
    return fillIn(document, steps, sources, faults);
  }
  if (Array.isArray(document)) {
    return document.map((item, index) => resolveReferences(item, sources, faults, [...steps, index]));
  }
  if (!isObject(document)) return document;
  const entries = Object.entries(document).filter(([, value]) => value !== null);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, resolveReferences(value, sources, faults, [...steps, key])]),
  );
}
