import { isObject } from "../lib/json.ts";
import type { Steps } from "./faults.ts";
import { MAX_DEPTH } from "./references.ts";

/** A line that begins with a key: its indentation, the dashes of a list, a quote, and the key's name. */
const KEY_LINE = /^(\s*)((?:-\s+)*)(["']?)([A-Za-z_][\w.-]*)\3\s*:(?:\s|$)/;
/** A bracket of a mapping, or the name of a key between brackets. */
const INNER = /[{}]|(?<=[{,]\s*["']?)[A-Za-z_][\w.-]*(?=["']?\s*:(?:[\s"'[{]|$))/g;
/** Places that look like a key written twice and are looked at more closely: each costs one parse. */
const MAX_LOOKS = 20;
/** Most that is parsed for this in all, characters. */
const MAX_PARSED = 2_000_000;

type Level = { column: number; keys: Set<string> };
/** A key that looks as if one mapping had it twice, and where its second one begins; lines and columns count from 0. */
type Suspect = { name: string; line: number; column: number };

/** Keys that seem to stand twice in one block, by indentation alone. */
function findSuspects(lines: readonly string[]): Suspect[] {
  const suspects: Suspect[] = [];
  const levels: Level[] = [];
  const closeBeyond = (column: number) => {
    while (levels.length > 0 && levels.at(-1)!.column > column) levels.pop();
  };
  lines.forEach((text, line) => {
    const plain = text.trimStart();
    if (plain === "" || plain.startsWith("#")) return;
    const [, blank = "", dashes = "", , name] = KEY_LINE.exec(text) ?? [];
    // A dash begins a mapping of its own, and whatever is less deep ends one.
    closeBeyond(dashes === "" && name !== undefined ? blank.length : text.length - plain.length);
    if (name === undefined) return;
    const column = blank.length + dashes.length;
    const at = text.indexOf(name, column);
    let level = levels.at(-1);
    if (level?.column !== column) {
      level = { column, keys: new Set() };
      levels.push(level);
    }
    if (level.keys.has(name)) suspects.push({ name, line, column: at });
    else level.keys.add(name);
  });
  return suspects;
}

/** Keys that seem to stand twice in one mapping between brackets on one line, by brackets alone. */
function findInnerSuspects(lines: readonly string[]): Suspect[] {
  const suspects: Suspect[] = [];
  lines.forEach((text, line) => {
    const open: Set<string>[] = [];
    for (const { 0: found, index: column } of text.matchAll(INNER)) {
      if (found === "{") open.push(new Set());
      else if (found === "}") open.pop();
      else if (open.at(-1)?.has(found)) suspects.push({ name: found, line, column });
      else open.at(-1)?.add(found);
    }
  });
  return suspects;
}

/** The place of a mapping that has both keys; undefined where there is none. */
function findBoth(value: unknown, one: string, other: string, steps: Steps = []): Steps | undefined {
  // Whatever is nested deeper is refused, or holds itself.
  if (steps.length > MAX_DEPTH) return undefined;
  if (isObject(value) && Object.hasOwn(value, one) && Object.hasOwn(value, other)) return steps;
  const inner: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : [];
  if (isObject(value)) inner.push(...Object.entries(value));
  for (const [step, held] of inner) {
    const found = findBoth(held, one, other, [...steps, step]);
    if (found) return found;
  }
  return undefined;
}

/**
 * The place of a key that a mapping of the file has twice, and the line of its second occurrence, from 1; undefined where there is none. Bun's YAML and JSON
 * parsers silently take the last: a vendor whose dash was forgotten, or a whole section, would be lost. To be sure that a suspect is such a key, it is
 * renamed in the text, which is parsed again: one mapping must then have both names.
 */
export function findRepeated(
  text: string,
  parse: (text: string) => unknown,
): { steps: Steps; line: number } | undefined {
  const lines = text.split("\n");
  const looks = Math.min(MAX_LOOKS, Math.floor(MAX_PARSED / Math.max(1, text.length)));
  let probe = "repeated_key";
  while (text.includes(probe)) probe += "_";
  for (const { name, line, column } of [...findSuspects(lines), ...findInnerSuspects(lines)].slice(0, looks)) {
    const text = lines[line]!;
    const renamed = text.slice(0, column) + probe + text.slice(column + name.length);
    const changed = lines.with(line, renamed).join("\n");
    try {
      const steps = findBoth(parse(changed), name, probe);
      if (steps) return { steps: [...steps, name], line: line + 1 };
    } catch {
      // The text cannot be parsed with another name there: it was no key.
    }
  }
  return undefined;
}
