import { entryOf, isObject } from "../../lib/json.ts";

/**
 * What a client calls the things that encoders and repairs name when they are lost (contract 6, x-sluice-dropped): encoders use the chat
 * dialect's words, and know nothing of who asked. A list holds the fields in which the client may have said it: it is told the first that it did say,
 * and of none, nothing.
 */
export type OwnNames = Readonly<Record<string, string | readonly string[]>>;

/** Whether a body has a value at `field`, or at `field.inner`. */
export function isSaid(body: Record<string, unknown>, path: string): boolean {
  const [field = "", inner] = path.split(".");
  const value = body[field];
  return inner === undefined ? value != null : isObject(value) && value[inner] != null;
}

/** The names of what was lost behind the client's dialect, in the client's words, `ownNames`. `sent` is its body. */
export function tellLost(
  lost: readonly string[],
  sent: Record<string, unknown>,
  ownNames: OwnNames,
): readonly string[] {
  if (lost.length === 0) return lost;
  const told = lost.flatMap((name) => {
    const own = entryOf(ownNames, name);
    if (own === undefined || typeof own === "string") return own ?? name;
    return own.find((path) => isSaid(sent, path)) ?? [];
  });
  return [...new Set(told)];
}
