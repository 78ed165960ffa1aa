import { isObject } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";

type Wire = Record<string, unknown>;

/** Tools as a vendor takes them that wants all or none of them strict, or none at all, and which of them, by their place, lose it. */
type EvenTools = { tools: unknown; loosened: readonly number[] };

const NONE: readonly number[] = [];
const calledOf = (tool: unknown): Wire | undefined =>
  isObject(tool) && isObject(tool["function"]) ? tool["function"] : undefined;

function loosen(tool: unknown): unknown {
  const called = calledOf(tool);
  if (!called || called["strict"] === undefined) return tool;
  const { strict: _strict, ...rest } = called;
  return { ...(tool as Wire), function: rest };
}

/** Where not all tools say the same, none is strict: a schema that is open cannot be held to strictly. The same value where they do. */
export function evenStrict(tools: unknown, quirks: Quirks): EvenTools {
  if (!(quirks.evenStrictTools || quirks.noStrictTools) || !Array.isArray(tools)) return { tools, loosened: NONE };
  const said = tools.map((tool) => calledOf(tool)?.["strict"]);
  const taken = quirks.noStrictTools ? undefined : said[0];
  if (said.every((strict) => strict === taken)) return { tools, loosened: NONE };
  return { tools: tools.map(loosen), loosened: said.flatMap((strict, at) => (strict === true ? [at] : [])) };
}
